//! What to change: advisors over memory events and the machine's figures.
//!
//! An advisor looks at a run twice. As an [`event::Sink`] it watches the events go by and keeps the
//! evidence that a cache blurs: how long a write was before another one began elsewhere, when a line was
//! flushed and by whom, whether a fence had anything to order. After the run it holds that evidence
//! against [`machine::Figures`], which know what really reached the device, and says what is wrong as
//! [`Finding`]s: rule, code, evidence, remedy, and the share of the traffic that the problem explains.
//!
//! Evidence and figures need each other. A program that stores eight bytes a million times in a row
//! writes eight megabytes sequentially, which only the order of the events shows; whether those bytes were
//! absorbed by a cache or written to the media four times over, only the machine can tell. A finding is
//! given where both agree, and its share is counted in the machine's bytes. A false finding costs the reader
//! more than a missed one, so each rule states which doubt it resolves in the program's favour.
//!
//! [`guidelines`] is the first advisor: the four rules for 3D XPoint memory, and flushes and fences that
//! do nothing.
#![forbid(unsafe_code)]

mod finding;
pub mod guidelines;
pub mod prestores;

pub use finding::{Finding, Rule, SiteShare};
