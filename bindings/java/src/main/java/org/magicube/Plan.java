// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;
import org.magicube.internal.Native;
import org.magicube.internal.magicubePlanInfo_t;

/**
 * A problem made ready for execution. Executing does not change a plan: many threads may execute
 * one, each with its own handle.
 */
public abstract class Plan extends NativeObject {
    private final long workspaceBytes;

    /** A use of the buffer, if there is one, passes to the plan. */
    Plan(String name, long plan, LongConsumer destroy, Memory buffer) {
        super(new Lifetime(name, plan, address -> {
            try {
                destroy.accept(address);
            } finally {
                if (buffer != null && buffer.lifetime != null) {
                    buffer.lifetime.exit();
                }
                Reference.reachabilityFence(buffer);
            }
        }));
        workspaceBytes = info().workspaceBytes();
    }

    abstract void tell(long plan, magicubePlanInfo_t info);

    /** {@return what the plan runs and why} */
    public final PlanInfo info() {
        try (Uses uses = new Uses(); magicubePlanInfo_t info = new magicubePlanInfo_t()) {
            tell(uses.object(this), info);
            return new PlanInfo(Text.read(info.getImplementation()), Text.read(info.getReasons()),
                    info.getPlan_bytes(), info.getWorkspace_bytes(), info.getOwns_buffer() != 0);
        }
    }

    /** {@return the bytes of scratch that one execution needs} */
    public final long workspaceBytes() {
        return workspaceBytes;
    }

    /** Size of the scratch that Uses.scratch gives. */
    final long scratchBytes(Memory given) {
        return given == null ? workspaceBytes : given.size();
    }

    interface Lister {
        void list(int device, long[] names, long[] count);
    }

    /** Names of an operation's implementations, the reference last. */
    static List<String> list(Lister lister, Device device) {
        long[] count = new long[1];
        lister.list(device.code, null, count);
        long[] names = new long[(int) count[0]];
        lister.list(device.code, names, count);
        List<String> result = new ArrayList<>();
        for (long name : names) {
            result.add(Text.read(name));
        }
        return List.copyOf(result);
    }

    /**
     * Address of an array of one execution that the problem may name: required if it does, refused
     * if it does not.
     */
    static long array(Uses uses, Memory memory, String name, boolean named, long elements,
            DataType type) {
        checkNamed(memory, name, named);
        return uses.read(memory, name, elements, type);
    }

    /** The same of an array that the execution writes. */
    static long outputArray(Uses uses, Memory memory, String name, boolean named, long elements,
            DataType type) {
        checkNamed(memory, name, named);
        return uses.write(memory, name, elements, type);
    }

    /** The same of an array of 64-bit integers. */
    static long longs(Uses uses, Memory memory, String name, boolean named, long elements) {
        checkNamed(memory, name, named);
        return uses.bytes(memory, name, Shapes.times(elements, 8), 64);
    }

    private static void checkNamed(Memory memory, String name, boolean named) {
        if (memory != null && !named) {
            throw new IllegalArgumentException(name + " is given, but the plan's problem has none");
        }
    }
}
