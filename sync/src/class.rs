//! The table of lock classes. Every lock of Forebay belongs to a class.
//!
//! `docs/locks.md` is made from this table. A tidy test fails for a class without locks.

/// Defines the classes, one line each: name, text form, what the lock protects.
macro_rules! lock_classes {
    ($($(#[doc = $doc:literal])+ $class:ident = $name:literal;)+) => {
        /// The kind of a lock, named after the data that the lock protects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LockClass {
            $($(#[doc = $doc])+ $class,)+
        }

        impl LockClass {
            /// All classes.
            pub const ALL: &[LockClass] = &[$(LockClass::$class,)+];

            /// The class's name: the crate and the data, such as `cache.shard`. The class of tests
            /// is called `test`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(LockClass::$class => $name,)+
                }
            }

            /// The data that a lock of this class protects, and whether processes share the lock,
            /// as sentences.
            #[must_use]
            pub fn protects(self) -> &'static str {
                match self {
                    $(LockClass::$class => concat!($($doc),+).trim(),)+
                }
            }
        }
    };
}

lock_classes! {
    /// Fetches that requests can join, for one part of the key space.
    Shard = "cache.shard";
    /// One response that is arriving, and the followers that wait for more of it.
    Flight = "cache.flight";
    /// Interim answers (1xx) between an origin's connection and the client that waits.
    Interim = "server.interim";
    /// Names of origins with their addresses.
    Hosts = "server.hosts";
    /// Settings that a worker has not taken yet.
    Settings = "server.settings";
    /// The segment that is being reclaimed, and the progress of reclaiming it. Processes share the
    /// lock.
    Eviction = "cache.eviction";
    /// The number of the last purge, and its predicate. Processes share the lock.
    Purge = "cache.purge";
    /// The names of a region's maps. Processes share the lock.
    Directory = "ordmap.directory";
    /// Changes of one ordered map, or of one shard of a split map. Processes share the lock.
    Map = "ordmap.map";
    /// The key range of each shard of a split ordered map. Processes share the lock.
    Move = "ordmap.move";
    /// A lock of a test, an example, a study or a benchmark.
    Test = "test";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::LockClass;

    #[test]
    fn each_class_has_its_own_name_and_a_description() {
        let names: BTreeSet<_> = LockClass::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), LockClass::ALL.len(), "{names:?}");
        for class in LockClass::ALL {
            let name = class.name();
            let is_plain = |part: &str| part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(name.split('.').all(is_plain), "{name}");
            assert_eq!(name.split('.').count(), if *class == LockClass::Test { 1 } else { 2 });
            assert!(class.protects().ends_with('.'), "{name}: {}", class.protects());
            assert_eq!(class.protects().trim(), class.protects(), "{name}");
        }
    }
}
