//! Checks a shell command that writes two files, without the command line: `cargo run -p session --example
//! check`.
//!
//! The program keeps a counter in a file and replaces it with a rename, but never syncs it. A crash may leave
//! the new name with an empty file.

use std::error::Error;

use session::toolchain::{self, Language};
use session::{Check, Input, Program, Silent};

fn main() -> Result<(), Box<dyn Error>> {
    // The compiler starts this executable again in place of the assembler.
    if let Some(status) = toolchain::answer_as_assembler()? {
        std::process::exit(status.code().unwrap_or(1));
    }
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("count.c"), folder.path().join("count"));
    std::fs::write(
        &source,
        "#include <stdio.h>\n\
         int main(int argc, char **argv) {\n\
         char name[512]; snprintf(name, sizeof name, \"%s/new\", argv[1]);\n\
         FILE *file = fopen(name, \"w\"); fputs(\"42\\n\", file); fclose(file);\n\
         char old[512]; snprintf(old, sizeof old, \"%s/count\", argv[1]);\n\
         return rename(name, old) != 0;\n\
         }\n",
    )?;
    let words = ["-O2".into(), "-g".into(), "-o".into(), program.clone().into(), source.into()];
    if !toolchain::compiler(Language::C, &words)?.success() {
        return Err("the compiler failed".into());
    }
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    let input = Input::Program(Program::new([program, data.clone()]));
    let check = Check {
        files: vec![data.display().to_string()],
        platform: Some("posix".parse()?),
        ..Check::new(input, folder.path().join("out"))
    };
    let checked = check.recover("test ! -e POOL/count || grep -q 42 POOL/count").run(&Silent)?;
    print!("{}", checked.text());
    Ok(())
}
