//! The program's ordinary files: what was there before the run, kept for a later replay.

use std::collections::{HashMap, hash_map};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crash::files::{Disk, Entry, Tree};
use serde_json::json;

use super::CheckError;
use super::place::Place;
use super::pools::KEPT_MAX;
use crate::error::Error;

/// The ordinary files that a check follows: their paths, and the disk as the run found it.
#[derive(Debug)]
pub struct Files {
    pub roots: Vec<String>,
    pub disk: Disk,
    /// The files that were there before the run, with their lengths.
    pub before: Vec<(String, u64)>,
    /// Where images lie.
    pub places: Places,
}

/// Where the images of a run lie, from the first one on.
#[derive(Debug)]
pub struct Places {
    /// If somebody said where.
    wanted: Option<PathBuf>,
    /// Images that there are at the same time.
    copies: u64,
    /// Bytes of one, about.
    bytes: u64,
    place: OnceLock<Arc<Place>>,
}

impl Places {
    /// For so many images of so many bytes at the same time.
    pub fn new(wanted: Option<PathBuf>, copies: usize, bytes: u64) -> Places {
        Places { wanted, copies: copies as u64, bytes, place: OnceLock::new() }
    }

    /// Where they lie, if there was one.
    pub fn chosen(&self) -> Option<&Place> {
        self.place.get().map(|place| &**place)
    }
}

impl Files {
    /// Where images lie.
    pub fn place(&self) -> Result<Arc<Place>, Error> {
        if let Some(place) = self.places.place.get() {
            return Ok(place.clone());
        }
        let Places { wanted, copies, bytes, .. } = &self.places;
        let place = Arc::new(Place::new(wanted.as_deref(), &self.disk, *bytes, *copies)?);
        Ok(self.places.place.get_or_init(|| place).clone())
    }
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
