//! The thread that watches and moves pages.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use pmem::levelled::{Heat, Limits, Reduction};

use crate::memory::Memory;
use crate::results::Results;
use crate::settings::Settings;

const GIB: f64 = (1u64 << 30) as f64;
const SMALL: usize = 4096;
const LINES: usize = SMALL / 64;
/// Parts of a shuffle of all pages.
const PARTS: u32 = 50;
/// Mappings that are left to the program: each page that moved may need one of its own.
const MAPPINGS_LEFT: usize = 16_384;

/// What the thread knows.
pub struct Control {
    settings: Settings,
    memory: Memory,
    reduction: Reduction,
    results: Results,
    /// By small page: hashes of its lines as they were when it was looked at last.
    seen: BTreeMap<u32, Box<[u32; LINES]>>,
    /// By page: lines written in this interval.
    heat: Vec<u64>,
    /// Lines written in this interval to memory that wears.
    lines: u64,
    began: Instant,
    interval_began: Instant,
    ticks: u32,
    /// Pages not moved in this shuffle of all pages yet, and when its next part is due.
    unshuffled: Vec<u32>,
    next_part: Instant,
    random: u64,
    mappings_max: usize,
}

impl Control {
    /// A loop over the memory.
    pub fn new(settings: Settings, memory: Memory) -> Self {
        let limits = Limits { rate: settings.limit, share: settings.share, quiet: settings.quiet };
        let (now, pages) = (Instant::now(), memory.pages() as usize);
        let maximum = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let maximum = maximum.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530usize);
        Control {
            reduction: Reduction::new(limits),
            results: Results { pages: vec![0; pages], ..Results::default() },
            seen: BTreeMap::new(),
            heat: vec![0; pages],
            lines: 0,
            began: now,
            interval_began: now,
            ticks: 0,
            unshuffled: Vec::new(),
            next_part: now + settings.shuffle.unwrap_or_default() / PARTS,
            random: 0x9e37_79b9_7f4a_7c15 ^ memory.base().addr() as u64,
            mappings_max: maximum.saturating_sub(MAPPINGS_LEFT),
            settings,
            memory,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How long until the next call of [`Control::tick`].
    pub fn pause(&self) -> Duration {
        self.settings.interval / self.settings.ticks
    }

    /// Counts what was written since the last call; at the end of an interval, acts. The program has used the
    /// first `used` pages.
    pub fn tick(&mut self, used: u32) {
        self.count(used);
        self.ticks += 1;
        if self.ticks.is_multiple_of(self.settings.ticks) {
            self.interval();
        }
        if self.settings.shuffle.is_some() && Instant::now() >= self.next_part {
            self.shuffle(used);
        }
    }

    /// Counts what was written since the last call, and writes the results.
    pub fn end(&mut self, used: u32) {
        self.count(used);
        self.write(used);
    }

    /// Writes the results.
    pub fn write(&mut self, used: u32) {
        self.results.elapsed = self.began.elapsed();
        let pages = 0..self.memory.pages();
        self.results.away = pages.filter(|&page| self.memory.is_far(page)).count() as u64;
        self.results.write(&self.settings.out, &self.memory.worn, self.memory.copied, used);
    }

    fn count(&mut self, used: u32) {
        let began = Instant::now();
        let (base, per_page) = (self.memory.base().addr(), (self.settings.page as usize / SMALL) as u32);
        let mut changed: Vec<(u32, u64)> = Vec::new();
        let seen = &mut self.seen;
        let scanned = self.memory.scan(used, |at| {
            let small = ((at.addr() - base) / SMALL) as u32;
            // Memory begins as zeros.
            let before = seen.entry(small).or_insert_with(|| Box::new([hash(&[0; 8]); LINES]));
            changed.push((small / per_page, changes(at, before)));
        });
        if let Err(error) = scanned {
            self.stop("look for written pages", &error);
        }
        for (page, lines) in changed.into_iter().filter(|(_, lines)| *lines > 0) {
            self.heat[page as usize] += lines;
            self.results.pages[page as usize] += lines;
            if self.memory.is_far(page) {
                self.results.far += lines;
            } else {
                self.results.near += lines;
                self.lines += lines;
            }
            self.memory.written(page, lines);
        }
        self.results.watching += began.elapsed();
    }

    fn interval(&mut self) {
        let gib = f64::from(self.memory.pages()) * self.settings.page as f64 / GIB;
        let rate = self.lines as f64 / self.interval_began.elapsed().as_secs_f64().max(1e-3) / gib;
        self.results.rates.push(rate);
        (self.lines, self.interval_began) = (0, Instant::now());
        let side = |far: bool| -> Vec<Heat> {
            let pages = (0..self.memory.pages()).zip(&self.heat);
            let of = pages.filter(|(page, _)| self.memory.is_far(*page) == far);
            of.map(|(page, heat)| (page, *heat)).collect()
        };
        let moves = self.reduction.interval(rate, &side(false), &side(true));
        self.heat.fill(0);
        let began = Instant::now();
        for page in moves.out {
            if self.moved(|memory| memory.out(page)) {
                self.results.out += 1;
            }
        }
        for page in moves.home {
            if self.moved(|memory| memory.home(page)) {
                self.results.home += 1;
            }
        }
        self.results.moving += began.elapsed();
    }

    /// Moves something, unless nothing can be moved any more.
    fn moved(&mut self, work: impl FnOnce(&mut Memory) -> io::Result<()>) -> bool {
        if self.results.stopped.is_some() {
            return false;
        }
        // Each move may split a mapping in three.
        let moves = (self.results.out + self.results.home + 2 * self.results.exchanged) as usize;
        if self.memory.has_frames() && 2 * moves >= self.mappings_max {
            self.stop("move more pages", &io::Error::other("vm.max_map_count; use --page 2MiB"));
            return false;
        }
        match work(&mut self.memory) {
            Ok(()) => true,
            Err(error) => {
                self.stop("move a page", &error);
                false
            }
        }
    }

    fn stop(&mut self, what: &str, error: &io::Error) {
        self.results.stopped.get_or_insert_with(|| format!("can't {what}: {error}"));
    }

    /// A part of a shuffle: pairs of pages that have not moved yet change frames.
    fn shuffle(&mut self, used: u32) {
        let whole = self.settings.shuffle.unwrap_or_default();
        self.next_part += whole / PARTS;
        if !self.memory.has_frames() || used < 2 {
            return;
        }
        if self.unshuffled.is_empty() {
            self.unshuffled = (0..used).collect();
        }
        let began = Instant::now();
        for _ in 0..used.div_ceil(PARTS).div_ceil(2) {
            let (Some(first), Some(second)) = (self.choose(), self.choose()) else { break };
            let far = self.memory.is_far(first) || self.memory.is_far(second);
            if !far && self.moved(|memory| memory.exchange(first, second)) {
                self.results.exchanged += 1;
            }
        }
        self.results.moving += began.elapsed();
    }

    fn choose(&mut self) -> Option<u32> {
        if self.unshuffled.is_empty() {
            return None;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let at = (u128::from(self.random) * self.unshuffled.len() as u128) >> 64;
        Some(self.unshuffled.swap_remove(at as usize))
    }
}

/// How many lines of a small page changed since their hashes were taken; takes them anew.
fn changes(page: *const u8, before: &mut [u32; LINES]) -> u64 {
    let mut changed = 0;
    for (line, old) in before.iter_mut().enumerate() {
        let mut words = [0u64; 8];
        for (at, word) in words.iter_mut().enumerate() {
            // SAFETY: a page of the program's memory, which is mapped as long as the process lives. The
            // program may store to it at the same time; then the next look finds it.
            *word = unsafe { page.cast::<u64>().add(line * 8 + at).read_volatile() };
        }
        let new = hash(&words);
        changed += u64::from(new != *old);
        *old = new;
    }
    changed
}

fn hash(words: &[u64; 8]) -> u32 {
    let mixed = words.iter().fold(0x9e37_79b9_7f4a_7c15u64, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^ (sum >> 31)
    });
    (mixed >> 32) as u32
}
