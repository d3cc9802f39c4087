// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace bench {
namespace {

void* open(const std::string& path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace

library::library(std::initializer_list<const char*> names) {
    const char* variable = std::getenv("MAGICUBE_BENCH_LIBRARY_PATH");
    for (const char* name : names) {
        name_ = name;
        if ((handle_ = open(name))) return;
        std::istringstream folders(variable ? variable : "");
        for (std::string folder; std::getline(folders, folder, ':');) {
            if ((handle_ = open(folder + "/" + name))) return;
        }
    }
    fail("cannot load ", *names.begin(), ": ", dlerror());
}

void* library::symbol(const char* name) const {
    void* found = dlsym(handle_, name);
    if (!found) fail(name_, " has no ", name);
    return found;
}

}  // namespace bench
