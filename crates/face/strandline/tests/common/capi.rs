//! `libstrandline` for tests that link with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use super::{ok, stdout};

/// Where its headers are.
pub const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");

/// The folder of libstrandline.so and libstrandline.a, which `cargo test` does not build: nothing in Rust
/// links them. The workspace is named, and a test beside the libraries, as features are then those with which
/// all else was built; the C library alone would have others, and compile its dependencies once more.
pub fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
            "build",
            "--locked",
            "--quiet",
            "--message-format=json",
        ]);
        command.args(["--workspace", "--lib", "--test", "interface"]);
        if Path::new(env!("CARGO_BIN_EXE_strandline"))
            .parent()
            .is_some_and(|folder| folder.ends_with("release"))
        {
            command.arg("--release");
        }
        let text = stdout(&ok(&mut command));
        let built = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let files = built.filter(|message| message["target"]["kind"][0] == "cdylib").flat_map(|message| {
            let files = message["filenames"].as_array().cloned().unwrap_or_default();
            files.into_iter().filter_map(|file| Some(PathBuf::from(file.as_str()?)))
        });
        let so = files.into_iter().find(|file| file.extension().is_some_and(|end| end == "so"));
        so.expect("cargo says where the library is").parent().expect("a folder").to_owned()
    })
}

/// What a compiler needs to link the shared library.
pub fn link() -> Vec<String> {
    let folder = library().display().to_string();
    [
        format!("-I{INCLUDE}"),
        format!("-L{folder}"),
        "-lstrandline".into(),
        format!("-Wl,-rpath,{folder}"),
        "-pthread".into(),
    ]
    .into()
}
