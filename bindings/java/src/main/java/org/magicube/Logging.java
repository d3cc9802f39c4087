// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Reference;
import java.nio.file.Path;
import org.magicube.internal.LogBridge;
import org.magicube.internal.Native;

/**
 * The library's log, off until asked for; settings are the process's. The environment sets it too:
 * MAGICUBE_LOG_LEVEL, MAGICUBE_VERBOSE.
 */
public final class Logging {
    private Logging() {}

    /** Receives messages, one at a time, on a thread of its own: it may call the library. */
    @FunctionalInterface
    public interface Listener {
        /**
         * Receives one message.
         *
         * @param level how grave it is
         * @param message a line without its end
         */
        void message(LogLevel level, String message);
    }

    /**
     * Sets the most detailed level that is reported.
     *
     * @param level OFF until set
     */
    public static void setLevel(LogLevel level) {
        Native.magicubeSetLogLevel(level.code);
    }

    /** {@return the most detailed level that is reported} */
    public static LogLevel level() {
        long[] level = new long[1];
        Native.magicubeGetLogLevel(level);
        return LogLevel.of(level[0]);
    }

    /**
     * Appends messages to a file.
     *
     * @param path the file; null: stderr again
     */
    public static void setFile(Path path) {
        Memory name = Text.write(path == null ? null : path.toString());
        try {
            Native.magicubeSetLogFile(name == null ? 0 : name.address);
        } finally {
            Reference.reachabilityFence(name);
        }
    }

    /**
     * Sends messages to a listener. What was reported before is delivered to the listener before
     * it when this returns, unless that one calls this.
     *
     * @param listener who; null: the file again, or stderr. Exceptions that it throws are dropped
     */
    public static void setListener(Listener listener) {
        Thread before;
        synchronized (Logging.class) {
            if (listener == null) {
                Native.magicubeSetLogCallback(false);
                before = LogBridge.deliverTo(null);
            } else {
                before = LogBridge.deliverTo(
                        (level, message) -> listener.message(LogLevel.of(level), message));
                Native.magicubeSetLogCallback(true);
            }
        }
        LogBridge.await(before); // without a lock: its listener may call this
    }
}
