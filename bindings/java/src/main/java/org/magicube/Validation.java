// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeValidation_t;

/** How much a handle's calls check. */
public enum Validation {
    /** Sizes, types and addresses. The contents of index arrays are trusted: wrong ones may end the
     * process. */
    BASIC(magicubeValidation_t.MAGICUBE_VALIDATION_BASIC),

    /** On the CPU also index arrays, scales and values; on CUDA index arrays in conversions. */
    FULL(magicubeValidation_t.MAGICUBE_VALIDATION_FULL);

    final int code;

    Validation(int code) {
        this.code = code;
    }

    static Validation of(long code) {
        for (Validation value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells Validation " + code + ", which this version does not know");
    }
}
