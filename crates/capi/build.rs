//! Gives the shared library the name by which programs that were linked with it look for it, wherever it lay when they were.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstrandline.so");
}
