//! Single values of a description changed from outside: `device.buffer.lines=128`.
//!
//! The description is written out as a TOML document, the value under the dotted key is replaced there, and the
//! document is read again, so that a changed value is held to the same rules as one in a file.

use toml::{Table, Value};

use crate::{Config, ConfigError, DeviceTiming};

/// Keys that a refusal offers.
const NEAR_MAX: usize = 4;

impl Config {
    /// This description with values replaced: pairs of a key with its tables (`llc.size`, `device.buffer.lines`) and a
    /// value as a file has it; the quotes of a text may be left out. A whole table is given as TOML has it in one line:
    /// `{ read_latency = "1us", write_latency = "1us" }`.
    ///
    /// # Errors
    /// [`ConfigError::Key`] for a key that descriptions do not have, with those that are spelled alike, and
    /// [`ConfigError::Override`] for a value that can't be; what no machine can have is refused as in a file.
    pub fn with_overrides<K: AsRef<str>, V: AsRef<str>>(
        &self,
        overrides: &[(K, V)],
    ) -> Result<Config, ConfigError> {
        if overrides.is_empty() {
            return Ok(self.clone());
        }
        let mut document = self.document()?;
        for (key, value) in overrides {
            self.replace(&mut document, key.as_ref(), value.as_ref())?;
        }
        let mut changed: Config =
            document.try_into().map_err(|error: toml::de::Error| self.refuse(overrides, &error))?;
        changed.origin.clone_from(&self.origin);
        changed.read_files()?;
        changed.validate()?;
        Ok(changed)
    }

    /// As [`Config::with_overrides`], for a run with time: refuses keys that only the counting of bytes goes by, which would have no
    /// effect.
    ///
    /// # Errors
    /// Also [`ConfigError::Override`] for such a key, with the one that counts instead.
    pub fn with_timed_overrides<K: AsRef<str>, V: AsRef<str>>(
        &self,
        overrides: &[(K, V)],
    ) -> Result<Config, ConfigError> {
        let changed = self.with_overrides(overrides);
        let described = changed.as_ref().unwrap_or(self);
        for (key, value) in overrides {
            let setting = format!("{}={}", key.as_ref(), value.as_ref());
            // A part of a table that the description lacks can't be, but the reason that helps is that none of it counts.
            let may_be_why = match &changed {
                Ok(_) => true,
                Err(ConfigError::Override { setting: refused, .. }) => *refused == setting,
                Err(_) => false,
            };
            if let Some(reason) = described.ignored_with_time(key.as_ref()).filter(|_| may_be_why) {
                return Err(ConfigError::Override { file: self.origin.clone(), setting, reason });
            }
        }
        changed
    }

    /// Why `key` has no effect with time, if it has none.
    fn ignored_with_time(&self, key: &str) -> Option<String> {
        let other = self.other_memory.as_ref().map(|other| ("other_memory.device", &other.device));
        let (table, device) = std::iter::once(("device", &self.device))
            .chain(other)
            .find(|(table, _)| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')))?;
        let part = &key[table.len() + 1..];
        let inside =
            |name: &str| part == name || part.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        // What a machine sends on by itself, it sends by units.
        let unit = part == "unit" && self.prestores.is_none();
        if device.timing.as_ref().is_some_and(DeviceTiming::has_units) {
            return inside("buffer.replacement").then(|| {
                format!(
                    "is for counting bytes only; with time, buffers go by {table}.timing.buffer_replacement"
                )
            });
        }
        (unit || inside("buffer")).then(|| {
            format!(
                "is for counting bytes only; with time, this kind of device has its sizes in {table}.timing"
            )
        })
    }

    fn document(&self) -> Result<Table, ConfigError> {
        Table::try_from(self).map_err(|error| ConfigError::Override {
            file: self.origin.clone(),
            setting: "any value".to_owned(),
            reason: error.to_string(),
        })
    }

    /// Replaces one value and reads the document, so that the message names the setting that is to blame.
    fn replace(&self, document: &mut Table, key: &str, text: &str) -> Result<(), ConfigError> {
        let known = leaves(document);
        let parts: Vec<&str> = key.split('.').collect();
        let Some((last, tables)) = parts.split_last().filter(|_| parts.iter().all(|part| !part.is_empty()))
        else {
            return Err(self.unknown(key, &known));
        };
        let mut table = &mut *document;
        let mut lacks = None;
        for (depth, part) in tables.iter().enumerate() {
            let inside = table.entry(*part).or_insert_with(|| {
                lacks.get_or_insert(depth);
                Value::Table(Table::new())
            });
            table = inside.as_table_mut().ok_or_else(|| self.unknown(key, &known))?;
        }
        let value = value_like(table.get(*last), text);
        let now = table.insert((*last).to_owned(), value);
        match document.clone().try_into::<Config>() {
            Ok(_) => Ok(()),
            Err(error) if error.message().contains("unknown field") && !known.iter().any(|k| k == key) => {
                Err(self.unknown(key, &known))
            }
            Err(error) => {
                let mut reason = in_words(error.message());
                if let Some(depth) = lacks.filter(|_| reason.contains("missing field")) {
                    reason += &format!(
                        "; there is no `{0}` here to change: set {0} as a whole, {{ key = value, … }}",
                        tables[..=depth].join(".")
                    );
                } else if let Some(now) = now.filter(|now| !matches!(now, Value::Table(_))) {
                    reason += &format!("; it is {now} now");
                }
                Err(ConfigError::Override {
                    file: self.origin.clone(),
                    setting: format!("{key}={text}"),
                    reason,
                })
            }
        }
    }

    fn unknown(&self, key: &str, known: &[String]) -> ConfigError {
        let mut near: Vec<(usize, &String)> = known.iter().map(|k| (likeness(key, k), k)).collect();
        near.sort();
        let closest = near.first().map_or(0, |(distance, _)| *distance);
        let near: Vec<&str> = near
            .iter()
            .take_while(|(distance, _)| *distance <= closest + 1)
            .take(NEAR_MAX)
            .map(|(_, k)| k.as_str())
            .collect();
        ConfigError::Key { file: self.origin.clone(), key: key.to_owned(), near: near.join(" or ") }
    }

    fn refuse<K: AsRef<str>, V: AsRef<str>>(
        &self,
        overrides: &[(K, V)],
        error: &toml::de::Error,
    ) -> ConfigError {
        let settings: Vec<String> =
            overrides.iter().map(|(key, value)| format!("{}={}", key.as_ref(), value.as_ref())).collect();
        ConfigError::Override {
            file: self.origin.clone(),
            setting: settings.join(" "),
            reason: in_words(error.message()),
        }
    }
}

/// The parser's message without Rust's names for kinds of numbers.
fn in_words(message: &str) -> String {
    let kinds = [
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0"),
        ("expected f64", "expected a number"),
    ];
    kinds.iter().fold(message.to_owned(), |text, (kind, words)| text.replace(kind, words))
}

/// `text` as a value of the kind that stands there now. Where none stands, or the text is none of that kind, it is what
/// TOML takes it for, or else a text.
fn value_like(now: Option<&Value>, text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    match (now, parsed) {
        (Some(Value::String(_)), Some(quoted @ Value::String(_))) => quoted,
        (Some(Value::String(_)), _) | (_, None) => Value::String(text.to_owned()),
        // A whole number is a number with a point, too.
        #[allow(clippy::cast_precision_loss)]
        (Some(Value::Float(_)), Some(Value::Integer(whole))) => Value::Float(whole as f64),
        (_, Some(parsed)) => parsed,
    }
}

/// The dotted keys of all values, and of the tables that hold them.
fn leaves(table: &Table) -> Vec<String> {
    let mut keys = Vec::new();
    for (key, value) in table {
        keys.push(key.clone());
        if let Value::Table(inner) = value {
            keys.extend(leaves(inner).iter().map(|below| format!("{key}.{below}")));
        }
    }
    keys
}

/// How far `asked` is from `key`: letters to change, between the whole keys or between their last words.
fn likeness(asked: &str, key: &str) -> usize {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    edits(asked, key).min(edits(&last(asked), &last(key)) + 1)
}

/// Letters to insert, drop or exchange between two words.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (column, other) in to.iter().enumerate() {
            let cost = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = cost.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    fn xpoint(overrides: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::preset("xpoint").unwrap().with_overrides(overrides)
    }

    #[test]
    fn values_of_every_kind_are_replaced() {
        let changed = xpoint(&[
            ("llc.size", "16MiB"),
            ("llc.ways", "16"),
            ("l1.replacement", "\"lru\""),
            ("device.buffer.lines", "128"),
            ("seed", "7"),
        ])
        .unwrap();
        assert_eq!((changed.llc.size, changed.llc.ways), (Size(16 << 20), 16));
        assert_eq!(changed.l1.replacement, crate::Replacement::Lru);
        assert_eq!((changed.device.buffer.map(|buffer| buffer.lines), changed.seed), (Some(128), 7));
    }

    #[test]
    fn no_override_changes_nothing() {
        assert_eq!(xpoint(&[]).unwrap(), Config::preset("xpoint").unwrap());
        for name in Config::presets() {
            let config = Config::preset(name).unwrap();
            let seed = config.seed.to_string();
            assert_eq!(config.with_overrides(&[("seed", seed)]).unwrap(), config, "{name}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_those_spelled_alike() {
        for (key, near) in [
            ("llc.sise", "llc.size"),
            ("device.bufer.lines", "device.buffer.lines"),
            ("lines", "device.buffer.lines"),
            ("memory.dimm", "memory.dimms"),
            ("seed.x", "seed"),
            ("", "l1"),
            ("l1..size", "l1.size"),
        ] {
            let refused = xpoint(&[(key, "1")]).expect_err(key);
            assert!(matches!(refused, ConfigError::Key { .. }), "{key}: {refused}");
            let text = refused.to_string();
            assert!(text.contains(&format!("`{key}`")) && text.contains(near), "{text}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_refused_with_its_key() {
        for (key, value, part) in [
            ("llc.size", "16 parsecs", "is not a size"),
            ("device.buffer.lines", "many", "a whole number from 0 to 4294967295; it is 64 now"),
            ("cores.count", "-3", "a whole number from 0 to 4294967295; it is 24 now"),
            ("other_memory.device.unit", "128B", "no `other_memory` here to change"),
            ("l1.ways", "3", "l1.size"),
            ("device.unit", "32B", "device.unit"),
            ("device.buffer.write_out", "at-noon", "at-noon"),
        ] {
            let text = xpoint(&[(key, value)]).expect_err(key).to_string();
            assert!(text.starts_with("preset xpoint") && text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_table_can_be_given_whole() {
        let table =
            r#"{ kind = "delay", read_latency = "1us", write_latency = "500ns", line_transfer = "32ns" }"#;
        let changed = xpoint(&[("device.timing", table)]).unwrap();
        assert!(matches!(changed.device.timing, Some(crate::DeviceTiming::Delay(_))), "{changed:?}");
        let half = xpoint(&[("device.timing", r#"{ kind = "delay" }"#)]).expect_err("incomplete").to_string();
        assert!(half.contains("read_latency"), "{half}");
    }

    #[test]
    fn what_has_no_effect_with_time_is_refused_with_the_key_that_has() {
        let refused = |machine: &str, key: &str, value: &str, instead: &str| {
            let config = Config::preset(machine).unwrap();
            assert!(config.with_overrides(&[(key, value)]).is_ok(), "{machine} {key}");
            let text = config.with_timed_overrides(&[(key, value)]).expect_err(key).to_string();
            assert!(text.contains(key) && text.contains(instead), "{text}");
        };
        refused("dram", "device.unit", "256B", "device.timing");
        refused("cxl-ssd", "device.buffer.lines", "64", "device.timing");
        refused("cascade-lake", "other_memory.device.unit", "128B", "other_memory.device.timing");
        refused("xpoint", "device.buffer.replacement", "lru", "device.timing.buffer_replacement");
        let dram = Config::preset("dram").unwrap();
        let text =
            dram.with_timed_overrides(&[("device.buffer.lines", "64")]).expect_err("no buffer").to_string();
        assert!(text.contains("device.buffer.lines=64") && text.contains("device.timing"), "{text}");
        let text = dram
            .with_timed_overrides(&[("device.timing.kind", "xpoint"), ("device.buffer.lines", "64")])
            .expect_err("another device's table")
            .to_string();
        assert!(text.contains("device.timing.kind=xpoint"), "the setting at fault is named: {text}");
        for (key, value) in [
            ("device.unit", "512B"),
            ("device.buffer.lines", "128"),
            ("device.timing.buffer_replacement", "lru"),
            ("device.timing.line_transfer", "4ns"),
        ] {
            let config = Config::preset("xpoint").unwrap();
            assert!(config.with_timed_overrides(&[(key, value)]).is_ok(), "{key}");
        }
        assert!(dram.with_timed_overrides(&[("device.timing.t_cl", "15ns")]).is_ok());
    }

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in
            [("", "", 0), ("abc", "", 3), ("size", "sise", 1), ("lines", "line", 1), ("ab", "ba", 2)]
        {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }
}
