// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.magicube.internal.Native;

/** Writes the names of tests between those of the functions that they call (support.hpp). */
public final class TraceListener implements TestExecutionListener {
    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest() && System.getenv("MAGICUBE_JAVA_TRACE") != null) {
            test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast)
                    .map(source -> source.getClassName() + "." + source.getMethodName())
                    .ifPresent(TraceListener::mark);
        }
    }

    private static void mark(String name) {
        Memory text = Text.write(name);
        Native.trace_test(text.address);
        java.lang.ref.Reference.reachabilityFence(text);
    }
}
