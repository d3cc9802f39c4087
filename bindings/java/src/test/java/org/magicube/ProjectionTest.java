// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.magicube.KroneckerMatrix.Shape;

class ProjectionTest {
    private static final int ROWS = 12;
    private static final int COLS = 18;
    private static final List<Shape> SHAPES = KroneckerMatrix.monarch(ROWS, COLS, 3, 2, 2);

    private final Random random = new Random(12);
    private Handle handle;

    @BeforeEach
    void open() {
        handle = Handle.create(Device.CPU);
    }

    @AfterEach
    void close() {
        handle.close();
    }

    private static DenseMatrix matrix(int rows, int cols, float... values) {
        return DenseMatrix.of(rows, cols, Memory.copyOf(values), DataType.FP32);
    }

    private record Result(Projection.Report report, float[] product) {}

    private Result project(float[] weight, Projection.Weighting weighting, List<Shape> shapes) {
        List<Memory> values = shapes.stream()
                .map(shape -> Memory.copyOf(new float[(int) shape.elements()])).toList();
        Memory out = Memory.copyOf(new float[ROWS * COLS]);
        try (DenseMatrix source = matrix(ROWS, COLS, weight);
                KroneckerMatrix chain = KroneckerMatrix.chain(shapes, values, DataType.FP32);
                DenseMatrix dense = DenseMatrix.of(ROWS, COLS, out, DataType.FP32)) {
            Projection.Report report = Projection.chain(handle, source, weighting, chain);
            chain.toDense(handle, dense);
            return new Result(report, out.toFloats());
        }
    }

    private static double distance(float[] a, float[] b, float[] scale) {
        double square = 0;
        for (int i = 0; i < a.length; ++i) {
            square += Math.pow(((double) a[i] - b[i]) * scale[i % COLS], 2);
        }
        return Math.sqrt(square);
    }

    @Test
    void errorsAreToldAndProductsRecovered() {
        float[] ones = Elements.floats(COLS, () -> 1f);
        float[] weight = Elements.floats(ROWS * COLS, random::nextGaussian);
        Result found = project(weight, Projection.Weighting.even(), SHAPES);
        Projection.Report report = found.report();
        assertEquals(distance(weight, found.product(), ones), report.error(), 1e-4);
        assertEquals(distance(weight, new float[ROWS * COLS], ones), report.norm(), 1e-4);
        assertEquals(report.error() / report.norm(), report.relativeError(), 1e-12);
        assertEquals(report.error(), report.bound(), 1e-12);
        assertEquals(report.error(), report.leastError(), 1e-12);
        assertArrayEquals(new double[] {report.error()}, report.stepErrors(), 1e-12);
        Result again = project(found.product(), Projection.Weighting.even(), SHAPES);
        assertTrue(again.report().relativeError() < 1e-5);
        assertTrue(distance(found.product(), again.product(), ones) < 1e-5 * report.norm());
    }

    @Test
    void columnsAndActivationsWeigh() {
        float[] weight = Elements.floats(ROWS * COLS, random::nextGaussian);
        float[] scale = Elements.floats(COLS, () -> 0.01f + 10 * random.nextFloat());
        float[] plain = project(weight, Projection.Weighting.even(), SHAPES).product();
        try (DenseMatrix columns = matrix(1, COLS, scale)) {
            Result aware = project(weight, Projection.Weighting.columns(columns), SHAPES);
            double rest = distance(weight, aware.product(), scale);
            assertEquals(rest, aware.report().error(), 1e-3);
            assertTrue(rest < distance(weight, plain, scale));
            // One sample: the root mean square of each feature is its magnitude.
            Result sampled = project(weight, Projection.Weighting.activations(columns), SHAPES);
            assertEquals(aware.report().error(), sampled.report().error(), 1e-9);
        }
    }

    @Test
    void anyTwoSupports() {
        float[] weight = {0, 2, 0, 4, 5, 0, 0, 0, 0, 3, 0, 6};
        byte[] rectangles = {1, 0, 0, 1, 1, 0};
        Memory left = Memory.copyOf(new float[6]);
        Memory right = Memory.copyOf(new float[8]);
        try (DenseMatrix source = matrix(3, 4, weight);
                DenseMatrix first =
                        DenseMatrix.of(3, 2, Memory.copyOf(rectangles), DataType.UINT8);
                DenseMatrix second = DenseMatrix.of(2, 4,
                        Memory.copyOf(new byte[] {0, 1, 0, 1, 1, 0, 0, 0}), DataType.UINT8);
                DenseMatrix a = DenseMatrix.of(3, 2, left, DataType.FP32);
                DenseMatrix b = DenseMatrix.of(2, 4, right, DataType.FP32)) {
            Projection.Report report = Projection.supports(handle, source,
                    Projection.Weighting.even(), first, second, a, b);
            assertEquals(0, report.relativeError(), 1e-12);
            float[] l = left.toFloats();
            float[] r = right.toFloats();
            for (int i = 0; i < 12; ++i) {
                float found = l[i / 4 * 2] * r[i % 4] + l[i / 4 * 2 + 1] * r[4 + i % 4];
                assertEquals(weight[i], found, 1e-5);
            }
            assertThrows(IllegalArgumentException.class,
                    () -> Projection.supports(handle, source, Projection.Weighting.even(), first,
                            second, a, DenseMatrix.of(2, 4, right.asReadOnly(), DataType.FP32)));
        }
    }

    @Test
    void refusalsNameThePosition() {
        float[] weight = new float[ROWS * COLS];
        MagicubeException apart = assertThrows(MagicubeException.class,
                () -> project(weight, Projection.Weighting.even(),
                        List.of(new Shape(2, 6, 6, 1), new Shape(1, 2, 3, 6))));
        assertEquals(Status.INVALID_VALUE, apart.status());
        assertTrue(apart.getMessage()
                .contains("factors[0] = (2, 6, 6, 1) and factors[1] = (1, 2, 3, 6)"));
        weight[20] = Float.POSITIVE_INFINITY;
        MagicubeException infinite = assertThrows(MagicubeException.class,
                () -> project(weight, Projection.Weighting.even(), SHAPES));
        assertTrue(infinite.getMessage().contains("weight[1, 2]"), infinite.getMessage());
    }
}
