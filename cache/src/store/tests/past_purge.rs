//! Tests of the purges that the store remembers.

use super::*;
use crate::{CoveredKeys, PastPurge, Selection};

#[test]
fn the_last_purge_that_may_cover_a_key_is_known() {
    let (_store, worker) = open(8 << 20);
    let last = |key: &str| worker.last_purge(key.as_bytes());
    let announced = || worker.inner.shared.purges.noted();
    let past =
        |covered, later| Some(PastPurge { covered, later, number: Some(announced() - later) });
    assert_eq!(last("a/1"), None);
    assert_eq!(worker.purge(b"a/1").unwrap().number, announced());
    assert_eq!((last("a/1"), last("a/2")), (past(CoveredKeys::Key, 0), None));
    let purge = |within: &str, tag: Option<&str>| {
        let tags = tag.map(|tag| tag.parse().unwrap());
        let selection = Selection { within: within.as_bytes().to_vec(), tags };
        let purged = worker.purge_selected(&selection, false, &mut |_| ()).unwrap();
        assert_eq!(purged.number, announced());
    };
    purge("b/", None);
    assert_eq!(last("a/1"), past(CoveredKeys::Key, 1));
    assert_eq!(last("b/9"), past(CoveredKeys::Prefix(b"b/"[..].into()), 0));
    purge("a/", Some("red"));
    assert_eq!(last("a/1"), past(CoveredKeys::Tagged(b"a/"[..].into()), 0));
    purge("", None);
    assert!(last("x").is_some_and(|purge| purge.later == 0));
    // The store remembers as many purges as its ring has slots.
    for number in 0..10_000_u32 {
        worker.purge(&number.to_le_bytes()).unwrap();
    }
    assert_eq!(last("x"), None);
}
