//! Whether a process lives: by its number, the moment it began, and the namespace in which it has that
//! number.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// A process, also after others had its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// Its number.
    pub pid: u64,
    /// When it began, in ticks since the system's start.
    pub began: u64,
    /// The namespace of its number.
    pub namespace: u64,
}

impl Life {
    /// This process.
    #[must_use]
    pub fn of_this_process() -> Life {
        let pid = u64::from(std::process::id());
        Life { pid, began: began(pid).unwrap_or(0), namespace: namespace() }
    }

    /// Whether it has not ended; `None` if its number is one of another namespace. A process that has ended
    /// and that nobody has waited for has ended.
    #[must_use]
    pub fn is_alive(self) -> Option<bool> {
        (self.namespace == namespace()).then(|| began(self.pid) == Some(self.began))
    }
}

/// The namespace of this process's number, 0 if the system does not say.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Which start of the system this is.
#[must_use]
pub fn boot() -> u128 {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

/// When a process began that has not ended.
fn began(pid: u64) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `42 (a name) S 1 …`: the state is the first field behind the name, the number of threads the eighteenth,
/// the start the twentieth. Of a
/// process that was killed, the first thread may have ended while others still store: it has ended when it
/// is the only one left.
fn parse(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    (!matches!(state, "Z" | "X") || threads > 1).then_some(())?;
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_of_its_number_does_not() {
        let me = Life::of_this_process();
        assert_eq!(me.is_alive(), Some(true));
        assert_eq!(Life { began: me.began + 1, ..me }.is_alive(), Some(false));
        assert_eq!(Life { namespace: me.namespace + 1, ..me }.is_alive(), None);
        assert_ne!(boot(), 0);
    }

    #[test]
    fn the_start_is_behind_a_name_with_brackets_and_blanks() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 777 20";
        assert_eq!(parse(stat), Some(777));
        let ended = stat.replace(" S ", " Z ");
        assert_eq!(parse(&ended), None, "nobody has waited for it");
        assert_eq!(parse(&ended.replace(" 16 1 ", " 16 2 ")), Some(777), "a thread is still on its way out");
    }
}
