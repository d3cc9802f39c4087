// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ConversionTest {
    private final Random random = new Random(4);
    private Handle handle;

    @BeforeEach
    void open() {
        handle = Handle.create(Device.CPU);
    }

    @AfterEach
    void close() {
        handle.close();
    }

    private static DenseMatrix dense(Sparse sparse) {
        int ld = sparse.cols + sparse.cols % 2;
        double[] padded = new double[sparse.rows * ld];
        for (int i = 0; i < sparse.dense.length; ++i) {
            padded[i / sparse.cols * ld + i % sparse.cols] = sparse.dense[i];
        }
        return DenseMatrix.of(sparse.rows, sparse.cols, ld, Elements.pack(sparse.type, padded),
                sparse.type, Order.ROW);
    }

    private static DenseMatrix mask(Sparse sparse) {
        byte[] marks = new byte[sparse.exists.length];
        for (int i = 0; i < marks.length; ++i) {
            marks[i] = (byte) (sparse.exists[i] ? 1 : 0);
        }
        return DenseMatrix.of(sparse.rows, sparse.cols, Memory.copyOf(marks), DataType.UINT8);
    }

    /** The layout is that of the book, but for values in padding slots. */
    private static void assertLayout(Sparse expected, SrBcrsMatrix got) {
        assertEquals(expected.columns.length, got.slots());
        assertEquals(expected.v, got.vectorLength());
        assertEquals(expected.stride, got.stride());
        assertEquals(SparseFormat.SR_BCRS, got.format());
        assertEquals(expected.rows, got.rows());
        assertEquals(expected.cols, got.cols());
        assertArrayEquals(expected.rowBegin, got.rowBegin().toLongs());
        assertArrayEquals(expected.rowEnd, got.rowEnd().toLongs());
        if (got.slots() > 0) {
            assertArrayEquals(expected.columns, got.colIndices().toInts());
        }
        if (got.elementMask() != null && got.slots() > 0) {
            assertArrayEquals(expected.mask, got.elementMask().toBytes());
        }
        if (got.values() != null) {
            assertEquals(expected.type, got.valueType());
            double[] values = Elements.unpack(expected.type, got.values(), expected.values.length);
            int[] places = expected.places();
            for (int i = 0; i < values.length; ++i) {
                if (places[i] >= 0) {
                    assertEquals(expected.values[i], values[i]);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class, names = "INT32", mode = EnumSource.Mode.EXCLUDE)
    void denseWithAMask(DataType type) {
        for (int v : new int[] {1, 2, 4, 8, 16, 32, 64}) {
            Sparse sparse = new Sparse(random, 2 * v + 3, 37, v, type, 0.3, true);
            try (DenseMatrix dense = dense(sparse); DenseMatrix mask = mask(sparse);
                    SrBcrsMatrix got =
                            Conversion.toSrBcrs(handle, dense, mask, Conversion.layout(v))) {
                assertLayout(sparse, got);
                got.validate(handle);
                Memory back = Memory.copyOf(new byte[(int) dense.values().size()]);
                try (DenseMatrix result = DenseMatrix.of(sparse.rows, sparse.cols, dense.ld(), back,
                        type, Order.ROW)) {
                    Conversion.toDense(handle, got, result);
                }
                assertArrayEquals(dense.values().toBytes(), back.toBytes());
                Memory marks = Memory.copyOf(new byte[sparse.exists.length]);
                try (DenseMatrix result =
                        DenseMatrix.of(sparse.rows, sparse.cols, marks, DataType.UINT8)) {
                    Conversion.toMask(handle, got, result);
                }
                assertArrayEquals(mask.values().toBytes(), marks.toBytes());
            }
        }
    }

    @Test
    void throughCsrAndBsrAndBack() {
        Sparse sparse = new Sparse(random, 45, 30, 8, DataType.INT16, 0.3, true);
        try (SrBcrsMatrix matrix = sparse.matrix();
                CsrMatrix csr = Conversion.toCsr(handle, matrix, IndexType.INT32, DataType.INT16);
                SrBcrsMatrix again = Conversion.toSrBcrs(handle, csr, Conversion.layout(8));
                BsrMatrix bsr = Conversion.toBsr(handle, matrix, 4, 2, IndexType.INT64,
                        DataType.INT16);
                Memory fromBsr = Memory.allocate(2L * 45 * 30);
                DenseMatrix dense = DenseMatrix.of(45, 30, fromBsr, DataType.INT16)) {
            assertLayout(sparse, again);
            int nnz = 0;
            int[] offsets = csr.offsets().toInts();
            short[] values = csr.values().toShorts();
            int[] columns = csr.colIndices().toInts();
            for (int i = 0; i < sparse.exists.length; ++i) {
                if (i % 30 == 0) {
                    assertEquals(nnz, offsets[i / 30]);
                }
                if (sparse.exists[i]) {
                    assertEquals(i % 30, columns[nnz]);
                    assertEquals(sparse.dense[i], values[nnz++]);
                }
            }
            assertEquals(nnz, csr.nnz());
            assertEquals(SparseFormat.BSR, bsr.format());
            assertEquals(4, bsr.blockRows());
            assertEquals(2, bsr.blockCols());
            assertEquals(bsr.nnzb(), bsr.offsets().toLongs()[12]);
            Conversion.toDense(handle, bsr, dense);
            assertArrayEquals(sparse.dense, Elements.unpack(DataType.INT16, fromBsr, 45 * 30));
        }
    }

    @Test
    void aBatchGivesABatchOfPatterns() {
        double[] values = Elements.random(DataType.INT8, random, 2 * 16 * 10);
        Arrays.fill(values, 0, 80, 0);
        try (DenseMatrix dense =
                DenseMatrix.of(16, 10, Elements.pack(DataType.INT8, values), DataType.INT8)) {
            dense.setStridedBatch(2, 160);
            SrBcrsMatrix got = Conversion.toSrBcrs(handle, dense, null,
                    Conversion.layout(8).stride(16).offsets(IndexType.INT32));
            assertEquals(2, got.batchCount());
            assertTrue(got.hasDifferentPatterns());
            assertEquals(IndexType.INT32, got.offsetType());
            assertArrayEquals(new int[] {0, 0, 16, 32}, got.rowBegin().toInts());
            assertArrayEquals(new int[] {0, 10, 26, 42}, got.rowEnd().toInts());
            assertNull(got.elementMask());
            Memory indices = got.colIndices();
            got.close();
            assertThrows(IllegalStateException.class, indices::toInts, "arrays go with the matrix");
        }
    }

    @Test
    void layoutsAndTypes() {
        float[] values = {1.25f, 0, 0, -3, 0, 0};
        try (DenseMatrix dense = DenseMatrix.of(2, 3, Memory.copyOf(values), DataType.FP32);
                SrBcrsMatrix half = Conversion.toSrBcrs(handle, dense, null,
                        Conversion.layout(2).values(DataType.FP16).elementMask(true));
                SrBcrsMatrix pattern = Conversion.toSrBcrs(handle, dense, null,
                        Conversion.layout(2).patternOnly())) {
            assertEquals(DataType.FP16, half.valueType());
            assertEquals(1.25, Elements.unpack(DataType.FP16, half.values(), 1)[0]);
            assertEquals(3, half.elementMask().toBytes()[0]);
            assertNull(pattern.values());
            try (SrBcrsMatrix wider =
                    Conversion.toSrBcrs(handle, half, Conversion.layout(4).stride(8))) {
                assertEquals(8, wider.stride());
            }
            MagicubeException odd = assertThrows(MagicubeException.class,
                    () -> Conversion.toSrBcrs(handle, dense, null, Conversion.layout(3)));
            assertEquals(Status.INVALID_VALUE, odd.status());
            assertTrue(odd.getMessage().contains("3"), odd.getMessage());
        }
    }

    @Test
    void malformedMatricesAreRefused() {
        try (SrBcrsMatrix bad = SrBcrsMatrix.of(8, 4, 8, 8, 8, Memory.copyOf(0L),
                Memory.copyOf(2L), Memory.copyOf(new int[] {1, 9, -1, -1, -1, -1, -1, -1}), null,
                IndexType.INT64, DataType.INT8)) {
            MagicubeException refused =
                    assertThrows(MagicubeException.class, () -> bad.validate(handle));
            assertEquals(Status.INVALID_VALUE, refused.status());
            assertTrue(refused.getMessage().contains("9"), refused.getMessage());
            assertThrows(MagicubeException.class, () -> SpMM.problem(bad).plan(handle));
        }
    }
}
