// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeLogLevel_t;

/** How detailed the log is. */
public enum LogLevel {
    /** Nothing. */
    OFF(magicubeLogLevel_t.MAGICUBE_LOG_OFF),

    /** Calls that failed. */
    ERROR(magicubeLogLevel_t.MAGICUBE_LOG_ERROR),

    /** Also what is likely a mistake. */
    WARN(magicubeLogLevel_t.MAGICUBE_LOG_WARN),

    /** Also choices. */
    INFO(magicubeLogLevel_t.MAGICUBE_LOG_INFO),

    /** Everything. */
    DEBUG(magicubeLogLevel_t.MAGICUBE_LOG_DEBUG);

    final int code;

    LogLevel(int code) {
        this.code = code;
    }

    static LogLevel of(long code) {
        for (LogLevel value : values()) {
            if (value.code == code) {
                return value;
            }
        }
        throw new IllegalStateException(
                "the library tells LogLevel " + code + ", which this version does not know");
    }
}
