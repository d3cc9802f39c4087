// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SparseSoftmaxTest {
    private final Random random = new Random(2);

    /** Probabilities in double, by place of the layout. */
    private static double[] expected(Sparse pattern, double[] x) {
        int[] places = pattern.places();
        double[] largest = new double[pattern.rows];
        double[] total = new double[pattern.rows];
        Arrays.fill(largest, Double.NEGATIVE_INFINITY);
        for (int i = 0; i < places.length; ++i) {
            if (places[i] >= 0) {
                int row = places[i] / pattern.cols;
                largest[row] = Math.max(largest[row], x[i]);
            }
        }
        double[] p = new double[x.length];
        for (int i = 0; i < places.length; ++i) {
            if (places[i] >= 0) {
                p[i] = Math.exp(x[i] - largest[places[i] / pattern.cols]);
                total[places[i] / pattern.cols] += p[i];
            }
        }
        for (int i = 0; i < places.length; ++i) {
            p[i] = places[i] < 0 ? 0 : p[i] / total[places[i] / pattern.cols];
        }
        return p;
    }

    @ParameterizedTest
    @CsvSource({"FP32,FP32", "FP32,FP16", "FP16,BF16", "INT32,FP32", "INT32,UINT8", "FP32,INT16",
        "FP32,INT8", "FP16,INT4"})
    void scaledScoresWithBias(DataType in, DataType out) {
        for (int v : new int[] {1, 8, 16}) {
            Sparse pattern = new Sparse(random, 3 * v - v / 2, 40, v,
                    out == DataType.INT4 ? DataType.INT4 : DataType.INT8, 0.4, v > 1);
            int count = pattern.values.length;
            double[] scores = Elements.random(in == DataType.INT32 ? DataType.INT12 : in, random,
                    count);
            float[] rowScale =
                    Elements.floats(pattern.rows, () -> 0.001f * (1 + random.nextInt(4)));
            float[] colScale = Elements.floats(pattern.cols, () -> 0.5f + random.nextFloat());
            float[] bias = Elements.floats(count, () -> random.nextFloat());
            float[] outScale = new float[pattern.rows];
            Memory outScales = Memory.copyOf(outScale);
            SparseSoftmax.Args args = SparseSoftmax.args().alpha(2)
                    .rowScale(Memory.copyOf(rowScale)).colScale(Memory.copyOf(colScale))
                    .bias(Memory.copyOf(bias));
            if (out.isInteger()) {
                args.outScale(outScales);
            }
            double[] got;
            try (Handle handle = Handle.create(Device.CPU);
                    SrBcrsMatrix matrix = pattern.matrix(null);
                    Memory values = Memory.allocate(out.bytes(count));
                    SparseSoftmax.Plan plan = SparseSoftmax.problem(matrix).types(in, out)
                            .rowScale(Granularity.ROW, 0).colScale(Granularity.COL, 0)
                            .bias(true, 0).implementation(last()).plan(handle)) {
                assertEquals(last(), plan.info().implementation());
                handle.fill(values, 0x33);
                plan.execute(handle, Elements.pack(in, scores), values, args);
                got = Elements.unpack(out, values, count);
            }
            int[] places = pattern.places();
            double[] x = new double[count];
            for (int i = 0; i < count; ++i) {
                if (places[i] >= 0) {
                    x[i] = 2.0 * rowScale[places[i] / 40] * colScale[places[i] % 40] * scores[i]
                            + bias[i];
                }
            }
            double[] p = expected(pattern, x);
            float[] scales = outScales.toFloats();
            double step = out == DataType.FP16 ? 0x1p-10 : out == DataType.BF16 ? 0x1p-7 : 1e-5;
            for (int i = 0; i < count; ++i) {
                if (places[i] < 0) {
                    assertEquals(0, got[i]);
                } else if (out.isInteger()) {
                    float scale = scales[places[i] / 40];
                    assertEquals(p[i], scale * got[i], 0.51 * scale);
                } else {
                    assertEquals(p[i], got[i], step * p[i] + 1e-7);
                }
            }
        }
    }

    private static String last() {
        var names = SparseSoftmax.implementations(Device.CPU);
        return names.get(names.size() - 1);
    }

    @Test
    void inPlaceInABatch() {
        Sparse pattern = new Sparse(random, 16, 24, 8, DataType.INT8, 0.5, false);
        int count = pattern.values.length;
        float[] scores = Elements.floats(2 * count, () -> random.nextFloat() * 4 - 2);
        Memory values = Memory.copyOf(scores);
        try (Handle handle = Handle.create(Device.CPU);
                SrBcrsMatrix matrix = pattern.matrix(null)) {
            SparseSoftmax.Problem problem = SparseSoftmax.problem(matrix).batch(2, count, count);
            assertTrue(problem.support(handle).supported());
            assertTrue(problem.bufferSizes(handle).workspaceAlignment() > 0);
            try (SparseSoftmax.Plan plan = problem.plan(handle)) {
                plan.execute(handle, values, values);
                IllegalArgumentException unnamed = assertThrows(IllegalArgumentException.class,
                        () -> plan.execute(handle, values, values,
                                SparseSoftmax.args().bias(values)));
                assertEquals("bias is given, but the plan's problem has none",
                        unnamed.getMessage());
            }
        }
        float[] got = values.toFloats();
        for (int z = 0; z < 2; ++z) {
            double[] x = new double[count];
            for (int i = 0; i < count; ++i) {
                x[i] = scores[z * count + i];
            }
            double[] p = expected(pattern, x);
            for (int i = 0; i < count; ++i) {
                assertEquals(p[i], got[z * count + i], 1e-6);
            }
        }
    }
}
