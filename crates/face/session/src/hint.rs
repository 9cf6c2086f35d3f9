//! Help with a program that is not found.

use std::path::Path;

/// What may have been meant by the name of a program that is not found: one in the working directory.
pub fn here(name: &str) -> String {
    let here = !name.contains('/') && Path::new(name).is_file();
    if here { format!("; there is one here: write ./{name}") } else { String::new() }
}
