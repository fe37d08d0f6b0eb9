//! Kinds of keys that are hard in different ways.

use forebay_testkit::Rng;

/// A kind of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// Few bytes of few values: prefixes of each other, NULs at the end, the empty key.
    Short,
    /// Numbers in decimal, all of one length.
    Numbers,
    /// Hosts and paths with long common prefixes.
    Urls,
    /// Equal in more bytes than a node's prefix has, at several places.
    Deep,
}

impl Keys {
    pub(crate) const ALL: [Keys; 4] = [Keys::Short, Keys::Numbers, Keys::Urls, Keys::Deep];

    /// A random key of this kind.
    pub(crate) fn any(self, random: &mut Rng) -> Vec<u8> {
        match self {
            Keys::Short => {
                let count = random.below(7);
                (0..count).map(|_| [0, 0, 1, b'a', 255][random.below(5)]).collect()
            }
            Keys::Numbers => format!("{:016}", random.below(3000)).into_bytes(),
            Keys::Urls => {
                let (host, path) = (random.below(20), random.below(200));
                let depth = "/images".repeat(path % 7);
                format!("site\0https\0com.example.host{host}\0443\0{depth}/{path}.jpeg").into()
            }
            Keys::Deep => {
                let (same, number) = (random.below(4), random.below(800));
                let mut key = vec![b'x'; [3, 45, 120, 300][same]];
                key.extend_from_slice(&[(number / 256) as u8, number as u8]);
                key.extend_from_slice(&[b'y'; 60][..number % 60]);
                key
            }
        }
    }
}
