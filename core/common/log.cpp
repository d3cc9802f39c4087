// SPDX-License-Identifier: Apache-2.0
#include "core/common/log.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

namespace magicube::log {
namespace {

struct file_closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

struct state {
    std::atomic<int> level{0};
    std::atomic<int> topics{0};
    std::mutex mutex;  // guards the sink, and keeps messages whole
    callback function;
    std::unique_ptr<std::FILE, file_closer> file;

    state() {
        constexpr const char* names[] = {"off", "error", "warn", "info", "debug"};
        if (const char* wanted = std::getenv("MAGICUBE_LOG_LEVEL")) {
            for (int i = 0; i < 5; ++i)
                if (std::strcmp(wanted, names[i]) == 0) level = i;
        }
        if (const char* wanted = std::getenv("MAGICUBE_VERBOSE")) topics = parse_topics(wanted);
    }

    static int parse_topics(std::string_view list) {
        int found = 0;
        while (!list.empty()) {
            const auto comma = list.find(',');
            const auto word = list.substr(0, comma);
            if (word == "dispatch") found |= static_cast<int>(topic::dispatch);
            if (word == "bench") found |= static_cast<int>(topic::bench);
            if (comma == std::string_view::npos) break;
            list.remove_prefix(comma + 1);
        }
        return found;
    }
};

// Never destroyed, so that a thread that logs while the process exits finds it whole.
state& instance() {
    static state& global = *new state;
    return global;
}

}  // namespace

void set_level(level value) {
    instance().level = static_cast<int>(value);
}

level get_level() {
    return static_cast<level>(instance().level.load());
}

void set_callback(callback function) {
    std::lock_guard lock(instance().mutex);
    instance().function = std::move(function);
}

void set_file(const char* path) {
    std::unique_ptr<std::FILE, file_closer> file;
    if (path) {
        file.reset(std::fopen(path, "a"));
        require_value(file != nullptr, "path '", path,
                      "' cannot be opened for appending: ", std::strerror(errno));
    }
    std::lock_guard lock(instance().mutex);
    instance().file = std::move(file);
}

bool enabled(level value) {
    return static_cast<int>(value) <= instance().level.load(std::memory_order_relaxed);
}

bool enabled(topic value) {
    return (instance().topics.load(std::memory_order_relaxed) & static_cast<int>(value)) != 0;
}

void write(level value, const std::string& message) {
    constexpr const char* names[] = {"off", "error", "warn", "info", "debug"};
    auto& log = instance();
    std::lock_guard lock(log.mutex);
    if (log.function) {
        log.function(value, message.c_str());
        return;
    }
    std::FILE* out = log.file ? log.file.get() : stderr;
    std::fprintf(out, "magicube %s: %s\n", names[static_cast<int>(value)], message.c_str());
    std::fflush(out);
}

}  // namespace magicube::log
