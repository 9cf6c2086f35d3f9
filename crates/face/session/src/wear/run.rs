//! `wear run`: a program whose large allocations come from memory that wears, levelled while it runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use ::wear::Endurance;

use super::fault::WearFault;
use super::ran::{Counted, WearRan};
use crate::ending::ending;
use crate::error::Error;
use crate::input::runnable;
use crate::temporary::Temporary;

/// The library that the program loads; the crate's build script makes it.
const RUNTIME: &[u8] = include_bytes!(env!("STRANDLINE_WEAR_RUNTIME"));
/// Shuffles of all pages in the lifetime that is wanted, as the source has it.
const SHUFFLES: u32 = 8192;

/// A program to be run on memory that wears.
#[derive(Clone, Debug)]
pub struct WearRun {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Seconds that the memory is to last.
    pub goal: f64,
    /// Writes that a cell survives.
    pub endurance: f64,
    /// Bytes of the memory.
    pub capacity: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Allocations of so many bytes and more come from it.
    pub from: u64,
    /// How often the control loop acts.
    pub interval: Duration,
    /// How often within an interval written pages are looked for.
    pub ticks: u32,
    /// Writes per second and GiB above which pages go to DRAM; by goal and endurance if not given.
    pub limit: Option<f64>,
    /// In which time all pages are shuffled once; 8192 times in the goal if not given, never if zero.
    pub shuffle: Option<Duration>,
    /// The file that is the memory; memory of the kernel's if not given.
    pub pm: Option<PathBuf>,
    /// NUMA nodes of the memory that wears and of DRAM, instead of a file.
    pub nodes: Option<(u32, u32)>,
    /// Send what the program prints to standard error.
    pub stdout_to_stderr: bool,
}

impl WearRun {
    /// Four years at 10^7 writes, 1 GiB, pages of 4 KiB, intervals of 10 s.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        WearRun {
            command,
            goal: 4.0 * ::wear::YEAR,
            endurance: super::ENDURANCE,
            capacity: 1 << 30,
            page: 4096,
            from: 64 << 10,
            interval: Duration::from_secs(10),
            ticks: 10,
            limit: None,
            shuffle: None,
            pm: None,
            nodes: None,
            stdout_to_stderr: false,
        }
    }

    /// Runs the program.
    ///
    /// # Errors
    /// If a number makes no sense, the program can't be run, or nothing could be levelled. The program itself
    /// may fail: see [`WearRan::status`].
    pub fn run(&self) -> Result<WearRan, Error> {
        self.check()?;
        let name = self.command.first().cloned().unwrap_or_default();
        let program = name.to_string_lossy().into_owned();
        runnable(&name)?;
        let place = std::env::temp_dir();
        let folder = Temporary::new("strandline-wear-", &place).map_err(Error::file("create", &place))?;
        let library = folder.path().join("libstrandline_wear.so");
        fs::write(&library, RUNTIME).map_err(Error::file("write", &library))?;
        let status = self.start(&name, &library, folder.path())?;
        let mut counted = Vec::new();
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let ours = entry.file_name().to_string_lossy().starts_with("results.");
            if ours && path.extension().is_none_or(|end| end != "new") {
                let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
                if let Some(why) = text.strip_prefix("refused ") {
                    return Err(WearFault::Refused { program, why: why.trim().to_owned() }.into());
                }
                counted.push(Counted::read(&text));
            }
        }
        // A shell that starts the program loads the library, too: whoever wrote most is the program.
        counted.sort_by_key(|counted| std::cmp::Reverse((counted.near + counted.far, counted.used)));
        let processes = counted.len();
        let Some(first) = counted.into_iter().next() else {
            return Err(WearFault::NotLoaded { program, ending: ending(status) }.into());
        };
        Ok(WearRan {
            subject: report::human::shell(&self.program()),
            command: self.words(),
            status,
            endurance: self.endurance(),
            goal: self.goal,
            capacity: self.capacity,
            limit: self.limit(),
            shuffles: SHUFFLES,
            processes,
            counted: first,
        })
    }

    fn start(&self, name: &OsString, library: &Path, folder: &Path) -> Result<ExitStatus, Error> {
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(name);
        command.args(&self.command[1..]).env("LD_PRELOAD", preload);
        command.env("STRANDLINE_WEAR", self.settings(&folder.join("results")));
        if self.stdout_to_stderr {
            command.stdout(Stdio::from(std::io::stderr()));
        }
        let failed = |error| {
            let text = format!("can't run {}: {error}", name.to_string_lossy());
            Error::from(WearFault::System(text))
        };
        command.status().map_err(failed)
    }

    fn endurance(&self) -> Endurance {
        Endurance { page: self.page, ..Endurance::new(self.endurance) }
    }

    fn limit(&self) -> f64 {
        // Lines of a page wear all of it, whatever its size.
        self.limit.unwrap_or_else(|| self.endurance().rate_limit(1 << 30, self.goal))
    }

    /// What the library reads.
    fn settings(&self, out: &Path) -> String {
        let every = self.shuffle.map_or(self.goal / f64::from(SHUFFLES), |every| every.as_secs_f64());
        let mut text = format!(
            "bytes={}\npage={}\nfrom={}\nlimit={}\ninterval={}\nticks={}\n\
             share=0.1\nquiet=5\nshuffle={every}\nout={}\n",
            self.capacity,
            self.page,
            self.from,
            self.limit(),
            self.interval.as_secs_f64(),
            self.ticks,
            out.display()
        );
        if let Some(path) = &self.pm {
            text.push_str(&format!("pm={}\n", path.display()));
        }
        if let Some((near, far)) = self.nodes {
            text.push_str(&format!("nodes={near},{far}\n"));
        }
        text
    }

    fn check(&self) -> Result<(), WearFault> {
        if !self.page.is_power_of_two() || !(4096..=1 << 30).contains(&self.page) {
            return Err(WearFault::Page(self.page));
        }
        let numbers = [
            ("an endurance", self.endurance),
            ("a goal", self.goal),
            ("an interval", self.interval.as_secs_f64()),
            ("a limit", self.limit()),
            ("pages", (self.capacity / self.page / 2) as f64),
        ];
        for (what, value) in numbers {
            if !value.is_finite() || value <= 0.0 {
                return Err(WearFault::NotPositive { what, value });
            }
        }
        if let Some((near, far)) = self.nodes {
            let present = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
            let there = |node: u32| Path::new(&format!("/sys/devices/system/node/node{node}")).exists();
            if !there(near) || !there(far) || near == far {
                let present = format!("the nodes {}", present.trim());
                return Err(WearFault::Nodes { near, far, present });
            }
        }
        Ok(())
    }

    /// The command that runs it again.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = ["strandline", "wear", "run"].map(str::to_owned).into();
        let default = WearRun::new(Vec::new());
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        let time = |seconds: Duration| humantime::format_duration(seconds).to_string().replace(' ', "");
        let size = |bytes: u64| device::Size(bytes).to_string();
        let goal = Duration::from_secs_f64(self.goal);
        option("--goal", (self.goal != default.goal).then(|| time(goal)));
        option("--endurance", (self.endurance != default.endurance).then(|| self.endurance.to_string()));
        option("--capacity", (self.capacity != default.capacity).then(|| size(self.capacity)));
        option("--page", (self.page != default.page).then(|| size(self.page)));
        option("--from", (self.from != default.from).then(|| size(self.from)));
        option("--interval", (self.interval != default.interval).then(|| time(self.interval)));
        option("--ticks", (self.ticks != default.ticks).then(|| self.ticks.to_string()));
        option("--limit", self.limit.map(|limit| limit.to_string()));
        option("--shuffle-every", self.shuffle.map(time));
        option("--pm", self.pm.as_ref().map(|path| path.display().to_string()));
        option("--nodes", self.nodes.map(|(near, far)| format!("{near},{far}")));
        words.push("--".to_owned());
        words.extend(self.program());
        words
    }

    /// The program and its arguments as text.
    fn program(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}
