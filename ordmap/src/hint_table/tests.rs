//! Tests of buckets without a tree.

use forebay_sync::boxed_words;

use super::{BUCKET_WORDS, HintBucket, HintTable};
use crate::object::ObjectRef;

fn named(hints: HintTable<'_>, hash: u64) -> Vec<u64> {
    hints.bucket_of(hash).into_iter().flat_map(HintBucket::named).map(ObjectRef::word).collect()
}

#[test]
fn a_word_is_found_by_its_hash_until_it_is_taken_out() {
    let words = boxed_words(3 * BUCKET_WORDS);
    let hints = HintTable::new(&words);
    let hashes: Vec<u64> = [0, 1, 2].map(|bucket| (u64::MAX / 3 + 1) * bucket + 0x42).into();
    for (index, hash) in hashes.iter().enumerate() {
        hints.bucket_of(*hash).unwrap().put(ObjectRef::of_word(100 + index as u64));
        // The same bucket, but another tag.
        hints.bucket_of(hash + 1).unwrap().put(ObjectRef::of_word(200 + index as u64));
    }
    for (index, hash) in hashes.iter().enumerate() {
        assert_eq!(named(hints, *hash), [100 + index as u64], "{hash:#x}");
        hints.bucket_of(*hash).unwrap().take_out(ObjectRef::of_word(100 + index as u64));
        assert_eq!(named(hints, *hash), [], "{hash:#x}");
        assert_eq!(named(hints, hash + 1), [200 + index as u64], "{hash:#x}");
    }
}

#[test]
fn a_full_bucket_forgets_one_for_another() {
    let words = boxed_words(BUCKET_WORDS);
    let hints = HintTable::new(&words);
    for entry in 1..=8_u64 {
        // All entries have the same tag, but in a full bucket each would replace a different word.
        hints.bucket_of(7 | entry << 8).unwrap().put(ObjectRef::of_word(entry));
    }
    // 8 % 7 is 1: the second word.
    assert_eq!(named(hints, 7), [1, 8, 3, 4, 5, 6, 7]);
    assert_eq!(named(hints, 8), []);
}

#[test]
fn keys_have_the_hashes_of_the_format() {
    let words = boxed_words(BUCKET_WORDS);
    let hash = |key: &[u8]| HintTable::new(&words).bucket(key).unwrap().hash;
    // XXH3 of 64 bits without a seed, as printed by `xxhsum -H3`, the tool of its authors, which
    // has a code path of its own for each of these lengths.
    for (bytes, expected) in [
        (0, 0x2d06_8005_38d3_94c2),
        (8, 0x6053_9db6_3047_1163),
        (13, 0x67f7_7075_aba7_f824),
        (60, 0x5e95_4769_b0d3_d425),
        (130, 0x3a73_1d1b_0052_1edd),
        (200, 0xa369_f293_0049_476f),
        (300, 0x4745_d904_8126_a285),
        (2000, 0xc79f_2aba_52f5_9bf7),
    ] {
        let key: Vec<u8> = (0..bytes).map(|at: u32| ((at * 7 + 3) % 251) as u8).collect();
        assert_eq!(hash(&key), expected, "{bytes} bytes");
    }
    assert!(HintTable::new(&[]).bucket(b"").is_none());
}

#[test]
fn parts_outside_are_none() {
    let words = boxed_words(4 * BUCKET_WORDS);
    let hints = HintTable::new(&words);
    let cases = [((0, 4), Some(4)), ((1, 3), Some(3)), ((4, 0), Some(0)), ((1, 4), None)];
    for ((first, count), expected) in cases {
        let part = hints.part(first, count).map(HintTable::bucket_count);
        assert_eq!(part, expected, "{first} {count}");
    }
    assert!(hints.part(u64::MAX, 2).is_none());
}
