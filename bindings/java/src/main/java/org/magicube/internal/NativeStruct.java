// SPDX-License-Identifier: Apache-2.0
package org.magicube.internal;

/** A struct in C's memory, which close frees. */
public interface NativeStruct extends AutoCloseable {
    @Override
    void close();
}
