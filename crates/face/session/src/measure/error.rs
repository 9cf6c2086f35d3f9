//! Why nothing is measured.

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureFault {
    /// `all` or `list` beside other names.
    #[error("`{word}` stands for itself: name no study beside it")]
    NotAlone {
        /// The word.
        word: String,
    },
    /// There is no such study.
    #[error("no study `{name}`; there are {}", .known.join(", "))]
    NoStudy {
        /// The name as given.
        name: String,
        /// The studies.
        known: Vec<&'static str>,
    },
    /// A study is named twice.
    #[error("the study {name} is named twice")]
    StudyTwice {
        /// The study.
        name: String,
    },
    /// A parameter matters to none of the studies.
    #[error("--{parameter} changes nothing in {}", .studies.join(", "))]
    ChangesNothing {
        /// The parameter.
        parameter: &'static str,
        /// The studies.
        studies: Vec<&'static str>,
    },
    /// No point of a study can be done.
    #[error("{study}: {fault}")]
    Impossible {
        /// The study.
        study: &'static str,
        /// Why not.
        fault: String,
    },
    /// Each thread has a CPU of its own.
    #[error("--cpus names CPU {cpu} twice: each thread has one of its own")]
    CpuTwice {
        /// The CPU.
        cpu: usize,
    },
    /// There is no such CPU.
    #[error("--cpus {cpu}: there is no such CPU; this machine has {online}")]
    NoCpu {
        /// The CPU.
        cpu: usize,
        /// The kernel's list of those that there are.
        online: String,
    },
    /// There is no such NUMA node.
    #[error("--node {node}: there is no such NUMA node")]
    NoNode {
        /// The node.
        node: u32,
    },
}
