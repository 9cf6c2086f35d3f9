//! Call stacks of threads that stand at a call, and the names of what is on them.
//!
//! Return addresses come from the unwind tables of the loaded files (`.eh_frame`, which compilers write for C, C++ and
//! Rust unless asked not to), from frame pointers where there are none (Go, just-in-time compilers that keep them).
//! A stack that can't be followed further ends there.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::symbols::Resolver;
use event::Frame;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use libc::user_regs_struct;
use nix::unistd::Pid;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, ReadCache, SegmentFlags};

use crate::look;

/// Return addresses that are looked for.
const DEPTH: usize = 40;
/// Frames that a site keeps.
const FRAMES: usize = 12;
/// Bytes of a stack that are read at once.
const STACK: usize = 4 << 10;
const PAGE: u64 = 4096;
/// Stacks that are remembered, and the longest, in bytes.
const SEEN: usize = 4096;
const SPAN: u64 = 64 << 10;

/// An address in a loaded file, before relocation; of code without a file the address itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    module: u32,
    address: u64,
}

/// The module of code that is in no file.
const NO_MODULE: u32 = u32::MAX;

/// What unwinding needs of a file.
#[derive(Clone)]
struct Sections {
    /// Offset in the file, bytes, address, of what is loaded as code.
    segments: Vec<(u64, u64, u64)>,
    parts: [Option<(u64, Arc<[u8]>)>; 2],
    debug: Option<Arc<[u8]>>,
}

/// What a process has loaded.
struct Loaded {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    /// First address, behind the last one, what to add to an address in the file, the file's number.
    ranges: Vec<(u64, u64, u64, u32)>,
    /// Pages of code that are in no file.
    elsewhere: BTreeSet<u64>,
}

/// Stacks of all processes of a run.
pub struct Stacks {
    files: Vec<PathBuf>,
    numbers: HashMap<PathBuf, u32>,
    sections: HashMap<u32, Option<Sections>>,
    processes: HashMap<i32, Loaded>,
    cache: CacheX86_64,
    resolver: Resolver,
    names: HashMap<Place, Vec<Frame>>,
    /// Stacks by process, code address and top of the stack.
    seen: HashMap<(i32, u64, u64), Seen>,
}

/// A stack, the base pointer, and the words of memory that it was found by.
struct Seen {
    base: u64,
    words: Vec<(u64, u64)>,
    places: Vec<Place>,
}

impl Seen {
    /// Whether a thread has the same words there: its stack is the same then.
    fn holds(&self, pid: Pid, base: u64) -> bool {
        let addresses = || self.words.iter().map(|word| word.0);
        let (Some(from), Some(to)) = (addresses().min(), addresses().max()) else { return false };
        if self.base != base || to - from > SPAN {
            return false;
        }
        let bytes = look::memory(pid, from, (to - from) as usize + 8);
        self.words.iter().all(|&(address, value)| word(from, &bytes, address) == Some(value))
    }
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Stacks {
    /// Nothing is known yet.
    pub fn new() -> Self {
        let (files, numbers, sections, processes, names, seen) = Default::default();
        let (cache, resolver) = (CacheX86_64::new(), Resolver::default());
        Stacks { files, numbers, sections, processes, cache, resolver, names, seen }
    }

    /// The process executes another program, or has ended.
    pub fn forget(&mut self, process: i32) {
        self.processes.remove(&process);
        self.seen.retain(|key, _| key.0 != process);
    }

    /// Where a stopped thread is and whence it was called, innermost first.
    pub fn of(&mut self, pid: Pid, process: i32, registers: &user_regs_struct) -> Vec<Place> {
        let key = (process, registers.rip, registers.rsp);
        if let Some(seen) = self.seen.get(&key).filter(|seen| seen.holds(pid, registers.rbp)) {
            return seen.places.clone();
        }
        let known = self.processes.get(&process).is_some_and(|loaded| loaded.knows(registers.rip));
        if !known {
            self.look(process, registers.rip);
        }
        let Some(loaded) = self.processes.get(&process) else { return Vec::new() };
        let mut stack = Stack::read(pid, registers.rsp);
        let (mut words, mut whole) = (Vec::new(), true);
        let mut read = |address: u64| {
            let found = stack.word(pid, address);
            words.extend(found.map(|value| (address, value)));
            whole &= found.is_some();
            found.ok_or(())
        };
        let start = UnwindRegsX86_64::new(registers.rip, registers.rsp, registers.rbp);
        let mut frames = loaded.unwinder.iter_frames(registers.rip, start, &mut self.cache, &mut read);
        let mut places = Vec::new();
        while places.len() < DEPTH
            && let Ok(Some(frame)) = frames.next()
        {
            places.push(loaded.place(frame.address_for_lookup()));
        }
        if whole {
            if self.seen.len() >= SEEN {
                self.seen.clear();
            }
            self.seen.insert(key, Seen { base: registers.rbp, words, places: places.clone() });
        }
        places
    }

    /// The functions of a stack: without what the C library and the languages' own libraries do in between, up to the
    /// program's entry.
    pub fn names(&mut self, call: &str, places: &[Place]) -> Vec<Frame> {
        let mut found: Vec<Frame> = Vec::new();
        for &place in places {
            let Some(path) = self.files.get(place.module as usize).cloned() else {
                if found.last().is_none_or(|last| last.function != JIT) {
                    found.push(Frame { function: JIT.to_owned(), file: String::new(), line: 0 });
                }
                continue;
            };
            if found.is_empty() && is_c_library(&path) {
                continue;
            }
            let module = path.file_name().unwrap_or_default().to_string_lossy().into_owned() + "+0x";
            for frame in self.named(place, &path) {
                // Of functions without names, the innermost says enough.
                let nameless = frame.function.starts_with(&module);
                if nameless && found.last().is_some_and(|last| last.function.starts_with(&module)) {
                    continue;
                }
                if found.is_empty() && is_in_between(call, &frame) {
                    continue;
                }
                let entry = is_entry(&frame.function);
                found.push(frame);
                if entry || found.len() == FRAMES {
                    return found;
                }
            }
        }
        if found.iter().all(|frame| frame.function == JIT) {
            found.clear();
        }
        while found.last().is_some_and(|last| is_start(&last.function)) {
            found.pop();
        }
        found
    }

    fn named(&mut self, place: Place, path: &Path) -> Vec<Frame> {
        if let Some(frames) = self.names.get(&place) {
            return frames.clone();
        }
        let site = self.resolver.site(path, place.address);
        let mut frames = site.frames;
        if frames.is_empty() {
            let function = format!("{}+{:#x}", site.module, place.address);
            frames.push(Frame { function, file: String::new(), line: 0 });
        }
        self.names.insert(place, frames.clone());
        frames
    }

    /// Reads what a process has loaded.
    fn look(&mut self, process: i32, address: u64) {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let mut loaded =
            Loaded { unwinder: UnwinderX86_64::new(), ranges: Vec::new(), elsewhere: BTreeSet::new() };
        if let Some(before) = self.processes.remove(&process) {
            loaded.elsewhere = before.elsewhere;
        }
        let mut whole: Vec<(u32, u64, u64, u64)> = Vec::new();
        for (from, to, offset, path) in maps.lines().filter_map(executable) {
            let number = self.number(path);
            let Some(sections) = self.sections(number) else { continue };
            let bias = from.wrapping_sub(sections.address(offset));
            whole.push((number, from, to, bias));
        }
        for (number, from, to, bias) in whole {
            loaded.ranges.push((from, to, bias, number));
            if let Some(Some(sections)) = self.sections.get(&number) {
                let name = self.files[number as usize].display().to_string();
                loaded.unwinder.add_module(Module::new(name, from..to, bias, sections.info()));
            }
        }
        if !loaded.knows(address) {
            loaded.elsewhere.insert(address / PAGE);
        }
        self.processes.insert(process, loaded);
    }

    fn number(&mut self, path: &str) -> u32 {
        let path = PathBuf::from(path);
        let next = self.files.len() as u32;
        *self.numbers.entry(path).or_insert_with_key(|path| {
            self.files.push(path.clone());
            next
        })
    }

    fn sections(&mut self, number: u32) -> Option<&Sections> {
        let path = &self.files[number as usize];
        self.sections.entry(number).or_insert_with(|| Sections::read(path)).as_ref()
    }
}

/// Stands for code that a just-in-time compiler made.
const JIT: &str = "code in no file";

impl Loaded {
    fn knows(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| (range.0..range.1).contains(&address))
            || self.elsewhere.contains(&(address / PAGE))
    }

    fn place(&self, address: u64) -> Place {
        let range = self.ranges.iter().find(|range| (range.0..range.1).contains(&address));
        match range {
            Some(&(_, _, bias, module)) => Place { module, address: address.wrapping_sub(bias) },
            // Such code moves, and nothing names it: all of it is one place.
            None => Place { module: NO_MODULE, address: 0 },
        }
    }
}

impl Sections {
    fn read(path: &Path) -> Option<Sections> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), Arc::from(section.data().ok()?)))
        };
        let segment = |segment: object::Segment<'_, '_, _>| {
            let (offset, len) = segment.file_range();
            (offset, len, segment.address())
        };
        // Linkers that pad nothing leave code and what is before it in one page of the file, at two
        // addresses.
        let is_code = |segment: &object::Segment<'_, '_, _>| match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
            _ => false,
        };
        let segments = file.segments().filter(is_code).map(segment).collect();
        let debug = file.section_by_name(".debug_frame").and_then(|section| {
            let plain = section.compressed_data().ok()?.format == object::CompressionFormat::None;
            plain.then(|| Some(Arc::from(section.data().ok()?)))?
        });
        Some(Sections { segments, parts: [".eh_frame", ".eh_frame_hdr"].map(section), debug })
    }

    /// Where the file wants what is at an offset in it, which is a page's.
    fn address(&self, offset: u64) -> u64 {
        let holds = |&&(from, len, _): &&(u64, u64, u64)| (from / PAGE * PAGE..from + len).contains(&offset);
        let found = self.segments.iter().find(holds);
        found.map_or(offset, |&(from, _, address)| offset.wrapping_add(address.wrapping_sub(from)))
    }

    fn info(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let range = |part: &Option<(u64, Arc<[u8]>)>| {
            part.as_ref().map(|(from, bytes)| *from..*from + bytes.len() as u64)
        };
        let bytes = |part: &Option<(u64, Arc<[u8]>)>| part.as_ref().map(|part| Arc::clone(&part.1));
        let [frames, index] = &self.parts;
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: range(frames),
            eh_frame: bytes(frames),
            eh_frame_hdr_svma: range(index),
            eh_frame_hdr: bytes(index),
            debug_frame: self.debug.clone(),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

/// A line of `/proc/PID/maps` if it is code of a file: first address, end, offset, path.
fn executable(line: &str) -> Option<(u64, u64, u64, &str)> {
    let mut fields = line.splitn(6, ' ');
    let (from, to) = fields.next()?.split_once('-')?;
    let code = fields.next()?.contains('x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = fields.nth(2)?.trim_start();
    (code && path.starts_with('/')).then(|| {
        Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?, offset, path))
    })?
}

/// The innermost part of a stack, and a further piece.
struct Stack {
    from: u64,
    bytes: Vec<u8>,
    further: Option<(u64, Vec<u8>)>,
}

impl Stack {
    fn read(pid: Pid, from: u64) -> Stack {
        Stack { from, bytes: look::pages(pid, from, STACK), further: None }
    }

    fn word(&mut self, pid: Pid, address: u64) -> Option<u64> {
        if let Some(word) = word(self.from, &self.bytes, address) {
            return Some(word);
        }
        if let Some(word) = self.further.as_ref().and_then(|(from, bytes)| word(*from, bytes, address)) {
            return Some(word);
        }
        let bytes = look::pages(pid, address, 4 * STACK);
        let found = word(address, &bytes, address);
        self.further = Some((address, bytes));
        found
    }
}

/// The word at an address in bytes that begin at another one.
fn word(from: u64, bytes: &[u8], address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(from)?).ok()?;
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libc.so", "libc-2", "ld-linux", "libpthread", "ld-musl", "libc.musl"]
        .iter()
        .any(|known| name.starts_with(known))
}

/// Whether a frame between the program's own code and the call is a library's that belongs to the language.
fn is_in_between(call: &str, frame: &Frame) -> bool {
    const BEGINNINGS: [&str; 18] = [
        "std::",
        "<std::",
        "core::",
        "<core::",
        "alloc::",
        "<alloc::",
        "syscall.",
        "internal/",
        "os.",
        "bufio.",
        "io.",
        "runtime.",
        "_IO_",
        "__",
        "golang.org/x/sys/",
        "rustix::",
        "nix::",
        "memmap2::",
    ];
    let function = frame.function.as_str();
    let plain = frame.file.is_empty()
        && (function == call || function.trim_end_matches("64") == call || function == "syscall");
    plain || frame.file.starts_with("/rustc/") || BEGINNINGS.iter().any(|start| function.starts_with(start))
}

/// Whether a function is where the program's own code begins.
fn is_entry(function: &str) -> bool {
    function == "main" || function.ends_with("::main") || function == "main.main"
}

/// Whether a function calls the entry and is of no interest.
fn is_start(function: &str) -> bool {
    function == "_start"
        || function.starts_with("__libc_start")
        || function.starts_with("start_thread")
        || function.starts_with("clone")
        || function.starts_with("runtime.")
        || function.starts_with("libc.so")
}
