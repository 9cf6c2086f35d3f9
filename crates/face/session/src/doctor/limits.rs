//! What a verb loses where a fact is missing, and the remedy: a table.

use super::fact::{Fact, State};

/// A verb, or a part of one, that this machine does not give whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The fact that is missing or lesser.
    pub because: &'static str,
    /// The verb.
    pub verb: &'static str,
    /// What it loses.
    pub loses: &'static str,
    /// What would help.
    pub remedy: &'static str,
}

/// A limit where a fact is worse than this.
struct Row(State, Limit);

const fn unless(
    least: State,
    because: &'static str,
    verb: &'static str,
    loses: &'static str,
    remedy: &'static str,
) -> Row {
    Row(least, Limit { because, verb, loses, remedy })
}

use State::{Partly, Yes};

const NVDIMM: &str = "mount a file system on persistent memory with -o dax; without any, reserve DRAM as one by the kernel \
                      argument memmap=4G!12G";
const SYSCTL: &str = "as root: sysctl kernel.perf_event_paranoid=2";
const BARE: &str =
    "run on the machine itself, or a virtual machine whose host passes its performance counters on";
const KERNEL: &str = "Linux 6.7 or later; as root, or sysctl vm.unprivileged_userfaultfd=1";
const NODES: &str = "a machine with a second node: another socket, or CXL memory onlined as system RAM (daxctl reconfigure-device \
                     --mode=system-ram)";
const SHM: &str =
    "free some, or make it larger: mount -o remount,size=2G /dev/shm; for a container --shm-size=2g";
const GCC: &str = "install gcc and g++, or clang (Debian: apt-get install gcc g++)";
const ROOT: &str = "run as root, or grant CAP_CHECKPOINT_RESTORE (--clones needs root)";

const TABLE: &[Row] = &[
    unless(
        Yes,
        "flush",
        "bench",
        "a flush invalidates the line: the next access misses",
        "a processor with CLWB (Intel Skylake-SP, AMD Zen 2) or DC CVAC",
    ),
    unless(Yes, "dax", "measure", "real persistent memory; DRAM and modelled memory are measured", NVDIMM),
    unless(Yes, "dax", "serve", "durability by flushes: files are made durable by syncs", NVDIMM),
    unless(Yes, "dax", "bench", "durability by flushes: files are made durable by syncs", NVDIMM),
    unless(
        Yes,
        "dax",
        "vnvm",
        "NVM: its directory must be on DAX, or nothing survives a power failure",
        NVDIMM,
    ),
    unless(Yes, "numa", "plan", "--apply: allocations are not put on a second node", NODES),
    unless(Yes, "numa", "wear", "run --nodes: memory and DRAM are files", NODES),
    unless(Yes, "numa", "measure", "--node of a remote or slower memory", NODES),
    unless(
        Yes,
        "huge_pages",
        "measure",
        "pages of 2 MiB are not certain: latencies may include TLB misses",
        "as root: sysctl vm.nr_hugepages=512",
    ),
    unless(Yes, "shared_memory", "record", "large buffers: recording many threads may fail", SHM),
    unless(Yes, "shared_memory", "profile", "large buffers: observing many threads may fail", SHM),
    unless(
        Yes,
        "time_sampling",
        "profile",
        "cycles of programs that were not built with strandline cc; the clock samples them, if anything does",
        BARE,
    ),
    unless(Partly, "time_sampling", "profile", "programs that were not built with strandline cc", SYSCTL),
    unless(Yes, "load_sampling", "plan", "--source sampled", BARE),
    unless(Yes, "store_sampling", "wear", "--sampled", BARE),
    unless(Yes, "pagemap_scan", "wear", "run: pages that were written can't be found", KERNEL),
    unless(Yes, "pagemap_scan", "plan", "--source written: stores by write protection", KERNEL),
    unless(
        Yes,
        "ptrace",
        "checkpoint",
        "processes that are not its children",
        "as root, or sysctl kernel.yama.ptrace_scope=0",
    ),
    unless(
        Yes,
        "damon",
        "plan",
        "--source damon",
        "as root on a kernel with CONFIG_DAMON_SYSFS, while nobody else uses it",
    ),
    unless(
        Yes,
        "namespaces",
        "check",
        "recovery as after a reboot: /dev/shm, locks and processes of before are still there",
        "allow user namespaces (sysctl user.max_user_namespaces=10000; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
    ),
    unless(Yes, "process_numbers", "restore", "process numbers of before, and --clones", ROOT),
    unless(Yes, "compilers", "cc", "compilers that are absent", GCC),
    unless(Yes, "compilers", "c++", "compilers that are absent", GCC),
    unless(
        Yes,
        "valgrind",
        "trace",
        "programs that can't be rebuilt, by Valgrind's lackey and trace import",
        "install valgrind",
    ),
    unless(Yes, "verilog", "scan", "simulation of what scan verilog writes", "install iverilog or verilator"),
];

/// The limits that follow from facts, in the table's order.
pub(super) fn of(facts: &[Fact]) -> Vec<Limit> {
    let rank = |state| match state {
        State::Yes => 2,
        State::Partly => 1,
        State::No => 0,
    };
    let worse =
        |least: State, id: &str| facts.iter().any(|fact| fact.id == id && rank(fact.state) < rank(least));
    TABLE
        .iter()
        .filter(|Row(least, limit)| worse(*least, limit.because))
        .map(|Row(_, limit)| *limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_is_there_limits_nothing_and_a_missing_one_all_that_names_it() {
        let fact = |state| [Fact::new("dax", "", state, "")];
        assert!(of(&fact(State::Yes)).is_empty());
        let verbs: Vec<&str> = of(&fact(State::No)).iter().map(|limit| limit.verb).collect();
        assert_eq!(verbs, ["measure", "serve", "bench", "vnvm"]);
        let time = |state| of(&[Fact::new("time_sampling", "", state, "")]).len();
        assert_eq!((time(State::Partly), time(State::No)), (1, 2));
    }

    /// A row that names no fact would never be reported.
    #[test]
    fn every_row_names_a_fact_and_has_a_remedy() {
        let facts = crate::Doctor::look().facts;
        for Row(_, limit) in TABLE {
            assert!(facts.iter().any(|fact| fact.id == limit.because), "{limit:?}");
            assert!(!limit.remedy.is_empty() && !limit.loses.is_empty(), "{limit:?}");
        }
    }
}
