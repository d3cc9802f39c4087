// SPDX-License-Identifier: Apache-2.0
package org.magicube.internal;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Loads the JNI library, which brings libmagicube with it: from the folder that the property
 * magicube.library.path names, else from java.library.path, else from the jar with the platform's
 * natives.
 */
final class NativeLibrary {
    static final String FOLDER_PROPERTY = "magicube.library.path";
    static final String TEMPORARY_PROPERTY = "magicube.tmpdir";

    private NativeLibrary() {}

    static void load() {
        String folder = System.getProperty(FOLDER_PROPERTY);
        if (folder != null) {
            loadFrom(folder);
            return;
        }
        if (isOnLibraryPath()) {
            System.loadLibrary("magicube_jni");
            return;
        }
        String platform = platform();
        JarLibrary library;
        try {
            library = JarLibrary.find(platform);
        } catch (IOException failure) {
            throw error("the jar with its natives cannot be read", failure);
        }
        if (library == null) {
            throw new UnsatisfiedLinkError("Magicube finds no libmagicube_jni.so for " + platform
                    + ": neither in java.library.path (" + System.getProperty("java.library.path")
                    + ") nor in a jar on the class path; add the artifact magicube with the"
                    + " classifier " + platform + ", or name a folder that holds the library with"
                    + " -D" + FOLDER_PROPERTY + "=FOLDER");
        }
        loadFrom(library);
    }

    private static void loadFrom(String folder) {
        Path file = Path.of(folder, System.mapLibraryName("magicube_jni")).toAbsolutePath();
        if (!Files.isRegularFile(file)) {
            throw new UnsatisfiedLinkError("the property " + FOLDER_PROPERTY + " names " + folder
                    + ", which holds no " + file.getFileName());
        }
        System.load(file.toString());
    }

    /** Whether loadLibrary has a file to load: if so, its errors are not to be hidden. */
    private static boolean isOnLibraryPath() {
        String name = System.mapLibraryName("magicube_jni");
        String folders = System.getProperty("java.library.path", "");
        for (String folder : folders.split(File.pathSeparator)) {
            if (!folder.isEmpty() && new File(folder, name).isFile()) {
                return true;
            }
        }
        return false;
    }

    private static void loadFrom(JarLibrary library) {
        String standard = System.getProperty("java.io.tmpdir");
        Path temporary = Path.of(System.getProperty(TEMPORARY_PROPERTY, standard));
        try {
            library.load(temporary);
        } catch (IOException | UnsatisfiedLinkError failure) {
            throw error("its native code could not be unpacked to and loaded from " + temporary
                    + " (read-only, full, or mounted noexec?)", failure);
        }
    }

    private static UnsatisfiedLinkError error(String what, Throwable cause) {
        UnsatisfiedLinkError error = new UnsatisfiedLinkError("Magicube cannot be loaded: " + what
                + ": " + cause.getMessage() + ". Name another folder with -D" + TEMPORARY_PROPERTY
                + "=FOLDER, or one that holds the unpacked libraries with -D" + FOLDER_PROPERTY
                + "=FOLDER");
        error.initCause(cause);
        return error;
    }

    /** As the classifier names it: linux-x86_64, linux-aarch64. */
    private static String platform() {
        String architecture = System.getProperty("os.arch");
        return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-"
                + ("amd64".equals(architecture) ? "x86_64" : architecture);
    }
}
