// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeValueMode_t;

/** How a plan treats the values of its sparse operand. */
public enum ValueMode {
    /** Packed when the plan is made; the arrays may then be closed. */
    FIXED(magicubeValueMode_t.MAGICUBE_VALUES_FIXED),

    /** As FIXED, and {@code updateValues} packs new values. */
    UPDATABLE(magicubeValueMode_t.MAGICUBE_VALUES_UPDATABLE),

    /** Each execution reads values given in the public layout. */
    PER_CALL(magicubeValueMode_t.MAGICUBE_VALUES_PER_CALL);

    final int code;

    ValueMode(int code) {
        this.code = code;
    }
}
