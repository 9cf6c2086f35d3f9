//! Gives the shared library the name by which programs that were linked with it look for it, wherever it lay
//! when they were. The major version is part of it: a library that breaks programs gets another name.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let name = concat!("libstrandline.so.", env!("CARGO_PKG_VERSION_MAJOR"));
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    // A program that was linked with the library where cargo puts it finds it there by that name.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let beside = out.ancestors().nth(3).expect("it is PROFILE/build/PACKAGE/out").join(name);
    if fs::read_link(&beside).ok().as_deref() != Some(Path::new("libstrandline.so")) {
        // What is there, if anything, is not that link.
        _ = fs::remove_file(&beside);
        if let Err(error) = symlink("libstrandline.so", &beside) {
            println!("cargo:warning={}: {error}: programs find no shared library there", beside.display());
        }
    }
}
