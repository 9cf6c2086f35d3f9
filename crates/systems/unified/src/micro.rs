//! Microbenchmarks of a device: bandwidth both ways, copies against mapped memory, launch latency, a
//! pointer chase, batch sizes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::accelerator::room;
use crate::{Accelerator, Change, Error, Hashed, Job, Kernel, Mix, Region, Shape, Table};

/// A study, by name.
pub const STUDIES: [(&str, &str); 6] = [
    ("gpu-copy", "copies to the device's memory and back"),
    ("gpu-mapped", "the CPU on mapped memory of the device"),
    ("gpu-kernel", "kernels that read, write and copy the device's memory"),
    ("gpu-launch", "from the submission of an empty kernel to its end"),
    ("gpu-chase", "a chain of dependent loads of one invocation"),
    ("gpu-batch", "lookups by the number of keys in a batch"),
];

/// Words of a region that is measured, at most: 8 GiB.
const WORDS_MAX: u64 = 1 << 31;

/// A point of a study.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The study.
    pub study: &'static str,
    /// What was done.
    pub what: String,
    /// The median.
    pub value: f64,
    /// Its unit: `GB/s`, `ns` or `lookups/us`.
    pub unit: &'static str,
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of a region.
    pub bytes: usize,
    /// Runs per point, of which the median counts.
    pub repeats: u32,
    /// Keys of the largest batch.
    pub batch_max: usize,
    /// Seed of chain and keys.
    pub seed: u64,
}

/// Runs a study.
///
/// # Errors
/// If there is no such study, no room, or the device fails.
pub fn run(accelerator: &Arc<dyn Accelerator>, study: &str, options: Options) -> Result<Vec<Point>, Error> {
    // Kernels number words in 32 bits.
    let most = accelerator.info().region_bytes_max.min(WORDS_MAX * 4);
    let bytes = (options.bytes as u64).min(most) as usize;
    room(3 * bytes as u64)?;
    let bench = Bench { accelerator, words: (bytes / 4).max(1 << 14) & !((1 << 14) - 1), options };
    match study {
        "gpu-copy" => bench.copies(),
        "gpu-mapped" => bench.mapped(),
        "gpu-kernel" => bench.kernels(),
        "gpu-launch" => bench.launch(),
        "gpu-chase" => bench.chase(),
        "gpu-batch" => bench.batches(),
        _ => Err(Error::Request {
            what: "study",
            got: study.to_owned(),
            expected: "gpu-copy, gpu-mapped, gpu-kernel, gpu-launch, gpu-chase or gpu-batch",
        }),
    }
}

struct Bench<'a> {
    accelerator: &'a Arc<dyn Accelerator>,
    words: usize,
    options: Options,
}

impl Bench<'_> {
    /// The median time of some runs, after one that is not counted.
    fn median(&self, mut run: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        run()?;
        let mut times = Vec::new();
        for _ in 0..self.options.repeats.max(1) {
            let start = Instant::now();
            run()?;
            times.push(start.elapsed());
        }
        times.sort();
        Ok(times[times.len() / 2])
    }

    fn rate(&self, study: &'static str, what: &str, bytes: usize, time: Duration) -> Point {
        let value = bytes as f64 / time.as_secs_f64().max(1e-9) / 1e9;
        Point { study, what: what.to_owned(), value, unit: "GB/s" }
    }

    fn copies(&self) -> Result<Vec<Point>, Error> {
        let region = self.accelerator.allocate(self.words)?;
        let mut data = vec![1u32; self.words];
        let there = self.median(|| region.write(0, &data))?;
        let back = self.median(|| region.read(0, &mut data))?;
        let bytes = self.words * 4;
        Ok(vec![
            self.rate("gpu-copy", "to the device", bytes, there),
            self.rate("gpu-copy", "from the device", bytes, back),
        ])
    }

    fn mapped(&self) -> Result<Vec<Point>, Error> {
        let region = self.accelerator.allocate(self.words)?;
        let Some(words) = region.mapped() else {
            return Err(Error::NotMapped { device: self.accelerator.info().device.clone() });
        };
        let write = self.median(|| {
            words.iter().for_each(|word| word.store(3, Ordering::Relaxed));
            Ok(())
        })?;
        let read = self.median(|| {
            let sum = words.iter().fold(0u32, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
            std::hint::black_box(sum);
            Ok(())
        })?;
        let bytes = self.words * 4;
        Ok(vec![
            self.rate("gpu-mapped", "CPU writes", bytes, write),
            self.rate("gpu-mapped", "CPU reads", bytes, read),
        ])
    }

    fn kernels(&self) -> Result<Vec<Point>, Error> {
        let invocations = (self.words as u32).min(1 << 14);
        let steps = self.words as u32 / invocations;
        let (from, to) = (self.accelerator.allocate(self.words)?, self.accelerator.allocate(self.words)?);
        let run = |kernel, regions: &[&Arc<dyn Region>]| {
            let parameters = [steps, invocations, 7];
            self.median(|| {
                self.accelerator.run(Job { kernel, regions, parameters: &parameters, invocations })
            })
        };
        let bytes = self.words * 4;
        let read = run(Kernel::Read, &[&from, &to])?;
        let write = run(Kernel::Write, &[&from])?;
        let copy = run(Kernel::Copy, &[&from, &to])?;
        Ok(vec![
            self.rate("gpu-kernel", "reads", bytes, read),
            self.rate("gpu-kernel", "writes", bytes, write),
            self.rate("gpu-kernel", "copies (bytes read and written)", 2 * bytes, copy),
        ])
    }

    fn launch(&self) -> Result<Vec<Point>, Error> {
        let region = self.accelerator.allocate(64)?;
        let job = Job { kernel: Kernel::Write, regions: &[&region], parameters: &[0, 1, 0], invocations: 1 };
        let many = 20;
        let time = self.median(|| (0..many).try_for_each(|_| self.accelerator.run(job)))?;
        let value = time.as_nanos() as f64 / f64::from(many);
        Ok(vec![Point { study: "gpu-launch", what: "empty kernel".to_owned(), value, unit: "ns" }])
    }

    fn chase(&self) -> Result<Vec<Point>, Error> {
        let chain = cycle(self.words, self.options.seed);
        let (words, end) = (self.accelerator.upload(&chain)?, self.accelerator.allocate(1)?);
        let run = |steps: u32| {
            let (regions, parameters) = ([&words, &end], [steps]);
            let job =
                Job { kernel: Kernel::Chase, regions: &regions, parameters: &parameters, invocations: 1 };
            self.median(|| self.accelerator.run(job))
        };
        // The difference of two lengths, so that the launch does not count.
        let (short, long) = (1 << 12, (self.accelerator.info().steps_max / 2).min(1 << 17));
        let time = run(long)?.saturating_sub(run(short)?);
        let value = time.as_nanos() as f64 / f64::from(long - short);
        let what = format!("{} MiB", self.words >> 18);
        Ok(vec![Point { study: "gpu-chase", what, value, unit: "ns" }])
    }

    fn batches(&self) -> Result<Vec<Point>, Error> {
        let shape = Shape::for_keys((self.words as u64 / 32).max(1000))?;
        let table = Table::new(self.accelerator.clone(), shape)?;
        let keys = filled(&table, shape.slots() / 2)?;
        let mut random = Mix::seeded(self.options.seed);
        let mut points = Vec::new();
        for size in [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000] {
            if size > self.options.batch_max {
                break;
            }
            let batch: Vec<Hashed> =
                (0..size).map(|_| keys[random.below(keys.len() as u64) as usize]).collect();
            let time = self.median(|| table.search(&batch).map(drop))?;
            let value = size as f64 / (time.as_secs_f64() * 1e6);
            points.push(Point {
                study: "gpu-batch",
                what: format!("{size} keys"),
                value,
                unit: "lookups/us",
            });
        }
        Ok(points)
    }
}

/// A table filled with keys 0 to `count` - 1 at their numbers. Returns the keys that found room.
///
/// # Errors
/// If the device fails.
pub fn filled(table: &Table, count: u64) -> Result<Vec<Hashed>, Error> {
    let mut keys = Vec::new();
    for from in (0..count).step_by(1 << 20) {
        let part: Vec<_> = (from..(from + (1 << 20)).min(count))
            .map(|key| (table.shape().hash(key), Change::Insert(key as u32)))
            .collect();
        for ((key, _), answer) in part.iter().zip(table.change(&part)?) {
            if answer.outcome == crate::Outcome::Full {
                let got = count.to_string();
                return Err(Error::Request { what: "keys of a table", got, expected: "fewer keys" });
            }
            keys.push(*key);
        }
    }
    Ok(keys)
}

/// One cycle through all words (Sattolo).
fn cycle(words: usize, seed: u64) -> Vec<u32> {
    let mut random = Mix::seeded(seed);
    let mut order: Vec<u32> = (0..words as u32).collect();
    for at in (1..words).rev() {
        order.swap(at, random.below(at as u64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn a_chain_visits_all_words() {
        let chain = cycle(1000, 3);
        let (mut at, mut steps) = (0, 0);
        loop {
            at = chain[at as usize];
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, 1000);
    }
}
