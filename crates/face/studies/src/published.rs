//! Published series, from `data/`.

/// A column of a table of numbers: the points of its first column and the one of that name. The tables are
/// part of this crate, so a missing name gives no points and every check on them fails.
#[must_use]
pub fn column(table: &str, name: &str) -> Vec<(f64, f64)> {
    let mut lines = table.lines();
    let Some(at) = lines.next().and_then(|head| head.split(',').position(|column| column == name)) else {
        return Vec::new();
    };
    let number = |cells: &[&str], at: usize| cells.get(at).and_then(|cell| cell.trim().parse::<f64>().ok());
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            Some((number(&cells, 0)?, number(&cells, at)?))
        })
        .collect()
}

/// Bandwidth in GB/s by threads, sequential accesses of 256 B, on one 3D XPoint DIMM: `Read`,
/// `Write(ntstore)`, `Write(clwb)`.
pub const ONE_DIMM: &str = include_str!("../data/xpoint/bandwidth_by_threads_one_dimm_gbps.csv");
/// The same on six channels of DRAM.
pub const DRAM: &str = include_str!("../data/xpoint/bandwidth_by_threads_dram_gbps.csv");
/// Microseconds by size of the hot region: `99.99%`, `99.999%`, `Max`.
pub const TAIL: &str = include_str!("../data/xpoint/tail_latency_us.csv");
/// Write amplification of the half-line probe by size of its region: `WriteAmp`.
pub const WRITE_AMPLIFICATION: &str = include_str!("../data/xpoint/write_amplification_by_region.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_that_rows_use_is_there() {
        for (table, columns, points) in [
            (ONE_DIMM, &["Read", "Write(ntstore)", "Write(clwb)"][..], 24),
            (DRAM, &["Read", "Write(ntstore)", "Write(clwb)"], 24),
            (TAIL, &["99.99%", "99.999%", "Max"], 19),
            (WRITE_AMPLIFICATION, &["WriteAmp"], 36),
        ] {
            for name in columns {
                assert_eq!(column(table, name).len(), points, "{name}");
            }
        }
        assert_eq!(column(ONE_DIMM, "Read")[3], (4.0, 6.52));
        assert!(column(ONE_DIMM, "Readd").is_empty());
    }
}
