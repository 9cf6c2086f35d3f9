//! Any text, taken for the token of a schedule: an error, or a schedule that reads back as it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use space::sim::Schedule;

fuzz_target!(|text: &str| {
    if let Ok(schedule) = text.parse::<Schedule>() {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
});
