//! What debug information says of data: the fields of a type, and the variables that are of one.

/// A field of a type, those of types within it by their whole names (`head.next`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Bytes before it.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of an element, if it is an array; else its bytes.
    pub element: u64,
}

/// The layout of a type, or of the elements of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Its name.
    pub name: String,
    /// Its bytes; never 0.
    pub bytes: u64,
    /// Its fields by offset; none of a number or a pointer.
    pub fields: Vec<Field>,
}

/// A variable with an address of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub addr: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The layout of its type, of its elements if it is an array; if known.
    pub layout: Option<Layout>,
}

impl Layout {
    /// The field that a byte of an element belongs to; `None` in padding.
    #[must_use]
    pub fn field(&self, within: u64) -> Option<&Field> {
        let at = self.fields.partition_point(|field| field.offset <= within);
        // Bit fields and unions share bytes: the first one stands for all.
        self.fields[..at].iter().rev().find(|field| within - field.offset < field.bytes)
    }

    /// What lies at `offset` of `bytes` of this type: `[3].count`, `count` if there is but one element, `[3]`
    /// of plain numbers.
    #[must_use]
    pub fn path(&self, offset: u64, bytes: u64) -> Option<String> {
        let size = self.bytes.max(1);
        let (element, within) = (offset / size, offset % size);
        let index = if bytes >= 2 * size { format!("[{element}]") } else { String::new() };
        if self.fields.is_empty() {
            return (!index.is_empty()).then_some(index);
        }
        let field = self.field(within)?;
        let dot = if index.is_empty() { "" } else { "." };
        let inner = if field.element < field.bytes {
            format!("[{}]", (within - field.offset) / field.element.max(1))
        } else {
            String::new()
        };
        Some(format!("{index}{dot}{}{inner}", field.name))
    }

    /// The names of what the bytes of a mask belong to, bit 0 being the byte at `offset`, each once, at most
    /// `most` and how many more there are.
    #[must_use]
    pub fn paths(&self, offset: i64, mask: u64, bytes: u64, most: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut more = 0;
        for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
            let at = offset.saturating_add(bit);
            let Some(at) = u64::try_from(at).ok().filter(|&at| at < bytes) else { continue };
            let Some(path) = self.path(at, bytes) else { continue };
            if found.last() != Some(&path) && !found.contains(&path) {
                if found.len() < most { found.push(path) } else { more += 1 }
            }
        }
        if more > 0 {
            found.push("…".to_owned());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter() -> Layout {
        let field =
            |name: &str, offset, bytes, element| Field { name: name.to_owned(), offset, bytes, element };
        Layout {
            name: "counter".to_owned(),
            bytes: 24,
            fields: vec![field("hits", 0, 8, 8), field("misses", 8, 4, 4), field("last", 16, 8, 2)],
        }
    }

    #[test]
    fn bytes_have_the_names_of_fields_and_elements() {
        let layout = counter();
        assert_eq!(layout.path(8, 24).as_deref(), Some("misses"));
        assert_eq!(layout.path(12, 24), None, "padding");
        assert_eq!(layout.path(24 + 18, 240).as_deref(), Some("[1].last[1]"));
        let plain = Layout { name: "long".to_owned(), bytes: 8, fields: Vec::new() };
        assert_eq!(plain.path(17, 64).as_deref(), Some("[2]"));
        assert_eq!(plain.path(3, 8), None, "its name is the variable's");
    }

    #[test]
    fn masks_have_each_name_once() {
        let layout = counter();
        // The line begins 8 bytes before the block.
        assert_eq!(layout.paths(-8, 0xffff, 240, 4), ["[0].hits"]);
        assert_eq!(layout.paths(0, u64::MAX, 240, 2), ["[0].hits", "[0].misses", "…"]);
        assert!(layout.paths(0, 0, 240, 2).is_empty());
        assert!(layout.paths(1000, u64::MAX, 240, 2).is_empty());
    }
}
