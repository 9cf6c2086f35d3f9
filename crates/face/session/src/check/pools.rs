//! The program's persistent files: what was in them before the run, and copies as a crash leaves them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use abi::kept_name;
use crash::{Change, Contents, History};
use rustix::fs::SeekFrom;

use super::CheckError;
use super::place::MEMORY;
use crate::error::Error;
use crate::temporary::Temporary;

/// Files larger than this are not kept: they hold data that no check needs whole.
pub const KEPT_MAX: u64 = 4 << 30;

/// Copies files that the program may change, before it does; `Contents` has them by absolute path.
pub fn before(candidates: &[PathBuf]) -> Result<Contents, CheckError> {
    let mut contents = Contents::default();
    for path in candidates {
        keep(path, 0, &mut contents)?;
    }
    Ok(contents)
}

fn keep(path: &Path, depth: u32, contents: &mut Contents) -> Result<(), CheckError> {
    let Ok(path) = path.canonicalize() else { return Ok(()) };
    let failed = |source| CheckError::Keep { path: path.clone(), source };
    let about = fs::metadata(&path).map_err(failed)?;
    if about.is_dir() && depth < 3 {
        for entry in fs::read_dir(&path).map_err(failed)? {
            keep(&entry.map_err(failed)?.path(), depth + 1, contents)?;
        }
    } else if about.is_file() {
        if about.len() > KEPT_MAX {
            return Err(CheckError::TooLarge { path });
        }
        contents.insert(path.to_string_lossy(), read(&path).map_err(failed)?);
    }
    Ok(())
}

/// Adds what files held when the program first mapped them, as far as nobody knew of them before: `folder`
/// has it by [`kept_name`].
pub fn mapped(folder: &Path, history: &History, contents: &mut Contents) -> Result<(), CheckError> {
    for (number, name) in history.files().iter().enumerate() {
        let name_there = kept_name(name.as_bytes());
        let path = folder.join(String::from_utf8_lossy(&name_there).as_ref());
        if contents.file(name).is_some() || !path.exists() {
            continue;
        }
        let failed = |source| CheckError::Keep { path: path.clone(), source };
        let file = File::open(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        // A fresh file is as long as it was mapped.
        if data(&file, 0, length).map_err(failed)?.is_none() && length <= history.file_len(number) {
            contents.insert(name, Vec::new());
            continue;
        }
        if length > KEPT_MAX {
            return Err(CheckError::TooLarge { path: name.into() });
        }
        contents.insert(name, read(&path).map_err(failed)?);
    }
    Ok(())
}

/// Whether the file was there before the run began.
pub fn is_older(name: &str, started: SystemTime) -> bool {
    fs::metadata(name).and_then(|about| about.created()).is_ok_and(|created| created < started)
}

/// The bytes of a file; memory is touched for those that are not in its holes alone.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; length as usize];
    let mut at = 0;
    while let Some((from, to)) = data(&file, at, length)? {
        file.read_exact_at(&mut bytes[from as usize..to as usize], from)?;
        at = to;
    }
    Ok(bytes)
}

/// Makes a file of these bytes, with holes where a page has only zeros.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    for (number, page) in pages(bytes) {
        file.write_all_at(page, number * PAGE as u64)?;
    }
    Ok(())
}

/// The pages that are not all zeros, by their numbers.
fn pages(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    (0u64..).zip(bytes.chunks(PAGE)).filter(|(_, page)| **page != [0; PAGE][..page.len()])
}

/// A folder for images, in memory if there is such a file system.
fn memory_folder() -> Result<Temporary, Error> {
    let memory = Path::new(MEMORY);
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = Temporary::new("strandline-image-", &place);
    folder.map_err(Error::file("make a folder for images in", &place))
}

/// Bytes that are compared and written at once.
pub const PAGE: usize = 4096;
/// Bytes that are read at once.
const BLOCK: usize = 16 * PAGE;

type Page = Box<[u8; PAGE]>;

/// What one file of the image is to hold, and the file that recovery finds.
#[derive(Debug)]
struct Pool {
    name: String,
    /// Where recovery finds it.
    path: PathBuf,
    length: u64,
    /// Pages by number that are not all zeros, or were not.
    pages: BTreeMap<u64, Page>,
}

/// One image of all files, in a folder of its own in memory.
///
/// The files stay from image to image: only pages that differ from what they should be are written, be it
/// that the image has other words or that the recovery before wrote there.
#[derive(Debug)]
pub struct Pools {
    folder: Temporary,
    pools: Vec<Pool>,
}

impl Pools {
    /// Images of the files of a history, as they were before the run.
    pub fn new(history: &History, contents: &Contents) -> Result<Self, Error> {
        let folder = memory_folder()?;
        let image = folder.path().join("image");
        fs::create_dir(&image).map_err(Error::file("make", &image))?;
        let mut pools: Vec<Pool> = Vec::new();
        for (number, name) in history.files().iter().enumerate() {
            let initial = contents.file(name).unwrap_or(&[]);
            let base = Path::new(name).file_name().unwrap_or("pool".as_ref()).to_owned();
            let mut path = image.join(&base);
            if pools.iter().any(|pool| pool.path == path) {
                path = image.join(format!("{number}-{}", base.to_string_lossy()));
            }
            let pages = pages(initial).map(|(number, bytes)| (number, padded(bytes))).collect();
            let length = history.file_len(number).max(initial.len() as u64);
            pools.push(Pool { name: name.clone(), path, length, pages });
        }
        Ok(Pools { folder, pools })
    }

    fn image_folder(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Its folder, with room for other files outside the image.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// What recovery is to work on: the file, or the folder if there are several.
    pub fn pool(&self) -> PathBuf {
        match &*self.pools {
            [pool] => pool.path.clone(),
            _ => self.image_folder(),
        }
    }

    /// Each name of the history, and its file.
    pub fn paths(&self) -> Vec<(String, PathBuf)> {
        self.pools.iter().map(|pool| (pool.name.clone(), pool.path.clone())).collect()
    }

    /// Takes over changes.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let (pool, offset) = (&mut self.pools[usize::from(change.place.file())], change.place.offset());
            let page = pool.pages.entry(offset / PAGE as u64).or_insert_with(|| Box::new([0; PAGE]));
            let at = (offset % PAGE as u64) as usize;
            page[at..at + 8].copy_from_slice(&change.word.to_le_bytes());
        }
    }

    /// Sees that recovery finds the image, whatever an earlier recovery left there.
    pub fn lay_out(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.image_folder())? {
            let entry = entry?;
            let about = entry.file_type()?;
            let is_pool = about.is_file() && self.pools.iter().any(|pool| pool.path == entry.path());
            match about.is_dir() {
                _ if is_pool => {}
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        self.pools.iter().try_for_each(|pool| pool.restore(&pool.path))
    }

    /// Copies the image as recovery would find it.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let name = |pool: &Pool| pool.path.file_name().unwrap_or("pool".as_ref()).to_owned();
        self.pools.iter().try_for_each(|pool| pool.restore(&folder.join(name(pool))))
    }
}

impl Pool {
    /// Makes the file at `path` what it should be, and writes no page that is.
    fn restore(&self, path: &Path) -> io::Result<()> {
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = open().or_else(|_| {
            // Recovery may have taken the rights away.
            fs::remove_file(path)?;
            open()
        })?;
        if file.metadata()?.len() != self.length {
            file.set_len(self.length)?;
        }
        let mut buffer = [0; BLOCK];
        let mut next = 0;
        while let Some((start, end)) = data(&file, next, self.length)? {
            self.write_pages(&file, next..start)?;
            let mut at = start;
            while at < end {
                let count = BLOCK.min((end - at) as usize);
                file.read_exact_at(&mut buffer[..count], at)?;
                for (number, found) in (at / PAGE as u64..).zip(buffer[..count].chunks(PAGE)) {
                    let wanted = self.pages.get(&number).map_or(&[0; PAGE], |page| &**page);
                    if *found != wanted[..found.len()] {
                        file.write_all_at(&wanted[..found.len()], number * PAGE as u64)?;
                    }
                }
                at += count as u64;
            }
            next = end.next_multiple_of(PAGE as u64);
        }
        self.write_pages(&file, next..self.length)
    }

    /// Writes what is to be in a hole.
    fn write_pages(&self, file: &File, hole: Range<u64>) -> io::Result<()> {
        let page = PAGE as u64;
        if hole.is_empty() {
            return Ok(());
        }
        for (&number, bytes) in self.pages.range(hole.start / page..hole.end.div_ceil(page)) {
            let inside = self.length.saturating_sub(number * page).min(page) as usize;
            file.write_all_at(&bytes[..inside], number * page)?;
        }
        Ok(())
    }
}

fn padded(bytes: &[u8]) -> Page {
    let mut page = Box::new([0; PAGE]);
    page[..bytes.len()].copy_from_slice(bytes);
    page
}

/// The next piece of a file from `from` on that is no hole: whole pages, but for the file's end.
pub fn data(file: &File, from: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if from >= length {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start / PAGE as u64 * PAGE as u64,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start.max(from)))?.min(length);
    Ok(Some((start.max(from), end)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use crash::{Place, Platform, Recorder};
    use event::{Batch, Definition, Event, NameId, Op, Sink, SiteId, ThreadId};

    use super::*;

    const LEN: usize = 40_000;

    /// Images of a file of 40,000 bytes, of which the first 10,000 were there before.
    fn images() -> Pools {
        let mut recorder = Recorder::new(Platform::ADR);
        recorder.define(Definition::Name(NameId(1), "/dev/shm/pool")).expect("it is taken");
        let op = Op::Map { addr: 4096, len: LEN as u64, name: NameId(1) };
        let events = [Event { op, site: SiteId::UNKNOWN, instructions: 0 }];
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] };
        recorder.push(batch).expect("it is taken");
        let mut contents = Contents::default();
        contents.insert("/dev/shm/pool", [7; 10_000].to_vec());
        Pools::new(&recorder.into_history(), &contents).expect("a folder for images")
    }

    fn change(offset: u64, word: u64) -> Change {
        Change { place: Place::new(0, offset), word }
    }

    #[test]
    fn whatever_recovery_does_the_next_finds_its_image() {
        let mut images = images();
        let path = images.pool();
        let mut expected = vec![0; LEN];
        expected[..10_000].fill(7);
        let steps: [&dyn Fn(&Path); 9] = [
            &|_| {},
            &|path| fs::write(path, [1; 3]).expect("shorter"),
            &|path| fs::write(path, [1; 3 * LEN]).expect("longer"),
            &|path| fs::remove_file(path).expect("gone"),
            &|path| {
                fs::remove_file(path).expect("gone");
                fs::create_dir(path).expect("a folder");
            },
            &|path| {
                fs::rename(path, path.with_extension("old")).expect("another name");
                symlink(path.with_extension("old"), path).expect("a link");
            },
            &|path| {
                let file = OpenOptions::new().write(true).open(path).expect("it opens");
                file.write_all_at(&[9; 5000], 20_000).expect("bytes in a hole");
                file.write_all_at(&[0; 5000], 2000).expect("zeros over data");
            },
            &|path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("no rights"),
            &|path| {
                fs::create_dir(path.with_extension("d")).expect("a folder beside");
                fs::write(path.with_extension("d").join("f"), "left over").expect("a file in it");
            },
        ];
        for (number, step) in steps.iter().enumerate() {
            let at = 4096 * (number + 1) + 8;
            images.apply(&[change(at as u64, number as u64 + 1), change(LEN as u64 - 4, !0)]);
            expected[at..at + 8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
            expected[LEN - 4..].fill(0xFF);
            images.lay_out().expect("it is laid out");
            assert!(fs::read(&path).expect("it is read") == expected, "image {number}");
            assert_eq!(fs::read_dir(images.image_folder()).expect("a folder").count(), 1, "image {number}");
            step(&path);
        }
        let kept = images.folder().join("kept");
        images.save(&kept).expect("it is saved");
        assert!(fs::read(kept.join("pool")).expect("it is read") == expected);
    }
}
