// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * What a plan and its executions need.
 *
 * @param planBytes of the buffer that a plan keeps until it is closed
 * @param planAlignment of that buffer's address, in bytes
 * @param workspaceBytes of scratch for one execution at the largest size of the plan's range
 * @param workspaceAlignment of the scratch's address, in bytes
 */
public record BufferSizes(long planBytes, long planAlignment, long workspaceBytes,
        long workspaceAlignment) {}
