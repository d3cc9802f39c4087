// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;

/**
 * A native object and how many calls use it now. It is freed when it is closed and no call uses it,
 * whichever comes last: so closing is safe at any moment, twice, and by the garbage collector.
 */
final class Lifetime implements Runnable {
    private static final int CLOSED = 1 << 30;
    private static final int CHANGING = 1 << 29;

    private final String name;
    private final long address;
    private final LongConsumer free;
    private final AtomicInteger state = new AtomicInteger();

    /** free must not refer to the object that a Cleaner watches for this one. */
    Lifetime(String name, long address, LongConsumer free) {
        this.name = name;
        this.address = address;
        this.free = free;
    }

    /** Begins a use, which exit ends. */
    long enter() {
        for (;;) {
            int now = state.get();
            if (now >= CHANGING) {
                throw unusable(now);
            }
            if (state.compareAndSet(now, now + 1)) {
                return address;
            }
        }
    }

    void exit() {
        leave(1);
    }

    /** Begins a change, which exitChange ends: nobody else may use the object meanwhile. */
    long enterChange() {
        int now = state.compareAndExchange(0, CHANGING);
        if (now != 0) {
            throw now >= CHANGING ? unusable(now) : new IllegalStateException(
                    name + " cannot be changed while a call of another thread uses it");
        }
        return address;
    }

    void exitChange() {
        leave(CHANGING);
    }

    private void leave(int use) {
        if (state.addAndGet(-use) == CLOSED) {
            free.accept(address);
        }
    }

    private IllegalStateException unusable(int now) {
        return new IllegalStateException(now >= CLOSED ? name + " is closed"
                : name + " cannot be used while another thread changes it");
    }

    boolean isClosed() {
        return state.get() >= CLOSED;
    }

    /** Closes. */
    @Override
    public void run() {
        int before = state.getAndUpdate(now -> now | CLOSED);
        if (before == 0) {
            free.accept(address);
        }
    }
}
