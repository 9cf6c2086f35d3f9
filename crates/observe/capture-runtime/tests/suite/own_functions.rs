//! Programs that define functions of the C library themselves: the runtime calls none of them on its own
//! account.

use std::process::Command;

use crate::support::program::{Program, runtime};
use crate::support::session::{Settings, TestSession};
use crate::support::{no_runs, text};
use abi::kind;

#[test]
fn a_program_that_has_its_own_is_recorded_and_never_called_back() {
    let program = Program::build(&["own_functions.c"], &["-O1", "-fno-builtin"]);
    let file = std::env::temp_dir().join(format!("strandline-own-functions-{}", std::process::id()));
    let file = file.to_str().expect("UTF-8");
    let pmem: &'static str = Box::leak(format!("{file}*\0").into_boxed_str());
    let session = TestSession::new(&Settings { pmem, chunk_bytes: 4096, ..Settings::default() });
    let collected = session.run(program.command(&[file]));
    assert!(collected.output.status.success(), "{:?}", collected.output);
    let wanted = "0 clocks, 0 environments, 0 seeks, 0 masks, 0 lists, 0 copies, 0 fills, \
                  0 compares, 0 lengths\n\
                  1 abcdefg\n";
    assert_eq!(collected.text(), wanted);
    // What was recorded can be read from one end to the other, and is all there.
    let threads = collected.threads(no_runs);
    let records: Vec<_> = threads.into_values().flatten().collect();
    assert!(records.iter().any(|record| record.kind == kind::PHASE && text(record, 0) == b"work"));
    assert!(records.iter().filter(|record| record.kind == kind::ACCESS).count() >= 200_000);
    assert!(session.modules().len() > 1, "the program's libraries are listed");
}

/// Imported under its plain name, a function may be the program's. Whoever adds one here says why that is
/// right.
#[test]
fn nothing_else_is_imported_under_a_name_that_programs_define() {
    let library = runtime().join("libstrandline_rt.so");
    let output = Command::new("nm").args(["-D", "--undefined-only"]).arg(library).output().expect("nm runs");
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let names = listed.lines().filter_map(|line| line.split_once(" U ")).map(|(_, name)| name);
    let names: Vec<_> = names.map(|name| name.split('@').next().unwrap_or(name)).collect();
    assert!(names.contains(&"dlsym"), "{listed}");
    // Called where the program asks for that very function, and for nothing else.
    let asked_for = [
        "memchr",
        "memrchr",
        "strcasecmp",
        "strchr",
        "strcmp",
        "strcspn",
        "strncasecmp",
        "strncmp",
        "strnlen",
        "strpbrk",
        "strrchr",
        "strspn",
        "strstr",
        "swab",
        "vsnprintf",
        "vsprintf",
        "wcslen",
        "wcsnlen",
    ];
    // Who replaces these replaces the dynamic linker or the threads.
    let replaced_with_all = [
        "dlinfo",
        "dlopen",
        "dlsym",
        "pthread_attr_destroy",
        "pthread_attr_getstacksize",
        "pthread_attr_init",
        "pthread_key_create",
        "pthread_self",
        "pthread_setspecific",
    ];
    for name in names {
        // Two underscores: a name that programs may not define.
        let known = name.starts_with("__") || asked_for.contains(&name) || replaced_with_all.contains(&name);
        assert!(known, "the runtime imports {name}");
    }
}
