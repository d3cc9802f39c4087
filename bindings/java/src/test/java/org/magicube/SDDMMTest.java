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

class SDDMMTest {
    private final Random random = new Random(1);

    private static double sum(double[] a, double[] b, int k, int n, int i, int j) {
        double sum = 0;
        for (int x = 0; x < k; ++x) {
            sum += a[i * k + x] * b[x * n + j];
        }
        return sum;
    }

    @ParameterizedTest
    @CsvSource({"INT16,INT32", "INT8,INT32", "INT4,INT32", "INT8,FP16", "INT16,BF16", "INT8,INT16",
        "INT4,INT8", "FP32,FP32", "FP16,FP32", "BF16,FP32", "E4M3,FP32"})
    void productsAtThePlacesOfThePattern(DataType type, DataType out) {
        int n = 30;
        int k = 42;
        for (int v : new int[] {1, 2, 4, 8, 16, 32, 64}) {
            int m = 3 * v - v / 2;
            Sparse pattern = new Sparse(random, m, n, v, DataType.FP32, 0.3, v > 1);
            double[] a = Elements.random(type, random, m * k);
            double[] b = Elements.random(type, random, k * n);
            int count = pattern.values.length;
            boolean scaled = out != DataType.INT32 && type.isInteger();
            float[] aScale = Elements.floats(m, () -> 0.001f + random.nextFloat());
            float[] bScale = Elements.floats(n, () -> 0.001f + random.nextFloat() / 1000);
            float outScale = 0.7f;
            boolean quantized = scaled && out.isInteger();
            try (Handle handle = Handle.create(Device.CPU);
                    SrBcrsMatrix matrix = pattern.matrix(null);
                    Memory values = Memory.allocate(out.bytes(count));
                    DenseMatrix aMatrix = DenseMatrix.of(m, k, Elements.pack(type, a), type);
                    DenseMatrix bMatrix = DenseMatrix.of(k, n, Elements.pack(type, b), type)) {
                SDDMM.Problem problem = SDDMM.problem(matrix).a(type, Order.ROW).b(type, Order.ROW)
                        .out(out).depth(k, k);
                SDDMM.Args args = SDDMM.args();
                if (scaled) {
                    problem.aScale(Granularity.ROW, 0).bScale(Granularity.COL, 0);
                    args.alpha(0.5f).aScale(Memory.copyOf(aScale)).bScale(Memory.copyOf(bScale));
                }
                if (quantized) {
                    problem.outScale(Granularity.TENSOR, 0);
                    args.outScale(Memory.copyOf(outScale));
                }
                for (String name : SDDMM.implementations(Device.CPU)) {
                    if (!problem.implementation(name).support(handle).supported()) {
                        continue;
                    }
                    handle.fill(values, 0x5a);
                    try (SDDMM.Plan plan = problem.plan(handle)) {
                        plan.execute(handle, aMatrix, bMatrix, values, args);
                        assertEquals(name, plan.info().implementation());
                    }
                    double[] got = Elements.unpack(out, values, count);
                    int[] places = pattern.places();
                    for (int i = 0; i < count; ++i) {
                        int place = places[i];
                        if (place < 0) {
                            assertEquals(0, got[i]);
                            continue;
                        }
                        double sum = sum(a, b, k, n, place / n, place % n);
                        double tolerance = 0;
                        double expected;
                        if (scaled) {
                            float y = 0.5f * aScale[place / n] * bScale[place % n] * (float) sum;
                            expected = Elements.convert(out, quantized ? y * (1 / outScale) : y);
                        } else if (out == DataType.INT32) {
                            expected = (int) (long) sum;
                        } else {
                            expected = sum;
                            tolerance = 1e-4 * (1 + Math.abs(sum)) + k * 16 * 16 * 0x1p-21;
                        }
                        assertEquals(expected, got[i], tolerance, name + " V=" + v);
                    }
                }
            }
        }
    }

    @Test
    void batchesOfOnePattern() {
        Sparse pattern = new Sparse(random, 16, 20, 8, DataType.INT8, 0.4, false);
        int count = pattern.values.length;
        int stride = count + 6;
        double[] a = Elements.random(DataType.INT8, random, 3 * 16 * 10);
        double[] b = Elements.random(DataType.INT8, random, 10 * 20);
        Memory values = Memory.copyOf(new int[3 * stride]);
        try (Handle handle = Handle.create(Device.CPU);
                SrBcrsMatrix matrix = pattern.matrix(null);
                DenseMatrix aMatrix =
                        DenseMatrix.of(16, 10, Elements.pack(DataType.INT8, a), DataType.INT8);
                DenseMatrix bMatrix =
                        DenseMatrix.of(10, 20, Elements.pack(DataType.INT8, b), DataType.INT8)) {
            aMatrix.setStridedBatch(3, 160);
            bMatrix.setStridedBatch(3, 0);
            SDDMM.Problem problem =
                    SDDMM.problem(matrix).out(DataType.INT32).depth(1, 10).batch(3, stride);
            assertTrue(problem.bufferSizes(handle).planAlignment() > 0);
            try (SDDMM.Plan plan = problem.plan(handle)) {
                plan.execute(handle, aMatrix, bMatrix, values);
                Memory small = values.slice(0, values.size() - 7 * 4);
                IllegalArgumentException refused = assertThrows(IllegalArgumentException.class,
                        () -> plan.execute(handle, aMatrix, bMatrix, small));
                assertEquals("values has " + small.size() + " bytes; the call needs "
                        + 4 * (2 * stride + count), refused.getMessage());
            }
        }
        int[] got = values.toInts();
        int[] places = pattern.places();
        for (int z = 0; z < 3; ++z) {
            double[] one = Arrays.copyOfRange(a, z * 160, (z + 1) * 160);
            for (int i = 0; i < count; ++i) {
                double expected = places[i] < 0 ? 0
                        : sum(one, b, 10, 20, places[i] / 20, places[i] % 20);
                assertEquals(expected, got[z * stride + i]);
            }
        }
    }
}
