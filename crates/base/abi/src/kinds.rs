//! Names of kinds of memory: ours and memkind's, as files of kinds have them.
//!
//! `strandline plan` checks such a file and the library inside the program carries it out; both take the names from here.

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The fast node.
    Fast,
    /// The slow node.
    Slow,
    /// Both, by weights if the kernel has them.
    Interleave,
}

/// Every name and its kind; ours first.
pub const KINDS: [(&str, Kind); 11] = [
    ("fast", Kind::Fast),
    ("slow", Kind::Slow),
    ("interleave", Kind::Interleave),
    ("MEMKIND_DEFAULT", Kind::Fast),
    ("MEMKIND_REGULAR", Kind::Fast),
    ("MEMKIND_LOWEST_LATENCY_LOCAL", Kind::Fast),
    ("MEMKIND_DAX_KMEM", Kind::Slow),
    ("MEMKIND_DAX_KMEM_ALL", Kind::Slow),
    ("MEMKIND_HIGHEST_CAPACITY", Kind::Slow),
    ("MEMKIND_INTERLEAVE", Kind::Interleave),
    ("MEMKIND_DAX_KMEM_INTERLEAVE", Kind::Interleave),
];

impl Kind {
    /// By one of the names in [`KINDS`]; `None` for any other.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|(one, _)| *one == name).map(|&(_, kind)| kind)
    }

    /// Our name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fast => "fast",
            Kind::Slow => "slow",
            Kind::Interleave => "interleave",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_name_and_memkinds() {
        for kind in [Kind::Fast, Kind::Slow, Kind::Interleave] {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert!(KINDS.iter().filter(|(_, one)| *one == kind).count() > 1, "{kind:?}");
        }
        assert_eq!(Kind::named("MEMKIND_DAX_KMEM_INTERLEAVE"), Some(Kind::Interleave));
        assert_eq!(Kind::named("Fast"), None);
    }
}
