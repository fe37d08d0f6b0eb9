//! Well-known field names, and sets of them.

macro_rules! field_ids {
    ($( $id:ident = $name:literal ),* $(,)?) => {
        /// Fields that Forebay acts on; all others are [`FieldId::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FieldId {
            $( #[doc = concat!("`", $name, "`")] $id, )*
            /// A field that Forebay only forwards.
            Other,
        }

        impl FieldId {
            /// All well-known fields, in the order of their bits in a [`FieldSet`].
            pub const ALL: &'static [FieldId] = &[$( FieldId::$id ),*];

            /// The name in lower case; empty for [`FieldId::Other`].
            pub const fn name(self) -> &'static str {
                match self { $( FieldId::$id => $name, )* FieldId::Other => "" }
            }
        }
    };
}

field_ids! {
    AcceptEncoding = "accept-encoding",
    AcceptLanguage = "accept-language",
    AcceptRanges = "accept-ranges",
    Age = "age",
    Authorization = "authorization",
    CacheControl = "cache-control",
    CacheGroupInvalidation = "cache-group-invalidation",
    CacheGroups = "cache-groups",
    CacheStatus = "cache-status",
    CacheTag = "cache-tag",
    CacheTags = "cache-tags",
    CdnCacheControl = "cdn-cache-control",
    ClientCert = "client-cert",
    ClientCertChain = "client-cert-chain",
    Connection = "connection",
    ContentEncoding = "content-encoding",
    ContentLength = "content-length",
    ContentLocation = "content-location",
    ContentRange = "content-range",
    ContentType = "content-type",
    Cookie = "cookie",
    Date = "date",
    EarlyData = "early-data",
    Etag = "etag",
    Expect = "expect",
    Expires = "expires",
    Host = "host",
    IfMatch = "if-match",
    IfModifiedSince = "if-modified-since",
    IfNoneMatch = "if-none-match",
    IfRange = "if-range",
    IfUnmodifiedSince = "if-unmodified-since",
    KeepAlive = "keep-alive",
    LastModified = "last-modified",
    Location = "location",
    MaxForwards = "max-forwards",
    Pragma = "pragma",
    ProxyAuthenticate = "proxy-authenticate",
    ProxyAuthorization = "proxy-authorization",
    ProxyConnection = "proxy-connection",
    PurgeCacheTags = "purge-cache-tags",
    Range = "range",
    SetCookie = "set-cookie",
    SurrogateKey = "surrogate-key",
    Te = "te",
    Trailer = "trailer",
    TransferEncoding = "transfer-encoding",
    Upgrade = "upgrade",
    Vary = "vary",
    Via = "via",
    Warning = "warning",
    XForwardedFor = "x-forwarded-for",
    XForwardedProto = "x-forwarded-proto",
    XMagentoTags = "x-magento-tags",
    Xkey = "xkey",
}

const _: () =
    assert!(FieldId::ALL.len() < 64, "a FieldSet has bits for at most 63 well-known fields");

impl FieldId {
    /// Returns the well-known field of this name, ignoring case (RFC 9110 §5.1).
    pub fn of(name: &[u8]) -> FieldId {
        let fingerprint = NameFingerprint::of(name);
        let slot = &SLOTS[fingerprint.slot(SLOT_FACTOR)];
        if slot.fingerprint == fingerprint { slot.id } else { FieldId::Other }
    }
}

/// Whether a field name is the name `of`, which is in lower case, with `_` for `-`. Origins with
/// CGI variables read it as the same field.
pub fn is_respelled(name: &[u8], of: &str) -> bool {
    let hyphenated = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.contains(&b'_') && of.bytes().eq(name.iter().map(hyphenated))
}

/// The fingerprint of a name of up to 24 bytes: the name in lower case, as three words, which
/// overlap if the name is short. Names with equal fingerprints are equal, so one table access and
/// one comparison recognise a field, without a branch that depends on the field.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameFingerprint {
    len: usize,
    words: [u64; 3],
}

impl NameFingerprint {
    /// The fingerprint of every name longer than 24 bytes, none of which is well known. Its length
    /// is 0.
    const NONE: NameFingerprint = NameFingerprint { len: 0, words: [0; 3] };

    const fn of(name: &[u8]) -> NameFingerprint {
        let words = match (name.first_chunk(), name.last_chunk()) {
            _ if name.len() > 24 => return NameFingerprint::NONE,
            (Some(first), Some(last)) => {
                // The middle word starts at offset 0 to 8 and ends at offset 8 to 16, so it covers
                // the bytes between the first and the last word.
                let (_, from_middle) = name.split_at(name.len() / 2 - 4);
                let middle = match from_middle.first_chunk() {
                    Some(middle) => u64::from_le_bytes(*middle),
                    None => 0,
                };
                [u64::from_le_bytes(*first), middle, u64::from_le_bytes(*last)]
            }
            _ => [short_word(name), 0, 0],
        };
        let words = [lower_case(words[0]), lower_case(words[1]), lower_case(words[2])];
        NameFingerprint { len: name.len(), words }
    }

    const fn slot(&self, factor: u64) -> usize {
        let mixed = self.words[0] ^ self.words[2].rotate_left(29) ^ self.len as u64;
        (mixed.wrapping_mul(factor) >> (64 - SLOT_BITS)) as usize
    }
}

/// Packs a name of up to 7 bytes.
const fn short_word(name: &[u8]) -> u64 {
    match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << 32
        }
        _ => match *name {
            [a, b, c] => a as u64 | (b as u64) << 8 | (c as u64) << 16,
            [a, b] => a as u64 | (b as u64) << 8,
            [a] => a as u64,
            _ => 0,
        },
    }
}

/// Sets bit 5 of each byte that is an upper-case letter. The sums use only the low seven bits of
/// each byte, so they cannot carry into the next byte.
const fn lower_case(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES * 0x80;
    let low = word & !HIGH;
    let from_a = low + ONES * (0x80 - b'A' as u64);
    let after_z = low + ONES * (0x7f - b'Z' as u64);
    word | (from_a & !after_z & !word & HIGH) >> 2
}

/// A slot of the perfect hash table.
#[derive(Clone, Copy)]
struct FieldSlot {
    fingerprint: NameFingerprint,
    id: FieldId,
}

const SLOT_BITS: u32 = 8;

/// The first odd factor, from the start value on, with which every well-known name has a slot of
/// its own. The compiler gives up after some hundred factors: if a new name makes it do so, another
/// start value helps.
const SLOT_FACTOR: u64 = {
    let mut factor = 0x9e37_79b9_7f4a_8825;
    while fill_slots(factor).is_none() {
        factor += 2;
    }
    factor
};

static SLOTS: [FieldSlot; 1 << SLOT_BITS] = match fill_slots(SLOT_FACTOR) {
    Some(slots) => slots,
    None => panic!("two well-known names have the same slot"),
};

const fn fill_slots(factor: u64) -> Option<[FieldSlot; 1 << SLOT_BITS]> {
    let mut slots =
        [FieldSlot { fingerprint: NameFingerprint::NONE, id: FieldId::Other }; 1 << SLOT_BITS];
    let mut index = 0;
    while index < FieldId::ALL.len() {
        let id = FieldId::ALL[index];
        let fingerprint = NameFingerprint::of(id.name().as_bytes());
        let slot = &mut slots[fingerprint.slot(factor)];
        if slot.fingerprint.len != 0 {
            return None;
        }
        *slot = FieldSlot { fingerprint, id };
        index += 1;
    }
    Some(slots)
}

/// A set of well-known fields, with one bit for each. It never contains [`FieldId::Other`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSet(u64);

impl FieldSet {
    /// The empty set.
    pub const EMPTY: FieldSet = FieldSet(0);

    /// Returns the set of these fields.
    pub const fn of(ids: &[FieldId]) -> FieldSet {
        let mut bits = 0;
        let mut index = 0;
        while index < ids.len() {
            bits |= FieldSet::bit(ids[index]);
            index += 1;
        }
        FieldSet(bits)
    }

    const fn bit(id: FieldId) -> u64 {
        if matches!(id, FieldId::Other) { 0 } else { 1 << (id as u8) }
    }

    /// Adds a field.
    pub fn insert(&mut self, id: FieldId) {
        self.0 |= FieldSet::bit(id);
    }

    /// Whether the set contains this field.
    pub const fn contains(self, id: FieldId) -> bool {
        self.0 & FieldSet::bit(id) != 0
    }

    /// Returns the fields that are in both sets.
    pub const fn intersection(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & other.0)
    }

    /// Returns the fields that are in at least one of the sets.
    pub const fn union(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }

    /// Whether the two sets share a field.
    pub const fn intersects(self, other: FieldSet) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_well_known_name_is_found_in_any_case() {
        for id in FieldId::ALL {
            assert_eq!(FieldId::of(id.name().as_bytes()), *id, "{}", id.name());
            let upper = id.name().to_ascii_uppercase();
            assert_eq!(FieldId::of(upper.as_bytes()), *id, "{upper}");
        }
        for other in ["x", "hosts", "ages", "content-lengti", "x-forwarded-fur"] {
            assert_eq!(FieldId::of(other.as_bytes()), FieldId::Other, "{other}");
        }
    }

    #[test]
    fn a_name_with_any_byte_changed_is_another_name() {
        for id in FieldId::ALL {
            for place in 0..id.name().len() {
                for byte in 0..=255 {
                    let mut name = id.name().as_bytes().to_vec();
                    name[place] = byte;
                    let same = name.eq_ignore_ascii_case(id.name().as_bytes());
                    assert_eq!(FieldId::of(&name) == *id, same, "{}, {place}, {byte}", id.name());
                }
            }
        }
        assert_eq!(FieldId::of(b""), FieldId::Other);
        assert_eq!(FieldId::of(&[b'a'; 25]), FieldId::Other);
    }
}
