// SPDX-License-Identifier: Apache-2.0
// Random matrices of the tests as the core's views.
#pragma once

#include "core/formats/sparse.hpp"
#include "support/mirror.hpp"
#include "support/samples.hpp"
#include "support/vnm_sample.hpp"

namespace support {

inline magicube::dense_view view_of(dense_sample& sample) {
    magicube::dense_view view;
    view.rows = sample.shape().rows;
    view.cols = sample.shape().cols;
    view.ld = sample.ld();
    view.values = sample.array().data();
    view.type = static_cast<magicube::dtype>(sample.shape().type);
    view.storage = sample.shape().col_major ? magicube::order::col : magicube::order::row;
    view.batch_count = sample.shape().batch;
    view.batch_stride = sample.stride();
    return view;
}

inline magicube::sr_bcrs_view view_of(sparse_sample& sample) {
    const auto& shape = sample.shape();
    const auto offsets =
        shape.offsets32 ? magicube::index_type::int32 : magicube::index_type::int64;
    magicube::sr_bcrs_view view;
    view.rows = shape.rows;
    view.cols = shape.cols;
    view.values = sample.values().data();
    view.type = static_cast<magicube::dtype>(shape.type);
    view.batch_count = shape.batch;
    view.values_stride = sample.values_stride();
    view.vector_length = static_cast<int32_t>(shape.v);
    view.stride = static_cast<int32_t>(shape.s);
    view.slots = sample.slots();
    view.row_begin = {sample.row_begin(), offsets};
    view.row_end = {sample.row_end(), offsets};
    view.col_indices = sample.cols();
    view.element_mask = sample.mask();
    view.different_patterns = sample.different();
    return view;
}

inline magicube::vnm_view view_of(vnm_sample& sample) {
    const auto& shape = sample.shape();
    magicube::vnm_view view;
    view.rows = shape.rows;
    view.cols = shape.cols;
    view.values = sample.values().data();
    view.type = static_cast<magicube::dtype>(shape.type);
    view.batch_count = shape.batch;
    view.values_stride = sample.values_stride();
    view.vector_length = static_cast<int32_t>(shape.v);
    view.n = static_cast<int32_t>(shape.n);
    view.m = static_cast<int32_t>(shape.m);
    view.column_loc = sample.column_loc();
    view.metadata = sample.metadata().data();
    return view;
}

// The device's address of an array, whose guards go along.
inline void* put_array(mirror& device, packed_array& array) {
    auto* host = const_cast<uint8_t*>(array.bytes().data());
    return device.put(host, array.bytes().size()) + (static_cast<uint8_t*>(array.data()) - host);
}

inline void fetch_array(mirror& device, packed_array& array) {
    device.fetch(const_cast<uint8_t*>(array.bytes().data()));
}

// A sparse matrix whose arrays are the host's, on the device.
inline magicube::sr_bcrs_view move_pattern(mirror& device, magicube::sr_bcrs_view view) {
    const int64_t matrices = view.different_patterns ? view.batch_count : 1;
    const auto bytes = [](int64_t count, int64_t bits) {
        return static_cast<size_t>((count * bits + 7) / 8);
    };
    const int64_t offset_bits = 8 * magicube::index_bytes(view.row_begin.type);
    const size_t offset_bytes = bytes(matrices * view.block_rows(), offset_bits);
    view.row_begin.data = device.put(view.row_begin.data, offset_bytes);
    view.row_end.data = device.put(view.row_end.data, offset_bytes);
    view.col_indices = device.put(view.col_indices, bytes(view.slots, 32));
    const int64_t mask_bits = (view.vector_length + 7) / 8 * 8;
    view.element_mask = device.put(view.element_mask, bytes(view.slots, mask_bits));
    return view;
}

// The same views for a context's device.
inline magicube::dense_view view_on(mirror& device, dense_sample& sample) {
    auto view = view_of(sample);
    view.values = put_array(device, sample.array());
    return view;
}

inline magicube::sr_bcrs_view view_on(mirror& device, sparse_sample& sample) {
    auto view = move_pattern(device, view_of(sample));
    view.values = put_array(device, sample.values());
    return view;
}

inline magicube::vnm_view view_on(mirror& device, vnm_sample& sample) {
    auto view = view_of(sample);
    view.column_loc =
        device.put(sample.column_loc(), static_cast<size_t>(sample.column_loc_bytes()));
    view.metadata = device.put(sample.metadata().data(), sample.metadata().size());
    view.values = put_array(device, sample.values());
    return view;
}

}  // namespace support
