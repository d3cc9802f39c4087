// SPDX-License-Identifier: Apache-2.0
//! Devices, handles, streams, versions, statuses.
#![forbid(unsafe_code)]

use magicube::{
    build_info, version, version_string, DataType, Dense, DenseMut, Device, Handle, Location,
    PointerMode, Sparse, SpmmArgs, SpmmPlan, SpmmProblem, Status, Stream, Validation,
};

#[test]
fn versions_agree_with_the_crate() {
    assert_eq!(version_string(), env!("CARGO_PKG_VERSION"));
    let parts: Vec<i32> = version_string().split('.').map(|n| n.parse().unwrap()).collect();
    assert_eq!(version(), parts[0] * 10000 + parts[1] * 100 + parts[2]);
    assert!(build_info().contains("cuda"), "{}", build_info());
}

#[test]
fn the_cpu_is_always_there() {
    assert_eq!(Device::Cpu.count(), Ok(1));
    let info = Device::Cpu.info(0).unwrap();
    assert!(!info.name.is_empty() && info.multiprocessors > 0 && info.supported);
    assert_eq!(info.compute_capability, 0);
    assert_eq!(Device::Cpu.info(1).unwrap_err().status(), Status::NoDevice);
}

#[test]
fn settings_are_kept() {
    let mut handle = Handle::cpu().unwrap();
    assert_eq!(handle.location(), Location::HOST);
    assert_eq!(handle.device(), Ok((Device::Cpu, 0)));
    handle.set_num_threads(2).unwrap();
    assert_eq!(handle.num_threads(), Ok(2));
    assert!(!handle.deterministic().unwrap());
    handle.set_deterministic(true).unwrap();
    assert!(handle.deterministic().unwrap());
    assert_eq!(handle.validation(), Ok(Validation::Full));
    handle.set_validation(Validation::Basic).unwrap();
    assert_eq!(handle.validation(), Ok(Validation::Basic));
    assert_eq!(handle.pointer_mode(), Ok(PointerMode::Host));
    handle.set_pointer_mode(PointerMode::Device).unwrap();
    assert_eq!(handle.pointer_mode(), Ok(PointerMode::Device));
    handle.synchronize().unwrap();
}

#[test]
fn errors_name_argument_value_and_rule() {
    let mut handle = Handle::cpu().unwrap();
    let error = handle.set_num_threads(-3).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue);
    assert!(error.message().contains("magicubeSetNumThreads"), "{error}");
    assert!(error.message().contains("count") && error.message().contains("-3"), "{error}");
    assert_eq!(error.to_string(), error.message());
    let unknown = handle.set_validation(Validation::Unknown(77)).unwrap_err();
    assert!(unknown.message().contains("77"), "{unknown}");
}

#[test]
fn the_cpu_has_the_default_stream_alone() {
    let mut handle = Handle::cpu().unwrap();
    let error = Stream::new(Device::Cpu, 0).unwrap_err();
    assert_eq!(error.status(), Status::NotSupported);
    let stream = Stream::default_of(Device::Cpu, 0);
    handle.set_stream(Some(&stream)).unwrap();
    assert_eq!(handle.stream(), Some(&stream));
    assert!(handle.raw_stream().unwrap().is_null() && stream.as_raw().is_null());
    handle.set_stream(None).unwrap();
    let other = Stream::default_of(Device::Cuda, 0);
    assert_eq!(handle.set_stream(Some(&other)).unwrap_err().status(), Status::DeviceMismatch);
}

#[test]
fn a_cuda_stream_orders_work() {
    if Device::Cuda.count().unwrap() == 0 {
        return; // tests/gpu runs this on a GPU
    }
    let mut handle = Handle::new(Device::Cuda, 0).unwrap();
    let stream = Stream::new(Device::Cuda, 0).unwrap();
    handle.set_stream(Some(&stream)).unwrap();
    assert_eq!(handle.raw_stream().unwrap(), stream.as_raw());
    drop(stream);
    let buffer = magicube::DeviceBuffer::from_slice(&handle, &[1i32, -2]).unwrap();
    assert!(buffer.as_slice().is_none());
    assert_eq!(buffer.to_vec(&handle).unwrap(), [1, -2]);
}

#[test]
fn handles_move_between_threads() {
    let handle = Handle::cpu().unwrap();
    std::thread::spawn(move || handle.synchronize().unwrap()).join().unwrap();
}

/// Import without a GPU must not fail, and asking for one must say so plainly.
#[test]
fn issue_01_without_a_gpu_the_cpu_computes_and_cuda_says_no_device() {
    let handle = Handle::cpu().unwrap();
    let a = Sparse::csr(1, 2, &[0i64, 2], &[0, 1], &[3i8, -4]).unwrap();
    let problem = SpmmProblem::new(&a).c_type(DataType::Int32);
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    let mut c = [0i32];
    plan.execute(
        &handle,
        &Dense::new(&[5i8, 6], 2, 1).unwrap(),
        &mut DenseMut::new(&mut c, 1, 1).unwrap(),
        &SpmmArgs::new(),
        &mut plan.workspace().unwrap(),
    )
    .unwrap();
    assert_eq!(c, [-9]);
    let gpus = Device::Cuda.count().unwrap();
    let error = Handle::new(Device::Cuda, gpus).unwrap_err();
    assert_eq!(error.status(), Status::NoDevice);
    assert!(error.message().len() > 20, "{error}");
    assert!(error.message().to_lowercase().contains("cuda"), "{error}");
}

/// A status that this crate does not know is a value.
#[test]
fn issue_17_an_unknown_status_is_a_value() {
    let status = Status::from_raw(999);
    assert_eq!(status, Status::Unknown(999));
    assert_eq!(status.raw(), 999);
    assert_eq!(format!("{status:?}"), "Unknown(999)");
    assert_eq!(status.name(), "MAGICUBE_STATUS_UNKNOWN");
    assert!(!status.description().is_empty());
    for raw in 0..12 {
        let status = Status::from_raw(raw);
        assert!(!matches!(status, Status::Unknown(_)), "{raw}");
        assert_eq!(status.raw(), raw);
        assert_ne!(status.to_string(), "MAGICUBE_STATUS_UNKNOWN");
    }
    assert_eq!(DataType::from_raw(200), DataType::Unknown(200));
    assert_eq!(DataType::Unknown(200).name(), "unknown");
    assert_eq!(DataType::Unknown(200).bits(), 0);
    assert_eq!((DataType::Int4.bits(), DataType::Bf16.to_string().as_str()), (4, "bf16"));
}
