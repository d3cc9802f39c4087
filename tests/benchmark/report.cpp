// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cmath>
#include <cstdio>

namespace bench {

const char* const markdown_header =
    "| problem | implementation | us | MHz | kcycles | TOP/s | dense TOP/s | bound, us | share "
    "| mJ | speed-up over (its us) |\n|--|--|--|--|--|--|--|--|--|--|--|\n";

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
    char line[256];
    std::snprintf(line, sizeof line, pattern, values...);
    return line;
}

// Rate of so many operations in so many microseconds.
double tops(double operations, double us) {
    return operations / us / 1e6;
}

std::string describe(const spmm_case& c, bool cold) {
    const std::string format_words =
        c.is_vnm() ? text(c.vector_length, ":2:", c.group)
                   : text("V ", c.vector_length, ", ", 100 * c.sparsity, " %");
    std::string words =
        text(c.m, " x ", c.k, " x ", c.n, ", ", format_words, ", ", magicubeGetDataTypeName(c.lhs),
             " x ", magicubeGetDataTypeName(c.rhs), " -> ", magicubeGetDataTypeName(c.out));
    if (c.b_order == MAGICUBE_ORDER_COL) words += ", B col";
    if (c.c_order == MAGICUBE_ORDER_COL) words += ", C col";
    if (c.scales) words += ", scales";
    if (c.ld_padding) words += text(", ld + ", c.ld_padding);
    if (c.lengths == row_lengths::lognormal) words += ", log-normal";
    if (cold) words += ", cold";
    return words;
}

std::string energy_text(const timing& t) {
    return t.microjoules ? format("%.2f", *t.microjoules / 1e3) : "-";
}

std::string problem_of(const case_result& r) {
    return !r.error.empty() ? "not run: " + r.error : "WRONG RESULT: " + r.mistake;
}

bool timed(const case_result& r) {
    return r.error.empty() && r.mistake.empty();
}

// One object of JSON.
class json_object {
  public:
    void add(const char* name, double value) {
        add_raw(name, std::isfinite(value) ? format("%.10g", value) : "null");
    }
    void add(const char* name, bool value) { add_raw(name, value ? "true" : "false"); }
    void add(const std::string& name, const std::string& value) { add_raw(name, quoted(value)); }
    void add_raw(const std::string& name, const std::string& value) {
        fields_ += (fields_.empty() ? "" : ", ") + quoted(name) + ": " + value;
    }
    std::string str() const { return "{" + fields_ + "}"; }

  private:
    static std::string quoted(const std::string& value) {
        std::string result = "\"";
        for (char c : value) {
            if (static_cast<unsigned char>(c) < 0x20) {
                result += format("\\u%04x", static_cast<unsigned>(c));
                continue;
            }
            if (c == '"' || c == '\\') result += '\\';
            result += c;
        }
        return result + "\"";
    }

    std::string fields_;
};

void add_timing(json_object& json, const timing& t) {
    json.add("time_us", t.us);
    json.add("min_us", t.min_us);
    json.add("max_us", t.max_us);
    json.add("clock_mhz", t.megahertz);
    json.add("cycles", t.cycles);
    json.add("energy_uj", t.microjoules.value_or(NAN));
}

void add_problem(json_object& json, const case_result& r) {
    const spmm_case& c = r.problem;
    json.add("operation", std::string(c.operation()));
    json.add("device", std::string("cuda"));
    json.add("m", static_cast<double>(c.m));
    json.add("k", static_cast<double>(c.k));
    json.add("n", static_cast<double>(c.n));
    json.add("vector_length", static_cast<double>(c.vector_length));
    if (c.is_vnm()) {
        json.add("group", static_cast<double>(c.group));
    } else {
        json.add("stride", static_cast<double>(c.stride));
        json.add("pattern",
                 std::string(c.lengths == row_lengths::uniform ? "uniform" : "lognormal"));
    }
    json.add("sparsity", c.sparsity);
    json.add("lhs", std::string(magicubeGetDataTypeName(c.lhs)));
    json.add("rhs", std::string(magicubeGetDataTypeName(c.rhs)));
    json.add("out", std::string(magicubeGetDataTypeName(c.out)));
    json.add("b_order", std::string(order_name(c.b_order)));
    json.add("c_order", std::string(order_name(c.c_order)));
    json.add("scales", c.scales);
    json.add("ld_padding", static_cast<double>(c.ld_padding));
    json.add("cold", r.cold);
    json.add("seed", static_cast<double>(c.seed));
    json.add("correct", r.error.empty() && r.mistake.empty());
}

void add_result(json_object& json, const case_result& r) {
    json.add("implementation", r.own.variant);
    json.add("plan_bytes", static_cast<double>(r.plan_bytes));
    json.add(std::string("advice"), r.advice);
    json.add("nnz", r.amount.nonzeros);
    add_timing(json, r.own.time);
    json.add("tops", tops(r.amount.operations, r.own.time.us));
    json.add("dense_tops", tops(r.amount.dense_operations, r.own.time.us));
    json.add("shared_memory_bytes", r.amount.shared_memory_bytes);
    json.add("device_memory_bytes", r.amount.device_memory_bytes);
    json.add("bound_us", r.limit.us);
    json.add("bound_by", std::string(r.limit.by));
    json.add("bound_share", r.limit.us / r.own.time.us);
    json_object peers, missing;
    for (const auto& peer : r.peers) {
        json_object one;
        add_timing(one, peer.time);
        one.add("speedup", peer.time.us / r.own.time.us);
        one.add("note", peer.variant);
        peers.add_raw(peer.name, one.str());
    }
    for (const auto& [name, reason] : r.missing) missing.add(name, reason);
    json.add_raw("peers", peers.str());
    json.add_raw("missing_peers", missing.str());
}

std::string time_line(const side_result& side) {
    const timing& t = side.time;
    return format("  %-26s %9.2f us (%.2f .. %.2f)  %5.0f MHz  %9.1f kcycles  %8s mJ",
                  side.name.c_str(), t.us, t.min_us, t.max_us, t.megahertz, t.cycles / 1e3,
                  energy_text(t).c_str());
}

}  // namespace

std::string as_text(const case_result& r) {
    std::string out = describe(r.problem, r.cold) + "\n";
    if (!timed(r)) return out + "  " + problem_of(r) + "\n";
    const timing& t = r.own.time;
    out += time_line(r.own) + "  " + r.own.variant + "\n";
    for (const auto& peer : r.peers) {
        out += time_line(peer) + format("  %6.2fx  ", peer.time.us / t.us) + peer.variant + "\n";
    }
    for (const auto& [name, reason] : r.missing) out += "  no " + name + ": " + reason + "\n";
    if (!r.advice.empty()) out += "  " + r.advice + "\n";
    return out +
           format("  %.1f TOP/s on nonzeros, %.0f as a dense product; ",
                  tops(r.amount.operations, t.us), tops(r.amount.dense_operations, t.us)) +
           format("bound %.2f us by %s, %.0f %% of it reached\n", r.limit.us, r.limit.by,
                  100 * r.limit.us / t.us);
}

std::string as_markdown(const case_result& r) {
    std::string out = "| " + describe(r.problem, r.cold) + " | ";
    if (!timed(r)) return out + problem_of(r) + " | | | | | | | | | |\n";
    const timing& t = r.own.time;
    out += r.own.variant + format(" | %.1f | %.0f | %.1f | %.1f | %.0f | ", t.us, t.megahertz,
                                  t.cycles / 1e3, tops(r.amount.operations, t.us),
                                  tops(r.amount.dense_operations, t.us));
    out += format("%.1f %s | %.0f %% | %s | ", r.limit.us, r.limit.by, 100 * r.limit.us / t.us,
                  energy_text(t).c_str());
    for (size_t i = 0; i < r.peers.size(); ++i) {
        const auto& peer = r.peers[i];
        out += (i ? ", " : "") + peer.name +
               format(" **%.2f** (%.1f)", peer.time.us / t.us, peer.time.us);
    }
    return out + " |\n";
}

std::string as_json(const case_result& r) {
    json_object json;
    add_problem(json, r);
    if (timed(r)) {
        add_result(json, r);
    } else {
        json.add(std::string(r.error.empty() ? "mistake" : "error"),
                 r.error.empty() ? r.mistake : r.error);
    }
    return json.str();
}

}  // namespace bench
