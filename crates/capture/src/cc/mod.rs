//! `strandline cc` and `strandline c++`: stand in for a compiler's driver.
//!
//! The real compiler runs with the user's arguments, the runtime to link before and our flags behind them: its thread-sanitizer pass is switched on
//! (without libtsan), memory functions stay calls, the assembler is [`crate::assembler`], and what is linked gets
//! the runtime. Anything that is no compiling and no linking passes through untouched, and nothing is printed that
//! the compiler would not print: configure scripts read it.
//!
//! Link-time optimisation is taken out of the arguments.

mod arguments;
mod compiler;
mod flags;
mod toolkit;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use arguments::Arguments;
use compiler::Compiler;
use toolkit::Toolkit;

/// Environment variable that names the C compiler.
pub const CC_ENV: &str = "STRANDLINE_CC";
/// Environment variable that names the C++ compiler.
pub const CXX_ENV: &str = "STRANDLINE_CXX";
/// Environment variable that, if set, lets the driver say on stderr what it changes.
pub const VERBOSE_ENV: &str = "STRANDLINE_VERBOSE";

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
    /// None is installed, or the named one is empty.
    #[error(
        "no {language} compiler found; install gcc or clang, or name one: --compiler=NAME as the first argument"
    )]
    NoCompiler {
        /// For what.
        language: Language,
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

/// Compiles and links as `cc ARGS…` would, with instrumentation; gives the compiler's exit status.
///
/// `runtime` are the bytes of the runtime library that programs get linked with. `--compiler=NAME` as the first argument
/// chooses the compiler, or else [`CC_ENV`] and [`CXX_ENV`].
///
/// # Errors
/// If the compiler can't be run or the arguments ask for what can't be instrumented; what the compiler itself finds
/// wrong it says itself, and it is in the exit status.
pub fn run(language: Language, args: &[OsString], runtime: &[u8]) -> Result<ExitStatus, CcError> {
    let arguments = Arguments::parse(args)?;
    let variable = match language {
        Language::C => CC_ENV,
        Language::Cxx => CXX_ENV,
    };
    let named = arguments.compiler.clone().or_else(|| std::env::var(variable).ok());
    let compiler = Compiler::find(language, named)?;
    let (program, first) = compiler.command.split_first().ok_or(CcError::NoCompiler { language })?;
    let mut command = Command::new(program);
    command.args(first);
    if let Some(option) = &arguments.foreign {
        eprintln!("strandline: {option}: only x86-64 code is instrumented; compiling it as it is");
        command.args(&arguments.rest);
    } else if !arguments.inquiry {
        if arguments.lto_removed && std::env::var_os(VERBOSE_ENV).is_some() {
            eprintln!("strandline: link-time optimisation is left out");
        }
        let toolkit = Toolkit::prepare(runtime)?;
        command.args(flags::linking(&arguments, &toolkit)).args(&arguments.rest);
        command.args(flags::instrumentation(&arguments, &compiler, &toolkit));
    } else {
        command.args(&arguments.rest);
    }
    command.status().map_err(|source| CcError::Spawn { program: program.clone(), source })
}
