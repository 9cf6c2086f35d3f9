//! `strandline cc` and `strandline c++`: stand in for a compiler's driver.
//!
//! The real compiler runs with the user's arguments, the runtime to link before and our flags behind them:
//! its thread-sanitizer pass is switched on (without libtsan), memory functions stay calls, the assembler is
//! [`assemble`](super::assemble), and what is linked gets the runtime. Anything that is no compiling and no
//! linking passes through untouched, and nothing is printed that the compiler would not print: configure
//! scripts read it.
//!
//! With `--as-shipped` the compiler gets none of our flags that change its code, and the assembler takes the
//! accesses from its instructions.
//!
//! With `--persist=DESIGN` the pass is on, the assembler keeps its calls for stores, and what is linked gets
//! the persistency runtime, and a few lines of assembly that hand it the design.
//!
//! Link-time optimisation is taken out of the arguments: its compilations have the linker for a driver.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};

use super::arguments::Arguments;
use super::compiler::{Compiler, DRIVEN_ENV, Family};
use super::flags;
use super::intermediate::Listing;
use super::language::{CcError, Language};
use super::toolkit::{Runtimes, Toolkit};

/// Environment variable that names the C compiler.
pub const CC_ENV: &str = "STRANDLINE_CC";
/// Environment variable that names the C++ compiler.
pub const CXX_ENV: &str = "STRANDLINE_CXX";
/// Environment variable that, if set, lets the driver say on stderr what it changes.
pub const VERBOSE_ENV: &str = "STRANDLINE_VERBOSE";

/// Environment variable that, if set and not 0, is `--as-shipped`; the assembler gets it, too.
pub const AS_SHIPPED_ENV: &str = "STRANDLINE_AS_SHIPPED";

/// Environment variable by which the driver asks its assembler for the dialect of programs that survive by
/// the persistency runtime.
const PERSIST_ENV: &str = "STRANDLINE_PERSIST_CODE";

/// Whether the driver asks for it.
pub fn persists() -> bool {
    std::env::var_os(PERSIST_ENV).is_some()
}

/// Whether the environment asks for code as it is shipped.
pub fn as_shipped() -> bool {
    std::env::var_os(AS_SHIPPED_ENV).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Compiles and links as `cc ARGS…` would, with instrumentation; gives the compiler's exit status.
///
/// `runtimes` are the bytes of the libraries that programs get linked with. `--compiler=NAME` as the
/// first argument chooses the compiler, or else [`CC_ENV`] or `CC`, [`CXX_ENV`] or `CXX`; `--as-shipped`
/// there, or `AS_SHIPPED_ENV`, leaves its code as it is; with `--persist=DESIGN` the program is not to be
/// observed but to survive.
///
/// # Errors
/// If the compiler can't be run or the arguments ask for what can't be instrumented; what the compiler itself
/// finds wrong it says itself, and it is in the exit status.
pub fn compile(language: Language, args: &[OsString], runtimes: &Runtimes) -> Result<ExitStatus, CcError> {
    let arguments = Arguments::parse(args)?;
    let variables = match language {
        Language::C => [CC_ENV, "CC"],
        Language::Cxx => [CXX_ENV, "CXX"],
    };
    let named = arguments.compiler.clone().or_else(|| Compiler::in_environment(variables));
    let compiler = Compiler::find(language, named)?;
    let (program, first) = compiler.command.split_first().ok_or(CcError::NoCompiler { language })?;
    let mut command = Command::new(program);
    command.args(first).env(DRIVEN_ENV, "1");
    // The assembler reads it while the compiler runs.
    let mut listing = None;
    if let Some(option) = &arguments.foreign {
        eprintln!("strandline: {option}: only x86-64 code is instrumented; compiling it as it is");
        command.args(&arguments.rest);
    } else if !arguments.inquiry {
        if arguments.lto_removed && std::env::var_os(VERBOSE_ENV).is_some() {
            eprintln!("strandline: link-time optimisation is left out");
        }
        let toolkit = Toolkit::prepare(runtimes)?;
        command.args(flags::linking(&arguments, &toolkit)).args(&arguments.rest);
        if arguments.persist.is_some() {
            refuse_openmp(&arguments, &compiler)?;
            command.env(PERSIST_ENV, "1").env_remove(AS_SHIPPED_ENV);
            command.args(flags::persistency(&arguments, &compiler, &toolkit));
        } else if arguments.as_shipped || as_shipped() {
            command.env(AS_SHIPPED_ENV, "1").args(flags::shipped(&arguments, &compiler, &toolkit));
            if compiler.family == Family::Clang {
                listing.insert(Listing::of(&arguments, &compiler, &toolkit)?).hand_to(&mut command);
            }
        } else {
            command.args(flags::instrumentation(&arguments, &compiler, &toolkit));
        }
    } else {
        command.args(&arguments.rest);
    }
    let status = command.status().map_err(|source| CcError::Spawn { program: program.clone(), source });
    drop(listing);
    status
}

/// OpenMP is known as gcc compiles it.
fn refuse_openmp(arguments: &Arguments, compiler: &Compiler) -> Result<(), CcError> {
    let asks = |option: &&OsString| {
        let text = option.to_string_lossy();
        *text == *"-fopenmp" || text.starts_with("-fopenmp=")
    };
    match arguments.rest.iter().find(asks) {
        Some(option) if compiler.family == Family::Clang => {
            Err(CcError::OpenMp { option: option.to_string_lossy().into_owned() })
        }
        _ => Ok(()),
    }
}
