// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.nio.charset.StandardCharsets;

/** A call of the library failed; the message names the function, the argument and the rule. */
public final class MagicubeException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The number of the status. */
    private final int code;

    /** Called by the JNI library. */
    private MagicubeException(int code, byte[] message) {
        super(new String(message, StandardCharsets.UTF_8));
        this.code = code;
    }

    /** {@return what went wrong; UNKNOWN if this version does not know the number} */
    public Status status() {
        return Status.of(code);
    }

    /** {@return the number of the status, as the library tells it} */
    public int code() {
        return code;
    }
}
