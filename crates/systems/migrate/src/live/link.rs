//! What both sides of a migration say to each other, and the file that decides whose the tree is.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use fam::Stream;

use crate::error::{Error, Result};
use crate::remote::kill_points;

/// How long one side waits for a word of the other.
pub const PATIENCE: Duration = Duration::from_secs(60);
const DECISION: &str = "decision";
const LINE_MAX: usize = 1 << 16;

/// Where a target waits for its source.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// On this machine.
    Unix(UnixListener),
}

impl Listener {
    /// At `HOST:PORT`, or at a path (which has a `/`).
    ///
    /// # Errors
    /// If it is taken or makes no sense.
    pub fn bind(at: &str) -> Result<Self> {
        let made = if at.contains('/') {
            // A socket that nobody listens at is left over.
            if UnixStream::connect(at).is_err() && is_socket(Path::new(at)) {
                let _ = fs::remove_file(at);
            }
            UnixListener::bind(at).map(Self::Unix)
        } else {
            TcpListener::bind(at).map(Self::Tcp)
        };
        made.map_err(|error| Error::file(at, "cannot be listened at", error))
    }

    /// Its address, for `connect`.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn address(&self) -> Result<String> {
        let fail = |error| Error::file("socket", "has no address", error);
        match self {
            Self::Tcp(one) => Ok(one.local_addr().map_err(fail)?.to_string()),
            Self::Unix(one) => {
                let address = one.local_addr().map_err(fail)?;
                Ok(address.as_pathname().map(|path| path.display().to_string()).unwrap_or_default())
            }
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// If there is none to be had.
    pub fn accept(&self) -> Result<Stream> {
        let stream = match self {
            Self::Tcp(one) => one.accept().map(|(stream, _)| stream.into()),
            Self::Unix(one) => one.accept().map(|(stream, _)| stream.into()),
        };
        stream.map_err(|error| Error::file("socket", "cannot be accepted at", error))
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// A connection to a target.
///
/// # Errors
/// If nobody listens there.
pub fn connect(to: &str) -> Result<Stream> {
    let stream = if to.contains('/') {
        UnixStream::connect(to).map(Stream::from)
    } else {
        TcpStream::connect(to).map(Stream::from)
    };
    stream.map_err(|error| Error::file(to, "no target listens there", error))
}

/// Sends a line.
///
/// # Errors
/// If the other side is gone.
pub fn say(stream: &mut Stream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())?;
    kill_points::changed();
    Ok(())
}

/// Reads a line, byte by byte: what follows it belongs to others.
///
/// # Errors
/// If the other side is gone, or says nothing for so long.
pub fn hear(stream: &mut Stream, patience: Option<Duration>) -> io::Result<String> {
    stream.set_patience(patience)?;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            _ if line.len() == LINE_MAX => return Err(io::ErrorKind::InvalidData.into()),
            other => line.push(other),
        }
    }
}

/// Decides that the tree belongs to `side`, unless that has been decided. Who has it now.
///
/// # Errors
/// If the folder cannot be written.
pub fn decide(folder: &Path, side: &str) -> Result<String> {
    let path = folder.join(DECISION);
    let fresh = folder.join(format!("{DECISION}.{side}"));
    let fail = |error| Error::file(&path, "cannot be written", error);
    fs::write(&fresh, side).map_err(fail)?;
    let linked = fs::hard_link(&fresh, &path);
    kill_points::changed();
    let _ = fs::remove_file(&fresh);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(fail(error)),
        _ => fs::read_to_string(&path).map_err(fail),
    }
}

/// Who has the tree, if that has been decided.
#[must_use]
pub fn decided(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(DECISION)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides decide at the same time, in so many folders: in how many do they disagree?
    fn disagreements(decide: fn(&Path, &str) -> String) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        let rounds: Vec<_> = (0..60).map(|round: i32| folder.path().join(round.to_string())).collect();
        rounds.iter().for_each(|round| fs::create_dir(round).expect("a folder"));
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let side = |name: &'static str| {
                let (rounds, barrier) = (&rounds, &barrier);
                scope.spawn(move || {
                    let one = |round: &std::path::PathBuf| {
                        barrier.wait();
                        decide(round, name)
                    };
                    rounds.iter().map(one).collect::<Vec<String>>()
                })
            };
            let (source, target) = (side("source"), side("target"));
            let (source, target) = (source.join().expect("it ends"), target.join().expect("it ends"));
            source.iter().zip(&target).filter(|(one, other)| one != other).count()
        })
    }

    #[test]
    fn a_decision_is_the_same_for_both_sides_and_one_that_is_not_atomic_is_found() {
        assert_eq!(disagreements(|folder, side| decide(folder, side).expect("written")), 0);
        let twin = disagreements(|folder, side| {
            if let Some(known) = decided(folder) {
                return known;
            }
            std::thread::yield_now();
            fs::write(folder.join(DECISION), side).expect("written");
            side.to_owned()
        });
        println!("the twin that looks first and then writes: {twin} of 60");
        assert!(twin > 0);
    }
}
