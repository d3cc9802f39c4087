// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;
import org.magicube.internal.magicubePlanInfo_t;
import org.magicube.internal.magicubeSDDMMArgs_t;
import org.magicube.internal.magicubeSDDMMProblem_t;

/**
 * SDDMM: the elements of a dense product A * B (M x K times K x N) at the places of a sparse
 * pattern (M x N), written in the pattern's layout; padding and absent elements become 0.
 *
 * <p>Types of A and B: int16, int8 or int4 (out: int32, fp32, fp16, bf16, int16 or int8) and fp32,
 * fp16, bf16, e4m3 (out: fp32, fp16, bf16, int16 or int8), both of one type. A result is
 * (alpha * aScale[i]) * bScale[j] * (float) sum, times 1 / outScale if there is one, rounded once;
 * int32 is the sum modulo 2^32 and takes alpha 1 and no scale.
 */
public final class SDDMM {
    private SDDMM() {}

    /**
     * Names of the implementations of a device, the reference last.
     *
     * @param device where
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device) {
        return Plan.list(Native::magicubeSDDMM_listImplementations, device);
    }

    /**
     * A problem with A and B of int8, both row-major, K = 1, out of fp32, no scales.
     *
     * @param pattern SR-BCRS or CSR; its values are not looked at
     * @return the problem
     */
    public static Problem problem(SparseMatrix pattern) {
        return new Problem(pattern);
    }

    /** What a plan is made for. */
    public static final class Problem extends org.magicube.Problem<Problem, Plan> {
        private final SparseMatrix pattern;
        private DataType aType = DataType.INT8;
        private Order aOrder = Order.ROW;
        private DataType bType = DataType.INT8;
        private Order bOrder = Order.ROW;
        private DataType outType = DataType.FP32;
        private long minDepth = 1;
        private long maxDepth = 1;
        private long batchCount = 1;
        private long outBatchStride;
        private Granularity aScale = Granularity.NONE;
        private Granularity bScale = Granularity.NONE;
        private Granularity outScale = Granularity.NONE;
        private long aScaleBatchStride;
        private long bScaleBatchStride;
        private long outScaleBatchStride;

        private Problem(SparseMatrix pattern) {
            this.pattern = Objects.requireNonNull(pattern, "pattern");
        }

        /**
         * Sets what A is.
         *
         * @param type of its elements
         * @param order of its elements
         * @return this
         */
        public Problem a(DataType type, Order order) {
            aType = type;
            aOrder = order;
            return this;
        }

        /**
         * Sets what B is.
         *
         * @param type of its elements
         * @param order of its elements
         * @return this
         */
        public Problem b(DataType type, Order order) {
            bType = type;
            bOrder = order;
            return this;
        }

        /**
         * Sets the type of the values written.
         *
         * @param type fp32 until set
         * @return this
         */
        public Problem out(DataType type) {
            outType = type;
            return this;
        }

        /**
         * Sets the range that K of an execution lies in.
         *
         * @param min at least
         * @param max at most
         * @return this
         */
        public Problem depth(long min, long max) {
            minDepth = min;
            maxDepth = max;
            return this;
        }

        /**
         * Sets the batch of A, B and the values.
         *
         * @param count number of matrices; the pattern's is this, or 1 to serve all
         * @param outStride with one pattern, elements between value arrays; 0: without gaps
         * @return this
         */
        public Problem batch(long count, long outStride) {
            batchCount = count;
            outBatchStride = outStride;
            return this;
        }

        /**
         * Sets A's scales.
         *
         * @param granularity NONE, TENSOR or ROW
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem aScale(Granularity granularity, long batchStride) {
            aScale = granularity;
            aScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets B's scales.
         *
         * @param granularity NONE, TENSOR or COL
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem bScale(Granularity granularity, long batchStride) {
            bScale = granularity;
            bScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets the scale of the values written.
         *
         * @param granularity NONE or TENSOR; for out of int16 or int8 only
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem outScale(Granularity granularity, long batchStride) {
            outScale = granularity;
            outScaleBatchStride = batchStride;
            return this;
        }

        @Override
        Problem self() {
            return this;
        }

        private magicubeSDDMMProblem_t struct(long matrix, long name) {
            magicubeSDDMMProblem_t struct = new magicubeSDDMMProblem_t();
            struct.setPattern(matrix);
            struct.setA_type(aType.code);
            struct.setA_order(aOrder.code);
            struct.setB_type(bType.code);
            struct.setB_order(bOrder.code);
            struct.setOut_type(outType.code);
            struct.setK_min(minDepth);
            struct.setK_max(maxDepth);
            struct.setBatch_count(batchCount);
            struct.setOut_batch_stride(outBatchStride);
            struct.setA_scale(aScale.code);
            struct.setB_scale(bScale.code);
            struct.setOut_scale(outScale.code);
            struct.setA_scale_batch_stride(aScaleBatchStride);
            struct.setB_scale_batch_stride(bScaleBatchStride);
            struct.setOut_scale_batch_stride(outScaleBatchStride);
            struct.setImplementation(name);
            return struct;
        }

        @Override
        Prepared<?, Plan> prepare(Uses uses) {
            return new Prepared<>(struct(uses.matrix(pattern, "pattern"), name(uses)),
                    Native::magicubeSDDMM_isSupported, Native::magicubeSDDMM_bufferSize,
                    Native::magicubeSDDMM_createPlan,
                    (address, buffer) -> new Plan(address, buffer, this));
        }
    }

    /** {@return arguments of an execution, none of them set} */
    public static Args args() {
        return new Args();
    }

    /** What one execution brings beside its matrices; those that the problem names are required. */
    public static final class Args extends org.magicube.Args<Args> {
        private Float alpha;
        private Memory alphaMemory;
        private Memory aScale;
        private Memory bScale;
        private Memory outScale;

        private Args() {}

        /**
         * Sets alpha.
         *
         * @param value 1 until set
         * @return this
         */
        public Args alpha(float value) {
            alpha = value;
            return this;
        }

        /**
         * Sets alpha, read as the handle's pointer mode says.
         *
         * @param value one float
         * @return this
         */
        public Args alpha(Memory value) {
            alphaMemory = value;
            return this;
        }

        /**
         * Sets A's scales.
         *
         * @param scales floats
         * @return this
         */
        public Args aScale(Memory scales) {
            aScale = scales;
            return this;
        }

        /**
         * Sets B's scales.
         *
         * @param scales floats
         * @return this
         */
        public Args bScale(Memory scales) {
            bScale = scales;
            return this;
        }

        /**
         * Sets the scale of the values written.
         *
         * @param scales floats
         * @return this
         */
        public Args outScale(Memory scales) {
            outScale = scales;
            return this;
        }

        @Override
        Args self() {
            return this;
        }
    }

    /** A problem made ready for execution. */
    public static final class Plan extends org.magicube.Plan {
        private static final Args NONE = new Args();

        private final long rows;
        private final long cols;
        private final long batchCount;
        private final Granularity aScale;
        private final Granularity bScale;
        private final Granularity outScale;
        private final long aScaleElements;
        private final long bScaleElements;
        private final long outScaleElements;
        private final DataType outType;
        private final long outElements;

        private Plan(long plan, Memory buffer, Problem problem) {
            super("SDDMM.Plan", plan, Native::magicubeSDDMM_destroyPlan, buffer);
            batchCount = problem.batchCount;
            rows = problem.pattern.rows;
            cols = problem.pattern.cols;
            aScale = problem.aScale;
            bScale = problem.bScale;
            outScale = problem.outScale;
            aScaleElements = elements(aScale, problem.aScaleBatchStride);
            bScaleElements = elements(bScale, problem.bScaleBatchStride);
            outScaleElements = elements(outScale, problem.outScaleBatchStride);
            outType = problem.outType;
            outElements = problem.pattern.layoutElements(batchCount, problem.outBatchStride);
        }

        private long elements(Granularity granularity, long batchStride) {
            return Shapes.scales(granularity.elements(rows, cols), batchCount, batchStride);
        }

        @Override
        void tell(long plan, magicubePlanInfo_t info) {
            Native.magicubeSDDMM_planInfo(plan, info);
        }

        /**
         * Executes with alpha 1, for a problem that names no arrays.
         *
         * @param handle of the plan's device
         * @param a M x K
         * @param b K x N
         * @param values written, in the pattern's layout
         */
        public void execute(Handle handle, DenseMatrix a, DenseMatrix b, Memory values) {
            execute(handle, a, b, values, null);
        }

        /**
         * Executes. On CUDA, in the order of the handle's stream, and without waiting.
         *
         * @param handle of the plan's device
         * @param a M x K, of the plan's type, order and batch; so is b
         * @param b K x N
         * @param values written, in the pattern's layout: an array a matrix of the batch, or the
         *     shared one if the patterns differ
         * @param args the rest; null: none
         */
        public void execute(Handle handle, DenseMatrix a, DenseMatrix b, Memory values, Args args) {
            Args given = args == null ? NONE : args;
            try (Uses uses = new Uses(handle)) {
                long plan = uses.object(this);
                long left = uses.matrix(a, "a");
                long right = uses.matrix(b, "b");
                long out = uses.write(values, "values", outElements, outType);
                long alpha = handle.scalar(uses, 0, given.alpha, given.alphaMemory, "alpha");
                long scratch = uses.scratch(given.workspace, workspaceBytes());
                try (magicubeSDDMMArgs_t struct = struct(uses, given)) {
                    Native.magicubeSDDMM(uses.handle(), plan, alpha, left, right, out, struct,
                            scratch, scratchBytes(given.workspace));
                }
            }
        }

        private magicubeSDDMMArgs_t struct(Uses uses, Args args) {
            long a = array(uses, args.aScale, "aScale", aScale != Granularity.NONE, aScaleElements,
                    DataType.FP32);
            long b = array(uses, args.bScale, "bScale", bScale != Granularity.NONE, bScaleElements,
                    DataType.FP32);
            long out = array(uses, args.outScale, "outScale", outScale != Granularity.NONE,
                    outScaleElements, DataType.FP32);
            if ((a | b | out) == 0) {
                return null;
            }
            magicubeSDDMMArgs_t struct = new magicubeSDDMMArgs_t();
            struct.setA_scale(a);
            struct.setB_scale(b);
            struct.setOut_scale(out);
            return struct;
        }
    }
}
