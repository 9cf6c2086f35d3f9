//! The words of `strandline check`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crash::{Platform, Sector, Strategy, Token};

use crate::cli::ObserveArgs;

/// Arguments of `strandline check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline check --recover './app --recover POOL' -- ./app --fill /dev/shm/pool\n  \
                  strandline check --pmem /tmp/db --recover './app --verify POOL' -- ./app /tmp/db\n  \
                  strandline check --files /tmp/db --recover './app --verify POOL' -- ./app /tmp/db\n  \
                  strandline check -- ./app --fill /dev/shm/pool\n  \
                  strandline check --files d --recover 'sh recover.sh POOL' -- sh save.sh\n  \
                  strandline check --recover './app --recover POOL' --replay adr-p17-a0-b3-c2.1-h9f3a0c11\n  \
                  strandline check --litmus crates/model/crash/litmus/adr-two-lines.litmus\n\n\
                  A whole program, ex.c:\n\n\
                  \x20 #include <fcntl.h>\n\
                  \x20 #include <stdlib.h>\n\
                  \x20 #include <strandline.h>\n\
                  \x20 #include <string.h>\n\
                  \x20 #include <unistd.h>\n\
                  \x20 int main(int argc, char **argv) {       /* ex FILE | ex --recover FILE */\n\
                  \x20     char s[6] = \"\", *done = getenv(\"STRANDLINE_DONE\");\n\
                  \x20     int f = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);\n\
                  \x20     if (argc > 2) return *done > '0' && (read(f, s, 5), strcmp(s, \"saved\"));\n\
                  \x20     sl_region_begin(1); write(f, \"saved\", 5); fsync(f); sl_region_end(1); }\n\n\
                  \x20 strandline cc -o ex ex.c\n\
                  \x20 strandline check --files f --recover './ex --recover POOL' -- ./ex f\n\n\
                  The program runs once, built with `strandline cc --as-shipped`; with --files any program will do, as it is: \
                  then its printing calls are its regions, and STRANDLINE_STDOUT names a file with what it had printed. Then the recovery command runs on the images that a crash of \
                  that run could have left, all of them up to --images per crash point: it exits with 0 if it can bring the image into order. In it, POOL stands for \
                  the image's file (for its folder, if the program maps several files; with --files, for what is at PATH); the environment has STRANDLINE_BEGUN and STRANDLINE_DONE, \
                  the numbers of regions (`sl_region_begin`, `sl_region_end`) that had begun and ended: what ended must be there.\n\n\
                  Lints look at the order of stores, flushes and fences alone. Without a recovery command they are all that is looked at, \
                  and what they find counts; with one, recovery decides, and lints are reported beside it."
)]
pub struct CheckArgs {
    /// The command that recovers an image and checks it; without one, only the order of stores, flushes and
    /// fences is looked at
    #[arg(long, value_name = "COMMAND")]
    pub recover: Option<String>,
    /// Check what becomes of this ordinary file, or of the files below this folder, and not of persistent
    /// memory (may be given again)
    #[arg(long, value_name = "PATH", conflicts_with = "pmem")]
    pub files: Vec<String>,
    /// With --files: where the program acknowledges what it has done besides standard output: the number of a
    /// descriptor, a path (of a file, a FIFO or a socket), or a port (`:6379`); STRANDLINE_ACKS names a file with what
    /// was written there, for the recovery command
    #[arg(long, value_name = "FD|PATH|SOCKET", requires = "files")]
    pub acks: Option<String>,
    /// With --files: let this sync of the files, counted from 1, fail with EIO
    #[arg(long, value_name = "N", requires = "files", value_parser = clap::value_parser!(u64).range(1..))]
    pub fail_sync: Option<u64>,
    /// Recovery rejects an image, too, if it prints a line with this regular expression, whatever its status is
    #[arg(long, value_name = "PATTERN", requires = "recover")]
    pub fail_on: Option<String>,
    /// What the memory promises: adr, eadr, epoch or strand (adr if not given); with --files, what the file
    /// system promises: ext4 (with data=ordered, if not given), ext4-writeback, xfs, btrfs, zfs or posix (as
    /// little as possible)
    #[arg(long, value_name = "NAME")]
    pub platform: Option<Platform>,
    /// What the disk below the file system writes whole: 512 or 4096 bytes; a call that writes more may be
    /// torn between such sectors. Nothing to btrfs and zfs, which write no block in place
    #[arg(long, value_name = "BYTES", requires = "files")]
    pub sector: Option<Sector>,
    /// How images are chosen
    #[arg(long, value_enum, default_value_t)]
    pub strategy: StrategyName,
    /// Images per crash point at most
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub images: u64,
    /// Stop after so many findings; each job counts its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub findings: u32,
    /// Recovery commands at the same time (as many as there are cores if not given). Each has a part of the
    /// crash points and skips what is like its own findings, so the number of images, and of findings beside
    /// the first of one cause, depends on it: give it where reports of different machines are compared
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// How long a recovery may take at most; one that takes much longer than on images that are right hangs
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Run recovery in the running system. If this is not given, it runs as after a reboot, where the system
    /// allows that: with another boot id, without what only memory held
    #[arg(long, requires = "recover")]
    pub no_reboot: bool,
    /// Print what a crash may leave of a litmus test's few instructions, and hold it against what the test
    /// expects
    #[arg(long, value_name = "FILE.litmus", conflicts_with_all = ["program", "recover", "trace", "replay"], num_args = 1..)]
    pub litmus: Vec<PathBuf>,
    /// Stop trying images so long after the program's end. Those that were tried are then spread over the
    /// run, and the share of the crash points is said; to have found nothing in a part of them is no verdict
    /// (exit status 2)
    #[arg(long, alias = "time-limit", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// Seed of the random choice of images
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Repeat one image, of the run recorded in the folder of `--out` or of `--trace`
    #[arg(long, value_name = "TOKEN", conflicts_with = "program")]
    pub replay: Option<Token>,
    /// Check a trace that was recorded with `--values`
    #[arg(long, value_name = "FILE.slt", conflicts_with = "program")]
    pub trace: Option<PathBuf>,
    /// Folder that shows the first finding (or that of --replay) without this tool, to be attached to a
    /// report: the image, the command, the story and run.sh (`reproducer` in --out if not given)
    #[arg(long, value_name = "DIR", requires = "recover")]
    pub reproducer: Option<PathBuf>,
    /// With --files: folder in which images are laid out (memory if not given and all jobs' images fit in
    /// there, else TMPDIR or /var/tmp). Where its file system clones files, as xfs and btrfs do, images share
    /// what they have in common
    #[arg(long, value_name = "DIR", requires = "files")]
    pub scratch: Option<PathBuf>,
    /// Folder for the run (check.slt), the failing images, check.json and check.html
    #[arg(long, value_name = "DIR", default_value = "strandline-check")]
    pub out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Write check.html, a page with a picture of each finding
    #[arg(long, conflicts_with = "replay")]
    pub html: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// The program, built with `strandline cc` (with --files any, as it is), and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROG ARGS")]
    pub program: Vec<OsString>,
}

/// `--strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StrategyName {
    /// All images where the bound allows, else a choice
    #[default]
    Auto,
    /// All images, as far as the bound goes
    Exhaustive,
    /// Images that differ little from a complete one, then random ones
    Random,
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::Auto => Strategy::Auto,
            StrategyName::Exhaustive => Strategy::Exhaustive,
            StrategyName::Random => Strategy::Random,
        }
    }
}
