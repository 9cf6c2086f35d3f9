//! Programs in the kernel (eBPF) that record each page fault of a process and its children: address, error
//! code, time, process, and of some the call stack. A record takes a faulting program some 300 ns, a quarter
//! of what the kernel's own report takes, so no fault need be left out. It takes root and a kernel that lets
//! such programs see tracepoints; where they can't be had, [`Recorder::new`] fails and faults are reported as
//! before.
//!
//! The programs are so short that they are assembled here: instructions are those of `linux/bpf.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::btf::offset_in_kernel;
use super::perf::{Fault, attach};
use super::tracing::{EVERY, tracing};

/// Bytes of the ring; a power of two.
const RING: usize = 16 << 20;
const PAGE: usize = 4096;
/// Processes and threads, at most.
const PROCESSES: u32 = 1 << 16;
/// Error codes are below.
const CODES: usize = 32;
/// Behind them: records for which the ring had no room, and children for which the table had none.
const LOST: i32 = 32;
const STRANGERS: i32 = 33;
const COUNTS: u32 = 64;
/// Bytes of a record without and with a call stack of 16 frames.
const SMALL: i32 = 32;
const STACK: i32 = 16 * 8;

/// Which faults are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each, with its call stack.
    Stacks = 0,
    /// Each; one in [`EVERY`] with its call stack.
    Each = 1,
    /// One in [`EVERY`], with its call stack.
    Few = 2,
}

/// The programs and what they write to, until this goes.
pub struct Recorder {
    processes: OwnedFd,
    counts: OwnedFd,
    mode: OwnedFd,
    /// What keeps the programs attached.
    _links: Vec<OwnedFd>,
    _fork: File,
    /// The page with the position of the reader.
    consumer: MmapRaw,
    /// The page with the position of the programs, and the records twice in a row, so that none is torn.
    records: MmapRaw,
}

impl Recorder {
    /// Records what this process forks from now on; what it has itself, if `own`.
    ///
    /// # Errors
    /// The system's, if there are no such programs here or they are not permitted.
    pub fn new(own: bool) -> io::Result<Recorder> {
        const HASH: u32 = 1;
        const ARRAY: u32 = 2;
        const ARRAY_PER_CPU: u32 = 6;
        const RINGBUF: u32 = 27;
        let fork = tracing(&["events/sched/sched_process_fork/id", "events/sched/sched_process_fork/format"])
            .ok_or(io::ErrorKind::NotFound)?;
        let (id, child) = fork_point(&fork).ok_or(io::ErrorKind::InvalidData)?;
        let processes = map(HASH, 4, 4, PROCESSES)?;
        let counts = map(ARRAY_PER_CPU, 4, 8, COUNTS)?;
        let mode = map(ARRAY, 4, 8, 1)?;
        let ring = map(RINGBUF, 0, 0, RING as u32)?;
        let fds = Maps {
            processes: processes.as_raw_fd(),
            counts: counts.as_raw_fd(),
            mode: mode.as_raw_fd(),
            ring: ring.as_raw_fd(),
            disabled: offset_in_kernel("task_struct", "pagefault_disabled")? as i32,
        };
        update(&processes, std::process::id(), u32::from(own))?;
        let fault = load(RAW_TRACEPOINT, &fault_program(&fds))?;
        let forks = load(TRACEPOINT, &fork_program(&fds, child))?;
        let fork = attach(id, forks.as_raw_fd())?;
        let links = [c"page_fault_user", c"page_fault_kernel"];
        let links = links.map(|name| {
            call(
                RAW_TRACEPOINT_OPEN,
                &mut [name.as_ptr().expose_provenance() as u64, fault.as_raw_fd() as u64],
            )
        });
        let links = links.into_iter().collect::<io::Result<Vec<_>>>()?;
        let consumer = MmapOptions::new().len(PAGE).map_raw(&ring)?;
        let records = MmapOptions::new().offset(PAGE as u64).len(PAGE + 2 * RING).map_raw_read_only(&ring)?;
        Ok(Recorder { processes, counts, mode, _links: links, _fork: fork, consumer, records })
    }

    /// From now on.
    pub fn record(&self, mode: Mode) -> io::Result<()> {
        update(&self.mode, 0, mode as u64)
    }

    /// Nothing of this process's own any more.
    pub fn leave_out_own(&self) -> io::Result<()> {
        update(&self.processes, std::process::id(), 0u32)
    }

    /// This process's own, too.
    pub fn take_in_own(&self) -> io::Result<()> {
        update(&self.processes, std::process::id(), 1u32)
    }

    /// Takes out all records that are there.
    pub fn drain(&self, mut take: impl FnMut(Fault)) {
        const BUSY: u32 = 1 << 31;
        const DISCARDED: u32 = 1 << 30;
        // SAFETY: the first word of either page is a position, which the kernel and we access as atomics.
        let (reader, writer) = unsafe {
            (&*self.consumer.as_ptr().cast::<AtomicU64>(), &*self.records.as_ptr().cast::<AtomicU64>())
        };
        let mut at = reader.load(Ordering::Relaxed);
        while at < writer.load(Ordering::Acquire) {
            let start = PAGE + (at as usize & (RING - 1));
            // SAFETY: records lie twice in a row behind the first page and are aligned to 8 bytes; what they
            // hold is complete once the kernel has cleared the first bit of their head, which it does by a
            // release.
            let head = unsafe {
                (*self.records.as_ptr().add(start).cast::<std::sync::atomic::AtomicU32>())
                    .load(Ordering::Acquire)
            };
            if head & BUSY != 0 {
                break;
            }
            let len = (head & !(BUSY | DISCARDED)) as usize;
            if head & DISCARDED == 0 && len <= RING {
                // SAFETY: as above; nobody writes there before the reader's position is beyond.
                let bytes = unsafe { std::slice::from_raw_parts(self.records.as_ptr().add(start + 8), len) };
                if let Some(fault) = parse(bytes) {
                    take(fault);
                }
            }
            at += (len as u64 + 8).next_multiple_of(8);
            reader.store(at, Ordering::Release);
        }
    }

    /// Faults so far by error code, recorded or not.
    pub fn counted(&self) -> io::Result<Vec<u64>> {
        (0..CODES as u32).map(|code| self.count(code)).collect()
    }

    /// Records that were lost.
    pub fn lost(&self) -> io::Result<u64> {
        self.count(LOST as u32)
    }

    /// Processes that were left out.
    pub fn strangers(&self) -> io::Result<u64> {
        self.count(STRANGERS as u32)
    }

    fn count(&self, at: u32) -> io::Result<u64> {
        let mut values = vec![0u64; possible_processors()];
        let (key, value) = (pointer(&at), values.as_mut_ptr().expose_provenance() as u64);
        call_unit(LOOKUP, &mut [self.counts.as_raw_fd() as u64, key, value, 0])?;
        Ok(values.iter().sum())
    }
}

/// Per-processor values are read of all processors that there might be.
fn possible_processors() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or(1024, |last| last + 1)
}

fn parse(bytes: &[u8]) -> Option<Fault> {
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let stack = (short(28)? as i32).clamp(0, STACK) as usize;
    let frames = (0..stack / 8).map_while(|frame| long(SMALL as usize + 8 * frame));
    Some(Fault {
        pid: short(24)?,
        time: long(16)?,
        address: long(0)?,
        code: Some(u64::from(short(8)?)),
        stack: frames.take_while(|&at| at != 0).collect(),
        every: if short(12)? == Mode::Few as u32 { EVERY } else { 1 },
    })
}

/// Number of the tracepoint of new processes, and where the child's number is in its data.
fn fork_point(text: &str) -> Option<(u64, i16)> {
    let id = text.lines().next()?.trim().parse().ok()?;
    let field = text.lines().find(|line| line.contains(" child_pid;"))?;
    let offset = field.split("offset:").nth(1)?.split(';').next()?;
    Some((id, offset.trim().parse().ok()?))
}

// The system call.

const MAP_CREATE: libc::c_long = 0;
const LOOKUP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const TRACEPOINT: u64 = 5;
const RAW_TRACEPOINT: u64 = 17;

fn call_unit(command: libc::c_long, attributes: &mut [u64]) -> io::Result<libc::c_long> {
    // SAFETY: the attributes are as long as is said; what they point to is alive and as large as the command
    // and the map say.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), std::mem::size_of_val(attributes))
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn call(command: libc::c_long, attributes: &mut [u64]) -> io::Result<OwnedFd> {
    let descriptor = call_unit(command, attributes)?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

fn pointer<T>(to: &T) -> u64 {
    std::ptr::from_ref(to).expose_provenance() as u64
}

fn both(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn map(kind: u32, key: u32, value: u32, entries: u32) -> io::Result<OwnedFd> {
    call(MAP_CREATE, &mut [both(kind, key), both(value, entries), 0])
}

fn update<T>(map: &OwnedFd, key: u32, value: T) -> io::Result<()> {
    call_unit(UPDATE, &mut [map.as_raw_fd() as u64, pointer(&key), pointer(&value), 0]).map(|_| ())
}

fn load(kind: u64, program: &[u64]) -> io::Result<OwnedFd> {
    let code = program.as_ptr().expose_provenance() as u64;
    let license = c"GPL".as_ptr().expose_provenance() as u64;
    call(PROG_LOAD, &mut [kind | (program.len() as u64) << 32, code, license, 0, 0, 0])
}

// The programs.

struct Maps {
    processes: i32,
    counts: i32,
    mode: i32,
    ring: i32,
    /// Where a task counts how often its faults are disabled.
    disabled: i32,
}

/// Instructions, with jumps to places that come later.
#[derive(Default)]
struct Code {
    all: Vec<u64>,
    jumps: Vec<(usize, &'static str)>,
    places: Vec<(&'static str, usize)>,
}

const LOAD_MAP: u8 = 0x18;
const LOAD_4: u8 = 0x61;
const LOAD_8: u8 = 0x79;
const STORE_4: u8 = 0x63;
const STORE_8: u8 = 0x7b;
const STORE_4_NUMBER: u8 = 0x62;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const MODULO: u8 = 0x97;
const SHIFT_RIGHT: u8 = 0x77;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_UNEQUAL: u8 = 0x55;
const JUMP_GREATER: u8 = 0x25;
/// Functions of the kernel.
const FIND: i32 = 1;
const INSERT: i32 = 2;
const TIME: i32 = 5;
const PROCESS: i32 = 14;
const TASK: i32 = 35;
const GET_STACK: i32 = 67;
const READ_KERNEL: i32 = 113;
const RESERVE: i32 = 131;
const SUBMIT: i32 = 132;
/// Of the stack: the program's.
const USER_STACK: i32 = 1 << 8;
/// Nobody is woken.
const SILENT: i32 = 1;
/// The register with the end of a program's own memory.
const FRAME: u8 = 10;

impl Code {
    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) -> &mut Code {
        let registers = u64::from(to | from << 4) << 8;
        let offset = u64::from(offset as u16) << 16;
        self.all.push(u64::from(code) | registers | offset | u64::from(number as u32) << 32);
        self
    }

    fn call(&mut self, function: i32) -> &mut Code {
        self.put(CALL, 0, 0, 0, function)
    }

    fn map(&mut self, fd: i32) -> &mut Code {
        self.put(LOAD_MAP, 1, 1, 0, fd).put(0, 0, 0, 0, 0)
    }

    fn equal(&mut self, register: u8, number: i32, place: &'static str) -> &mut Code {
        self.jumps.push((self.all.len(), place));
        self.put(JUMP_EQUAL, register, 0, 0, number)
    }

    fn unequal(&mut self, register: u8, number: i32, place: &'static str) -> &mut Code {
        self.jumps.push((self.all.len(), place));
        self.put(JUMP_UNEQUAL, register, 0, 0, number)
    }

    fn greater(&mut self, register: u8, number: i32, place: &'static str) -> &mut Code {
        self.jumps.push((self.all.len(), place));
        self.put(JUMP_GREATER, register, 0, 0, number)
    }

    fn jump(&mut self, place: &'static str) -> &mut Code {
        self.jumps.push((self.all.len(), place));
        self.put(JUMP, 0, 0, 0, 0)
    }

    fn place(&mut self, name: &'static str) -> &mut Code {
        self.places.push((name, self.all.len()));
        self
    }

    /// Finds the entry whose key is at the end of the program's memory; out, if there is none.
    fn find(&mut self, map: i32) -> &mut Code {
        self.map(map).put(COPY, 2, FRAME, 0, 0).put(ADD, 2, 0, 0, -4).call(FIND).equal(0, 0, "out")
    }

    /// Counts up what register 0 points to; register 9 has the new count.
    fn count(&mut self) -> &mut Code {
        self.put(LOAD_8, 9, 0, 0, 0).put(ADD, 9, 0, 0, 1).put(STORE_8, 0, 9, 0, 0)
    }

    /// Looks the process up.
    fn process(&mut self, map: i32) -> &mut Code {
        self.call(PROCESS).put(SHIFT_RIGHT, 0, 0, 0, 32).put(STORE_4, FRAME, 0, -4, 0).find(map)
    }

    /// A new record, in register 7.
    fn reserve(&mut self, ring: i32, bytes: i32) -> &mut Code {
        self.map(ring).put(SET, 2, 0, 0, bytes).put(SET, 3, 0, 0, 0).call(RESERVE);
        self.equal(0, 0, "lost").put(COPY, 7, 0, 0, 0);
        // Address, error code, mode, time, process.
        self.put(LOAD_8, 1, 6, 0, 0).put(STORE_8, 7, 1, 0, 0);
        self.put(LOAD_8, 1, 6, 16, 0).put(AND, 1, 0, 0, CODES as i32 - 1).put(STORE_4, 7, 1, 8, 0);
        self.put(STORE_4, 7, 8, 12, 0).call(TIME).put(STORE_8, 7, 0, 16, 0);
        self.call(PROCESS).put(SHIFT_RIGHT, 0, 0, 0, 32).put(STORE_4, 7, 0, 24, 0)
    }

    /// The end of each program: what has no room is counted.
    fn finish(mut self, counts: i32, lost: i32) -> Vec<u64> {
        self.jump("out");
        self.place("lost").put(STORE_4_NUMBER, FRAME, 0, -4, lost).find(counts).count();
        self.place("out").put(SET, 0, 0, 0, 0).put(EXIT, 0, 0, 0, 0);
        for (at, name) in self.jumps {
            let place =
                self.places.iter().find(|(place, _)| *place == name).map_or(at + 1, |(_, place)| *place);
            self.all[at] |= ((place - at - 1) as u64 & 0xffff) << 16;
        }
        self.all
    }
}

/// At a fault: arguments are address, registers, error code.
fn fault_program(maps: &Maps) -> Vec<u64> {
    let mut code = Code::default();
    code.put(COPY, 6, 1, 0, 0).process(maps.processes);
    code.put(LOAD_4, 8, 0, 0, 0).equal(8, 0, "out");
    // The kernel tries some accesses with faults disabled, as when it walks a call stack or copies from pages
    // that it must not wait for: these it gives up, and counts none.
    code.call(TASK).put(COPY, 3, 0, 0, 0).put(ADD, 3, 0, 0, maps.disabled);
    code.put(COPY, 1, FRAME, 0, 0).put(ADD, 1, 0, 0, -8).put(SET, 2, 0, 0, 4).call(READ_KERNEL);
    // The reading itself disables them once.
    code.unequal(0, 0, "out").put(LOAD_4, 1, FRAME, -8, 0).greater(1, 1, "out");
    code.put(LOAD_8, 7, 6, 16, 0).put(AND, 7, 0, 0, CODES as i32 - 1).put(STORE_4, FRAME, 7, -4, 0);
    code.find(maps.counts).count();
    code.put(STORE_4_NUMBER, FRAME, 0, -4, 0).find(maps.mode).put(LOAD_8, 8, 0, 0, 0);
    code.equal(8, Mode::Stacks as i32, "stack");
    code.put(MODULO, 9, 0, 0, EVERY as i32).equal(9, 0, "stack").equal(8, Mode::Few as i32, "out");
    code.reserve(maps.ring, SMALL).put(STORE_4_NUMBER, 7, 0, 28, 0).jump("submit");
    code.place("stack").reserve(maps.ring, SMALL + STACK);
    code.put(COPY, 1, 6, 0, 0).put(COPY, 2, 7, 0, 0).put(ADD, 2, 0, 0, SMALL);
    code.put(SET, 3, 0, 0, STACK).put(SET, 4, 0, 0, USER_STACK).call(GET_STACK).put(STORE_4, 7, 0, 28, 0);
    code.place("submit").put(COPY, 1, 7, 0, 0).put(SET, 2, 0, 0, SILENT).call(SUBMIT);
    code.finish(maps.counts, LOST)
}

/// At a new process of one that is recorded: it is, too.
fn fork_program(maps: &Maps, child: i16) -> Vec<u64> {
    let mut code = Code::default();
    code.put(COPY, 6, 1, 0, 0).process(maps.processes);
    code.put(LOAD_4, 1, 6, child, 0).put(STORE_4, FRAME, 1, -8, 0).put(STORE_4_NUMBER, FRAME, 0, -12, 1);
    code.map(maps.processes).put(COPY, 2, FRAME, 0, 0).put(ADD, 2, 0, 0, -8);
    code.put(COPY, 3, FRAME, 0, 0).put(ADD, 3, 0, 0, -12).put(SET, 4, 0, 0, 0).call(INSERT);
    code.unequal(0, 0, "lost");
    code.finish(maps.counts, STRANGERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_child_is_read() {
        let format = "366\nname: sched_process_fork\n\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\t\
                      field:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n";
        assert_eq!(fork_point(format), Some((366, 20)));
        assert_eq!(fork_point("damaged"), None);
    }

    #[test]
    fn records_are_taken_apart() {
        let mut bytes = Vec::new();
        for word in [0x9000u64, 6 | 1 << 32, 77, 5 | 16 << 32, 0x1234, 0x5678, 0x9abc] {
            bytes.extend(word.to_ne_bytes());
        }
        let fault = parse(&bytes).expect("a record");
        assert_eq!((fault.pid, fault.time, fault.address, fault.code), (5, 77, 0x9000, Some(6)));
        assert_eq!((fault.stack, fault.every), (vec![0x1234, 0x5678], 1));
        assert_eq!(parse(&bytes[..20]), None);
    }

    #[test]
    fn jumps_lead_to_their_places() {
        let mut code = Code::default();
        code.equal(3, 7, "out");
        let all = code.finish(1, 2);
        let out = all.len() - 2;
        assert_eq!(all[0] >> 16 & 0xffff, out as u64 - 1);
    }

    /// Each fault of this process is recorded and counted.
    #[test]
    fn own_faults_are_recorded() {
        let recorder = match Recorder::new(true) {
            Ok(recorder) => recorder,
            Err(error) => return println!("skipped: {error}"),
        };
        let pages = 3000;
        let seen = |mode| {
            recorder.record(mode).expect("a mode");
            recorder.drain(|_| ());
            let before: u64 = recorder.counted().expect("counts").iter().sum();
            let memory = memmap2::MmapMut::map_anon(pages * PAGE).expect("memory");
            memory.advise(memmap2::Advice::NoHugePage).ok();
            let mut memory = memory;
            (0..pages).for_each(|page| memory[page * PAGE] = 1);
            let after: u64 = recorder.counted().expect("counts").iter().sum();
            let range = memory.as_ptr().addr() as u64..memory.as_ptr().addr() as u64 + (pages * PAGE) as u64;
            let (mut all, mut stacks) = (0, 0);
            recorder.drain(|fault| {
                if range.contains(&fault.address) {
                    all += 1;
                    stacks += usize::from(!fault.stack.is_empty());
                    assert!(fault.code.is_some_and(|code| code & 6 == 6), "{fault:?}");
                }
            });
            assert!(after - before >= pages as u64, "{before} {after}");
            (all, stacks)
        };
        assert_eq!(seen(Mode::Stacks), (pages, pages));
        let (all, stacks) = seen(Mode::Each);
        assert_eq!(all, pages);
        assert!((pages / 20..pages / 10).contains(&stacks), "{stacks}");
        assert!((pages / 20..pages / 10).contains(&seen(Mode::Few).0));
        recorder.leave_out_own().expect("an update");
        assert_eq!(seen_nothing(&recorder), 0);
    }

    fn seen_nothing(recorder: &Recorder) -> usize {
        recorder.drain(|_| ());
        let memory = vec![1u8; 64 * PAGE];
        std::hint::black_box(&memory);
        let mut all = 0;
        recorder.drain(|_| all += 1);
        all
    }
}
