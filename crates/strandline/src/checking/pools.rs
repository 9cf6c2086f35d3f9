//! The program's persistent files: what was in them before the run, and copies as a crash leaves them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crash::{Change, Contents, History};
use rustix::fs::SeekFrom;

/// Files larger than this are not kept: they hold data that no check needs whole.
pub const KEPT_MAX: u64 = 4 << 30;

/// Copies files that the program may change, before it does; `Contents` has them by absolute path.
pub fn before(candidates: &[PathBuf]) -> anyhow::Result<Contents> {
    let mut contents = Contents::default();
    for path in candidates {
        keep(path, 0, &mut contents).with_context(|| path.display().to_string())?;
    }
    Ok(contents)
}

fn keep(path: &Path, depth: u32, contents: &mut Contents) -> anyhow::Result<()> {
    let Ok(path) = path.canonicalize() else { return Ok(()) };
    let about = fs::metadata(&path)?;
    if about.is_dir() && depth < 3 {
        for entry in fs::read_dir(&path)? {
            keep(&entry?.path(), depth + 1, contents)?;
        }
    } else if about.is_file() {
        if about.len() > KEPT_MAX {
            bail!("the file has more than 4 GiB; check a smaller one");
        }
        contents.insert(path.to_string_lossy(), fs::read(&path)?);
    }
    Ok(())
}

/// A folder for images, in memory if there is such a file system.
pub fn memory_folder() -> anyhow::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("strandline-image-")
        .tempdir_in(&place)
        .with_context(|| format!("can't make a folder for images in {}", place.display()))
}

/// One image of all files, in a folder of its own in memory.
#[derive(Debug)]
pub struct Pools {
    folder: tempfile::TempDir,
    masters: Vec<File>,
    names: Vec<String>,
    /// Where recovery finds them.
    paths: Vec<PathBuf>,
    lengths: Vec<u64>,
}

impl Pools {
    /// Images of the files of a history, as they were before the run.
    pub fn new(history: &History, contents: &Contents) -> anyhow::Result<Self> {
        let folder = memory_folder()?;
        let mut images = Pools {
            folder,
            masters: Vec::new(),
            names: history.files().to_vec(),
            paths: Vec::new(),
            lengths: Vec::new(),
        };
        fs::create_dir(images.image_folder())?;
        for (number, name) in history.files().iter().enumerate() {
            let initial = contents.file(name).unwrap_or(&[]);
            let length = history.file_len(number).max(initial.len() as u64);
            let master = images.folder.path().join(format!("master-{number}"));
            let master = OpenOptions::new().read(true).write(true).create_new(true).open(master)?;
            master.set_len(length)?;
            write_without_zeros(&master, initial)?;
            let base = Path::new(name).file_name().unwrap_or("pool".as_ref()).to_owned();
            let mut path = images.image_folder().join(&base);
            if images.paths.contains(&path) {
                path = images.image_folder().join(format!("{number}-{}", base.to_string_lossy()));
            }
            images.masters.push(master);
            images.paths.push(path);
            images.lengths.push(length);
        }
        Ok(images)
    }

    fn image_folder(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Room for other files, outside the image.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What recovery is to work on: the file, or the folder if there are several.
    pub fn pool(&self) -> PathBuf {
        match &*self.paths {
            [path] => path.clone(),
            _ => self.image_folder(),
        }
    }

    /// Each name of the history, and its file.
    pub fn paths(&self) -> Vec<(String, PathBuf)> {
        self.names.iter().cloned().zip(self.paths.iter().cloned()).collect()
    }

    /// Takes over changes.
    pub fn apply(&self, changes: &[Change]) -> io::Result<()> {
        for change in changes {
            let file = usize::from(change.place.file());
            let (at, length) = (change.place.offset(), self.lengths[file]);
            let bytes = change.word.to_le_bytes();
            let inside = length.saturating_sub(at).min(8) as usize;
            self.masters[file].write_all_at(&bytes[..inside], at)?;
        }
        Ok(())
    }

    /// Puts fresh copies where recovery finds them; whatever an earlier recovery left there is gone.
    pub fn lay_out(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.image_folder())? {
            let entry = entry?;
            if !self.paths.contains(&entry.path()) {
                let removed = if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())
                } else {
                    fs::remove_file(entry.path())
                };
                removed?;
            }
        }
        for ((master, path), &length) in self.masters.iter().zip(&self.paths).zip(&self.lengths) {
            let copy = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            copy.set_len(length)?;
            copy_data(master, &copy, length)?;
        }
        Ok(())
    }

    /// Copies the image as recovery would find it.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for ((master, path), &length) in self.masters.iter().zip(&self.paths).zip(&self.lengths) {
            let name = path.file_name().unwrap_or("pool".as_ref());
            let copy = OpenOptions::new().write(true).create(true).truncate(true).open(folder.join(name))?;
            copy.set_len(length)?;
            copy_data(master, &copy, length)?;
        }
        Ok(())
    }
}

fn write_without_zeros(file: &File, bytes: &[u8]) -> io::Result<()> {
    for (number, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|&byte| byte != 0) {
            file.write_all_at(page, number as u64 * 4096)?;
        }
    }
    Ok(())
}

/// Copies what is not a hole.
fn copy_data(from: &File, to: &File, length: u64) -> io::Result<()> {
    let mut buffer = [0; 64 << 10];
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?.min(length);
        at = start;
        while at < end {
            let count = buffer.len().min((end - at) as usize);
            from.read_exact_at(&mut buffer[..count], at)?;
            to.write_all_at(&buffer[..count], at)?;
            at += count as u64;
        }
    }
    Ok(())
}
