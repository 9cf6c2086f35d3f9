//! What all pages have in common: look, script, and what they may fetch.

/// Look of the page. Light and dark by the reader's preference; wide and narrow plots by the window.
pub const STYLE: &str = include_str!("style.css");
/// Sorts tables by a click on a column's head. The page is whole without it.
pub const SCRIPT: &str = include_str!("sort.js");
/// The page may use what it holds and fetch nothing, whatever a name in it says.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
