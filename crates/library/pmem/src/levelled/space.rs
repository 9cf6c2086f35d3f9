//! `Levelled`: a space whose pages change frames while threads use it.

use std::io;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use event::FlushKind;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use space::{Prestore, Space, Word};

use super::freeze::Freezer;
use super::{Frames, LevelError, Recovered, Shape};
use crate::mapped::backing_of;
use crate::{Durability, Mapped};

/// A space over the frames of a file, whose pages are moved to other frames under running threads.
///
/// Each page is a mapping of its frame. A page moves in this order: its writers are held; its contents are
/// copied and its entry in the table changes, durably; its address is mapped to the new frame; its writers go
/// on. Loads go on all the time. On a file in memory (tmpfs) writers are held by the kernel
/// (`userfaultfd`), and a store costs nothing more than on [`Mapped`]. Where the kernel can't do that, on
/// ordinary files and DAX, every store takes a lock for reading ([`Levelled::is_gated`]).
#[derive(Debug)]
pub struct Levelled {
    /// The pages in their order.
    view: Mapped,
    freezer: Option<Freezer>,
    /// Held for reading by stores where nobody else holds writers.
    gate: RwLock<()>,
    state: Mutex<State>,
    shape: Shape,
    recovered: Recovered,
}

#[derive(Debug)]
struct State {
    frames: Frames<Mapped>,
    /// Pages that have not moved in this operation.
    unshuffled: Vec<u32>,
    random: u64,
    moves: u64,
}

/// What a part of a shuffle did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Pairs of pages that were exchanged.
    pub pairs: u64,
    /// Pages that have not been moved in this operation yet.
    pub left: u64,
}

impl Levelled {
    /// A new file with room for `pages` pages of `page` bytes.
    ///
    /// # Errors
    /// If there is no such shape, the file exists or can't be made, or mappings can't be exchanged.
    pub fn create(path: &Path, page: u64, pages: u64) -> Result<Self, LevelError> {
        let shape = Shape { page, pages }.checked()?;
        let frames = Frames::create(Mapped::create(path, shape.bytes())?, shape)?;
        Self::over(frames, Recovered::default())
    }

    /// A file that was made by [`Levelled::create`]; an exchange that was cut by a crash is finished.
    ///
    /// # Errors
    /// If it is none, is damaged, or can't be mapped.
    pub fn open(path: &Path) -> Result<Self, LevelError> {
        let (frames, recovered) = Frames::open(Mapped::open(path)?)?;
        Self::over(frames, recovered)
    }

    fn over(frames: Frames<Mapped>, recovered: Recovered) -> Result<Self, LevelError> {
        let shape = frames.shape();
        let system = |action| move |source: io::Error| LevelError::System { action, source };
        let len = shape.pages * shape.page;
        let (protection, reserve) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        let align = shape.page.max(4096) as usize;
        let bytes = len as usize + align;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let area = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, reserve) };
        let area = area.map_err(|errno| system("reserve address space")(errno.into()))?.cast::<u8>();
        let base = area.wrapping_add(area.addr().next_multiple_of(align) - area.addr());
        let (durability, path) = (frames.space().durability(), frames.space().path().to_owned());
        let view = Mapped::over(base, len, durability, path);
        for page in 0..shape.pages {
            remap(&frames, &view, page).map_err(system("map a page"))?;
        }
        let freezer = Freezer::new().and_then(|freezer| {
            freezer.freeze(view.at(0), shape.page)?;
            freezer.thaw(view.at(0), shape.page)?;
            freezer.wake(view.at(0), shape.page)?;
            Ok(freezer)
        });
        let random = view.address() as u64 ^ 0x9e37_79b9_7f4a_7c15;
        let state = State { frames, unshuffled: Vec::new(), random, moves: 0 };
        let gate = RwLock::new(());
        Ok(Levelled { view, freezer: freezer.ok(), gate, state: Mutex::new(state), shape, recovered })
    }

    /// How many pages of what size.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What opening had to finish.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// What becomes of data that was flushed and fenced.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.view.durability()
    }

    /// Where the pages are mapped.
    #[must_use]
    pub fn address(&self) -> usize {
        self.view.address()
    }

    /// Whether every store takes a lock, because the kernel can't hold writers of this memory. Pointers must
    /// not be used to store to it then.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.freezer.is_none()
    }

    /// The frame in which a page lies at this moment.
    #[must_use]
    pub fn frame_of(&self, page: u64) -> u64 {
        self.state().frames.frame_of(page)
    }

    /// Pages that were moved since the space was opened.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.state().moves
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges two pages: the first goes to the spare frame, the second to the frame of the first. Other
    /// threads may use both meanwhile.
    ///
    /// # Errors
    /// If the system can't hold writers or map a frame. The pages' contents are as before.
    ///
    /// # Panics
    /// If there are no such pages, or they are the same.
    pub fn exchange(&self, first: u64, second: u64) -> Result<(), LevelError> {
        let pages = self.shape.pages;
        assert!(
            first < pages && second < pages && first != second,
            "two pages of {pages}: {first}, {second}"
        );
        let mut state = self.state();
        state.frames.begin_exchange(first, second);
        self.move_page(&mut state, first)?;
        self.move_page(&mut state, second)?;
        state.frames.end_exchange();
        Ok(())
    }

    /// Moves a page under its writers.
    fn move_page(&self, state: &mut State, page: u64) -> Result<(), LevelError> {
        let system = |action| move |source| LevelError::System { action, source };
        let (address, len) = (self.view.at(page * self.shape.page), self.shape.page);
        let _gate = match &self.freezer {
            Some(freezer) => {
                freezer.freeze(address, len).map_err(system("hold the writers of a page"))?;
                None
            }
            None => Some(self.gate.write().unwrap_or_else(PoisonError::into_inner)),
        };
        state.frames.move_to_spare(page);
        let mapped = remap(&state.frames, &self.view, page);
        if let Some(freezer) = &self.freezer {
            freezer.wake(address, len).map_err(system("let the writers of a page go on"))?;
        }
        // Without the new mapping, stores would go to a frame that the page has left.
        mapped.map_err(system("map a page to its new frame")).inspect_err(|error| {
            debug_assert!(false, "a frame that was mapped can be mapped again: {error}");
        })?;
        state.moves += 1;
        Ok(())
    }

    /// A part of a shuffle: moves `1 / intervals_left` of the pages that have not moved in this operation,
    /// chosen at random, in pairs. When all have moved, the next call begins a new operation.
    ///
    /// # Errors
    /// As [`Levelled::exchange`].
    pub fn shuffle(&self, intervals_left: u64) -> Result<Exchanged, LevelError> {
        let mut state = self.state();
        if state.unshuffled.is_empty() {
            state.unshuffled = (0..self.shape.pages as u32).collect();
        }
        let pages = (state.unshuffled.len() as u64).div_ceil(intervals_left.max(1)).div_ceil(2);
        drop(state);
        let mut done = Exchanged::default();
        for _ in 0..pages {
            let mut state = self.state();
            let Some(first) = choose(&mut state) else { break };
            // A page that is left over moves with one that has moved already.
            let second = choose(&mut state).unwrap_or((first + 1) % self.shape.pages);
            drop(state);
            self.exchange(first, second)?;
            done.pairs += 1;
        }
        done.left = self.state().unshuffled.len() as u64;
        Ok(done)
    }

    #[inline(always)]
    fn enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if self.freezer.is_some() {
            return None;
        }
        Some(self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn choose(state: &mut State) -> Option<u64> {
    let count = state.unshuffled.len() as u64;
    if count == 0 {
        return None;
    }
    state.random ^= state.random << 13;
    state.random ^= state.random >> 7;
    state.random ^= state.random << 17;
    let at = (u128::from(state.random) * u128::from(count)) >> 64;
    Some(u64::from(state.unshuffled.swap_remove(at as usize)))
}

/// Maps a page's address to the frame in which the table says it lies.
fn remap(frames: &Frames<Mapped>, view: &Mapped, page: u64) -> io::Result<()> {
    let shape = frames.shape();
    let (file, flags) = backing_of(frames.space()).ok_or(io::ErrorKind::Unsupported)?;
    let (protection, len) = (ProtFlags::READ | ProtFlags::WRITE, shape.page as usize);
    let offset = shape.frame(frames.frame_of(page));
    // SAFETY: the range is a page of the view, which belongs to this space and into which nobody has
    // references; what is mapped there has the same bytes as what was.
    unsafe {
        mmap(view.at(page * shape.page).cast(), len, protection, flags | MapFlags::FIXED, file, offset)?;
    }
    Ok(())
}

impl Space for Levelled {
    type Observer = ();

    #[inline(always)]
    fn observer(&self) -> &() {
        &()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.view.len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.view.flush_kind()
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.view.load_word(offset)
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        let _gate = self.enter();
        self.view.store_word(offset, value);
    }

    #[inline(always)]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        let _gate = self.enter();
        self.view.store_words(offset, words);
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let _gate = self.enter();
        self.view.cas_u64(offset, old, new)
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        let _gate = self.enter();
        self.view.store_nt(offset, bytes);
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        self.view.flush(offset, len);
    }

    #[inline(always)]
    fn fence(&self) {
        self.view.fence();
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        self.view.fence_writes()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        self.view.nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.view.has_failed()
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.view.prestore(offset, len, hint);
    }
}
