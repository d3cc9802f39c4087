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

    private static volatile Courier courier;

    /** Called by the JNI library. */
    static void message(int level, byte[] text) {
        Courier current = courier;
        if (current != null) {
            current.queue.add(new Message(level, text));
        }
    }

    /** Replaces the sink, once that before has got what is queued. None may arrive meanwhile. */
    public static void deliverTo(Sink sink) {
        Courier before = courier;
        if (before != null) {
            courier = null;
            before.queue.add(END);
            if (Thread.currentThread() != before) {
                join(before);
            }
        }
        if (sink != null) {
            Courier next = new Courier(sink);
            next.start();
            courier = next;
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
