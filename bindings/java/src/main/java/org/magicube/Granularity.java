// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeGranularity_t;

/** Which elements share one scale (or, for a bias, one summand). */
public enum Granularity {
    /** There is no such array. */
    NONE(magicubeGranularity_t.MAGICUBE_GRANULARITY_NONE),

    /** One element for the whole matrix. */
    TENSOR(magicubeGranularity_t.MAGICUBE_GRANULARITY_TENSOR),

    /** One element a row. */
    ROW(magicubeGranularity_t.MAGICUBE_GRANULARITY_ROW),

    /** One element a column. */
    COL(magicubeGranularity_t.MAGICUBE_GRANULARITY_COL);

    final int code;

    Granularity(int code) {
        this.code = code;
    }

    /** Elements of the array for one matrix. */
    long elements(long rows, long cols) {
        switch (this) {
            case TENSOR:
                return 1;
            case ROW:
                return rows;
            case COL:
                return cols;
            default:
                return 0;
        }
    }
}
