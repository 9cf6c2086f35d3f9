//! The command that recovers an image, as the user gave it.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use super::images::Images;
use super::judge::Judge;
use super::pattern::Pattern;
use super::{Check, CheckError, CommandFault};
use crate::error::Error;
use crate::samples;

/// What stands for the image in the command.
const POOL: &str = "POOL";
/// Characters that only a shell understands.
const SHELL: &[char] =
    &['|', '&', ';', '<', '>', '$', '`', '(', ')', '*', '?', '~', '#', '\'', '"', '\\', '\n'];

/// A command that can be run, or a function that stands in for one.
#[derive(Clone, Debug)]
pub struct RecoveryCommand {
    text: String,
    /// Called in place of a command.
    function: Option<Judge>,
    /// Whether it takes a shell.
    shell: bool,
    /// What it prints if it rejects an image, whatever its status is.
    fails_on: Option<String>,
}

impl RecoveryCommand {
    /// Checks that the command can be run, so that a wrong one is an error before anything else happens.
    ///
    /// # Errors
    /// When there is no such program, or the shell can't read the command.
    pub fn new(text: &str) -> Result<Self, CheckError> {
        let Some(program) = text.split_whitespace().next() else { return Err(CheckError::Empty) };
        let command =
            |shell| RecoveryCommand { text: text.to_owned(), function: None, shell, fails_on: None };
        if text.contains(SHELL) || program.contains('=') {
            let answer = shell("-nc", &[text])?;
            if !answer.status.success() {
                let reason = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
                return Err(CheckError::Shell { command: text.to_owned(), reason });
            }
            // Of a longer command only the first word is sure to be run.
            if !program.contains(SHELL) && !program.contains('=') && !shell_knows(program)? {
                return Err(CheckError::Command(CommandFault::UnknownToShell(program.to_owned())));
            }
            return Ok(command(true));
        }
        match samples::find(Path::new(program)) {
            Some(path) if path.is_file() && access(&path, Access::EXEC_OK).is_ok() => Ok(command(false)),
            Some(path) => Err(CheckError::Command(CommandFault::NotExecutable(path))),
            // `test`, `.` and the like are nobody's files on some systems.
            None if shell_knows(program)? => Ok(command(true)),
            None => Err(CheckError::Command(CommandFault::NoProgram(program.to_owned()))),
        }
    }

    /// A function in place of a command; `name` is what messages call it.
    pub fn of_function(name: &str, function: Judge) -> Self {
        RecoveryCommand { text: name.to_owned(), function: Some(function), shell: false, fails_on: None }
    }

    /// The same, if what it prints can show a rejection, too.
    ///
    /// # Errors
    /// When that is no regular expression.
    pub fn failing_on(self, pattern: Option<&str>) -> Result<Self, CheckError> {
        pattern.map(Pattern::new).transpose()?;
        Ok(RecoveryCommand { fails_on: pattern.map(str::to_owned), ..self })
    }

    /// What it prints if it rejects an image.
    pub fn fails_on(&self) -> Option<&str> {
        self.fails_on.as_deref()
    }

    /// The function that is called in place of a command.
    pub fn function(&self) -> Option<&Judge> {
        self.function.as_ref()
    }

    /// Checks that the command names the image, as far as that is known before the run.
    ///
    /// # Errors
    /// When nothing in it can be a file of the run.
    pub fn names_a_file(&self, check: &Check) -> Result<(), CheckError> {
        if self.function.is_some() {
            return Ok(());
        }
        let program = check.program().into_iter();
        let paths = program.clone().flat_map(|program| &program.pmem).chain(&check.files).map(String::as_str);
        let program = program.flat_map(|program| &program.command).skip(1).filter_map(|word| word.to_str());
        let words = self.text.split_whitespace().skip(1);
        let known = program.chain(paths).any(|word| self.text.contains(word));
        if known || self.text.contains(POOL) || words.into_iter().any(|word| word.contains('/')) {
            return Ok(());
        }
        self.names_none()
    }

    fn names_none<T>(&self) -> Result<T, CheckError> {
        Err(CheckError::NamesNoFile { command: self.text.clone() })
    }

    /// The words that run it on these images.
    ///
    /// # Errors
    /// When it does not name the image.
    pub fn words(&self, images: &Images) -> Result<Vec<String>, Error> {
        if self.function.is_some() {
            return Ok(Vec::new());
        }
        let mut text = self.text.clone();
        for (name, path) in images.paths() {
            text = text.replace(&name, &path.to_string_lossy());
        }
        text = replace_word(&text, POOL, &images.pool().to_string_lossy());
        if text == self.text {
            return Ok(self.names_none()?);
        }
        Ok(match self.shell {
            true => vec!["/bin/sh".to_owned(), "-c".to_owned(), text],
            false => text.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// As a shell would run it on a copy of the images in `folder`.
    pub fn text_on(&self, images: &Images, folder: &Path) -> String {
        let here = images.folder().join("image");
        let mut text = self.text.clone();
        for (name, path) in images.paths() {
            let there = path.strip_prefix(&here).map_or_else(|_| path.clone(), |inside| folder.join(inside));
            text = text.replace(&name, &there.to_string_lossy());
        }
        replace_word(&text, POOL, &images.pool_in(folder).to_string_lossy())
    }

    /// Whether a shell runs it, whose own complaints are none about the image.
    pub fn takes_shell(&self) -> bool {
        self.shell
    }

    /// As the user gave it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn shell(option: &str, words: &[&str]) -> Result<std::process::Output, CheckError> {
    let output = Command::new("/bin/sh").arg(option).args(words).stdin(Stdio::null()).output();
    output.map_err(|error| CheckError::Command(CommandFault::NoShell(error)))
}

/// Whether the shell finds something to run under this word.
fn shell_knows(word: &str) -> Result<bool, CheckError> {
    Ok(shell("-c", &["command -v \"$1\"", "sh", word])?.status.success())
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let part_of_name =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let whole = !part_of_name(before.chars().next_back()) && !part_of_name(after.chars().next());
        out.push_str(before);
        out.push_str(if whole { by } else { word });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_stand_for_the_pool() {
        assert_eq!(
            replace_word("./a POOL --file=POOL POOLS xPOOL", "POOL", "/p"),
            "./a /p --file=/p POOLS xPOOL"
        );
    }

    #[test]
    fn what_can_not_be_run_is_refused() {
        for (text, wanted) in [
            ("", "is empty"),
            ("/no/such/program POOL", "no program /no/such/program"),
            ("/dev/null POOL", "/dev/null is not executable"),
            ("/tmp POOL", "/tmp is not executable"),
            ("no-such-program-anywhere POOL && true", "the shell knows no no-such-program-anywhere"),
            ("if true; then POOL", "the shell can't read"),
        ] {
            let error = RecoveryCommand::new(text).expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        for (text, shell) in [
            ("cat POOL", false),
            ("cat POOL | grep -q x", true),
            ("A=1 cat POOL", true),
            ("if test -f POOL; then true; fi", true),
        ] {
            assert_eq!(RecoveryCommand::new(text).expect(text).takes_shell(), shell, "{text}");
        }
    }
}
