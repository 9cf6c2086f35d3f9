//! Makes `strandline_tls` an exported symbol, for the accesses in line.
//!
//! It is thread-local with a fixed layout, which stable Rust can't declare, so `global_asm!` defines it; but
//! rustc exports from a `cdylib` only its own items. A second version script adds the symbol: lld, which is
//! x86-64's default linker, joins the two. Elsewhere nothing is in line and nothing needs the symbol.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=exports.map");
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if target == "x86_64" {
        // Relative to this folder, where the linker runs: cargo keeps this line when the checkout, or what
        // was built, moves.
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script=exports.map");
    }
}
