// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;
import org.magicube.internal.magicubePruneNorm_t;
import org.magicube.internal.magicubePruneParams_t;
import org.magicube.internal.magicubePruneScope_t;

/**
 * Magnitude pruning of column vectors of V scalars: those with the largest norm are kept, ties by
 * lowest index (block row first, then column).
 */
public final class Prune {
    private Prune() {}

    /** How the length of a vector is measured. */
    public enum Norm {
        /** Root of the sum of squares. */
        L2(magicubePruneNorm_t.MAGICUBE_NORM_L2),

        /** Sum of magnitudes. */
        L1(magicubePruneNorm_t.MAGICUBE_NORM_L1);

        final int code;

        Norm(int code) {
            this.code = code;
        }
    }

    /** Which vectors compete. */
    public enum Scope {
        /** Those of the whole matrix. */
        MATRIX(magicubePruneScope_t.MAGICUBE_PRUNE_PER_MATRIX),

        /** Those of a block row, each of which keeps the same number. */
        ROW(magicubePruneScope_t.MAGICUBE_PRUNE_PER_ROW);

        final int code;

        Scope(int code) {
            this.code = code;
        }
    }

    /** {@return options: vectors of 8, the whole matrix competes by L2 norm, none is dropped} */
    public static Options options() {
        return new Options();
    }

    /** What to keep. */
    public static final class Options {
        private int vectorLength = 8;
        private Scope scope = Scope.MATRIX;
        private Norm norm = Norm.L2;
        private double sparsity;
        private long keep = -1;

        private Options() {}

        /**
         * Sets V.
         *
         * @param length 1, 2, 4, 8, 16, 32 or 64
         * @return this
         */
        public Options vectorLength(int length) {
            vectorLength = length;
            return this;
        }

        /**
         * Sets which vectors compete.
         *
         * @param competing MATRIX until set
         * @return this
         */
        public Options scope(Scope competing) {
            scope = competing;
            return this;
        }

        /**
         * Sets how the length of a vector is measured.
         *
         * @param measure L2 until set
         * @return this
         */
        public Options norm(Norm measure) {
            norm = measure;
            return this;
        }

        /**
         * Sets the part that is dropped: of a scope's n vectors, floor(sparsity * n + 0.5).
         *
         * @param part in [0, 1]
         * @return this
         */
        public Options sparsity(double part) {
            sparsity = part;
            return this;
        }

        /**
         * Sets how many vectors a scope keeps, whatever the sparsity.
         *
         * @param vectors at least 0; -1: as the sparsity says
         * @return this
         */
        public Options keep(long vectors) {
            keep = vectors;
            return this;
        }

        private magicubePruneParams_t struct() {
            magicubePruneParams_t struct = new magicubePruneParams_t();
            struct.setVector_length(vectorLength);
            struct.setScope(scope.code);
            struct.setNorm(norm.code);
            struct.setSparsity(sparsity);
            struct.setKeep(keep);
            return struct;
        }
    }

    /**
     * Tells the scratch that pruning needs.
     *
     * @param handle where
     * @param weight what to prune
     * @param options what to keep
     * @return bytes
     */
    public static long bufferSize(Handle handle, DenseMatrix weight, Options options) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle); magicubePruneParams_t params = options.struct()) {
            Native.magicubePrune_bufferSize(uses.handle(), uses.matrix(weight, "weight"), params,
                    bytes);
        }
        return bytes[0];
    }

    /**
     * Writes which elements to keep: 1 in every element of a kept vector, 0 elsewhere.
     *
     * @param handle where; its own scratch is used
     * @param weight what to prune, of any type; each matrix of a batch for itself
     * @param options what to keep
     * @param mask uint8, of the same shape and batch; shares no memory with weight
     */
    public static void mask(Handle handle, DenseMatrix weight, Options options, DenseMatrix mask) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle); magicubePruneParams_t params = options.struct()) {
            long source = uses.matrix(weight, "weight");
            Native.magicubePrune_bufferSize(uses.handle(), source, params, bytes);
            Native.magicubePrune(uses.handle(), source, params, uses.output(mask, "mask"),
                    uses.scratch(null, bytes[0]), bytes[0]);
        }
    }
}
