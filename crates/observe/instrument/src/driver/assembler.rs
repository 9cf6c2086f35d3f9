//! The `as` that the compiler finds: rewrites the source and hands it to the real one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::rewrite::{Exports, rewrite, rewrite_logged, rewrite_shipped};

use super::compile::{as_shipped, persists};
use super::intermediate::listed;
use super::toolkit::Runtimes;

/// Environment variable that names the real assembler, where it is not the first `as` in `PATH`.
pub const ASSEMBLER_ENV: &str = "STRANDLINE_AS";

/// Options whose value is the next argument.
const WITH_VALUE: [&str; 9] = [
    "-o",
    "-I",
    "--defsym",
    "-defsym",
    "--MD",
    "-MD",
    "--debug-prefix-map",
    "--hash-size",
    "--listing-rhs-width",
];

/// Why nothing was assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssemblerError {
    /// There is no `as` in `PATH` but this one.
    #[error("no assembler found: no `as` in PATH besides Strandline's own (set {ASSEMBLER_ENV} to name one)")]
    NotFound,
    /// The source could not be read.
    #[error("can't read {source_file}: {source}")]
    Read {
        /// Its name as given.
        source_file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The assembler did not start, or went away.
    #[error("can't run {}: {source}", .program.display())]
    Spawn {
        /// Its path.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Where the source comes from.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Standard,
    /// The argument of this index.
    File(usize),
    /// Several files, or an option file: not ours to take apart.
    Opaque,
}

/// Assembles as `as ARGS…` does, instrumentation for one of `runtimes` included; gives the real assembler's
/// exit status.
///
/// Sources for other targets than x86-64 pass through as they are.
pub fn assemble(args: &[OsString], runtimes: &Runtimes) -> Result<ExitStatus, AssemblerError> {
    let program = real_assembler(
        std::env::var_os(ASSEMBLER_ENV).map(PathBuf::from),
        std::env::var_os("PATH").as_deref(),
        std::env::current_exe().ok().as_deref(),
    )
    .ok_or(AssemblerError::NotFound)?;
    let spawn = |source| AssemblerError::Spawn { program: program.clone(), source };
    let input = input(args);
    if !is_x86_64(args) || input == Input::Opaque {
        return Command::new(&program).args(args).status().map_err(spawn);
    }
    let source = read(&input, args)?;
    let text = if persists() {
        rewrite_logged(&source, &Exports::of(runtimes.persist))
    } else if as_shipped() {
        rewrite_shipped(&source, &Exports::of(runtimes.capture), &listed())
    } else {
        rewrite(&source, &Exports::of(runtimes.capture))
    };
    let (Some(text), Input::File(index)) = (&text, &input) else {
        return match (text, &input) {
            // Nothing to change: the assembler may read the file itself.
            (None, Input::File(_)) => Command::new(&program).args(args).status().map_err(spawn),
            (text, _) => feed(&program, args, &[&text.unwrap_or(source)]).map_err(spawn),
        };
    };
    let mut args = args.to_vec();
    let mark = line_mark(&args[*index]);
    args[*index] = "-".into();
    feed(&program, &args, &[&mark, text]).map_err(spawn)
}

/// Runs the assembler with `pieces` as its standard input.
fn feed(program: &Path, args: &[OsString], pieces: &[&[u8]]) -> io::Result<ExitStatus> {
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        for piece in pieces {
            // An assembler that stopped reading has said why.
            if stdin.write_all(piece).is_err() {
                break;
            }
        }
    }
    child.wait()
}

/// Names the file in messages and in line numbers that the assembler makes itself.
fn line_mark(file: &OsStr) -> Vec<u8> {
    let mut mark = b"# 1 \"".to_vec();
    for &byte in file.as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            mark.push(b'\\');
        }
        mark.push(byte);
    }
    mark.extend_from_slice(b"\"\n");
    mark
}

fn read(input: &Input, args: &[OsString]) -> Result<Vec<u8>, AssemblerError> {
    let (name, read) = match input {
        Input::File(index) => (args[*index].display().to_string(), fs::read(&args[*index])),
        Input::Standard | Input::Opaque => {
            let mut text = Vec::new();
            ("standard input".to_string(), io::stdin().lock().read_to_end(&mut text).map(|_| text))
        }
    };
    read.map_err(|source| AssemblerError::Read { source_file: name, source })
}

fn input(args: &[OsString]) -> Input {
    let mut found = Input::Standard;
    let mut index = 0;
    while let Some(arg) = args.get(index) {
        let bytes = arg.as_bytes();
        if WITH_VALUE.iter().any(|option| arg == option) {
            index += 1;
        } else if bytes.first() == Some(&b'@') || arg == "--version" || arg == "--help" {
            return Input::Opaque;
        } else if bytes.first() != Some(&b'-') {
            if found != Input::Standard {
                return Input::Opaque;
            }
            found = Input::File(index);
        }
        index += 1;
    }
    found
}

fn is_x86_64(args: &[OsString]) -> bool {
    std::env::consts::ARCH == "x86_64"
        && !args.iter().any(|arg| arg == "--32" || arg == "--x32" || arg == "-mmnemonic=intel")
}

/// The assembler to run: the one that is named, or else the first in `path` that is not `own`.
fn real_assembler(named: Option<PathBuf>, path: Option<&OsStr>, own: Option<&Path>) -> Option<PathBuf> {
    if named.is_some() {
        return named;
    }
    let own = own.and_then(|own| own.canonicalize().ok());
    std::env::split_paths(path?).map(|directory| directory.join("as")).find(|candidate| {
        let executable = |path: &Path| {
            fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        };
        executable(candidate) && candidate.canonicalize().ok() != own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_input_is_found_among_options() {
        assert_eq!(input(&args("--64 -o a.o a.s")), Input::File(3));
        assert_eq!(input(&args("--64 -o a.o")), Input::Standard);
        assert_eq!(input(&args("-I dir --defsym x=1 - -o a.o")), Input::Standard);
        assert_eq!(input(&args("a.s b.s")), Input::Opaque);
        assert_eq!(input(&args("@options")), Input::Opaque);
        assert!(!is_x86_64(&args("--32 -o a.o a.s")));
    }

    #[test]
    fn the_stand_in_never_finds_itself() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("1"), directory.path().join("2"));
        let own = directory.path().join("strandline");
        for place in [&first, &second] {
            fs::create_dir(place).unwrap();
        }
        for file in [&own, &second.join("as")] {
            fs::write(file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(&own, first.join("as")).unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(real_assembler(None, Some(&path), Some(&own)), Some(second.join("as")));
        assert_eq!(real_assembler(None, Some(first.as_os_str()), Some(&own)), None);
        assert_eq!(real_assembler(Some("x".into()), Some(&path), Some(&own)), Some("x".into()));
    }
}
