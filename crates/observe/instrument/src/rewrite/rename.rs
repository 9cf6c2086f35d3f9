//! Symbols of the C and C++ libraries that instrumented code reaches through the runtime.
//!
//! Only the program's own uses are renamed. The library's inner calls, and those of other libraries, keep
//! going where they went, and so never become events.

use std::borrow::Cow;
use std::ops::Range;

use super::edits::Edits;
use super::exports::Exports;
use super::scan::{is_symbol, string_end};

/// The symbols, sorted. The runtime has each of them with `strandline_` before its name.
const SYMBOLS: [&[u8]; 88] = [
    b"_ZdaPv",
    b"_ZdaPvSt11align_val_t",
    b"_ZdaPvm",
    b"_ZdaPvmSt11align_val_t",
    b"_ZdlPv",
    b"_ZdlPvSt11align_val_t",
    b"_ZdlPvm",
    b"_ZdlPvmSt11align_val_t",
    b"_Znam",
    b"_ZnamRKSt9nothrow_t",
    b"_ZnamSt11align_val_t",
    b"_Znwm",
    b"_ZnwmRKSt9nothrow_t",
    b"_ZnwmSt11align_val_t",
    b"__explicit_bzero_chk",
    b"__memcpy_chk",
    b"__memmove_chk",
    b"__mempcpy_chk",
    b"__memset_chk",
    b"__snprintf_chk",
    b"__sprintf_chk",
    b"__stpcpy_chk",
    b"__stpncpy_chk",
    b"__strcat_chk",
    b"__strcpy_chk",
    b"__strncat_chk",
    b"__strncpy_chk",
    b"__vsnprintf_chk",
    b"__vsprintf_chk",
    b"__wcpcpy_chk",
    b"__wcscat_chk",
    b"__wcscpy_chk",
    b"__wcsncat_chk",
    b"__wcsncpy_chk",
    b"__wmemcpy_chk",
    b"__wmemmove_chk",
    b"__wmempcpy_chk",
    b"__wmemset_chk",
    b"bcmp",
    b"bcopy",
    b"bzero",
    b"explicit_bzero",
    b"memccpy",
    b"memchr",
    b"memcmp",
    b"memcpy",
    b"memmove",
    b"mempcpy",
    b"memrchr",
    b"memset",
    b"rawmemchr",
    b"snprintf",
    b"sprintf",
    b"stpcpy",
    b"stpncpy",
    b"strcasecmp",
    b"strcat",
    b"strchr",
    b"strchrnul",
    b"strcmp",
    b"strcpy",
    b"strcspn",
    b"strdup",
    b"strlcat",
    b"strlcpy",
    b"strlen",
    b"strncasecmp",
    b"strncat",
    b"strncmp",
    b"strncpy",
    b"strndup",
    b"strnlen",
    b"strpbrk",
    b"strrchr",
    b"strspn",
    b"strstr",
    b"swab",
    b"vsnprintf",
    b"vsprintf",
    b"wcpcpy",
    b"wcscat",
    b"wcscpy",
    b"wcsncat",
    b"wcsncpy",
    b"wmemcpy",
    b"wmemmove",
    b"wmempcpy",
    b"wmemset",
];

/// Which symbols a file keeps because it has its own.
#[derive(Clone, Copy, Default)]
pub struct Kept(u128);

const _: () = assert!(SYMBOLS.len() <= 128);

impl Kept {
    /// The file defines `name`.
    pub fn keep(&mut self, name: &[u8]) {
        if let Some(index) = find(name) {
            self.0 |= 1 << index;
        }
    }

    /// These, and all that the runtime does not have.
    pub fn and_missing(mut self, runtime: &Exports) -> Self {
        let has = |name: &[u8]| runtime.contains(&[b"strandline_", name].concat());
        SYMBOLS.into_iter().filter(|name| !has(name)).for_each(|name| self.keep(name));
        self
    }

    /// The name that a use of `name` has afterwards.
    pub fn called(self, name: &[u8]) -> Cow<'_, [u8]> {
        match wide(name) {
            Some(renamed) => Cow::Borrowed(renamed),
            None if self.renames(name) => Cow::Owned([b"strandline_", name].concat()),
            None => Cow::Borrowed(name),
        }
    }

    fn renames(self, name: &[u8]) -> bool {
        find(name).is_some_and(|index| self.0 >> index & 1 == 0)
    }
}

/// The function of the runtime for one of libatomic's on 16 bytes, which takes the same arguments. A compiler
/// without the sanitizer pass calls these.
fn wide(name: &[u8]) -> Option<&'static [u8]> {
    Some(match name.strip_prefix(b"__atomic_")?.strip_suffix(b"_16")? {
        b"load" => b"__tsan_atomic128_load",
        b"store" => b"__tsan_atomic128_store",
        b"exchange" => b"__tsan_atomic128_exchange",
        b"compare_exchange" => b"__tsan_atomic128_compare_exchange_strong",
        b"fetch_add" => b"__tsan_atomic128_fetch_add",
        b"fetch_sub" => b"__tsan_atomic128_fetch_sub",
        b"fetch_and" => b"__tsan_atomic128_fetch_and",
        b"fetch_or" => b"__tsan_atomic128_fetch_or",
        b"fetch_xor" => b"__tsan_atomic128_fetch_xor",
        b"fetch_nand" => b"__tsan_atomic128_fetch_nand",
        _ => return None,
    })
}

fn find(name: &[u8]) -> Option<usize> {
    // Most tokens are registers and local labels.
    if !(4..=24).contains(&name.len())
        || !matches!(name[0], b'_' | b'b' | b'e' | b'm' | b'r' | b's' | b'v' | b'w')
    {
        return None;
    }
    SYMBOLS.binary_search(&name).ok()
}

/// Renames what `source[operands]`, an instruction's operands or a directive's arguments, mentions.
pub fn rename(source: &[u8], operands: Range<usize>, kept: Kept, edits: &mut Edits) {
    let mut at = operands.start;
    while at < operands.end {
        let byte = source[at];
        if byte == b'"' {
            at = string_end(source, at);
        } else if byte == b'%' || byte.is_ascii_digit() || is_symbol(byte) && byte != b'$' {
            // A register or a number is passed over whole: no symbol begins within it.
            let word = &source[at + 1..operands.end];
            let end = at + 1 + word.iter().position(|&b| !is_symbol(b)).unwrap_or(word.len());
            if let Some(renamed) = wide(&source[at..end]) {
                edits.replace(at..end, format_args!("{}", String::from_utf8_lossy(renamed)));
            } else if kept.renames(&source[at..end]) {
                edits.replace(at..at, format_args!("strandline_"));
            }
            at = end;
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(text: &str, own: &[&str]) -> String {
        let mut kept = Kept::default();
        own.iter().for_each(|name| kept.keep(name.as_bytes()));
        let mut edits = Edits::default();
        rename(text.as_bytes(), 0..text.len(), kept, &mut edits);
        String::from_utf8(edits.apply(text.as_bytes()).unwrap_or_else(|| text.into())).unwrap()
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(SYMBOLS.is_sorted());
        assert!(SYMBOLS.iter().all(|name| find(name).is_some()), "the quick test lets every name through");
    }

    #[test]
    fn symbols_are_renamed_wherever_they_stand() {
        for (text, wanted) in [
            ("memcpy@PLT", "strandline_memcpy@PLT"),
            ("*memcpy@GOTPCREL(%rip)", "*strandline_memcpy@GOTPCREL(%rip)"),
            ("__atomic_load_16@PLT", "__tsan_atomic128_load@PLT"),
            ("__atomic_load_8", "__atomic_load_8"),
            ("$memset, %edi", "$strandline_memset, %edi"),
            ("memcmp+4, strlen-.", "strandline_memcmp+4, strandline_strlen-."),
            ("rdi, strchr[rip]", "rdi, strandline_strchr[rip]"),
            ("OFFSET FLAT:_Znwm", "OFFSET FLAT:strandline__Znwm"),
            (
                "x$memcpy, 1memcpy, my_memcpy, memcpy2, .memcpy",
                "x$memcpy, 1memcpy, my_memcpy, memcpy2, .memcpy",
            ),
            ("\"memcpy\", %memcpy", "\"memcpy\", %memcpy"),
        ] {
            assert_eq!(renamed(text, &[]), wanted);
        }
        assert_eq!(renamed("memcpy", &["memcpy"]), "memcpy");
        assert_eq!(renamed("memcpy", &["memset", "foo"]), "strandline_memcpy");
    }
}
