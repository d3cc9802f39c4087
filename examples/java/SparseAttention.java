// SPDX-License-Identifier: Apache-2.0

import java.util.Random;
import org.magicube.Attention;
import org.magicube.Conversion;
import org.magicube.DataType;
import org.magicube.DenseMatrix;
import org.magicube.Device;
import org.magicube.Handle;
import org.magicube.Memory;
import org.magicube.Order;
import org.magicube.SrBcrsMatrix;

/**
 * Sparse attention: each token sees the 32 before it and the first 8 of all, none behind itself.
 * The result is compared with one that computes every score, in double.
 *
 * <p>java -cp magicube.jar:magicube-linux-x86_64.jar examples/java/SparseAttention.java
 */
public final class SparseAttention {
    private static final int HEADS = 4;
    private static final int TOKENS = 256;
    private static final int DIM = 64;
    private static final int WINDOW = 32;
    private static final int FIRST = 8;

    private SparseAttention() {}

    private static boolean sees(int query, int key) {
        return key <= query && (query - key <= WINDOW || key < FIRST);
    }

    public static void main(String[] arguments) {
        Random random = new Random(0);
        float[][] qkv = new float[3][HEADS * TOKENS * DIM];
        for (float[] array : qkv) {
            for (int i = 0; i < array.length; ++i) {
                array[i] = (float) random.nextGaussian();
            }
        }
        byte[] marks = new byte[TOKENS * TOKENS];
        int seen = 0;
        for (int i = 0; i < marks.length; ++i) {
            marks[i] = (byte) (sees(i / TOKENS, i % TOKENS) ? 1 : 0);
            seen += marks[i];
        }

        Memory out = Memory.copyOf(new float[HEADS * TOKENS * DIM]);
        try (Handle handle = Handle.create(Device.CPU);
                // A pattern needs no values: the shape alone, and which elements exist.
                DenseMatrix shape = DenseMatrix.of(TOKENS, TOKENS, TOKENS, null, DataType.FP32,
                        Order.ROW);
                DenseMatrix mask =
                        DenseMatrix.of(TOKENS, TOKENS, Memory.copyOf(marks), DataType.UINT8);
                SrBcrsMatrix pattern =
                        Conversion.toSrBcrs(handle, shape, mask, Conversion.layout(8));
                Attention.Plan plan = Attention.problem(pattern)
                        .types(DataType.FP32, DataType.FP32).heads(HEADS, HEADS, DIM)
                        .plan(handle)) {
            plan.execute(handle, Memory.copyOf(qkv[0]), Memory.copyOf(qkv[1]),
                    Memory.copyOf(qkv[2]), out);
            System.out.println("implementation: " + plan.info().implementation());
        }

        double error = largestError(qkv, out.toFloats());
        System.out.printf("%d heads, %d tokens, %d %% of the scores: largest error %.1e%n", HEADS,
                TOKENS, 100 * seen / marks.length, error);
        if (!(error < 1e-5)) {
            System.exit(1);
        }
    }

    private static double largestError(float[][] qkv, float[] out) {
        double largest = 0;
        for (int row = 0; row < HEADS * TOKENS; ++row) {
            int head = row / TOKENS * TOKENS;
            double[] expected = new double[DIM];
            double total = 0;
            for (int j = 0; j <= row % TOKENS; ++j) {
                double score = 0;
                for (int d = 0; d < DIM; ++d) {
                    score += qkv[0][row * DIM + d] * (double) qkv[1][(head + j) * DIM + d];
                }
                double weight = sees(row % TOKENS, j) ? Math.exp(score / Math.sqrt(DIM)) : 0;
                total += weight;
                for (int d = 0; d < DIM; ++d) {
                    expected[d] += weight * qkv[2][(head + j) * DIM + d];
                }
            }
            for (int d = 0; d < DIM; ++d) {
                largest = Math.max(largest,
                        Math.abs(expected[d] / total - out[row * DIM + d]));
            }
        }
        return largest;
    }
}
