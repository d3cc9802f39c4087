// SPDX-License-Identifier: Apache-2.0
#include "sparse_data.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace bench {
namespace {

// Appends elements [begin, end) of `from`; of int4, whole bytes.
void append(byte_vector& to, const byte_vector& from, magicubeDataType_t type, int64_t begin,
            int64_t end) {
    to.insert(to.end(), from.begin() + bytes_of(type, begin), from.begin() + bytes_of(type, end));
}

template <class Element>
sparse_data::array array_of(const std::vector<Element>& elements) {
    return {elements.data(), static_cast<int64_t>(elements.size() * sizeof(Element))};
}

class sr_bcrs_data final : public sparse_data {
  public:
    sr_bcrs_data(pattern p, magicubeDataType_t element_type) : pattern_(std::move(p)) {
        rows = pattern_.rows;
        cols = pattern_.cols;
        vector_length = pattern_.vector_length;
        type = element_type;
    }
    sr_bcrs_data(const spmm_case& c, int stride, generator& random)
        : sr_bcrs_data(
              make_pattern({c.m, c.k, c.vector_length, stride, 1 - c.sparsity, c.lengths}, random),
              c.lhs) {
        values = random_elements(type, pattern_.slots() * vector_length, random);
        clear_missing_rows();
    }

    std::vector<array> index_arrays() const override {
        return {array_of(pattern_.row_begin), array_of(pattern_.row_end),
                array_of(pattern_.col_indices)};
    }
    sparse_descriptor describe(const std::vector<const void*>& indices,
                               const void* elements) const override {
        magicubeConstSpMatDescr_t matrix = nullptr;
        check(magicubeCreateConstSrBcrs(&matrix, rows, cols, vector_length, pattern_.stride,
                                        pattern_.slots(), indices[0], indices[1],
                                        static_cast<const int32_t*>(indices[2]), elements,
                                        MAGICUBE_INDEX_64, type),
              "magicubeCreateConstSrBcrs");
        return sparse_descriptor(matrix);
    }
    std::unique_ptr<sparse_data> block_rows(const std::vector<int64_t>& wanted) const override {
        const pattern& p = pattern_;
        pattern chosen{static_cast<int64_t>(wanted.size()) * vector_length,
                       cols,
                       vector_length,
                       p.stride,
                       {},
                       {},
                       {}};
        byte_vector elements;
        for (int64_t row : wanted) {
            const int64_t begin = p.row_begin[row], length = p.row_end[row] - begin;
            const int64_t end = begin + round_up(length, p.stride);
            chosen.row_begin.push_back(chosen.slots());
            chosen.row_end.push_back(chosen.slots() + length);
            chosen.col_indices.insert(chosen.col_indices.end(), &p.col_indices[begin],
                                      p.col_indices.data() + end);
            append(elements, values, type, begin * vector_length, end * vector_length);
        }
        auto result = std::make_unique<sr_bcrs_data>(std::move(chosen), type);
        result->values = std::move(elements);
        return result;
    }

    int64_t longest_row() const override {
        int64_t longest = 0;
        for (int64_t i = 0; i < pattern_.block_rows(); ++i)
            longest = std::max(longest, pattern_.row_end[i] - pattern_.row_begin[i]);
        return longest;
    }
    double elements_a_row() const override {
        return static_cast<double>(pattern_.vectors()) / static_cast<double>(pattern_.block_rows());
    }
    double gathers() const override { return static_cast<double>(shared_gathers(pattern_)); }
    const pattern* vectors() const override { return &pattern_; }

  private:
    // Rows past M in the last block row do not exist: their values are zero.
    void clear_missing_rows() {
        const int64_t last = pattern_.block_rows() - 1, v_size = vector_length;
        const int64_t stride = pattern_.stride;
        const int bits = magicubeGetDataTypeBits(type);
        for (int64_t slot = pattern_.row_begin[last]; slot < pattern_.slots(); ++slot) {
            for (int64_t v = rows - last * v_size; v < v_size; ++v) {
                const int64_t index = slot / stride * v_size * stride + v * stride + slot % stride;
                const int64_t at = index * bits / 8;
                if (bits == 4) {
                    values[at] = static_cast<uint8_t>(values[at] & (index % 2 ? 0x0f : 0xf0));
                } else {
                    std::fill_n(&values[at], bits / 8, uint8_t{0});
                }
            }
        }
    }

    pattern pattern_;
};

// Of each group of `group` columns a block row selects four, and a row keeps two of these.
class vnm_data final : public sparse_data {
  public:
    explicit vnm_data(const spmm_case& c) : group_(c.group) {
        rows = c.m;
        cols = c.k;
        vector_length = c.vector_length;
        type = c.lhs;
    }
    vnm_data(const spmm_case& c, generator& random) : vnm_data(c) {
        for (int64_t i = 0; i < block_row_count() * groups(); ++i) {
            const int64_t width = std::min<int64_t>(group_, cols - i % groups() * group_);
            std::vector<int32_t> selected;
            append_columns(std::min<int64_t>(width, 4), width, random, selected);
            selected.resize(4, selected.back());  // a short group repeats its last column
            for (const int32_t column : selected) append_column(column);
        }
        values = random_elements(type, rows * groups() * 2, random);
        metadata_.assign(static_cast<size_t>(rows * metadata_pitch()), 0);
        const int64_t element_bytes = bytes_of(type, 1);
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t group = 0; group < groups(); ++group) {
                const positions kept = random_positions(random);
                metadata_[static_cast<size_t>(row * metadata_pitch() + group / 2)] |=
                    static_cast<uint8_t>((kept[0] | kept[1] << 2) << group % 2 * 4);
                for (int i = 0; i < 2; ++i)
                    if (kept[static_cast<size_t>(i)] >= cols - group * group_)
                        std::fill_n(&values[static_cast<size_t>(((row * groups() + group) * 2 + i) *
                                                                element_bytes)],
                                    element_bytes, uint8_t{0});
            }
        }
    }

    std::vector<array> index_arrays() const override {
        return {array_of(column_loc_), array_of(metadata_)};
    }
    sparse_descriptor describe(const std::vector<const void*>& indices,
                               const void* elements) const override {
        magicubeConstSpMatDescr_t matrix = nullptr;
        check(magicubeCreateConstVnm(&matrix, rows, cols, vector_length, 2, group_, indices[0],
                                     static_cast<const uint8_t*>(indices[1]), elements, type),
              "magicubeCreateConstVnm");
        return sparse_descriptor(matrix);
    }
    std::unique_ptr<sparse_data> block_rows(const std::vector<int64_t>& wanted) const override {
        auto result = std::make_unique<vnm_data>(*this);
        result->rows = static_cast<int64_t>(wanted.size()) * vector_length;
        result->column_loc_.clear();
        result->metadata_.clear();
        result->values.clear();
        const int64_t loc_bytes = groups() * 4 * (group_ > 256 ? 2 : 1);
        for (int64_t block_row : wanted) {
            const auto first = column_loc_.begin() + block_row * loc_bytes;
            result->column_loc_.insert(result->column_loc_.end(), first, first + loc_bytes);
            const int64_t begin = block_row * vector_length;
            const int64_t end = std::min(rows, begin + vector_length);
            result->metadata_.insert(result->metadata_.end(),
                                     metadata_.begin() + begin * metadata_pitch(),
                                     metadata_.begin() + end * metadata_pitch());
            append(result->values, values, type, begin * groups() * 2, end * groups() * 2);
            // What the last block row lacks: rows that keep zeros of the columns 0 and 1.
            const int64_t missing = begin + vector_length - end;
            result->metadata_.resize(
                result->metadata_.size() + static_cast<size_t>(missing * metadata_pitch()), 0x44);
            result->values.resize(result->values.size() +
                                  static_cast<size_t>(bytes_of(type, missing * groups() * 2)));
        }
        return result;
    }

    int64_t longest_row() const override { return groups() * 2; }
    double elements_a_row() const override { return static_cast<double>(groups() * 2); }
    double gathers() const override {
        return static_cast<double>(block_row_count()) * static_cast<double>(groups()) * 4;
    }
    const pattern* vectors() const override { return nullptr; }

  private:
    int64_t groups() const { return ceil_div(cols, group_); }
    int64_t metadata_pitch() const { return ceil_div(groups(), 2); }

    void append_column(int32_t column) {
        column_loc_.push_back(static_cast<uint8_t>(column));
        if (group_ > 256) column_loc_.push_back(static_cast<uint8_t>(column >> 8));
    }
    // Two distinct places among four, ascending.
    using positions = std::array<int, 2>;
    static positions random_positions(generator& random) {
        constexpr positions all[] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
        return all[random() % 6];
    }

    int32_t group_;
    std::vector<uint8_t> column_loc_, metadata_;
};

}  // namespace

std::unique_ptr<sparse_data> make_sparse_data(const spmm_case& c, generator& random) {
    if (c.is_vnm()) return std::make_unique<vnm_data>(c, random);
    int32_t stride = c.stride;
    if (stride == 0)
        check(magicubeSrBcrsDefaultStride(c.vector_length, c.lhs, &stride),
              "magicubeSrBcrsDefaultStride");
    return std::make_unique<sr_bcrs_data>(c, stride, random);
}

}  // namespace bench
