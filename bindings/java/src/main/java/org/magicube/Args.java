// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * What one execution brings beside its operands. Setters return the object itself.
 *
 * @param <A> the class of the operation's arguments
 */
public abstract class Args<A extends Args<A>> {
    Memory workspace;

    Args() {}

    abstract A self();

    /**
     * Sets scratch of the caller's; without it, the handle's own is used.
     *
     * @param scratch of the handle's device and as large as the plan tells
     * @return this
     */
    public final A workspace(Memory scratch) {
        workspace = scratch;
        return self();
    }
}
