// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Reference;
import java.util.Arrays;

/**
 * What one call uses: the objects cannot be freed, the buffers not be collected, and the handle not
 * be used by another thread, before this is closed.
 */
final class Uses implements AutoCloseable {
    private final Handle handle;
    private Lifetime[] lifetimes = new Lifetime[12];
    private Object[] owners = new Object[12];
    private int count;

    /** Of a call without a handle. */
    Uses() {
        handle = null;
    }

    Uses(Handle handle) {
        handle.enter();
        this.handle = handle;
    }

    long handle() {
        return handle.address();
    }

    private long enter(Lifetime lifetime, Object owner) {
        if (count == owners.length) {
            lifetimes = Arrays.copyOf(lifetimes, 2 * count);
            owners = Arrays.copyOf(owners, 2 * count);
        }
        long address = lifetime == null ? 0 : lifetime.enter();
        lifetimes[count] = lifetime;
        owners[count++] = owner;
        return address;
    }

    long object(NativeObject object) {
        return enter(object.lifetime, object);
    }

    /** Address of memory that the call reads, checked for place and size; 0 for null. */
    long read(Memory memory, String name, long elements, DataType type) {
        return memory == null ? 0
                : bytes(memory, name, type.bytes(elements), type.width());
    }

    /** Address of memory that the call writes. */
    long write(Memory memory, String name, long elements, DataType type) {
        if (memory != null && memory.isReadOnly()) {
            throw new IllegalArgumentException(name + " is read-only; the call writes it");
        }
        return read(memory, name, elements, type);
    }

    /** Address of memory of so many bytes, whose elements have so many bits; 0 for null. */
    long bytes(Memory memory, String name, long bytes, int bits) {
        if (memory == null) {
            return 0;
        }
        if (handle != null) {
            handle.checkPlace(memory, name);
        }
        memory.check(name, bytes, bits);
        return memory(memory);
    }

    long memory(Memory memory) {
        enter(memory.lifetime, memory);
        return memory.address;
    }

    /** A dense matrix and its values; null gives 0. */
    long matrix(DenseMatrix matrix, String name) {
        if (matrix == null) {
            return 0;
        }
        long address = object(matrix);
        values(matrix.values, name);
        return address;
    }

    /** A dense matrix that the call writes. */
    long output(DenseMatrix matrix, String name) {
        long address = matrix(matrix, name);
        if (matrix.readOnly) {
            throw new IllegalArgumentException(
                    name + " is over read-only memory; the call writes it");
        }
        return address;
    }

    /** A sparse matrix and its arrays; null gives 0. */
    long matrix(SparseMatrix matrix, String name) {
        if (matrix == null) {
            return 0;
        }
        return object(matrix, name, matrix.arrays);
    }

    /** An object and arrays that it refers to. */
    long object(NativeObject object, String name, Memory... arrays) {
        long address = object(object);
        for (Memory array : arrays) {
            values(array, name);
        }
        return address;
    }

    private void values(Memory memory, String name) {
        if (memory != null) {
            if (handle != null) {
                handle.checkPlace(memory, name);
            }
            memory(memory);
        }
    }

    /** Scratch: the caller's, or the handle's own. */
    long scratch(Memory given, long bytes) {
        if (given == null) {
            return bytes == 0 ? 0 : memory(handle.scratch(bytes));
        }
        handle.checkPlace(given, "workspace");
        if (given.isReadOnly()) {
            throw new IllegalArgumentException("workspace is read-only; the call writes it");
        }
        return memory(given);
    }

    @Override
    public void close() {
        for (int i = count; i-- > 0;) {
            if (lifetimes[i] != null) {
                lifetimes[i].exit();
            }
            Reference.reachabilityFence(owners[i]);
        }
        if (handle != null) {
            handle.exit();
        }
    }
}
