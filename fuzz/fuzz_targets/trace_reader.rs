//! Any bytes, taken for a trace file: the reader says what is wrong or gives events, and never panics or
//! takes memory that the file does not back. Under `cfg(fuzzing)` checksums are not looked at.
#![no_main]

use std::io::Cursor;

use event::Counts;
use libfuzzer_sys::fuzz_target;
use trace::Reader;

fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = Reader::new(Cursor::new(data), "fuzz") else { return };
    let info = reader.info();
    let mut counts = Counts::default();
    if reader.replay(&mut counts).is_ok() {
        assert_eq!(counts.events, info.events);
    }
    let threads: Vec<_> = reader.threads().collect();
    for (thread, events) in threads {
        let mut batches = reader.thread(thread).expect("a thread of the index");
        if batches.seek_event(events / 2).is_ok() {
            while let Ok(Some(_)) = batches.next() {}
        }
    }
    let mut batches = reader.batches();
    if batches.seek_time(info.duration_ns / 2).is_ok() {
        while let Ok(Some(_)) = batches.next() {}
    }
});
