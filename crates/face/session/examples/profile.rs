//! Compiles a C program, runs it and profiles it, without the command line:
//! `cargo run -p session --example profile`.

use std::error::Error;
use std::path::Path;

use session::toolchain::{self, Language};
use session::{Input, Profile, Program, Silent};

fn main() -> Result<(), Box<dyn Error>> {
    // The compiler starts this executable again in place of the assembler.
    if let Some(status) = toolchain::answer_as_assembler()? {
        std::process::exit(status.code().unwrap_or(1));
    }
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("scatter");
    compile(&program)?;
    let report = Profile::new(Input::Program(Program::new([program]))).run(&Silent)?;
    println!("{}", report::terminal(&report, 80, false));
    Ok(())
}

/// Builds a program that stores all over a megabyte.
fn compile(program: &Path) -> Result<(), Box<dyn Error>> {
    let source = program.with_extension("c");
    std::fs::write(
        &source,
        "static long field[1 << 17];\n\
         int main(void) {\n\
         for (unsigned i = 0; i < 100000; i++) field[i * 2654435761u >> 15] += i;\n\
         return 0;\n\
         }\n",
    )?;
    let words = ["-O2".into(), "-g".into(), "-o".into(), program.into(), source.into()];
    match toolchain::compiler(Language::C, &words)?.success() {
        true => Ok(()),
        false => Err("the compiler failed".into()),
    }
}
