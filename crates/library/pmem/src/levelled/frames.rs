//! The durable part of a levelled space: which frame a page lies in, and how that changes so that a crash
//! loses nothing.
//!
//! A page moves in three steps. Its contents are copied to the spare frame by non-temporal stores; a fence
//! makes them durable; then the page's entry, one word, names the spare, and is made durable, too. Before the
//! last step the old frame has the page, after it the new one, and both have the same bytes as long as nobody
//! stores meanwhile: the caller holds the writers. The old frame is the spare now. An *exchange* of two pages
//! is two such moves, the second into the frame that the first left. It says in the journal what it is about
//! to do, so that recovery finishes it.
//!
//! A store that was made but not flushed before its page moved is durable afterwards, which it may be at any
//! time.

use space::Space;

use super::LevelError;
use super::layout::{
    CHECK, FIRST, FRAME_A, FRAME_B, JOURNAL, JOURNAL_CHECK, MAGIC, PAGE, PAGES, SECOND, Shape, TEMPORARY,
    checksum,
};

/// The journal's phases.
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
/// Bytes that are copied at a time.
const PIECE: usize = 512;

/// The table of a levelled space, over the space that holds table and frames.
#[derive(Debug)]
pub struct Frames<S: Space> {
    space: S,
    shape: Shape,
    spare: u64,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// An exchange was under way and had moved no page; it is forgotten.
    pub forgotten: bool,
    /// An exchange had moved one of its pages; the other was moved as well.
    pub finished: bool,
}

impl<S: Space> Frames<S> {
    /// Makes the table in a space of zeros or of anything else: page n lies in frame n. The frames stay as
    /// they are.
    ///
    /// # Errors
    /// If there is no such shape, or the space is too short for it.
    pub fn create(space: S, shape: Shape) -> Result<Self, LevelError> {
        let shape = shape.checked()?;
        if space.len() < shape.bytes() {
            return Err(LevelError::Short { found: space.len(), expected: shape.bytes() });
        }
        // The magic comes last, so that a crash in between leaves no levelled space.
        space.store_u64(0, 0);
        space.persist(0, 8);
        for page in 0..shape.pages {
            space.store_u64(shape.entry(page), Shape::entry_word(page, page));
        }
        space.flush(shape.entry(0), 8 * shape.pages);
        for (offset, value) in
            [(PAGE, shape.page), (PAGES, shape.pages), (CHECK, shape.check()), (JOURNAL, IDLE)]
        {
            space.store_u64(offset, value);
        }
        space.persist(0, 128);
        space.store_u64(0, MAGIC);
        space.persist(0, 8);
        Ok(Frames { space, shape, spare: shape.pages })
    }

    /// Reads the table, and finishes an exchange that a crash cut.
    ///
    /// # Errors
    /// If it is none, was cut or is damaged.
    pub fn open(space: S) -> Result<(Self, Recovered), LevelError> {
        let shape = Self::shape_of(&space)?;
        let spare = Self::spare_of(&space, shape)?;
        let mut frames = Frames { space, shape, spare };
        let recovered = frames.recover();
        Ok((frames, recovered))
    }

    fn shape_of(space: &S) -> Result<Shape, LevelError> {
        let found = if space.len() < 128 { 0 } else { space.load_u64(0) };
        if found != MAGIC {
            return Err(LevelError::Foreign { offset: 0, found, expected: MAGIC });
        }
        let shape = Shape { page: space.load_u64(PAGE), pages: space.load_u64(PAGES) };
        let (found, expected) = (space.load_u64(CHECK), shape.check());
        if found != expected {
            return Err(LevelError::Foreign { offset: CHECK, found, expected });
        }
        let shape = shape.checked()?;
        if space.len() < shape.bytes() {
            return Err(LevelError::Short { found: space.len(), expected: shape.bytes() });
        }
        Ok(shape)
    }

    /// The frame that no page lies in.
    fn spare_of(space: &S, shape: Shape) -> Result<u64, LevelError> {
        let mut taken = vec![false; shape.frames() as usize];
        for page in 0..shape.pages {
            let (offset, entry) = (shape.entry(page), space.load_u64(shape.entry(page)));
            let frame = Shape::frame_in(entry);
            match taken.get_mut(frame as usize) {
                Some(taken) if !*taken && entry == Shape::entry_word(page, frame) => *taken = true,
                _ => return Err(LevelError::Damaged { offset, page, frame }),
            }
        }
        Ok(taken.iter().position(|taken| !taken).map_or(shape.pages, |frame| frame as u64))
    }

    fn recover(&mut self) -> Recovered {
        let mut recovered = Recovered::default();
        let space = &self.space;
        if space.load_u64(JOURNAL) == IDLE {
            return recovered;
        }
        let words = [FIRST, SECOND, FRAME_A, FRAME_B, TEMPORARY].map(|offset| space.load_u64(offset));
        let [first, second, a, b, temporary] = words;
        let whole = space.load_u64(JOURNAL_CHECK) == checksum(&words);
        // What the journal says has to agree with the table, which is what counts.
        if whole && first < self.shape.pages && second < self.shape.pages && first != second {
            let half = self.frame_of(first) == temporary && self.frame_of(second) == b && self.spare == a;
            if half {
                self.move_to_spare(second);
                recovered.finished = true;
            }
        }
        recovered.forgotten = !recovered.finished;
        self.end_exchange();
        recovered
    }

    /// The space that holds all this.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// How many pages of what size.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The frame in which a page lies.
    #[must_use]
    pub fn frame_of(&self, page: u64) -> u64 {
        Shape::frame_in(self.space.load_u64(self.shape.entry(page)))
    }

    /// The frame in which no page lies.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.spare
    }

    /// Says in the journal that two pages are about to be moved, the first into the spare, the second into
    /// the frame of the first.
    pub fn begin_exchange(&self, first: u64, second: u64) {
        let words = [first, second, self.frame_of(first), self.frame_of(second), self.spare];
        for (offset, word) in [FIRST, SECOND, FRAME_A, FRAME_B, TEMPORARY].into_iter().zip(words) {
            self.space.store_u64(offset, word);
        }
        self.space.store_u64(JOURNAL_CHECK, checksum(&words));
        self.space.persist(JOURNAL, 64);
        self.space.store_u64(JOURNAL, RUNNING);
        self.space.persist(JOURNAL, 8);
    }

    /// Says that the exchange is over.
    pub fn end_exchange(&self) {
        self.space.store_u64(JOURNAL, IDLE);
        self.space.persist(JOURNAL, 8);
    }

    /// Copies a page to the spare frame. What was copied is durable after the next fence.
    pub fn copy_to_spare(&self, page: u64) {
        let (from, to) = (self.shape.frame(self.frame_of(page)), self.shape.frame(self.spare));
        let mut piece = [0; PIECE];
        for at in (0..self.shape.page).step_by(PIECE) {
            self.space.load(from + at, &mut piece);
            self.space.store_nt(to + at, &piece);
        }
    }

    /// Lets a page's entry name the spare frame, durably. Its old frame is the spare from then on; it is
    /// returned.
    pub fn commit_to_spare(&mut self, page: u64) -> u64 {
        let (entry, old) = (self.shape.entry(page), self.frame_of(page));
        self.space.store_u64(entry, Shape::entry_word(page, self.spare));
        self.space.persist(entry, 8);
        self.spare = old;
        old
    }

    /// Moves a page to the spare frame. Nobody may store to the page meanwhile. Returns the frame that it
    /// left.
    pub fn move_to_spare(&mut self, page: u64) -> u64 {
        self.copy_to_spare(page);
        self.space.fence();
        self.commit_to_spare(page)
    }

    /// Exchanges two pages that nobody stores to meanwhile.
    pub fn exchange(&mut self, first: u64, second: u64) {
        self.begin_exchange(first, second);
        self.move_to_spare(first);
        self.move_to_spare(second);
        self.end_exchange();
    }
}
