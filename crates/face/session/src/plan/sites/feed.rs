//! What is seen of a program from outside, written down for the library in it: `tier-runtime`'s `feed` has the form.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::damon::Region;

/// Samples wait no longer than that.
const DELAY: Duration = Duration::from_millis(50);

/// A file per process.
#[derive(Debug)]
pub(super) struct Feed {
    base: PathBuf,
    files: HashMap<u32, (Option<File>, Vec<u8>)>,
    last: Instant,
}

impl Feed {
    /// In files whose names begin so.
    pub(super) fn new(base: PathBuf) -> Feed {
        Feed { base, files: HashMap::new(), last: Instant::now() }
    }

    fn text(&mut self, process: u32) -> &mut Vec<u8> {
        let entry = self.files.entry(process).or_insert_with(|| {
            let mut name = self.base.clone().into_os_string();
            name.push(format!(".{process}"));
            (File::options().append(true).create(true).open(name).ok(), Vec::new())
        });
        &mut entry.1
    }

    /// A sample of a load that missed.
    pub(super) fn sample(&mut self, process: u32, address: u64) {
        // A write to memory does not fail.
        writeln!(self.text(process), "s {address:x}").ok();
        if self.last.elapsed() > DELAY {
            self.flush();
        }
    }

    /// A look at regions.
    pub(super) fn regions(&mut self, process: u32, regions: &[Region]) {
        let text = self.text(process);
        for Region { start, end, used, tries } in regions {
            writeln!(text, "r {start:x} {end:x} {used} {tries}").ok();
        }
        writeln!(text, ".").ok();
        self.flush();
    }

    /// All that waits. A process whose file can't be written sees less, and says how little.
    pub(super) fn flush(&mut self) {
        self.last = Instant::now();
        for (file, text) in self.files.values_mut() {
            if let Some(file) = file {
                file.write_all(text).ok();
            }
            text.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut feed = Feed::new(folder.path().join("feed"));
        feed.sample(7, 0xabc0);
        feed.regions(8, &[Region { start: 4096, end: 8192, used: 3, tries: 20 }]);
        feed.sample(8, 16);
        feed.flush();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(
            (read("feed.7"), read("feed.8")),
            ("s abc0\n".into(), "r 1000 2000 3 20\n.\ns 10\n".into())
        );
    }
}
