//! Table 5.1: what an insert of one thread takes, counted.

use super::record::{Kind, Setup};
use super::replay::{Figures, Variant, measure, ratio};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// How all rows of the group are measured.
pub(super) const METHOD: &str = "the library's trees with keys and values of 16 B and nodes of 512 B, \
                                 recorded on 48 simulated threads with 100,000 pairs; each operation \
                                 carried out in one of 1,600 copies, so that there are 160 million; \
                                 cascade-lake with 48 cores on the socket, an LLC of 38.5 MiB and \
                                 prefetchers. Instructions are estimated from the accesses";

/// What one thread's speed shows of the model's core.
pub(super) const CORE: &str = "An insert of one thread takes 1.4 us in the model and 9,600 cycles in the \
                               source (2,107 instructions, 0.22 a cycle), which are 2.4 us at 4 GHz and \
                               more at any lower clock: the model's core has more lines of a node on \
                               their way at a time than the source's seem to have, and no page tables to \
                               walk. So many threads reach the bandwidth of the memory earlier, and \
                               exceed it by more";
/// What evicted lines do.
pub(super) const EVICTED: &str = "Evicted lines reach the model's DIMMs one by one, amplified by 4.1 \
                                  whichever tree they are of (3.2 for btree and 3.5 for unsorted leaves \
                                  in the source), while flushed lines of a node are combined. So trees \
                                  that flush lose less against those that do not, and gain more where \
                                  bandwidth counts";

/// Result I28.
pub const ROWS: &[Row] = &[Row {
    source: Source::Index,
    id: "I28",
    claim: "Table 5.1: flushes, fences, bytes at the controller and amplification of an insert by one \
            thread; to find all nodes through a table costs up to 18 %",
    expected: "btree, unsorted, btree-WAL, FAST/FAIR, persistent unsorted: flushes 0, 0, 12, 6, 5; \
               fences 0, 0, 4, 10, 5; bytes read 1626, 1651, 2001, 2119, 1973, written 400, 236, 937, \
               474, 411; RA 1.6, 1.5, 1.6, 1.5, 1.4, WA 3.2, 3.5, 1.8, 2.2, 2.6; instructions 2107, \
               2381, 4620, 2548, 3137, a cycle 0.22, 0.26, 0.26, 0.19, 0.22; cycles stood still 7740, \
               6532, 11240, 9982, 9244; 1.18",
    tolerance: "shape: btree-WAL writes most and the unsorted leaf least; WA of btree-WAL is the lowest, \
                that of btree and the unsorted leaf at least 2.5; indirection costs 2 to 30 %. Values: \
                flushes, fences and bytes 35 %, amplification 25 %, instructions, which are estimated, a \
                factor of 2, instructions a cycle and cycles stood still 50 %",
    method: METHOD,
    calibration: "",
    note: "The library's FAST/FAIR keeps pairs of 16 B keys and values whole by a fifth word for each \
           and fences after each slot that is shifted; the source does not say how it keeps them",
    means: Means::Model(table),
    lacks: "Lines that are flushed one after the other meet in the model's DIMM, also those that are \
            flushed several times while a node is shifted or a log written, so that the persistent trees \
            amplify less; evicted ones amplify by 4.1. btree-WAL has a fence more than the source's, and \
            the list of nodes its own",
}];

/// As published: instructions, flushes, fences, bytes read and written, amplification, instructions a cycle and
/// cycles stood still.
const PUBLISHED: [(Kind, &str, [f64; 9]); 5] = [
    (Kind::Plain, "btree", [2107.0, 0.0, 0.0, 1626.0, 400.0, 1.6, 3.2, 0.22, 7740.0]),
    (Kind::UnsortedLeaf, "unsorted", [2381.0, 0.0, 0.0, 1651.0, 236.0, 1.5, 3.5, 0.26, 6532.0]),
    (Kind::Wal, "btree-WAL", [4620.0, 12.0, 4.0, 2001.0, 937.0, 1.6, 1.8, 0.26, 11240.0]),
    (Kind::FastFair, "FAST/FAIR", [2548.0, 6.0, 10.0, 2119.0, 474.0, 1.5, 2.2, 0.19, 9982.0]),
    (
        Kind::PersistentUnsorted,
        "persistent unsorted",
        [3137.0, 5.0, 5.0, 1973.0, 411.0, 1.4, 2.6, 0.22, 9244.0],
    ),
];

/// Cycles in a nanosecond of the model's cores.
const CYCLES: f64 = 2.2;

/// What the media move over what the controller does, reads and writes. Media reads are those for reads.
pub(super) fn amplification(figures: &Figures) -> (f64, f64) {
    let traffic = figures.run.traffic;
    (
        ratio(traffic.media_read_bytes, traffic.controller_read_bytes),
        ratio(traffic.media_write_bytes, traffic.controller_write_bytes),
    )
}

/// Bytes at the controller of a mean operation, read and written.
pub(super) fn bytes(figures: &Figures) -> (f64, f64) {
    let (traffic, operations) = (figures.run.traffic, figures.run.iterations);
    (ratio(traffic.controller_read_bytes, operations), ratio(traffic.controller_write_bytes, operations))
}

/// None at all is no number that a share could be taken of: the library flushes one word when it puts nodes
/// aside, once in thousands of inserts.
fn counted(what: &str, published: f64, got: f64) -> Check {
    if published == 0.0 {
        Check::within(what, 0.0, 0.01, got)
    } else {
        Check::near(what, published, 0.35, got)
    }
}

fn table(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut values = Vec::new();
    let (mut written, mut amplified) = (Vec::new(), Vec::new());
    for (kind, name, [instructions, flushes, fences, read, write, ra, wa, ipc, stalls]) in PUBLISHED {
        let figures = measure(lab, &Setup { kind, ..Setup::default() }, Variant::of(1))?;
        let ((read_here, write_here), (ra_here, wa_here)) = (bytes(&figures), amplification(&figures));
        written.push(write_here);
        amplified.push(wa_here);
        values.extend([
            counted(&format!("{name}: flushes"), flushes, figures.flushes),
            counted(&format!("{name}: fences"), fences, figures.fences),
            Check::near(&format!("{name}: bytes read"), read, 0.35, read_here),
            Check::near(&format!("{name}: bytes written"), write, 0.35, write_here),
            Check::near(&format!("{name}: RA"), ra, 0.25, ra_here),
            Check::near(&format!("{name}: WA"), wa, 0.25, wa_here),
            Check::within(
                &format!("{name}: instructions"),
                instructions / 2.0,
                instructions * 2.0,
                figures.run.instructions,
            ),
            Check::near(
                &format!("{name}: instructions a cycle"),
                ipc,
                0.5,
                figures.run.instructions / (figures.latency() * CYCLES),
            ),
            Check::near(&format!("{name}: cycles stood still"), stalls, 0.5, figures.run.stall_ns * CYCLES),
        ]);
    }
    let most = |list: &[f64]| list.iter().copied().fold(f64::MIN, f64::max);
    let least = |list: &[f64]| list.iter().copied().fold(f64::MAX, f64::min);
    let plain = Setup::default();
    let direct = measure(lab, &plain, Variant::of(48))?.latency();
    let indirect = measure(lab, &plain, Variant { indirect: true, ..Variant::of(48) })?.latency();
    let mut checks = vec![
        Check::at_least("btree-WAL's bytes written over the most", 1.0, written[2] / most(&written)),
        Check::at_most("unsorted's bytes written over the least", 1.0, written[1] / least(&written)),
        Check::at_most("btree-WAL's WA over the least", 1.0, amplified[2] / least(&amplified)),
        Check::at_least("WA of btree", 2.5, amplified[0]),
        Check::at_least("WA of unsorted", 2.5, amplified[1]),
        Check::between(
            "btree with all nodes found through a table, 48 threads",
            1.02,
            1.30,
            indirect / direct,
        ),
    ];
    checks.extend(values);
    Ok(Evidence::of(checks))
}
