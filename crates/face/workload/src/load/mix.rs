//! The mixes of operations, by name.

use super::choose::Distribution;

/// How many of a hundred operations do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Reads of a record.
    pub read: u32,
    /// New values for a record.
    pub update: u32,
    /// New records.
    pub insert: u32,
    /// Reads of some records in the order of keys.
    pub scan: u32,
    /// A read, and a new value for what was read.
    pub modify: u32,
    /// Records taken out, the oldest first.
    pub delete: u32,
    /// Reads that the driver may hand to the target several at a time.
    pub read_many: u32,
}

/// How long a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanLength {
    /// From 1 to so many records, each length as often.
    UpTo(u32),
    /// So many of a million records, at least one.
    PerMillion(u64),
}

/// A mix of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Its name on the command line.
    pub name: String,
    /// What it does, in one line.
    pub summary: String,
    /// Who does what.
    pub shares: Shares,
    /// Which records, if nothing else is asked for.
    pub distribution: Distribution,
    pub(super) scan: ScanLength,
}

/// A row of the table of mixes.
type Row = (&'static [&'static str], Shares, Distribution, &'static str);

const NONE: Shares = Shares { read: 0, update: 0, insert: 0, scan: 0, modify: 0, delete: 0, read_many: 0 };

/// YCSB's core workloads by their definitions (Cooper et al., "Benchmarking cloud serving systems with YCSB",
/// 2010; the files `workloads/workloada` to `f` of its source), then the variants and others.
const TABLE: &[Row] = &[
    (
        &["ycsb-a", "a"],
        Shares { read: 50, update: 50, ..NONE },
        Distribution::Zipfian,
        "half reads, half updates",
    ),
    (
        &["ycsb-b", "b"],
        Shares { read: 95, update: 5, ..NONE },
        Distribution::Zipfian,
        "95 % reads, 5 % updates",
    ),
    (&["ycsb-c", "c"], Shares { read: 100, ..NONE }, Distribution::Zipfian, "reads"),
    (
        &["ycsb-d", "d"],
        Shares { read: 95, insert: 5, ..NONE },
        Distribution::Latest,
        "95 % reads of what is new, 5 % inserts",
    ),
    (
        &["ycsb-e", "e"],
        Shares { scan: 95, insert: 5, ..NONE },
        Distribution::Zipfian,
        "95 % scans of 1 to 100 records, 5 % inserts",
    ),
    (
        &["ycsb-f", "f"],
        Shares { read: 50, modify: 50, ..NONE },
        Distribution::Zipfian,
        "half reads, half reads of what is then updated",
    ),
    (
        &["kv-b", "kv-d"],
        Shares { read: 95, update: 5, ..NONE },
        Distribution::Uniform,
        "the key-value study's B and D: 95 % reads, 5 % updates",
    ),
    (
        &["kv-e"],
        Shares { scan: 95, update: 5, ..NONE },
        Distribution::Uniform,
        "the key-value study's E: 95 % scans of 1 to 100 records, 5 % updates",
    ),
    (
        &["fill", "fill-random"],
        Shares { insert: 100, ..NONE },
        Distribution::Uniform,
        "inserts of random keys",
    ),
    (&["read", "read-random"], Shares { read: 100, ..NONE }, Distribution::Uniform, "reads of random keys"),
    (
        &["read-many"],
        Shares { read_many: 100, ..NONE },
        Distribution::Uniform,
        "reads of random keys, several in one call where the target can",
    ),
    (
        &["range", "range-query"],
        Shares { scan: 100, ..NONE },
        Distribution::Uniform,
        "scans of 0.001 % of the records",
    ),
    (
        &["mixed"],
        Shares { read: 40, update: 20, insert: 20, scan: 10, delete: 10, ..NONE },
        Distribution::Uniform,
        "40 % reads, 20 % updates, 20 % inserts, 10 % scans, 10 % deletes",
    ),
    (&["update"], Shares { update: 100, ..NONE }, Distribution::Uniform, "updates of random keys"),
    (&["delete"], Shares { delete: 100, ..NONE }, Distribution::Uniform, "deletes, until nothing is left"),
];

impl Mix {
    /// All of them; `put-N`, for which there is no table, is the last, with 50.
    #[must_use]
    pub fn all() -> Vec<Mix> {
        let mut all: Vec<Mix> = TABLE.iter().map(of_row).collect();
        all.push(put(50));
        all
    }

    /// The one of that name, or of another name for it (`a` for `ycsb-a`, `fill-random` for `fill`); `put-N`
    /// is N % inserts and reads besides.
    #[must_use]
    pub fn find(name: &str) -> Option<Mix> {
        if let Some(share) = name.strip_prefix("put-").and_then(|share| share.parse().ok()) {
            return (1..=99).contains(&share).then(|| put(share));
        }
        TABLE
            .iter()
            .find(|row| row.0.contains(&name))
            .map(|row| Mix { name: canonical(name, row), ..of_row(row) })
    }

    /// Whether all that it does is to insert.
    #[must_use]
    pub fn only_inserts(&self) -> bool {
        self.shares.insert == 100
    }

    /// Whether it reads in the order of keys.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.shares.scan > 0
    }
}

/// A name that a source gives stays; a letter becomes the whole name.
fn canonical(name: &str, row: &Row) -> String {
    if name.len() == 1 { row.0[0].to_owned() } else { name.to_owned() }
}

fn of_row((names, shares, distribution, summary): &Row) -> Mix {
    let range = names.contains(&"range");
    // A selection ratio of 0.001 %, as the study of indexes has it.
    let scan = if range { ScanLength::PerMillion(10) } else { ScanLength::UpTo(100) };
    Mix {
        name: names[0].to_owned(),
        summary: (*summary).to_owned(),
        shares: *shares,
        distribution: *distribution,
        scan,
    }
}

fn put(share: u32) -> Mix {
    Mix {
        name: format!("put-{share}"),
        summary: format!("{share} % inserts, {} % reads of random keys", 100 - share),
        shares: Shares { insert: share, read: 100 - share, ..NONE },
        distribution: Distribution::Uniform,
        scan: ScanLength::UpTo(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_names_are_found() {
        for mix in Mix::all() {
            let Shares { read, update, insert, scan, modify, delete, read_many } = mix.shares;
            assert_eq!(read + update + insert + scan + modify + delete + read_many, 100, "{}", mix.name);
            assert_eq!(Mix::find(&mix.name).as_ref(), Some(&mix));
        }
        assert_eq!(Mix::find("d").map(|mix| mix.name), Some("ycsb-d".to_owned()));
        assert_eq!(Mix::find("kv-d").map(|mix| mix.name), Some("kv-d".to_owned()));
        assert_eq!(Mix::find("put-20").map(|mix| mix.shares.insert), Some(20));
        assert_eq!(["put-0", "put-100", "g", ""].map(Mix::find), [const { None }; 4]);
    }
}
