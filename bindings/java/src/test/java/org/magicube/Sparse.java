// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** A dense matrix with places where elements exist, and its SR-BCRS layout, written by the book. */
final class Sparse {
    final int rows;
    final int cols;
    final int v;
    final int stride;
    final DataType type;
    final double[] dense; // 0 where no element exists
    final boolean[] exists;
    final long[] rowBegin;
    final long[] rowEnd;
    final int[] columns;
    final double[] values; // padding is poisoned
    final byte[] mask;

    /** Vectors are kept by chance; with holes, some of their elements do not exist. */
    Sparse(Random random, int rows, int cols, int v, DataType type, double density, boolean holes) {
        this.rows = rows;
        this.cols = cols;
        this.v = v;
        this.type = type;
        stride = SrBcrsMatrix.defaultStride(v, type);
        dense = Elements.random(type, random, rows * cols);
        exists = new boolean[rows * cols];
        for (int block = 0; block < rows; block += v) {
            for (int c = 0; c < cols; ++c) {
                boolean kept = random.nextDouble() < density;
                for (int r = block; r < Math.min(block + v, rows); ++r) {
                    exists[r * cols + c] = kept && !(holes && random.nextInt(3) == 0);
                }
            }
        }
        for (int i = 0; i < dense.length; ++i) {
            if (!exists[i]) {
                dense[i] = 0;
            }
        }
        int blockRows = (rows + v - 1) / v;
        rowBegin = new long[blockRows];
        rowEnd = new long[blockRows];
        List<Integer> slots = new ArrayList<>();
        for (int block = 0; block < blockRows; ++block) {
            rowBegin[block] = slots.size();
            for (int c = 0; c < cols; ++c) {
                if (anyExists(block, c)) {
                    slots.add(c);
                }
            }
            rowEnd[block] = slots.size();
            while (slots.size() % stride != 0) {
                slots.add(-1);
            }
        }
        columns = slots.stream().mapToInt(Integer::intValue).toArray();
        values = Elements.random(type, random, columns.length * v);
        mask = new byte[columns.length * ((v + 7) / 8)];
        fill();
    }

    private boolean anyExists(int block, int c) {
        for (int r = block * v; r < Math.min((block + 1) * v, rows); ++r) {
            if (exists[r * cols + c]) {
                return true;
            }
        }
        return false;
    }

    private void fill() {
        for (int block = 0; block < rowBegin.length; ++block) {
            for (int slot = (int) rowBegin[block]; slot < rowEnd[block]; ++slot) {
                for (int i = 0; i < v; ++i) {
                    int r = block * v + i;
                    int place = r * cols + columns[slot];
                    boolean there = r < rows && exists[place];
                    values[at(i, slot)] = there ? dense[place] : 0;
                    if (there) {
                        mask[slot * ((v + 7) / 8) + i / 8] |= (byte) (1 << i % 8);
                    }
                }
            }
        }
    }

    /** Where element i of a slot's vector lies in the values. */
    int at(int i, int slot) {
        return slot / stride * v * stride + i * stride + slot % stride;
    }

    /** What lies at each place of the layout: row * cols + col, or -1 in padding and holes. */
    int[] places() {
        int[] places = new int[values.length];
        Arrays.fill(places, -1);
        for (int block = 0; block < rowBegin.length; ++block) {
            for (int slot = (int) rowBegin[block]; slot < rowEnd[block]; ++slot) {
                for (int i = 0; i < v; ++i) {
                    int r = block * v + i;
                    if (r < rows && exists[r * cols + columns[slot]]) {
                        places[at(i, slot)] = r * cols + columns[slot];
                    }
                }
            }
        }
        return places;
    }

    SrBcrsMatrix matrix() {
        return matrix(Elements.pack(type, values));
    }

    SrBcrsMatrix matrix(Memory packed) {
        SrBcrsMatrix matrix = SrBcrsMatrix.of(rows, cols, v, stride, columns.length,
                Memory.copyOf(rowBegin), Memory.copyOf(rowEnd), Memory.copyOf(columns), packed,
                IndexType.INT64, type);
        matrix.setElementMask(Memory.copyOf(mask));
        return matrix;
    }
}
