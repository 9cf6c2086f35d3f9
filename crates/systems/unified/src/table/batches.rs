//! Batches of lookups and changes on an accelerator.

use std::sync::Arc;

use super::cpu::{CpuTable, Guard};
use super::{Answer, Change, NONE};
use crate::host::table::DELETE;
use crate::{Accelerator, Error, Hashed, Job, Kernel, Pending, Region, Shape};

/// Requests of one batch, at most: 2^27, so that a batch of changes has 2 GiB of requests.
const BATCH_MAX: usize = 1 << 27;

/// Mega-KV's table in an accelerator's memory.
pub struct Table {
    accelerator: Arc<dyn Accelerator>,
    shape: Shape,
    region: Arc<dyn Region>,
    guard: Guard,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn new(accelerator: Arc<dyn Accelerator>, shape: Shape) -> Result<Table, Error> {
        let valid = shape.buckets.is_power_of_two()
            && shape.block.is_power_of_two()
            && shape.block <= shape.buckets
            && (1..=32).contains(&shape.signature_bits);
        if !valid {
            return Err(Error::Request {
                what: "shape of a table",
                got: format!("{shape:?}"),
                expected: "powers of two, a block within the table, 1 to 32 bits",
            });
        }
        let (has, needs) = (accelerator.info().region_bytes_max, shape.words() as u64 * 4);
        if needs > has {
            let device = accelerator.info().device.clone();
            return Err(Error::Limit { device, limit: "the largest region", has, needs });
        }
        let region = accelerator.allocate(shape.words())?;
        Ok(Table { accelerator, shape, region, guard: Guard::new(shape) })
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The device that has it.
    #[must_use]
    pub fn accelerator(&self) -> &Arc<dyn Accelerator> {
        &self.accelerator
    }

    /// Its memory.
    #[must_use]
    pub fn region(&self) -> &Arc<dyn Region> {
        &self.region
    }

    /// The table for CPU threads.
    ///
    /// # Errors
    /// If the CPU can't use the device's memory.
    pub fn cpu(&self) -> Result<CpuTable<'_>, Error> {
        match self.region.mapped() {
            Some(words) => Ok(CpuTable { words, shape: self.shape, guard: &self.guard }),
            None => Err(Error::NotMapped { device: self.accelerator.info().device.clone() }),
        }
    }

    /// All words of the table.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn bytes(&self) -> Result<Vec<u32>, Error> {
        let mut words = vec![0; self.shape.words()];
        self.region.read(0, &mut words)?;
        Ok(words)
    }

    /// Replaces the whole table by the words of another one of the same shape.
    ///
    /// # Errors
    /// If the shapes differ or the device is lost.
    pub fn copy_from(&self, other: &Table) -> Result<(), Error> {
        if self.shape != other.shape {
            return Err(Error::Request {
                what: "table to copy",
                got: format!("{:?}", other.shape),
                expected: "one of the same shape",
            });
        }
        self.region.write(0, &other.bytes()?)
    }

    /// Looks keys up on the device. Missing ones get [`NONE`]. Waits for the device.
    ///
    /// A lookup beside a batch of changes sees each entry before or after it; one beside changes of CPU
    /// threads may miss an entry that an eviction moves. [`CpuTable::search`] misses none.
    ///
    /// # Errors
    /// If the batch is too large, there is no room for it, or the device is lost.
    pub fn search(&self, keys: &[Hashed]) -> Result<Vec<u32>, Error> {
        self.submit_search(keys)?.wait()
    }

    /// Starts to look keys up on the device.
    ///
    /// # Errors
    /// As [`Table::search`].
    pub fn submit_search(&self, keys: &[Hashed]) -> Result<Search, Error> {
        check_batch(keys.len())?;
        if keys.is_empty() {
            return Ok(Search { pending: None, results: None, count: 0 });
        }
        let requests: Vec<u32> = keys.iter().flat_map(|key| [key.hash, key.signature]).collect();
        let requests = self.accelerator.upload(&requests)?;
        let results = self.accelerator.allocate(keys.len())?;
        let pending = self.accelerator.submit(Job {
            kernel: Kernel::Search,
            regions: &[&self.region, &requests, &results],
            parameters: &[self.shape.buckets - 1, self.shape.block - 1],
            invocations: keys.len() as u32,
        })?;
        Ok(Search { pending: Some(pending), results: Some(results), count: keys.len() })
    }

    /// Changes the table on the device, as if one change were made after the other. CPU threads may use the
    /// table meanwhile: those that change, or look up in, a block that the batch changes wait.
    ///
    /// # Errors
    /// If a location is [`NONE`] or the batch too large or there is no room for it, nothing has changed. If
    /// the device is lost, the table's contents are undefined.
    pub fn change(&self, changes: &[(Hashed, Change)]) -> Result<Vec<Answer>, Error> {
        check_batch(changes.len())?;
        changes.iter().try_for_each(|(_, change)| change.check())?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let order = self.by_block(changes);
        let mut requests = Vec::with_capacity(changes.len() * 4);
        let (mut segments, mut blocks) = (Vec::new(), Vec::new());
        for (at, &number) in order.iter().enumerate() {
            let (key, change) = changes[number as usize];
            let block = self.shape.block_of(key);
            if blocks.last() != Some(&block) {
                blocks.push(block);
                segments.extend([at as u32, at as u32]);
            }
            if let Some(end) = segments.last_mut() {
                *end = at as u32 + 1;
            }
            let (location, operation) = match change {
                Change::Insert(location) => (location, 1),
                Change::Delete(location) => (location, DELETE),
            };
            requests.extend([key.hash, key.signature, location, operation]);
        }
        let requests = self.accelerator.upload(&requests)?;
        let results = self.accelerator.allocate(changes.len() * 2)?;
        // In ascending order, so that two batches do not wait for each other.
        blocks.iter().for_each(|&block| self.guard.take(block));
        let ran = self.launch_changes(&requests, segments, &results);
        blocks.iter().for_each(|&block| self.guard.give_back(block));
        ran?;
        let mut words = vec![0; changes.len() * 2];
        results.read(0, &mut words)?;
        let mut answers = vec![Answer::of(0, NONE); changes.len()];
        for (pair, &number) in words.chunks_exact(2).zip(&order) {
            answers[number as usize] = Answer::of(pair[0], pair[1]);
        }
        Ok(answers)
    }

    /// Launches the kernel until no request is left: an invocation stops before it takes too many steps.
    fn launch_changes(
        &self,
        requests: &Arc<dyn Region>,
        mut segments: Vec<u32>,
        results: &Arc<dyn Region>,
    ) -> Result<(), Error> {
        // A request takes at most some 1,500 steps.
        let steps = self.accelerator.info().steps_max / 8 * 7 - 2000;
        while !segments.is_empty() {
            let left = self.accelerator.upload(&segments)?;
            self.accelerator.run(Job {
                kernel: Kernel::Change,
                regions: &[&self.region, requests, &left, results],
                parameters: &[self.shape.buckets - 1, self.shape.block - 1, steps],
                invocations: segments.len() as u32 / 2,
            })?;
            let before = std::mem::take(&mut segments);
            let mut after = vec![0; before.len()];
            left.read(0, &mut after)?;
            for (old, new) in before.chunks_exact(2).zip(after.chunks_exact(2)) {
                if new[0] <= old[0] || new[0] > old[1] {
                    let (device, reason) =
                        (self.accelerator.info().device.clone(), "a kernel took no step".to_owned());
                    return Err(Error::Lost { device, reason });
                }
                if new[0] < old[1] {
                    segments.extend(new);
                }
            }
        }
        Ok(())
    }

    /// The numbers of changes, sorted by block, those of a block in the batch's order.
    fn by_block(&self, changes: &[(Hashed, Change)]) -> Vec<u32> {
        let mut starts = vec![0u32; self.shape.blocks() as usize + 1];
        for (key, _) in changes {
            starts[self.shape.block_of(*key) as usize + 1] += 1;
        }
        for block in 1..starts.len() {
            starts[block] += starts[block - 1];
        }
        let mut order = vec![0; changes.len()];
        for (number, (key, _)) in changes.iter().enumerate() {
            let place = &mut starts[self.shape.block_of(*key) as usize];
            order[*place as usize] = number as u32;
            *place += 1;
        }
        order
    }
}

fn check_batch(count: usize) -> Result<(), Error> {
    if count <= BATCH_MAX {
        return Ok(());
    }
    Err(Error::Request {
        what: "requests of a batch",
        got: count.to_string(),
        expected: "at most 134217728; send several batches",
    })
}

/// A batch of lookups under way.
pub struct Search {
    pending: Option<Box<dyn Pending>>,
    results: Option<Arc<dyn Region>>,
    count: usize,
}

impl Search {
    /// Whether it has ended; never blocks.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn done(&mut self) -> Result<bool, Error> {
        self.pending.as_mut().map_or(Ok(true), |pending| pending.done())
    }

    /// Waits for it and returns the locations.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn wait(mut self) -> Result<Vec<u32>, Error> {
        if let Some(pending) = &mut self.pending {
            pending.wait()?;
        }
        let mut locations = vec![0; self.count];
        if let Some(results) = &self.results {
            results.read(0, &mut locations)?;
        }
        Ok(locations)
    }
}
