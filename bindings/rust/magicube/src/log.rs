// SPDX-License-Identifier: Apache-2.0
//! The library's log, one for the whole process and silent until asked for.

use std::ffi::{c_char, c_void, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

use magicube_sys as sys;

use crate::status::{abi_enum, check, text, Error, Result};

abi_enum! {
    /// How detailed a message is.
    LogLevel = magicubeLogLevel {
        /// Nothing is reported.
        Off = MAGICUBE_LOG_OFF,
        /// Failures.
        Error = MAGICUBE_LOG_ERROR,
        /// What is probably not meant.
        Warn = MAGICUBE_LOG_WARN,
        /// What happens.
        Info = MAGICUBE_LOG_INFO,
        /// Why it happens.
        Debug = MAGICUBE_LOG_DEBUG,
    }
}

/// Most detailed level that is reported.
pub fn set_level(level: LogLevel) -> Result<()> {
    // SAFETY: a number.
    check(unsafe { sys::magicubeSetLogLevel(level.sys()) })
}

/// Most detailed level that is reported.
pub fn level() -> Result<LogLevel> {
    let mut level = sys::magicubeLogLevel(0);
    // SAFETY: level outlives the call.
    check(unsafe { sys::magicubeGetLogLevel(&mut level) })?;
    Ok(LogLevel::from_raw(level.0))
}

type Callback = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// The callback that the library may call; boxed twice, for a thin pointer that does not move.
static CURRENT: Mutex<Option<Box<Callback>>> = Mutex::new(None);

unsafe extern "C" fn trampoline(
    level: sys::magicubeLogLevel,
    message: *const c_char,
    user_data: *mut c_void,
) {
    // SAFETY: user_data is a callback that lives until the library has another one, and message is
    // valid during the call.
    let (callback, message) = unsafe { (&*user_data.cast::<Callback>(), text(message)) };
    // A panic must not reach the library's frames; there is no one to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| callback(LogLevel::from_raw(level.0), message)));
}

/// Sends messages to a function; `None` restores the file, or stderr.
///
/// It is called from any thread, one message at a time, and must not call this crate. What it
/// panics with is dropped.
pub fn set_callback(
    callback: Option<impl Fn(LogLevel, &str) + Send + Sync + 'static>,
) -> Result<()> {
    let callback = callback.map(|function| Box::new(Box::new(function) as Callback));
    let mut current = CURRENT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let data = callback
        .as_ref()
        .map_or(ptr::null_mut(), |boxed| ptr::from_ref::<Callback>(boxed).cast_mut().cast());
    let function: sys::magicubeLogCallback_t =
        if callback.is_some() { Some(trampoline) } else { None };
    // SAFETY: the new callback lives until the next one is set. The library changes callbacks
    // between messages, so that the old one is not running any more when the call returns.
    check(unsafe { sys::magicubeSetLogCallback(function, data) })?;
    let before = std::mem::replace(&mut *current, callback);
    drop(current);
    drop(before);
    Ok(())
}

/// Appends messages to a file; `None` restores stderr.
pub fn set_file(path: Option<&Path>) -> Result<()> {
    let path = path
        .map(|path| {
            CString::new(path.as_os_str().as_encoded_bytes())
                .map_err(|_| Error::invalid(format!("path {path:?} holds a zero byte")))
        })
        .transpose()?;
    let pointer = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
    // SAFETY: the string outlives the call.
    check(unsafe { sys::magicubeSetLogFile(pointer) })
}
