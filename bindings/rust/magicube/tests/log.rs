// SPDX-License-Identifier: Apache-2.0
//! The log, which is one for the process: one test in a process of its own.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use magicube::log::{level, set_callback, set_file, set_level, LogLevel};
use magicube::{DataType, Handle, Sparse, SpmmPlan, SpmmProblem};

fn make_plan() {
    let handle = Handle::cpu().unwrap();
    let a = Sparse::csr(1, 1, &[0i64, 1], &[0], &[1i8]).unwrap();
    SpmmPlan::new(&handle, &SpmmProblem::new(&a).c_type(DataType::Int32)).unwrap();
}

fn no_callback() -> Option<fn(LogLevel, &str)> {
    None
}

#[test]
fn messages_reach_callback_and_file() {
    assert_eq!(level(), Ok(LogLevel::Off));
    set_level(LogLevel::Debug).unwrap();
    assert_eq!(level(), Ok(LogLevel::Debug));

    let seen = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&seen);
    set_callback(Some(move |level, message: &str| {
        to.lock().unwrap().push((level, message.to_owned()));
    }))
    .unwrap();
    make_plan();
    let count = seen.lock().unwrap().len();
    assert!(count > 0);
    assert!(seen.lock().unwrap().iter().all(|(level, text)| {
        !matches!(level, LogLevel::Off | LogLevel::Unknown(_)) && !text.is_empty()
    }));

    // What a callback panics with reaches no one, and the library goes on.
    std::panic::set_hook(Box::new(|_| ()));
    set_callback(Some(|_, _: &str| panic!("in a callback"))).unwrap();
    assert_eq!(Arc::strong_count(&seen), 1, "the callback before is dropped");
    make_plan();
    let _ = std::panic::take_hook();
    set_callback(no_callback()).unwrap();

    let path = std::env::temp_dir().join(format!("magicube-log-{}", std::process::id()));
    set_file(Some(&path)).unwrap();
    make_plan();
    set_file(None).unwrap();
    set_level(LogLevel::Off).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.contains("magicube"), "{text}");
    assert_eq!(seen.lock().unwrap().len(), count);

    let error = set_file(Some("/no/such/folder/log".as_ref())).unwrap_err();
    assert!(error.message().contains("/no/such/folder/log"), "{error}");
    assert!(set_file(Some("zero\0byte".as_ref())).is_err());
    assert!(set_level(LogLevel::Unknown(9)).unwrap_err().message().contains('9'));
}
