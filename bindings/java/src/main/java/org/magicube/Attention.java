// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;
import org.magicube.internal.magicubeAttentionPatterns_t;
import org.magicube.internal.magicubeAttentionProblem_t;
import org.magicube.internal.magicubePlanInfo_t;

/**
 * Attention over a sparse pattern: out = softmax(scale * Q K^T) V, where query i sees the keys that
 * its row of the pattern (Lq x Lk) names, and of those the ones that the causal rule and the key
 * length allow.
 *
 * <p>Q and out are (batch, qHeads, Lq, headDim), K and V are (batch, kvHeads, Lk, headDim); qHeads
 * is a multiple of kvHeads, and query head h reads key head h / (qHeads / kvHeads). Q, K and V are
 * fp32, fp16 or bf16, or int8 or int4 with scales ({@link AttentionScheme}), all of one type; out
 * is fp32, fp16 or bf16. A query without an allowed key gets
 * zeros and log-sum-exp -infinity.
 */
public final class Attention {
    private Attention() {}

    /** Which heads share a pattern of the pattern's batch. */
    public enum Patterns {
        /** One for all. */
        SHARED(magicubeAttentionPatterns_t.MAGICUBE_PATTERNS_SHARED),

        /** qHeads of them: head h has pattern h. */
        HEAD(magicubeAttentionPatterns_t.MAGICUBE_PATTERNS_HEAD),

        /** One a matrix of the batch. */
        BATCH(magicubeAttentionPatterns_t.MAGICUBE_PATTERNS_BATCH),

        /** Head h of matrix b has pattern b * qHeads + h. */
        BATCH_HEAD(magicubeAttentionPatterns_t.MAGICUBE_PATTERNS_BATCH_HEAD);

        final int code;

        Patterns(int code) {
            this.code = code;
        }
    }

    /**
     * Where element (b, h, i, d) of Q, K, V or out lies: at b * batch + h * head + i * row + d, in
     * elements.
     *
     * @param batch 0: one for the whole batch (not for out); so for head
     * @param head between heads
     * @param row between queries or keys, at least headDim
     */
    public record Strides(long batch, long head, long row) {}

    /**
     * Names of the implementations of a device, the reference last.
     *
     * @param device where
     * @return the names that Problem.implementation takes
     */
    public static List<String> implementations(Device device) {
        return Plan.list(Native::magicubeAttention_listImplementations, device);
    }

    /**
     * A problem with one matrix, one head of dimension 64, all of fp16, not causal.
     *
     * @param pattern SR-BCRS or CSR, Lq x Lk; its values are not looked at
     * @return the problem
     */
    public static Problem problem(SparseMatrix pattern) {
        return new Problem(pattern);
    }

    /** What a plan is made for. */
    public static final class Problem extends org.magicube.Problem<Problem, Plan> {
        private final SparseMatrix pattern;
        private Patterns patterns = Patterns.SHARED;
        private DataType inType = DataType.FP16;
        private DataType outType = DataType.FP16;
        private long batchCount = 1;
        private long qHeads = 1;
        private long kvHeads = 1;
        private long headDim = 64;
        private boolean causal;
        private long causalOffset;
        private boolean causalOffsets;
        private boolean keyLengths;
        private boolean logSumExp;
        private AttentionScheme scheme = AttentionScheme.FLOATS;

        private Problem(SparseMatrix pattern) {
            this.pattern = Objects.requireNonNull(pattern, "pattern");
        }

        /**
         * Sets which heads share a pattern.
         *
         * @param sharing SHARED until set
         * @return this
         */
        public Problem patterns(Patterns sharing) {
            patterns = sharing;
            return this;
        }

        /**
         * Sets the types.
         *
         * @param in of Q, K and V
         * @param out of out
         * @return this
         */
        public Problem types(DataType in, DataType out) {
            inType = in;
            outType = out;
            return this;
        }

        /**
         * Sets the batch.
         *
         * @param count number of matrices, at least 0
         * @return this
         */
        public Problem batch(long count) {
            batchCount = count;
            return this;
        }

        /**
         * Sets the heads.
         *
         * @param queries number of query heads, a multiple of keys
         * @param keys number of key heads
         * @param dim elements of a head's vector
         * @return this
         */
        public Problem heads(long queries, long keys, long dim) {
            qHeads = queries;
            kvHeads = keys;
            headDim = dim;
            return this;
        }

        /**
         * Lets query i see no key behind i + offset (plus the execution's, if it brings some).
         *
         * @param enabled false until set
         * @param offset how far ahead queries see
         * @return this
         */
        public Problem causal(boolean enabled, long offset) {
            causal = enabled;
            causalOffset = offset;
            return this;
        }

        /**
         * Sets whether executions bring a causal offset a matrix of the batch.
         *
         * @param brought false until set
         * @return this
         */
        public Problem causalOffsets(boolean brought) {
            causalOffsets = brought;
            return this;
        }

        /**
         * Sets whether executions bring a number of keys a matrix of the batch.
         *
         * @param brought false until set
         * @return this
         */
        public Problem keyLengths(boolean brought) {
            keyLengths = brought;
            return this;
        }

        /**
         * Sets whether the log-sum-exp is written as well.
         *
         * @param written false until set
         * @return this
         */
        public Problem logSumExp(boolean written) {
            logSumExp = written;
            return this;
        }

        /**
         * Sets how Q, K and V of INT8 or INT4 are computed with.
         *
         * @param integers FLOATS until set, for other types
         * @return this
         */
        public Problem scheme(AttentionScheme integers) {
            scheme = Objects.requireNonNull(integers, "integers");
            return this;
        }

        @Override
        Problem self() {
            return this;
        }

        private magicubeAttentionProblem_t struct(long matrix, long name) {
            magicubeAttentionProblem_t struct = new magicubeAttentionProblem_t();
            struct.setPattern(matrix);
            struct.setPatterns(patterns.code);
            struct.setIn_type(inType.code);
            struct.setOut_type(outType.code);
            struct.setBatch_count(batchCount);
            struct.setQ_heads(qHeads);
            struct.setKv_heads(kvHeads);
            struct.setHead_dim(headDim);
            struct.setCausal(causal ? 1 : 0);
            struct.setCausal_offset(causalOffset);
            struct.setCausal_offsets(causalOffsets ? 1 : 0);
            struct.setKey_lengths(keyLengths ? 1 : 0);
            struct.setLog_sum_exp(logSumExp ? 1 : 0);
            struct.setImplementation(name);
            scheme.fill(struct);
            return struct;
        }

        @Override
        Prepared<?, Plan> prepare(Uses uses) {
            return new Prepared<>(struct(uses.matrix(pattern, "pattern"), name(uses)),
                    Native::magicubeAttention_isSupported, Native::magicubeAttention_bufferSize,
                    Native::magicubeAttention_createPlan,
                    (address, buffer) -> new Plan(address, buffer, this));
        }
    }

    /** {@return arguments of an execution, none of them set} */
    public static Args args() {
        return new Args();
    }

    /** What one execution brings beside Q, K, V and out; what the problem names is required. */
    public static final class Args extends org.magicube.Args<Args> {
        private Float scale;
        private Memory scaleMemory;
        Strides qStrides;
        Strides kStrides;
        Strides vStrides;
        Strides outStrides;
        Memory causalOffsets;
        Memory keyLengths;
        Memory logSumExp;
        Memory qScale;
        Memory kScale;
        Memory vScale;

        private Args() {}

        /**
         * Sets the factor of scores.
         *
         * @param value 1 / sqrt(headDim) until set
         * @return this
         */
        public Args scale(float value) {
            scale = value;
            return this;
        }

        /**
         * Sets the factor of scores, read as the handle's pointer mode says.
         *
         * @param value one float
         * @return this
         */
        public Args scale(Memory value) {
            scaleMemory = value;
            return this;
        }

        /**
         * Sets where the elements of Q lie.
         *
         * @param strides null: without gaps
         * @return this
         */
        public Args qStrides(Strides strides) {
            qStrides = strides;
            return this;
        }

        /**
         * Sets where the elements of K lie.
         *
         * @param strides null: without gaps
         * @return this
         */
        public Args kStrides(Strides strides) {
            kStrides = strides;
            return this;
        }

        /**
         * Sets where the elements of V lie.
         *
         * @param strides null: without gaps
         * @return this
         */
        public Args vStrides(Strides strides) {
            vStrides = strides;
            return this;
        }

        /**
         * Sets where the elements of out lie.
         *
         * @param strides null: without gaps
         * @return this
         */
        public Args outStrides(Strides strides) {
            outStrides = strides;
            return this;
        }

        /**
         * Sets the causal offsets.
         *
         * @param offsets a long a matrix of the batch
         * @return this
         */
        public Args causalOffsets(Memory offsets) {
            causalOffsets = offsets;
            return this;
        }

        /**
         * Sets how many keys there are.
         *
         * @param lengths a long a matrix of the batch, in [0, Lk]
         * @return this
         */
        public Args keyLengths(Memory lengths) {
            keyLengths = lengths;
            return this;
        }

        /**
         * Sets where the log-sum-exp is written.
         *
         * @param result floats, (batch, qHeads, Lq) without gaps, natural logarithm
         * @return this
         */
        public Args logSumExp(Memory result) {
            logSumExp = result;
            return this;
        }

        /**
         * Sets the scales of integers in Q, K and V: floats without gaps, null where there is none.
         *
         * @param q one, or (batch, qHeads, Lq)
         * @param k one, or (batch, kvHeads, Lk)
         * @param v one, or (batch, kvHeads, headDim)
         * @return this
         */
        public Args scales(Memory q, Memory k, Memory v) {
            qScale = q;
            kScale = k;
            vScale = v;
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

        final long queries;
        final long keys;
        final DataType inType;
        final DataType outType;
        final long batchCount;
        final long qHeads;
        final long kvHeads;
        final long headDim;
        final boolean causalOffsets;
        final boolean keyLengths;
        final boolean logSumExp;
        final AttentionScheme scheme;

        private Plan(long plan, Memory buffer, Problem problem) {
            super("Attention.Plan", plan, Native::magicubeAttention_destroyPlan, buffer);
            queries = problem.pattern.rows;
            keys = problem.pattern.cols;
            inType = problem.inType;
            outType = problem.outType;
            batchCount = problem.batchCount;
            qHeads = problem.qHeads;
            kvHeads = problem.kvHeads;
            headDim = problem.headDim;
            causalOffsets = problem.causalOffsets;
            keyLengths = problem.keyLengths;
            logSumExp = problem.logSumExp;
            scheme = problem.scheme;
        }

        @Override
        void tell(long plan, magicubePlanInfo_t info) {
            Native.magicubeAttention_planInfo(plan, info);
        }

        /**
         * Executes with the usual scale, for arrays without gaps and a problem that names none.
         *
         * @param handle of the plan's device
         * @param q queries
         * @param k keys
         * @param v values
         * @param out written
         */
        public void execute(Handle handle, Memory q, Memory k, Memory v, Memory out) {
            execute(handle, q, k, v, out, null);
        }

        /**
         * Executes. On CUDA, in the order of the handle's stream, and without waiting.
         *
         * @param handle of the plan's device
         * @param q queries
         * @param k keys
         * @param v values
         * @param out written; shares no memory with an input
         * @param args the rest; null: none
         */
        public void execute(Handle handle, Memory q, Memory k, Memory v, Memory out, Args args) {
            Args given = args == null ? NONE : args;
            try (Uses uses = new Uses(handle)) {
                long plan = uses.object(this);
                long qElements = elements(inType, given.qStrides, qHeads, queries);
                long inQ = uses.read(q, "q", qElements, inType);
                long kElements = elements(inType, given.kStrides, kvHeads, keys);
                long inK = uses.read(k, "k", kElements, inType);
                long vElements = elements(inType, given.vStrides, kvHeads, keys);
                long inV = uses.read(v, "v", vElements, inType);
                long outElements = elements(outType, given.outStrides, qHeads, queries);
                long result = uses.write(out, "out", outElements, outType);
                long scale = handle.scalar(uses, 0, given.scale, given.scaleMemory, "scale");
                long scratch = uses.scratch(given.workspace, workspaceBytes());
                try (AttentionArrays struct = new AttentionArrays(uses, this, given)) {
                    Native.magicubeAttention(uses.handle(), plan, scale, inQ, inK, inV, result,
                            struct.args, scratch, scratchBytes(given.workspace));
                }
            }
        }

        private long elements(DataType type, Strides strides, long heads, long length) {
            if (batchCount <= 0 || heads <= 0 || length <= 0) {
                return 0;
            }
            if (strides == null) {
                long row = type == DataType.INT4 ? headDim + headDim % 2 : headDim; // whole bytes
                return Shapes.times(Shapes.times(batchCount, heads), Shapes.times(length, row));
            }
            if (strides.batch() < 0 || strides.head() < 0 || strides.row() < 0) {
                return 0; // which the library refuses, telling the rule
            }
            long head = Shapes.reach(length, strides.row(), headDim);
            return Shapes.reach(batchCount, strides.batch(),
                    Shapes.reach(heads, strides.head(), head));
        }
    }
}
