// SPDX-License-Identifier: Apache-2.0
package org.magicube.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Set;

/**
 * The natives in a jar. They are unpacked into a folder named by what they contain, which appears
 * whole, by renaming, and is removed as soon as they are loaded: mapped code needs its file no
 * longer. So nothing stays behind, and what a killed process left is used and removed by the next.
 */
final class JarLibrary {
    private static final String JNI = "libmagicube_jni.so";
    /** Lists the files, one a line; libmagicube is found by the JNI library, in its own folder. */
    private static final String INDEX = "files";
    private static final Duration STALE = Duration.ofHours(1);

    private final String resources;
    private final String[] files;
    private final String hash;

    private JarLibrary(String resources, String[] files, String hash) {
        this.resources = resources;
        this.files = files;
        this.hash = hash;
    }

    /** Those of a platform; null if no jar has them. */
    static JarLibrary find(String platform) throws IOException {
        String resources = "org/magicube/natives/" + platform + "/";
        String[] files;
        try (InputStream index = open(resources + INDEX)) {
            if (index == null) {
                return null;
            }
            files = new String(index.readAllBytes(), StandardCharsets.UTF_8).split("\\R");
        }
        MessageDigest digest = sha256();
        for (String file : files) {
            try (InputStream in = openFile(resources + file)) {
                update(digest, in);
            }
        }
        String hash = HexFormat.of().formatHex(digest.digest(), 0, 16);
        return new JarLibrary(resources, files, hash);
    }

    private static void update(MessageDigest digest, InputStream in) throws IOException {
        byte[] chunk = new byte[1 << 16];
        for (int read = in.read(chunk); read >= 0; read = in.read(chunk)) {
            digest.update(chunk, 0, read);
        }
    }

    private static InputStream open(String resource) {
        ClassLoader loader = JarLibrary.class.getClassLoader();
        return loader == null ? ClassLoader.getSystemResourceAsStream(resource)
                : loader.getResourceAsStream(resource);
    }

    private static InputStream openFile(String resource) throws IOException {
        InputStream in = open(resource);
        if (in == null) {
            throw new NoSuchFileException(resource);
        }
        return in;
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Unpacks below a folder, loads, and removes what was unpacked. */
    void load(Path temporary) throws IOException {
        removeStale(temporary);
        try {
            loadFrom(share(temporary));
        } catch (Vanished removed) {
            loadFrom(unpack(temporary)); // where nobody else looks
        }
    }

    /** Another process loaded the same, and removed it, before this one did. */
    private static final class Vanished extends IOException {
        private static final long serialVersionUID = 1;
    }

    private void loadFrom(Path folder) throws IOException {
        try {
            System.load(folder.resolve(JNI).toAbsolutePath().toString());
        } catch (UnsatisfiedLinkError failure) {
            if (isIntact(folder)) {
                throw failure;
            }
            throw new Vanished();
        } finally {
            remove(folder);
        }
    }

    /** A folder with the files: that of their name or, if it cannot be had, one of our own. */
    private Path share(Path temporary) throws IOException {
        Path folder = temporary.resolve("magicube-" + hash);
        if (isIntact(folder)) {
            return folder;
        }
        Path part = unpack(temporary);
        remove(folder); // what is there is not intact; a folder of somebody else stays
        try {
            return Files.move(part, folder, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException taken) {
            return part;
        }
    }

    /** Whether a folder is there, ours alone to write, and holds what the jar does. */
    private boolean isIntact(Path folder) {
        try {
            if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
                    || !isOurs(folder)) {
                return false;
            }
            MessageDigest digest = sha256();
            for (String file : files) {
                try (InputStream in = Files.newInputStream(folder.resolve(file))) {
                    update(digest, in);
                }
            }
            return HexFormat.of().formatHex(digest.digest(), 0, 16).equals(hash);
        } catch (IOException unreadable) {
            return false;
        }
    }

    private static boolean isOurs(Path folder) throws IOException {
        Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(folder);
        Path probe = Files.createTempFile(folder.getParent(), "magicube-owner", "");
        try {
            return Files.getOwner(folder).equals(Files.getOwner(probe))
                    && !permissions.contains(PosixFilePermission.GROUP_WRITE)
                    && !permissions.contains(PosixFilePermission.OTHERS_WRITE);
        } finally {
            Files.deleteIfExists(probe);
        }
    }

    private Path unpack(Path temporary) throws IOException {
        Path part = Files.createTempDirectory(temporary, "magicube-" + hash + "-part",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        try {
            for (String file : files) {
                try (InputStream in = openFile(resources + file)) {
                    Files.copy(in, part.resolve(file));
                }
            }
            return part;
        } catch (IOException failure) {
            remove(part);
            throw failure;
        }
    }

    /** What processes that were killed while they unpacked left behind. */
    private void removeStale(Path temporary) throws IOException {
        FileTime limit = FileTime.from(Instant.now().minus(STALE));
        try (DirectoryStream<Path> parts =
                Files.newDirectoryStream(temporary, "magicube-" + hash + "-part*")) {
            for (Path part : parts) {
                if (Files.getLastModifiedTime(part).compareTo(limit) < 0) {
                    remove(part);
                }
            }
        } catch (NoSuchFileException gone) {
            // Another process removed it, or there is no such folder: unpacking will say so.
        }
    }

    /** Removes a folder of ours, as far as it is there. */
    private void remove(Path folder) {
        try {
            for (String file : files) {
                Files.deleteIfExists(folder.resolve(file));
            }
            Files.deleteIfExists(folder);
        } catch (IOException kept) {
            // Somebody else's, or removed meanwhile.
        }
    }
}
