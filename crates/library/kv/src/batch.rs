//! Several changes at once.

/// Puts and deletes that happen all together or not at all. A later one of the same key replaces an earlier
/// one.
///
/// ```
/// let mut batch = kv::Batch::new();
/// batch.put(b"from", b"90").put(b"to", b"110").delete(b"pending");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: std::collections::BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl Batch {
    /// No change.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Batch {
        self.changes.insert(key.into(), Some(value.into()));
        self
    }

    /// Takes `key` out.
    pub fn delete(&mut self, key: &[u8]) -> &mut Batch {
        self.changes.insert(key.into(), None);
        self
    }

    /// Keys that change.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Each key with its new value, `None` if it is taken out, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.changes.iter().map(|(key, value)| (&**key, value.as_deref()))
    }
}
