// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <algorithm>

namespace bench {

peer_products make_peers(const session& s, const spmm_case& c, const sparse_data& a, bool cold,
                         const std::vector<std::string>& parts, stopwatch& watch) {
    using maker = std::function<std::vector<side>()>;
    std::vector<std::pair<const char*, maker>> makers = {
        {"cuBLASLt-int8", [&] { return cublaslt_int8(s, c, cold); }},
        {"cuBLASLt-fp16", [&] { return cublaslt_fp16(s, c, cold); }}};
    if (c.is_vnm()) {
        makers.emplace_back(c.lhs == MAGICUBE_INT8 ? "cuSPARSELt-2:4-int8" : "cuSPARSELt-2:4-fp16",
                            [&] { return cusparselt(s, c, cold); });
    }
    if (const pattern* vectors = a.vectors()) {
        makers.emplace_back("cuSPARSE-CSR-fp16",
                            [&, vectors] { return cusparse_csr(s, c, *vectors, cold); });
        makers.emplace_back("cuSPARSE-BSR-fp16", [&] { return cusparse_bsr(s, c, cold); });
        makers.emplace_back("cuSPARSE-Blocked-ELL-fp16",
                            [&] { return cusparse_blocked_ell(s, c, cold); });
    }
    peer_products result;
    for (const auto& [name, make] : makers) {
        const std::string full = name;
        const auto matches = [&](const std::string& part) {
            return full.find(part) != std::string::npos;
        };
        if (std::none_of(parts.begin(), parts.end(), matches)) continue;
        try {
            side best = watch.fastest(make());
            best.name = full;
            result.sides.push_back(std::move(best));
        } catch (const failure& error) {
            result.missing.emplace_back(full, error.what());
        }
    }
    return result;
}

}  // namespace bench
