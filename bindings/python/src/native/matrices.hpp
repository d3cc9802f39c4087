// SPDX-License-Identifier: Apache-2.0
// Descriptors as the other files of the module pass them to the ABI.
#ifndef MAGICUBE_PYTHON_MATRICES_HPP
#define MAGICUBE_PYTHON_MATRICES_HPP

#include <memory>

#include "common.hpp"

namespace magicube_python {

using SpMat = Owner<magicubeConstSpMatDescr_t, &magicubeDestroySpMat>;

// A descriptor that the library may write through if it was created as such.
template <class Const, auto Destroy, class Writable>
class Described : public Owner<Const, Destroy> {
  public:
    explicit Described(bool writable) : writable_(writable) {}
    Writable target() const {
        if (!writable_) throw py::value_error("the matrix was described as an input");
        return const_cast<Writable>(this->get());
    }

  private:
    bool writable_;
};

using DnMat = Described<magicubeConstDnMatDescr_t, &magicubeDestroyDnMat, magicubeDnMatDescr_t>;
using KroneckerMat =
    Described<magicubeConstKroneckerDescr_t, &magicubeDestroyKronecker, magicubeKroneckerDescr_t>;

}  // namespace magicube_python

#endif
