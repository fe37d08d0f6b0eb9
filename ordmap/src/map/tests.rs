//! What needs a look behind the public interface.

use std::time::Duration;

use crate::{MapError, MapOptions, MapsError, Member, OrdConfig, OrdRegion};

fn region() -> OrdRegion {
    OrdRegion::anonymous(&OrdConfig { maps_max: 4, ..OrdConfig::with_bytes(2 << 20) }).unwrap()
}

fn map<'m>(member: &'m Member, name: &str) -> super::Map<'m> {
    member.map(name, &MapOptions::default()).unwrap()
}

#[test]
fn who_waits_for_a_lock_too_long_gives_up_and_changes_nothing() {
    let region = region();
    let (owner, other) = (region.join().unwrap(), region.join().unwrap());
    let (owned, waiting) = (map(&owner, "map"), map(&other, "map"));
    owned.insert(b"key", b"before").unwrap();
    for wait_max in [Duration::ZERO, Duration::from_millis(5)] {
        other.set_wait_max(Some(wait_max));
        owned
            .under_lock(|_| {
                assert_eq!(waiting.insert(b"key", b"after"), Err(MapError::Busy));
                assert_eq!(waiting.remove(b"key"), Err(MapError::Busy));
                assert_eq!(waiting.reclaim(), Err(MapError::Busy));
                assert_eq!(waiting.get(b"key").unwrap().as_deref(), Some(&b"before"[..]));
            })
            .unwrap();
        assert_eq!(waiting.get(b"key").unwrap().as_deref(), Some(&b"before"[..]));
        let directory = owner.lock(&region.shared.directory_lock).unwrap();
        let made = other.map("another", &MapOptions::default());
        assert_eq!(made.unwrap_err(), MapsError::Busy);
        drop(directory);
        assert!(waiting.insert(b"key", b"before").unwrap(), "nobody has the lock any more");
    }
}
