//! Any bytes, taken for what a check and the starter of its recoveries say to each other: an error, or
//! messages
//! that read back as they are sent.
#![no_main]

#[path = "../../crates/observe/reboot/src/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../../crates/observe/reboot/src/protocol.rs"]
#[allow(dead_code)]
mod protocol;

use libfuzzer_sys::fuzz_target;
use process::Attempt;
use protocol::{Reply, Setup, receive, send};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn holds<M: Serialize + DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(message)) = receive::<M>(&mut rest) {
        let mut sent = Vec::new();
        send(&mut sent, &message).expect("memory takes it");
        let again: M = receive(&mut &sent[..]).expect("it reads back").expect("it is a message");
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
    }
}

fuzz_target!(|bytes: &[u8]| {
    holds::<Setup>(bytes);
    holds::<Attempt>(bytes);
    holds::<Reply>(bytes);
});
