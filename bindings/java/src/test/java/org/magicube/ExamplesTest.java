// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The examples run as their first lines say, each from its source, and check their own results. */
@Timeout(120)
class ExamplesTest {
    @ParameterizedTest
    @CsvSource({"Spmm.java,0 of 32768 elements differ", "SparseAttention.java,largest error"})
    void runsFromItsSource(String name, String shown) throws Exception {
        Path classes = Path.of(
                Magicube.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Process process = new ProcessBuilder(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                classes + java.io.File.pathSeparator + System.getProperty("magicube.natives"),
                Path.of(System.getProperty("magicube.examples"), name).toString())).start();
        String out = new String(process.getInputStream().readAllBytes());
        String err = new String(process.getErrorStream().readAllBytes());
        assertEquals("", err);
        assertEquals(0, process.waitFor(), out);
        assertTrue(out.contains(shown), out);
    }
}
