// SPDX-License-Identifier: Apache-2.0
// magicube-bench: times the library on the GPU and the dense and sparse libraries beside it.
#include <cstdio>
#include <iostream>

#include "options.hpp"
#include "own_product.hpp"
#include "peers/peers.hpp"
#include "report.hpp"

namespace {

using namespace bench;

case_result measure(const session& s, stopwatch& watch, const spmm_case& c, const options& o) {
    case_result result;
    result.problem = c;
    result.cold = o.cold;
    own_product own(s, c, o.cold);
    result.mistake = own.mistake();
    if (!result.mistake.empty()) return result;

    std::vector<side> sides{own.as_side("magicube")};
    std::unique_ptr<own_product> plain;
    if (o.baseline) {
        plain = std::make_unique<own_product>(s, c.baseline(), o.cold);
        result.mistake = plain->mistake();
        if (!result.mistake.empty()) return result;
        sides.push_back(plain->as_side("magicube-int8"));
    }
    peer_products peers = make_peers(s, c, own.a(), o.cold, o.peers, watch);
    for (side& peer : peers.sides) sides.push_back(std::move(peer));
    result.missing = std::move(peers.missing);

    const auto times = watch.alternate(sides, o.seconds, o.rounds);
    for (size_t i = 0; i < sides.size(); ++i) {
        side_result one{sides[i].name, sides[i].variant, times[i]};
        if (i == 0) {
            result.own = std::move(one);
        } else {
            result.peers.push_back(std::move(one));
        }
    }
    result.plan_bytes = own.plan_bytes();
    result.advice = own.advice();
    if (own.a().vectors()) result.problem.stride = own.a().vectors()->stride;
    result.amount = count_work(s, c, own.a(), o.cold);
    result.limit = find_bound(s, c, result.amount, result.own.time.megahertz);
    return result;
}

int run(const options& o) {
    const session s;
    stopwatch watch(s);
    if (o.markdown) {
        std::cout << markdown_header;
    } else if (!o.json) {
        std::printf("%s, sm_%d, %d multiprocessors, copies %.2f TB/s\n", s.name.c_str(),
                    s.capability, s.multiprocessors, s.bytes_per_us / 1e6);
    }
    bool all_right = true;
    std::string separator = "[";
    for (const spmm_case& c : o.cases) {
        case_result result;
        try {
            result = measure(s, watch, c, o);
        } catch (const failure& error) {
            result.problem = c;
            result.cold = o.cold;
            result.error = error.what();
        }
        all_right = all_right && result.error.empty() && result.mistake.empty();
        if (o.json) {
            std::cout << separator << as_json(result);
            separator = ",\n ";
        } else {
            std::cout << (o.markdown ? as_markdown(result) : as_text(result));
        }
        std::cout.flush();
    }
    if (o.json) std::cout << "]\n";
    return all_right ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        const options o = parse_options(count, arguments);
        if (o.help) {
            std::cout << usage;
            return 0;
        }
        return run(o);
    } catch (const usage_error& error) {
        std::cerr << "magicube-bench: " << error.what() << " (see magicube-bench --help)\n";
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "magicube-bench: " << error.what() << "\n";
        return 1;
    }
}
