//! The command line's words: one table of commands and flags, from which `--help` comes.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use session::{BuiltIn, Input, Program};

use crate::advise::AdviseCommand;
use crate::machines::Machines;

/// Memory that is not plain DRAM: see what a program does to it, and what to change.
#[derive(Debug, Parser)]
#[command(
    name = "strandline",
    version,
    after_help = "First steps:\n  strandline profile                        a report on a built-in workload\n  \
                  CC=\"strandline cc\" make                   build a program so that it can be observed\n  \
                  strandline profile -- ./app arguments     a report on it"
)]
pub struct Cli {
    /// Show the progress of long work as a line every few seconds on standard error, for logs and pipes
    #[arg(long, global = true)]
    pub progress: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The one rule of exit statuses, in the help of every verb.
const STATUSES: &str = "Exit status: 0: done, and nothing found; 1: something was found; 2: no verdict (a \
                        program that can't be run or observed, an interrupt), misuse or failure.";
/// Of those that stand in for a compiler.
const OF_COMPILERS: &str = "Exit status: the compiler's; 2 if it can't be run, or if what it is asked for \
                            can't be observed.";

impl Cli {
    /// The table of verbs and flags, with the rule of exit statuses in each help.
    pub fn documented() -> clap::Command {
        with_statuses(Cli::command())
    }

    /// The command line of this process. Ends the process if it is none, or asks for help.
    pub fn of_process() -> Cli {
        let command = Cli::documented();
        // The compiler's own help is asked for with other arguments beside.
        let mut words: Vec<OsString> = std::env::args_os().collect();
        if let [_, verb, option] = &*words
            && (verb == "cc" || verb == "c++")
            && option == "--help"
        {
            words.swap(1, 2);
            words[1] = "help".into();
        }
        let matches = command.get_matches_from(words);
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The command, with the rule in its help and in those below it.
fn with_statuses(command: clap::Command) -> clap::Command {
    let rule = if matches!(command.get_name(), "cc" | "c++") { OF_COMPILERS } else { STATUSES };
    let help = command.get_after_help().map(|help| format!("{help}\n\n{rule}"));
    command.after_help(help.unwrap_or_else(|| rule.to_owned())).mut_subcommands(with_statuses)
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What does my program do to memory, and what should I change?
    Profile(ProfileArgs),
    /// Record a program's memory events into a trace file
    Record(RecordArgs),
    /// Does it survive a crash at any moment? Recovers the images that a crash of a run could have left
    Check(Box<crate::check_args::CheckArgs>),
    /// How would it run on memory or hardware that I do not have?
    Simulate(Box<SimulateArgs>),
    /// Persistency designs, workloads and parameters of a machine, every combination
    Sweep(crate::sweep::SweepArgs),
    /// What may a crash leave of a few instructions? By axioms and by a machine
    Litmus(crate::litmus::LitmusArgs),
    /// Are the models right? Every published result beside ours
    ///
    /// A result that is missed counts as found.
    Reproduce(ReproduceArgs),
    /// When does memory wear out, what wears it, and what would levelling give?
    Wear(Box<crate::wear_args::WearArgs>),
    /// Which tiers of memory, how much of each and how much cache should I rent?
    Plan(Box<crate::plan_args::PlanArgs>),
    /// What do page faults cost, and what would remove them?
    Faults(crate::faults::FaultsArgs),
    /// Look into trace files, or make one from another tool's
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Look into pools of the library, check them, recover them
    #[command(subcommand)]
    Pool(crate::pools::PoolCommand),
    /// Look into virtualised NVM, check it, recover it
    #[command(subcommand)]
    Vnvm(crate::vnvm::VnvmCommand),
    /// What do CPU and GPU share here? Devices, their memory, and whether both can synchronise
    #[command(subcommand)]
    Unified(crate::unified::UnifiedCommand),
    /// Save a running process, with its children, in a folder
    Checkpoint(crate::migrate::CheckpointArgs),
    /// Let a saved process go on, once or several times
    Restore(crate::migrate::RestoreArgs),
    /// Move a running process, with its children, over fabric-attached memory
    Migrate(crate::migrate::MigrateArgs),
    /// What is this memory really like? Latency, bandwidth, buffers: of this machine or of a modelled one
    Measure(Box<crate::measure_args::MeasureArgs>),
    /// A durable store behind Redis's protocol
    Serve(Box<crate::serve::ServeArgs>),
    /// Which map or key-value store is how fast: ours and others' under the same load, at equal durability
    #[command(subcommand)]
    Bench(Box<crate::bench::BenchCommand>),
    /// Text for many regular expressions, and the hardware that would scan it
    Scan(Box<crate::scan::ScanArgs>),
    /// What changed between two reports of `profile`?
    Diff(crate::reports::DiffArgs),
    /// A report of `profile` for other tools: folded stacks, counters for Perfetto
    Export(crate::reports::ExportArgs),
    /// What would help: advisors that look at a program or a trace
    #[command(subcommand)]
    Advise(AdviseCommand),
    /// What does this machine have, and which verbs are limited by what it lacks?
    Doctor(crate::doctor::DoctorArgs),
    /// Write manual pages of all verbs into a folder
    Manual(crate::generated::ManualArgs),
    /// Print completions for a shell
    Completions(crate::generated::CompletionsArgs),
    /// Compile C so that the program can be observed: stands in for gcc and clang
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  CC=\"strandline cc\" make\n  strandline cc -O2 -o app app.c\n  \
                      strandline cc --compiler=clang -O2 -c app.c\n  strandline cc --as-shipped -O2 -o app app.c\n  strandline cc --persist=decoupled -O2 -o app app.c -pthread\n\n\
                      The compiler is the one named by --compiler= (first argument), else by STRANDLINE_CC or CC, else gcc. \
                      --as-shipped (first, too; or STRANDLINE_AS_SHIPPED=1) leaves the compiler's code as it is without \
                      us, so that `check` judges the order of stores that ships. --persist=DESIGN (first, too; coupled, decoupled, \
                      atlas, strand, msync or none) builds a program whose pool, or for msync whose mapped files, survive \
                      a crash: docs/persist.md. All other arguments are the compiler's."
    )]
    Cc(CompilerArgs),
    /// Compile C++ so that the program can be observed: stands in for g++ and clang++
    #[command(
        name = "c++",
        disable_help_flag = true,
        after_help = "Examples:\n  CXX=\"strandline c++\" make\n  strandline c++ --compiler=clang++ -O2 -c app.cc\n\n\
                      The compiler is the one named by --compiler= (first argument), else by STRANDLINE_CXX or CXX, else g++; \
                      --as-shipped and --persist= are as for cc. All other arguments are the compiler's."
    )]
    Cxx(CompilerArgs),
}

/// Arguments that go to the compiler as they are.
#[derive(Debug, Args)]
pub struct CompilerArgs {
    /// The compiler's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub args: Vec<OsString>,
}

/// How to observe a program; shared by `profile` and `record`.
#[derive(Debug, Args)]
pub struct ObserveArgs {
    /// Take mapped files that are, lie below, or match this path as persistent memory, besides those on a DAX
    /// mount and under /dev/shm (`*` and `?` match; may be given again)
    #[arg(long, value_name = "PATH")]
    pub pmem: Vec<String>,
    /// Keep N of every M pieces of a thread's events (a piece is some thousand events long)
    #[arg(long, value_name = "N/M", value_parser = sampling)]
    pub sample: Option<(u64, u64)>,
}

impl ObserveArgs {
    /// The program of the command line; what it prints goes to standard error if our standard output is for
    /// JSON.
    pub fn program(&self, command: &[OsString], json: bool) -> Program {
        let mut program = Program::new(command);
        program.pmem.clone_from(&self.pmem);
        program.sampling = self.sample;
        program.stdout_to_stderr = json;
        program.lingering = Some(|processes| {
            crate::warn(&format!(
                "the program has ended; processes that it left behind ({processes}) are recorded until they end, or until Ctrl-C"
            ));
        });
        program
    }
}

/// Where events come from: a program, a trace or a built-in workload; shared by `profile` and `simulate`.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// A built-in workload (`list` shows them); the default if no program is given is btree-fill
    #[arg(long, value_name = "NAME", conflicts_with_all = ["program", "trace"])]
    pub workload: Option<String>,
    /// Operations of the built-in workload
    #[arg(long, value_name = "N", conflicts_with_all = ["program", "trace"], value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// A recorded trace
    #[arg(long, value_name = "FILE.slt", conflicts_with = "program")]
    pub trace: Option<PathBuf>,
    /// The program, built with `strandline cc`, and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROG ARGS")]
    pub program: Vec<OsString>,
}

impl InputArgs {
    /// Whether the built-in workloads are to be listed.
    pub fn lists_workloads(&self) -> bool {
        self.workload.as_deref() == Some("list")
    }

    /// The input of the command line.
    pub fn input(
        &self,
        observe: &ObserveArgs,
        seed: Option<u64>,
        threads: u32,
        json: bool,
    ) -> anyhow::Result<Input> {
        if self.program.is_empty() && (!observe.pmem.is_empty() || observe.sample.is_some()) {
            bail!("--pmem and --sample say how to observe a program; give one, as in `-- PROG ARGS`");
        }
        Ok(match (&self.trace, self.program.is_empty()) {
            (Some(trace), _) => Input::Trace(trace.clone()),
            (None, false) => Input::Program(observe.program(&self.program, json)),
            (None, true) => {
                let built_in = BuiltIn { operations: self.ops, threads, seed, ..BuiltIn::default() };
                let name = self.workload.clone().unwrap_or_else(|| built_in.name.clone());
                Input::BuiltIn(BuiltIn { name, ..built_in })
            }
        })
    }
}

/// Arguments of `strandline profile`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline profile\n  strandline profile --workload hash-scatter --machine dram\n  \
                        strandline profile --pmem /tmp/db -- ./app --load /tmp/db\n  \
                        strandline profile --files /tmp/db -- any-program /tmp/db\n  \
                        strandline profile --check --recover './app --recover POOL' -- ./app --fill /dev/shm/pool\n  \
                        strandline profile --trace t.slt --machine my-machine.toml"
)]
pub struct ProfileArgs {
    /// Where events come from
    #[command(flatten)]
    pub input: InputArgs,
    /// Seed of the built-in workload (1 if not given) and of the machine's random choices (its file's if not
    /// given)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The modelled machine: a preset (`list` shows them), `host` (this one) or a TOML file. If none is given: `xpoint` for
    /// what maps persistent memory and for built-in workloads, else `host`
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub machine: Option<String>,
    /// Don't measure this machine before `host` judges for the first time; STRANDLINE_CALIBRATE=never does the same
    #[arg(long)]
    pub no_calibrate: bool,
    /// Report what any program, as it is, does to this ordinary file, or to the files below this folder, in place of
    /// memory: writes by size and alignment, syncs and what each waited for, per file and per call stack (may be given
    /// again)
    #[arg(long, value_name = "PATH", requires = "program", conflicts_with_all = ["machine", "check", "recover", "pmem", "sample", "seed"])]
    pub files: Vec<String>,
    /// Look at the order of stores to persistent memory, flushes and fences, too: what a crash could lose
    #[arg(long)]
    pub check: bool,
    /// With --check: the command that recovers an image of what a crash could leave and checks it, as in
    /// `strandline check`; the run then goes into the folder of --out, too
    #[arg(long, value_name = "COMMAND", requires_all = ["check", "program"])]
    pub recover: Option<String>,
    /// Folder for report.html and report.json
    #[arg(long, value_name = "DIR", default_value = "strandline-report")]
    pub out: PathBuf,
    /// Print report.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Arguments of `strandline record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline record -o t.slt -- ./app arguments\n  \
                        strandline record -o t.slt --sample 1/100 -- ./app\n  \
                        strandline record -o t.slt --values --files /tmp/db -- ./app /tmp/db\n  \
                        strandline record --count -- ./app\n\n\
                        The exit status says whether the program was recorded, not how it ended, which is reported, also by --json.")]
pub struct RecordArgs {
    /// The trace file to write; a FIFO passes it on
    #[arg(short, long, value_name = "FILE.slt", required_unless_present = "count")]
    pub output: Option<PathBuf>,
    /// Keep the bytes of each store
    #[arg(long, conflicts_with = "count")]
    pub values: bool,
    /// Tell what is done to this ordinary file, or to the files below this folder: writes, syncs, renames and
    /// their like, and stores to shared mappings (`*` and `?` match; may be given again)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["count", "sample"])]
    pub files: Vec<String>,
    /// Compress all of the trace, for about a tenth of the recording's time: 0.6 to 0.9 of the size as a
    /// rule, a small fraction where loops are regular, hardly less with --values
    #[arg(long, conflicts_with = "count")]
    pub small: bool,
    /// Only count loads and stores; write no trace
    #[arg(long, conflicts_with = "output")]
    pub count: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// The program, built with `strandline cc`, and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROG ARGS")]
    pub program: Vec<OsString>,
}

/// Arguments of `strandline simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline simulate\n  strandline simulate --machine xpoint --machine eadr -- ./app arguments\n  \
                        strandline simulate --trace t.slt --machine xpoint --machine xpoint --set device.buffer.lines=128\n  \
                        strandline simulate --workload hash-scatter --set llc.size=22MiB --machine dram --machine my.toml\n  \
                        strandline simulate --workload rb-tree --machine table-5.1 --persistency x86 --persistency strandweaver --persistency ssp"
)]
pub struct SimulateArgs {
    /// Where events come from
    #[command(flatten)]
    pub input: InputArgs,
    /// Threads of the built-in workload; with more than one, the order of their events is this computer's
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["program", "trace"], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Seed of the built-in workload (1 if not given) and of the machines' random choices (their files' if
    /// not given)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The machines to compare
    #[command(flatten)]
    pub machines: Machines,
    /// A persistency design, to be compared with others on each machine: x86, non-atomic, eadr, epoch, speculative, battery,
    /// strandweaver, strand-no-queue, undo, redo, ssp, switch
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub persistency: Vec<String>,
    /// Make of failure-atomic regions what a language would: tx, atlas or sfr. Software logs for designs that need them, marks alone
    /// for the others. Transactions of built-in workloads are mapped as tx if nothing is said
    #[arg(long, value_name = "LANGUAGE", value_parser = language, requires = "persistency")]
    pub map_regions: Option<hardware::Language>,
    /// Folder for simulate.html and simulate.json
    #[arg(long, value_name = "DIR", default_value = "strandline-report")]
    pub out: PathBuf,
    /// Print simulate.json instead of the tables
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// A language of regions by its name.
pub fn language(name: &str) -> Result<hardware::Language, String> {
    let all = hardware::Language::ALL;
    all.into_iter().find(|language| language.name() == name).ok_or_else(|| "use tx, atlas or sfr".to_owned())
}

/// Arguments of `strandline reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline reproduce --list\n  strandline reproduce xpoint-9 B-R2\n  \
                        strandline reproduce prestores --html > prestores.html\n  strandline reproduce --out results")]
pub struct ReproduceArgs {
    /// Results by id, or all of a source (xpoint, kv, cxl, …; `--list` shows them); everything if none
    /// is named
    #[arg(value_name = "ID|SOURCE")]
    pub names: Vec<String>,
    /// Only list them
    #[arg(long, conflicts_with_all = ["json", "html", "out"])]
    pub list: bool,
    /// Print the results with all their numbers as JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Print the results with their curves as an HTML page
    #[arg(long)]
    pub html: bool,
    /// Folder for reproduce.html, reproduce.json and reproduce.md
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of the machines' random choices (their files' if not given)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// The verbs of `strandline trace`.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// What a trace holds and what its source could see
    #[command(after_help = "Example:\n  strandline trace info t.slt")]
    Info {
        /// The trace file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The events, a line each
    #[command(after_help = "Example:\n  strandline trace dump --thread 1 --from 1000 --limit 50 t.slt")]
    Dump {
        /// The trace file
        file: PathBuf,
        /// Only this thread's events
        #[arg(long, value_name = "N")]
        thread: Option<u32>,
        /// Start with this event (of the thread, if one is given)
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
        /// Stop after so many events
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Print JSON, an object per line; with the bytes of the stores if the trace keeps them
        #[arg(long)]
        json: bool,
    },
    /// Make a trace from another tool's: Valgrind's lackey, perf, DynamoRIO, PIN, ChampSim, Ramulator and others
    #[command(after_help = "Examples:\n  valgrind --tool=lackey --trace-mem=yes --log-file=l.txt ./app\n  \
                            strandline trace import -o t.slt l.txt\n  \
                            perf mem record ./app && perf script | strandline trace import -o t.slt -")]
    Import {
        /// The other tool's file, plain or packed by gzip or zstd; `-` reads standard input
        file: PathBuf,
        /// Its format, if its first lines don't say
        #[arg(long, value_name = "NAME", value_parser = format)]
        format: Option<foreign::Format>,
        /// The trace file to write
        #[arg(short, long, value_name = "FILE.slt")]
        output: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Parses a format's name.
fn format(text: &str) -> Result<foreign::Format, String> {
    foreign::Format::ALL
        .into_iter()
        .find(|format| format.name() == text)
        .ok_or_else(|| format!("one of {}", foreign::Format::ALL.map(foreign::Format::name).join(", ")))
}

/// Parses `N/M`.
fn sampling(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
    match parsed {
        Some((n, m)) if 0 < n && n <= m => Ok((n, m)),
        _ => Err("two whole numbers N/M with 0 < N <= M, as in 1/100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn compiler_arguments_pass_untouched() {
        let cli = Cli::try_parse_from(["strandline", "cc", "-O2", "--help", "-o", "x", "--", "y.c"]).unwrap();
        let Command::Cc(compiler) = cli.command else { panic!("not cc") };
        assert!(compiler.args.iter().any(|a| a == "--help"), "{compiler:?}");
    }

    #[test]
    fn sampling_is_a_proper_fraction() {
        assert_eq!(sampling("1/100"), Ok((1, 100)));
        for bad in ["0/1", "2/1", "1", "a/b", ""] {
            assert!(sampling(bad).is_err(), "{bad}");
        }
    }
}
