//! `strandline bench unified`: the table, sort and queries of a device beside the CPU's, in one run.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::accelerator::room;
use crate::micro::filled;
use crate::query::{Lineitem, q1, q1_on_cpu, q6, q6_on_cpu};
use crate::{
    Accelerator, Approach, Batch, BatchOptions, Change, CoExecution, Error, Hashed, Info, MemoryKind, Mix,
    Shape, Table, sort,
};

/// Distances of prefetches that are compared.
const AHEAD: [usize; 9] = [0, 1, 2, 4, 8, 13, 20, 32, 64];
/// Random numbers that are drawn before a batch is timed, at most, but for one batch.
const DRAWN_MAX: usize = 1 << 24;
/// Keys of a CPU batch.
const CPU_BATCH: usize = 4096;

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// CPU lookups by the distance of prefetches, beside hashbrown.
    Prefetch,
    /// Batches of lookups and changes of the device.
    Batches,
    /// Approaches 1 to 3.
    Together,
    /// Radix sort beside `voracious_radix_sort`.
    Sort,
    /// TPC-H Q1 and Q6.
    Query,
}

const PARTS: [Part; 5] = [Part::Prefetch, Part::Batches, Part::Together, Part::Sort, Part::Query];

/// What is compared, and how.
#[derive(Clone)]
pub struct Contest {
    /// The device.
    pub accelerator: Arc<dyn Accelerator>,
    /// Parts; all if there is none.
    pub parts: Vec<Part>,
    /// Keys of the table.
    pub keys: u64,
    /// Keys of a batch.
    pub batch: usize,
    /// Workers of approaches 1 to 3.
    pub workers: usize,
    /// How long each point runs.
    pub duration: Duration,
    /// Keys to sort, rows to query.
    pub rows: usize,
    /// Seed of keys, rows and choices.
    pub seed: u64,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Which part.
    pub part: Part,
    /// What ran.
    pub name: String,
    /// How fast.
    pub value: f64,
    /// The unit of `value`.
    pub unit: &'static str,
    /// Whether results were those expected.
    pub right: bool,
    /// What it is held against: of approaches, both processors alone; else 0.
    pub expected: f64,
}

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The device.
    pub device: Info,
    /// Cores of the CPU that the process may use.
    pub cores: usize,
    /// Keys of the table.
    pub keys: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Keys of a batch.
    pub batch: usize,
    /// The seed.
    pub seed: u64,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Parts that were left out, with the reason.
    pub left_out: Vec<String>,
}

/// The mixing of [`Shape::hash`] for the standard map, so that both hash alike.
#[derive(Default)]
struct Mixing(u64);

impl Hasher for Mixing {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = Mix::of(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = Mix::of(key);
    }
}

impl Contest {
    /// Runs it. `goes_on` is asked between figures, with how many there are.
    ///
    /// # Errors
    /// If the device has no room or fails, or the table no room for the keys.
    pub fn run(&self, mut goes_on: impl FnMut(u64) -> bool) -> Result<Figures, Error> {
        let shape = Shape::for_keys(self.keys)?;
        self.fits(shape)?;
        let mut all = Figures {
            device: self.accelerator.info().clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            keys: self.keys,
            table_bytes: shape.words() as u64 * 4,
            batch: self.batch,
            seed: self.seed,
            figures: Vec::new(),
            left_out: Vec::new(),
        };
        for part in PARTS.into_iter().filter(|&part| self.has(part)) {
            if !goes_on(all.figures.len() as u64) {
                all.left_out.push(format!("{part:?}: stopped"));
                continue;
            }
            match part {
                Part::Prefetch => self.prefetch(shape, &mut all.figures)?,
                Part::Batches => self.batches(shape, &mut all.figures)?,
                Part::Together => self.together(shape, &mut all)?,
                Part::Sort => self.sort(&mut all.figures)?,
                Part::Query => self.query(&mut all.figures)?,
            }
        }
        Ok(all)
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Refuses what this computer has no memory for, before the kernel ends a process for it.
    fn fits(&self, shape: Shape) -> Result<(), Error> {
        let (table, batch, rows) = (shape.words() as u64 * 4, self.batch as u64, self.rows as u64);
        let own = match self.accelerator.info().memory {
            MemoryKind::Discrete => 0,
            _ => table,
        };
        let keys = self.keys * size_of::<Hashed>() as u64;
        // Of the standard map: a power of two of entries with a byte each.
        let map = (self.keys * 8 / 7).next_power_of_two() * 17;
        let needs = |part| match part {
            Part::Prefetch => (table + keys).max(map),
            // Requests, answers and what they are made of; numbers drawn.
            Part::Batches => own + keys + 64 * batch,
            Part::Together => own + 2 * table + keys + 64 * batch * self.workers as u64,
            // Keys, both results, two regions, chunks.
            Part::Sort => 7 * 4 * rows,
            // Columns, and those of a chunk, twice.
            Part::Query => 3 * 24 * rows,
        };
        let most = PARTS.into_iter().filter(|&part| self.has(part)).map(needs).max();
        room(most.unwrap_or(0))
    }

    /// Calls `piece` with as many random numbers below the number of keys as it takes at a time, until the
    /// time is over. Returns calls per microsecond times `count`, and whether all were right.
    fn rate(&self, count: usize, mut piece: impl FnMut(&[u32]) -> bool) -> (f64, bool) {
        let mut random = Mix::seeded(self.seed);
        // Drawn before the time begins, as the standard map's keys are; of large batches there are fewer.
        let different = (DRAWN_MAX / count.max(1)).clamp(1, 64);
        let draws: Vec<Vec<u32>> = (0..different)
            .map(|_| (0..count).map(|_| random.below(self.keys.max(1)) as u32).collect())
            .collect();
        let mut right = piece(&draws[0]);
        let (start, mut done) = (Instant::now(), 0u64);
        while start.elapsed() < self.duration {
            right &= piece(&draws[done as usize % draws.len()]);
            done += 1;
        }
        (done as f64 * count as f64 / (start.elapsed().as_secs_f64() * 1e6), right)
    }

    fn prefetch(&self, shape: Shape, figures: &mut Vec<Figure>) -> Result<(), Error> {
        let own: Arc<dyn Accelerator> = Arc::new(Batch::new(BatchOptions::default()));
        let table = Table::new(own, shape)?;
        filled(&table, self.keys)?;
        let cpu = table.cpu()?;
        let mut figure = |name: String, (value, right)| {
            let unit = "lookups/us";
            figures.push(Figure { part: Part::Prefetch, name, value, unit, right, expected: 0.0 });
        };
        for ahead in AHEAD {
            let (mut keys, mut found) = (Vec::new(), vec![0; CPU_BATCH]);
            let rate = self.rate(CPU_BATCH, |numbers| {
                keys.clear();
                keys.extend(numbers.iter().map(|&number| shape.hash(number.into())));
                cpu.search_batch(&keys, &mut found, ahead);
                found == numbers
            });
            figure(format!("ahead {ahead}, one thread"), rate);
        }
        drop(table);
        let mut map: HashMap<u64, u32, BuildHasherDefault<Mixing>> = HashMap::default();
        map.reserve(self.keys as usize);
        map.extend((0..self.keys).map(|key| (key, key as u32)));
        let mut found = vec![0; CPU_BATCH];
        let rate = self.rate(CPU_BATCH, |numbers| {
            for (place, &number) in found.iter_mut().zip(numbers) {
                *place = map.get(&number.into()).copied().unwrap_or(u32::MAX);
            }
            found == numbers
        });
        figure("hashbrown (HashMap), one thread".to_owned(), rate);
        Ok(())
    }

    fn batches(&self, shape: Shape, figures: &mut Vec<Figure>) -> Result<(), Error> {
        let table = Table::new(self.accelerator.clone(), shape)?;
        let start = Instant::now();
        let keys = filled(&table, self.keys)?;
        let value = self.keys as f64 / (start.elapsed().as_secs_f64() * 1e6);
        let mut figure = |name: String, value, unit, right| {
            figures.push(Figure { part: Part::Batches, name, value, unit, right, expected: 0.0 });
        };
        figure("inserts".to_owned(), value, "inserts/us", keys.len() as u64 == self.keys);
        for size in sizes(self.batch) {
            let mut failure = None;
            let (value, right) = self.rate(size, |numbers| {
                let batch: Vec<Hashed> = numbers.iter().map(|&number| keys[number as usize]).collect();
                match table.search(&batch) {
                    Ok(found) => found == numbers,
                    Err(error) => {
                        failure = Some(error);
                        false
                    }
                }
            });
            if let Some(error) = failure {
                return Err(error);
            }
            figure(format!("lookups, batches of {size}"), value, "lookups/us", right);
        }
        let updates: Vec<_> = keys.iter().take(self.batch).map(|&key| (key, Change::Insert(7))).collect();
        let start = Instant::now();
        let answers = table.change(&updates)?;
        let value = updates.len() as f64 / (start.elapsed().as_secs_f64() * 1e6);
        let right = answers.iter().zip(0..).all(|(answer, number)| answer.former == number);
        figure(format!("updates, a batch of {}", updates.len()), value, "updates/us", right);
        Ok(())
    }

    fn together(&self, shape: Shape, all: &mut Figures) -> Result<(), Error> {
        let table = Table::new(self.accelerator.clone(), shape)?;
        let keys = filled(&table, self.keys)?;
        let own: Arc<dyn Accelerator> =
            Arc::new(Batch::new(BatchOptions { threads: 1, ..Default::default() }));
        let copy = Table::new(own, shape)?;
        copy.copy_from(&table)?;
        let run = |approach, workers, submitters, ahead| {
            let (batch, duration, seed) = (self.batch, self.duration, self.seed);
            let run = CoExecution { approach, workers, submitters, batch, ahead, duration, seed };
            run.run(&table, Some(&copy), &keys)
        };
        let shared = self.accelerator.info().concurrent && table.cpu().is_ok();
        if !shared {
            all.left_out
                .push("approaches 1 and 2: the CPU can't use this device's memory while it works".to_owned());
        }
        for submitters in 1..self.workers.max(2) {
            let workers = self.workers.max(2);
            // Both processors alone, on tables of their own.
            let alone = run(Approach::One, submitters, submitters, 0)?;
            let cpu = run(Approach::Three, workers - submitters, 0, 0)?;
            let expected = alone.total() + cpu.total();
            for approach in [Approach::One, Approach::Two, Approach::Three] {
                if approach != Approach::Three && !shared {
                    continue;
                }
                for ahead in [0, 20] {
                    let rates = run(approach, workers, submitters, ahead)?;
                    all.figures.push(Figure {
                        part: Part::Together,
                        name: format!(
                            "approach {approach:?}, {submitters} of {workers} workers submit, ahead {ahead}"
                        ),
                        value: rates.total(),
                        unit: "lookups/us",
                        right: rates.wrong == 0,
                        expected,
                    });
                }
            }
        }
        Ok(())
    }

    fn sort(&self, figures: &mut Vec<Figure>) -> Result<(), Error> {
        let mut random = Mix::seeded(self.seed);
        let keys: Vec<u32> = (0..self.rows).map(|_| random.next_u64() as u32).collect();
        let chunk = sort::chunk(&*self.accelerator);
        let timed = |work: &mut dyn FnMut(&mut Vec<u32>) -> Result<(), Error>| {
            let mut sorted = keys.clone();
            let start = Instant::now();
            work(&mut sorted)?;
            Ok::<_, Error>((self.rows as f64 / (start.elapsed().as_secs_f64() * 1e6), sorted))
        };
        let (device, by_device) = timed(&mut |keys| sort::sort(&*self.accelerator, keys, chunk))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (cpu, by_cpu) = timed(&mut |keys| {
            sort::on_cpu(keys, threads);
            Ok(())
        })?;
        let right = by_device == by_cpu && by_cpu.is_sorted();
        for (name, value) in [
            ("device, with copies".to_owned(), device),
            (format!("voracious_radix_sort, {threads} threads"), cpu),
        ] {
            figures.push(Figure { part: Part::Sort, name, value, unit: "keys/us", right, expected: 0.0 });
        }
        Ok(())
    }

    fn query(&self, figures: &mut Vec<Figure>) -> Result<(), Error> {
        let rows = Lineitem::generate(self.rows, self.seed);
        let mut figure = |name: &str, start: Instant, right| {
            let value = self.rows as f64 / (start.elapsed().as_secs_f64() * 1e6);
            let name = name.to_owned();
            figures.push(Figure { part: Part::Query, name, value, unit: "rows/us", right, expected: 0.0 });
        };
        let start = Instant::now();
        let first = q1_on_cpu(&rows);
        figure("Q1, CPU, one thread", start, true);
        let start = Instant::now();
        let on_device = q1(&*self.accelerator, &rows, None)?;
        figure("Q1, device, with copies", start, on_device == first);
        let start = Instant::now();
        let sixth = q6_on_cpu(&rows);
        figure("Q6, CPU, one thread", start, true);
        let start = Instant::now();
        let on_device = q6(&*self.accelerator, &rows, None)?;
        figure("Q6, device, with copies", start, on_device == sixth);
        Ok(())
    }
}

/// Numbers of keys: 100, 1,000 and so on below the largest, then the largest.
fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(100usize), |size| size.checked_mul(10));
    powers.take_while(move |&size| size < largest).chain([largest])
}

impl Figures {
    /// Whether every result was right.
    #[must_use]
    pub fn right(&self) -> bool {
        self.figures.iter().all(|figure| figure.right)
    }

    /// A table for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let Figures { device, .. } = self;
        let mut text = format!(
            "{} ({}, {}), {} cores, {} keys in {} MiB, batches of {}\n",
            device.device,
            device.backend,
            device.driver,
            self.cores,
            self.keys,
            self.table_bytes >> 20,
            self.batch
        );
        for figure in &self.figures {
            let part = format!("{:?}", figure.part).to_lowercase();
            write!(text, "{part:<9} {:<55}{:>12.3} {}", figure.name, figure.value, figure.unit).ok();
            if figure.expected > 0.0 {
                write!(text, "  expected {:.3}", figure.expected).ok();
            }
            text.push_str(if figure.right { "\n" } else { "  WRONG RESULT\n" });
        }
        for reason in &self.left_out {
            writeln!(text, "left out: {reason}").ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_batch_that_was_asked_for_is_the_last_size() {
        let sizes = |largest| super::sizes(largest).collect::<Vec<usize>>();
        assert_eq!(sizes(50), [50]);
        assert_eq!(sizes(1000), [100, 1000]);
        assert_eq!(sizes(1500), [100, 1000, 1500]);
    }
}
