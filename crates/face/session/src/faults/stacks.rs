//! Call stacks in words.

use event::Site;

/// Frames that are shown.
const SHOWN: usize = 4;

/// The innermost frames, the program's own first of all, with line where debug information has it.
pub(super) fn name(stack: &[Site]) -> String {
    let frame = |site: &Site| match site.frame() {
        Some(frame) => match frame.place() {
            Some(place) => format!("{} ({place})", frame.function),
            None => format!("{} in {}", frame.function, site.module),
        },
        None if site.module.is_empty() => "?".to_owned(),
        None => format!("{}+{:#x}", site.module, site.address),
    };
    let words: Vec<String> = stack.iter().take(SHOWN).map(frame).collect();
    if words.is_empty() { "?".to_owned() } else { words.join(" < ") }
}
