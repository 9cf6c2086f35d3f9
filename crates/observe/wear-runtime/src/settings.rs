//! What `strandline wear run` asks for, in one variable of the environment.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

/// The variable: lines of `name=value`.
const VARIABLE: &str = "STRANDLINE_WEAR";

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the memory that wears.
    pub bytes: u64,
    /// Bytes of a page, a power of two from 4 KiB on.
    pub page: u64,
    /// Allocations of so many bytes and more come from it.
    pub from: usize,
    /// Writes per second and GiB above which pages go to DRAM.
    pub limit: f64,
    /// The control loop's interval.
    pub interval: Duration,
    /// Times per interval at which written pages are looked for.
    pub ticks: u32,
    /// Share of the written pages that moves at a time.
    pub share: f64,
    /// Quiet intervals after which pages come home.
    pub quiet: u32,
    /// In which time all pages are shuffled once; never, if none.
    pub shuffle: Option<Duration>,
    /// The file that is the memory; a `memfd`, if none.
    pub pm: Option<PathBuf>,
    /// NUMA nodes: of the memory that wears, and of DRAM.
    pub nodes: Option<(u32, u32)>,
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
        let seconds = |name: &str| Duration::try_from_secs_f64(number(name)?).ok();
        Some(Settings {
            bytes: number("bytes")? as u64,
            page: number("page")? as u64,
            from: number("from")? as usize,
            limit: number("limit")?,
            interval: seconds("interval")?,
            ticks: (number("ticks")? as u32).max(1),
            share: number("share")?,
            quiet: number("quiet")? as u32,
            shuffle: seconds("shuffle").filter(|time| !time.is_zero()),
            pm: of("pm").map(PathBuf::from),
            nodes: of("nodes").and_then(|nodes| {
                let (near, far) = nodes.split_once(',')?;
                Some((near.parse().ok()?, far.parse().ok()?))
            }),
            out: of("out").map(PathBuf::from)?,
        })
    }
}
