// SPDX-License-Identifier: Apache-2.0

/** Sparse low-precision matrix products on Tensor Cores and CPUs. */
module org.magicube {
    exports org.magicube;
}
