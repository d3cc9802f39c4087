// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;
import org.magicube.internal.magicubeBatchLayout_t;
import org.magicube.internal.magicubeKroneckerMMArgs_t;
import org.magicube.internal.magicubeKroneckerMMProblem_t;
import org.magicube.internal.magicubePlanInfo_t;

/**
 * Products with a Kronecker-sparse factor or chain K, of N vectors at once. Vectors in rows: X is
 * N x cols(K), Y is N x rows(K), Y = act(scale * (X K^T) + beta * Y + bias); in columns: X is
 * cols(K) x N, Y is rows(K) x N, Y = act(scale * (K X) + beta * Y + bias).
 *
 * <p>K and X have one type: fp32, fp16 or bf16 (Y: fp32, fp16, bf16 or int8), or int8 (one factor;
 * Y: int32, fp32, fp16, bf16 or int8). Result of feature i of vector n, in SpMM's order, in fp32:
 *
 * <pre>
 * s = (alpha * kScale[i]) * xScale[n]
 * y = fma(s, (float) sum, fma(beta, Y, bias[i]))          beta 0: Y is not read
 * y = act(y), times 1 / yScale if there is one, rounded once to Y's type (integers saturate)
 * </pre>
 */
public final class KroneckerMM {
    private KroneckerMM() {}

    /** Which axis of X and Y counts vectors. */
    public enum Layout {
        /** Rows are vectors. */
        BATCH_FIRST(magicubeBatchLayout_t.MAGICUBE_BATCH_FIRST),

        /** Columns are vectors. */
        BATCH_LAST(magicubeBatchLayout_t.MAGICUBE_BATCH_LAST);

        final int code;

        Layout(int code) {
            this.code = code;
        }
    }

    /**
     * Names of the implementations of a device, the reference last.
     *
     * @param device where
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device) {
        return Plan.list(Native::magicubeKroneckerMM_listImplementations, device);
    }

    /**
     * A problem with vectors in rows, Y of fp32, both row-major, one vector, no scales.
     *
     * @param k a factor or a chain
     * @return the problem
     */
    public static Problem problem(KroneckerMatrix k) {
        return new Problem(k);
    }

    /** What a plan is made for. */
    public static final class Problem extends org.magicube.Problem<Problem, Plan> {
        private final KroneckerMatrix k;
        private boolean transpose;
        private Layout layout = Layout.BATCH_FIRST;
        private Order xOrder = Order.ROW;
        private DataType yType = DataType.FP32;
        private Order yOrder = Order.ROW;
        private long minVectors = 1;
        private long maxVectors = 1;
        private long batchCount = 1;
        private Granularity kScale = Granularity.NONE;
        private Granularity xScale = Granularity.NONE;
        private Granularity bias = Granularity.NONE;
        private Granularity yScale = Granularity.NONE;
        private long kScaleBatchStride;
        private long xScaleBatchStride;
        private long biasBatchStride;
        private long yScaleBatchStride;
        private Activation activation = Activation.NONE;
        private ValueMode valueMode = ValueMode.FIXED;

        private Problem(KroneckerMatrix k) {
            this.k = Objects.requireNonNull(k, "k");
        }

        /**
         * Puts K^T in place of K.
         *
         * @param transposed false until set
         * @return this
         */
        public Problem transpose(boolean transposed) {
            transpose = transposed;
            return this;
        }

        /**
         * Sets which axis of X and Y counts vectors.
         *
         * @param vectors BATCH_FIRST until set
         * @return this
         */
        public Problem layout(Layout vectors) {
            layout = vectors;
            return this;
        }

        /**
         * Sets what X is; its type is K's.
         *
         * @param order of its elements
         * @return this
         */
        public Problem x(Order order) {
            xOrder = order;
            return this;
        }

        /**
         * Sets what Y is.
         *
         * @param type of its elements
         * @param order of its elements
         * @return this
         */
        public Problem y(DataType type, Order order) {
            yType = type;
            yOrder = order;
            return this;
        }

        /**
         * Sets the range that the number of vectors of an execution lies in.
         *
         * @param min at least
         * @param max at most
         * @return this
         */
        public Problem vectors(long min, long max) {
            minVectors = min;
            maxVectors = max;
            return this;
        }

        /**
         * Sets the batch of X and Y.
         *
         * @param count number of matrices; one K serves all
         * @return this
         */
        public Problem batch(long count) {
            batchCount = count;
            return this;
        }

        /**
         * Sets K's scales.
         *
         * @param granularity NONE, TENSOR or ROW
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem kScale(Granularity granularity, long batchStride) {
            kScale = granularity;
            kScaleBatchStride = batchStride;
            return this;
        }

        /**
         * Sets X's scales.
         *
         * @param granularity NONE, TENSOR or COL
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem xScale(Granularity granularity, long batchStride) {
            xScale = granularity;
            xScaleBatchStride = batchStride;
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
         * Sets Y's scale.
         *
         * @param granularity NONE or TENSOR; for Y of int8 only
         * @param batchStride elements between those of matrices; 0: shared by the batch
         * @return this
         */
        public Problem yScale(Granularity granularity, long batchStride) {
            yScale = granularity;
            yScaleBatchStride = batchStride;
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
         * Sets how the plan treats K's values.
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

        private magicubeKroneckerMMProblem_t struct(long matrix, long name) {
            magicubeKroneckerMMProblem_t struct = new magicubeKroneckerMMProblem_t();
            struct.setK(matrix);
            struct.setTranspose(transpose ? 1 : 0);
            struct.setLayout(layout.code);
            struct.setX_order(xOrder.code);
            struct.setY_type(yType.code);
            struct.setY_order(yOrder.code);
            struct.setN_min(minVectors);
            struct.setN_max(maxVectors);
            struct.setBatch_count(batchCount);
            struct.setK_scale(kScale.code);
            struct.setX_scale(xScale.code);
            struct.setBias(bias.code);
            struct.setY_scale(yScale.code);
            struct.setK_scale_batch_stride(kScaleBatchStride);
            struct.setX_scale_batch_stride(xScaleBatchStride);
            struct.setBias_batch_stride(biasBatchStride);
            struct.setY_scale_batch_stride(yScaleBatchStride);
            struct.setActivation(activation.code);
            struct.setValue_mode(valueMode.code);
            struct.setImplementation(name);
            return struct;
        }

        @Override
        Prepared<?, Plan> prepare(Uses uses) {
            return new Prepared<>(struct(KroneckerMatrix.read(uses, k, "k"), name(uses)),
                    Native::magicubeKroneckerMM_isSupported, Native::magicubeKroneckerMM_bufferSize,
                    Native::magicubeKroneckerMM_createPlan,
                    (address, buffer) -> new Plan(address, buffer, this));
        }
    }

    /** {@return arguments of an execution, none of them set} */
    public static Args args() {
        return new Args();
    }

    /** What one execution brings beside X and Y; those that the problem names are required. */
    public static final class Args extends ProductArgs<Args> {
        private List<Memory> kValues;
        private Memory kScale;
        private Memory xScale;
        private Memory yScale;

        private Args() {}

        /**
         * Sets K's values, for the value mode PER_CALL.
         *
         * @param values an array a factor
         * @return this
         */
        public Args kValues(List<Memory> values) {
            kValues = values;
            return this;
        }

        /**
         * Sets K's scales.
         *
         * @param scales floats
         * @return this
         */
        public Args kScale(Memory scales) {
            kScale = scales;
            return this;
        }

        /**
         * Sets X's scales.
         *
         * @param scales floats
         * @return this
         */
        public Args xScale(Memory scales) {
            xScale = scales;
            return this;
        }

        /**
         * Sets Y's scale.
         *
         * @param scales floats
         * @return this
         */
        public Args yScale(Memory scales) {
            yScale = scales;
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

        private final long batchCount;
        private final boolean vectorsAreRows;
        private final Granularity kScale;
        private final Granularity xScale;
        private final Granularity bias;
        private final Granularity yScale;
        private final long kScaleElements;
        private final long xScaleBatchStride;
        private final long biasElements;
        private final long yScaleElements;
        private final boolean perCall;
        private final long[] valueElements;
        private final DataType valueType;

        private Plan(long plan, Memory buffer, Problem problem) {
            super("KroneckerMM.Plan", plan, Native::magicubeKroneckerMM_destroyPlan, buffer);
            long features = problem.transpose ? problem.k.cols() : problem.k.rows();
            batchCount = problem.batchCount;
            vectorsAreRows = problem.layout == Layout.BATCH_FIRST;
            kScale = problem.kScale;
            xScale = problem.xScale;
            bias = problem.bias;
            yScale = problem.yScale;
            kScaleElements = elements(kScale, features, 0, problem.kScaleBatchStride);
            xScaleBatchStride = problem.xScaleBatchStride;
            biasElements = elements(bias, features, 0, problem.biasBatchStride);
            yScaleElements = elements(yScale, features, 0, problem.yScaleBatchStride);
            perCall = problem.valueMode == ValueMode.PER_CALL;
            valueElements = new long[problem.k.values.length];
            for (int i = 0; i < valueElements.length; ++i) {
                valueElements[i] = problem.k.elements(i);
            }
            valueType = problem.k.type;
        }

        private long elements(Granularity granularity, long features, long vectors,
                long batchStride) {
            return Shapes.scales(granularity.elements(features, vectors), batchCount, batchStride);
        }

        @Override
        void tell(long plan, magicubePlanInfo_t info) {
            Native.magicubeKroneckerMM_planInfo(plan, info);
        }

        /** Address of a list of values, one array a factor. */
        private long values(Uses uses, List<Memory> values) {
            if (values.size() != valueElements.length) {
                throw new IllegalArgumentException("values has " + values.size()
                        + " entries; the plan has " + valueElements.length + " factors");
            }
            for (int i = 0; i < valueElements.length; ++i) {
                uses.read(values.get(i), "values[" + i + "]", valueElements[i], valueType);
            }
            return KroneckerMatrix.addresses(uses, values.toArray(new Memory[0]));
        }

        /**
         * Packs new values of the same pattern.
         *
         * @param handle of the plan's device; the caller orders it against running executions
         * @param values an array a factor
         * @throws MagicubeException with NOT_SUPPORTED unless the value mode is UPDATABLE
         */
        public void updateValues(Handle handle, List<Memory> values) {
            try (Uses uses = new Uses(handle)) {
                Native.magicubeKroneckerMM_updateValues(uses.handle(), uses.object(this),
                        values(uses, values));
            }
        }

        /**
         * Executes with alpha 1 and beta 0, for a problem that names no arrays.
         *
         * @param handle of the plan's device
         * @param x the vectors
         * @param y written
         */
        public void execute(Handle handle, DenseMatrix x, DenseMatrix y) {
            execute(handle, x, y, null);
        }

        /**
         * Executes.
         *
         * @param handle of the plan's device
         * @param x the vectors, of the plan's type, order and batch; so is y
         * @param y written; read if beta is not 0
         * @param args the rest; null: none
         */
        public void execute(Handle handle, DenseMatrix x, DenseMatrix y, Args args) {
            Args given = args == null ? NONE : args;
            try (Uses uses = new Uses(handle)) {
                long plan = uses.object(this);
                long in = uses.matrix(x, "x");
                long result = uses.output(y, "y");
                long alpha = handle.scalar(uses, 0, given.alpha, given.alphaMemory, "alpha");
                long beta = handle.scalar(uses, 1, given.beta, given.betaMemory, "beta");
                long scratch = uses.scratch(given.workspace, workspaceBytes());
                long vectors = vectorsAreRows ? x.rows : x.cols;
                try (magicubeKroneckerMMArgs_t struct = struct(uses, vectors, given)) {
                    Native.magicubeKroneckerMM(uses.handle(), plan, alpha, in, beta, result, struct,
                            scratch, scratchBytes(given.workspace));
                }
            }
        }

        private magicubeKroneckerMMArgs_t struct(Uses uses, long vectors, Args args) {
            long k = array(uses, args.kScale, "kScale", kScale != Granularity.NONE, kScaleElements,
                    DataType.FP32);
            long x = array(uses, args.xScale, "xScale", xScale != Granularity.NONE,
                    elements(xScale, 0, vectors, xScaleBatchStride), DataType.FP32);
            long summands = array(uses, args.bias, "bias", bias != Granularity.NONE, biasElements,
                    DataType.FP32);
            long y = array(uses, args.yScale, "yScale", yScale != Granularity.NONE, yScaleElements,
                    DataType.FP32);
            if (args.kValues != null && !perCall) {
                throw new IllegalArgumentException(
                        "kValues is given, but the plan's value mode is not PER_CALL");
            }
            long list = args.kValues == null ? 0 : values(uses, args.kValues);
            if ((list | k | x | summands | y) == 0) {
                return null;
            }
            magicubeKroneckerMMArgs_t struct = new magicubeKroneckerMMArgs_t();
            struct.setK_values(list);
            struct.setK_scale(k);
            struct.setX_scale(x);
            struct.setBias(summands);
            struct.setY_scale(y);
            return struct;
        }
    }
}
