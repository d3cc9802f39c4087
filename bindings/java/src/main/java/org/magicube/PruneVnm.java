// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.magicube.internal.Native;
import org.magicube.internal.magicubeCurvature_t;
import org.magicube.internal.magicubeObsSelection_t;
import org.magicube.internal.magicubePruneVnmObsParams_t;
import org.magicube.internal.magicubePruneVnmParams_t;

/**
 * Pruning to V:N:M. The rows of a group of V share a few columns of each group of m (4, or n + 2
 * for n above 3); within these each row keeps n weights of its own. Runs on the CPU in this
 * version.
 */
public final class PruneVnm {
    private PruneVnm() {}

    /** What tells second-order pruning how the loss curves around the weights. */
    public enum Curvature {
        /** Samples x K, inputs of the layer y = W x; may be a batch. */
        INPUTS(magicubeCurvature_t.MAGICUBE_CURVATURE_INPUTS),

        /** K x K: their X^T X, of which the upper triangle is read. */
        HESSIAN(magicubeCurvature_t.MAGICUBE_CURVATURE_HESSIAN),

        /** A batch of R x K: a gradient of the loss a sample. */
        GRADIENTS(magicubeCurvature_t.MAGICUBE_CURVATURE_GRADIENTS);

        final int code;

        Curvature(int code) {
            this.code = code;
        }
    }

    /** Whose correlation second-order pruning looks at. */
    public enum Selection {
        /** That of all weights of a row's group. */
        EXHAUSTIVE(magicubeObsSelection_t.MAGICUBE_OBS_EXHAUSTIVE),

        /** That of the two weights of each pair alone. */
        PAIRWISE(magicubeObsSelection_t.MAGICUBE_OBS_PAIRWISE);

        final int code;

        Selection(int code) {
            this.code = code;
        }
    }

    /**
     * The pattern, with defaults for the rest.
     *
     * @param vectorLength V: 1, 16, 32, 64, 128 or 256
     * @param n weights that a row keeps in a group, 1 to m
     * @param m columns of a group, 4 to 65536
     * @return the options
     */
    public static Options options(int vectorLength, int n, int m) {
        return new Options(vectorLength, n, m);
    }

    /** What to keep, and how it is chosen. */
    public static final class Options {
        private final int vectorLength;
        private final int n;
        private final int m;
        private Prune.Norm norm = Prune.Norm.L2;
        private Curvature curvature = Curvature.INPUTS;
        private Selection selection = Selection.EXHAUSTIVE;
        private double damping = 0.01;
        private int fisherBlock = 16;
        private boolean refit = true;

        private Options(int vectorLength, int n, int m) {
            this.vectorLength = vectorLength;
            this.n = n;
            this.m = m;
        }

        /**
         * Sets how magnitude pruning measures.
         *
         * @param measure L2 until set
         * @return this
         */
        public Options norm(Prune.Norm measure) {
            norm = measure;
            return this;
        }

        /**
         * Sets what the curvature matrix of second-order pruning is.
         *
         * @param kind INPUTS until set
         * @return this
         */
        public Options curvature(Curvature kind) {
            curvature = kind;
            return this;
        }

        /**
         * Sets whose correlation second-order pruning looks at.
         *
         * @param kind EXHAUSTIVE until set
         * @return this
         */
        public Options selection(Selection kind) {
            selection = kind;
            return this;
        }

        /**
         * Sets what is added to the curvature's diagonal, as a part of its mean.
         *
         * @param part finite, at least 0; positive with GRADIENTS; 0.01 until set
         * @return this
         */
        public Options damping(double part) {
            damping = part;
            return this;
        }

        /**
         * Sets the columns of a diagonal block, with GRADIENTS.
         *
         * @param columns 1 to 256; 16 until set
         * @return this
         */
        public Options fisherBlock(int columns) {
            fisherBlock = columns;
            return this;
        }

        /**
         * Sets whether each row is solved anew for its kept weights in the end.
         *
         * @param enabled true until set
         * @return this
         */
        public Options refit(boolean enabled) {
            refit = enabled;
            return this;
        }

        private magicubePruneVnmParams_t magnitude() {
            magicubePruneVnmParams_t struct = new magicubePruneVnmParams_t();
            struct.setVector_length(vectorLength);
            struct.setN(n);
            struct.setM(m);
            struct.setNorm(norm.code);
            return struct;
        }

        private magicubePruneVnmObsParams_t secondOrder() {
            magicubePruneVnmObsParams_t struct = new magicubePruneVnmObsParams_t();
            struct.setVector_length(vectorLength);
            struct.setN(n);
            struct.setM(m);
            struct.setCurvature(curvature.code);
            struct.setSelection(selection.code);
            struct.setDamping(damping);
            struct.setFisher_block(fisherBlock);
            struct.setRefit(refit ? 1 : 0);
            return struct;
        }
    }

    /**
     * Writes which weights to keep by magnitude: 1 where one is kept, 0 elsewhere.
     *
     * @param handle where; its own scratch is used
     * @param weight what to prune, of any type; may be a batch
     * @param options what to keep
     * @param mask uint8, of the same shape and batch
     */
    public static void mask(Handle handle, DenseMatrix weight, Options options, DenseMatrix mask) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle); magicubePruneVnmParams_t params = options.magnitude()) {
            long source = uses.matrix(weight, "weight");
            Native.magicubePruneVnm_bufferSize(uses.handle(), source, params, bytes);
            Native.magicubePruneVnm(uses.handle(), source, params, uses.output(mask, "mask"),
                    uses.scratch(null, bytes[0]), bytes[0]);
        }
    }

    /**
     * Second-order pruning: writes which weights to keep, and the weights that make up for the
     * others.
     *
     * @param handle where; its own scratch is used
     * @param weight what to prune, of a floating type
     * @param curvature as the options say, of a floating type
     * @param options what to keep, and how it is chosen
     * @param mask uint8, of weight's shape
     * @param updated of a floating type and weight's shape: exactly 0 where weights are pruned
     */
    public static void secondOrder(Handle handle, DenseMatrix weight, DenseMatrix curvature,
            Options options, DenseMatrix mask, DenseMatrix updated) {
        long[] bytes = new long[1];
        try (Uses uses = new Uses(handle);
                magicubePruneVnmObsParams_t params = options.secondOrder()) {
            long source = uses.matrix(weight, "weight");
            long curve = uses.matrix(curvature, "curvature");
            Native.magicubePruneVnmObs_bufferSize(uses.handle(), source, curve, params, bytes);
            Native.magicubePruneVnmObs(uses.handle(), source, curve, params,
                    uses.output(mask, "mask"), uses.output(updated, "updated"),
                    uses.scratch(null, bytes[0]), bytes[0]);
        }
    }

    /**
     * The n of each step of pruning step by step: it falls from m in equal ratios.
     *
     * @param m columns of a group
     * @param n of the last step
     * @param steps how many, at least 1
     * @return the n of each
     */
    public static int[] schedule(int m, int n, int steps) {
        Memory schedule = Memory.copyOf(new int[Math.max(steps, 0)]);
        try (Uses uses = new Uses()) {
            Native.magicubeVnmSchedule(m, n, steps, uses.memory(schedule));
        }
        return schedule.toInts();
    }

    /**
     * The share of a weight's sum of squares that a mask keeps.
     *
     * @param handle where
     * @param weight the weight
     * @param mask uint8, of the same shape and batch
     * @return 1 if nothing is lost
     */
    public static double keptEnergy(Handle handle, DenseMatrix weight, DenseMatrix mask) {
        ByteBuffer share = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder());
        try (Uses uses = new Uses(handle)) {
            Native.magicubeKeptEnergy(uses.handle(), uses.matrix(weight, "weight"),
                    uses.matrix(mask, "mask"), uses.memory(Memory.of(share)));
        }
        return share.getDouble(0);
    }
}
