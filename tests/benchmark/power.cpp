// SPDX-License-Identifier: Apache-2.0
#include "power.hpp"

#include "common.hpp"
#include "library.hpp"

namespace bench {

power_meter::power_meter() {
    try {
        const library nvml({"libnvidia-ml.so.1"});
        int (*init)() = nullptr;
        int (*find)(const char* bus_id, void** device) = nullptr;
        nvml.bind(init, "nvmlInit_v2");
        nvml.bind(find, "nvmlDeviceGetHandleByPciBusId_v2");
        char bus_id[32] = {};
        check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0), "cudaDeviceGetPCIBusId");
        if (init() == 0 && find(bus_id, &device_) == 0) {
            nvml.bind(read_, "nvmlDeviceGetTotalEnergyConsumption");
        }
    } catch (const failure&) {
        // Times are worth having without energies.
    }
}

void power_meter::restart() {
    latest_.reset();
    first_.reset();
    last_.reset();
}

void power_meter::observe() {
    constexpr auto interval = std::chrono::milliseconds(25);
    const auto now = clock::now();
    if (!read_ || (latest_ && now - latest_->when < interval)) return;
    unsigned long long millijoules = 0;
    if (read_(device_, &millijoules) != 0) return;
    const reading current{now, millijoules};
    if (latest_ && latest_->millijoules != millijoules) {
        last_ = current;
        if (!first_) first_ = current;
    }
    latest_ = current;
}

std::optional<double> power_meter::watts() const {
    constexpr auto shortest = std::chrono::milliseconds(200);
    if (!first_ || last_->when - first_->when < shortest) return std::nullopt;
    const std::chrono::duration<double, std::milli> elapsed = last_->when - first_->when;
    return static_cast<double>(last_->millijoules - first_->millijoules) / elapsed.count();
}

}  // namespace bench
