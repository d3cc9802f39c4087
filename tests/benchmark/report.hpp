// SPDX-License-Identifier: Apache-2.0
// Results as text, as rows of a Markdown table or as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bound.hpp"
#include "stopwatch.hpp"

namespace bench {

struct side_result {
    std::string name, variant;
    timing time;
};

struct case_result {
    spmm_case problem;
    bool cold = false;
    std::string error;    // why it was not timed
    std::string mistake;  // why the result is wrong; it is not timed then
    int64_t plan_bytes = 0;
    std::string advice;  // what the plan says of the dense product, or empty
    work amount{};
    bound limit;
    side_result own;
    std::vector<side_result> peers;
    std::vector<std::pair<std::string, std::string>> missing;
};

std::string as_text(const case_result& r);
std::string as_markdown(const case_result& r);
std::string as_json(const case_result& r);

extern const char* const markdown_header;

}  // namespace bench
