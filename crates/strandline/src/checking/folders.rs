//! The program's ordinary files: what was there before the run, and copies as a crash of a file system leaves them.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crash::Change;
use crash::files::{Disk, Entry, Tree};
use serde_json::json;

use super::pools::{KEPT_MAX, memory_folder};

/// What the checker follows: the paths of `--files`, and the disk as the run found it.
pub struct Files {
    pub roots: Vec<String>,
    pub disk: Disk,
}

/// Where the names of what was there are kept, beside their contents.
const TREE: &str = "tree.json";

/// What is at and below these paths.
pub fn before(roots: &[String]) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    for root in roots {
        if root.contains(['*', '?']) {
            bail!("a check follows files and folders, not patterns: name the folder instead of {root}");
        }
        read(Path::new(root), &mut tree).with_context(|| root.clone())?;
    }
    Ok(tree)
}

fn read(path: &Path, tree: &mut Tree) -> anyhow::Result<()> {
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    let name = path.to_str().context("the path is not UTF-8")?.to_owned();
    if about.is_dir() {
        tree.insert(name, Entry::Folder);
        for entry in fs::read_dir(path)? {
            read(&entry?.path(), tree)?;
        }
    } else if about.is_file() {
        if about.len() > KEPT_MAX {
            bail!("the file has more than 4 GiB; check a smaller one");
        }
        tree.insert(name, Entry::File(fs::read(path)?));
    }
    Ok(())
}

/// Keeps the paths and what was there, for a later `--replay`.
pub fn keep(folder: &Path, roots: &[String], tree: &Tree) -> anyhow::Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for (path, entry) in tree {
        match entry {
            Entry::Folder => folders.push(path),
            Entry::File(bytes) => {
                fs::write(folder.join(files.len().to_string()), bytes)?;
                files.push(path);
            }
        }
    }
    let names = json!({ "roots": roots, "folders": folders, "files": files });
    fs::write(folder.join(TREE), format!("{names:#}\n"))?;
    Ok(())
}

/// What [`keep`] kept, if it did.
pub fn kept(folder: &Path) -> anyhow::Result<Option<(Vec<String>, Tree)>> {
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
    Ok(Some((list("roots"), tree)))
}

/// One image of all files below the roots, in a folder of its own in memory.
#[derive(Debug)]
pub struct Folders {
    folder: tempfile::TempDir,
    disk: Disk,
    /// Each root, and its name in the image.
    roots: Vec<(String, String)>,
}

impl Folders {
    /// The files as they were before the run.
    pub fn new(files: &Files) -> anyhow::Result<Self> {
        let mut roots: Vec<(String, String)> = Vec::new();
        for (number, root) in files.roots.iter().enumerate() {
            let base = root.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("root");
            let taken = roots.iter().any(|(_, name)| name == base);
            roots.push((root.clone(), if taken { format!("{number}-{base}") } else { base.to_owned() }));
        }
        let images = Folders { folder: memory_folder()?, disk: files.disk.clone(), roots };
        fs::create_dir(images.image_folder())?;
        Ok(images)
    }

    fn image_folder(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Room for other files, outside the image.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
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

    fn write_to(&self, folder: &Path) -> io::Result<()> {
        // In the order of their paths: folders come before what is in them.
        for (path, node) in self.disk.nodes() {
            let inside = self.roots.iter().find_map(|(root, name)| {
                let rest = path.strip_prefix(root.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{name}{rest}"))
            });
            let Some(inside) = inside else { continue };
            let to = folder.join(inside);
            if node.folder {
                fs::create_dir(&to)?;
                continue;
            }
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(&to)?;
            file.set_len(node.len)?;
            self.disk.read(node, |offset, bytes| file.write_all_at(bytes, offset))?;
        }
        Ok(())
    }
}
