//! Result A14: commits of 32 writes, one to a page, as patterns of stores, flushes and fences on the
//! modelled machine.

use event::{Event, FenceKind, FlushKind};
use report::{Axis, Unit};

use crate::pattern::{self, LINE, Pattern, fence, flush, load, store, store_nt};
use crate::{Check, Evidence, Lab, Series, StudyError};

const BYTES: [u32; 6] = [16, 32, 64, 128, 256, 512];
const WRITES: u64 = 32;
const PAGE: u64 = 4096;
/// Pages of the array: more than caches hold.
const PAGES: u64 = 1 << 15;
const LOG: u64 = pattern::PERSISTENT + (1 << 36);
const HOME: u64 = pattern::PERSISTENT;
const DRAM: u64 = pattern::VOLATILE;

/// Who commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Vnvm,
    /// An undo log in which each write is durable by itself, and data in place.
    Pmdk,
    SoftWrap,
}

fn lines(events: &mut Vec<Event>, at: u64, bytes: u64, make: impl Fn(u64, u64) -> Event) {
    let mut from = at;
    while from < at + bytes {
        let to = (from / LINE + 1) * LINE;
        let to = to.min(at + bytes);
        events.push(make(from, to - from));
        from = to;
    }
}

/// The events of one commit of writes to pages from `first` on.
fn commit(who: Who, events: &mut Vec<Event>, first: u64, log: &mut u64, bytes: u64) {
    let places = (0..WRITES).map(|page| (first + page) % PAGES * PAGE);
    match who {
        Who::Vnvm | Who::SoftWrap => {
            lines(events, *log, WRITES * (16 + bytes), store_nt);
            *log += (WRITES * (16 + bytes)).next_multiple_of(LINE);
            if who == Who::Vnvm {
                // The transaction's object, its pages' objects, then the link.
                for line in 0..2 {
                    events.push(store(*log + line * LINE, 8));
                    events.push(flush(*log + line * LINE, FlushKind::Clflush));
                }
                events.push(fence(FenceKind::Store));
                events.push(store(*log + 2 * LINE, 8));
                events.push(flush(*log + 2 * LINE, FlushKind::Clflush));
                *log += 3 * LINE;
            }
            events.push(fence(FenceKind::Store));
            for place in places {
                lines(events, DRAM + place, bytes, store);
                if who == Who::SoftWrap {
                    // Retired to its place in NVM, by and by.
                    lines(events, DRAM + place, bytes, load);
                    lines(events, HOME + place, bytes, store_nt);
                }
            }
        }
        Who::Pmdk => {
            for place in places.clone() {
                lines(events, HOME + place, bytes, load);
                lines(events, *log, 16 + bytes, store);
                lines(events, *log, 16 + bytes, |at, _| flush(at, FlushKind::Clflush));
                events.push(fence(FenceKind::Store));
                *log += (16 + bytes).next_multiple_of(LINE);
                lines(events, HOME + place, bytes, store);
            }
            for place in places {
                lines(events, HOME + place, bytes, |at, _| flush(at, FlushKind::Clflush));
            }
            events.push(fence(FenceKind::Store));
            events.push(store(*log, 8));
            events.push(flush(*log, FlushKind::Clflush));
            events.push(fence(FenceKind::Store));
            *log += LINE;
        }
    }
}

/// vNVML, PMDK and SoftWrAP by bytes per page.
pub fn by_bytes(lab: &Lab) -> Result<Evidence, StudyError> {
    let time = |who: Who| -> Result<Series, StudyError> {
        Series::measure(&BYTES, |bytes| {
            let run = lab.pattern("commits of 32 writes", &[who as u64, bytes.into()], "dram", || {
                let (mut first, mut log) = (0, LOG);
                let step = move |events: &mut Vec<Event>| {
                    commit(who, events, first, &mut log, bytes.into());
                    first += WRITES;
                };
                vec![Pattern::new(256, step).warm(64)]
            })?;
            Ok(run.ns_per_iteration)
        })
    };
    let (ours, pmdk, softwrap) = (time(Who::Vnvm)?, time(Who::Pmdk)?, time(Who::SoftWrap)?);
    let over = |series: &Series, bytes: u32| series.at(f64::from(bytes)) / pmdk.at(f64::from(bytes));
    let [least, most] = [BYTES[0], BYTES[5]];
    let checks = vec![
        Check::at_most("vNVML over PMDK at 512 bytes", 1.0, over(&ours, most)),
        Check::at_most("vNVML over SoftWrAP at 512 bytes", 1.0, over(&ours, most) / over(&softwrap, most)),
        Check::at_most(
            "vNVML over SoftWrAP at 512 bytes, over the same at 16",
            1.0,
            over(&ours, most) / over(&softwrap, most) / (over(&ours, least) / over(&softwrap, least)),
        ),
    ];
    let (x, y) = (Axis::log("bytes per page", Unit::Bytes), Axis::log("time of a commit", Unit::Nanoseconds));
    let curves =
        vec![crate::curve("vNVML", &ours), crate::curve("PMDK", &pmdk), crate::curve("SoftWrAP", &softwrap)];
    Ok(Evidence { checks, charts: vec![crate::chart("Commits of 32 writes", x, y, curves)] })
}
