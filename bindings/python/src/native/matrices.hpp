// SPDX-License-Identifier: Apache-2.0
// Descriptors as the other files of the module pass them to the ABI.
#ifndef MAGICUBE_PYTHON_MATRICES_HPP
#define MAGICUBE_PYTHON_MATRICES_HPP

#include <memory>

#include "common.hpp"

namespace magicube_python {

using SpMat = Owner<magicubeConstSpMatDescr_t, &magicubeDestroySpMat>;

class DnMat : public Owner<magicubeConstDnMatDescr_t, &magicubeDestroyDnMat> {
  public:
    explicit DnMat(bool writable) : writable_(writable) {}
    // The descriptor as one that the library may write through; it was created as such.
    magicubeDnMatDescr_t target() const {
        if (!writable_) throw py::value_error("the matrix was described as an input");
        return const_cast<magicubeDnMatDescr_t>(get());
    }

  private:
    bool writable_;
};

}  // namespace magicube_python

#endif
