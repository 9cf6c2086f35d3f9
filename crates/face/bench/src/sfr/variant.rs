//! What is compared.

use crate::error::Error;

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// By the machine's compiler, with no persistency.
    Plain,
    /// With hooks, and its data where they find nothing to do.
    Hooks,
    /// With hooks, and its data in a pool.
    Pool,
}

/// One way to run the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SfrVariant {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// How the program is built.
    pub(super) build: Build,
}

/// All of them; those built for a pool are named as their designs.
pub const VARIANTS: [SfrVariant; 7] = [
    SfrVariant { name: "plain", summary: "the machine's compiler; nothing survives", build: Build::Plain },
    SfrVariant {
        name: "hooks",
        summary: "instrumented, data outside persistent memory: what hooks cost that have nothing to do",
        build: Build::Hooks,
    },
    SfrVariant {
        name: "none",
        summary: "in a pool without persistency: the upper bound",
        build: Build::Pool,
    },
    SfrVariant { name: "coupled", summary: "SFRs, committed at each release", build: Build::Pool },
    SfrVariant { name: "decoupled", summary: "SFRs, committed by a pruner", build: Build::Pool },
    SfrVariant { name: "strand", summary: "SFRs, logged on strands", build: Build::Pool },
    SfrVariant {
        name: "atlas",
        summary: "outermost critical sections, committed by a helper",
        build: Build::Pool,
    },
];

/// Those of these names; all if none is named.
pub(super) fn chosen(names: &[String]) -> Result<Vec<SfrVariant>, Error> {
    if names.is_empty() {
        return Ok(VARIANTS.to_vec());
    }
    let find = |name: &String| {
        let found = VARIANTS.into_iter().find(|variant| variant.name == name);
        let known = || VARIANTS.iter().map(|variant| variant.name.to_owned()).collect();
        found.ok_or_else(|| Error::NoContender { name: name.clone(), known: known() })
    };
    names.iter().map(find).collect()
}
