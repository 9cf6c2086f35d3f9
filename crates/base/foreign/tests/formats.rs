//! Samples of each format, and what damages them.

use std::io::Write;

use event::{Capabilities, Collected, Counts, Op};
use foreign::{Format, ImportError, import};
use proptest::prelude::*;

/// A few lines of each text format, with the loads and stores they are.
const SAMPLES: [(Format, &str, u64, u64); 12] = [
    (Format::Lackey, "==1== Command: ./app\nI  04010173,3\n S 1ffeffe7e8,8\n L 1ffeffe7e0,16\n", 1, 1),
    (
        Format::PerfScript,
        "app  4242 [001] 18233.112233:     1 cpu/mem-loads,ldlat=30/P:     7f3a5c001040 |OP LOAD|LVL L3 hit|SNP None|TLB L1 or L2 \
         hit|LCK No   401166 main+0x36 (/opt/app)\n\
         my app  4242/4243 18233.2: 20 cpu/mem-stores/P: 7f3a5c001048 |OP STORE|LVL L1 hit| 401170 ns::f(int, char)+0x3 (/opt/app)\n",
        1,
        1,
    ),
    (
        Format::PerfMem,
        "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, # SYMBOL\n\
         39842  39842  0xffffffffb23bffdd  0xffff8d5c4000a000  7  0x68100142  /opt/app:main\n\
         39842  39843  0x401170  0x7ffd1c8e2a18  0  0x5080184  /opt/app:fill\n",
        1,
        1,
    ),
    (
        Format::Drmemtrace,
        "Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n0x7ffe3b4cd8a8:  8, w\n0x00007f3e28a3a2d0:  4, r\n",
        1,
        1,
    ),
    (
        Format::Drmemtrace,
        "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n\
         ------------------------------------------------------------\n\
                    1           0:     3264 <marker: version 3>\n\
                   12           1:     3264 ifetch       3 byte(s) @ 0x00007f6fdd3ec2d0 48 89 e7             mov    %rsp, %rdi\n\
                   13           1:     3264 write        8 byte(s) @ 0x00007ffc6a3a6fb8 by PC 0x00007f6fdd3ec2d3\n\
                   14           1: W0.T3265 read         8 byte(s) @ 0x00007ffc6a3a6fb0 by PC 0x00007f6fdd3ec2d8\n",
        1,
        1,
    ),
    (
        Format::Pinatrace,
        "0x7f21a3c1b0d3: R 0x7ffd1c8e2a18\n0x7f21a3c1b0d8: W 0x7ffd1c8e2a10\n0x7f21a3c1b0dc: W 0x7ffd1c8e2a08 4 0x0\n#eof\n",
        1,
        2,
    ),
    (Format::Ramulator, "0x12345680 R\n0x4cbd56c0 W\n", 1, 1),
    (Format::Ramulator, "3 20734016\n16 20846400 20734016\n", 2, 0),
    (Format::Ramulator2, "LD 0x229f6f80\nST 0xda5e700\nLD 0x1ba91f80\n", 2, 1),
    (Format::Dinero, "2 408ed4\n0 10019d94\n1 10019d98\n", 1, 1),
    (Format::Prospero, "1 W 140734192927288 8\n5 R 140734192927280 8\n", 1, 1),
    (Format::DramSim, "0x51a83ec0 P_MEM_WR 10\n0x6a1b0240 P_FETCH 14\n", 1, 1),
];

fn champsim() -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..4u64 {
        bytes.extend((0x40_1000 + at * 4).to_le_bytes());
        bytes.extend([u8::from(at == 3), 0, 1, 0, 2, 3, 0, 0]);
        for addr in [0x7000 + at * 8, 0, 0x8000, 0, 0, 0] {
            bytes.extend(addr.to_le_bytes());
        }
    }
    bytes
}

fn counted(bytes: &[u8], format: Option<Format>) -> Result<(foreign::Imported, Counts), ImportError> {
    let mut counts = Counts::default();
    let imported = import(bytes, "t", format, &mut counts)?;
    Ok((imported, counts))
}

#[test]
fn each_format_is_known_by_its_first_lines() {
    for (format, text, loads, stores) in SAMPLES {
        let (imported, counts) =
            counted(text.as_bytes(), None).unwrap_or_else(|error| panic!("{format:?}: {error}"));
        assert_eq!((imported.format, counts.loads, counts.stores), (format, loads, stores), "{text}");
        assert_eq!(imported.events, loads + stores);
        assert!(!format.blind().is_empty());
        assert_eq!(counted(text.as_bytes(), Some(format)).expect("named, it is the same").0, imported);
    }
    let (imported, counts) = counted(&champsim(), None).expect("records");
    assert_eq!((imported.format, counts.loads, counts.stores), (Format::ChampSim, 4, 4));
    assert_eq!(imported.instructions, 4);
}

#[test]
fn threads_code_sizes_and_sampling_are_kept() {
    let text = SAMPLES[1].1;
    let mut collected = Collected::default();
    let imported = import(text.as_bytes(), "t", None, &mut collected).expect("a trace");
    assert_eq!(imported.threads, 2, "4242 and 4243");
    let source = collected.source.expect("a source");
    assert!(source.sampling.is_some(), "perf samples");
    assert!(source.capabilities.contains(Capabilities::SITES));
    assert_eq!(collected.events[0].1.op, Op::Load { addr: 0x7f3a_5c00_1040, len: 8 });
    assert_ne!(collected.events[0].1.site, collected.events[1].1.site);
    let text = SAMPLES[4].1;
    let mut collected = Collected::default();
    import(text.as_bytes(), "t", None, &mut collected).expect("a trace");
    assert_eq!(collected.events[0].1.instructions, 1, "one was fetched before");
    assert_eq!(collected.events[1].0.0, 1, "another thread");
}

#[test]
fn gzip_and_zstd_are_opened_and_xz_is_named() {
    let text = SAMPLES[5].1;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    let plain = counted(text.as_bytes(), None).expect("plain");
    for packed in [&gzip, &zstd] {
        assert_eq!(counted(packed, None).expect("packed").0, plain.0);
    }
    let cut = counted(&gzip[..gzip.len() - 9], None).expect_err("the end is missing");
    assert!(matches!(cut, ImportError::Io { .. }), "{cut}");
    let xz = counted(b"\xfd7zXZ\0\0\x04", None).expect_err("not opened");
    assert!(xz.to_string().contains("xz -dc t"), "{xz}");
}

#[test]
fn what_is_no_trace_is_named_with_the_formats() {
    let error = counted(b"hello\nworld\n", None).expect_err("no trace");
    assert!(error.to_string().contains("pinatrace"), "{error}");
    for (format, text, ..) in SAMPLES.iter().skip(1) {
        let bad = format!("{text}nothing of the kind ?!\n{text}");
        let error = counted(bad.as_bytes(), Some(*format)).expect_err("a foreign line");
        let line = text.lines().count() + 1;
        assert!(error.to_string().starts_with(&format!("t:{line}: ")), "{format:?}: {error}");
    }
}

#[test]
fn a_cut_last_line_is_left_out_and_reported() {
    let text = "0x7f21a3c1b0d3: R 0x7ffd1c8e2a18\n0x7f21a3c1b0d8: W 0x7ffd1c";
    let (imported, counts) = counted(text.as_bytes(), None).expect("a trace");
    assert_eq!((imported.cut_line, counts.stores), (Some(2), 0));
    let mut bytes = champsim();
    bytes.truncate(bytes.len() - 5);
    assert_eq!(counted(&bytes, None).expect("records").0.cut_line, Some(4));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0..Format::ALL.len()) {
        let _ = counted(&bytes, None);
        let _ = counted(&bytes, Some(Format::ALL[at]));
    }

    #[test]
    fn any_damage_is_an_error_or_fewer_events(at in 0..SAMPLES.len(), from in 0..400usize, byte in any::<u8>()) {
        let (format, text, loads, stores) = SAMPLES[at];
        let mut bytes = text.as_bytes().to_vec();
        let from = from % bytes.len();
        bytes[from] = byte;
        if let Ok((imported, counts)) = counted(&bytes, Some(format)) {
            prop_assert_eq!(imported.events, counts.loads + counts.stores);
            prop_assert!(imported.events <= loads + stores + 1);
        }
    }

    #[test]
    fn any_text_line_is_survived(line in "[ -~]{0,120}", at in 0..Format::ALL.len()) {
        let _ = counted(format!("{line}\n{line}\n").as_bytes(), Some(Format::ALL[at]));
    }
}
