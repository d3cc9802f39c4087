// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/** How many elements and bytes arrays have. Numbers that do not fit a long count as the largest. */
final class Shapes {
    private Shapes() {}

    static long times(long a, long b) {
        return Math.multiplyHigh(a, b) != 0 || a * b < 0 ? Long.MAX_VALUE : a * b;
    }

    static long plus(long a, long b) {
        return a > Long.MAX_VALUE - b ? Long.MAX_VALUE : a + b;
    }

    static long divideUp(long a, long b) {
        return a / b + (a % b == 0 ? 0 : 1);
    }

    static long bytes(long elements, int bits) {
        if (elements < 0) {
            throw new IllegalArgumentException(
                    "elements is " + elements + "; it must be at least 0");
        }
        return bits == 4 ? divideUp(elements, 2) : times(elements, bits / 8);
    }

    /** Reach of count blocks of a length, whose starts are stride apart; 0 if that is empty. */
    static long reach(long count, long stride, long length) {
        return count <= 0 || length <= 0 ? 0 : plus(times(count - 1, stride), length);
    }

    /** Elements of an array of scales: stride 0 means that the batch shares one. */
    static long scales(long each, long batch, long stride) {
        return stride == 0 ? each : reach(batch, stride, each);
    }
}
