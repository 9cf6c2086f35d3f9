//! What is left for `strandline wear run`: lines of a name and values, replaced as a whole.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Since the program began.
    pub elapsed: Duration,
    /// Lines that the program wrote, in memory that wears and in DRAM.
    pub near: u64,
    /// See above.
    pub far: u64,
    /// Pages that went to DRAM, came home, and were exchanged in pairs.
    pub out: u64,
    /// See above.
    pub home: u64,
    /// See above.
    pub exchanged: u64,
    /// Pages that are in DRAM now.
    pub away: u64,
    /// Writes per second and GiB, by interval.
    pub rates: Vec<f64>,
    /// Time of looking for written pages, and of moving pages.
    pub watching: Duration,
    /// See above.
    pub moving: Duration,
    /// Why nothing moves any more, if so.
    pub stopped: Option<String>,
    /// By page: lines written, wherever it was.
    pub pages: Vec<u64>,
}

impl Results {
    /// Writes them, with the wear of the frames.
    pub fn write(&self, out: &Path, worn: &[u64], copied: u64, used: u32) {
        let mut text = String::new();
        let counts = [
            ("near", self.near),
            ("far", self.far),
            ("copied", copied),
            ("out", self.out),
            ("home", self.home),
            ("exchanged", self.exchanged),
            ("away", self.away),
            ("used", u64::from(used)),
        ];
        for (name, value) in counts {
            writeln!(text, "{name} {value}").ok();
        }
        let times = [("elapsed", self.elapsed), ("watching", self.watching), ("moving", self.moving)];
        for (name, time) in times {
            writeln!(text, "{name} {}", time.as_secs_f64()).ok();
        }
        if let Some(why) = &self.stopped {
            writeln!(text, "stopped {}", why.replace('\n', " ")).ok();
        }
        let list = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(" ");
        writeln!(text, "rates {}", list(&mut self.rates.iter().map(f64::to_string))).ok();
        for (name, values) in [("worn", worn), ("pages", &*self.pages)] {
            let written = values.iter().enumerate().filter(|(_, lines)| **lines > 0);
            writeln!(text, "{name} {}", list(&mut written.map(|(at, lines)| format!("{at}:{lines}")))).ok();
        }
        let mut name = out.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let mut new = name.clone();
        new.push(".new");
        if std::fs::write(&new, text).is_ok() {
            std::fs::rename(&new, name).ok();
        }
    }
}
