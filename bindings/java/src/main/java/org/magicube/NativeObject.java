// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.lang.ref.Cleaner;

/** An object of the library: freed by close or, at the latest, once it is unreachable. */
abstract class NativeObject implements AutoCloseable {
    static final Cleaner CLEANER = Cleaner.create();

    final Lifetime lifetime;
    private final Cleaner.Cleanable cleanable;

    NativeObject(Lifetime lifetime) {
        this.lifetime = lifetime;
        cleanable = CLEANER.register(this, lifetime);
    }

    /**
     * Frees the object, after the calls that use it now. A second close does nothing; any other use
     * of a closed object throws {@link IllegalStateException}.
     */
    @Override
    public void close() {
        cleanable.clean();
    }

    /** {@return whether close was called} */
    public final boolean isClosed() {
        return lifetime.isClosed();
    }
}
