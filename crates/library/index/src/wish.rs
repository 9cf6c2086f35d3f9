//! What becomes of a key, once its value is known: what all changes of a map come down to.

/// What becomes of a key.
pub(crate) enum Wish<V> {
    Nothing,
    Put(V),
    Remove,
}
