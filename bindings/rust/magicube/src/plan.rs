// SPDX-License-Identifier: Apache-2.0
//! What the plans of all operations share.

use std::ffi::{c_char, CString};
use std::marker::PhantomData;
use std::ptr;

use magicube_sys as sys;

use crate::handle::{Handle, Location, PointerMode};
use crate::memory::{DeviceBuffer, Memory, View};
use crate::sparse::{require_len, wide};
use crate::status::{check, text, Error, Result, Status};
use crate::types::Granularity;

/// What a plan and its executions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Bytes of the buffer that a plan keeps.
    pub plan_bytes: usize,
    /// Alignment of that buffer.
    pub plan_alignment: usize,
    /// Bytes of scratch for one execution at the largest size of the plan's range.
    pub workspace_bytes: usize,
    /// Alignment of the scratch.
    pub workspace_alignment: usize,
}

/// What a plan says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanInfo<'p> {
    /// The implementation that executes.
    pub implementation: &'p str,
    /// A line a candidate, accepted with its cost or declined and why, and the choice.
    pub reasons: &'p str,
    /// Bytes of the plan's buffer.
    pub plan_bytes: usize,
    /// Bytes of scratch that an execution needs.
    pub workspace_bytes: usize,
    /// Whether the plan allocated its buffer itself.
    pub owns_buffer: bool,
}

/// alpha, beta or the scale of an attention: a number, or where one lies on the device.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    /// A number, for handles in [`PointerMode::Host`].
    Host(f32),
    /// One number on the handle's device, for handles in [`PointerMode::Device`].
    Device(View<'a, f32>),
}

impl From<f32> for Scalar<'_> {
    fn from(value: f32) -> Self {
        Self::Host(value)
    }
}

impl<'a> From<&'a DeviceBuffer<f32>> for Scalar<'a> {
    fn from(value: &'a DeviceBuffer<f32>) -> Self {
        Self::Device(value.view())
    }
}

/// The pointer that a call on `handle` takes, valid as long as `scalar`.
#[inline]
pub(crate) fn lend_scalar(
    scalar: &Option<Scalar<'_>>,
    handle: &Handle,
    argument: &str,
) -> Result<*const f32> {
    match (scalar, handle.known_pointer_mode()) {
        (None, _) => Ok(ptr::null()),
        (Some(Scalar::Host(value)), PointerMode::Host) => Ok(value),
        (Some(Scalar::Device(view)), PointerMode::Device) => {
            handle.require(argument, view.location)?;
            require_len(argument, view.len, 1)?;
            Ok(view.pointer)
        }
        (Some(_), mode) => Err(Error::invalid(format!(
            "{argument} does not lie where the handle reads it: its pointer mode is {mode:?}"
        ))),
    }
}

/// An array of a call, which must have `needed` elements.
#[inline]
pub(crate) fn lend_array<T: crate::types::Pod>(
    array: &Option<View<'_, T>>,
    handle: &Handle,
    argument: &str,
    needed: i128,
) -> Result<*const T> {
    let Some(view) = array else { return Ok(ptr::null()) };
    handle.require(argument, view.location)?;
    require_len(argument, view.len, needed)?;
    Ok(view.pointer)
}

/// Which elements of an array of scales or summands exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summands {
    pub(crate) per: Granularity,
    pub(crate) batch_stride: i64,
}

impl Summands {
    pub(crate) const NONE: Self = Self { per: Granularity::None, batch_stride: 0 };

    /// Elements for `batch` matrices of `length` rows or columns.
    pub(crate) fn needed(&self, length: i64, batch: i64) -> i128 {
        let one = match self.per {
            Granularity::None | Granularity::Unknown(_) => return 0,
            Granularity::Tensor => 1,
            Granularity::Row | Granularity::Col => wide(length),
        };
        strided(batch, self.batch_stride, one)
    }
}

/// Elements of `batch` arrays of `one` element each, `stride` apart.
pub(crate) fn strided(batch: i64, stride: i64, one: i128) -> i128 {
    if batch <= 0 || one == 0 {
        return 0;
    }
    (wide(batch) - 1) * wide(stride) + one
}

/// The functions of an operation's family in the C ABI.
pub(crate) struct Family<Problem, Raw> {
    pub(crate) is_supported:
        unsafe extern "C" fn(sys::magicubeHandle_t, *const Problem) -> sys::magicubeStatus,
    pub(crate) buffer_size: unsafe extern "C" fn(
        sys::magicubeHandle_t,
        *const Problem,
        *mut sys::magicubeBufferSizes,
    ) -> sys::magicubeStatus,
    pub(crate) create: unsafe extern "C" fn(
        sys::magicubeHandle_t,
        *const Problem,
        *mut std::ffi::c_void,
        usize,
        *mut *mut Raw,
    ) -> sys::magicubeStatus,
    pub(crate) destroy: unsafe extern "C" fn(*mut Raw) -> sys::magicubeStatus,
    pub(crate) info:
        unsafe extern "C" fn(*mut Raw, *mut sys::magicubePlanInfo) -> sys::magicubeStatus,
    pub(crate) list: unsafe extern "C" fn(
        sys::magicubeDevice,
        *mut *const c_char,
        i32,
        *mut i32,
    ) -> sys::magicubeStatus,
}

/// An operation: its problem in this crate and in the C ABI.
pub(crate) trait Operation {
    type Problem;
    type Raw: 'static;
    const FAMILY: Family<Self::Problem, Self::Raw>;
}

/// A plan of the C ABI, and the buffer that it may borrow.
pub(crate) struct RawPlan<'b, O: Operation> {
    pub(crate) raw: *mut O::Raw,
    pub(crate) location: Location,
    borrows: PhantomData<&'b mut ()>,
}

// SAFETY: the library lets many threads use a plan at once; changing it needs &mut.
unsafe impl<O: Operation> Send for RawPlan<'_, O> {}
// SAFETY: as above.
unsafe impl<O: Operation> Sync for RawPlan<'_, O> {}

impl<'b, O: Operation> RawPlan<'b, O> {
    pub(crate) fn new(
        handle: &Handle,
        problem: &O::Problem,
        buffer: Option<&'b mut DeviceBuffer<u8>>,
    ) -> Result<Self> {
        let (mut memory, mut bytes) = (ptr::null_mut::<std::ffi::c_void>(), 0);
        let mut raw = ptr::null_mut();
        if let Some(buffer) = buffer {
            handle.require("plan_buffer", buffer.location())?;
            bytes = buffer.len();
            memory = crate::memory::MemoryMut::view_mut(buffer).pointer.cast();
            if memory.is_null() {
                // A null buffer would have the plan allocate one.
                memory = ptr::dangling_mut();
            }
        }
        // SAFETY: handle and problem are valid, and the buffer is borrowed as long as the plan.
        check(unsafe { (O::FAMILY.create)(handle.raw(), problem, memory, bytes, &mut raw) })?;
        Ok(Self { raw, location: handle.location(), borrows: PhantomData })
    }

    pub(crate) fn info(&self) -> Result<PlanInfo<'_>> {
        let mut info = sys::magicubePlanInfo {
            struct_size: size_of::<sys::magicubePlanInfo>(),
            implementation: ptr::null(),
            reasons: ptr::null(),
            plan_bytes: 0,
            workspace_bytes: 0,
            owns_buffer: 0,
        };
        // SAFETY: the plan is valid, and the strings live as long as it does.
        unsafe {
            check((O::FAMILY.info)(self.raw, &mut info))?;
            Ok(PlanInfo {
                implementation: text(info.implementation),
                reasons: text(info.reasons),
                plan_bytes: info.plan_bytes,
                workspace_bytes: info.workspace_bytes,
                owns_buffer: info.owns_buffer != 0,
            })
        }
    }
}

impl<O: Operation> Drop for RawPlan<'_, O> {
    fn drop(&mut self) {
        // SAFETY: the plan is this object's, and no execution borrows it.
        unsafe { (O::FAMILY.destroy)(self.raw) };
    }
}

pub(crate) fn check_supported<O: Operation>(handle: &Handle, problem: &O::Problem) -> Result<()> {
    // SAFETY: handle and problem are valid.
    check(unsafe { (O::FAMILY.is_supported)(handle.raw(), problem) })
}

pub(crate) fn buffer_sizes<O: Operation>(
    handle: &Handle,
    problem: &O::Problem,
) -> Result<BufferSizes> {
    let mut sizes = sys::magicubeBufferSizes {
        struct_size: size_of::<sys::magicubeBufferSizes>(),
        ..Default::default()
    };
    // SAFETY: handle and problem are valid; sizes outlives the call.
    check(unsafe { (O::FAMILY.buffer_size)(handle.raw(), problem, &mut sizes) })?;
    Ok(BufferSizes {
        plan_bytes: sizes.plan_bytes,
        plan_alignment: sizes.plan_alignment,
        workspace_bytes: sizes.workspace_bytes,
        workspace_alignment: sizes.workspace_alignment,
    })
}

pub(crate) fn implementations<O: Operation>(
    device: crate::handle::Device,
) -> Result<Vec<&'static str>> {
    // SAFETY: the function writes at most `capacity` names.
    list_names(|names, capacity, count| unsafe {
        (O::FAMILY.list)(device.sys(), names, capacity, count)
    })
}

/// Names that a function of the library lists, which live as long as it does.
pub(crate) fn list_names(
    list: impl Fn(*mut *const c_char, i32, *mut i32) -> sys::magicubeStatus,
) -> Result<Vec<&'static str>> {
    let mut count = 0;
    check(list(ptr::null_mut(), 0, &mut count))?;
    let mut names = vec![ptr::null(); usize::try_from(count).unwrap_or(0)];
    check(list(names.as_mut_ptr(), count, &mut count))?;
    // SAFETY: the library wrote count strings that live as long as it does.
    Ok(names.into_iter().map(|name| unsafe { text(name) }).collect())
}

/// The name of an implementation as the C ABI takes it.
pub(crate) struct Name(Option<CString>);

impl Name {
    pub(crate) fn new(name: Option<&str>) -> Result<Self> {
        let name = name.map(CString::new).transpose();
        name.map(Self)
            .map_err(|error| Error::new(Status::InvalidValue, format!("implementation: {error}")))
    }

    pub(crate) fn pointer(&self) -> *const c_char {
        self.0.as_ref().map_or(ptr::null(), |name| name.as_ptr())
    }
}

/// Defines an operation: the trait that names its functions, what its problem offers and what its
/// plan does, all but the execution.
///
/// The problem is a struct with a method `lend(&self, &Handle, &Name) -> Result<sys problem>`,
/// `shape(&self) -> Shape` and a field `implementation`; Shape is what executions check lengths by.
macro_rules! operation {
    ($operation:ident, $problem:ident, $plan:ident, $shape:ident,
     $raw_problem:ident, $raw_plan:ident,
     [$is_supported:ident, $buffer_size:ident, $create:ident, $destroy:ident, $info:ident,
      $list:ident]) => {
        pub(crate) enum $operation {}

        impl $crate::plan::Operation for $operation {
            type Problem = magicube_sys::$raw_problem;
            type Raw = magicube_sys::$raw_plan;
            const FAMILY: $crate::plan::Family<Self::Problem, Self::Raw> = $crate::plan::Family {
                is_supported: magicube_sys::$is_supported,
                buffer_size: magicube_sys::$buffer_size,
                create: magicube_sys::$create,
                destroy: magicube_sys::$destroy,
                info: magicube_sys::$info,
                list: magicube_sys::$list,
            };
        }

        impl $problem<'_> {
            /// Names of a device's implementations, the reference last.
            pub fn implementations(device: $crate::Device) -> $crate::Result<Vec<&'static str>> {
                $crate::plan::implementations::<$operation>(device)
            }

            fn with_raw<R>(
                &self,
                handle: &$crate::Handle,
                call: impl FnOnce(&magicube_sys::$raw_problem) -> $crate::Result<R>,
            ) -> $crate::Result<R> {
                let name = $crate::plan::Name::new(self.implementation)?;
                call(&self.lend(handle, &name)?)
            }

            /// `Ok` if a plan can be made; otherwise an error with the reason.
            pub fn check_supported(&self, handle: &$crate::Handle) -> $crate::Result<()> {
                self.with_raw(handle, |problem| {
                    $crate::plan::check_supported::<$operation>(handle, problem)
                })
            }

            /// Sizes of the buffers of a plan for this problem.
            pub fn buffer_sizes(
                &self,
                handle: &$crate::Handle,
            ) -> $crate::Result<$crate::BufferSizes> {
                self.with_raw(handle, |problem| {
                    $crate::plan::buffer_sizes::<$operation>(handle, problem)
                })
            }
        }

        impl<'b> $plan<'b> {
            /// A plan that allocates what it needs. It borrows nothing of the problem.
            pub fn new(handle: &$crate::Handle, problem: &$problem<'_>) -> $crate::Result<Self> {
                problem.with_raw(handle, |raw| {
                    let plan = $crate::plan::RawPlan::new(handle, raw, None)?;
                    Ok(Self { plan, shape: problem.shape() })
                })
            }

            /// A plan in the caller's memory, on the handle's device.
            pub fn new_in(
                handle: &$crate::Handle,
                problem: &$problem<'_>,
                buffer: &'b mut $crate::DeviceBuffer<u8>,
            ) -> $crate::Result<Self> {
                problem.with_raw(handle, |raw| {
                    let plan = $crate::plan::RawPlan::new(handle, raw, Some(buffer))?;
                    Ok(Self { plan, shape: problem.shape() })
                })
            }

            /// What the plan runs and why.
            pub fn info(&self) -> $crate::Result<$crate::PlanInfo<'_>> {
                self.plan.info()
            }

            /// Scratch for one execution at a time.
            pub fn workspace(&self) -> $crate::Result<$crate::Workspace> {
                let bytes = self.plan.info()?.workspace_bytes;
                $crate::Workspace::new(self.plan.location, bytes)
            }
        }

        impl std::fmt::Debug for $plan<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let implementation = self.info().map(|info| info.implementation.to_owned());
                f.debug_struct(stringify!($plan)).field("implementation", &implementation).finish()
            }
        }
    };
}
pub(crate) use operation;

/// Methods of a struct that set one field each and return it.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $($field:tt).+;)+) => {
        $(
            $(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.$($field).+ = $name;
                self
            }
        )+
    };
}
pub(crate) use setters;

/// Methods of a struct of arguments that lend it an array each.
macro_rules! arrays {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => {
        $(
            $(#[$doc])*
            pub fn $name(mut self, $name: impl $crate::Memory<'a, $type>) -> Self {
                self.$name = Some($name.view());
                self
            }
        )+
    };
}
pub(crate) use arrays;
