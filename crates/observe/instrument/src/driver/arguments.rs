//! What a compiler's command line asks for, as far as instrumentation has to know.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::language::CcError;

/// A command line, understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// For the compiler, without ours and without link-time optimisation.
    pub rest: Vec<OsString>,
    /// `--compiler=`: the command to use.
    pub compiler: Option<String>,
    /// `--as-shipped`: the compiler gets no flag of ours that changes its code.
    pub as_shipped: bool,
    /// `--persist=`: the design by which the program is to survive, in place of being observed.
    pub persist: Option<String>,
    /// Which of [`Arguments::rest`] are names of inputs,
    pub inputs: Vec<usize>,
    /// and which of these are sources that get assembled.
    pub sources: Vec<usize>,
    /// Only a question to the compiler, or nothing to compile or link: pass it on untouched.
    pub inquiry: bool,
    /// The run ends with a linked program or library.
    pub links: bool,
    /// Some `-g` is given.
    pub debug: bool,
    /// The last `-O` asks for more than code that is easy to follow.
    pub optimises: bool,
    /// It asks for more than the first level, too.
    pub optimises_further: bool,
    /// Link-time optimisation was asked for and taken out.
    pub lto_removed: bool,
    /// Why the code can't be instrumented: another target.
    pub foreign: Option<String>,
}

/// Options whose value is the next argument, so that it is not taken for an input.
const WITH_VALUE: [&str; 34] = [
    "-o",
    "-x",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isystem",
    "-iquote",
    "-isysroot",
    "--sysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-T",
    "-u",
    "-z",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-arch",
    "-e",
    "-aux-info",
    "--param",
    "-B",
    "-A",
];

/// The run stops before linking.
const NO_LINK: [&str; 11] = [
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "-r",
    "--preprocess",
    "--compile",
    "--assemble",
    "-emit-ast",
];

/// The run stops before assembling.
const NO_CODE: [&str; 7] = ["-S", "-E", "-M", "-MM", "-fsyntax-only", "--preprocess", "-emit-ast"];

/// Questions that are answered without any input.
const INQUIRIES: [&str; 10] = [
    "--version",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpmachine",
    "-dumpspecs",
    "--help",
    "--target-help",
    "-print-search-dirs",
    "-print-multi-lib",
    "-print-sysroot",
];

/// What `--persist=` takes.
pub const DESIGNS: [&str; 6] = ["coupled", "decoupled", "atlas", "strand", "msync", "none"];

impl Arguments {
    /// Understands `args`.
    pub fn parse(args: &[OsString]) -> Result<Self, CcError> {
        let mut found = Arguments::default();
        // `-x`: what the inputs from there on are.
        let mut language = None;
        // A run whose inputs are headers precompiles them.
        let (mut inputs, mut headers, mut no_link) = (0, 0, false);
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let text = String::from_utf8_lossy(arg.as_bytes());
            if found.rest.is_empty() && found.own(&text)? {
                continue;
            }
            if text.starts_with("-flto") || matches!(&*text, "-ffat-lto-objects" | "-fuse-linker-plugin") {
                found.lto_removed = true;
                continue;
            }
            found.rest.push(arg.clone());
            no_link |= NO_LINK.contains(&&*text);
            found.look_at(&text)?;
            let separate_target = matches!(&*text, "-target" | "--target");
            if separate_target || WITH_VALUE.contains(&&*text) {
                if let Some(value) = args.next() {
                    if separate_target {
                        found.target(&value.to_string_lossy());
                    }
                    // A library is something to link.
                    inputs += usize::from(text == "-l");
                    no_link |= text == "-x" && value.as_bytes().ends_with(b"-header");
                    if text == "-x" {
                        language = Some(value.to_string_lossy()).filter(|name| name != "none");
                    }
                    found.rest.push(value.clone());
                }
            } else if !text.starts_with('-') || text == "-" || (text.starts_with("-l") && text.len() > 2) {
                inputs += 1;
                headers += usize::from(is_header(&text));
                if !text.starts_with('-') {
                    let at = found.rest.len() - 1;
                    found.inputs.push(at);
                    let of_language = language.as_deref().map(|name| matches!(name, "c" | "c++"));
                    found.sources.extend(of_language.unwrap_or_else(|| is_source(&text)).then_some(at));
                }
            }
        }
        found.inquiry |= inputs == 0;
        if found.rest.iter().any(|arg| NO_CODE.iter().any(|option| arg == option)) {
            found.sources.clear();
        }
        found.links = !no_link && !found.inquiry && headers < inputs;
        Ok(found)
    }

    /// Takes an option of ours; whether it is one.
    fn own(&mut self, text: &str) -> Result<bool, CcError> {
        if text == "--as-shipped" {
            self.as_shipped = true;
        } else if let (Some(compiler), None) = (text.strip_prefix("--compiler="), &self.compiler) {
            self.compiler = Some(compiler.to_string());
        } else if let Some(design) = text.strip_prefix("--persist=") {
            if !DESIGNS.contains(&design) {
                return Err(CcError::Design { name: design.to_string() });
            }
            self.persist = Some(design.to_string());
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn look_at(&mut self, text: &str) -> Result<(), CcError> {
        match text {
            "-m32" | "-mx32" | "-m16" => self.foreign = Some(text.to_string()),
            "-m64" => self.foreign = None,
            "-static" | "--static" | "-static-pie" => {
                return Err(CcError::Static { option: text.to_string() });
            }
            _ if INQUIRIES.contains(&text) || text.starts_with("-print-") || text.starts_with("--print-") => {
                self.inquiry = true;
            }
            _ => {}
        }
        if let Some(target) = text.strip_prefix("--target=") {
            self.target(target);
        }
        if let Some(list) = text.strip_prefix("-fsanitize=")
            && let Some(name) = list.split(',').find(|name| sanitizer_clashes(name))
        {
            return Err(CcError::Sanitizer { name: name.to_string() });
        }
        if text.starts_with("-O") {
            self.optimises = !matches!(text, "-O0" | "-Og");
            self.optimises_further = self.optimises && !matches!(text, "-O" | "-O1");
        }
        if text.starts_with("-g") && !matches!(text, "-gcc-toolchain") {
            self.debug = text != "-g0";
        }
        Ok(())
    }

    fn target(&mut self, target: &str) {
        let own = target.starts_with("x86_64") || target.starts_with("amd64");
        if std::env::consts::ARCH == "x86_64" && !own {
            self.foreign = Some(format!("--target={target}"));
        }
    }
}

fn is_header(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(extension, Some("h" | "hh" | "hp" | "hpp" | "hxx" | "h++" | "H"))
}

fn is_source(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(
        extension,
        Some("c" | "i" | "cc" | "cp" | "cxx" | "cpp" | "CPP" | "c++" | "C" | "ii" | "m" | "mm")
    )
}

fn sanitizer_clashes(name: &str) -> bool {
    matches!(
        name,
        "thread" | "address" | "kernel-address" | "hwaddress" | "kernel-hwaddress" | "memory" | "dataflow"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Arguments, CcError> {
        Arguments::parse(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn linking_is_distinguished_from_compiling() {
        for (text, links) in [
            ("a.c", true),
            ("a.o -o a", true),
            ("-shared -o liba.so a.o", true),
            ("-c a.c", false),
            ("a.c -E", false),
            ("-r -o b.o a.o", false),
            ("-fsyntax-only a.c", false),
            ("@files", true),
            ("-x c - -o a", true),
            ("-x c++-header all.hpp -o all.hpp.gch", false),
            ("all.h", false),
            ("all.h a.c -o a", true),
        ] {
            let found = parse(text).unwrap();
            assert_eq!((found.links, found.inquiry), (links, false), "{text}");
        }
    }

    #[test]
    fn questions_pass() {
        for text in ["--version", "-v", "-dumpmachine", "-print-prog-name=ld", "-o x", "", "-Wl,--version"] {
            assert!(parse(text).unwrap().inquiry, "{text}");
        }
    }

    #[test]
    fn what_matters_is_seen() {
        assert_eq!(parse("--compiler=clang-14 -c a.c").unwrap().compiler.as_deref(), Some("clang-14"));
        assert_eq!(parse("--compiler=clang-14 -c a.c").unwrap().rest.len(), 2);
        for text in ["--as-shipped --compiler=gcc -c a.c", "--compiler=gcc --as-shipped -c a.c"] {
            let found = parse(text).unwrap();
            assert_eq!(
                (found.as_shipped, found.compiler.as_deref(), found.rest.len()),
                (true, Some("gcc"), 2)
            );
        }
        let lto = parse("-flto=auto -c a.c -ffat-lto-objects").unwrap();
        assert!(lto.lto_removed && lto.rest.len() == 2);
        assert!(parse("-g -c a.c").unwrap().debug && !parse("-g -g0 -c a.c").unwrap().debug);
        assert!(!parse("-c a.c").unwrap().debug);
        let levels = |text| parse(text).map(|it| (it.optimises, it.optimises_further)).unwrap();
        assert_eq!(levels("-O2 -Og -c a.c"), (false, false));
        assert_eq!((levels("-O -c a.c"), levels("-O1 -Os -c a.c")), ((true, false), (true, true)));
        assert!(parse("-m32 -c a.c").unwrap().foreign.is_some());
        assert!(parse("-target arm-none-eabi -c a.c").unwrap().foreign.is_some());
        assert!(parse("--target=x86_64-linux-gnu -c a.c").unwrap().foreign.is_none());
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(matches!(parse("-static a.c"), Err(CcError::Static { .. })));
        assert!(parse("-static-libgcc -static-libstdc++ a.c").is_ok());
        assert!(matches!(parse("-fsanitize=undefined,address a.c"), Err(CcError::Sanitizer { .. })));
        assert!(parse("-fsanitize=undefined a.c").is_ok());
        assert!(parse("-o -static a.c").is_ok(), "a value is no option");
    }
}
