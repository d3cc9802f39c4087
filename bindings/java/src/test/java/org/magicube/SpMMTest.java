// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class SpMMTest {
    private final Random random = new Random(20221113);
    private Handle handle;

    @BeforeEach
    void open() {
        handle = Handle.create(Device.CPU);
    }

    @AfterEach
    void close() {
        handle.close();
    }

    /** Exact for integers, in double for floating types. */
    private static double sum(Sparse a, double[] b, int n, int i, int j) {
        double sum = 0;
        for (int k = 0; k < a.cols; ++k) {
            sum += a.dense[i * a.cols + k] * b[k * n + j];
        }
        return sum;
    }

    private static double tolerance(Sparse a, double[] b, int n, int i, int j) {
        double sum = 0;
        for (int k = 0; k < a.cols; ++k) {
            sum += Math.abs(a.dense[i * a.cols + k] * b[k * n + j]);
        }
        return (a.cols + 2) * sum * 0x1p-23;
    }

    private static DenseMatrix matrix(DataType type, int rows, int cols, double[] values) {
        int ld = cols + cols % 2;
        double[] padded = new double[rows * ld];
        for (int i = 0; i < rows * cols; ++i) {
            padded[i / cols * ld + i % cols] = values[i];
        }
        return DenseMatrix.of(rows, cols, ld, Elements.pack(type, padded), type, Order.ROW);
    }

    @ParameterizedTest
    @CsvSource({"INT16,INT16", "INT16,INT8", "INT16,INT4", "INT12,INT8", "INT12,INT4", "INT8,INT8",
        "INT8,INT4", "INT4,INT4", "UINT8,INT8", "UINT8,INT4"})
    void integerSumsAreExact(DataType left, DataType right) {
        for (int v : new int[] {1, 2, 4, 8, 16, 32, 64}) {
            int m = 1 + random.nextInt(2 * v + 9);
            int k = 1 + random.nextInt(80);
            int n = 1 + random.nextInt(40);
            Sparse a = new Sparse(random, m, k, v, left, 0.4, random.nextBoolean());
            double[] b = Elements.random(right, random, k * n);
            Memory out = Memory.copyOf(new int[m * n]);
            try (SrBcrsMatrix matrix = a.matrix();
                    DenseMatrix bMatrix = matrix(right, k, n, b);
                    DenseMatrix c = DenseMatrix.of(m, n, out, DataType.INT32)) {
                SpMM.Problem problem = SpMM.problem(matrix).b(right, Order.ROW)
                        .c(DataType.INT32, Order.ROW).columns(n, n);
                for (String name : SpMM.implementations(Device.CPU)) {
                    problem.implementation(name);
                    Support support = problem.support(handle);
                    if (!support.supported()) {
                        assertFalse(support.reason().isEmpty());
                        continue;
                    }
                    handle.fill(out, 0x5a);
                    try (SpMM.Plan plan = problem.plan(handle)) {
                        plan.execute(handle, bMatrix, c);
                        assertEquals(name, plan.info().implementation());
                    }
                    int[] got = out.toInts();
                    for (int i = 0; i < m * n; ++i) {
                        assertEquals((int) (long) sum(a, b, n, i / n, i % n), got[i],
                                name + " V=" + v + " element " + i);
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"FP32", "FP16", "BF16", "E4M3"})
    void floatingSumsAreClose(DataType type) {
        for (int v : new int[] {1, 4, 8, 16}) {
            int m = 37;
            int k = 61;
            int n = 23;
            Sparse a = new Sparse(random, m, k, v, type, 0.4, false);
            double[] b = Elements.random(type, random, k * n);
            Memory out = Memory.copyOf(new float[m * n]);
            try (SrBcrsMatrix matrix = a.matrix();
                    DenseMatrix bMatrix = matrix(type, k, n, b);
                    DenseMatrix c = DenseMatrix.of(m, n, out, DataType.FP32);
                    SpMM.Plan plan = SpMM.problem(matrix).b(type, Order.ROW).columns(1, n)
                            .plan(handle)) {
                plan.execute(handle, bMatrix, c);
            }
            float[] got = out.toFloats();
            for (int i = 0; i < m * n; ++i) {
                assertEquals(sum(a, b, n, i / n, i % n), got[i],
                        tolerance(a, b, n, i / n, i % n) + 1e-30);
            }
        }
    }

    /** The order of the section Numbers, to the bit, with every scale, a bias, beta and ReLU. */
    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"FP32", "FP16", "BF16", "INT8"})
    void epilogueIsExact(DataType out) {
        int m = 21;
        int k = 50;
        int n = 17;
        int batch = 3;
        boolean toInt8 = out == DataType.INT8;
        Sparse a = new Sparse(random, m, k, 8, DataType.INT8, 0.5, false);
        double[] b = Elements.random(DataType.INT8, random, batch * k * n);
        double[] before = Elements.random(out, random, batch * m * n);
        float[] aScale = floats(batch * m);
        float[] bScale = floats(n);
        float[] bias = floats(batch * m);
        float[] cScale = {0.37f};
        float alpha = 0.75f;
        float beta = -1.5f;
        Memory values = Elements.pack(out, before);
        try (SrBcrsMatrix matrix = a.matrix();
                DenseMatrix bMatrix =
                        DenseMatrix.of(k, n, Elements.pack(DataType.INT8, b), DataType.INT8);
                DenseMatrix c = DenseMatrix.of(m, n, values, out)) {
            bMatrix.setStridedBatch(batch, k * n);
            c.setStridedBatch(batch, m * n);
            SpMM.Problem problem = SpMM.problem(matrix).c(out, Order.ROW).columns(1, n).batch(batch)
                    .aScale(Granularity.ROW, m).bScale(Granularity.COL, 0).bias(Granularity.ROW, m)
                    .activation(Activation.RELU);
            SpMM.Args args = SpMM.args().alpha(alpha).beta(beta).aScale(Memory.copyOf(aScale))
                    .bScale(Memory.copyOf(bScale)).bias(Memory.copyOf(bias));
            if (toInt8) {
                problem.cScale(Granularity.TENSOR, 0);
                args.cScale(Memory.copyOf(cScale));
            }
            try (SpMM.Plan plan = problem.plan(handle)) {
                plan.execute(handle, bMatrix, c, args);
            }
        }
        double[] got = Elements.unpack(out, values, batch * m * n);
        for (int i = 0; i < got.length; ++i) {
            int z = i / (m * n);
            int row = i / n % m;
            double[] one = java.util.Arrays.copyOfRange(b, z * k * n, (z + 1) * k * n);
            float s = alpha * aScale[z * m + row] * bScale[i % n];
            float y = Math.fma(s, (float) (long) sum(a, one, n, row, i % n),
                    Math.fma(beta, (float) before[i], bias[z * m + row]));
            y = Math.max(y, 0);
            y = toInt8 ? y * (1 / cScale[0]) : y;
            assertEquals(Elements.convert(out, y), got[i], "element " + i);
        }
    }

    private float[] floats(int count) {
        return Elements.floats(count, () -> 0.001f + random.nextFloat() / 16);
    }

    @Test
    void valueModesGiveTheSame() {
        int m = 40;
        int k = 64;
        int n = 24;
        Sparse a = new Sparse(random, m, k, 8, DataType.INT8, 0.3, false);
        double[] b = Elements.random(DataType.INT8, random, k * n);
        Memory old = Elements.pack(DataType.INT8, Elements.random(DataType.INT8, random,
                a.values.length));
        Memory values = Elements.pack(DataType.INT8, a.values);
        Memory out = Memory.copyOf(new int[m * n]);
        try (SrBcrsMatrix matrix = a.matrix(old);
                DenseMatrix bMatrix = matrix(DataType.INT8, k, n, b);
                DenseMatrix c = DenseMatrix.of(m, n, out, DataType.INT32)) {
            SpMM.Problem problem =
                    SpMM.problem(matrix).c(DataType.INT32, Order.ROW).columns(n, n);
            try (SpMM.Plan plan = problem.valueMode(ValueMode.UPDATABLE).plan(handle)) {
                plan.updateValues(handle, values);
                plan.execute(handle, bMatrix, c);
                assertArrayEquals(expected(a, b, n), out.toInts());
                assertThrows(IllegalArgumentException.class,
                        () -> plan.updateValues(handle, values.slice(1, values.size() - 1)));
            }
            handle.fill(out, 1);
            try (SpMM.Plan plan = problem.valueMode(ValueMode.PER_CALL).plan(handle)) {
                plan.execute(handle, bMatrix, c, SpMM.args().aValues(values));
                assertArrayEquals(expected(a, b, n), out.toInts());
                MagicubeException missing = assertThrows(MagicubeException.class,
                        () -> plan.execute(handle, bMatrix, c));
                assertEquals(Status.INVALID_VALUE, missing.status());
            }
            try (SpMM.Plan plan = problem.valueMode(ValueMode.FIXED).plan(handle)) {
                MagicubeException fixed = assertThrows(MagicubeException.class,
                        () -> plan.updateValues(handle, values));
                assertEquals(Status.NOT_SUPPORTED, fixed.status());
            }
        }
    }

    private static int[] expected(Sparse a, double[] b, int n) {
        int[] result = new int[a.rows * n];
        for (int i = 0; i < result.length; ++i) {
            result[i] = (int) (long) sum(a, b, n, i / n, i % n);
        }
        return result;
    }

    @Test
    void ordersLeadingDimensionsAndWidthsOfOnePlan() {
        int m = 33;
        int k = 47;
        Sparse a = new Sparse(random, m, k, 4, DataType.INT8, 0.4, false);
        byte[] b = new byte[60 * k];
        random.nextBytes(b);
        Memory out = Memory.copyOf(new int[60 * m]);
        try (SrBcrsMatrix matrix = a.matrix();
                SpMM.Plan plan = SpMM.problem(matrix).b(DataType.INT8, Order.COL)
                        .c(DataType.INT32, Order.COL).columns(1, 50).plan(handle);
                DenseMatrix bMatrix = DenseMatrix.of(k, 50, k + 3, Memory.copyOf(b),
                        DataType.INT8, Order.COL);
                DenseMatrix c = DenseMatrix.of(m, 50, m + 2, out, DataType.INT32, Order.COL)) {
            for (int n : new int[] {50, 1, 7}) {
                bMatrix.setCols(n, k + 3);
                c.setCols(n, m + 2);
                handle.fill(out, 7);
                plan.execute(handle, bMatrix, c);
                int[] got = out.toInts();
                for (int i = 0; i < m * n; ++i) {
                    long sum = 0;
                    for (int x = 0; x < k; ++x) {
                        sum += (long) a.dense[i / n * k + x] * b[i % n * (k + 3) + x];
                    }
                    assertEquals((int) sum, got[i % n * (m + 2) + i / n]);
                }
                assertEquals(0x07070707, got[m], "the gap between columns is left alone");
            }
        }
    }

    @Test
    void plansTakeBuffersAndWorkspacesOfTheCaller() {
        Sparse a = new Sparse(random, 32, 48, 8, DataType.INT16, 0.4, false);
        double[] b = Elements.random(DataType.INT16, random, 48 * 20);
        Memory out = Memory.copyOf(new int[32 * 20]);
        try (SrBcrsMatrix matrix = a.matrix();
                DenseMatrix bMatrix = matrix(DataType.INT16, 48, 20, b);
                DenseMatrix c = DenseMatrix.of(32, 20, out, DataType.INT32)) {
            SpMM.Problem problem = SpMM.problem(matrix).b(DataType.INT16, Order.ROW)
                    .c(DataType.INT32, Order.ROW).columns(1, 20);
            BufferSizes sizes = problem.bufferSizes(handle);
            Memory buffer = Memory.allocate(sizes.planBytes());
            try (SpMM.Plan plan = problem.plan(handle, buffer);
                    Memory workspace = Memory.allocate(sizes.workspaceBytes())) {
                assertFalse(plan.info().ownsBuffer());
                assertEquals(sizes.workspaceBytes(), plan.workspaceBytes());
                buffer.close(); // the plan keeps it
                plan.execute(handle, bMatrix, c, SpMM.args().workspace(workspace));
                assertArrayEquals(expected(a, b, 20), out.toInts());
            }
            assertTrue(buffer.isClosed());
            assertThrows(IllegalStateException.class, () -> problem.plan(handle, buffer));
            if (sizes.planBytes() > 0) {
                try (Memory small = Memory.allocate(sizes.planBytes() - 1)) {
                    MagicubeException refused = assertThrows(MagicubeException.class,
                            () -> problem.plan(handle, small));
                    assertEquals(Status.INSUFFICIENT_WORKSPACE, refused.status());
                }
            }
        }
    }

    @Test
    void emptyMatricesAndNoColumns() {
        Memory none = Memory.copyOf(new byte[0]);
        try (SrBcrsMatrix matrix = SrBcrsMatrix.of(0, 0, 8, 16, 0, none, none, none, none,
                IndexType.INT64, DataType.INT8);
                SpMM.Plan plan = SpMM.problem(matrix).columns(0, 5).plan(handle);
                DenseMatrix b = DenseMatrix.of(0, 5, none, DataType.INT8);
                DenseMatrix c = DenseMatrix.of(0, 5, none, DataType.FP32)) {
            plan.execute(handle, b, c);
        }
    }

    @Test
    void csrIsTakenAsItIs() {
        Memory out = Memory.copyOf(new float[4]);
        try (CsrMatrix matrix = CsrMatrix.of(2, 3, 3, Memory.copyOf(0, 1, 3),
                Memory.copyOf(2, 0, 1), Memory.copyOf(2f, 3f, 4f), IndexType.INT32, DataType.FP32);
                SpMM.Plan plan = SpMM.problem(matrix).b(DataType.FP32, Order.ROW).columns(2, 2)
                        .plan(handle);
                DenseMatrix b = DenseMatrix.of(3, 2, Memory.copyOf(1f, 2f, 3f, 4f, 5f, 6f),
                        DataType.FP32);
                DenseMatrix c = DenseMatrix.of(2, 2, out, DataType.FP32)) {
            plan.execute(handle, b, c);
        }
        assertArrayEquals(new float[] {10, 12, 15, 22}, out.toFloats());
    }

    @Test
    void pointerModesOnTheCpu() {
        Memory out = Memory.copyOf(new float[] {1, 1});
        try (CsrMatrix matrix = CsrMatrix.of(1, 1, 1, Memory.copyOf(0, 1), Memory.copyOf(0),
                Memory.copyOf(3f), IndexType.INT32, DataType.FP32);
                SpMM.Plan plan = SpMM.problem(matrix).b(DataType.FP32, Order.ROW).columns(2, 2)
                        .plan(handle);
                DenseMatrix b = DenseMatrix.of(1, 2, Memory.copyOf(1f, 2f), DataType.FP32);
                DenseMatrix c = DenseMatrix.of(1, 2, out, DataType.FP32)) {
            Memory two = Memory.copyOf(2f);
            for (PointerMode mode : PointerMode.values()) {
                handle.setPointerMode(mode);
                assertEquals(mode, handle.pointerMode());
                plan.execute(handle, b, c, SpMM.args().alpha(two));
                plan.execute(handle, b, c, SpMM.args().alpha(1f).beta(two));
                assertArrayEquals(new float[] {15, 30}, out.toFloats());
            }
            IllegalArgumentException small = assertThrows(IllegalArgumentException.class,
                    () -> plan.execute(handle, b, c, SpMM.args().alpha(two.slice(0, 2))));
            assertEquals("alpha has 2 bytes; the call needs 4", small.getMessage());
        }
    }
}
