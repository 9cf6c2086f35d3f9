//! What decoding needs besides the words: the processes' blocks, the numbers of sites, names and threads.

use std::collections::HashMap;
use std::sync::Arc;

use event::map::Map;
use event::{AccessKind, BlockAccess, BlockShape, FenceKind, HeadTable, Op, SiteId, StrandMark, ThreadId};

use super::address_map::AddressMap;
use super::blocks::{DESCRIPTOR_MAX, Descriptor};
use super::calls::Calls;
use super::code::{Code, Vocabulary};
use super::contexts::{CallStack, Contexts, LiveFrame};
use super::files;
use super::records::{Expansion, Header, RECORD_INSTRUCTIONS, bytes, common};
use abi::{access, descriptor_of, kind, kind_of};

/// Functions of the program's own that are named as callers of what one of them does.
const CALLERS: usize = 3;
/// Frames of a stack that are kept when its thread makes another one, and in all.
const FRAMES: usize = 16;
const FRAMES_MAX: usize = 1024;

/// A process of the run.
#[derive(Default)]
pub struct Process {
    /// Its number in the system.
    pub pid: u32,
    /// The heads of its blocks.
    pub heads: HeadTable,
    /// Sites of records by their code address.
    sites: AddressMap,
}

/// State that all threads' streams share.
pub struct Decoder<C> {
    /// The processes' code.
    pub code: C,
    /// Whether stores come with their bytes.
    pub values: bool,
    /// Whether the sink takes blocks raw.
    pub raw: bool,
    /// Sites and names.
    pub vocabulary: Vocabulary,
    /// By number, as streams name them.
    pub processes: Vec<Process>,
    /// By number, as words name them.
    pub shapes: Vec<Arc<BlockShape>>,
    by_shape: Map<Arc<BlockShape>, u32>,
    by_pid: HashMap<u32, usize>,
    /// Sites in C++'s library with who called, by process, site, and where the calls return to.
    called: HashMap<(usize, SiteId, Vec<u64>), SiteId>,
    /// Sites of the program's own with those who called.
    called_by: HashMap<(SiteId, [SiteId; CALLERS]), SiteId>,
    /// Chains of calls, where functions report them.
    contexts: Contexts,
    /// Frames that lay on a thread's stack when it made another one.
    pub frames: Vec<(ThreadId, LiveFrame)>,
    threads: HashMap<u32, ThreadId>,
    /// Chunks that have been read to their end.
    pub released: Vec<usize>,
    /// Stores left out because their bytes are not known.
    pub stores_without_value: u64,
    /// Words that could not be decoded, and the first header that was not understood.
    pub undecoded: (u64, Option<u64>),
}

impl<C: Code> Decoder<C> {
    /// A decoder that knows nothing yet.
    #[must_use]
    pub fn new(code: C, values: bool) -> Self {
        Decoder {
            code,
            values,
            raw: false,
            vocabulary: Vocabulary::default(),
            processes: Vec::new(),
            shapes: Vec::new(),
            by_shape: Map::default(),
            by_pid: HashMap::new(),
            called: HashMap::new(),
            called_by: HashMap::new(),
            contexts: Contexts::default(),
            frames: Vec::new(),
            threads: HashMap::new(),
            released: Vec::new(),
            stores_without_value: 0,
            undecoded: (0, None),
        }
    }

    /// The number of process `pid`.
    pub fn process(&mut self, pid: u32) -> usize {
        *self.by_pid.entry(pid).or_insert_with(|| {
            self.processes.push(Process { pid, ..Process::default() });
            self.processes.len() - 1
        })
    }

    /// The thread that the wire calls `number`.
    pub fn thread(&mut self, number: u32) -> ThreadId {
        let fresh = ThreadId(self.threads.len() as u32);
        *self.threads.entry(number).or_insert(fresh)
    }

    /// Words of the block that begins with `head`, it included; `None` if no block does.
    #[inline]
    pub fn block_words(&mut self, process: usize, head: u64) -> Option<usize> {
        if let Some(words) = self.processes[process].heads.words(head) {
            return Some(words);
        }
        let known = match descriptor_of(head) {
            Some(descriptor) => self.learn(process, head, descriptor),
            None => kind_of(head) == kind::ACCESS && self.learn_access(process, head),
        };
        if known { self.processes[process].heads.words(head) } else { None }
    }

    /// Reads the descriptor at `address`; false if there is none.
    fn learn(&mut self, process: usize, head: u64, address: u64) -> bool {
        let place = self.code.place(self.processes[process].pid, address);
        let mut bytes = [0; DESCRIPTOR_MAX];
        let read = self.code.read(place, &mut bytes);
        let Some(descriptor) = Descriptor::parse(place.address(), &bytes[..read]) else { return false };
        let located = descriptor.accesses.into_iter().map(|(address, access)| {
            let site = self.vocabulary.site(place.at(address), &mut self.code);
            BlockAccess { site, ..access }
        });
        let shape = BlockShape { accesses: located.collect(), after: descriptor.after };
        self.enter(process, head, shape)
    }

    /// Prepares for accesses by the call that `head` reports of, which are blocks of one access; false if it
    /// makes no sense.
    fn learn_access(&mut self, process: usize, head: u64) -> bool {
        let Header { argument, pc, .. } = Header::new(head);
        let kind = match argument {
            access::LOAD => AccessKind::Load,
            access::STORE => AccessKind::Store,
            access::STORE_NT => AccessKind::StoreNt,
            _ => return false,
        };
        let site = self.site(process, pc);
        let access = BlockAccess { kind, len: None, site, instructions: RECORD_INSTRUCTIONS };
        self.enter(process, head, BlockShape { accesses: vec![access], after: 0 })
    }

    /// Enters a block of this shape. The same code in several processes has one shape.
    fn enter(&mut self, process: usize, head: u64, shape: BlockShape) -> bool {
        let shape = Arc::new(shape);
        let fresh = self.shapes.len() as u32;
        let number = *self.by_shape.entry(Arc::clone(&shape)).or_insert(fresh);
        if number == fresh {
            self.shapes.push(Arc::clone(&shape));
        }
        self.processes[process].heads.learn(head, number, &shape)
    }

    /// The site of a record: its code address is a return address, so the call is what lies before it.
    pub fn site(&mut self, process: usize, pc: u64) -> SiteId {
        if pc == 0 {
            return SiteId::UNKNOWN;
        }
        let process = &mut self.processes[process];
        if let Some(site) = process.sites.get(pc) {
            return SiteId(site);
        }
        let place = self.code.place(process.pid, pc);
        let site = self.vocabulary.site(place.at(place.address().wrapping_sub(1)), &mut self.code);
        process.sites.insert(pc, site.0);
        site
    }

    /// A function of the process has begun, or has ended, as the record says: whether it is one of these.
    pub fn note_call(&mut self, process: usize, record: &[u64], calls: &mut CallStack) -> bool {
        let header = Header::new(record[0]);
        match (header.kind, record.get(1), record.get(2)) {
            (kind::ENTER, Some(&back), Some(&frame)) => {
                self.contexts.enter(calls, process, [header.pc, back, frame]);
            }
            (kind::LEAVE, Some(&frame), _) => calls.leave(frame),
            _ => return false,
        }
        true
    }

    /// The site of the calls under way.
    pub fn context(&mut self, calls: &CallStack) -> SiteId {
        let Decoder { contexts, processes, code, vocabulary, .. } = self;
        contexts.site(calls.chain(), |process| processes[process].pid, code, vocabulary)
    }

    /// Keeps the frames on the stack of a thread that makes another one, which may use what is in them.
    pub fn note_frames(&mut self, thread: ThreadId, calls: &CallStack) {
        for frame in calls.frames().take(FRAMES) {
            if self.frames.len() < FRAMES_MAX && !self.frames.contains(&(thread, frame)) {
                self.frames.push((thread, frame));
            }
        }
    }

    /// The site of what code at `site` did, which was called by `calls`: a function of C++'s library stands
    /// for who called it, too.
    pub fn called(&mut self, process: usize, site: SiteId, calls: &Calls) -> SiteId {
        if calls.is_empty() {
            return site;
        }
        if !self.vocabulary.is_library(site) {
            return self.called_by(process, site, calls);
        }
        let key = (process, site, calls.returns().collect::<Vec<u64>>());
        if let Some(&known) = self.called.get(&key) {
            return known;
        }
        let pid = self.processes[process].pid;
        let (code, vocabulary) = (&mut self.code, &mut self.vocabulary);
        let callers = key.2.iter().map(|&back| {
            let place = code.place(pid, back);
            code.site(place.at(place.address().wrapping_sub(1)))
        });
        let found = vocabulary.called(site, callers);
        self.called.insert(key, found);
        found
    }

    /// The site of what a function of the program's own did, with who called that, if it reported its call.
    fn called_by(&mut self, process: usize, site: SiteId, calls: &Calls) -> SiteId {
        let mut functions = [self.vocabulary.function(site); CALLERS + 1];
        let (mut callers, mut count) = ([SiteId::UNKNOWN; CALLERS], 0);
        for (pc, back) in calls.all().take(CALLERS) {
            let callee = self.site(process, pc);
            let function = functions[count];
            let again = functions[..count].contains(&function);
            if function.is_none() || again || self.vocabulary.function(callee) != function {
                break;
            }
            callers[count] = self.site(process, back);
            count += 1;
            functions[count] = self.vocabulary.function(callers[count - 1]);
        }
        if count == 0 {
            return site;
        }
        let vocabulary = &mut self.vocabulary;
        let known = self.called_by.entry((site, callers));
        *known.or_insert_with(|| vocabulary.called_by(site, &callers[..count]))
    }

    /// The events that a record which is not a block stands for; empty for a stray value, None if it makes no
    /// sense.
    ///
    /// `carry` are the instructions since the thread's last event.
    pub fn expand(&mut self, process: usize, words: &[u64], carry: u32) -> Option<Expansion> {
        let (header, payload) = words.split_first()?;
        let header = Header::new(*header);
        let word = |at: usize| payload.get(at).copied().unwrap_or(0);
        if matches!(header.kind, kind::VALUE | kind::CALL | kind::RETURN | kind::ENTER | kind::LEAVE) {
            return Some(Expansion::default());
        }
        if header.kind == kind::THREAD_START {
            let process = (header.pc != 0).then_some(Op::Process { process: header.pc as u32 });
            let events = [Some(Op::ThreadStart { seq: word(0) }), process, None, None, None];
            return Some(Expansion::several(events, SiteId::UNKNOWN, carry + RECORD_INSTRUCTIONS));
        }
        let site = self.site(process, header.pc);
        if let Some((op, _)) = common(header, [word(0), word(1)]) {
            return Some(Expansion::one(op, site, carry + RECORD_INSTRUCTIONS));
        }
        let argument = header.argument;
        let op = match header.kind {
            kind::ODD_ACCESS => return Expansion::access(argument, word(0), word(1), site, carry),
            kind::FLUSH => return Expansion::flush(argument, word(0), word(1), site, carry),
            kind::ATOMIC => {
                return Expansion::atomic(argument, [word(0), word(1), word(2), word(3)], site, carry);
            }
            kind::FILE => {
                let vocabulary = &mut self.vocabulary;
                let name = |path: &[u8]| vocabulary.name(String::from_utf8_lossy(path).into_owned());
                return files::expand(argument, payload, name, site, carry);
            }
            kind::MAP_OFFSET => Op::MapOffset { addr: word(0), offset: word(1) },
            kind::MAP_SYNC => Op::MapSync { addr: word(0), len: word(1) },
            kind::FENCE => Op::Fence(match argument {
                0 => FenceKind::Store,
                1 => FenceKind::Full,
                2 => FenceKind::Locked,
                _ => return None,
            }),
            kind::SPAWN => Op::Spawn { child: self.thread(word(0) as u32), seq: word(1) },
            kind::THREAD_END => Op::ThreadEnd { seq: word(0) },
            kind::JOIN => Op::Join { thread: self.thread(word(0) as u32), seq: word(1) },
            kind::MAP => {
                let name = self.name(payload.get(3..)?, word(2));
                Op::Map { addr: word(0), len: word(1), name }
            }
            kind::UNMAP => Op::Unmap { addr: word(0), len: word(1) },
            kind::REGION_BEGIN => Op::RegionBegin { region: word(0) },
            kind::REGION_END => Op::RegionEnd { region: word(0) },
            kind::PHASE => Op::Phase { name: self.name(payload.get(1..)?, word(0)) },
            kind::STRAND => Op::Strand(match argument {
                0 => StrandMark::Barrier,
                1 => StrandMark::New,
                2 => StrandMark::Join,
                _ => return None,
            }),
            _ => return None,
        };
        Some(Expansion::one(op, site, carry + RECORD_INSTRUCTIONS))
    }

    /// Counts words as lost.
    pub fn lose(&mut self, words: &[u64]) {
        self.undecoded.0 += words.iter().filter(|word| **word != 0).count() as u64;
        self.undecoded.1 = self.undecoded.1.or(words.first().copied());
    }

    fn name(&mut self, words: &[u64], count: u64) -> event::NameId {
        let name: Vec<u8> = bytes(words, count as usize).collect();
        self.vocabulary.name(String::from_utf8_lossy(&name).into_owned())
    }
}
