// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Row 9 of the reports on peers: no order of closing, collecting and calling ends the process. */
@Timeout(120)
class LifetimeTest {
    private static final int M = 64;
    private static final int K = 64;
    private static final int N = 64;

    private final Sparse a = new Sparse(new Random(5), M, K, 8, DataType.INT8, 0.5, false);
    private final double[] b = Elements.random(DataType.INT8, new Random(6), K * N);

    private int[] expected() {
        int[] result = new int[M * N];
        for (int i = 0; i < result.length; ++i) {
            double sum = 0;
            for (int k = 0; k < K; ++k) {
                sum += a.dense[i / N * K + k] * b[k * N + i % N];
            }
            result[i] = (int) (long) sum;
        }
        return result;
    }

    private SpMM.Problem problem(SparseMatrix matrix) {
        return SpMM.problem(matrix).c(DataType.INT32, Order.ROW).columns(N, N);
    }

    private DenseMatrix right() {
        return DenseMatrix.of(K, N, Elements.pack(DataType.INT8, b), DataType.INT8);
    }

    @Test
    void issue_09_garbageCollectionDuringCalls() {
        int[] expected = expected();
        Thread collector = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted()) {
                System.gc();
            }
        });
        collector.start();
        try {
            for (int i = 0; i < 300; ++i) {
                // Nothing is closed, and nothing but the call refers to most of it.
                Memory out = Memory.allocate(4L * M * N);
                problem(a.matrix()).plan(Handle.create(Device.CPU)).execute(
                        Handle.create(Device.CPU), right(),
                        DenseMatrix.of(M, N, out, DataType.INT32));
                assertArrayEquals(expected, out.toInts());
                assertArrayEquals(new int[] {5}, Memory.copyOf(1, 5, 3).slice(4, 4).toInts());
            }
        } finally {
            collector.interrupt();
        }
    }

    @Test
    void issue_09_closingTwice() {
        Handle handle = Handle.create(Device.CPU);
        SrBcrsMatrix matrix = a.matrix();
        DenseMatrix right = right();
        SpMM.Plan plan = problem(matrix).plan(handle);
        Memory memory = Memory.allocate(100);
        for (int i = 0; i < 3; ++i) {
            plan.close();
            right.close();
            matrix.close();
            memory.close();
            handle.close();
        }
        assertTrue(plan.isClosed() && right.isClosed() && matrix.isClosed() && handle.isClosed());
        assertClosed("Memory", memory::toBytes);
        assertClosed("Memory", memory.slice(0, 4)::toInts);
        assertClosed("SpMM.Plan", plan::info);
        assertClosed("DenseMatrix", right::rows);
        assertClosed("DenseMatrix", () -> right.setCols(1, 1));
        assertClosed("SrBcrsMatrix", matrix::slots);
        assertClosed("SrBcrsMatrix", () -> matrix.setElementMask(null));
        assertClosed("Handle", handle::synchronize);
        assertClosed("Handle", () -> handle.setNumThreads(1));
        try (Handle other = Handle.create(Device.CPU)) {
            assertClosed("SrBcrsMatrix", () -> problem(matrix).plan(other));
            assertClosed("Memory", () -> other.fill(memory, 0));
            assertClosed("SpMM.Plan", () -> plan.execute(other, right, right));
        }
    }

    private static void assertClosed(String name, org.junit.jupiter.api.function.Executable use) {
        IllegalStateException closed = assertThrows(IllegalStateException.class, use);
        assertEquals(name + " is closed", closed.getMessage());
    }

    /** Threads use what another closes: each call is right or refused. */
    @Test
    void issue_09_closingDuringCalls() throws Exception {
        int[] expected = expected();
        ExecutorService threads = Executors.newFixedThreadPool(4);
        AtomicInteger served = new AtomicInteger();
        try {
            for (int round = 0; round < 60; ++round) {
                SrBcrsMatrix matrix = a.matrix();
                Handle owner = Handle.create(Device.CPU);
                SpMM.Plan plan = problem(matrix).plan(owner);
                DenseMatrix right = right();
                Handle shared = Handle.create(Device.CPU);
                CountDownLatch started = new CountDownLatch(3);
                List<Future<?>> users = new ArrayList<>();
                for (int t = 0; t < 3; ++t) {
                    boolean onShared = t == 0;
                    users.add(threads.submit(() -> {
                        Memory out = Memory.allocate(4L * M * N);
                        Handle handle = onShared ? shared : Handle.create(Device.CPU);
                        DenseMatrix c = DenseMatrix.of(M, N, out, DataType.INT32);
                        started.countDown();
                        try {
                            for (int i = 0; i < 1000; ++i) {
                                plan.execute(handle, right, c);
                                served.incrementAndGet();
                                assertArrayEquals(expected, out.toInts());
                            }
                        } catch (IllegalStateException closed) {
                            assertTrue(closed.getMessage().endsWith("is closed"),
                                    closed.getMessage());
                        }
                    }));
                }
                started.await();
                Thread.sleep(round % 3);
                switch (round % 4) {
                    case 0: plan.close(); break;
                    case 1: right.values().close(); right.close(); break;
                    case 2: shared.close(); plan.close(); break;
                    default: right.close(); matrix.close(); owner.close();
                }
                for (Future<?> user : users) {
                    user.get();
                }
            }
        } finally {
            threads.shutdown();
        }
        assertTrue(served.get() > 0);
    }

    /** What a call uses is freed when the call ends, not before. */
    @Test
    void freedAfterTheLastUse() {
        int[] frees = new int[1];
        Lifetime lifetime = new Lifetime("Thing", 7, address -> frees[0] += (int) address);
        assertEquals(7, lifetime.enter());
        lifetime.enter();
        assertThrows(IllegalStateException.class, lifetime::enterChange);
        lifetime.run();
        lifetime.run();
        assertThrows(IllegalStateException.class, lifetime::enter);
        lifetime.exit();
        assertEquals(0, frees[0]);
        lifetime.exit();
        assertEquals(7, frees[0]);
        lifetime.run();
        assertEquals(7, frees[0]);

        Lifetime changed = new Lifetime("Other", 1, address -> frees[0] = 0);
        changed.enterChange();
        assertEquals("Other cannot be used while another thread changes it",
                assertThrows(IllegalStateException.class, changed::enter).getMessage());
        assertThrows(IllegalStateException.class, changed::enterChange);
        changed.run();
        assertEquals(7, frees[0]);
        changed.exitChange();
        assertEquals(0, frees[0]);
    }

    @Test
    void unreachableObjectsAreFreed() throws Exception {
        CountDownLatch freed = new CountDownLatch(1);
        forget(freed);
        for (int i = 0; i < 100 && freed.getCount() > 0; ++i) {
            System.gc();
            freed.await(50, java.util.concurrent.TimeUnit.MILLISECONDS);
        }
        assertEquals(0, freed.getCount());
    }

    private static void forget(CountDownLatch freed) {
        NativeObject forgotten = new NativeObject(
                new Lifetime("Forgotten", 1, address -> freed.countDown())) {};
        assertFalse(forgotten.isClosed());
    }

    @Test
    void issue_03_eightThreadsOnOnePlan() throws Exception {
        int[] expected = expected();
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (Handle owner = Handle.create(Device.CPU); SrBcrsMatrix matrix = a.matrix();
                SpMM.Plan plan = problem(matrix).plan(owner); DenseMatrix right = right()) {
            List<Future<?>> users = new ArrayList<>();
            for (int t = 0; t < 8; ++t) {
                users.add(threads.submit(() -> {
                    try (Handle handle = Handle.create(Device.CPU);
                            Memory out = Memory.allocate(4L * M * N);
                            DenseMatrix c = DenseMatrix.of(M, N, out, DataType.INT32)) {
                        for (int i = 0; i < 50; ++i) {
                            handle.fill(out, i);
                            plan.execute(handle, right, c);
                            assertArrayEquals(expected, out.toInts());
                        }
                    }
                }));
            }
            for (Future<?> user : users) {
                user.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void oneHandleServesThreadsOneAfterAnother() throws Exception {
        int[] expected = expected();
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try (Handle handle = Handle.create(Device.CPU); SrBcrsMatrix matrix = a.matrix();
                SpMM.Plan plan = problem(matrix).plan(handle); DenseMatrix right = right()) {
            List<Future<?>> users = new ArrayList<>();
            for (int t = 0; t < 4; ++t) {
                users.add(threads.submit(() -> {
                    Memory out = Memory.allocate(4L * M * N);
                    for (int i = 0; i < 30; ++i) {
                        plan.execute(handle, right, DenseMatrix.of(M, N, out, DataType.INT32),
                                SpMM.args().alpha(1).beta(0));
                        assertArrayEquals(expected, out.toInts());
                    }
                }));
            }
            for (Future<?> user : users) {
                user.get();
            }
        } finally {
            threads.shutdown();
        }
    }
}
