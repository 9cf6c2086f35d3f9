//! Sites, names and shapes of code blocks as bytes.

use event::{AccessKind, BlockAccess, BlockShape, Definition, Frame, NameId, Site, SiteId, SiteTable};

use super::bytes::{Bytes, put_str, put_varint};
use super::error::Malformed;
use super::format::TEXT_MAX;

const SITE: u8 = 1;
const NAME: u8 = 2;
const SHAPE: u8 = 3;

const KINDS: [AccessKind; 3] = [AccessKind::Load, AccessKind::Store, AccessKind::StoreNt];
/// Flag of an access's kind: its executions state its length.
const TELLS_LENGTH: u8 = 4;

/// Appends a definition; `false` if a text in it is too long for the format.
pub(super) fn put(out: &mut Vec<u8>, definition: Definition<'_>) -> bool {
    match definition {
        Definition::Site(id, site) => {
            let texts = site.frames.iter().flat_map(|frame| [&frame.function, &frame.file]);
            if site.frames.len() > TEXT_MAX || texts.chain([&site.module]).any(|text| text.len() > TEXT_MAX) {
                return false;
            }
            out.push(SITE);
            put_varint(out, u64::from(id.0));
            put_str(out, &site.module);
            put_varint(out, site.address);
            put_varint(out, site.frames.len() as u64);
            for frame in &site.frames {
                put_str(out, &frame.function);
                put_str(out, &frame.file);
                put_varint(out, u64::from(frame.line));
            }
        }
        Definition::Name(id, name) => {
            if name.len() > TEXT_MAX {
                return false;
            }
            out.push(NAME);
            put_varint(out, u64::from(id.0));
            put_str(out, name);
        }
    }
    true
}

/// Appends the definition of a shape; its number is that of the shapes before it.
pub(super) fn put_shape(out: &mut Vec<u8>, shape: &BlockShape) {
    out.push(SHAPE);
    put_varint(out, u64::from(shape.after));
    put_varint(out, shape.accesses.len() as u64);
    for access in &shape.accesses {
        out.push(access.kind as u8 | if access.len.is_none() { TELLS_LENGTH } else { 0 });
        put_varint(out, u64::from(access.len.unwrap_or(0)));
        put_varint(out, u64::from(access.site.0));
        put_varint(out, u64::from(access.instructions));
    }
}

fn shape(bytes: &mut Bytes<'_>) -> Result<BlockShape, Malformed> {
    let after = bytes.varint32()?;
    let mut accesses = Vec::new();
    for _ in 0..bytes.varint()? {
        let kind = bytes.u8()?;
        let len = bytes.varint32()?;
        let len = if kind & TELLS_LENGTH == 0 { Some(len) } else { None };
        let kind =
            KINDS.get(usize::from(kind & !TELLS_LENGTH)).ok_or(Malformed("an unknown kind of access"))?;
        let site = SiteId(bytes.varint32()?);
        accesses.push(BlockAccess { kind: *kind, len, site, instructions: bytes.varint32()? });
    }
    if accesses.is_empty() {
        return Err(Malformed("a code block without accesses"));
    }
    Ok(BlockShape { accesses, after })
}

/// Enters every definition of a column into `table` and `shapes`; there must be `count`.
pub(super) fn enter_all(
    column: &[u8],
    count: u32,
    table: &mut SiteTable,
    shapes: &mut Vec<BlockShape>,
) -> Result<(), Malformed> {
    let mut bytes = Bytes::new(column);
    for _ in 0..count {
        match bytes.u8()? {
            SITE => {
                let id = SiteId(bytes.varint32()?);
                let module = bytes.str()?.to_owned();
                let address = bytes.varint()?;
                let mut frames = Vec::new();
                for _ in 0..bytes.varint()? {
                    let function = bytes.str()?.to_owned();
                    let file = bytes.str()?.to_owned();
                    frames.push(Frame { function, file, line: bytes.varint32()? });
                }
                table.define_site(id, Site { frames, module, address });
            }
            NAME => {
                let id = NameId(bytes.varint32()?);
                table.define_name(id, bytes.str()?.to_owned());
            }
            SHAPE => shapes.push(shape(&mut bytes)?),
            _ => return Err(Malformed("an unknown kind of definition")),
        }
    }
    if bytes.is_empty() { Ok(()) } else { Err(Malformed("more definitions than the block says")) }
}
