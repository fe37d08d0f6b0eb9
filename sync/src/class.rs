//! The table of lock classes: every lock of Forebay belongs to one.

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
        }
    };
}

lock_classes! {
    /// The full and empty magazines of a free list.
    Depot = "sync.depot";
    /// A pair of magazines that several threads share; taken before a [`LockClass::Depot`].
    Magazines = "sync.magazines";
    /// A lock of a test, of an example or of a benchmark.
    Test = "test";
}
