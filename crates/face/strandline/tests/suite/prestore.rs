//! Pre-stores from C, C++ and Fortran: the header compiles everywhere, what it does is seen, and a processor without the
//! instructions executes none.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, compile, dump, has, number, ok, record, stdout};

const PROGRAM: &str = r#"
#include "strandline.h"
#include <stdio.h>

static char from[4096], to[4096] __attribute__((aligned(64)));

int main(void)
{
    int i;
    for (i = 0; i < 4096; i++)
        from[i] = (char)(i * 7);
    sl_prestore(from, 0, SL_CLEAN);
    sl_prestore((char *)((uintptr_t)(from + 64) & ~(uintptr_t)63) + 63, 2, SL_CLEAN);
    sl_prestore(to + 128, 192, SL_DEMOTE);
    sl_prestore(to + 640, 1, SL_DEMOTE | SL_CLEAN);
    sl_copy_skip(to + 1011, from + 1, 1000);
    sl_copy_skip(to, from, 3);
    sl_fence();
    printf("%d %d %d %d\n", sl_prestore_supported(SL_CLEAN) != 0, sl_prestore_supported(SL_DEMOTE) != 0,
           sl_prestore_supported(SL_DEMOTE | SL_CLEAN) != 0, sl_prestore_supported(0) != 0);
    for (i = 0; i < 4096; i++)
        if (to[i] != (i < 3 ? from[i] : i >= 1011 && i < 2011 ? from[i - 1010] : 0))
            return 1;
    return 0;
}
"#;

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/instrument/include")
}

/// Counts the lines of a dump that are `op`.
fn count(lines: &[String], op: &str) -> usize {
    lines.iter().filter(|line| line.split_whitespace().nth(1) == Some(op)).count()
}

/// What an emulated processor says that it has, or the reason to skip the test.
fn emulated(processor: &str, program: &Path) -> Option<String> {
    has("qemu-x86_64").then(|| {
        let output = ok(Command::new("qemu-x86_64").args(["-cpu", processor]).arg(program));
        stdout(&output).trim().to_owned()
    })
}

#[test]
fn the_header_compiles_without_a_warning_and_copies_right() {
    for (compiler, extension, standards) in [
        ("gcc", "c", &["c99", "c17"][..]),
        ("clang", "c", &["c99", "c17"]),
        ("g++", "cc", &["c++11", "c++20"]),
        ("clang++", "cc", &["c++11", "c++20"]),
    ] {
        if !has(compiler) {
            continue;
        }
        let scratch = Scratch::new();
        let file = scratch.file(&format!("p.{extension}"), PROGRAM);
        for standard in standards {
            for options in [&["-O0"][..], &["-O2", "-fPIC"], &["-O3", "-masm=intel"]] {
                ok(Command::new(compiler)
                    .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
                    .arg(format!("-std={standard}"))
                    .args(options)
                    .arg("-I")
                    .arg(include())
                    .arg("-o")
                    .arg(scratch.path("p"))
                    .arg(&file));
                ok(&mut Command::new(scratch.path("p")));
            }
        }
    }
}

#[test]
fn cxx_has_a_wrapper() {
    if !has("g++") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file(
        "p.cc",
        "#include \"strandline.h\"\n#include <vector>\nusing strandline::Prestore;\nint main() {\n\
         std::vector<double> v(100, 1.0);\nstrandline::prestore(v.data(), v.size(), Prestore::clean);\n\
         return strandline::prestore_supported(Prestore::clean) != (sl_prestore_supported(SL_CLEAN) != 0);\n}\n",
    );
    ok(Command::new("g++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(include())
        .args(["-o".as_ref(), scratch.path("p").as_os_str(), file.as_os_str()]));
    ok(&mut Command::new(scratch.path("p")));
}

#[test]
fn a_processor_without_the_instructions_executes_none() {
    let scratch = Scratch::new();
    let file = scratch.file("p.c", PROGRAM);
    ok(Command::new("gcc")
        .args(["-O2", "-static", "-I"])
        .arg(include())
        .arg("-o")
        .arg(scratch.path("p"))
        .arg(&file));
    // Emulators raise SIGILL for what their processor does not have. `max` has clwb, not cldemote.
    for (processor, says) in [("core2duo", "0 0 0 0"), ("Nehalem", "0 0 0 0"), ("max", "1 0 0 0")] {
        if let Some(said) = emulated(processor, &scratch.path("p")) {
            assert_eq!(said, says, "{processor}");
        }
    }
}

/// A recording is for the modelled machine, so it holds the pre-stores that the recording one can't execute.
#[test]
fn a_recording_holds_what_the_processor_lacks() {
    if !has("qemu-x86_64") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("p.c", PROGRAM);
    compile(scratch.dir(), "cc", "-O2 -o p p.c");
    record(&scratch, &[], &["qemu-x86_64", "-cpu", "Nehalem", "./p"]);
    let lines = dump(&scratch.path("t.slt"));
    assert_eq!((count(&lines, "clwb"), count(&lines, "cldemote")), (3, 4));
    assert!(lines.iter().filter(|line| line.contains(" clwb ")).all(|line| line.contains("main (p.c:")));
}

#[test]
fn aarch64_cleans_and_demotes() {
    if !has("aarch64-linux-gnu-gcc") || !has("qemu-aarch64") {
        return;
    }
    if !Path::new("/usr/aarch64-linux-gnu/include/stdio.h").exists() {
        println!("skipped: no C library for aarch64 (apt-get install libc6-dev-arm64-cross)");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("p.c", PROGRAM);
    ok(Command::new("aarch64-linux-gnu-gcc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-static", "-I"])
        .arg(include())
        .arg("-o")
        .arg(scratch.path("p"))
        .arg(&file));
    assert_eq!(stdout(&ok(Command::new("qemu-aarch64").arg(scratch.path("p")))).trim(), "1 1 1 0");
}

#[test]
fn pre_stores_are_events_of_their_callers() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        for level in ["-O0", "-O2"] {
            let scratch = Scratch::new();
            scratch.file("p.c", PROGRAM);
            compile(scratch.dir(), "cc", &format!("--compiler={compiler} {level} -o p p.c"));
            let info = record(&scratch, &[], &["./p"]);
            let lines = dump(&scratch.path("t.slt"));
            let context = format!("{compiler} {level}: {info:#}");
            assert_eq!(count(&lines, "clwb"), 2 + 1, "{context}");
            assert_eq!(count(&lines, "cldemote"), 3 + 1, "{context}");
            assert_eq!(count(&lines, "sfence"), 1, "{context}");
            // From 1011 on: 5 bytes, a word, 61 pieces of 16, a word, 3 bytes.
            assert_eq!((number(&info, "nt_stores"), number(&info, "nt_bytes")), (63, 992), "{context}");
            for op in [" clwb ", " cldemote ", " ntstore "] {
                let mut sites = lines.iter().filter(|line| line.contains(op));
                assert!(sites.all(|line| line.contains("main (p.c:")), "{op} {context}");
            }
        }
    }
}

const FORTRAN: &str = "
program sweep
  use, intrinsic :: iso_c_binding
  use strandline
  implicit none
  real(c_double), target :: u(34, 10), w(34, 10)
  integer :: i1, i2
  do i2 = 1, 10
    do i1 = 1, 34
      u(i1, i2) = i1 * i2
    end do
    call sl_prestore(loc(u(2, i2)), 32 * c_sizeof(u(1, 1)), sl_clean)
    call sl_prestore(c_loc(u(2, i2)), 32 * c_sizeof(u(1, 1)), sl_demote)
    call sl_copy_skip(w(1, i2), u(1, i2), 34 * c_sizeof(u(1, 1)))
  end do
  call sl_fence()
  print '(l1, 1x, l1, 1x, l1)', maxval(abs(u - w)) < 1, sl_prestore_supported(sl_clean), sl_prestore_supported(sl_demote)
end program
";

#[test]
fn fortran_has_a_module() {
    if !has("gfortran") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("sweep.f90", FORTRAN);
    let include = include();
    for name in ["strandline.f90", "strandline_fortran.c", "strandline.h"] {
        std::fs::copy(include.join(name), scratch.path(name)).expect("the file is copied");
    }
    let strict = ["-Wall", "-Wextra", "-Werror", "-O2"];
    let plainly = |compiler: &str, arguments: &[&str]| {
        ok(Command::new(compiler).current_dir(scratch.dir()).args(strict).args(arguments));
    };
    plainly("gcc", &["-c", "strandline_fortran.c"]);
    plainly("gfortran", &["-o", "plain", "strandline.f90", "sweep.f90", "strandline_fortran.o"]);
    let said = stdout(&ok(Command::new("./plain").current_dir(scratch.dir())));
    assert!(said.starts_with("T "), "the copy is whole: {said}");

    compile(scratch.dir(), "cc", "-O2 -c strandline_fortran.c");
    compile(
        scratch.dir(),
        "cc",
        "--compiler=gfortran -O2 -o sweep strandline.f90 sweep.f90 strandline_fortran.o",
    );
    let info = record(&scratch, &[], &["./sweep"]);
    let lines = dump(&scratch.path("t.slt"));
    // Columns of 272 bytes from element 2 on: 256 bytes, which touch 5 lines unless they start at one.
    let (clean, demote) = (count(&lines, "clwb"), count(&lines, "cldemote"));
    assert!((40..=50).contains(&clean) && clean == demote, "{clean} {demote} {info:#}");
    assert_eq!(number(&info, "nt_bytes"), 10 * 34 * 8, "{info:#}");
    assert_eq!(number(&info, "fences"), 1, "{info:#}");
}
