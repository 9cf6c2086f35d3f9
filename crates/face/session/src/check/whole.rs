//! Whether a run was seen whole: its files, as they are now, are compared with what its recorded events
//! make of them.
//!
//! A store, a write or a change of a name that went round the recorder leaves a difference, and what a
//! search finds in such a run may be no fault of the program's. Modes, owners and times are not compared;
//! neither are pipes, sockets and devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use crash::{Change, Contents, Difference, History, Left, Place};

use super::doubt::{Code, Doubt, Kind};
use super::folders::Files;
use super::limit::Limit;
use super::pools;

/// Bytes that are compared at once.
const BLOCK: usize = 64 << 10;
static ZEROS: [u8; BLOCK] = [0; BLOCK];
/// Differing files that are named.
const MOST: usize = 32;

/// What the comparison says.
#[derive(Debug, Default)]
pub struct Compared {
    /// Differences.
    pub doubts: Vec<Doubt>,
    /// Files that could not be compared.
    pub warnings: Vec<String>,
    /// Words in which unordered stores came in another order than the recorded one.
    pub raced: Vec<Change>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(u64),
    Link,
}

impl Node {
    fn name(self) -> &'static str {
        match self {
            Node::Folder => "a folder",
            Node::File(_) => "a file",
            Node::Link => "a symbolic link",
        }
    }
}

/// A comparison of a run's files with its history.
struct Comparison<'r> {
    history: &'r History,
    contents: &'r Contents,
    left: Left<'r>,
    /// Where the run stored something.
    pages: Vec<Place>,
    /// Files whose contents when the run began are not known.
    strangers: BTreeSet<u16>,
    /// What the paths of symbolic links lead to.
    targets: BTreeMap<String, String>,
    /// When the program had ended.
    ended: SystemTime,
    limit: Limit,
    compared: Compared,
}

/// Compares the persistent files of a run that ended at `ended`. A file that is gone is not compared; the
/// order of names is not followed in memory.
pub fn of_memory(history: &History, contents: &Contents, started: SystemTime, ended: SystemTime) -> Compared {
    let mut comparison = Comparison::new(history, contents, ended);
    for (number, name) in history.files().iter().enumerate() {
        let Ok(about) = fs::metadata(name) else { continue };
        let unknown = contents.file(name).is_none() && pools::is_older(name, started);
        if let Ok(number) = u16::try_from(number)
            && about.is_file()
            && !unknown
        {
            comparison.bytes(number, Path::new(name), name, about.len());
        }
    }
    comparison.into_compared()
}

/// Compares everything at and below the paths that a run of ordinary files was checked for, names included.
/// Nothing is compared behind the limit.
pub fn of_files(
    history: &History,
    contents: &Contents,
    files: &Files,
    ended: SystemTime,
    limit: Limit,
) -> Compared {
    let mut comparison = Comparison { limit, ..Comparison::new(history, contents, ended) };
    let mut disk = files.disk.clone();
    let strangers = disk.nodes().into_values().map(|node| node.file());
    comparison.strangers = strangers.filter(|&number| comparison.before(number).is_none()).collect();
    disk.apply(&comparison.left.changes());
    let nodes = disk.nodes();
    let expected: BTreeMap<&str, (Node, u16)> = nodes
        .iter()
        .filter(|(path, _)| files.roots.iter().any(|root| Path::new(path).starts_with(root)))
        .map(|(path, node)| {
            let kind = match disk.target(*node) {
                _ if node.folder => Node::Folder,
                Some(_) => Node::Link,
                None => Node::File(node.len),
            };
            (path.as_str(), (kind, node.file()))
        })
        .collect();
    let target =
        |(path, node): (&String, &crash::files::Node)| Some((path.clone(), disk.target(*node)?.to_owned()));
    comparison.targets = nodes.iter().filter_map(target).collect();
    let mut found = BTreeMap::new();
    for root in &files.roots {
        comparison.look(Path::new(root), &mut found);
    }
    let mut paths: Vec<&str> = expected.keys().copied().chain(found.keys().map(String::as_str)).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        if limit.is_over() {
            break;
        }
        let found = found.get(path).copied().unwrap_or_default();
        comparison.node(path, expected.get(path).copied(), found);
    }
    comparison.into_compared()
}

/// What was found at a path: nothing, something that is followed, or something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nothing,
    Node(Node),
    Other,
}

impl<'r> Comparison<'r> {
    fn new(history: &'r History, contents: &'r Contents, ended: SystemTime) -> Self {
        let left = history.left(contents);
        let pages = left.pages();
        let (strangers, targets, compared) = Default::default();
        let limit = Limit::default();
        Comparison { history, contents, left, pages, strangers, targets, ended, limit, compared }
    }

    fn into_compared(self) -> Compared {
        Compared { raced: self.left.raced().to_vec(), ..self.compared }
    }

    /// Notes what is at a path and below.
    fn look(&mut self, path: &Path, found: &mut BTreeMap<String, Found>) {
        let Ok(about) = fs::symlink_metadata(path) else { return };
        let kind = match about.file_type() {
            kind if kind.is_dir() => Found::Node(Node::Folder),
            kind if kind.is_file() => Found::Node(Node::File(about.len())),
            kind if kind.is_symlink() => Found::Node(Node::Link),
            _ => Found::Other,
        };
        found.insert(path.to_string_lossy().into_owned(), kind);
        if !about.is_dir() {
            return;
        }
        match fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries.iter().for_each(|entry| self.look(&entry.path(), found)),
            Err(error) => self.not_compared(&path.to_string_lossy(), &error),
        }
    }

    fn node(&mut self, path: &str, expected: Option<(Node, u16)>, found: Found) {
        match (expected, found) {
            (None, Found::Nothing | Found::Other) | (Some((Node::Folder, _)), Found::Node(Node::Folder)) => {}
            (None, Found::Node(node)) => {
                self.differs(path, format!("{path} was not expected: no recorded call made {}", node.name()));
            }
            (Some((node, _)), Found::Nothing) => self.differs(
                path,
                format!(
                    "{path} is missing: the recorded run left {} there, and no recorded call removed it",
                    node.name()
                ),
            ),
            (Some((Node::Link, _)), Found::Node(Node::Link)) => self.link(path),
            (Some((Node::File(len), number)), Found::Node(Node::File(there))) => {
                let before = self.compared.doubts.len();
                self.bytes(number, Path::new(path), path, there.min(len));
                if there != len && self.compared.doubts.len() == before {
                    let text = format!(
                        "{path} differs from what the recorded run left in it, first at offset {}: it has \
                         {there} bytes, and {len} were expected",
                        there.min(len)
                    );
                    self.differs(path, text);
                    if let Some(doubt) = self.compared.doubts.last_mut() {
                        doubt.offset = Some(there.min(len));
                    }
                }
                if self.strangers.contains(&number)
                    && let Some(doubt) = self.compared.doubts.get_mut(before)
                {
                    doubt.remedy =
                        "the run named a file so that was written elsewhere: name the folder of both names \
                                    with --files"
                            .to_owned();
                }
            }
            (Some((node, _)), _) => {
                self.differs(
                    path,
                    format!("{path} is not {}, which the recorded run left there", node.name()),
                );
            }
        }
    }

    /// Compares what a symbolic link leads to.
    fn link(&mut self, path: &str) {
        let expected = self.targets.get(path).map_or("", String::as_str);
        match fs::read_link(path) {
            Ok(there) if there == Path::new(expected) => {}
            Ok(there) => {
                let text = format!("{path} leads to {}, and {expected} was expected", there.display());
                self.differs(path, text);
            }
            Err(error) => self.not_compared(path, &error),
        }
    }

    /// Compares the first `len` bytes of a file.
    fn bytes(&mut self, number: u16, path: &Path, name: &str, len: u64) {
        match File::open(path).and_then(|file| self.first(number, &file, len)) {
            Ok(None) => {}
            Ok(Some(difference)) => self.differs_at(name, difference),
            Err(error) => self.not_compared(name, &error),
        }
    }

    fn first(&mut self, number: u16, file: &File, len: u64) -> io::Result<Option<Difference>> {
        let page = pools::PAGE as u64;
        let mut buffer = vec![0; BLOCK];
        let mut next = 0;
        while let Some((start, end)) = pools::data(file, next, len)? {
            if let Some(difference) = self.hole(number, next..start) {
                return Ok(Some(difference));
            }
            let end = end.next_multiple_of(page).min(len);
            let mut at = start;
            while at < end {
                if self.limit.is_over() {
                    return Ok(None);
                }
                let count = BLOCK.min((end - at) as usize);
                file.read_exact_at(&mut buffer[..count], at)?;
                let difference = self.left.difference(number, at, &buffer[..count]);
                if difference.is_some() {
                    return Ok(difference);
                }
                at += count as u64;
            }
            next = end;
        }
        Ok(self.hole(number, next..len))
    }

    /// What a file held when the run began, if that is known.
    fn before(&self, number: u16) -> Option<&'r [u8]> {
        self.history.files().get(usize::from(number)).and_then(|name| self.contents.file(name))
    }

    /// Compares what has no data: it should be zero.
    fn hole(&mut self, number: u16, hole: Range<u64>) -> Option<Difference> {
        let mut at = hole.start;
        let end = hole.end.min(self.before(number).map_or(0, |bytes| bytes.len() as u64));
        while at < end {
            let count = BLOCK.min((end - at) as usize);
            let difference = self.left.difference(number, at, &ZEROS[..count]);
            if difference.is_some() {
                return difference;
            }
            at += count as u64;
        }
        let at = |offset: u64| self.pages.partition_point(|page| *page < Place::new(number, offset));
        let (from, to) = (at(hole.start), at(hole.end));
        self.pages[from..to].iter().find_map(|page| {
            let count = (hole.end - page.offset()).min(512) as usize;
            self.left.difference(number, page.offset(), &ZEROS[..count])
        })
    }

    fn differs_at(&mut self, name: &str, difference: Difference) {
        let Difference { offset, expected, found, last } = difference;
        let code = last.and_then(|site| Code::of(self.history.table().site(site)));
        let last = match (&code, last) {
            (Some(code), _) => format!("the last recorded store there is{}", code.by()),
            (None, Some(_)) => "the last recorded store there has no known code".to_owned(),
            (None, None) => "no recorded store wrote there".to_owned(),
        };
        let text = format!(
            "{name} differs from what the recorded run left in it, first at offset {offset} ({offset:#x}): it \
             holds {found:#04x}, and {expected:#04x} was expected; {last}"
        );
        self.differs(name, text);
        if let Some(doubt) = self.compared.doubts.last_mut() {
            (doubt.offset, doubt.code) = (Some(offset), code);
        }
    }

    fn differs(&mut self, file: &str, text: String) {
        if self.compared.doubts.len() >= MOST {
            return;
        }
        let changed = fs::symlink_metadata(file).and_then(|about| about.modified());
        let remedy = if changed.is_ok_and(|changed| changed > self.ended) {
            "something changed it after the program had ended: run it again while nothing else writes there"
        } else {
            "something wrote there that is not recorded: a child process or a library that was not built with \
             strandline cc (a static program, one with an environment of its own), inline assembly, a system \
             call that does not go through the C library, io_uring; build it with strandline cc, or have it \
             use the C library's calls"
        };
        self.compared.doubts.push(Doubt {
            kind: Kind::Differs,
            call: None,
            file: Some(file.to_owned()),
            offset: None,
            code: None,
            text,
            remedy: remedy.to_owned(),
        });
    }

    fn not_compared(&mut self, name: &str, error: &io::Error) {
        self.compared
            .warnings
            .push(format!("{name} could not be compared with what the recorded run left in it: {error}"));
    }
}
