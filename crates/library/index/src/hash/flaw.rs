//! Mistakes that a hash table could have, for the tests of the crash checker: it must find each of them.

/// What is wrong with a table; nothing by default.
pub trait Flaw: Send + Sync + 'static {
    /// All slots have the same tag, so that halves of two pairs make a third.
    const CONSTANT_TAG: bool = false;
    /// An insert does not wait until its slot is durable.
    const NOT_FENCED: bool = false;
    /// An update erases the old pair before the new one is durable.
    const ERASED_EARLY: bool = false;
    /// A removal does not wait for an erasure of the same key that may not be durable.
    const OLD_FORGOTTEN: bool = false;
    /// A segment gives up half of its hashes before the new segment is durable.
    const LINKED_EARLY: bool = false;
    /// Pairs are taken out of a segment before it gives up their hashes.
    const MOVED_EARLY: bool = false;
    /// An extent is in use before its table is durable.
    const EXTENT_EARLY: bool = false;
}

macro_rules! flaws {
    ($($(#[$about:meta])* $name:ident $($flaw:ident)?;)*) => {
        $(
            $(#[$about])* #[derive(Debug)] pub enum $name {}
            impl Flaw for $name { $(const $flaw: bool = true;)? }
        )*
    };
}
flaws! {
    /// Nothing is wrong.
    Sound;
    /// See [`Flaw::CONSTANT_TAG`].
    ConstantTag CONSTANT_TAG;
    /// See [`Flaw::NOT_FENCED`].
    NotFenced NOT_FENCED;
    /// See [`Flaw::ERASED_EARLY`].
    ErasedEarly ERASED_EARLY;
    /// See [`Flaw::OLD_FORGOTTEN`].
    OldForgotten OLD_FORGOTTEN;
    /// See [`Flaw::LINKED_EARLY`].
    LinkedEarly LINKED_EARLY;
    /// See [`Flaw::MOVED_EARLY`].
    MovedEarly MOVED_EARLY;
    /// See [`Flaw::EXTENT_EARLY`].
    ExtentEarly EXTENT_EARLY;
}
