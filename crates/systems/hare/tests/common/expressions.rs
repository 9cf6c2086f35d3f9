//! Expressions: a list that has every construct, and random ones.
#![allow(dead_code)]

/// Expressions with an alphabet on which they match now and then.
pub const LIST: &[(&str, &[u8])] = &[
    ("abc+de", b"abcde"),
    ("gr(e|a)y", b"greay"),
    ("ab?c", b"abc"),
    ("ab{2,4}c", b"abc"),
    ("ab*c", b"abc"),
    ("[a-d]{2,4}[abe]{2,3}", b"abcde"),
    ("a[ab]{1,2}[bc]{2,3}d", b"abcd"),
    ("[ab][bc]+d?efc{2}", b"abcdef"),
    ("tr[a-u]ck", b"trackuz"),
    ("(ab|cd)*e", b"abcde"),
    ("(ab)+c", b"abc"),
    ("((a|b)c{2,3})+d", b"abcd"),
    ("(a+b){2,3}c", b"abc"),
    ("x(a{2,3}b?){1,4}y", b"abxy"),
    ("^ab", b"ab\n"),
    ("(?m)^ab$", b"ab\n"),
    ("ab$", b"ab\n"),
    (r"\bab\b", b"ab "),
    (r"\Bab\B", b"ab "),
    (r"a\b b|a \bb", b"ab "),
    (r"\b{start}ab\b{end}", b"ab "),
    (r"(?mR)^a$", b"a\r\n"),
    ("(?i)aBc", b"abcABC"),
    ("(?i:k)el", b"kKel"),
    ("(?s)a.{3,9}b", b"ab\n"),
    ("a.{3,9}b", b"abc\n"),
    ("a[^b]{2,40}c", b"abcd"),
    ("a[^b]{20}c", b"abcd"),
    ("(?:a|b|c|d|ef|gh|ij)x", b"abcdefghijx"),
    ("(aa|aab|b(c|d|e|f|aa))(x|yy|zzz)?q", b"abcdefxyzq"),
    ("a{3,}b", b"ab"),
    ("b[ab]{3,}c", b"abc"),
    ("c[ab]{17,19}c", b"abc"),
    ("[ab]{5,70}c", b"abc"),
    ("d[ab]{20,70}[bc]{18,22}d", b"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbabcd"),
    ("a{300}b", b"ab"),
    ("ca{250,300}b", b"aaaaaaaaaaaaaaaaaaaaaaaabc"),
    ("a*", b"ab"),
    ("(a|)b", b"ab"),
    ("|a", b"ab"),
    ("^$", b"a\n"),
    ("(?m)^$", b"a\n"),
    ("(^a|b)+c", b"abc"),
    ("(a$|b)+", b"ab"),
    ("é+x", "éxe".as_bytes()),
    (r"\p{Greek}+x", "αβx".as_bytes()),
    ("(?u)a.b", "aébx\n".as_bytes()),
    ("(?u).{2,3}x", "éαx".as_bytes()),
    ("(?i)straße", "straßeSTRAẞE".as_bytes()),
    ("[^a]b", b"ab\xff\n"),
    (r"\x00\xff", b"\x00\xff"),
    (r"(?-u:\xff)+a", b"\xffa"),
    ("abcdefghijklmnopqrstuvwxyz", b"abcdefghijklmnopqrstuvwxyz"),
    ("aaaaaaaaab", b"ab"),
    ("(aaa|aa)+b", b"ab"),
    ("a(b(c(d|e)?)?)?f", b"abcdef"),
    (r"[a-z]+@[a-z]+\.(co|or)", b"ab@.co"),
    ("(?:(?:a{2}){2}){2}b", b"ab"),
    ("a(?:bb?)??c", b"abc"),
    ("a.*b", b"ab\nc"),
    ("(?s)a.*b", b"ab\nc"),
];

/// A random expression over the letters a to d.
pub fn random(random: &mut fastrand::Rng, depth: u32) -> String {
    let unit = |random: &mut fastrand::Rng| match random.u8(0..10) {
        0 => "[ab]".to_owned(),
        1 => "[bcd]".to_owned(),
        2 => "[^a]".to_owned(),
        3 => ".".to_owned(),
        _ => char::from(b'a' + random.u8(0..4)).to_string(),
    };
    let mut out = String::new();
    for _ in 0..random.u8(1..5) {
        let group = depth > 0 && random.u8(0..3) == 0;
        let part = if group {
            let alternatives: Vec<String> =
                (0..random.u8(1..4)).map(|_| self::random(random, depth - 1)).collect();
            format!("(?:{})", alternatives.join("|"))
        } else {
            unit(random)
        };
        out += &part;
        let low = random.u8(0..4);
        out += &match random.u8(0..12) {
            0 => "?".to_owned(),
            1 => "*".to_owned(),
            2 => "+".to_owned(),
            3 => format!("{{{low},{}}}", low + 1 + random.u8(0..3)),
            4 if !group => format!("{{{},{}}}", low + 15, low + 18 + random.u8(0..9)),
            5 => format!("{{{}}}", low + 1),
            6 => format!("{{{low},}}"),
            7 if random.u8(0..4) == 0 => r"\b".to_owned(),
            _ => String::new(),
        };
    }
    match random.u8(0..16) {
        0 => format!("^{out}"),
        1 => format!("{out}$"),
        2 => format!("(?m){out}$"),
        3 => format!("(?m)^{out}"),
        _ => out,
    }
}
