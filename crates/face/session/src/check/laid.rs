//! Images of ordinary files as a crash of a file system leaves them, in a folder.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crash::Change;
use crash::files::{Disk, Node};
use reboot::Reads;

use super::folders::Files;
use super::place::Place;
use crate::error::Error;
use crate::temporary::Temporary;

/// One image of all files below the roots, in a folder of its own in memory.
#[derive(Debug)]
pub struct Folders {
    folder: Temporary,
    place: Arc<Place>,
    disk: Disk,
    /// Each root, and its name in the image.
    roots: Vec<(String, String)>,
    /// What is there now, but for what is touched.
    laid: Laid,
    touched: Touched,
}

/// Files and folders of an image by their paths in it.
pub type Laid = BTreeMap<String, Node>;

/// What a recovery may have changed.
#[derive(Debug)]
enum Touched {
    All,
    Some {
        /// What was made, removed or renamed.
        paths: BTreeSet<String>,
        /// Pages of files; `None` stands for all.
        pages: Pages,
    },
}

/// Pages of files by their paths in the image.
type Pages = BTreeMap<String, Option<BTreeSet<u64>>>;

impl Folders {
    /// The files as they were before the run.
    pub fn new(files: &Files) -> Result<Self, Error> {
        let mut roots: Vec<(String, String)> = Vec::new();
        for (number, root) in files.roots.iter().enumerate() {
            let base = root.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("root");
            let taken = roots.iter().any(|(_, name)| name == base);
            roots.push((root.clone(), if taken { format!("{number}-{base}") } else { base.to_owned() }));
        }
        let (laid, touched, place) = (Laid::new(), Touched::All, files.place()?);
        let images =
            Folders { folder: place.image()?, place, disk: files.disk.clone(), roots, laid, touched };
        let folder = images.image_folder();
        fs::create_dir(&folder).map_err(Error::file("make", &folder))?;
        Ok(images)
    }

    fn image_folder(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Its folder, with room for other files outside the image.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// What recovery is to work on: what is at the only root, or a folder with all of them.
    pub fn pool(&self) -> PathBuf {
        match &*self.roots {
            [(_, name)] => self.image_folder().join(name),
            _ => self.image_folder(),
        }
    }

    /// Each root, and where it is in the image.
    pub fn paths(&self) -> Vec<(String, PathBuf)> {
        self.roots.iter().map(|(root, name)| (root.clone(), self.image_folder().join(name))).collect()
    }

    /// Takes over changes.
    pub fn apply(&mut self, changes: &[Change]) {
        self.disk.apply(changes);
    }

    /// Bytes of the files that are laid out.
    pub fn laid_bytes(&self) -> u64 {
        self.laid.values().filter(|node| !node.folder).map(|node| node.len).sum()
    }

    /// Sees that recovery finds the image, whatever an earlier recovery left there: only what differs is
    /// written.
    pub fn lay_out(&mut self) -> io::Result<()> {
        let wanted = self.wanted();
        let dirty = self.disk.take_dirty();
        let touched = std::mem::replace(&mut self.touched, Touched::All);
        let laid = std::mem::take(&mut self.laid);
        match touched {
            Touched::Some { paths, pages }
                if !laid.is_empty() && !self.has_links(&wanted) && !self.has_links(&laid) =>
            {
                self.change(laid, &wanted, (&paths, &pages), &dirty)?;
            }
            _ => {
                fs::remove_dir_all(self.image_folder())?;
                fs::create_dir(self.image_folder())?;
                self.write_to(&self.image_folder())?;
            }
        }
        self.laid = wanted;
        Ok(())
    }

    /// Says what the recovery that has just ended may have changed, in paths relative to [`Folders::folder`];
    /// if nobody does, all.
    pub fn touched(&mut self, reads: &Reads) {
        let paths = reads.written.iter().filter_map(|path| in_image(path)).collect();
        let of_file = |(path, pages): (&String, &Option<_>)| Some((in_image(path)?, pages.clone()));
        self.touched = Touched::Some { paths, pages: reads.changed.iter().filter_map(of_file).collect() };
    }

    /// Removes from the folder what is not wanted or may have been changed, and writes what is missing.
    fn change(
        &self,
        laid: Laid,
        wanted: &Laid,
        (touched, pages): (&BTreeSet<String>, &Pages),
        dirty: &BTreeSet<(u16, u64)>,
    ) -> io::Result<()> {
        let folder = self.image_folder();
        touched.iter().try_for_each(|path| remove(&folder.join(path)))?;
        let mut gone: Vec<String> = touched.iter().cloned().collect();
        let mut kept: HashMap<String, Node> = HashMap::new();
        for (path, node) in laid {
            let below = |other: &String| {
                path.strip_prefix(other.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if gone.iter().any(below) {
                continue;
            }
            let same = |other: &Node| (other.file(), other.folder) == (node.file(), node.folder);
            match wanted.get(&path) {
                Some(other) if same(other) => drop(kept.insert(path, node)),
                _ => {
                    remove(&folder.join(&path))?;
                    gone.push(path);
                }
            }
        }
        for (path, &node) in wanted {
            match kept.get(path) {
                Some(_) if node.folder => {}
                Some(_) if pages.get(path) == Some(&None) => self.make(&folder.join(path), node)?,
                Some(&was) => {
                    let changed = pages.get(path).and_then(Option::as_ref);
                    self.mend(&folder.join(path), (was, changed), node, dirty)?;
                }
                None => self.make(&folder.join(path), node)?,
            }
        }
        Ok(())
    }

    /// Writes the pages of a file that differ from what was laid out, and those that recovery changed then.
    fn mend(
        &self,
        path: &Path,
        (was, changed): (Node, Option<&BTreeSet<u64>>),
        node: Node,
        dirty: &BTreeSet<(u16, u64)>,
    ) -> io::Result<()> {
        let file = node.file();
        let mut pages: BTreeSet<u64> =
            dirty.range((file, 0)..=(file, u64::MAX)).map(|&(_, page)| page).collect();
        pages.extend(changed.into_iter().flatten());
        if node.len > was.len {
            pages.extend(was.len / Disk::PAGE..=(node.len - 1) / Disk::PAGE);
        }
        if pages.is_empty() && node.len == was.len && changed.is_none() {
            return Ok(());
        }
        let open = OpenOptions::new().write(true).open(path)?;
        if changed.is_some() || node.len != was.len {
            open.set_len(node.len)?;
        }
        for page in pages.into_iter().filter(|page| page * Disk::PAGE < node.len) {
            let from = page * Disk::PAGE;
            open.write_all_at(&self.disk.bytes(node, from, from + Disk::PAGE), from)?;
        }
        Ok(())
    }

    /// A number that is the same for all images that agree in what was read, and hardly for others; none if
    /// that can't be said.
    pub fn key(&self, reads: &Reads, wanted: &Laid) -> Option<u128> {
        if reads.all || self.has_links(wanted) {
            return None;
        }
        let mut hasher = Hasher::default();
        for name in reads.names.iter().filter_map(|name| in_image(name)) {
            for (end, _) in name.match_indices('/') {
                hasher.add(wanted.get(&name[..end]).is_some_and(|node| node.folder));
            }
            let node = wanted.get(&name);
            hasher.add((&name, node.map(|node| (node.file(), node.folder, node.len))));
        }
        for folder in reads.listed.iter().filter_map(|folder| in_image(folder)) {
            let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let below = wanted.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
            let direct = below.filter(|(path, _)| !path[start.len()..].contains('/'));
            hasher.add(&folder);
            direct.for_each(|(path, node)| hasher.add((path, node.folder)));
        }
        for (path, pages) in &reads.files {
            let Some(node) = in_image(path).and_then(|path| wanted.get(&path)).filter(|node| !node.folder)
            else {
                continue;
            };
            match pages {
                None => hasher.add((path, self.disk.difference(node.file()))),
                Some(pages) => {
                    hasher.add(path);
                    pages
                        .iter()
                        .for_each(|&page| hasher.add((page, self.disk.page_difference(node.file(), page))));
                }
            }
        }
        Some(hasher.finish())
    }

    /// What is to be in the image, by path.
    pub fn wanted(&self) -> Laid {
        let nodes = self.disk.nodes().into_iter();
        nodes.filter_map(|(path, node)| Some((self.inside(&path)?, node))).collect()
    }

    /// Copies the image as recovery would find it.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        self.write_to(folder)
    }

    /// Where a path of the program's is in an image; none if it lies outside of the roots.
    fn inside(&self, path: &str) -> Option<String> {
        self.roots.iter().find_map(|(root, name)| {
            let rest = path.strip_prefix(root.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{name}{rest}"))
        })
    }

    fn write_to(&self, folder: &Path) -> io::Result<()> {
        let mut written: HashMap<u16, PathBuf> = HashMap::new();
        // In the order of their paths: folders come before what is in them.
        for (path, node) in self.disk.nodes() {
            let Some(inside) = self.inside(&path) else { continue };
            let to = folder.join(inside);
            if node.folder {
                fs::create_dir(&to)?;
                continue;
            }
            if let Some(first) = written.get(&node.file()) {
                fs::hard_link(first, &to)?;
                continue;
            }
            written.insert(node.file(), to.clone());
            if let Some(target) = self.disk.target(node) {
                // What leads to the program's files is to lead to those of the image.
                let there = self.inside(target).map(|inside| self.image_folder().join(inside));
                symlink(there.unwrap_or_else(|| target.into()), &to)?;
                continue;
            }
            self.make(&to, node)?;
        }
        Ok(())
    }

    /// Whether there are symbolic links, or files with several names.
    fn has_links(&self, laid: &Laid) -> bool {
        let mut seen = HashSet::new();
        laid.values()
            .any(|&node| !node.folder && (self.disk.target(node).is_some() || !seen.insert(node.file())))
    }

    /// Makes a file or folder of an image.
    fn make(&self, path: &Path, node: Node) -> io::Result<()> {
        if node.folder {
            return fs::create_dir(path);
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let is_clone = self.place.gives_clone(&file, node);
        file.set_len(node.len)?;
        let write = |offset, bytes: &[u8]| file.write_all_at(bytes, offset);
        if is_clone { self.disk.read_changes(node, write) } else { self.disk.read(node, write) }
    }
}

/// The part of a path, relative to the folder of an image and what is beside it, that is in the image.
fn in_image(path: &str) -> Option<String> {
    match path.strip_prefix("image")? {
        "" => Some(String::new()),
        rest => rest.strip_prefix('/').map(str::to_owned),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Two hashes, so that no two images have the same by chance.
#[derive(Default)]
struct Hasher(DefaultHasher, u64);

impl Hasher {
    fn add(&mut self, part: impl Hash) {
        part.hash(&mut self.0);
        self.1 = (self.1 ^ self.0.finish()).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    fn finish(self) -> u128 {
        u128::from(self.0.finish()) << 64 | u128::from(self.1)
    }
}
