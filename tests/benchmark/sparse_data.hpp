// SPDX-License-Identifier: Apache-2.0
// A of a case in host memory, in the format that the case names.
#pragma once

#include <memory>
#include <vector>

#include "data.hpp"
#include "spmm_call.hpp"

namespace bench {

class sparse_data {
  public:
    virtual ~sparse_data() = default;

    struct array {
        const void* data;
        int64_t bytes;
    };
    // All arrays but the values.
    virtual std::vector<array> index_arrays() const = 0;
    // A descriptor of such arrays, wherever they lie.
    virtual sparse_descriptor describe(const std::vector<const void*>& indices,
                                       const void* elements) const = 0;
    // These block rows as a matrix of their own, which ends with a whole one.
    virtual std::unique_ptr<sparse_data> block_rows(const std::vector<int64_t>& rows) const = 0;

    virtual int64_t longest_row() const = 0;     // elements
    virtual double elements_a_row() const = 0;   // their mean
    virtual double gathers() const = 0;          // rows of B that block rows read, in all
    virtual const pattern* vectors() const = 0;  // null: there are none
    int64_t block_row_count() const { return ceil_div(rows, vector_length); }

    int64_t rows = 0, cols = 0;
    int vector_length = 1;
    magicubeDataType_t type = MAGICUBE_INT8;
    byte_vector values;
};

// A random A of the case's format, types and sparsity.
std::unique_ptr<sparse_data> make_sparse_data(const spmm_case& c, generator& random);

}  // namespace bench
