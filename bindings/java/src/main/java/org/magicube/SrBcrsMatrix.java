// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/**
 * Strided row-major block compressed rows: column vectors of V scalars. With br = ceil(rows / V),
 * block row i has the slots from rowBegin[i] (a multiple of the stride S) to rowEnd[i], padded to a
 * multiple of S with column -1; element (v, slot) of the values lies at
 * (slot / S) * V * S + v * S + slot % S.
 */
public final class SrBcrsMatrix extends SparseMatrix {
    private final int vectorLength;
    private long slots;
    private final IndexType offsetType;

    private SrBcrsMatrix(long address, long rows, long cols, int vectorLength, long slots,
            IndexType offsetType, DataType valueType, boolean readOnly, Memory... arrays) {
        super("SrBcrsMatrix", address, rows, cols, valueType, readOnly, arrays);
        this.vectorLength = vectorLength;
        this.slots = slots;
        this.offsetType = offsetType;
    }

    /**
     * Describes memory.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param vectorLength V: 1, 2, 4, 8, 16, 32 or 64
     * @param stride S: 1, 8, 16 or 32
     * @param slots length of colIndices, a multiple of S
     * @param rowBegin first slot of each block row
     * @param rowEnd one past the last slot of each block row that is no padding
     * @param colIndices column of each slot, 32 bits, ascending in a block row; -1 in padding
     * @param values slots * V elements; null: pattern alone
     * @param offsetType width of rowBegin and rowEnd
     * @param valueType type of the values
     * @return the matrix
     */
    public static SrBcrsMatrix of(long rows, long cols, int vectorLength, int stride, long slots,
            Memory rowBegin, Memory rowEnd, Memory colIndices, Memory values, IndexType offsetType,
            DataType valueType) {
        boolean readOnly = isConst(values);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long v = values == null ? 0 : uses.memory(values);
            long b = rowBegin == null ? 0 : uses.memory(rowBegin);
            long e = rowEnd == null ? 0 : uses.memory(rowEnd);
            long c = colIndices == null ? 0 : uses.memory(colIndices);
            if (readOnly) {
                Native.magicubeCreateConstSrBcrs(matrix, rows, cols, vectorLength, stride, slots, b,
                        e, c, v, offsetType.code, valueType.code);
            } else {
                Native.magicubeCreateSrBcrs(matrix, rows, cols, vectorLength, stride, slots, b, e,
                        c, v, offsetType.code, valueType.code);
            }
        }
        SrBcrsMatrix result = new SrBcrsMatrix(matrix[0], rows, cols, vectorLength, slots,
                offsetType, valueType, readOnly, values, rowBegin, rowEnd, colIndices, null);
        return result.checked(result);
    }

    /**
     * The stride that suits a type: 32 for 4- and 8-bit values, 16 for others, 1 for V = 1 (int4:
     * 32).
     *
     * @param vectorLength V
     * @param type of the values
     * @return S
     */
    public static int defaultStride(int vectorLength, DataType type) {
        long[] stride = new long[1];
        Native.magicubeSrBcrsDefaultStride(vectorLength, type.code, stride);
        return (int) stride[0];
    }

    @Override
    long storedElements() {
        return Shapes.times(slots, vectorLength);
    }

    @Override
    void checkIndices() {
        long blockRows = Shapes.times(Shapes.divideUp(rows, vectorLength),
                differentPatterns ? batchCount : 1);
        checkArray(arrays[1], "rowBegin", blockRows, offsetType.bytes());
        checkArray(arrays[2], "rowEnd", blockRows, offsetType.bytes());
        checkArray(arrays[3], "colIndices", slots, 4);
        checkArray(arrays[4], "elementMask", Shapes.times(slots, (vectorLength + 7) / 8), 1);
    }

    /** {@return V, the length of a vector} */
    public int vectorLength() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSrBcrsGet(matrix, out, null, null, null, null, null, null,
                null));
        return (int) out[0];
    }

    /** {@return S, the slots of a chunk} */
    public int stride() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSrBcrsGet(matrix, null, out, null, null, null, null, null,
                null));
        return (int) out[0];
    }

    /** {@return the number of slots, padding included} */
    public long slots() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSrBcrsGet(matrix, null, null, out, null, null, null, null,
                null));
        return out[0];
    }

    /** {@return the width of rowBegin and rowEnd} */
    public IndexType offsetType() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSrBcrsGet(matrix, null, null, null, null, null, null, null,
                out));
        return IndexType.of(out[0]);
    }

    /** {@return the first slot of each block row} */
    public Memory rowBegin() {
        return array(1);
    }

    /** {@return one past the last slot of each block row} */
    public Memory rowEnd() {
        return array(2);
    }

    /** {@return the column of each slot} */
    public Memory colIndices() {
        return array(3);
    }

    /** {@return the element mask; null if every element exists} */
    public Memory elementMask() {
        return array(4);
    }

    /**
     * Points the matrix at other arrays of the same shape. Values and masks that must grow are set
     * first.
     *
     * @param slots length of colIndices
     * @param rowBegin first slot of each block row
     * @param rowEnd one past the last
     * @param colIndices column of each slot
     */
    public void setPointers(long slots, Memory rowBegin, Memory rowEnd, Memory colIndices) {
        long slotsBefore = this.slots;
        Memory[] before = {arrays[1], arrays[2], arrays[3]};
        change(set(slots, rowBegin, rowEnd, colIndices),
                () -> setFields(slots, rowBegin, rowEnd, colIndices),
                () -> setFields(slotsBefore, before[0], before[1], before[2]),
                set(slotsBefore, before[0], before[1], before[2]));
    }

    private static Call set(long slots, Memory rowBegin, Memory rowEnd, Memory colIndices) {
        return matrix -> Native.magicubeSrBcrsSetPointers(matrix, slots,
                rowBegin == null ? 0 : rowBegin.address, rowEnd == null ? 0 : rowEnd.address,
                colIndices == null ? 0 : colIndices.address);
    }

    private void setFields(long slots, Memory rowBegin, Memory rowEnd, Memory colIndices) {
        this.slots = slots;
        arrays[1] = rowBegin;
        arrays[2] = rowEnd;
        arrays[3] = colIndices;
    }

    /**
     * Sets which elements of the vectors exist.
     *
     * @param mask ceil(V / 8) bytes a slot, bit v set if element (v, slot) exists; null: all do
     */
    public void setElementMask(Memory mask) {
        Memory before = arrays[4];
        change(setMask(mask), () -> arrays[4] = mask, () -> arrays[4] = before, setMask(before));
    }

    private static Call setMask(Memory mask) {
        return matrix ->
                Native.magicubeSrBcrsSetElementMask(matrix, mask == null ? 0 : mask.address);
    }

    /**
     * Makes it a batch of matrices with different patterns, whose rowBegin and rowEnd lie one after
     * another and name slots of the shared arrays.
     *
     * @param count number of matrices
     */
    public void setPatternBatch(long count) {
        setBatch(count, 0, true);
    }
}
