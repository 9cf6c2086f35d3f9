//! What was measured, as data and as text.

use serde::Serialize;

use crate::Skipped;

/// Commits of 32 writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommitRow {
    /// Bytes of each write.
    pub bytes: u64,
    /// Who commits.
    pub contender: String,
    /// Nanoseconds of wall time per commit.
    pub ns: f64,
    /// The same over that of the bare redo log.
    pub over_bare_redo: f64,
}

/// The record store under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordRow {
    /// What is varied.
    pub study: String,
    /// Records of each of the four instances.
    pub records: u64,
    /// How they are chosen.
    pub distribution: String,
    /// Percent of reads.
    pub reads: u64,
    /// Bytes of the log.
    pub log: u64,
    /// Bytes of the write cache.
    pub cache: u64,
    /// Bytes of a cache page.
    pub page: u64,
    /// Operations per second of all instances together.
    pub per_second: f64,
    /// The same over that of NVM alone, which has neither atomicity nor order.
    pub over_nvm: f64,
    /// Pages that write-back wrote.
    pub pages_written: u64,
    /// Entries that redo wrote around the cache.
    pub written_through: u64,
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VnvmResults {
    /// How much smaller all is than in the source.
    pub scale: u64,
    /// CPU time of a record store's request apart from the record, in nanoseconds.
    pub service_ns: u64,
    /// How often each was measured.
    pub rounds: u32,
    /// Commits.
    pub commits: Vec<CommitRow>,
    /// Record stores.
    pub records: Vec<RecordRow>,
    /// Who is missing, and why.
    pub skipped: Vec<Skipped>,
}

impl VnvmResults {
    /// As JSON, with the command that made it.
    ///
    /// # Errors
    /// If a figure is no number.
    pub fn json(&self, command: &[String]) -> serde_json::Result<String> {
        let value = serde_json::json!({ "schema": 1, "command": command, "results": self });
        serde_json::to_string_pretty(&value).map(|text| text + "\n")
    }

    /// As tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.commits.is_empty() {
            text.push_str("Commits of 32 writes, one to a page: microseconds (over a bare redo log)\n");
            text.push_str(&format!("{:>6}  {:<14}{:>9}{:>8}\n", "bytes", "", "us", "ratio"));
            for row in &self.commits {
                let us = row.ns / 1000.0;
                text.push_str(&format!(
                    "{:>6}  {:<14}{us:>9.2}{:>8.2}\n",
                    row.bytes, row.contender, row.over_bare_redo
                ));
            }
        }
        if !self.records.is_empty() {
            text.push_str(&format!(
                "\nFour stores of records of 64 KiB, at 1/{} of the source's sizes, {} us of other work; over NVM alone\n",
                self.scale,
                self.service_ns / 1000
            ));
            text.push_str(&format!(
                "{:<9}{:>8} {:<8}{:>6}{:>8}{:>8}{:>6}{:>11}{:>7}{:>10}{:>9}\n",
                "study", "records", "", "reads", "log", "cache", "page", "op/s", "ratio", "written", "around"
            ));
            let mib = |bytes: u64| format!("{}M", bytes >> 20);
            for row in &self.records {
                text.push_str(&format!(
                    "{:<9}{:>8} {:<8}{:>5}%{:>8}{:>8}{:>6}{:>11.0}{:>7.3}{:>10}{:>9}\n",
                    row.study,
                    row.records,
                    row.distribution,
                    row.reads,
                    mib(row.log),
                    mib(row.cache),
                    row.page,
                    row.per_second,
                    row.over_nvm,
                    row.pages_written,
                    row.written_through,
                ));
            }
        }
        for skipped in &self.skipped {
            text.push_str(&format!("skipped: {}: {}\n", skipped.name, skipped.why));
        }
        text
    }
}
