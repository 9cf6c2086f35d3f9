//! The kernels: their names, what they take, their WGSL, and their form on the CPU.

use std::sync::atomic::AtomicU32;

use crate::host;

/// Workgroups in a row of a dispatch; more make further rows.
pub const ROW: u32 = 65_535;

/// A data-parallel function that every backend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kernel {
    /// Looks keys up. Regions: table, requests (hash, signature), results. Parameters: buckets - 1, block -
    /// 1.
    Search,
    /// Changes a table, a segment of requests of one block per invocation. Regions: table, requests (hash,
    /// signature, location, operation), segments (first, end), results (code, former location).
    Change,
    /// Counts the digits of a tile of keys. Regions: keys, counts (digit-major). Parameters: keys, keys per
    /// tile, tiles, shift.
    Histogram,
    /// Sums the counts of a digit over tiles, exclusively. Regions: counts, totals. Parameters: tiles.
    Scan,
    /// Moves the keys of a tile. Regions: keys, counts, bases of digits, sorted keys. Parameters: as
    /// histogram.
    Scatter,
    /// TPC-H Q1 of a chunk of rows. Regions: columns, partial sums. Parameters: rows, rows per chunk, last
    /// day.
    Query1,
    /// TPC-H Q6 of a chunk of rows. Regions: columns, partial sums. Parameters: rows, rows per chunk, first
    /// day, day after the last, least and greatest discount, quantity.
    Query6,
    /// Interprets a thread of a litmus test. Regions: program, variables, results. Parameters: see `litmus`.
    Litmus,
    /// Reads words. Regions: words, sums. Parameters: words per invocation.
    Read,
    /// Writes words. Regions: words. Parameters: words per invocation, value.
    Write,
    /// Copies words. Regions: from, to. Parameters: words per invocation.
    Copy,
    /// Follows a chain. Regions: words, ends. Parameters: steps.
    Chase,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 12] = [
        Kernel::Search,
        Kernel::Change,
        Kernel::Histogram,
        Kernel::Scan,
        Kernel::Scatter,
        Kernel::Query1,
        Kernel::Query6,
        Kernel::Litmus,
        Kernel::Read,
        Kernel::Write,
        Kernel::Copy,
        Kernel::Chase,
    ];

    /// Its name, which is that of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Search => "search",
            Kernel::Change => "change",
            Kernel::Histogram => "histogram",
            Kernel::Scan => "scan",
            Kernel::Scatter => "scatter",
            Kernel::Query1 => "query1",
            Kernel::Query6 => "query6",
            Kernel::Litmus => "litmus",
            Kernel::Read => "read",
            Kernel::Write => "write",
            Kernel::Copy => "copy",
            Kernel::Chase => "chase",
        }
    }

    /// Invocations of a workgroup, as its file has them.
    #[must_use]
    pub fn workgroup(self) -> u32 {
        if self == Kernel::Litmus { 1 } else { 64 }
    }

    /// How many regions it takes.
    #[must_use]
    pub fn regions(self) -> usize {
        match self {
            Kernel::Write => 1,
            Kernel::Scan
            | Kernel::Histogram
            | Kernel::Query1
            | Kernel::Query6
            | Kernel::Read
            | Kernel::Copy
            | Kernel::Chase => 2,
            Kernel::Search | Kernel::Litmus => 3,
            Kernel::Change | Kernel::Scatter => 4,
        }
    }

    /// Its WGSL.
    #[must_use]
    pub fn wgsl(self) -> String {
        let body = match self {
            Kernel::Search => include_str!("../kernels/search.wgsl"),
            Kernel::Change => include_str!("../kernels/change.wgsl"),
            Kernel::Histogram => include_str!("../kernels/histogram.wgsl"),
            Kernel::Scan => include_str!("../kernels/scan.wgsl"),
            Kernel::Scatter => include_str!("../kernels/scatter.wgsl"),
            Kernel::Query1 => include_str!("../kernels/query1.wgsl"),
            Kernel::Query6 => include_str!("../kernels/query6.wgsl"),
            Kernel::Litmus => include_str!("../kernels/litmus.wgsl"),
            Kernel::Read => include_str!("../kernels/read.wgsl"),
            Kernel::Write => include_str!("../kernels/write.wgsl"),
            Kernel::Copy => include_str!("../kernels/copy.wgsl"),
            Kernel::Chase => include_str!("../kernels/chase.wgsl"),
        };
        format!("{}\n{body}", include_str!("../kernels/common.wgsl"))
    }

    /// One invocation of it on the CPU.
    pub(crate) fn on_host(self, id: u32, parameters: &[u32; 12], regions: &[&[AtomicU32]]) {
        match (self, regions) {
            (Kernel::Search, &[table, requests, results]) => {
                host::table::search(id, parameters, table, requests, results);
            }
            (Kernel::Change, &[table, requests, segments, results]) => {
                host::table::change(id, parameters, table, requests, segments, results);
            }
            (Kernel::Histogram, &[keys, counts]) => host::sort::histogram(id, parameters, keys, counts),
            (Kernel::Scan, &[counts, totals]) => host::sort::scan(id, parameters, counts, totals),
            (Kernel::Scatter, &[keys, counts, bases, sorted]) => {
                host::sort::scatter(id, parameters, keys, counts, bases, sorted);
            }
            (Kernel::Query1, &[columns, sums]) => host::query::first(id, parameters, columns, sums),
            (Kernel::Query6, &[columns, sums]) => host::query::sixth(id, parameters, columns, sums),
            (Kernel::Litmus, &[program, variables, results]) => {
                host::litmus::interpret(id, parameters, program, variables, results);
            }
            (Kernel::Read, &[words, sums]) => host::micro::read(id, parameters, words, sums),
            (Kernel::Write, &[words]) => host::micro::write(id, parameters, words),
            (Kernel::Copy, &[from, to]) => host::micro::copy(id, parameters, from, to),
            (Kernel::Chase, &[words, ends]) => host::micro::chase(id, parameters, words, ends),
            // `check` has refused the rest.
            _ => {}
        }
    }
}
