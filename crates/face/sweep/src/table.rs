//! The table of a sweep, and its one Parquet file.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use crate::error::SweepError;
use crate::run::{Run, Source};
use crate::version::VERSION;

/// Values of a column, one per row; none where the row has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Numbers.
    Float(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name. Times end with `_ns`, amounts with `_bytes`, bandwidth with `_gb_per_s`.
    pub name: String,
    /// Its values.
    pub data: Data,
}

/// A row per configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// First what was varied, then results.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: usize,
}

impl Table {
    /// The table of runs and their results.
    pub(crate) fn new(runs: &[(String, Run)], results: &[Option<Value>]) -> Table {
        let mut cells = Cells::default();
        for (row, ((address, run), result)) in runs.iter().zip(results).enumerate() {
            cells.of_run(row, run);
            cells.put(row, "address", Value::from(address.clone()));
            if let Some(elapsed) = result.as_ref().and_then(|result| result.get("elapsed_ns")) {
                // What everybody looks at comes first.
                cells.put(row, "elapsed_ns", elapsed.clone());
            }
            let others = |(name, _): &(&String, &Value)| *name != "elapsed_ns";
            for (name, value) in result.iter().filter_map(Value::as_object).flatten().filter(others) {
                cells.put(row, name, value.clone());
            }
        }
        // Whoever reads the table looks for this one.
        cells.column("error");
        let rows = runs.len();
        let Cells { columns, set, .. } = cells;
        let columns = columns.into_iter().map(|(name, values)| {
            let values = if set.contains(&name) { numbers(values) } else { values };
            Column { name, data: typed(values, rows) }
        });
        Table { columns: columns.collect(), rows }
    }

    /// A column by its name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Data> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.data)
    }

    /// Writes the table as a file, whole, or not at all (what is no ordinary file is written to directly):
    /// Parquet, or if its name ends with `.jsonl`, a line of JSON per row, without the columns in which the
    /// row has no value.
    ///
    /// # Errors
    /// If the file can't be written, or its name says another format.
    pub fn write(&self, path: &Path) -> Result<(), SweepError> {
        Table::writes_to(path)?;
        let mut content = Vec::new();
        if path.extension().is_some_and(|end| end == "jsonl") {
            for row in 0..self.rows {
                writeln!(content, "{}", self.row(row)).map_err(SweepError::file("write", path))?;
            }
        } else {
            self.write_to(&mut content)?;
        }
        Ok(session::write(path, &content)?)
    }

    /// Refuses what [`Table::write`] can't write, before anything is computed: a file of another format by
    /// its name, or in no folder.
    ///
    /// # Errors
    /// What would be right.
    pub fn writes_to(path: &Path) -> Result<(), SweepError> {
        let wrong = |reason: String| SweepError::Grid { origin: path.display().to_string(), reason };
        let end = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if ["csv", "tsv", "json", "txt", "xlsx", "arrow", "feather"].contains(&&*end) {
            return Err(wrong("a table is written as FILE.parquet or FILE.jsonl".to_owned()));
        }
        match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            Some(folder) => Err(wrong(format!("there is no folder {}: make it first", folder.display()))),
            None => Ok(()),
        }
    }

    /// What a row has, by column.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> Value {
        let value = |data: &Data| match data {
            Data::Int(values) => values[row].map(Value::from),
            Data::Float(values) => values[row].map(Value::from),
            Data::Text(values) => values[row].clone().map(Value::from),
        };
        let cells =
            self.columns.iter().filter_map(|Column { name, data }| Some((name.clone(), value(data)?)));
        Value::Object(cells.collect())
    }

    fn write_to(&self, file: &mut Vec<u8>) -> Result<(), SweepError> {
        let fields = self.columns.iter().map(|column| {
            let (physical, converted) = match column.data {
                Data::Int(_) => (Physical::INT64, ConvertedType::NONE),
                Data::Float(_) => (Physical::DOUBLE, ConvertedType::NONE),
                Data::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            };
            let builder = Type::primitive_type_builder(&column.name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_converted_type(converted);
            Ok(Arc::new(builder.build()?))
        });
        let fields = fields.collect::<Result<Vec<_>, parquet::errors::ParquetError>>()?;
        let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
        let about = KeyValue::new("strandline".to_owned(), VERSION.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![about]))
            .build();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for column in &self.columns {
            let Some(mut out) = group.next_column()? else { break };
            match &column.data {
                Data::Int(values) => {
                    let (values, levels) = split(values, |value| *value);
                    out.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Data::Float(values) => {
                    let (values, levels) = split(values, |value| *value);
                    out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
                Data::Text(values) => {
                    let (values, levels) = split(values, |text| ByteArray::from(text.as_str()));
                    out.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            out.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

/// The values that are there, and for each row whether one is.
fn split<T, U>(values: &[Option<T>], of: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().map(of).collect(), levels)
}

/// Values by column, in the order in which columns were first seen.
#[derive(Default)]
struct Cells {
    columns: Vec<(String, Vec<(usize, Value)>)>,
    places: HashMap<String, usize>,
    /// Columns of keys of machines, whose values are texts as they were given.
    set: HashSet<String>,
}

impl Cells {
    fn column(&mut self, name: &str) -> &mut Vec<(usize, Value)> {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.columns.len());
                self.columns.push((name.to_owned(), Vec::new()));
                self.columns.len() - 1
            }
        };
        &mut self.columns[place].1
    }

    fn put(&mut self, row: usize, name: &str, value: Value) {
        if !value.is_null() {
            self.column(name).push((row, value));
        } else {
            self.column(name);
        }
    }

    fn of_run(&mut self, row: usize, run: &Run) {
        match &run.source {
            Source::Trace { path, content } => {
                self.put(row, "trace", Value::from(path.display().to_string()));
                self.put(row, "trace_hash", Value::from(content.clone()));
            }
            Source::Workload { name, operations, threads, seed } => {
                self.put(row, "workload", Value::from(name.clone()));
                self.put(row, "operations", Value::from(*operations));
                self.put(row, "threads", Value::from(*threads));
                self.put(row, "workload_seed", Value::from(*seed));
            }
            Source::Row { id } => self.put(row, "row", Value::from(id.clone())),
        }
        if !matches!(run.source, Source::Row { .. }) {
            self.put(row, "machine", Value::from(run.machine.label()));
            self.put(row, "persistency", run.persistency.clone().into());
            self.put(row, "language", run.language.clone().into());
        }
        self.put(row, "seed", run.seed.into());
        for (key, value) in &run.settings {
            self.put(row, key, Value::from(value.clone()));
            self.set.insert(key.clone());
        }
    }
}

/// Texts as numbers, if each is one.
fn numbers(values: Vec<(usize, Value)>) -> Vec<(usize, Value)> {
    let number = |text: &str| {
        let whole = text.parse::<i64>().ok().map(Value::from).or(text.parse::<u64>().ok().map(Value::from));
        // None of what is infinite or no number, as JSON has no such numbers.
        whole.or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::from))
    };
    let all = values.iter().map(|(row, value)| Some((*row, number(value.as_str()?)?)));
    all.collect::<Option<Vec<_>>>().unwrap_or(values)
}

/// Whether a float has exactly this number.
fn is_float(value: &Value) -> bool {
    let whole = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    whole.is_none_or(|whole| (whole as f64) as i128 == whole)
}

/// The narrowest type that has all of a column's values exactly.
fn typed(values: Vec<(usize, Value)>, rows: usize) -> Data {
    fn spread<T: Clone>(rows: usize, values: impl Iterator<Item = (usize, T)>) -> Vec<Option<T>> {
        let mut all = vec![None; rows];
        values.for_each(|(row, value)| all[row] = Some(value));
        all
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let whole = values.iter().all(|(_, value)| value.as_i64().is_some());
    if values.is_empty() || values.iter().any(|(_, value)| !value.is_number() || !whole && !is_float(value)) {
        return Data::Text(spread(rows, values.iter().map(|(row, value)| (*row, text(value)))));
    }
    if whole {
        return Data::Int(spread(
            rows,
            values.iter().filter_map(|(row, value)| Some((*row, value.as_i64()?))),
        ));
    }
    Data::Float(spread(rows, values.iter().filter_map(|(row, value)| Some((*row, value.as_f64()?)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_t_be_written_is_refused_before() {
        for good in ["t.parquet", "t", "/dev/stdout", "t.JSONL"] {
            Table::writes_to(Path::new(good)).expect(good);
        }
        for bad in ["t.csv", "t.JSON", "/no/such/t.parquet"] {
            Table::writes_to(Path::new(bad)).expect_err(bad);
        }
    }

    fn column(values: &[&str]) -> Data {
        typed(numbers(values.iter().map(|value| Value::from(*value)).enumerate().collect()), values.len())
    }

    #[test]
    fn a_column_is_of_the_narrowest_type_that_is_exact() {
        let texts =
            |values: &[&str]| Data::Text(values.iter().map(|text| Some((*text).to_owned())).collect());
        assert_eq!(column(&["1", "-2"]), Data::Int(vec![Some(1), Some(-2)]));
        assert_eq!(column(&["1", "1.5", "1e3"]), Data::Float(vec![Some(1.0), Some(1.5), Some(1000.0)]));
        assert_eq!(column(&["9223372036854775808", "1"]), Data::Float(vec![Some(2f64.powi(63)), Some(1.0)]));
        for exact in
            [&["9007199254740993", "0.5"], &["18446744073709551615", "1"], &["nan", "1"], &["-inf", "1e3"]]
        {
            assert_eq!(column(exact), texts(exact));
        }
    }
}
