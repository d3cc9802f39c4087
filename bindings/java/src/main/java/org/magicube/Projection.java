// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.magicube.internal.Native;
import org.magicube.internal.magicubeProjectionParams_t;
import org.magicube.internal.magicubeProjectionReport_t;
import org.magicube.internal.magicubeProjectionWeighting_t;

/**
 * Projection of a dense matrix onto products of sparse factors of given supports: the nearest
 * product, by truncated singular value decompositions in fp64. Runs on the CPU.
 */
public final class Projection {
    private Projection() {}

    /** How much the error of each column counts. */
    public static final class Weighting {
        private final int code;
        private final DenseMatrix weights;

        private Weighting(int code, DenseMatrix weights) {
            this.code = code;
            this.weights = weights;
        }

        /** {@return all columns the same} */
        public static Weighting even() {
            return new Weighting(magicubeProjectionWeighting_t.MAGICUBE_WEIGHTING_NONE, null);
        }

        /**
         * Weighs each column with a number.
         *
         * @param weights one row, positive
         * @return the weighting
         */
        public static Weighting columns(DenseMatrix weights) {
            return new Weighting(magicubeProjectionWeighting_t.MAGICUBE_WEIGHTING_COLUMNS,
                    weights);
        }

        /**
         * Weighs each column with the root mean square of its feature.
         *
         * @param samples inputs of the layer y = W x, one a row; may be a batch
         * @return the weighting
         */
        public static Weighting activations(DenseMatrix samples) {
            return new Weighting(magicubeProjectionWeighting_t.MAGICUBE_WEIGHTING_ACTIVATIONS,
                    samples);
        }

        private magicubeProjectionParams_t params() {
            magicubeProjectionParams_t params = new magicubeProjectionParams_t();
            params.setWeighting(code);
            return params;
        }
    }

    /**
     * How near a projection is. Norms are Frobenius norms of columns times weights, in fp64, before
     * factors are rounded to their type.
     *
     * @param error of the matrix minus the product
     * @param norm of the matrix
     * @param relativeError error / norm; 0 for a matrix of zeros
     * @param leastError no product of these supports has a smaller error than this
     * @param bound the error is not above this: sqrt(splits) leastError
     * @param stepErrors what each split loses; their squares add up to that of the error
     */
    public record Report(double error, double norm, double relativeError, double leastError,
            double bound, double[] stepErrors) {}

    private static Report read(magicubeProjectionReport_t report, double[] stepErrors) {
        return new Report(report.getError(), report.getNorm(), report.getRelative_error(),
                report.getLeast_error(), report.getBound(), stepErrors);
    }

    /**
     * Writes the values of a chain near a matrix. Two factors are the best there are, L factors
     * within sqrt(L - 1) of them.
     *
     * @param handle where
     * @param weight the matrix, of any type, finite
     * @param weighting how much the error of each column counts
     * @param chain of a floating type, whose neighbours are all chainable; written
     * @return how near it is
     */
    public static Report chain(Handle handle, DenseMatrix weight, Weighting weighting,
            KroneckerMatrix chain) {
        double[] stepErrors = new double[Math.max(chain.values.length - 1, 1)];
        ByteBuffer steps = ByteBuffer.allocateDirect(8 * stepErrors.length)
                .order(ByteOrder.nativeOrder());
        try (Uses uses = new Uses(handle);
                magicubeProjectionParams_t params = weighting.params();
                magicubeProjectionReport_t report = new magicubeProjectionReport_t()) {
            Native.magicubeProjectChain(uses.handle(), uses.matrix(weight, "weight"),
                    uses.matrix(weighting.weights, "weights"), params,
                    KroneckerMatrix.write(uses, chain, "chain"), report,
                    uses.memory(Memory.of(steps)));
            steps.asDoubleBuffer().get(stepErrors);
            return read(report, stepErrors);
        }
    }

    /**
     * Writes the best two factors of any two supports near a matrix. Column k of the left support
     * and row k of the right one span a rectangle; any two of these are disjoint or the same.
     *
     * @param handle where
     * @param weight the matrix, of any type, finite
     * @param weighting how much the error of each column counts
     * @param leftSupport uint8, not 0 where an element may be
     * @param rightSupport uint8, with as many rows as leftSupport has columns
     * @param left of a floating type and leftSupport's shape, written
     * @param right of a floating type and rightSupport's shape, written
     * @return how near the product is
     */
    public static Report supports(Handle handle, DenseMatrix weight, Weighting weighting,
            DenseMatrix leftSupport, DenseMatrix rightSupport, DenseMatrix left,
            DenseMatrix right) {
        try (Uses uses = new Uses(handle);
                magicubeProjectionParams_t params = weighting.params();
                magicubeProjectionReport_t report = new magicubeProjectionReport_t()) {
            Native.magicubeProjectSupports(uses.handle(), uses.matrix(weight, "weight"),
                    uses.matrix(weighting.weights, "weights"), params,
                    uses.matrix(leftSupport, "leftSupport"),
                    uses.matrix(rightSupport, "rightSupport"), uses.output(left, "left"),
                    uses.output(right, "right"), report);
            return read(report, new double[] {report.getError()});
        }
    }
}
