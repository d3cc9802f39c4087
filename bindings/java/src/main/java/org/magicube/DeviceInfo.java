// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * What a device tells of itself.
 *
 * @param name as the device calls itself
 * @param computeCapability 10 * major + minor on CUDA (90 for sm_90), 0 on the CPU
 * @param multiprocessors on CUDA; on the CPU usable hardware threads
 * @param memoryBytes total memory
 * @param supported whether this build holds code for the device
 */
public record DeviceInfo(String name, int computeCapability, int multiprocessors,
        long memoryBytes, boolean supported) {}
