//! Sets of expressions as the source's: Becchi's by his generator's description, those of Snort and RegExLib
//! by the constructs that they are made of. The shares of what is not regular are the source's.

/// A kind of set, with its size in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Strings, a share of them with `.*`, in percent.
    Dotstar(u32),
    /// Strings.
    Exact,
    /// Strings, a share of them with ranges, in percent.
    Range(u32),
    /// Rules of intrusion detection.
    Snort,
    /// Validation of forms.
    RegExLib,
}

/// A source of random numbers that gives the same ones everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn letters(&mut self, count: u64) -> String {
        (0..count).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

impl Recipe {
    /// All of them, with the source's number of expressions, share supported, components and their length.
    pub const ALL: [(Recipe, &'static str, usize, f64, f64, f64); 8] = [
        (Recipe::Dotstar(30), "dotstar0.3", 300, 0.990, 3.8, 14.6),
        (Recipe::Dotstar(60), "dotstar0.6", 300, 0.990, 4.4, 12.5),
        (Recipe::Dotstar(90), "dotstar0.9", 300, 0.990, 4.9, 9.9),
        (Recipe::Exact, "exact-match", 300, 0.996, 2.1, 23.4),
        (Recipe::Range(50), "range05", 300, 0.996, 2.9, 18.9),
        (Recipe::Range(100), "range1", 300, 0.993, 3.4, 15.2),
        (Recipe::Snort, "Snort-like", 1053, 0.856, 4.6, 5.5),
        (Recipe::RegExLib, "RegExLib-like", 2673, 0.564, 12.3, 1.7),
    ];

    /// The expressions.
    pub fn expressions(self, count: usize) -> Vec<String> {
        let mut random = Random(17);
        (0..count).map(|_| self.expression(&mut random)).collect()
    }

    fn expression(self, random: &mut Random) -> String {
        match self {
            Recipe::Exact => string(random),
            Recipe::Dotstar(percent) => {
                let mut text = string(random);
                if random.below(100) < u64::from(percent) {
                    let at = 1 + random.below(text.len() as u64 - 2) as usize;
                    text.insert_str(at, ".*");
                }
                text
            }
            Recipe::Range(percent) => {
                let ranged = random.below(100) < u64::from(percent);
                let letter = |letter: char, random: &mut Random| {
                    if ranged && random.below(8) == 0 { "[a-m]".to_owned() } else { letter.to_string() }
                };
                string(random).chars().map(|one| letter(one, random)).collect()
            }
            Recipe::Snort => snort(random),
            Recipe::RegExLib => regexlib(random),
        }
    }
}

fn string(random: &mut Random) -> String {
    let length = 30 + random.below(39);
    random.letters(length)
}

fn snort(random: &mut Random) -> String {
    let words: Vec<String> = (0..4)
        .map(|_| {
            let length = 3 + random.below(8);
            random.letters(length)
        })
        .collect();
    let (a, b, c, d) = (&words[0], &words[1], &words[2], &words[3]);
    let bound = 16 << random.below(7);
    // 12 % have a back-reference or look-ahead, 2.4 % repeat a group.
    match random.below(1000) {
        0..60 => format!(r#"(?i){a}\s*=\s*(["'])[^\n]*\1{b}"#),
        60..120 => format!(r"{a}(?!{b})[^\n]{{{bound}}}"),
        120..144 => format!(r"{a}(?:{b}[0-9]+\x2c){{2,{}}}", 3 + random.below(4)),
        144..300 => format!(r"(?i)^(?:GET|POST|HEAD)\s+/[^\n]*{a}\.(?:php|asp|cgi)\?{b}="),
        300..440 => format!(r"(?i){a}\s*=\s*[^\n]{{{bound},}}"),
        440..560 => format!(r"(?i)<{a}[^>]*{b}\s*=\s*[^>]{{{bound}}}"),
        560..680 => format!(r"Host\x3a[^\r\n]*{a}\.{b}\x2e(?:com|net|info)"),
        680..800 => format!(r"\x{:02x}[\x00-\x1f]{{2,4}}{a}\x00{b}", random.below(256)),
        800..900 => format!(r"(?m)^{a}\s+[^\n]{{{bound}}}"),
        _ => format!(r"(?:{a}|{b}|{c}|{d})\s*\x28\s*[0-9a-f]+"),
    }
}

fn regexlib(random: &mut Random) -> String {
    // 19.6 % have a look-ahead or a back-reference.
    match random.below(1000) {
        0..130 => {
            return format!(r"^(?=.*\d)(?=.*[a-z]).{{{},{}}}$", 4 + random.below(5), 10 + random.below(9));
        }
        130..196 => return r"^\d{1,2}(\W)\d{1,2}\1\d{4}$".to_owned(),
        _ => {}
    }
    let pieces = [
        r"(0[1-9]|1[012])",
        r"(0?[1-9]|[12][0-9]|3[01])",
        r"[- /.]",
        r"(19|20)\d\d",
        r"\d{3}",
        r"\(?\d{3}\)?",
        r"[A-Z]{1,2}",
        r"([A-Za-z0-9]+)",
        r"\s?",
        r"(\.\d{1,2})?",
        r"\$?",
        r"[1-9]\d{0,2}(,\d{3})*",
        r"(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)",
        r"\.",
        r"\w+([-+.']\w+)*@",
        r"\w+([-.]\w+)*",
        r"https?://",
        r"(AM|PM|am|pm)",
        r"[^<>]+",
        r"\b[a-z]+\b",
        r"(\d{3}-?){2}",
        r"([0-1][0-9]|2[0-3]):[0-5][0-9]",
        r"[a-zA-Z]{2,6}",
    ];
    let mut text = String::from("^");
    for _ in 0..2 + random.below(6) {
        text += random.one(&pieces);
    }
    // What a form takes is not empty.
    text += random.one(&[r"\d", "[a-z]", "0", "x"]);
    text + "$"
}
