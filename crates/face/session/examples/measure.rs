//! Measures the idle latency of a modelled machine: `cargo run -p session --example measure`.

use machine::Config;
use session::{Error, Measure, Memory, Silent};

fn main() -> Result<(), Error> {
    let memory =
        Memory::Model { config: Box::new(Config::load("xpoint")?), events: Some(4096), other_memory: false };
    let found = Measure::new(memory).study("idle-latency").run(&Silent)?;
    println!("{}", found.text());
    Ok(())
}
