// SPDX-License-Identifier: Apache-2.0
//! Memory of devices, and views of any memory that calls take.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use magicube_sys as sys;

use crate::handle::{Device, Handle, Location};
use crate::status::{check, Error, Result, Status};
use crate::types::Pod;

/// An allocation of the library's.
struct Allocation {
    pointer: *mut c_void,
    bytes: usize,
    location: Location,
}

impl Allocation {
    fn new(location: Location, bytes: usize) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: pointer outlives the call.
        check(unsafe {
            sys::magicubeMalloc(location.device.sys(), location.ordinal, bytes, &mut pointer)
        })?;
        Ok(Self { pointer, bytes, location })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the memory is this object's; the library waits for the device's work on it.
        unsafe {
            sys::magicubeFree(self.location.device.sys(), self.location.ordinal, self.pointer)
        };
    }
}

/// Scratch of one execution at a time; its contents mean nothing between calls.
///
/// On CUDA, executions on several streams at once need one each.
pub struct Workspace(Allocation);

// SAFETY: memory that any thread may use, through an exclusive reference alone.
unsafe impl Send for Workspace {}
// SAFETY: as above.
unsafe impl Sync for Workspace {}

impl Workspace {
    pub(crate) fn new(location: Location, bytes: usize) -> Result<Self> {
        Allocation::new(location, bytes).map(Self)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Pointer and size for a call on a handle.
    pub(crate) fn lend(&mut self, handle: &Handle) -> Result<(*mut c_void, usize)> {
        if self.0.bytes > 0 {
            handle.require("workspace", self.0.location)?;
        }
        Ok((self.0.pointer, self.0.bytes))
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} bytes on {:?})", self.0.bytes, self.0.location.device)
    }
}

/// An array in a device's memory, aligned to 256 bytes; on the CPU a slice of host memory.
///
/// ```
/// use magicube::{DeviceBuffer, Handle};
/// let handle = Handle::cpu()?;
/// let buffer = DeviceBuffer::from_slice(&handle, &[1.0f32, 2.0, 3.0])?;
/// assert_eq!(buffer.to_vec(&handle)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), magicube::Error>(())
/// ```
pub struct DeviceBuffer<T: Pod> {
    memory: Allocation,
    len: usize,
    holds: PhantomData<T>,
}

// SAFETY: plain numbers; writing needs an exclusive reference.
unsafe impl<T: Pod> Send for DeviceBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for DeviceBuffer<T> {}

impl<T: Pod> DeviceBuffer<T> {
    /// Memory whose contents are undefined until the caller has them written.
    fn allocate(handle: &Handle, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::new(Status::AllocFailed, format!("DeviceBuffer: {len} elements are too many"))
        })?;
        let memory = Allocation::new(handle.location(), bytes)?;
        Ok(Self { memory, len, holds: PhantomData })
    }

    /// `len` zeros on the handle's device, in the order of its stream.
    pub fn zeroed(handle: &Handle, len: usize) -> Result<Self> {
        let mut buffer = Self::allocate(handle, len)?;
        buffer.fill_bytes(handle, 0)?;
        Ok(buffer)
    }

    /// A copy of host memory on the handle's device; waits for it.
    pub fn from_slice(handle: &Handle, source: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate(handle, source.len())?;
        buffer.copy_from_slice(handle, source)?;
        Ok(buffer)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the array lies.
    pub fn location(&self) -> Location {
        self.memory.location
    }

    /// The array as a slice, if it is host memory.
    pub fn as_slice(&self) -> Option<&[T]> {
        match self.memory.location.device {
            Device::Cpu if self.len == 0 => Some(&[]),
            // SAFETY: len initialised elements of host memory, aligned to 256 bytes, which CPU
            // calls have done with when they return.
            Device::Cpu => {
                Some(unsafe { std::slice::from_raw_parts(self.memory.pointer.cast(), self.len) })
            }
            _ => None,
        }
    }

    /// The array as a slice, if it is host memory.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        match self.memory.location.device {
            Device::Cpu if self.len == 0 => Some(&mut []),
            // SAFETY: as above, through an exclusive reference.
            Device::Cpu => Some(unsafe {
                std::slice::from_raw_parts_mut(self.memory.pointer.cast(), self.len)
            }),
            _ => None,
        }
    }

    fn require_len(&self, what: &str, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "DeviceBuffer::{what}: the slice has {len} elements; the buffer has {}",
            self.len
        )))
    }

    /// Overwrites the array with as many elements of host memory; waits for it.
    pub fn copy_from_slice(&mut self, handle: &Handle, source: &[T]) -> Result<()> {
        self.require_len("copy_from_slice", source.len())?;
        handle.require("buffer", self.memory.location)?;
        let (to, from) = (self.memory.pointer, source.as_ptr().cast());
        // SAFETY: both hold that many bytes, and the source outlives the wait.
        check(unsafe { sys::magicubeMemcpy(handle.raw(), to, from, self.memory.bytes) })?;
        handle.synchronize()
    }

    /// Copies the array to as many elements of host memory; waits for it.
    pub fn copy_to_slice(&self, handle: &Handle, target: &mut [T]) -> Result<()> {
        self.require_len("copy_to_slice", target.len())?;
        handle.require("buffer", self.memory.location)?;
        let (to, from) = (target.as_mut_ptr().cast(), self.memory.pointer);
        // SAFETY: both hold that many bytes, and the target outlives the wait.
        check(unsafe { sys::magicubeMemcpy(handle.raw(), to, from, self.memory.bytes) })?;
        handle.synchronize()
    }

    /// Overwrites the array with another of the same device, in the order of the handle's stream.
    pub fn copy_from(&mut self, handle: &Handle, source: &Self) -> Result<()> {
        self.require_len("copy_from", source.len)?;
        handle.require("buffer", self.memory.location)?;
        handle.require("source", source.memory.location)?;
        let (to, from) = (self.memory.pointer, source.memory.pointer);
        // SAFETY: both hold that many bytes; freeing waits for the device.
        check(unsafe { sys::magicubeMemcpy(handle.raw(), to, from, self.memory.bytes) })
    }

    /// The array in host memory; waits for it.
    pub fn to_vec(&self, handle: &Handle) -> Result<Vec<T>> {
        let mut result = vec![T::default(); self.len];
        self.copy_to_slice(handle, &mut result)?;
        Ok(result)
    }

    /// Sets every byte, in the order of the handle's stream.
    pub fn fill_bytes(&mut self, handle: &Handle, value: u8) -> Result<()> {
        handle.require("buffer", self.memory.location)?;
        let (to, bytes) = (self.memory.pointer, self.memory.bytes);
        // SAFETY: the memory has that many bytes, and every pattern of bits is a T.
        check(unsafe { sys::magicubeMemset(handle.raw(), to, value.into(), bytes) })
    }
}

impl<T: Pod> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::any::type_name::<T>();
        write!(f, "DeviceBuffer<{kind}>({} on {:?})", self.len, self.memory.location.device)
    }
}

/// Memory that a call reads: a slice or a [`DeviceBuffer`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T: Pod> {
    pub(crate) pointer: *const T,
    pub(crate) len: usize,
    pub(crate) location: Location,
    borrows: PhantomData<&'a [T]>,
}

/// Memory that a call writes: an exclusive slice or [`DeviceBuffer`].
#[derive(Debug)]
pub struct ViewMut<'a, T: Pod> {
    pub(crate) pointer: *mut T,
    pub(crate) len: usize,
    pub(crate) location: Location,
    borrows: PhantomData<&'a mut [T]>,
}

// SAFETY: a shared borrow of plain numbers.
unsafe impl<T: Pod> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for View<'_, T> {}
// SAFETY: an exclusive borrow of plain numbers.
unsafe impl<T: Pod> Send for ViewMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for ViewMut<'_, T> {}

impl<T: Pod> View<'_, T> {
    /// A view of `len` elements.
    ///
    /// # Safety
    /// They may be read at `location` for the view's lifetime, and nothing writes them meanwhile.
    pub unsafe fn from_raw(pointer: *const T, len: usize, location: Location) -> Self {
        Self { pointer, len, location, borrows: PhantomData }
    }
}

impl<T: Pod> ViewMut<'_, T> {
    /// A view of `len` elements.
    ///
    /// # Safety
    /// They may be read and written at `location` for the view's lifetime, and nothing else uses
    /// them meanwhile.
    pub unsafe fn from_raw(pointer: *mut T, len: usize, location: Location) -> Self {
        Self { pointer, len, location, borrows: PhantomData }
    }
}

/// What can be lent to a call that reads it.
pub trait Memory<'a, T: Pod> {
    /// The memory, borrowed.
    fn view(self) -> View<'a, T>;
}

/// What can be lent to a call that writes it.
pub trait MemoryMut<'a, T: Pod> {
    /// The memory, borrowed exclusively.
    fn view_mut(self) -> ViewMut<'a, T>;
}

impl<'a, T: Pod> Memory<'a, T> for &'a [T] {
    fn view(self) -> View<'a, T> {
        // SAFETY: a slice in host memory.
        unsafe { View::from_raw(self.as_ptr(), self.len(), Location::HOST) }
    }
}

impl<'a, T: Pod> MemoryMut<'a, T> for &'a mut [T] {
    fn view_mut(self) -> ViewMut<'a, T> {
        // SAFETY: a slice in host memory.
        unsafe { ViewMut::from_raw(self.as_mut_ptr(), self.len(), Location::HOST) }
    }
}

impl<'a, T: Pod, const N: usize> Memory<'a, T> for &'a [T; N] {
    fn view(self) -> View<'a, T> {
        self.as_slice().view()
    }
}

impl<'a, T: Pod, const N: usize> MemoryMut<'a, T> for &'a mut [T; N] {
    fn view_mut(self) -> ViewMut<'a, T> {
        self.as_mut_slice().view_mut()
    }
}

impl<'a, T: Pod> Memory<'a, T> for &'a Vec<T> {
    fn view(self) -> View<'a, T> {
        self.as_slice().view()
    }
}

impl<'a, T: Pod> MemoryMut<'a, T> for &'a mut Vec<T> {
    fn view_mut(self) -> ViewMut<'a, T> {
        self.as_mut_slice().view_mut()
    }
}

impl<'a, T: Pod> Memory<'a, T> for &'a DeviceBuffer<T> {
    fn view(self) -> View<'a, T> {
        // SAFETY: the buffer's elements, initialised.
        unsafe { View::from_raw(self.memory.pointer.cast(), self.len, self.memory.location) }
    }
}

impl<'a, T: Pod> MemoryMut<'a, T> for &'a mut DeviceBuffer<T> {
    fn view_mut(self) -> ViewMut<'a, T> {
        // SAFETY: the buffer's elements, through an exclusive reference.
        unsafe { ViewMut::from_raw(self.memory.pointer.cast(), self.len, self.memory.location) }
    }
}

impl<'a, T: Pod> Memory<'a, T> for View<'a, T> {
    fn view(self) -> View<'a, T> {
        self
    }
}

impl<'a, T: Pod> MemoryMut<'a, T> for ViewMut<'a, T> {
    fn view_mut(self) -> ViewMut<'a, T> {
        self
    }
}
