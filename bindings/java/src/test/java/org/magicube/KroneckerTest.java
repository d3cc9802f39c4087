// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.magicube.KroneckerMatrix.Shape;

class KroneckerTest {
    private static final Shape SHAPE = new Shape(2, 3, 5, 4);
    private static final int ROWS = 24;
    private static final int COLS = 40;

    private final Random random = new Random(10);
    private Handle handle;

    @BeforeEach
    void open() {
        handle = Handle.create(Device.CPU);
    }

    @AfterEach
    void close() {
        handle.close();
    }

    /** The dense matrix of a factor, by the definition. */
    private static double[] dense(Shape s, double[] w) {
        int cols = (int) (s.a() * s.c() * s.d());
        double[] dense = new double[(int) (s.a() * s.b() * s.d()) * cols];
        int at = 0;
        for (int i = 0; i < s.a(); ++i) {
            for (int j = 0; j < s.b(); ++j) {
                for (int k = 0; k < s.c(); ++k) {
                    for (int l = 0; l < s.d(); ++l) {
                        long row = (i * s.b() + j) * s.d() + l;
                        long col = (i * s.c() + k) * s.d() + l;
                        dense[(int) (row * cols + col)] = w[at++];
                    }
                }
            }
        }
        return dense;
    }

    private static double[] product(double[] a, double[] b, int m, int k, int n) {
        double[] c = new double[m * n];
        for (int i = 0; i < m * n; ++i) {
            for (int x = 0; x < k; ++x) {
                c[i] += a[i / n * k + x] * b[x * n + i % n];
            }
        }
        return c;
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"INT8", "FP16", "BF16", "FP32"})
    void oneFactorThereAndBack(DataType type) {
        double[] w = Elements.random(type, random, (int) SHAPE.elements());
        Memory values = Elements.pack(type, w);
        Memory back = Memory.copyOf(new byte[(int) values.size()]);
        Memory out = Memory.copyOf(new byte[(int) type.bytes(ROWS * COLS)]);
        try (KroneckerMatrix k = KroneckerMatrix.of(SHAPE, values, type);
                KroneckerMatrix again = KroneckerMatrix.of(SHAPE, back, type);
                DenseMatrix target = DenseMatrix.of(ROWS, COLS, out, type)) {
            assertEquals(ROWS, k.rows());
            assertEquals(COLS, k.cols());
            assertEquals(type, k.type());
            assertEquals(1, k.factors());
            assertEquals(SHAPE, k.shape(0));
            assertSame(values, k.values(0));
            k.toDense(handle, target);
            assertArrayEquals(dense(SHAPE, w), Elements.unpack(type, out, ROWS * COLS));
            again.fromDense(handle, target);
            assertArrayEquals(values.toBytes(), back.toBytes());
            handle.fill(back, 1);
            try (CsrMatrix csr = k.toCsr(handle, IndexType.INT64, type)) {
                assertEquals(SHAPE.elements(), csr.nnz());
                again.fromCsr(handle, csr);
            }
            assertArrayEquals(values.toBytes(), back.toBytes());
        }
    }

    @ParameterizedTest
    @EnumSource(KroneckerMM.Layout.class)
    void integerProductsWithAnEpilogueAreExact(KroneckerMM.Layout layout) {
        int n = 7;
        boolean rowsAreVectors = layout == KroneckerMM.Layout.BATCH_FIRST;
        double[] w = Elements.random(DataType.INT8, random, (int) SHAPE.elements());
        double[] x = Elements.random(DataType.INT8, random, COLS * n); // COLS x n
        double[] before = Elements.random(DataType.FP32, random, ROWS * n);
        float[] kScale = Elements.floats(ROWS, () -> 0.01f + random.nextFloat());
        float[] xScale = Elements.floats(n, () -> 0.01f + random.nextFloat());
        float[] bias = Elements.floats(ROWS, random::nextGaussian);
        Order order = rowsAreVectors ? Order.COL : Order.ROW; // so that memory is the same
        Memory out = Elements.pack(DataType.FP32, before);
        try (KroneckerMatrix k =
                KroneckerMatrix.of(SHAPE, Elements.pack(DataType.INT8, w), DataType.INT8);
                DenseMatrix in = DenseMatrix.of(rowsAreVectors ? n : COLS,
                        rowsAreVectors ? COLS : n, n, Elements.pack(DataType.INT8, x),
                        DataType.INT8, order);
                DenseMatrix y = DenseMatrix.of(rowsAreVectors ? n : ROWS,
                        rowsAreVectors ? ROWS : n, n, out, DataType.FP32, order)) {
            KroneckerMM.Problem problem = KroneckerMM.problem(k).layout(layout).x(order)
                    .y(DataType.FP32, order).vectors(1, n).kScale(Granularity.ROW, 0)
                    .xScale(Granularity.COL, 0).bias(Granularity.ROW, 0)
                    .activation(Activation.RELU);
            assertTrue(problem.support(handle).supported());
            assertTrue(problem.bufferSizes(handle).planAlignment() > 0);
            try (KroneckerMM.Plan plan = problem.plan(handle)) {
                plan.execute(handle, in, y, KroneckerMM.args().alpha(0.5f).beta(2)
                        .kScale(Memory.copyOf(kScale)).xScale(Memory.copyOf(xScale))
                        .bias(Memory.copyOf(bias)));
                assertTrue(KroneckerMM.implementations(Device.CPU)
                        .contains(plan.info().implementation()));
                Memory small = Memory.copyOf(kScale).slice(4, 4 * ROWS - 4);
                assertEquals("kScale has 92 bytes; the call needs 96",
                        assertThrows(IllegalArgumentException.class, () -> plan.execute(handle, in,
                                y, KroneckerMM.args().kScale(small))).getMessage());
            }
        }
        double[] sums = product(dense(SHAPE, w), x, ROWS, COLS, n);
        float[] got = out.toFloats();
        for (int i = 0; i < ROWS * n; ++i) {
            float s = 0.5f * kScale[i / n] * xScale[i % n];
            float expected = Math.fma(s, (float) sums[i],
                    Math.fma(2f, (float) before[i], bias[i / n]));
            assertEquals(Math.max(expected, 0), got[i]);
        }
    }

    @Test
    void chainsInEveryValueMode() {
        List<Shape> shapes = KroneckerMatrix.monarch(12, 18, 3, 2, 2);
        assertEquals(List.of(new Shape(1, 6, 6, 2), new Shape(3, 4, 6, 1)), shapes);
        double[] left = Elements.random(DataType.FP32, random, 72);
        double[] right = Elements.random(DataType.FP32, random, 72);
        List<Memory> values = List.of(Elements.pack(DataType.FP32, left),
                Elements.pack(DataType.FP32, right));
        List<Memory> zeros = List.of(Memory.copyOf(new float[72]), Memory.copyOf(new float[72]));
        double[] whole = product(dense(shapes.get(0), left), dense(shapes.get(1), right), 12, 12,
                18);
        double[] x = Elements.random(DataType.FP32, random, 18 * 5);
        double[] expected = product(whole, x, 12, 18, 5);
        Memory out = Memory.copyOf(new float[12 * 5]);
        try (KroneckerMatrix k = KroneckerMatrix.chain(shapes, values, DataType.FP32);
                DenseMatrix in =
                        DenseMatrix.of(18, 5, Elements.pack(DataType.FP32, x), DataType.FP32);
                DenseMatrix y = DenseMatrix.of(12, 5, out, DataType.FP32)) {
            KroneckerMM.Problem problem = KroneckerMM.problem(k)
                    .layout(KroneckerMM.Layout.BATCH_LAST).vectors(5, 5);
            for (ValueMode mode : ValueMode.values()) {
                k.setValues(0, mode == ValueMode.FIXED ? values.get(0) : zeros.get(0));
                handle.fill(out, 0x7f);
                try (KroneckerMM.Plan plan = problem.valueMode(mode).plan(handle)) {
                    KroneckerMM.Args args = KroneckerMM.args();
                    if (mode == ValueMode.UPDATABLE) {
                        plan.updateValues(handle, values);
                    } else if (mode == ValueMode.PER_CALL) {
                        args.kValues(values);
                    } else {
                        assertThrows(IllegalArgumentException.class, () -> plan.execute(handle, in,
                                y, KroneckerMM.args().kValues(values)));
                    }
                    assertThrows(IllegalArgumentException.class,
                            () -> plan.updateValues(handle, values.subList(0, 1)));
                    plan.execute(handle, in, y, args);
                }
                float[] got = out.toFloats();
                for (int i = 0; i < got.length; ++i) {
                    assertEquals(expected[i], got[i], 1e-3 * (1 + Math.abs(expected[i])));
                }
            }
        }
    }

    @Test
    void transposeIsTheGradientOfTheVectors() {
        double[] w = Elements.random(DataType.FP32, random, (int) SHAPE.elements());
        double[] x = Elements.random(DataType.FP32, random, COLS * 3);
        double[] dY = Elements.random(DataType.FP32, random, ROWS * 3);
        Memory dX = Memory.copyOf(new float[COLS * 3]);
        Memory dW = Memory.copyOf(new float[(int) SHAPE.elements()]);
        try (KroneckerMatrix k =
                KroneckerMatrix.of(SHAPE, Elements.pack(DataType.FP32, w), DataType.FP32);
                KroneckerMatrix gradient = KroneckerMatrix.of(SHAPE, dW, DataType.FP32);
                DenseMatrix in =
                        DenseMatrix.of(COLS, 3, Elements.pack(DataType.FP32, x), DataType.FP32);
                DenseMatrix y =
                        DenseMatrix.of(ROWS, 3, Elements.pack(DataType.FP32, dY), DataType.FP32);
                DenseMatrix out = DenseMatrix.of(COLS, 3, dX, DataType.FP32);
                KroneckerMM.Plan plan = KroneckerMM.problem(k).transpose(true)
                        .layout(KroneckerMM.Layout.BATCH_LAST).vectors(1, 3).plan(handle)) {
            plan.execute(handle, y, out);
            gradient.gradient(handle, in, y, KroneckerMM.Layout.BATCH_LAST);
        }
        double[] dense = dense(SHAPE, w);
        float[] got = dX.toFloats();
        for (int i = 0; i < COLS * 3; ++i) {
            double expected = 0;
            for (int r = 0; r < ROWS; ++r) {
                expected += dense[r * COLS + i / 3] * dY[r * 3 + i % 3];
            }
            assertEquals(expected, got[i], 1e-3);
        }
        double[] whole = new double[ROWS * COLS];
        for (int i = 0; i < whole.length; ++i) {
            for (int n = 0; n < 3; ++n) {
                whole[i] += dY[i / COLS * 3 + n] * x[i % COLS * 3 + n];
            }
        }
        double[] onSupport = dense(SHAPE, Elements.unpack(DataType.FP32, dW, dW.toFloats().length));
        for (int i = 0; i < whole.length; ++i) {
            assertEquals(onSupport[i] == 0 ? 0 : whole[i], onSupport[i], 1e-3);
        }
    }

    @Test
    void butterfliesAndTheirProducts() {
        List<Shape> shapes = KroneckerMatrix.butterfly(3);
        assertEquals(List.of(new Shape(1, 2, 2, 4), new Shape(2, 2, 2, 2), new Shape(4, 2, 2, 1)),
                shapes);
        List<Memory> values = List.of(Memory.copyOf(new float[16]), Memory.copyOf(new float[16]),
                Memory.copyOf(new float[16]));
        Memory out = Memory.copyOf(new float[64]);
        Memory product = Memory.copyOf(new float[64]);
        try (KroneckerMatrix chain = KroneckerMatrix.chain(shapes, values, DataType.FP32);
                DenseMatrix dense = DenseMatrix.of(8, 8, out, DataType.FP32)) {
            chain.fillHadamard(handle, 1);
            assertEquals(3, chain.factors());
            assertEquals(new KroneckerMatrix.Pair(true, 1, false), chain.pair(0));
            assertEquals(new Shape(1, 8, 8, 1), chain.productShape());
            chain.toDense(handle, dense);
            try (KroneckerMatrix one =
                    KroneckerMatrix.of(chain.productShape(), product, DataType.FP32)) {
                chain.multiply(handle, one);
            }
        }
        float[] got = out.toFloats();
        for (int i = 0; i < 64; ++i) {
            assertEquals(Integer.bitCount(i / 8 & i % 8) % 2 == 0 ? 1 : -1, got[i]);
        }
        assertArrayEquals(got, product.toFloats());
    }

    @Test
    void readOnlyAndSmallMemory() {
        Memory values = Memory.copyOf(new float[120]);
        assertEquals("values[0] has 476 bytes; the call needs 480",
                assertThrows(IllegalArgumentException.class, () -> KroneckerMatrix.of(SHAPE,
                        values.slice(0, 476), DataType.FP32)).getMessage());
        List<Shape> shapes = List.of(new Shape(1, 2, 2, 1), new Shape(1, 2, 2, 1));
        try (KroneckerMatrix constant =
                KroneckerMatrix.of(SHAPE, values.asReadOnly(), DataType.FP32);
                KroneckerMatrix patterns = KroneckerMatrix.chain(shapes, null, DataType.FP32);
                DenseMatrix dense = DenseMatrix.of(ROWS, COLS,
                        Memory.copyOf(new float[ROWS * COLS]), DataType.FP32)) {
            assertTrue(constant.isReadOnly() && patterns.isReadOnly());
            assertTrue(patterns.pair(0).redundant());
            constant.setValues(0, values.asReadOnly());
            assertThrows(IllegalArgumentException.class, () -> constant.fromDense(handle, dense));
            assertThrows(IndexOutOfBoundsException.class, () -> constant.setValues(1, values));
            MagicubeException beyond =
                    assertThrows(MagicubeException.class, () -> constant.shape(1));
            assertEquals(Status.INVALID_VALUE, beyond.status());
            assertFalse(beyond.getMessage().isEmpty());
        }
        MagicubeException misfit = assertThrows(MagicubeException.class,
                () -> KroneckerMatrix.chain(List.of(new Shape(1, 2, 2, 1), new Shape(1, 3, 2, 1)),
                        null, DataType.FP32));
        assertEquals(Status.INVALID_VALUE, misfit.status());
    }
}
