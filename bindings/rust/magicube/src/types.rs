// SPDX-License-Identifier: Apache-2.0
//! Element types and the enums that several operations share.

use std::fmt;

use magicube_sys as sys;

use crate::status::{abi_enum, text};

abi_enum! {
    /// Type of a matrix element. Integers are two's complement and use their full range.
    DataType = magicubeDataType {
        /// -8 to 7, two a byte, the element with the even index in the low nibble.
        Int4 = MAGICUBE_INT4,
        /// -128 to 127.
        Int8 = MAGICUBE_INT8,
        /// 0 to 255.
        Uint8 = MAGICUBE_UINT8,
        /// -2048 to 2047, stored as 16 bits.
        Int12 = MAGICUBE_INT12,
        /// -32768 to 32767.
        Int16 = MAGICUBE_INT16,
        /// 32-bit integers.
        Int32 = MAGICUBE_INT32,
        /// IEEE binary16.
        Fp16 = MAGICUBE_FP16,
        /// The upper half of binary32.
        Bf16 = MAGICUBE_BF16,
        /// IEEE binary32.
        Fp32 = MAGICUBE_FP32,
        /// OCP 8-bit float with 3 bits of mantissa and no infinity.
        E4m3 = MAGICUBE_E4M3,
    }
}

impl DataType {
    /// A short name: `"int8"`, `"bf16"`.
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text(sys::magicubeGetDataTypeName(self.sys())) }
    }

    /// Bits that one stored element takes: 4, 8, 16 or 32; 0 for an unknown type.
    pub fn bits(self) -> u32 {
        // SAFETY: the function takes any number.
        unsafe { sys::magicubeGetDataTypeBits(self.sys()) }.unsigned_abs()
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

abi_enum! {
    /// Width of offsets.
    IndexType = magicubeIndexType {
        /// `i32`.
        Index32 = MAGICUBE_INDEX_32,
        /// `i64`.
        Index64 = MAGICUBE_INDEX_64,
    }
}

abi_enum! {
    /// Storage order of a dense matrix.
    Order = magicubeOrder {
        /// Element (i, j) at `i * ld + j`.
        Row = MAGICUBE_ORDER_ROW,
        /// Element (i, j) at `j * ld + i`.
        Col = MAGICUBE_ORDER_COL,
    }
}

abi_enum! {
    /// Storage format of a sparse matrix.
    SparseFormat = magicubeSparseFormat {
        /// Compressed rows.
        Csr = MAGICUBE_FORMAT_CSR,
        /// Compressed rows of blocks.
        Bsr = MAGICUBE_FORMAT_BSR,
        /// Strided row-major block compressed rows: column vectors.
        SrBcrs = MAGICUBE_FORMAT_SR_BCRS,
        /// Groups of columns, of which blocks of rows select a few.
        Vnm = MAGICUBE_FORMAT_VNM,
    }
}

abi_enum! {
    /// Activation of an epilogue.
    Activation = magicubeActivation {
        /// The identity.
        None = MAGICUBE_ACTIVATION_NONE,
        /// `max(x, 0)`.
        Relu = MAGICUBE_ACTIVATION_RELU,
        /// `x * (1 + erf(x / sqrt(2))) / 2`.
        Gelu = MAGICUBE_ACTIVATION_GELU,
    }
}

abi_enum! {
    /// Which elements share one scale (or, for a bias, one summand).
    Granularity = magicubeGranularity {
        /// There is no such array.
        None = MAGICUBE_GRANULARITY_NONE,
        /// One element for the whole matrix.
        Tensor = MAGICUBE_GRANULARITY_TENSOR,
        /// One element a row.
        Row = MAGICUBE_GRANULARITY_ROW,
        /// One element a column.
        Col = MAGICUBE_GRANULARITY_COL,
    }
}

abi_enum! {
    /// How a plan treats the values of its sparse operand.
    ValueMode = magicubeValueMode {
        /// Packed when the plan is made.
        Fixed = MAGICUBE_VALUES_FIXED,
        /// As `Fixed`, and `update_values` repacks new ones.
        Updatable = MAGICUBE_VALUES_UPDATABLE,
        /// Each execution reads values given in the public layout.
        PerCall = MAGICUBE_VALUES_PER_CALL,
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Plain numbers that device memory can hold: every pattern of bits is a value.
///
/// # Safety
/// Sealed: only this crate implements it, for types without padding or invalid bit patterns.
pub unsafe trait Pod: sealed::Sealed + Copy + Default + Send + Sync + 'static {}

/// A type of matrix elements.
pub trait Element: Pod {
    /// The library's name of the type.
    const DATA_TYPE: DataType;
    /// Elements that one value holds: 2 for [`Int4x2`], 1 for the others.
    const PACKED: usize = 1;
}

/// A type of offsets: `i32` or `i64`.
pub trait Index: Pod {
    /// The library's name of the type.
    const INDEX_TYPE: IndexType;
}

/// Two int4 elements: the one with the even index in the low nibble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Int4x2(pub u8);

impl Int4x2 {
    /// Packs two elements, of which the lowest four bits are kept.
    pub const fn new(even: i8, odd: i8) -> Self {
        Self((even as u8 & 15) | ((odd as u8) << 4))
    }

    /// The two elements.
    pub const fn get(self) -> (i8, i8) {
        (((self.0 << 4) as i8) >> 4, (self.0 as i8) >> 4)
    }
}

/// An int12 element: -2048 to 2047.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Int12(pub i16);

/// The bits of an IEEE binary16 number. With the feature `half`, `half::f16` serves as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bfloat16 number. With the feature `half`, `half::bf16` serves as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// The bits of an OCP e4m3 number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct E4m3(pub u8);

macro_rules! elements {
    ($($(#[$condition:meta])* $type:ty: $data_type:ident $(, $packed:literal)?;)+) => {
        $(
            $(#[$condition])*
            impl sealed::Sealed for $type {}
            $(#[$condition])*
            // SAFETY: a number, or a transparent struct around one.
            unsafe impl Pod for $type {}
            $(#[$condition])*
            impl Element for $type {
                const DATA_TYPE: DataType = DataType::$data_type;
                $(const PACKED: usize = $packed;)?
            }
        )+
    };
}
elements! {
    Int4x2: Int4, 2;
    i8: Int8;
    u8: Uint8;
    Int12: Int12;
    i16: Int16;
    i32: Int32;
    F16: Fp16;
    Bf16: Bf16;
    f32: Fp32;
    E4m3: E4m3;
    #[cfg(feature = "half")]
    half::f16: Fp16;
    #[cfg(feature = "half")]
    half::bf16: Bf16;
}

/// A type of places in a group of columns of V:N:M: `u8`, or `u16` where a group is wider than 256.
pub trait Place: Pod {}
impl Place for u8 {}
impl Place for u16 {}

impl sealed::Sealed for u16 {}
// SAFETY: a number.
unsafe impl Pod for u16 {}
impl sealed::Sealed for i64 {}
// SAFETY: a number.
unsafe impl Pod for i64 {}
impl Index for i32 {
    const INDEX_TYPE: IndexType = IndexType::Index32;
}
impl Index for i64 {
    const INDEX_TYPE: IndexType = IndexType::Index64;
}
