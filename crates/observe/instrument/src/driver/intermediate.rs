//! What clang's intermediate code says of the source: which accesses are atomic or volatile. Its instructions
//! do not, so it compiles each source a second time, up to there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::arguments::Arguments;
use super::compiler::Compiler;
use super::flags::headers;
use super::language::CcError;
use super::toolkit::Toolkit;
use crate::rewrite::Atomics;

/// Environment variable by which the assembler gets the file.
const ATOMICS_ENV: &str = "STRANDLINE_ATOMICS";

/// Options that say what is to be made, and where; and those with a value.
const OUTPUTS: [&str; 6] = ["-c", "-S", "-MD", "-MMD", "-MP", "-save-temps"];
const OUTPUTS_WITH_VALUE: [&str; 4] = ["-o", "-MF", "-MT", "-MQ"];

/// A file for the assembler that lists the accesses, as long as this lives.
pub struct Listing(Option<PathBuf>);

impl Listing {
    /// Makes it of the sources that `arguments` name. What does not compile has nothing to list: the
    /// compilation proper says what is wrong.
    pub fn of(arguments: &Arguments, compiler: &Compiler, toolkit: &Toolkit) -> Result<Self, CcError> {
        let mut atomics = Atomics::default();
        let own = own_flags(arguments);
        for &source in &arguments.sources {
            let Some((program, first)) = compiler.command.split_first() else { break };
            let mut command = Command::new(program);
            // A source that does not find `strandline.h` here would have no atomic access.
            command.args(first).args(&own).arg(headers(toolkit)).arg(&arguments.rest[source]);
            command.args(["-w", "-g1", "-fno-lto", "-S", "-emit-llvm", "-o", "-"]);
            command.stdin(Stdio::null()).stderr(Stdio::null());
            if let Ok(output) = command.output() {
                atomics.add_module(&String::from_utf8_lossy(&output.stdout));
            }
        }
        let text = atomics.to_text();
        if text.is_empty() {
            return Ok(Listing(None));
        }
        let path = toolkit.directory().join(format!("atomics.{}", std::process::id()));
        fs::write(&path, text).map_err(|source| CcError::Toolkit { path: path.clone(), source })?;
        Ok(Listing(Some(path)))
    }

    /// Has the assembler that `command` runs find it.
    pub fn hand_to(&self, command: &mut Command) {
        match &self.0 {
            Some(path) => command.env(ATOMICS_ENV, path),
            None => command.env_remove(ATOMICS_ENV),
        };
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A file that stays takes a few bytes of a folder that may be removed.
            let _ = fs::remove_file(path);
        }
    }
}

/// What the listing says that the assembler was handed; nothing if there is none.
pub fn listed() -> Atomics {
    let text = std::env::var_os(ATOMICS_ENV).and_then(|path| fs::read_to_string(path).ok());
    text.map_or_else(Atomics::default, |text| Atomics::of_text(&text))
}

/// The arguments that are neither inputs nor say what is to be made.
fn own_flags(arguments: &Arguments) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut value = false;
    for (index, argument) in arguments.rest.iter().enumerate() {
        let skipped = value || arguments.inputs.contains(&index) || is_output(argument);
        value = !value && OUTPUTS_WITH_VALUE.iter().any(|option| argument == option);
        if !skipped && !value {
            kept.push(argument.clone());
        }
    }
    kept
}

fn is_output(argument: &OsStr) -> bool {
    let joined = |option: &&str| {
        argument.as_bytes().strip_prefix(option.as_bytes()).is_some_and(|value| !value.is_empty())
    };
    OUTPUTS.iter().any(|option| argument == *option) || OUTPUTS_WITH_VALUE.iter().any(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_outputs_are_left_out() {
        let args: Vec<OsString> =
            "-O2 -DX=1 -c a.c -o a.o -MD -MF a.d -I inc b.o -MTx".split(' ').map(OsString::from).collect();
        let arguments = Arguments::parse(&args).expect("understood");
        assert_eq!(own_flags(&arguments), ["-O2", "-DX=1", "-I", "inc"]);
        let sources: Vec<_> = arguments.sources.iter().map(|&at| &arguments.rest[at]).collect();
        assert_eq!(sources, ["a.c"]);
    }
}
