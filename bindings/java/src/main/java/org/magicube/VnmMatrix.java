// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;
import org.magicube.internal.magicubeVnmArrays_t;

/**
 * V:N:M: of every group of M columns a block of V rows selects a few that its rows share (4, or
 * n + 2 for n above 3), and each row keeps n elements in them. Products take n = 2; m = 4 is plain
 * 2:4 sparsity. Layouts of the arrays: matrix.h of the C ABI.
 */
public final class VnmMatrix extends SparseMatrix {
    private final long[] lengths;
    private final int columnBytes;

    private VnmMatrix(long address, long rows, long cols, long[] lengths, int m, DataType valueType,
            boolean readOnly, Memory... arrays) {
        super("VnmMatrix", address, rows, cols, valueType, readOnly, arrays);
        this.lengths = lengths;
        columnBytes = columnBytes(m);
    }

    private static int columnBytes(int m) {
        return m > 256 ? 2 : 1;
    }

    /** Entries of columnLoc, bytes of metadata, elements of values. */
    private static long[] lengths(long rows, long cols, int vectorLength, int n, int m) {
        long[][] out = new long[3][1];
        Native.magicubeVnmLengths(rows, cols, vectorLength, n, m, out[0], out[1], out[2]);
        return new long[] {out[0][0], out[1][0], out[2][0]};
    }

    /**
     * Describes memory.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param vectorLength V: 1, 16, 32, 64, 128 or 256
     * @param n elements that a row keeps in a group
     * @param m columns of a group, at most 65536
     * @param columnLoc selected columns, uint8 (16 bits where m is above 256)
     * @param metadata which of the selected columns each element has
     * @param values rows * ceil(cols / m) * n elements; null: pattern alone
     * @param valueType int8, fp16, bf16, fp32 or e4m3
     * @return the matrix
     */
    public static VnmMatrix of(long rows, long cols, int vectorLength, int n, int m,
            Memory columnLoc, Memory metadata, Memory values, DataType valueType) {
        boolean readOnly = isConst(values);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long v = values == null ? 0 : uses.memory(values);
            long c = columnLoc == null ? 0 : uses.memory(columnLoc);
            long d = metadata == null ? 0 : uses.memory(metadata);
            if (readOnly) {
                Native.magicubeCreateConstVnm(matrix, rows, cols, vectorLength, n, m, c, d, v,
                        valueType.code);
            } else {
                Native.magicubeCreateVnm(matrix, rows, cols, vectorLength, n, m, c, d, v,
                        valueType.code);
            }
        }
        VnmMatrix result = new VnmMatrix(matrix[0], rows, cols,
                lengths(rows, cols, vectorLength, n, m), m, valueType, readOnly, values, columnLoc,
                metadata);
        return result.checked(result);
    }

    @Override
    long storedElements() {
        return lengths[2];
    }

    @Override
    void checkIndices() {
        checkArray(arrays[1], "columnLoc", lengths[0], columnBytes);
        checkArray(arrays[2], "metadata", lengths[1], 1);
    }

    private int get(int which) {
        long[][] out = new long[3][1];
        read(matrix -> Native.magicubeVnmGet(matrix, out[0], out[1], out[2], null, null));
        return (int) out[which][0];
    }

    /** {@return V, the rows of a block} */
    public int vectorLength() {
        return get(0);
    }

    /** {@return the elements that a row keeps in a group} */
    public int n() {
        return get(1);
    }

    /** {@return the columns of a group} */
    public int m() {
        return get(2);
    }

    /** {@return the selected columns} */
    public Memory columnLoc() {
        return array(1);
    }

    /** {@return which of the selected columns each element has} */
    public Memory metadata() {
        return array(2);
    }

    /**
     * Points the matrix at other arrays of the same shape.
     *
     * @param columnLoc selected columns
     * @param metadata which of the selected columns each element has
     */
    public void setPointers(Memory columnLoc, Memory metadata) {
        Memory[] before = {arrays[1], arrays[2]};
        change(set(columnLoc, metadata), () -> setFields(columnLoc, metadata),
                () -> setFields(before[0], before[1]), set(before[0], before[1]));
    }

    private static Call set(Memory columnLoc, Memory metadata) {
        return matrix -> Native.magicubeVnmSetPointers(matrix,
                columnLoc == null ? 0 : columnLoc.address, metadata == null ? 0 : metadata.address);
    }

    private void setFields(Memory columnLoc, Memory metadata) {
        arrays[1] = columnLoc;
        arrays[2] = metadata;
    }

    /** The source of a conversion to V:N:M: three functions of the ABI over it. */
    private interface Source {
        void bufferSize(long handle, magicubeVnmArrays_t arrays, long[] bytes);

        void count(long handle, magicubeVnmArrays_t arrays, long[] elements, long workspace,
                long bytes);

        void fill(long handle, magicubeVnmArrays_t arrays, long workspace, long bytes);
    }

    /**
     * Dense to V:N:M: an element exists where it is not 0 or, with a mask, where the mask is not 0.
     *
     * @param handle where, a CPU in this version
     * @param dense what to convert, of a type that V:N:M has
     * @param mask uint8, of the same shape; null: none
     * @param vectorLength V
     * @param n elements that a row keeps in a group
     * @param m columns of a group
     * @return the matrix, which owns its arrays
     * @throws MagicubeException with INVALID_VALUE and the place if the source is not V:N:M
     */
    public static VnmMatrix from(Handle handle, DenseMatrix dense, DenseMatrix mask,
            int vectorLength, int n, int m) {
        try (Uses uses = new Uses(handle)) {
            long from = uses.matrix(dense, "dense");
            long marks = uses.matrix(mask, "mask");
            Source source = new Source() {
                @Override
                public void bufferSize(long h, magicubeVnmArrays_t arrays, long[] bytes) {
                    Native.magicubeDenseToVnm_bufferSize(h, from, marks, arrays, bytes);
                }

                @Override
                public void count(long h, magicubeVnmArrays_t arrays, long[] elements,
                        long workspace, long bytes) {
                    Native.magicubeDenseToVnm_count(h, from, marks, arrays, elements, workspace,
                            bytes);
                }

                @Override
                public void fill(long h, magicubeVnmArrays_t arrays, long workspace, long bytes) {
                    Native.magicubeDenseToVnm_fill(h, from, marks, arrays, workspace, bytes);
                }
            };
            return convert(handle, uses, source,
                    lengths(dense.rows, dense.cols, vectorLength, n, m), dense.rows, dense.cols,
                    vectorLength, n, m, dense.type(), dense.values != null);
        }
    }

    /**
     * Any sparse format to V:N:M; every existing element counts, zero or not.
     *
     * @param handle where, a CPU in this version
     * @param sparse what to convert
     * @param vectorLength V
     * @param n elements that a row keeps in a group
     * @param m columns of a group
     * @return the matrix, which owns its arrays
     * @throws MagicubeException with INVALID_VALUE and the place if the source is not V:N:M
     */
    public static VnmMatrix from(Handle handle, SparseMatrix sparse, int vectorLength, int n,
            int m) {
        try (Uses uses = new Uses(handle)) {
            long from = uses.matrix(sparse, "sparse");
            Source source = new Source() {
                @Override
                public void bufferSize(long h, magicubeVnmArrays_t arrays, long[] bytes) {
                    Native.magicubeSparseToVnm_bufferSize(h, from, arrays, bytes);
                }

                @Override
                public void count(long h, magicubeVnmArrays_t arrays, long[] elements,
                        long workspace, long bytes) {
                    Native.magicubeSparseToVnm_count(h, from, arrays, elements, workspace, bytes);
                }

                @Override
                public void fill(long h, magicubeVnmArrays_t arrays, long workspace, long bytes) {
                    Native.magicubeSparseToVnm_fill(h, from, arrays, workspace, bytes);
                }
            };
            return convert(handle, uses, source,
                    lengths(sparse.rows, sparse.cols, vectorLength, n, m), sparse.rows, sparse.cols,
                    vectorLength, n, m, sparse.valueType, sparse.arrays[0] != null);
        }
    }

    private static VnmMatrix convert(Handle handle, Uses uses, Source source, long[] lengths,
            long rows, long cols, int vectorLength, int n, int m, DataType type,
            boolean hasValues) {
        long[] bytes = new long[1];
        try (magicubeVnmArrays_t arrays = new magicubeVnmArrays_t();
                Conversion.Arrays made = new Conversion.Arrays(handle)) {
            arrays.setVector_length(vectorLength);
            arrays.setN(n);
            arrays.setM(m);
            arrays.setValue_type(type.code);
            source.bufferSize(uses.handle(), arrays, bytes);
            long workspace = uses.scratch(null, bytes[0]);
            source.count(uses.handle(), arrays, new long[1], workspace, bytes[0]);

            Memory columnLoc = made.allocate(lengths[0], 8 * columnBytes(m));
            Memory metadata = made.allocate(lengths[1], 8);
            Memory values = hasValues ? made.allocate(lengths[2], type.width()) : null;
            arrays.setColumn_loc(columnLoc.address);
            arrays.setMetadata(metadata.address);
            arrays.setValues(values == null ? 0 : values.address);
            source.fill(uses.handle(), arrays, workspace, bytes[0]);
            return made.keep(
                    of(rows, cols, vectorLength, n, m, columnLoc, metadata, values, type));
        }
    }

    /**
     * One matrix, no batch, as CSR: every existing element, zeros included.
     *
     * @param handle where, a CPU in this version
     * @param offsetType width of the offsets
     * @param csrType type of the values, which are left out if this has none
     * @return the matrix, which owns its arrays
     */
    public CsrMatrix toCsr(Handle handle, IndexType offsetType, DataType csrType) {
        long[] nnz = new long[1];
        try (Uses uses = new Uses(handle);
                Conversion.Arrays made = new Conversion.Arrays(handle)) {
            long from = uses.matrix(this, "matrix");
            Memory offsets = made.allocate(rows + 1, 8 * offsetType.bytes());
            Native.magicubeVnmToCsr_count(uses.handle(), from, offsetType.code, offsets.address,
                    nnz);
            Memory columns = made.allocate(nnz[0], 32);
            Memory values = arrays[0] == null ? null : made.allocate(nnz[0], csrType.width());
            Native.magicubeVnmToCsr_fill(uses.handle(), from, offsetType.code, offsets.address,
                    columns.address, values == null ? 0 : values.address, csrType.code);
            return made.keep(CsrMatrix.of(rows, cols, nnz[0], offsets, columns, values, offsetType,
                    csrType));
        }
    }
}
