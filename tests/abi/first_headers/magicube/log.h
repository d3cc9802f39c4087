/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging, off until asked for. The environment sets it for a process that cannot call these
 * functions: MAGICUBE_LOG_LEVEL = off | error | warn | info | debug     (to stderr)
 *   MAGICUBE_VERBOSE   = dispatch    why each implementation declined, and how the others ranked
 *                        bench       the benchmark command that reproduces each plan
 *                        (several separated by commas; each is written to the log whatever its
 * level)
 */
#ifndef MAGICUBE_LOG_H
#define MAGICUBE_LOG_H

#include "magicube/status.h"
#include "magicube/types.h"

typedef enum magicubeLogLevel {
    MAGICUBE_LOG_OFF = 0,
    MAGICUBE_LOG_ERROR = 1,
    MAGICUBE_LOG_WARN = 2,
    MAGICUBE_LOG_INFO = 3,
    MAGICUBE_LOG_DEBUG = 4
} magicubeLogLevel_t;

/*
 * Receives one message, a line without its end. It may be called from any thread, one message at a
 * time, and must not call back into the library. The message is valid during the call.
 */
typedef void (*magicubeLogCallback_t)(magicubeLogLevel_t level, const char* message,
                                      void* user_data);

/* Most detailed level that is reported, for the whole process. */
MAGICUBE_API
magicubeStatus_t magicubeSetLogLevel(magicubeLogLevel_t level) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetLogLevel(magicubeLogLevel_t* level) MAGICUBE_NOEXCEPT;

/* Sends messages to a function; null restores the file, or stderr. */
MAGICUBE_API
magicubeStatus_t magicubeSetLogCallback(magicubeLogCallback_t callback,
                                        void* user_data) MAGICUBE_NOEXCEPT;

/* Appends messages to a file; null restores stderr. INVALID_VALUE if the file cannot be opened. */
MAGICUBE_API
magicubeStatus_t magicubeSetLogFile(const char* path) MAGICUBE_NOEXCEPT;

#endif
