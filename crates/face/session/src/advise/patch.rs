//! What to change in the source: which call, behind which line.

use std::fmt;

use advise::prestores::{Choice, GATHERED, PlaceAdvice};
use event::Frame;
use serde::Serialize;

use super::loops::{self, Span};
use crate::sources::Sources;

/// Calls that store all at once.
const COPIES: [&str; 6] = ["memcpy", "memmove", "memset", "mempcpy", "strcpy", "strncpy"];

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// The line that stores, as it stands there; `None` where the source can't be read.
    pub excerpt: Option<String>,
    /// The line that comes in; `None` if the stores themselves have to become others.
    pub insert: Option<String>,
    /// Where it comes in; `None` where nothing in the source says it.
    pub behind: Option<Behind>,
    /// Its number is the excerpt's.
    #[serde(skip)]
    line: u32,
    /// What it does.
    #[serde(skip)]
    choice: Choice,
}

/// A line of a source file behind which another one comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column behind which it comes, from 1; `None`: the line's end.
    pub column: Option<u32>,
    /// The first line of the loop that ends there; `None` if it is a call that copies.
    pub loop_begins: Option<u32>,
    /// Whether the loop or call and the line need braces around them, to stay within what they are the body
    /// of.
    pub braces: bool,
}

impl Patch {
    /// What to do for `choice` at a place, which stands in these frames, the innermost first; `None` if
    /// nothing. `body` has the frames of all places that fill the same lines.
    pub fn new(
        sources: &Sources,
        frames: &[Frame],
        body: &[&[Frame]],
        place: &PlaceAdvice,
        choice: Choice,
    ) -> Option<Patch> {
        let op = match choice {
            Choice::Skip => None,
            Choice::Clean => Some("SL_CLEAN"),
            Choice::Demote => Some("SL_DEMOTE"),
            Choice::Nothing => return None,
        };
        let excerpt = line_of(sources, &place.file, place.line).map(|line| line.trim().to_owned());
        let insert = op.map(|op| format!("sl_prestore(FIRST_BYTE_WRITTEN, BYTES_WRITTEN, {op});"));
        let behind =
            op.and_then(|_| Behind::new(sources, frames, body).or_else(|| Behind::new(sources, frames, &[])));
        Some(Patch { excerpt, insert, behind, line: place.line, choice })
    }
}

impl Behind {
    /// Behind the call that copies, or the innermost loop around all stores that fill these lines, which may
    /// be in a caller that they were inlined into. A line that several statements fill, each with a loop of
    /// its own, is done with behind none of these loops.
    fn new(sources: &Sources, frames: &[Frame], body: &[&[Frame]]) -> Option<Behind> {
        let behind = |frame: &Frame, span: Span, loop_begins| Behind {
            file: frame.file.to_string(),
            line: span.last,
            column: span.column,
            loop_begins,
            braces: span.bare,
        };
        let copies = |frame: &&Frame| {
            let line = line_of(sources, &frame.file, frame.line);
            line.is_some_and(|line| COPIES.iter().any(|name| line.contains(&format!("{name}("))))
        };
        if let Some(frame) = frames.first().filter(copies).filter(|_| body.len() <= 1) {
            let call = loops::call(&sources.text(&frame.file)?, frame.line, &COPIES)?;
            return Some(behind(frame, call, None));
        }
        frames.iter().find_map(|frame| {
            let beside = body.iter().flat_map(|frames| frames.iter());
            let here =
                beside.filter(|other| (&other.function, &other.file) == (&frame.function, &frame.file));
            let lines: Vec<u32> = here.map(|other| other.line).chain([frame.line]).collect();
            let around = loops::innermost(&sources.text(&frame.file)?, &lines)?;
            Some(behind(frame, around, Some(around.first)))
        })
    }

    /// `after line 98 of sp.c`.
    fn place(&self) -> String {
        let Behind { file, line, column, .. } = self;
        match column {
            None => format!("after line {line} of {}", short(file)),
            Some(column) => format!("in line {line} of {}, behind column {column}", short(file)),
        }
    }

    /// What else is to be done there.
    fn braced(&self) -> &'static str {
        match (self.braces, self.loop_begins) {
            (false, _) => "",
            (true, Some(_)) => "\nwith braces around it and that loop, which is a body without them.",
            (true, None) => "\nwith braces around it and that call, which is a body without them.",
        }
    }
}

fn line_of(sources: &Sources, file: &str, line: u32) -> Option<String> {
    let text = sources.text(file)?;
    text.lines().nth((line as usize).checked_sub(1)?).map(str::to_owned)
}

/// A path's last part.
pub fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(excerpt) = &self.excerpt {
            writeln!(f, "{:>6} | {excerpt}", self.line)?;
        }
        let Some(insert) = &self.insert else {
            return writeln!(
                f,
                "Write these bytes with non-temporal stores, or build them in a small buffer and sl_copy_skip() it out."
            );
        };
        let few = match self.choice {
            Choice::Clean => {
                format!(
                    "\nWhere that writes less than {GATHERED} bytes: only when as many have come together."
                )
            }
            _ => String::new(),
        };
        match &self.behind {
            Some(behind @ Behind { loop_begins: None, .. }) => writeln!(
                f,
                "Insert {}, the call that copies:\n  {insert}{}{few}",
                behind.place(),
                behind.braced()
            ),
            Some(behind @ Behind { loop_begins: Some(first), .. }) => writeln!(
                f,
                "Insert {}, where the loop of line {first} ends:\n  {insert}{}\nWhere one run of that loop writes more than some \
                 KiB: inside it, each time that {GATHERED} bytes have come together, never after each store.{few}",
                behind.place(),
                behind.braced()
            ),
            None => writeln!(
                f,
                "Insert behind the stores, or the call that copies, once a whole cache line is written:\n  {insert}"
            ),
        }
    }
}
