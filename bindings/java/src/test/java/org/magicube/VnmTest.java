// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class VnmTest {
    private final Random random = new Random(9);
    private Handle handle;

    @BeforeEach
    void open() {
        handle = Handle.create(Device.CPU);
    }

    @AfterEach
    void close() {
        handle.close();
    }

    /** A dense matrix of which each row keeps at most 2 of 4 columns that its block shares. */
    private double[] dense(DataType type, int rows, int cols, int v, int m) {
        double[] values = Elements.random(type, random, rows * cols);
        boolean[] keep = new boolean[rows * cols];
        for (int block = 0; block < rows; block += v) {
            for (int first = 0; first < cols; first += m) {
                int width = Math.min(m, cols - first);
                int[] selected = random.ints(0, width).distinct().limit(Math.min(4, width))
                        .toArray();
                for (int r = block; r < Math.min(block + v, rows); ++r) {
                    for (int i = 0; i < 2; ++i) {
                        keep[r * cols + first + selected[random.nextInt(selected.length)]] = true;
                    }
                }
            }
        }
        for (int i = 0; i < values.length; ++i) {
            values[i] = keep[i] ? values[i] : 0;
        }
        return values;
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"INT8", "FP16", "BF16", "FP32", "E4M3"})
    void thereAndBack(DataType type) {
        for (int v : new int[] {1, 16, 64}) {
            for (int m : new int[] {4, 7, 300}) {
                int rows = v + 3;
                int cols = 2 * m + 5;
                double[] values = dense(type, rows, cols, v, m);
                Memory back = Memory.copyOf(new byte[(int) type.bytes(rows * cols)]);
                try (DenseMatrix source =
                        DenseMatrix.of(rows, cols, Elements.pack(type, values), type);
                        VnmMatrix matrix = VnmMatrix.from(handle, source, null, v, 2, m);
                        CsrMatrix csr = matrix.toCsr(handle, IndexType.INT32, type);
                        VnmMatrix again = VnmMatrix.from(handle, csr, v, 2, m);
                        DenseMatrix target = DenseMatrix.of(rows, cols, back, type)) {
                    matrix.validate(handle);
                    assertEquals(SparseFormat.VNM, matrix.format());
                    assertEquals(v, matrix.vectorLength());
                    assertEquals(2, matrix.n());
                    assertEquals(m, matrix.m());
                    Conversion.toDense(handle, again, target);
                }
                assertArrayEquals(values, Elements.unpack(type, back, rows * cols));
            }
        }
    }

    @Test
    void productsAreExact() {
        int rows = 40;
        int cols = 50;
        int n = 13;
        double[] a = dense(DataType.INT8, rows, cols, 16, 8);
        double[] b = Elements.random(DataType.INT8, random, cols * n);
        Memory out = Memory.copyOf(new int[rows * n]);
        try (DenseMatrix source =
                DenseMatrix.of(rows, cols, Elements.pack(DataType.INT8, a), DataType.INT8);
                VnmMatrix matrix = VnmMatrix.from(handle, source, null, 16, 2, 8);
                DenseMatrix right =
                        DenseMatrix.of(cols, n, Elements.pack(DataType.INT8, b), DataType.INT8);
                DenseMatrix c = DenseMatrix.of(rows, n, out, DataType.INT32)) {
            SpMM.Problem problem =
                    SpMM.problem(matrix).c(DataType.INT32, Order.ROW).columns(1, n);
            assertTrue(SpMM.implementations(Device.CPU, SparseFormat.VNM).size() > 0);
            for (ValueMode mode : ValueMode.values()) {
                handle.fill(out, 0x5a);
                Support support = problem.valueMode(mode).support(handle);
                if (!support.supported()) {
                    assertTrue(support.reason().contains("value"), support.reason());
                    continue;
                }
                try (SpMM.Plan plan = problem.plan(handle)) {
                    SpMM.Args args = SpMM.args();
                    if (mode == ValueMode.PER_CALL) {
                        args.aValues(matrix.values());
                    } else if (mode == ValueMode.UPDATABLE) {
                        plan.updateValues(handle, matrix.values());
                    }
                    plan.execute(handle, right, c, args);
                }
                int[] got = out.toInts();
                for (int i = 0; i < rows * n; ++i) {
                    long sum = 0;
                    for (int k = 0; k < cols; ++k) {
                        sum += (long) (a[i / n * cols + k] * b[k * n + i % n]);
                    }
                    assertEquals((int) sum, got[i], mode + " element " + i);
                }
            }
        }
    }

    @Test
    void theExampleOfTheHeader() {
        Memory columns = Memory.copyOf((byte) 0, (byte) 1, (byte) 2, (byte) 3, (byte) 0, (byte) 1,
                (byte) 1, (byte) 1);
        Memory metadata = Memory.copyOf((byte) 0x4d);
        Memory values = Memory.copyOf((byte) 7, (byte) 9, (byte) 5, (byte) 0);
        Memory back = Memory.copyOf(new byte[6]);
        for (Memory given : new Memory[] {values, values.asReadOnly()}) {
            try (VnmMatrix matrix =
                    VnmMatrix.of(1, 6, 1, 2, 4, columns, metadata, given, DataType.INT8);
                    DenseMatrix dense = DenseMatrix.of(1, 6, back, DataType.INT8)) {
                assertSame(columns, matrix.columnLoc());
                assertSame(metadata, matrix.metadata());
                Conversion.toDense(handle, matrix, dense);
                assertArrayEquals(new byte[] {0, 7, 0, 9, 5, 0}, back.toBytes());
                matrix.setPointers(columns, metadata.asReadOnly());
                assertEquals("columnLoc has 7 bytes; the call needs 8",
                        assertThrows(IllegalArgumentException.class, () -> matrix.setPointers(
                                columns.slice(0, 7), metadata)).getMessage());
            }
        }
        assertEquals("values has 3 bytes; the call needs 4",
                assertThrows(IllegalArgumentException.class, () -> VnmMatrix.of(1, 6, 1, 2, 4,
                        columns, metadata, values.slice(0, 3), DataType.INT8)).getMessage());
    }

    @Test
    void whatIsNotVnmIsRefused() {
        try (DenseMatrix full = DenseMatrix.of(1, 4, Memory.copyOf(1f, 2f, 3f, 4f),
                DataType.FP32)) {
            MagicubeException refused = assertThrows(MagicubeException.class,
                    () -> VnmMatrix.from(handle, full, null, 1, 2, 4));
            assertEquals(Status.INVALID_VALUE, refused.status());
            assertTrue(refused.getMessage().contains("row 0"), refused.getMessage());
            assertEquals(Status.INVALID_VALUE, assertThrows(MagicubeException.class,
                    () -> VnmMatrix.from(handle, full, null, 3, 2, 4)).status());
        }
    }
}
