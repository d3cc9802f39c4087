// SPDX-License-Identifier: Apache-2.0
package org.magicube.internal;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Takes log messages from any thread of the library, which holds a lock then, and hands them to a
 * listener on a thread that holds none.
 */
public final class LogBridge {
    private LogBridge() {}

    /** Receives one message. */
    public interface Sink {
        void message(int level, String message);
    }

    private record Message(int level, byte[] text) {}

    /** Ends a courier's work. */
    private static final Message END = new Message(-1, new byte[0]);

    /** Delivers to one sink, until it is told to end. */
    private static final class Courier extends Thread {
        final LinkedBlockingQueue<Message> queue = new LinkedBlockingQueue<>();
        private final Sink sink;

        Courier(Sink sink) {
            super("magicube-log");
            this.sink = sink;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                for (Message next = queue.take(); next != END; next = queue.take()) {
                    deliver(next);
                }
            } catch (InterruptedException interrupted) {
                // A listener interrupted its own thread: it gets no more messages.
                Thread.currentThread().interrupt();
            }
        }

        private void deliver(Message message) {
            try {
                sink.message(message.level(), new String(message.text(), StandardCharsets.UTF_8));
            } catch (RuntimeException dropped) {
                // The log has nobody to complain to.
            }
        }
    }

    private static Courier courier;

    /** Called by the JNI library. */
    static synchronized void message(int level, byte[] text) {
        if (courier != null) {
            courier.queue.add(new Message(level, text));
        }
    }

    /** Replaces the sink; null for none. Gives the thread that delivers to the one before. */
    public static synchronized Thread deliverTo(Sink sink) {
        Courier before = courier;
        Courier next = sink == null ? null : new Courier(sink);
        if (next != null) {
            next.start();
        }
        courier = next;
        if (before != null) {
            before.queue.add(END);
        }
        return before;
    }

    /** Waits for what deliverTo gave, unless this is that thread. */
    public static void await(Thread before) {
        if (before != null && before != Thread.currentThread()) {
            try {
                before.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
