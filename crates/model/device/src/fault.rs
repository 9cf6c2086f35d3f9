//! What is wrong with a number of a description.

use crate::Time;

/// What is wrong with a device's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key, below the device's table.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What to write instead.
    pub remedy: String,
}

impl Fault {
    /// `value` of `key`, and what to write instead.
    #[must_use]
    pub fn new(key: &str, value: impl ToString, remedy: &str) -> Self {
        Fault { key: key.to_owned(), value: value.to_string(), remedy: remedy.to_owned() }
    }
}

/// Refuses a time above 10 ms: enough of them would not fit a [`Time`].
///
/// # Errors
/// The first of `times`, each with its key, that is too long.
pub fn check_times(times: &[(&str, Time)]) -> Result<(), Fault> {
    let most = Time::from_ns(10_000_000);
    match times.iter().find(|(_, time)| *time > most) {
        Some((key, time)) => Err(Fault::new(key, time, &format!("use at most {most}"))),
        None => Ok(()),
    }
}
