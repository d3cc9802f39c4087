// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Comparator;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PruneTest {
    private final Random random = new Random(7);

    /** Keeps the longest vectors of each range of block rows, ties by lowest index. */
    private static byte[] expected(double[] w, int rows, int cols, int v, Prune.Norm norm,
            Prune.Scope scope, double sparsity) {
        int blockRows = (rows + v - 1) / v;
        byte[] mask = new byte[rows * cols];
        int step = scope == Prune.Scope.ROW ? 1 : blockRows;
        for (int first = 0; first < blockRows; first += step) {
            int from = first;
            int n = step * cols;
            double[] length = new double[n];
            for (int i = 0; i < n; ++i) {
                for (int r = (from + i / cols) * v; r < Math.min((from + i / cols + 1) * v, rows);
                        ++r) {
                    double x = w[r * cols + i % cols];
                    length[i] += norm == Prune.Norm.L2 ? x * x : Math.abs(x);
                }
            }
            int kept = n - (int) Math.floor(sparsity * n + 0.5);
            IntStream.range(0, n).boxed()
                    .sorted(Comparator.comparingDouble((Integer i) -> -length[i])).limit(kept)
                    .forEach(i -> {
                        for (int r = (from + i / cols) * v;
                                r < Math.min((from + i / cols + 1) * v, rows); ++r) {
                            mask[r * cols + i % cols] = 1;
                        }
                    });
        }
        return mask;
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"INT8", "FP16", "FP32", "INT16"})
    void theLongestVectorsAreKept(DataType type) {
        int rows = 35;
        int cols = 22;
        double[] w = Elements.random(type, random, rows * cols);
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix weight =
                        DenseMatrix.of(rows, cols, Elements.pack(type, w), type)) {
            for (Prune.Norm norm : Prune.Norm.values()) {
                for (Prune.Scope scope : Prune.Scope.values()) {
                    for (int v : new int[] {1, 4, 8, 16}) {
                        Memory marks = Memory.copyOf(new byte[rows * cols]);
                        Prune.Options options = Prune.options().vectorLength(v).norm(norm)
                                .scope(scope).sparsity(0.7);
                        assertTrue(Prune.bufferSize(handle, weight, options) >= 0);
                        try (DenseMatrix mask =
                                DenseMatrix.of(rows, cols, marks, DataType.UINT8)) {
                            handle.fill(marks, 9);
                            Prune.mask(handle, weight, options, mask);
                        }
                        assertArrayEquals(expected(w, rows, cols, v, norm, scope, 0.7),
                                marks.toBytes());
                    }
                }
            }
        }
    }

    @Test
    void aNumberIsKept() {
        Memory marks = Memory.copyOf(new byte[6]);
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix weight = DenseMatrix.of(1, 6, Memory.copyOf(1f, -3f, 2f, 3f, 0f, -2f),
                        DataType.FP32);
                DenseMatrix mask = DenseMatrix.of(1, 6, marks, DataType.UINT8)) {
            Prune.mask(handle, weight, Prune.options().vectorLength(1).keep(3), mask);
            assertArrayEquals(new byte[] {0, 1, 1, 1, 0, 0}, marks.toBytes());
            MagicubeException refused = assertThrows(MagicubeException.class, () ->
                    Prune.mask(handle, weight, Prune.options().sparsity(1.5), mask));
            assertEquals(Status.INVALID_VALUE, refused.status());
            assertTrue(refused.getMessage().contains("sparsity")
                    && refused.getMessage().contains("1.5"), refused.getMessage());
        }
        assertEquals(3, Arrays.toString(marks.toBytes()).replaceAll("[^1]", "").length());
    }
}
