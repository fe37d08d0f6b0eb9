//! The credentials that have passed a check, as keyed hashes.

use std::collections::{HashSet, VecDeque};

use super::LoginTag;
use crate::limits::LOGINS_KEPT_MAX;

/// The tags of credentials that have passed a check. If there are too many, the oldest tag is
/// forgotten.
#[derive(Debug, Default)]
pub(super) struct KnownLogins {
    tags: HashSet<LoginTag>,
    /// The same tags, the oldest first.
    order: VecDeque<LoginTag>,
}

impl KnownLogins {
    pub(super) fn contains(&self, tag: &LoginTag) -> bool {
        self.tags.contains(tag)
    }

    pub(super) fn insert(&mut self, tag: LoginTag) {
        if !self.tags.insert(tag) {
            return;
        }
        self.order.push_back(tag);
        if self.order.len() > LOGINS_KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.tags.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut known = KnownLogins::default();
        let tag = |number: usize| {
            let mut tag = LoginTag::default();
            tag[..8].copy_from_slice(&number.to_le_bytes());
            tag
        };
        for number in (0..LOGINS_KEPT_MAX).chain([0, LOGINS_KEPT_MAX]) {
            known.insert(tag(number));
        }
        assert!(!known.contains(&tag(0)) && known.contains(&tag(1)));
        assert!(known.contains(&tag(LOGINS_KEPT_MAX)));
        assert_eq!((known.tags.len(), known.order.len()), (LOGINS_KEPT_MAX, LOGINS_KEPT_MAX));
    }
}
