//! Layouts of data from DWARF: of globals by their address, of types by their name, and of what a line of
//! source points to.
//!
//! Only what debug information says for sure is given: a name that two types of different size have is no
//! type.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use addr2line::gimli::{
    self, AttributeValue, Dwarf, EndianSlice, Operation, RunTimeEndian, Unit, UnitOffset,
};
use event::{Field, Layout};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use super::expression::{Expression, Step};

type Data<'d> = EndianSlice<'d, RunTimeEndian>;
type Entry<'d> = gimli::DebuggingInformationEntry<Data<'d>>;

/// Debug information above this is not read.
const DEBUG_MAX: usize = 512 << 20;
/// Types within types that are opened, and fields of one type.
const DEPTH_MAX: u32 = 4;
const FIELDS_MAX: usize = 256;
/// Types that stand for what they point to.
const HOLDERS: [&str; 10] =
    ["vector<", "Vec<", "Box<", "unique_ptr<", "shared_ptr<", "Arc<", "Rc<", "VecDeque<", "deque<", "array<"];

/// A type: its unit and its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place(usize, UnitOffset);

/// A variable of a function.
#[derive(Clone, Debug)]
struct Local {
    file: String,
    line: u32,
    of: Place,
}

/// The debug information of one file.
#[derive(Debug)]
pub struct Debug(HashMap<&'static str, Vec<u8>>);

impl Debug {
    /// Of an ELF file; `None` if it can't be read or has none.
    #[must_use]
    pub fn open(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let file = ElfFile64::<Endianness, _>::parse(&bytes[..]).ok()?;
        file.section_by_name(gimli::SectionId::DebugInfo.name())?;
        let mut all = HashMap::new();
        let _ = Dwarf::load(|id| {
            let found = file.section_by_name(id.name());
            let data = found.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default();
            if data.len() <= DEBUG_MAX {
                all.insert(id.name(), data.into_owned());
            }
            Ok::<_, gimli::Error>(EndianSlice::new(&[], RunTimeEndian::Little))
        });
        Some(Debug(all))
    }
}

/// The types of one file.
pub struct Layouts<'d> {
    dwarf: Dwarf<Data<'d>>,
    units: Vec<Unit<Data<'d>>>,
    starts: Vec<usize>,
    globals: HashMap<u64, Place>,
    global_names: HashMap<String, Option<Place>>,
    /// By plain name; `None` for two of different size.
    named: HashMap<String, Option<Place>>,
    locals: HashMap<String, Vec<Local>>,
    /// Members by name.
    members: HashMap<String, Vec<Place>>,
    /// Variables in the frames of functions by their first address: name, bytes from the address above the
    /// frame, type.
    frames: HashMap<u64, Vec<(String, i64, Place)>>,
    /// Types of the language's library, which have no fields that anybody wants to know.
    library: HashSet<Place>,
}

impl std::fmt::Debug for Layouts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layouts").field("units", &self.units.len()).finish_non_exhaustive()
    }
}

impl<'d> Layouts<'d> {
    /// Of what a file's debug information has; `None` if it is damaged.
    #[must_use]
    pub fn of(debug: &'d Debug) -> Option<Self> {
        let section = |id: gimli::SectionId| -> Result<Data<'d>, gimli::Error> {
            let data = debug.0.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok(EndianSlice::new(data, RunTimeEndian::Little))
        };
        let dwarf = Dwarf::load(section).ok()?;
        let mut all = Layouts {
            dwarf,
            units: Vec::new(),
            starts: Vec::new(),
            globals: HashMap::new(),
            global_names: HashMap::new(),
            named: HashMap::new(),
            locals: HashMap::new(),
            members: HashMap::new(),
            frames: HashMap::new(),
            library: HashSet::new(),
        };
        let mut headers = all.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let start = header.debug_info_offset().map(|offset| offset.0);
            if let (Some(start), Ok(unit)) = (start, all.dwarf.unit(header)) {
                all.starts.push(start);
                all.units.push(unit);
            }
        }
        for unit in 0..all.units.len() {
            // What is damaged ends the unit.
            let _ = all.scan(unit);
        }
        (!all.units.is_empty()).then_some(all)
    }

    /// Of the variable at an address (before relocation).
    #[must_use]
    pub fn global(&self, address: u64) -> Option<Layout> {
        self.layout(*self.globals.get(&address)?)
    }

    /// Variables in the frame of the function at an address (before relocation): name, where they begin from
    /// the address above the frame, bytes, layout.
    #[must_use]
    pub fn frame(&self, function: u64) -> Vec<(String, i64, u64, Option<Layout>)> {
        let all = self.frames.get(&function).into_iter().flatten();
        let of = |(name, offset, of): &(String, i64, Place)| {
            Some((name.clone(), *offset, self.size(*of)?, self.layout(*of)))
        };
        all.filter_map(of).collect()
    }

    /// Of the type with a name, as demanglers and sources write it.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Layout> {
        let name = name.trim();
        let (name, pointer) = match name.strip_suffix('*') {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        if pointer {
            let name = format!("{} *", name.trim());
            return Some(Layout { name, bytes: 8, fields: Vec::new() });
        }
        let plain = plain(name);
        let short = || self.named.get(plain.rsplit("::").next().unwrap_or_default());
        self.layout((*self.named.get(&plain).or_else(short)?)?)
    }

    /// Of what an expression at a line of source points to.
    pub(super) fn pointed_to(&self, expression: &Expression, file: &str, line: u32) -> Option<Layout> {
        let file = base_name(file);
        let candidates = self.locals.get(&expression.name).into_iter().flatten();
        let nearest = candidates
            .filter(|local| local.file == file && local.line <= line)
            .max_by_key(|local| local.line)
            .map(|local| local.of);
        let root = nearest
            .or_else(|| self.global_names.get(&expression.name).copied().flatten())
            .or_else(|| self.member(&expression.name));
        let mut at = root?;
        for step in &expression.steps {
            at = match step {
                Step::Field(name) => {
                    let of = self.pointee(at).unwrap_or(at);
                    let (_, entry) = self.bare(of)?;
                    self.member_of(of.0, &entry, name)?
                }
                Step::Element => self.element(at)?,
            };
        }
        let (place, _) = self.bare(if expression.value { at } else { self.pointee(at)? })?;
        self.layout(place)
    }

    /// The type of all members of a name, if they are of one.
    fn member(&self, name: &str) -> Option<Place> {
        let all = self.members.get(name)?;
        let (first, rest) = all.split_first()?;
        let target = |place: Place| self.pointee(place).and_then(|at| self.name(at));
        rest.iter().all(|&other| target(other) == target(*first)).then_some(*first)
    }

    /// A member of a type.
    fn member_of(&self, unit: usize, of: &Entry<'d>, name: &str) -> Option<Place> {
        let unit_of = &self.units[unit];
        let mut tree = unit_of.entries_tree(Some(of.offset())).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            if entry.tag() == gimli::DW_TAG_member && self.string(unit, entry).as_deref() == Some(name) {
                return self.type_of(unit, entry);
            }
        }
        None
    }

    fn string(&self, unit: usize, entry: &Entry<'d>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name)?;
        let text = self.dwarf.attr_string(&self.units[unit], value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn reference(&self, unit: usize, value: AttributeValue<Data<'d>>) -> Option<Place> {
        match value {
            AttributeValue::UnitRef(offset) => Some(Place(unit, offset)),
            AttributeValue::DebugInfoRef(offset) => {
                let at = self.starts.partition_point(|&start| start <= offset.0).checked_sub(1)?;
                Some(Place(at, UnitOffset(offset.0 - self.starts[at])))
            }
            _ => None,
        }
    }

    fn type_of(&self, unit: usize, entry: &Entry<'d>) -> Option<Place> {
        self.reference(unit, entry.attr_value(gimli::DW_AT_type)?)
    }

    fn entry(&self, place: Place) -> Option<Entry<'d>> {
        self.units.get(place.0)?.entry(place.1).ok()
    }

    /// A type without its names and qualifiers; a declaration's definition.
    fn bare(&self, mut place: Place) -> Option<(Place, Entry<'d>)> {
        for _ in 0..32 {
            let entry = self.entry(place)?;
            match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => place = self.type_of(place.0, &entry)?,
                _ if entry.has_attr(gimli::DW_AT_declaration) => {
                    let name = self.string(place.0, &entry)?;
                    let found = (*self.named.get(&plain(&name))?)?;
                    if found == place {
                        return None;
                    }
                    place = found;
                }
                _ => return Some((place, entry)),
            }
        }
        None
    }

    /// What a pointer, a reference or a container of one type points to.
    fn pointee(&self, place: Place) -> Option<Place> {
        let (at, entry) = self.bare(place)?;
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type => self.type_of(at.0, &entry),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                let name = self.string(at.0, &entry)?;
                HOLDERS.iter().any(|holder| name.starts_with(holder)).then_some(())?;
                let mut tree = self.units[at.0].entries_tree(Some(at.1)).ok()?;
                let mut children = tree.root().ok()?.children();
                while let Ok(Some(child)) = children.next() {
                    if child.entry().tag() == gimli::DW_TAG_template_type_parameter {
                        return self.type_of(at.0, child.entry());
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// The type of an element.
    fn element(&self, place: Place) -> Option<Place> {
        let (at, entry) = self.bare(place)?;
        match entry.tag() {
            gimli::DW_TAG_array_type => self.type_of(at.0, &entry),
            _ => self.pointee(place),
        }
    }

    fn size(&self, place: Place) -> Option<u64> {
        let (at, entry) = self.bare(place)?;
        if let Some(bytes) = entry.attr_value(gimli::DW_AT_byte_size) {
            return bytes.udata_value();
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                Some(u64::from(self.units[at.0].header.encoding().address_size))
            }
            gimli::DW_TAG_array_type => {
                let mut count = 1_u64;
                let mut tree = self.units[at.0].entries_tree(Some(at.1)).ok()?;
                let mut children = tree.root().ok()?.children();
                while let Ok(Some(child)) = children.next() {
                    let of = child.entry();
                    if of.tag() == gimli::DW_TAG_subrange_type {
                        let number = |name| of.attr_value(name).and_then(|value| value.udata_value());
                        let upper = || number(gimli::DW_AT_upper_bound).map(|last| last.wrapping_add(1));
                        count = count.checked_mul(number(gimli::DW_AT_count).or_else(upper)?)?;
                    }
                }
                count.checked_mul(self.size(self.type_of(at.0, &entry)?)?)
            }
            _ => None,
        }
    }

    /// A type's name as a source has it.
    fn name(&self, place: Place) -> Option<String> {
        let entry = self.entry(place)?;
        let inner = || self.name(self.type_of(place.0, &entry)?);
        match entry.tag() {
            gimli::DW_TAG_pointer_type => Some(format!("{} *", inner().unwrap_or_else(|| "void".to_owned()))),
            gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type | gimli::DW_TAG_atomic_type => inner(),
            _ => self.string(place.0, &entry),
        }
    }

    /// The layout of a type; of its elements, if it is an array.
    fn layout(&self, place: Place) -> Option<Layout> {
        let (at, entry) = self.bare(place)?;
        if entry.tag() == gimli::DW_TAG_array_type {
            return self.layout(self.type_of(at.0, &entry)?);
        }
        let bytes = self.size(at).filter(|&bytes| bytes > 0)?;
        let name = self.name(place).or_else(|| self.name(at)).unwrap_or_else(|| "struct".to_owned());
        let mut fields = Vec::new();
        self.fields(at, 0, "", 0, &mut fields);
        fields.retain(|field| field.offset < bytes && field.bytes > 0);
        fields.sort_by_key(|field| field.offset);
        Some(Layout { name, bytes, fields: merged(fields) })
    }

    fn fields(&self, of: Place, base: u64, prefix: &str, depth: u32, out: &mut Vec<Field>) {
        let Ok(mut tree) = self.units[of.0].entries_tree(Some(of.1)) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let inherited = entry.tag() == gimli::DW_TAG_inheritance;
            let member = entry.tag() == gimli::DW_TAG_member && !entry.has_attr(gimli::DW_AT_external);
            if out.len() >= FIELDS_MAX || !(inherited || member) {
                continue;
            }
            let (Some(type_of), Some(offset)) = (self.type_of(of.0, entry), offset(entry)) else { continue };
            let offset = base.saturating_add(offset);
            let name = self.string(of.0, entry).unwrap_or_default();
            let name = if inherited || name.is_empty() {
                prefix.trim_end_matches('.').to_owned()
            } else {
                format!("{prefix}{name}")
            };
            let opened = self.bare(type_of).filter(|(at, entry)| {
                let whole = matches!(
                    entry.tag(),
                    gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
                );
                whole && depth < DEPTH_MAX && (inherited || !self.library.contains(at))
            });
            if let Some((inner, _)) = opened {
                let before = out.len();
                let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
                self.fields(inner, offset, &prefix, depth + 1, out);
                if out.len() > before || inherited {
                    continue;
                }
            }
            let Some(bytes) = self.size(type_of) else { continue };
            let element = self.bare(type_of).and_then(|(at, entry)| {
                let array = entry.tag() == gimli::DW_TAG_array_type;
                array.then(|| self.size(self.type_of(at.0, &entry)?)).flatten()
            });
            out.push(Field { name, offset, bytes, element: element.unwrap_or(bytes) });
        }
    }

    /// Notes types, globals and variables of a unit.
    fn scan(&mut self, number: usize) -> gimli::Result<()> {
        let mut files: HashMap<u64, String> = HashMap::new();
        let mut scopes: Vec<(isize, String, bool)> = Vec::new();
        let mut found = Found::default();
        // The function whose frame is known, and its depth.
        let mut function: Option<(isize, u64)> = None;
        let unit = &self.units[number];
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.pop_if(|scope| scope.0 >= depth).is_some() {}
            function = function.filter(|of| of.0 < depth);
            match entry.tag() {
                gimli::DW_TAG_namespace => {
                    let name = self.string(number, entry).unwrap_or_default();
                    let library = scopes.last().is_some_and(|scope| scope.2)
                        || (depth <= 1 && matches!(name.as_str(), "std" | "core" | "alloc" | "__gnu_cxx"));
                    scopes.push((depth, name, library));
                }
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_base_type
                | gimli::DW_TAG_typedef => {
                    let Some(name) = self.string(number, entry) else { continue };
                    let place = Place(number, entry.offset());
                    let library = scopes.last().is_some_and(|scope| scope.2);
                    if !entry.has_attr(gimli::DW_AT_declaration) {
                        let mut whole: Vec<&str> = scopes
                            .iter()
                            .map(|scope| scope.1.as_str())
                            .filter(|part| !part.is_empty())
                            .collect();
                        whole.push(&name);
                        found.types.push((plain(&whole.join("::")), place, library));
                        if whole.len() > 1 && !library {
                            found.types.push((plain(&name), place, false));
                        }
                    }
                    if entry.has_children() {
                        scopes.push((depth, name, library));
                    }
                }
                gimli::DW_TAG_subprogram => {
                    function = self.framed(number, entry).map(|start| (depth, start));
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    if let Some((_, start)) = function
                        && let Some((name, offset, of)) = self.in_frame(number, entry)
                    {
                        found.frames.push((start, name, offset, of));
                    }
                    self.variable(number, entry, &mut files, &mut found);
                }
                gimli::DW_TAG_member => {
                    let library = scopes.last().is_some_and(|scope| scope.2);
                    if let (false, Some(name), Some(of)) =
                        (library, self.string(number, entry), self.type_of(number, entry))
                    {
                        found.members.push((name, of));
                    }
                }
                _ => {}
            }
        }
        self.keep(found);
        Ok(())
    }

    fn variable(
        &self,
        number: usize,
        entry: &Entry<'d>,
        files: &mut HashMap<u64, String>,
        found: &mut Found,
    ) {
        let origin = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin]
            .iter()
            .find_map(|&name| self.reference(number, entry.attr_value(name)?));
        let origin = origin.and_then(|place| Some((place.0, self.entry(place)?)));
        let of = self.type_of(number, entry);
        let Some(of) = of.or_else(|| origin.as_ref().and_then(|(unit, of)| self.type_of(*unit, of))) else {
            return;
        };
        let name = self.string(number, entry);
        let name = name.or_else(|| origin.as_ref().and_then(|(unit, of)| self.string(*unit, of)));
        if let Some(address) = self.address(number, entry) {
            found.globals.push((address, name.clone().unwrap_or_default(), of));
        }
        let line = entry.attr_value(gimli::DW_AT_decl_line).and_then(|line| line.udata_value());
        let (Some(name), Some(line)) = (name, line) else { return };
        let file = match entry.attr_value(gimli::DW_AT_decl_file) {
            Some(AttributeValue::FileIndex(file)) => file,
            Some(value) => value.udata_value().unwrap_or(0),
            None => return,
        };
        let file = files.entry(file).or_insert_with(|| self.file(number, file).unwrap_or_default()).clone();
        found.locals.push((name, Local { file, line: u32::try_from(line).unwrap_or(0), of }));
    }

    /// The first address of a function whose variables lie at fixed distances from the address above its
    /// frame.
    fn framed(&self, unit: usize, entry: &Entry<'d>) -> Option<u64> {
        let of = &self.units[unit];
        let base = entry.attr_value(gimli::DW_AT_frame_base)?.exprloc_value()?;
        let first = base.operations(of.encoding()).next().ok()??;
        matches!(first, Operation::CallFrameCFA).then_some(())?;
        self.dwarf.attr_address(of, entry.attr_value(gimli::DW_AT_low_pc)?).ok()?
    }

    /// A variable with a fixed place in its function's frame.
    fn in_frame(&self, unit: usize, entry: &Entry<'d>) -> Option<(String, i64, Place)> {
        let expression = entry.attr_value(gimli::DW_AT_location)?.exprloc_value()?;
        let mut operations = expression.operations(self.units[unit].encoding());
        let Operation::FrameOffset { offset } = operations.next().ok()?? else { return None };
        operations.next().ok()?.is_none().then_some(())?;
        Some((self.string(unit, entry)?, offset, self.type_of(unit, entry)?))
    }

    /// A file of source by its number.
    fn file(&self, unit: usize, number: u64) -> Option<String> {
        let unit = &self.units[unit];
        let file = unit.line_program.as_ref()?.header().file(number)?;
        let name = self.dwarf.attr_string(unit, file.path_name()).ok()?;
        Some(base_name(&name.to_string_lossy()).to_owned())
    }

    /// The address of a variable that has a fixed one.
    fn address(&self, unit: usize, entry: &Entry<'d>) -> Option<u64> {
        let unit = &self.units[unit];
        let expression = entry.attr_value(gimli::DW_AT_location)?.exprloc_value()?;
        let mut operations = expression.operations(unit.encoding());
        let first = operations.next().ok()??;
        let address = match first {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok()?,
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(address)
    }

    fn keep(&mut self, found: Found) {
        for (name, place, library) in found.types {
            if library {
                self.library.insert(place);
            }
            let old = self.named.get(&name).copied();
            let same = |old: Place| self.size(old) == self.size(place);
            let new = match old {
                None => Some(place),
                Some(old) => old.filter(|&old| same(old)),
            };
            self.named.insert(name, new);
        }
        for (address, name, of) in found.globals {
            self.globals.entry(address).or_insert(of);
            let twice = self.global_names.contains_key(&name);
            self.global_names.insert(name, (!twice).then_some(of));
        }
        for (name, local) in found.locals {
            self.locals.entry(name).or_default().push(local);
        }
        for (start, name, offset, of) in found.frames {
            self.frames.entry(start).or_default().push((name, offset, of));
        }
        for (name, of) in found.members {
            self.members.entry(name).or_default().push(of);
        }
    }
}

/// What a unit has.
#[derive(Default)]
struct Found {
    types: Vec<(String, Place, bool)>,
    globals: Vec<(u64, String, Place)>,
    locals: Vec<(String, Local)>,
    members: Vec<(String, Place)>,
    frames: Vec<(u64, String, i64, Place)>,
}

/// Names of members that share bytes, at most.
const SHARED_MAX: usize = 3;

/// Members that share bytes, as those of a union and bit fields do, as one: an access is to all of them or to
/// nobody knows which. Fields are sorted by offset.
fn merged(fields: Vec<Field>) -> Vec<Field> {
    let mut all: Vec<(Field, usize)> = Vec::new();
    for field in fields {
        match all.last_mut() {
            Some((last, count)) if field.offset < last.offset + last.bytes => {
                let end = (last.offset + last.bytes).max(field.offset + field.bytes);
                let same = field.offset == last.offset && field.bytes == last.bytes;
                last.bytes = end - last.offset;
                last.element = if same && field.element == last.element { last.element } else { last.bytes };
                *count += 1;
                if *count <= SHARED_MAX {
                    last.name = format!("{}|{}", last.name, field.name);
                } else if *count == SHARED_MAX + 1 {
                    last.name.push_str("|\u{2026}");
                }
            }
            _ => all.push((field, 1)),
        }
    }
    all.into_iter().map(|(field, _)| field).collect()
}

/// Bytes before a member.
fn offset(entry: &Entry<'_>) -> Option<u64> {
    if let Some(bits) = entry.attr_value(gimli::DW_AT_data_bit_offset) {
        return bits.udata_value().map(|bits| bits / 8);
    }
    match entry.attr_value(gimli::DW_AT_data_member_location) {
        // A union's.
        None => Some(0),
        Some(value) => value.udata_value(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A type's name in one spelling, whoever wrote it: without spaces, `const`, `struct` and `std::`.
fn plain(name: &str) -> String {
    const NUMBERS: [(&str, &str); 5] = [
        ("long unsigned int", "unsigned long"),
        ("long long unsigned int", "unsigned long long"),
        ("short unsigned int", "unsigned short"),
        ("long int", "long"),
        ("short int", "short"),
    ];
    let mut name = name.replace("std::__cxx11::", "").replace("std::", "");
    for (from, to) in NUMBERS {
        name = name.replace(from, to);
    }
    let mut plain = String::new();
    let mut rest = name.as_str();
    while let Some(first) = rest.chars().next() {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = if word(first) {
            rest.find(|letter| !word(letter)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(end);
        if !matches!(token, "const" | "struct" | "class") && !first.is_whitespace() {
            plain.push_str(token);
        }
        rest = behind;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "
        #[repr(C)]
        struct Inner { low: u32, high: u32 }
        #[repr(C)]
        struct Outer { key: u64, inner: Inner, rest: [u16; 8] }
        #[unsafe(no_mangle)]
        static OUTER: [Outer; 2] = [
            Outer { key: 1, inner: Inner { low: 2, high: 3 }, rest: [4; 8] },
            Outer { key: 5, inner: Inner { low: 6, high: 7 }, rest: [8; 8] },
        ];
        fn main() {
            let all = std::hint::black_box(&OUTER);
            let sum = all[1].key + u64::from(all[1].inner.low + all[0].inner.high + u32::from(all[0].rest[0]));
            std::process::exit((sum != 18) as i32)
        }
    ";

    #[test]
    fn types_of_rust_have_their_fields() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, own) = (folder.path().join("layout.rs"), folder.path().join("layout"));
        std::fs::write(&source, PROGRAM).expect("written");
        let mut compiler = std::process::Command::new("rustc");
        compiler.args(["-g", "--edition", "2024", "-o"]).arg(&own).arg(&source);
        assert!(compiler.status().expect("a compiler").success());
        let debug = Debug::open(&own).expect("it has debug information");
        let layouts = Layouts::of(&debug).expect("it is whole");
        let layout = layouts.named("Outer").expect("a type of the program");
        let fields: Vec<_> = layout
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.offset, field.bytes, field.element))
            .collect();
        assert_eq!(layout.bytes, 32);
        assert_eq!(
            fields,
            [("key", 0, 8, 8), ("inner.low", 8, 4, 4), ("inner.high", 12, 4, 4), ("rest", 16, 16, 2)]
        );
        let globals = crate::symbols::globals(&own);
        let found = globals.iter().find(|variable| variable.0 == "OUTER").expect("its variable");
        assert_eq!(layouts.global(found.1).expect("it has a type").name, layout.name);
        assert!(Debug::open(Path::new("/nowhere")).is_none());
    }

    #[test]
    fn what_shares_bytes_is_one_field() {
        let field =
            |name: &str, offset, bytes| Field { name: name.to_owned(), offset, bytes, element: bytes };
        let fields = vec![
            field("kind", 0, 4),
            field("as.number", 8, 8),
            field("as.pair.low", 8, 4),
            field("as.pair.high", 12, 4),
            field("as.text", 8, 16),
            field("next", 24, 8),
        ];
        let mut sorted = fields.clone();
        sorted.sort_by_key(|field| field.offset);
        let merged = merged(sorted);
        let of: Vec<_> =
            merged.iter().map(|field| (field.name.as_str(), field.offset, field.bytes)).collect();
        let shared = "as.number|as.pair.low|as.text|\u{2026}";
        assert_eq!(of, [("kind", 0, 4), (shared, 8, 16), ("next", 24, 8)]);
    }

    #[test]
    fn names_of_types_have_one_spelling() {
        assert_eq!(plain("std::pair<int const, a::B>"), plain("pair<const int, a::B>"));
        assert_eq!(plain("struct node"), "node");
        assert_eq!(plain("long unsigned int"), plain("unsigned long"));
    }
}
