//! Sites that count as one structure: those of a C++ type, or those to which the program gave the same tag.

use std::collections::HashMap;

use ::plan::sites::{SiteUse, Window};

use crate::plan::PlanGroup;

/// Joins sites. What has neither type nor tag stays by its call stack.
pub(super) fn join(sites: Vec<SiteUse>, by: PlanGroup) -> Vec<SiteUse> {
    let mut joined: Vec<SiteUse> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for mut site in sites {
        let name = match by {
            PlanGroup::Stack => None,
            PlanGroup::Type => site.type_name.clone().map(|name| format!("type {name}")),
            PlanGroup::Tag => site.tag.clone().map(|name| format!("tag {name}")),
        };
        let Some(name) = name else {
            joined.push(site);
            continue;
        };
        match known.get(&name) {
            Some(&at) => add(&mut joined[at], site),
            None => {
                known.insert(name.clone(), joined.len());
                site.name = name;
                joined.push(site);
            }
        }
    }
    joined
}

fn add(to: &mut SiteUse, one: SiteUse) {
    let uses = |site: &SiteUse| site.windows.iter().map(|window| window.used).sum::<f64>();
    let (before, more) = (uses(to), uses(&one));
    if before + more > 0.0 {
        to.exact = (to.exact * before + one.exact * more) / (before + more);
    }
    to.keys.extend(one.keys);
    to.bytes += one.bytes;
    to.count += one.count;
    to.noted += one.noted;
    to.caught = (to.caught.0 + one.caught.0, to.caught.1 + one.caught.1);
    to.sampled.hits += one.sampled.hits;
    to.allocated &= one.allocated;
    if to.slices.len() < one.slices.len() {
        to.slices.resize(one.slices.len(), 0.0);
    }
    to.slices.iter_mut().zip(&one.slices).for_each(|(sum, more)| *sum += more);
    for window in one.windows {
        match to.windows.iter_mut().find(|held| held.seconds == window.seconds) {
            Some(Window { used, there, written, .. }) => {
                *used += window.used;
                *there += window.there;
                *written += window.written;
            }
            None => to.windows.push(window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_of_a_type_are_one_and_the_rest_stays() {
        let site = |key, kind: Option<&str>, bytes, used| SiteUse {
            key,
            keys: vec![key],
            name: format!("at {key}"),
            type_name: kind.map(str::to_owned),
            bytes,
            windows: vec![Window { seconds: 0.01, used, there: 10.0, written: 0.0 }],
            slices: vec![used],
            allocated: true,
            ..SiteUse::default()
        };
        let sites = vec![
            site(1, Some("Node"), 10.0, 1.0),
            site(2, None, 20.0, 2.0),
            site(3, Some("Node"), 30.0, 3.0),
        ];
        let joined = join(sites.clone(), PlanGroup::Type);
        assert_eq!(joined.len(), 2);
        assert_eq!((joined[0].name.as_str(), joined[0].bytes), ("type Node", 40.0));
        assert_eq!(
            (&joined[0].keys, joined[0].windows[0].used, &joined[0].slices),
            (&vec![1, 3], 4.0, &vec![4.0])
        );
        assert_eq!(joined[1].name, "at 2");
        assert_eq!(join(sites, PlanGroup::Tag).len(), 3);
    }
}
