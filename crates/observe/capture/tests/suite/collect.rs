//! Recording and sampling through the crate's public face.

use std::ffi::OsString;
use std::time::Duration;

use capture::{CaptureError, Options, Warning, count, record, sample};
use event::{Batch, Capabilities, Collected, Sink, SinkError};

fn command(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn a_program_that_is_not_instrumented_runs_and_the_outcome_says_so() {
    let mut sink = Collected::default();
    let outcome = record(&Options::new(command(&["sh", "-c", "exit 3"])), &mut sink).unwrap();
    assert_eq!(outcome.status.code(), Some(3));
    assert!(!outcome.attached && outcome.events == 0);
    assert!(matches!(&outcome.warnings[..], [Warning::NotInstrumented { program }] if program == "sh"));
    assert!(outcome.warnings[0].to_string().contains("CC=\"strandline cc\""));
    let source = sink.source.unwrap();
    assert_eq!(source.command, ["sh", "-c", "exit 3"]);
    assert!(!source.capabilities.contains(Capabilities::VALUES));
    assert!(!count(&Options::new(command(&["true"])), &mut |_| {}).unwrap().attached);
}

#[test]
fn the_program_is_reported_of_a_session_that_is_gone_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let note = directory.path().join("note");
    let script =
        format!("test -s \"$STRANDLINE_SESSION\" && echo \"$STRANDLINE_SESSION\" > {}", note.display());
    let outcome = record(&Options::new(command(&["sh", "-c", &script])), &mut Collected::default());
    assert!(outcome.unwrap().status.success());
    let session = std::fs::read_to_string(note).unwrap();
    assert!(!std::path::Path::new(session.trim()).exists());
}

#[test]
fn what_can_not_be_run_is_named() {
    let missing = record(&Options::new(command(&["./no-such-program"])), &mut Collected::default());
    assert!(missing.unwrap_err().to_string().contains("./no-such-program"));
    let nothing = record(&Options::new(Vec::new()), &mut Collected::default());
    assert!(matches!(nothing, Err(CaptureError::NoCommand)));
}

#[test]
fn a_sink_that_refuses_the_source_is_asked_before_the_program_runs() {
    struct Picky;
    impl Sink for Picky {
        fn name(&self) -> &'static str {
            "picky"
        }
        fn needs(&self) -> Capabilities {
            Capabilities::VALUES
        }
        fn push(&mut self, _: Batch<'_>) -> Result<(), SinkError> {
            Ok(())
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let options = Options::new(command(&["touch", mark.to_str().unwrap()]));
    let refused = record(&options, &mut Picky);
    assert!(matches!(refused, Err(CaptureError::Sink(SinkError::Lacks { .. }))));
    assert!(!mark.exists());
}

#[test]
fn a_busy_program_has_samples_or_the_kernel_says_why_not() {
    let spin = command(&["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
    match sample(&spin, Some(Duration::from_secs(60)), false) {
        Ok(profile) => {
            assert!(profile.status.is_some_and(|status| status.success()));
            assert!(profile.total() > 0, "{profile:?}");
            assert!(profile.samples.is_sorted_by(|a, b| a.1 >= b.1));
        }
        Err(CaptureError::NotPermitted { level }) => assert!(!level.is_empty()),
        Err(CaptureError::NoSampling(error)) => assert!(error.raw_os_error().is_some()),
        Err(other) => panic!("{other}"),
    }
}
