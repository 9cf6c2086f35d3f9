//! Litmus tests of synchronisation between CPU and accelerator: files with a program per thread and sets of
//! outcomes.
//!
//! A file has the variables, the threads (`on = "cpu"` or `"gpu"`) with their instructions, the registers
//! and final values that make an outcome, and two sets: what a coherent memory with system-wide atomics and
//! the written fences allows (`allowed`; `*` stands for any), and what the specification of the programming
//! interface promises (`promised`). An outcome outside `allowed` shows that the device does not
//! synchronise. It is a finding about the device, not a fault of the tool. Threads run the same
//! interpreter: [`crate::Kernel::Litmus`] on the device, its Rust form on the CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU32;

use serde::{Deserialize, Serialize};

use crate::host::litmus::{HEADER_WORDS, INSTRUCTION_WORDS, VARIABLE_WORDS, interpret, operation};
use crate::host::load;
use crate::{Accelerator, Error, Info, Job, Kernel};

/// The tests that come with the crate, with their file names.
pub const FILES: [(&str, &str); 8] = [
    ("add", include_str!("../litmus/add.toml")),
    ("exchange", include_str!("../litmus/exchange.toml")),
    ("message-to-gpu", include_str!("../litmus/message-to-gpu.toml")),
    ("message-to-cpu", include_str!("../litmus/message-to-cpu.toml")),
    ("store-buffer", include_str!("../litmus/store-buffer.toml")),
    ("coherence", include_str!("../litmus/coherence.toml")),
    ("bakery", include_str!("../litmus/bakery.toml")),
    ("no-lock", include_str!("../litmus/no-lock.toml")),
];

/// Which processor runs a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// The CPU.
    Cpu,
    /// The accelerator.
    Gpu,
}

/// Repetitions of a thread's instructions.
const REPEATS_MAX: u32 = 1_000_000;
/// Variables of a test.
const VARIABLES_MAX: usize = 1024;

/// Forms of instructions, for messages.
const INSTRUCTIONS: &str = "`store x 1`, `load x r0`, `add x 1 r0`, `exchange x 1 r0`, `increment x 1`, \
                            `fence`, \
                            `lock c0 0 r0`, `unlock c0 0` (processors of a lock are 0 and 1)";

/// A litmus test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// Variables, each in a line of its own.
    pub variables: Vec<String>,
    /// Threads, at most four.
    pub threads: Vec<Thread>,
    /// How often a thread runs its instructions per instance.
    #[serde(default = "one")]
    pub repeats: u32,
    /// What makes an outcome: `0:r1` is a register of thread 0, a name a variable's last value.
    pub outcome: Vec<String>,
    /// Outcomes of a coherent memory.
    pub allowed: Vec<Vec<String>>,
    /// What the specification says.
    pub promised: String,
}

/// A thread of a test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Where it runs.
    pub on: On,
    /// Its instructions.
    pub program: Vec<String>,
}

fn one() -> u32 {
    1
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The test.
    pub test: String,
    /// Its question.
    pub question: String,
    /// What the specification says.
    pub promised: String,
    /// Names of an outcome's values.
    pub values: Vec<String>,
    /// Outcomes and how often each was seen.
    pub outcomes: Vec<(Vec<u32>, u64)>,
    /// Those that a coherent memory does not allow.
    pub surprising: u64,
    /// Instances that ran to their end in every thread.
    pub instances: u64,
}

impl Seen {
    /// Adds what another run of the same test showed.
    pub fn add(&mut self, other: Seen) {
        let mut sums: BTreeMap<Vec<u32>, u64> = self.outcomes.drain(..).collect();
        for (outcome, count) in other.outcomes {
            *sums.entry(outcome).or_default() += count;
        }
        self.outcomes = sums.into_iter().collect();
        self.surprising += other.surprising;
        self.instances += other.instances;
    }
}

/// A test, ready to run.
struct Compiled {
    cpu: Vec<Vec<[u32; INSTRUCTION_WORDS]>>,
    gpu: Vec<Vec<[u32; INSTRUCTION_WORDS]>>,
    registers: u32,
}

impl Test {
    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is no test.
    pub fn parse(name: &str, text: &str) -> Result<Test, Error> {
        let wrong = |reason: String| Error::Litmus { name: name.to_owned(), reason };
        let test: Test = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        // Messages have the file's name, results the test's own.
        let of_file = |error| match error {
            Error::Litmus { reason, .. } => wrong(reason),
            other => other,
        };
        if test.threads.is_empty() || test.threads.len() > 4 {
            return Err(wrong(format!("{} threads; 1 to 4 expected", test.threads.len())));
        }
        if test.repeats == 0 || test.repeats > REPEATS_MAX {
            return Err(wrong(format!("repeats = {}; 1 to {REPEATS_MAX} expected", test.repeats)));
        }
        if test.variables.is_empty() || test.variables.len() > VARIABLES_MAX {
            return Err(wrong(format!("{} variables; 1 to {VARIABLES_MAX} expected", test.variables.len())));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = test.variables.iter().find(|name| !names.insert(*name)) {
            return Err(wrong(format!("variable `{twice}` is there twice")));
        }
        test.compile().map_err(of_file)?;
        if test.outcome.is_empty() {
            return Err(wrong("no outcome; name a register such as 0:r1, or a variable".to_owned()));
        }
        for outcome in &test.allowed {
            if outcome.len() != test.outcome.len() {
                return Err(wrong(format!("outcome {outcome:?} has not {} values", test.outcome.len())));
            }
            if let Some(value) = outcome.iter().find(|value| *value != "*" && number(value).is_none()) {
                return Err(wrong(format!("`{value}` in outcome {outcome:?} is neither a number nor `*`")));
            }
        }
        Ok(test)
    }

    /// The tests that come with the crate.
    ///
    /// # Errors
    /// If one is wrong, which a test excludes.
    pub fn all() -> Result<Vec<Test>, Error> {
        FILES.iter().map(|(name, text)| Test::parse(name, text)).collect()
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Litmus { name: self.name.clone(), reason }
    }

    fn variable(&self, name: &str) -> Result<u32, Error> {
        let found = self.variables.iter().position(|known| known == name);
        found.map(|at| at as u32).ok_or_else(|| {
            self.wrong(format!("no variable `{name}`; there are {}", self.variables.join(", ")))
        })
    }

    /// The first of a bakery lock's four variables.
    fn lock(&self, name: &str) -> Result<u32, Error> {
        let first = self.variable(name)?;
        if self.variables.len() - (first as usize) < 4 {
            return Err(self.wrong(format!("a lock at `{name}` needs four variables from there on")));
        }
        Ok(first)
    }

    fn register(&self, name: &str) -> Result<u32, Error> {
        let register = name.strip_prefix('r').and_then(number);
        register
            .filter(|&register| register < 7)
            .ok_or_else(|| self.wrong(format!("`{name}` is none of r0 to r6")))
    }

    fn instruction(&self, line: &str) -> Result<[u32; INSTRUCTION_WORDS], Error> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| {
            number(text).ok_or_else(|| self.wrong(format!("`{text}` in `{line}` is no number of 32 bits")))
        };
        Ok(match words[..] {
            ["store", variable, value] => [operation::STORE, self.variable(variable)?, number(value)?, 0],
            ["load", variable, register] => {
                [operation::LOAD, self.variable(variable)?, 0, self.register(register)?]
            }
            ["add", variable, value, register] => {
                [operation::ADD, self.variable(variable)?, number(value)?, self.register(register)?]
            }
            ["exchange", variable, value, register] => {
                [operation::EXCHANGE, self.variable(variable)?, number(value)?, self.register(register)?]
            }
            ["increment", variable, value] => {
                [operation::INCREMENT, self.variable(variable)?, number(value)?, 0]
            }
            ["fence"] => [operation::FENCE, 0, 0, 0],
            ["lock", first, me, register] if number(me)? < 2 => {
                [operation::LOCK, self.lock(first)?, number(me)?, self.register(register)?]
            }
            ["unlock", first, me] if number(me)? < 2 => {
                [operation::UNLOCK, self.lock(first)?, number(me)?, 0]
            }
            _ => {
                return Err(self.wrong(format!("`{line}` is no instruction; there are {INSTRUCTIONS}")));
            }
        })
    }

    fn compile(&self) -> Result<Compiled, Error> {
        let mut compiled = Compiled { cpu: Vec::new(), gpu: Vec::new(), registers: 8 };
        for thread in &self.threads {
            let code =
                thread.program.iter().map(|line| self.instruction(line)).collect::<Result<Vec<_>, _>>()?;
            match thread.on {
                On::Cpu => compiled.cpu.push(code),
                On::Gpu => compiled.gpu.push(code),
            }
        }
        // So that the register of a lock's failure or of a load is a thread's own, there are eight for each.
        compiled.registers = 8;
        for name in &self.outcome {
            if let Some((thread, register)) = name.split_once(':') {
                let known = number(thread).is_some_and(|thread| (thread as usize) < self.threads.len());
                if !known {
                    let last = self.threads.len() - 1;
                    return Err(self.wrong(format!("outcome `{name}`: the threads are 0 to {last}")));
                }
                self.register(register)?;
            } else {
                self.variable(name)?;
            }
        }
        Ok(compiled)
    }

    fn allows(&self, seen: &[u32]) -> bool {
        self.allowed.iter().any(|outcome| {
            outcome.iter().zip(seen).all(|(allowed, seen)| allowed == "*" || number(allowed) == Some(*seen))
        })
    }

    /// Runs instances of the test on a device and this CPU.
    ///
    /// # Errors
    /// If the device does not let the CPU use its memory while a kernel runs, has no room, or is lost.
    pub fn run(&self, accelerator: &dyn Accelerator, instances: u32, spin: u32) -> Result<Seen, Error> {
        let compiled = self.compile()?;
        let words = (self.variables.len() * VARIABLE_WORDS) as u32;
        let room = u64::from(instances) * u64::from(words) + HEADER_WORDS as u64;
        if instances == 0 || room > 1 << 28 {
            let got = instances.to_string();
            return Err(Error::Request { what: "instances", got, expected: "1 to a gibibyte of variables" });
        }
        self.fits(accelerator.info(), spin)?;
        let memory = accelerator.allocate(room as usize)?;
        let mapped = memory.mapped().filter(|_| accelerator.info().concurrent);
        let mapped = mapped.ok_or_else(|| Error::NotMapped { device: accelerator.info().device.clone() })?;
        let parameters = |threads: &[Vec<_>], first: usize| {
            let longest = threads.iter().map(Vec::len).max().unwrap_or(0) as u32;
            [
                instances,
                words,
                longest,
                compiled.registers,
                spin,
                self.repeats,
                first as u32,
                self.threads.len() as u32,
                // A thread's last instance takes some more.
                (accelerator.info().steps_max / 2).min(1 << 30),
                0,
                0,
                0,
            ]
        };
        let for_gpu = parameters(&compiled.gpu, 0);
        let program = accelerator.upload(&flat(&compiled.gpu))?;
        let cells = instances as usize * compiled.registers as usize;
        let results = accelerator.allocate((cells * compiled.gpu.len()).max(1))?;
        let launched = if compiled.gpu.is_empty() {
            None
        } else {
            Some(accelerator.submit(Job {
                kernel: Kernel::Litmus,
                regions: &[&program, &memory, &results],
                parameters: &for_gpu,
                invocations: compiled.gpu.len() as u32,
            })?)
        };
        let on_cpu: Vec<Vec<AtomicU32>> = std::thread::scope(|scope| {
            let running: Vec<_> = compiled
                .cpu
                .iter()
                .enumerate()
                .map(|(number, code)| {
                    let mut own = parameters(&compiled.cpu, compiled.gpu.len() + number);
                    own[2] = code.len() as u32;
                    scope.spawn(move || on_this_cpu(code, &own, mapped, cells))
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
        });
        if let Some(mut launched) = launched {
            launched.wait()?;
        }
        let mut of_gpu = vec![0; (cells * compiled.gpu.len()).max(1)];
        results.read(0, &mut of_gpu)?;
        self.gather(instances, mapped, &of_gpu, &on_cpu)
    }

    /// Refuses a test of which an instance takes more steps than the device lets an invocation take: it would
    /// end in the middle, and show what the memory never did.
    fn fits(&self, device: &Info, spin: u32) -> Result<(), Error> {
        let wide = u64::from;
        let steps = |thread: &Thread| {
            let locks =
                thread.program.iter().filter(|line| line.split_whitespace().next() == Some("lock")).count();
            // The kernel's own count: for a repetition, an instruction, a turn of a lock's two loops.
            let instructions = 3 * thread.program.len() as u64 + locks as u64 * 2 * 2 * wide(spin);
            wide(self.repeats).saturating_mul(4 + instructions)
        };
        let most = self.threads.iter().filter(|thread| thread.on == On::Gpu).map(steps).max().unwrap_or(0);
        let needs = most.saturating_add(wide(spin) * (4 + 2 * self.threads.len() as u64));
        let has = wide(device.steps_max / 2);
        if needs <= has {
            return Ok(());
        }
        Err(self.wrong(format!(
            "an instance takes up to {needs} steps on {}, which has {has}; use fewer repeats or instructions",
            device.device
        )))
    }

    /// Counts outcomes.
    fn gather(
        &self,
        instances: u32,
        memory: &[AtomicU32],
        of_gpu: &[u32],
        of_cpu: &[Vec<AtomicU32>],
    ) -> Result<Seen, Error> {
        let mut outcomes: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let cells = instances as usize * 8;
        let whole = |instance: usize| {
            let gpu =
                of_gpu.chunks(cells).take(of_gpu.len() / cells).all(|cells| cells[instance * 8 + 7] == 1);
            gpu && of_cpu.iter().all(|cells| {
                cells.get(instance * 8 + 7).is_some_and(|cell| load(std::slice::from_ref(cell), 0) == 1)
            })
        };
        for instance in 0..instances as usize {
            if !whole(instance) {
                continue;
            }
            let mut seen = Vec::new();
            for name in &self.outcome {
                let value = match name.split_once(':') {
                    None => {
                        let at = instance * self.variables.len() + self.variable(name)? as usize;
                        load(memory, HEADER_WORDS + at * VARIABLE_WORDS)
                    }
                    Some((thread, register)) => {
                        let thread: usize = thread.parse().unwrap_or(0);
                        let on = self.threads[thread].on;
                        let number = self.threads[..thread].iter().filter(|other| other.on == on).count();
                        let cell = instance * 8 + self.register(register)? as usize;
                        match on {
                            On::Gpu => of_gpu[number * cells + cell],
                            On::Cpu => {
                                of_cpu[number].get(cell).map_or(0, |word| load(std::slice::from_ref(word), 0))
                            }
                        }
                    }
                };
                seen.push(value);
            }
            *outcomes.entry(seen).or_default() += 1;
        }
        let instances = outcomes.values().sum();
        let surprising = outcomes.iter().filter(|(seen, _)| !self.allows(seen)).map(|(_, count)| count).sum();
        Ok(Seen {
            test: self.name.clone(),
            question: self.question.clone(),
            promised: self.promised.clone(),
            values: self.outcome.clone(),
            outcomes: outcomes.into_iter().collect(),
            surprising,
            instances,
        })
    }

    /// The distinct names of processors that it runs on.
    #[must_use]
    pub fn processors(&self) -> BTreeSet<&'static str> {
        self.threads.iter().map(|thread| if thread.on == On::Cpu { "cpu" } else { "gpu" }).collect()
    }
}

/// A number in digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Programs of equal length, one after the other.
fn flat(threads: &[Vec<[u32; INSTRUCTION_WORDS]>]) -> Vec<u32> {
    let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
    let padded = threads.iter().flat_map(|code| {
        code.iter().copied().chain(std::iter::repeat_n([0; INSTRUCTION_WORDS], longest - code.len()))
    });
    padded.flatten().collect()
}

fn on_this_cpu(
    code: &[[u32; INSTRUCTION_WORDS]],
    parameters: &[u32; 12],
    memory: &[AtomicU32],
    cells: usize,
) -> Vec<AtomicU32> {
    let program: Vec<AtomicU32> = code.iter().flatten().map(|&word| AtomicU32::new(word)).collect();
    let results: Vec<AtomicU32> = (0..cells).map(|_| AtomicU32::new(0)).collect();
    interpret(0, parameters, &program, memory, &results);
    results
}
