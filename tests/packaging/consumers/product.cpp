// SPDX-License-Identifier: Apache-2.0
// The headers in C++, and what a machine without a GPU says.
#include <magicube/magicube.h>

#include <iostream>
#include <string>

int main() {
    int32_t gpus = -1;
    if (magicubeGetDeviceCount(MAGICUBE_DEVICE_CUDA, &gpus) != MAGICUBE_STATUS_SUCCESS) return 1;
    magicubeHandle_t handle = nullptr;
    const magicubeStatus_t status = magicubeCreate(&handle, MAGICUBE_DEVICE_CUDA, 0);
    if (gpus == 0) {
        if (status == MAGICUBE_STATUS_SUCCESS || handle) return 1;
        if (std::string(magicubeGetLastErrorMessage()).empty()) return 1;
    } else if (status != MAGICUBE_STATUS_SUCCESS ||
               magicubeDestroy(handle) != MAGICUBE_STATUS_SUCCESS) {
        return 1;
    }
    std::cout << magicubeGetVersionString() << "\n";
}
