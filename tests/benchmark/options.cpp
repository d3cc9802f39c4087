// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace bench {

const char* const usage =
    R"(magicube-bench spmm | vnm: times C (m x n) = A (m x k, sparse) * B (k x n) on CUDA device 0.

  --m, --k N            sizes (4096)
  --n N[,N...]          size, or several (4096)
  --vector-length V[,V...]   spmm: 1, 2, 4, 8, 16, 32 or 64 (8)
                        vnm: 1, 16, 32, 64, 128 or 256 (128)
  --stride S            spmm: slots a chunk of A's layout; 0: the default (0)
  --sparsity S[,S...]   spmm: share of vectors that do not exist (0.9)
  --group M[,M...]      vnm: columns of a group, of which a row keeps two; 4 is plain 2:4 (8)
  --lhs, --rhs T        spmm: types of A and B: int8, int16, fp16, ... (int8, int8)
  --type T              vnm: type of A and B: fp16, bf16, int8 or e4m3 (fp16)
  --out T               type of C (spmm: int32; vnm: fp16, and for int8 int32)
  --b-order, --c-order row|col
  --pattern uniform|lognormal   spmm: lengths of block rows
  --scales              one scale a row of A and one a column of B; not with --out int32
  --ld-padding P        elements between two rows or columns of B and of C (0)
  --implementation NAME force one; else the library chooses
  --cold                rotate among copies of A and B of more than 200 MB in all
  --peers[=PART,...]    time cuBLASLt and cuSPARSE (vnm: cuSPARSELt) too, only those whose name
                        contains a PART
  --baseline            spmm: time int8 x int8 -> int32, row-major, uniform, unpadded too
  --seconds S           time for each side in each round (0.5)
  --rounds R            rounds, the sides taking turns (3)
  --seed X              of patterns and data (1)
  --json | --markdown   one JSON array, or rows of a Markdown table, instead of text

Peers are looked for as the dynamic loader does and then in the folders of the environment variable
MAGICUBE_BENCH_LIBRARY_PATH (colons between them). Exit status: 0, 1 if a result is wrong or
something cannot be run, 2 for a wrong command line.
)";

namespace {

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    std::istringstream in(list);
    for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
    return parts;
}

template <class Number>
Number number(const std::string& option, const std::string& value, Number least, Number most) {
    std::istringstream in(value);
    Number result{};
    if (!(in >> result) || in.peek() != EOF || !(result >= least && result <= most)) {
        throw usage_error(
            text(option, " is '", value, "'; it must be a number from ", least, " to ", most));
    }
    return result;
}

template <class Number>
std::vector<Number> numbers(const std::string& option, const std::string& value, Number least,
                            Number most) {
    std::vector<Number> result;
    for (const auto& part : split(value)) result.push_back(number(option, part, least, most));
    if (result.empty()) throw usage_error(text(option, " is empty"));
    return result;
}

magicubeDataType_t type_named(const std::string& option, const std::string& name) {
    for (int type = MAGICUBE_INT4; type <= MAGICUBE_E4M3; ++type) {
        const auto candidate = static_cast<magicubeDataType_t>(type);
        if (name == magicubeGetDataTypeName(candidate)) return candidate;
    }
    throw usage_error(text(option, " is '", name, "', which is no type"));
}

// One of two words.
template <class Choice>
Choice one_of(const std::string& option, const std::string& value, const char* first_name,
              Choice first, const char* second_name, Choice second) {
    if (value == first_name) return first;
    if (value == second_name) return second;
    throw usage_error(
        text(option, " is '", value, "'; it must be ", first_name, " or ", second_name));
}

// The command line as it is read: a case and the lists that multiply it.
struct reader {
    options result;
    spmm_case base;
    std::vector<int64_t> columns{4096};
    std::vector<int64_t> vector_lengths{8};
    std::vector<int64_t> groups{0};
    bool out_given = false;
    std::vector<double> sparsities{0.9};

    using handler = std::function<void(const std::string& option, const std::string& value)>;
    std::map<std::string, handler> with_value;
    std::map<std::string, std::function<void()>> flags;

    static constexpr int64_t largest = (int64_t{1} << 31) - 1;

    template <class Target>
    handler size_into(Target& target, int64_t least, int64_t most) {
        return [&target, least, most](const auto& option, const auto& value) {
            target = static_cast<Target>(number<int64_t>(option, value, least, most));
        };
    }
    static handler type_into(magicubeDataType_t& target) {
        return [&target](const auto& option, const auto& value) {
            target = type_named(option, value);
        };
    }
    static handler order_into(magicubeOrder_t& target) {
        return [&target](const auto& option, const auto& value) {
            target = one_of(option, value, "row", MAGICUBE_ORDER_ROW, "col", MAGICUBE_ORDER_COL);
        };
    }

    // The operation: spmm, or vnm.
    explicit reader(bool vnm) {
        add_common(vnm);
        if (vnm) {
            add_vnm();
        } else {
            add_spmm();
        }
    }
    reader(const reader&) = delete;

    void add_common(bool vnm) {
        with_value["--m"] = size_into(base.m, 1, largest);
        with_value["--k"] = size_into(base.k, 1, largest);
        with_value["--n"] = [this](const auto& option, const auto& value) {
            columns = numbers<int64_t>(option, value, 1, largest);
        };
        with_value["--vector-length"] = [this, vnm](const auto& option, const auto& value) {
            vector_lengths = numbers<int64_t>(option, value, 1, vnm ? 256 : 64);
        };
        with_value["--out"] = [this](const auto& option, const auto& value) {
            base.out = type_named(option, value);
            out_given = true;
        };
        with_value["--b-order"] = order_into(base.b_order);
        with_value["--c-order"] = order_into(base.c_order);
        with_value["--ld-padding"] = size_into(base.ld_padding, 0, 1 << 20);
        with_value["--implementation"] = [this](const auto&, const auto& value) {
            base.implementation = value;
        };
        with_value["--seconds"] = [this](const auto& option, const auto& value) {
            result.seconds = number(option, value, 0.01, 60.0);
        };
        with_value["--rounds"] = size_into(result.rounds, 1, 1000);
        with_value["--seed"] = size_into(base.seed, 0, INT64_MAX);
        flags["--scales"] = [this] { base.scales = true; };
        flags["--cold"] = [this] { result.cold = true; };
        flags["--json"] = [this] { result.json = true; };
        flags["--markdown"] = [this] { result.markdown = true; };
        flags["--help"] = [this] { result.help = true; };
        flags["--peers"] = [this] { result.peers = {""}; };
    }

    void add_spmm() {
        with_value["--stride"] = size_into(base.stride, 0, 32);
        with_value["--sparsity"] = [this](const auto& option, const auto& value) {
            sparsities = numbers<double>(option, value, 0, 1);
        };
        with_value["--lhs"] = type_into(base.lhs);
        with_value["--rhs"] = type_into(base.rhs);
        with_value["--pattern"] = [this](const auto& option, const auto& value) {
            base.lengths = one_of(option, value, "uniform", row_lengths::uniform, "lognormal",
                                  row_lengths::lognormal);
        };
        flags["--baseline"] = [this] { result.baseline = true; };
    }

    void add_vnm() {
        base.lhs = base.rhs = base.out = MAGICUBE_FP16;
        vector_lengths = {128};
        groups = {8};
        with_value["--group"] = [this](const auto& option, const auto& value) {
            groups = numbers<int64_t>(option, value, 4, 65535);
        };
        with_value["--type"] = [this](const auto& option, const auto& value) {
            base.lhs = base.rhs = type_named(option, value);
        };
    }

    void read(int count, char** arguments) {
        for (int i = 0; i < count; ++i) {
            const std::string argument = arguments[i];
            if (argument.rfind("--peers=", 0) == 0) {
                result.peers = split(argument.substr(8));
            } else if (flags.count(argument)) {
                flags[argument]();
            } else if (!with_value.count(argument)) {
                throw usage_error(text("unknown option '", argument, "'"));
            } else if (i + 1 == count) {
                throw usage_error(text(argument, " needs a value"));
            } else {
                with_value[argument](argument, arguments[++i]);
            }
        }
    }

    void multiply() {
        for (int64_t n : columns) {
            for (int64_t vector_length : vector_lengths) {
                for (int64_t group : groups) {
                    for (double sparsity : sparsities) {
                        spmm_case c = base;
                        c.n = n;
                        c.vector_length = static_cast<int>(vector_length);
                        c.group = static_cast<int>(group);
                        c.sparsity = group ? 1 - 2.0 / static_cast<double>(group) : sparsity;
                        result.cases.push_back(c);
                    }
                }
            }
        }
    }
};

}  // namespace

options parse_options(int count, char** arguments) {
    const std::string operation = count > 1 ? arguments[1] : "";
    if (operation == "--help") {
        options o;
        o.help = true;
        return o;
    }
    if (operation != "spmm" && operation != "vnm") {
        throw usage_error("the first argument must be an operation: spmm or vnm");
    }
    reader r(operation == "vnm");
    r.read(count - 2, arguments + 2);
    if (!r.out_given && r.base.lhs == MAGICUBE_INT8) r.base.out = MAGICUBE_INT32;
    if (r.base.scales && r.base.out == MAGICUBE_INT32) {
        throw usage_error("--scales needs --out fp32, fp16, bf16 or int8; int32 takes no scale");
    }
    r.multiply();
    return r.result;
}

}  // namespace bench
