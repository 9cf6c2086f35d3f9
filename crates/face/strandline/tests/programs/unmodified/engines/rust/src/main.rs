//! Engines in Rust: the settings are the name of the engine. See `../python/engine.py`.

use std::error::Error;
use std::process::exit;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const KEPT: i64 = 8;

fn key_of(i: i64) -> String {
    format!("k{i}")
}

fn value_of(i: i64) -> Vec<u8> {
    vec![b'a' + (i % 26) as u8; (i * 577 % 3000 + 1) as usize]
}

/// A store that is open.
trait Store {
    /// Puts two entries and deletes a key, in one transaction, and waits until it is durable.
    fn commit(&mut self, puts: [(&str, &[u8]); 2], delete: &str) -> Result<()>;
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>>;
}

struct Redb(redb::Database);
const TABLE: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("t");

impl Store for Redb {
    fn commit(&mut self, puts: [(&str, &[u8]); 2], delete: &str) -> Result<()> {
        let txn = self.0.begin_write()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in puts {
                table.insert(key, value)?;
            }
            table.remove(delete)?;
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        use redb::ReadableDatabase;
        match self.0.begin_read()?.open_table(TABLE) {
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            table => Ok(table?.get(key)?.map(|value| value.value().to_vec())),
        }
    }
}

struct Fjall(fjall::Database, fjall::Keyspace);

impl Store for Fjall {
    fn commit(&mut self, puts: [(&str, &[u8]); 2], delete: &str) -> Result<()> {
        let mut batch = self.0.batch().durability(Some(fjall::PersistMode::SyncAll));
        for (key, value) in puts {
            batch.insert(&self.1, key, value);
        }
        batch.remove(&self.1, delete);
        Ok(batch.commit()?)
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.1.get(key)?.map(|value| value.to_vec()))
    }
}

struct Sled(sled::Db);

impl Store for Sled {
    fn commit(&mut self, puts: [(&str, &[u8]); 2], delete: &str) -> Result<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in puts {
            batch.insert(key, value);
        }
        batch.remove(delete);
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key)?.map(|value| value.to_vec()))
    }
}

struct Surreal(tokio::runtime::Runtime, surrealkv::Tree);

impl Store for Surreal {
    fn commit(&mut self, puts: [(&str, &[u8]); 2], delete: &str) -> Result<()> {
        let mut txn = self.1.begin()?.with_durability(surrealkv::Durability::Immediate);
        for (key, value) in puts {
            txn.set(key, value)?;
        }
        txn.delete(delete)?;
        Ok(self.0.block_on(txn.commit())?)
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.1.begin()?.get(key)?.map(|value| value.to_vec()))
    }
}

fn open(settings: &str, folder: &str) -> Result<Box<dyn Store>> {
    let path = format!("{folder}/db");
    Ok(match settings {
        "redb" => Box::new(Redb(redb::Database::create(path)?)),
        "fjall" => {
            let db = fjall::Database::builder(path).open()?;
            let keyspace = db.keyspace("t", fjall::KeyspaceCreateOptions::default)?;
            Box::new(Fjall(db, keyspace))
        }
        "sled" => Box::new(Sled(sled::Config::new().path(path).cache_capacity(1 << 20).open()?)),
        "surrealkv" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let builder = surrealkv::TreeBuilder::new().with_path(path.into());
            let tree = runtime.block_on(async { builder.build() })?;
            Box::new(Surreal(runtime, tree))
        }
        other => return Err(format!("no engine {other}").into()),
    })
}

fn commit(settings: &str, folder: &str, count: i64) -> Result<()> {
    let mut store = open(settings, folder)?;
    for i in 1..=count {
        let (number, key, value) = (i.to_string(), key_of(i), value_of(i));
        store.commit([("last", number.as_bytes()), (&key, &value)], &key_of(i - KEPT))?;
        println!("{i}");
    }
    Ok(())
}

fn verify(lost: i64, settings: &str, folder: &str) -> Result<()> {
    let mut store = open(settings, folder)?;
    let last: i64 = store.get("last")?.map_or(Ok(0), |text| String::from_utf8_lossy(&text).parse())?;
    for i in 1..last + 4 {
        let expected = (last - KEPT < i && i <= last).then(|| value_of(i));
        if store.get(&key_of(i))? != expected {
            return Err(format!("a transaction is there in part: {} of {last}", key_of(i)).into());
        }
    }
    let printed = std::env::var_os("STRANDLINE_STDOUT").map(std::fs::read_to_string).transpose()?;
    let said: i64 = printed.unwrap_or_default().lines().last().map_or(Ok(0), str::parse)?;
    match last + lost < said {
        true => Err(format!("too many are lost: {said} was acknowledged, {last} is there").into()),
        false => Ok(()),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--verify", lost, settings, folder] => {
            lost.parse().map_err(Into::into).and_then(|lost| verify(lost, settings, folder))
        }
        [settings, folder, count] => {
            count.parse().map_err(Into::into).and_then(|count| commit(settings, folder, count))
        }
        _ => Err("program SETTINGS FOLDER COUNT, or --verify LOST SETTINGS FOLDER".into()),
    };
    if let Err(error) = done {
        println!("{error}");
        exit(1);
    }
}
