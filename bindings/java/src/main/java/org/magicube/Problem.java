// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.NativeStruct;
import org.magicube.internal.magicubeBufferSizes_t;

/**
 * What a plan is made for: operands, types, options. Setters return the problem itself.
 *
 * @param <S> the class of the operation's problems
 * @param <P> the class of its plans
 */
public abstract class Problem<S extends Problem<S, P>, P extends Plan> {
    String implementation;

    Problem() {}

    abstract S self();

    /**
     * Forces an implementation.
     *
     * @param name one of those that the operation lists; null: the library chooses
     * @return this
     */
    public final S implementation(String name) {
        implementation = name;
        return self();
    }

    /** Address of the implementation's name, which lives as long as the uses. */
    final long name(Uses uses) {
        Memory name = Text.write(implementation);
        return name == null ? 0 : uses.memory(name);
    }

    interface IsSupported<T> {
        void call(long handle, T problem);
    }

    interface BufferSize<T> {
        void call(long handle, T problem, magicubeBufferSizes_t sizes);
    }

    interface CreatePlan<T> {
        void call(long handle, T problem, long buffer, long bytes, long[] plan);
    }

    /** Makes what Java keeps of a plan, which owns the address from then on. */
    interface Wrap<P> {
        P plan(long address, Memory buffer);
    }

    /** The C struct of a problem while a call reads it, and the functions of its operation. */
    record Prepared<T extends NativeStruct, P>(T struct, IsSupported<T> supported,
            BufferSize<T> sizes, CreatePlan<T> create, Wrap<P> wrap) implements AutoCloseable {
        void isSupported(long handle) {
            supported.call(handle, struct);
        }

        void bufferSize(long handle, magicubeBufferSizes_t result) {
            sizes.call(handle, struct, result);
        }

        void createPlan(long handle, long buffer, long bytes, long[] plan) {
            create.call(handle, struct, buffer, bytes, plan);
        }

        @Override
        public void close() {
            struct.close();
        }
    }

    /** Fills a C struct; its operands are held by uses. */
    abstract Prepared<?, P> prepare(Uses uses);

    /**
     * Asks whether a handle's device can do this.
     *
     * @param handle where
     * @return yes, or no with the reason
     * @throws MagicubeException if the problem breaks a rule
     */
    public final Support support(Handle handle) {
        try (Uses uses = new Uses(handle); Prepared<?, P> prepared = prepare(uses)) {
            prepared.isSupported(uses.handle());
            return new Support(true, "");
        } catch (MagicubeException failure) {
            if (failure.status() == Status.NOT_SUPPORTED) {
                return new Support(false, failure.getMessage());
            }
            throw failure;
        }
    }

    /**
     * Tells what a plan would need.
     *
     * @param handle where; it may be waited for
     * @return bytes and alignments
     */
    public final BufferSizes bufferSizes(Handle handle) {
        try (Uses uses = new Uses(handle); Prepared<?, P> prepared = prepare(uses);
                magicubeBufferSizes_t sizes = new magicubeBufferSizes_t()) {
            prepared.bufferSize(uses.handle(), sizes);
            return new BufferSizes(sizes.getPlan_bytes(), sizes.getPlan_alignment(),
                    sizes.getWorkspace_bytes(), sizes.getWorkspace_alignment());
        }
    }

    /**
     * Makes a plan that owns its memory.
     *
     * @param handle where; it may be waited for
     * @return the plan
     * @throws MagicubeException with NOT_SUPPORTED and the reasons if nothing can do this
     */
    public final P plan(Handle handle) {
        return plan(handle, null);
    }

    /**
     * Makes a plan in memory of the caller's.
     *
     * @param handle where; it may be waited for
     * @param buffer of the handle's device and as large and aligned as bufferSizes tells; the plan
     *     keeps it until the plan is closed, even if it is closed before; null: memory of its own
     * @return the plan
     */
    public final P plan(Handle handle, Memory buffer) {
        long[] plan = new long[1];
        try (Uses uses = new Uses(handle); Prepared<?, P> prepared = prepare(uses)) {
            long address = 0;
            long bytes = 0;
            if (buffer != null) {
                bytes = buffer.size();
                address = uses.write(buffer, "buffer", bytes, DataType.UINT8);
            }
            prepared.createPlan(uses.handle(), address, bytes, plan);
            if (buffer != null && buffer.lifetime != null) {
                buffer.lifetime.enter();
            }
            return prepared.wrap().plan(plan[0], buffer);
        }
    }
}
