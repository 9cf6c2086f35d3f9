//! What users install, used where nothing else is: the Debian packages in a root of their own with the C library alone, the
//! C library by pkg-config, CMake and Meson, the wheel in a root that has Python alone, `cargo install`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::capi::library;
use crate::common::{Scratch, has, ok, stdout};
use crate::root;

/// The folder in which the binary was built.
fn built() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_strandline"));
    binary.parent().expect("a folder").to_owned()
}

fn package(scratch: &Scratch) -> PathBuf {
    let out = scratch.path("out");
    ok(Command::new(root().join("packages/deb"))
        .arg(&out)
        .env("LIBRARY", library())
        .env("STRIP", "yes")
        .env("COMPRESS", "none"));
    out
}

fn unpack(out: &Path, name: &str, to: &Path) {
    let mut all = fs::read_dir(out).expect("packages").flatten().map(|entry| entry.path());
    let starts =
        |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
    let file = all.find(|path| starts(path)).unwrap_or_else(|| panic!("no {name}*.deb"));
    ok(Command::new("dpkg-deb").arg("-x").arg(file).arg(to));
}

/// Copies what a program's loader needs into the root.
fn with_libraries(program: &Path, root: &Path) {
    let listed = stdout(&ok(Command::new("ldd").arg(program)));
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        if !to.exists() {
            fs::copy(library, &to).expect("copied");
        }
    }
}

/// A command in that root, in namespaces of its own.
fn inside(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    fs::create_dir_all(root.join("proc")).expect("made");
    command.args(["--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]);
    command.arg("--root").arg(root).args(["--wd", "/"]).args(words);
    command.env("PATH", "/usr/bin:/bin").env("HOME", "/");
    command
}

fn namespaces() -> bool {
    let able = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
    let able = able.is_ok_and(|status| status.success());
    if !able {
        println!("skipped: no namespaces (strandline doctor says what would help)");
    }
    able
}

#[test]
#[ignore = "packages in an empty root: ./test --long"]
fn the_debian_package_works_in_an_empty_root() {
    if !has("dpkg-deb") || !has("objdump") || !namespaces() {
        return;
    }
    let scratch = Scratch::new();
    let out = package(&scratch);
    let empty = scratch.path("root");
    unpack(&out, "strandline_", &empty);
    with_libraries(&empty.join("usr/bin/strandline"), &empty);
    fs::create_dir_all(empty.join("tmp")).expect("made");
    let run = |words: &[&str]| stdout(&ok(&mut inside(&empty, words)));
    assert!(run(&["strandline", "--version"]).starts_with("strandline 0."));
    let found: Value = serde_json::from_str(&run(&["strandline", "doctor", "--json"])).expect("JSON");
    let limited =
        |verb: &str| found["limits"].as_array().expect("a list").iter().any(|one| one["verb"] == verb);
    assert!(limited("cc"), "there is no compiler in it: {found:#}");
    let report = run(&["strandline", "profile", "--ops", "2000", "--out", "/tmp/report", "--json"]);
    assert!(serde_json::from_str::<Value>(&report).is_ok());
    assert!(empty.join("tmp/report/report.html").is_file());
    // Each verb has a page that gunzip and man can read, and bash takes the completions.
    let pages = fs::read_dir(empty.join("usr/share/man/man1")).expect("pages").count();
    assert!(pages > 25, "{pages}");
    if has("man") {
        let page = empty.join("usr/share/man/man1/strandline-check.1.gz");
        let shown = stdout(&ok(Command::new("man").arg("-l").arg(page).env("MANPAGER", "cat")));
        assert!(shown.contains("SYNOPSIS") && shown.contains("--recover"), "{shown}");
    }
    let script = empty.join("usr/share/bash-completion/completions/strandline");
    let ask = "source \"$0\"; COMP_WORDS=(strandline doc); COMP_CWORD=1; _strandline strandline doc strandline; echo ${COMPREPLY[*]}";
    assert_eq!(stdout(&ok(Command::new("bash").args(["-c", ask]).arg(script))).trim(), "doctor");
}

/// A Meson project that finds the library, if there is Meson.
fn by_meson(scratch: &Scratch, sysroot: &Path, source: &Path) -> Option<PathBuf> {
    if !has("meson") {
        return None;
    }
    let folder = scratch.path("meson");
    fs::create_dir(&folder).expect("made");
    fs::copy(source, folder.join("x.c")).expect("copied");
    fs::write(
        folder.join("meson.build"),
        "project('x', 'c')\nexecutable('x', 'x.c', dependencies: dependency('strandline', version: '>=0.1'))\n",
    )
    .expect("written");
    let build = folder.join("build");
    ok(Command::new("meson")
        .arg("setup")
        .arg(&build)
        .arg(&folder)
        .env("PKG_CONFIG_SYSROOT_DIR", sysroot)
        .env("PKG_CONFIG_LIBDIR", sysroot.join("usr/lib/pkgconfig")));
    ok(Command::new("meson").arg("compile").arg("-C").arg(&build));
    Some(build.join("x"))
}

#[test]
#[ignore = "packages in an empty root: ./test --long"]
fn the_c_library_is_found_by_pkg_config_cmake_and_meson() {
    if !has("dpkg-deb") || !has("objdump") || !has("gcc") || !namespaces() {
        return;
    }
    let scratch = Scratch::new();
    let out = package(&scratch);
    let sysroot = scratch.path("sysroot");
    unpack(&out, "libstrandline-dev_", &sysroot);
    let source = root().join("crates/face/strandline/tests/programs/pool_version.c");
    let mut programs = Vec::new();
    if has("pkg-config") {
        let flags = stdout(&ok(Command::new("pkg-config")
            .args(["--cflags", "--libs", "strandline"])
            .env("PKG_CONFIG_SYSROOT_DIR", &sysroot)
            .env("PKG_CONFIG_LIBDIR", sysroot.join("usr/lib/pkgconfig"))
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")));
        let program = scratch.path("by-pkg-config");
        ok(Command::new("gcc").arg("-o").arg(&program).arg(&source).args(flags.split_whitespace()));
        programs.push(program);
    }
    if has("cmake") {
        let folder = scratch.path("cmake");
        fs::create_dir(&folder).expect("made");
        let text = format!(
            "cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(strandline 0.1 REQUIRED)\n\
             add_executable(shared {0})\ntarget_link_libraries(shared strandline::strandline)\n\
             add_executable(alone {0})\ntarget_link_libraries(alone strandline::static)\n",
            source.display()
        );
        fs::write(folder.join("CMakeLists.txt"), text).expect("written");
        let build = folder.join("build");
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", sysroot.join("usr").display());
        ok(Command::new("cmake").arg("-S").arg(&folder).arg("-B").arg(&build).arg(prefix));
        ok(Command::new("cmake").arg("--build").arg(&build));
        programs.extend([build.join("shared"), build.join("alone")]);
        // Another minor version may have another interface.
        let wrong =
            fs::read_to_string(folder.join("CMakeLists.txt")).expect("text").replace("line 0.1", "line 0.2");
        fs::write(folder.join("CMakeLists.txt"), wrong).expect("written");
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", sysroot.join("usr").display());
        let refused = Command::new("cmake")
            .arg("-S")
            .arg(&folder)
            .arg("-B")
            .arg(folder.join("no"))
            .arg(prefix)
            .output();
        assert!(!refused.expect("cmake").status.success());
    }
    programs.extend(by_meson(&scratch, &sysroot, &source));
    assert!(!programs.is_empty());
    // Each in a root that has the library, what the loader needs, and nothing else.
    for program in programs {
        let empty = scratch.path("root");
        fs::remove_dir_all(&empty).ok();
        fs::create_dir_all(empty.join("usr/lib")).expect("made");
        fs::copy(&program, empty.join("program")).expect("copied");
        let library = sysroot.join("usr/lib/libstrandline.so.0");
        fs::copy(&library, empty.join("usr/lib/libstrandline.so.0")).expect("copied");
        with_libraries(&library, &empty);
        with_libraries(&program, &empty);
        let mut run = inside(&empty, &["/program"]);
        let printed = stdout(&ok(run.env("LD_LIBRARY_PATH", "/usr/lib")));
        assert_eq!(printed, concat!(env!("CARGO_PKG_VERSION"), "\n"), "{}", program.display());
    }
}

/// Copies an interpreter with its standard library and what these load, and nothing that is installed beside
/// it. Gives the interpreter's path in the root.
fn with_python(root: &Path) -> Option<PathBuf> {
    let ask = "import os, sys, sysconfig; assert sys.version_info >= (3, 10); \
               print(os.path.realpath(sys.executable), \
               sysconfig.get_path('stdlib'), sep='\\n')";
    let said =
        Command::new("python3").args(["-c", ask]).output().ok().filter(|said| said.status.success())?;
    let said = String::from_utf8(said.stdout).expect("UTF-8");
    let (python, library) = said.trim().split_once('\n').expect("two lines");
    for path in [python, library] {
        let to = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        ok(Command::new("cp").args(["--recursive", "--dereference", path]).arg(&to));
        for beside in ["site-packages", "dist-packages", "test"] {
            fs::remove_dir_all(to.join(beside)).ok();
        }
    }
    with_libraries(Path::new(python), root);
    for loaded in fs::read_dir(Path::new(library).join("lib-dynload")).into_iter().flatten().flatten() {
        with_libraries(&loaded.path(), root);
    }
    Some(python.into())
}

/// The stable wheel that `./test --long` has built, with pip, which is a folder of Python code.
fn wheel_and_pip() -> Option<(PathBuf, PathBuf)> {
    let found = |folder: PathBuf, fits: &dyn Fn(&str) -> bool| {
        let all = fs::read_dir(folder).into_iter().flatten().flatten();
        all.map(|entry| entry.path())
            .find(|path| fits(&path.file_name().unwrap_or_default().to_string_lossy()))
    };
    let wheel =
        found(root().join("target/wheels"), &|name| name.contains("-abi3-") && name.ends_with(".whl"));
    let library = found(root().join("target/python-venv/lib"), &|name| name.starts_with("python3"));
    let both = wheel.zip(library.map(|folder| folder.join("site-packages/pip")).filter(|pip| pip.is_dir()));
    if both.is_none() {
        println!("skipped: no wheel in target/wheels, or no target/python-venv (./test --long makes them)");
    }
    both
}

#[test]
#[ignore = "packages in an empty root: ./test --long"]
fn the_wheel_works_where_there_is_python_alone() {
    let Some((wheel, pip)) = wheel_and_pip().filter(|_| namespaces()) else { return };
    let scratch = Scratch::new();
    let empty = scratch.path("root");
    fs::create_dir_all(empty.join("tmp")).expect("made");
    let Some(python) = with_python(&empty) else {
        println!("skipped: no Python 3.10 or later");
        return;
    };
    let python = python.to_str().expect("UTF-8");
    ok(Command::new("cp").arg("--recursive").arg(&pip).arg(empty.join("tmp/pip")));
    let name = wheel.file_name().expect("a file").to_str().expect("UTF-8");
    fs::copy(&wheel, empty.join("tmp").join(name)).expect("copied");
    let run = |words: &[&str]| stdout(&ok(inside(&empty, words).env("PYTHONPATH", "/tmp")));
    run(&[python, "-m", "venv", "--without-pip", "/venv"]);
    run(&["/venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", &format!("/tmp/{name}")]);
    // What every system has beside Python: the libraries of the module, those of the C compiler.
    let ask = "import importlib.util; print(importlib.util.find_spec('strandline').origin)";
    let package = run(&["/venv/bin/python", "-c", ask]);
    let module = Path::new(package.trim().trim_start_matches('/')).with_file_name("_native.abi3.so");
    with_libraries(&empty.join(module), &empty);
    // From here on without pip's folder.
    let run = |words: &[&str]| stdout(&ok(&mut inside(&empty, words)));
    assert!(run(&["/venv/bin/strandline", "--version"]).starts_with("strandline 0."));
    let found: Value =
        serde_json::from_str(&run(&["/venv/bin/strandline", "doctor", "--json"])).expect("JSON");
    assert!(found["limits"].is_array(), "{found:#}");
    let program = "import strandline as sl\n\
        report = sl.simulate(sl.Workload('hash-scatter', operations=2000), ['dram', 'xpoint'])\n\
        assert '<html' in report.html and len(report['machines']) == 2\n\
        work = sl.Workload('hash-scatter', operations=200)\n\
        table = sl.sweep(work, {'machine': ['dram', 'xpoint']}, output='/tmp/s.parquet', store='/tmp/s')\n\
        print(len(table))";
    assert_eq!(run(&["/venv/bin/python", "-c", program]).trim(), "2");
}

#[test]
#[ignore = "builds the workspace: ./test --long"]
fn cargo_installs_the_command_line_from_a_path() {
    let scratch = Scratch::new();
    let to = scratch.path("installed");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args([
        "install",
        "--quiet",
        "--locked",
        "--offline",
        "--path",
        "crates/face/strandline",
    ]);
    if !built().ends_with("release") {
        cargo.arg("--debug");
    }
    cargo.arg("--target-dir").arg(built().parent().expect("the target folder")).arg("--root").arg(&to);
    ok(&mut cargo);
    let installed = to.join("bin/strandline");
    let found = stdout(&ok(Command::new(&installed).args(["doctor", "--json"])));
    assert!(serde_json::from_str::<Value>(&found).is_ok(), "{found}");
}

/// cargo-deb takes its list from the manifest; it must be the one that `packages/stage` makes.
#[test]
fn cargo_deb_packs_what_the_script_packs() {
    let manifest =
        fs::read_to_string(root().join("crates/face/strandline/Cargo.toml")).expect("the manifest");
    let scratch = Scratch::new();
    ok(Command::new(root().join("packages/stage")).arg(scratch.path("root")).env("LIBRARY", library()));
    let mut folders = std::collections::BTreeSet::new();
    let mut open = vec![scratch.path("root")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => {
                    let path = path.strip_prefix(scratch.path("root")).expect("below").to_owned();
                    folders.insert(path.parent().expect("a folder").display().to_string());
                }
            }
        }
    }
    let for_c = |folder: &&String| folder.starts_with("usr/lib") || folder.starts_with("usr/include");
    let packed: Vec<&String> = folders.iter().filter(|folder| !for_c(folder)).collect();
    assert!(packed.len() >= 5, "{packed:?}");
    for folder in packed {
        assert!(manifest.contains(&format!("\"{folder}/\"")), "no asset of cargo-deb goes to {folder}/");
    }
}
