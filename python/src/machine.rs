//! Machine descriptions as objects: every key of the TOML file is an attribute and an item.

use std::path::Path;
use std::sync::Arc;

use ::machine::Config;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use session::Chosen;
use toml::{Table, Value};

use crate::error::refused;
use crate::input::{is_path, path_text};
use crate::result::{Restored, restored_by};

/// A modelled machine: a preset or a TOML description, with values replaced.
///
/// ```python
/// m = Machine("xpoint")
/// m.device.buffer.lines = 128          # or m["device.buffer.lines"] = 128
/// m.llc.size = "22MiB"
/// Machine.from_toml(open("mine.toml").read(), name="mine")
/// ```
///
/// A value is checked when it is set, with the messages of the command line (`StrandlineError`, a `ValueError`). Sizes have units
/// (`"22MiB"`), times too (`"94ns"`). `Machine.presets()` lists what there is; the commented files say what each key means.
#[pyclass(module = "strandline", from_py_object)]
#[derive(Clone)]
pub struct Machine {
    /// A preset's name or a file's path; what messages call a text.
    pub name: String,
    /// The description, if it is no preset's, with whole paths.
    pub text: Option<Arc<str>>,
    /// What was set.
    pub settings: Vec<(String, String)>,
    config: Box<Config>,
}

impl Machine {
    fn base(name: &str, text: Option<&str>) -> PyResult<Config> {
        match text {
            Some(text) => Config::parse(text, name).map_err(refused),
            None => Config::load(name).map_err(refused),
        }
    }

    /// A copy with values replaced, all at once: one may be right only beside another.
    fn with(&self, settings: Vec<(String, String)>) -> PyResult<Machine> {
        let mut changed = self.clone();
        for (key, value) in settings {
            changed.settings.retain(|(known, _)| *known != key);
            changed.settings.push((key, value));
        }
        let base = Machine::base(&self.name, self.text.as_deref())?;
        changed.config = Box::new(base.with_overrides(&changed.settings).map_err(refused)?);
        Ok(changed)
    }

    fn document(&self) -> PyResult<Table> {
        Table::try_from(&*self.config).map_err(refused)
    }

    /// The machine's whole description.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// As the verbs take it. A description that is no preset's becomes a file in `folder`, which the caller keeps for as long as the verb
    /// runs.
    pub fn chosen(&self, folder: &Scratch) -> PyResult<Chosen> {
        let machine = match &self.text {
            None => self.name.clone(),
            Some(text) => folder.file(&self.name, &text.parse().map_err(refused)?)?,
        };
        Ok(Chosen { machine, settings: self.settings.clone() })
    }

    /// As verbs take it that know names only.
    pub fn named(&self, folder: &Scratch) -> PyResult<String> {
        if self.settings.is_empty() && self.text.is_none() {
            return Ok(self.name.clone());
        }
        folder.file(&self.name, &self.document()?)
    }
}

/// A description as it is kept: what it means does not change with the process's folder or the file.
fn kept(text: &str, name: &str) -> PyResult<Arc<str>> {
    let mut description: Table = text.parse().map_err(refused)?;
    let before = std::path::absolute(name).unwrap_or_default();
    whole_paths(&mut description, before.parent().unwrap_or(Path::new("/")));
    Ok(toml::to_string(&description).map_err(refused)?.into())
}

/// A folder for descriptions that are no preset's, removed in the end.
pub struct Scratch(tempfile::TempDir);

/// Bytes of a name that becomes a file's.
const NAME_MAX: usize = 100;
/// Lists and tables in each other, in a value of a machine.
const DEPTH_MAX: usize = 32;

impl Scratch {
    /// A new one.
    pub fn new() -> PyResult<Scratch> {
        Ok(Scratch(tempfile::tempdir()?))
    }

    /// A file with a description, for which a file of that name would stand.
    fn file(&self, name: &str, description: &Table) -> PyResult<String> {
        let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".toml");
        let stem = &stem[..stem.floor_char_boundary(NAME_MAX)];
        // In a folder of its own: others may have the same name.
        let folder = tempfile::tempdir_in(self.0.path())?.keep();
        let path = folder.join(format!("{stem}.toml"));
        std::fs::write(&path, toml::to_string(description).map_err(refused)?)?;
        Ok(path.display().to_string())
    }
}

/// Keys of descriptions whose values are paths, from the folder of the description.
const PATHS: [&str; 2] = ["file", "folder"];

/// Makes the paths of a description whole: it is written into another folder.
fn whole_paths(description: &mut Table, folder: &Path) {
    for (key, value) in description.iter_mut() {
        match value {
            Value::Table(inner) => whole_paths(inner, folder),
            Value::Array(values) => {
                values.iter_mut().filter_map(Value::as_table_mut).for_each(|inner| whole_paths(inner, folder))
            }
            Value::String(path) if PATHS.contains(&key.as_str()) => {
                *path = folder.join(&*path).display().to_string()
            }
            _ => {}
        }
    }
}

/// A name, a path or a `Machine`.
pub fn machine_of(value: &Bound<'_, PyAny>) -> PyResult<Machine> {
    if let Ok(machine) = value.extract::<Machine>() {
        return Ok(machine);
    }
    Machine::new(Some(value), None)
}

/// One or several.
pub fn machines_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<Machine>> {
    if value.is_instance_of::<PyString>()
        || value.extract::<Machine>().is_ok()
        || value.hasattr("__fspath__")?
    {
        return Ok(vec![machine_of(value)?]);
    }
    let machines = value.try_iter()?.map(|one| machine_of(&one?)).collect::<PyResult<Vec<_>>>()?;
    if machines.is_empty() {
        return Err(refused("a list of machines has at least one"));
    }
    Ok(machines)
}

/// Keys and values as a TOML file would have them.
fn settings_of(settings: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    settings.iter().map(|(key, value)| Ok((key.str()?.to_cow()?.into_owned(), written(&value, 0)?))).collect()
}

/// A Python value as a TOML file would have it.
fn written(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if depth > DEPTH_MAX {
        return Err(refused(format!("a value of a machine has at most {DEPTH_MAX} lists in each other")));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(value.is_truthy()?.to_string());
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let pairs = table.iter().map(|(key, value)| {
            let quoted = if value.is_instance_of::<PyString>() {
                Value::String(value.extract()?).to_string()
            } else {
                written(&value, depth + 1)?
            };
            Ok(format!("{} = {quoted}", key.str()?.to_cow()?))
        });
        return Ok(format!("{{ {} }}", pairs.collect::<PyResult<Vec<_>>>()?.join(", ")));
    }
    if value.is_instance_of::<pyo3::types::PyList>() || value.is_instance_of::<pyo3::types::PyTuple>() {
        let all = value.try_iter()?.map(|one| {
            let one = one?;
            match one.is_instance_of::<PyString>() {
                true => Ok(Value::String(one.extract()?).to_string()),
                false => written(&one, depth + 1),
            }
        });
        return Ok(format!("[{}]", all.collect::<PyResult<Vec<_>>>()?.join(", ")));
    }
    Ok(value.str()?.to_cow()?.into_owned())
}

fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(refused)?;
    py.import("json")?.call_method1("loads", (text,))
}

fn find<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(value)
}

fn leaves(before: &str, table: &Table, keys: &mut Vec<String>) {
    for (key, value) in table {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Table(inner) => leaves(&key, inner, keys),
            _ => keys.push(key),
        }
    }
}

/// A table below a machine, or a value.
fn looked_up<'py>(machine: &Bound<'py, Machine>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = machine.py();
    let document = machine.borrow().document()?;
    Ok(match find(&document, key) {
        None => None,
        Some(Value::Table(_)) => {
            let section = Section { machine: machine.clone().unbind(), prefix: key.to_owned() };
            Some(Bound::new(py, section)?.into_any())
        }
        Some(value) => Some(python(py, value)?),
    })
}

fn set(machine: &Bound<'_, Machine>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    // Before the machine is borrowed: it may run code of the caller's.
    let value = written(value, 0)?;
    let changed = machine.try_borrow()?.with(vec![(key.to_owned(), value)])?;
    *machine.try_borrow_mut()? = changed;
    Ok(())
}

#[pymethods]
impl Machine {
    #[new]
    #[pyo3(signature = (name = None, settings = None))]
    fn new(name: Option<&Bound<'_, PyAny>>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Machine> {
        let name = match name {
            None => "xpoint".to_owned(),
            Some(name) if is_path(name)? => path_text(name)?,
            Some(name) => {
                return Err(PyTypeError::new_err(format!(
                    "a machine is a name or a path, not {}",
                    name.repr()?
                )));
            }
        };
        let given = Machine::base(&name, None)?;
        let text = match Config::preset_text(&name) {
            Some(_) => None,
            None => Some(kept(&std::fs::read_to_string(&name)?, &name)?),
        };
        let config = Box::new(match &text {
            None => given,
            Some(kept) => Machine::base(&name, Some(kept))?,
        });
        let machine = Machine { name, text, settings: Vec::new(), config };
        match settings {
            Some(settings) => machine.with(settings_of(settings)?),
            None => Ok(machine),
        }
    }

    /// A machine described by TOML text.
    #[staticmethod]
    #[pyo3(signature = (text, name = "a machine"))]
    fn from_toml(text: &str, name: &str) -> PyResult<Machine> {
        // Twice: messages are of the text as it was given.
        Machine::base(name, Some(text))?;
        let text = kept(text, name)?;
        let config = Box::new(Machine::base(name, Some(&text))?);
        Ok(Machine { name: name.to_owned(), text: Some(text), settings: Vec::new(), config })
    }

    /// The presets, each with what it describes.
    #[staticmethod]
    fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let all = PyDict::new(py);
        for name in Config::presets() {
            all.set_item(name, Config::preset_summary(name).unwrap_or_default())?;
        }
        Ok(all)
    }

    /// The commented text of a preset, to be copied.
    #[staticmethod]
    fn preset_text(name: &str) -> PyResult<&'static str> {
        Config::preset(name).map_err(refused)?;
        Ok(Config::preset_text(name).unwrap_or_default())
    }

    /// The whole description as TOML.
    #[getter]
    fn toml(&self) -> PyResult<String> {
        toml::to_string(&*self.config).map_err(refused)
    }

    /// The name, and what was set.
    #[getter]
    fn label(&self) -> String {
        let settings: String = self.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("{}{settings}", self.name)
    }

    /// All keys that have a value, dotted.
    fn keys(&self) -> PyResult<Vec<String>> {
        let mut keys = Vec::new();
        leaves("", &self.document()?, &mut keys);
        Ok(keys)
    }

    /// A copy with values replaced: `m.set({"llc.size": "22MiB"})`.
    fn set(&self, settings: &Bound<'_, PyDict>) -> PyResult<Machine> {
        self.with(settings_of(settings)?)
    }

    /// A copy.
    fn copy(&self) -> Machine {
        self.clone()
    }

    /// What a sweep's grid says of the machine, as JSON.
    fn _spec(&self) -> String {
        let text = self.text.as_deref();
        serde_json::json!({ "name": self.name, "text": text, "settings": self.settings }).to_string()
    }

    /// A machine of what `_spec` said.
    #[staticmethod]
    fn _of(spec: &str) -> PyResult<Machine> {
        let ::sweep::Machine { name, text, settings } = serde_json::from_str(spec).map_err(refused)?;
        let base = Machine::base(&name, text.as_deref())?;
        let config = Box::new(base.with_overrides(&settings).map_err(refused)?);
        Ok(Machine { name, text: text.map(Arc::from), settings, config })
    }

    /// For pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Restored<'py>> {
        restored_by(py, "machine", (self._spec(),))
    }

    fn __getitem__<'py>(this: &Bound<'py, Self>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        looked_up(this, key)?.ok_or_else(|| PyKeyError::new_err(key.to_owned()))
    }

    fn __setitem__(this: &Bound<'_, Self>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set(this, key, value)
    }

    fn __getattr__<'py>(this: &Bound<'py, Self>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        looked_up(this, key)?.ok_or_else(|| PyAttributeError::new_err(key.to_owned()))
    }

    fn __setattr__(this: &Bound<'_, Self>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set(this, key, value)
    }

    fn __dir__(this: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        let mut names: Vec<String> = this.get_type().dir()?.extract()?;
        names.extend(this.borrow().document()?.keys().cloned());
        Ok(names)
    }

    fn __repr__(&self) -> String {
        format!("<strandline Machine {}>", self.label())
    }

    fn __eq__(&self, other: &Machine) -> bool {
        self.config == other.config
    }
}

/// A table of a machine's description.
#[pyclass(module = "strandline", frozen)]
pub struct Section {
    machine: Py<Machine>,
    prefix: String,
}

impl Section {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }
}

#[pymethods]
impl Section {
    fn __getattr__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key(key);
        looked_up(self.machine.bind(py), &key)?.ok_or_else(|| PyAttributeError::new_err(key))
    }

    fn __setattr__(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set(self.machine.bind(py), &self.key(key), value)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key(key);
        looked_up(self.machine.bind(py), &key)?.ok_or_else(|| PyKeyError::new_err(key))
    }

    fn __setitem__(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set(self.machine.bind(py), &self.key(key), value)
    }

    /// The keys below this table, dotted.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let document = self.machine.borrow(py).document()?;
        let mut keys = Vec::new();
        if let Some(Value::Table(table)) = find(&document, &self.prefix) {
            leaves("", table, &mut keys);
        }
        Ok(keys)
    }

    fn __dir__(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let document = self.machine.borrow(py).document()?;
        Ok(match find(&document, &self.prefix) {
            Some(Value::Table(table)) => table.keys().cloned().collect(),
            _ => Vec::new(),
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let document = self.machine.borrow(py).document()?;
        Ok(match find(&document, &self.prefix) {
            Some(Value::Table(table)) => format!("[{}]\n{table}", self.prefix),
            _ => self.prefix.clone(),
        })
    }
}
