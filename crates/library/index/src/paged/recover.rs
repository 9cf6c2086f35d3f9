//! Reading the logs when files are opened.

use std::collections::BTreeSet;
use std::ops::Deref;

use space::{Env, Space};

use super::Paged;
use super::entry::{Entry, FIRST};
use super::state::State;
use crate::Error;

impl<H> Paged<H>
where
    H: Deref<Target: Env + Sized>,
{
    /// Reads all logs, and finds the pages that are free.
    pub(super) fn recover(&mut self) -> Result<(), Error> {
        let mut used = BTreeSet::new();
        for file in 0..self.options.files {
            let state = self.read_log(file)?;
            let inode = self.inode(file);
            let data = state.pages.values().map(|page| page.data).filter(|data| *data != 0);
            for page in data.chain(state.log.iter().copied()) {
                if !used.insert(page) {
                    return Err(Error::Damaged { offset: inode, what: "a page that is in two places" });
                }
            }
            *self.env.write(self.lock_of(file)) = state;
        }
        self.pools.keep(&*self.env, |page| used.contains(&page));
        Ok(())
    }

    fn read_log(&self, file: u32) -> Result<State, Error> {
        let (space, inode) = (self.env.space(), self.inode(file));
        let slot = space.load_u64(inode);
        if slot > 1 {
            return Err(Error::Damaged { offset: inode, what: "the number of a log" });
        }
        let [mut page, end] = [8, 16].map(|word| space.load_u64(inode + word + 16 * slot));
        let mut state = State { slot, ..State::default() };
        if end == 0 {
            return Ok(state);
        }
        let mut seen = BTreeSet::new();
        let mut at = self.log_page(page, &mut seen, inode)?;
        state.log.push(page);
        while at != end {
            let limit = page + self.options.page;
            let entry = Entry::read(space, at, limit);
            let entry = entry.filter(|entry| self.is_possible(*entry));
            match entry.ok_or(Error::Damaged { offset: at, what: "an entry of a file's log" })? {
                Entry::GoesOn => {
                    let link = page;
                    page = space.load_u64(link);
                    at = self.log_page(page, &mut seen, link)?;
                    state.log.push(page);
                }
                entry => {
                    // The pages that are replaced are free anyway: nothing will name them.
                    let _ = state.apply(entry, at, self.options.page);
                    at += entry.bytes();
                }
            }
        }
        state.used = at - page;
        Ok(state)
    }

    /// Where a log page's entries begin.
    fn log_page(&self, page: u64, seen: &mut BTreeSet<u64>, link: u64) -> Result<u64, Error> {
        if self.pools.pool_of(page).is_none() || !seen.insert(page) {
            return Err(Error::Damaged { offset: link, what: "the next page of a file's log" });
        }
        Ok(page + FIRST)
    }

    fn is_possible(&self, entry: Entry) -> bool {
        match entry {
            Entry::Data { data, .. } => self.pools.pool_of(data).is_some(),
            Entry::Embedded { at, count, .. } => at + count <= self.options.page,
            Entry::GoesOn => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use pmem::Os;
    use proptest::prelude::*;
    use space::Image;

    use super::super::{PagedOptions, Placement};
    use super::*;
    use crate::{Extents, Whole};

    const OPTIONS: PagedOptions = PagedOptions {
        files: 3,
        page: 256,
        embed: 100,
        pending: 3,
        placement: Placement::Home,
        flaw: super::super::PagedFlaw::Sound,
    };

    fn volume(env: &Os<Image>) -> (Whole, Paged<&Os<Image>>) {
        let extents = Whole::create(env.space(), 20 << 10).expect("room");
        extents.add(env.space(), 20 << 10).expect("room");
        let paged = Paged::create(env, &extents, OPTIONS).expect("room");
        (extents, paged)
    }

    fn content(paged: &Paged<&Os<Image>>, file: u32) -> Vec<u8> {
        let mut content = vec![0; paged.len(file) as usize + 5];
        let count = paged.read(file, 0, &mut content);
        content.truncate(count);
        content
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        /// Files are what was written to them: before and after they are cleaned, copied and opened again.
        #[test]
        fn files_are_what_was_written(
            steps in prop::collection::vec((0u32..3, 0u64..1500, 1usize..600, 0u8..8), 1..120),
        ) {
            let env = Os::new(Image::new(41 << 10));
            let (extents, mut paged) = volume(&env);
            let mut files = vec![Vec::<u8>::new(); 3];
            for (number, &(file, at, mut count, what)) in steps.iter().enumerate() {
                if what > 2 {
                    count %= 90;
                }
                let bytes: Vec<u8> = (0..count).map(|byte| (number + byte) as u8).collect();
                paged.write(file, at, &bytes).expect("room");
                let known = &mut files[file as usize];
                if count > 0 {
                    known.resize(known.len().max(at as usize + count), 0);
                    known[at as usize..at as usize + count].copy_from_slice(&bytes);
                }
                prop_assert_eq!(&content(&paged, file), known);
                match number % 40 {
                    13 => paged.clean(file).expect("room"),
                    26 => paged.flatten(file).expect("room"),
                    39 => {
                        let free = paged.free_pages();
                        paged = Paged::open(&env, &extents, OPTIONS).expect("files");
                        prop_assert_eq!(paged.free_pages(), free, "no page is lost");
                    }
                    _ => {}
                }
                if number % 40 == 26 {
                    prop_assert_eq!(paged.usage(file).pending, 0);
                }
            }
            for file in 0..3 {
                prop_assert_eq!(&content(&paged, file), &files[file as usize]);
            }
        }
    }

    #[test]
    fn logs_are_cleaned_and_a_full_volume_stays_as_it_is() {
        let env = Os::new(Image::new(41 << 10));
        let (_, paged) = volume(&env);
        for number in 0..2000u32 {
            paged.write(0, u64::from(number % 7) * 40, &number.to_le_bytes()).expect("room");
        }
        assert!(paged.usage(0).log_pages < 8, "{:?}", paged.usage(0));
        let full = (0..).find(|page| paged.write(1, page * 256, &[9; 256]).is_err()).expect("full");
        let (free, before) = (paged.free_pages(), content(&paged, 1));
        assert!(full > 60 && paged.write(1, full * 256 - 10, &[1; 600]).is_err());
        assert_eq!((paged.free_pages(), content(&paged, 1)), (free, before));
    }

    #[test]
    fn damage_is_found() {
        let env = Os::new(Image::new(41 << 10));
        let (extents, paged) = volume(&env);
        for number in 0..9 {
            paged.write(0, 300 * number, &[1; 80]).expect("room");
        }
        let (inode, space) = (paged.inode(0), env.space());
        let first = space.load_u64(inode + 8);
        let places = [(inode, 2), (inode + 8, 3), (inode + 8, 1 << 40), (inode + 16, first + 8)];
        for (place, wrong) in places.into_iter().chain([(first, first), (first + 64, 0)]) {
            let right = space.load_u64(place);
            space.store_u64(place, wrong);
            let opened = Paged::open(&env, &extents, OPTIONS).err();
            assert!(matches!(opened, Some(Error::Damaged { .. })), "{place} {wrong}: {opened:?}");
            space.store_u64(place, right);
        }
        assert!(Paged::open(&env, &extents, OPTIONS).is_ok());
    }
}
