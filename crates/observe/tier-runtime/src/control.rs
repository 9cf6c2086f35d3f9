//! The thread that looks which pages are used.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use pmem::levelled::Watcher;

use crate::calls;
use crate::feed::Feed;
use crate::page::PAGE;
use crate::pins;
use crate::protect;
use crate::referenced::Referenced;
use crate::settings::{Settings, Source};
use crate::sites::{STATE, WINDOWS};

/// Children that this process made by `fork`.
pub static FORKS: AtomicU64 = AtomicU64::new(0);
/// Lengths of windows, taken in turn: short ones tell hot pages apart, long ones cold ones.
pub const LENGTHS: [Duration; WINDOWS] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];
/// A look may take this share of the time.
const SHARE: f64 = 0.02;
/// Seconds that the first store to a watched page takes, about.
const FAULT: f64 = 1e-6;
/// Seconds that a use of a protected page takes, about: a signal, and two changes of rights.
const SIGNAL: f64 = 8e-6;
/// Ticks between two looks at the sizes of mappings, where nothing else is looked at.
const SIZES: u32 = 5;
/// Call stacks per second above which fewer are taken: at 2 microseconds each, 1 % of the time.
const STACKS: f64 = 5_000.0;

/// What the thread knows.
pub struct Control {
    /// What was asked for.
    pub settings: Settings,
    /// When it began.
    pub began: Instant,
    referenced: Option<Referenced>,
    feed: Option<Feed>,
    watcher: Option<Watcher>,
    watched: Vec<(usize, usize, usize)>,
    /// Windows taken.
    pub ticks: u32,
    /// Seconds that looking took.
    pub looking: f64,
    /// Why something can't be seen.
    pub unseen: Vec<String>,
    pause: Duration,
    last: (Instant, u64),
    random: u64,
}

impl Control {
    /// With what the kernel lets it use.
    pub fn new(settings: Settings) -> Self {
        let mut unseen = Vec::new();
        let mut referenced = None;
        let mut watcher = None;
        if matches!(settings.source, Source::Referenced | Source::Written) {
            match Referenced::new() {
                Ok(bits) => referenced = Some(bits),
                Err(error) => unseen.push(format!("referenced bits: {error}")),
            }
        }
        if settings.source == Source::Written {
            match Watcher::new() {
                Ok(one) => watcher = Some(one),
                Err(error) => unseen.push(format!("stores (userfaultfd, PAGEMAP_SCAN): {error}")),
            }
        }
        if settings.source == Source::Protect && !protect::begin() {
            unseen.push("signals of protected pages can't be handled".to_owned());
        }
        let mut feed = None;
        if matches!(settings.source, Source::Sampled | Source::Damon) {
            let path = settings.feed.as_deref().ok_or(std::io::ErrorKind::NotFound.into());
            match path.and_then(Feed::open).and_then(|feed| Ok((feed, Referenced::reading()?))) {
                Ok((one, views)) => (feed, referenced) = (Some(one), Some(views)),
                Err(error) => unseen.push(format!("what is seen from outside: {error}")),
            }
        }
        let now = Instant::now();
        Control {
            feed,
            pause: settings.interval,
            settings,
            began: now,
            referenced,
            watcher,
            watched: Vec::new(),
            ticks: 0,
            looking: 0.0,
            unseen,
            last: (now, 0),
            random: 0x2545_f491_4f6c_dd1d,
        }
    }

    /// How long until the next call of [`Control::tick`].
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// KiB of huge pages, at most.
    pub fn huge_kib(&self) -> u64 {
        self.referenced.as_ref().map_or(0, |bits| bits.huge_kib)
    }

    /// A window.
    pub fn tick(&mut self) {
        let (noted, ..) = calls::noted();
        let stacks = (noted - self.last.1) as f64 / self.last.0.elapsed().as_secs_f64().max(1e-3);
        if stacks > STACKS {
            calls::fewer();
        }
        self.last = (Instant::now(), noted);
        let window = self.ticks as usize % WINDOWS;
        let before = cpu();
        let mut cost = 0.0;
        if self.feed.is_some() {
            self.fed();
        } else if self.referenced.is_some() {
            cost += self.bits(window);
        }
        if self.settings.source == Source::Protect {
            cost += self.protected(window);
        }
        let own = cpu() - before;
        self.looking += own + cost;
        self.ticks += 1;
        let least = Duration::from_secs_f64(((own + cost) / SHARE).min(60.0));
        self.pause = self.settings.interval.max(least);
    }

    /// What came from outside. The last of it comes when the program ends.
    pub fn fed(&mut self) {
        let (Some(feed), Some(views)) = (&mut self.feed, &mut self.referenced) else { return };
        let read = self.ticks.is_multiple_of(SIZES) && views.read().is_ok();
        STATE.with(|state| {
            let Some(state) = state else { return };
            feed.take(state, views, self.ticks);
            if read {
                views.sizes(state);
            }
        });
    }

    /// Referenced bits, and stores. Returns seconds that the program's threads lost.
    fn bits(&mut self, window: usize) -> f64 {
        let mut cost = 0.0;
        if self.watcher.is_some() {
            self.watch();
        }
        let Some(bits) = &mut self.referenced else { return 0.0 };
        if let Err(error) = bits.clear() {
            self.unseen.push(format!("referenced bits: {error}"));
            self.referenced = None;
            return 0.0;
        }
        std::thread::sleep(LENGTHS[window]);
        let read = bits.read();
        STATE.with(|state| {
            let Some(state) = state.as_mut().filter(|_| read.is_ok()) else { return };
            bits.count(state, window, self.ticks);
            if let Some(watcher) = &self.watcher {
                for &(start, end, site) in &self.watched {
                    let at = std::ptr::with_exposed_provenance_mut(start);
                    let mut pages = 0;
                    let written = |from: u64, to: u64| pages += (to - from) / PAGE as u64;
                    if watcher.scan(at, (end - start) as u64, written).is_ok() {
                        state.sites[site].written[window] += pages as f64;
                        cost += pages as f64 * FAULT;
                    }
                }
            }
        });
        cost
    }

    /// Watches what was allocated since, and begins the window.
    fn watch(&mut self) {
        let Some(watcher) = &self.watcher else { return };
        STATE.with(|state| {
            let Some(state) = state else { return };
            let blocks = Referenced::watched(state);
            for &(start, end, _) in &blocks {
                let (at, len) = (std::ptr::with_exposed_provenance_mut(start), (end - start) as u64);
                if self.watched.iter().all(|one| (one.0, one.1) != (start, end)) {
                    watcher.watch(at, len).ok();
                }
                watcher.scan(at, len, |_, _| ()).ok();
            }
            self.watched = blocks;
        });
    }

    /// Pages without rights for a window.
    fn protected(&mut self, window: usize) -> f64 {
        let taken = STATE.with(|state| {
            let Some(state) = state else { return Vec::new() };
            let blocks = Referenced::watched(state);
            let all: usize = blocks.iter().map(|(start, end, _)| (end - start) / PAGE).sum();
            if all == 0 {
                return Vec::new();
            }
            let mut pages = Vec::new();
            for _ in 0..protect::SLOTS.min(all.div_ceil(8)) {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let mut at = (self.random % all as u64) as usize;
                for &(start, end, site) in &blocks {
                    let here = (end - start) / PAGE;
                    if at < here {
                        if pages.iter().all(|&(page, _)| page != start + at * PAGE) {
                            pages.push((start + at * PAGE, site));
                        }
                        break;
                    }
                    at -= here;
                }
            }
            protect::begin_window(&pages, pins::free)
        });
        std::thread::sleep(LENGTHS[window]);
        let mut cost = taken.len() as f64 * SIGNAL / 4.0;
        STATE.with(|state| {
            let caught = protect::end_window(&taken);
            let Some(state) = state else { return };
            for (site, used, seconds) in caught {
                state.sites[site].caught.0 += used;
                state.sites[site].caught.1 += seconds;
                cost += used as f64 * SIGNAL;
                state.slice(self.ticks, site, used as f64);
            }
        });
        cost
    }
}

/// Seconds that this thread has run.
fn cpu() -> f64 {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for a time, which is filled.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
