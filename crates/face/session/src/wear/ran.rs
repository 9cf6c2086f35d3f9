//! What came of a program on memory that wears.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use ::wear::{CopyCost, Endurance, Rates};
use report::{human, lifetime};
use serde::Serialize;
use serde_json::json;

use crate::ending::ending;
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-wear-run-1";
/// Pages that are listed.
const LISTED: usize = 10;

/// What the library in the program counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counted {
    /// Lines that the program wrote in memory that wears: whose bytes differed when they were looked at.
    pub near: u64,
    /// The same in DRAM.
    pub far: u64,
    /// Lines that were written by moving pages into memory that wears.
    pub copied: u64,
    /// Pages that went to DRAM.
    pub out: u64,
    /// Pages that came back.
    pub home: u64,
    /// Pairs of pages that were exchanged.
    pub exchanged: u64,
    /// Pages that were in DRAM at the end.
    pub away: u64,
    /// Pages that were in use at some time.
    pub used: u64,
    /// Seconds from the program's start to the last count.
    pub elapsed: f64,
    /// Seconds of looking for written pages.
    pub watching: f64,
    /// Seconds of moving pages.
    pub moving: f64,
    /// Writes per second and GiB to memory that wears, by interval.
    pub rates: Vec<f64>,
    /// Why nothing moved any more.
    pub stopped: Option<String>,
    /// By page: lines written to it, wherever it was.
    pub pages: BTreeMap<u32, u64>,
    /// By frame: lines written to it, copies included.
    pub frames: BTreeMap<u32, u64>,
}

impl Counted {
    /// From the library's lines. What is missing counts as nothing.
    pub(super) fn read(text: &str) -> Self {
        let of: BTreeMap<&str, &str> =
            text.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        let count = |name: &str| of.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        let seconds = |name: &str| of.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0);
        let pairs = |name: &str| {
            let words = of.get(name).into_iter().flat_map(|values| values.split(' '));
            let pair = |word: &str| {
                let (at, lines) = word.split_once(':')?;
                Some((at.parse().ok()?, lines.parse().ok()?))
            };
            words.filter_map(pair).collect()
        };
        let rates = of.get("rates").into_iter().flat_map(|values| values.split(' '));
        Counted {
            near: count("near"),
            far: count("far"),
            copied: count("copied"),
            out: count("out"),
            home: count("home"),
            exchanged: count("exchanged"),
            away: count("away"),
            used: count("used"),
            elapsed: seconds("elapsed"),
            watching: seconds("watching"),
            moving: seconds("moving"),
            rates: rates.filter_map(|rate| rate.parse().ok()).collect(),
            stopped: of.get("stopped").map(|why| (*why).to_owned()),
            pages: pairs("pages"),
            frames: pairs("worn"),
        }
    }
}

/// A run on memory that wears. Lifetimes are in seconds.
#[derive(Clone, Debug)]
pub struct WearRan {
    /// The program with its arguments.
    pub subject: String,
    /// The command that runs it again.
    pub command: Vec<String>,
    /// How the program ended.
    pub status: ExitStatus,
    /// What cells survive, in pages of which size.
    pub endurance: Endurance,
    /// Seconds that the memory is to last.
    pub goal: f64,
    /// Bytes of the memory.
    pub capacity: u64,
    /// Writes per second and GiB above which pages go to DRAM.
    pub limit: f64,
    /// Shuffles of all pages in the goal.
    pub shuffles: u32,
    /// Processes that loaded the library; the one that wrote most is shown.
    pub processes: usize,
    /// What it counted.
    pub counted: Counted,
}

/// Lifetimes that the counts stand for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// Every page in memory that wears, none moved.
    pub unmanaged: f64,
    /// As the frames wore in this run.
    pub as_worn: f64,
    /// What was written to memory that wears, shuffled over all of it as often as planned.
    pub shuffled: f64,
}

impl WearRan {
    /// What the counts stand for, until 1 % of the pages in use are worn out; over all of the memory where
    /// that is shuffled.
    #[must_use]
    pub fn lifetimes(&self) -> Lifetimes {
        let counted = &self.counted;
        let seconds = counted.elapsed.max(1e-3);
        let rates = |counts: &BTreeMap<u32, u64>| {
            Rates::new(counts.values().map(|lines| *lines as f64 / seconds)).within(counted.used.max(1))
        };
        let (pages, frames) = (rates(&counted.pages), rates(&counted.frames));
        let all = frames.within((self.capacity / self.endurance.page).max(1));
        let shuffled = self.endurance.shuffled(&all, &[u64::from(self.shuffles)], CopyCost::Lines);
        Lifetimes {
            unmanaged: self.endurance.without_levelling(&pages),
            as_worn: self.endurance.without_levelling(&frames),
            shuffled: shuffled.first().map_or(f64::INFINITY, |shuffled| shuffled.seconds),
        }
    }

    /// The result for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let (counted, lives) = (&self.counted, self.lifetimes());
        let words = |value: f64| lifetime(value, "seconds");
        let (first, last) = (counted.rates.first().copied(), counted.rates.last().copied());
        let rate = |rate: Option<f64>| human::grouped(rate.unwrap_or(0.0) as u64);
        let mut text = format!(
            "{} ended with {}; {} pages of {} were in use for {:.1} s\n",
            human::plain(&self.subject),
            ending(self.status),
            human::grouped(counted.used),
            human::bytes(self.endurance.page),
            counted.elapsed
        );
        text.push_str(&format!(
            "{} writes/s per GiB in the first interval, {} in the last; the limit is {} for {}\n",
            rate(first),
            rate(last),
            human::grouped(self.limit as u64),
            words(self.goal)
        ));
        text.push_str(&format!(
            "{} lines written to memory that wears, {} in DRAM, {} by copies\n",
            human::grouped(counted.near),
            human::grouped(counted.far),
            human::grouped(counted.copied)
        ));
        text.push_str(&format!(
            "{} pages went to DRAM, {} came home, {} are there; {} pairs exchanged\n",
            human::grouped(counted.out),
            human::grouped(counted.home),
            human::grouped(counted.away),
            human::grouped(counted.exchanged)
        ));
        if let Some(why) = &counted.stopped {
            text.push_str(&format!("nothing moved any more: {}\n", human::plain(why)));
        }
        text.push_str("\nUntil 1 % of the pages are worn out\n");
        for (name, life) in [
            ("not managed", lives.unmanaged),
            ("as worn here", lives.as_worn),
            ("shuffled on", lives.shuffled),
        ] {
            text.push_str(&format!("  {name:<14}{:>14}\n", words(life)));
        }
        text.push_str(&format!(
            "Watching took {:.2} % of the time, moving pages {:.2} %.\n",
            100.0 * counted.watching / counted.elapsed.max(1e-3),
            100.0 * counted.moving / counted.elapsed.max(1e-3)
        ));
        text
    }

    /// All numbers.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let mut hottest: Vec<(&u32, &u64)> = self.counted.pages.iter().collect();
        hottest.sort_by_key(|(page, lines)| (std::cmp::Reverse(**lines), **page));
        let hottest: Vec<_> = hottest
            .into_iter()
            .take(LISTED)
            .map(|(page, lines)| json!({ "page": page, "writes": lines }))
            .collect();
        let mut counts = serde_json::to_value(&self.counted)?;
        for list in ["pages", "frames"] {
            counts[list].take();
        }
        let worst = |counts: &BTreeMap<u32, u64>| counts.values().copied().max().unwrap_or(0);
        let answer = json!({
            "schema": SCHEMA,
            "command": self.command,
            "ended": ending(self.status),
            "processes": self.processes,
            "endurance": self.endurance,
            "goal": self.goal,
            "capacity": self.capacity,
            "limit_per_gib": self.limit,
            "counts": counts,
            "worst_page": worst(&self.counted.pages),
            "worst_frame": worst(&self.counted.frames),
            "lifetimes": self.lifetimes(),
            "hottest": hottest,
        });
        Ok(format!("{answer:#}\n"))
    }
}
