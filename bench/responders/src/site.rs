//! The made-up site that the origin, the bare responders and the load generators share.
//!
//! | target | body | stored |
//! |---|---|---|
//! | `/0/N`, `/1k/N`, `/64k/N` | 0, 1,024 or 65,536 bytes | for a day |
//! | `/text/N` | 10 KiB of made-up text, which can be compressed | for a day |
//! | `/obj/ID` | 1 to 100 KiB, the size and the first bytes follow from ID | for a day |
//! | `/nocache/…` | as the same target without `/nocache` | never |
//! | `/group/G/…` | as the same target without `/group/G` | as that target |
//!
//! Invariant: a body is a function of its target alone, so that a client can check what it gets.

use std::sync::LazyLock;

/// The number of bytes at the start of an object's body that distinguish it from other objects.
pub(crate) const MARK_BYTES: usize = 16;
/// The smallest and the largest body of `/obj/ID`.
const OBJECT_BYTES_MIN: usize = 1024;
const OBJECT_BYTES_MAX: usize = 100 * 1024;

/// The folders of fixed size: name and body length.
pub(crate) const FOLDERS: [(&str, usize); 3] = [("0", 0), ("1k", 1024), ("64k", 65_536)];

/// The body length of `/text/N`.
pub(crate) const TEXT_BYTES: usize = 10 * 1024;
/// The words of the text, those that come first more often than the others.
const WORDS: &str = "the of and to in a is that for it as with on be by this are from at which or \
    have an not one their all there been were when more other time some these may into only people \
    its out about server page request answer first new cache store header client origin network \
    second between memory while through before called system under world year always another state \
    long house night country question morning river garden letter mountain winter paper window \
    language picture science history machine village summer minister company account brother \
    Thursday figure chapter instrument distance material position harbour orange telephone";
/// The number of words after which a paragraph ends.
const PARAGRAPH_WORDS: u64 = 60;

static TEXT: LazyLock<Box<[u8]>> = LazyLock::new(made_up_text);
static FILLER: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![b'x'; OBJECT_BYTES_MAX].into());

/// The resource that a target names.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Resource {
    /// The resource's body.
    pub(crate) content: Content,
    /// Whether a cache may store the resource.
    pub(crate) storable: bool,
}

/// The kinds of body.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Content {
    /// This many filler bytes.
    Filler(usize),
    /// The object with this ID: its mark, and then filler.
    Object(u64),
    /// The text, which is the same in all URLs.
    Text,
}

impl Resource {
    /// Parses an origin-form target. Returns `None` if the site has no such resource.
    pub(crate) fn parse(target: &str) -> Option<Self> {
        let target = match target.strip_prefix("/group/") {
            Some(rest) => &rest[rest.find('/')?..],
            None => target,
        };
        let (target, storable) = match target.strip_prefix("/nocache/") {
            Some(rest) => (rest, false),
            None => (target.strip_prefix('/')?, true),
        };
        let (folder, id) = target.split_once('/')?;
        let id = id.parse().ok()?;
        let content = match folder {
            "obj" => Content::Object(id),
            "text" => Content::Text,
            _ => Content::Filler(FOLDERS.iter().find(|(name, _)| *name == folder)?.1),
        };
        Some(Self { content, storable })
    }
}

impl Content {
    /// The length of the body.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Filler(bytes) => bytes,
            Self::Object(id) => object_bytes(id),
            Self::Text => TEXT_BYTES,
        }
    }

    /// The bytes after the mark, which many resources share.
    pub(crate) fn shared(self) -> &'static [u8] {
        match self {
            Self::Text => &TEXT,
            Self::Filler(_) | Self::Object(_) => {
                filler(self.bytes() - self.mark().map_or(0, |_| MARK_BYTES))
            }
        }
    }

    /// The mark that precedes the filler, if any.
    pub(crate) fn mark(self) -> Option<[u8; MARK_BYTES]> {
        match self {
            Self::Filler(_) | Self::Text => None,
            Self::Object(id) => Some(mark(id)),
        }
    }
}

/// Returns `bytes` filler bytes.
///
/// # Panics
/// If `bytes` exceeds the largest body of the site, which is a bug of this program.
pub(crate) fn filler(bytes: usize) -> &'static [u8] {
    &FILLER[..bytes]
}

/// The length of `/obj/ID`, spread evenly over 1 to 100 KiB.
pub(crate) fn object_bytes(id: u64) -> usize {
    let span = (OBJECT_BYTES_MAX - OBJECT_BYTES_MIN + 1) as u64;
    OBJECT_BYTES_MIN + (scramble(id) % span) as usize
}

/// The first bytes of `/obj/ID`: hexadecimal digits that are computed from ID.
pub(crate) fn mark(id: u64) -> [u8; MARK_BYTES] {
    let scrambled = scramble(id ^ 0x5eed);
    std::array::from_fn(|i| b"0123456789abcdef"[(scrambled >> (60 - 4 * i) & 15) as usize])
}

/// Paragraphs of words: a product of two draws chooses a word, so that the first are the most
/// frequent. gzip makes a third of it, as of a page of prose.
fn made_up_text() -> Box<[u8]> {
    let words: Vec<_> = WORDS.split_whitespace().collect();
    let mut text = String::from("<p>");
    for turn in 0.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        let draw = scramble(turn);
        let product = (draw & 0xffff) * (draw >> 16 & 0xffff);
        let index = (product * words.len() as u64) >> 32;
        text.push_str(words[index as usize]);
        text.push_str(if turn % PARAGRAPH_WORDS == PARAGRAPH_WORDS - 1 {
            ".</p>\n<p>"
        } else {
            " "
        });
    }
    text.truncate(TEXT_BYTES);
    text.into_bytes().into()
}

/// The finaliser of SplitMix64, which makes neighbouring numbers unlike each other.
fn scramble(id: u64) -> u64 {
    let z = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_what_the_table_says() {
        let filler = |bytes, storable| Some(Resource { content: Content::Filler(bytes), storable });
        let object = |id, storable| Some(Resource { content: Content::Object(id), storable });
        for (target, want) in [
            ("/0/0", filler(0, true)),
            ("/1k/63", filler(1024, true)),
            ("/64k/1", filler(65_536, true)),
            ("/nocache/1k/0", filler(1024, false)),
            ("/obj/7", object(7, true)),
            ("/nocache/obj/7", object(7, false)),
            ("/text/3", Some(Resource { content: Content::Text, storable: true })),
            ("/group/7/1k/3", filler(1024, true)),
            ("/group/7/nocache/1k/3", filler(1024, false)),
            ("/group/1k/3", None),
            ("/group/", None),
            ("/obj/18446744073709551615", object(u64::MAX, true)),
            ("/obj/18446744073709551616", None),
            ("/obj/", None),
            ("/2k/0", None),
            ("/1k", None),
            ("1k/0", None),
            ("/nocache", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(Resource::parse(target), want, "target {target:?}");
        }
    }

    #[test]
    fn the_text_has_its_length_and_many_words() {
        let text = String::from_utf8(Content::Text.shared().to_vec()).expect("ASCII");
        assert_eq!(text.len(), TEXT_BYTES);
        let different: std::collections::HashSet<_> = text.split_whitespace().collect();
        assert!(different.len() > 90, "{} different words", different.len());
    }

    #[test]
    fn objects_have_sizes_over_the_whole_span_and_marks_of_their_own() {
        let sizes: Vec<_> = (0..10_000).map(object_bytes).collect();
        assert!(sizes.iter().all(|s| (OBJECT_BYTES_MIN..=OBJECT_BYTES_MAX).contains(s)));
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((50_000..54_000).contains(&mean), "mean size {mean}");
        assert_ne!(mark(1), mark(2));
        assert_eq!(filler(OBJECT_BYTES_MAX).len(), OBJECT_BYTES_MAX);
    }
}
