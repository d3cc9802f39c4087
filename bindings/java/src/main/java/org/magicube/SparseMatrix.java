// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/**
 * What memory means as a sparse matrix: a descriptor, which keeps its arrays reachable. A format is
 * a subclass. One that a conversion made owns its arrays, and closes them with itself.
 */
public abstract class SparseMatrix extends NativeObject {
    /** Values first, then the format's own; changed under enterChange alone. */
    final Memory[] arrays;
    final boolean readOnly;
    final long rows;
    final long cols;
    final DataType valueType;
    private Memory[] owned = {};
    long batchCount = 1;
    long valuesStride;
    boolean differentPatterns;

    SparseMatrix(String name, long address, long rows, long cols, DataType valueType,
            boolean readOnly, Memory... arrays) {
        super(new Lifetime(name, address, Native::magicubeDestroySpMat));
        this.rows = rows;
        this.cols = cols;
        this.valueType = valueType;
        this.readOnly = readOnly;
        this.arrays = arrays;
    }

    /** Stored elements of one value array, padding included. */
    abstract long storedElements();

    /** Refuses arrays that are too small for the format and the batch. */
    abstract void checkIndices();

    static boolean isConst(Memory values) {
        return values == null || values.isReadOnly();
    }

    /** Elements of all value arrays of the batch. */
    long valueElements() {
        return differentPatterns ? storedElements()
                : Shapes.reach(batchCount, valuesStride, storedElements());
    }

    /** Elements of arrays that an operation writes in this layout; batchStride 0: no gaps. */
    long layoutElements(long count, long batchStride) {
        return differentPatterns ? storedElements() : Shapes.reach(count,
                batchStride == 0 ? storedElements() : batchStride, storedElements());
    }

    private void checkValues() {
        if (arrays[0] != null) {
            arrays[0].check("values", valueType.bytes(valueElements()), valueType.width());
        }
    }

    /** Refuses arrays that are too small; what was made is closed then. */
    final <T extends SparseMatrix> T checked(T self) {
        try {
            checkIndices();
            checkValues();
            return self;
        } catch (IllegalArgumentException tooSmall) {
            close();
            throw tooSmall;
        }
    }

    static void checkArray(Memory array, String name, long elements, long width) {
        if (array != null) {
            array.check(name, Shapes.times(Math.max(elements, 0), width), (int) (8 * width));
        }
    }

    final void ownArrays() {
        owned = arrays.clone();
    }

    @Override
    public void close() {
        super.close();
        for (Memory array : owned) {
            if (array != null) {
                array.close();
            }
        }
    }

    interface Call {
        void on(long matrix);
    }

    final void read(Call call) {
        try (Uses uses = new Uses()) {
            call.on(uses.object(this));
        }
    }

    /** Runs a setter and what must follow it; if the arrays are too small then, restores. */
    final void change(Call setter, Runnable fields, Runnable back, Call restore) {
        long matrix = lifetime.enterChange();
        try {
            setter.on(matrix);
            fields.run();
            try {
                checkIndices();
                checkValues();
            } catch (IllegalArgumentException tooSmall) {
                back.run();
                restore.on(matrix);
                throw tooSmall;
            }
        } finally {
            lifetime.exitChange();
        }
    }

    /** {@return the storage format} */
    public final SparseFormat format() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGet(matrix, out, null, null, null, null));
        return SparseFormat.of(out[0]);
    }

    /** {@return the number of rows} */
    public final long rows() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGet(matrix, null, out, null, null, null));
        return out[0];
    }

    /** {@return the number of columns} */
    public final long cols() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGet(matrix, null, null, out, null, null));
        return out[0];
    }

    /** {@return the type of the values} */
    public final DataType valueType() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGet(matrix, null, null, null, out, null));
        return DataType.of(out[0]);
    }

    /** {@return the memory of the values; null for a pattern alone} */
    public final Memory values() {
        return array(0);
    }

    final Memory array(int which) {
        try (Uses uses = new Uses()) {
            uses.object(this);
            return arrays[which];
        }
    }

    /** {@return whether calls may not write the values} */
    public final boolean isReadOnly() {
        return readOnly;
    }

    /** {@return the number of matrices; 1 until set} */
    public final long batchCount() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGetBatch(matrix, out, null, null));
        return out[0];
    }

    /** {@return the elements between the value arrays of a batch with one pattern} */
    public final long valuesStride() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGetBatch(matrix, null, out, null));
        return out[0];
    }

    /** {@return whether the matrices of the batch have patterns of their own} */
    public final boolean hasDifferentPatterns() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeSpMatGetBatch(matrix, null, null, out));
        return out[0] != 0;
    }

    /**
     * Points the matrix at other values of the same pattern.
     *
     * @param values as many as before; not read-only, unless those before were
     */
    public final void setValues(Memory values) {
        if (!readOnly && values != null && values.isReadOnly()) {
            throw new IllegalArgumentException(
                    "values is read-only; make the matrix over read-only memory");
        }
        Memory before = arrays[0];
        Memory[] next = {values};
        Call set = matrix -> {
            long address = next[0] == null ? 0 : next[0].address;
            if (readOnly) {
                Native.magicubeConstSpMatSetValues(matrix, address);
            } else {
                Native.magicubeSpMatSetValues(matrix, address);
            }
        };
        change(set, () -> arrays[0] = values, () -> arrays[0] = next[0] = before, set);
    }

    /**
     * Makes it a batch of matrices with one pattern.
     *
     * @param count number of matrices
     * @param valuesStride elements between their values, even for int4; 0: one set serves all
     */
    public final void setStridedBatch(long count, long valuesStride) {
        setBatch(count, valuesStride, false);
    }

    final void setBatch(long count, long stride, boolean different) {
        long countBefore = batchCount;
        long strideBefore = this.valuesStride;
        boolean differentBefore = differentPatterns;
        Call set = matrix -> setNativeBatch(matrix, count, stride, different);
        Call restore = matrix ->
                setNativeBatch(matrix, countBefore, strideBefore, differentBefore);
        change(set, () -> setBatchFields(count, stride, different),
                () -> setBatchFields(countBefore, strideBefore, differentBefore), restore);
    }

    private static void setNativeBatch(long matrix, long count, long stride, boolean different) {
        if (different) {
            Native.magicubeSrBcrsSetPatternBatch(matrix, count);
        } else {
            Native.magicubeSpMatSetStridedBatch(matrix, count, stride);
        }
    }

    private void setBatchFields(long count, long stride, boolean different) {
        batchCount = count;
        valuesStride = stride;
        differentPatterns = different;
    }

    /**
     * Checks the matrix wholly, whatever the handle's validation level: offsets, columns, padding.
     *
     * @param handle of the device that the arrays lie on
     * @throws MagicubeException with INVALID_VALUE, the place and the rule if it is malformed
     */
    public final void validate(Handle handle) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeSpMatValidate(uses.handle(), uses.matrix(this, "matrix"));
        }
    }
}
