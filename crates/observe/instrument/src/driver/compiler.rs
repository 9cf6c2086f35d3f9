//! Which compiler does the work.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::language::{CcError, Language};

/// Environment variable that says to what a compiler starts that we have started it.
pub const DRIVEN_ENV: &str = "STRANDLINE_DRIVEN";

/// What a compiler understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The GNU compilers.
    Gcc,
    /// LLVM's.
    Clang,
}

/// A compiler, and how it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program and arguments that always come first (`ccache gcc`).
    pub command: Vec<String>,
    /// What it understands.
    pub family: Family,
}

impl Compiler {
    /// The name of the compiler in the first of these environment variables that has one; not our own, which
    /// build systems hand on under the same names. `CC` may also be a script that comes back here.
    pub fn in_environment(variables: [&str; 2]) -> Option<String> {
        let driven = std::env::var_os(DRIVEN_ENV).is_some();
        let own = std::env::current_exe().ok().and_then(|path| path.file_name().map(OsStr::to_os_string));
        let is_own = |command: &String| {
            let words = command.split_whitespace();
            words.into_iter().any(|word| Path::new(word).file_name() == own.as_deref())
        };
        let variables = variables.into_iter().take(if driven { 1 } else { 2 });
        let set = variables.filter_map(|name| std::env::var(name).ok());
        set.filter(|command| !command.trim().is_empty()).find(|command| !is_own(command))
    }

    /// The compiler that `named` (an option, or the environment) gives, or else the usual one.
    pub fn find(language: Language, named: Option<String>) -> Result<Self, CcError> {
        let mut command: Vec<String> = match named {
            Some(named) => named.split_whitespace().map(str::to_string).collect(),
            None => vec![usual(language, std::env::var_os("PATH").as_deref())?],
        };
        let Some(last) = command.last_mut() else { return Err(CcError::NoCompiler { language }) };
        if language == Language::Cxx {
            *last = of_cxx(last);
        }
        let family = match family_by_name(last) {
            Some(family) => family,
            None => family_by_version(&command)?,
        };
        Ok(Compiler { command, family })
    }

    /// The first number of its version, if it says one.
    pub fn version(&self) -> Option<u32> {
        let (program, first) = self.command.split_first()?;
        let output = Command::new(program)
            .args(first)
            .arg("-dumpversion")
            .env(DRIVEN_ENV, "1")
            .stderr(Stdio::null())
            .output()
            .ok()?;
        leading_number(&String::from_utf8_lossy(&output.stdout))
    }
}

fn leading_number(text: &str) -> Option<u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The driver for C++ of the compiler whose driver for C this is: they differ in the libraries that they
/// link.
fn of_cxx(command: &str) -> String {
    let (folder, name) = command.rsplit_once('/').map_or(("", command), |(folder, name)| (folder, name));
    let (stem, version) = match name.rsplit_once('-') {
        Some((stem, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => (stem, version),
        _ => (name, ""),
    };
    let stem = match stem.strip_suffix("gcc") {
        Some(target) => format!("{target}g++"),
        None if stem.ends_with("clang") => format!("{stem}++"),
        None => return command.to_owned(),
    };
    let name = if version.is_empty() { stem } else { format!("{stem}-{version}") };
    if folder.is_empty() { name } else { format!("{folder}/{name}") }
}

fn usual(language: Language, path: Option<&OsStr>) -> Result<String, CcError> {
    let names = match language {
        Language::C => ["gcc", "cc", "clang"],
        Language::Cxx => ["g++", "c++", "clang++"],
    };
    names
        .into_iter()
        .find(|name| in_path(name, path).is_some())
        .map(str::to_string)
        .ok_or(CcError::NoCompiler { language })
}

fn in_path(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?).map(|directory| directory.join(name)).find(|file| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// By the name, which costs nothing: `clang-14`, `x86_64-linux-gnu-g++`. `cc` may be either.
fn family_by_name(command: &str) -> Option<Family> {
    let name = Path::new(command).file_name()?.to_str()?;
    if name.contains("clang") {
        return Some(Family::Clang);
    }
    (name.contains("gcc") || name.contains("g++")).then_some(Family::Gcc)
}

fn family_by_version(command: &[String]) -> Result<Family, CcError> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let output = Command::new(program)
        .args(command.get(1..).unwrap_or_default())
        .arg("--version")
        .env(DRIVEN_ENV, "1")
        .stderr(Stdio::null())
        .output()
        .map_err(|source| CcError::Spawn { program: program.to_string(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("clang") {
        Ok(Family::Clang)
    } else if text.contains("Free Software Foundation") {
        Ok(Family::Gcc)
    } else {
        Err(CcError::Unknown { program: command.join(" ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_family() {
        for (name, family) in [
            ("gcc", Some(Family::Gcc)),
            ("/usr/bin/x86_64-linux-gnu-g++-12", Some(Family::Gcc)),
            ("clang++-14", Some(Family::Clang)),
            ("cc", None),
        ] {
            assert_eq!(family_by_name(name), family, "{name}");
        }
    }

    #[test]
    fn a_compiler_is_driven_for_the_language_that_is_compiled() {
        for (given, driver) in [
            ("clang", "clang++"),
            ("clang-14", "clang++-14"),
            ("/usr/bin/x86_64-linux-gnu-gcc-12", "/usr/bin/x86_64-linux-gnu-g++-12"),
            ("g++", "g++"),
            ("clang++-14", "clang++-14"),
            ("c++", "c++"),
        ] {
            assert_eq!(of_cxx(given), driver);
        }
        let found = Compiler::find(Language::Cxx, Some("ccache clang".into())).unwrap();
        assert_eq!((found.command, found.family), (vec!["ccache".into(), "clang++".into()], Family::Clang));
        let found = Compiler::find(Language::C, Some("clang".into())).unwrap();
        assert_eq!(found.command, ["clang"]);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!((leading_number("12\n"), leading_number("9.4.0\n")), (Some(12), Some(9)));
        assert_eq!(leading_number("gcc: error"), None);
    }

    #[test]
    fn a_command_may_have_several_words() {
        let found = Compiler::find(Language::C, Some("ccache clang".into())).unwrap();
        assert_eq!((found.command.len(), found.family), (2, Family::Clang));
        assert!(matches!(Compiler::find(Language::C, Some(" ".into())), Err(CcError::NoCompiler { .. })));
    }

    #[test]
    fn an_empty_path_has_no_compiler() {
        assert!(matches!(usual(Language::Cxx, Some(OsStr::new(""))), Err(CcError::NoCompiler { .. })));
    }
}
