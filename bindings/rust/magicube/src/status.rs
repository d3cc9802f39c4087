// SPDX-License-Identifier: Apache-2.0
//! Status codes and errors.

use std::ffi::{c_char, CStr};
use std::fmt;

use magicube_sys as sys;

/// An enum of the C ABI: its known values, and any other number as `Unknown`, which a newer library
/// may give.
macro_rules! abi_enum {
    ($(#[$doc:meta])* $name:ident = $raw:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $constant:ident,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A number that this version does not know.
            Unknown(u32),
        }

        impl $name {
            /// The value that a number of the C ABI stands for.
            pub fn from_raw(raw: u32) -> Self {
                match magicube_sys::$raw(raw) {
                    $(magicube_sys::$raw::$constant => Self::$variant,)+
                    other => Self::Unknown(other.0),
                }
            }

            /// The number in the C ABI.
            pub fn raw(self) -> u32 {
                self.sys().0
            }

            pub(crate) fn sys(self) -> magicube_sys::$raw {
                match self {
                    $(Self::$variant => magicube_sys::$raw::$constant,)+
                    Self::Unknown(raw) => magicube_sys::$raw(raw),
                }
            }
        }
    };
}
pub(crate) use abi_enum;

abi_enum! {
    /// Result of a call.
    Status = magicubeStatus {
        /// The call did what it should.
        Success = MAGICUBE_STATUS_SUCCESS,
        /// An argument breaks a documented rule.
        InvalidValue = MAGICUBE_STATUS_INVALID_VALUE,
        /// Legal, but nothing here computes it.
        NotSupported = MAGICUBE_STATUS_NOT_SUPPORTED,
        /// The library holds no code for this GPU.
        ArchMismatch = MAGICUBE_STATUS_ARCH_MISMATCH,
        /// No such device, or no driver.
        NoDevice = MAGICUBE_STATUS_NO_DEVICE,
        /// Memory or a plan belongs to another device.
        DeviceMismatch = MAGICUBE_STATUS_DEVICE_MISMATCH,
        /// An address is not aligned as required.
        Misaligned = MAGICUBE_STATUS_MISALIGNED,
        /// A buffer is smaller than required.
        InsufficientWorkspace = MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE,
        /// Out of host or device memory.
        AllocFailed = MAGICUBE_STATUS_ALLOC_FAILED,
        /// The CUDA runtime reported an error.
        CudaError = MAGICUBE_STATUS_CUDA_ERROR,
        /// A defect of the library.
        InternalError = MAGICUBE_STATUS_INTERNAL_ERROR,
        /// Not allowed while the stream is being captured.
        Capturing = MAGICUBE_STATUS_CAPTURING,
    }
}

impl Status {
    /// The name in the C ABI: `"MAGICUBE_STATUS_INVALID_VALUE"`.
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text(sys::magicubeGetErrorName(self.sys())) }
    }

    /// One sentence that says what the status means.
    pub fn description(self) -> &'static str {
        // SAFETY: as above.
        unsafe { text(sys::magicubeGetErrorString(self.sys())) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a call failed: a status, and a message that names the argument, its value and the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidValue, message)
    }

    /// The status that the library gave.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The library's message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What a call that can fail returns.
pub type Result<T> = std::result::Result<T, Error>;

#[inline]
pub(crate) fn check(status: sys::magicubeStatus) -> Result<()> {
    if status == sys::magicubeStatus::MAGICUBE_STATUS_SUCCESS {
        return Ok(());
    }
    Err(last_error(status))
}

#[cold]
fn last_error(status: sys::magicubeStatus) -> Error {
    // SAFETY: the message is never null and is copied before this thread calls anything else.
    let message = unsafe { text(sys::magicubeGetLastErrorMessage()) }.to_owned();
    Error::new(Status::from_raw(status.0), message)
}

/// A string of the library.
///
/// # Safety
/// `pointer` is a nul-terminated string that lives and does not change for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> &'a str {
    if pointer.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("(not UTF-8)")
}
