// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention_case.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/every_implementation.hpp"
#include "core/ops/views.hpp"

namespace support {
namespace {

using magicube::granularity;
using magicube::text;
using magicube::attention::pattern_sharing;

constexpr double infinity = std::numeric_limits<double>::infinity();

// A (batch, heads, length, dim) tensor of one type with any strides.
struct tensor_sample {
    int64_t row, head, batch;  // strides
    packed_array array;

    tensor_sample(const attention_case& t, kind type, int64_t heads, int64_t length, bool shared) {
        const int64_t odd = type == kind::int4 ? (t.dim + t.gap) % 2 : 0;
        const int64_t width = t.dim + t.gap + odd, gap = t.gap + odd;
        row = t.heads_inside ? heads * width : width;
        head = t.heads_inside ? width : length * width + 4 * gap;
        const int64_t step = t.heads_inside ? length * row : heads * head;
        batch = shared ? 0 : step + 2 * gap;
        array = packed_array(type, (t.batch - 1) * batch + step, 0xff);  // NaN between the rows
    }
    int64_t at(int64_t b, int64_t h, int64_t i, int64_t d) const {
        return b * batch + h * head + i * row + d;
    }
    void fill(const attention_case& t, int64_t heads, int64_t length, double magnitude,
              generator& random) {
        for (int64_t b = 0; b < (batch == 0 ? std::min<int64_t>(t.batch, 1) : t.batch); ++b)
            for (int64_t h = 0; h < heads; ++h)
                for (int64_t i = 0; i < length; ++i)
                    for (int64_t d = 0; d < t.dim; ++d) {
                        const auto number = static_cast<double>(uniform(random, -4096, 4096));
                        array.set(at(b, h, i, d),
                                  round_to(array.type(), number / 4096 * magnitude));
                    }
    }
    magicube::attention::tensor view(void* values) const { return {values, batch, head, row}; }
};

int64_t patterns_of(const attention_case& t) {
    switch (t.patterns) {
        case pattern_sharing::head:
            return t.q_heads;
        case pattern_sharing::batch:
            return t.batch;
        case pattern_sharing::batch_head:
            return t.batch * t.q_heads;
        default:
            return 1;
    }
}

// Random factors, some negative; as many as `per` asks for.
std::vector<float> scales_for(granularity per, int64_t count, double size, generator& random) {
    std::vector<float> scales(static_cast<size_t>(per == granularity::tensor ? 1 : count));
    for (auto& scale : scales) {
        const double sign = uniform(random, 0, 9) == 0 ? -1 : 1;
        scale =
            static_cast<float>(sign * size * static_cast<double>(uniform(random, 50, 150)) / 100);
    }
    return scales;
}

// The element of such an array for line i of a head.
float scale_at(granularity per, const std::vector<float>& scales, int64_t head, int64_t length,
               int64_t i) {
    if (per == granularity::none) return 1;
    return scales[static_cast<size_t>(per == granularity::tensor ? 0 : head * length + i)];
}

// One key that a query sees.
struct seen_key {
    int64_t key;
    long double score;
    long double size;  // sum of the magnitudes that it is the sum of
};

// What the statistics of a query are in the model.
struct query_model {
    long double largest = -infinity;
    long double total = 0;
    double slack = 0;  // relative error that its probabilities may have
    bool invalid = false;

    bool empty() const { return largest == -infinity && !invalid; }
};

struct attention_run {
    const attention_case& test;
    generator random;
    sparse_sample pattern;
    tensor_sample q, k, v, out;
    packed_array log_sum_exp;
    std::vector<int64_t> offsets, lengths;
    float scale;
    std::vector<float> q_scale, k_scale, v_scale;
    bool exact = false;  // its probabilities are the definition's own
    bool rounds_exponentials = false;

    explicit attention_run(const attention_case& t)
        : test(t),
          random(t.seed),
          pattern({kind::int8, t.lq, t.lk, t.v, t.s, t.density, t.mask, false, patterns_of(t),
                   t.patterns == pattern_sharing::shared ? batch_kind::one_pattern
                                                         : batch_kind::different_patterns,
                   0, 0, 0},
                  random),
          q(t, t.in, t.q_heads, t.lq, false),
          k(t, t.in, t.kv_heads, t.lk, t.shared_kv),
          v(t, t.in, t.kv_heads, t.lk, t.shared_kv),
          out(t, t.out, t.q_heads, t.lq, false),
          log_sum_exp(kind::fp32, t.batch * t.q_heads * t.lq, 0x77),
          scale(t.scale_given ? 0.37f
                              : static_cast<float>(1 / std::sqrt(static_cast<double>(t.dim)))) {
        const double full = t.in == kind::int4 ? 8 : 128;
        q.fill(t, t.q_heads, t.lq, t.bits > 0 ? full : t.magnitude, random);
        k.fill(t, t.kv_heads, t.lk, t.bits > 0 ? full : t.magnitude, random);
        v.fill(t, t.kv_heads, t.lk, t.bits > 0 ? full : 1, random);
        if (t.bits > 0) {
            const double size = t.magnitude / full;
            q_scale = scales_for(t.q_scale, t.batch * t.q_heads * t.lq, size, random);
            k_scale = scales_for(t.k_scale, t.batch * t.kv_heads * t.lk, size, random);
            v_scale = scales_for(t.v_scale, t.batch * t.kv_heads * t.dim, 1 / full, random);
        }
        for (int64_t b = 0; b < t.batch; ++b) {
            offsets.push_back(uniform(random, -t.lq, t.lk));
            lengths.push_back(b == 1 ? 0 : uniform(random, 0, t.lk));
        }
        if (t.special_rows && t.bits > 0) make_special_scales();
        if (t.special_rows && t.bits == 0) make_special_rows();
        if (t.special_keys) make_special_keys();
    }

    // Integers have them from scales whose product overflows, and 0 times that.
    void make_special_scales() {
        for (size_t i = 0; i < q_scale.size(); i += 2) q_scale[i] = i % 4 == 0 ? 3e38f : -3e38f;
        for (auto& factor : k_scale) factor *= 1e3f;
    }

    // K's values are positive, so that a query of one infinity has scores of that sign.
    void make_special_rows() {
        for (int64_t i = 0; i < k.array.count(); ++i) k.array.set(i, 0.5);
        for (int64_t i = 0; i < test.lq; ++i) {
            if (i % 4 == 3) continue;
            const double special = i % 4 == 0 ? -infinity : i % 4 == 1 ? infinity : std::nan("");
            q.array.set(q.at(0, 0, i, i % test.dim), special);
        }
    }

    // Queries that do not see them must not notice.
    void make_special_keys() {
        for (int64_t j = 0; j < test.lk; ++j) {
            if (j % 11 == 4) k.array.set(k.at(0, 0, j, j % test.dim), std::nan(""));
            if (j % 7 == 3) v.array.set(v.at(0, 0, j, j % test.dim), infinity);
            if (j % 7 == 5) v.array.set(v.at(0, 0, j, j % test.dim), std::nan(""));
        }
    }

    // Tensor Cores take exponentials in the type of V: errors of them all, beside their sum.
    double rounding_error(size_t keys, long double size) const {
        if (!rounds_exponentials) return 0;
        const double relative = std::ldexp(1.0, test.in == kind::fp16 ? -11 : -8);
        const double least = test.in == kind::fp16 ? std::ldexp(1.0, -25) : 0;
        return relative * static_cast<double>(size) + least * static_cast<double>(keys);
    }

    magicube::attention::problem problem(mirror& device, const char* implementation) {
        magicube::attention::problem p;
        p.pattern = view_on(device, pattern);
        p.pattern.values = nullptr;
        if (patterns_of(test) == 1) p.pattern.different_patterns = false;
        p.patterns = test.patterns;
        p.in_type = static_cast<magicube::dtype>(test.in);
        p.out_type = static_cast<magicube::dtype>(test.out);
        p.batch_count = test.batch;
        p.q_heads = test.q_heads;
        p.kv_heads = test.kv_heads;
        p.head_dim = test.dim;
        p.causal = test.causal;
        p.causal_offset = test.causal_offset;
        p.causal_offsets = test.causal_offsets;
        p.key_lengths = test.key_lengths;
        p.log_sum_exp = test.log_sum_exp;
        p.implementation = implementation;
        if (test.bits > 0) {
            p.probability_bits = test.bits;
            p.q_scale = test.q_scale;
            p.k_scale = test.k_scale;
            p.v_scale = test.v_scale;
        }
        return p;
    }

    bool allowed(int64_t b, int64_t i, int64_t j) const {
        const auto item = static_cast<size_t>(b);
        if (test.key_lengths && j >= lengths[item]) return false;
        if (!test.causal) return true;
        return j <= i + test.causal_offset + (test.causal_offsets ? offsets[item] : 0);
    }

    // The keys that each query of a head sees.
    std::vector<std::vector<seen_key>> keys_of(int64_t b, int64_t h) const {
        std::vector<std::vector<seen_key>> rows(static_cast<size_t>(test.lq));
        int64_t matrix = 0;
        if (test.patterns == pattern_sharing::head) matrix = h;
        if (test.patterns == pattern_sharing::batch) matrix = b;
        if (test.patterns == pattern_sharing::batch_head) matrix = b * test.q_heads + h;
        const int64_t kv = h * test.kv_heads / test.q_heads;
        pattern.each_element(matrix, [&](int64_t i, int64_t j, int64_t, int64_t) {
            if (!allowed(b, i, j)) return;
            long double sum = 0, size = 0;
            for (int64_t d = 0; d < test.dim; ++d) {
                const long double product =
                    static_cast<long double>(q.array.get(q.at(b, h, i, d))) *
                    static_cast<long double>(k.array.get(k.at(b, kv, j, d)));
                sum += product;
                size += std::fabs(product);
            }
            if (test.bits > 0) {
                // In fp32, every product rounded.
                float score =
                    scale * scale_at(test.q_scale, q_scale, b * test.q_heads + h, test.lq, i);
                score *= scale_at(test.k_scale, k_scale, b * test.kv_heads + kv, test.lk, j);
                score *= static_cast<float>(sum);
                rows[static_cast<size_t>(i)].push_back({j, score, 0});
                return;
            }
            rows[static_cast<size_t>(i)].push_back(
                {j, sum * static_cast<long double>(scale), size * static_cast<long double>(scale)});
        });
        return rows;
    }

    query_model model_of(const std::vector<seen_key>& keys) const {
        query_model result;
        long double size = 0;
        for (const auto& key : keys) {
            result.invalid = result.invalid || !(key.score < infinity);
            result.largest = std::fmax(result.largest, key.score);
            size = std::fmax(size, key.size);
        }
        if (result.invalid || result.empty()) return result;
        for (const auto& key : keys) result.total += std::exp(key.score - result.largest);
        // Errors of two scores, of the exponential and of sums of so many terms.
        const double terms = static_cast<double>(keys.size()) + 16;
        const double of_scores = static_cast<double>(size) * static_cast<double>(test.dim + 4);
        result.slack = (2 * of_scores + terms) * std::ldexp(1.0, -23);
        return result;
    }

    // What may stand for the exponential of a key, and by how much it may differ from that.
    struct quantised_key {
        long double weight;
        long double slack;
    };

    quantised_key quantise(long double score, long double largest) const {
        const auto e = static_cast<long double>(
            std::exp(static_cast<double>(score) - static_cast<double>(largest)));
        const long double top = std::ldexp(1.0L, test.bits) - 1;
        if (!exact) return {e, 1 / (std::ldexp(1.0L, test.bits - 1) - 1)};
        const bool tie = std::fabs(top * e - std::floor(top * e) - 0.5L) < 1e-6L;
        return {std::nearbyint(top * e) / top, tie ? 1 / top : 0};
    }

    std::string check_quantised(const std::vector<seen_key>& keys, int64_t b, int64_t h, int64_t i,
                                const packed_array& result, const packed_array& statistics) const {
        const int64_t kv = h * test.kv_heads / test.q_heads;
        query_model model;
        for (const auto& key : keys) {
            model.invalid = model.invalid || !(key.score < infinity);
            model.largest = std::fmax(model.largest, key.score);
        }
        std::vector<quantised_key> weights;
        long double slack = 0;
        for (const auto& key : keys) {
            weights.push_back(quantise(key.score, model.largest));
            model.total += weights.back().weight;
            slack += weights.back().slack;
        }
        const long double least = std::fmax(model.total - slack, 0.5L);
        for (int64_t d = 0; d < test.dim; ++d) {
            long double sum = 0, size = 0, bound = 0;
            const auto value = [&](size_t j) {
                return static_cast<long double>(v.array.get(v.at(b, kv, keys[j].key, d)));
            };
            for (size_t j = 0; j < keys.size(); ++j) {
                sum += weights[j].weight * value(j) / model.total;
                size += weights[j].weight * std::fabs(value(j)) / model.total;
            }
            for (size_t j = 0; j < keys.size(); ++j)
                bound += weights[j].slack * std::fabs(value(j) - sum) / least;
            bound += exact ? std::ldexp(std::fabs(sum), -22) + std::ldexp(size, -50)
                           : std::ldexp(size, -18);
            const auto factor = static_cast<double>(
                scale_at(test.v_scale, v_scale, b * test.kv_heads + kv, test.dim, d));
            const double right = model.empty() ? 0 : factor * static_cast<double>(sum);
            const double found = result.get(out.at(b, h, i, d));
            const double room = std::fabs(factor) * static_cast<double>(bound) +
                                0.5001 * spacing(test.out, right) + 1e-37;
            const bool fits = model.invalid   ? std::isnan(found)
                              : model.empty() ? found == 0
                                              : std::fabs(found - right) <= room;
            if (!fits) return text("out is ", found, " instead of ", right, " within ", room);
        }
        if (!test.log_sum_exp) return {};
        const double right = static_cast<double>(model.largest + std::log(model.total));
        const double found = statistics.get((b * test.q_heads + h) * test.lq + i);
        const double room = static_cast<double>(slack / least) + 3e-7 * (1 + std::fabs(right));
        const bool fits = model.invalid   ? std::isnan(found)
                          : model.empty() ? found == -infinity
                                          : std::fabs(found - right) <= room;
        return fits ? "" : text("log-sum-exp is ", found, " instead of ", right);
    }

    std::string check_query(const std::vector<seen_key>& keys, int64_t b, int64_t h, int64_t i,
                            const packed_array& result, const packed_array& statistics) const {
        if (test.bits > 0) return check_quantised(keys, b, h, i, result, statistics);
        const auto model = model_of(keys);
        const int64_t kv = h * test.kv_heads / test.q_heads;
        for (int64_t d = 0; d < test.dim; ++d) {
            long double sum = 0, size = 0;
            for (const auto& key : keys) {
                const long double p = std::exp(key.score - model.largest) / model.total;
                const long double term =
                    p * static_cast<long double>(v.array.get(v.at(b, kv, key.key, d)));
                sum += term;
                size += std::fabs(term);
            }
            const double right = model.empty() ? 0 : static_cast<double>(sum);
            const double found = result.get(out.at(b, h, i, d));
            const double bound = 2 * model.slack * static_cast<double>(size) +
                                 rounding_error(keys.size(), size) +
                                 0.5001 * spacing(test.out, right) + 1e-37;
            const bool fits = model.invalid           ? std::isnan(found)
                              : model.empty()         ? found == 0
                              : !std::isfinite(right) ? same_number(found, right)
                                                      : std::fabs(found - right) <= bound;
            if (!fits) return text("out is ", found, " instead of ", right);
        }
        if (!test.log_sum_exp) return {};
        const double right = static_cast<double>(model.largest + std::log(model.total));
        const double found = statistics.get((b * test.q_heads + h) * test.lq + i);
        const bool fits = model.invalid ? std::isnan(found)
                          : model.empty()
                              ? found == -infinity
                              : std::fabs(found - right) <= model.slack + 2e-7 * std::fabs(right);
        return fits ? "" : text("log-sum-exp is ", found, " instead of ", right);
    }

    std::string check(const packed_array& result, const packed_array& statistics) const {
        auto expected = out.array;
        auto expected_statistics = log_sum_exp;
        for (int64_t b = 0; b < test.batch; ++b) {
            for (int64_t h = 0; h < test.q_heads; ++h) {
                const auto rows = keys_of(b, h);
                for (int64_t i = 0; i < test.lq; ++i) {
                    const auto wrong =
                        check_query(rows[static_cast<size_t>(i)], b, h, i, result, statistics);
                    if (!wrong.empty())
                        return text("query ", i, " of head ", h, " of matrix ", b, ": ", wrong);
                    for (int64_t d = 0; d < test.dim; ++d)
                        expected.set_raw(out.at(b, h, i, d), result.raw(out.at(b, h, i, d)));
                    const int64_t at = (b * test.q_heads + h) * test.lq + i;
                    if (test.log_sum_exp) expected_statistics.set_raw(at, statistics.raw(at));
                }
            }
        }
        if (expected.bytes() != result.bytes()) return "bytes around the output changed";
        return expected_statistics.bytes() == statistics.bytes()
                   ? ""
                   : "bytes that are no log-sum-exp changed";
    }

    std::string execute(const magicube::context& ctx, const char* implementation) {
        const std::string name = implementation;
        rounds_exponentials = name == "sm80_fused" || name == "sm90_slab";
        exact = name == "reference" || name == "plain";
        mirror device(ctx);
        const auto p = problem(device, implementation);
        operation_memory<magicube::attention::operation> memory(device, ctx, p);
        auto result = out.array;
        auto statistics = log_sum_exp;
        const auto bytes = offsets.size() * sizeof(int64_t);
        magicube::attention::arguments args;
        args.scale = test.scale_given ? &scale : nullptr;
        args.q = q.view(put_array(device, q.array));
        args.k = k.view(put_array(device, k.array));
        args.v = v.view(put_array(device, v.array));
        args.out = out.view(put_array(device, result));
        args.causal_offsets = device.put(offsets.data(), bytes);
        args.key_lengths = device.put(lengths.data(), bytes);
        args.log_sum_exp = static_cast<float*>(put_array(device, statistics));
        args.q_scale = put_floats(device, q_scale);
        args.k_scale = put_floats(device, k_scale);
        args.v_scale = put_floats(device, v_scale);
        memory.lend_workspace(args);
        magicube::attention::execute(ctx, memory.plan(), args);
        fetch_array(device, result);
        fetch_array(device, statistics);
        const auto wrong = memory.check();
        return wrong.empty() ? check(result, statistics) : wrong;
    }
};

}  // namespace

std::string run(const attention_case& t) {
    return run_everywhere<attention_run, magicube::attention::operation>(t, 0);
}

std::string describe(const attention_case& t) {
    return text(name_of(static_cast<magicube::dtype>(t.in)), " to ",
                name_of(static_cast<magicube::dtype>(t.out)), ", ", t.batch, " x ", t.q_heads,
                " of ", t.kv_heads, " x ", t.lq, " x ", t.lk, ", head_dim ", t.dim, ", V ", t.v,
                ", S ", t.s, ", seed ", t.seed);
}

}  // namespace support
