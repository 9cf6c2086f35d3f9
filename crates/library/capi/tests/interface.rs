//! What `libstrandline` offers to C programs stays as long as its major version, by which they find it,
//! stays.
//!
//! `interface/MAJOR.MINOR` lists what each version offers: functions, types, constants and macros of
//! `strandline_pool.h`, `strandline_kv.h`, `strandline_tier.h` and `strandline_vnvm.h`. (That the library exports those functions and no others is
//! tested in `crates/face/strandline/tests/capi.rs`.) A list that was released is not changed any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const HEADER: &str = concat!(
    include_str!("../../../observe/instrument/include/strandline_pool.h"),
    include_str!("../../../observe/instrument/include/strandline_kv.h"),
    include_str!("../../../observe/instrument/include/strandline_tier.h"),
    include_str!("../../../observe/instrument/include/strandline_vnvm.h")
);
const LISTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interface");

type Interface = BTreeSet<String>;
/// Major and minor.
type Version = (u32, u32);

/// Words with one blank between them.
fn tidied(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The header without comments, one line for each that goes on behind a backslash, and without what only C++
/// sees.
fn plain(header: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    text.push_str(rest);
    let text = text.replace("\\\n", " ");
    let mut cxx = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.trim() {
            "#ifdef __cplusplus" => cxx = true,
            line if cxx => cxx = line != "#endif",
            line => lines.push(line.to_owned()),
        }
    }
    lines
}

/// What a `#define` offers: a constant, or a macro with its parameters. Not so of versions and of what keeps
/// a header from being read twice.
fn defined(line: &str) -> Option<String> {
    let line = line.strip_prefix("#define SL_")?;
    if line.starts_with("VERSION_") {
        return None;
    }
    let name = line.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(match line[name..].strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((parameters, _)) => format!("macro SL_{}({})", &line[..name], tidied(parameters)),
        None => format!("constant SL_{} = {}", &line[..name], tidied(&line[name..])),
    })
}

/// What a declaration offers.
fn declared(text: &str) -> Vec<String> {
    let text = tidied(&text.replace("__attribute__((always_inline))", "").replace("static inline", ""));
    match text.split_once('{') {
        Some((head, body)) if head.starts_with("enum") => {
            let body = body.trim_end_matches(['}', ' ']);
            body.split(',').map(|constant| format!("constant {}", tidied(constant))).collect()
        }
        Some((head, _)) if head.contains('(') => vec![format!("function {}", head.trim())],
        None if text.contains('(') && !text.starts_with("typedef") => vec![format!("function {text}")],
        _ => vec![format!("type {text}")],
    }
}

fn offered(header: &str) -> Interface {
    let lines = plain(header);
    let (directives, code): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|line| line.starts_with('#'));
    let mut interface: Interface = directives.into_iter().filter_map(|line| defined(line)).collect();
    let (mut depth, mut declaration) = (0, String::new());
    for c in code.into_iter().flat_map(|line| line.chars().chain(['\n'])) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        let is_body = c == '}' && declaration.split('{').next().is_some_and(|head| head.contains('('));
        if depth > 0 || c != ';' {
            declaration.push(c);
        }
        if depth == 0 && (c == ';' || is_body) {
            interface.extend(declared(&std::mem::take(&mut declaration)));
        }
    }
    assert!(declaration.trim().is_empty(), "no end: {declaration}");
    interface
}

fn text(interface: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    interface.into_iter().map(|line| format!("{}\n", line.as_ref())).collect()
}

/// What is wrong with a library of this version and interface, with these lists beside it; and what to do.
fn wrong(version: Version, interface: &Interface, lists: &[(Version, Interface)]) -> Option<String> {
    let (major, minor) = version;
    for ((_, listed), list) in lists.iter().filter(|((of, listed), _)| *of == major && *listed <= minor) {
        let gone: Vec<&String> = list.difference(interface).collect();
        if !gone.is_empty() {
            return Some(format!(
                "version {major}.{listed} offers this, which is gone or another now, so programs that find libstrandline.so.{major} break:\n{}\
                 Offer it again, beside what is new; or raise the major version: `version` in Cargo.toml and SL_VERSION_MAJOR in strandline_pool.h, from \
                 which the library has its name. (If nothing but a parameter's name is another, give it to the list, too.)",
                text(gone)
            ));
        }
    }
    let Some((_, list)) = lists.iter().find(|(listed, _)| *listed == version) else {
        let whole = text(interface);
        return Some(format!(
            "there is no crates/library/capi/interface/{major}.{minor}, which has to be this:\n{whole}"
        ));
    };
    let added: Vec<&String> = interface.difference(list).collect();
    (!added.is_empty()).then(|| {
        format!(
            "this is not in crates/library/capi/interface/{major}.{minor}:\n{}Programs that use it do not run with a library of that version. Raise the minor \
             version: `version` in Cargo.toml and SL_VERSION_MINOR in strandline_pool.h, and make a list {major}.{}.",
            text(added),
            minor + 1
        )
    })
}

/// A version such as 1.2, or 1.2.3.
fn version(text: &str) -> Version {
    let mut numbers =
        text.split('.').map(|number| number.parse().unwrap_or_else(|_| panic!("{text} is no version")));
    (numbers.next().expect("a major version"), numbers.next().expect("a minor version"))
}

fn lists() -> Vec<(Version, Interface)> {
    let files = fs::read_dir(Path::new(LISTS)).expect("there are lists");
    let files = files.map(|file| file.expect("it can be read"));
    let list =
        |path: &Path| fs::read_to_string(path).expect("it is text").lines().map(str::to_owned).collect();
    files.map(|file| (version(&file.file_name().to_string_lossy()), list(&file.path()))).collect()
}

#[test]
fn what_breaks_programs_raises_the_version() {
    let now = version(env!("CARGO_PKG_VERSION"));
    if let Some(wrong) = wrong(now, &offered(HEADER), &lists()) {
        panic!("{wrong}");
    }
}

#[test]
fn all_of_the_header_is_seen() {
    let interface = offered(HEADER);
    for line in [
        "constant SL_E_ARGUMENT = -1",
        "constant SL_E_INTERNAL = -13",
        "constant SL_GROW = 2u",
        "function const char *sl_error(void)",
        "function int sl_region(sl_pool *pool, int (*work)(sl_pool *pool, void *argument), void *argument)",
        "function sl_ref sl_move(sl_pool *pool, sl_ref cell)",
        "macro SL_GET(pool, ref, type, field)",
        "type struct sl_block { sl_ref at; uint64_t bytes; }",
        "type typedef uint64_t sl_ref",
    ] {
        assert!(interface.contains(line), "{line}\n{}", text(&interface));
    }
    let names = |kind: &str| interface.iter().filter(|line| line.starts_with(kind)).count();
    let lines = |begin: &str| HEADER.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(names("macro "), 5);
    assert_eq!(names("type struct"), lines("struct "));
    assert_eq!(
        names("function "),
        lines("int")
            + lines("uint64_t ")
            + lines("sl_ref ")
            + lines("sl_pool *")
            + lines("const char *")
            + lines("sl_kv")
            + lines("void *")
            + 1
    );
}

/// The header, and the manual page beside it, name every engine of the library.
#[test]
fn each_engine_is_documented() {
    const MANUAL: &str = include_str!("../../../../docs/man/pool.md");
    for engine in &region::ENGINES {
        let (name, row) = (format!("\"{}\"", engine.name), format!("| `{}`", engine.name));
        assert!(HEADER.contains(&name), "strandline_pool.h does not name the engine {name}");
        assert!(MANUAL.lines().any(|line| line.starts_with(&row)), "docs/man/pool.md has no row: {row}");
    }
}

/// Each kind of change, and what is said of it.
#[test]
fn changes_are_kept_apart() {
    let list = [((0, 1), offered(HEADER))];
    let said = |version, old: &str, new: &str| {
        assert!(HEADER.contains(old), "{old}");
        wrong(version, &offered(&HEADER.replacen(old, new, 1)), &list).unwrap_or_default()
    };
    for (old, new) in [
        ("int sl_abort(sl_pool *pool);", ""),
        ("int sl_abort(sl_pool *pool);", "int sl_abort(sl_pool *pool, int why);"),
        ("SL_E_STATE = -2", "SL_E_STATE = -20"),
        ("#define SL_GROW 2u", "#define SL_GROW 8u"),
        ("uint64_t torn_lines;", "uint32_t torn_lines;"),
        ("uint64_t longest_free;", "uint64_t longest_free; uint64_t more;"),
        ("typedef uint64_t sl_ref;", "typedef uint32_t sl_ref;"),
        ("SL_PUT(pool, ref, type, value)", "SL_PUT(pool, ref, value)"),
    ] {
        assert!(said((0, 1), old, new).contains("raise the major version"), "{new}");
        assert!(said((0, 2), old, new).contains("raise the major version"), "{new}");
        assert!(said((1, 0), old, new).starts_with("there is no crates/library/capi/interface/1.0"), "{new}");
    }
    for new in ["int sl_more(sl_pool *pool);", "#define SL_MORE 8u\n", "struct sl_more { int more; };"] {
        let (old, new) = ("int sl_abort(sl_pool *pool);", &format!("int sl_abort(sl_pool *pool);\n{new}"));
        assert!(said((0, 1), old, new).contains("Raise the minor version"), "{new}");
        assert!(said((0, 2), old, new).starts_with("there is no crates/library/capi/interface/0.2"), "{new}");
    }
    assert_eq!(said((0, 1), "/* Bytes of the pool. */", "/* How long it is. */"), "");
}
