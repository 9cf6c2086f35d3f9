//! Any bytes, taken for what a Redis client sends: requests or a refusal, the same in whatever pieces they
//! arrive.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use serve::{Limits, Parser};

/// The requests up to the first that is none, and whether there was such.
fn requests(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, bool) {
    let limits = Limits { arguments: 1 << 10, argument: 1 << 16, request: 1 << 17 };
    let (mut parser, mut buffer, mut all) = (Parser::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.advance(&buffer, &limits) {
                Ok(true) => {
                    all.push(parser.arguments(&buffer).iter().map(|word| word.to_vec()).collect());
                    parser.take(&mut buffer);
                }
                Ok(false) => break,
                Err(_) => return (all, true),
            }
        }
    }
    (all, false)
}

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (bytes, size) = input;
    let whole = requests(&[&bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(1 + size % 64).collect();
    assert_eq!(requests(&pieces), whole);
});
