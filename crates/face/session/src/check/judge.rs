//! Recovery as a function of this process, in place of a command.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a function learns of an image.
#[derive(Clone, Copy, Debug)]
pub struct Laid<'a> {
    /// The image's file, or its folder if there are several files; of ordinary files, what stands for the path that is checked.
    pub path: &'a Path,
    /// Regions that had begun before the crash.
    pub begun: u64,
    /// Regions that had ended: what they did must be there.
    pub ended: u64,
}

/// Recovers an image and checks it; the error is what is wrong with it. It is called from several threads, has no time limit, and
/// runs in the running system, not as after a reboot.
#[derive(Clone)]
pub struct Judge(Arc<Function>);

type Function = dyn Fn(Laid<'_>) -> Result<(), String> + Send + Sync;

impl Judge {
    /// A function as recovery.
    #[must_use]
    pub fn new(function: impl Fn(Laid<'_>) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Judge(Arc::new(function))
    }

    /// What it says of an image.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn examine(&self, laid: Laid<'_>) -> Result<(), String> {
        (self.0)(laid)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}
