//! A folder that shows a finding without this tool: the image before recovery, the command, the story, and a
//! script.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crash::{Checker, Image, Oracle, Token};

use super::Check;
use super::command::RecoveryCommand;
use super::images::Images;
use super::run::Run;
use crate::error::Error;

/// The second line of the script, by which a folder is known as one of a check.
const OURS: &str = "# Runs the recovery on a copy of the image that a crash left. It fails: see story.txt.";
/// Files that the command names, and that are not larger, are copied.
const COPIED_MAX: u64 = 64 << 20;

/// What recovery knows of an image besides its files.
#[derive(Default)]
struct Beside {
    begun: u64,
    ended: u64,
    printed: Vec<u8>,
    acked: Vec<u8>,
}

impl Oracle for Beside {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        let (begun, ended) = (image.begun, image.ended);
        *self = Beside { begun, ended, printed: image.printed(), acked: image.acked() };
        Ok(())
    }
}

/// The image of a token, laid out for somebody to look at.
#[derive(Clone, Debug)]
pub struct LaidOut {
    /// Where.
    pub folder: PathBuf,
    /// What goes there and runs recovery on it.
    pub command: String,
}

/// Lays the image of a token out below the folder `to`, in place of what is there, and says how to run
/// recovery on it.
pub fn lay_out(
    checker: &Checker<'_>,
    run: &Run,
    command: &RecoveryCommand,
    token: &Token,
    to: &Path,
) -> Result<LaidOut, Error> {
    let failed = |error| Error::file("write", to)(error);
    clear(to, &["image", "stdout", "acks"]).map_err(failed)?;
    let mut images = Images::new(run)?;
    images.apply(&checker.image(token)?);
    images.save(&to.join("image")).map_err(failed)?;
    let beside = beside(checker, token)?;
    fs::write(to.join("stdout"), &beside.printed).map_err(failed)?;
    fs::write(to.join("acks"), &beside.acked).map_err(failed)?;
    let folder = to.canonicalize().map_err(failed)?;
    let text = command.text_on(&images, &folder.join("image"));
    let command = format!(
        "cd {} && STRANDLINE_BEGUN={} STRANDLINE_DONE={} STRANDLINE_POOL={} STRANDLINE_STDOUT={} \
         STRANDLINE_ACKS={} sh -c {}",
        quoted(&std::env::current_dir().map_err(failed)?.to_string_lossy()),
        beside.begun,
        beside.ended,
        quoted(&images.pool_in(&folder.join("image")).to_string_lossy()),
        quoted(&folder.join("stdout").to_string_lossy()),
        quoted(&folder.join("acks").to_string_lossy()),
        quoted(&text),
    );
    Ok(LaidOut { folder, command })
}

fn beside(checker: &Checker<'_>, token: &Token) -> Result<Beside, Error> {
    let mut beside = Beside::default();
    checker.fails(token, &mut beside)?;
    Ok(beside)
}

/// Writes the folder that shows a finding.
pub fn write(
    check: &Check,
    checker: &Checker<'_>,
    run: &Run,
    command: &RecoveryCommand,
    finding: &crash::Finding,
    to: &Path,
) -> Result<(), Error> {
    let failed = |error| Error::file("write", to)(error);
    clear_own(to).map_err(failed)?;
    fs::create_dir_all(to).map_err(failed)?;
    // First of all, so that what is left of a check that is killed is known as ours.
    let file = to.join("run.sh");
    fs::write(&file, format!("#!/bin/sh\n{OURS}\nexit 2\n")).map_err(failed)?;
    fs::create_dir_all(to.join("files")).map_err(failed)?;
    let mut images = Images::new(run)?;
    images.apply(&checker.image(&finding.token)?);
    images.save(&to.join("image")).map_err(failed)?;
    let beside = beside(checker, &finding.token)?;
    fs::write(to.join("stdout"), &beside.printed).map_err(failed)?;
    fs::write(to.join("acks"), &beside.acked).map_err(failed)?;
    copy_files(command.text(), &to.join("files")).map_err(failed)?;
    let pool = images.pool_in(Path::new("$here/work"));
    let text = command.text_on(&images, Path::new("$here/work"));
    let story = finding.story(&run.history).join("\n");
    let program = check.program().map(|program| {
        let words = program.command.iter().map(|word| word.to_string_lossy().into_owned());
        words.collect::<Vec<_>>().join(" ")
    });
    let about = format!(
        "{}\n\n{story}\n\nplatform: {}\nprogram: {}\nrecovery: {}\ntoken: {}\nstrandline {}\n",
        finding.message,
        run.history.platform(),
        program.as_deref().unwrap_or("(of a trace)"),
        command.text(),
        finding.token,
        env!("CARGO_PKG_VERSION"),
    );
    fs::write(to.join("story.txt"), &about).map_err(failed)?;
    let script = format!(
        "#!/bin/sh\n\
         {OURS}\n\
         # files/ has what the command names, as far as it was a file; all else is to be installed.\n\
         here=$(cd \"$(dirname \"$0\")\" && pwd) || exit 2\n\
         rm -rf \"$here/work\"\n\
         cp -a \"$here/image\" \"$here/work\" || exit 2\n\
         export STRANDLINE_BEGUN={} STRANDLINE_DONE={} STRANDLINE_POOL=\"{}\" STRANDLINE_STDOUT=\"$here/stdout\"\n\
         export STRANDLINE_ACKS=\"$here/acks\"\n\
         cd \"$here/files\" || exit 2\n\
         {text}\n\
         status=$?\n\
         echo \"recovery ended with status $status\"\n\
         exit $status\n",
        beside.begun,
        beside.ended,
        pool.display(),
    );
    fs::write(&file, script).map_err(failed)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(())
}

/// Removes the folder that an earlier check has left, and no other.
///
/// # Errors
/// If it has something else in it, or can't be removed.
pub fn clear_own(folder: &Path) -> io::Result<()> {
    let script = folder.join("run.sh");
    let is_ours = fs::read_to_string(&script).is_ok_and(|text| text.lines().nth(1) == Some(OURS));
    let is_empty = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.is_dir() && !is_ours && !is_empty(folder) {
        let remedy = "no check has made it; name a new folder";
        return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, remedy));
    }
    clear(folder, &["image", "stdout", "acks", "files", "work", "story.txt", "run.sh"])
}

/// Removes a folder that an earlier run has left, and no other: one with anything besides `ours` is refused.
fn clear(folder: &Path, ours: &[&str]) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !ours.iter().any(|our| name == *our) {
            let remedy = format!("it has {} in it; name a new folder", name.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, remedy));
        }
    }
    fs::remove_dir_all(folder)
}

/// Copies the files that a command names by relative paths.
fn copy_files(text: &str, to: &Path) -> io::Result<()> {
    let ends = |letter: char| letter.is_whitespace() || ";&|()<>\"'`=".contains(letter);
    for word in text.split(ends).filter(|word| !word.is_empty()) {
        let path = Path::new(word);
        let inside = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        let small = fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= COPIED_MAX);
        if path.is_relative() && inside && small {
            let copy = to.join(path);
            if let Some(folder) = copy.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::copy(path, copy)?;
        }
    }
    Ok(())
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
