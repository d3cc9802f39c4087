// SPDX-License-Identifier: Apache-2.0
//! Devices, handles and streams.

use std::cell::Cell;
use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use magicube_sys as sys;

use crate::memory::Workspace;
use crate::status::{abi_enum, check, text, Error, Result, Status};

abi_enum! {
    /// Where data lives and operations run.
    Device = magicubeDevice {
        /// The CPU and host memory.
        Cpu = MAGICUBE_DEVICE_CPU,
        /// A GPU of NVIDIA's.
        Cuda = MAGICUBE_DEVICE_CUDA,
    }
}

abi_enum! {
    /// Where executions read alpha and beta.
    PointerMode = magicubePointerMode {
        /// In host memory.
        Host = MAGICUBE_POINTER_MODE_HOST,
        /// On the handle's device.
        Device = MAGICUBE_POINTER_MODE_DEVICE,
    }
}

abi_enum! {
    /// How much calls check.
    Validation = magicubeValidation {
        /// Sizes, types and pointers.
        Basic = MAGICUBE_VALIDATION_BASIC,
        /// On the CPU also index arrays, scales and values; on CUDA index arrays that a conversion
        /// reads.
        Full = MAGICUBE_VALIDATION_FULL,
    }
}

/// One memory: a device and its ordinal. Host memory is that of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The kind of device.
    pub device: Device,
    /// Which one of that kind.
    pub ordinal: i32,
}

impl Location {
    /// Host memory.
    pub const HOST: Self = Self { device: Device::Cpu, ordinal: 0 };
}

/// What a device tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// As the device calls itself.
    pub name: String,
    /// `10 * major + minor` on CUDA, 0 on the CPU.
    pub compute_capability: i32,
    /// Multiprocessors on CUDA, usable hardware threads on the CPU.
    pub multiprocessors: i32,
    /// Total memory.
    pub memory_bytes: i64,
    /// Whether this build of the library holds code for the device.
    pub supported: bool,
}

impl Device {
    /// Number of devices of this kind: 0 for CUDA where there is no GPU, driver or CUDA build.
    pub fn count(self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: count outlives the call.
        check(unsafe { sys::magicubeGetDeviceCount(self.sys(), &mut count) })?;
        Ok(count)
    }

    /// Describes one device.
    pub fn info(self, ordinal: i32) -> Result<DeviceInfo> {
        let mut info = sys::magicubeDeviceInfo {
            struct_size: size_of::<sys::magicubeDeviceInfo>(),
            name: [0; 256],
            compute_capability: 0,
            multiprocessors: 0,
            memory_bytes: 0,
            supported: 0,
        };
        // SAFETY: the struct tells its size and outlives the call.
        check(unsafe { sys::magicubeGetDeviceInfo(self.sys(), ordinal, &mut info) })?;
        let name: Vec<u8> =
            info.name.iter().map(|&c: &c_char| c as u8).take_while(|&c| c != 0).collect();
        Ok(DeviceInfo {
            name: String::from_utf8_lossy(&name).into_owned(),
            compute_capability: info.compute_capability,
            multiprocessors: info.multiprocessors,
            memory_bytes: info.memory_bytes,
            supported: info.supported != 0,
        })
    }
}

#[derive(Debug)]
struct OwnedStream {
    raw: *mut sys::CUstream_st,
    location: Location,
}

// SAFETY: a CUDA stream may be used and destroyed by any thread.
unsafe impl Send for OwnedStream {}
// SAFETY: as above.
unsafe impl Sync for OwnedStream {}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        // SAFETY: the stream is this object's; handles that use it hold it alive.
        unsafe {
            sys::magicubeStreamDestroy(self.location.device.sys(), self.location.ordinal, self.raw)
        };
    }
}

/// A CUDA stream: an order of work. Clones are the same stream.
#[derive(Clone, Debug)]
pub struct Stream(Arc<OwnedStream>);

impl Stream {
    /// A stream that does not wait for the default one. `NotSupported` for the CPU.
    pub fn new(device: Device, ordinal: i32) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: raw outlives the call.
        check(unsafe { sys::magicubeStreamCreate(device.sys(), ordinal, &mut raw) })?;
        Ok(Self(Arc::new(OwnedStream { raw, location: Location { device, ordinal } })))
    }

    /// The device's default stream, the only one that the CPU has.
    pub fn default_of(device: Device, ordinal: i32) -> Self {
        let location = Location { device, ordinal };
        Self(Arc::new(OwnedStream { raw: ptr::null_mut(), location }))
    }

    /// The `cudaStream_t`, for other libraries.
    pub fn as_raw(&self) -> *mut sys::CUstream_st {
        self.0.raw
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.raw == other.0.raw && self.0.location == other.0.location
    }
}

/// A device and the settings of calls: stream, threads, validation. Cheap; one a thread.
///
/// ```
/// use magicube::{Device, Handle};
/// let mut handle = Handle::new(Device::Cpu, 0)?;
/// handle.set_num_threads(1)?;
/// assert_eq!(handle.num_threads()?, 1);
/// # Ok::<(), magicube::Error>(())
/// ```
///
/// A handle moves between threads, but two of them do not share it:
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<magicube::Handle>();
/// ```
#[derive(Debug)]
pub struct Handle {
    raw: sys::magicubeHandle_t,
    location: Location,
    pointer_mode: PointerMode,
    stream: Option<Stream>,
    not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the library lets any thread use a handle, one at a time.
unsafe impl Send for Handle {}

impl Handle {
    /// A handle on a device. `NoDevice` if there is none, `ArchMismatch` if the library holds no
    /// code for it.
    pub fn new(device: Device, ordinal: i32) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: raw outlives the call.
        check(unsafe { sys::magicubeCreate(&mut raw, device.sys(), ordinal) })?;
        Ok(Self {
            raw,
            location: Location { device, ordinal },
            pointer_mode: PointerMode::Host,
            stream: None,
            not_sync: PhantomData,
        })
    }

    /// A handle on the CPU.
    pub fn cpu() -> Result<Self> {
        Self::new(Device::Cpu, 0)
    }

    pub(crate) fn raw(&self) -> sys::magicubeHandle_t {
        self.raw
    }

    /// The memory that operations of this handle work on.
    pub fn location(&self) -> Location {
        self.location
    }

    /// Device and ordinal, as the library tells them.
    pub fn device(&self) -> Result<(Device, i32)> {
        let (mut device, mut ordinal) = (sys::magicubeDevice(0), 0);
        // SAFETY: the handle is valid; both places outlive the call.
        check(unsafe { sys::magicubeGetDevice(self.raw, &mut device, &mut ordinal) })?;
        Ok((Device::from_raw(device.0), ordinal))
    }

    /// Orders this handle's work by a stream, which it keeps alive. `None` is the default stream.
    pub fn set_stream(&mut self, stream: Option<&Stream>) -> Result<()> {
        if let Some(stream) = stream {
            if stream.0.location != self.location {
                return Err(mismatch("Handle::set_stream: stream", stream.0.location, self));
            }
        }
        let raw = stream.map_or(ptr::null_mut(), Stream::as_raw);
        // SAFETY: the stream is of this device and lives as long as the handle holds it.
        check(unsafe { sys::magicubeSetStream(self.raw, raw) })?;
        self.stream = stream.cloned();
        Ok(())
    }

    /// Orders this handle's work by a stream of another library.
    ///
    /// # Safety
    /// `stream` is a stream of the handle's device that lives until another one is set or the
    /// handle is dropped.
    pub unsafe fn set_raw_stream(&mut self, stream: *mut sys::CUstream_st) -> Result<()> {
        // SAFETY: the caller's promise.
        check(unsafe { sys::magicubeSetStream(self.raw, stream) })?;
        self.stream = None;
        Ok(())
    }

    /// The stream set, as a `cudaStream_t`; null is the default stream.
    pub fn raw_stream(&self) -> Result<*mut sys::CUstream_st> {
        let mut raw = ptr::null_mut();
        // SAFETY: the handle is valid; raw outlives the call.
        check(unsafe { sys::magicubeGetStream(self.raw, &mut raw) })?;
        Ok(raw)
    }

    /// The stream that [`Handle::set_stream`] set.
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Waits for all work of the handle's stream.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::magicubeSynchronize(self.raw) })
    }

    /// Where executions read alpha and beta; host until set.
    pub fn set_pointer_mode(&mut self, mode: PointerMode) -> Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::magicubeSetPointerMode(self.raw, mode.sys()) })?;
        self.pointer_mode = mode;
        Ok(())
    }

    /// Where executions read alpha and beta.
    pub fn pointer_mode(&self) -> Result<PointerMode> {
        let mut mode = sys::magicubePointerMode(0);
        // SAFETY: the handle is valid; mode outlives the call.
        check(unsafe { sys::magicubeGetPointerMode(self.raw, &mut mode) })?;
        Ok(PointerMode::from_raw(mode.0))
    }

    pub(crate) fn known_pointer_mode(&self) -> PointerMode {
        self.pointer_mode
    }

    /// Whether the same call gives the same bits each time; off until set.
    pub fn set_deterministic(&mut self, enabled: bool) -> Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::magicubeSetDeterministic(self.raw, enabled.into()) })
    }

    /// Whether the same call gives the same bits each time.
    pub fn deterministic(&self) -> Result<bool> {
        let mut enabled = 0;
        // SAFETY: the handle is valid; enabled outlives the call.
        check(unsafe { sys::magicubeGetDeterministic(self.raw, &mut enabled) })?;
        Ok(enabled != 0)
    }

    /// Threads of the process's pool that calls may use; 0, the default, means all.
    pub fn set_num_threads(&mut self, count: i32) -> Result<()> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::magicubeSetNumThreads(self.raw, count) })
    }

    /// Threads of the process's pool that calls may use.
    pub fn num_threads(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: the handle is valid; count outlives the call.
        check(unsafe { sys::magicubeGetNumThreads(self.raw, &mut count) })?;
        Ok(count)
    }

    /// How much calls check: full until set on the CPU, basic on CUDA. Index arrays in host memory
    /// are checked when a [`crate::Sparse`] is made, whatever the level.
    pub fn set_validation(&mut self, level: Validation) -> Result<()> {
        // SAFETY: the handle is valid; with less validation the index arrays are still right.
        check(unsafe { sys::magicubeSetValidation(self.raw, level.sys()) })
    }

    /// How much calls check.
    pub fn validation(&self) -> Result<Validation> {
        let mut level = sys::magicubeValidation(0);
        // SAFETY: the handle is valid; level outlives the call.
        check(unsafe { sys::magicubeGetValidation(self.raw, &mut level) })?;
        Ok(Validation::from_raw(level.0))
    }

    /// Scratch on the handle's device.
    pub fn workspace(&self, bytes: usize) -> Result<Workspace> {
        Workspace::new(self.location, bytes)
    }

    /// An error unless `location` is where this handle works.
    #[inline]
    pub(crate) fn require(&self, argument: &str, location: Location) -> Result<()> {
        if location == self.location {
            return Ok(());
        }
        Err(mismatch(argument, location, self))
    }
}

#[cold]
fn mismatch(argument: &str, location: Location, handle: &Handle) -> Error {
    let message = format!(
        "{argument} is on {:?} device {}; the handle is on {:?} device {}",
        location.device, location.ordinal, handle.location.device, handle.location.ordinal
    );
    Error::new(Status::DeviceMismatch, message)
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's. A failure to free has no one to tell.
        unsafe { sys::magicubeDestroy(self.raw) };
    }
}

/// `10000 * major + 100 * minor + patch` of the library that is loaded.
pub fn version() -> i32 {
    // SAFETY: no arguments.
    unsafe { sys::magicubeGetVersion() }
}

/// `"major.minor.patch"` of the library that is loaded.
pub fn version_string() -> &'static str {
    // SAFETY: a static string.
    unsafe { text(sys::magicubeGetVersionString()) }
}

/// Compiler, build type, CUDA runtime and the architectures that the library holds code for.
pub fn build_info() -> &'static str {
    // SAFETY: a static string.
    unsafe { text(sys::magicubeGetBuildInfo()) }
}
