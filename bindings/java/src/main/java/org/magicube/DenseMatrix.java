// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/**
 * What memory means as a dense matrix of rows x cols elements: a descriptor, which owns no data but
 * keeps its memory reachable. Over read-only memory it serves as input only.
 */
public final class DenseMatrix extends NativeObject {
    final boolean readOnly;
    Memory values; // as the next ones, changed under enterChange alone
    long rows;
    long cols;
    long ld;
    long batchCount = 1;
    long batchStride;
    private final DataType type;
    private final Order order;

    private DenseMatrix(long address, long rows, long cols, long ld, Memory values, DataType type,
            Order order, boolean readOnly) {
        super(new Lifetime("DenseMatrix", address, Native::magicubeDestroyDnMat));
        this.rows = rows;
        this.cols = cols;
        this.ld = ld;
        this.values = values;
        this.type = type;
        this.order = order;
        this.readOnly = readOnly;
    }

    /**
     * Describes memory.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param ld elements between rows (ROW) or columns (COL); even for int4
     * @param values the elements; null for an empty matrix, or for a shape alone
     * @param type of the elements
     * @param order of the elements
     * @return the matrix
     */
    public static DenseMatrix of(long rows, long cols, long ld, Memory values, DataType type,
            Order order) {
        boolean readOnly = values == null || values.isReadOnly();
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long address = values == null ? 0 : uses.memory(values);
            if (readOnly) {
                Native.magicubeCreateConstDnMat(matrix, rows, cols, ld, address, type.code,
                        order.code);
            } else {
                Native.magicubeCreateDnMat(matrix, rows, cols, ld, address, type.code, order.code);
            }
        }
        DenseMatrix result =
                new DenseMatrix(matrix[0], rows, cols, ld, values, type, order, readOnly);
        try {
            result.check(values, cols, ld, 1, 0);
        } catch (IllegalArgumentException tooSmall) {
            result.close();
            throw tooSmall;
        }
        return result;
    }

    /**
     * Describes memory that holds a row-major matrix without gaps (for int4, rows of an even number
     * of elements).
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param values the elements
     * @param type of the elements
     * @return the matrix
     */
    public static DenseMatrix of(long rows, long cols, Memory values, DataType type) {
        long ld = type == DataType.INT4 && cols > 0 ? cols + cols % 2 : cols;
        return of(rows, cols, ld, values, type, Order.ROW);
    }

    private void check(Memory memory, long cols, long ld, long count, long stride) {
        if (memory != null) {
            boolean byRow = order == Order.ROW;
            long one = Shapes.reach(byRow ? rows : cols, ld, byRow ? cols : rows);
            memory.check("values", type.bytes(Shapes.reach(count, stride, one)), type.width());
        }
    }

    private interface Reader {
        void read(long matrix);
    }

    private void read(Reader reader) {
        try (Uses uses = new Uses()) {
            reader.read(uses.object(this));
        }
    }

    /** {@return the number of rows} */
    public long rows() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGet(matrix, out, null, null, null, null, null));
        return out[0];
    }

    /** {@return the number of columns} */
    public long cols() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGet(matrix, null, out, null, null, null, null));
        return out[0];
    }

    /** {@return the elements between rows (ROW) or columns (COL)} */
    public long ld() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGet(matrix, null, null, out, null, null, null));
        return out[0];
    }

    /** {@return the memory of the elements; null for a shape alone} */
    public Memory values() {
        try (Uses uses = new Uses()) {
            uses.object(this);
            return values;
        }
    }

    /** {@return the type of the elements} */
    public DataType type() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGet(matrix, null, null, null, null, out, null));
        return DataType.of(out[0]);
    }

    /** {@return the order of the elements} */
    public Order order() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGet(matrix, null, null, null, null, null, out));
        return Order.of(out[0]);
    }

    /** {@return whether calls may not write it} */
    public boolean isReadOnly() {
        return readOnly;
    }

    /** {@return the number of matrices; 1 until set} */
    public long batchCount() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGetStridedBatch(matrix, out, null));
        return out[0];
    }

    /** {@return the elements between the matrices of the batch} */
    public long batchStride() {
        long[] out = new long[1];
        read(matrix -> Native.magicubeDnMatGetStridedBatch(matrix, null, out));
        return out[0];
    }

    /**
     * Points the matrix at other elements of the same shape.
     *
     * @param values the elements; not read-only, unless those before were
     * @return this
     */
    public DenseMatrix setValues(Memory values) {
        if (!readOnly && values != null && values.isReadOnly()) {
            throw new IllegalArgumentException(
                    "values is read-only; make the matrix over read-only memory");
        }
        long matrix = lifetime.enterChange();
        try (Uses uses = new Uses()) {
            check(values, cols, ld, batchCount, batchStride);
            long address = values == null ? 0 : uses.memory(values);
            if (readOnly) {
                Native.magicubeConstDnMatSetValues(matrix, address);
            } else {
                Native.magicubeDnMatSetValues(matrix, address);
            }
            this.values = values;
        } finally {
            lifetime.exitChange();
        }
        return this;
    }

    /**
     * Changes the number of columns, so that batches of other widths need no other object.
     *
     * @param cols number of columns
     * @param ld elements between rows (ROW) or columns (COL)
     * @return this
     */
    public DenseMatrix setCols(long cols, long ld) {
        long matrix = lifetime.enterChange();
        try {
            Native.magicubeDnMatSetCols(matrix, cols, ld);
            try {
                check(values, cols, ld, batchCount, batchStride);
            } catch (IllegalArgumentException tooSmall) {
                Native.magicubeDnMatSetCols(matrix, this.cols, this.ld);
                throw tooSmall;
            }
            this.cols = cols;
            this.ld = ld;
        } finally {
            lifetime.exitChange();
        }
        return this;
    }

    /**
     * Makes it a batch.
     *
     * @param count number of matrices
     * @param stride elements between them, even for int4; 0: one serves all, for inputs
     * @return this
     */
    public DenseMatrix setStridedBatch(long count, long stride) {
        long matrix = lifetime.enterChange();
        try {
            Native.magicubeDnMatSetStridedBatch(matrix, count, stride);
            try {
                check(values, cols, ld, count, stride);
            } catch (IllegalArgumentException tooSmall) {
                Native.magicubeDnMatSetStridedBatch(matrix, batchCount, batchStride);
                throw tooSmall;
            }
            batchCount = count;
            batchStride = stride;
        } finally {
            lifetime.exitChange();
        }
        return this;
    }
}
