//! Names, and the error for those that nothing has.

use std::fmt;

/// A name that no value of its type has. The message lists the names there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no {}; use one of {}", self.name, self.what, self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// The one of `all` that `name_of` gives that name.
pub(crate) fn find<T: Copy>(
    what: &'static str,
    name: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    all.iter().copied().find(|&value| name_of(value) == name).ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
        known: all.iter().map(|&value| name_of(value)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Domain, FileModel, Model};

    #[test]
    fn every_name_parses_to_what_it_names() {
        for domain in Domain::ALL {
            assert_eq!(domain.to_string().parse(), Ok(domain));
        }
        for model in Model::OF_MEMORY.into_iter().chain(FileModel::ALL.map(Model::File)) {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
        for model in FileModel::ALL {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_there_are() {
        let error = "fat".parse::<FileModel>().map_err(|error| error.to_string());
        let known = "posix, ext4, ext4-writeback, xfs, btrfs, zfs";
        assert_eq!(error, Err(format!("`fat` is no persistency model of files; use one of {known}")));
        assert!("x86".parse::<FileModel>().is_err() && "ADR".parse::<Domain>().is_err());
    }
}
