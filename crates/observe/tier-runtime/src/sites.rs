//! Sites of allocation and the blocks that live.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::kinds::{Kind, Kinds, Placed};
use crate::lock::Lock;
use crate::log::Log;
use crate::modules::{self, Module};
use crate::page::{PAGE, whole};
use crate::remedies::Remedies;
use crate::stack::{Stack, mix};

/// Number of what nobody allocated: stacks, globals, code.
pub const REST: usize = 0;
/// Number of files that the program did not map itself.
pub const FILES: usize = 1;
/// Number of small allocations of which there is no sample.
pub const SMALL: usize = 2;
/// Sites, at most; further ones count as [`REST`].
const SITES_MAX: usize = 4096;
/// Blocks with a mapping of their own, at most: the system has a limit for a process.
const VIEWS_MAX: usize = 8192;
/// Lengths of windows in which use is looked for: their numbers here, their lengths in [`crate::control`].
pub const WINDOWS: usize = 3;
/// Parts of the run in [`Site::slices`], at most.
const SLICES: usize = 64;

/// How memory came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `malloc` and the like.
    Heap,
    /// `mmap`.
    Mapping,
}

/// One site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The same in every run: from files and offsets.
    pub key: u64,
    /// File and address before relocation of each frame.
    pub frames: Vec<(usize, usize)>,
    /// Whether it maps.
    pub mapping: bool,
    /// Bytes that live, and their maximum; estimated for small allocations.
    pub live: f64,
    /// See above.
    pub peak: f64,
    /// Allocations, estimated.
    pub count: f64,
    /// Bytes of all of them.
    pub bytes: f64,
    /// Allocations that were noted.
    pub noted: u64,
    /// By window: pages used, and pages that were there.
    pub used: [(f64, f64); WINDOWS],
    /// By window: pages written.
    pub written: [f64; WINDOWS],
    /// Pages used that could be kept apart from those of others.
    pub exact: f64,
    /// First uses of protected pages, and the seconds that pages were protected.
    pub caught: (u64, f64),
    /// Samples of misses, estimated.
    pub hits: f64,
    /// Name that the program gave to its memory.
    pub tag: Option<Box<str>>,
    /// Pages used, by part of the run.
    pub slices: Vec<f64>,
}

/// What lives at an address.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Bytes.
    pub len: usize,
    /// Site.
    pub site: usize,
    /// Allocations that it stands for.
    pub weight: f64,
    /// Whether its whole pages are a mapping of their own.
    pub view: bool,
    /// How it came.
    pub way: Way,
}

/// All that is known.
pub struct State {
    /// Sites; the first three are made up.
    pub sites: Vec<Site>,
    by_stack: BTreeMap<u64, usize>,
    /// By site of a call stack and name.
    tagged: BTreeMap<(usize, Box<str>), usize>,
    /// By first byte.
    pub blocks: BTreeMap<usize, Block>,
    views: usize,
    /// Files of code.
    pub modules: Vec<Module>,
    /// What a plan wants.
    pub kinds: Kinds,
    /// What was done for it.
    pub placed: BTreeMap<(u64, Kind), Placed>,
    /// One part of a run is so many ticks.
    pub per_slice: u32,
    /// Where large blocks are logged.
    pub log: Option<Log>,
    /// What is done against page faults.
    pub remedies: Remedies,
}

/// The state, once the process has begun.
pub static STATE: Lock<Option<State>> = Lock::new(None);

/// By hash of an address: how many blocks there are. 255 stays.
static FILTER: [AtomicU8; 1 << 16] = [const { AtomicU8::new(0) }; 1 << 16];

fn filter(address: usize) -> &'static AtomicU8 {
    &FILTER[(((address >> 4) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize]
}

/// Whether there may be a block at the address.
#[inline]
pub fn maybe(address: usize) -> bool {
    filter(address).load(Ordering::Relaxed) != 0
}

fn enter(address: usize) {
    let slot = filter(address);
    if slot.load(Ordering::Relaxed) < 255 {
        slot.fetch_add(1, Ordering::Relaxed);
    }
}

fn leave(address: usize) {
    let slot = filter(address);
    if (1..255).contains(&slot.load(Ordering::Relaxed)) {
        slot.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives whole pages a mapping of their own, or takes that away: what core dumps leave out is one.
fn view(address: usize, len: usize, own: bool) -> bool {
    let (start, end) = whole(address, len);
    let advice: c_int = if own { libc::MADV_DONTDUMP } else { libc::MADV_DODUMP };
    // SAFETY: pages of a block that lives; the advice changes nothing but what a core dump has.
    start < end && unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), end - start, advice) } == 0
}

impl State {
    /// Without sites.
    pub fn new(kinds: Kinds) -> State {
        State {
            sites: vec![Site::default(); 3],
            by_stack: BTreeMap::new(),
            tagged: BTreeMap::new(),
            blocks: BTreeMap::new(),
            views: 0,
            modules: modules::all(),
            kinds,
            placed: BTreeMap::new(),
            per_slice: 1,
            log: None,
            remedies: Remedies::default(),
        }
    }

    /// Gives no block a mapping of its own: nobody looks at mappings, and huge pages do not cross them.
    pub fn without_views(&mut self) {
        self.views = VIEWS_MAX;
    }

    fn site(&mut self, stack: &Stack, way: Way) -> usize {
        let hash = stack.hash() ^ way as u64;
        if let Some(&site) = self.by_stack.get(&hash) {
            return site;
        }
        if self.sites.len() >= SITES_MAX {
            return REST;
        }
        let mut frames = Vec::new();
        for &address in stack.frames() {
            if modules::with(&self.modules, address).is_none() {
                // A library that was loaded since.
                self.modules = modules::all();
            }
            // The call is before the address to which it returns.
            let at = self.modules.iter().position(|one| (one.range.0..one.range.1).contains(&address));
            frames.extend(at.map(|at| (at, address - 1 - self.modules[at].base)));
        }
        let words = frames.iter().flat_map(|&(module, offset)| {
            let name = self.modules[module].path.file_name().unwrap_or_default().as_encoded_bytes();
            [mix(name.iter().map(|&byte| u64::from(byte))), offset as u64]
        });
        let key = mix(words.chain([way as u64]));
        let number = self.sites.len();
        self.sites.push(Site { key, frames, mapping: way == Way::Mapping, ..Site::default() });
        self.by_stack.insert(hash, number);
        number
    }

    /// Notes a block that stands for `weight` allocations of its size. Returns its site's key.
    pub fn note(
        &mut self,
        address: usize,
        len: usize,
        weight: f64,
        stack: &Stack,
        way: Way,
        large: bool,
    ) -> u64 {
        let number = self.site(stack, way);
        let site = &mut self.sites[number];
        site.live += weight * len as f64;
        site.peak = site.peak.max(site.live);
        site.count += weight;
        site.bytes += weight * len as f64;
        site.noted += 1;
        let key = site.key;
        if large {
            self.place(key, address, len);
            if let Some(log) = &mut self.log {
                log.block(address, len, key, way == Way::Mapping);
            }
        }
        let view = large && way == Way::Heap && self.views < VIEWS_MAX && view(address, len, true);
        self.views += usize::from(view);
        if self.blocks.insert(address, Block { len, site: number, weight, view, way }).is_none() {
            enter(address);
        }
        key
    }

    /// Forgets the block that begins at an address.
    pub fn forget(&mut self, address: usize) {
        let Some(block) = self.blocks.remove(&address) else { return };
        leave(address);
        if let Some(log) = &mut self.log {
            log.gone(address, address + block.len);
        }
        self.sites[block.site].live -= block.weight * block.len as f64;
        if block.view {
            self.views -= 1;
            crate::protect::freed(address, address + block.len);
            view(address, block.len, false);
        }
    }

    /// Forgets what lies in a range, which is no longer mapped; what is left of a block stays.
    pub fn forget_range(&mut self, start: usize, end: usize) {
        if let Some(log) = &mut self.log {
            log.gone(start, end);
        }
        let touched: Vec<(usize, Block)> = self
            .blocks
            .range(..end)
            .rev()
            .take_while(|(at, block)| **at + block.len > start || **at >= start)
            .map(|(at, block)| (*at, *block))
            .collect();
        for (at, block) in touched.into_iter().filter(|(_, block)| block.way == Way::Mapping) {
            self.blocks.remove(&at);
            leave(at);
            self.sites[block.site].live -= block.weight * block.len as f64;
            for (from, to) in [(at, start.min(at + block.len)), (end.max(at), at + block.len)] {
                if from < to {
                    self.sites[block.site].live += block.weight * (to - from) as f64;
                    self.blocks.insert(from, Block { len: to - from, ..block });
                    enter(from);
                }
            }
        }
    }

    /// Gives what lives in a range a name. It is then a site of its own, and lies where a plan wants that.
    pub fn tag(&mut self, start: usize, end: usize, name: &str) {
        let all = self.blocks.range(..end).rev();
        let inside: Vec<(usize, Block)> = all
            .take_while(|(at, block)| **at + block.len > start || **at >= start)
            .map(|(at, block)| (*at, *block))
            .collect();
        for (at, block) in inside {
            let Some(site) = self.named(block.site, name) else { continue };
            let bytes = block.weight * block.len as f64;
            let old = &mut self.sites[block.site];
            // What was just allocated never was of the site without a name.
            if old.live >= old.peak {
                old.peak -= bytes;
            }
            old.live -= bytes;
            old.count -= block.weight;
            old.bytes -= bytes;
            old.noted -= 1;
            let new = &mut self.sites[site];
            new.live += bytes;
            new.peak = new.peak.max(new.live);
            new.count += block.weight;
            new.bytes += bytes;
            new.noted += 1;
            let key = new.key;
            self.blocks.insert(at, Block { site, ..block });
            if block.weight == 1.0 && block.len >= PAGE {
                self.place(key, at, block.len);
            }
        }
    }

    /// The site of a call stack with a name; `None` if there are too many.
    fn named(&mut self, site: usize, name: &str) -> Option<usize> {
        if let Some(tag) = &self.sites[site].tag {
            // Another name takes the place of the first one.
            let here = (tag.as_ref() == name).then_some(site);
            let base = self.tagged.iter().find(|(_, number)| **number == site).map(|((base, _), _)| *base);
            return here.map_or_else(|| self.named(base?, name), |_| None);
        }
        let known = (site, Box::from(name));
        if let Some(&number) = self.tagged.get(&known) {
            return Some(number);
        }
        if self.sites.len() >= SITES_MAX {
            return None;
        }
        let Site { key, frames, mapping, .. } = &self.sites[site];
        let key = mix(std::iter::once(*key).chain(name.bytes().map(u64::from)));
        let number = self.sites.len();
        let tag = Some(Box::from(name));
        self.sites.push(Site { key, frames: frames.clone(), mapping: *mapping, tag, ..Site::default() });
        self.tagged.insert(known, number);
        Some(number)
    }

    fn place(&mut self, key: u64, address: usize, len: usize) {
        let Some((kind, share)) = self.kinds.of(key) else { return };
        let (start, end) = whole(address, len);
        let done = self.kinds.place(kind, share, start, end);
        self.placed.entry((key, kind)).or_default().add(end.saturating_sub(start), done);
    }

    /// Counts use in a window: pages used and there, by site.
    pub fn used(&mut self, window: usize, site: usize, used: f64, there: f64, exact: bool) {
        let site = &mut self.sites[site];
        site.used[window].0 += used;
        site.used[window].1 += there;
        site.exact += if exact { used } else { 0.0 };
    }

    /// Counts use in a part of the run.
    pub fn slice(&mut self, tick: u32, site: usize, used: f64) {
        let at = (tick / self.per_slice) as usize;
        if at >= SLICES {
            self.per_slice *= 2;
            for site in &mut self.sites {
                site.slices = site.slices.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
            return self.slice(tick, site, used);
        }
        let slices = &mut self.sites[site].slices;
        if slices.len() <= at {
            slices.resize(at + 1, 0.0);
        }
        slices[at] += used;
    }
}
