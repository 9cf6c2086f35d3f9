//! Why a check has no verdict: the run was not seen whole, or recovery rejects what it left undisturbed.

use capture::{Missed, Warning};
use event::{Frame, Site};
use serde::{Deserialize, Serialize};

/// A reason for which nothing can be said of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What kind of reason.
    pub kind: Kind,
    /// The call that was not recorded, if one is known.
    pub call: Option<String>,
    /// The file it is about.
    pub file: Option<String>,
    /// Where in the file, bytes.
    pub offset: Option<u64>,
    /// The code: the call's, or that of the last recorded store to the byte.
    pub code: Option<Code>,
    /// The reason in words.
    pub text: String,
    /// Likely causes, and what to do.
    pub remedy: String,
}

/// What kind of reason a [`Doubt`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The program made a call that is not recorded.
    NotRecorded,
    /// Events were lost.
    Incomplete,
    /// A file is not what the recorded run left.
    Differs,
    /// Recovery rejects the undisturbed result.
    Rejected,
    /// Nothing was found, and not all was examined that was to be.
    NotCovered,
}

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The function.
    pub function: String,
    /// The source file.
    pub file: String,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
}

impl From<&Frame> for Code {
    fn from(frame: &Frame) -> Self {
        Code { function: frame.function.clone(), file: frame.file.clone(), line: frame.line }
    }
}

impl Code {
    /// The code of a site, if its function is known.
    pub(super) fn of(site: Option<&Site>) -> Option<Code> {
        site.and_then(Site::frame).map(Code::from)
    }

    /// ` by main (app.c:12)`.
    pub(super) fn by(&self) -> String {
        match self.line {
            0 => format!(" by {}", self.function),
            line => format!(" by {} ({}:{line})", self.function, self.file),
        }
    }
}

impl Doubt {
    /// What a recording's warning says of the events themselves, if it does.
    pub(super) fn of_warning(warning: &Warning) -> Option<Doubt> {
        match warning {
            Warning::NotRecorded(missed) => Some(Doubt::not_recorded(missed)),
            Warning::TooFewBuffers { .. } | Warning::Undecoded { .. } => Some(Doubt {
                kind: Kind::Incomplete,
                call: None,
                file: None,
                offset: None,
                code: None,
                text: warning.to_string(),
                remedy: "run it with fewer threads at a time, and without killing it".to_owned(),
            }),
            _ => None,
        }
    }

    fn not_recorded(missed: &Missed) -> Doubt {
        let code = Code::of(missed.site.as_ref());
        Doubt {
            kind: Kind::NotRecorded,
            text: format!("not recorded: {missed}"),
            remedy: missed.remedy().to_owned(),
            call: Some(missed.call.clone()),
            file: (!missed.file.is_empty()).then(|| missed.file.clone()),
            offset: None,
            code,
        }
    }

    /// That recovery rejects the undisturbed result; `by_reboot`: only as after a reboot.
    pub(super) fn rejected(command: &str, ending: &str, printed: &[String], by_reboot: bool) -> Doubt {
        let printed = match printed {
            [] => "and printed nothing".to_owned(),
            lines => format!("and printed:\n    {}", lines.join("\n    ")),
        };
        Doubt {
            kind: Kind::Rejected,
            call: None,
            file: None,
            offset: None,
            code: None,
            text: format!(
                "recovery rejects the undisturbed result, from which nothing is missing:\n  \
                 {command}\n  ended with {ending} {printed}"
            ),
            remedy: match by_reboot {
                true => {
                    "it accepts the same without a reboot: what it needs of /dev/shm, /run, locks or other \
                     processes is gone after one; with --no-reboot it runs in the system as it is"
                }
                false => {
                    "before it can say what a crash does, recovery must succeed on what the program leaves; \
                     in its environment STRANDLINE_DONE is the number of regions that ended"
                }
            }
            .to_owned(),
        }
    }
}

/// Reasons in words, the first cause first; at most a few of them.
pub fn in_words(doubts: &[Doubt]) -> String {
    const MOST: usize = 8;
    let mut lines = Vec::new();
    for (at, doubt) in doubts.iter().take(MOST).enumerate() {
        lines.push(doubt.text.clone());
        if doubts.get(at + 1).is_none_or(|next| next.remedy != doubt.remedy) || at + 1 == MOST {
            lines.push(format!("  {}", doubt.remedy));
        }
    }
    if doubts.len() > MOST {
        lines.push(format!("and {} more", doubts.len() - MOST));
    }
    lines.join("\n")
}
