// SPDX-License-Identifier: Apache-2.0
// Whether code writes to stdout or stderr.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace support {

// Bytes that `call` writes to the two standard streams, which go to a file meanwhile.
template <class Call>
long bytes_printed(const Call& call) {
    std::fflush(nullptr);
    std::FILE* file = std::tmpfile();
    if (!file) std::abort();
    const int saved[] = {dup(1), dup(2)};
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    call();
    std::fflush(nullptr);
    dup2(saved[0], 1);
    dup2(saved[1], 2);
    close(saved[0]);
    close(saved[1]);
    const long bytes = lseek(fileno(file), 0, SEEK_END);
    std::fclose(file);
    return bytes;
}

}  // namespace support
