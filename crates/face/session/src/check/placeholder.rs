//! `POOL` in place of the image's path, in what recovery prints.

use std::path::Path;

/// The paths of an image, as recovery may print them.
#[derive(Debug)]
pub struct Placeholder {
    /// The longest first, each with what stands for it.
    paths: Vec<(String, &'static str)>,
}

impl Placeholder {
    /// Of the image at `pool`.
    pub fn new(pool: &Path) -> Self {
        let mut paths = Vec::new();
        for (path, word) in [(Some(pool), "POOL"), (pool.parent(), "POOL/..")] {
            let Some(path) = path else { continue };
            let real = std::fs::canonicalize(path).ok();
            let mut add = |path: &Path| paths.push((path.display().to_string(), word));
            add(path);
            real.iter().for_each(|real| add(real));
        }
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths.dedup();
        Placeholder { paths }
    }

    /// A line with `POOL` in it.
    pub fn put_into(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (path, word) in &self.paths {
            line = line.replace(path, word);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_image_is_pool() {
        let placeholder = Placeholder::new(Path::new("/nowhere/strandline-image-x1/image/db"));
        let line = "lost in /nowhere/strandline-image-x1/image/db/log, /nowhere/strandline-image-x1/image";
        assert_eq!(placeholder.put_into(line), "lost in POOL/log, POOL/..");
    }
}
