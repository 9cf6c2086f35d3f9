//! Parts of tests that need a process of their own: an ignored test of the same binary, run alone.

use std::env;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

const CHILD: &str = "STRANDLINE_TEST_CHILD";

/// The command that runs the ignored test `name` with `variables` in its environment.
pub fn command(name: &str, variables: &[(&str, &OsStr)]) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test knows its binary"));
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1").envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// Runs it to its end.
#[allow(dead_code)] // not every test binary does
pub fn run(name: &str, variables: &[(&str, &OsStr)]) {
    let output = command(name, variables).output().expect("a test binary can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that no test has would pass, too.
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whether this process was started by [`command`].
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}
