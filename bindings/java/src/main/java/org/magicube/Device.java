// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeDevice_t;
import org.magicube.internal.magicubeDeviceInfo_t;
import org.magicube.internal.Native;

/** Where data lies and operations run. Always named, never guessed. */
public enum Device {
    /** Host memory and the host's processors. */
    CPU(magicubeDevice_t.MAGICUBE_DEVICE_CPU),

    /** An NVIDIA GPU. */
    CUDA(magicubeDevice_t.MAGICUBE_DEVICE_CUDA);

    final int code;

    Device(int code) {
        this.code = code;
    }

    static Device of(long code) {
        for (Device value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells Device " + code + ", which this version does not know");
    }

    /**
     * Number of devices of this kind.
     *
     * @return 1 for the CPU; for CUDA 0 where there is no GPU, no driver or no CUDA in this build
     */
    public int count() {
        long[] count = new long[1];
        Native.magicubeGetDeviceCount(code, count);
        return (int) count[0];
    }

    /**
     * Describes one device.
     *
     * @param ordinal which device of the kind, from 0
     * @return its name, size and abilities
     * @throws MagicubeException with NO_DEVICE if there is none with this ordinal
     */
    public DeviceInfo info(int ordinal) {
        try (magicubeDeviceInfo_t info = new magicubeDeviceInfo_t()) {
            Native.magicubeGetDeviceInfo(code, ordinal, info);
            return new DeviceInfo(info.getName(), info.getCompute_capability(),
                    info.getMultiprocessors(), info.getMemory_bytes(), info.getSupported() != 0);
        }
    }
}
