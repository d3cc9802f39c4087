// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeIndexType_t;

/** Width of the offsets of CSR, BSR and SR-BCRS. Column indices are 32 bits wide. */
public enum IndexType {
    /** {@code int}. */
    INT32(magicubeIndexType_t.MAGICUBE_INDEX_32),

    /** {@code long}. */
    INT64(magicubeIndexType_t.MAGICUBE_INDEX_64);

    final int code;

    IndexType(int code) {
        this.code = code;
    }

    static IndexType of(long code) {
        for (IndexType value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells IndexType " + code + ", which this version does not know");
    }

    long bytes() {
        return this == INT32 ? 4 : 8;
    }
}
