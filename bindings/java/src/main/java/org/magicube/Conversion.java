// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;
import org.magicube.internal.magicubeSrBcrsArrays_t;

/**
 * Conversion between dense, CSR, BSR, boolean masks and SR-BCRS, on the handle's device. (V:N:M has
 * its own, in {@link VnmMatrix}; toDense, toMask and toSrBcrs take it too.)
 *
 * <p>Which elements exist: from dense, those of a vector, one of whose scalars is not zero; from
 * CSR, BSR or a mask, every stored or marked entry, zero or not. Value types: the same on both
 * sides, or any two floating types. A result owns its arrays and closes them with itself.
 */
public final class Conversion {
    private Conversion() {}

    /**
     * The layout of an SR-BCRS result: default stride, offsets of 64 bits, values of the source's
     * type.
     *
     * @param vectorLength V: 1, 2, 4, 8, 16, 32 or 64
     * @return the layout
     */
    public static Layout layout(int vectorLength) {
        return new Layout(vectorLength);
    }

    /** How an SR-BCRS result is laid out. */
    public static final class Layout {
        private final int vectorLength;
        private int stride;
        private IndexType offsetType = IndexType.INT64;
        private DataType valueType;
        private boolean patternOnly;
        private Boolean elementMask;

        private Layout(int vectorLength) {
            this.vectorLength = vectorLength;
        }

        /**
         * Sets S.
         *
         * @param slots 1, 8, 16 or 32; 0: what suits the type
         * @return this
         */
        public Layout stride(int slots) {
            stride = slots;
            return this;
        }

        /**
         * Sets the width of the offsets.
         *
         * @param type INT64 until set
         * @return this
         */
        public Layout offsets(IndexType type) {
            offsetType = type;
            return this;
        }

        /**
         * Sets the type of the values.
         *
         * @param type the source's until set
         * @return this
         */
        public Layout values(DataType type) {
            valueType = type;
            return this;
        }

        /**
         * Leaves the values out.
         *
         * @return this
         */
        public Layout patternOnly() {
            patternOnly = true;
            return this;
        }

        /**
         * Sets whether an element mask is made. Until set, it is unless the source is dense without
         * a mask.
         *
         * @param made whether
         * @return this
         */
        public Layout elementMask(boolean made) {
            elementMask = made;
            return this;
        }
    }

    /** The source of a conversion to SR-BCRS: three functions of the ABI over it. */
    private abstract static class Source {
        final long rows;
        final long cols;
        final long batchCount;
        final DataType type;

        Source(long rows, long cols, long batchCount, DataType type) {
            this.rows = rows;
            this.cols = cols;
            this.batchCount = batchCount;
            this.type = type;
        }

        abstract void bufferSize(long handle, magicubeSrBcrsArrays_t arrays, long[] bytes);

        abstract void count(long handle, magicubeSrBcrsArrays_t arrays, long[] slots,
                long workspace, long bytes);

        abstract void fill(long handle, magicubeSrBcrsArrays_t arrays, long workspace, long bytes);
    }

    /**
     * Dense to SR-BCRS. A batch gives a batch of different patterns.
     *
     * @param handle where; waited for
     * @param dense what to convert
     * @param mask uint8, of the same shape and batch: an element exists where it is not 0; null:
     *     as the class says
     * @param layout of the result
     * @return the matrix
     */
    public static SrBcrsMatrix toSrBcrs(Handle handle, DenseMatrix dense, DenseMatrix mask,
            Layout layout) {
        try (Uses uses = new Uses(handle)) {
            long from = uses.matrix(dense, "dense");
            long marks = uses.matrix(mask, "mask");
            Source source = new Source(dense.rows, dense.cols, dense.batchCount, dense.type()) {
                @Override
                void bufferSize(long h, magicubeSrBcrsArrays_t arrays, long[] bytes) {
                    Native.magicubeDenseToSrBcrs_bufferSize(h, from, marks, arrays, bytes);
                }

                @Override
                void count(long h, magicubeSrBcrsArrays_t arrays, long[] slots, long workspace,
                        long bytes) {
                    Native.magicubeDenseToSrBcrs_count(h, from, marks, arrays, slots, workspace,
                            bytes);
                }

                @Override
                void fill(long h, magicubeSrBcrsArrays_t arrays, long workspace, long bytes) {
                    Native.magicubeDenseToSrBcrs_fill(h, from, marks, arrays, workspace, bytes);
                }
            };
            return convert(handle, uses, source, layout, dense.values != null, mask != null);
        }
    }

    /**
     * CSR, BSR or SR-BCRS to SR-BCRS. A batch gives a batch of different patterns.
     *
     * @param handle where; waited for
     * @param sparse what to convert
     * @param layout of the result
     * @return the matrix
     */
    public static SrBcrsMatrix toSrBcrs(Handle handle, SparseMatrix sparse, Layout layout) {
        try (Uses uses = new Uses(handle)) {
            long from = uses.matrix(sparse, "sparse");
            Source source =
                    new Source(sparse.rows, sparse.cols, sparse.batchCount, sparse.valueType) {
                @Override
                void bufferSize(long h, magicubeSrBcrsArrays_t arrays, long[] bytes) {
                    Native.magicubeSparseToSrBcrs_bufferSize(h, from, arrays, bytes);
                }

                @Override
                void count(long h, magicubeSrBcrsArrays_t arrays, long[] slots, long workspace,
                        long bytes) {
                    Native.magicubeSparseToSrBcrs_count(h, from, arrays, slots, workspace, bytes);
                }

                @Override
                void fill(long h, magicubeSrBcrsArrays_t arrays, long workspace, long bytes) {
                    Native.magicubeSparseToSrBcrs_fill(h, from, arrays, workspace, bytes);
                }
            };
            return convert(handle, uses, source, layout, sparse.arrays[0] != null, true);
        }
    }

    /** Arrays of a result; closed again if making them all fails. */
    static final class Arrays implements AutoCloseable {
        private final Handle handle;
        private final Memory[] made = new Memory[5];
        private int count;
        boolean kept;

        Arrays(Handle handle) {
            this.handle = handle;
        }

        Memory allocate(long elements, long bits) {
            Memory memory = Memory.allocate(handle.device(), handle.ordinal(),
                    Shapes.bytes(elements, (int) bits));
            made[count++] = memory;
            return memory;
        }

        <T extends SparseMatrix> T keep(T matrix) {
            kept = true;
            matrix.ownArrays();
            return matrix;
        }

        @Override
        public void close() {
            while (!kept && count > 0) {
                made[--count].close();
            }
        }
    }

    private static SrBcrsMatrix convert(Handle handle, Uses uses, Source source, Layout layout,
            boolean hasValues, boolean hasMask) {
        DataType type = layout.valueType == null ? source.type : layout.valueType;
        int v = layout.vectorLength;
        int stride = layout.stride != 0 ? layout.stride : SrBcrsMatrix.defaultStride(v, type);
        long[] bytes = new long[1];
        long[] slots = new long[1];
        try (magicubeSrBcrsArrays_t arrays = new magicubeSrBcrsArrays_t();
                Arrays made = new Arrays(handle)) {
            arrays.setVector_length(v);
            arrays.setStride(stride);
            arrays.setOffset_type(layout.offsetType.code);
            arrays.setValue_type(type.code);
            source.bufferSize(uses.handle(), arrays, bytes);
            long workspace = uses.scratch(null, bytes[0]);

            long blockRows =
                    Shapes.times(Shapes.divideUp(source.rows, v), Math.max(source.batchCount, 0));
            Memory begin = made.allocate(blockRows, 8 * layout.offsetType.bytes());
            Memory end = made.allocate(blockRows, 8 * layout.offsetType.bytes());
            arrays.setRow_begin(begin.address);
            arrays.setRow_end(end.address);
            source.count(uses.handle(), arrays, slots, workspace, bytes[0]);

            Memory columns = made.allocate(slots[0], 32);
            Memory values = hasValues && !layout.patternOnly
                    ? made.allocate(Shapes.times(slots[0], v), type.width()) : null;
            boolean masked = layout.elementMask == null ? hasMask : layout.elementMask;
            Memory mask = masked ? made.allocate(Shapes.times(slots[0], (v + 7) / 8), 8) : null;
            arrays.setSlots(slots[0]);
            arrays.setCol_indices(columns.address);
            arrays.setValues(values == null ? 0 : values.address);
            arrays.setElement_mask(mask == null ? 0 : mask.address);
            source.fill(uses.handle(), arrays, workspace, bytes[0]);

            SrBcrsMatrix result = SrBcrsMatrix.of(source.rows, source.cols, v, stride, slots[0],
                    begin, end, columns, values, layout.offsetType, type);
            if (mask != null) {
                result.setElementMask(mask);
            }
            if (source.batchCount != 1) {
                result.setPatternBatch(source.batchCount);
            }
            return made.keep(result);
        }
    }

    /**
     * Any sparse format to dense; absent elements become 0.
     *
     * @param handle where
     * @param sparse what to convert
     * @param dense of the same shape and batch, in either order, written
     */
    public static void toDense(Handle handle, SparseMatrix sparse, DenseMatrix dense) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeSparseToDense(uses.handle(), uses.matrix(sparse, "sparse"),
                    uses.output(dense, "dense"));
        }
    }

    /**
     * Any sparse format to a mask: 1 where an element exists, 0 elsewhere.
     *
     * @param handle where
     * @param sparse what to convert
     * @param mask uint8, of the same shape and batch, written
     */
    public static void toMask(Handle handle, SparseMatrix sparse, DenseMatrix mask) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeSparseToMask(uses.handle(), uses.matrix(sparse, "sparse"),
                    uses.output(mask, "mask"));
        }
    }

    /**
     * SR-BCRS (one matrix, no batch) to CSR: every existing element, zeros included.
     *
     * @param handle where; waited for
     * @param source what to convert
     * @param offsetType width of the offsets
     * @param valueType type of the values, which are left out if the source has none
     * @return the matrix
     */
    public static CsrMatrix toCsr(Handle handle, SrBcrsMatrix source, IndexType offsetType,
            DataType valueType) {
        long[] nnz = new long[1];
        try (Uses uses = new Uses(handle); Arrays made = new Arrays(handle)) {
            long from = uses.matrix(source, "source");
            Memory offsets = made.allocate(source.rows + 1, 8 * offsetType.bytes());
            Native.magicubeSrBcrsToCsr_count(uses.handle(), from, offsetType.code, offsets.address,
                    nnz);
            Memory columns = made.allocate(nnz[0], 32);
            Memory values = source.arrays[0] == null ? null
                    : made.allocate(nnz[0], valueType.width());
            Native.magicubeSrBcrsToCsr_fill(uses.handle(), from, offsetType.code, offsets.address,
                    columns.address, values == null ? 0 : values.address, valueType.code);
            return made.keep(CsrMatrix.of(source.rows, source.cols, nnz[0], offsets, columns,
                    values, offsetType, valueType));
        }
    }

    /**
     * SR-BCRS (one matrix, no batch) to BSR: every block in which an element exists.
     *
     * @param handle where; waited for
     * @param source what to convert
     * @param blockRows rows of a block, at least 1
     * @param blockCols columns of a block, at least 1
     * @param offsetType width of the offsets
     * @param valueType type of the values, which are left out if the source has none
     * @return the matrix
     */
    public static BsrMatrix toBsr(Handle handle, SrBcrsMatrix source, long blockRows,
            long blockCols, IndexType offsetType, DataType valueType) {
        if (blockRows < 1) {
            throw new IllegalArgumentException(
                    "blockRows is " + blockRows + "; it must be at least 1");
        }
        long[] nnzb = new long[1];
        try (Uses uses = new Uses(handle); Arrays made = new Arrays(handle)) {
            long from = uses.matrix(source, "source");
            Memory offsets = made.allocate(Shapes.divideUp(source.rows, blockRows) + 1,
                    8 * offsetType.bytes());
            Native.magicubeSrBcrsToBsr_count(uses.handle(), from, blockRows, blockCols,
                    offsetType.code, offsets.address, nnzb);
            Memory columns = made.allocate(nnzb[0], 32);
            long elements = Shapes.times(Shapes.times(blockRows, blockCols), nnzb[0]);
            Memory values = source.arrays[0] == null ? null
                    : made.allocate(elements, valueType.width());
            Native.magicubeSrBcrsToBsr_fill(uses.handle(), from, blockRows, blockCols,
                    offsetType.code, offsets.address, columns.address,
                    values == null ? 0 : values.address, valueType.code);
            return made.keep(BsrMatrix.of(source.rows, source.cols, blockRows, blockCols, nnzb[0],
                    offsets, columns, values, offsetType, valueType));
        }
    }
}
