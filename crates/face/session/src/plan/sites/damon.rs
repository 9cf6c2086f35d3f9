//! DAMON, the kernel's monitor of regions, where nobody else uses it.
//!
//! Its administration in `/sys` is one for the whole machine: a number of threads, whose folders all vanish when the number is
//! written. So it is used only if that number is 0, nobody's thread runs, and this process may write; and it is left as it was
//! found. Everything else is a reason to leave it alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel has it.
pub(crate) const ADMIN: &str = "/sys/kernel/mm/damon/admin";
/// Where the kernel has its threads.
pub(crate) const THREADS: &str = "/proc";

/// Each region's page is looked at so often, in microseconds; the library's second window is as long.
const SAMPLE_US: u32 = 10_000;
/// Looks that are added up.
const TRIES: u32 = 20;
/// Regions, at least and at most: so many pages are looked at in each sample.
const REGIONS: (u32, u32) = (10, 200);

/// A region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// First byte and the last one's successor.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Looks that found the page used.
    pub(super) used: u32,
    /// Looks.
    pub(super) tries: u32,
}

/// A monitor of our own.
#[derive(Debug)]
pub(super) struct Damon {
    admin: PathBuf,
}

/// Whether it may be used.
///
/// # Errors
/// Why not.
pub(crate) fn free(admin: &Path, threads: &Path) -> Result<(), String> {
    let count = fs::read_to_string(admin.join("kdamonds/nr_kdamonds"))
        .map_err(|_| "the kernel has none, or does not show it".to_owned())?;
    if count.trim() != "0" {
        let many = count.trim();
        return Err(format!(
            "somebody uses it already ({many} of its threads), which is left alone: another one can't be added without ending theirs"
        ));
    }
    if let Some(name) = running(threads) {
        return Err(format!("the kernel's own thread {name} runs, which is left alone"));
    }
    let writable = fs::OpenOptions::new().write(true).open(admin.join("kdamonds/nr_kdamonds"));
    writable.map(drop).map_err(|error| format!("only root may use it ({error})"))
}

/// The name of a thread of DAMON's.
fn running(threads: &Path) -> Option<String> {
    let all = fs::read_dir(threads).ok()?.flatten();
    let names = all.filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).find(|name| name.starts_with("kdamond"))
}

impl Damon {
    /// Looks at a process's memory.
    ///
    /// # Errors
    /// Why not; nothing is left behind.
    pub(super) fn begin(admin: &Path, threads: &Path, process: u32) -> Result<Damon, String> {
        free(admin, threads)?;
        let damon = Damon { admin: admin.to_owned() };
        damon.write("nr_kdamonds", "1")?;
        // From here on the folder is ours, and goes when `damon` does.
        let state = damon.read("0/state").unwrap_or_default();
        if state.trim() != "off" {
            // Somebody else was faster.
            std::mem::forget(damon);
            return Err("somebody else began to use it in this moment".to_owned());
        }
        damon.write("0/contexts/nr_contexts", "1")?;
        let able = damon.read("0/contexts/0/avail_operations")?;
        if !able.split_whitespace().any(|one| one == "vaddr") {
            return Err("the kernel was built without its monitor of processes (DAMON_VADDR)".to_owned());
        }
        let aggregation = SAMPLE_US * TRIES;
        let settings = [
            ("operations", "vaddr".to_owned()),
            ("monitoring_attrs/intervals/sample_us", SAMPLE_US.to_string()),
            ("monitoring_attrs/intervals/aggr_us", aggregation.to_string()),
            ("monitoring_attrs/intervals/update_us", (5 * aggregation).to_string()),
            ("monitoring_attrs/nr_regions/min", REGIONS.0.to_string()),
            ("monitoring_attrs/nr_regions/max", REGIONS.1.to_string()),
            ("targets/nr_targets", "1".to_owned()),
            ("targets/0/pid_target", process.to_string()),
            ("schemes/nr_schemes", "1".to_owned()),
            // It does nothing, to any region: so the kernel shows all.
            ("schemes/0/action", "stat".to_owned()),
            ("schemes/0/access_pattern/sz/max", u64::MAX.to_string()),
            ("schemes/0/access_pattern/nr_accesses/max", u32::MAX.to_string()),
            ("schemes/0/access_pattern/age/max", u32::MAX.to_string()),
        ];
        for (name, value) in settings {
            damon.write(&format!("0/contexts/0/{name}"), &value)?;
        }
        damon.write("0/state", "on")?;
        Ok(damon)
    }

    /// The regions of the last aggregation. A region that the kernel takes away meanwhile is left out.
    ///
    /// # Errors
    /// If the kernel shows none.
    pub(super) fn regions(&self) -> Result<Vec<Region>, String> {
        self.write("0/state", "update_schemes_tried_regions")?;
        let folder = self.admin.join("kdamonds/0/contexts/0/schemes/0/tried_regions");
        let all = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut regions: Vec<Region> = all.flatten().filter_map(|one| region(&one.path())).collect();
        regions.sort_unstable_by_key(|one| one.start);
        Ok(regions)
    }

    fn write(&self, name: &str, value: &str) -> Result<(), String> {
        let path = self.admin.join("kdamonds").join(name);
        let file = fs::OpenOptions::new().write(true).truncate(true).open(&path);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, value.as_bytes()));
        written.map_err(|error| format!("{} = {value}: {error}", path.display()))
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let path = self.admin.join("kdamonds").join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Damon {
    /// As it was found.
    fn drop(&mut self) {
        self.write("0/state", "off").ok();
        self.write("nr_kdamonds", "0").ok();
    }
}

fn region(folder: &Path) -> Option<Region> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (start, end, used) = (number("start")?, number("end")?, number("nr_accesses")?);
    (start < end).then(|| Region { start, end, used: (used as u32).min(TRIES), tries: TRIES })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as the kernel's, whose folders are there from the beginning.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(count: &str) -> Tree {
            let tree = Tree(tempfile::tempdir().expect("a folder"));
            let context = "kdamonds/0/contexts/0";
            tree.set("kdamonds/nr_kdamonds", count);
            for (name, value) in [("kdamonds/0/state", "off"), ("kdamonds/0/contexts/nr_contexts", "0")] {
                tree.set(name, value);
            }
            tree.set(&format!("{context}/avail_operations"), "vaddr\nfvaddr\npaddr\n");
            for name in [
                "operations",
                "monitoring_attrs/intervals/sample_us",
                "monitoring_attrs/intervals/aggr_us",
                "monitoring_attrs/intervals/update_us",
                "monitoring_attrs/nr_regions/min",
                "monitoring_attrs/nr_regions/max",
                "targets/nr_targets",
                "targets/0/pid_target",
                "schemes/nr_schemes",
                "schemes/0/action",
                "schemes/0/access_pattern/sz/max",
                "schemes/0/access_pattern/nr_accesses/max",
                "schemes/0/access_pattern/age/max",
            ] {
                tree.set(&format!("{context}/{name}"), "");
            }
            fs::create_dir(tree.0.path().join("threads")).expect("a folder");
            tree
        }

        fn set(&self, name: &str, value: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, value).expect("a file");
        }

        fn get(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join(name)).expect("a file")
        }

        fn begin(&self) -> Result<Damon, String> {
            Damon::begin(self.0.path(), &self.0.path().join("threads"), 4711)
        }
    }

    #[test]
    fn one_of_our_own_is_set_up_read_and_taken_down() {
        let tree = Tree::new("0");
        let damon = tree.begin().expect("it is free");
        let context = "kdamonds/0/contexts/0";
        for (name, value) in [
            ("kdamonds/nr_kdamonds", "1"),
            ("kdamonds/0/state", "on"),
            ("kdamonds/0/contexts/0/operations", "vaddr"),
            ("kdamonds/0/contexts/0/targets/0/pid_target", "4711"),
            ("kdamonds/0/contexts/0/schemes/0/action", "stat"),
            ("kdamonds/0/contexts/0/monitoring_attrs/intervals/aggr_us", "200000"),
        ] {
            assert_eq!(tree.get(name), value, "{name}");
        }
        for (number, start, end, used) in [(1, 8192, 12_288, 3), (0, 4096, 8192, 99), (2, 9, 9, 1)] {
            let folder = format!("{context}/schemes/0/tried_regions/{number}");
            for (name, value) in [("start", start), ("end", end), ("nr_accesses", used), ("age", 1)] {
                tree.set(&format!("{folder}/{name}"), &format!("{value}\n"));
            }
        }
        tree.set(&format!("{context}/schemes/0/tried_regions/3/start"), "1\n");
        let region = |start, end, used| Region { start, end, used, tries: TRIES };
        assert_eq!(damon.regions(), Ok(vec![region(4096, 8192, 20), region(8192, 12_288, 3)]));
        assert_eq!(tree.get("kdamonds/0/state"), "update_schemes_tried_regions");
        drop(damon);
        assert_eq!(
            (tree.get("kdamonds/0/state"), tree.get("kdamonds/nr_kdamonds")),
            ("off".into(), "0".into())
        );
    }

    #[test]
    fn what_others_use_is_not_touched() {
        let tree = Tree::new("1\n");
        tree.set("kdamonds/0/state", "on\n");
        assert!(tree.begin().expect_err("somebody's").contains("left alone"));
        assert_eq!(
            (tree.get("kdamonds/0/state"), tree.get("kdamonds/nr_kdamonds")),
            ("on\n".into(), "1\n".into())
        );
        // A thread without a folder there: the kernel's own.
        let tree = Tree::new("0\n");
        tree.set("threads/77/comm", "kdamond.0\n");
        assert!(tree.begin().expect_err("the kernel's").contains("kdamond.0"));
        assert_eq!(tree.get("kdamonds/nr_kdamonds"), "0\n");
        // Between the look and the first word somebody else began.
        let tree = Tree::new("0\n");
        tree.set("kdamonds/0/state", "on\n");
        assert!(tree.begin().expect_err("a race").contains("in this moment"));
        assert_eq!(tree.get("kdamonds/0/state"), "on\n");
        let nowhere = tempfile::tempdir().expect("a folder");
        assert!(free(nowhere.path(), nowhere.path()).expect_err("no kernel").contains("has none"));
    }

    #[test]
    fn a_kernel_without_the_monitor_of_processes_is_named_and_nothing_stays() {
        let tree = Tree::new("0");
        tree.set("kdamonds/0/contexts/0/avail_operations", "paddr\n");
        assert!(tree.begin().expect_err("no vaddr").contains("DAMON_VADDR"));
        assert_eq!(tree.get("kdamonds/nr_kdamonds"), "0");
    }
}
