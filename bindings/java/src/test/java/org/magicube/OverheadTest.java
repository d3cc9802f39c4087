// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A call costs less than a microsecond more than from C, on the smallest problem. Both sides run in
 * processes of their own, by turns; the least of many averages counts: others' load only adds.
 */
@Timeout(300)
class OverheadTest {
    private static final int SIZE = 64;
    private static final int CALLS = 500;
    private static final int ROUNDS = 300;
    private static final int TURNS = 6;
    private static final double LIMIT = 1000;

    /** The same as src/test/native/overhead.c. */
    public static final class Main {
        private Main() {}

        public static void main(String[] arguments) {
            int[] columns = new int[8 * SIZE];
            byte[] values = new byte[SIZE * SIZE];
            long[] begin = new long[8];
            long[] end = new long[8];
            for (int i = 0; i < 8 * SIZE; ++i) {
                columns[i] = i % SIZE;
            }
            for (int i = 0; i < SIZE * SIZE; ++i) {
                values[i] = (byte) (i % 251 - 125);
            }
            for (int i = 0; i < 8; ++i) {
                begin[i] = i * SIZE;
                end[i] = (i + 1) * SIZE;
            }
            Memory b = Memory.copyOf(values);
            try (Handle handle = Handle.create(Device.CPU);
                    SrBcrsMatrix a = SrBcrsMatrix.of(SIZE, SIZE, 8, 32, 8 * SIZE,
                            Memory.copyOf(begin), Memory.copyOf(end), Memory.copyOf(columns), b,
                            IndexType.INT64, DataType.INT8);
                    SpMM.Plan plan = SpMM.problem(a).columns(0, SIZE).plan(handle)) {
                handle.setNumThreads(1);
                Memory out = Memory.copyOf(new float[SIZE * SIZE]);
                for (int n = SIZE; n >= 0; n -= SIZE) {
                    try (DenseMatrix right =
                            DenseMatrix.of(SIZE, n, SIZE, b, DataType.INT8, Order.ROW);
                            DenseMatrix c =
                                    DenseMatrix.of(SIZE, n, SIZE, out, DataType.FP32, Order.ROW)) {
                        System.out.println(measure(handle, plan, right, c));
                    }
                }
            }
        }

        private static double measure(Handle handle, SpMM.Plan plan, DenseMatrix b, DenseMatrix c) {
            double least = Double.POSITIVE_INFINITY;
            for (int round = 0; round < ROUNDS; ++round) {
                long start = System.nanoTime();
                for (int call = 0; call < CALLS; ++call) {
                    plan.execute(handle, b, c);
                }
                least = Math.min(least, (System.nanoTime() - start) / (double) CALLS);
            }
            return least;
        }
    }

    private static double[] run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String[] lines = new String(process.getInputStream().readAllBytes()).split("\n");
        assertEquals(0, process.waitFor());
        return new double[] {Double.parseDouble(lines[0]), Double.parseDouble(lines[1])};
    }

    private static String place(Class<?> type) throws Exception {
        return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
    }

    @Test
    void aCallCostsLessThanAMicrosecondMoreThanFromC() throws Exception {
        List<String> java = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dmagicube.library.path=" + System.getProperty("magicube.library.path"), "-cp",
                place(Magicube.class) + File.pathSeparator + place(Main.class),
                Main.class.getName());
        List<String> c = List.of(System.getProperty("magicube.overhead"));
        double[] fromJava = {Double.MAX_VALUE, Double.MAX_VALUE};
        double[] fromC = {Double.MAX_VALUE, Double.MAX_VALUE};
        for (int turn = 0; turn < TURNS; ++turn) {
            double[] one = run(java);
            double[] other = run(c);
            for (int i = 0; i < 2; ++i) {
                fromJava[i] = Math.min(fromJava[i], one[i]);
                fromC[i] = Math.min(fromC[i], other[i]);
            }
            if (turn >= 1 && fromJava[0] - fromC[0] < LIMIT) {
                break;
            }
        }
        System.out.printf("SpMM 64 x 64 x 64: %.0f ns from C, %.0f ns from Java; with no columns, "
                + "%.0f ns and %.0f ns%n", fromC[0], fromJava[0], fromC[1], fromJava[1]);
        assertTrue(fromJava[0] - fromC[0] < LIMIT, "Java adds " + (fromJava[0] - fromC[0]) + " ns");
        assertTrue(fromJava[1] - fromC[1] < LIMIT, "Java adds " + (fromJava[1] - fromC[1]) + " ns");
    }
}
