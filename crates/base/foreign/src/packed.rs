//! Files that were packed.

use std::io::{BufRead, BufReader, Read};

use crate::ImportError;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z'];
const BZIP2: &[u8] = b"BZh";

/// The text of a file, whatever packed it.
pub(crate) fn open<'a>(input: impl Read + 'a, file: &str) -> Result<Box<dyn BufRead + 'a>, ImportError> {
    let mut input = BufReader::with_capacity(1 << 20, input);
    let io = |source| ImportError::Io { file: file.to_owned(), line: 1, source };
    let head = input.fill_buf().map_err(io)?;
    if head.starts_with(GZIP) {
        return Ok(Box::new(BufReader::with_capacity(1 << 20, flate2::bufread::MultiGzDecoder::new(input))));
    }
    if head.starts_with(ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(io)?;
        return Ok(Box::new(BufReader::with_capacity(1 << 20, decoder)));
    }
    for (magic, by) in [(XZ, "xz"), (BZIP2, "bzip2")] {
        if head.starts_with(magic) {
            return Err(ImportError::Packed { file: file.to_owned(), by });
        }
    }
    Ok(Box::new(input))
}
