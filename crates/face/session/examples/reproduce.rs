//! Measures one published result again: `cargo run -p session --example reproduce`.

use session::{Error, Reproduce, Silent};

fn main() -> Result<(), Error> {
    let reproduce = Reproduce { names: vec!["xpoint-9".to_owned()], seed: None };
    for outcome in reproduce.run(&Silent, |_| Ok(()))? {
        println!("{}", studies::entry(&outcome, 80));
    }
    Ok(())
}
