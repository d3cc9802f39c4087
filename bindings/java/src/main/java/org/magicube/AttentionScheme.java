// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.Objects;
import org.magicube.internal.magicubeAttentionProblem_t;

/**
 * How attention computes with Q, K and V of integers: to how many bits the softmax is rounded, and
 * what shares a scale.
 *
 * @param probabilityBits 16 or 8 for INT8, 8 or 4 for INT4; 0 for other types
 * @param qScale NONE, TENSOR or ROW (one a query)
 * @param kScale NONE, TENSOR or ROW (one a key)
 * @param vScale NONE, TENSOR or COL (one a feature)
 */
public record AttentionScheme(int probabilityBits, Granularity qScale, Granularity kScale,
        Granularity vScale) {
    /** Of Q, K and V that are no integers. */
    public static final AttentionScheme FLOATS =
            new AttentionScheme(0, Granularity.NONE, Granularity.NONE, Granularity.NONE);

    /**
     * Checks that nothing is null.
     *
     * @param probabilityBits 16 or 8 for INT8, 8 or 4 for INT4; 0 for other types
     * @param qScale NONE, TENSOR or ROW (one a query)
     * @param kScale NONE, TENSOR or ROW (one a key)
     * @param vScale NONE, TENSOR or COL (one a feature)
     */
    public AttentionScheme {
        Objects.requireNonNull(qScale, "qScale");
        Objects.requireNonNull(kScale, "kScale");
        Objects.requireNonNull(vScale, "vScale");
    }

    void fill(magicubeAttentionProblem_t struct) {
        struct.setProbability_bits(probabilityBits);
        struct.setQ_scale(qScale.code);
        struct.setK_scale(kScale.code);
        struct.setV_scale(vScale.code);
    }
}
