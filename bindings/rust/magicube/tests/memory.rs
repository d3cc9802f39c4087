// SPDX-License-Identifier: Apache-2.0
//! Buffers of the library's memory.
#![forbid(unsafe_code)]

use magicube::{DeviceBuffer, Handle, Int4x2, Status};

#[test]
fn copies_both_ways() {
    let handle = Handle::cpu().unwrap();
    let mut buffer = DeviceBuffer::<i32>::zeroed(&handle, 5).unwrap();
    assert_eq!(buffer.as_slice().unwrap(), [0; 5]);
    assert_eq!(buffer.as_slice().unwrap().as_ptr() as usize % 256, 0);
    buffer.copy_from_slice(&handle, &[1, -2, i32::MAX, i32::MIN, 5]).unwrap();
    let mut host = [0; 5];
    buffer.copy_to_slice(&handle, &mut host).unwrap();
    assert_eq!(host, [1, -2, i32::MAX, i32::MIN, 5]);
    let mut other = DeviceBuffer::<i32>::zeroed(&handle, 5).unwrap();
    other.copy_from(&handle, &buffer).unwrap();
    buffer.fill_bytes(&handle, 255).unwrap();
    assert_eq!(buffer.to_vec(&handle).unwrap(), [-1; 5]);
    assert_eq!(other.to_vec(&handle).unwrap(), host);
    other.as_mut_slice().unwrap()[0] = 7;
    assert_eq!(other.to_vec(&handle).unwrap()[0], 7);
}

#[test]
fn empty_buffers_are_no_exception() {
    let handle = Handle::cpu().unwrap();
    let mut buffer = DeviceBuffer::<f32>::from_slice(&handle, &[]).unwrap();
    assert!(buffer.is_empty() && buffer.as_slice().unwrap().is_empty());
    assert!(buffer.as_mut_slice().unwrap().is_empty());
    assert!(buffer.to_vec(&handle).unwrap().is_empty());
    buffer.fill_bytes(&handle, 3).unwrap();
}

#[test]
fn lengths_are_checked() {
    let handle = Handle::cpu().unwrap();
    let mut buffer = DeviceBuffer::<u8>::zeroed(&handle, 3).unwrap();
    let error = buffer.copy_from_slice(&handle, &[1; 4]).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue);
    assert!(error.message().contains('4') && error.message().contains('3'), "{error}");
    assert!(buffer.copy_to_slice(&handle, &mut [0; 2]).is_err());
    let huge = DeviceBuffer::<i64>::zeroed(&handle, usize::MAX / 2).unwrap_err();
    assert_eq!(huge.status(), Status::AllocFailed);
    let huge = DeviceBuffer::<u8>::zeroed(&handle, usize::MAX / 4).unwrap_err();
    assert_eq!(huge.status(), Status::AllocFailed);
}

#[test]
fn int4_packs_two() {
    for even in -8..8 {
        for odd in -8..8 {
            assert_eq!(Int4x2::new(even, odd).get(), (even, odd));
        }
    }
    assert_eq!(Int4x2::new(1, -1).0, 0xf1);
}
