//! Changes to the state of a checkpoint, length and hash made right: an error, or an image that reads back as it is
//! written and whose pages can be looked for. Shared by a fuzz target and a test.

use std::fs;
use std::path::Path;

use migrate::image::{Store, fault, hash};
use serde_json::Value;

/// States to begin with: locks of three kinds, pipes whose ends have several descriptions, pairs of sockets (a queue of
/// packets, one shut down half, one whose peer is closed), and a migration's.
pub const SEEDS: [&str; 2] =
    [include_str!("seeds/checkpoint_state/holds.json"), include_str!("seeds/checkpoint_state/moved.json")];

/// Looks at a state, in a folder of its own: whether it is one.
pub fn look(folder: &Path, body: &[u8]) -> bool {
    let head = format!("strandline-image 1 {} {:016x}\n", body.len(), hash(body));
    fs::write(folder.join("state"), [head.as_bytes(), body].concat()).expect("written");
    let store = Store::new(folder);
    match store.read() {
        Err(error) => {
            assert!(error.to_string().contains("damaged at byte"), "{error}");
            false
        }
        Ok(image) => {
            assert_eq!(fault(&image), None);
            _ = store.check(&image);
            let again = serde_json::to_value(&image).expect("it was read");
            store.write(&image, false).expect("written");
            let read = store.read().expect("it was just written");
            assert_eq!(serde_json::to_value(&read).expect("it was read"), again);
            true
        }
    }
}

/// The state of a seed after some changes; `choose(n)` is one of the numbers below `n`.
pub fn changed(seed: usize, changes: usize, choose: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
    let mut state: Value = serde_json::from_str(SEEDS[seed % SEEDS.len()]).expect("a seed is JSON");
    for _ in 0..changes {
        change(&mut state, choose);
    }
    serde_json::to_vec(&state).expect("it was read")
}

/// Goes down to some value, and changes it.
fn change(value: &mut Value, choose: &mut dyn FnMut(usize) -> usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = &keys[choose(keys.len())];
            match choose(16) {
                0 => drop(fields.remove(key)),
                1 => drop(fields.insert(key.clone(), Value::Null)),
                _ => change(&mut fields[key.as_str()], choose),
            }
        }
        Value::Array(all) if !all.is_empty() => {
            let at = choose(all.len());
            match choose(12) {
                0 => drop(all.remove(at)),
                1 => all.insert(at, all[at].clone()),
                2 => all.reverse(),
                3 => all.clear(),
                _ => change(&mut all[at], choose),
            }
        }
        Value::Number(number) => {
            let was = number.as_i64().unwrap_or(i64::MAX);
            let edges = [0, -1, 1, was.wrapping_add(1), was ^ 1 << choose(63), i64::MAX, i64::MIN, 4095];
            let at = choose(edges.len() + 1);
            *value = edges.get(at).map_or(Value::from(u64::MAX), |edge| Value::from(*edge));
        }
        Value::Bool(is) => *is = !*is,
        Value::String(text) => {
            let others = ["", "..", "/etc/passwd", "a\0b", "Path", "Pipe", "SocketPair"];
            *text = others[choose(others.len())].to_owned();
        }
        other => *other = Value::from(7),
    }
}
