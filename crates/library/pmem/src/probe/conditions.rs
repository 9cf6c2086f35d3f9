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

/// Bytes that the kernel could still hand out; `None` if it does not report that.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
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
