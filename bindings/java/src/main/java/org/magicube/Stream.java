// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/** A CUDA stream that does not wait for the default stream. */
public final class Stream extends NativeObject {
    private Stream(int device, int ordinal, long address) {
        super(new Lifetime("Stream", address,
                stream -> Native.magicubeStreamDestroy(device, ordinal, stream)));
    }

    /**
     * Makes a stream.
     *
     * @param device where; the CPU has no streams
     * @param ordinal which device of the kind, from 0
     * @return the stream
     * @throws MagicubeException with NOT_SUPPORTED for the CPU, NO_DEVICE without a GPU
     */
    public static Stream create(Device device, int ordinal) {
        long[] stream = new long[1];
        Native.magicubeStreamCreate(device.code, ordinal, stream);
        return new Stream(device.code, ordinal, stream[0]);
    }
}
