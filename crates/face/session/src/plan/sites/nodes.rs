//! NUMA nodes with memory.

use std::fs;

/// The fast node, whose processors are near, and the slow one.
///
/// # Errors
/// Why there are no two.
pub(crate) fn two() -> Result<(u32, u32), String> {
    let list =
        |name: &str| fs::read_to_string(format!("/sys/devices/system/node/{name}")).unwrap_or_default();
    chosen(&list("has_memory"), &list("has_cpu"))
}

fn chosen(memory: &str, processors: &str) -> Result<(u32, u32), String> {
    let (memory, processors) = (numbers(memory), numbers(processors));
    let fast = memory.iter().find(|node| processors.contains(node)).or(memory.first());
    let slow = memory.iter().find(|node| !processors.contains(node));
    let slow = slow.or_else(|| memory.iter().find(|node| Some(*node) != fast));
    match (fast, slow) {
        (Some(&fast), Some(&slow)) if fast != slow => Ok((fast, slow)),
        _ => Err(format!(
            "this machine has one memory node ({}); where there are two, --apply puts the allocations there",
            memory.first().copied().unwrap_or(0)
        )),
    }
}

/// The numbers in a list like `0-2,5`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_without_processors_is_the_slow_one() {
        assert_eq!(chosen("0-2\n", "0,2\n"), Ok((0, 1)));
        assert_eq!(chosen("0,1\n", "0-1\n"), Ok((0, 1)));
        assert!(chosen("0\n", "0\n").unwrap_err().contains("one memory node"));
    }
}
