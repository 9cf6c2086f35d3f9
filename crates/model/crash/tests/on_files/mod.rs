//! Runs of calls on files, and an oracle that is a closure over the disk of an image.

use crash::files::{Disk, Entry, FilesRecorder, FilesRun, Tree};
use crash::{Image, Oracle, Platform};
use event::{Batch, Capabilities, Definition, Event, NameId, Op, Sink, SiteId, Source, ThreadId};

/// A run, one call per system call.
pub struct Run {
    recorder: FilesRecorder,
    names: u32,
    /// Calls so far; the next one's site.
    pub calls: u32,
}

impl Run {
    #[allow(dead_code, reason = "each test binary uses a part")]
    pub fn new(platform: Platform, before: &[(&str, &[u8])]) -> Run {
        let tree =
            before.iter().map(|(path, bytes)| ((*path).to_owned(), Entry::File(bytes.to_vec()))).collect();
        Run::on(platform, tree)
    }

    pub fn on(platform: Platform, tree: Tree) -> Run {
        let mut recorder = FilesRecorder::new(platform, tree).expect("it is one for files");
        let source = Source { capabilities: Capabilities::all(), ..Source::synthetic("test") };
        recorder.begin(&source).expect("it sees everything");
        Run { recorder, names: 0, calls: 0 }
    }

    pub fn name(&mut self, path: &str) -> NameId {
        self.names += 1;
        self.recorder.define(Definition::Name(NameId(self.names), path)).expect("it is taken");
        NameId(self.names)
    }

    pub fn push(&mut self, op: Op, values: &[u8]) -> &mut Self {
        self.push_by(ThreadId(0), op, values)
    }

    pub fn push_by(&mut self, thread: ThreadId, op: Op, values: &[u8]) -> &mut Self {
        self.calls += 1;
        let events = [Event { op, site: SiteId(self.calls), instructions: 0 }];
        self.recorder.push(Batch { thread, time_ns: 0, events: &events, values }).expect("it is taken");
        self
    }

    pub fn run(&mut self) -> FilesRun {
        let fresh = FilesRecorder::new(Platform::POSIX, Tree::new()).expect("it is one for files");
        std::mem::replace(&mut self.recorder, fresh).into_run()
    }
}

/// Judges the disk of each image by a closure.
pub struct Judge<F> {
    pub disk: Disk,
    pub judge: F,
}

impl<F: FnMut(&Tree, &Image<'_>) -> Result<(), String>> Oracle for Judge<F> {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        self.disk.apply(image.changes);
        (self.judge)(&self.disk.tree(), image)
    }
}
