//! What things cost: a TOML file, and prices of parts from a table of instances.

use serde::{Deserialize, Serialize};

/// Prices per hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// The currency, for answers.
    pub currency: String,
    /// A virtual processor.
    pub vcpu: f64,
    /// A GiB by tier, the fast one first. A tier beyond has the price of the last.
    pub gib: Vec<f64>,
    /// A way of the last-level cache.
    pub way: f64,
    /// Processors of the rented machine.
    pub vcpus: f64,
    /// What a machine has, and how much of it is in use; for the provider's round of the choice.
    pub provider: Option<Provider>,
}

/// Capacities of a machine and their use: processors, fast GiB, slow GiB, ways.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Capacities.
    pub capacity: [f64; 4],
    /// Share in use over the cluster, 0 to 1.
    pub used: [f64; 4],
}

/// The file, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "usd")]
    currency: String,
    vcpus: Option<f64>,
    vcpu_hour: Option<f64>,
    fast_gib_hour: Option<f64>,
    slow_gib_hour: Option<OneOrMore>,
    /// By the fast tier's price.
    slow_by_fast: Option<f64>,
    #[serde(default)]
    llc_way_hour: f64,
    #[serde(default)]
    instance: Vec<Instance>,
    provider: Option<Provider>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(f64),
    More(Vec<f64>),
}

/// A line of a provider's price list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Virtual processors.
    pub vcpus: f64,
    /// GiB of memory.
    pub gib: f64,
    /// Price per hour.
    pub hour: f64,
}

/// Why prices can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// No TOML, or an unknown or missing key.
    #[error("{file}: {source}")]
    Parse {
        /// The file.
        file: String,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
    /// A price is missing.
    #[error("{file}: {key} is missing; give it, or {instead}")]
    Missing {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// What would do as well.
        instead: &'static str,
    },
    /// A price that none can be.
    #[error("{file}: {key} = {value}: use a finite number that is not negative")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// The table of instances does not determine prices.
    #[error(
        "{file}: {count} instances, which do not determine two prices: their sizes are all in proportion, or there are too few"
    )]
    Instances {
        /// The file.
        file: String,
        /// How many there are.
        count: usize,
    },
}

impl Default for Prices {
    /// Made up, in the proportions of the source: slow memory at 0.4 of DRAM.
    fn default() -> Prices {
        Prices {
            currency: usd(),
            vcpu: 0.03,
            gib: vec![0.005, 0.002],
            way: 0.002,
            vcpus: 1.0,
            provider: None,
        }
    }
}

fn usd() -> String {
    "USD".to_owned()
}

impl Prices {
    /// From a file's text; messages call it `file`.
    ///
    /// # Errors
    /// If it is no such file, or a price is missing or no price.
    pub fn parse(text: &str, file: &str) -> Result<Prices, PriceError> {
        let read: File = toml::from_str(text)
            .map_err(|source| PriceError::Parse { file: file.to_owned(), source: Box::new(source) })?;
        let fitted = match &*read.instance {
            [] => None,
            instances => Some(
                fit(instances)
                    .ok_or_else(|| PriceError::Instances { file: file.to_owned(), count: instances.len() })?,
            ),
        };
        let missing = |key, instead| PriceError::Missing { file: file.to_owned(), key, instead };
        let table = "a table of [[instance]] with name, vcpus, gib and hour";
        let vcpu = read.vcpu_hour.or(fitted.map(|fitted| fitted.0)).ok_or(missing("vcpu_hour", table))?;
        let fast =
            read.fast_gib_hour.or(fitted.map(|fitted| fitted.1)).ok_or(missing("fast_gib_hour", table))?;
        let slow = match (read.slow_gib_hour, read.slow_by_fast) {
            (Some(OneOrMore::One(price)), _) => vec![price],
            (Some(OneOrMore::More(prices)), _) if !prices.is_empty() => prices,
            (_, Some(by)) => vec![fast * by],
            _ => return Err(missing("slow_gib_hour", "slow_by_fast, its price by the fast memory's")),
        };
        let prices = Prices {
            currency: read.currency,
            vcpu,
            gib: std::iter::once(fast).chain(slow).collect(),
            way: read.llc_way_hour,
            vcpus: read.vcpus.unwrap_or(1.0),
            provider: read.provider,
        };
        let named = [("vcpu_hour", prices.vcpu), ("llc_way_hour", prices.way), ("vcpus", prices.vcpus)];
        let memory = prices.gib.iter().map(|&price| ("a GiB's price", price));
        match named.into_iter().chain(memory).find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((key, value)) => Err(PriceError::Value { file: file.to_owned(), key, value }),
            None => Ok(prices),
        }
    }

    /// Price of a GiB on a tier.
    #[must_use]
    pub fn gib_on(&self, tier: usize) -> f64 {
        self.gib.get(tier).or(self.gib.last()).copied().unwrap_or(0.0)
    }

    /// Price per hour of a machine with so many GiB on each tier and so many ways.
    #[must_use]
    pub fn hour(&self, gib: &[f64], ways: f64) -> f64 {
        let memory: f64 = gib.iter().enumerate().map(|(tier, gib)| gib * self.gib_on(tier)).sum();
        self.vcpu * self.vcpus + memory + self.way * ways
    }
}

/// Prices of a processor and of a GiB by least squares over a price list, without a constant. A price that would be negative is 0 and
/// the other is fitted alone. `None` if the list does not determine them.
#[must_use]
pub fn fit(instances: &[Instance]) -> Option<(f64, f64)> {
    let sum = |of: fn(&Instance) -> f64| instances.iter().map(of).sum::<f64>();
    let (cc, gg, cg) =
        (sum(|one| one.vcpus * one.vcpus), sum(|one| one.gib * one.gib), sum(|one| one.vcpus * one.gib));
    let (ch, gh) = (sum(|one| one.vcpus * one.hour), sum(|one| one.gib * one.hour));
    let determinant = cc * gg - cg * cg;
    if determinant <= 1e-9 * cc * gg {
        return None;
    }
    let (vcpu, gib) = ((ch * gg - gh * cg) / determinant, (cc * gh - cg * ch) / determinant);
    Some(match (vcpu < 0.0, gib < 0.0) {
        (true, _) => (0.0, (gh / gg).max(0.0)),
        (_, true) => ((ch / cc).max(0.0), 0.0),
        _ => (vcpu, gib),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_list_gives_back_the_prices_that_made_it() {
        let list = "slow_by_fast = 0.4\n\
            [[instance]]\nname = \"a\"\nvcpus = 8\ngib = 32\nhour = 0.40\n\
            [[instance]]\nname = \"b\"\nvcpus = 8\ngib = 128\nhour = 0.88\n\
            [[instance]]\nname = \"c\"\nvcpus = 32\ngib = 128\nhour = 1.60\n";
        let prices = Prices::parse(list, "list").unwrap();
        assert!((prices.vcpu - 0.03).abs() < 1e-9 && (prices.gib[0] - 0.005).abs() < 1e-9, "{prices:?}");
        assert!((prices.gib_on(1) - 0.002).abs() < 1e-9 && (prices.gib_on(2) - 0.002).abs() < 1e-9);
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_named() {
        let error = |text: &str| Prices::parse(text, "p.toml").unwrap_err().to_string();
        assert!(error("vcpu_hour = 1.0").contains("fast_gib_hour is missing"));
        assert!(error("vcpu_hour = 1.0\nfast_gib_hour = 1.0").contains("slow_gib_hour is missing"));
        let negative = "vcpu_hour = -1.0\nfast_gib_hour = 1.0\nslow_by_fast = 0.5";
        assert!(error(negative).contains("vcpu_hour = -1"));
        assert!(error("dram = 3").contains("unknown field"));
        let alike = "slow_by_fast = 1.0\n[[instance]]\nname = \"a\"\nvcpus = 1\ngib = 4\nhour = 1.0";
        assert!(error(alike).contains("do not determine"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_parser(
            key in "(vcpus|vcpu_hour|fast_gib_hour|slow_gib_hour|slow_by_fast|instance|provider|[a-z]{1,5})",
            value in "(-?[0-9]{1,4}(\\.[0-9])?|nan|inf|\\[[0-9., ]*\\]|\"x\"|true|\\{\\})",
        ) {
            let text = format!("vcpu_hour = 1.0\nfast_gib_hour = 1.0\nslow_by_fast = 0.4\n{key} = {value}\n");
            if let Ok(prices) = Prices::parse(&text, "text") {
                assert!(prices.hour(&[1.0, 2.0], 3.0).is_finite());
            }
        }
    }
}
