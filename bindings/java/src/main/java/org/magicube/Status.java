// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeStatus_t;
import org.magicube.internal.Native;

/** What a call came to. */
public enum Status {
    /** It succeeded. */
    SUCCESS(magicubeStatus_t.MAGICUBE_STATUS_SUCCESS),

    /** An argument breaks a documented rule. */
    INVALID_VALUE(magicubeStatus_t.MAGICUBE_STATUS_INVALID_VALUE),

    /** Legal, but nothing here computes it. */
    NOT_SUPPORTED(magicubeStatus_t.MAGICUBE_STATUS_NOT_SUPPORTED),

    /** The library holds no code for this GPU. */
    ARCH_MISMATCH(magicubeStatus_t.MAGICUBE_STATUS_ARCH_MISMATCH),

    /** No such device, or no driver. */
    NO_DEVICE(magicubeStatus_t.MAGICUBE_STATUS_NO_DEVICE),

    /** An address or a plan belongs to another device. */
    DEVICE_MISMATCH(magicubeStatus_t.MAGICUBE_STATUS_DEVICE_MISMATCH),

    /** An address is not aligned as required. */
    MISALIGNED(magicubeStatus_t.MAGICUBE_STATUS_MISALIGNED),

    /** A buffer is smaller than {@code bufferSizes} said. */
    INSUFFICIENT_WORKSPACE(magicubeStatus_t.MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE),

    /** Out of host or device memory. */
    ALLOC_FAILED(magicubeStatus_t.MAGICUBE_STATUS_ALLOC_FAILED),

    /** The CUDA runtime reported an error. */
    CUDA_ERROR(magicubeStatus_t.MAGICUBE_STATUS_CUDA_ERROR),

    /** A defect of the library. */
    INTERNAL_ERROR(magicubeStatus_t.MAGICUBE_STATUS_INTERNAL_ERROR),

    /** Not allowed while the stream is being captured. */
    CAPTURING(magicubeStatus_t.MAGICUBE_STATUS_CAPTURING),

    /** A status that this version does not know; {@link MagicubeException#code} has its number. */
    UNKNOWN(-1);

    final int code;

    Status(int code) {
        this.code = code;
    }

    static Status of(int code) {
        for (Status value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        return UNKNOWN;
    }

    /** {@return the library's name of the status, such as "MAGICUBE_STATUS_NO_DEVICE"} */
    public String nativeName() {
        return Text.read(Native.magicubeGetErrorName(code));
    }

    /** {@return one sentence that says what the status means} */
    public String description() {
        return Text.read(Native.magicubeGetErrorString(code));
    }
}
