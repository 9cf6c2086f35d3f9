//! Mistakes that an engine could have, for the tests of the crash checker: it must find each of them.

/// What is wrong with the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapFlaw {
    /// Nothing.
    None,
    /// A block is free when a region frees it, and not when that is durable.
    FreedEarly,
    /// A slab is in the caches of several threads.
    HandedOutTwice,
    /// What a region wrote to a block of whole chunks that it took is not waited for.
    FreshNotFenced,
    /// The pointer to a reserved block is durable before the block is taken.
    PublishedEarly,
}

/// What is wrong with an engine; nothing by default. An engine makes those of the mistakes that it can make.
pub trait Flaw: Send + Sync + 'static {
    /// What is written to a log is not flushed.
    const LOG_NOT_FLUSHED: bool = false;
    /// What is written to a log is not waited for.
    const LOG_NOT_FENCED: bool = false;
    /// What a record wants is stored in place before the record is durable.
    const APPLIED_EARLY: bool = false;
    /// Logs are given up without the places that they name being flushed.
    const PLACES_NOT_FLUSHED: bool = false;
    /// Logs are given up without the places of the last records being flushed.
    const OPEN_FORGOTTEN: bool = false;
    /// A place that was flushed, and written to again, is not flushed again.
    const WRITTEN_AGAIN_FORGOTTEN: bool = false;
    /// What recovery need not look at is noted before the places are durable.
    const NOTED_EARLY: bool = false;
    /// Records are written over while recovery would still use them, or those below them.
    const NOT_NOTED: bool = false;
    /// A log names words elsewhere that are not durable.
    const EXTENT_NOT_FENCED: bool = false;
    /// Memory that logs name is used as if they did not.
    const NOT_CHECKPOINTED: bool = false;
    /// An undo log that is full is begun again in the middle of its region; a spare page is written to while
    /// recovery would look there for what it held.
    const REUSED_EARLY: bool = false;
    /// Lines of spare pages are brought home without being flushed there.
    const HOME_NOT_FLUSHED: bool = false;
    /// The journal begins anew while the table that stands for it is not durable.
    const TABLE_NOT_FENCED: bool = false;
    /// Shadow copies are not flushed.
    const COPIES_NOT_FLUSHED: bool = false;
    /// The record that switches to shadow copies is written before they are durable.
    const SWITCHED_EARLY: bool = false;
    /// After memory has failed, it is gone on as if nothing had happened.
    const FAILURE_IGNORED: bool = false;
    /// Recovery goes by what a killed process stored, durable or not.
    const NOT_CONFIRMED: bool = false;
    /// A batch of regions is reported durable before it is fenced.
    const DUE_EARLY: bool = false;
    /// A long region does not wait for those that were committed before it.
    const OVERTAKES: bool = false;
    /// What the allocator does wrong.
    const HEAP: HeapFlaw = HeapFlaw::None;
}

macro_rules! flaws {
    ($($(#[$about:meta])* $name:ident $($flaw:ident)?;)*) => {
        $($(#[$about])* #[derive(Debug)] pub enum $name {} impl Flaw for $name { $(const $flaw: bool = true;)? })*
    };
}
flaws! {
    /// Nothing is wrong.
    Sound;
    /// See [`Flaw::LOG_NOT_FLUSHED`].
    LogNotFlushed LOG_NOT_FLUSHED;
    /// See [`Flaw::LOG_NOT_FENCED`].
    LogNotFenced LOG_NOT_FENCED;
    /// See [`Flaw::APPLIED_EARLY`].
    AppliedEarly APPLIED_EARLY;
    /// See [`Flaw::PLACES_NOT_FLUSHED`].
    PlacesNotFlushed PLACES_NOT_FLUSHED;
    /// See [`Flaw::OPEN_FORGOTTEN`].
    OpenForgotten OPEN_FORGOTTEN;
    /// See [`Flaw::WRITTEN_AGAIN_FORGOTTEN`].
    WrittenAgainForgotten WRITTEN_AGAIN_FORGOTTEN;
    /// See [`Flaw::NOTED_EARLY`].
    NotedEarly NOTED_EARLY;
    /// See [`Flaw::NOT_NOTED`].
    NotNoted NOT_NOTED;
    /// See [`Flaw::EXTENT_NOT_FENCED`].
    ExtentNotFenced EXTENT_NOT_FENCED;
    /// See [`Flaw::NOT_CHECKPOINTED`].
    NotCheckpointed NOT_CHECKPOINTED;
    /// See [`Flaw::REUSED_EARLY`].
    ReusedEarly REUSED_EARLY;
    /// See [`Flaw::HOME_NOT_FLUSHED`].
    HomeNotFlushed HOME_NOT_FLUSHED;
    /// See [`Flaw::TABLE_NOT_FENCED`].
    TableNotFenced TABLE_NOT_FENCED;
    /// See [`Flaw::COPIES_NOT_FLUSHED`].
    CopiesNotFlushed COPIES_NOT_FLUSHED;
    /// See [`Flaw::SWITCHED_EARLY`].
    SwitchedEarly SWITCHED_EARLY;
    /// See [`Flaw::FAILURE_IGNORED`].
    FailureIgnored FAILURE_IGNORED;
    /// See [`Flaw::NOT_CONFIRMED`].
    NotConfirmed NOT_CONFIRMED;
    /// See [`Flaw::DUE_EARLY`].
    DueEarly DUE_EARLY;
    /// See [`Flaw::OVERTAKES`].
    Overtakes OVERTAKES;
}

macro_rules! heap_flaws {
    ($($name:ident)*) => {
        $(#[doc = concat!("See [`HeapFlaw::", stringify!($name), "`].")] #[derive(Debug)] pub enum $name {}
        impl Flaw for $name { const HEAP: HeapFlaw = HeapFlaw::$name; })*
    };
}
heap_flaws! { FreedEarly HandedOutTwice FreshNotFenced PublishedEarly }
