//! Any bytes from the other side of a migration: frames that read back, or an error.
#![no_main]

use fam::Frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut from = bytes;
    while let Ok(frame) = Frame::receive(&mut from) {
        let mut again = Vec::new();
        frame.send(&mut again).expect("memory");
        assert_eq!(Frame::receive(&mut again.as_slice()).expect("whole"), frame);
    }
});
