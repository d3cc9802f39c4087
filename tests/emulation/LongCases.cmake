# SPDX-License-Identifier: Apache-2.0
# The cases that `ctest --preset emulated` leaves out: for they take long, or run no CUDA code.
set(EMULATED_LONG_CASES
    # the CPU's
    "*simd*"
    # beyond the device's memory
    "large*"
    # many multiply-adds
    "SpMM: more bundles*"
    "SpMM: dense*"
    "SpMM: rows of many steps*"
    "SpMM: operands that are unpacked*"
    "SpMM: one block row*"
    "SpMM: K in several segments*"
    "SpMM: columns in several panels*"
    "SpMM: B and C of few columns*"
    "Attention: wide heads*"
    "SpMM of V:N:M: wide and narrow tiles*"
    "KroneckerMM: X and Y in units*"
    "Attention with heads of 64 and 128: many slabs*"
    "Attention with heads of 64 and 128: batches*"
    "every element of A is packed once*"
    "issue_20_spmm_k_of_200000"
    "issue_20_spmm_every_n_up_to_64*"
    "issue_20 *"
    "slab: many tiles*"
    "more matrices are prepared*"
    "issue_03 eight threads*"
    "streaming gives the same bits*"
    "dequantisation gives*")
