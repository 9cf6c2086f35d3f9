//! Any text, taken for the token of a crash image: an error, or a token that reads back as it is written, and that a small run of two
//! threads refuses or replays.
#![no_main]

use crash::{Checker, Contents, History, Image, Oracle, Platform, Recorder, Token};
use event::{Batch, Definition, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, ThreadId};
use libfuzzer_sys::fuzz_target;

/// Finds something wrong with every image, so that each is reported.
struct Never;

impl Oracle for Never {
    fn examine(&mut self, _: &Image<'_>) -> Result<(), String> {
        Err("wrong".into())
    }
}

/// Two threads that each store to three lines, flush and fence.
fn history() -> History {
    let mut recorder = Recorder::new(Platform::ADR);
    let mut push = |thread, op, values: &[u8]| {
        let events = [Event { op, site: SiteId::UNKNOWN, instructions: 0 }];
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values };
        recorder.push(batch).expect("it takes it");
    };
    push(0, Op::Map { addr: 4096, len: 4096, name: NameId(1) }, &[]);
    for line in 0..6u64 {
        let (thread, addr) = ((line % 2) as u32, 4096 + line * 64);
        push(thread, Op::Store { addr, len: 16 }, &[1; 16]);
        push(thread, Op::Flush { addr, kind: FlushKind::Clwb }, &[]);
        push(thread, Op::Fence(FenceKind::Store), &[]);
    }
    recorder.define(Definition::Name(NameId(1), "pool")).expect("it takes it");
    recorder.into_history()
}

fuzz_target!(|text: &str| {
    let Ok(token) = text.parse::<Token>() else { return };
    assert_eq!(token.to_string().parse(), Ok(token.clone()));
    let (history, contents) = (history(), Contents::default());
    let checker = Checker::new(&history, &contents);
    if let Ok(found) = checker.replay(&token, &mut Never) {
        assert!(found.is_some() && checker.image(&token).is_ok());
    }
});
