//! The program's ordinary files: what was there before the run, and copies as a crash of a file system leaves
//! them.

use std::collections::{HashMap, hash_map};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crash::Change;
use crash::files::{Disk, Entry, Tree};
use serde_json::json;

use super::CheckError;
use super::pools::{KEPT_MAX, memory_folder};
use crate::error::Error;
use crate::temporary::Temporary;

/// The ordinary files that a check follows: their paths, and the disk as the run found it.
#[derive(Debug)]
pub struct Files {
    pub roots: Vec<String>,
    pub disk: Disk,
    /// The files that were there before the run, with their lengths.
    pub before: Vec<(String, u64)>,
}

/// Where the names of what was there are kept, beside their contents.
const TREE: &str = "tree.json";

/// What is at and below these paths.
pub fn before(roots: &[String]) -> Result<Tree, CheckError> {
    let (mut tree, mut linked) = (Tree::new(), HashMap::new());
    for root in roots {
        if root.contains(['*', '?']) {
            return Err(CheckError::Pattern { pattern: root.clone() });
        }
        read(Path::new(root), &mut tree, &mut linked)?;
    }
    Ok(tree)
}

/// Device and number of files that have several names, with the first one that was seen.
type Linked = HashMap<(u64, u64), String>;

fn read(path: &Path, tree: &mut Tree, linked: &mut Linked) -> Result<(), CheckError> {
    let keep = |source| CheckError::Keep { path: path.to_owned(), source };
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    let name = path.to_str().ok_or_else(|| keep(io::Error::other("the path is not UTF-8")))?.to_owned();
    if about.is_dir() {
        tree.insert(name, Entry::Folder);
        for entry in fs::read_dir(path).map_err(keep)? {
            read(&entry.map_err(keep)?.path(), tree, linked)?;
        }
    } else if about.is_symlink() {
        let to = fs::read_link(path).map_err(keep)?;
        let to = to.to_str().ok_or_else(|| keep(io::Error::other("the link is not UTF-8")))?;
        tree.insert(name, Entry::Link(to.to_owned()));
    } else if about.is_file() {
        if about.nlink() > 1 {
            match linked.entry((about.dev(), about.ino())) {
                hash_map::Entry::Occupied(first) => {
                    tree.insert(name, Entry::Again(first.get().clone()));
                    return Ok(());
                }
                hash_map::Entry::Vacant(first) => drop(first.insert(name.clone())),
            }
        }
        if about.len() > KEPT_MAX {
            return Err(CheckError::TooLarge { path: path.to_owned() });
        }
        tree.insert(name, Entry::File(fs::read(path).map_err(keep)?));
    }
    Ok(())
}

/// Keeps the paths and what was there, for a later `--replay`.
pub fn keep(folder: &Path, roots: &[String], tree: &Tree) -> io::Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    let (mut links, mut again) = (Vec::new(), Vec::new());
    for (path, entry) in tree {
        match entry {
            Entry::Folder => folders.push(path),
            Entry::File(bytes) => {
                fs::write(folder.join(files.len().to_string()), bytes)?;
                files.push(path);
            }
            Entry::Link(to) => links.push([path, to]),
            Entry::Again(of) => again.push([path, of]),
        }
    }
    let names = json!({ "roots": roots, "folders": folders, "files": files, "links": links, "again": again });
    fs::write(folder.join(TREE), format!("{names:#}\n"))?;
    Ok(())
}

/// What [`keep`] kept, if it did.
pub fn kept(folder: &Path) -> io::Result<Option<(Vec<String>, Tree)>> {
    let file = folder.join(TREE);
    if !file.exists() {
        return Ok(None);
    }
    let names: serde_json::Value = serde_json::from_slice(&fs::read(&file)?)?;
    let list = |key: &str| -> Vec<String> {
        let list = names[key].as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut tree: Tree = list("folders").into_iter().map(|path| (path, Entry::Folder)).collect();
    for (number, path) in list("files").into_iter().enumerate() {
        tree.insert(path, Entry::File(fs::read(folder.join(number.to_string()))?));
    }
    let pairs = |key: &str| -> Vec<(String, String)> {
        let list = names[key].as_array().into_iter().flatten();
        list.filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()))).collect()
    };
    tree.extend(pairs("links").into_iter().map(|(path, to)| (path, Entry::Link(to))));
    tree.extend(pairs("again").into_iter().map(|(path, of)| (path, Entry::Again(of))));
    Ok(Some((list("roots"), tree)))
}

/// One image of all files below the roots, in a folder of its own in memory.
#[derive(Debug)]
pub struct Folders {
    folder: Temporary,
    disk: Disk,
    /// Each root, and its name in the image.
    roots: Vec<(String, String)>,
}

impl Folders {
    /// The files as they were before the run.
    pub fn new(files: &Files) -> Result<Self, Error> {
        let mut roots: Vec<(String, String)> = Vec::new();
        for (number, root) in files.roots.iter().enumerate() {
            let base = root.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("root");
            let taken = roots.iter().any(|(_, name)| name == base);
            roots.push((root.clone(), if taken { format!("{number}-{base}") } else { base.to_owned() }));
        }
        let images = Folders { folder: memory_folder()?, disk: files.disk.clone(), roots };
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

    /// Makes the image anew; whatever an earlier recovery left there is gone.
    pub fn lay_out(&self) -> io::Result<()> {
        fs::remove_dir_all(self.image_folder())?;
        fs::create_dir(self.image_folder())?;
        self.write_to(&self.image_folder())
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
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(&to)?;
            file.set_len(node.len)?;
            self.disk.read(node, |offset, bytes| file.write_all_at(bytes, offset))?;
        }
        Ok(())
    }
}
