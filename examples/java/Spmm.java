// SPDX-License-Identifier: Apache-2.0

import java.util.Random;
import org.magicube.Activation;
import org.magicube.Conversion;
import org.magicube.DataType;
import org.magicube.DenseMatrix;
import org.magicube.Device;
import org.magicube.Granularity;
import org.magicube.Handle;
import org.magicube.Magicube;
import org.magicube.Memory;
import org.magicube.Order;
import org.magicube.Prune;
import org.magicube.Quantization;
import org.magicube.SpMM;
import org.magicube.SrBcrsMatrix;

/**
 * A sparse, quantised linear layer: prunes a random weight in vectors of 8 x 1, quantises it to
 * int8 with a scale a row, converts it to SR-BCRS and multiplies it by int8 activations; scales,
 * bias and ReLU are applied in the same pass. The result is checked against a plain loop, bit by
 * bit.
 *
 * <p>java -cp magicube.jar:magicube-linux-x86_64.jar examples/java/Spmm.java
 */
public final class Spmm {
    private static final int M = 512;
    private static final int K = 512;
    private static final int N = 64;

    private Spmm() {}

    public static void main(String[] arguments) {
        System.out.println(Magicube.buildInfo());
        Random random = new Random(20221113);
        float[] weight = new float[M * K];
        for (int i = 0; i < weight.length; ++i) {
            weight[i] = random.nextFloat() - 0.5f;
        }
        byte[] b = new byte[K * N];
        random.nextBytes(b);
        float[] bScale = new float[N];
        float[] bias = new float[M];
        for (int j = 0; j < N; ++j) {
            bScale[j] = 0.01f + 0.001f * (j % 7);
        }
        for (int i = 0; i < M; ++i) {
            bias[i] = random.nextFloat() - 0.5f;
        }

        Memory integers = Memory.copyOf(new byte[M * K]); // the quantised weight
        Memory aScale = Memory.copyOf(new float[M]);
        Memory out = Memory.copyOf(new float[M * N]);
        try (Handle handle = Handle.create(Device.CPU);
                SrBcrsMatrix a = compress(handle, weight, integers, aScale);
                DenseMatrix right = DenseMatrix.of(K, N, Memory.copyOf(b), DataType.INT8);
                DenseMatrix c = DenseMatrix.of(M, N, out, DataType.FP32);
                SpMM.Plan plan = SpMM.problem(a).b(DataType.INT8, Order.ROW)
                        .c(DataType.FP32, Order.ROW).columns(1, N)
                        .aScale(Granularity.ROW, 0).bScale(Granularity.COL, 0)
                        .bias(Granularity.ROW, 0).activation(Activation.RELU).plan(handle)) {
            System.out.println("implementation: " + plan.info().implementation());
            SpMM.Args args = SpMM.args().aScale(aScale).bScale(Memory.copyOf(bScale))
                    .bias(Memory.copyOf(bias));
            plan.execute(handle, right, c, args);
            long start = System.nanoTime();
            plan.execute(handle, right, c, args);
            System.out.printf("%d x %d x %d, 90 %% sparse: %.3f ms%n", M, K, N,
                    (System.nanoTime() - start) * 1e-6);
        }
        int differences = countDifferences(integers.toBytes(), aScale.toFloats(), b, bScale, bias,
                out.toFloats());
        System.out.printf("%d of %d elements differ from the plain loop%n", differences, M * N);
        if (differences != 0) {
            System.exit(1);
        }
    }

    /** Prunes, quantises, converts. */
    private static SrBcrsMatrix compress(Handle handle, float[] weight, Memory integers,
            Memory scales) {
        Memory marks = Memory.copyOf(new byte[M * K]);
        try (DenseMatrix mask = DenseMatrix.of(M, K, marks, DataType.UINT8);
                DenseMatrix whole = DenseMatrix.of(M, K, Memory.copyOf(weight), DataType.FP32)) {
            Prune.mask(handle, whole, Prune.options().vectorLength(8).sparsity(0.9), mask);
            byte[] kept = marks.toBytes();
            float[] pruned = new float[M * K];
            for (int i = 0; i < pruned.length; ++i) {
                pruned[i] = kept[i] * weight[i];
            }
            try (DenseMatrix real = DenseMatrix.of(M, K, Memory.copyOf(pruned), DataType.FP32);
                    DenseMatrix quantized = DenseMatrix.of(M, K, integers, DataType.INT8)) {
                Quantization.quantize(handle, real,
                        Quantization.options().granularity(Granularity.ROW), quantized, scales);
                return Conversion.toSrBcrs(handle, quantized, mask, Conversion.layout(8));
            }
        }
    }

    private static int countDifferences(byte[] weight, float[] aScale, byte[] b, float[] bScale,
            float[] bias, float[] c) {
        int differences = 0;
        for (int i = 0; i < M; ++i) {
            for (int j = 0; j < N; ++j) {
                long sum = 0;
                for (int k = 0; k < K; ++k) {
                    sum += weight[i * K + k] * b[k * N + j];
                }
                float y = Math.max(Math.fma(aScale[i] * bScale[j], (float) sum, bias[i]), 0);
                differences += y == c[i * N + j] ? 0 : 1;
            }
        }
        return differences;
    }
}
