//! Lines in, batches of events out.

use std::collections::HashMap;
use std::io::{BufRead, ErrorKind, Read};

use event::{Batch, Definition, Event, Frame, Op, Sampling, Sink, SinkError, Site, SiteId, Source, ThreadId};

use crate::error::ImportError;
use crate::format::Format;
use crate::formats::champsim;
use crate::line::Line;
use crate::packed;

/// Events of a batch.
const BATCH: usize = 4096;
/// Longest line.
const LINE_MAX: usize = 1 << 20;
/// Sites and threads that are told apart; the rest is unknown, or one thread.
const SITES_MAX: usize = 1 << 20;
const THREADS_MAX: usize = 1 << 12;
/// Accesses per one that was kept where a sample does not say.
const PERIOD: u64 = 1000;

/// What was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The format that it was.
    pub format: Format,
    /// Lines, remarks included; records of binary formats.
    pub lines: u64,
    /// Events.
    pub events: u64,
    /// Instructions, as far as the format has them.
    pub instructions: u64,
    /// Threads.
    pub threads: u64,
    /// The number of a last line that was cut short and left out.
    pub cut_line: Option<u64>,
}

/// Reads a trace to its end and gives the events to `sink`, from `begin` to `finish`. The format is known by the first lines
/// unless it is named. `file` is how messages call the input.
///
/// # Errors
/// When reading fails, the format is unknown, a line is not the format's, or the sink stops.
pub fn import<S: Sink + ?Sized>(
    input: impl Read,
    file: &str,
    format: Option<Format>,
    sink: &mut S,
) -> Result<Imported, ImportError> {
    let mut input = packed::open(input, file)?;
    let io = |source| ImportError::Io { file: file.to_owned(), line: 1, source };
    // What a decoder gives at once may be little: the head is collected, and read again in front of the rest.
    let mut head = Vec::new();
    (&mut input).take(1 << 16).read_to_end(&mut head).map_err(io)?;
    let Some(format) = format.or_else(|| Format::of(&head)) else {
        if head.is_empty() {
            return Err(ImportError::Empty { file: file.to_owned() });
        }
        return Err(ImportError::Unknown { file: file.to_owned(), text: excerpt(&head) });
    };
    let mut rest = std::io::Cursor::new(head).chain(input);
    if format == Format::Lackey {
        let own = trace::lackey::import(rest, file, sink)?;
        let (lines, events, instructions) = (own.lines, own.events, own.instructions);
        return Ok(Imported { format, lines, events, instructions, threads: 1, cut_line: own.cut_line });
    }
    let imported = Imported { format, lines: 0, events: 0, instructions: 0, threads: 0, cut_line: None };
    let mut importer = Importer {
        sink,
        begun: false,
        period: 0,
        events: Vec::with_capacity(BATCH),
        thread: 0,
        pending: HashMap::new(),
        code: HashMap::new(),
        threads: HashMap::new(),
        sites: HashMap::new(),
        imported,
    };
    match format {
        Format::ChampSim => importer.records(&mut rest, file)?,
        _ => importer.lines(&mut rest, file)?,
    }
    importer.push()?;
    importer.sink.finish()?;
    importer.imported.threads = importer.threads.len() as u64;
    Ok(importer.imported)
}

struct Importer<'s, S: ?Sized> {
    sink: &'s mut S,
    begun: bool,
    /// Of the first sample.
    period: u64,
    events: Vec<Event>,
    /// Whose these are.
    thread: u32,
    /// Instructions since the last event, and code that ran last, by thread.
    pending: HashMap<u32, u64>,
    code: HashMap<u32, u64>,
    threads: HashMap<u64, u32>,
    sites: HashMap<(u64, Option<(String, String)>), SiteId>,
    imported: Imported,
}

impl<S: Sink + ?Sized> Importer<'_, S> {
    fn lines(&mut self, input: &mut impl BufRead, file: &str) -> Result<(), ImportError> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let number = self.imported.lines + 1;
            let read = input.by_ref().take(LINE_MAX as u64).read_until(b'\n', &mut text);
            let read =
                read.map_err(|source| ImportError::Io { file: file.to_owned(), line: number, source })?;
            if read == 0 {
                return Ok(());
            }
            let whole = text.last() == Some(&b'\n');
            let parsed = std::str::from_utf8(&text)
                .ok()
                .and_then(|text| self.imported.format.parse(text.trim_end_matches(['\n', '\r'])));
            let Some(line) = parsed.filter(|line| whole || line.access.is_none() || read < LINE_MAX) else {
                if !whole && read < LINE_MAX && number > 1 {
                    // The writer was killed.
                    self.imported.lines += 1;
                    self.imported.cut_line = Some(number);
                    return Ok(());
                }
                let (file, format) = (file.to_owned(), self.imported.format);
                return Err(ImportError::Line { file, line: number, format, text: excerpt(&text) });
            };
            self.imported.lines += 1;
            if !whole && line.access.is_some() {
                // An address may be cut anywhere and still be one.
                self.imported.cut_line = Some(number);
                return Ok(());
            }
            self.line(line)?;
        }
    }

    fn records(&mut self, input: &mut impl Read, file: &str) -> Result<(), ImportError> {
        let mut bytes = [0; champsim::RECORD];
        loop {
            let number = self.imported.lines + 1;
            let filled = fill(input, &mut bytes).map_err(|source| ImportError::Io {
                file: file.to_owned(),
                line: number,
                source,
            })?;
            if filled == 0 {
                return Ok(());
            }
            if filled < bytes.len() {
                self.imported.cut_line = Some(number);
                return Ok(());
            }
            let Some(record) = champsim::record(&bytes) else {
                let (file, format) = (file.to_owned(), self.imported.format);
                return Err(ImportError::Line { file, line: number, format, text: excerpt(&bytes) });
            };
            self.imported.lines += 1;
            self.line(Line { instructions: 1, ..Line::remark() })?;
            let reads = record.reads.iter().map(|addr| (false, *addr));
            let all = reads.chain(record.writes.iter().map(|addr| (true, *addr)));
            for (store, addr) in all.filter(|(_, addr)| *addr != 0) {
                self.line(Line { code: record.code, ..Line::access(store, addr, 8) })?;
            }
        }
    }

    fn line(&mut self, line: Line) -> Result<(), ImportError> {
        if line.access.is_none() && line.instructions == 0 {
            return Ok(());
        }
        let next = self.threads.len() as u32;
        let full = self.threads.len() >= THREADS_MAX;
        let thread = match self.threads.get(&line.thread) {
            Some(&thread) => thread,
            None if full => 0,
            None => *self.threads.entry(line.thread).or_insert(next),
        };
        self.imported.instructions += u64::from(line.instructions);
        *self.pending.entry(thread).or_default() += u64::from(line.instructions);
        if line.code != 0 {
            self.code.insert(thread, line.code);
        }
        let Some(access) = line.access else { return Ok(()) };
        if self.period == 0 {
            self.period = if line.period > 1 { line.period } else { PERIOD };
        }
        if thread != self.thread {
            self.push()?;
            self.thread = thread;
        }
        self.begin()?;
        let code = if line.code != 0 { line.code } else { self.code.get(&thread).copied().unwrap_or(0) };
        let site = self.site(code, line.names)?;
        let pending = self.pending.entry(thread).or_default();
        let instructions = u32::try_from(*pending).unwrap_or(u32::MAX);
        *pending -= u64::from(instructions);
        let (addr, len) = (access.addr, access.len);
        let op = if access.store { Op::Store { addr, len } } else { Op::Load { addr, len } };
        self.events.push(Event { op, site, instructions });
        if self.events.len() >= BATCH { self.push() } else { Ok(()) }
    }

    /// The number of a code address, defined when it is first seen.
    fn site(&mut self, code: u64, names: Option<(String, String)>) -> Result<SiteId, ImportError> {
        if code == 0 {
            return Ok(SiteId::UNKNOWN);
        }
        let key = (code, names);
        if let Some(&site) = self.sites.get(&key) {
            return Ok(site);
        }
        if self.sites.len() >= SITES_MAX {
            return Ok(SiteId::UNKNOWN);
        }
        let id = SiteId(self.sites.len() as u32 + 1);
        let (function, module) = key.1.clone().unwrap_or_default();
        let function =
            if function.is_empty() || function == "[unknown]" { format!("{code:#x}") } else { function };
        let frames = vec![Frame { function, file: String::new(), line: 0 }];
        self.sink.define(Definition::Site(id, &Site { frames, module, address: code }))?;
        self.sites.insert(key, id);
        Ok(id)
    }

    fn begin(&mut self) -> Result<(), ImportError> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let format = self.imported.format;
        let sampled = matches!(format, Format::PerfScript | Format::PerfMem);
        let source = Source {
            producer: format.name().to_owned(),
            command: Vec::new(),
            capabilities: format.capabilities(),
            instructions: format.instructions(),
            sampling: sampled.then_some(Sampling { recorded: 1, period: self.period.max(2) }),
        };
        let missing = self.sink.needs() - source.capabilities;
        if !missing.is_empty() {
            let consumer = self.sink.name();
            return Err(SinkError::Lacks { consumer, producer: source.producer, missing }.into());
        }
        Ok(self.sink.begin(&source)?)
    }

    fn push(&mut self) -> Result<(), ImportError> {
        self.begin()?;
        if !self.events.is_empty() {
            self.imported.events += self.events.len() as u64;
            let thread = ThreadId(self.thread);
            self.sink.push(Batch { thread, time_ns: 0, events: &self.events, values: &[] })?;
            self.events.clear();
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn excerpt(text: &[u8]) -> String {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len()).min(60);
    String::from_utf8_lossy(&text[..end]).into_owned()
}
