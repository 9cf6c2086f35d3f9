//! Crash checks of structures that live on a [`space::Space`], within this process.
//!
//! A scenario runs once on a simulated environment ([`record`]); then recovery runs on the images that a
//! crash of that run could have left ([`Check`]). Both are closures, generic over the same [`space::Env`] and
//! [`space::Space`] as the structure. From image to image only the words that differ are written, what
//! recovery wrote is taken back, and lines that it does not read are not varied: small structures are checked
//! at some hundred thousand images per second.
//!
//! ```
//! use space::{Env, Space, sim::Schedule};
//! use strandline::check::{self, Check};
//! use strandline::crash::Platform;
//!
//! // A value, and a flag that says that it is there; the flag is stored too early.
//! let run = check::record(4096, Platform::ADR, &Schedule::walk(1), |env| {
//!     let space = env.space();
//!     space.store_u64(64, 7);
//!     space.store_u64(0, 1);
//!     space.persist(64, 8);
//!     space.persist(0, 8);
//! })?;
//! let checked = Check::new(&run).run(|image, _| match (image.load_u64(0), image.load_u64(64)) {
//!     (1, value) if value != 7 => Err(format!("the flag is set, but the value is {value}")),
//!     _ => Ok(()),
//! });
//! assert_eq!(checked.findings.len(), 1);
//! # Ok::<(), strandline::check::RunError>(())
//! ```

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crash::{
    Checker, Contents, Finding, History, Oracle, Outcome, Platform, Read, Recorder, Token, TokenError,
};
use space::sim::{Failure, Schedule};
use space::{Image, Recorded, Recording, Scratch, Sim, Space};

/// The environment of a scenario that is recorded for a check.
pub type Scene = Sim<Recorded<Image, Recorder>>;

/// A scenario that was run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What a crash needs to know of it.
    pub history: History,
    /// What was in memory before.
    pub contents: Contents,
    /// The schedule's token, with which the same run can be had again.
    pub schedule: Schedule,
    len: u64,
}

/// Why there is no run to be checked.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario did not come to its end.
    #[error("the scenario failed: {0} (schedule {1})")]
    Failed(Box<Failure>, Box<Schedule>),
    /// The recorder could not go on.
    #[error(transparent)]
    Recorder(#[from] event::SinkError),
}

/// The name of the space in histories.
const NAME: &str = "space";
/// Accesses of words after which recovery counts as endless.
const ACCESSES_MAX: u64 = 100_000_000;

/// Runs a scenario on `len` bytes of zeros.
///
/// # Errors
/// When the scenario panics or its threads wait for each other for ever.
///
/// # Panics
/// If `len` is not a multiple of 8.
pub fn record(
    len: u64,
    platform: Platform,
    schedule: &Schedule,
    scenario: impl FnOnce(&Scene),
) -> Result<Run, RunError> {
    record_on(Image::new(len), platform, schedule, scenario)
}

/// Runs a scenario on an image, such as an earlier run left.
///
/// # Errors
/// When the scenario panics or its threads wait for each other for ever.
pub fn record_on(
    image: Image,
    platform: Platform,
    schedule: &Schedule,
    scenario: impl FnOnce(&Scene),
) -> Result<Run, RunError> {
    record_through(image, platform, schedule, |space| space, |space| space, scenario)
}

/// As [`record_on`], through a space that `wrap` puts before the one that is recorded, and `unwrap` takes
/// away again: one whose fences fail, or whose process dies. What it does not pass on has not happened.
///
/// # Errors
/// As [`record_on`].
pub fn record_through<S: Space>(
    image: Image,
    platform: Platform,
    schedule: &Schedule,
    wrap: impl FnOnce(Recorded<Image, Recorder>) -> S,
    unwrap: impl FnOnce(S) -> Recorded<Image, Recorder>,
    scenario: impl FnOnce(&Sim<S>),
) -> Result<Run, RunError> {
    let mut contents = Contents::default();
    let before = image.to_bytes();
    let len = before.len() as u64;
    contents.insert(NAME, before);
    let recording = Recording { values: true, ..Recording::persistent("strandline check", NAME) };
    let space = Recorded::new(image, Recorder::new(platform), &recording)?;
    let run = space::sim::run(wrap(space), schedule, scenario);
    if let Err(failure) = run.result {
        return Err(RunError::Failed(Box::new(failure), Box::new(run.token)));
    }
    let (_, recorder) = unwrap(run.space).finish()?;
    Ok(Run { history: recorder.into_history(), contents, schedule: run.token, len })
}

/// What recovery knows besides the image.
#[derive(Clone, Copy, Debug)]
pub struct Crash<'a> {
    image: &'a crash::Image<'a>,
}

impl Crash<'_> {
    /// The image as the checker has it, for an oracle such as [`crash::Regions`].
    #[must_use]
    pub fn image(&self) -> &crash::Image<'_> {
        self.image
    }

    /// Regions that had begun.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.image.begun
    }

    /// Regions that had ended: whatever the structure promises then holds for these.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.image.ended
    }

    /// Numbers of the regions that had ended, each thread's in its order.
    pub fn ended_regions(&self) -> impl Iterator<Item = u64> {
        self.image.ended_regions()
    }
}

/// A check of a run; fields of [`Check::checker`] say how much is examined.
#[derive(Debug)]
pub struct Check<'r> {
    run: &'r Run,
    /// Bounds, strategy, seed.
    pub checker: Checker<'r>,
}

impl<'r> Check<'r> {
    /// A check with default bounds.
    #[must_use]
    pub fn new(run: &'r Run) -> Self {
        Check { run, checker: Checker::new(&run.history, &run.contents) }
    }

    /// Recovers the images that strategy and bounds allow with `recover`, which says what is wrong with it. A
    /// panic is wrong, too, and so is recovery without an end.
    pub fn run(&self, recover: impl FnMut(&Scratch, Crash<'_>) -> Result<(), String>) -> Outcome {
        self.checker.run(&mut Recovery::new(self.run, recover))
    }

    /// As [`Check::run`], for as long as `go_on` says so, which receives the outcome so far after each crash
    /// point. What was examined by then is spread over the run.
    pub fn run_while(
        &self,
        recover: impl FnMut(&Scratch, Crash<'_>) -> Result<(), String>,
        go_on: &mut dyn FnMut(&Outcome) -> bool,
    ) -> Outcome {
        self.checker.part(0, 1, &mut Recovery::new(self.run, recover), go_on)
    }

    /// Examines the part `part` of `parts`: for checks on several threads, whose outcomes are put together
    /// with [`Outcome::merge`].
    pub fn part(
        &self,
        part: usize,
        parts: usize,
        recover: impl FnMut(&Scratch, Crash<'_>) -> Result<(), String>,
    ) -> Outcome {
        self.checker.part(part, parts, &mut Recovery::new(self.run, recover), &mut |_| true)
    }

    /// Recovers the image of a token.
    ///
    /// # Errors
    /// When the token is of another run.
    pub fn replay(
        &self,
        token: &Token,
        recover: impl FnMut(&Scratch, Crash<'_>) -> Result<(), String>,
    ) -> Result<Option<Finding>, TokenError> {
        self.checker.replay(token, &mut Recovery::new(self.run, recover))
    }

    /// The findings as a text, for a test that fails.
    #[must_use]
    pub fn story(&self, outcome: &Outcome) -> String {
        let mut text = String::new();
        for finding in &outcome.findings {
            text.push_str(&format!("{}\n", finding.message));
            for line in finding.story(&self.run.history) {
                text.push_str(&line);
                text.push('\n');
            }
            text.push_str(&format!("image {}, schedule {}\n\n", finding.token, self.run.schedule));
        }
        text
    }
}

/// The oracle around a closure.
struct Recovery<F> {
    scratch: Scratch,
    recover: F,
    read: Vec<Read>,
    words: Vec<(u64, u64)>,
}

impl<F: FnMut(&Scratch, Crash<'_>) -> Result<(), String>> Recovery<F> {
    fn new(run: &Run, recover: F) -> Self {
        let scratch = match run.contents.file(NAME) {
            Some(bytes) => Scratch::from_bytes(bytes),
            None => Scratch::new(run.len),
        };
        scratch.limit(ACCESSES_MAX);
        Recovery { scratch, recover, read: Vec::new(), words: Vec::new() }
    }
}

impl<F: FnMut(&Scratch, Crash<'_>) -> Result<(), String>> Oracle for Recovery<F> {
    fn examine(&mut self, image: &crash::Image<'_>) -> Result<(), String> {
        self.words.clear();
        self.words.extend(image.changes.iter().map(|change| (change.place.offset(), change.word)));
        self.scratch.apply(&self.words);
        let attempt = AssertUnwindSafe(|| (self.recover)(&self.scratch, Crash { image }));
        let result = quietly(|| catch_unwind(attempt));
        self.read.clear();
        self.read.extend(
            self.scratch
                .touched()
                .map(|touched| Read { line: crash::Place::new(0, touched.line), words: touched.words }),
        );
        self.scratch.rollback();
        result.unwrap_or_else(|panic| {
            let text =
                panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("recovery panicked: {}", text.unwrap_or("with a value that is no text")))
        })
    }

    fn read(&self) -> Option<&[Read]> {
        Some(&self.read)
    }
}

thread_local! {
    /// Whether panics of this thread are expected.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without a message on standard error for each of its panics: they become findings, and there
/// may be thousands.
fn quietly<R>(work: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = work();
    QUIET.set(false);
    result
}
