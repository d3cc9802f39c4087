// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LoggingTest {
    @AfterEach
    void silence() {
        Logging.setListener(null);
        Logging.setFile(null);
        Logging.setLevel(LogLevel.OFF);
    }

    private static void fail() {
        assertThrows(MagicubeException.class, () -> Device.CPU.info(42));
    }

    @Test
    void listenersGetEveryMessageBeforeTheyGo() {
        List<String> messages = new CopyOnWriteArrayList<>();
        Logging.setLevel(LogLevel.ERROR);
        assertEquals(LogLevel.ERROR, Logging.level());
        Logging.setListener((level, message) -> {
            assertEquals(LogLevel.ERROR, level);
            Magicube.version(); // a listener may call the library
            messages.add(message);
            throw new IllegalStateException("dropped");
        });
        for (int i = 0; i < 20; ++i) {
            fail();
        }
        Logging.setListener(null);
        assertEquals(20, messages.size());
        assertTrue(messages.get(0).contains("42"), messages.get(0));
        Logging.setLevel(LogLevel.OFF);
        fail();
        assertEquals(20, messages.size());
    }

    @Test
    void listenersMayReplaceThemselves() throws Exception {
        List<String> messages = new CopyOnWriteArrayList<>();
        Logging.setLevel(LogLevel.ERROR);
        Logging.setListener((level, message) -> Logging.setListener(
                (nextLevel, nextMessage) -> messages.add(nextMessage)));
        fail();
        for (int i = 0; i < 1000 && messages.isEmpty(); ++i) {
            fail();
            Thread.sleep(1);
        }
        Logging.setListener(null);
        assertFalse(messages.isEmpty());
    }

    @Test
    void files(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("längs.log");
        Logging.setFile(file);
        Logging.setLevel(LogLevel.ERROR);
        fail();
        Logging.setFile(null);
        assertTrue(Files.readString(file).contains("42"));
        Logging.setLevel(LogLevel.OFF);
        MagicubeException refused = assertThrows(MagicubeException.class,
                () -> Logging.setFile(folder.resolve("no/such.log")));
        assertEquals(Status.INVALID_VALUE, refused.status());
        assertTrue(refused.getMessage().contains("no/such.log"), refused.getMessage());
        assertFalse(Files.exists(folder.resolve("no")));
    }
}
