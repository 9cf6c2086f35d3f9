//! What `strandline plan` asks for, in one variable of the environment.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

/// The variable: lines of `name=value`.
const VARIABLE: &str = "STRANDLINE_TIER";

/// How use of pages is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Not at all: allocations and the process's counters.
    Counters,
    /// The kernel's referenced bits.
    Referenced,
    /// Referenced bits, and stores by write protection.
    Written,
    /// Pages without access rights, whose first use is a signal.
    Protect,
    /// Samples of misses, from outside.
    Sampled,
    /// Regions of DAMON's, from outside.
    Damon,
}

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How use of pages is seen.
    pub source: Source,
    /// The shortest time between two looks.
    pub interval: Duration,
    /// Allocations of so many bytes and more are all noted.
    pub from: usize,
    /// What is seen from outside comes by this name with the process's number behind it.
    pub feed: Option<PathBuf>,
    /// A file of kinds by site.
    pub kinds: Option<PathBuf>,
    /// NUMA nodes of fast and of slow memory.
    pub nodes: (u32, u32),
    /// Large blocks are logged by this name with the process's number behind it.
    pub log: Option<PathBuf>,
    /// A file of remedies for page faults by site.
    pub remedies: Option<PathBuf>,
    /// Results go to this name with the process's number behind it.
    pub out: PathBuf,
}

impl Settings {
    /// Those of this process; `None` if there are none.
    pub fn read() -> Option<Settings> {
        Settings::parse(&env::var(VARIABLE).ok()?)
    }

    fn parse(text: &str) -> Option<Settings> {
        let of = |name: &str| {
            text.lines()
                .find_map(|line| line.split_once('=').filter(|pair| pair.0 == name))
                .map(|pair| pair.1)
        };
        let number = |name: &str| of(name)?.parse::<f64>().ok();
        Some(Settings {
            source: match of("source")? {
                "referenced" => Source::Referenced,
                "written" => Source::Written,
                "protect" => Source::Protect,
                "sampled" => Source::Sampled,
                "damon" => Source::Damon,
                _ => Source::Counters,
            },
            interval: Duration::try_from_secs_f64(number("interval")?).ok()?,
            from: number("from")? as usize,
            feed: of("feed").map(PathBuf::from),
            kinds: of("kinds").map(PathBuf::from),
            nodes: of("nodes")
                .and_then(|nodes| {
                    let (fast, slow) = nodes.split_once(',')?;
                    Some((fast.parse().ok()?, slow.parse().ok()?))
                })
                .unwrap_or((0, 1)),
            log: of("log").map(PathBuf::from),
            remedies: of("remedies").map(PathBuf::from),
            out: of("out").map(PathBuf::from)?,
        })
    }
}
