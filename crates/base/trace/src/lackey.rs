//! Events from Valgrind's lackey: `valgrind --tool=lackey --trace-mem=yes --log-file=app.lackey ./app`.
//!
//! Lackey prints a line per instruction (`I  04010173,3`), load (` L 1ffeffe7e8,8`), store (` S …`) and
//! modification (` M …`, here a load and a store); the address is hexadecimal, the size decimal. It
//! knows nothing of threads, flushes, fences, synchronisation or code sites, and the [`Source`] says so: all
//! events are one thread's. Instructions are counted exactly.

use std::io::{ErrorKind, Read};

use event::{Batch, Capabilities, Event, InstructionCounts, Op, Sink, SinkError, SiteId, Source, ThreadId};

/// Bytes read at once, and the longest line.
const BUFFER: usize = 1 << 20;
/// Events of a batch.
const BATCH: usize = 4096;

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum LackeyError {
    /// The system refused to read.
    #[error("{file}:{line}: can't read: {source}")]
    Io {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line is none of lackey's.
    #[error(
        "{file}:{line}: not a line of `valgrind --tool=lackey --trace-mem=yes`: {text:?}; \
         use --log-file to keep the program's own output apart"
    )]
    Line {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u64,
        /// How the line starts.
        text: String,
    },
    /// The consumer of the events stopped.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// What was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Imported {
    /// Lines, those of Valgrind itself included.
    pub lines: u64,
    /// Events; a modification is two.
    pub events: u64,
    /// Instructions, those after the last event included.
    pub instructions: u64,
    /// The number of a last line that was cut short and left out: Valgrind was killed.
    pub cut_line: Option<u64>,
}

/// Reads lackey's output to its end and gives the events to `sink`, from `begin` to `finish`.
/// `file` is how messages call the input, which needs no buffer of its own.
///
/// # Errors
/// When reading fails, a line is not lackey's, or the sink stops.
pub fn import<S: Sink + ?Sized>(input: impl Read, file: &str, sink: &mut S) -> Result<Imported, LackeyError> {
    let events = Vec::with_capacity(BATCH + 1);
    let importer = Importer {
        sink,
        begun: false,
        command: Vec::new(),
        events,
        pending: 0,
        imported: Imported::default(),
    };
    importer.run(input, file)
}

struct Importer<'s, S: ?Sized> {
    sink: &'s mut S,
    begun: bool,
    command: Vec<String>,
    events: Vec<Event>,
    /// Instructions since the last event.
    pending: u64,
    imported: Imported,
}

/// A line that was understood.
enum Line {
    Instruction,
    Load(u64, u32),
    Store(u64, u32),
    Modify(u64, u32),
    /// Valgrind's own.
    Remark,
}

impl<S: Sink + ?Sized> Importer<'_, S> {
    fn run(mut self, mut input: impl Read, file: &str) -> Result<Imported, LackeyError> {
        let mut buffer = vec![0; BUFFER];
        let mut filled = 0;
        loop {
            let read = match input.read(&mut buffer[filled..]) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(LackeyError::Io {
                        file: file.to_owned(),
                        line: self.imported.lines + 1,
                        source,
                    });
                }
            };
            filled += read;
            let whole = buffer[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.lines(&buffer[..whole], file)?;
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
            if filled == buffer.len() {
                return Err(line_error(&buffer, file, self.imported.lines + 1));
            }
            if read == 0 {
                break;
            }
        }
        self.last_line(&buffer[..filled], file)?;
        self.push()?;
        self.sink.finish()?;
        Ok(self.imported)
    }

    /// A last line without its line end may be cut anywhere, and then it must not be believed.
    fn last_line(&mut self, rest: &[u8], file: &str) -> Result<(), LackeyError> {
        if rest.is_empty() {
            return Ok(());
        }
        let starts = [&b"I  "[..], b" L ", b" S ", b" M ", b"==", b"--"];
        if !starts.iter().any(|start| rest.starts_with(start) || start.starts_with(rest)) {
            return Err(line_error(rest, file, self.imported.lines + 1));
        }
        self.imported.lines += 1;
        self.imported.cut_line = Some(self.imported.lines);
        Ok(())
    }

    /// Takes whole lines.
    fn lines(&mut self, mut text: &[u8], file: &str) -> Result<(), LackeyError> {
        while !text.is_empty() {
            let Some((line, rest)) = parse(text) else {
                return Err(line_error(text, file, self.imported.lines + 1));
            };
            self.imported.lines += 1;
            match line {
                Line::Instruction => {
                    self.pending += 1;
                    self.imported.instructions += 1;
                }
                Line::Load(addr, len) => self.event(Op::Load { addr, len })?,
                Line::Store(addr, len) => self.event(Op::Store { addr, len })?,
                Line::Modify(addr, len) => {
                    self.event(Op::Load { addr, len })?;
                    self.event(Op::Store { addr, len })?;
                }
                Line::Remark => self.remark(&text[..text.len() - rest.len()]),
            }
            text = rest;
        }
        Ok(())
    }

    fn event(&mut self, op: Op) -> Result<(), LackeyError> {
        // What does not fit is counted with the event after.
        let instructions = u32::try_from(self.pending).unwrap_or(u32::MAX);
        self.pending -= u64::from(instructions);
        self.events.push(Event { op, site: SiteId::UNKNOWN, instructions });
        if self.events.len() >= BATCH { self.push() } else { Ok(()) }
    }

    /// Valgrind's banner names the program before the first event.
    fn remark(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if let Some((_, command)) = line.split_once("== Command: ") {
            self.command = command.split_whitespace().map(str::to_owned).collect();
        }
    }

    fn push(&mut self) -> Result<(), LackeyError> {
        if !self.begun {
            self.begun = true;
            let source = Source {
                producer: "valgrind lackey".to_owned(),
                command: std::mem::take(&mut self.command),
                capabilities: Capabilities::LOADS | Capabilities::STORES,
                instructions: InstructionCounts::Exact,
                sampling: None,
            };
            let missing = self.sink.needs() - source.capabilities;
            if !missing.is_empty() {
                let consumer = self.sink.name();
                return Err(SinkError::Lacks { consumer, producer: source.producer, missing }.into());
            }
            self.sink.begin(&source)?;
        }
        if !self.events.is_empty() {
            self.imported.events += self.events.len() as u64;
            self.sink.push(Batch { thread: ThreadId(0), time_ns: 0, events: &self.events, values: &[] })?;
            self.events.clear();
        }
        Ok(())
    }
}

fn line_error(text: &[u8], file: &str, line: u64) -> LackeyError {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len()).min(60);
    LackeyError::Line {
        file: file.to_owned(),
        line,
        text: String::from_utf8_lossy(&text[..end]).into_owned(),
    }
}

/// The first line of `text`, which ends with a line end, and what is behind it.
#[inline]
fn parse(text: &[u8]) -> Option<(Line, &[u8])> {
    let line: fn(u64, u32) -> Line = match text {
        [b'I', b' ', b' ', ..] => |_, _| Line::Instruction,
        [b' ', b'L', b' ', ..] => Line::Load,
        [b' ', b'S', b' ', ..] => Line::Store,
        [b' ', b'M', b' ', ..] => Line::Modify,
        [b'=', b'=', ..] | [b'-', b'-', ..] => {
            let end = text.iter().position(|byte| *byte == b'\n')?;
            return Some((Line::Remark, &text[end + 1..]));
        }
        _ => return None,
    };
    let (addr, rest) = hexadecimal(&text[3..])?;
    let (len, rest) = decimal(rest)?;
    Some((line(addr, len), rest))
}

/// A number up to a comma, and what is behind that.
#[inline]
fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b',' if at > 0 => return Some((value, &text[at + 1..])),
            _ => return None,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    None
}

/// A number up to the line's end, and what is behind that.
#[inline]
fn decimal(text: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u32;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?,
            b'\n' if at > 0 => return Some((value, &text[at + 1..])),
            b'\r' if at > 0 && text.get(at + 1) == Some(&b'\n') => return Some((value, &text[at + 2..])),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use event::{Collected, Counts};

    const SAMPLE: &str = "==42== Lackey, an example Valgrind tool\n\
        ==42== Command: ./app -n 3\n\
        ==42== \n\
        I  04010173,3\n\
        I  04010176,5\n \
        S 1ffeffe7e8,8\n\
        I  04010e90,4\n \
        M 0421c7cc,4\n \
        L 1ffeffe7e0,16\n\
        --42-- a warning\n\
        I  04010e94,1\n\
        ==42== \n";

    fn events(text: &str) -> Result<(Imported, Collected), LackeyError> {
        let mut collected = Collected::default();
        let imported = import(text.as_bytes(), "a.lackey", &mut collected)?;
        Ok((imported, collected))
    }

    #[test]
    fn lines_become_events() {
        let (imported, collected) = events(SAMPLE).unwrap();
        let event = |op, instructions| Event { op, site: SiteId::UNKNOWN, instructions };
        let expected = [
            event(Op::Store { addr: 0x1f_feff_e7e8, len: 8 }, 2),
            event(Op::Load { addr: 0x421_c7cc, len: 4 }, 1),
            event(Op::Store { addr: 0x421_c7cc, len: 4 }, 0),
            event(Op::Load { addr: 0x1f_feff_e7e0, len: 16 }, 0),
        ];
        assert_eq!(collected.events.iter().map(|(_, event)| *event).collect::<Vec<_>>(), expected);
        assert_eq!(imported, Imported { lines: 12, events: 4, instructions: 4, cut_line: None });
        let source = collected.source.unwrap();
        assert_eq!(source.command, ["./app", "-n", "3"]);
        assert_eq!(source.capabilities, Capabilities::LOADS | Capabilities::STORES);
        assert_eq!(source.instructions, InstructionCounts::Exact);
    }

    #[test]
    fn windows_line_ends_are_the_same() {
        assert_eq!(events(&SAMPLE.replace('\n', "\r\n")).unwrap().1.events, events(SAMPLE).unwrap().1.events);
    }

    #[test]
    fn a_foreign_line_is_named() {
        for bad in
            ["hello", " L 12", " L ,8", " L 1g,8", " L 12,", " L 12,8x", " S 11112222333344445,8", "I 12,3"]
        {
            let error = events(&format!("{SAMPLE}{bad}\nI  0,1\n")).unwrap_err();
            assert!(error.to_string().starts_with("a.lackey:13: "), "{error}");
        }
    }

    #[test]
    fn a_cut_last_line_is_left_out_and_reported() {
        let (whole, _) = events(SAMPLE).unwrap();
        let (imported, _) = events(&format!("{SAMPLE} L 1ffeffe7e0,1")).unwrap();
        assert_eq!(imported, Imported { lines: 13, cut_line: Some(13), ..whole });
        assert!(events(&format!("{SAMPLE}garbage")).is_err());
    }

    #[test]
    fn a_line_without_end_takes_no_endless_memory() {
        let error = import(std::io::repeat(b'I'), "a.lackey", &mut Counts::default()).unwrap_err();
        assert!(matches!(error, LackeyError::Line { line: 1, .. }));
    }

    #[test]
    fn an_empty_input_is_an_empty_run() {
        let (imported, collected) = events("").unwrap();
        assert_eq!(imported, Imported::default());
        assert!(collected.source.is_some());
    }

    /// Gives its text in pieces of any size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(piece in 1usize..200) {
            let mut pieced = Collected::default();
            import(Pieces(SAMPLE.as_bytes(), piece), "a.lackey", &mut pieced).unwrap();
            prop_assert_eq!(pieced.events, events(SAMPLE).unwrap().1.events);
        }

        #[test]
        fn counts_are_those_of_the_text(lines in prop::collection::vec((0..4, any::<u64>(), any::<u32>()), 0..200)) {
            let mut text = String::new();
            let mut expected = [0u64; 4];
            for (kind, addr, len) in lines {
                expected[kind as usize] += 1;
                text += &format!("{} {addr:08x},{len}\n", ["I ", " L", " S", " M"][kind as usize]);
            }
            let mut counts = Counts::default();
            let imported = import(text.as_bytes(), "a.lackey", &mut counts).unwrap();
            prop_assert_eq!(counts.loads, expected[1] + expected[3]);
            prop_assert_eq!(counts.stores, expected[2] + expected[3]);
            prop_assert_eq!(imported.instructions, expected[0]);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = import(&bytes[..], "a.lackey", &mut Counts::default());
        }
    }
}
