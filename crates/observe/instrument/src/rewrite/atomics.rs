//! Moves by which threads synchronise.
//!
//! In what a processor executes, an atomic load or store that is not sequentially consistent is a move like
//! any other, and so is an access to a volatile. Only the compiler knows which: gcc says so in comments with
//! the instructions that it has chosen (`-dP`), clang in its intermediate code, by lines and columns.

use std::collections::HashMap;

use super::instruction::Instruction;

/// Why threads may synchronise by an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It is to a volatile, or atomic without an order.
    Volatile,
    /// It is atomic.
    Atomic,
}

/// An access's place: its file's name without folders, line, column, and whether it is a store.
type Place = (Vec<u8>, u32, u32, bool);

/// Where the source has atomic and volatile accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atomics(HashMap<Place, Kind>);

impl Atomics {
    /// Reads what [`Atomics::to_text`] has written; lines that are anything else are left out.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let places = text.lines().filter_map(|line| {
            let mut words = line.splitn(5, ' ');
            let mut number = || words.next()?.parse::<u32>().ok();
            let (atomic, store, row, column) = (number()?, number()?, number()?, number()?);
            let kind = if atomic == 0 { Kind::Volatile } else { Kind::Atomic };
            Some(((words.next()?.as_bytes().to_vec(), row, column, store != 0), kind))
        });
        Atomics(places.collect())
    }

    /// A line for each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |((file, row, column, store), kind): (&Place, &Kind)| {
            let (atomic, store) = (u8::from(*kind == Kind::Atomic), u8::from(*store));
            format!("{atomic} {store} {row} {column} {}\n", String::from_utf8_lossy(file))
        };
        self.0.iter().map(line).collect()
    }

    /// Adds those of a module in clang's intermediate code.
    pub fn add_module(&mut self, module: &str) {
        let scopes = Scopes::of(module);
        for line in module.lines() {
            let store = line.trim_start().starts_with("store ");
            let atomic = line.contains(" atomic ");
            if !(store || line.contains(" = load ")) || !(atomic || line.contains(" volatile ")) {
                continue;
            }
            let Some((before, id)) = line.rsplit_once("!dbg !") else { continue };
            let Some((file, row, column)) = number(id).and_then(|id| scopes.place(id)) else { continue };
            let ordered = atomic && !before.contains(" monotonic,") && !before.contains(" unordered,");
            let kind = if ordered { Kind::Atomic } else { Kind::Volatile };
            self.0.insert((base_name(file.as_bytes()).to_vec(), row, column, store), kind);
        }
    }
}

/// Lines, columns and files of a module's metadata, by their numbers.
struct Scopes<'a>(HashMap<u32, &'a str>);

impl<'a> Scopes<'a> {
    fn of(module: &'a str) -> Self {
        let entry = |line: &'a str| {
            let (id, node) = line.strip_prefix('!')?.split_once(" = ")?;
            Some((id.parse().ok()?, node))
        };
        Scopes(module.lines().filter_map(entry).collect())
    }

    /// What a location says: its file, line and column.
    fn place(&self, id: u32) -> Option<(&'a str, u32, u32)> {
        let location = self.0.get(&id)?;
        // Column 0 is left out.
        let column = field(location, "column: ").and_then(number).unwrap_or(0);
        Some((
            self.file(field(location, "scope: !").and_then(number)?)?,
            number(field(location, "line: ")?)?,
            column,
        ))
    }

    /// The file of a scope: a function's, or a block's in one.
    fn file(&self, scope: u32) -> Option<&'a str> {
        let file = number(field(self.0.get(&scope)?, "file: !")?)?;
        field(self.0.get(&file)?, "filename: \"")?.split('"').next()
    }
}

fn field<'a>(node: &'a str, name: &str) -> Option<&'a str> {
    node.find(name).map(|at| &node[at + name.len()..])
}

fn number(text: &str) -> Option<u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Follows the lines that a source says its instructions are of.
pub struct Synchronizing<'a> {
    atomics: &'a Atomics,
    /// Names by the files' numbers.
    files: HashMap<&'a [u8], &'a [u8]>,
    /// Number of the file, line and column.
    here: (&'a [u8], u32, u32),
}

impl<'a> Synchronizing<'a> {
    /// At the beginning of a source.
    pub fn new(atomics: &'a Atomics) -> Self {
        Synchronizing { atomics, files: HashMap::new(), here: (b"", 0, 0) }
    }

    /// Follows a directive.
    pub fn directive(&mut self, directive: &Instruction<'a>) {
        if self.atomics.0.is_empty() {
            return;
        }
        let operands = directive.operands;
        let mut words = operands.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        match directive.name {
            b".file" => {
                let quoted = operands.split(|&byte| byte == b'"').skip(1).step_by(2);
                // A checksum may follow, without quotes.
                if let (Some(number), Some(name)) = (words.next(), quoted.last()) {
                    self.files.insert(number, base_name(name));
                }
            }
            b".loc" => {
                let file = words.next().unwrap_or_default();
                let mut number = || std::str::from_utf8(words.next()?).ok()?.parse().ok();
                self.here = (file, number().unwrap_or(0), number().unwrap_or(0));
            }
            _ => {}
        }
    }

    /// Whether the instruction at `at` of `source`, a store or a load, is one by which threads synchronise.
    pub fn kind_at(&self, source: &[u8], at: usize, store: bool) -> Option<Kind> {
        let (file, row, column) = self.here;
        let of_clang = self
            .files
            .get(file)
            .and_then(|name| self.atomics.0.get(&(name.to_vec(), row, column, store)).copied());
        of_clang.or_else(|| kind_by_comment(comment_before(source, at)))
    }
}

/// What gcc says of the instruction at `at`, in the lines before it.
fn comment_before(source: &[u8], at: usize) -> &[u8] {
    let line_start =
        |end: usize| source[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let end = line_start(at);
    let mut start = end;
    while start > 0 {
        let line = &source[line_start(start - 1)..start];
        let directive = line.trim_ascii_start().starts_with(b".");
        if !directive && (!line.starts_with(b"#") || line.starts_with(b"#NO_APP")) {
            break;
        }
        start = line_start(start - 1);
    }
    &source[start..end]
}

/// Whether gcc's comment has `(mem/v:SI …)`, with or without other flags. A barrier for the compiler has no
/// size there.
///
/// Behind the address stands in brackets which other accesses the compiler thinks it may meet: an atomic one
/// any, which has the number -1.
fn kind_by_comment(comment: &[u8]) -> Option<Kind> {
    let mut rest = comment;
    while let Some(at) = rest.windows(5).position(|word| word == b"(mem/") {
        rest = &rest[at + 5..];
        let end = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
        if rest[..end].contains(&b'v') && end <= 9 && !rest[end..].starts_with(b":BLK") {
            let mut brackets = rest.split(|&byte| byte == b'[').skip(1);
            let met = brackets.find(|text| {
                let number = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
                number > 0 && text.get(number) == Some(&b' ')
            });
            let atomic = met.is_some_and(|text| text.starts_with(b"-1 "));
            return Some(if atomic { Kind::Atomic } else { Kind::Volatile });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gcc_says_it_in_comments() {
        let comment = |mem: &str| {
            let text = format!(
                "\tmovl %eax, %ebx\n\
                 \t.loc 1 4 2\n\
                 #(insn 1 2 3 (set ({mem}:SI (plus:DI (reg:DI 5 di [orig:85 p ] [85])\n\
                 #    (const_int 8 [0x8])) [-1  S4 A32])\n\
                 #  (reg:SI 1)) \"a.c\":4:2\n\
                 \tmovl %eax, 8(%rdi)\n"
            );
            let at = text.rfind("movl").expect("it");
            kind_by_comment(comment_before(text.as_bytes(), at))
        };
        assert_eq!((comment("mem/v"), comment("mem/v/c")), (Some(Kind::Atomic), Some(Kind::Atomic)));
        assert_eq!((comment("mem"), comment("mem/c")), (None, None));
        let volatile = b"#(insn 1 (set (mem/s/v/c:DI (symbol_ref:DI (\"v\") [flags 0x2]) [1 v+0 S8 A64])\n";
        assert_eq!(kind_by_comment(volatile), Some(Kind::Volatile));
        assert_eq!(kind_by_comment(b"#(insn 8 (set (mem/v:BLK (scratch:DI) [0  A8])\n"), None);
    }

    #[test]
    fn clang_says_it_in_its_intermediate_code() {
        let module = "\
            define void @f() !dbg !9 {\n\
              store atomic i32 1, i32* @x release, align 4, !dbg !5\n\
              %2 = load volatile i64, i64* @v, align 8, !dbg !6\n\
              store atomic i32 1, i32* @x monotonic, align 4, !dbg !7\n\
              store i32 1, i32* @y, !dbg !8\n\
            }\n\
            !1 = !DIFile(filename: \"src/a.c\", directory: \"/d\")\n\
            !5 = !DILocation(line: 4, column: 25, scope: !9)\n\
            !6 = !DILocation(line: 5, column: 3, scope: !10)\n\
            !7 = distinct !DILocation(line: 6, scope: !9)\n\
            !8 = !DILocation(line: 7, column: 3, scope: !9)\n\
            !9 = distinct !DISubprogram(name: \"f\", file: !1, line: 3)\n\
            !10 = distinct !DILexicalBlock(scope: !9, file: !1, line: 4)\n\
            ";
        let mut atomics = Atomics::default();
        atomics.add_module(module);
        let place = |row, column, store| (b"a.c".to_vec(), row, column, store);
        let expected = [
            (place(4, 25, true), Kind::Atomic),
            (place(5, 3, false), Kind::Volatile),
            (place(6, 0, true), Kind::Volatile),
        ];
        assert_eq!(atomics, Atomics(expected.into_iter().collect()));
        assert_eq!(Atomics::of_text(&atomics.to_text()), atomics);
    }
}
