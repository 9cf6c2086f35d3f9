//! The flags that switch instrumentation on.

use std::ffi::OsString;

use super::arguments::Arguments;
use super::compiler::{Compiler, Family};
use super::toolkit::{PERSIST_RUNTIME, RUNTIME, Toolkit};

/// Functions that must stay calls, so that the runtime sees them. `strlen` and the searches may be folded:
/// where the compiler knows the answer, the program doesn't access anything.
const NO_BUILTIN: [&str; 22] = [
    "memcpy",
    "memmove",
    "memset",
    "mempcpy",
    "memcmp",
    "bcmp",
    "bzero",
    "bcopy",
    "memchr",
    "strcpy",
    "stpcpy",
    "strncpy",
    "stpncpy",
    "strcat",
    "strncat",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strdup",
    "strndup",
    "memrchr",
];

/// What goes behind the user's own arguments.
pub fn instrumentation(arguments: &Arguments, compiler: &Compiler, toolkit: &Toolkit) -> Vec<OsString> {
    let mut flags = common(toolkit);
    for name in NO_BUILTIN {
        flags.push(format!("-fno-builtin-{name}").into());
    }
    // The checking variants are inline functions around the compiler's builtins, which get expanded in line.
    flags.extend(["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-U__SANITIZE_THREAD__"].map(OsString::from));
    match compiler.family {
        Family::Gcc => {
            flags.push(joined("-specs=", toolkit.specs()));
            flags.extend(GCC.map(OsString::from));
            // Older ones do not know these. The level of optimisation may stand in a file of arguments, or in
            // the source.
            let version = compiler.version().unwrap_or(0);
            if version >= 11 {
                // "atomic_thread_fence is not supported": it is, the runtime records it.
                flags.push("-Wno-tsan".into());
            }
            if version >= 12 {
                flags.push("-fno-move-loop-stores".into());
            }
        }
        Family::Clang => {
            flags.extend(CLANG.map(OsString::from));
            flags.extend(["-mllvm", hoisting(arguments.optimises_further)].map(OsString::from));
        }
    }
    let announced = cfg!(not(target_arch = "x86_64")) && !arguments.optimises;
    flags.extend(functions(compiler.family, announced).map(OsString::from));
    flags.extend(lines(arguments));
    flags
}

/// What goes behind the user's own arguments where the compiler's code is to be what it is without us: none
/// of these changes it.
pub fn shipped(arguments: &Arguments, compiler: &Compiler, toolkit: &Toolkit) -> Vec<OsString> {
    let mut flags = common(toolkit);
    match compiler.family {
        // The instructions as it chose them: these say which are volatile or atomic.
        Family::Gcc => flags.push("-dP".into()),
        Family::Clang => flags.extend(CLANG_SHIPPED.map(OsString::from)),
    }
    flags.extend(lines(arguments));
    flags
}

/// What goes behind the user's own arguments where the program is to survive by the persistency runtime: the
/// pass is on, and what it would not see stays a call.
pub fn persistency(arguments: &Arguments, compiler: &Compiler, toolkit: &Toolkit) -> Vec<OsString> {
    let mut flags = common(toolkit);
    for name in NO_BUILTIN.iter().filter(|name| !READ_ONLY.contains(name)) {
        flags.push(format!("-fno-builtin-{name}").into());
    }
    let of_all =
        ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-U__SANITIZE_THREAD__", "-D__STRANDLINE_PERSIST__=1"];
    flags.extend(of_all.map(OsString::from));
    match compiler.family {
        Family::Gcc => {
            flags.push(joined("-specs=", toolkit.specs()));
            flags.extend(GCC_PERSIST.map(OsString::from));
            if compiler.version().unwrap_or(0) >= 11 {
                flags.push("-Wno-tsan".into());
            }
        }
        Family::Clang => flags.extend(CLANG_PERSIST.map(OsString::from)),
    }
    flags.extend(functions(compiler.family, false).map(OsString::from));
    flags.extend(lines(arguments));
    flags
}

/// What the compiler finds: our assembler and our headers.
fn common(toolkit: &Toolkit) -> Vec<OsString> {
    vec![joined("-B", toolkit.directory()), headers(toolkit)]
}

/// Where our headers are.
pub fn headers(toolkit: &Toolkit) -> OsString {
    joined("-idirafter", toolkit.directory().join("include"))
}

/// Line numbers for the report; the code is the same.
fn lines(arguments: &Arguments) -> Option<OsString> {
    (!arguments.debug).then(|| "-g1".into())
}

/// What goes before the user's own arguments. A library that the user names must come after the runtime, or
/// the loader would take that library's functions (libpmem's) for the ones that the runtime interposes.
pub fn linking(arguments: &Arguments, toolkit: &Toolkit) -> Vec<OsString> {
    if !arguments.links {
        return Vec::new();
    }
    let directory = toolkit.directory();
    let runtime = if arguments.persist.is_some() { PERSIST_RUNTIME } else { RUNTIME };
    let mut flags = vec![
        joined("-L", directory),
        "-Wl,--push-state,--no-as-needed,-Bdynamic".into(),
        format!("-l:{runtime}").into(),
        "-Wl,--pop-state".into(),
        joined("-Wl,-rpath,", directory),
    ];
    flags.extend(arguments.persist.iter().map(|design| toolkit.start(design).into()));
    flags
}

/// Whether the pass announces where functions begin and end. The assembler wrapper has the functions announce
/// it themselves where it is wanted (`rewrite::library`); where there is none, all do, without optimisation.
fn functions(family: Family, announced: bool) -> [&'static str; 2] {
    match (family, announced) {
        (Family::Gcc, false) => ["--param", "tsan-instrument-func-entry-exit=0"],
        (Family::Gcc, true) => ["--param", "tsan-instrument-func-entry-exit=1"],
        (Family::Clang, false) => ["-mllvm", "-tsan-instrument-func-entry-exit=0"],
        (Family::Clang, true) => ["-mllvm", "-tsan-instrument-func-entry-exit=1"],
    }
}

/// What clang does with code that two branches begin with. From the second level on, a pass makes one of the
/// stores with which two branches end and gives it the line of either. Where the addresses stand before the
/// branches already, another pass has done that before, and said that the line is unknown.
fn hoisting(further: bool) -> &'static str {
    if further { "-hoist-common-insts=true" } else { "-simplifycfg-hoist-common=false" }
}

const GCC: [&str; 12] = [
    // The assembler wrapper keeps the position in the thread's buffer there.
    "-ffixed-r11",
    // Code that stands in several places stays there several times: it is reported by its line.
    "-fno-crossjumping",
    "-fno-tree-tail-merge",
    "-fno-ipa-icf",
    // So do stores of two branches to one place.
    "-fno-tree-sink",
    "-fno-tree-cselim",
    // Threads wait for each other by such accesses; each is recorded by a call.
    "--param=tsan-distinguish-volatile=1",
    // `__builtin_memcpy`, which C++'s library uses, goes on being a builtin: expand it to a call.
    "-mmemcpy-strategy=libcall:-1:noalign",
    "-mmemset-strategy=libcall:-1:noalign",
    "--param=builtin-string-cmp-inline-length=0",
    // Warnings about the generated code, which is not the program's own: frames are larger with
    // instrumentation.
    "-Wno-frame-larger-than",
    "-Wno-stack-usage",
];

/// Of [`NO_BUILTIN`], those that write nothing.
const READ_ONLY: [&str; 10] = [
    "memcmp",
    "bcmp",
    "memchr",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strdup",
    "strndup",
    "memrchr",
];

const GCC_PERSIST: [&str; 4] = [
    "-mmemcpy-strategy=libcall:-1:noalign",
    "-mmemset-strategy=libcall:-1:noalign",
    "-Wno-frame-larger-than",
    "-Wno-stack-usage",
];

const CLANG_PERSIST: [&str; 7] = [
    "-Qunused-arguments",
    "-Xclang",
    "-fsanitize=thread",
    "-fno-integrated-as",
    // The pass knows accesses of up to 16 bytes only.
    "-mprefer-vector-width=128",
    "-fno-lto",
    "-Wno-frame-larger-than",
];

const CLANG_SHIPPED: [&str; 5] = [
    "-Qunused-arguments",
    "-fno-integrated-as",
    "-fno-lto",
    // What has no line is not to have that of the code before it.
    "-mllvm",
    "-use-unknown-locations=Enable",
];

const CLANG: [&str; 28] = [
    "-Qunused-arguments",
    "-Xclang",
    "-fsanitize=thread",
    "-fno-integrated-as",
    "-mllvm",
    "-tsan-instrument-read-before-write=1",
    "-mllvm",
    "-tsan-distinguish-volatile=1",
    // The pass knows accesses of up to 16 bytes only.
    "-mprefer-vector-width=128",
    "-fno-lto",
    // As for gcc: nothing is merged that has lines of its own.
    "-mllvm",
    "-simplifycfg-sink-common=false",
    "-mllvm",
    "-enable-tail-merge=false",
    "-mllvm",
    "-simplifycfg-merge-cond-stores=false",
    "-mllvm",
    "-simplifycfg-hoist-cond-stores=false",
    "-fno-slp-vectorize",
    // Else a store has the line of its loop.
    "-fno-vectorize",
    // Nor moved out of a loop, where it has no line.
    "-mllvm",
    "-disable-licm-promotion",
    "-mllvm",
    "-licm-mssa-max-acc-promotion=0",
    // What has no line is not to have that of the code before it.
    "-mllvm",
    "-use-unknown-locations=Enable",
    // Warnings about the generated code, which is not the program's own: frames are larger, loops not
    // vectorised.
    "-Wno-frame-larger-than",
    "-Wno-pass-failed",
];

fn joined(flag: &str, path: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut text = OsString::from(flag);
    text.push(path);
    text
}
