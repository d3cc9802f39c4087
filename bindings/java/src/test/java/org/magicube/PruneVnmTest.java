// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PruneVnmTest {
    private static final int ROWS = 16;
    private static final int COLS = 24;

    private final Random random = new Random(11);
    private final double[] weight = Elements.random(DataType.FP32, random, ROWS * COLS);

    /** The largest energy that two weights a row can keep, if all columns of 8 were offered. */
    private double bound() {
        double kept = 0;
        double all = 0;
        for (int r = 0; r < ROWS; ++r) {
            for (int first = 0; first < COLS; first += 8) {
                double[] squares = new double[8];
                for (int c = 0; c < 8; ++c) {
                    squares[c] = Math.pow(weight[r * COLS + first + c], 2);
                    all += squares[c];
                }
                java.util.Arrays.sort(squares);
                kept += squares[6] + squares[7];
            }
        }
        return kept / all;
    }

    private void assertPattern(byte[] mask) {
        for (int first = 0; first < COLS; first += 8) {
            boolean[] used = new boolean[8];
            int columns = 0;
            for (int r = 0; r < ROWS; ++r) {
                int kept = 0;
                for (int c = 0; c < 8; ++c) {
                    kept += mask[r * COLS + first + c];
                    columns += mask[r * COLS + first + c] != 0 && !used[c] ? 1 : 0;
                    used[c] |= mask[r * COLS + first + c] != 0;
                }
                assertEquals(2, kept);
            }
            assertTrue(columns <= 4, "columns " + columns);
        }
    }

    @Test
    void byMagnitude() {
        Memory marks = Memory.copyOf(new byte[ROWS * COLS]);
        double energy;
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix matrix = DenseMatrix.of(ROWS, COLS,
                        Elements.pack(DataType.FP32, weight), DataType.FP32);
                DenseMatrix mask = DenseMatrix.of(ROWS, COLS, marks, DataType.UINT8)) {
            PruneVnm.mask(handle, matrix, PruneVnm.options(16, 2, 8), mask);
            energy = PruneVnm.keptEnergy(handle, matrix, mask);
            try (VnmMatrix sparse = VnmMatrix.from(handle, matrix, mask, 16, 2, 8)) {
                assertEquals(8, sparse.m());
            }
            MagicubeException refused = assertThrows(MagicubeException.class, () ->
                    PruneVnm.mask(handle, matrix, PruneVnm.options(16, 2, 3), mask));
            assertEquals(Status.INVALID_VALUE, refused.status());
        }
        byte[] mask = marks.toBytes();
        assertPattern(mask);
        double kept = 0;
        double all = 0;
        for (int i = 0; i < weight.length; ++i) {
            kept += mask[i] * weight[i] * weight[i];
            all += weight[i] * weight[i];
        }
        assertEquals(kept / all, energy, 1e-12);
        assertTrue(energy <= bound() + 1e-12 && energy > 0.7 * bound(), energy + " " + bound());
    }

    /** Weights that make up for those that go leave a smaller error than magnitude alone. */
    @ParameterizedTest
    @EnumSource(PruneVnm.Curvature.class)
    void bySecondOrder(PruneVnm.Curvature kind) {
        int samples = 60;
        double[] inputs = Elements.random(DataType.FP32, random, samples * COLS);
        for (int i = 0; i < inputs.length; ++i) {
            inputs[i] += i % COLS == 0 ? 0 : inputs[i - 1] * 0.8; // correlated
        }
        Memory marks = Memory.copyOf(new byte[ROWS * COLS]);
        Memory update = Memory.copyOf(new float[ROWS * COLS]);
        Memory curve = curvature(kind, inputs, samples);
        int rows = kind == PruneVnm.Curvature.INPUTS ? samples
                : kind == PruneVnm.Curvature.HESSIAN ? COLS : ROWS;
        byte[] byMagnitude;
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix matrix = DenseMatrix.of(ROWS, COLS,
                        Elements.pack(DataType.FP32, weight), DataType.FP32);
                DenseMatrix curvature = DenseMatrix.of(rows, COLS, curve, DataType.FP32);
                DenseMatrix mask = DenseMatrix.of(ROWS, COLS, marks, DataType.UINT8);
                DenseMatrix updated = DenseMatrix.of(ROWS, COLS, update, DataType.FP32)) {
            PruneVnm.Options options = PruneVnm.options(16, 2, 8).curvature(kind)
                    .selection(PruneVnm.Selection.PAIRWISE).damping(1e-3).fisherBlock(8)
                    .refit(true);
            PruneVnm.mask(handle, matrix, options, mask);
            byMagnitude = marks.toBytes();
            if (kind == PruneVnm.Curvature.GRADIENTS) {
                curvature.setStridedBatch(2, ROWS * COLS);
            }
            PruneVnm.secondOrder(handle, matrix, curvature, options, mask, updated);
        }
        byte[] mask = marks.toBytes();
        float[] got = update.toFloats();
        assertPattern(mask);
        double[] error = new double[2];
        for (int s = 0; s < samples; ++s) {
            for (int r = 0; r < ROWS; ++r) {
                double[] difference = new double[2];
                for (int c = 0; c < COLS; ++c) {
                    int i = r * COLS + c;
                    difference[0] += inputs[s * COLS + c] * weight[i] * (byMagnitude[i] - 1);
                    difference[1] += inputs[s * COLS + c] * (got[i] - weight[i]);
                    assertTrue(mask[i] != 0 || got[i] == 0);
                }
                error[0] += difference[0] * difference[0];
                error[1] += difference[1] * difference[1];
            }
        }
        if (kind != PruneVnm.Curvature.GRADIENTS) { // whose gradients are of another loss
            assertTrue(error[1] < 0.8 * error[0], error[1] + " " + error[0]);
        }
    }

    private Memory curvature(PruneVnm.Curvature kind, double[] inputs, int samples) {
        if (kind == PruneVnm.Curvature.INPUTS) {
            return Elements.pack(DataType.FP32, inputs);
        }
        if (kind == PruneVnm.Curvature.GRADIENTS) {
            return Elements.pack(DataType.FP32,
                    Elements.random(DataType.FP32, random, 2 * ROWS * COLS));
        }
        double[] hessian = new double[COLS * COLS];
        for (int i = 0; i < hessian.length; ++i) {
            for (int s = 0; s < samples; ++s) {
                hessian[i] += inputs[s * COLS + i / COLS] * inputs[s * COLS + i % COLS];
            }
        }
        return Elements.pack(DataType.FP32, hessian);
    }

    @Test
    void stepByStep() {
        assertArrayEquals(new int[] {8, 4, 2}, PruneVnm.schedule(16, 2, 3));
        assertThrows(MagicubeException.class, () -> PruneVnm.schedule(16, 2, 0));
    }
}
