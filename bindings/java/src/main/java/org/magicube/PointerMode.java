// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubePointerMode_t;

/** Where a handle's calls read alpha and beta. */
public enum PointerMode {
    /** In host memory, read by the call. */
    HOST(magicubePointerMode_t.MAGICUBE_POINTER_MODE_HOST),

    /** On the handle's device. */
    DEVICE(magicubePointerMode_t.MAGICUBE_POINTER_MODE_DEVICE);

    final int code;

    PointerMode(int code) {
        this.code = code;
    }

    static PointerMode of(long code) {
        for (PointerMode value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells PointerMode " + code + ", which this version does not know");
    }
}
