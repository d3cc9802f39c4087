// SPDX-License-Identifier: Apache-2.0
// A plan that holds A as select_format.hpp says; the kernels that read it differ in what launches.
#pragma once

#include "core/ops/vnm_mm/cuda/sm80/select_launch.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_pack.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::vnm_mm::sm80 {

// A cut into tiles of `tile_rows` rows, each in one block row.
pack_source source_of(const problem& p, int32_t tile_rows);

// Matrices of the batch that have values of their own.
int64_t matrices_of(const problem& p);

buffer_needs packed_needs(const problem& p, int32_t tile_rows);

class packed_plan : public plan {
  public:
    packed_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources,
                int32_t tile_rows);

    void pack_values(const context& ctx, const void* values) override;
    vnm_view matrix_with(const void* values) const override;
    void run(const context& ctx, const arguments& args) const override;

  protected:
    const pack_source& source() const { return source_; }

    // On the context's device and stream.
    virtual void launch(const context& ctx, const select_arguments& args) const = 0;

  private:
    void pack(const context& ctx, const void* values, uint8_t* target) const;

    pack_source source_;
    select_arguments arguments_{};
    uint8_t* values_ = nullptr;
    int64_t call_values_ = 0;
};

}  // namespace magicube::vnm_mm::sm80
