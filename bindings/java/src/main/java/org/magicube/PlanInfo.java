// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * What a plan tells of itself.
 *
 * @param implementation name of the implementation that executes
 * @param reasons one line a candidate (accepted with its cost, or declined and why), and one that
 *     names the choice
 * @param planBytes of the plan's buffer
 * @param workspaceBytes of scratch for one execution
 * @param ownsBuffer whether the plan allocated its buffer itself
 */
public record PlanInfo(String implementation, String reasons, long planBytes, long workspaceBytes,
        boolean ownsBuffer) {}
