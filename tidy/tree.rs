//! The files of the project, as git knows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's text files.
pub struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

/// One file.
pub struct File {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    /// Tests, benches and examples live by other rules.
    pub fn is_test_or_bench(&self) -> bool {
        ["/tests/", "/tests.rs", "/testing.rs", "/benches/", "/examples/", "fuzz/", "tidy/"]
            .iter()
            .any(|part| self.path.contains(part))
    }

    /// The numbered lines before the file's test module.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.lines().position(|line| line == "#[cfg(test)]").unwrap_or(usize::MAX);
        self.text.lines().enumerate().take(tests).map(|(number, line)| (number + 1, line))
    }

    /// The text of these lines.
    pub fn product_text(&self) -> String {
        self.product_lines().flat_map(|(_, line)| [line, "\n"]).collect()
    }
}

impl Tree {
    /// Reads every tracked or new, not ignored, text file.
    pub fn read() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the root exists");
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .expect("git lists the files");
        let names = String::from_utf8(listed.stdout).expect("file names are UTF-8");
        let read = |path: &str| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(File { path: path.to_owned(), text })
        };
        let files: Vec<File> = names.lines().filter_map(read).collect();
        assert!(files.len() > 20, "git listed {} files below {}", files.len(), root.display());
        Tree { root, files }
    }

    pub fn all_texts(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    pub fn files_ending(&self, end: &'static str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(end))
    }

    pub fn rust_sources(&self) -> impl Iterator<Item = &File> {
        self.files_ending(".rs")
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// The crates, as `storey/name`.
    pub fn crates(&self) -> Vec<String> {
        self.files_ending("/Cargo.toml")
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|path| path.matches('/').count() == 1)
            .map(str::to_owned)
            .collect()
    }

    /// The crates of ours that the manifest of the crate `storey/name` names, with the section.
    pub fn own_dependencies(&self, path: &str) -> Vec<(String, String)> {
        let ours = self.crates();
        let manifest = self.text(&format!("crates/{path}/Cargo.toml")).unwrap_or_default();
        let mut section = String::new();
        let mut found = Vec::new();
        for line in manifest.lines() {
            if let Some(inner) = line.trim().strip_prefix('[') {
                section = inner.trim_end_matches(']').to_owned();
            } else if section.ends_with("dependencies")
                && let Some(key) = line.split(['.', '=']).next().map(str::trim)
                && ours.iter().any(|path| path.split_once('/').is_some_and(|(_, name)| name == key))
            {
                found.push((section.clone(), key.to_owned()));
            }
        }
        found
    }

    /// Where the `mod` item of a source file may stand.
    pub fn parents_of_module(&self, path: &str) -> Vec<String> {
        let path = path.trim_end_matches("/mod.rs");
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder.ends_with("/src") {
            return vec![format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
        }
        vec![format!("{folder}/mod.rs"), format!("{folder}.rs")]
    }

    /// Whether a link from one document to `target` finds a file or folder.
    pub fn exists_beside(&self, document: &str, target: &str) -> bool {
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        target.is_empty() || self.root.join(folder).join(target).exists()
    }
}

/// The line without its comment, roughly: a `//` inside a string cuts too much, never too little.
pub fn code_only(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// The lines `name = how` and `name.how` of a manifest's section.
pub fn section(manifest: &str, name: &str) -> BTreeMap<String, String> {
    let head = format!("[{name}]");
    let lines = manifest.lines().skip_while(|line| line.trim() != head).skip(1);
    let lines =
        lines.take_while(|line| !line.starts_with('[')).map(|line| line.split(" #").next().unwrap_or(line));
    let pairs = lines.filter_map(|line| {
        let (key, how) = line.split_once(" = ")?;
        Some(match key.split_once('.') {
            Some((name, how_else)) => (name.to_owned(), format!("{how_else} = {how}")),
            None => (key.to_owned(), how.to_owned()),
        })
    });
    pairs.collect()
}

/// Targets of the inline links of a Markdown text, outside code.
pub fn markdown_links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            if let Some(end) = prose[at + 2..].find(')') {
                found.push(prose[at + 2..at + 2 + end].to_owned());
            }
        }
    }
    found
}
