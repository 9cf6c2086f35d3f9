//! Killed writers, full disks, damaged and foreign files.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};

use crate::common::{Push, Pushes, per_thread, source, write};
use event::{Capabilities, Event, NameId, Op, Order, Sink, SinkError, SiteId};
use trace::{Compression, Reader, TraceError, Writer};

const NO_VALUES: Capabilities = Capabilities::all().difference(Capabilities::VALUES);

type Threads = BTreeMap<u32, (Vec<Event>, Vec<u8>)>;

/// Three threads, a few blocks each.
fn small() -> Vec<Push> {
    let events = |from: u64| {
        (from..from + 30).map(|i| {
            let op = match i % 5 {
                0 => Op::Store { addr: 0x1000 + i * i * 8, len: 8 },
                1 => Op::Release { var: 64, order: Order::Release, seq: i },
                2 if i % 2 == 0 => Op::FileWrite { file: NameId(i as u32), offset: i << 9, len: 6 },
                2 => Op::Rename { from: NameId(3), to: NameId(i as u32) },
                _ => Op::Load { addr: 0x1000 + i * 64, len: 4 },
            };
            Event { op, site: SiteId((i % 7) as u32), instructions: (i % 11) as u32 }
        })
    };
    (0..9)
        .map(|i| {
            let events: Vec<Event> = events(i * 30).collect();
            let stored = events.iter().filter_map(|event| event.op.value_len()).map(u64::from).sum();
            let values = (0..stored).map(|byte| byte as u8).collect();
            Push { thread: (i % 3) as u32, time_ns: i * 1000, events, values }
        })
        .collect()
}

/// What can be read before the end or the first error, and the error.
fn read_on(bytes: &[u8]) -> Result<(Threads, Option<TraceError>), TraceError> {
    let mut pushes = Pushes::default();
    let error = Reader::new(Cursor::new(bytes), "t.slt")?.replay(&mut pushes).err();
    Ok((per_thread(&pushes.0), error))
}

fn is_prefix(part: &Threads, whole: &Threads) -> bool {
    part.iter().all(|(thread, (events, values))| {
        let (all_events, all_values) = &whole[thread];
        all_events.starts_with(events) && all_values.starts_with(values)
    })
}

fn count(threads: &Threads) -> usize {
    threads.values().map(|(events, _)| events.len()).sum()
}

#[test]
fn cut_anywhere_a_trace_opens_up_to_its_last_whole_block_and_says_so() {
    let pushes = small();
    let whole = per_thread(&pushes);
    let bytes = write(&pushes, Capabilities::all(), Compression::Fast, 2);
    let header = 20 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut before = 0;
    for cut in 0..bytes.len() {
        let part = &bytes[..cut];
        if cut < header {
            let error = Reader::new(Cursor::new(part), "t.slt").unwrap_err();
            assert!(matches!(error, TraceError::NoHeader { offset, .. } if offset == cut as u64), "{error}");
            continue;
        }
        let truncated = Reader::new(Cursor::new(part), "t.slt").unwrap().truncated().expect("it is cut");
        assert_eq!(truncated.offset + truncated.lost_bytes, cut as u64);
        let (read, error) = read_on(part).unwrap();
        assert!(error.is_none(), "cut at {cut}: {error:?}");
        assert!(is_prefix(&read, &whole), "cut at {cut}");
        assert!(count(&read) >= before, "cut at {cut}");
        before = count(&read);
    }
    assert_eq!(before, count(&whole), "all blocks stand before the index");
    assert!(Reader::new(Cursor::new(&bytes), "t.slt").unwrap().truncated().is_none());
}

#[test]
fn every_flipped_bit_shows_or_does_no_harm() {
    let pushes = small();
    let whole = per_thread(&pushes);
    for compression in [Compression::None, Compression::Fast] {
        let good = write(&pushes, Capabilities::all(), compression, 2);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok((read, error)) = read_on(&bad) {
                assert!(is_prefix(&read, &whole), "bit {bit}");
                assert!(error.is_some() || read == whole, "bit {bit}: silently lost");
            }
        }
    }
}

#[test]
fn errors_name_file_offset_and_remedy() {
    let bytes = write(&small(), Capabilities::all(), Compression::Fast, 2);
    let open = |bytes: &[u8]| Reader::new(Cursor::new(bytes), "t.slt").unwrap_err();

    let foreign = open(b"==123== lackey output, and more of it");
    assert!(matches!(foreign, TraceError::Foreign { .. }));
    assert!(foreign.to_string().contains("t.slt") && foreign.to_string().contains("import"), "{foreign}");

    let mut newer = bytes.clone();
    newer[8] = 4;
    let newer = open(&newer);
    assert!(matches!(newer, TraceError::Newer { offset: 8, version: 4, .. }));
    assert!(newer.to_string().contains("version 4 at byte 8"), "{newer}");

    let mut older = bytes.clone();
    older[8] = 2;
    let older = open(&older);
    assert!(matches!(older, TraceError::Older { offset: 8, version: 2, .. }));
    assert!(older.to_string().contains("version 2 at byte 8"), "{older}");

    let mut corrupt = bytes.clone();
    corrupt[20] ^= 1;
    let corrupt = open(&corrupt);
    assert!(matches!(corrupt, TraceError::Corrupt { offset: 0, .. }), "{corrupt}");

    let header = 20 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut damaged = bytes.clone();
    damaged[header + 68 + 10] ^= 1; // in the first block: the definitions
    let damaged = open(&damaged);
    assert!(matches!(damaged, TraceError::Corrupt { offset, .. } if offset == header as u64), "{damaged}");
    assert!(damaged.to_string().contains(&format!("corrupt at byte {header}")), "{damaged}");

    let missing = Reader::open("/nonexistent/t.slt").unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/t.slt: "), "{missing}");
}

#[test]
fn a_damaged_block_is_named_when_it_is_reached() {
    let bytes = write(&small(), Capabilities::all(), Compression::Fast, 2);
    // The second events block: the magic's third occurrence, after definitions and the first.
    let starts: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, w)| w == b"SLTB").map(|(at, _)| at).collect();
    let mut bad = bytes.clone();
    bad[starts[2] + 70] ^= 0x10;
    let (read, error) = read_on(&bad).unwrap();
    assert!(count(&read) > 0 && count(&read) < 270);
    assert!(matches!(error, Some(TraceError::Corrupt { offset, .. }) if offset == starts[2] as u64));
}

/// A disk with room for `room` bytes.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&buffer[..len]);
        if len == 0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(len) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_was_written_before_is_there() {
    let pushes = small();
    let whole = per_thread(&pushes);
    let full = write(&pushes, Capabilities::all(), Compression::Fast, 1).len();
    for room in (0..full).step_by(7) {
        let mut writer = Writer::new(Disk { bytes: vec![], room }, "t.slt").unwrap();
        let mut pushed = Vec::new();
        let mut go = || -> Result<(), SinkError> {
            writer.begin(&source(Capabilities::all()))?;
            for push in &pushes {
                writer.push(push.batch())?;
                writer.flush()?;
                pushed.push(push.clone());
            }
            writer.finish()
        };
        let Err(error) = go() else { continue };
        assert!(matches!(error, SinkError::Io { .. }) && error.to_string().contains("t.slt"), "{error}");
        let after = writer.push(pushes[0].batch()).unwrap_err();
        assert!(after.to_string().contains("t.slt"), "{after}");
        if let Ok((read, error)) = read_on(&writer.into_inner().bytes) {
            assert!(error.is_none());
            assert!(is_prefix(&read, &whole));
            assert!(count(&read) >= count(&per_thread(&pushed)), "what was flushed is there");
        }
    }
}

#[test]
fn a_killed_writer_loses_at_most_the_last_fifth_of_a_second() {
    let event = Event { op: Op::Load { addr: 8, len: 8 }, site: SiteId(1), instructions: 1 };
    let mut writer = Writer::new(Vec::new(), "t.slt").unwrap();
    writer.begin(&source(NO_VALUES)).unwrap();
    for ms in 0..1000u64 {
        let push =
            Push { thread: (ms % 2) as u32, time_ns: ms * 1_000_000, events: vec![event], values: vec![] };
        writer.push(push.batch()).unwrap();
    }
    // No finish, as if the process ended here.
    let bytes = writer.into_inner();
    let reader = Reader::new(Cursor::new(&bytes), "t.slt").unwrap();
    assert!(reader.truncated().is_some());
    assert!(reader.info().events >= 800, "{} events", reader.info().events);
    assert_eq!(reader.info().threads, 2);
}

#[test]
fn files_are_made_read_and_refused_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.slt");
    let mut writer = Writer::create(&path).unwrap();
    writer.begin(&source(Capabilities::all())).unwrap();
    small().iter().for_each(|push| writer.push(push.batch()).unwrap());
    writer.finish().unwrap();
    assert_eq!(writer.bytes_written(), std::fs::metadata(&path).unwrap().len());
    assert_eq!(Reader::open(&path).unwrap().info().events, 270);
    let error = Writer::create(dir.path().join("no/such/t.slt")).err().expect("no such directory");
    assert!(error.to_string().contains("no/such/t.slt"), "{error}");
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("can't read"), "{error}");
}

#[test]
fn a_pipe_is_refused_with_the_remedy() {
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
    let error = Reader::open(&path).expect_err("a pipe can't be sought in").to_string();
    assert!(error.starts_with(&path) && error.contains("write it to a file first"), "{error}");
}
