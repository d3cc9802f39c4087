// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.magicubeAttentionArgs_t;
import org.magicube.internal.magicubeAttentionStrides_t;

/** The C struct of arguments of attention and those of strides that it points to. */
final class AttentionArrays implements AutoCloseable {
    final magicubeAttentionArgs_t args = new magicubeAttentionArgs_t();
    private final magicubeAttentionStrides_t[] strides = new magicubeAttentionStrides_t[4];

    AttentionArrays(Uses uses, Attention.Plan plan, Attention.Args given) {
        try {
            fill(uses, plan, given);
        } catch (RuntimeException refused) {
            close();
            throw refused;
        }
    }

    private void fill(Uses uses, Attention.Plan plan, Attention.Args given) {
        args.setQ_strides(strides(0, given.qStrides));
        args.setK_strides(strides(1, given.kStrides));
        args.setV_strides(strides(2, given.vStrides));
        args.setOut_strides(strides(3, given.outStrides));
        args.setCausal_offsets(Plan.longs(uses, given.causalOffsets, "causalOffsets",
                plan.causalOffsets, plan.batchCount));
        args.setKey_lengths(Plan.longs(uses, given.keyLengths, "keyLengths", plan.keyLengths,
                plan.batchCount));
        args.setLog_sum_exp(Plan.outputArray(uses, given.logSumExp, "logSumExp", plan.logSumExp,
                Shapes.times(Shapes.times(plan.batchCount, plan.qHeads), plan.queries),
                DataType.FP32));
        AttentionScheme scheme = plan.scheme;
        args.setQ_scale(scales(uses, given.qScale, "qScale", scheme.qScale(), plan.batchCount,
                Shapes.times(plan.qHeads, plan.queries)));
        args.setK_scale(scales(uses, given.kScale, "kScale", scheme.kScale(), plan.batchCount,
                Shapes.times(plan.kvHeads, plan.keys)));
        args.setV_scale(scales(uses, given.vScale, "vScale", scheme.vScale(), plan.batchCount,
                Shapes.times(plan.kvHeads, plan.headDim)));
    }

    private static long scales(Uses uses, Memory given, String name, Granularity per, long batch,
            long each) {
        long elements = per == Granularity.TENSOR ? Math.min(batch, 1) : Shapes.times(batch, each);
        return Plan.array(uses, given, name, per != Granularity.NONE, elements, DataType.FP32);
    }

    private magicubeAttentionStrides_t strides(int which, Attention.Strides given) {
        if (given == null) {
            return null;
        }
        magicubeAttentionStrides_t struct = new magicubeAttentionStrides_t();
        struct.setBatch(given.batch());
        struct.setHead(given.head());
        struct.setRow(given.row());
        strides[which] = struct;
        return struct;
    }

    @Override
    public void close() {
        args.close();
        for (magicubeAttentionStrides_t struct : strides) {
            if (struct != null) {
                struct.close();
            }
        }
    }
}
