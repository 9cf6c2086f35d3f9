//! Engines with a mistake: each is found, without a hint where it is.

use region::{Atomicity, Error, MicroBuffer, Pool, Redo, Shadow, Undo, flaw};
use space::sim::Schedule;
use strandline::check::Check;

use crate::desk::*;

/// Every mistake is found, without a hint where.
fn caught<S, A>(name: &str)
where
    S: Atomicity,
    A: Atomicity,
{
    on_both_processors(|| {
        let (run, outcome) = check_transfers::<S, A>(20);
        assert!(!outcome.findings.is_empty(), "{name} was not found in {} images", outcome.images);
        let story = Check::new(&run).story(&outcome);
        assert!(story.contains("not durable"), "{name}: {story}");
    });
}

#[test]
fn flaws_are_caught() {
    caught::<Redo<flaw::LogNotFlushed>, Redo>("a log that is not flushed");
    caught::<Redo<flaw::LogNotFenced>, Redo>("a log that is not fenced");
    caught::<Redo<flaw::AppliedEarly>, Redo>("places that are stored to too early");
    caught::<Redo<flaw::PlacesNotFlushed>, Redo>("places that are not flushed");
    caught::<Redo<flaw::WrittenAgainForgotten>, Redo>(
        "a place that is written to again and not flushed again",
    );
    caught::<Redo<flaw::NotedEarly>, Redo>("a mark that is set too early");
    // Where one thread works, what is left of its log is done again in order, and that hides it.
    let found =
        (0..20).any(|seed| !check_threads::<Redo<flaw::NotNoted>, Redo>(&SMALL, seed).1.findings.is_empty());
    assert!(found, "a log that is reused too soon was not found");
}

#[test]
fn flaws_of_undo_are_caught() {
    caught::<Undo<flaw::LogNotFlushed>, Undo>("a log that is not flushed");
    caught::<Undo<flaw::LogNotFenced>, Undo>("a log that is not fenced before the store");
    caught::<Undo<flaw::PlacesNotFlushed>, Undo>("places that are not flushed");
    caught::<Undo<flaw::NotedEarly>, Undo>("an end that is noted too early");
    // Four words, and a log of three and an end.
    let run = record::<Undo<flaw::ReusedEarly>>(&with_logs(2, 256), &Schedule::walk(1), |pool| {
        (1..4).for_each(|value| set_accounts(pool, value).expect("the log goes round"));
    });
    let outcome = Check::new(&run).run(|image, _| {
        let env = pmem::Os::new(image);
        match Pool::<_, Desk, Undo>::open(&env) {
            Ok((pool, _)) => {
                let accounts = pool.get(pool.root()).accounts;
                let whole = accounts.iter().all(|account| *account == accounts[0]);
                whole.then_some(()).ok_or_else(|| format!("{accounts:?}"))
            }
            Err(Error::NotAPool { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    assert!(!outcome.findings.is_empty(), "a log that is reused too soon was not found");
}

#[test]
fn flaws_of_micro_buffering_are_caught() {
    caught::<MicroBuffer<flaw::LogNotFlushed>, MicroBuffer>("a log that is not flushed");
    caught::<MicroBuffer<flaw::LogNotFenced>, MicroBuffer>("a log that is not fenced");
    caught::<MicroBuffer<flaw::AppliedEarly>, MicroBuffer>("places that are stored to too early");
    caught::<MicroBuffer<flaw::PlacesNotFlushed>, MicroBuffer>("places that are not flushed");
    caught::<MicroBuffer<flaw::NotedEarly>, MicroBuffer>("a mark that is set too early");
    // Logs in which there is no room for two records.
    let tiny = with_logs(2, 256);
    let found = (0..20).any(|seed| {
        !check_threads::<MicroBuffer<flaw::NotNoted>, MicroBuffer>(&tiny, seed).1.findings.is_empty()
    });
    assert!(found, "a log that is reused too soon was not found");
}

#[test]
fn flaws_of_shadow_copy_are_caught() {
    caught::<Shadow<flaw::CopiesNotFlushed>, Shadow>("copies that are not flushed");
    caught::<Shadow<flaw::SwitchedEarly>, Shadow>("a record that is written before the copies are durable");
    caught::<Shadow<flaw::LogNotFlushed>, Shadow>("a log that is not flushed");
    caught::<Shadow<flaw::LogNotFenced>, Shadow>("a log that is not fenced");
    caught::<Shadow<flaw::AppliedEarly>, Shadow>("places that are stored to too early");
    caught::<Shadow<flaw::PlacesNotFlushed>, Shadow>("places that are not flushed");
    caught::<Shadow<flaw::NotedEarly>, Shadow>("a mark that is set too early");
    // Logs in which there is hardly room for two records.
    let tiny = with_logs(2, 384);
    let found = (0..20)
        .any(|seed| !check_threads::<Shadow<flaw::NotNoted>, Shadow>(&tiny, seed).1.findings.is_empty());
    assert!(found, "a log that is reused too soon was not found");
}
