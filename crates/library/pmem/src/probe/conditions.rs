//! The surroundings of a measurement: what is known of the machine, and what a program without privileges can't control.

use std::fs;
use std::os::unix::fs::FileExt;

use super::cpu;

/// What is known, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The processor's name for itself.
    pub processor: String,
    /// What could not be controlled and may disturb what is measured, a sentence each.
    pub uncontrolled: Vec<String>,
}

/// Register and bits that switch the prefetchers of Intel's processors off, one each.
const PREFETCH_REGISTER: u64 = 0x1a4;
const PREFETCHERS_OFF: u64 = 0xf;

/// Looks around; `cpus` are those on which threads will run.
#[must_use]
pub fn conditions(cpus: &[usize]) -> Conditions {
    let uncontrolled = [
        prefetchers(cpus),
        Some("Interrupts were on; they show as the largest latencies.".to_owned()),
        frequency(cpus),
        cpu::is_virtual()
            .then(|| "This is a virtual machine: its host may take the core away at any time.".to_owned()),
        (!cpu::ticks_are_steady()).then(|| {
            "The time-stamp counter may change its speed; times are as good as its mean.".to_owned()
        }),
        neighbours(cpus),
        Some("Caches were emptied line by line, not as a whole, which takes privileges.".to_owned()),
    ];
    Conditions { processor: cpu::model(), uncontrolled: uncontrolled.into_iter().flatten().collect() }
}

fn prefetchers(cpus: &[usize]) -> Option<String> {
    let state = |cpu: &usize| {
        let file = fs::File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
        let mut register = [0; 8];
        file.read_exact_at(&mut register, PREFETCH_REGISTER).ok()?;
        Some(u64::from_le_bytes(register) & PREFETCHERS_OFF)
    };
    match cpus.iter().map(state).collect::<Option<Vec<u64>>>() {
        Some(states) if states.iter().all(|state| *state == PREFETCHERS_OFF) => None,
        Some(_) => Some(
            "Prefetchers were on (as root: wrmsr -a 0x1a4 0xf switches them off): sequential reads are faster than \
             the memory."
                .to_owned(),
        ),
        None => Some(
            "Prefetchers could not be looked at (model-specific registers are out of reach): sequential reads may be \
             faster than the memory."
                .to_owned(),
        ),
    }
}

fn frequency(cpus: &[usize]) -> Option<String> {
    let governor = |cpu: &usize| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")).ok()
    };
    match cpus.iter().map(governor).collect::<Option<Vec<String>>>() {
        Some(governors) if governors.iter().all(|governor| governor.trim() == "performance") => None,
        Some(_) => Some(
            "The processor's frequency was free to change: its governor is not `performance`.".to_owned(),
        ),
        None => Some("The processor's frequency is not visible and was free to change.".to_owned()),
    }
}

/// Whether two of the CPUs are one core.
fn neighbours(cpus: &[usize]) -> Option<String> {
    let siblings = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).map(|text| numbers(&text)).unwrap_or_default()
    };
    let shared =
        cpus.iter().any(|cpu| siblings(cpu).iter().any(|sibling| sibling != cpu && cpus.contains(sibling)));
    shared.then(|| "Some threads shared a core: there are fewer cores than CPUs.".to_owned())
}

/// The CPUs of a NUMA node; `None` if there is no such node.
#[must_use]
pub fn cpus_of_node(node: u32) -> Option<Vec<usize>> {
    fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok().map(|text| numbers(&text))
}

/// Bytes that this process could still get: of the machine, of the control groups that it is in, and of its
/// own address space; `None` if the kernel reports none of them.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| Some(kib(&text, "MemAvailable:")? * 1024));
    let groups = read("/proc/self/cgroup").and_then(|groups| group_bytes(&groups, &read));
    let space = read("/proc/self/limits")
        .and_then(|limits| address_space(&limits))
        .and_then(|limit| Some(limit.saturating_sub(kib(&read("/proc/self/status")?, "VmSize:")? * 1024)));
    [machine, groups, space].into_iter().flatten().min()
}

/// The number after a name in a file of the kernel's, in units of 1024.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The limit of `ulimit -v`, if there is one.
fn address_space(limits: &str) -> Option<u64> {
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// What the control groups leave, the narrowest of them; a container sees its own as the root.
fn group_bytes(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |path: String| read(&path)?.trim().parse::<u64>().ok();
    let left = |folder: &str, [most, used, pages]: [&str; 3]| {
        let most = number(format!("{folder}/{most}"))?;
        // Pages of files are given back before anybody is killed.
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let files =
            stat.lines().find_map(|line| line.strip_prefix(pages)?.trim().parse::<u64>().ok()).unwrap_or(0);
        Some(most.saturating_sub(number(format!("{folder}/{used}"))?.saturating_sub(files)))
    };
    let mut all = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(kind), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, names) = match kind {
            "" => ("/sys/fs/cgroup", ["memory.max", "memory.current", "inactive_file "]),
            "memory" => (
                "/sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
            ),
            _ => continue,
        };
        let folders = std::iter::successors(Some(path.trim_end_matches('/')), |path| {
            path.rsplit_once('/').map(|(above, _)| above)
        });
        all.extend(folders.filter_map(|folder| left(&format!("{mount}{folder}"), names)));
    }
    all.into_iter().min()
}

/// Bytes of the largest cache of CPU 0, as the kernel reports it.
#[must_use]
pub fn last_level_cache_bytes() -> Option<u64> {
    let size = |index: u32| {
        let text =
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim().trim_end_matches('K').parse::<u64>().ok().map(|kib| kib * 1024)
    };
    (0..8).filter_map(size).max()
}

/// A list as the kernel writes it: `0-3,8,10-11`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(numbers("\n"), [0; 0]);
    }

    #[test]
    fn free_memory_is_what_the_narrowest_limit_leaves() {
        let read = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.current" => "500\n",
                "/sys/fs/cgroup/memory.max" => "3000\n",
                "/sys/fs/cgroup/memory.current" => "1000\n",
                "/sys/fs/cgroup/memory.stat" => "anon 5\ninactive_file 400\n",
                "/sys/fs/cgroup/memory/b/c/memory.limit_in_bytes" => "900\n",
                "/sys/fs/cgroup/memory/b/c/memory.usage_in_bytes" => "950\n",
                "/sys/fs/cgroup/memory/b/memory.limit_in_bytes" => "9223372036854771712\n",
                "/sys/fs/cgroup/memory/b/memory.usage_in_bytes" => "950\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(group_bytes("0::/a\n", &read), Some(2400));
        assert_eq!(group_bytes("9:name=systemd:/\n4:memory:/b/c\n0::/\n", &read), Some(0));
        assert_eq!(group_bytes("1:cpu:/a\n0::/nowhere/at/all\n", &|_| None), None);
        let limits = "Max cpu time             unlimited   unlimited   seconds\n\
                      Max address space        4096000     unlimited   bytes\n";
        assert_eq!(address_space(limits), Some(4_096_000));
        assert_eq!(address_space(&limits.replace("4096000", "unlimited")), None);
        assert!(free_bytes().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn something_is_always_out_of_control() {
        let seen = conditions(&[0]);
        assert!(!seen.processor.is_empty());
        assert!(seen.uncontrolled.iter().any(|fact| fact.contains("Interrupts")), "{seen:?}");
    }

    #[test]
    fn there_is_no_node_900() {
        assert_eq!(cpus_of_node(900), None);
    }
}
