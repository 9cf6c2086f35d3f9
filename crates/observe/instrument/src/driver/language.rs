//! The languages whose compilers are stood in for, and why a compiler is not run.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Which compiler is stood in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `cc`
    C,
    /// `c++`
    Cxx,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::C => "C",
            Language::Cxx => "C++",
        })
    }
}

/// Why the compiler was not run.
#[derive(Debug, thiserror::Error)]
pub enum CcError {
    /// `--persist=` with a name of no design.
    #[error("--persist={name}: there is no such design; there are {}", super::arguments::DESIGNS.join(", "))]
    Design {
        /// What was given.
        name: String,
    },
    /// `--persist=` and OpenMP with clang.
    #[error(
        "--persist and {option} with clang: its OpenMP library synchronises unseen; use gcc (--compiler=gcc as \
         the first argument)"
    )]
    OpenMp {
        /// What asks for it.
        option: String,
    },
    /// None is installed, or the named one is empty.
    #[error(
        "no {language} compiler found; install gcc or clang, or name one: --compiler=NAME as the first argument"
    )]
    NoCompiler {
        /// For what.
        language: Language,
    },
    /// Neither of the families whose options we know.
    #[error("{program} is neither gcc nor clang, by what it says to --version")]
    Unknown {
        /// Its name.
        program: String,
    },
    /// A static program has no place for the runtime.
    #[error(
        "{option}: the runtime is a shared library; link dynamically (-static-libgcc and -static-libstdc++ are fine)"
    )]
    Static {
        /// As given.
        option: String,
    },
    /// Two instrumentations of the same accesses.
    #[error("-fsanitize={name} can't be combined with strandline; leave it out of this build")]
    Sanitizer {
        /// The sanitizer.
        name: String,
    },
    /// The toolkit could not be written.
    #[error("can't write {}: {source} (XDG_CACHE_HOME chooses another place)", .path.display())]
    Toolkit {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The compiler did not start.
    #[error("can't run {program}: {source}")]
    Spawn {
        /// Its name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}
