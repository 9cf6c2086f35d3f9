//! The side that a tree of processes leaves.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use fam::{Dumped, FamFile, Owner, Region, Remote, Room, Source, Stream, Throttle, room};
use serde::{Deserialize, Serialize};

use super::before::{Before, Copied, copy_before};
use super::hand;
use super::lazy::{Lazy, may_wait};
use super::link::{self, Listener, PATIENCE, hear, say};
use super::regions::{regions, regions_after};
use super::target::{Target, target_with};
use crate::error::{Error, Result};
use crate::freeze::{Frozen, Looks, Writer, freeze, look_before, monotonic, own_pages, state};
use crate::image::{Image, PAGES_SUFFIX, Shared, Store};
use crate::inspect::{Layout, Options, Report, inspect, look_at_memory, tree};
use crate::proc::Pagemap;
use crate::remote::kill_points;
use crate::restore::{Namespace, spawn_namespace};

/// By which way pages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Fabric-attached memory.
    #[default]
    Fam,
    /// A socket, a page for each fault, as CRIU's post-copy does it: the baseline.
    Socket,
}

/// How to migrate.
#[derive(Clone, Debug, Default)]
pub struct Migrate {
    /// Where a target listens; none: one is started here, in namespaces of its own.
    pub to: Option<String>,
    /// By which way pages go.
    pub way: Way,
    /// How the target that is started here gets them; its medium is the source's, too.
    pub lazy: Lazy,
    /// Pages go to fabric-attached memory before the stop, too.
    pub precopy: bool,
    /// What to do with what cannot move.
    pub options: Options,
}

/// What a migration took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Processes.
    pub processes: usize,
    /// Threads.
    pub threads: usize,
    /// By which way pages went.
    pub way: Way,
    /// Bytes of pages that came on demand or in the background.
    pub lazy_bytes: u64,
    /// Bytes of pages that went with the state.
    pub eager_bytes: u64,
    /// Looking for what cannot move, in seconds.
    pub inspect_s: f64,
    /// Taking room in fabric-attached memory, and the target's greeting, in seconds; the tree runs.
    pub prepare_s: f64,
    /// What went before the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// When the stop began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub stopped_at_ns: u64,
    /// Stopping, in seconds.
    pub freeze_s: f64,
    /// Collecting and writing the state, in seconds.
    pub state_s: f64,
    /// From the first stop until the tree went on at the target, in seconds.
    pub downtime_s: f64,
    /// From the first stop until the source was free, in seconds.
    pub busy_s: f64,
    /// From the first stop until the last page was in the target's memory, in seconds; none if the target did not say so.
    pub total_s: Option<f64>,
    /// Vectors written because the target asked for them.
    pub on_demand: usize,
    /// Page faults that the target served.
    pub faults: u64,
    /// Pages that the target installed because of faults.
    pub pages_by_fault: u64,
    /// Pages that the target installed unasked.
    pub pages_pushed: u64,
    /// What moves, but not as it was.
    pub notes: Vec<String>,
    /// The first process of the target's namespace, if the target is a child of this process.
    pub child: Option<i32>,
}

/// Moves the tree of process `root` through `folder`.
///
/// With no target given one is forked, so this process must have one thread only.
///
/// # Errors
/// If something cannot move, or anything fails. The tree goes on where it was, unless the error is [`Error::Lost`]: then it
/// lies in the folder, whole.
pub fn migrate(root: i32, folder: &Path, how: &Migrate) -> Result<Moved> {
    let begin = Instant::now();
    let seen = inspect(root, &Options { moves: true, ..how.options })?;
    if !seen.obstacles.is_empty() {
        return Err(Error::Obstacles { pid: root, obstacles: seen.obstacles });
    }
    let mut moved = Moved {
        inspect_s: begin.elapsed().as_secs_f64(),
        way: how.way,
        notes: seen.notes,
        ..Moved::default()
    };
    let store = Store::new(folder);
    store.make()?;
    refuse_used(&store)?;
    let (files, sockets, connections) = (Vec::new(), Vec::new(), Vec::new());
    let known = HashMap::new();
    let mut going = Going { store, root, files, sockets, connections, known, done: false };
    let mut side = Side::reach(&going.store, how)?;
    let greeted = greet(&mut side.control, &going.store, root, how.way);
    let rooms =
        greeted.and_then(|()| if how.way == Way::Fam { going.rooms() } else { Ok(HashMap::new()) })?;
    moved.prepare_s = begin.elapsed().as_secs_f64() - moved.inspect_s;
    going.go(rooms, &mut side, how, &mut moved)?;
    moved.child = side.child.map(|child| child.pid);
    Ok(moved)
}

/// A folder that holds something else is not overwritten.
fn refuse_used(store: &Store) -> Result<()> {
    let path = store.path("state");
    if path.exists() || link::decided(store.folder()).is_some() {
        let what = format!(
            "{} holds a checkpoint or an earlier migration: name another folder, or remove it",
            store.folder().display()
        );
        return Err(Error::Unfit(what));
    }
    Ok(())
}

/// A socket for a target of ours, beside the state, or where a path is short enough for one.
fn socket(store: &Store) -> PathBuf {
    const PATH_MAX: usize = 100;
    let beside = store.path("socket");
    if beside.as_os_str().len() <= PATH_MAX {
        return beside;
    }
    std::env::temp_dir().join(format!("strandline-{}.socket", std::process::id()))
}

/// The other side.
struct Side {
    control: Stream,
    address: String,
    child: Option<Namespace>,
    /// Over which a target of ours gets file descriptors.
    hand: Option<Stream>,
}

impl Side {
    fn reach(store: &Store, how: &Migrate) -> Result<Self> {
        if let Some(to) = &how.to {
            return Ok(Self { control: link::connect(to)?, address: to.clone(), child: None, hand: None });
        }
        let listener = match how.way {
            Way::Fam => Listener::bind(&socket(store).display().to_string())?,
            Way::Socket => Listener::bind("127.0.0.1:0")?,
        };
        let address = listener.address()?;
        let (folder, lazy) = (store.folder().to_owned(), how.lazy.clone());
        let pair = UnixStream::pair().map_err(|error| Error::file("socket", "cannot be made", error))?;
        let mut ends = Some(pair);
        let child = spawn_namespace(&mut || {
            // The child keeps its own end only.
            let theirs = ends.take().map(|(_, theirs)| Stream::from(theirs));
            let Target { restored, pages } = target_with(&listener, &folder, lazy.clone(), theirs)?;
            Ok((restored, Box::new(|| drop(pages.join()))))
        })?;
        drop(listener);
        let hand = ends.map(|(ours, _)| Stream::from(ours));
        Ok(Self { control: link::connect(&address)?, address, child: Some(child), hand })
    }
}

fn refused(what: impl ToString) -> Error {
    Error::Target(what.to_string())
}

fn greet(control: &mut Stream, store: &Store, root: i32, way: Way) -> Result<()> {
    let way = if way == Way::Fam { "fam" } else { "socket" };
    say(control, &format!("strandline-migrate 1 {} {way}", id(root)?)).map_err(refused)?;
    match hear(control, Some(PATIENCE)).map_err(refused)?.as_str() {
        "welcome" => Ok(()),
        other => Err(refused(other)),
    }
    .inspect_err(|_| drop(fs::remove_file(socket(store))))
}

/// A name for one migration.
fn id(root: i32) -> Result<String> {
    let owner = Owner::of(root as u32)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(format!("{}.{}.{}", owner.pid, owner.start, boot.trim()))
}

/// A migration on its way; dropped before it is done, it leaves nothing in the folder.
struct Going {
    store: Store,
    root: i32,
    files: Vec<PathBuf>,
    sockets: Vec<(usize, OwnedFd)>,
    /// Connections of the tree that do not move.
    connections: Vec<OwnedFd>,
    /// The pages that processes had before the stop.
    known: HashMap<i32, Vec<Region>>,
    done: bool,
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = fs::remove_file(socket(&self.store));
        if !self.done {
            let _ = fs::remove_file(self.store.path("state"));
            let _ = fs::remove_file(self.store.path("decision"));
            for file in &self.files {
                let _ = fs::remove_file(file);
            }
        }
    }
}

impl Going {
    /// Takes room for the pages that the tree has now, and a bit more.
    fn rooms(&mut self) -> Result<HashMap<i32, Room>> {
        let mut rooms = HashMap::new();
        for pid in tree(self.root)? {
            let layout = look_at_memory(pid, &mut Report::default())?;
            let known = regions(pid, &layout)?;
            let need = room(&known);
            self.known.insert(pid, known);
            let path = self.store.path(&format!("{pid}.lazy"));
            self.files.push(path.clone());
            rooms.insert(pid, Room::take(&path, need + need / 16 + (8 << 20))?);
        }
        Ok(rooms)
    }

    fn go(
        &mut self,
        mut rooms: HashMap<i32, Room>,
        side: &mut Side,
        how: &Migrate,
        moved: &mut Moved,
    ) -> Result<()> {
        let throttle = Arc::new(Throttle::new(how.lazy.medium));
        let mut copied = HashMap::new();
        if how.precopy && how.way == Way::Fam {
            let before = moved.before.insert(Before::default());
            copied = copy_before(self.root, &mut rooms, &throttle, before)?;
        }
        let looks = look_before(self.root)?;
        let freezing = Instant::now();
        moved.stopped_at_ns = monotonic().as_nanos() as u64;
        let mut frozen = freeze(self.root)?;
        moved.freeze_s = freezing.elapsed().as_secs_f64();
        let sources = self.freeze_out(&mut frozen, (rooms, copied), &looks, how, moved)?;
        moved.state_s = freezing.elapsed().as_secs_f64() - moved.freeze_s;
        let serving = Serving::start(sources, side, &throttle)?;
        self.send_sockets(side)?;
        match hear(&mut side.control, Some(PATIENCE)).map_err(refused)?.as_str() {
            "ready" => {}
            other => return Err(refused(other)),
        }
        if kill_points::holds() {
            frozen.hold();
        }
        if link::decide(self.store.folder(), "target")? != "target" {
            frozen.unhold();
            return Err(refused("it gave up waiting"));
        }
        // From here on the tree is the target's, whatever happens.
        self.done = true;
        let mut lost =
            say(&mut side.control, "commit").and_then(|()| hear(&mut side.control, Some(PATIENCE)));
        moved.downtime_s = freezing.elapsed().as_secs_f64();
        if lost.as_ref().is_ok_and(|word| word != "runs") {
            lost = Err(io::Error::other(lost.unwrap_or_default()));
        }
        if lost.is_ok() {
            // Whoever was connected to it here connects again there, and need not wait until the source is
            // free.
            hand::hang_up(std::mem::take(&mut self.connections));
        }
        let dumped = serving.wait(lost.is_ok())?;
        moved.busy_s = freezing.elapsed().as_secs_f64();
        frozen.kill();
        moved.on_demand = dumped.on_demand;
        let folder = self.store.folder().to_owned();
        if let Err(error) = lost {
            return Err(Error::Lost { what: error.to_string(), folder });
        }
        let last = hear(&mut side.control, None).unwrap_or_default();
        let mut words = last.strip_prefix("served ").unwrap_or_default().split(' ').map(str::parse::<u64>);
        if let (Some(Ok(faults)), Some(Ok(by_fault)), Some(Ok(pushed))) =
            (words.next(), words.next(), words.next())
        {
            moved.total_s = Some(freezing.elapsed().as_secs_f64());
            (moved.faults, moved.pages_by_fault, moved.pages_pushed) = (faults, by_fault, pushed);
        } else if how.way == Way::Socket {
            let what =
                format!("the target is lost before its last page had come, and the process with it: {last}");
            return Err(Error::Unfit(what));
        } else if last.starts_with("failed") || last.is_empty() {
            return Err(Error::Lost { what: last, folder });
        }
        Ok(())
    }

    /// Lets the target begin, with the sockets that listen where it is on this machine.
    fn send_sockets(&mut self, side: &mut Side) -> Result<()> {
        let sockets = std::mem::take(&mut self.sockets);
        if sockets.is_empty() || (side.hand.is_none() && matches!(side.control, Stream::Tcp(_))) {
            return say(&mut side.control, "go").map_err(refused);
        }
        let indices: Vec<String> = sockets.iter().map(|(index, _)| index.to_string()).collect();
        say(&mut side.control, &format!("go {}", indices.join(","))).map_err(refused)?;
        hand::send(side.hand.as_ref().unwrap_or(&side.control), &sockets).map_err(refused)
    }

    /// Writes the state, and what goes with it; the tree is as it was afterwards, only stopped.
    fn freeze_out(
        &mut self,
        frozen: &mut Frozen,
        (mut rooms, mut copied): (HashMap<i32, Room>, HashMap<i32, Copied>),
        looks: &Looks,
        how: &Migrate,
        moved: &mut Moved,
    ) -> Result<Vec<Pages>> {
        copied.values_mut().try_for_each(Copied::end_watch)?;
        let options = Options { own_watch: !copied.is_empty(), moves: true, ..how.options };
        let (mut image, layouts) = state(self.root, frozen, &options, looks)?;
        moved.eager_bytes = self.eager(frozen, &mut image, &layouts)?;
        let mut all = Vec::new();
        for (process, layout) in image.processes.iter_mut().zip(&layouts) {
            let known = self.known.remove(&process.pid).unwrap_or_default();
            let regions = regions_after(process.pid, layout, &known)?;
            moved.lazy_bytes += regions.iter().map(|region| region.bytes).sum::<u64>();
            let name = format!("{}.lazy", process.pid);
            let file = match how.way {
                Way::Socket => None,
                Way::Fam => {
                    let path = self.store.path(&name);
                    self.files.push(path.clone());
                    let owner = Owner::of(process.pid as u32)?;
                    Some(match (copied.remove(&process.pid), rooms.remove(&process.pid)) {
                        (Some(copied), _) => {
                            copied.finish(process.pid, &regions, moved.before.get_or_insert_default())?
                        }
                        (_, Some(room)) => room.lay_out(owner, &regions)?,
                        _ => FamFile::create(&path, owner, &regions)?,
                    })
                }
            };
            process.lazy = Some(name);
            all.push(Pages { pid: process.pid, regions, file });
        }
        image.migration = Some(id(self.root)?);
        moved.processes = image.processes.len();
        moved.threads = image.processes.iter().map(|process| process.threads.len()).sum();
        self.store.write(&image, false)?;
        self.sockets = hand::unique(&image);
        self.connections = hand::connections(&image);
        frozen.park()?;
        Ok(all)
    }

    /// Pages that cannot wait: of private mappings of files, of locked memory, of memory that processes share.
    fn eager(&mut self, frozen: &Frozen, image: &mut Image, layouts: &[Layout]) -> Result<u64> {
        let name = format!("eager{PAGES_SUFFIX}");
        let path = self.store.path(&name);
        self.files.push(path.clone());
        let mut writer = Writer::new(&path, 0)?;
        image.page_files.push(name);
        for ((process, layout), saved) in frozen.processes.iter().zip(layouts).zip(&mut image.processes) {
            let map = Pagemap::open(process.pid)?;
            for vma in layout.vmas.iter().filter(|vma| !may_wait(vma)) {
                let ranges = own_pages(&map, vma, &layout.whole)?;
                saved.pages.extend(writer.process(process.pid, &ranges)?);
            }
        }
        let shared: Vec<(&mut Shared, &String)> = image.shared.iter_mut().zip(&layouts[0].sources).collect();
        for (shared, source) in shared {
            writer.shared(shared, source)?;
        }
        Ok(writer.bytes())
    }
}

/// The pages of one process, and where they are to lie.
struct Pages {
    pid: i32,
    regions: Vec<Region>,
    file: Option<FamFile>,
}

/// Who gives pages away.
#[derive(Default)]
struct Serving {
    sources: Vec<Source>,
    servers: Vec<JoinHandle<std::result::Result<u64, fam::Error>>>,
}

impl Serving {
    fn start(all: Vec<Pages>, side: &Side, throttle: &Arc<Throttle>) -> Result<Self> {
        let mut serving = Self::default();
        for Pages { pid, regions, file } in all {
            let memory = Box::new(Remote::of(pid as u32)?);
            let mut stream = link::connect(&side.address).map_err(refused)?;
            say(&mut stream, &format!("pages {pid}")).map_err(refused)?;
            match file {
                Some(file) => {
                    let source = Source::start(file, memory, Arc::clone(throttle), fam::Store::Direct);
                    source.serve(stream)?;
                    serving.sources.push(source);
                }
                None => {
                    // The target has no file to see the regions in.
                    let list: Vec<String> =
                        regions.iter().map(|one| format!("{:x}+{:x}", one.start, one.bytes)).collect();
                    say(&mut stream, &list.len().to_string()).map_err(refused)?;
                    for one in &list {
                        say(&mut stream, one).map_err(refused)?;
                    }
                    let layout = Arc::new(fam::Layout::new(&regions, 0));
                    serving.servers.push(fam::page_server(stream, memory, layout, Arc::clone(throttle)));
                }
            }
        }
        Ok(serving)
    }

    /// Waits until nothing of the source is needed any more. Without a target only the folder counts.
    fn wait(self, target: bool) -> Result<Dumped> {
        let mut sum = Dumped::default();
        for source in self.sources {
            let one = source.wait()?;
            sum.bytes += one.bytes;
            sum.on_demand += one.on_demand;
            sum.vectors += one.vectors;
        }
        if target {
            for server in self.servers {
                match server.join() {
                    Ok(Ok(sent)) => sum.bytes += sent,
                    // The target hung up: its process has ended, or it is lost, as its last word says.
                    Ok(Err(fam::Error::Os { .. })) => {}
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => return Err(Error::Unfit("the page server ended".to_owned())),
                }
            }
        }
        Ok(sum)
    }
}
