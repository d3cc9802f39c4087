// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Objects;
import org.magicube.internal.Native;

/**
 * Bytes that the library can reach: a direct buffer of java.nio ({@link #of}), or memory of a
 * device ({@link #allocate}), which may be larger than 2 GiB. Sizes and offsets are in bytes.
 */
public final class Memory implements AutoCloseable {
    final Lifetime lifetime; // null for a buffer, which its owner keeps alive
    final long address;
    private final long size;
    private final Device device;
    private final int ordinal;
    private final boolean readOnly;
    private final boolean swapped; // a buffer whose elements of more than a byte are not the host's
    private final Object owner;
    private Cleaner.Cleanable cleanable; // null for buffers and views

    private Memory(Memory of, long offset, long size, boolean readOnly) {
        lifetime = of.lifetime;
        address = of.address + offset;
        this.size = size;
        device = of.device;
        ordinal = of.ordinal;
        this.readOnly = readOnly;
        swapped = of.swapped;
        owner = of;
    }

    private Memory(Lifetime lifetime, long address, long size, Device device, int ordinal) {
        this.lifetime = lifetime;
        this.address = address;
        this.size = size;
        this.device = device;
        this.ordinal = ordinal;
        readOnly = false;
        swapped = false;
        owner = null;
    }

    private Memory(Buffer buffer, long address, long size, boolean swapped) {
        lifetime = null;
        this.address = address;
        this.size = size;
        device = Device.CPU;
        ordinal = 0;
        readOnly = buffer.isReadOnly();
        this.swapped = swapped;
        owner = buffer;
    }

    /**
     * The elements of a direct buffer from its position to its limit, shared, not copied. The
     * buffer is kept alive; later changes of its position do not matter.
     *
     * @param buffer a direct buffer; read-only ones serve as input only
     * @return its memory
     * @throws IllegalArgumentException for a buffer on the heap, or one whose elements are not in
     *     native byte order
     */
    public static Memory of(Buffer buffer) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException("buffer is a heap buffer (" + buffer
                    + "), which the library cannot reach; allocate it with ByteBuffer"
                    + ".allocateDirect(bytes).order(ByteOrder.nativeOrder()), or copy an array with"
                    + " Memory.copyOf");
        }
        int shift = shiftOf(buffer);
        long start = Native.buffer_address(buffer);
        return new Memory(buffer, start + ((long) buffer.position() << shift),
                (long) buffer.remaining() << shift, orderOf(buffer) != ByteOrder.nativeOrder());
    }

    private static int shiftOf(Buffer buffer) {
        if (buffer instanceof ByteBuffer) {
            return 0;
        }
        if (buffer instanceof ShortBuffer || buffer instanceof CharBuffer) {
            return 1;
        }
        return buffer instanceof LongBuffer || buffer instanceof DoubleBuffer ? 3 : 2;
    }

    private static ByteOrder orderOf(Buffer buffer) {
        if (buffer instanceof ByteBuffer) {
            return ((ByteBuffer) buffer).order();
        } else if (buffer instanceof ShortBuffer) {
            return ((ShortBuffer) buffer).order();
        } else if (buffer instanceof IntBuffer) {
            return ((IntBuffer) buffer).order();
        } else if (buffer instanceof LongBuffer) {
            return ((LongBuffer) buffer).order();
        } else if (buffer instanceof FloatBuffer) {
            return ((FloatBuffer) buffer).order();
        } else if (buffer instanceof CharBuffer) {
            return ((CharBuffer) buffer).order();
        }
        return ((DoubleBuffer) buffer).order();
    }

    /**
     * Allocates memory of a device, aligned to 256 bytes; the contents are undefined.
     *
     * @param device where
     * @param ordinal which device of the kind, from 0
     * @param bytes how much, at least 0
     * @return the memory, freed by close or once it is unreachable
     * @throws MagicubeException with ALLOC_FAILED if there is not enough
     */
    public static Memory allocate(Device device, int ordinal, long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("bytes is " + bytes + "; it must be at least 0");
        }
        int code = device.code;
        long[] pointer = new long[1];
        Native.magicubeMalloc(code, ordinal, bytes, pointer);
        Lifetime lifetime = new Lifetime("Memory", pointer[0],
                address -> Native.magicubeFree(code, ordinal, address));
        Memory memory = new Memory(lifetime, pointer[0], bytes, device, ordinal);
        memory.cleanable = NativeObject.CLEANER.register(memory, lifetime);
        return memory;
    }

    /**
     * Allocates host memory.
     *
     * @param bytes how much, at least 0
     * @return the memory
     */
    public static Memory allocate(long bytes) {
        return allocate(Device.CPU, 0, bytes);
    }

    private static ByteBuffer direct(long bytes) {
        if (bytes > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "the array has " + bytes + " bytes; a copy has at most " + Integer.MAX_VALUE);
        }
        return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
    }

    /**
     * Copies an array into host memory.
     *
     * @param values what to copy
     * @return the memory
     */
    public static Memory copyOf(byte... values) {
        return of(direct(values.length).put(values).rewind());
    }

    /**
     * Copies an array into host memory.
     *
     * @param values what to copy
     * @return the memory
     */
    public static Memory copyOf(short... values) {
        ByteBuffer bytes = direct(2L * values.length);
        bytes.asShortBuffer().put(values);
        return of(bytes);
    }

    /**
     * Copies an array into host memory.
     *
     * @param values what to copy
     * @return the memory
     */
    public static Memory copyOf(int... values) {
        ByteBuffer bytes = direct(4L * values.length);
        bytes.asIntBuffer().put(values);
        return of(bytes);
    }

    /**
     * Copies an array into host memory.
     *
     * @param values what to copy
     * @return the memory
     */
    public static Memory copyOf(long... values) {
        ByteBuffer bytes = direct(8L * values.length);
        bytes.asLongBuffer().put(values);
        return of(bytes);
    }

    /**
     * Copies an array into host memory.
     *
     * @param values what to copy
     * @return the memory
     */
    public static Memory copyOf(float... values) {
        ByteBuffer bytes = direct(4L * values.length);
        bytes.asFloatBuffer().put(values);
        return of(bytes);
    }

    /** {@return the size in bytes} */
    public long size() {
        return size;
    }

    /** {@return where the memory lies} */
    public Device device() {
        return device;
    }

    /** {@return which device of its kind} */
    public int ordinal() {
        return ordinal;
    }

    /** {@return whether calls may not write it} */
    public boolean isReadOnly() {
        return readOnly;
    }

    /** {@return whether it was closed, or that which it is a view of} */
    public boolean isClosed() {
        return lifetime != null && lifetime.isClosed();
    }

    /**
     * A view of a part; it keeps the whole alive, and closing it does nothing.
     *
     * @param offset where the part begins, in bytes
     * @param bytes how long it is
     * @return the view
     * @throws IndexOutOfBoundsException if the part does not lie within
     */
    public Memory slice(long offset, long bytes) {
        Objects.checkFromIndexSize(offset, bytes, size);
        return new Memory(this, offset, bytes, readOnly);
    }

    /** {@return a view that calls may not write} */
    public Memory asReadOnly() {
        return new Memory(this, 0, size, true);
    }

    /**
     * Copies bytes of host memory into an array.
     *
     * @return as many as the memory has
     * @throws IllegalStateException for memory of another device: copy it first, with Handle.copy
     */
    public byte[] toBytes() {
        byte[] result = new byte[length(1)];
        access(bytes -> bytes.get(result));
        return result;
    }

    /** {@return the memory as 16-bit integers, as toBytes} */
    public short[] toShorts() {
        short[] result = new short[length(2)];
        access(bytes -> bytes.asShortBuffer().get(result));
        return result;
    }

    /** {@return the memory as 32-bit integers, as toBytes} */
    public int[] toInts() {
        int[] result = new int[length(4)];
        access(bytes -> bytes.asIntBuffer().get(result));
        return result;
    }

    /** {@return the memory as 64-bit integers, as toBytes} */
    public long[] toLongs() {
        long[] result = new long[length(8)];
        access(bytes -> bytes.asLongBuffer().get(result));
        return result;
    }

    /** {@return the memory as 32-bit floating-point numbers, as toBytes} */
    public float[] toFloats() {
        float[] result = new float[length(4)];
        access(bytes -> bytes.asFloatBuffer().get(result));
        return result;
    }

    private int length(int elementBytes) {
        if (device != Device.CPU) {
            throw new IllegalStateException(
                    "the memory lies on "
                            + device + "; copy it to the host first, with Handle.copy");
        }
        if (size > Integer.MAX_VALUE) {
            throw new IllegalStateException(
                    "the memory has " + size + " bytes; take a slice of at most 2147483647");
        }
        return (int) (size / elementBytes);
    }

    private interface Access {
        void to(ByteBuffer bytes);
    }

    /** The view must not leave the call: nothing keeps the memory alive behind it. */
    private void access(Access access) {
        if (lifetime != null) {
            lifetime.enter();
        }
        try {
            if (size > 0) {
                ByteBuffer bytes = (ByteBuffer) Native.buffer_over(address, size);
                access.to(bytes.order(ByteOrder.nativeOrder()));
            }
        } finally {
            if (lifetime != null) {
                lifetime.exit();
            }
            Reference.reachabilityFence(owner);
        }
    }

    /** Refuses memory that is too small for the array that an argument is. */
    void check(String name, long bytes, int bits) {
        if (size < bytes) {
            throw new IllegalArgumentException(
                    name + " has " + size + " bytes; the call needs " + bytes);
        }
        if (swapped && bits > 8) {
            throw new IllegalArgumentException(name + " is a buffer in foreign byte order; call"
                    + " order(ByteOrder.nativeOrder()) before it is filled");
        }
    }

    /**
     * Frees memory that allocate gave, once no call uses it, waiting for its device. For buffers
     * and views this does nothing. A second close does nothing.
     */
    @Override
    public void close() {
        if (cleanable != null) {
            cleanable.clean();
        }
    }

    @Override
    public String toString() {
        return "Memory[" + size + " bytes on " + device + " " + ordinal
                + (readOnly ? ", read-only" : "") + (isClosed() ? ", closed" : "") + "]";
    }
}
