//! Results of a long sweep in a file that a killed run takes up again.
//!
//! The file is lines of JSON. The first says what is measured and with which parameters; each of the others
//! is one [`Measurement`]. A line is written whole and on the disk before the next point begins, so that a
//! killed run loses at most the point that it was at; a torn last line is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::figures::Measurement;
use crate::study::Point;

/// What the first line says this file is.
const FORMAT: &str = "strandline measure 1";

/// What is measured and with which parameters. Two runs belong to one file if theirs are the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format's name and version.
    pub format: String,
    /// What is measured, for people.
    pub subject: String,
    /// Everything that the figures depend on, by name: the machine's whole description, lengths of runs,
    /// chosen values.
    pub parameters: BTreeMap<String, serde_json::Value>,
}

impl Header {
    /// A header of this version's format.
    #[must_use]
    pub fn new(subject: &str, parameters: BTreeMap<String, serde_json::Value>) -> Header {
        Header { format: FORMAT.to_owned(), subject: subject.to_owned(), parameters }
    }

    /// The first thing in which `other` differs, as a sentence's end.
    fn difference(&self, other: &Header) -> Option<String> {
        if self.format != other.format {
            return Some(format!("its format is `{}`, this version writes `{}`", other.format, self.format));
        }
        if self.subject != other.subject {
            return Some(format!("it is of {}, not of {}", other.subject, self.subject));
        }
        let names: BTreeSet<&String> = self.parameters.keys().chain(other.parameters.keys()).collect();
        let shown = |value: Option<&serde_json::Value>| match value {
            None => "absent".to_owned(),
            Some(value) => {
                let text = value.to_string();
                if text.len() > 60 { "another value".to_owned() } else { text }
            }
        };
        names.into_iter().find_map(|name| {
            let (there, here) = (other.parameters.get(name), self.parameters.get(name));
            let (name, there, here) = differing(name.clone(), there, here)?;
            Some(format!("its `{name}` is {}, here it is {}", shown(there), shown(here)))
        })
    }
}

/// The first difference of two values within tables that both have, with its dotted name.
fn differing<'a>(
    name: String,
    there: Option<&'a serde_json::Value>,
    here: Option<&'a serde_json::Value>,
) -> Option<(String, Option<&'a serde_json::Value>, Option<&'a serde_json::Value>)> {
    if there == here {
        return None;
    }
    let (Some(serde_json::Value::Object(a)), Some(serde_json::Value::Object(b))) = (there, here) else {
        return Some((name, there, here));
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().find_map(|key| differing(format!("{name}.{key}"), a.get(key), b.get(key)))
}

/// Why a results file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The system refused.
    #[error("{}: {source}{}", .path.display(), remedy(.path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is a device or a folder.
    #[error("{} is no file that results can be kept in", .path.display())]
    NoFile {
        /// What it is.
        path: PathBuf,
    },
    /// A line is no result.
    #[error("{}, line {line}: not a result of `strandline measure --sweep` ({reason}); give another file, or remove this one", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It belongs to another sweep.
    #[error("{} holds another sweep: {difference}; give another file, or the same parameters", .path.display())]
    Different {
        /// The file.
        path: PathBuf,
        /// What differs.
        difference: String,
    },
    /// Another process writes to it.
    #[error("{} is being written by another run", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
}

/// What to do if the file's folder is missing.
fn remedy(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    folder
        .map_or_else(String::new, |folder| format!("; make its folder first: mkdir -p {}", folder.display()))
}

/// An open results file.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    measurements: Vec<Measurement>,
    done: BTreeSet<(String, String, String)>,
}

impl Results {
    /// The file at `path` with what it holds, made if it is not there. Nobody else can write to it until this
    /// is dropped.
    ///
    /// # Errors
    /// If it can't be read and written, holds something else, or belongs to a sweep with another header.
    pub fn open(path: &Path, header: &Header) -> Result<Results, ResultsError> {
        let io = |source| ResultsError::Io { path: path.to_owned(), source };
        // A device may be read for ever, a pipe opened for ever.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(ResultsError::NoFile { path: path.to_owned() });
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(ResultsError::Busy { path: path.to_owned() });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(io(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        // What stands behind the last end of a line was being written when its run was killed.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let damaged = |line, reason: String| ResultsError::Damaged { path: path.to_owned(), line, reason };
        if whole == 0 && !torn_header(&bytes, header) {
            return Err(damaged(1, "it has no line".to_owned()));
        }
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|error| damaged(1, error.to_string()))?;
        let mut lines = text.lines();
        let mut results =
            Results { path: path.to_owned(), file, measurements: Vec::new(), done: BTreeSet::new() };
        if let Some(first) = lines.next() {
            let found: Header = serde_json::from_str(first).map_err(|error| damaged(1, error.to_string()))?;
            if let Some(difference) = header.difference(&found) {
                return Err(ResultsError::Different { path: path.to_owned(), difference });
            }
        }
        for (number, line) in (2..).zip(lines) {
            let found = serde_json::from_str(line).map_err(|error| damaged(number, error.to_string()))?;
            results.remember(found);
        }
        results.file.set_len(whole as u64).map_err(io)?;
        results.file.seek(SeekFrom::End(0)).map_err(io)?;
        if whole == 0 {
            results.write_line(header)?;
        }
        Ok(results)
    }

    /// Whether the point has been measured.
    #[must_use]
    pub fn has(&self, point: &Point) -> bool {
        self.done.contains(&(point.study.to_owned(), point.series.clone(), point.x.to_string()))
    }

    /// Adds a measurement; it is on the disk when this returns.
    ///
    /// # Errors
    /// If it can't be written. The file is then as if the run had been killed.
    pub fn append(&mut self, measurement: &Measurement) -> Result<(), ResultsError> {
        self.write_line(measurement)?;
        self.remember(measurement.clone());
        Ok(())
    }

    /// All measurements, in the order in which they were made.
    #[must_use]
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    fn remember(&mut self, measurement: Measurement) {
        let Measurement { study, series, at, .. } = &measurement;
        self.done.insert((study.clone(), series.clone(), at.clone()));
        self.measurements.push(measurement);
    }

    fn write_line(&mut self, value: &impl Serialize) -> Result<(), ResultsError> {
        let io = |source| ResultsError::Io { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(value).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(io)
    }
}

/// Whether `bytes` are the beginning of the file's first line, or nothing.
fn torn_header(bytes: &[u8], header: &Header) -> bool {
    serde_json::to_vec(header).is_ok_and(|line| line.starts_with(bytes))
}
