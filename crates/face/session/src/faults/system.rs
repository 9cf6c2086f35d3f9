//! What the system says about huge pages and processors.

use std::fs;
use std::path::Path;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";

/// When pages of 2 MiB are given: `always`, `madvise`, `never`; `absent` if the kernel knows none. A setting
/// of that size precedes the general one, if it does not inherit it.
pub(super) fn huge_pages() -> String {
    huge_pages_of(|name| fs::read_to_string(Path::new(HUGE_PAGES).join(name)).ok())
}

fn huge_pages_of(read: impl Fn(&str) -> Option<String>) -> String {
    let of = |name: &str| chosen(&read(name)?);
    let own = of("hugepages-2048kB/enabled").filter(|word| word != "inherit");
    own.or_else(|| of("enabled")).unwrap_or_else(|| "absent".to_owned())
}

/// Sizes in KiB between a page and 2 MiB that are given unasked.
pub(super) fn sizes_between() -> Vec<u64> {
    let general =
        fs::read_to_string(Path::new(HUGE_PAGES).join("enabled")).ok().and_then(|text| chosen(&text));
    let mut sizes = Vec::new();
    for entry in fs::read_dir(HUGE_PAGES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let size = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB")?.parse().ok());
        let Some(size) = size.filter(|&size| size < 2048) else { continue };
        let own = fs::read_to_string(entry.path().join("enabled")).ok().and_then(|text| chosen(&text));
        let inherits = own.as_deref() == Some("inherit");
        if (if inherits { general.as_deref() } else { own.as_deref() }) == Some("always") {
            sizes.push(size);
        }
    }
    sizes.sort_unstable();
    sizes
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// KiB of huge pages that this process has.
pub(super) fn huge_here() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Processors that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_of_the_size_precedes_the_general_one() {
        let setting = |general: Option<&'static str>, own: Option<&'static str>| {
            huge_pages_of(|name| if name == "enabled" { general } else { own }.map(str::to_owned))
        };
        let general = Some("always [madvise] never\n");
        assert_eq!(setting(general, None), "madvise");
        assert_eq!(setting(general, Some("always [inherit] madvise never\n")), "madvise");
        assert_eq!(setting(general, Some("[always] inherit madvise never\n")), "always");
        assert_eq!(
            setting(Some("[always] madvise never\n"), Some("always inherit madvise [never]\n")),
            "never"
        );
        assert_eq!(setting(None, None), "absent");
        assert_eq!(setting(Some("damaged"), None), "absent");
    }
}
