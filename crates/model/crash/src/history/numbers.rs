//! Numbers of persistent files, in the order in which a stream first has to do with them.

use std::collections::HashMap;

use event::{NameId, SinkError};

/// Which file is which number. Several [`NameId`]s may be one file.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    paths: HashMap<NameId, String>,
    by_path: HashMap<String, u16>,
    files: Vec<String>,
}

impl Numbers {
    /// The stream defined a name.
    pub fn define(&mut self, id: NameId, path: &str) {
        self.paths.insert(id, path.to_owned());
    }

    /// The path of a name, if it was defined.
    pub fn path(&self, id: NameId) -> Option<&str> {
        self.paths.get(&id).map(String::as_str)
    }

    /// The file's number; it gets one if it has none.
    pub fn number(&mut self, id: NameId) -> Result<u16, SinkError> {
        let path = self.paths.get(&id).cloned().unwrap_or_else(|| format!("file {}", id.0));
        if let Some(&number) = self.by_path.get(&path) {
            return Ok(number);
        }
        let number = u16::try_from(self.files.len())
            .map_err(|_| SinkError::Other("at most 65536 persistent files are followed".into()))?;
        self.by_path.insert(path.clone(), number);
        self.files.push(path);
        Ok(number)
    }

    /// The file's number, if it has one.
    pub fn known(&self, id: NameId) -> Option<u16> {
        self.by_path.get(self.paths.get(&id)?).copied()
    }

    /// The files with numbers, in their order.
    pub fn files(&self) -> &[String] {
        &self.files
    }
}
