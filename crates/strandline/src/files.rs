//! Files that the user names on the command line: as the observed program's kernel will name them, and what is written to them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The paths made absolute, without symbolic links as far as they exist. Globs stay as they are behind the working
/// directory, and those that begin with a star as they are.
///
/// # Errors
/// When the working directory is gone.
pub fn absolute(paths: &[String]) -> anyhow::Result<Vec<String>> {
    paths.iter().map(|path| one(path).with_context(|| format!("can't tell where {path} is"))).collect()
}

fn one(path: &str) -> anyhow::Result<String> {
    if path.starts_with('*') {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)?;
    let found = if path.contains(['*', '?']) { absolute } else { resolved(&absolute) };
    found.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// Without symbolic links: of the longest part that exists.
fn resolved(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    let Some((part, real)) = existing else { return path.to_owned() };
    match path.strip_prefix(part) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

/// Writes a whole file, or leaves what was there: what is written has another name until it is complete. What is no ordinary file,
/// `/dev/stdout` for instance, is written to as it is.
///
/// # Errors
/// The file that can't be written, and why.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("can't write {}", path.display());
    let ordinary = fs::symlink_metadata(path).map_or(true, |found| found.is_file());
    if !ordinary {
        return fs::write(path, text).with_context(cannot);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It is of no use; what went wrong is told either way.
        drop(fs::remove_file(&new));
    }
    written.with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, new) = (folder.path().join("a"), folder.path().join("a.new"));
        write(&file, "first").expect("it can be written");
        write(&file, "second").expect("it can be replaced");
        assert_eq!(
            (fs::read_to_string(&file).expect("it is there").as_str(), new.exists()),
            ("second", false)
        );
        // Nothing can be written where a folder has the name.
        fs::create_dir(&new).expect("a folder");
        let error = write(&file, "third").expect_err("there is a folder");
        assert!(format!("{error:#}").starts_with(&format!("can't write {}", file.display())), "{error:#}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "second");
        write(Path::new("/dev/null"), "gone").expect("it is written to");
        assert!(!Path::new("/dev/null.new").exists());
    }

    #[test]
    fn paths_become_what_the_kernel_calls_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("its path");
        std::fs::create_dir(real.join("a")).expect("a folder");
        std::os::unix::fs::symlink("a", real.join("b")).expect("a link");
        let text = |path: PathBuf| path.into_os_string().into_string().expect("UTF-8");
        let given =
            [text(real.join("b/new/file")), text(real.join("a/")), "*.db".into(), text(real.join("b/*"))];
        let wanted =
            [text(real.join("a/new/file")), text(real.join("a")), "*.db".into(), text(real.join("b/*"))];
        assert_eq!(absolute(&given).expect("they are absolute"), wanted);
        let here = std::env::current_dir().expect("there is one").canonicalize().expect("its path");
        assert_eq!(absolute(&["x".into()]).expect("it is absolute"), [text(here.join("x"))]);
    }
}
