// SPDX-License-Identifier: Apache-2.0
#include "stopwatch.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace bench {
namespace {

using host_clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

// A graph of `calls` launches that use the copies of the operands in turn.
class stopwatch::replay {
  public:
    replay(cudaStream_t stream, const side& s, int64_t calls) : calls_(calls) {
        cudaGraph_t graph = nullptr;
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
              "cudaStreamBeginCapture");
        try {
            for (int64_t i = 0; i < calls; ++i) s.launch(static_cast<int>(i % s.copies));
        } catch (...) {
            cudaStreamEndCapture(stream, &graph);
            cudaGraphDestroy(graph);
            cudaGetLastError();
            throw;
        }
        check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
        const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        check(error, "cudaGraphInstantiate");
    }
    replay(replay&& other) noexcept
        : calls_(other.calls_), executable_(std::exchange(other.executable_, nullptr)) {}
    ~replay() {
        if (executable_) cudaGraphExecDestroy(executable_);
    }

    int64_t calls() const { return calls_; }
    void launch(cudaStream_t stream) const {
        check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
    }

  private:
    int64_t calls_;
    cudaGraphExec_t executable_ = nullptr;
};

// One side's turn.
struct stopwatch::round {
    double us = 0, megahertz = 0;
};

stopwatch::stopwatch(const session& s) : session_(s), clocks_(s) {
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
}

stopwatch::~stopwatch() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

// Microseconds a call, roughly; also loads what the first calls load.
double stopwatch::estimate(const side& s) {
    constexpr int calls = 3;
    for (int i = 0; i < calls; ++i) s.launch(i % s.copies);
    session_.synchronize();
    check(cudaEventRecord(events_[0], session_.stream), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) s.launch(i % s.copies);
    check(cudaEventRecord(events_[1], session_.stream), "cudaEventRecord");
    check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(ms) / calls;
}

// About 2 ms of work, so that the gaps between graphs do not count.
stopwatch::replay stopwatch::capture(const side& s) {
    const auto calls = static_cast<int64_t>(std::clamp(2000 / estimate(s), 1.0, 500.0));
    return replay(session_.stream, s, round_up(calls, s.copies));
}

// Appends the microseconds a call of each replay. So much is always queued (16 ms, if the graphs
// are as long as capture() makes them) that a pause of the host does not reach the GPU.
void stopwatch::keep_busy(const replay& r, double seconds, std::vector<double>& us,
                          power_meter* meter) {
    const auto end = host_clock::now() + std::chrono::duration<double>(seconds);
    size_t launched = 0, finished = 0;
    const auto record = [&] {
        check(cudaEventRecord(events_[launched % ring], session_.stream), "cudaEventRecord");
    };
    const auto finish = [&] {
        const cudaEvent_t begin = events_[finished % ring];
        const cudaEvent_t done = events_[++finished % ring];
        check(cudaEventSynchronize(done), "cudaEventSynchronize");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, done), "cudaEventElapsedTime");
        us.push_back(1e3 * static_cast<double>(ms) / static_cast<double>(r.calls()));
        if (meter) meter->observe();
    };
    record();
    do {
        r.launch(session_.stream);
        ++launched;
        record();
        if (launched - finished >= queued) finish();
    } while (host_clock::now() < end);
    while (finished < launched) finish();
}

stopwatch::round stopwatch::run_round(const replay& r, double seconds) {
    constexpr double warm_share = 0.3;  // until clock and temperature have followed the new load
    std::vector<double> us;
    keep_busy(r, warm_share * seconds, us);
    us.clear();
    clocks_.begin();
    keep_busy(r, (1 - warm_share) * seconds, us);
    clocks_.end();
    return {median(us), clocks_.megahertz()};
}

// The energy of a call that takes so many microseconds. Nothing if it is not known, or if reading
// the counter slowed the work.
std::optional<double> stopwatch::energy_a_call(const replay& r, double seconds, double us) {
    std::vector<double> each;
    power_.restart();
    keep_busy(r, seconds, each, &power_);
    const double mean =
        std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
    const auto watts = power_.watts();
    constexpr double slowest = 1.1;
    if (!watts || mean > slowest * us) return std::nullopt;
    return *watts * us;
}

std::vector<timing> stopwatch::alternate(const std::vector<side>& sides, double seconds,
                                         int rounds) {
    std::vector<replay> replays;
    replays.reserve(sides.size());
    for (const side& s : sides) replays.push_back(capture(s));
    std::vector<std::vector<round>> turns(sides.size());
    for (int i = 0; i < rounds; ++i) {
        for (size_t j = 0; j < sides.size(); ++j) {
            turns[j].push_back(run_round(replays[j], seconds));
        }
    }
    std::vector<timing> result;
    for (size_t j = 0; j < sides.size(); ++j) {
        std::vector<double> us, cycles;
        timing t;
        for (const round& turn : turns[j]) {
            us.push_back(turn.us);
            cycles.push_back(turn.us * turn.megahertz);
            t.megahertz += turn.megahertz / rounds;
        }
        t.us = median(us);
        t.min_us = *std::min_element(us.begin(), us.end());
        t.max_us = *std::max_element(us.begin(), us.end());
        t.cycles = median(cycles);
        t.microjoules = energy_a_call(replays[j], seconds, t.us);
        result.push_back(t);
    }
    return result;
}

side stopwatch::fastest(std::vector<side> candidates) {
    constexpr double seconds = 0.03;
    std::optional<side> best;
    double best_us = 0;
    std::string reason = "it offers no algorithm for this problem";
    for (side& candidate : candidates) {
        try {
            const replay r = capture(candidate);
            std::vector<double> us;
            keep_busy(r, seconds, us);
            if (best && median(us) >= best_us) continue;
            best_us = median(us);
            best = std::move(candidate);
        } catch (const failure& error) {
            reason = error.what();
        }
    }
    if (!best) fail(reason);
    return *best;
}

}  // namespace bench
