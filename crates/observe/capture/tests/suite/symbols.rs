//! Names for code addresses, from programs that the system's compiler makes here.

#![allow(clippy::unwrap_used)] // also in what the tests share

use std::path::{Path, PathBuf};
use std::process::Command;

use capture::symbols::{Image, Resolver};
use object::{Object, ObjectSymbol};

const SOURCE: &str = "\
__attribute__((always_inline)) static inline int inner(volatile int *p)
{
    return *p;
}
int outer(volatile int *p)
{
    return inner(p) + 1;
}
int main(void) { int x = 1; return outer(&x); }
";

fn build(directory: &Path, flags: &[&str]) -> PathBuf {
    let source = directory.join("program.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = directory.join("program");
    let status = Command::new("cc").args(["-O1", "-o"]).arg(&program).args(flags).arg(&source).status();
    assert!(status.unwrap().success());
    program
}

fn address_of(program: &Path, name: &str) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address()
}

#[test]
fn inlined_functions_are_named_innermost_first_in_both_versions_of_dwarf() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let directory = tempfile::tempdir().unwrap();
        let program = build(directory.path(), &[version]);
        let start = address_of(&program, "outer");
        let mut resolver = Resolver::default();
        let inlined =
            (start..start + 16).map(|at| resolver.site(&program, at)).find(|site| site.frames.len() == 2);
        let site = inlined.expect("code of the inlined function");
        let frames: Vec<_> = site.frames.iter().map(|frame| (frame.function.as_str(), frame.line)).collect();
        assert_eq!(frames, [("inner", 3), ("outer", 7)]);
        assert!(site.frames[0].file.ends_with("program.c"));
        assert_eq!(site.module, "program");
    }
}

#[test]
fn without_debug_information_there_is_the_symbol_and_without_that_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let program = build(directory.path(), &[]);
    let start = address_of(&program, "outer");
    let site = Resolver::default().site(&program, start + 1);
    assert_eq!(site.to_string(), "outer");
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let site = Resolver::default().site(&program, start + 1);
    assert_eq!(site.to_string(), format!("program+{:#x}", start + 1));
    assert_eq!(Resolver::default().site(Path::new("/gone"), 16).to_string(), "gone+0x10");
}

#[test]
fn code_is_read_by_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let program = build(directory.path(), &[]);
    let image = Image::open(&program).unwrap();
    let mut code = [0; 4];
    assert_eq!(image.read(address_of(&program, "outer"), &mut code), 4);
    assert_ne!(code, [0; 4]);
}
