// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;
import org.magicube.internal.magicubeCalibration_t;
import org.magicube.internal.magicubeQuantizeParams_t;

/**
 * Symmetric quantisation: real = scale * integer, no zero point; integer = real / scale, rounded to
 * nearest even and saturated. Scales are fp32.
 */
public final class Quantization {
    private Quantization() {}

    /** How a scale is found, with qmax = 2^(bits - 1) - 1. */
    public enum Calibration {
        /** Largest magnitude / qmax. */
        ABSMAX(magicubeCalibration_t.MAGICUBE_CALIBRATION_ABSMAX),

        /** The magnitude that a percentage does not exceed / qmax. */
        PERCENTILE(magicubeCalibration_t.MAGICUBE_CALIBRATION_PERCENTILE),

        /** That of 100 steps up to absmax with the least mean squared error. */
        MSE(magicubeCalibration_t.MAGICUBE_CALIBRATION_MSE),

        /** The caller's scales. */
        GIVEN(magicubeCalibration_t.MAGICUBE_CALIBRATION_GIVEN);

        final int code;

        Calibration(int code) {
            this.code = code;
        }
    }

    /** {@return options for one scale, by absmax, densely packed} */
    public static Options options() {
        return new Options();
    }

    /** How to quantise. */
    public static final class Options {
        private Granularity granularity = Granularity.TENSOR;
        private Calibration calibration = Calibration.ABSMAX;
        private double percentile = 100;
        private long scaleBatchStride = -1;

        private Options() {}

        /**
         * Sets which elements share a scale.
         *
         * @param sharing TENSOR, ROW or COL
         * @return this
         */
        public Options granularity(Granularity sharing) {
            granularity = sharing;
            return this;
        }

        /**
         * Sets how scales are found.
         *
         * @param method ABSMAX until set
         * @return this
         */
        public Options calibration(Calibration method) {
            calibration = method;
            return this;
        }

        /**
         * Finds scales by percentile.
         *
         * @param percent in (0, 100]: of n magnitudes, the ceil(percent / 100 * n)-th smallest
         * @return this
         */
        public Options percentile(double percent) {
            calibration = Calibration.PERCENTILE;
            percentile = percent;
            return this;
        }

        /**
         * Sets where the scales of a batch lie.
         *
         * @param elements between those of matrices; -1: densely packed
         * @return this
         */
        public Options scaleBatchStride(long elements) {
            scaleBatchStride = elements;
            return this;
        }

        private magicubeQuantizeParams_t struct() {
            magicubeQuantizeParams_t struct = new magicubeQuantizeParams_t();
            struct.setGranularity(granularity.code);
            struct.setCalibration(calibration.code);
            struct.setPercentile(percentile);
            struct.setScale_batch_stride(scaleBatchStride);
            return struct;
        }

        private long scaleElements(DenseMatrix matrix) {
            long each = granularity.elements(matrix.rows, matrix.cols);
            return Shapes.reach(matrix.batchCount, scaleBatchStride < 0 ? each : scaleBatchStride,
                    each);
        }
    }

    /**
     * Tells the scratch that quantising needs.
     *
     * @param handle where
     * @param real what to quantise
     * @param options how
     * @param quantized where to; a shape alone is enough
     * @return bytes
     */
    public static long bufferSize(Handle handle, DenseMatrix real, Options options,
            DenseMatrix quantized) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle); magicubeQuantizeParams_t params = options.struct()) {
            Native.magicubeQuantize_bufferSize(uses.handle(), uses.matrix(real, "real"), params,
                    uses.matrix(quantized, "quantized"), bytes);
        }
        return bytes[0];
    }

    /**
     * Quantises. A group of zeros gets scale 1. The two orders may differ.
     *
     * @param handle where; its own scratch is used
     * @param real fp32, fp16 or bf16
     * @param options how
     * @param quantized int4, int8, int12 or int16, of the same shape and batch, written
     * @param scales floats, as many as the options say; written, or read for GIVEN
     */
    public static void quantize(Handle handle, DenseMatrix real, Options options,
            DenseMatrix quantized, Memory scales) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle); magicubeQuantizeParams_t params = options.struct()) {
            long source = uses.matrix(real, "real");
            long target = uses.output(quantized, "quantized");
            long elements = options.scaleElements(real);
            long scale = options.calibration == Calibration.GIVEN
                    ? uses.read(scales, "scales", elements, DataType.FP32)
                    : uses.write(scales, "scales", elements, DataType.FP32);
            Native.magicubeQuantize_bufferSize(uses.handle(), source, params, target, bytes);
            Native.magicubeQuantize(uses.handle(), source, params, target, scale,
                    uses.scratch(null, bytes[0]), bytes[0]);
        }
    }

    /**
     * Turns integers back: real = scale * integer in fp32, rounded once.
     *
     * @param handle where
     * @param quantized int4, int8, uint8, int12, int16 or int32
     * @param options of them, granularity and batch stride of the scales
     * @param scales floats
     * @param real fp32, fp16 or bf16, of the same shape and batch, written
     */
    public static void dequantize(Handle handle, DenseMatrix quantized, Options options,
            Memory scales, DenseMatrix real) {
        try (Uses uses = new Uses(handle); magicubeQuantizeParams_t params = options.struct()) {
            long source = uses.matrix(quantized, "quantized");
            long target = uses.output(real, "real");
            long scale = uses.read(scales, "scales", options.scaleElements(quantized),
                    DataType.FP32);
            Native.magicubeDequantize(uses.handle(), source, params, scale, target);
        }
    }
}
