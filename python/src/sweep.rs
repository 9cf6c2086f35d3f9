//! Sweeps: what is missing, as tasks; what was computed, kept; all of it, as a table.

use std::path::PathBuf;

use ::sweep::{Data, Grid, STORE, Store, Sweep, SweepError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use session::Observer;

use crate::arrow;
use crate::error::refused;
use crate::input::watched;
use crate::result::{Restored, restored_by};
use crate::trace::{to_pandas, to_polars};

/// The runs of a grid and what a store has of them; where a grid's file wants the table.
#[pyclass(module = "strandline")]
pub struct Plan {
    sweep: Sweep,
    output: Option<PathBuf>,
}

impl Plan {
    /// The store is what the caller says, else what the grid says.
    fn open(grid: &Grid, store: Option<PathBuf>) -> Result<Plan, SweepError> {
        let folder = store.or_else(|| grid.store()).unwrap_or_else(|| PathBuf::from(STORE));
        Ok(Plan { sweep: Sweep::open(grid, Store::open(folder)?)?, output: grid.output() })
    }
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (grid, store = None))]
    fn new(py: Python<'_>, grid: &str, store: Option<PathBuf>) -> PyResult<Plan> {
        py.detach(|| Plan::open(&Grid::parse(grid)?, store)).map_err(refused)
    }

    /// The plan of a grid in a TOML file.
    #[staticmethod]
    #[pyo3(signature = (file, store = None))]
    fn load(py: Python<'_>, file: PathBuf, store: Option<PathBuf>) -> PyResult<Plan> {
        py.detach(|| Plan::open(&Grid::load(&file)?, store)).map_err(refused)
    }

    /// Where the grid wants its table, if it says.
    #[getter]
    fn output(&self) -> Option<PathBuf> {
        self.output.clone()
    }

    /// Refuses a file that the table can't be written to.
    #[staticmethod]
    fn writes_to(path: PathBuf) -> PyResult<()> {
        ::sweep::Table::writes_to(&path).map_err(refused)
    }

    /// Configurations, and those whose result was there.
    #[getter]
    fn tally(&self) -> (usize, usize) {
        let tally = self.sweep.tally();
        (tally.all, tally.known)
    }

    /// Configurations without a result.
    #[getter]
    fn missing(&self) -> usize {
        self.sweep.missing()
    }

    /// What is missing, as texts for `compute`.
    #[pyo3(signature = (chunk = None))]
    fn tasks(&self, chunk: Option<usize>) -> PyResult<Vec<String>> {
        self.sweep.tasks(chunk).map_err(refused)
    }

    /// Stores what `compute` returned.
    fn keep(&mut self, py: Python<'_>, answer: &str) -> PyResult<usize> {
        py.detach(|| self.sweep.keep(answer)).map_err(refused)
    }

    /// Computes what is missing on threads of this process.
    #[pyo3(signature = (jobs, chunk = None))]
    fn run(&mut self, py: Python<'_>, jobs: usize, chunk: Option<usize>) -> PyResult<()> {
        if let Some(chunk) = chunk {
            self.sweep.set_chunk(chunk);
        }
        watched(py, |watcher| self.sweep.run(jobs, &|_, _| !watcher.stopped()).map_err(refused))
    }

    /// A row per configuration.
    fn table(&self) -> Table {
        Table(self.sweep.table())
    }
}

/// Computes one task: for the process that an executor chose.
#[pyfunction]
pub fn compute(py: Python<'_>, task: &str) -> PyResult<String> {
    py.detach(|| ::sweep::compute(task)).map_err(refused)
}

/// A sweep's results: an Arrow table with a row per configuration.
///
/// `table.to_pandas()`, `polars.DataFrame(table)`, `table.parquet("sweep.parquet")`. Times end with `_ns`, amounts with `_bytes`. A
/// configuration that no machine can have has its reason in `error`, and no results.
#[pyclass(module = "strandline", frozen)]
pub struct Table(::sweep::Table);

/// Rows that a notebook shows.
const SHOWN: usize = 20;

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        arrow::capsule(py, arrow::table(&self.0)?)
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// A column's values as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.0.column(name) {
            Some(Data::Int(values)) => Ok(values.clone().into_pyobject(py)?.into_any()),
            Some(Data::Float(values)) => Ok(values.clone().into_pyobject(py)?.into_any()),
            Some(Data::Text(values)) => Ok(values.clone().into_pyobject(py)?.into_any()),
            None => Err(pyo3::exceptions::PyKeyError::new_err(name.to_owned())),
        }
    }

    fn __len__(&self) -> usize {
        self.0.rows
    }

    /// For pickle.
    fn __reduce__<'py>(this: &Bound<'py, Self>) -> PyResult<Restored<'py>> {
        let table = this.get();
        let mut columns = Vec::new();
        for column in &table.0.columns {
            let kind = match column.data {
                Data::Int(_) => "int",
                Data::Float(_) => "float",
                Data::Text(_) => "text",
            };
            columns.push((&column.name, kind, table.__getitem__(this.py(), &column.name)?));
        }
        restored_by(this.py(), "table", (table.0.rows, columns))
    }

    /// A table of what pickle kept.
    #[staticmethod]
    fn _of(rows: usize, columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Table> {
        let column = |(name, kind, values): (String, String, Bound<'_, PyAny>)| {
            let data = match &*kind {
                "int" => Data::Int(values.extract()?),
                "float" => Data::Float(values.extract()?),
                _ => Data::Text(values.extract()?),
            };
            Ok(::sweep::Column { name, data })
        };
        let columns = columns.into_iter().map(column).collect::<PyResult<Vec<_>>>()?;
        Ok(Table(::sweep::Table { columns, rows }))
    }

    /// Writes one Parquet file.
    fn parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.write(&path)).map_err(refused)
    }

    /// As a pandas data frame (needs pandas and pyarrow).
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pandas(this.as_any())
    }

    /// As a polars data frame (needs polars).
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_polars(this.as_any())
    }

    fn __repr__(&self) -> String {
        format!("<strandline Table: {} rows, {} columns>", self.0.rows, self.0.columns.len())
    }

    fn _repr_html_(&self) -> String {
        let cell = |data: &::sweep::Data, row: usize| match data {
            Data::Int(values) => values[row].map(|value| value.to_string()),
            Data::Float(values) => values[row].map(|value| format!("{value:.4}")),
            Data::Text(values) => values[row].clone().map(|text| escaped(&text)),
        };
        let head: String =
            self.0.columns.iter().map(|column| format!("<th>{}</th>", escaped(&column.name))).collect();
        let row = |row| {
            let cells =
                self.0.columns.iter().map(|c| format!("<td>{}</td>", cell(&c.data, row).unwrap_or_default()));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let body: String = (0..self.0.rows.min(SHOWN)).map(row).collect();
        format!("<p>{} rows</p><table><tr>{head}</tr>{body}</table>", self.0.rows)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
