//! Changes of names in words.

use super::names::{Kind, target};

/// A change of an entry.
#[derive(Debug)]
pub(super) struct Changed {
    pub path: String,
    /// Its word before.
    pub before: u64,
    /// Its word from then on.
    pub after: u64,
}

/// `the rename of `a` to `b``; paths without the folders that they share. `made`: the file is new.
pub(super) fn describe(changes: &[Changed], made: bool) -> String {
    let folder = |word: u64| match target(word) {
        Some((_, Kind::Folder)) => "folder ",
        Some((_, Kind::Link)) => "symbolic link ",
        _ => "",
    };
    match changes {
        [only] if only.after == 0 => {
            format!("the removal of {}`{}`", folder(only.before), last(&only.path, 1))
        }
        [only] if made => format!("the creation of {}`{}`", folder(only.after), last(&only.path, 1)),
        [only] => format!("the link `{}`", last(&only.path, 1)),
        [to, from, ..] => {
            let shared = to.path.split('/').zip(from.path.split('/')).take_while(|(to, from)| to == from);
            let shared = shared.count();
            let rest = |path: &str| last(path, path.split('/').count().saturating_sub(shared)).to_owned();
            let (to, from) = ((rest(&to.path), to), (rest(&from.path), from));
            match from.1.after {
                0 => format!("the rename of {}`{}` to `{}`", folder(to.1.after), from.0, to.0),
                _ => format!("the exchange of `{}` and `{}`", from.0, to.0),
            }
        }
        [] => "no change of a name".to_owned(),
    }
}

/// The last parts of a path.
fn last(path: &str, parts: usize) -> &str {
    let start = path.rmatch_indices('/').nth(parts.saturating_sub(1)).map_or(0, |(at, _)| at + 1);
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::{Changed, describe};

    #[test]
    fn changes_have_the_names_of_their_files() {
        let changed = |path: &str, before, after| Changed { path: path.to_owned(), before, after };
        const FOLDER: u64 = 1 << 32;
        let rename = [changed("/db/CURRENT", 5, 9), changed("/db/000001.dbtmp", 9, 0)];
        assert_eq!(describe(&rename, false), "the rename of `000001.dbtmp` to `CURRENT`");
        let moved = [changed("/mail/new/1", 0, 9), changed("/mail/tmp/1", 9, 0)];
        assert_eq!(describe(&moved, false), "the rename of `tmp/1` to `new/1`");
        let exchanged = [changed("/d/a", 5, 9), changed("/d/b", 9, 5)];
        assert_eq!(describe(&exchanged, false), "the exchange of `b` and `a`");
        assert_eq!(describe(&[changed("/d/a", 0, 9)], true), "the creation of `a`");
        assert_eq!(describe(&[changed("/d/a", 0, 9 | FOLDER)], true), "the creation of folder `a`");
        assert_eq!(describe(&[changed("/d/a", 0, 9)], false), "the link `a`");
        assert_eq!(describe(&[changed("/d/a", 9 | FOLDER, 0)], false), "the removal of folder `a`");
        assert_eq!(describe(&[changed("/a", 9, 0)], false), "the removal of `a`");
    }
}
