// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/** Compressed sparse rows: offsets of rows + 1 entries, ascending columns in each row, values. */
public final class CsrMatrix extends SparseMatrix {
    private long nnz;
    private final IndexType offsetType;

    private CsrMatrix(long address, long rows, long cols, long nnz, IndexType offsetType,
            DataType valueType, boolean readOnly, Memory... arrays) {
        super("CsrMatrix", address, rows, cols, valueType, readOnly, arrays);
        this.nnz = nnz;
        this.offsetType = offsetType;
    }

    /**
     * Describes memory.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param nnz number of stored elements
     * @param offsets rows + 1 entries
     * @param colIndices nnz columns of 32 bits, ascending within a row
     * @param values nnz elements; null: pattern alone
     * @param offsetType width of the offsets
     * @param valueType type of the values
     * @return the matrix
     */
    public static CsrMatrix of(long rows, long cols, long nnz, Memory offsets, Memory colIndices,
            Memory values, IndexType offsetType, DataType valueType) {
        boolean readOnly = isConst(values);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long v = values == null ? 0 : uses.memory(values);
            long o = offsets == null ? 0 : uses.memory(offsets);
            long c = colIndices == null ? 0 : uses.memory(colIndices);
            if (readOnly) {
                Native.magicubeCreateConstCsr(matrix, rows, cols, nnz, o, c, v, offsetType.code,
                        valueType.code);
            } else {
                Native.magicubeCreateCsr(matrix, rows, cols, nnz, o, c, v, offsetType.code,
                        valueType.code);
            }
        }
        CsrMatrix result = new CsrMatrix(matrix[0], rows, cols, nnz, offsetType, valueType,
                readOnly, values, offsets, colIndices);
        return result.checked(result);
    }

    @Override
    long storedElements() {
        return nnz;
    }

    @Override
    void checkIndices() {
        checkArray(arrays[1], "offsets", Shapes.plus(rows, 1), offsetType.bytes());
        checkArray(arrays[2], "colIndices", nnz, 4);
    }

    /** {@return the number of stored elements} */
    public long nnz() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeCsrGet(matrix, out, null, null, null));
        return out[0];
    }

    /** {@return the width of the offsets} */
    public IndexType offsetType() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeCsrGet(matrix, null, null, null, out));
        return IndexType.of(out[0]);
    }

    /** {@return the offsets} */
    public Memory offsets() {
        return array(1);
    }

    /** {@return the columns} */
    public Memory colIndices() {
        return array(2);
    }

    /**
     * Points the matrix at other arrays of the same shape. Values that must grow are set first.
     *
     * @param nnz number of stored elements
     * @param offsets rows + 1 entries
     * @param colIndices nnz columns
     */
    public void setPointers(long nnz, Memory offsets, Memory colIndices) {
        long nnzBefore = this.nnz;
        Memory[] before = {arrays[1], arrays[2]};
        change(set(nnz, offsets, colIndices), () -> setFields(nnz, offsets, colIndices),
                () -> setFields(nnzBefore, before[0], before[1]),
                set(nnzBefore, before[0], before[1]));
    }

    private static Call set(long nnz, Memory offsets, Memory colIndices) {
        return matrix -> Native.magicubeCsrSetPointers(matrix, nnz,
                offsets == null ? 0 : offsets.address, colIndices == null ? 0 : colIndices.address);
    }

    private void setFields(long nnz, Memory offsets, Memory colIndices) {
        this.nnz = nnz;
        arrays[1] = offsets;
        arrays[2] = colIndices;
    }
}
