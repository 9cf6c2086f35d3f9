//! Commits of 32 writes, one to a page: the source's microbenchmark.

use std::sync::Arc;

use vnvm::{Mode, Options, Real, Region, Setup, Sizes, Vnvm};

use super::contest::{VnvmContest, failed, median, skip};
use super::logs::{Commits, Redo, SoftWrap, Undo, Writes};
use super::peer;
use super::results::{CommitRow, VnvmResults};
use crate::Watch;
use crate::clock::Spent;
use crate::error::Error;

/// Bytes that are written to a page.
const BYTES: [u64; 6] = [16, 32, 64, 128, 256, 512];
/// Writes of a transaction, each to a page of its own.
const WRITES: u64 = 32;
const PAGE: u64 = 4096;
/// The source's array, log and cache.
const ARRAY: u64 = 2 << 30;

struct Ours {
    vnvm: Vnvm,
    region: Arc<Region<Real>>,
}

impl Commits for Ours {
    fn commit(&mut self, writes: &Writes<'_>) -> Result<(), Error> {
        let mut tx = self.vnvm.begin();
        for place in writes.places {
            tx.write(&self.region, *place, writes.bytes).map_err(failed)?;
        }
        tx.commit().map_err(failed)
    }
}

/// The time of a commit when the array is written once: nanoseconds of wall time.
fn pass(to: &mut dyn Commits, array: u64, bytes: u64) -> Result<f64, Error> {
    let data = vec![7; bytes as usize];
    let transactions = array / PAGE / WRITES;
    let (done, spent) = Spent::by(|| -> Result<(), Error> {
        for number in 0..transactions {
            let places: Vec<u64> = (0..WRITES).map(|page| (number * WRITES + page) * PAGE).collect();
            to.commit(&Writes { places: &places, bytes: &data })?;
        }
        Ok(())
    });
    done?;
    Ok(spent.wall_ns as f64 / transactions as f64)
}

pub fn measure(contest: &VnvmContest, watch: &dyn Watch, results: &mut VnvmResults) -> Result<(), Error> {
    let array = contest.scaled(ARRAY);
    let folder = tempfile::tempdir_in(&contest.nvm).map_err(Error::file("make a folder in", &contest.nvm))?;
    let disk = tempfile::tempdir_in(&contest.disk).map_err(Error::file("make a folder in", &contest.disk))?;
    let peer = peer::program(disk.path());
    if let Err(reason) = &peer {
        skip(results, "libpmemobj", reason.clone(), Some("libpmemobj-dev"));
    }
    for (step, bytes) in BYTES.into_iter().enumerate() {
        watch.step(step, BYTES.len(), &format!("commits of {WRITES} writes of {bytes} bytes"));
        if watch.stopped() {
            return Ok(());
        }
        let mut times: Vec<(&str, Vec<f64>)> = Vec::new();
        for round in 0..contest.rounds {
            let mut add = |name, time: f64| match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(time),
                None => times.push((name, vec![time])),
            };
            let warm = |to: &mut dyn Commits| -> Result<f64, Error> {
                pass(to, array, bytes)?;
                pass(to, array, bytes)
            };
            add("bare redo", warm(&mut Redo::new(array, array)?)?);
            let sizes = Sizes::new(array, array, PAGE).map_err(failed)?;
            let nvm = folder.path().join(format!("nvm-{bytes}-{round}"));
            let vnvm = Vnvm::open(&nvm, &Setup::new(sizes), Options::default()).map_err(failed)?;
            let file = disk.path().join(format!("array-{bytes}-{round}"));
            let region = vnvm.allocate(&file, array, Mode::Private).map_err(failed)?;
            let mut ours = Ours { vnvm, region };
            add("vnvm", warm(&mut ours)?);
            ours.vnvm.close().map_err(failed)?;
            drop(ours);
            std::fs::remove_file(&file).map_err(Error::file("remove", &file))?;
            add("SoftWrAP-like", warm(&mut SoftWrap::new(array, array)?)?);
            add("bare undo", warm(&mut Undo::new(array, array)?)?);
            if let Ok(program) = &peer {
                add("libpmemobj", peer::run(program, folder.path(), array, bytes)?);
            }
        }
        let bare = times.first().map_or(f64::NAN, |(_, all)| median(all.clone()));
        for (name, all) in times {
            let ns = median(all);
            results.commits.push(CommitRow {
                bytes,
                contender: name.to_owned(),
                ns,
                over_bare_redo: ns / bare,
            });
        }
    }
    Ok(())
}
