//! Files that a user names: their paths as the observed program's kernel names them, and writing them.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The paths made absolute, without symbolic links as far as they exist. Globs stay as they are behind the
/// working directory, and those that begin with a star as they are.
///
/// # Errors
/// When the working directory is gone.
pub fn absolute(paths: &[String]) -> Result<Vec<String>, Error> {
    let resolve = |path: &String| one(path).map_err(|source| Error::Path { path: path.clone(), source });
    paths.iter().map(resolve).collect()
}

fn one(path: &str) -> io::Result<String> {
    if path.starts_with('*') {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)?;
    let found = if path.contains(['*', '?']) { absolute } else { resolved(&absolute) };
    found.into_os_string().into_string().map_err(|_| io::Error::other("it is not UTF-8"))
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

/// Writes a whole file, or leaves the old one: the new one has a temporary name until it is complete. What is
/// no ordinary file, `/dev/stdout` or a symbolic link for instance, is written to directly.
///
/// # Errors
/// The file that can't be written, and why.
pub fn write(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Error> {
    let content = content.as_ref();
    let written = match fs::symlink_metadata(path) {
        Ok(old) if !old.is_file() => fs::write(path, content),
        old => {
            let permissions = old.map_or_else(|_| Permissions::from_mode(0o666), |old| old.permissions());
            replace(path, permissions, |file| file.write_all(content))
        }
    };
    written.map_err(Error::file("write", path))
}

/// Makes a folder for results, with those above it.
///
/// # Errors
/// The folder that can't be made, and why.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::file("make", path))
}

/// Makes a file that has the name only when all is written.
fn replace(
    path: &Path,
    permissions: Permissions,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
    // Without the temporary name, of which the user knows nothing.
    let mut new = new.map_err(|error| io::Error::from(error.kind()))?;
    fill(new.as_file_mut())?;
    // Some file systems tell only now that there is no room.
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        let text = || fs::read_to_string(&file).expect("it is there");
        write(&file, "first").expect("it can be written");
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&file, private.clone()).expect("it is ours");
        write(&file, "second").expect("it can be replaced");
        assert_eq!(text(), "second");
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else may read it now");
        let full = replace(&file, private, |new| {
            new.write_all(b"thi")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(full.is_err());
        assert_eq!(text(), "second");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing is left behind");
        let nowhere = folder.path().join("b/c");
        let error = write(&nowhere, "gone").expect_err("there is no such folder");
        assert!(format!("{error:#}").starts_with(&format!("can't write {}", nowhere.display())), "{error:#}");
    }

    #[test]
    fn what_is_no_ordinary_file_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        write(&link, "text").expect("it is written to");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read_to_string(folder.path().join("file")).expect("it is there"), "text");
        write(Path::new("/dev/null"), "gone").expect("it is written to");
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
