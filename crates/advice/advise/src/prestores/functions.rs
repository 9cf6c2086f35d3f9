//! Numbers for functions, one for each phase in which a function stores or reads.

use std::collections::BTreeMap;

use event::SiteId;

/// Sites with a number above this are not remembered: a number that only damage explains must not decide how
/// much memory is taken.
const SITES_MAX: usize = 1 << 22;

/// The functions.
#[derive(Debug, Default)]
pub(super) struct Functions {
    numbers: BTreeMap<(u32, String), u32>,
    /// By function: its loads and stores.
    work: Vec<u64>,
    /// By place.
    places: Vec<u32>,
    /// By site, of the phase that lasts: its function, plus 1.
    sites: Vec<u32>,
}

impl Functions {
    fn number(&mut self, phase: u32, name: &str) -> u32 {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry((phase, name.to_owned())).or_insert(next);
        if number == next {
            self.work.push(0);
        }
        number
    }

    /// A function did so many loads or stores.
    #[inline]
    pub(super) fn add_work(&mut self, function: u32, work: u64) {
        if let Some(sum) = self.work.get_mut(function as usize) {
            *sum += work;
        }
    }

    /// The loads and stores of a function.
    pub(super) fn work(&self, function: u32) -> u64 {
        self.work.get(function as usize).copied().unwrap_or_default()
    }

    /// The next place stands in this function.
    pub(super) fn name_place(&mut self, phase: u32, name: &str) {
        let number = self.number(phase, name);
        self.places.push(number);
    }

    /// The function of a place.
    #[inline]
    pub(super) fn of_place(&self, place: u32) -> u32 {
        self.places.get(place as usize).copied().unwrap_or(u32::MAX)
    }

    /// The function of a site, if it was named in this phase.
    #[inline]
    pub(super) fn of_site(&self, site: SiteId) -> Option<u32> {
        self.sites.get(site.0 as usize).and_then(|number| number.checked_sub(1))
    }

    /// A site is in this function.
    #[cold]
    pub(super) fn name_site(&mut self, site: SiteId, phase: u32, name: &str) -> u32 {
        let number = self.number(phase, name);
        let at = site.0 as usize;
        if at < SITES_MAX {
            if at >= self.sites.len() {
                self.sites.resize(at + 1, 0);
            }
            self.sites[at] = number + 1;
        }
        number
    }

    /// Another phase begins.
    pub(super) fn forget_sites(&mut self) {
        self.sites.fill(0);
    }
}

/// A function's name without template arguments and parameters: all instances of a template are one piece of
/// code, and who patches one patches all. Some compilers leave them out themselves.
pub(super) fn base(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    if name.contains("operator") {
        return name;
    }
    let mut depth = 0usize;
    let mut base = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => base.push(letter),
            _ => {}
        }
    }
    if base.is_empty() { name } else { base.trim_end().trim_end_matches(" const").to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_template_have_one_name() {
        for (name, expected) in [
            ("evalPacket", "evalPacket"),
            (
                "(anonymous namespace)::Evaluator<sum<float> >::evalPacket(long) const",
                "Evaluator::evalPacket",
            ),
            ("T::operator<(T const&)", "T::operator<(T const&)"),
            ("<closure>", "<closure>"),
        ] {
            assert_eq!(base(name), expected);
        }
    }

    #[test]
    fn a_function_has_a_number_for_each_phase() {
        let mut functions = Functions::default();
        functions.name_place(0, "f");
        functions.name_place(1, "f");
        functions.name_place(0, "f");
        assert_eq!(functions.of_place(0), functions.of_place(2));
        assert_ne!(functions.of_place(0), functions.of_place(1));
        assert_eq!(functions.of_site(SiteId(7)), None);
        assert_eq!(functions.name_site(SiteId(7), 1, "f"), functions.of_place(1));
        assert_eq!(functions.of_site(SiteId(7)), Some(functions.of_place(1)));
        functions.forget_sites();
        assert_eq!(functions.of_site(SiteId(7)), None);
    }
}
