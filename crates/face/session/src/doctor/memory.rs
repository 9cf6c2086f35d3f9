//! Processor and memory: write-back instructions, persistent memory, nodes, pages.

use pmem::isa::Offer;
use pmem::probe;

use super::fact::{Fact, Root, State};
use crate::plan::sites::nodes;

/// Bytes that a recording's buffers take, roughly; less room makes it fail.
const BUFFERS: u64 = 256 << 20;

pub(super) fn facts(root: &Root) -> Vec<Fact> {
    vec![processor(), flush(), dax(root), numa(root), huge_pages(root), shared_memory()]
}

fn processor() -> Fact {
    let cpus = probe::cpus();
    let known = probe::conditions(&cpus);
    let memory = probe::free_bytes().map_or("memory unknown".to_owned(), |bytes| {
        format!("{:.1} GiB of memory free", bytes as f64 / f64::from(1 << 30))
    });
    let is_virtual = known.uncontrolled.iter().any(|line| line.contains("virtual machine"));
    let kind = if is_virtual { ", a virtual machine" } else { "" };
    let text = format!("{}{kind}; {} CPUs, {memory}", known.processor, cpus.len());
    Fact::new("processor", "processor", State::Yes, text)
}

fn flush() -> Fact {
    let offer = Offer::of_this_cpu();
    let state = if offer.clean.is_some() { State::Yes } else { State::Partly };
    Fact::new("flush", "write-back instructions", state, offer.to_string())
}

/// File systems mounted with DAX, DAX devices.
fn dax(root: &Root) -> Fact {
    let mounts = root.read("proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (folder, options) = (fields.get(1)?, fields.get(3)?);
        let on = |option: &str| option == "dax" || option == "dax=always" || option == "dax=inode";
        options.split(',').any(on).then(|| (*folder).to_owned())
    });
    let devices = root.names("dev").into_iter().filter(|name| is_dax_device(name));
    let all: Vec<String> = mounted.chain(devices.map(|name| format!("/dev/{name}"))).collect();
    match all.is_empty() {
        true => Fact::new("dax", "persistent memory (DAX)", State::No, "no mount with DAX, no /dev/dax*"),
        false => Fact::new("dax", "persistent memory (DAX)", State::Yes, all.join(", ")),
    }
}

/// `dax0.0`.
fn is_dax_device(name: &str) -> bool {
    let numbers = name.strip_prefix("dax").and_then(|rest| rest.split_once('.'));
    numbers.is_some_and(|(bus, device)| bus.parse::<u32>().is_ok() && device.parse::<u32>().is_ok())
}

fn numa(root: &Root) -> Fact {
    let what = "two memory nodes";
    let memory = root.read("sys/devices/system/node/has_memory").unwrap_or_default();
    match nodes::two() {
        Ok((fast, slow)) => {
            Fact::new("numa", what, State::Yes, format!("nodes {memory}: {fast} is fast, {slow} slow"))
        }
        Err(why) => Fact::new("numa", what, State::No, why),
    }
}

fn huge_pages(root: &Root) -> Fact {
    let what = "pages of 2 MiB";
    let reserved = root
        .read("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap_or(0);
    let enabled = root.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    // The choice that is on stands in brackets.
    let transparent = enabled.split(['[', ']']).nth(1).unwrap_or("absent").to_owned();
    let state = match (reserved > 0, &*transparent) {
        (true, _) => State::Yes,
        (false, "always" | "madvise") => State::Partly,
        _ => State::No,
    };
    Fact::new(
        "huge_pages",
        what,
        state,
        format!("{reserved} reserved and free, transparent ones: {transparent}"),
    )
}

/// Room for a recording's buffers.
fn shared_memory() -> Fact {
    let what = "room in /dev/shm";
    let room = rustix::fs::statvfs("/dev/shm").map(|all| all.f_bavail * all.f_frsize);
    match room {
        Ok(bytes) => {
            let state = if bytes >= BUFFERS { State::Yes } else { State::Partly };
            Fact::new("shared_memory", what, state, format!("{} MiB free", bytes >> 20))
        }
        Err(error) => Fact::new("shared_memory", what, State::No, format!("/dev/shm: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_and_devices_with_dax_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("one")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let root = Root::at(folder.path());
        make("proc/self/mounts", "/dev/sda / ext4 rw,relatime 0 0\n");
        make("dev/daxctl", "");
        assert_eq!(dax(&root).state, State::No);
        make("proc/self/mounts", "/dev/pmem0 /mnt/pmem ext4 rw,relatime,dax=always 0 0\n");
        make("dev/dax0.0", "");
        assert_eq!(dax(&root).detail, "/mnt/pmem, /dev/dax0.0");
    }

    #[test]
    fn huge_pages_are_reserved_transparent_or_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        assert_eq!(huge_pages(&root).state, State::No);
        let kernel = folder.path().join("sys/kernel/mm");
        std::fs::create_dir_all(kernel.join("transparent_hugepage")).expect("made");
        std::fs::write(kernel.join("transparent_hugepage/enabled"), "always [madvise] never\n").expect("ok");
        assert_eq!(huge_pages(&root).state, State::Partly);
        std::fs::create_dir_all(kernel.join("hugepages/hugepages-2048kB")).expect("made");
        std::fs::write(kernel.join("hugepages/hugepages-2048kB/free_hugepages"), "3\n").expect("ok");
        assert_eq!(huge_pages(&root).state, State::Yes);
    }
}
