// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;
import org.magicube.internal.magicubePlanInfo_t;
import org.magicube.internal.magicubeSparseSoftmaxArgs_t;
import org.magicube.internal.magicubeSparseSoftmaxProblem_t;

/**
 * Softmax over the existing elements of each row of a sparse matrix, in the pattern's layout:
 *
 * <pre>
 * x = fma((alpha * rowScale[i]) * colScale[j], score, bias)
 * p = exp(x - max x of the row) / sum of the row's exp
 * </pre>
 *
 * <p>Scores are fp32, fp16 or int32; p is fp32, fp16 or bf16, or int16, int8, uint8 or int4 with a
 * scale a row: outScale[i] = largest p of row i / largest integer. Padding and absent elements
 * become 0, and so do rows without elements, with scale 1.
 */
public final class SparseSoftmax {
    private SparseSoftmax() {}

    /**
     * Names of the implementations of a device, the reference last.
     *
     * @param device where
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device) {
        return Plan.list(Native::magicubeSparseSoftmax_listImplementations, device);
    }

    /**
     * A problem with scores and probabilities of fp32, no scales and no bias.
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
        private DataType inType = DataType.FP32;
        private DataType outType = DataType.FP32;
        private long batchCount = 1;
        private long inBatchStride;
        private long outBatchStride;
        private Granularity rowScale = Granularity.NONE;
        private Granularity colScale = Granularity.NONE;
        private boolean bias;
        private long rowScaleBatchStride;
        private long colScaleBatchStride;
        private long biasBatchStride;
        private long outScaleBatchStride;

        private Problem(SparseMatrix pattern) {
            this.pattern = Objects.requireNonNull(pattern, "pattern");
        }

        /**
         * Sets the types.
         *
         * @param in of the scores
         * @param out of the probabilities
         * @return this
         */
        public Problem types(DataType in, DataType out) {
            inType = in;
            outType = out;
            return this;
        }

        /**
         * Sets the batch of the value arrays.
         *
         * @param count number of matrices; the pattern's is this, or 1 to serve all
         * @param inStride with one pattern, elements between score arrays; 0: without gaps
         * @param outStride the same of the probabilities
         * @return this
         */
        public Problem batch(long count, long inStride, long outStride) {
            batchCount = count;
            inBatchStride = inStride;
            outBatchStride = outStride;
            return this;
        }

        /**
         * Sets the scales of rows.
         *
         * @param granularity NONE, TENSOR or ROW
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem rowScale(Granularity granularity, long batchStride) {
            rowScale = granularity;
            rowScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets the scales of columns.
         *
         * @param granularity NONE, TENSOR or COL
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem colScale(Granularity granularity, long batchStride) {
            colScale = granularity;
            colScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets whether fp32 summands in the pattern's layout are added.
         *
         * @param added whether
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem bias(boolean added, long batchStride) {
            bias = added;
            biasBatchStride = batchStride;
            return this;
        }

        /**
         * Sets where the row scales of an integer output lie.
         *
         * @param batchStride elements between those of matrices; 0: M
         * @return this
         */
        public Problem outScaleBatchStride(long batchStride) {
            outScaleBatchStride = batchStride;
            return this;
        }

        @Override
        Problem self() {
            return this;
        }

        private magicubeSparseSoftmaxProblem_t struct(long matrix, long name) {
            magicubeSparseSoftmaxProblem_t struct = new magicubeSparseSoftmaxProblem_t();
            struct.setPattern(matrix);
            struct.setIn_type(inType.code);
            struct.setOut_type(outType.code);
            struct.setBatch_count(batchCount);
            struct.setIn_batch_stride(inBatchStride);
            struct.setOut_batch_stride(outBatchStride);
            struct.setRow_scale(rowScale.code);
            struct.setCol_scale(colScale.code);
            struct.setBias(bias ? 1 : 0);
            struct.setRow_scale_batch_stride(rowScaleBatchStride);
            struct.setCol_scale_batch_stride(colScaleBatchStride);
            struct.setBias_batch_stride(biasBatchStride);
            struct.setOut_scale_batch_stride(outScaleBatchStride);
            struct.setImplementation(name);
            return struct;
        }

        @Override
        Prepared<?, Plan> prepare(Uses uses) {
            return new Prepared<>(struct(uses.matrix(pattern, "pattern"), name(uses)),
                    Native::magicubeSparseSoftmax_isSupported,
                    Native::magicubeSparseSoftmax_bufferSize,
                    Native::magicubeSparseSoftmax_createPlan,
                    (address, buffer) -> new Plan(address, buffer, this));
        }
    }

    /** {@return arguments of an execution, none of them set} */
    public static Args args() {
        return new Args();
    }

    /** What one execution brings beside its values; those that the problem names are required. */
    public static final class Args extends org.magicube.Args<Args> {
        private Float alpha;
        private Memory alphaMemory;
        private Memory rowScale;
        private Memory colScale;
        private Memory bias;
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
         * Sets the scales of rows.
         *
         * @param scales floats
         * @return this
         */
        public Args rowScale(Memory scales) {
            rowScale = scales;
            return this;
        }

        /**
         * Sets the scales of columns.
         *
         * @param scales floats
         * @return this
         */
        public Args colScale(Memory scales) {
            colScale = scales;
            return this;
        }

        /**
         * Sets the summands.
         *
         * @param summands floats in the pattern's layout
         * @return this
         */
        public Args bias(Memory summands) {
            bias = summands;
            return this;
        }

        /**
         * Sets where the row scales of an integer output are written.
         *
         * @param scales M floats a matrix
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

        private final DataType inType;
        private final DataType outType;
        private final long inElements;
        private final long outElements;
        private final long rowScaleElements;
        private final long colScaleElements;
        private final long biasElements;
        private final long outScaleElements;
        private final boolean rowScale;
        private final boolean colScale;
        private final boolean bias;
        private final boolean outScale;

        private Plan(long plan, Memory buffer, Problem problem) {
            super("SparseSoftmax.Plan", plan, Native::magicubeSparseSoftmax_destroyPlan, buffer);
            SparseMatrix pattern = problem.pattern;
            long rows = pattern.rows;
            long count = problem.batchCount;
            inType = problem.inType;
            outType = problem.outType;
            inElements = pattern.layoutElements(count, problem.inBatchStride);
            outElements = pattern.layoutElements(count, problem.outBatchStride);
            rowScale = problem.rowScale != Granularity.NONE;
            colScale = problem.colScale != Granularity.NONE;
            bias = problem.bias;
            outScale = outType.isInteger();
            rowScaleElements = Shapes.scales(problem.rowScale.elements(rows, 0), count,
                    problem.rowScaleBatchStride);
            colScaleElements = Shapes.scales(problem.colScale.elements(0, pattern.cols), count,
                    problem.colScaleBatchStride);
            biasElements = Shapes.scales(pattern.storedElements(),
                    pattern.differentPatterns ? 1 : count, problem.biasBatchStride);
            outScaleElements = Shapes.reach(count,
                    problem.outScaleBatchStride == 0 ? rows : problem.outScaleBatchStride, rows);
        }

        @Override
        void tell(long plan, magicubePlanInfo_t info) {
            Native.magicubeSparseSoftmax_planInfo(plan, info);
        }

        /**
         * Executes with alpha 1, for a problem that names no arrays.
         *
         * @param handle of the plan's device
         * @param scores in the pattern's layout
         * @param out written, in the same layout; may be scores if types and strides are the same
         */
        public void execute(Handle handle, Memory scores, Memory out) {
            execute(handle, scores, out, null);
        }

        /**
         * Executes. On CUDA, in the order of the handle's stream, and without waiting.
         *
         * @param handle of the plan's device
         * @param scores in the pattern's layout
         * @param out written, in the same layout; may be scores if types and strides are the same
         * @param args the rest; null: none
         */
        public void execute(Handle handle, Memory scores, Memory out, Args args) {
            Args given = args == null ? NONE : args;
            try (Uses uses = new Uses(handle)) {
                long plan = uses.object(this);
                long in = uses.read(scores, "scores", inElements, inType);
                long result = uses.write(out, "out", outElements, outType);
                long alpha = handle.scalar(uses, 0, given.alpha, given.alphaMemory, "alpha");
                long scratch = uses.scratch(given.workspace, workspaceBytes());
                try (magicubeSparseSoftmaxArgs_t struct = struct(uses, given)) {
                    Native.magicubeSparseSoftmax(uses.handle(), plan, alpha, in, result, struct,
                            scratch, scratchBytes(given.workspace));
                }
            }
        }

        private magicubeSparseSoftmaxArgs_t struct(Uses uses, Args args) {
            long rows = array(uses, args.rowScale, "rowScale", rowScale, rowScaleElements,
                    DataType.FP32);
            long cols = array(uses, args.colScale, "colScale", colScale, colScaleElements,
                    DataType.FP32);
            long summands = array(uses, args.bias, "bias", bias, biasElements, DataType.FP32);
            long out = outputArray(uses, args.outScale, "outScale", outScale, outScaleElements,
                    DataType.FP32);
            if ((rows | cols | summands | out) == 0) {
                return null;
            }
            magicubeSparseSoftmaxArgs_t struct = new magicubeSparseSoftmaxArgs_t();
            struct.setRow_scale(rows);
            struct.setCol_scale(cols);
            struct.setBias(summands);
            struct.setOut_scale(out);
            return struct;
        }
    }
}
