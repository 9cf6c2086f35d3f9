//! Sort, queries, whole keys and litmus tests on every backend that is present.

mod common;

use std::collections::HashMap;
use std::process::Command;

use common::{backends, seed};
use unified::litmus::Test;
use unified::query::{self, Lineitem, decimal, q1, q1_on_cpu, q6, q6_on_cpu};
use unified::{Batch, BatchOptions, Mix, Shape, Store, sort};

/// The number at a place of keys to be sorted.
type Order = fn(u32) -> u32;
/// Makes a row wrong.
type Spoil = fn(&mut Lineitem);

#[test]
fn keys_are_sorted_in_one_piece_and_in_many() {
    let mut random = Mix::seeded(seed("sort", 3));
    for device in backends() {
        for (count, chunk, mask) in [
            (0, 10, u32::MAX),
            (1, 10, u32::MAX),
            (1000, 1000, 7),
            (70_000, 1 << 20, u32::MAX),
            (5000, 999, 0xff),
        ] {
            let keys: Vec<u32> = (0..count).map(|_| random.next_u64() as u32 & mask).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let mut ours = keys.clone();
            sort::sort(&*device, &mut ours, chunk).expect("the device works");
            assert_eq!(ours, sorted, "{} {count}", device.info().device);
            let mut theirs = keys.clone();
            sort::on_cpu(&mut theirs, 2);
            assert_eq!(theirs, sorted);
        }
        assert!(sort::sort(&*device, &mut [2, 1], 0).is_err());
        assert!(sort::chunk(&*device) >= 1 << 20);
    }
}

/// Sizes around those of tiles and workgroups; orders that a sort may take for another one.
#[test]
fn edges_of_sizes_and_orders_are_sorted() {
    let orders: [(&str, Order); 5] = [
        ("equal", |_| u32::MAX),
        ("sorted", |number| number),
        ("reversed", |number| u32::MAX - number),
        ("in the highest digit", |number| number << 24),
        ("ends", |number| if number % 2 == 0 { 0 } else { u32::MAX }),
    ];
    for device in backends() {
        for count in [2, 255, 256, 257, 4095, 4097, 16_385] {
            for (order, key) in orders {
                for chunk in [1 << 20, 256, count as usize - 1] {
                    let keys: Vec<u32> = (0..count).map(key).collect();
                    let (mut ours, mut sorted) = (keys.clone(), keys);
                    sorted.sort_unstable();
                    sort::sort(&*device, &mut ours, chunk).expect("the device works");
                    assert!(ours == sorted, "{}: {count} {order}, by {chunk}", device.info().device);
                    if count > 5000 {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn queries_give_the_cpus_result_whole_and_by_pieces() {
    let rows = Lineitem::generate(30_011, seed("query", 8));
    let (first, sixth) = (q1_on_cpu(&rows), q6_on_cpu(&rows));
    assert_eq!(first.len(), 4, "A/F, N/F, N/O, R/F");
    assert!(sixth > 0);
    for device in backends() {
        for most in [None, Some(1000), Some(1)].into_iter().take(if device.info().software { 2 } else { 3 }) {
            assert_eq!(q1(&*device, &rows, most).expect("works"), first, "{}", device.info().device);
            assert_eq!(q6(&*device, &rows, most).expect("works"), sixth, "{}", device.info().device);
        }
        assert!(q1(&*device, &Lineitem::default(), None).expect("nothing to do").is_empty());
    }
}

/// A Python that has DuckDB.
fn python() -> Option<String> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/duckdb/bin/python");
    [own, "python3"].into_iter().find_map(|python| {
        let ran = Command::new(python).args(["-c", "import duckdb"]).output().ok()?;
        ran.status.success().then(|| python.to_owned())
    })
}

#[test]
fn queries_give_duckdbs_result_to_the_last_digit() {
    let Some(python) = python() else {
        println!("skipped: no Python with the module duckdb");
        return;
    };
    let rows = Lineitem::generate(60_000, seed("duckdb", 21));
    let folder = std::env::temp_dir().join(format!("strandline-duckdb-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("lineitem.csv");
    let text: String = (0..rows.len()).map(|row| rows.sql(row) + "\n").collect();
    std::fs::write(&file, text).expect("a file");
    let script = format!(
        "import duckdb\nc = duckdb.connect()\n\
         c.execute(\"create table lineitem as select * from read_csv('{}', header=false, columns={{\
         'l_quantity':'DECIMAL(15,2)','l_extendedprice':'DECIMAL(15,2)','l_discount':'DECIMAL(15,2)',\
         'l_tax':'DECIMAL(15,2)','l_returnflag':'VARCHAR','l_linestatus':'VARCHAR',\
         'l_shipdate':'DATE'}})\")\n\
         for r in c.execute(\"select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), \
         sum(l_extendedprice*(1-l_discount)), sum(l_extendedprice*(1-l_discount)*(1+l_tax)), \
         avg(l_quantity), \
         avg(l_extendedprice), avg(l_discount), count(*) from lineitem where l_shipdate <= date '1998-09-02' \
         group by all order by all\").fetchall(): print('|'.join(str(x) for x in r))\n\
         print(c.execute(\"select sum(l_extendedprice*l_discount) from lineitem where \
         l_shipdate >= date '1994-01-01' \
         and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07 and \
         l_quantity < 24\").fetchall()[0][0])\n",
        file.display()
    );
    let ran = Command::new(&python).args(["-c", &script]).output().expect("python runs");
    std::fs::remove_dir_all(&folder).ok();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let theirs = String::from_utf8(ran.stdout).expect("text");
    for device in backends() {
        let mut ours = Vec::new();
        for group in q1(&*device, &rows, None).expect("works") {
            ours.push((
                group,
                format!(
                    "{}|{}|{}|{}|{}|{}",
                    group.flag,
                    group.status,
                    decimal(group.quantity, 2),
                    decimal(group.price, 2),
                    decimal(group.reduced, 4),
                    decimal(group.charge, 6)
                ),
            ));
        }
        let lines: Vec<&str> = theirs.lines().collect();
        assert_eq!(lines.len(), ours.len() + 1);
        for (line, (group, exact)) in lines.iter().zip(&ours) {
            let fields: Vec<&str> = line.split('|').collect();
            assert_eq!(fields[..6].join("|"), *exact, "{}", device.info().device);
            assert_eq!(fields[9], group.count.to_string());
            for (field, average) in fields[6..9].iter().zip(group.averages()) {
                // Averages are binary fractions in DuckDB.
                let theirs: f64 = field.parse().expect("a number");
                assert!((theirs - average).abs() <= 1e-12 * theirs, "{theirs} {average}");
            }
        }
        let revenue = decimal(q6(&*device, &rows, None).expect("works"), 4);
        assert_eq!(lines.last().copied(), Some(revenue.as_str()));
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (day, date) in [
        (0, "1992-01-01"),
        (59, "1992-02-29"),
        (731, "1994-01-01"),
        (1263, "1995-06-17"),
        (2436, "1998-09-02"),
    ] {
        assert_eq!(query::date(day), date);
    }
    assert_eq!(decimal(1_000_007, 6), "1.000007");
}

#[test]
fn whole_keys_survive_colliding_signatures_and_a_full_table() {
    let mut random = Mix::seeded(seed("store", 4));
    for device in backends() {
        // Some four hundred entries for 600 keys, and signatures of six bits.
        let shape = Shape { buckets: 64, block: 16, signature_bits: 6 };
        let mut store = Store::new(device.clone(), shape, 700).expect("room");
        let mut model = HashMap::new();
        for round in 0..400u64 {
            let key = random.below(600);
            if round % 5 == 4 {
                assert_eq!(store.delete(key).expect("works"), model.remove(&key));
            } else {
                store.put_many(&[(key, round)]).expect("room");
                model.insert(key, round);
            }
        }
        let keys: Vec<u64> = (0..700).collect();
        let found = store.get_many(&keys).expect("works");
        for (key, value) in keys.iter().zip(found) {
            assert_eq!(value, model.get(key).copied(), "{} key {key}", device.info().device);
        }
        assert!(store.beside() > 0, "no key collided");
    }
}

#[test]
fn litmus_tests_run_where_memory_is_shared_and_are_refused_elsewhere() {
    let tests = Test::all().expect("our own files are right");
    for device in backends() {
        for test in &tests {
            match test.run(&*device, 200, 300) {
                Ok(seen) => {
                    assert!(seen.instances > 0 && seen.instances <= 200, "{seen:?}");
                    assert_eq!(seen.outcomes.iter().map(|(_, count)| count).sum::<u64>(), seen.instances);
                    println!("{} {}: {:?}", device.info().backend, seen.test, seen.outcomes);
                    // Threads of one processor do synchronise, whatever a GPU does.
                    let whole = ["add", "exchange"].contains(&&*seen.test) && device.info().software;
                    if whole || device.info().backend == "batch" {
                        assert_eq!(seen.surprising, 0, "{seen:?}");
                    }
                }
                Err(error) => {
                    assert!(!device.info().concurrent, "{error}");
                    assert!(error.to_string().contains("can't reach"), "{error}");
                }
            }
        }
    }
}

/// Mesa's software driver ends loops silently after a number of steps: what it left out is no finding.
#[test]
fn an_instance_whose_loops_a_driver_ended_is_not_counted() {
    for repeats in [4000, 20_000] {
        let text = format!(
            "name = \"t\"\nquestion = \"?\"\nvariables = [\"x\"]\nrepeats = {repeats}\noutcome = [\"x\"]\n\
             allowed = [[\"{repeats}\"]]\npromised = \"?\"\n[[threads]]\non = \"gpu\"\n\
             program = [\"add x 1 r0\"]\n"
        );
        let test = Test::parse("t", &text).expect("a test");
        for device in backends().iter().filter(|device| device.info().concurrent) {
            let enough = repeats == 4000 || device.info().steps_max == u32::MAX;
            match test.run(&**device, 20, 300) {
                Ok(seen) => {
                    assert_eq!(seen.surprising, 0, "{}: {seen:?}", device.info().device);
                    assert!(!enough || seen.instances > 0, "{}: {seen:?}", device.info().device);
                }
                Err(error) => assert!(!enough, "{error}"),
            }
        }
    }
}

/// Random programs are refused or run to their end: none leaves its variables.
#[test]
fn random_litmus_tests_run_or_are_refused() {
    let device = Batch::new(BatchOptions { threads: 2, ..BatchOptions::default() });
    let mut random = Mix::seeded(seed("litmus", 11));
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..400 {
        let names: Vec<String> = (0..random.below(6)).map(|number| format!("v{number}")).collect();
        let mut thread = |on: &str| {
            let mut line = || {
                let (v, r, n) = (random.below(6), random.below(8), random.below(3));
                match random.below(9) {
                    0 => format!("store v{v} {n}"),
                    1 => format!("load v{v} r{r}"),
                    2 => format!("add v{v} {n} r{r}"),
                    3 => format!("exchange v{v} {n} r{r}"),
                    4 => format!("increment v{v} {n}"),
                    5 => format!("lock v{v} {n} r{r}"),
                    6 => format!("unlock v{v} {n}"),
                    7 => "fence".to_owned(),
                    _ => format!("load v{v}"),
                }
            };
            let lines: Vec<String> = (0..2).map(|_| line()).collect();
            format!("[[threads]]\non = \"{on}\"\nprogram = {lines:?}\n")
        };
        let threads = thread("cpu") + &thread("gpu");
        let repeats = random.below(3);
        let text = format!(
            "name = \"t\"\nquestion = \"?\"\nvariables = {names:?}\noutcome = [\"v0\", \"1:r0\"]\nallowed = []\n\
             promised = \"\"\nrepeats = {repeats}\n{threads}"
        );
        match Test::parse("t", &text) {
            Ok(test) => {
                let seen = test.run(&device, 20, 50).expect("a test that was read runs");
                assert_eq!(seen.instances, 20, "{text}");
                ran += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(ran > 10 && refused > 10, "{ran} ran, {refused} were refused");
}

#[test]
fn a_wrong_litmus_file_is_named() {
    let right = unified::litmus::FILES[0].1;
    for (from, to, expected) in [
        ("add x 1 r0", "add z 1 r0", "no variable `z`"),
        ("add x 1 r0", "add x 1 r9", "r0 to r6"),
        ("add x 1 r0", "lock x 0 r0", "four variables"),
        ("add x 1 r0", "jump x", "no instruction"),
        ("repeats", "repeat", "repeat"),
        ("add x 1 r0", "jump x", "`fence`"),
        ("[[\"200\"]]", "[[\"1\", \"2\"]]", "1 values"),
        ("on = \"gpu\"", "on = \"tpu\"", "tpu"),
        ("add x 1 r0", "add x 4294967296 r0", "4294967296"),
        ("add x 1 r0", "add x +1 r0", "`+1`"),
        ("add x 1 r0", "add x 1 r+1", "`r+1`"),
        ("[[\"200\"]]", "[[\"two hundred\"]]", "two hundred"),
        ("[[\"200\"]]", "[[\"+200\"]]", "+200"),
        ("outcome = [\"x\"]", "outcome = []", "no outcome"),
        ("variables = [\"x\"]", "variables = [\"x\", \"x\"]", "`x` is there twice"),
    ] {
        let wrong = right.replace(from, to);
        assert_ne!(wrong, right, "{from} is not in the file");
        let error = Test::parse("it.toml", &wrong).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("it.toml"), "{error}");
    }
}

/// Some drivers end all loops of an invocation after a number of steps: an instance that takes more would
/// show half of itself.
#[test]
fn a_litmus_test_too_long_for_a_device_is_refused() {
    let long = unified::litmus::FILES[0].1.replace("repeats = 100", "repeats = 1000000");
    let test = Test::parse("long", &long.replace("[[\"200\"]]", "[[\"2000000\"]]")).expect("a test");
    for device in backends().into_iter().filter(|device| device.info().concurrent) {
        match test.run(&*device, 1, 300) {
            Ok(seen) => assert_eq!(seen.surprising, 0, "{seen:?}"),
            Err(error) => {
                assert!(device.info().steps_max < 4_000_000, "{error}");
                assert!(error.to_string().contains("fewer repeats"), "{error}");
            }
        }
    }
    // A number of the lock that has no successor.
    let lock =
        unified::litmus::FILES[6].1.replace("\"lock c0 0 r0\"", "\"store n1 4294967295\", \"lock c0 0 r0\"");
    let batch = Batch::new(BatchOptions { threads: 2, ..BatchOptions::default() });
    let seen = Test::parse("lock", &lock).expect("a test").run(&batch, 50, 20).expect("it runs");
    assert_eq!(seen.instances, 50);
}

/// What TPC-H never has, and what a kernel's words have no room for.
#[test]
fn rows_beyond_the_words_of_a_kernel_are_refused() {
    let right = Lineitem::generate(2000, 3);
    let wrong: [(&str, Spoil); 5] = [
        ("l_extendedprice", |rows| rows.price[7] = 42_949_673),
        ("l_discount", |rows| rows.discount[1999] = 101),
        ("l_tax", |rows| rows.tax[0] = u32::MAX),
        ("group", |rows| rows.group[5] = 6),
        ("columns", |rows| rows.quantity.truncate(1999)),
    ];
    for device in backends() {
        for (expected, spoil) in wrong {
            let mut rows = right.clone();
            spoil(&mut rows);
            for error in [q1(&*device, &rows, None).map(drop), q6(&*device, &rows, None).map(drop)] {
                let error = error.expect_err(expected).to_string();
                assert!(error.contains(expected), "{error}");
            }
        }
        // The ends of what is taken give what 128 bits give.
        let mut rows = right.clone();
        for row in 0..2000 {
            (rows.price[row], rows.quantity[row]) = (42_949_672, u32::MAX - row as u32);
            (rows.discount[row], rows.tax[row]) = ([0, 6, 100][row % 3], [0, 4_194_204, 8][row % 3]);
        }
        assert_eq!(
            q1(&*device, &rows, Some(1500)).expect("works"),
            q1_on_cpu(&rows),
            "{}",
            device.info().device
        );
        assert_eq!(q6(&*device, &rows, Some(1500)).expect("works"), q6_on_cpu(&rows));
    }
}
