//! Progress of a verb on standard error: one line that is drawn again on a terminal, with `--progress` a line
//! every few seconds.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use capture::Interrupts;
use indicatif::{ProgressBar, ProgressStyle};
use report::human::{grouped, plural};
use session::{Observer, Progress};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(2);
/// Between two lines that stay.
const EVERY: Duration = Duration::from_secs(5);
/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(20);
/// From a signal until a verb that has not ended is ended.
const GRACE: Duration = Duration::from_millis(350);

/// Shows progress and warnings on standard error; stops verbs when a signal comes.
pub struct Terminal {
    show: Show,
    work: Mutex<Work>,
    stopped: AtomicBool,
    /// Whether the verb ends by itself when it is stopped.
    ends_itself: AtomicBool,
}

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Nothing,
    Lines,
    Redrawn,
}

/// The piece of work that goes on.
#[derive(Default)]
struct Work {
    began: Option<Instant>,
    last_line: Option<Instant>,
    bar: Option<ProgressBar>,
}

static TERMINAL: OnceLock<Terminal> = OnceLock::new();

/// Shows lines that stay if `--progress` was given.
pub fn show_lines(lines: bool) {
    // Set once, before any verb runs.
    TERMINAL.get_or_init(|| Terminal::new(lines));
}

/// Standard error of this process.
pub fn terminal() -> &'static Terminal {
    TERMINAL.get_or_init(|| Terminal::new(false))
}

impl Terminal {
    fn new(lines: bool) -> Self {
        let show = match (lines, std::io::stderr().is_terminal()) {
            (true, _) => Show::Lines,
            (false, true) => Show::Redrawn,
            (false, false) => Show::Nothing,
        };
        Terminal {
            show,
            work: Mutex::default(),
            stopped: AtomicBool::default(),
            ends_itself: AtomicBool::default(),
        }
    }

    /// The verb ends soon when it is stopped, and has something to clear away or to print.
    pub fn verb_ends_itself(&self) {
        self.ends_itself.store(true, Ordering::Relaxed);
    }

    /// Prints what `print` prints, without the line of progress in between.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.work().bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn work(&self) -> std::sync::MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Terminal {
    fn progress(&self, progress: &Progress<'_>) {
        let mut work = self.work();
        if matches!(progress, Progress::Images { .. }) {
            self.verb_ends_itself();
        }
        let elapsed = work.began.get_or_insert_with(Instant::now).elapsed();
        if elapsed < QUIET {
            return;
        }
        match self.show {
            Show::Nothing => {}
            Show::Lines => {
                if work.last_line.is_none_or(|last| last.elapsed() >= EVERY) {
                    work.last_line = Some(Instant::now());
                    // Nobody may read standard error.
                    writeln!(std::io::stderr(), "strandline: {}", text(progress, elapsed)).ok();
                }
            }
            Show::Redrawn => {
                let bar = work.bar.get_or_insert_with(spinner);
                bar.set_message(text(progress, elapsed));
                bar.tick();
            }
        }
    }

    fn finished(&self) {
        let mut work = self.work();
        if let Some(bar) = &work.bar {
            bar.finish_and_clear();
        }
        *work = Work::default();
    }

    fn warn(&self, warning: &str) {
        self.aside(|| crate::warn(warning));
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The line.
#[allow(clippy::cast_precision_loss)]
fn text(progress: &Progress<'_>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match *progress {
        Progress::Events { doing, events } => {
            let events = events as f64 / 1e6;
            format!("{doing}: {events:.1} M events, {:.1} M/s, {seconds:.0} s", events / seconds)
        }
        Progress::Images { points_done, points, images, findings } => format!(
            "checking: crash point {} of {}, {} images, {}",
            grouped(points_done),
            grouped(points),
            grouped(images),
            plural(findings, "finding")
        ),
        Progress::Bytes { doing, done, all, name } => {
            let (done, all) = (done as f64 / 1e6, all as f64 / 1e6);
            let of = if all > 0.0 { format!(" of {all:.0}") } else { String::new() };
            format!("{doing}: {done:.0}{of} MB, {:.0} MB/s: {name}", done / seconds)
        }
        Progress::Steps { doing, done: 0, all, name } => format!("{doing}: 0 of {all}: {name}"),
        Progress::Steps { doing, done, all, name } => {
            let left = seconds / done.max(1) as f64 * (all - done) as f64;
            format!("{doing}: {done} of {all}, {left:.0} s left: {name}")
        }
    }
}

/// A line that turns.
fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let bar = ProgressBar::new_spinner();
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

/// From now on SIGINT, SIGTERM and SIGHUP stop the verb. One that has not ended soon after is ended, with a
/// line that says what was `kept`. A search for crash images, and who says so
/// ([`Terminal::verb_ends_itself`]), ends by itself and says what it found.
pub fn end_soon_after_signals(kept: String) {
    // Without the handlers a signal ends the process at once.
    let Ok(mut interrupts) = Interrupts::note() else { return };
    std::thread::spawn(move || {
        let mut first: Option<Instant> = None;
        loop {
            std::thread::sleep(LOOK);
            if interrupts.take().is_some() {
                terminal().stopped.store(true, Ordering::Relaxed);
                first.get_or_insert_with(Instant::now);
            }
            let late = first.is_some_and(|first| first.elapsed() > GRACE);
            if late && !terminal().ends_itself.load(Ordering::Relaxed) {
                session::abandon();
                crate::warn(&format!("interrupted; {kept}"));
                std::process::exit(2);
            }
        }
    });
}
