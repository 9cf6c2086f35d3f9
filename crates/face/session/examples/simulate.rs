//! Simulates a built-in workload on two machines: `cargo run -p session --example simulate`.

use session::{BuiltIn, Error, Input, Silent, Simulate};

fn main() -> Result<(), Error> {
    let input = Input::BuiltIn(BuiltIn { operations: Some(1000), ..BuiltIn::default() });
    let comparison = Simulate::new(input).machine("dram").machine("xpoint").run(&Silent)?;
    println!("{}", comparison.headline());
    Ok(())
}
