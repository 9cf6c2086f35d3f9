//! The kernel's sampling: `perf_event_open` and its ring buffer, no more of it than is needed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Data pages of a ring; a power of two. With the page of the head it stays within what `perf_event_mlock_kb`
/// allows (516 KiB for each processor).
const PAGES: usize = 64;
const PAGE: usize = 4096;

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
const PERF_COUNT_SW_DUMMY: u64 = 9;
/// What a count is read with: how long it was wanted, and how long the processor counted it.
const TIME_ENABLED: u64 = 1;
const TIME_RUNNING: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IP_TID: u64 = 1 | 2;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_DATA_SRC: u64 = 1 << 15;
/// Of a sample's data source (`union perf_mem_data_src`): what it is of.
const MEM_OP_LOAD: u64 = 0x02;
const MEM_OP_STORE: u64 = 0x04;
/// It was answered by local memory, or by remote memory one or two hops away.
const MEM_LEVEL_MEMORY: u64 = (0x80 | 0x100 | 0x200) << 5;
/// The newer field for the same, and its numbers for CXL, memory and persistent memory.
const MEM_NUMBER_SHIFT: u32 = 33;
const MEM_NUMBERS_MEMORY: [u64; 3] = [0x09, 0x0d, 0x0e];
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FLAG_MMAP: u64 = 1 << 8;
const FLAG_FREQUENCY: u64 = 1 << 10;
const FLAG_MMAP_DATA: u64 = 1 << 17;
/// Every record ends with process and time.
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
/// Frames of a call stack that are asked for.
const STACK_MAX: u16 = 16;
/// Values of a call stack from here on say whose frames follow.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_DISABLED: u64 = 1;
/// Of the system call, not of the attributes.
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const RECORD_MMAP: u32 = 1;
const RECORD_LOST: u32 = 2;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;

/// `struct perf_event_attr` up to its version 5; all events but faults name the size of version 1, which
/// every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    // From here on of version 5, for faults only.
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    registers_intr: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
}

/// Bytes of the attributes' version 1.
const VERSION_1: u32 = 72;

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the processor's performance monitoring unit, with precise instruction addresses (PEBS, IBS)
    /// where there are such.
    Cycles,
    /// Time that the kernel's clock sees the program run.
    CpuClock,
    /// Accesses to memory with their addresses.
    Accesses(AccessEvent),
    /// Page faults of user mode: by the tracepoint with this number, which says what kind of access it was,
    /// or by the kernel's count of faults, which does not. With `maps`, mappings and new processes are
    /// reported, too.
    Faults {
        /// The tracepoint.
        tracepoint: Option<u64>,
        /// See above.
        maps: bool,
    },
    /// Nothing but mappings and new processes, on the clock of faults.
    Maps,
}

impl Event {
    /// Whether it is of faults: records have times.
    fn of_faults(self) -> bool {
        matches!(self, Event::Faults { .. } | Event::Maps)
    }
}

/// What a processor calls its samples of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessEvent {
    /// Type of the unit, as the kernel numbers it.
    pub kind: u32,
    /// The event.
    pub config: u64,
    /// Whether it needs the precise mode; a unit that is always precise refuses the wish.
    pub precise: bool,
}

/// A page fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Process.
    pub pid: u32,
    /// When, on the monotonic clock, in nanoseconds.
    pub time: u64,
    /// What it accessed.
    pub address: u64,
    /// The processor's error code, where it is known: bit 0 the page was there, bit 1 a write, bit 4 an
    /// instruction.
    pub code: Option<u64>,
    /// Instruction and its callers, as far as frame pointers lead.
    pub stack: Vec<u64>,
    /// Of how many faults one is reported.
    pub every: u64,
}

/// What a sample of an access has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub address: u64,
    /// Whether it loads.
    pub loads: bool,
    /// Whether it stores.
    pub stores: bool,
    /// Whether memory answered it and no cache, as far as the processor says.
    pub memory: bool,
}

impl Access {
    /// From the address and the kernel's description of where the data came from.
    fn of(address: u64, source: u64) -> Access {
        let number = source >> MEM_NUMBER_SHIFT & 0xf;
        Access {
            address,
            loads: source & MEM_OP_LOAD != 0,
            stores: source & MEM_OP_STORE != 0,
            memory: source & MEM_LEVEL_MEMORY != 0 || MEM_NUMBERS_MEMORY.contains(&number),
        }
    }
}

/// What a ring reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The process was at this address.
    Sample {
        /// Process.
        pid: u32,
        /// Instruction.
        address: u64,
        /// What it accessed; of accesses only.
        data: Option<Access>,
    },
    /// The process had a page fault.
    Fault(Fault),
    /// Code was mapped; with faults also anything else.
    Map {
        /// Process.
        pid: u32,
        /// First address.
        start: u64,
        /// Bytes.
        len: u64,
        /// Offset in the file.
        offset: u64,
        /// File.
        path: Vec<u8>,
        /// When, of fault events, on the monotonic clock in nanoseconds; else 0.
        time: u64,
    },
    /// `pid` began with what `parent` has mapped.
    Fork {
        /// New process.
        pid: u32,
        /// Its origin.
        parent: u32,
        /// When, on the monotonic clock for faults, in nanoseconds.
        time: u64,
    },
    /// So many records were lost because the ring was full.
    Lost(u64),
}

impl Record {
    /// When it was, of fault events; 0 if it does not say.
    pub fn time(&self) -> u64 {
        match self {
            Record::Fault(Fault { time, .. }) | Record::Map { time, .. } | Record::Fork { time, .. } => *time,
            Record::Sample { .. } | Record::Lost(_) => 0,
        }
    }
}

/// Runs a program of the kernel at each hit of a tracepoint, whoever's, as long as the result lives.
///
/// # Errors
/// The system's.
pub fn attach(tracepoint: u64, program: i32) -> io::Result<File> {
    const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: VERSION_1,
        config: tracepoint,
        frequency: 1,
        flags: FLAG_DISABLED,
        ..Attributes::default()
    };
    let file = open_with(&attributes, -1, 0)?;
    // SAFETY: the descriptor is an event's, and the argument a program's.
    match unsafe { libc::ioctl(file.as_raw_fd(), IOC_SET_BPF, program) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A count of events of what this thread will fork, from when that executes a program.
pub struct Counter(File);

impl Counter {
    /// Counts the event of that type and number in user mode.
    ///
    /// # Errors
    /// The system's; `EACCES` or `EPERM` if it is not permitted.
    pub fn open(kind: u32, config: u64) -> io::Result<Counter> {
        let attributes = Attributes {
            kind,
            size: VERSION_1,
            config,
            read_format: TIME_ENABLED | TIME_RUNNING,
            flags: FLAG_DISABLED | FLAG_INHERIT | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV | FLAG_ENABLE_ON_EXEC,
            ..Attributes::default()
        };
        open_with(&attributes, 0, -1).map(Counter)
    }

    /// The count, and the share of the time in which the processor had a counter for it.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self) -> io::Result<(u64, f64)> {
        let mut words = [0; 24];
        (&self.0).read_exact(&mut words)?;
        let mut words = words.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || words.next().unwrap_or(0);
        let (count, enabled, running) = (next(), next(), next());
        Ok((count, if enabled == 0 { 0.0 } else { running as f64 / enabled as f64 }))
    }
}

/// One processor's ring.
pub struct Ring {
    map: MmapRaw,
    file: File,
    event: Event,
    rate: u64,
    /// Data pages.
    pages: usize,
}

/// Stops an event, also of the processes that inherited it; its ring stays.
pub struct Stop(File);

impl Stop {
    /// From now on nothing is reported.
    pub fn stop(&self) -> io::Result<()> {
        control(&self.0, IOC_DISABLE)
    }
}

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;

fn control(file: &File, request: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the descriptor is an event's, and the request has no argument.
    match unsafe { libc::ioctl(file.as_raw_fd(), request, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Ring {
    /// Samples what this thread will fork, on processor `cpu`, from when that executes a program: `rate`
    /// times a second, or every `rate`-th access.
    ///
    /// # Errors
    /// The system's; `EACCES` or `EPERM` if it is not permitted.
    pub fn open(event: Event, cpu: i32, rate: u64) -> io::Result<Ring> {
        // The most precise address that the processor offers: the two bits hold 3, 2, 1, 0.
        let precisions = match event {
            Event::Cycles => 0..=2,
            Event::CpuClock | Event::Faults { .. } | Event::Maps => 0..=0,
            // An address is known in the precise mode alone.
            Event::Accesses(access) if access.precise => 1..=2,
            Event::Accesses(_) => 0..=0,
        };
        let mut result = Err(io::Error::from_raw_os_error(libc::ENOENT));
        for precision in precisions.rev() {
            result = open_event(event, cpu, rate, precision);
            if result.is_ok() {
                break;
            }
        }
        let file = result?;
        // Both rings of faults together stay within the limit.
        let pages = if matches!(event, Event::Faults { .. }) && rate > 1 { PAGES / 4 } else { PAGES };
        let map = MmapOptions::new().len(PAGE * (1 + pages)).map_raw(&file)?;
        Ok(Ring { map, file, event, rate, pages })
    }

    /// What stops it.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub fn stop(&self) -> io::Result<Stop> {
        Ok(Stop(self.file.try_clone()?))
    }

    /// Begins at once, in this thread.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self) -> io::Result<()> {
        control(&self.file, IOC_ENABLE)
    }

    /// Events so far, reported or not, of children that ended, too.
    ///
    /// # Errors
    /// The system's.
    pub fn count(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.file).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    /// Takes out all records that are there.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) {
        // SAFETY: offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`, in the first page.
        let (head, tail) = unsafe {
            let page = self.map.as_ptr();
            (&*page.add(1024).cast::<AtomicU64>(), &*page.add(1032).cast::<AtomicU64>())
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let start = self.copy(at, 8);
            let kind = u32_at(&start, 0);
            let size = u64::from(start[6]) | u64::from(start[7]) << 8;
            if size < 8 {
                break;
            }
            if let Some(mut record) = parse(self.event, kind, &self.copy(at + 8, size as usize - 8)) {
                if let Record::Fault(fault) = &mut record {
                    fault.every = self.rate;
                }
                take(record);
            }
            at += size;
        }
        tail.store(end, Ordering::Release);
    }

    /// Bytes of the ring from position `at` on, which may wrap around its end.
    fn copy(&self, at: u64, count: usize) -> Vec<u8> {
        let offset = at as usize & (self.pages * PAGE - 1);
        let before = count.min(self.pages * PAGE - offset);
        let mut bytes = Vec::with_capacity(count);
        for (from, len) in [(offset, before), (0, count - before)] {
            // SAFETY: inside the mapping, since no record is larger than the ring; the kernel does not touch
            // what lies between tail and head.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.map.as_ptr().add(PAGE + from), len)
            });
        }
        bytes
    }
}

fn open_event(event: Event, cpu: i32, rate: u64, precision: u64) -> io::Result<File> {
    let (kind, config) = match event {
        Event::Cycles => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        Event::CpuClock => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK),
        Event::Accesses(access) => (access.kind, access.config),
        Event::Maps => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY),
        Event::Faults { tracepoint: None, .. } => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS),
        Event::Faults { tracepoint: Some(tracepoint), .. } => (PERF_TYPE_TRACEPOINT, tracepoint),
    };
    let (sample_type, by) = match event {
        Event::Accesses(_) => (SAMPLE_IP_TID | SAMPLE_ADDR | SAMPLE_DATA_SRC, FLAG_MMAP | FLAG_TASK),
        Event::Faults { tracepoint, maps } => {
            let raw = if tracepoint.is_some() { SAMPLE_RAW } else { 0 };
            let maps = if maps { FLAG_MMAP | FLAG_MMAP_DATA | FLAG_TASK } else { 0 };
            let of = maps | FLAG_EXCLUDE_CALLCHAIN_KERNEL | FLAG_USE_CLOCKID | FLAG_SAMPLE_ID_ALL;
            (SAMPLE_IP_TID | SAMPLE_TIME | SAMPLE_ADDR | SAMPLE_CALLCHAIN | raw, of)
        }
        Event::Maps => {
            let of = FLAG_MMAP | FLAG_MMAP_DATA | FLAG_TASK | FLAG_USE_CLOCKID | FLAG_SAMPLE_ID_ALL;
            (SAMPLE_IP_TID | SAMPLE_TIME, of)
        }
        _ => (SAMPLE_IP_TID, FLAG_FREQUENCY | FLAG_MMAP | FLAG_TASK),
    };
    // The tracepoint is in the kernel's code.
    let user =
        if matches!(event, Event::Faults { tracepoint: Some(_), .. }) { 0 } else { FLAG_EXCLUDE_KERNEL };
    let flags =
        FLAG_DISABLED | FLAG_INHERIT | user | FLAG_EXCLUDE_HV | by | FLAG_ENABLE_ON_EXEC | precision << 15;
    let faults = event.of_faults();
    let attributes = Attributes {
        kind,
        size: if faults { size_of::<Attributes>() as u32 } else { VERSION_1 },
        clock: if faults { libc::CLOCK_MONOTONIC } else { 0 },
        max_stack: if faults { STACK_MAX } else { 0 },
        config,
        frequency: rate,
        sample_type,
        flags,
        ..Attributes::default()
    };
    open_with(&attributes, 0, cpu)
}

fn open_with(attributes: &Attributes, pid: libc::pid_t, cpu: i32) -> io::Result<File> {
    // SAFETY: the attributes are valid and say their size; the result is a new descriptor or -1.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            pid,
            cpu,
            -1,
            FLAG_FD_CLOEXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}

fn parse(event: Event, kind: u32, body: &[u8]) -> Option<Record> {
    let long = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    match kind {
        RECORD_SAMPLE if matches!(event, Event::Faults { .. }) => {
            let depth = long(32)? as usize;
            let frames = 40 + 8 * depth.min(body.len() / 8);
            let mut stack: Vec<u64> =
                (40..frames).step_by(8).filter_map(long).filter(|&frame| frame < CONTEXT_MAX).collect();
            let (mut address, mut code) = (long(24)?, None);
            if let Event::Faults { tracepoint: Some(_), .. } = event {
                // After the length of the raw part and the 8 bytes that all tracepoints have.
                address = long(frames + 12)?;
                code = Some(long(frames + 28)?);
                if stack.first() != Some(&long(frames + 20)?) {
                    stack.insert(0, long(frames + 20)?);
                }
            } else if stack.is_empty() {
                stack.push(long(0)?);
            }
            Some(Record::Fault(Fault { pid: short(8)?, time: long(16)?, address, code, stack, every: 1 }))
        }
        RECORD_SAMPLE => {
            let data = match event {
                Event::Accesses(_) => Some(Access::of(long(16)?, long(24)?)),
                _ => None,
            };
            Some(Record::Sample { address: long(0)?, pid: short(8)?, data })
        }
        RECORD_MMAP => {
            let path = body.get(32..)?.split(|&byte| byte == 0).next()?.to_vec();
            let time = match event {
                _ if event.of_faults() => long(body.len().checked_sub(8)?)?,
                _ => 0,
            };
            Some(Record::Map {
                pid: short(0)?,
                start: long(8)?,
                len: long(16)?,
                offset: long(24)?,
                path,
                time,
            })
        }
        RECORD_FORK => Some(Record::Fork { pid: short(0)?, parent: short(4)?, time: long(16).unwrap_or(0) }),
        RECORD_LOST => Some(Record::Lost(long(8)?)),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart() {
        let mut body = 0x1234_u64.to_le_bytes().to_vec();
        body.extend([7, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(
            parse(Event::CpuClock, RECORD_SAMPLE, &body),
            Some(Record::Sample { pid: 7, address: 0x1234, data: None })
        );
        assert_eq!(
            parse(Event::CpuClock, RECORD_FORK, &body[8..]),
            Some(Record::Fork { pid: 7, parent: 8, time: 0 })
        );
        assert_eq!(parse(Event::CpuClock, RECORD_LOST, &body), Some(Record::Lost(0x0008_0000_0007)));
        assert_eq!(parse(Event::CpuClock, RECORD_SAMPLE, &body[..10]), None);
        let access = Event::Accesses(AccessEvent { kind: 4, config: 0x82d0, precise: true });
        assert_eq!(parse(access, RECORD_SAMPLE, &body), None, "an access has an address");
        for (source, loads, stores, memory) in [
            (0x04_u64, false, true, false),
            (0x02, true, false, false),
            (0x02 | 0x80 << 5, true, false, true),
            (0x02 | 0x09 << 33, true, false, true),
            (0x02 | 0x03 << 33, true, false, false),
        ] {
            let mut body = body.clone();
            body.extend(0xabc0_u64.to_le_bytes());
            body.extend(source.to_le_bytes());
            let access_of = Access { address: 0xabc0, loads, stores, memory };
            let sample = Record::Sample { pid: 7, address: 0x1234, data: Some(access_of) };
            assert_eq!(parse(access, RECORD_SAMPLE, &body), Some(sample));
        }
        let mut body = vec![7, 0, 0, 0, 7, 0, 0, 0];
        for word in [0x1000_u64, 0x2000, 0x3000] {
            body.extend(word.to_le_bytes());
        }
        body.extend(b"/bin/x\0\0");
        let path = b"/bin/x".to_vec();
        let expected = Record::Map { pid: 7, start: 0x1000, len: 0x2000, offset: 0x3000, path, time: 0 };
        assert_eq!(parse(Event::CpuClock, RECORD_MMAP, &body), Some(expected));
    }
}
