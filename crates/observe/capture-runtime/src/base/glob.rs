//! What the user named with `--pmem` and `--files`: paths, folders, and globs.

/// Whether `path` equals or lies below one of the zero-terminated `patterns`, or matches it as a glob.
pub fn is_named(path: &[u8], patterns: &[u8]) -> bool {
    patterns.split(|&byte| byte == 0).filter(|pattern| !pattern.is_empty()).any(|pattern| {
        let folder = pattern.strip_suffix(b"/").unwrap_or(pattern);
        let below = path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        below || matches(path, pattern)
    })
}

/// `*` stands for any bytes, `/` too; `?` for one.
fn matches(text: &[u8], glob: &[u8]) -> bool {
    let (mut at, mut in_glob) = (0, 0);
    // Where to go on after the last star, one byte further each time.
    let mut retry = None;
    while at < text.len() {
        match glob.get(in_glob) {
            Some(b'*') => {
                in_glob += 1;
                retry = Some((at, in_glob));
            }
            Some(&byte) if byte == b'?' || byte == text[at] => {
                at += 1;
                in_glob += 1;
            }
            _ => {
                let Some((from, after_star)) = retry else { return false };
                retry = Some((from + 1, after_star));
                (at, in_glob) = (from + 1, after_star);
            }
        }
    }
    glob[in_glob..].iter().all(|&byte| byte == b'*')
}
