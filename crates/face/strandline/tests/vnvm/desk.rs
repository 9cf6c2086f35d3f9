//! Records scenes of two processes with all their workers, and judges what a crash leaves of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pmem::Os;
use space::sim::{Accesses, Schedule};
use space::{Env, Observer, Scratch, Space};
use strandline::check::{self, Check, Crash, Run};
use strandline::crash::{Outcome, Platform};
use vnvm::{Flaw, Mode, Options, Process, recover};

use crate::crashed::made;
use crate::host::{FILE_BYTES, FILES, Machine, SimHost, file_at, sizes};

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Transactions of each process.
    pub steps: u64,
    /// Whether the processes share a file, or have two each of their own.
    pub shared: bool,
    /// Whether commits are durable before they are visible.
    pub durable_first: bool,
    /// Whether redo writes to files when every page is dirty.
    pub bypass: bool,
    /// Whether the second process dies in the end, and the first adopts what it left.
    pub adopted: bool,
    pub flaw: Option<Flaw>,
    pub seed: u64,
}

impl Scene {
    pub const PLAIN: Scene = Scene {
        steps: 5,
        shared: false,
        durable_first: false,
        bypass: true,
        adopted: false,
        flaw: None,
        seed: 1,
    };
}

/// Transactions in the order in which they were committed, by process: their number, and what they wrote.
pub type Journal = Mutex<[Vec<Vec<(u64, u64, Vec<u8>)>>; 2]>;

fn path(number: u64) -> String {
    number.to_string()
}

/// The files that a process writes to.
fn files(scene: &Scene, me: u64) -> Vec<u64> {
    if scene.shared { vec![0] } else { vec![2 * me, 2 * me + 1] }
}

/// What transaction `step` of a process writes. Each process has its own half of a shared file.
fn writes(scene: &Scene, me: u64, step: u64) -> Vec<(u64, u64, Vec<u8>)> {
    let mut state = scene.seed * 1000 + me * 100 + step + 1;
    let mut random = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let count = 1 + random(3);
    let value = (1 + step + 16 * (me + 1)) as u8;
    (0..count)
        .map(|_| {
            let files = files(scene, me);
            let file = files[random(files.len() as u64) as usize];
            let (base, room) =
                if scene.shared { (me * FILE_BYTES / 2, FILE_BYTES / 2) } else { (0, FILE_BYTES) };
            let len = 1 + random(70);
            (file, base + random(room - len), vec![value; len as usize])
        })
        .collect()
}

type Sim<'m, 'e, E> = Process<SimHost<'m, 'e, E>>;

/// One process's transactions, each a region of the recording.
fn work<E: Env>(scene: &Scene, process: &Sim<'_, '_, E>, me: u64, journal: &Journal) {
    let mode = if scene.shared { Mode::Shared } else { Mode::Private };
    for file in files(scene, me) {
        process.allocate(Path::new(&path(file)), FILE_BYTES, mode).expect("a region");
    }
    for step in 0..scene.steps {
        let writes = writes(scene, me, step);
        let number = me << 32 | step;
        journal.lock().unwrap_or_else(PoisonError::into_inner)[me as usize].push(writes.clone());
        process.env_observer().region_begin(number);
        let tid = process.begin();
        for (file, offset, bytes) in &writes {
            let region = region_of(process, *file);
            let mut done = 0;
            while done < bytes.len() {
                done += process.write(tid, &region, offset + done as u64, &bytes[done..]).expect("inside");
                if done < bytes.len() {
                    make_room(process);
                }
            }
        }
        process.commit(tid).expect("it is open");
        process.env_observer().region_end(number);
    }
}

fn region_of<'m, 'e, E: Env>(
    process: &Sim<'m, 'e, E>,
    file: u64,
) -> std::sync::Arc<vnvm::Region<SimHost<'m, 'e, E>>> {
    (0..sizes().files as u16)
        .filter_map(|number| process.region(number))
        .find(|region| region.path() == Path::new(&path(file)))
        .expect("it was allocated")
}

/// Who finds the log full helps.
fn make_room<E: Env>(process: &Sim<'_, '_, E>) {
    process.redo_step().expect("whole");
    for number in 0..sizes().files as u16 {
        if let Some(region) = process.region(number).filter(|region| region.mode() == Mode::Shared) {
            process.flush_region(&region).expect("whole");
        }
    }
    let _ = process.host_env().now_ns();
}

/// Shorter ways to a process's environment.
pub trait Ways<E: Env> {
    fn host_env(&self) -> &E;
    fn env_observer(&self) -> &<E::Space as Space>::Observer;
}

impl<E: Env> Ways<E> for Sim<'_, '_, E> {
    fn host_env(&self) -> &E {
        use vnvm::Host;
        self.host().env()
    }
    fn env_observer(&self) -> &<E::Space as Space>::Observer {
        self.host_env().space().observer()
    }
}

fn options(scene: &Scene) -> Options {
    Options {
        durable_first: scene.durable_first,
        bypass: scene.bypass,
        flaw: scene.flaw,
        ..Options::default()
    }
}

/// Runs a scene: two processes, a redo worker and a write-back worker for each.
pub fn record(scene: &Scene) -> (Run, Journal) {
    let schedule = Schedule::walk(scene.seed).at_accesses(Accesses::OneIn(8));
    let journal = Journal::default();
    let run = check::record_on(made(), Platform::ADR, &schedule, |env| {
        let machine = Machine::new(env);
        let join = |slot| Process::join(machine.process(slot), options(scene)).expect("an NVM");
        let processes = [join(0), join(1)];
        env.threads(6, |thread| {
            let process = &processes[thread as usize % 2];
            match thread / 2 {
                0 => work(scene, process, u64::from(thread), &journal),
                1 => (0..scene.steps + 2).for_each(|_| {
                    process.redo_step().expect("whole");
                    let _ = env.now_ns();
                }),
                _ => (0..scene.steps + 2).for_each(|round| {
                    process.write_back_step(round % 2 == 1).expect("whole");
                    let _ = env.now_ns();
                }),
            }
        });
        if scene.adopted {
            machine.die(1);
            assert_eq!(processes[0].adopt().expect("whole"), 1);
        }
        if scene.shared {
            make_room(&processes[0]);
        }
    });
    (run.unwrap_or_else(|error| panic!("{error}")), journal)
}

/// Recovers an image.
pub fn recovered(image: &Scratch, flaw: Option<Flaw>) -> Result<(), String> {
    let env = Os::new(image);
    let machine = Machine::new(&env);
    recover(&machine.process(63), flaw).map(drop).map_err(|error| error.to_string())
}

/// What recovery makes of an image is, in each process's files, what its first so many transactions wrote,
/// all that had ended among them.
pub fn judge(scene: &Scene, journal: &Journal, image: &Scratch, crash: Crash<'_>) -> Result<(), String> {
    let ended: BTreeSet<u64> = crash.ended_regions().collect();
    recovered(image, scene.flaw)?;
    let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    let load = |file: u64| {
        let mut bytes = vec![0; FILE_BYTES as usize];
        image.load(file_at(file), &mut bytes);
        bytes
    };
    let is: Vec<Vec<u8>> = (0..FILES).map(load).collect();
    for me in 0..2_u64 {
        let done = journal[me as usize]
            .iter()
            .zip(0_u64..)
            .take_while(|(_, step)| ended.contains(&(me << 32 | step)));
        let done = done.count();
        let mut should = vec![vec![0; FILE_BYTES as usize]; FILES as usize];
        let mut fits = false;
        let mut differs = None;
        for count in 0..=journal[me as usize].len() {
            if count > 0 {
                for (file, offset, bytes) in &journal[me as usize][count - 1] {
                    should[*file as usize][*offset as usize..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            // A shared file is one process's in its first half and the other's in the second.
            let own = |bytes: &[u8]| match (scene.shared, me) {
                (false, _) => bytes.to_vec(),
                (true, me) => bytes[(me * FILE_BYTES / 2) as usize..][..FILE_BYTES as usize / 2].to_vec(),
            };
            let same = |file: &u64| own(&is[*file as usize]) == own(&should[*file as usize]);
            let all = files(scene, me).iter().all(same);
            fits |= all && (done..=done + 1).contains(&count);
            if count == done && !all {
                differs = files(scene, me).into_iter().find(|file| !same(file));
            }
        }
        if !fits {
            return Err(format!(
                "process {me}: {done} transactions had ended, file {differs:?} is not as they left it"
            ));
        }
    }
    Ok(())
}

pub fn explore(scene: &Scene, per_cut: u64) -> (Run, Outcome) {
    let (run, journal) = record(scene);
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = per_cut;
    check.checker.bounds.findings = 1;
    let outcome = check.run(|image, crash| judge(scene, &journal, image, crash));
    (run, outcome)
}
