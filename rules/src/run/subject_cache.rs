//! Caches the texts of subjects, so that many conditions on the same field look it up only once.

/// Largest number of cached bytes. Texts beyond it are looked up each time.
const CACHE_BYTES_MAX: usize = 64 * 1024;

/// The range that stands for a text that is not cached. It is beyond the end of all texts.
const UNKNOWN: (u32, u32) = (u32::MAX, u32::MAX);

/// Cached texts by slot. A slot stands for a subject while no operator changes the subject's value.
#[derive(Debug, Default)]
pub(super) struct SubjectCache {
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl SubjectCache {
    /// Starts a run with this many slots.
    pub(super) fn begin(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, UNKNOWN);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&[u8]> {
        let (start, end) = *self.places.get(number as usize)?;
        self.bytes.get(start as usize..end as usize)
    }

    /// Caches a text, unless the slot does not exist or the cache is full.
    pub(super) fn insert(&mut self, number: u32, text: &[u8]) {
        let Some(place) = self.places.get_mut(number as usize) else {
            return;
        };
        let start = self.bytes.len();
        if start + text.len() <= CACHE_BYTES_MAX {
            self.bytes.extend_from_slice(text);
            *place = (start as u32, self.bytes.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cached_in_its_slot_while_there_is_room() {
        let mut cache = SubjectCache::default();
        for _ in 0..2 {
            cache.begin(3);
            assert_eq!([cache.get(0), cache.get(1), cache.get(3)], [None; 3]);
            cache.insert(1, b"ab");
            cache.insert(0, b"");
            cache.insert(3, b"no number");
            cache.insert(2, &[b'x'; CACHE_BYTES_MAX - 1]);
            let seen = [cache.get(0), cache.get(1), cache.get(2), cache.get(3)];
            assert_eq!(seen, [Some(&b""[..]), Some(b"ab"), None, None]);
        }
    }
}
