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

class QuantizationTest {
    private static final int ROWS = 9;
    private static final int COLS = 14;

    private final Random random = new Random(8);

    private static int group(Granularity granularity, int i) {
        return granularity == Granularity.ROW ? i / COLS
                : granularity == Granularity.COL ? i % COLS : 0;
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = {"INT4", "INT8", "INT12", "INT16"})
    void byAbsmaxAndBack(DataType type) {
        float[] x = Elements.floats(ROWS * COLS, () -> (float) random.nextGaussian());
        for (Granularity granularity : new Granularity[] {Granularity.TENSOR, Granularity.ROW,
            Granularity.COL}) {
            int count = (int) granularity.elements(ROWS, COLS);
            float[] scale = new float[count];
            for (int i = 0; i < x.length; ++i) {
                int g = group(granularity, i);
                scale[g] = Math.max(scale[g], Math.abs(x[i]));
            }
            for (int g = 0; g < count; ++g) {
                scale[g] /= Elements.max(type);
            }
            Memory scales = Memory.copyOf(new float[count]);
            Memory integers = Memory.copyOf(new byte[(int) type.bytes(ROWS * COLS)]);
            Memory reals = Memory.copyOf(new float[x.length]);
            Quantization.Options options = Quantization.options().granularity(granularity);
            try (Handle handle = Handle.create(Device.CPU);
                    DenseMatrix real = DenseMatrix.of(ROWS, COLS, Memory.copyOf(x), DataType.FP32);
                    DenseMatrix quantized = DenseMatrix.of(ROWS, COLS, integers, type);
                    DenseMatrix back = DenseMatrix.of(ROWS, COLS, reals, DataType.FP32)) {
                assertTrue(Quantization.bufferSize(handle, real, options, quantized) >= 0);
                Quantization.quantize(handle, real, options, quantized, scales);
                Quantization.dequantize(handle, quantized, options, scales, back);
                // The scales just found, given, lead to the same integers.
                byte[] first = integers.toBytes();
                handle.fill(integers, 0x11);
                options.calibration(Quantization.Calibration.GIVEN);
                Quantization.quantize(handle, real, options, quantized, scales.asReadOnly());
                assertArrayEquals(first, integers.toBytes());
            }
            assertArrayEquals(scale, scales.toFloats());
            double[] got = Elements.unpack(type, integers, x.length);
            float[] again = reals.toFloats();
            for (int i = 0; i < x.length; ++i) {
                float s = scale[group(granularity, i)];
                assertEquals(Elements.convert(type, x[i] / s), got[i]);
                assertEquals(s * (float) got[i], again[i]);
            }
        }
    }

    @Test
    void percentileAndBatch() {
        Memory scales = Memory.copyOf(new float[5]);
        Memory integers = Memory.copyOf(new byte[8]);
        float[] x = {1, 2, 3, 127, 2, 4, 254, 6};
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix real = DenseMatrix.of(1, 4, Memory.copyOf(x), DataType.FP32);
                DenseMatrix quantized = DenseMatrix.of(1, 4, integers, DataType.INT8)) {
            real.setStridedBatch(2, 4);
            quantized.setStridedBatch(2, 4);
            Quantization.Options options =
                    Quantization.options().percentile(75).scaleBatchStride(4);
            Quantization.quantize(handle, real, options, quantized, scales);
            assertEquals(3f / 127, scales.toFloats()[0]);
            assertEquals(6f / 127, scales.toFloats()[4]);
            Memory small = scales.slice(0, 16);
            assertEquals("scales has 16 bytes; the call needs 20",
                    assertThrows(IllegalArgumentException.class, () -> Quantization.quantize(handle,
                            real, options, quantized, small)).getMessage());
        }
        assertArrayEquals(new byte[] {42, 85, 127, 127, 42, 85, 127, 127}, integers.toBytes());
    }

    @Test
    void leastSquaresIsNoWorseThanAbsmax() {
        float[] x = Elements.floats(1000, () -> (float) random.nextGaussian());
        double[] error = new double[2];
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix real = DenseMatrix.of(1, 1000, Memory.copyOf(x), DataType.FP32)) {
            Quantization.Calibration[] both = {Quantization.Calibration.ABSMAX,
                Quantization.Calibration.MSE};
            for (int which = 0; which < 2; ++which) {
                Memory integers = Memory.copyOf(new byte[500]);
                Memory scale = Memory.copyOf(0f);
                try (DenseMatrix quantized =
                        DenseMatrix.of(1, 1000, integers, DataType.INT4)) {
                    Quantization.quantize(handle, real,
                            Quantization.options().calibration(both[which]), quantized, scale);
                }
                double[] got = Elements.unpack(DataType.INT4, integers, 1000);
                for (int i = 0; i < 1000; ++i) {
                    error[which] += Math.pow(x[i] - got[i] * scale.toFloats()[0], 2);
                }
            }
        }
        assertTrue(error[1] < error[0]);
    }
}
