//! Operations on a map from keys to values, and what may be found of them after a crash.

/// What an operation does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Update,
    Delete,
}

pub(super) use Kind::{Delete, Insert, Update};

/// Operations, in order.
pub(super) type Operations = &'static [(Kind, u64)];

/// What the operation with this index stores. It tells its key, and no two operations store the same.
pub(super) fn value_of(key: u64, index: u64) -> u64 {
    key * 1000 + index + 1
}

/// Calls `body` with number, kind and key of each operation, then with the value that it stores.
pub(super) fn each(
    operations: Operations,
    mut body: impl FnMut(u64, Kind, u64, u64) -> Result<(), String>,
) -> Result<(), String> {
    (0..)
        .zip(operations)
        .try_for_each(|(index, &(kind, key))| body(index + 1, kind, key, value_of(key, index)))
}

/// Whether `found` (0: nothing) may be there under `key`: what the operations that had ended left, or what a
/// later one made of it.
pub(super) fn check_key(operations: Operations, done: u64, key: u64, found: u64) -> Result<(), String> {
    let mut state = 0;
    for (index, &(kind, about)) in (0..).zip(operations) {
        if index >= done && found == state {
            return Ok(());
        }
        if about == key {
            state = if kind == Delete { 0 } else { value_of(key, index) };
        }
    }
    match found {
        _ if found == state => Ok(()),
        0 => Err(format!("key {key} is lost")),
        _ => Err(format!("key {key} has the value {found}, which it may not have after {done} operations")),
    }
}

/// Looks each key up and checks what is found.
pub(super) fn check_all(
    operations: Operations,
    done: u64,
    mut find: impl FnMut(u64) -> Result<u64, String>,
) -> Result<(), String> {
    for (at, &(_, key)) in operations.iter().enumerate() {
        if operations[..at].iter().all(|&(_, before)| before != key) {
            check_key(operations, done, key, find(key)?)?;
        }
    }
    Ok(())
}

/// Whether an operation is about the key.
pub(super) fn is_known(operations: Operations, key: u64) -> Result<(), String> {
    if operations.iter().any(|&(_, about)| about == key) {
        Ok(())
    } else {
        Err(format!("key {key} is there, which nobody inserted"))
    }
}

/// A hash (SplitMix64's output function).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
