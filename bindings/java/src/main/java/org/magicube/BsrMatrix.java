// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/** Block compressed sparse rows: blocks of blockRows x blockCols, each row-major. */
public final class BsrMatrix extends SparseMatrix {
    private final long blockRows;
    private final long blockCols;
    private long nnzb;
    private final IndexType offsetType;

    private BsrMatrix(long address, long rows, long cols, long blockRows, long blockCols, long nnzb,
            IndexType offsetType, DataType valueType, boolean readOnly, Memory... arrays) {
        super("BsrMatrix", address, rows, cols, valueType, readOnly, arrays);
        this.blockRows = blockRows;
        this.blockCols = blockCols;
        this.nnzb = nnzb;
        this.offsetType = offsetType;
    }

    /**
     * Describes memory.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param blockRows rows of a block
     * @param blockCols columns of a block
     * @param nnzb number of blocks
     * @param offsets ceil(rows / blockRows) + 1 entries
     * @param blockColIndices nnzb block columns of 32 bits, ascending within a block row
     * @param values the blocks; elements past the matrix's edge are 0; null: pattern alone
     * @param offsetType width of the offsets
     * @param valueType type of the values
     * @return the matrix
     */
    public static BsrMatrix of(long rows, long cols, long blockRows, long blockCols, long nnzb,
            Memory offsets, Memory blockColIndices, Memory values, IndexType offsetType,
            DataType valueType) {
        boolean readOnly = isConst(values);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long v = values == null ? 0 : uses.memory(values);
            long o = offsets == null ? 0 : uses.memory(offsets);
            long c = blockColIndices == null ? 0 : uses.memory(blockColIndices);
            if (readOnly) {
                Native.magicubeCreateConstBsr(matrix, rows, cols, blockRows, blockCols, nnzb, o, c,
                        v, offsetType.code, valueType.code);
            } else {
                Native.magicubeCreateBsr(matrix, rows, cols, blockRows, blockCols, nnzb, o, c, v,
                        offsetType.code, valueType.code);
            }
        }
        BsrMatrix result = new BsrMatrix(matrix[0], rows, cols, blockRows, blockCols, nnzb,
                offsetType, valueType, readOnly, values, offsets, blockColIndices);
        return result.checked(result);
    }

    @Override
    long storedElements() {
        return Shapes.times(Shapes.times(blockRows, blockCols), nnzb);
    }

    @Override
    void checkIndices() {
        checkArray(arrays[1], "offsets", Shapes.divideUp(rows, blockRows) + 1, offsetType.bytes());
        checkArray(arrays[2], "blockColIndices", nnzb, 4);
    }

    /** {@return the rows of a block} */
    public long blockRows() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeBsrGet(matrix, out, null, null, null, null, null));
        return out[0];
    }

    /** {@return the columns of a block} */
    public long blockCols() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeBsrGet(matrix, null, out, null, null, null, null));
        return out[0];
    }

    /** {@return the number of blocks} */
    public long nnzb() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeBsrGet(matrix, null, null, out, null, null, null));
        return out[0];
    }

    /** {@return the width of the offsets} */
    public IndexType offsetType() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeBsrGet(matrix, null, null, null, null, null, out));
        return IndexType.of(out[0]);
    }

    /** {@return the offsets} */
    public Memory offsets() {
        return array(1);
    }

    /** {@return the block columns} */
    public Memory blockColIndices() {
        return array(2);
    }

    /**
     * Points the matrix at other arrays of the same shape. Values that must grow are set first.
     *
     * @param nnzb number of blocks
     * @param offsets ceil(rows / blockRows) + 1 entries
     * @param blockColIndices nnzb block columns
     */
    public void setPointers(long nnzb, Memory offsets, Memory blockColIndices) {
        long nnzbBefore = this.nnzb;
        Memory[] before = {arrays[1], arrays[2]};
        change(set(nnzb, offsets, blockColIndices),
                () -> setFields(nnzb, offsets, blockColIndices),
                () -> setFields(nnzbBefore, before[0], before[1]),
                set(nnzbBefore, before[0], before[1]));
    }

    private static Call set(long nnzb, Memory offsets, Memory blockColIndices) {
        return matrix -> Native.magicubeBsrSetPointers(matrix, nnzb,
                offsets == null ? 0 : offsets.address,
                blockColIndices == null ? 0 : blockColIndices.address);
    }

    private void setFields(long nnzb, Memory offsets, Memory blockColIndices) {
        this.nnzb = nnzb;
        arrays[1] = offsets;
        arrays[2] = blockColIndices;
    }
}
