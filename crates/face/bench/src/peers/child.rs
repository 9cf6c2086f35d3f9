//! A peer in a process of its own: slices go to it as files, and what they took comes back.
//!
//! A slice's file is words in the machine's order: the number of threads, the number of the first operation,
//! for each thread how many operations it has, then the operations, two words each: the id, and kind and
//! length of a scan, 4 bytes each. The peer puts into the last 4 bytes of every sixteenth operation how many
//! nanoseconds it took.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use workload::load::{Kind, Slice, Tally};

use crate::clock::Spent;
use crate::error::Error;
use crate::record::KeyKind;
use crate::runner::{Runner, Use};
use crate::terms::Setup;

/// One of so many operations is timed, as in the harness.
const TIME_ONE_OF: usize = 16;

/// Runs the program on a store in a folder of its own, and uses it.
pub fn compete(program: &Path, name: &str, mode: &str, setup: &Setup, use_it: Use<'_>) -> Result<(), Error> {
    let folder = setup.folder.join(format!("{name}-{}", setup.threads));
    fs::create_dir(&folder).map_err(Error::file("make the folder", &folder))?;
    let key = match setup.key {
        KeyKind::Word => "8",
        KeyKind::Pair => "16",
        KeyKind::Text => "text",
    };
    let numbers = [setup.value as u64, setup.records, u64::from(setup.threads)].map(|n| n.to_string());
    let mut command = Command::new(program);
    command.arg(folder.join("store")).args([mode, key]).args(numbers);
    if setup.memory {
        // libpmemobj takes files in /dev/shm for ordinary ones otherwise, and syncs.
        command.env("PMEM_IS_PMEM_FORCE", "1");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().map_err(|error| Error::of(name, error))?;
    let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(Error::of(name, "it has no pipes"));
    };
    let slice = folder.join("slice");
    let mut peer = Remote { name, process, input: Some(input), output: BufReader::new(output), slice };
    let result = peer.answer().and_then(|_| use_it(&mut peer));
    drop(peer);
    fs::remove_dir_all(&folder).map_err(Error::file("remove", &folder))?;
    result
}

/// The process; ended when dropped.
struct Remote<'a> {
    name: &'a str,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    slice: PathBuf,
}

impl Runner for Remote<'_> {
    fn run(&mut self, slice: &Slice, tally: &mut Tally) -> Result<Spent, Error> {
        fs::write(&self.slice, encoded(slice)).map_err(Error::file("write", &self.slice))?;
        if let Some(input) = &mut self.input {
            // If it has ended, its answer says so.
            _ = writeln!(input, "{}", self.slice.display()).and_then(|()| input.flush());
        }
        let [cpu_ns, wall_ns, found] = self.answer()?;
        tally.operations += slice.operations();
        tally.found += found;
        let bytes = fs::read(&self.slice).map_err(Error::file("read", &self.slice))?;
        record_times(slice, &bytes, tally);
        Ok(Spent { cpu_ns, wall_ns })
    }
}

impl Remote<'_> {
    /// `done CPU WALL FOUND`; anything else is what went wrong.
    fn answer(&mut self) -> Result<[u64; 3], Error> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| Error::of(self.name, error))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["done", numbers @ ..] = &words[..]
            && let Ok(numbers) = numbers.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>()
            && let [cpu, wall, found] = numbers[..]
        {
            return Ok([cpu, wall, found]);
        }
        Err(Error::of(self.name, self.last_words(&line)))
    }

    /// What a peer that has failed says.
    fn last_words(&mut self, line: &str) -> String {
        self.input = None;
        let said = self.process.stderr.take().and_then(|errors| BufReader::new(errors).lines().next());
        match (line.trim().strip_prefix("error "), said.and_then(Result::ok)) {
            (Some(error), _) => error.to_owned(),
            (None, Some(said)) => said,
            (None, None) => "it ended without a word".to_owned(),
        }
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // At the end of its input it closes the store and ends.
        self.input = None;
        _ = self.process.wait();
    }
}

fn number_of(kind: Kind) -> u32 {
    match kind {
        Kind::Insert => 0,
        Kind::Update => 1,
        Kind::Read | Kind::ReadMany => 2,
        Kind::Scan => 3,
        Kind::Modify => 4,
        Kind::Delete => 5,
    }
}

fn encoded(slice: &Slice) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut word = |word: u64| bytes.extend_from_slice(&word.to_ne_bytes());
    word(slice.threads.len() as u64);
    word(slice.first);
    slice.threads.iter().for_each(|ops| word(ops.len() as u64));
    for op in slice.threads.iter().flatten() {
        bytes.extend_from_slice(&op.id.to_ne_bytes());
        bytes.extend_from_slice(&number_of(op.kind).to_ne_bytes());
        bytes.extend_from_slice(&op.count.to_ne_bytes());
    }
    bytes
}

fn record_times(slice: &Slice, bytes: &[u8], tally: &mut Tally) {
    let mut operation = bytes.get(16 + 8 * slice.threads.len()..).unwrap_or_default().chunks_exact(16);
    for ops in &slice.threads {
        for (at, op) in ops.iter().enumerate() {
            let Some(&[.., a, b, c, d]) = operation.next() else { return };
            if at.is_multiple_of(TIME_ONE_OF) {
                tally.record(op.kind, u32::from_ne_bytes([a, b, c, d]).into());
            }
        }
    }
}
