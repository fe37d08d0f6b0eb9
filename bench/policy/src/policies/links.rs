//! Doubly linked lists over keys. A key is in at most one of the lists that share the links.

/// The value that stands for no key.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

/// The links of all keys.
pub(crate) struct Links(Vec<Link>);

/// A list of keys from the newest to the oldest.
#[derive(Clone, Copy)]
pub(crate) struct List {
    newest: u32,
    oldest: u32,
    pub(crate) bytes: u64,
}

impl List {
    pub(crate) const EMPTY: Self = Self { newest: NONE, oldest: NONE, bytes: 0 };

    /// The oldest key, the next to leave the list in most policies.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

impl Links {
    pub(crate) fn new(keys: usize) -> Self {
        Self(vec![Link { newer: NONE, older: NONE }; keys])
    }

    /// Returns the key that was pushed next after this key.
    pub(crate) fn newer(&self, key: u32) -> Option<u32> {
        let newer = self.0[key as usize].newer;
        (newer != NONE).then_some(newer)
    }

    pub(crate) fn push(&mut self, list: &mut List, key: u32, bytes: u32) {
        self.0[key as usize] = Link { newer: NONE, older: list.newest };
        match list.newest {
            NONE => list.oldest = key,
            newest => self.0[newest as usize].newer = key,
        }
        list.newest = key;
        list.bytes += u64::from(bytes);
    }

    pub(crate) fn remove(&mut self, list: &mut List, key: u32, bytes: u32) {
        let Link { newer, older } = self.0[key as usize];
        match newer {
            NONE => list.newest = older,
            newer => self.0[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.0[older as usize].newer = newer,
        }
        list.bytes -= u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_through_removal() {
        let (mut links, mut list) = (Links::new(6), List::EMPTY);
        for key in 0..6 {
            links.push(&mut list, key, 10);
        }
        for key in [0, 3, 5] {
            links.remove(&mut list, key, 10);
        }
        links.push(&mut list, 0, 1);
        assert_eq!(list.bytes, 31);
        let mut order = Vec::new();
        while let Some(key) = list.oldest() {
            order.push(key);
            links.remove(&mut list, key, if key == 0 { 1 } else { 10 });
        }
        assert_eq!((order, list.bytes), (vec![1, 2, 4, 0], 0));
    }
}
