// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeSparseFormat_t;

/** Storage format of a sparse matrix. */
public enum SparseFormat {
    /** Compressed sparse rows. */
    CSR(magicubeSparseFormat_t.MAGICUBE_FORMAT_CSR),

    /** Block compressed sparse rows. */
    BSR(magicubeSparseFormat_t.MAGICUBE_FORMAT_BSR),

    /** Strided row-major block compressed rows: column vectors of V scalars. */
    SR_BCRS(magicubeSparseFormat_t.MAGICUBE_FORMAT_SR_BCRS),

    /** V:N:M: n elements of every M columns, in columns that V rows share. */
    VNM(magicubeSparseFormat_t.MAGICUBE_FORMAT_VNM);

    final int code;

    SparseFormat(int code) {
        this.code = code;
    }

    static SparseFormat of(long code) {
        for (SparseFormat value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells SparseFormat " + code + ", which this version does not know");
    }
}
