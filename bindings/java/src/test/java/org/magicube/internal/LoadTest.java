// SPDX-License-Identifier: Apache-2.0
package org.magicube.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.magicube.Magicube;

/** How the native code is found, in processes of their own. */
@Timeout(120)
class LoadTest {
    private static final String PLATFORM =
            "linux-" + System.getProperty("os.arch").replace("amd64", "x86_64");

    @TempDir
    private Path folder;

    /** What the processes run: loads, calls, and says so. */
    public static final class Main {
        private Main() {}

        public static void main(String[] arguments) {
            System.out.println("version " + Magicube.version());
        }
    }

    private record Result(int code, String out, String err) {}

    private static String classPath(boolean withNatives) throws Exception {
        List<String> entries = new ArrayList<>();
        for (Class<?> type : List.of(Magicube.class, LoadTest.class)) {
            entries.add(Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI())
                    .toString());
        }
        if (withNatives) {
            entries.add(System.getProperty("magicube.natives"));
        }
        return String.join(File.pathSeparator, entries);
    }

    private static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    private List<String> command(boolean withNatives, String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(java(), "-Xshare:auto"));
        command.addAll(Arrays.asList(options));
        command.addAll(List.of("-cp", classPath(withNatives), Main.class.getName()));
        return command;
    }

    private Result run(List<String> command) throws Exception {
        return finish(start(command));
    }

    private Process start(List<String> command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().remove("LD_LIBRARY_PATH");
        return builder.start();
    }

    private static Result finish(Process process) throws Exception {
        String out = new String(process.getInputStream().readAllBytes());
        String err = new String(process.getErrorStream().readAllBytes());
        return new Result(process.waitFor(), out, err);
    }

    private static void assertLoaded(Result result) {
        assertEquals(0, result.code(), result.err());
        assertEquals("version " + Magicube.version() + "\n", result.out());
        assertEquals("", result.err());
    }

    private List<Path> left() throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.toList();
        }
    }

    private String hash() throws Exception {
        URL natives = Path.of(System.getProperty("magicube.natives")).toUri().toURL();
        URL classes = Magicube.class.getProtectionDomain().getCodeSource().getLocation();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {natives, classes}, null)) {
            Class<?> type = loader.loadClass(JarLibrary.class.getName());
            var find = type.getDeclaredMethod("find", String.class);
            find.setAccessible(true);
            Object library = find.invoke(null, PLATFORM);
            var field = type.getDeclaredField("hash");
            field.setAccessible(true);
            return (String) field.get(library);
        }
    }

    @Test
    void issue_01_theJarLoadsAndNothingIsLeftBehind() throws Exception {
        assertLoaded(run(command(true, "-Djava.io.tmpdir=" + folder)));
        assertEquals(List.of(), left());
    }

    @Test
    void issue_10_whatKilledProcessesLeftIsRemoved() throws Exception {
        Path broken = Files.createDirectory(folder.resolve("magicube-" + hash()));
        Files.writeString(broken.resolve("libmagicube_jni.so"), "half a library");
        Path part = Files.createDirectory(folder.resolve("magicube-" + hash() + "-part123"));
        Files.writeString(part.resolve("libmagicube.so.0"), "less");
        Files.setLastModifiedTime(part, java.nio.file.attribute.FileTime.fromMillis(0));
        assertLoaded(run(command(true, "-Dmagicube.tmpdir=" + folder)));
        assertEquals(List.of(), left());
    }

    @Test
    void processesThatLoadAtOnceDoNotDisturbEachOther() throws Exception {
        List<Process> processes = new ArrayList<>();
        for (int i = 0; i < 6; ++i) {
            processes.add(start(command(true, "-Dmagicube.tmpdir=" + folder)));
        }
        for (Process process : processes) {
            assertLoaded(finish(process));
        }
        assertEquals(List.of(), left());
    }

    @Test
    void issue_10_aFolderMountedNoexec() throws Exception {
        String mount = "mount -t tmpfs -o noexec tmpfs " + folder;
        Process probe = new ProcessBuilder("unshare", "-m", "sh", "-c", mount).start();
        assumeTrue(probe.waitFor() == 0, "mounting is not allowed here");
        String run = "'" + String.join("' '", command(true, "-Djava.io.tmpdir=" + folder)) + "'";
        Result result = run(List.of("unshare", "-m", "sh", "-c",
                mount + " && { " + run + "; echo \"code $?, left: $(ls -A " + folder + ")\"; }"));
        assertEquals("code 1, left: \n", result.out());
        assertRefused(result.err());
        assertTrue(result.err().contains("noexec"), result.err());
    }

    @Test
    void issue_10_aFolderThatIsNotThere() throws Exception {
        Result result = run(command(true, "-Dmagicube.tmpdir=" + folder.resolve("none")));
        assertEquals(1, result.code());
        assertRefused(result.err());
    }

    private void assertRefused(String text) {
        assertTrue(text.contains("UnsatisfiedLinkError"), text);
        assertTrue(text.contains(folder.toString()), text);
        assertTrue(text.contains("-Dmagicube.tmpdir=FOLDER")
                && text.contains("-Dmagicube.library.path=FOLDER"), text);
    }

    @Test
    void withoutNativesTheClassifierIsNamed() throws Exception {
        Result result = run(command(false));
        assertEquals(1, result.code());
        assertTrue(result.err().contains("classifier " + PLATFORM), result.err());
    }

    @Test
    void propertyAndLibraryPathComeFirst() throws Exception {
        Path natives = Path.of(System.getProperty("magicube.natives"), "org", "magicube", "natives",
                PLATFORM);
        assertLoaded(run(command(false, "-Dmagicube.library.path=" + natives)));
        assertLoaded(run(command(false, "-Djava.library.path=" + natives)));
        Result wrong = run(command(true, "-Dmagicube.library.path=" + folder));
        assertEquals(1, wrong.code());
        assertTrue(wrong.err().contains(folder + ", which holds no libmagicube_jni.so"),
                wrong.err());
    }
}
