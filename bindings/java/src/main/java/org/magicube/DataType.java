// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeDataType_t;
import org.magicube.internal.Native;

/** Type of a matrix element. Integers are two's complement and use their full range. */
public enum DataType {
    /** [-8, 7]; two a byte, the element with the even index in the low nibble. */
    INT4(magicubeDataType_t.MAGICUBE_INT4),

    /** [-128, 127]. */
    INT8(magicubeDataType_t.MAGICUBE_INT8),

    /** [0, 255]: softmax output, left operand of SpMM, masks. */
    UINT8(magicubeDataType_t.MAGICUBE_UINT8),

    /** [-2048, 2047], stored as {@code short}. */
    INT12(magicubeDataType_t.MAGICUBE_INT12),

    /** [-32768, 32767]. */
    INT16(magicubeDataType_t.MAGICUBE_INT16),

    /** {@code int}. */
    INT32(magicubeDataType_t.MAGICUBE_INT32),

    /** IEEE binary16. */
    FP16(magicubeDataType_t.MAGICUBE_FP16),

    /** The upper half of binary32. */
    BF16(magicubeDataType_t.MAGICUBE_BF16),

    /** {@code float}. */
    FP32(magicubeDataType_t.MAGICUBE_FP32),

    /** OCP 8-bit float with 3 bits of mantissa, no infinity; saturates at 448. */
    E4M3(magicubeDataType_t.MAGICUBE_E4M3);

    final int code;

    DataType(int code) {
        this.code = code;
    }

    static DataType of(long code) {
        for (DataType value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells DataType " + code + ", which this version does not know");
    }

    /** {@return the bits that one stored element takes: 4, 8, 16 or 32} */
    public int bits() {
        return Native.magicubeGetDataTypeBits(code);
    }

    /** {@return the library's short name of the type, such as "int8" or "bf16"} */
    public String shortName() {
        return Text.read(Native.magicubeGetDataTypeName(code));
    }

    /**
     * Bytes that a number of elements takes.
     *
     * @param elements how many, at least 0
     * @return the bytes, rounded up to whole ones
     */
    public long bytes(long elements) {
        return Shapes.bytes(elements, width());
    }

    boolean isInteger() {
        return code <= INT32.code;
    }

    /** As bits(), without a call: what every execution asks. */
    int width() {
        switch (this) {
            case INT4:
                return 4;
            case INT8:
            case UINT8:
            case E4M3:
                return 8;
            case INT32:
            case FP32:
                return 32;
            default:
                return 16;
        }
    }
}
