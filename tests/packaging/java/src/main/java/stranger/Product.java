// SPDX-License-Identifier: Apache-2.0
package stranger;

import org.magicube.CsrMatrix;
import org.magicube.DataType;
import org.magicube.DenseMatrix;
import org.magicube.Device;
import org.magicube.Handle;
import org.magicube.IndexType;
import org.magicube.Memory;
import org.magicube.Order;
import org.magicube.SpMM;

/** A sparse matrix of 2 x 3 times a dense one of 3 x 2. */
public final class Product {
    private Product() {}

    public static void main(String[] arguments) {
        Memory out = Memory.copyOf(new float[4]);
        try (Handle handle = Handle.create(Device.CPU);
                CsrMatrix a = CsrMatrix.of(2, 3, 3, Memory.copyOf(0, 1, 3), Memory.copyOf(2, 0, 1),
                        Memory.copyOf(2f, 3f, 4f), IndexType.INT32, DataType.FP32);
                SpMM.Plan plan =
                        SpMM.problem(a).b(DataType.FP32, Order.ROW).columns(2, 2).plan(handle);
                DenseMatrix b = DenseMatrix.of(3, 2, Memory.copyOf(1f, 2f, 3f, 4f, 5f, 6f),
                        DataType.FP32);
                DenseMatrix c = DenseMatrix.of(2, 2, out, DataType.FP32)) {
            plan.execute(handle, b, c);
        }
        float[] values = out.toFloats();
        System.out.println(values[0] + " " + values[1] + " " + values[2] + " " + values[3]);
    }
}
