// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;
import org.magicube.internal.magicubePlanInfo_t;
import org.magicube.internal.magicubeSpMMArgs_t;
import org.magicube.internal.magicubeSpMMProblem_t;

/**
 * SpMM: C = act(scale * (A * B) + beta * C + bias) with A sparse (M x K), B (K x N) and C (M x N)
 * dense. In fp32, nothing contracted but the fma:
 *
 * <pre>
 * s = (alpha * aScale[i]) * bScale[j]
 * y = fma(s, (float) sum, fma(beta, C[i, j], bias[i]))     beta 0: C is not read
 * y = act(y), times 1 / cScale if there is one, rounded once to C's type (integers saturate)
 * </pre>
 *
 * <p>Types of A and B: int16/int16, int16/int8, int16/int4, int12/int8, int12/int4, int8/int8,
 * int8/int4, int4/int4, uint8/int8, uint8/int4 (C: int32, fp32, fp16, bf16 or int8), and fp32,
 * fp16, bf16, e4m3 with themselves (C: fp32, fp16, bf16 or int8). The sum is exact for integers; C
 * of int32 is the sum modulo 2^32 and takes alpha 1, beta 0 or 1 and no scale, bias or activation.
 */
public final class SpMM {
    private SpMM() {}

    /**
     * Names of the implementations of a device for an A in SR-BCRS or CSR, the reference last.
     *
     * @param device where
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device) {
        return Plan.list(Native::magicubeSpMM_listImplementations, device);
    }

    /**
     * The same for an A in a format.
     *
     * @param device where
     * @param format SR_BCRS, CSR or VNM
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device, SparseFormat format) {
        return Plan.list((code, names, count) -> Native.magicubeSpMM_listFormatImplementations(code,
                format.code, names, count), device);
    }

    /**
     * A problem with B of int8 and C of fp32, both row-major, one column, no scales.
     *
     * @param a SR-BCRS, CSR (taken as V = 1, S = 1) or V:N:M (n = 2); its batch counts
     * @return the problem
     */
    public static Problem problem(SparseMatrix a) {
        return new Problem(a);
    }

    /** What a plan is made for. */
    public static final class Problem extends org.magicube.Problem<Problem, Plan> {
        private final SparseMatrix a;
        private DataType bType = DataType.INT8;
        private Order bOrder = Order.ROW;
        private DataType cType = DataType.FP32;
        private Order cOrder = Order.ROW;
        private long minColumns = 1;
        private long maxColumns = 1;
        private long batchCount = 1;
        private Granularity aScale = Granularity.NONE;
        private Granularity bScale = Granularity.NONE;
        private Granularity bias = Granularity.NONE;
        private Granularity cScale = Granularity.NONE;
        private long aScaleBatchStride;
        private long bScaleBatchStride;
        private long biasBatchStride;
        private long cScaleBatchStride;
        private Activation activation = Activation.NONE;
        private ValueMode valueMode = ValueMode.FIXED;

        private Problem(SparseMatrix a) {
            this.a = Objects.requireNonNull(a, "a");
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
         * Sets what C is.
         *
         * @param type of its elements
         * @param order of its elements
         * @return this
         */
        public Problem c(DataType type, Order order) {
            cType = type;
            cOrder = order;
            return this;
        }

        /**
         * Sets the range that the columns of an execution lie in.
         *
         * @param min at least
         * @param max at most
         * @return this
         */
        public Problem columns(long min, long max) {
            minColumns = min;
            maxColumns = max;
            return this;
        }

        /**
         * Sets the batch of B and C.
         *
         * @param count number of matrices; A's is this, or 1 to serve all
         * @return this
         */
        public Problem batch(long count) {
            batchCount = count;
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
         * Sets the bias.
         *
         * @param granularity NONE or ROW
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem bias(Granularity granularity, long batchStride) {
            bias = granularity;
            biasBatchStride = batchStride;
            return this;
        }

        /**
         * Sets C's scale.
         *
         * @param granularity NONE or TENSOR; for C of int8 only
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem cScale(Granularity granularity, long batchStride) {
            cScale = granularity;
            cScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets the activation.
         *
         * @param function NONE until set
         * @return this
         */
        public Problem activation(Activation function) {
            activation = function;
            return this;
        }

        /**
         * Sets how the plan treats A's values.
         *
         * @param mode FIXED until set
         * @return this
         */
        public Problem valueMode(ValueMode mode) {
            valueMode = mode;
            return this;
        }

        @Override
        Problem self() {
            return this;
        }

        private magicubeSpMMProblem_t struct(long matrix, long name) {
            magicubeSpMMProblem_t struct = new magicubeSpMMProblem_t();
            struct.setA(matrix);
            struct.setB_type(bType.code);
            struct.setB_order(bOrder.code);
            struct.setC_type(cType.code);
            struct.setC_order(cOrder.code);
            struct.setN_min(minColumns);
            struct.setN_max(maxColumns);
            struct.setBatch_count(batchCount);
            struct.setA_scale(aScale.code);
            struct.setB_scale(bScale.code);
            struct.setBias(bias.code);
            struct.setC_scale(cScale.code);
            struct.setA_scale_batch_stride(aScaleBatchStride);
            struct.setB_scale_batch_stride(bScaleBatchStride);
            struct.setBias_batch_stride(biasBatchStride);
            struct.setC_scale_batch_stride(cScaleBatchStride);
            struct.setActivation(activation.code);
            struct.setValue_mode(valueMode.code);
            struct.setImplementation(name);
            return struct;
        }

        @Override
        Prepared<?, Plan> prepare(Uses uses) {
            return new Prepared<>(struct(uses.matrix(a, "a"), name(uses)),
                    Native::magicubeSpMM_isSupported, Native::magicubeSpMM_bufferSize,
                    Native::magicubeSpMM_createPlan,
                    (address, buffer) -> new Plan(address, buffer, this));
        }
    }

    /** {@return arguments of an execution, none of them set} */
    public static Args args() {
        return new Args();
    }

    /** What one execution brings beside B and C; those that the problem names are required. */
    public static final class Args extends ProductArgs<Args> {
        private Memory aValues;
        private Memory aScale;
        private Memory bScale;
        private Memory cScale;

        private Args() {}

        /**
         * Sets A's values, for the value mode PER_CALL.
         *
         * @param values in A's layout
         * @return this
         */
        public Args aValues(Memory values) {
            aValues = values;
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
         * Sets C's scale.
         *
         * @param scales floats
         * @return this
         */
        public Args cScale(Memory scales) {
            cScale = scales;
            return this;
        }

        @Override
        Args self() {
            return this;
        }
    }

    /** A problem made ready for execution. */
    public static final class Plan extends org.magicube.Plan {
        private final long rows;
        private final long batchCount;
        private final Granularity aScale;
        private final Granularity bScale;
        private final Granularity bias;
        private final Granularity cScale;
        private final long aScaleElements;
        private final long bScaleBatchStride;
        private final long biasElements;
        private final long cScaleElements;
        private final boolean perCall;
        private final long valueElements;
        private final DataType valueType;

        private Plan(long plan, Memory buffer, Problem problem) {
            super("SpMM.Plan", plan, Native::magicubeSpMM_destroyPlan, buffer);
            SparseMatrix a = problem.a;
            rows = a.rows;
            batchCount = problem.batchCount;
            aScale = problem.aScale;
            bScale = problem.bScale;
            bias = problem.bias;
            cScale = problem.cScale;
            aScaleElements = elements(aScale, 0, problem.aScaleBatchStride);
            bScaleBatchStride = problem.bScaleBatchStride;
            biasElements = elements(bias, 0, problem.biasBatchStride);
            cScaleElements = elements(cScale, 0, problem.cScaleBatchStride);
            perCall = problem.valueMode == ValueMode.PER_CALL;
            valueElements = a.valueElements();
            valueType = a.valueType;
        }

        private long elements(Granularity granularity, long columns, long batchStride) {
            return Shapes.scales(granularity.elements(rows, columns), batchCount, batchStride);
        }

        @Override
        void tell(long plan, magicubePlanInfo_t info) {
            Native.magicubeSpMM_planInfo(plan, info);
        }

        /**
         * Packs new values of the same pattern, in the order of the handle's stream.
         *
         * @param handle of the plan's device; the caller orders it against running executions
         * @param values in A's layout
         * @throws MagicubeException with NOT_SUPPORTED unless the value mode is UPDATABLE
         */
        public void updateValues(Handle handle, Memory values) {
            try (Uses uses = new Uses(handle)) {
                Native.magicubeSpMM_updateValues(uses.handle(), uses.object(this),
                        uses.read(values, "values", valueElements, valueType));
            }
        }

        /**
         * Executes with alpha 1 and beta 0, for a problem that names no arrays.
         *
         * @param handle of the plan's device
         * @param b K x N
         * @param c M x N, written
         */
        public void execute(Handle handle, DenseMatrix b, DenseMatrix c) {
            execute(handle, b, c, null);
        }

        /**
         * Executes. On CUDA, in the order of the handle's stream, and without waiting.
         *
         * @param handle of the plan's device
         * @param b K x N, of the plan's type, order and batch; so is c
         * @param c M x N, written; read if beta is not 0
         * @param args the rest; null: none
         */
        public void execute(Handle handle, DenseMatrix b, DenseMatrix c, Args args) {
            Args given = args == null ? NONE : args;
            try (Uses uses = new Uses(handle)) {
                long plan = uses.object(this);
                long right = uses.matrix(b, "b");
                long result = uses.output(c, "c");
                long alpha = handle.scalar(uses, 0, given.alpha, given.alphaMemory, "alpha");
                long beta = handle.scalar(uses, 1, given.beta, given.betaMemory, "beta");
                long scratch = uses.scratch(given.workspace, workspaceBytes());
                try (magicubeSpMMArgs_t struct = struct(uses, b.cols, given)) {
                    Native.magicubeSpMM(uses.handle(), plan, alpha, right, beta, result, struct,
                            scratch, scratchBytes(given.workspace));
                }
            }
        }

        private static final Args NONE = new Args();

        private magicubeSpMMArgs_t struct(Uses uses, long columns, Args args) {
            long values = array(uses, args.aValues, "aValues", perCall, valueElements, valueType);
            long a = array(uses, args.aScale, "aScale", aScale != Granularity.NONE, aScaleElements,
                    DataType.FP32);
            long bElements = elements(bScale, columns, bScaleBatchStride);
            long bScales = array(uses, args.bScale, "bScale", bScale != Granularity.NONE, bElements,
                    DataType.FP32);
            long summands = array(uses, args.bias, "bias", bias != Granularity.NONE, biasElements,
                    DataType.FP32);
            long c = array(uses, args.cScale, "cScale", cScale != Granularity.NONE, cScaleElements,
                    DataType.FP32);
            if ((values | a | bScales | summands | c) == 0) {
                return null;
            }
            magicubeSpMMArgs_t struct = new magicubeSpMMArgs_t();
            struct.setA_values(values);
            struct.setA_scale(a);
            struct.setB_scale(bScales);
            struct.setBias(summands);
            struct.setC_scale(c);
            return struct;
        }
    }
}
