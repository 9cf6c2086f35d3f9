//! Wear of a program as it is, from the processor's own samples of its stores: Algorithm 1 of the source.

use ::wear::assess;
use ::wear::estimate::{Algorithm, Sampled, Tally};
use event::{Site, SiteId};
use machine::{Config, LINE_BYTES};

use super::{Wear, WearFault, Worn, subject};
use crate::error::Error;
use crate::input::Input;
use crate::observer::Observer;
use crate::simulate::Notes;

/// Samples, as they come, into counts of writes.
struct Estimate {
    sampled: Sampled,
    tally: Tally,
    period: u32,
}

impl Estimate {
    fn new(algorithm: Algorithm) -> Result<Self, WearFault> {
        Ok(Estimate {
            sampled: Sampled::new(algorithm)?,
            tally: Tally::default(),
            period: algorithm.interval,
        })
    }

    /// A store that is taken for a write-back stands for as many as were not sampled since the last one.
    fn take(&mut self, process: u32, address: u64, site: u32) {
        if self.sampled.sample(process, address) {
            self.tally.estimated(address / LINE_BYTES, site, self.period, 0);
        }
    }
}

impl Wear {
    /// Runs the program under the processor's sampling.
    pub(super) fn of_samples(
        &self,
        period: u32,
        config: &Config,
        observer: &dyn Observer,
    ) -> Result<Worn, Error> {
        let Input::Program(program) = &self.input else { return Err(WearFault::NothingToSample.into()) };
        let algorithm = Algorithm { interval: period, ..self.algorithm(config) };
        let mut estimate = Estimate::new(algorithm)?;
        let (command, apart) = (&program.command, program.stdout_to_stderr);
        let run = capture::sample_stores(command, u64::from(period), apart, |process, address, site| {
            estimate.take(process, address, site);
        })?;
        let mut notes = Notes::default();
        define(&mut notes, run.sites);
        notes.warnings.push(format!(
            "estimated from {} samples of stores by {}, every {period}th; stores that follow a sample closely may be \
             missed",
            report::human::grouped(run.samples),
            run.unit
        ));
        if run.lost > 0 {
            notes.warnings.push(format!("the kernel lost {} samples", report::human::grouped(run.lost)));
        }
        if let Some(status) = run.status.filter(|status| !status.success()) {
            let warning = format!("{} ended with {status}", program.name());
            observer.warn(&warning);
            notes.warnings.push(warning);
        }
        let seconds = self.duration.unwrap_or(run.elapsed).as_secs_f64();
        Ok(Worn {
            subject: subject(&self.input)?,
            command: self.command(),
            machine: self.machine.label(),
            clock: if self.duration.is_some() { "given" } else { "measured" },
            devices: Vec::new(),
            assessment: assess(&estimate.tally, Vec::new(), self.question(config, Some(seconds))),
            timeline: Vec::new(),
            accuracy: Vec::new(),
            notes,
        })
    }
}

fn define(notes: &mut Notes, sites: Vec<Site>) {
    for (number, site) in (0..).zip(sites) {
        notes.sites.define_site(SiteId(number), site);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of stores to one hot line among cold ones, every 101st is a sample; the counts of lines come out, and the filters
    /// take repeated stores within the cache's capacity for one.
    #[test]
    fn samples_become_writes_of_lines_and_sites() {
        let algorithm = Algorithm { interval: 101, blocks: 16, ..Algorithm::of_source() };
        let mut estimate = Estimate::new(algorithm).expect("a prime");
        let (hot, passes) = (5 << 20, 400);
        for pass in 0..passes {
            estimate.take(1, hot, 1);
            // So many other lines that the hot one is forgotten.
            (0..64).for_each(|line| estimate.take(1, (1 << 30) + (pass * 64 + line) * LINE_BYTES, 2));
        }
        let pages = estimate.tally.pages(4096, false);
        let page = pages.iter().find(|page| page.address == hot).expect("the hot page");
        let least = passes * 101 * 8 / 10;
        assert!(page.writes > least && page.writes <= passes * 101, "{}", page.writes);
        assert_eq!(page.sites, [(1, page.writes)]);
        let total: u64 = pages.iter().map(|page| page.writes).sum();
        assert_eq!(estimate.tally.total(), total);

        let mut cached =
            Estimate::new(Algorithm { interval: 101, ..Algorithm::of_source() }).expect("a prime");
        (0..1000).for_each(|_| cached.take(1, hot, 1));
        assert_eq!(cached.tally.total(), 101, "one write-back of a line that stays in the cache");
        assert!(Estimate::new(Algorithm { interval: 100, ..algorithm }).is_err());
    }
}
