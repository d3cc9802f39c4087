// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class MatrixTest {
    private static Memory bytes(int count) {
        return Memory.copyOf(new byte[count]);
    }

    private static void assertTooSmall(String message, Runnable make) {
        assertEquals(message,
                assertThrows(IllegalArgumentException.class, make::run).getMessage());
    }

    @Test
    void dense() {
        Memory values = bytes(100);
        for (Memory memory : new Memory[] {values, values.asReadOnly()}) {
            try (DenseMatrix matrix =
                    DenseMatrix.of(3, 5, 7, memory, DataType.INT16, Order.ROW)) {
                assertEquals(3, matrix.rows());
                assertEquals(5, matrix.cols());
                assertEquals(7, matrix.ld());
                assertEquals(DataType.INT16, matrix.type());
                assertEquals(Order.ROW, matrix.order());
                assertSame(memory, matrix.values());
                assertEquals(memory.isReadOnly(), matrix.isReadOnly());
                assertEquals(1, matrix.batchCount());
                matrix.setCols(10, 20);
                assertEquals(10, matrix.cols());
                assertEquals(20, matrix.ld());
                assertTooSmall("values has 100 bytes; the call needs 102",
                        () -> matrix.setCols(11, 20));
                assertEquals(10, matrix.cols());
                assertThrows(MagicubeException.class, () -> matrix.setCols(11, 5));
                matrix.setCols(1, 1);
                matrix.setStridedBatch(4, 10);
                assertEquals(4, matrix.batchCount());
                assertEquals(10, matrix.batchStride());
                assertTooSmall("values has 100 bytes; the call needs 106",
                        () -> matrix.setStridedBatch(6, 10));
                assertEquals(4, matrix.batchCount());
                Memory other = memory.isReadOnly() ? bytes(66).asReadOnly() : bytes(66);
                matrix.setValues(other);
                assertSame(other, matrix.values());
                assertTooSmall("values has 65 bytes; the call needs 66",
                        () -> matrix.setValues(memory.slice(0, 65)));
            }
        }
        try (DenseMatrix matrix = DenseMatrix.of(2, 2, values, DataType.INT8)) {
            assertThrows(IllegalArgumentException.class,
                    () -> matrix.setValues(values.asReadOnly()));
        }
    }

    @Test
    void denseSizesThatDoNotFit() {
        Memory values = bytes(12);
        DenseMatrix.of(3, 7, 8, values, DataType.INT4, Order.ROW).close();
        assertTooSmall("values has 11 bytes; the call needs 12",
                () -> DenseMatrix.of(3, 7, 8, values.slice(0, 11), DataType.INT4, Order.ROW));
        MagicubeException huge = assertThrows(MagicubeException.class, () -> DenseMatrix.of(
                Long.MAX_VALUE / 2, Long.MAX_VALUE / 2, Long.MAX_VALUE / 2, values,
                DataType.FP32, Order.ROW));
        assertEquals(Status.INVALID_VALUE, huge.status());
        assertThrows(IllegalArgumentException.class, () -> DenseMatrix.of(1L << 31, 1L << 29,
                1L << 29, values, DataType.FP32, Order.ROW));
        MagicubeException negative = assertThrows(MagicubeException.class,
                () -> DenseMatrix.of(-1, 2, values, DataType.INT8));
        assertTrue(negative.getMessage().contains("-1"), negative.getMessage());
        assertThrows(NullPointerException.class,
                () -> DenseMatrix.of(1, 1, 1, values, null, Order.ROW));
    }

    @Test
    void csr() {
        for (IndexType type : IndexType.values()) {
            Memory offsets = bytes((int) (4 * type.bytes()));
            Memory columns = bytes(20);
            Memory values = bytes(5);
            for (Memory given : new Memory[] {values, values.asReadOnly(), null}) {
                try (CsrMatrix matrix = CsrMatrix.of(3, 4, 5, offsets, columns, given, type,
                        DataType.INT8)) {
                    assertEquals(SparseFormat.CSR, matrix.format());
                    assertEquals(3, matrix.rows());
                    assertEquals(4, matrix.cols());
                    assertEquals(5, matrix.nnz());
                    assertEquals(type, matrix.offsetType());
                    assertEquals(DataType.INT8, matrix.valueType());
                    assertSame(given, matrix.values());
                    assertSame(offsets, matrix.offsets());
                    assertSame(columns, matrix.colIndices());
                    matrix.setPointers(2, offsets, columns);
                    assertEquals(2, matrix.nnz());
                    assertTooSmall("colIndices has 20 bytes; the call needs 24",
                            () -> matrix.setPointers(6, offsets, columns));
                    assertEquals(2, matrix.nnz());
                }
            }
            assertTooSmall("colIndices has 20 bytes; the call needs 24",
                    () -> CsrMatrix.of(3, 4, 6, offsets, columns, values, type, DataType.INT8));
            assertTooSmall("values has 5 bytes; the call needs 10",
                    () -> CsrMatrix.of(3, 4, 5, offsets, columns, values, type, DataType.FP16));
            assertTooSmall("offsets has " + 4 * type.bytes() + " bytes; the call needs "
                    + 5 * type.bytes(),
                    () -> CsrMatrix.of(4, 4, 5, offsets, columns, null, type, DataType.INT8));
        }
    }

    @Test
    void bsr() {
        Memory offsets = bytes(12);
        Memory columns = bytes(16);
        Memory values = bytes(24);
        for (Memory given : new Memory[] {values, values.asReadOnly()}) {
            try (BsrMatrix matrix = BsrMatrix.of(4, 9, 2, 3, 4, offsets, columns, given,
                    IndexType.INT32, DataType.INT8)) {
                assertEquals(SparseFormat.BSR, matrix.format());
                assertEquals(2, matrix.blockRows());
                assertEquals(3, matrix.blockCols());
                assertEquals(4, matrix.nnzb());
                assertEquals(IndexType.INT32, matrix.offsetType());
                assertSame(offsets, matrix.offsets());
                assertSame(columns, matrix.blockColIndices());
                matrix.setPointers(1, offsets, columns);
                assertEquals(1, matrix.nnzb());
                assertTooSmall("blockColIndices has 16 bytes; the call needs 20",
                        () -> matrix.setPointers(5, offsets, columns));
            }
        }
        assertTooSmall("values has 24 bytes; the call needs 30", () -> BsrMatrix.of(4, 9, 2, 3, 5,
                offsets, bytes(20), values, IndexType.INT32, DataType.INT8));
    }

    @Test
    void srBcrs() {
        Memory begin = bytes(16);
        Memory end = bytes(16);
        Memory columns = bytes(64);
        Memory values = bytes(128);
        try (SrBcrsMatrix matrix = SrBcrsMatrix.of(15, 9, 8, 8, 16, begin, end, columns, values,
                IndexType.INT64, DataType.INT8)) {
            assertEquals(8, matrix.vectorLength());
            assertEquals(8, matrix.stride());
            assertEquals(16, matrix.slots());
            assertSame(begin, matrix.rowBegin());
            assertSame(end, matrix.rowEnd());
            assertSame(columns, matrix.colIndices());
            assertNull(matrix.elementMask());
            Memory mask = bytes(16);
            matrix.setElementMask(mask);
            assertSame(mask, matrix.elementMask());
            assertTooSmall("elementMask has 15 bytes; the call needs 16",
                    () -> matrix.setElementMask(mask.slice(1, 15)));
            assertSame(mask, matrix.elementMask());
            matrix.setPointers(8, begin, end, columns);
            matrix.setStridedBatch(2, 64);
            assertEquals(64, matrix.valuesStride());
            assertFalse(matrix.hasDifferentPatterns());
            assertTooSmall("values has 128 bytes; the call needs 129",
                    () -> matrix.setStridedBatch(2, 65));
            assertEquals(2, matrix.batchCount());
            assertTooSmall("rowBegin has 16 bytes; the call needs 32",
                    () -> matrix.setPatternBatch(2));
            assertEquals(64, matrix.valuesStride());
            matrix.setPatternBatch(1);
            assertTrue(matrix.hasDifferentPatterns());
            matrix.setValues(values.slice(0, 64));
            assertTooSmall("values has 63 bytes; the call needs 64",
                    () -> matrix.setValues(values.slice(0, 63)));
            assertThrows(IllegalArgumentException.class,
                    () -> matrix.setValues(values.asReadOnly()));
        }
        try (SrBcrsMatrix matrix = SrBcrsMatrix.of(15, 9, 8, 8, 16, begin, end, columns,
                values.asReadOnly(), IndexType.INT64, DataType.INT8)) {
            matrix.setValues(values.asReadOnly());
            assertTrue(matrix.isReadOnly());
        }
    }
}
