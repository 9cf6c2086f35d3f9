//! Builds the runtime that the compiler driver links into observed programs, and hands its path to
//! `include_bytes!`.
//!
//! The runtime exports `malloc`, `pthread_create` and the like, so it can't be a dependency: it is a package
//! of its own, built here with its own target directory. Every executable that links this crate carries its
//! bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let runtime = here.join("../../observe/capture-runtime");
    for part in ["src", "build.rs", "exports.map", "Cargo.toml", "Cargo.lock", "../../base/abi"] {
        println!("cargo:rerun-if-changed={}", runtime.join(part).display());
    }
    let library = build(&runtime, &out.join("runtime"));
    println!("cargo:rustc-env=STRANDLINE_RUNTIME={}", library.display());
}

/// Runs cargo on the runtime and returns the shared library.
fn build(package: &Path, target: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").expect("cargo sets it");
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    if let Some(triple) = std::env::var_os("TARGET") {
        command.arg("--target").arg(&triple);
    }
    // Set by clippy, coverage and the outer build for the outer build only.
    for outer in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(outer);
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "the capture runtime ({}) does not build", package.display());
    let triple = std::env::var("TARGET").unwrap_or_default();
    target.join(triple).join("release/libstrandline_rt.so")
}
