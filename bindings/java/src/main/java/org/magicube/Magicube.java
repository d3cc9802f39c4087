// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.magicube.internal.Native;

/** Version of the library that is loaded, and how it was built. */
public final class Magicube {
    private Magicube() {}

    /** {@return 10000 * major + 100 * minor + patch} */
    public static int versionNumber() {
        return Native.magicubeGetVersion();
    }

    /** {@return "major.minor.patch"} */
    public static String version() {
        return Text.read(Native.magicubeGetVersionString());
    }

    /** {@return one line: compiler, build type, CUDA runtime and the architectures built for} */
    public static String buildInfo() {
        return Text.read(Native.magicubeGetBuildInfo());
    }

    /** {@return the text of this thread's last failing call; empty if none failed yet} */
    public static String lastErrorMessage() {
        return Text.read(Native.magicubeGetLastErrorMessage());
    }
}
