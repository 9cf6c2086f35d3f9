//! What a process can choose.

/// Choices of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Makes a commit durable before its data are visible in memory. Otherwise, as in the source, another
    /// thread may read data that a crash then loses.
    /// Shared regions always do it this way round, or a process that is killed would leave half a
    /// transaction to the others.
    pub durable_first: bool,
    /// When every cache page is dirty, redo writes entries to the file itself and goes on. Otherwise, as in
    /// the source, it waits for write-back.
    pub bypass: bool,
    /// Write-back begins above this share of the cache's pages, in percent; 30 in the source.
    pub start_percent: u32,
    /// It ends below this one; 10 in the source.
    pub stop_percent: u32,
    /// Transactions that are open for longer are aborted, in nanoseconds. The source has no number.
    pub abort_after_ns: u64,
    /// A planted fault, for tests of the checker.
    #[doc(hidden)]
    pub flaw: Option<Flaw>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durable_first: false,
            bypass: true,
            start_percent: 30,
            stop_percent: 10,
            abort_after_ns: 10_000_000_000,
            flaw: None,
        }
    }
}

/// Faults that the crash checker must find.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A transaction is linked before its pages are durable.
    LinkBeforeContent,
    /// The pages of a transaction are free before the list leads past it.
    FreeBeforeDelete,
    /// A transaction is deleted before what redo made of it is durable.
    DeleteBeforeRedo,
    /// A cache page says what it holds before it holds it.
    TagBeforeContent,
    /// A cache page is clean before the file is synced.
    CleanBeforeSync,
    /// Recovery replays the log first and writes cache pages over it.
    LogBeforeCache,
    /// Recovery erases before it syncs.
    EraseBeforeSync,
    /// Who adopts a dead process's state deletes its log before its cache pages.
    ListBeforeTags,
}
