// SPDX-License-Identifier: Apache-2.0
// Shared libraries found at run time, so that the benchmark links none of the peers.
#pragma once

#include <initializer_list>

#include "common.hpp"

namespace bench {

class library {
  public:
    // The first of these names that loads: as the dynamic loader searches, then in the folders of
    // MAGICUBE_BENCH_LIBRARY_PATH. The library stays loaded until the process ends.
    explicit library(std::initializer_list<const char*> names);

    // Assigns the function of this name to a pointer of its type.
    template <class Function>
    void bind(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(symbol(name));
    }

  private:
    void* symbol(const char* name) const;

    void* handle_ = nullptr;
    std::string name_;
};

}  // namespace bench
