// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * Whether a problem can be planned.
 *
 * @param supported whether it can
 * @param reason why not; empty if it can
 */
public record Support(boolean supported, String reason) {}
