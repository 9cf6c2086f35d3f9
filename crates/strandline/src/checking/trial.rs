//! Whether the recovery command recovers anything at all.

use anyhow::{Context, bail};
use crash::Checker;

use super::command::RecoveryCommand;
use super::recovery::Recovery;

/// Images without a loss that are tried if recovery fails on the complete one.
const MOMENTS: usize = 16;

/// Lets recovery look at images that lack nothing. If it fails on all of them, it is not the program that is wrong. What is to be told, if it
/// fails only on what the run left at its end.
pub fn try_out(
    checker: &Checker<'_>,
    recovery: &mut Recovery,
    command: &RecoveryCommand,
) -> anyhow::Result<Option<String>> {
    let (mut failing, mut passed) = (0, false);
    checker.whole_images(MOMENTS, recovery, &mut |judged| {
        passed |= judged.is_ok();
        failing += u64::from(judged.is_err());
        !passed
    });
    if let Some(error) = recovery.error.take() {
        return Err(error).context("recovery");
    }
    if failing == 0 {
        return Ok(None);
    }
    let (ending, said) = recovery.failure.take().unwrap_or_default();
    let said = match &*said {
        [] => "and printed nothing".to_owned(),
        lines => format!("and printed:\n    {}", lines.join("\n    ")),
    };
    if !passed {
        bail!(
            "the recovery command fails on every image, also on the one that the run left when nothing was lost, and on those of \
             {failing} moments of the run: before it can tell what a crash does, it must succeed on what the program leaves\n  {}\n  \
             ended with {ending} {said}",
            command.text()
        );
    }
    Ok(Some(format!(
        "recovery fails on what the run left at its end when nothing was lost, as far as its stores were seen; it ended with {ending} {said}"
    )))
}
