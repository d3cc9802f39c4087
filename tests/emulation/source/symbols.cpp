// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "source/memory.hpp"

namespace emulated {

std::string name_of(const void* function) {
    Dl_info info{};
    if (!dladdr(function, &info)) return "?";
    if (info.dli_sname) {
        int status = 0;
        char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
        std::string text = name ? name : info.dli_sname;
        std::free(name);
        return text;
    }
    char text[64];
    std::snprintf(text, sizeof(text), " + 0x%zx",
                  static_cast<size_t>(static_cast<const char*>(function) -
                                      static_cast<const char*>(info.dli_fbase)));
    return info.dli_fname + std::string(text);
}

}  // namespace emulated
