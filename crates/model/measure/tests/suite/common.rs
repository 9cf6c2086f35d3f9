//! A machine of which every figure is known beforehand.

use machine::Config;

/// The machine in `simple.toml`.
pub fn simple() -> Config {
    Config::parse(include_str!("../simple.toml"), "simple.toml").expect("a machine")
}
