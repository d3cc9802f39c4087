// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeActivation_t;

/** Activation of an epilogue. */
public enum Activation {
    /** The identity. */
    NONE(magicubeActivation_t.MAGICUBE_ACTIVATION_NONE),

    /** max(x, 0). */
    RELU(magicubeActivation_t.MAGICUBE_ACTIVATION_RELU),

    /** x * (1 + erf(x / sqrt(2))) / 2. */
    GELU(magicubeActivation_t.MAGICUBE_ACTIVATION_GELU);

    final int code;

    Activation(int code) {
        this.code = code;
    }
}
