// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.magicube.internal.Native;

/** Strings between Java and C. */
final class Text {
    private Text() {}

    /** The string at an address; empty for 0. */
    static String read(long address) {
        return new String((byte[]) Native.string_bytes(address), StandardCharsets.UTF_8);
    }

    /** A nul-terminated copy for C, which lives as long as the buffer; null stays null. */
    static Memory write(String text) {
        if (text == null) {
            return null;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuffer copy = ByteBuffer.allocateDirect(bytes.length + 1);
        copy.put(bytes).rewind();
        return Memory.of(copy);
    }
}
