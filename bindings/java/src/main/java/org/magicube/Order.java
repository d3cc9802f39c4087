// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeOrder_t;

/** Storage order of a dense matrix. */
public enum Order {
    /** Element (i, j) lies at i * ld + j. */
    ROW(magicubeOrder_t.MAGICUBE_ORDER_ROW),

    /** Element (i, j) lies at j * ld + i. */
    COL(magicubeOrder_t.MAGICUBE_ORDER_COL);

    final int code;

    Order(int code) {
        this.code = code;
    }

    static Order of(long code) {
        for (Order value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells Order " + code + ", which this version does not know");
    }
}
