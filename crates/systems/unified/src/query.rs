//! TPC-H Q1 and Q6 over generated rows of `lineitem`, exact: amounts are integers of cents and hundredths,
//! sums have 128 bits.

use serde::Serialize;

use crate::host::query::{GROUP_WORDS, GROUPS};
use crate::{Accelerator, Error, Job, Kernel, Mix};

/// Columns in the order in which kernels read them.
const COLUMNS: usize = 6;
/// Days from 1992-01-01 to 1998-09-02, the date of Q1 with its default of 90 days.
pub const Q1_LAST_DAY: u32 = 2436;
/// Cents of a price, at most: a hundred times it is one word.
const PRICE_MAX: u32 = u32::MAX / 100;
/// Hundredths of a tax, at most: a chunk's sum of charges has 64 bits.
const TAX_MAX: u32 = (1 << 22) - 100;
/// Rows of a chunk of a kernel.
const CHUNK: usize = 1024;

/// Rows of `lineitem`, by column: the part that Q1 and Q6 read.
#[derive(Clone, Debug, Default)]
pub struct Lineitem {
    /// Hundredths of a unit, 100 to 5000.
    pub quantity: Vec<u32>,
    /// Cents, up to 10,495,000.
    pub price: Vec<u32>,
    /// Hundredths, 0 to 10.
    pub discount: Vec<u32>,
    /// Hundredths, 0 to 8.
    pub tax: Vec<u32>,
    /// Two times the flag (A, N, R) and the state (F, O).
    pub group: Vec<u32>,
    /// Days since 1992-01-01.
    pub day: Vec<u32>,
}

/// A group of Q1's result. Sums are exact: of hundredths, cents, 10^-4 and 10^-6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `l_returnflag`.
    pub flag: char,
    /// `l_linestatus`.
    pub status: char,
    /// `sum(l_quantity)` in hundredths.
    pub quantity: u128,
    /// `sum(l_extendedprice)` in cents.
    pub price: u128,
    /// `sum(l_extendedprice * (1 - l_discount))` in 10^-4.
    pub reduced: u128,
    /// `sum(l_extendedprice * (1 - l_discount) * (1 + l_tax))` in 10^-6.
    pub charge: u128,
    /// `sum(l_discount)` in hundredths, of which the average is made.
    pub discount: u128,
    /// `count(*)`.
    pub count: u128,
}

impl Group {
    /// `avg(l_quantity)`, `avg(l_extendedprice)`, `avg(l_discount)`.
    #[must_use]
    pub fn averages(&self) -> [f64; 3] {
        [self.quantity, self.price, self.discount].map(|sum| sum as f64 / 100.0 / self.count as f64)
    }
}

/// A decimal number of `scale` digits behind the point.
#[must_use]
pub fn decimal(value: u128, scale: u32) -> String {
    let unit = 10u128.pow(scale);
    format!("{}.{:0width$}", value / unit, value % unit, width = scale as usize)
}

impl Lineitem {
    /// Rows as TPC-H's generator draws them: quantities 1 to 50, the price of a part times that, discounts
    /// to 0.10, taxes to 0.08, ship dates of orders from 1992 to 1998; a line is shipped (F) before
    /// 1995-06-17 and open (O) after, and may have been returned (R, A) if it was received by then.
    #[must_use]
    pub fn generate(rows: usize, seed: u64) -> Lineitem {
        let mut random = Mix::seeded(seed);
        let mut all = Lineitem::default();
        // 1995-06-17.
        const CURRENT: u32 = 1263;
        for _ in 0..rows {
            let quantity = random.below(50) as u32 + 1;
            let part = random.below(200_000) as u32 + 1;
            let retail = 90_000 + (part / 10) % 20_001 + 100 * (part % 1000);
            let order = random.below(2406) as u32;
            let shipped = order + random.below(121) as u32 + 1;
            let received = shipped + random.below(30) as u32 + 1;
            let flag = match (received <= CURRENT, random.below(2)) {
                (true, 0) => 0,
                (true, _) => 2,
                (false, _) => 1,
            };
            all.quantity.push(quantity * 100);
            all.price.push(quantity * retail);
            all.discount.push(random.below(11) as u32);
            all.tax.push(random.below(9) as u32);
            all.group.push(flag * 2 + u32::from(shipped > CURRENT));
            all.day.push(shipped);
        }
        all
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.day.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.day.is_empty()
    }

    /// Refuses rows for which 64 bits are too few, or the 32 of a kernel's products: what TPC-H never has.
    fn check(&self) -> Result<(), Error> {
        let wrong = |what, got: String, expected| Err(Error::Request { what, got, expected });
        let lengths = [&self.quantity, &self.price, &self.discount, &self.tax, &self.group].map(Vec::len);
        if lengths.iter().any(|&length| length != self.len()) {
            return wrong(
                "columns of rows",
                format!("{lengths:?} beside {}", self.len()),
                "columns of one length",
            );
        }
        let most = |column: &[u32]| column.iter().copied().max().unwrap_or(0);
        for (what, column, limit, expected) in [
            ("l_extendedprice in cents", &self.price, PRICE_MAX, "at most 42949672"),
            ("l_discount in hundredths", &self.discount, 100, "at most 100"),
            ("l_tax in hundredths", &self.tax, TAX_MAX, "at most 4194204"),
            ("a group", &self.group, GROUPS as u32 - 1, "at most 5"),
        ] {
            if most(column) > limit {
                return wrong(what, most(column).to_string(), expected);
            }
        }
        Ok(())
    }

    /// The columns of some rows, as kernels read them.
    fn columns(&self, rows: std::ops::Range<usize>) -> Vec<u32> {
        let all = [&self.quantity, &self.price, &self.discount, &self.tax, &self.group, &self.day];
        all.into_iter().flat_map(|column| column[rows.clone()].iter().copied()).collect()
    }

    /// The row as SQL values: quantity, price, discount, tax, flag, status, date.
    #[must_use]
    pub fn sql(&self, row: usize) -> String {
        let (flag, status) = names(self.group[row]);
        format!(
            "{},{},{},{},{flag},{status},{}",
            decimal(self.quantity[row].into(), 2),
            decimal(self.price[row].into(), 2),
            decimal(self.discount[row].into(), 2),
            decimal(self.tax[row].into(), 2),
            date(self.day[row])
        )
    }
}

fn names(group: u32) -> (char, char) {
    (['A', 'N', 'R'][(group / 2 % 3) as usize], ['F', 'O'][(group % 2) as usize])
}

/// A day since 1992-01-01 as a date.
#[must_use]
pub fn date(day: u32) -> String {
    let (mut year, mut rest) = (1992, day);
    let leap = |year: u32| year.is_multiple_of(4);
    while rest >= 365 + u32::from(leap(year)) {
        rest -= 365 + u32::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u32::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= months[month] {
        rest -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, rest + 1)
}

/// Q1 on the CPU, row by row in 128 bits: the definition.
///
/// # Panics
/// If columns are shorter than [`Lineitem::day`], or a discount is above 1.
#[must_use]
pub fn q1_on_cpu(rows: &Lineitem) -> Vec<Group> {
    let mut groups = [Group::default(); GROUPS];
    for row in (0..rows.len()).filter(|&row| rows.day[row] <= Q1_LAST_DAY) {
        let group = &mut groups[rows.group[row] as usize % GROUPS];
        let wide = |column: &[u32]| u128::from(column[row]);
        let reduced = wide(&rows.price) * (100 - wide(&rows.discount));
        group.quantity += wide(&rows.quantity);
        group.price += wide(&rows.price);
        group.reduced += reduced;
        group.charge += reduced * (100 + wide(&rows.tax));
        group.discount += wide(&rows.discount);
        group.count += 1;
    }
    named(groups)
}

/// Q6 on the CPU: revenue in 10^-4.
#[must_use]
pub fn q6_on_cpu(rows: &Lineitem) -> u128 {
    (0..rows.len())
        .filter(|&row| (731..1096).contains(&rows.day[row]))
        .filter(|&row| (5..=7).contains(&rows.discount[row]) && rows.quantity[row] < 2400)
        .map(|row| u128::from(rows.price[row]) * u128::from(rows.discount[row]))
        .sum()
}

/// The groups that have rows, in order.
fn named(groups: [Group; GROUPS]) -> Vec<Group> {
    let mut all = Vec::new();
    for (number, group) in (0..).zip(groups) {
        let (flag, status) = names(number);
        if group.count > 0 {
            all.push(Group { flag, status, ..group });
        }
    }
    all
}

/// Rows that the device takes at a time.
fn rows_max(accelerator: &dyn Accelerator) -> usize {
    let info = accelerator.info();
    let bytes = match info.memory_bytes {
        0 => info.region_bytes_max,
        bytes => info.region_bytes_max.min(bytes / 2),
    };
    usize::try_from(bytes / (COLUMNS as u64 * 4)).unwrap_or(1 << 28).clamp(1, 1 << 28)
}

/// Runs a kernel over all rows, by as many as the device takes, at most `most`, and hands the partial sums
/// of each chunk over.
fn over_rows(
    accelerator: &dyn Accelerator,
    rows: &Lineitem,
    most: Option<usize>,
    (kernel, more, words): (Kernel, &[u32], usize),
    mut each: impl FnMut(&[u32]),
) -> Result<(), Error> {
    rows.check()?;
    let step = rows_max(accelerator).min(most.unwrap_or(usize::MAX)).max(1);
    let mut from = 0;
    while from < rows.len() {
        let to = (from + step).min(rows.len());
        let chunks = (to - from).div_ceil(CHUNK);
        let columns = accelerator.upload(&rows.columns(from..to))?;
        let sums = accelerator.allocate(chunks * words)?;
        let parameters: Vec<u32> =
            [(to - from) as u32, CHUNK as u32].into_iter().chain(more.iter().copied()).collect();
        accelerator.run(Job {
            kernel,
            regions: &[&columns, &sums],
            parameters: &parameters,
            invocations: chunks as u32,
        })?;
        let mut partial = vec![0; chunks * words];
        sums.read(0, &mut partial)?;
        partial.chunks_exact(words).for_each(&mut each);
        from = to;
    }
    Ok(())
}

fn wide(words: &[u32]) -> u128 {
    u128::from(words[0]) | u128::from(words[1]) << 32
}

/// Q1 on a device, by at most `most` rows at a time.
///
/// # Errors
/// If the rows are none of TPC-H's, or the device has no room or is lost.
pub fn q1(accelerator: &dyn Accelerator, rows: &Lineitem, most: Option<usize>) -> Result<Vec<Group>, Error> {
    let mut groups = [Group::default(); GROUPS];
    let kernel = (Kernel::Query1, [Q1_LAST_DAY].as_slice(), GROUPS * GROUP_WORDS);
    over_rows(accelerator, rows, most, kernel, |partial| {
        for (group, words) in groups.iter_mut().zip(partial.chunks_exact(GROUP_WORDS)) {
            group.count += u128::from(words[0]);
            group.quantity += wide(&words[1..]);
            group.price += wide(&words[3..]);
            group.reduced += wide(&words[5..]);
            group.charge += wide(&words[7..]);
            group.discount += wide(&words[9..]);
        }
    })?;
    Ok(named(groups))
}

/// Q6 on a device: revenue in 10^-4.
///
/// # Errors
/// If the rows are none of TPC-H's, or the device has no room or is lost.
pub fn q6(accelerator: &dyn Accelerator, rows: &Lineitem, most: Option<usize>) -> Result<u128, Error> {
    let mut revenue = 0;
    // 1994; 0.05 to 0.07; below 24.
    let kernel = (Kernel::Query6, [731, 1096, 5, 7, 2400].as_slice(), 2);
    over_rows(accelerator, rows, most, kernel, |partial| revenue += wide(partial))?;
    Ok(revenue)
}
