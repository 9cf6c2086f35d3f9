//! The mistakes that the source's text permits or makes easy, one variant each.

use serde::Serialize;

/// A mistake in one of the model's actors. The tests show for each a schedule in which an invariant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flaw {
    /// The walker sets bit 5 whatever the entry has become since it was read.
    BlindLock,
    /// The walker publishes the page before the table's entry says that it is used (the source's order).
    PublishFirst,
    /// The walker leaves bit 5 set when the table is empty.
    KeepsLock,
    /// The walker waits for "lock clear and present set", as the source words it: accessed is set for good
    /// then.
    WaitsForAccessed,
    /// The kernel's handler fills a marked entry without its lock.
    HandlerIgnoresLock,
    /// The kernel's handler takes a marked entry for a swapped page.
    HandlerSeesSwap,
    /// Marking works without the lock of the page tables and without looking whether the region is still
    /// there.
    MarkUnlocked,
    /// Unmapping clears an entry while the walker fills it.
    ZapIgnoresLock,
    /// Unmapping leaves marked entries: they are not present.
    ZapSkipsMarked,
    /// Unmapping does not look for pages that are not accounted for.
    NoTeardownScan,
    /// Unmapping frees such a page first and looks then.
    ScanAfterFree,
    /// Unmapping frees a page while another core may still be within an access to it.
    NoShootdown,
    /// Teardown and delayed work do not exclude each other.
    NoTableLock,
    /// A change of protection leaves marked entries as they are.
    ProtectSkipsMarked,
    /// A change of protection rewrites an entry without its lock.
    ProtectIgnoresLock,
    /// The child's entries name the parent.
    ForkKeepsTgid,
    /// The child's entries are copied with the lock that a walker holds.
    ForkCopiesLock,
    /// `fork` shares a page that is not accounted for.
    ForkSkipsScan,
    /// Disabling frees the tables' pages while a walker may have read one.
    DisableWhileWalking,
    /// Disabling forgets the pages that are not accounted for.
    DisableDropsUsed,
    /// Where memory is short, delayed work advances the head over an entry that it could not fill and gives
    /// up the rest.
    HeadPassesHole,
    /// The handler puts a table of small pages where the walker fills a huge one.
    SplitIgnoresLock,
    /// `mremap` leaves marked entries where they are: they are not present.
    MoveSkipsMarked,
    /// `mremap` moves an entry while the walker fills it.
    MoveIgnoresLock,
    /// Swap-off takes a marked entry for a swapped page and reads it in.
    SwapOffSeesSwap,
    /// Pages that the walker mapped are charged to no memory group.
    NoCharge,
    /// Marking does not leave executable regions out, and the walker always sets NX.
    MarksCode,
    /// Exit gives the TGID back before all pages are accounted for.
    ExitDropsTgid,
    /// Disabling empties the tables and leaves their heads where they were: what is filled later, the walker does not reach.
    DisableKeepsHead,
    /// Enabling and disabling do not exclude each other.
    EnableUnlocked,
    /// The walker writes page and permissions first and the rest of the entry in a second store (the source's
    /// list of bits).
    PublishInParts,
    /// Delayed work fills an entry again without accounting for the page that the walker took from it.
    WorkSkipsUsed,
    /// Teardown looks into one core's tables only.
    ScanSkipsCores,
    /// Teardown does not look into the tables of huge pages.
    ScanSkipsHuge,
    /// Marking for huge pages takes the place of a table of small ones.
    MarkOverTable,
    /// `fork` takes a marked entry for a swapped page.
    ForkSeesSwap,
    /// `fork` leaves the parent's page writable.
    ForkKeepsWritable,
    /// `fork` leaves the parent's huge page writable.
    ForkKeepsHugeWritable,
    /// `fork` takes no huge entry along, and the child has a small page in the place of one that was written.
    ForkSkipsHuge,
    /// The child runs before its entries are copied: it gets pages that the parent's table handed out since.
    ForkLate,
    /// Copy-on-write makes a shared page writable instead of copying it.
    CopyKeepsShared,
    /// Unmapping takes a marked entry for a swapped page, and frees a slot of the swap device that is
    /// another's.
    ZapSeesSwap,
}

impl Flaw {
    /// All.
    pub const ALL: [Flaw; 42] = [
        Flaw::BlindLock,
        Flaw::PublishFirst,
        Flaw::KeepsLock,
        Flaw::WaitsForAccessed,
        Flaw::HandlerIgnoresLock,
        Flaw::HandlerSeesSwap,
        Flaw::MarkUnlocked,
        Flaw::ZapIgnoresLock,
        Flaw::ZapSkipsMarked,
        Flaw::NoTeardownScan,
        Flaw::ScanAfterFree,
        Flaw::NoShootdown,
        Flaw::NoTableLock,
        Flaw::ProtectSkipsMarked,
        Flaw::ProtectIgnoresLock,
        Flaw::ForkKeepsTgid,
        Flaw::ForkCopiesLock,
        Flaw::ForkSkipsScan,
        Flaw::DisableWhileWalking,
        Flaw::DisableDropsUsed,
        Flaw::HeadPassesHole,
        Flaw::SplitIgnoresLock,
        Flaw::MoveSkipsMarked,
        Flaw::MoveIgnoresLock,
        Flaw::SwapOffSeesSwap,
        Flaw::NoCharge,
        Flaw::MarksCode,
        Flaw::ExitDropsTgid,
        Flaw::DisableKeepsHead,
        Flaw::EnableUnlocked,
        Flaw::PublishInParts,
        Flaw::WorkSkipsUsed,
        Flaw::ScanSkipsCores,
        Flaw::ScanSkipsHuge,
        Flaw::MarkOverTable,
        Flaw::ForkSeesSwap,
        Flaw::ForkKeepsWritable,
        Flaw::ForkKeepsHugeWritable,
        Flaw::ForkSkipsHuge,
        Flaw::ForkLate,
        Flaw::CopyKeepsShared,
        Flaw::ZapSeesSwap,
    ];
}
