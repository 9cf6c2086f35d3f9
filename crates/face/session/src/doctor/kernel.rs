//! What the kernel allows: sampling, page faults as messages, tracing, monitoring, namespaces.

use std::path::Path;

use reboot::{Rebooted, Reboots, Recipe};

use super::fact::{Fact, Root, State};
use crate::plan::sites::damon;

/// Bits of capabilities in `/proc/self/status`.
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn facts(root: &Root) -> Vec<Fact> {
    vec![
        time_sampling(root),
        Fact::of(
            "load_sampling",
            "loads sampled (PEBS, IBS)",
            capture::memory_sampling().map(|()| "yes".into()),
        ),
        Fact::of(
            "store_sampling",
            "stores sampled (PEBS, IBS)",
            capture::store_sampling().map(str::to_owned).map_err(|error| error.to_string()),
        ),
        userfaultfd(root),
        pagemap_scan(),
        ptrace(root),
        Fact::of(
            "damon",
            "DAMON (only looked at)",
            damon::free(Path::new(damon::ADMIN), Path::new(damon::THREADS)).map(|()| "free to use".into()),
        ),
        reboots(),
        process_numbers(root),
    ]
}

fn time_sampling(root: &Root) -> Fact {
    let what = "time sampled (perf events)";
    let level = root.read("proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".into());
    match capture::time_sampling() {
        Ok(capture::SampleKind::Cycles) => {
            let detail = format!("by cycles; kernel.perf_event_paranoid is {level}");
            Fact::new("time_sampling", what, State::Yes, detail)
        }
        Ok(capture::SampleKind::CpuClock) => {
            let detail =
                format!("by the clock: no cycle counter is passed on; kernel.perf_event_paranoid is {level}");
            Fact::new("time_sampling", what, State::Partly, detail)
        }
        Err(error) => Fact::new("time_sampling", what, State::No, error.to_string()),
    }
}

fn userfaultfd(root: &Root) -> Fact {
    let all = root.read("proc/sys/vm/unprivileged_userfaultfd").unwrap_or_else(|| "unknown".into());
    let answer = fam::uffd::Uffd::open(0).map_err(|error| error.to_string());
    let detail = |()| match all.trim() {
        "0" => "this process may; others may not (vm.unprivileged_userfaultfd is 0)".to_owned(),
        all => format!("vm.unprivileged_userfaultfd is {all}"),
    };
    Fact::of("userfaultfd", "userfaultfd", answer.map(drop).map(detail))
}

fn pagemap_scan() -> Fact {
    let answer = pmem::levelled::Watcher::new().map_err(|error| error.to_string());
    let kernel = |()| "with asynchronous write protection".to_owned();
    Fact::of("pagemap_scan", "PAGEMAP_SCAN", answer.map(drop).map(kernel))
}

fn ptrace(root: &Root) -> Fact {
    let what = "ptrace of other processes";
    let scope = root.read("proc/sys/kernel/yama/ptrace_scope");
    let able = has(root, CAP_SYS_PTRACE);
    let (state, detail) = match (scope.as_deref(), able) {
        (Some("3"), _) => (State::No, "kernel.yama.ptrace_scope is 3: nobody may".to_owned()),
        (None | Some("0"), _) => (State::Yes, "of one's own processes".to_owned()),
        (Some(level), true) => {
            (State::Yes, format!("with CAP_SYS_PTRACE; kernel.yama.ptrace_scope is {level}"))
        }
        (Some(level), false) => {
            (State::No, format!("kernel.yama.ptrace_scope is {level}, and CAP_SYS_PTRACE is missing"))
        }
    };
    Fact::new("ptrace", what, state, detail)
}

/// Whether this process has a capability.
fn has(root: &Root, bit: u32) -> bool {
    let status = root.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> bit & 1 == 1)
}

/// Namespaces, by a recovery as after a reboot.
fn reboots() -> Fact {
    let what = "namespaces";
    let tried = || -> std::io::Result<Rebooted> {
        let folder = tempfile::tempdir()?;
        let output = tempfile::tempfile()?;
        let pool = folder.path().join("pool");
        let stdout = folder.path().join("stdout");
        let recipe = Recipe { words: vec!["true".to_owned()], pool, stdout, acks: None };
        let all = Reboots::new(true, 1);
        all.system(&recipe, folder.path().to_owned(), &output)?;
        Ok(all.state())
    };
    let answer = match tried() {
        Ok(Rebooted::Refused(why)) => Err(why),
        Ok(_) => Ok("mounts, processes and System V objects of one's own".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Fact::of("namespaces", what, answer)
}

/// Choosing the numbers of processes that are restored.
fn process_numbers(root: &Root) -> Fact {
    let answer = match has(root, CAP_SYS_ADMIN) {
        true => Ok("CAP_SYS_ADMIN".to_owned()),
        false => Err("CAP_SYS_ADMIN is missing".to_owned()),
    };
    Fact::of("process_numbers", "choice of process numbers", answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracing_depends_on_yama_and_on_a_capability() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        assert_eq!(ptrace(&root).state, State::Yes);
        std::fs::create_dir_all(folder.path().join("proc/sys/kernel/yama")).expect("made");
        std::fs::create_dir_all(folder.path().join("proc/self")).expect("made");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("proc/sys/kernel/yama/ptrace_scope", "1\n");
        write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
        assert_eq!(ptrace(&root).state, State::No);
        write("proc/self/status", "Name:\tx\nCapEff:\t0000000000080000\n");
        assert_eq!(ptrace(&root).state, State::Yes);
        write("proc/sys/kernel/yama/ptrace_scope", "3\n");
        assert_eq!(ptrace(&root).state, State::No);
    }
}
