// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import org.junit.jupiter.api.Test;

class MemoryTest {
    private static ByteBuffer direct(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }

    @Test
    void heapBuffersAreRefusedWithTheFix() {
        IllegalArgumentException heap = assertThrows(IllegalArgumentException.class,
                () -> Memory.of(FloatBuffer.allocate(4)));
        assertTrue(heap.getMessage().contains("heap buffer")
                && heap.getMessage().contains("ByteBuffer.allocateDirect(bytes)"),
                heap.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Memory.of(ByteBuffer.allocate(4)));
    }

    @Test
    void buffersAreSharedFromPositionToLimit() {
        ByteBuffer buffer = direct(32);
        for (int i = 0; i < 32; ++i) {
            buffer.put(i, (byte) i);
        }
        buffer.position(4).limit(9);
        Memory memory = Memory.of(buffer);
        buffer.position(0); // of no concern
        assertEquals(5, memory.size());
        assertArrayEquals(new byte[] {4, 5, 6, 7, 8}, memory.toBytes());
        buffer.put(4, (byte) 99);
        assertEquals(99, memory.toBytes()[0]);

        FloatBuffer floats = direct(32).asFloatBuffer().put(2, 1.5f).position(2);
        assertEquals(24, Memory.of(floats).size());
        assertEquals(1.5f, Memory.of(floats).toFloats()[0]);
        assertEquals(16, Memory.of(direct(32).asLongBuffer().position(2)).size());
        assertEquals(24, Memory.of(direct(32).asDoubleBuffer().position(1)).size());
        assertEquals(24, Memory.of(direct(32).asIntBuffer().position(2)).size());
        assertEquals(28, Memory.of(direct(32).asShortBuffer().position(2)).size());
        assertEquals(28, Memory.of(direct(32).asCharBuffer().position(2)).size());
    }

    @Test
    void foreignByteOrderIsRefusedWhereItMatters() {
        ByteBuffer foreign = ByteBuffer.allocateDirect(64).order(ByteOrder.BIG_ENDIAN);
        DenseMatrix.of(8, 8, Memory.of(foreign), DataType.INT8).close();
        IllegalArgumentException refused = assertThrows(IllegalArgumentException.class,
                () -> DenseMatrix.of(4, 4, Memory.of(foreign), DataType.FP32));
        assertTrue(refused.getMessage().contains("order(ByteOrder.nativeOrder())"),
                refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> DenseMatrix.of(4, 4,
                Memory.of(foreign.asFloatBuffer()), DataType.FP32));
    }

    @Test
    void readOnlyMemoryIsInputOnly() {
        Memory memory = Memory.of(direct(64).asReadOnlyBuffer());
        assertTrue(memory.isReadOnly() && Memory.copyOf(1f).asReadOnly().isReadOnly());
        try (Handle handle = Handle.create(Device.CPU);
                DenseMatrix matrix = DenseMatrix.of(8, 8, memory, DataType.INT8)) {
            assertTrue(matrix.isReadOnly());
            assertThrows(IllegalArgumentException.class, () -> handle.fill(memory, 0));
            assertThrows(IllegalArgumentException.class,
                    () -> handle.copy(memory, Memory.copyOf(1)));
            IllegalArgumentException refused = assertThrows(IllegalArgumentException.class,
                    () -> Prune.mask(handle, matrix, Prune.options(), matrix));
            assertEquals("mask is over read-only memory; the call writes it", refused.getMessage());
        }
    }

    @Test
    void arraysThereAndBack() {
        assertArrayEquals(new byte[] {1, -2}, Memory.copyOf((byte) 1, (byte) -2).toBytes());
        assertArrayEquals(new short[] {1, -2}, Memory.copyOf((short) 1, (short) -2).toShorts());
        assertArrayEquals(new int[] {1, -2}, Memory.copyOf(1, -2).toInts());
        assertArrayEquals(new long[] {1, -2}, Memory.copyOf(1L, -2L).toLongs());
        assertArrayEquals(new float[] {1, -2}, Memory.copyOf(1f, -2f).toFloats());
        assertEquals(0, Memory.copyOf(new int[0]).toInts().length);
    }

    @Test
    void copiesAndFills() {
        try (Handle handle = Handle.create(Device.CPU); Memory memory = Memory.allocate(10)) {
            handle.fill(memory, 3);
            handle.copy(memory.slice(2, 8), Memory.copyOf(0x01010101));
            handle.synchronize();
            assertArrayEquals(new byte[] {3, 3, 1, 1, 1, 1, 3, 3, 3, 3}, memory.toBytes());
            IllegalArgumentException small = assertThrows(IllegalArgumentException.class,
                    () -> handle.copy(memory, Memory.copyOf(1L, 2L)));
            assertEquals("destination has 10 bytes; the call needs 16", small.getMessage());
            MagicubeException value =
                    assertThrows(MagicubeException.class, () -> handle.fill(memory, 256));
            assertEquals(Status.INVALID_VALUE, value.status());
            assertTrue(value.getMessage().contains("256"), value.getMessage());
        }
    }

    @Test
    void slicesSeeTheirPartAlone() {
        Memory memory = Memory.copyOf(1, 2, 3);
        assertThrows(IndexOutOfBoundsException.class, () -> memory.slice(8, 8));
        assertThrows(IndexOutOfBoundsException.class, () -> memory.slice(-1, 2));
        assertThrows(IndexOutOfBoundsException.class, () -> memory.slice(4, Long.MAX_VALUE));
        Memory part = memory.slice(4, 8).slice(4, 4);
        part.close();
        assertArrayEquals(new int[] {3}, part.toInts());
    }

    @Test
    void moreThanTwoGibibytes() {
        long ld = 3_000_000_000L;
        try (Handle handle = Handle.create(Device.CPU); Memory memory = Memory.allocate(ld + 8)) {
            assertEquals(ld + 8, memory.size());
            assertThrows(IllegalStateException.class, memory::toBytes);
            handle.copy(memory.slice(0, 2), Memory.copyOf((byte) 3, (byte) -4));
            handle.copy(memory.slice(ld, 2), Memory.copyOf((byte) 5, (byte) 6));
            Memory out = Memory.copyOf(0, 0);
            // A row of two ones, times two rows that lie 3 GB apart.
            try (CsrMatrix ones = CsrMatrix.of(1, 2, 2, Memory.copyOf(0, 2), Memory.copyOf(0, 1),
                    Memory.copyOf((byte) 1, (byte) 1), IndexType.INT32, DataType.INT8);
                    DenseMatrix b =
                            DenseMatrix.of(2, 2, ld, memory, DataType.INT8, Order.ROW);
                    DenseMatrix c = DenseMatrix.of(1, 2, out, DataType.INT32);
                    SpMM.Plan plan = SpMM.problem(ones).c(DataType.INT32, Order.ROW).columns(2, 2)
                            .plan(handle)) {
                plan.execute(handle, b, c);
            }
            assertArrayEquals(new int[] {8, 2}, out.toInts());
            assertThrows(IllegalArgumentException.class,
                    () -> DenseMatrix.of(2, 9, ld, memory, DataType.INT8, Order.ROW));
        }
    }

    @Test
    void whatCannotBeAllocated() {
        assertEquals("bytes is -1; it must be at least 0", assertThrows(
                IllegalArgumentException.class, () -> Memory.allocate(-1)).getMessage());
        MagicubeException failure = assertThrows(MagicubeException.class,
                () -> Memory.allocate(Long.MAX_VALUE / 2));
        assertEquals(Status.ALLOC_FAILED, failure.status());
        try (Memory none = Memory.allocate(0)) {
            assertEquals(0, none.toBytes().length);
            assertSame(Device.CPU, none.device());
            assertEquals(0, none.ordinal());
            assertFalse(none.isReadOnly());
            assertEquals("Memory[0 bytes on CPU 0]", none.toString());
        }
    }
}
