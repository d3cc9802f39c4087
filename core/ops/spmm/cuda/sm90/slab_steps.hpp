// SPDX-License-Identifier: Apache-2.0
// How the packer of the slab family (slab_format.hpp) cuts the rows that a bundle gathers into
// steps, slab after slab. Eight rows of a step share no banks of shared memory if their numbers
// differ mod 8, so rows wait in a queue for each residue class. Surplus of a class waits for the
// next slab, where it can still be reached, unless waiting gains nothing.
#pragma once

#include <cstdint>

#include "core/common/portable.hpp"
#include "core/ops/spmm/cuda/sm90/slab_format.hpp"

namespace magicube::spmm::sm90 {

constexpr int residues = 8;
constexpr int matrices_a_step = step_slots / residues;

// The columns that a bundle has, class after class, ascending in each.
struct residue_lists {
    const int32_t* columns;
    const int32_t* begins;  // of each class, and the last one's end; null: no columns
};

// Of each slot its row's place in residue_lists::columns, -1 for a hole. Slot m * 8 + c is row c of
// the 8x8 matrix m.
struct slab_step {
    int32_t rows[step_slots];
};

class slab_stepper {
  public:
    MAGICUBE_HOST_DEVICE slab_stepper(const residue_lists& lists, const slab_geometry& geometry)
        : columns_(lists.columns),
          slab_rows_(geometry.slab_rows),
          slabs_(geometry.slabs),
          kept_(geometry.kept) {
        for (int c = 0; c < residues; ++c) {
            head_[c] = tail_[c] = urgent_[c] = lists.begins ? lists.begins[c] : 0;
            end_[c] = lists.begins ? lists.begins[c + 1] : 0;
        }
    }

    // Goes on to a slab; all are entered, in order.
    MAGICUBE_HOST_DEVICE void enter(int64_t slab) {
        const int64_t end = (slab + 1) * slab_rows_;
        // Rows before this one cannot be reached from the next slab.
        const int64_t begin = end - int64_t{kept_} * slab_rows_;
        for (int c = 0; c < residues; ++c) {
            while (tail_[c] < end_[c] && columns_[tail_[c]] < end) ++tail_[c];
            while (urgent_[c] < tail_[c] && columns_[urgent_[c]] < begin) ++urgent_[c];
        }
        last_ = slab + 1 == slabs_;
        // Few rows may wait, towards the end ever fewer, so that no slab is left with many steps.
        const int64_t slabs_left = slabs_ - 1 - slab;
        may_wait_ = slabs_left < 4 ? static_cast<int32_t>(10 * slabs_left) : 40;
    }

    // The slab's next step; false if it has no more.
    MAGICUBE_HOST_DEVICE bool next(slab_step& step) {
        int64_t total = 0, urgent = 0;
        int32_t fewest = INT32_MAX;
        for (int c = 0; c < residues; ++c) {
            total += waiting(c);
            urgent += count_urgent(c);
            fewest = waiting(c) < fewest ? waiting(c) : fewest;
        }
        if (total == 0) return false;
        if (urgent == 0 && fewest < matrices_a_step && total <= may_wait_) return false;
        take(step);
        return true;
    }

  private:
    MAGICUBE_HOST_DEVICE int32_t waiting(int c) const { return tail_[c] - head_[c]; }
    MAGICUBE_HOST_DEVICE bool is_late(int c) const { return head_[c] < urgent_[c]; }
    MAGICUBE_HOST_DEVICE int32_t count_urgent(int c) const {
        if (last_) return waiting(c);
        return is_late(c) ? urgent_[c] - head_[c] : 0;
    }

    // Up to four rows of each class without conflict, then surplus into the holes of one matrix
    // after another while that saves more than the conflict costs.
    MAGICUBE_HOST_DEVICE void take(slab_step& step) {
        for (int m = 0; m < matrices_a_step; ++m)
            for (int c = 0; c < residues; ++c)
                step.rows[m * residues + c] = waiting(c) > 0 ? head_[c]++ : -1;
        for (int m = matrices_a_step - 1; m >= 0; --m) {
            int holes = 0, classes = 0;
            bool urgent = false;
            for (int c = 0; c < residues; ++c) {
                holes += step.rows[m * residues + c] < 0;
                classes += waiting(c) > 0;
                urgent |= count_urgent(c) > 0;
            }
            const int saved = holes < classes ? holes : classes;
            if (saved == 0 || (!urgent && saved < residues / 2)) continue;
            fill_holes(step.rows + m * residues);
        }
    }

    // Gives each hole of a matrix the first row of another class: of those that must go now, then
    // of the longest queue.
    MAGICUBE_HOST_DEVICE void fill_holes(int32_t* rows) {
        uint32_t used = 0;
        for (int c = 0; c < residues; ++c) {
            if (rows[c] >= 0) continue;
            int best = -1;
            for (int d = 0; d < residues; ++d) {
                if (used >> d & 1 || waiting(d) == 0) continue;
                if (best < 0 || is_before(d, best)) best = d;
            }
            if (best < 0) return;
            used |= 1u << best;
            rows[c] = head_[best]++;
        }
    }

    MAGICUBE_HOST_DEVICE bool is_before(int a, int b) const {
        return is_late(a) != is_late(b) ? is_late(a) : waiting(a) > waiting(b);
    }

    const int32_t* columns_;
    int32_t slab_rows_, slabs_, kept_;
    int32_t may_wait_ = 0;
    bool last_ = false;
    // Places in columns_ by class: a queue holds those from head to tail, of which those before
    // urgent must go now.
    int32_t head_[residues], tail_[residues], urgent_[residues], end_[residues];
};

}  // namespace magicube::spmm::sm90
