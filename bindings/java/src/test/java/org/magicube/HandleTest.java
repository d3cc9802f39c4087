// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class HandleTest {
    @Test
    void settings() {
        try (Handle handle = Handle.create(Device.CPU)) {
            assertEquals(Device.CPU, handle.device());
            assertEquals(0, handle.ordinal());
            assertEquals(PointerMode.HOST, handle.pointerMode());
            assertEquals(Validation.FULL, handle.validation());
            assertFalse(handle.isDeterministic());
            assertEquals(0, handle.numThreads());
            handle.setValidation(Validation.BASIC);
            handle.setDeterministic(true);
            handle.setNumThreads(2);
            handle.setPointerMode(PointerMode.DEVICE);
            handle.setStream(null);
            assertEquals(Validation.BASIC, handle.validation());
            assertTrue(handle.isDeterministic());
            assertEquals(2, handle.numThreads());
            assertEquals(PointerMode.DEVICE, handle.pointerMode());
            assertNull(handle.stream());
            handle.synchronize();
            MagicubeException negative =
                    assertThrows(MagicubeException.class, () -> handle.setNumThreads(-3));
            assertEquals(Status.INVALID_VALUE, negative.status());
            assertTrue(negative.getMessage().contains("-3"), negative.getMessage());
            assertEquals(negative.getMessage(), Magicube.lastErrorMessage());
        }
    }

    @Test
    void theCpu() {
        assertEquals(1, Device.CPU.count());
        DeviceInfo info = Device.CPU.info(0);
        assertFalse(info.name().isEmpty());
        assertEquals(0, info.computeCapability());
        assertTrue(info.multiprocessors() > 0 && info.memoryBytes() > 0 && info.supported());
        MagicubeException absent =
                assertThrows(MagicubeException.class, () -> Device.CPU.info(7));
        assertEquals(Status.NO_DEVICE, absent.status());
        assertEquals(Status.NOT_SUPPORTED, assertThrows(MagicubeException.class,
                () -> Stream.create(Device.CPU, 0)).status());
    }

    @Test
    void issue_01_aHostWithoutAGpu() {
        assumeTrue(Device.CUDA.count() == 0, "this machine has a GPU");
        for (org.junit.jupiter.api.function.Executable use :
                List.<org.junit.jupiter.api.function.Executable>of(
                        () -> Handle.create(Device.CUDA), () -> Device.CUDA.info(0),
                        () -> Memory.allocate(Device.CUDA, 0, 16),
                        () -> Stream.create(Device.CUDA, 0))) {
            MagicubeException absent = assertThrows(MagicubeException.class, use);
            assertEquals(Status.NO_DEVICE, absent.status());
            assertEquals(Status.NO_DEVICE.nativeName(), "MAGICUBE_STATUS_NO_DEVICE");
            assertTrue(absent.getMessage().length() > 20, absent.getMessage());
        }
    }

    @Test
    void version() {
        String version = Magicube.version();
        assertEquals(System.getProperty("magicube.version"), version,
                "the version of the package is that of the library");
        int[] parts = Arrays.stream(version.split("\\.")).mapToInt(Integer::parseInt).toArray();
        assertEquals(10000 * parts[0] + 100 * parts[1] + parts[2], Magicube.versionNumber());
        assertTrue(Magicube.buildInfo().contains("cuda"), Magicube.buildInfo());
    }

    @Test
    void names() {
        for (DataType type : DataType.values()) {
            assertEquals(type.name().toLowerCase(java.util.Locale.ROOT), type.shortName());
            assertEquals(type.bits(), type.width(), "what Java knows is what the library says");
            assertEquals((7L * type.bits() + 7) / 8, type.bytes(7));
        }
        for (Status status : Status.values()) {
            assertEquals("MAGICUBE_STATUS_" + status, status.nativeName());
            assertFalse(status.description().isEmpty());
        }
        assertEquals(Status.UNKNOWN, Status.of(999));
        assertThrows(IllegalStateException.class, () -> DataType.of(999));
    }

    @Test
    void implementationsEndWithTheReference() {
        for (List<String> names : List.of(SpMM.implementations(Device.CPU),
                SDDMM.implementations(Device.CPU), SparseSoftmax.implementations(Device.CPU),
                Attention.implementations(Device.CPU))) {
            assertFalse(names.isEmpty());
            assertTrue(names.get(names.size() - 1).contains("reference"), names.toString());
        }
        try (Handle handle = Handle.create(Device.CPU);
                CsrMatrix matrix = CsrMatrix.of(1, 1, 1, Memory.copyOf(0, 1), Memory.copyOf(0),
                        Memory.copyOf(1f), IndexType.INT32, DataType.FP32)) {
            MagicubeException unknown = assertThrows(MagicubeException.class,
                    () -> SpMM.problem(matrix).b(DataType.FP32, Order.ROW)
                            .implementation("nimble").plan(handle));
            assertTrue(unknown.getMessage().contains("nimble"), unknown.getMessage());
            Support support = SpMM.problem(matrix).b(DataType.INT8, Order.ROW).support(handle);
            assertFalse(support.supported());
            assertTrue(support.reason().contains("int8"), support.reason());
            try (SpMM.Plan plan = SpMM.problem(matrix).b(DataType.FP32, Order.ROW).plan(handle)) {
                PlanInfo info = plan.info();
                assertTrue(info.reasons().contains(info.implementation()), info.reasons());
                assertTrue(info.ownsBuffer() && info.planBytes() >= 0);
            }
        }
    }
}
