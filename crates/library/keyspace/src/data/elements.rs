//! Elements of hashes, sets and sorted sets, which have names.

use fastrand::Rng;

use super::layout::{self, Held, Kind};
use super::records::Trouble;
use super::tx::Tx;

/// Up to so many elements are all read for a random choice; of more, some are found by their hashes.
const FEW: u64 = 512;

/// A name with what belongs to it: the value of a field, or the eight bytes of a score.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Tx<'_> {
    /// What belongs to a name.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn element(&self, of: &Held, name: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        self.get(&layout::pair(of.body, self.hash(name), name))
    }

    /// Sets what belongs to a name of a hash or set; whether the name is new.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn set_element(&mut self, of: &mut Held, name: &[u8], value: &[u8]) -> Result<bool, Trouble> {
        let record = layout::pair(of.body, self.hash(name), name);
        let is_new = self.get(&record)?.is_none();
        if is_new || of.kind == Kind::Hash {
            self.put(record, value.to_vec());
        }
        of.count += u64::from(is_new);
        Ok(is_new)
    }

    /// Removes a name; whether it was there.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn remove_element(&mut self, of: &mut Held, name: &[u8]) -> Result<bool, Trouble> {
        let record = layout::pair(of.body, self.hash(name), name);
        let Some(value) = self.get(&record)? else { return Ok(false) };
        if of.kind == Kind::Sorted {
            self.delete(layout::score(of.body, score_of_value(&value), name));
        }
        self.delete(record);
        of.count -= 1;
        Ok(true)
    }

    /// All names with what belongs to them.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn elements(&self, of: &Held) -> Result<Vec<Pair>, Trouble> {
        let prefix = layout::pairs(of.body);
        let mut all = Vec::new();
        self.walk(&prefix, &prefix, |record, value| {
            all.push((layout::pair_of(record).1.to_vec(), value.to_vec()));
            true
        })?;
        Ok(all)
    }

    /// The score of a member.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn score(&self, of: &Held, member: &[u8]) -> Result<Option<f64>, Trouble> {
        Ok(self.element(of, member)?.map(|value| score_of_value(&value)))
    }

    /// Sets the score of a member; the one before.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn set_score(&mut self, of: &mut Held, member: &[u8], score: f64) -> Result<Option<f64>, Trouble> {
        let record = layout::pair(of.body, self.hash(member), member);
        let before = self.get(&record)?.map(|value| score_of_value(&value));
        // There is one zero.
        let score = score + 0.0;
        if let Some(before) = before {
            self.delete(layout::score(of.body, before, member));
        }
        self.put(record, score.to_bits().to_be_bytes().to_vec());
        self.put(layout::score(of.body, score, member), Vec::new());
        of.count += u64::from(before.is_none());
        Ok(before)
    }

    /// One of the elements, by chance.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn any_element(&self, of: &Held, random: &mut Rng) -> Result<Option<Pair>, Trouble> {
        let prefix = layout::pairs(of.body);
        if of.count <= FEW {
            let (mut wanted, mut found) = (random.u64(..of.count.max(1)), None);
            self.walk(&prefix, &prefix, |record, value| {
                if wanted == 0 {
                    found = Some((layout::pair_of(record).1.to_vec(), value.to_vec()));
                }
                let goes_on = wanted > 0;
                wanted = wanted.saturating_sub(1);
                goes_on
            })?;
            return Ok(found);
        }
        for from in [[&prefix[..], &random.u64(..).to_be_bytes()].concat(), prefix.clone()] {
            let mut found = None;
            self.walk(&prefix, &from, |record, value| {
                found = Some((layout::pair_of(record).1.to_vec(), value.to_vec()));
                false
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// So many different elements by chance, or all.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn some_elements(&self, of: &Held, wanted: u64, random: &mut Rng) -> Result<Vec<Pair>, Trouble> {
        if wanted >= of.count {
            return self.elements(of);
        }
        if of.count <= FEW || wanted > of.count / 4 {
            let mut all = self.elements(of)?;
            for at in 0..wanted as usize {
                let other = random.usize(at..all.len());
                all.swap(at, other);
            }
            all.truncate(wanted as usize);
            return Ok(all);
        }
        let mut found = std::collections::BTreeMap::new();
        while (found.len() as u64) < wanted {
            let Some((name, value)) = self.any_element(of, random)? else { break };
            found.insert(name, value);
        }
        Ok(found.into_iter().collect())
    }
}

/// A score from the eight bytes that belong to a member.
pub fn score_of_value(value: &[u8]) -> f64 {
    f64::from_bits(layout::number(value))
}
