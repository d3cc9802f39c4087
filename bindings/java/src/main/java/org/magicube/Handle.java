// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import org.magicube.internal.Native;

/**
 * A device and the settings of calls on it: stream, threads, validation. It is cheap. Calls on one
 * handle run one after another, so give each thread its own; plans may be shared.
 */
public final class Handle extends NativeObject {
    private final ReentrantLock lock = new ReentrantLock();
    private final long address;
    private final State state;
    private final Device device;
    private final int ordinal;
    /** Alpha and beta of the call that holds the handle. */
    private final ByteBuffer scalars = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder());
    private final long scalarsAddress = Native.buffer_address(scalars);
    private PointerMode pointerMode = PointerMode.HOST;

    /** What goes when the handle goes. */
    private static final class State {
        Stream stream;
        Memory scratch;
        /** Host memory that copies on a stream may still read or write. */
        final List<Memory> copied = new ArrayList<>();

        void free(long handle) {
            try {
                if (!copied.isEmpty()) {
                    Native.magicubeSynchronize(handle);
                }
            } finally {
                release();
                Native.magicubeDestroy(handle);
                if (stream != null) {
                    stream.lifetime.exit();
                }
                if (scratch != null) {
                    scratch.close();
                }
            }
        }

        void keep(Memory memory) {
            if (memory.lifetime != null) {
                memory.lifetime.enter();
            }
            copied.add(memory);
        }

        void release() {
            for (Memory memory : copied) {
                if (memory.lifetime != null) {
                    memory.lifetime.exit();
                }
                Reference.reachabilityFence(memory);
            }
            copied.clear();
        }
    }

    private Handle(long address, State state) {
        super(new Lifetime("Handle", address, state::free));
        this.address = address;
        this.state = state;
        long[] kind = new long[1];
        long[] number = new long[1];
        Native.magicubeGetDevice(address, kind, number);
        device = Device.of(kind[0]);
        ordinal = (int) number[0];
    }

    /**
     * Makes a handle.
     *
     * @param device where its calls run
     * @param ordinal which device of the kind, from 0
     * @return the handle
     * @throws MagicubeException with NO_DEVICE if the device is absent, ARCH_MISMATCH if the
     *     library holds no code for it
     */
    public static Handle create(Device device, int ordinal) {
        long[] handle = new long[1];
        Native.magicubeCreate(handle, device.code, ordinal);
        return new Handle(handle[0], new State());
    }

    /**
     * Makes a handle on the first device of a kind.
     *
     * @param device where its calls run
     * @return the handle
     */
    public static Handle create(Device device) {
        return create(device, 0);
    }

    void enter() {
        lock.lock();
        try {
            lifetime.enter();
        } catch (IllegalStateException closed) {
            lock.unlock();
            throw closed;
        }
    }

    void exit() {
        lifetime.exit();
        lock.unlock();
    }

    long address() {
        return address;
    }

    /** {@return where its calls run} */
    public Device device() {
        return device;
    }

    /** {@return which device of the kind} */
    public int ordinal() {
        return ordinal;
    }

    /** Refuses memory of another device. */
    void checkPlace(Memory memory, String name) {
        if (memory.device() != device || memory.ordinal() != ordinal) {
            throw new IllegalArgumentException(name + " lies on " + memory.device() + " "
                    + memory.ordinal() + ", the handle is of " + device + " " + ordinal
                    + "; allocate it there with Memory.allocate, and fill it with Handle.copy");
        }
    }

    /** Scratch for the call that holds the handle; grows, and is kept for the next. */
    Memory scratch(long bytes) {
        if (state.scratch == null || state.scratch.size() < bytes) {
            dropScratch();
            state.scratch = Memory.allocate(device, ordinal, bytes);
        }
        return state.scratch;
    }

    private void dropScratch() {
        if (state.scratch != null) {
            state.scratch.close();
            state.scratch = null;
        }
    }

    private interface Setter {
        void set(long handle, int value);
    }

    private interface Getter {
        void get(long handle, long[] value);
    }

    private void set(Setter setter, int value) {
        try (Uses uses = new Uses(this)) {
            setter.set(uses.handle(), value);
        }
    }

    private long get(Getter getter) {
        long[] value = new long[1];
        try (Uses uses = new Uses(this)) {
            getter.get(uses.handle(), value);
        }
        return value[0];
    }

    /**
     * Sets the stream of a CUDA handle. If copies with host memory were made since the last
     * synchronize, the old stream is waited for.
     *
     * @param stream a stream of the handle's device, kept until another is set or the handle is
     *     closed; null is the default stream, the only one that a CPU handle takes
     */
    public void setStream(Stream stream) {
        try (Uses uses = new Uses(this)) {
            long next = stream == null ? 0 : uses.object(stream);
            if (!state.copied.isEmpty()) {
                Native.magicubeSynchronize(uses.handle());
                state.release();
            }
            Native.magicubeSetStream(uses.handle(), next);
            // The old stream may still use the scratch: freeing it waits.
            dropScratch();
            if (stream != null) {
                stream.lifetime.enter();
            }
            if (state.stream != null) {
                state.stream.lifetime.exit();
            }
            state.stream = stream;
        }
    }

    /** {@return the stream that was set; null for the default stream} */
    public Stream stream() {
        long[] stream = new long[1];
        try (Uses uses = new Uses(this)) {
            Native.magicubeGetStream(uses.handle(), stream);
            return stream[0] == 0 ? null : state.stream;
        }
    }

    /** Waits for all work of the handle's stream. */
    public void synchronize() {
        try (Uses uses = new Uses(this)) {
            Native.magicubeSynchronize(uses.handle());
            state.release();
        }
    }

    /**
     * Sets where alpha and beta are read. In the mode DEVICE on a GPU they are given as Memory.
     *
     * @param mode HOST until set
     */
    public void setPointerMode(PointerMode mode) {
        try (Uses uses = new Uses(this)) {
            Native.magicubeSetPointerMode(uses.handle(), mode.code);
            pointerMode = mode;
        }
    }

    /** {@return where alpha and beta are read} */
    public PointerMode pointerMode() {
        return PointerMode.of(get(Native::magicubeGetPointerMode));
    }

    /**
     * Asks for the same bits each time, at some cost.
     *
     * @param enabled false until set: floating sums may vary
     */
    public void setDeterministic(boolean enabled) {
        set(Native::magicubeSetDeterministic, enabled ? 1 : 0);
    }

    /** {@return whether the same call gives the same bits each time} */
    public boolean isDeterministic() {
        return get(Native::magicubeGetDeterministic) != 0;
    }

    /**
     * Limits the threads of the library's pool that calls may use.
     *
     * @param count how many; 0, the default, means all
     */
    public void setNumThreads(int count) {
        set(Native::magicubeSetNumThreads, count);
    }

    /** {@return how many threads calls may use; 0 means all} */
    public int numThreads() {
        return (int) get(Native::magicubeGetNumThreads);
    }

    /**
     * Sets how much calls check.
     *
     * @param level FULL until set on the CPU, BASIC on CUDA
     */
    public void setValidation(Validation level) {
        set(Native::magicubeSetValidation, level.code);
    }

    /** {@return how much calls check} */
    public Validation validation() {
        return Validation.of(get(Native::magicubeGetValidation));
    }

    /**
     * Copies all of source to the beginning of destination, in the order of the handle's stream.
     * Each lies in host memory or on the handle's device. On CUDA the copy may still run when the
     * call returns; host memory is kept alive until {@link #synchronize}, and must not be read or
     * changed before that.
     *
     * @param destination at least as large as source
     * @param source what to copy; the two do not overlap
     */
    public void copy(Memory destination, Memory source) {
        if (destination.isReadOnly()) {
            throw new IllegalArgumentException("destination is read-only");
        }
        destination.check("destination", source.size(), 8);
        try (Uses uses = new Uses(this)) {
            for (Memory side : new Memory[] {destination, source}) {
                if (side.device() != Device.CPU) {
                    checkPlace(side, side == source ? "source" : "destination");
                }
            }
            Native.magicubeMemcpy(uses.handle(), uses.memory(destination), uses.memory(source),
                    source.size());
            if (device != Device.CPU) {
                state.keep(destination);
                state.keep(source);
            }
        }
    }

    /**
     * Sets all bytes of memory of the handle's device, in the order of the handle's stream.
     *
     * @param destination what to set
     * @param value of each byte, 0 to 255
     */
    public void fill(Memory destination, int value) {
        try (Uses uses = new Uses(this)) {
            long bytes = destination.size();
            long address = uses.write(destination, "destination", bytes, DataType.UINT8);
            Native.magicubeMemset(uses.handle(), address, value, bytes);
        }
    }

    /** Address of a call's alpha (which = 0) or beta (1), given as number or memory, or not. */
    long scalar(Uses uses, int which, Float value, Memory memory, String name) {
        if (memory != null) {
            if (pointerMode == PointerMode.HOST && memory.device() != Device.CPU) {
                throw new IllegalArgumentException(name + " lies on " + memory.device()
                        + ", but the handle's pointer mode is HOST; set it to DEVICE");
            }
            return pointerMode == PointerMode.DEVICE ? uses.read(memory, name, 1, DataType.FP32)
                    : hostScalar(uses, memory, name);
        }
        if (value == null) {
            return 0;
        }
        if (pointerMode == PointerMode.DEVICE && device != Device.CPU) {
            throw new IllegalStateException(name + " is a number, but the handle's pointer mode is"
                    + " DEVICE; give it as Memory of the device, or set the mode to HOST");
        }
        scalars.putFloat(4 * which, value);
        return scalarsAddress + 4L * which;
    }

    private static long hostScalar(Uses uses, Memory memory, String name) {
        memory.check(name, 4, 32);
        return uses.memory(memory);
    }
}
