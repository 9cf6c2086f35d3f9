//! An open transaction.

/// Where a transaction's writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Private,
    Shared(u16),
}

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Tx {
    pub tid: u64,
    pub began_ns: u64,
    pub target: Option<Target>,
    pub files: Vec<u16>,
    /// Its pages, the last one being filled.
    pub pages: Vec<u32>,
    /// Pages taken that it has not come to.
    pub spare: Vec<u32>,
    /// Entries of the pages that are full, and of the last one.
    pub full: Vec<u8>,
    pub page: Vec<u8>,
    pub whole: Vec<u8>,
    /// The library ended it.
    pub aborted: bool,
}

impl Tx {
    pub(crate) fn has_written(&self, file: u16) -> bool {
        self.files.contains(&file)
    }

    pub(crate) fn all_pages(&mut self) -> Vec<u32> {
        self.pages.drain(..).chain(self.spare.drain(..)).collect()
    }
}
