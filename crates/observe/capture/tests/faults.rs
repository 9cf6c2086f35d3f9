//! Page faults of a real program, as far as the kernel permits.

use std::ffi::OsString;

use capture::{Backing, CaptureError, FaultCause, Reports, sample_faults};

#[test]
fn a_program_that_writes_fresh_memory() {
    let command: Vec<OsString> =
        ["dd", "if=/dev/zero", "of=/dev/null", "bs=16M", "count=1", "status=none"].map(Into::into).into();
    let run = match sample_faults(&command, &[], Reports::All, true) {
        Ok(run) => run,
        Err(error @ (CaptureError::NotPermitted { .. } | CaptureError::NoSampling(_))) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(run.status.is_some_and(|status| status.success()));
    let reported = run.samples.len() as u64;
    println!("{} minor, {} major, {reported} reported, {} lost", run.minor, run.major, run.lost);
    assert!(reported > 20, "loading a program faults");
    let own = run.samples.iter().filter(|fault| fault.user).count() as u64;
    assert!(own + run.lost <= run.minor + run.major, "no more are reported than there were");
    let of = |backing| run.samples.iter().filter(|fault| fault.backing == backing).count();
    assert!(of(Backing::File) > 0, "code and data of the program are files");
    let unknown = run.samples.iter().filter(|fault| fault.cause == FaultCause::Unknown).count();
    assert!(if run.kinds { unknown == 0 } else { unknown < run.samples.len() / 2 }, "{unknown}");
    assert!(run.samples.iter().any(|fault| fault.cause == FaultCause::Write), "it stores to 16 MiB");
    assert!(run.samples.iter().all(|fault| fault.stack.is_none_or(|stack| !run.stacks[stack].is_empty())));
    assert!(run.stacks.iter().flatten().any(|site| !site.module.is_empty()), "code has a name");
}

/// A program that faults often: few are reported, and the kinds' sums are right all the same.
#[test]
fn a_program_that_faults_often_is_sampled() {
    let script = "import mmap\nm = mmap.mmap(-1, 256 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 256 << 20, 4096): m[at] = 1";
    let command: Vec<OsString> = ["python3", "-c", script].map(Into::into).into();
    let run = match sample_faults(&command, &[], Reports::Budget, true) {
        Ok(run) if run.status.is_some_and(|status| status.success()) => run,
        other => {
            println!("skipped: {:?}", other.map(|run| run.status));
            return;
        }
    };
    let all: u64 = run.samples.iter().map(|sample| sample.weight).sum();
    println!("{} minor, {} samples stand for {all}, {} lost", run.minor, run.samples.len(), run.lost);
    assert!(all + run.lost > 65_536);
    // It may be so slow that each is within the budget, or get pages of 2 MiB.
    let stacks = run.samples.iter().filter(|sample| sample.stack.is_some()).count();
    if run.sampled_from.is_some() {
        assert!(stacks < 50_000, "{stacks}");
    }
    if run.recorded {
        assert!(run.samples.iter().all(|sample| sample.weight == 1), "each is recorded");
    }
}
