// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class AttentionTest {
    private static final int BATCH = 2;
    private static final int Q_HEADS = 4;
    private static final int KV_HEADS = 2;
    private static final int QUERIES = 19;
    private static final int KEYS = 27;
    private static final int DIM = 12;

    private final Random random = new Random(3);

    /** Places of q, k, v and out, with gaps. */
    private static final Attention.Strides Q_STRIDES =
            new Attention.Strides(Q_HEADS * 400, 400, 16);
    private static final Attention.Strides KV_STRIDES =
            new Attention.Strides(DIM, BATCH * DIM, BATCH * KV_HEADS * DIM);

    private double[] q;
    private double[] k;
    private double[] v;
    private final boolean[][] allowed = new boolean[BATCH * Q_HEADS][];

    private static int at(Attention.Strides s, int b, int h, int i, int d) {
        return (int) (b * s.batch() + h * s.head() + i * s.row() + d);
    }

    /** Row of out, and the log-sum-exp behind it, in double. */
    private double[] expected(int b, int h, int i, double scale) {
        double[] scores = new double[KEYS];
        double largest = Double.NEGATIVE_INFINITY;
        int group = h / (Q_HEADS / KV_HEADS);
        boolean[] sees = allowed[b * Q_HEADS + h];
        for (int j = 0; j < KEYS; ++j) {
            for (int d = 0; d < DIM; ++d) {
                scores[j] += scale * q[at(Q_STRIDES, b, h, i, d)]
                        * k[at(KV_STRIDES, b, group, j, d)];
            }
            if (sees[i * KEYS + j]) {
                largest = Math.max(largest, scores[j]);
            }
        }
        double[] row = new double[DIM + 1];
        double total = 0;
        for (int j = 0; j < KEYS; ++j) {
            if (sees[i * KEYS + j]) {
                double p = Math.exp(scores[j] - largest);
                total += p;
                for (int d = 0; d < DIM; ++d) {
                    row[d] += p * v[at(KV_STRIDES, b, group, j, d)];
                }
            }
        }
        for (int d = 0; d < DIM && total > 0; ++d) {
            row[d] /= total;
        }
        row[DIM] = total > 0 ? largest + Math.log(total) : Double.NEGATIVE_INFINITY;
        return row;
    }

    /** One pattern, or one a head or matrix, in one descriptor. */
    private SrBcrsMatrix patterns(Sparse[] sparse) {
        Handle handle = Handle.create(Device.CPU);
        double[] marks = new double[sparse.length * QUERIES * KEYS];
        for (int z = 0; z < sparse.length; ++z) {
            for (int i = 0; i < QUERIES * KEYS; ++i) {
                marks[z * QUERIES * KEYS + i] = sparse[z].exists[i] ? 1 : 0;
            }
        }
        try (handle;
                DenseMatrix dense = DenseMatrix.of(QUERIES, KEYS, KEYS, null, DataType.FP32,
                        Order.ROW);
                DenseMatrix mask = DenseMatrix.of(QUERIES, KEYS,
                        Elements.pack(DataType.UINT8, marks), DataType.UINT8)) {
            dense.setStridedBatch(sparse.length, QUERIES * KEYS);
            mask.setStridedBatch(sparse.length, QUERIES * KEYS);
            return Conversion.toSrBcrs(handle, dense, mask, Conversion.layout(8));
        }
    }

    private void prepare(Sparse[] sparse, Attention.Patterns sharing, long[] offsets,
            long[] lengths) {
        for (int b = 0; b < BATCH; ++b) {
            for (int h = 0; h < Q_HEADS; ++h) {
                int which = sharing == Attention.Patterns.HEAD ? h
                        : sharing == Attention.Patterns.BATCH ? b
                        : sharing == Attention.Patterns.BATCH_HEAD ? b * Q_HEADS + h : 0;
                boolean[] sees = sparse[which].exists.clone();
                for (int i = 0; i < QUERIES * KEYS; ++i) {
                    int row = i / KEYS;
                    int key = i % KEYS;
                    sees[i] &= key <= row + 1 + offsets[b] && key < lengths[b];
                }
                allowed[b * Q_HEADS + h] = sees;
            }
        }
    }

    /** One key each, so that every output is its key's V times its scale. */
    @Test
    void integersWithScales() {
        int[] begin = {0, 1, 2};
        int[] columns = {1, 0};
        Memory numbers = Memory.copyOf(new byte[] {1, -128, 127, 5, -6, 7});
        Memory rows = Memory.copyOf(new float[] {0.5f, 2});
        Memory features = Memory.copyOf(new float[] {1, 10, 100});
        Memory out = Memory.copyOf(new float[6]);
        AttentionScheme scheme = new AttentionScheme(8, Granularity.ROW, Granularity.ROW,
                Granularity.COL);
        try (Handle handle = Handle.create(Device.CPU);
                CsrMatrix pattern = CsrMatrix.of(2, 2, 2, Memory.copyOf(begin),
                        Memory.copyOf(columns), null, IndexType.INT32, DataType.INT8)) {
            Attention.Problem problem = Attention.problem(pattern)
                    .types(DataType.INT8, DataType.FP32).heads(1, 1, 3).scheme(scheme);
            try (Attention.Plan plan = problem.plan(handle)) {
                plan.execute(handle, numbers, numbers, numbers, out,
                        Attention.args().scales(rows, rows, features));
                assertArrayEquals(new float[] {5, -60, 700, 1, -1280, 12700},
                        out.toFloats());
                Attention.Args few = Attention.args().scales(rows, Memory.copyOf(1f), features);
                assertThrows(IllegalArgumentException.class,
                        () -> plan.execute(handle, numbers, numbers, numbers, out, few));
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Attention.Patterns.class)
    void everyFieldOfTheProblem(Attention.Patterns sharing) {
        int count = new int[] {1, Q_HEADS, BATCH, BATCH * Q_HEADS}[sharing.ordinal()];
        Sparse[] sparse = new Sparse[count];
        for (int z = 0; z < count; ++z) {
            sparse[z] = new Sparse(random, QUERIES, KEYS, 8, DataType.FP32, 0.5, true);
        }
        long[] offsets = {3, -2};
        long[] lengths = {KEYS, 13};
        prepare(sparse, sharing, offsets, lengths);
        q = Elements.random(DataType.FP32, random, BATCH * Q_HEADS * 400);
        k = Elements.random(DataType.FP32, random, BATCH * KV_HEADS * KEYS * DIM);
        v = Elements.random(DataType.FP32, random, BATCH * KV_HEADS * KEYS * DIM);
        float scale = 0.3f;
        Memory out = Memory.copyOf(new float[BATCH * Q_HEADS * 400]);
        Memory logs = Memory.copyOf(new float[BATCH * Q_HEADS * QUERIES]);
        try (Handle handle = Handle.create(Device.CPU); SrBcrsMatrix matrix = patterns(sparse)) {
            Attention.Problem problem = Attention.problem(matrix).patterns(sharing)
                    .types(DataType.FP32, DataType.FP32).batch(BATCH)
                    .heads(Q_HEADS, KV_HEADS, DIM).causal(true, 1).causalOffsets(true)
                    .keyLengths(true).logSumExp(true);
            Attention.Args args = Attention.args().scale(scale).qStrides(Q_STRIDES)
                    .kStrides(KV_STRIDES).vStrides(KV_STRIDES).outStrides(Q_STRIDES)
                    .causalOffsets(Memory.copyOf(offsets)).keyLengths(Memory.copyOf(lengths))
                    .logSumExp(logs);
            for (String name : Attention.implementations(Device.CPU)) {
                if (!problem.implementation(name).support(handle).supported()) {
                    continue;
                }
                handle.fill(out, 0x77);
                try (Attention.Plan plan = problem.plan(handle)) {
                    plan.execute(handle, Elements.pack(DataType.FP32, q),
                            Elements.pack(DataType.FP32, k), Elements.pack(DataType.FP32, v), out,
                            args);
                    assertEquals(name, plan.info().implementation());
                }
                compare(out.toFloats(), logs.toFloats(), scale);
            }
        }
    }

    private void compare(float[] got, float[] logs, double scale) {
        for (int row = 0; row < BATCH * Q_HEADS * QUERIES; ++row) {
            int b = row / QUERIES / Q_HEADS;
            int h = row / QUERIES % Q_HEADS;
            double[] expected = expected(b, h, row % QUERIES, scale);
            for (int d = 0; d < DIM; ++d) {
                assertEquals(expected[d], got[at(Q_STRIDES, b, h, row % QUERIES, d)], 2e-4);
            }
            assertEquals(expected[DIM], logs[row], 2e-4);
        }
    }

    @ParameterizedTest
    @CsvSource({"FP16,FP16", "BF16,FP32", "FP32,BF16"})
    void oneKeyIsCopied(DataType in, DataType out) {
        double[] value = Elements.random(in, random, 64);
        Memory result = Memory.copyOf(new byte[(int) out.bytes(64)]);
        try (Handle handle = Handle.create(Device.CPU);
                CsrMatrix matrix = CsrMatrix.of(1, 1, 1, Memory.copyOf(0, 1), Memory.copyOf(0),
                        null, IndexType.INT32, DataType.FP32)) {
            Attention.Problem problem = Attention.problem(matrix).types(in, out);
            Memory packed = Elements.pack(in, value);
            try (Attention.Plan plan = problem.plan(handle)) {
                assertEquals(problem.bufferSizes(handle).workspaceBytes(), plan.workspaceBytes());
                plan.execute(handle, packed, packed, packed, result);
                IllegalArgumentException small = assertThrows(IllegalArgumentException.class,
                        () -> plan.execute(handle, packed, packed,
                                packed.slice(0, packed.size() - 1), result));
                assertEquals("v has " + (packed.size() - 1) + " bytes; the call needs "
                        + packed.size(), small.getMessage());
                MagicubeException refused = assertThrows(MagicubeException.class,
                        () -> plan.execute(handle, packed, packed, packed, result,
                                Attention.args().qStrides(new Attention.Strides(-1, 64, 64))));
                assertEquals(Status.INVALID_VALUE, refused.status());
            }
        }
        double[] got = Elements.unpack(out, result, 64);
        for (int i = 0; i < 64; ++i) {
            assertEquals(Elements.convert(out, (float) value[i]), got[i]);
        }
    }

    @Test
    void noKeysGiveZeros() {
        Memory out = Memory.copyOf(1f, 1f);
        Memory one = Memory.copyOf(1f, 1f);
        try (Handle handle = Handle.create(Device.CPU);
                CsrMatrix matrix = CsrMatrix.of(1, 1, 0, Memory.copyOf(0, 0), null, null,
                        IndexType.INT32, DataType.FP32);
                Attention.Plan plan = Attention.problem(matrix)
                        .types(DataType.FP32, DataType.FP32).heads(1, 1, 2).plan(handle)) {
            plan.execute(handle, one, one, one, out);
        }
        assertArrayEquals(new float[2], out.toFloats());
    }
}
