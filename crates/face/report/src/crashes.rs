//! What a crash of the profiled run could have left, and recovery did not bring into order.

use serde::Serialize;

use crate::content::Article;

/// What recovery found in images of the run.
#[derive(Clone, Debug, Default)]
pub struct CrashFindings {
    /// What was examined, in a line.
    pub examined: String,
    /// The folder in which `strandline check --replay` finds the run.
    pub folder: String,
    /// What is wrong, each once.
    pub findings: Vec<CrashFinding>,
}

/// A finding; `check.json` beside the report has all of it.
#[derive(Clone, Debug, Serialize)]
pub struct CrashFinding {
    /// What recovery said.
    pub message: String,
    /// The finding in sentences.
    pub story: Vec<String>,
    /// Images that failed like this.
    pub images: u64,
    /// Repeats it: `strandline check --replay`.
    pub token: String,
    /// For the page.
    #[serde(skip)]
    pub article: Article,
}

impl CrashFindings {
    /// Whether the run survives a crash.
    #[must_use]
    pub fn headline(&self) -> String {
        match self.findings.len() {
            0 => "Recovery mended every image that was tried".to_owned(),
            1 => "A crash can leave what recovery does not mend".to_owned(),
            count => format!("A crash can leave what recovery does not mend, in {count} ways"),
        }
    }
}
