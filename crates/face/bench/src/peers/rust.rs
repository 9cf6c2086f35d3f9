//! Stores written in Rust, in this process.

use fjall::{KeyspaceCreateOptions, PersistMode};
use pmem::Os;
use redb::{ReadableDatabase, TableDefinition};
use space::Image;
use workload::load::{Target, TargetError};

use super::Crate;
use crate::error::Error;
use crate::record::{KeyKind, judge, with_value};
use crate::runner::{InProcess, Use};
use crate::terms::Setup;

/// Makes the store, empty, and uses it.
pub fn compete(which: Crate, name: &str, synced: bool, setup: &Setup, use_it: Use<'_>) -> Result<(), Error> {
    let path = setup.folder.join(format!("{name}-{}", setup.threads));
    let env = &Os::new(Image::new(64));
    let (key, value) = (setup.key, setup.value);
    let mut run = |target: &dyn Target| use_it(&mut InProcess { env, target, name, many: setup.many });
    let result = match which {
        Crate::Redb => {
            let db = redb::Database::create(&path).map_err(|error| Error::of(name, error))?;
            run(&Redb { db, synced, key, value })
        }
        Crate::Fjall => {
            let opened = fjall::Database::builder(&path).open().and_then(|db| {
                let keyspace = db.keyspace("bench", KeyspaceCreateOptions::default)?;
                Ok(Fjall { db, keyspace, synced, key, value })
            });
            run(&opened.map_err(|error| Error::of(name, error))?)
        }
    };
    // redb makes a file, fjall a folder.
    let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    removed.map_err(Error::file("remove", &path))?;
    result
}

fn said(error: impl ToString) -> TargetError {
    TargetError(error.to_string())
}

struct Redb {
    db: redb::Database,
    synced: bool,
    key: KeyKind,
    value: usize,
}

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

impl Redb {
    /// A transaction for each write.
    fn write<R>(
        &self,
        change: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<R, redb::Error>,
    ) -> Result<R, redb::Error> {
        let mut transaction = self.db.begin_write()?;
        let durability = if self.synced { redb::Durability::Immediate } else { redb::Durability::None };
        transaction.set_durability(durability)?;
        let result = change(&mut transaction.open_table(TABLE)?)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl Target for Redb {
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        let (key, bytes) = self.key.of(id);
        with_value(id, version, self.value, |value| {
            self.write(|table| Ok(table.insert(&key[..bytes], value).map(|_| ())?)).map_err(said)
        })
    }

    fn get(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        let read =
            || -> Result<_, redb::Error> { Ok(self.db.begin_read()?.open_table(TABLE)?.get(&key[..bytes])?) };
        match read().map_err(said)? {
            Some(value) => judge(id, value.value(), self.value).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        let (key, bytes) = self.key.of(id);
        let read = || -> Result<_, redb::Error> {
            let table = self.db.begin_read()?.open_table(TABLE)?;
            let mut found = 0;
            for pair in table.range(&key[..bytes]..)?.take(count as usize) {
                pair?;
                found += 1;
            }
            Ok(found)
        };
        read().map_err(said)
    }

    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        self.write(|table| Ok(table.remove(&key[..bytes])?.is_some())).map_err(said)
    }
}

struct Fjall {
    db: fjall::Database,
    keyspace: fjall::Keyspace,
    synced: bool,
    key: KeyKind,
    value: usize,
}

impl Fjall {
    fn durable(&self) -> fjall::Result<()> {
        if self.synced { self.db.persist(PersistMode::SyncData) } else { Ok(()) }
    }
}

impl Target for Fjall {
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        let (key, bytes) = self.key.of(id);
        let put = |value: &[u8]| self.keyspace.insert(&key[..bytes], value);
        with_value(id, version, self.value, put).and_then(|()| self.durable()).map_err(said)
    }

    fn get(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        match self.keyspace.get(&key[..bytes]).map_err(said)? {
            Some(value) => judge(id, &value, self.value).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        let (key, bytes) = self.key.of(id);
        let mut found = 0;
        for pair in self.keyspace.range(&key[..bytes]..).take(count as usize) {
            pair.into_inner().map_err(said)?;
            found += 1;
        }
        Ok(found)
    }

    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        // It does not say whether there was something.
        let there = self.keyspace.contains_key(&key[..bytes]).map_err(said)?;
        self.keyspace.remove(&key[..bytes]).and_then(|()| self.durable()).map_err(said)?;
        Ok(there)
    }
}
