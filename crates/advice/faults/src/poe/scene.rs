//! `Scene`: what happens at the same time, as data; one function runs it on any memory.

use std::rc::Rc;

use super::check::at_rest;
use super::explore::{Actor, Explorations, Explored, Run, explore};
use super::flaw::Flaw;
use super::layout::{ENABLED, FREE, FREE_HUGE, PRESENT, Scope, USERS, VALID, marked, table_word};
use super::memory::Memory;
use super::system::{Access, System, Touched};

/// A step of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access, which has to end in one of the ways that the region's life permits.
    Touch(Access),
    /// Marking thread of a process; huge or not.
    Mark(u64, bool),
    /// Delayed work over a core's table of small or of huge pages.
    Work(u64, bool),
    /// `munmap` of a process's region.
    Unmap(u64),
    /// `mprotect` of it to read-only.
    Protect(u64),
    /// `fork` of process 0 into process 1 with this TGID.
    Fork(u64),
    /// Exit of a process.
    Exit(u64),
    /// Waits until a process exists that has a region.
    Await(u64),
    /// A process begins, with this TGID and an empty region.
    Begin(u64, u64),
    /// Takes a free page for another purpose and gives it back.
    Borrow,
    /// A process disables the engine.
    Disable,
    /// A process enables it.
    Enable,
    /// `mremap` of the first page of a process's region to the second one's place.
    Move(u64),
    /// Swap-off, over a process's region.
    SwapOff(u64),
    /// An instruction is fetched: core, process, page.
    Fetch(u64, u64, u64),
}

/// A sequence of steps: one actor.
pub type Part = &'static [Step];

/// What happens at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Name.
    pub name: &'static str,
    /// Size of the system.
    pub scope: Scope,
    /// Pages in each table of small pages at the beginning.
    pub filled: u64,
    /// Pages in each table of huge pages at the beginning.
    pub filled_huge: u64,
    /// How process 0's region is at the beginning.
    pub region: Region,
    /// Its actors.
    pub parts: &'static [Part],
    /// Whether accesses may end without memory.
    pub short: bool,
}

/// The state of a region's entries at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// None.
    Plain,
    /// Marked for small pages.
    Marked,
    /// Marked for huge ones.
    MarkedHuge,
    /// Its first page marked, nothing in place of the others.
    FirstMarked,
}

impl Scene {
    /// The words at the beginning: process 0 with TGID 1, tables filled, the engine enabled by one process.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let scope = &self.scope;
        let mut words = scope.initial();
        let mut set = |at: u64, value: u64| words[at as usize] = value;
        set(ENABLED, 1);
        set(USERS, 1);
        set(scope.alive(0), 1);
        set(scope.writable(0), 1);
        set(scope.tgid(0), 1);
        match self.region {
            Region::Plain => {}
            Region::Marked => {
                set(scope.upper(0), PRESENT);
                (0..scope.pages).for_each(|page| set(scope.entry(0, page), marked(1, true)));
            }
            Region::FirstMarked => {
                set(scope.upper(0), PRESENT);
                set(scope.entry(0, 0), marked(1, true));
            }
            Region::MarkedHuge => set(scope.upper(0), marked(1, true)),
        }
        for ring in scope.rings() {
            let (free, base) = if ring.huge { (FREE_HUGE, 32) } else { (FREE, 0) };
            for number in 1..=if ring.huge { self.filled_huge } else { self.filled } {
                let page = words[free as usize].trailing_zeros();
                words[free as usize] &= !(1 << page);
                words[ring.entry(number) as usize + 1] = table_word(base + u64::from(page), 0, VALID);
                words[ring.head as usize] = ring.next(number);
            }
        }
        words
    }

    /// Runs the steps of an actor.
    pub async fn perform<M: Memory>(&self, system: &System<M>, part: Part) {
        let (memory, scope) = (&system.memory, &self.scope);
        for (at, &step) in part.iter().enumerate() {
            memory.label(0x10_0000 + at as u64);
            match step {
                Step::Touch(access) => self.expect(system, access).await,
                Step::Mark(process, huge) => system.mark(process, huge).await,
                Step::Work(core, huge) => system.delayed_work(scope.ring(core, huge)).await,
                Step::Unmap(process) => system.unmap(process).await,
                Step::Protect(process) => system.protect(process).await,
                Step::Fork(tgid) => system.fork(0, 1, tgid).await,
                Step::Exit(process) => system.exit(process).await,
                Step::Await(process) => {
                    memory.wait(scope.alive(process), |alive| alive == 1).await;
                }
                Step::Begin(process, tgid) => {
                    memory.store(scope.writable(process), 1).await;
                    memory.store(scope.tgid(process), tgid).await;
                    memory.store(scope.alive(process), 1).await;
                }
                Step::Borrow => {
                    if let Some(page) = system.allocate(false).await {
                        system.release(page).await;
                    }
                }
                Step::Disable => system.disable().await,
                Step::Enable => system.enable().await,
                Step::Move(process) => system.move_first(process).await,
                Step::SwapOff(process) => system.swap_off(process).await,
                Step::Fetch(core, process, page) => {
                    if system.fetch(core, process, page).await != Touched::Done {
                        memory.fail(format!("the fetch from page {page} of process {process} is lost"));
                    }
                }
            }
        }
    }

    async fn expect<M: Memory>(&self, system: &System<M>, access: Access) {
        let touched = system.touch(access).await;
        let memory = &system.memory;
        let gone = memory.peek(self.scope.alive(access.process)) == 0
            || access.page < memory.peek(self.scope.first(access.process));
        let read_only = access.write && memory.peek(self.scope.writable(access.process)) == 0;
        let right = match touched {
            Touched::Done => true,
            Touched::Refused => gone || read_only,
            Touched::NoMemory => self.short,
        };
        if !right {
            memory.fail(format!("the fault on page {} of process {} is lost", access.page, access.process));
        }
    }

    /// Explores every interleaving, with one mistake or with none; stops at `most` states.
    #[must_use]
    pub fn explore(&self, flaw: Option<Flaw>, most: u64) -> Explorations {
        let (scene, words) = (*self, self.words());
        let begin = || {
            let memory = Explored::new(words.len(), scene.parts.len());
            words.iter().zip(0..).for_each(|(&word, at)| memory.set(at, word));
            let actor = |&part: &Part| -> Actor {
                let system = System { memory: Rc::clone(&memory), scope: scene.scope, flaw };
                Box::pin(async move { scene.perform(&system, part).await })
            };
            let actors = scene.parts.iter().map(actor).collect();
            Run::new(memory, actors)
        };
        explore(most, begin, |memory| {
            if let Err(what) = at_rest(&scene.scope, |at| memory.peek(at)) {
                memory.fail(what);
            }
        })
    }
}

const fn touch(core: u64, process: u64, page: u64, write: bool) -> Step {
    Step::Touch(Access { core, process, page, write })
}

const SMALL: Scope =
    Scope { pages: 1, processes: 1, cores: 2, entries: 1, frames: 4, huge_frames: 0, executable: false };
const BASE: Scene = Scene {
    name: "",
    scope: SMALL,
    filled: 1,
    filled_huge: 0,
    region: Region::Marked,
    parts: &[],
    short: false,
};

/// Two cores' scenes: what the hazards of the source need, each with at most three actors.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "two cores touch one page, delayed work",
        parts: &[&[touch(0, 0, 0, true)], &[touch(1, 0, 0, false)], &[Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "a table is empty",
        filled: 0,
        parts: &[&[touch(0, 0, 0, true)], &[touch(1, 0, 0, true)], &[Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "marking while two cores touch",
        region: Region::Plain,
        parts: &[&[Step::Mark(0, false)], &[touch(0, 0, 0, true)], &[touch(1, 0, 0, false)]],
        ..BASE
    },
    Scene {
        name: "marking while the region is unmapped",
        region: Region::Plain,
        parts: &[&[Step::Mark(0, false)], &[Step::Unmap(0), touch(0, 0, 0, true)], &[touch(1, 0, 0, true)]],
        ..BASE
    },
    Scene {
        name: "unmapping while a core touches, delayed work",
        parts: &[&[touch(0, 0, 0, true)], &[Step::Unmap(0), touch(1, 0, 0, true)], &[Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "unmapping, and the other core's table takes the page",
        scope: Scope { frames: 2, ..SMALL },
        parts: &[&[touch(0, 0, 0, true)], &[Step::Unmap(0)], &[Step::Borrow, Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "protection changes while a core writes",
        parts: &[
            &[touch(0, 0, 0, true)],
            &[Step::Protect(0), touch(1, 0, 0, false), touch(1, 0, 0, true)],
            &[Step::Work(0, false)],
        ],
        ..BASE
    },
    Scene {
        name: "fork while a core touches; the child writes",
        scope: Scope { processes: 2, ..SMALL },
        parts: &[
            &[touch(0, 0, 0, true)],
            &[Step::Fork(2), touch(1, 1, 0, true)],
            &[Step::Work(0, false), Step::Work(1, false)],
        ],
        ..BASE
    },
    Scene {
        name: "fork of a page that is not accounted for; both write",
        scope: Scope { processes: 2, frames: 6, ..SMALL },
        parts: &[
            &[touch(0, 0, 0, true), touch(0, 0, 0, true)],
            &[Step::Fork(2), touch(1, 1, 0, false), touch(1, 1, 0, true)],
            &[Step::Work(0, false)],
        ],
        ..BASE
    },
    Scene {
        name: "exit, and another process gets the TGID",
        scope: Scope { processes: 2, ..SMALL },
        parts: &[
            &[touch(0, 0, 0, true), Step::Exit(0), Step::Begin(1, 1), touch(0, 1, 0, true)],
            &[Step::Work(0, false), Step::Work(0, false)],
        ],
        ..BASE
    },
    Scene {
        name: "the last user disables the engine",
        parts: &[&[touch(0, 0, 0, true)], &[Step::Disable, touch(1, 0, 0, true)], &[Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "memory is exhausted and comes back",
        scope: Scope { pages: 2, frames: 2, entries: 2, cores: 1, ..SMALL },
        filled: 1,
        parts: &[
            &[touch(0, 0, 0, true), touch(0, 0, 1, true)],
            &[Step::Borrow],
            &[Step::Work(0, false), Step::Work(0, false)],
        ],
        short: true,
        ..BASE
    },
    Scene {
        name: "huge pages",
        scope: Scope { pages: 2, huge_frames: 3, ..SMALL },
        filled: 1,
        filled_huge: 1,
        region: Region::MarkedHuge,
        parts: &[&[touch(0, 0, 0, true)], &[touch(1, 0, 1, true)], &[Step::Work(0, true)]],
        ..BASE
    },
    Scene {
        name: "huge pages, unmapped while a core touches",
        scope: Scope { pages: 2, huge_frames: 3, ..SMALL },
        filled: 1,
        filled_huge: 1,
        region: Region::MarkedHuge,
        parts: &[&[touch(0, 0, 0, true)], &[Step::Unmap(0)], &[Step::Work(0, true)]],
        ..BASE
    },
    Scene {
        name: "no huge page for one core: a table of small ones instead",
        scope: Scope { pages: 2, huge_frames: 1, cores: 2, ..SMALL },
        filled: 1,
        filled_huge: 0,
        region: Region::MarkedHuge,
        parts: &[&[touch(0, 0, 0, true)], &[touch(1, 0, 1, true)], &[Step::Work(0, true)]],
        ..BASE
    },
    Scene {
        name: "a page is moved while a core touches it",
        scope: Scope { pages: 2, ..SMALL },
        region: Region::FirstMarked,
        parts: &[
            &[touch(0, 0, 0, true)],
            &[Step::Move(0), touch(1, 0, 1, true), touch(1, 0, 0, false)],
            &[Step::Work(0, false)],
        ],
        ..BASE
    },
    Scene {
        name: "swap-off while cores touch",
        parts: &[
            &[touch(0, 0, 0, true)],
            &[Step::SwapOff(0), touch(1, 0, 0, false)],
            &[Step::Work(0, false)],
        ],
        ..BASE
    },
    Scene {
        name: "a region of code",
        scope: Scope { executable: true, ..SMALL },
        region: Region::Plain,
        parts: &[&[Step::Mark(0, false)], &[Step::Fetch(0, 0, 0)], &[Step::Fetch(1, 0, 0)]],
        ..BASE
    },
    Scene {
        name: "the engine is disabled and enabled again",
        scope: Scope { pages: 1, entries: 2, cores: 1, frames: 2, ..SMALL },
        filled: 2,
        parts: &[&[touch(0, 0, 0, true), Step::Disable], &[Step::Enable, Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "the last user goes while the next comes",
        scope: Scope { cores: 1, ..SMALL },
        parts: &[&[Step::Disable], &[Step::Enable, touch(0, 0, 0, true)], &[Step::Work(0, false)]],
        ..BASE
    },
    Scene {
        name: "huge pages, and marking while a core touches",
        scope: Scope { pages: 2, huge_frames: 3, ..SMALL },
        filled: 1,
        filled_huge: 1,
        region: Region::Plain,
        parts: &[&[Step::Mark(0, true)], &[touch(0, 0, 0, true)], &[touch(1, 0, 1, true)]],
        ..BASE
    },
    Scene {
        name: "huge pages, fork while a core touches; the child writes",
        scope: Scope { processes: 2, huge_frames: 5, ..SMALL },
        filled_huge: 1,
        region: Region::MarkedHuge,
        parts: &[
            &[touch(0, 0, 0, true)],
            &[Step::Fork(2), touch(1, 1, 0, true)],
            &[Step::Work(0, true), Step::Work(1, true)],
        ],
        ..BASE
    },
    Scene {
        name: "huge pages, fork; both write",
        scope: Scope { processes: 2, huge_frames: 5, ..SMALL },
        filled_huge: 1,
        region: Region::MarkedHuge,
        parts: &[
            &[touch(0, 0, 0, true), touch(0, 0, 0, true)],
            &[Step::Fork(2), touch(1, 1, 0, false), touch(1, 1, 0, true)],
            &[Step::Work(0, true)],
        ],
        ..BASE
    },
    Scene {
        name: "huge pages are exhausted and come back",
        scope: Scope { huge_frames: 2, entries: 2, cores: 1, ..SMALL },
        filled: 1,
        filled_huge: 1,
        region: Region::MarkedHuge,
        parts: &[&[touch(0, 0, 0, true), Step::Exit(0)], &[Step::Work(0, true), Step::Work(0, true)]],
        ..BASE
    },
];
