//! The table of lock classes: every lock of Forebay belongs to one.
//!
//! `docs/locks.md` is made from it. A class stands here if a lock of it is made somewhere: a test
//! of the tree looks for the other ones.

/// Defines the classes, one line each: name, text form, what the lock protects.
macro_rules! lock_classes {
    ($($(#[doc = $doc:literal])+ $class:ident = $name:literal;)+) => {
        /// What kind of lock this is: what it protects, not where it is taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LockClass {
            $($(#[doc = $doc])+ $class,)+
        }

        impl LockClass {
            /// All classes.
            pub const ALL: &[LockClass] = &[$(LockClass::$class,)+];

            /// The class's name, `crate.what`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(LockClass::$class => $name,)+
                }
            }

            /// What a lock of this class protects, as a sentence.
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
    /// The fetches of one part of the key space that can be joined.
    Shard = "cache.shard";
    /// One response that is arriving, and who waits for more of it.
    Flight = "cache.flight";
    /// Interim answers (1xx) between an origin's connection and the client that waits.
    Interim = "server.interim";
    /// Names of origins with their addresses.
    Hosts = "server.hosts";
    /// Which segment is reclaimed, and how far that is; between processes.
    Eviction = "cache.eviction";
    /// The number of the last purge, and what it takes out; between processes.
    Purge = "cache.purge";
    /// Names of the maps of a region; between processes.
    Directory = "ordmap.directory";
    /// Changes of one ordered map, or of a part of one that is split; between processes.
    Map = "ordmap.map";
    /// Which keys which part of an ordered map has that is split; between processes.
    Move = "ordmap.move";
    /// A lock of a test, an example, a study or a benchmark.
    Test = "test";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::LockClass;

    #[test]
    fn each_class_has_a_name_of_its_own_and_says_what_it_protects() {
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
