//! Builds the runtimes that the compiler driver links into programs and that `wear run` preloads, and hands
//! their paths to `include_bytes!`.
//!
//! They export `malloc`, `pthread_create` and the like, so they can't be dependencies: each is a package of
//! its own, built here with its own target directory. Every executable that links this crate carries their
//! bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let capture = here.join("../../observe/capture-runtime");
    for part in ["src", "build.rs", "exports.map", "Cargo.toml", "Cargo.lock", "../../base/abi"] {
        println!("cargo:rerun-if-changed={}", capture.join(part).display());
    }
    let library = build(&capture, &out.join("runtime"), "libstrandline_rt.so");
    println!("cargo:rustc-env=STRANDLINE_RUNTIME={}", library.display());
    let persist = here.join("../../observe/persist-runtime");
    let of_library = ["observed/src", "pmem/src", "sfr/src"].map(|part| format!("../../library/{part}"));
    let parts =
        ["src", "Cargo.toml", "Cargo.lock", "../../base/abi", "../../base/space/src"].map(str::to_owned);
    for part in parts.into_iter().chain(of_library) {
        println!("cargo:rerun-if-changed={}", persist.join(part).display());
    }
    let library = build(&persist, &out.join("persist"), "libstrandline_persist.so");
    println!("cargo:rustc-env=STRANDLINE_PERSIST_RUNTIME={}", library.display());
    let wear = here.join("../../observe/wear-runtime");
    for part in ["src", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", wear.join(part).display());
    }
    // The folder of the other one: they share what they are built from.
    let library = build(&wear, &out.join("persist"), "libstrandline_wear.so");
    println!("cargo:rustc-env=STRANDLINE_WEAR_RUNTIME={}", library.display());
    let tier = here.join("../../observe/tier-runtime");
    for part in ["src", "Cargo.toml", "Cargo.lock", "../../base/abi", "../wear-runtime/src"] {
        println!("cargo:rerun-if-changed={}", tier.join(part).display());
    }
    let library = build(&tier, &out.join("persist"), "libstrandline_tier.so");
    println!("cargo:rustc-env=STRANDLINE_TIER_RUNTIME={}", library.display());
}

/// Runs cargo on the runtime and returns the shared library.
fn build(package: &Path, target: &Path, name: &str) -> PathBuf {
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
    assert!(status.success(), "the runtime {} does not build", package.display());
    let triple = std::env::var("TARGET").unwrap_or_default();
    target.join(triple).join("release").join(name)
}
