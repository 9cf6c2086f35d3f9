//! `scan`: files or standard input through regular expressions.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hare::scan::{Match, Scanner};
use hare::{Expression, Reading};

use crate::error::Error;
use crate::observer::{Observer, Progress};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// Expressions, compiled.
pub struct Scan {
    scanner: Scanner,
}

/// A line in which a match ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes, without the line feed.
    pub text: &'t [u8],
}

impl Scan {
    /// Compiles `patterns`.
    ///
    /// # Errors
    /// If an expression is refused.
    pub fn new(patterns: &[String], reading: Reading) -> Result<Scan, Error> {
        let read = patterns.iter().map(|pattern| Expression::read(pattern, reading));
        let expressions: Vec<Expression> = read.collect::<Result<_, _>>()?;
        Ok(Scan { scanner: Scanner::new(&expressions)? })
    }

    /// Calls `each` with every end of a match in `file` (`-` is standard input), in ascending order.
    ///
    /// # Errors
    /// If the file can't be read, or `each` fails.
    pub fn ends(
        &self,
        file: &Path,
        observer: &dyn Observer,
        mut each: impl FnMut(Match) -> io::Result<()>,
    ) -> Result<(), Error> {
        let mut failed = Ok(());
        let mut pass_on = |found: Match| {
            if failed.is_ok() {
                failed = each(found);
            }
        };
        let mut stream = self.scanner.stream();
        pieces(file, observer, |piece| stream.feed(piece, &mut pass_on))?;
        stream.finish(&mut pass_on);
        failed.map_err(Error::Output)
    }

    /// Calls `each` with every line of `file` in which a match ends.
    ///
    /// # Errors
    /// If the file can't be read, or `each` fails.
    pub fn lines(
        &self,
        file: &Path,
        observer: &dyn Observer,
        mut each: impl FnMut(Line<'_>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let mut stream = self.scanner.stream();
        let mut lines = Lines::default();
        let mut failed = Ok(());
        pieces(file, observer, |piece| {
            lines.text.extend_from_slice(piece);
            stream.feed(piece, |found| lines.ends.push(found.end));
            if failed.is_ok() {
                failed = lines.take(stream.reported(), &mut each);
            }
        })?;
        stream.finish(|found| lines.ends.push(found.end));
        failed.and_then(|()| lines.take(u64::MAX, &mut each)).map_err(Error::Output)
    }
}

/// Text whose lines are not yet decided.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    base: u64,
    number: u64,
    ends: Vec<u64>,
}

impl Lines {
    /// Takes the lines that end before `decided`, and the last one at the end of the text.
    fn take(&mut self, decided: u64, each: &mut impl FnMut(Line<'_>) -> io::Result<()>) -> io::Result<()> {
        let (mut at, mut end) = (0, 0);
        while at < self.text.len() {
            let rest = &self.text[at..];
            let length = match rest.iter().position(|&byte| byte == b'\n') {
                Some(length) => length,
                None if decided == u64::MAX => rest.len(),
                None => break,
            };
            let last = self.base + (at + length) as u64;
            if last >= decided {
                break;
            }
            self.number += 1;
            let found = self.ends[end..].iter().take_while(|&&offset| offset <= last).count();
            end += found;
            if found > 0 {
                each(Line { number: self.number, text: &rest[..length] })?;
            }
            at = (at + length + 1).min(self.text.len());
        }
        self.ends.drain(..end);
        self.text.drain(..at);
        self.base += at as u64;
        Ok(())
    }
}

/// Reads `file` piece by piece.
fn pieces(file: &Path, observer: &dyn Observer, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
    let fault = |source| Error::File { doing: "read", path: PathBuf::from(file), source };
    let (mut input, all): (Box<dyn Read>, u64) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let opened = File::open(file).map_err(fault)?;
        let length = opened.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(opened), length)
    };
    let name = file.display().to_string();
    let mut buffer = vec![0; PIECE];
    let mut done = 0;
    loop {
        observer.progress(&Progress::Bytes { doing: "scanning", done, all, name: &name });
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fault(error)),
        };
        each(&buffer[..count]);
        done += count as u64;
    }
    observer.finished();
    Ok(())
}
