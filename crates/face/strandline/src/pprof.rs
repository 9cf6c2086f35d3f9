//! A report as a profile of pprof: its protocol buffer, of which we need few fields and write them here.
//!
//! The messages are those of `profile.proto` of github.com/google/pprof. A field is a key, its number and a wire type, and a
//! value: a varint, or a length and bytes.

use std::collections::HashMap;

use serde_json::Value;

use crate::stacks::{TYPES, samples};

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn packed(&mut self, field: u64, values: &[u64]) -> &mut Self {
        let mut inner = Message::default();
        values.iter().for_each(|&value| inner.varint(value));
        self.bytes(field, &inner.0)
    }
}

/// Strings and functions, each once.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    numbers: HashMap<String, u64>,
    functions: HashMap<(u64, u64), u64>,
}

impl Tables {
    fn string(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.strings.len() as u64;
        self.strings.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// The line of a frame; its function is written if it is new.
    fn line(&mut self, frame: &Value, out: &mut Message) -> Message {
        let (function, file) = names(frame);
        let (function, file) = (self.string(function), self.string(file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((function, file)).or_insert(next);
        if id == next {
            let mut of = Message::default();
            of.number(1, id).number(2, function).number(3, function).number(4, file);
            out.bytes(5, &of.0);
        }
        let mut line = Message::default();
        line.number(1, id).number(2, frame["line"].as_u64().unwrap_or(0));
        line
    }
}

/// A frame's function and file.
fn names(frame: &Value) -> (&str, &str) {
    (frame["function"].as_str().unwrap_or("?"), frame["file"].as_str().unwrap_or(""))
}

/// The profile, not compressed.
pub fn profile(report: &Value) -> Vec<u8> {
    let (mut out, mut tables) = (Message::default(), Tables::default());
    tables.string("");
    for (name, unit) in TYPES {
        let mut kind = Message::default();
        kind.number(1, tables.string(name)).number(2, tables.string(unit));
        out.bytes(1, &kind.0);
    }
    // Locations, each once: a line of code with what it was inlined into, or a frame of a call stack.
    let mut locations: HashMap<(u64, u64, u64), u64> = HashMap::new();
    for sample in samples(report) {
        if sample.values.iter().all(|value| *value == 0) {
            continue;
        }
        let next = locations.len() as u64 + 1;
        let own = (u64::MAX, sample.site["id"].as_u64().unwrap_or(0), 0);
        let mut stack = vec![*locations.entry(own).or_insert(next)];
        if stack[0] == next {
            let mut location = Message::default();
            location.number(1, next).number(3, sample.site["address"].as_u64().unwrap_or(0));
            for frame in sample.site["frames"].as_array().into_iter().flatten() {
                location.bytes(4, &tables.line(frame, &mut out).0);
            }
            out.bytes(4, &location.0);
        }
        for frame in sample.calls {
            let line = frame["line"].as_u64().unwrap_or(0);
            let (function, file) = names(frame);
            let key = (tables.string(function), tables.string(file), line);
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(key).or_insert(next);
            if id == next {
                let mut location = Message::default();
                location.number(1, id).bytes(4, &tables.line(frame, &mut out).0);
                out.bytes(4, &location.0);
            }
            stack.push(id);
        }
        let mut message = Message::default();
        message.packed(1, &stack).packed(2, &sample.values);
        out.bytes(2, &message.0);
    }
    let first = tables.string("read");
    out.number(14, first);
    tables.strings.iter().for_each(|text| {
        out.bytes(6, text.as_bytes());
    });
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A message's fields: numbers, or the bytes of what is inside.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let (&first, rest) = bytes.split_first().expect("a varint");
                *bytes = rest;
                value |= u64::from(first & 0x7f) << shift;
                if first & 0x80 == 0 {
                    return value;
                }
                shift += 7;
            }
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = varint(&mut bytes);
            if key & 7 == 0 {
                found.push((key >> 3, Ok(value)));
            } else {
                let (inner, rest) = bytes.split_at(value as usize);
                bytes = rest;
                found.push((key >> 3, Err(inner)));
            }
        }
        found
    }

    #[test]
    fn a_profile_has_samples_locations_functions_and_strings() {
        let report = json!({
            "sites": [{"id": 3, "label": "walk (a.c:7)", "loads": 300, "address": 4096,
                "frames": [{"function": "walk", "file": "a.c", "line": 7}, {"function": "main", "file": "a.c", "line": 20}],
                "volatile": {"read_bytes": 640}},
                {"id": 4, "label": "nothing", "frames": []}],
            "modelled": {"sites": [{"site": 3, "l1_misses": 10, "stalled_ns": 1234.5}]},
        });
        let bytes = profile(&report);
        let all = fields(&bytes);
        let of = |number: u64| all.iter().filter(|field| field.0 == number).collect::<Vec<_>>();
        assert_eq!((of(1).len(), of(2).len(), of(4).len(), of(5).len()), (TYPES.len(), 1, 1, 2));
        let strings: Vec<&str> = of(6)
            .iter()
            .map(|field| std::str::from_utf8(field.1.expect_err("text")).expect("text"))
            .collect();
        assert_eq!(strings[0], "", "the first string is empty");
        assert!(["walk", "main", "a.c", "stalled"].iter().all(|text| strings.contains(text)), "{strings:?}");
        let sample = fields(of(2)[0].1.expect_err("a message"));
        let mut values = sample[1].1.expect_err("packed");
        let mut message = Message::default();
        [300u64, 0, 640, 0, 10, 1234].iter().for_each(|&value| message.varint(value));
        assert_eq!(std::mem::take(&mut values), &message.0[..]);
        let location = fields(of(4)[0].1.expect_err("a message"));
        assert_eq!(location[1], (3, Ok(4096)));
        assert_eq!(location.iter().filter(|field| field.0 == 4).count(), 2, "two lines, the innermost first");
    }
}
