//! Thresholds, with their reasons.

/// When the advisor speaks. Shares are 0 to 1, distances are instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The phase to judge. `None`: all that a program marks but those named `load`, `setup`, `warmup` or
    /// `check`, and what comes before the first mark: who prepares an experiment is not its subject. Nor is
    /// what these phases read when they come first a use of what others wrote, whichever phase is judged
    /// (unless it is that one); what they write over is still written again.
    pub phase: Option<String>,
    /// A program whose stores are a smaller part of what it does is left alone: 10 %, the cut-off of the
    /// method's authors.
    pub intensity_min: f64,
    /// A function with a smaller part of the stored bytes, or of all loads and stores, is left alone: it has
    /// little time to gain.
    pub function_min: f64,
    /// A source line with a smaller part of its function's stored bytes is left out of the report.
    pub place_min: f64,
    /// A place that stores fewer bytes than this in all has nothing to gain.
    pub bytes_min: u64,
    /// A place writes sequentially if at least this part of its bytes lies in contexts of a line or more,
    /// written one after the other.
    pub sequential_min: f64,
    /// A place writes before fences if at least this part of its bytes is stored within `fence_distance` of
    /// the next fence, and not within `fence_room`. The mere minimum distance would do for any loop that ends
    /// in a barrier.
    pub fenced_min: f64,
    /// Instructions between a store and a fence below which there is nothing to gain: a call of `sl_prestore`
    /// on two lines takes 11 (gcc -O2) to 45 (-O0). The fence then waits for the pre-store as it would have
    /// for the store.
    pub fence_room: u64,
    /// Instructions between a store and a fence that can still hide the store's way to memory.
    pub fence_distance: u64,
    /// Bytes of the caches: data used again after the program touched more than that has left them, so it
    /// counts as not used again. The default is the last-level cache of the `xpoint` presets.
    pub cache_bytes: u64,
    /// Data count as read (or written) again if at least this part of their lines is: what is right for most
    /// lines is done to all. Written again behind a fence, which is what can be demoted, counts likewise.
    pub reused_min: f64,
    /// Data that the functions which store most soon read again, in the thread that stored them, are never
    /// advised to skip the cache, if it is at least this part of the lines: such a function would wait for
    /// memory in its own inner loop, and cleaning does no harm where it is not needed.
    pub writers_reread_min: f64,
    /// A size class with a smaller part of a place's sequential bytes has no say in the place's advice.
    pub class_min: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            phase: None,
            intensity_min: 0.1,
            function_min: 0.1,
            place_min: 0.1,
            bytes_min: 64 << 10,
            sequential_min: 0.5,
            fenced_min: 0.5,
            fence_room: 16,
            fence_distance: 2_000,
            cache_bytes: 33 << 20,
            reused_min: 0.5,
            writers_reread_min: 0.001,
            class_min: 0.05,
        }
    }
}

/// Phases that prepare or examine.
const ASIDE: [&str; 4] = ["load", "setup", "warmup", "check"];

impl Options {
    /// Whether a phase of this name is judged.
    /// `marked`: the program marks phases.
    pub(super) fn judges(&self, phase: Option<&str>, marked: bool) -> bool {
        match (&self.phase, phase) {
            (Some(wanted), _) => phase == Some(wanted.as_str()),
            (None, Some(name)) => !self.is_aside(name),
            (None, None) => !marked,
        }
    }

    /// Whether a phase of this name prepares or examines, and nobody asks about it. What it reads is no use
    /// of what others wrote.
    pub(super) fn is_aside(&self, phase: &str) -> bool {
        ASIDE.contains(&phase) && self.phase.as_deref() != Some(phase)
    }
}
