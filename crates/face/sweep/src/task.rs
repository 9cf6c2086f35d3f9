//! A sweep under way: what is there, what is missing, and who computes it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::compute::{Answer, Task, compute};
use crate::error::SweepError;
use crate::grid::Grid;
use crate::run::Run;
use crate::store::Store;
use crate::table::Table;
use crate::version::VERSION;

/// Runs of a task if nobody says: a trace is decoded once for so many machines, and the last tasks still end together.
const CHUNK: usize = 8;

/// How much there was to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Configurations.
    pub all: usize,
    /// Whose result was there already.
    pub known: usize,
}

/// The runs of a grid, with the results that are there.
#[derive(Debug)]
pub struct Sweep {
    runs: Vec<(String, Run)>,
    results: Vec<Option<Value>>,
    places: std::collections::HashMap<String, Vec<usize>>,
    store: Store,
    tally: Tally,
    chunk: usize,
}

impl Sweep {
    /// Looks up what a store has of a grid.
    ///
    /// # Errors
    /// If the grid is wrong.
    pub fn open(grid: &Grid, store: Store) -> Result<Sweep, SweepError> {
        let runs = grid.runs()?;
        let results: Vec<Option<Value>> = runs.iter().map(|(address, _)| store.get(address)).collect();
        let mut places: std::collections::HashMap<String, Vec<usize>> = std::collections::HashMap::new();
        for (place, (address, _)) in runs.iter().enumerate() {
            places.entry(address.clone()).or_default().push(place);
        }
        let known = results.iter().flatten().count();
        let tally = Tally { all: runs.len(), known };
        let chunk = grid.chunk().unwrap_or(CHUNK).max(1);
        Ok(Sweep { runs, results, places, store, tally, chunk })
    }

    /// How much there was to do when it was opened.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Configurations without a result, now.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.results.iter().filter(|result| result.is_none()).count()
    }

    /// Runs of a task from now on, in place of the grid's number.
    pub fn set_chunk(&mut self, chunk: usize) {
        self.chunk = chunk.max(1);
    }

    /// What is missing, as texts for [`compute`], each of at most `chunk` runs of one input; the grid's number, or 8, if not
    /// given.
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn tasks(&self, chunk: Option<usize>) -> Result<Vec<String>, SweepError> {
        let mut taken = std::collections::HashSet::new();
        let open = self.runs.iter().zip(&self.results).filter(|(_, result)| result.is_none());
        // The same configuration under two names is run once.
        let open: Vec<&(String, Run)> =
            open.map(|(run, _)| run).filter(|(address, _)| taken.insert(address.clone())).collect();
        let groups = open.chunk_by(|one, two| one.1.source == two.1.source);
        let chunk = chunk.unwrap_or(self.chunk).max(1);
        let task = |runs: &[&(String, Run)]| {
            let runs = runs.iter().map(|run| (*run).clone()).collect();
            Ok(serde_json::to_string(&Task { version: VERSION.to_owned(), runs })?)
        };
        groups.flat_map(|group| group.chunks(chunk)).map(task).collect()
    }

    /// Keeps what [`compute`] made of a task; it is stored when this returns. Gives the number of rows that
    /// have a result now and had none.
    ///
    /// # Errors
    /// If the text is none of [`compute`]'s, or the store can't be written.
    pub fn keep(&mut self, answer: &str) -> Result<usize, SweepError> {
        let answer: Answer = serde_json::from_str(answer)?;
        let mut filled = 0;
        for (address, result) in answer.results {
            self.store.put(&address, &result)?;
            for place in self.places.get(&address).into_iter().flatten() {
                filled += usize::from(self.results[*place].replace(result.clone()).is_none());
            }
        }
        Ok(filled)
    }

    /// Computes what is missing on threads of this process: `jobs` of them. Calls `done` with the number of configurations that
    /// are there, and of all; if it returns false, the sweep stops, and what is done stays.
    ///
    /// # Errors
    /// The first of a task; the others are finished and kept.
    pub fn run(
        &mut self,
        jobs: usize,
        done: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<(), SweepError> {
        let tasks = self.tasks(None)?;
        let (next, all) = (AtomicUsize::new(0), self.runs.len());
        let failed = Mutex::new(None);
        let kept = AtomicUsize::new(all - self.missing());
        let sweep = Mutex::new(self);
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| {
                    while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = compute(task).and_then(|answer| {
                            sweep.lock().unwrap_or_else(PoisonError::into_inner).keep(&answer)
                        });
                        match result {
                            Ok(count) => {
                                let there = kept.fetch_add(count, Ordering::Relaxed) + count;
                                if !done(there, all) {
                                    next.store(tasks.len(), Ordering::Relaxed);
                                }
                            }
                            Err(error) => {
                                next.store(tasks.len(), Ordering::Relaxed);
                                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                            }
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// A row per configuration, in the grid's order; without results where none is there.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::new(&self.runs, &self.results)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::Data;

    fn grid(json: &Value) -> Grid {
        Grid::parse(&json.to_string()).expect("a grid")
    }

    fn small() -> Value {
        json!({
            "workload": "hash-scatter", "operations": 50, "machine": ["dram", "xpoint"],
            "set": { "llc": { "size": ["11MiB", "22MiB", "7B"] } }, "seed": [1, 2],
        })
    }

    #[test]
    fn only_what_is_missing_is_computed() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |json: &Value| {
            Sweep::open(&grid(json), Store::open(folder.path()).expect("a store")).expect("a sweep")
        };
        let mut sweep = open(&small());
        assert_eq!(sweep.tally(), Tally { all: 12, known: 0 });
        // One task, then the process ends.
        let task = sweep.tasks(Some(3)).expect("tasks").remove(0);
        assert_eq!(sweep.keep(&compute(&task).expect("it runs")).expect("kept"), 3);
        let mut sweep = open(&small());
        assert_eq!(sweep.tally(), Tally { all: 12, known: 3 });
        sweep.run(2, &|_, _| true).expect("it runs");
        assert_eq!(sweep.missing(), 0);
        let again = open(&small());
        assert_eq!(again.tally(), Tally { all: 12, known: 12 });
        assert_eq!(again.table(), sweep.table());
        // Another grid that shares half of the configurations; where it is written does not count.
        let mut half = small();
        half["machine"] = json!("xpoint");
        half["set"] = json!({});
        half["llc.size"] = json!(["22MiB", "33MiB"]);
        assert_eq!(open(&half).tally(), Tally { all: 4, known: 2 });
        // Half a file, as no killed process leaves it, is none.
        let (address, _) = &sweep.runs[0];
        let (head, rest) = address.split_at(2);
        std::fs::write(folder.path().join(head).join(format!("{rest}.json")), "{\"elapsed").expect("written");
        assert_eq!(open(&small()).missing(), 1);
    }

    #[test]
    fn results_are_those_of_simulate_and_impossible_machines_are_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sweep =
            Sweep::open(&grid(&small()), Store::open(folder.path()).expect("a store")).expect("a sweep");
        sweep.run(1, &|_, _| true).expect("it runs");
        let table = sweep.table();
        let Some(Data::Float(elapsed)) = table.column("elapsed_ns") else { panic!("{table:?}") };
        let Some(Data::Text(errors)) = table.column("error") else { panic!("{table:?}") };
        for (elapsed, error) in elapsed.iter().zip(errors) {
            assert!(elapsed.is_some() != error.is_some());
        }
        assert_eq!(errors.iter().flatten().count(), 4);
        assert!(errors.iter().flatten().all(|error| error.contains("llc.size")), "{errors:?}");
        let input = session::Input::BuiltIn(session::BuiltIn {
            name: "hash-scatter".to_owned(),
            operations: Some(50),
            threads: 1,
            seed: Some(1),
        });
        let mut simulate = session::Simulate::new(input);
        let settings = vec![("llc.size".to_owned(), "22MiB".to_owned())];
        simulate.machines.push(session::Chosen { machine: "dram".to_owned(), settings });
        simulate.seed = Some(2);
        let alone = simulate.run(&session::Silent).expect("it runs").machines[0].figures.elapsed.ns();
        assert_eq!(elapsed[3], Some(alone));
    }

    #[test]
    fn wrong_names_are_refused_before_anything_runs() {
        for (wrong, says) in [
            (json!({ "workload": "nothing" }), "no built-in workload `nothing`"),
            (json!({ "workload": "hash-scatter", "machine": "nowhere" }), "nowhere"),
            (json!({ "workload": "hash-scatter", "llc.sise": [1] }), "llc.size"),
            (json!({ "workload": "hash-scatter", "persistency": "none" }), "none"),
            (json!({ "workload": "hash-scatter", "language": "c" }), "tx, atlas, sfr"),
            (json!({ "trace": "nowhere.slt" }), "nowhere.slt"),
            (json!({ "row": "nothing" }), "nothing"),
            (json!({ "workload": "hash-scatter", "llc": { "sise": [1] } }), "llc.size"),
        ] {
            let error = grid(&wrong).runs().expect_err("it is refused").to_string();
            assert!(error.contains(says), "{error}");
        }
        for wrong in [json!({}), json!({ "machines": "dram" }), json!({ "trace": "t", "row": "r" })] {
            Grid::parse(&wrong.to_string()).expect_err("it is refused");
        }
        // What would change nothing is a mistake.
        for (word, value) in [
            ("chunk", json!("8")),
            ("chunk", json!(0)),
            ("store", json!(3)),
            ("output", json!(["a", "b"])),
            ("seed", json!([])),
        ] {
            let wrong = json!({ "workload": "hash-scatter", word: value });
            let error = Grid::parse(&wrong.to_string()).expect_err("it is refused").to_string();
            assert!(error.contains(word), "{error}");
        }
        for wrong in [
            json!({ "trace": "t.slt", "operations": 3 }),
            json!({ "row": "xpoint-9", "machine": "dram" }),
            json!({ "row": "xpoint-9", "llc.size": "11MiB" }),
        ] {
            let error = Grid::parse(&wrong.to_string()).expect_err("it is refused").to_string();
            assert!(error.contains("changes nothing here"), "{error}");
        }
    }

    /// The two ways to write a key of a machine at the head of a file, beside `[set]`.
    #[test]
    fn a_dotted_key_at_the_head_of_a_file_is_one_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = |keys: &str| {
            let path = folder.path().join("grid.toml");
            std::fs::write(&path, format!("workload = \"hash-scatter\"\n{keys}")).expect("written");
            Grid::load(&path).expect("a grid").runs().expect("runs")
        };
        let set = runs("[set]\nllc.size = [\"11MiB\", \"22MiB\"]\n");
        assert_eq!(set.len(), 2);
        assert_eq!(runs("llc.size = [\"11MiB\", \"22MiB\"]\n"), set);
        assert_eq!(runs("\"llc.size\" = [\"11MiB\", \"22MiB\"]\n"), set);
    }

    #[test]
    fn what_would_change_nothing_is_refused() {
        for (wrong, says) in [
            (json!({ "workload": "hash-scatter", "seed": [] }), "seed has no values"),
            (json!({ "workload": "hash-scatter", "machine": [] }), "machine has no values"),
            (json!({ "workload": [] }), "workload has no values"),
            (json!({ "workload": "hash-scatter", "llc.size": [] }), "llc.size has no values"),
            (
                json!({ "workload": "hash-scatter", "set": { "llc": { "size": [] } } }),
                "llc.size has no values",
            ),
            (json!({ "workload": "hash-scatter", "chunk": 0 }), "from 1 on"),
            (json!({ "workload": "hash-scatter", "operations": [1, 0] }), "from 1 on"),
            (json!({ "workload": "hash-scatter", "chunk": "many" }), "from 1 on"),
            (json!({ "workload": "hash-scatter", "store": ["a"] }), "store is the name"),
            (json!({ "workload": "hash-scatter", "output": 7 }), "output is the name"),
            (json!({ "trace": "t.slt", "threads": 2 }), "threads changes nothing here: it is for workload"),
            (json!({ "trace": "t.slt", "operations": 2 }), "operations changes nothing"),
            (json!({ "row": "xpoint-9", "machine": "dram" }), "machine changes nothing"),
            (json!({ "row": "xpoint-9", "llc.size": "1MiB" }), "llc.size changes nothing"),
            (json!({ "row": "xpoint-9", "llc": { "size": "1MiB" } }), "llc changes nothing"),
            (json!({ "workload": "hash-scatter", "llc": { "sise": 1 } }), "llc.size"),
            (json!({ "workload": "hash-scatter", "llc.size": 1, "llc": { "size": 1 } }), "given twice"),
        ] {
            let found = Grid::parse(&wrong.to_string()).and_then(|grid| grid.runs());
            let error = found.expect_err("it is refused").to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn more_inputs_than_fit_into_memory_are_refused() {
        let many: Vec<u64> = (1..50_000).collect();
        let wrong = json!({ "workload": "hash-scatter", "operations": many, "workload_seed": many });
        let error = grid(&wrong).runs().expect_err("it is refused").to_string();
        assert!(error.contains("combinations; at most"), "{error}");
        let error = Grid::parse("{\"seed\": NaN}").expect_err("it is refused").to_string();
        assert!(error.starts_with("the grid: "), "{error}");
    }

    #[test]
    fn a_key_is_the_same_in_all_its_forms() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("grid.toml");
        let addresses = |keys: &str| {
            let text = format!("workload = \"hash-scatter\"\nseed = 1\n{keys}\n");
            std::fs::write(&file, text).expect("written");
            let runs = Grid::load(&file).and_then(|grid| grid.runs()).expect(keys);
            runs.into_iter().map(|(address, _)| address).collect::<Vec<_>>()
        };
        let quoted = addresses("\"llc.size\" = [\"11MiB\", \"22MiB\"]");
        assert_eq!(quoted.len(), 2);
        for other in [
            "llc.size = [\"11MiB\", \"22MiB\"]",
            "[llc]\nsize = [\"11MiB\", \"22MiB\"]",
            "[set]\nllc.size = [\"11MiB\", \"22MiB\"]",
        ] {
            assert_eq!(addresses(other), quoted, "{other}");
        }
    }

    #[test]
    fn what_is_there_twice_is_computed_once_and_counted_as_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let twice = json!({ "workload": "hash-scatter", "operations": 20, "seed": [1, 1, 2] });
        let mut sweep =
            Sweep::open(&grid(&twice), Store::open(folder.path()).expect("a store")).expect("a sweep");
        let tasks = sweep.tasks(Some(1)).expect("tasks");
        assert_eq!(tasks.len(), 2);
        let answer = compute(&tasks[0]).expect("it runs");
        assert_eq!((sweep.keep(&answer).expect("kept"), sweep.keep(&answer).expect("kept")), (2, 0));
        let last = Mutex::new((0, 0));
        sweep
            .run(1, &|done, all| {
                *last.lock().expect("no panic") = (done, all);
                true
            })
            .expect("it runs");
        assert_eq!(sweep.missing(), 0);
        assert_eq!(*last.lock().expect("no panic"), (3, 3));
    }

    #[test]
    fn a_published_result_is_a_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows = grid(&json!({ "row": ["xpoint-9"] }));
        let mut sweep = Sweep::open(&rows, Store::open(folder.path()).expect("a store")).expect("a sweep");
        sweep.run(1, &|_, _| true).expect("it runs");
        let Some(Data::Text(verdicts)) = sweep.table().column("verdict").cloned() else {
            panic!("no verdict")
        };
        assert!(verdicts[0].is_some());
    }

    #[test]
    fn the_table_is_a_parquet_file() {
        use std::os::unix::fs::PermissionsExt;

        use parquet::file::reader::{FileReader, SerializedFileReader};
        let folder = tempfile::tempdir().expect("a folder");
        let mut sweep =
            Sweep::open(&grid(&small()), Store::open(folder.path()).expect("a store")).expect("a sweep");
        sweep.run(2, &|_, _| true).expect("it runs");
        let path = folder.path().join("t.parquet");
        sweep.table().write(&path).expect("written");
        // As any file that a program makes: others may read it if the mask lets them.
        let mode = |path: &std::path::Path| path.metadata().expect("a file").permissions().mode() & 0o777;
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").expect("written");
        assert_eq!(mode(&path), mode(&plain));
        let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("a file")).expect("a table");
        assert_eq!(reader.metadata().file_metadata().num_rows(), 12);
        let columns = reader.metadata().file_metadata().schema_descr().num_columns();
        assert_eq!(columns, sweep.table().columns.len());
        let rows = reader.get_row_iter(None).expect("rows");
        let text: Vec<String> = rows.map(|row| row.expect("a row").to_string()).collect();
        assert!(text[0].contains("hash-scatter") && text[0].contains("11MiB"), "{}", text[0]);
    }

    #[test]
    fn a_task_of_another_trace_or_version_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let sweep =
            Sweep::open(&grid(&small()), Store::open(folder.path()).expect("a store")).expect("a sweep");
        let task = sweep.tasks(None).expect("tasks").remove(0);
        let other = task.replace(VERSION, "0.0.1");
        assert!(matches!(compute(&other), Err(SweepError::OtherVersion { .. })));
        let file = folder.path().join("x.slt");
        std::fs::write(&file, "other").expect("written");
        let source = crate::Source::Trace { path: file, content: "0".to_owned() };
        let mut run = sweep.runs[0].clone();
        run.1.source = source;
        let task = Task { version: VERSION.to_owned(), runs: vec![run] };
        let text = serde_json::to_string(&task).expect("a text");
        assert!(matches!(compute(&text), Err(SweepError::OtherTrace { .. })));
    }
}
