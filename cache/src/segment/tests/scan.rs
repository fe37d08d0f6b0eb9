//! Scans of valid, bit-flipped and random segments.

use forebay_sync::atomic::Relaxed;

use super::*;

const FLIPS: u64 = if cfg!(debug_assertions) { 500 } else { 20_000 };
const NOISES: u64 = if cfg!(debug_assertions) { 60 } else { 3_000 };

/// A sealed segment of random records.
fn filled(rng: &mut Rng) -> (Made, Vec<(Location, Parts)>) {
    let made = made(2);
    let mut open = made.claim(0).unwrap();
    let mut records = Vec::new();
    loop {
        let parts = rng.parts();
        match parts.append(&mut open, records.len() as u64 + 1) {
            Ok(location) => records.push((location, parts)),
            Err(AppendError::Full) => break,
            Err(other) => panic!("{other}"),
        }
    }
    seal(open, 1);
    (made, records)
}

/// Reads all records of segment 0 and random locations in every way. Each record must lie inside
/// the segment.
fn look_everywhere(made: &Made, rng: &mut Rng) {
    let units = SEGMENT_BYTES / UNIT_BYTES;
    let mut key = Vec::new();
    let mut last_end = 0;
    for found in made.scan(0).into_iter().flatten() {
        let end = found.location.0 + (found.header.record_bytes() / 64) as u32;
        assert!(last_end <= found.location.0 && end <= units, "{found:?} overlaps or leaves");
        last_end = end;
        key.clear();
        made.segments.copy_key(&found, &mut key);
        assert_eq!(key.len(), usize::from(found.header.key_bytes));
        let record = made.record(found.location).unwrap();
        assert_eq!(record.key(), key);
        assert_eq!(
            record.has_valid_checksum(),
            made.segments.has_valid_checksum(&found),
            "{found:?}"
        );
    }
    let outside = made.segments.unpinned();
    for _ in 0..64 {
        let location = Location(rng.below(u64::from(3 * units)) as u32);
        let segment = made.segments.geometry().segment_of(location);
        if segment.is_some_and(|segment| outside.state(segment).is_none()) {
            continue;
        }
        let found = made.record(location).ok().filter(Record::has_valid_checksum);
        let copied = outside.copy(location, || true).ok();
        let copied = copied.as_ref().map(|copied| Parts::of(&copied.record()));
        assert_eq!(found.as_ref().map(Parts::of), copied, "{location:?}");
    }
    outside.walk(0);
}

#[test]
fn a_scan_finds_the_records_in_order() {
    let mut rng = Rng::of("a_scan_finds_the_records_in_order");
    for _ in 0..30 {
        let (made, records) = filled(&mut rng);
        let found = made.scan(0);
        assert_eq!(found.len(), records.len());
        for (index, (found, (location, parts))) in found.iter().zip(&records).enumerate() {
            let found = found.unwrap();
            assert_eq!((found.location, found.header.sequence), (*location, index as u64 + 1));
            assert!(made.segments.has_valid_checksum(&found));
            assert_eq!(Parts::of(&made.record(*location).unwrap()), *parts);
        }
        look_everywhere(&made, &mut rng);
    }
}

#[test]
fn a_flipped_bit_is_detected_and_spares_earlier_records() {
    let mut rng = Rng::of("a_flipped_bit_is_detected_and_spares_earlier_records");
    let (made, records) = filled(&mut rng);
    for turn in 0..FLIPS {
        let hurt = rng.below(records.len() as u64) as usize;
        let (location, _) = records[hurt];
        let header = made.record(location).unwrap().header;
        let bytes = HEADER_BYTES as u64 + header.payload_bytes();
        // Half of the flips hit the header.
        let limit = if turn % 2 == 0 { u64::from(HEADER_BYTES) } else { bytes };
        let bit = 64 + rng.below((limit - 8) * 8);
        made.flip(u64::from(location.0) * 512 + bit);
        let found = made.scan(0);
        for before in &found[..hurt] {
            assert!(
                made.segments.has_valid_checksum(&before.unwrap()),
                "{before:?}, bit {bit} of {hurt}"
            );
        }
        let is_found = match found.get(hurt) {
            Some(Ok(record)) => !made.segments.has_valid_checksum(record),
            Some(Err(damage)) => damage.location == location,
            None => false,
        };
        assert!(is_found, "bit {bit} of record {hurt} is not found");
        look_everywhere(&made, &mut rng);
        made.flip(u64::from(location.0) * 512 + bit);
    }
}

#[test]
fn no_bytes_in_a_segment_cause_a_panic() {
    let mut rng = Rng::of("no_bytes_in_a_segment_cause_a_panic");
    for turn in 0..NOISES {
        let (made, records) = filled(&mut rng);
        match turn % 3 {
            // Noise from some word on.
            0 => {
                let first = rng.below(1 << 13) as usize;
                (first..1 << 13).for_each(|word| made.data.word(word).store(rng.next(), Relaxed));
            }
            // Many flipped bits.
            1 => (0..200).for_each(|_| made.flip(rng.below(u64::from(SEGMENT_BYTES) * 8))),
            // Lengths that are almost valid: only these words are noise.
            _ => {
                for (location, _) in &records {
                    let lengths = made.data.word(location.0 as usize * 8 + 2);
                    lengths.fetch_xor(1 << rng.below(64), Relaxed);
                }
            }
        }
        // `filled_bytes` is noise as well.
        if turn % 2 == 0 {
            made.table.word(2).store(rng.next() >> rng.below(64), Relaxed);
        }
        look_everywhere(&made, &mut rng);
        // SAFETY: one thread, and the segment is sealed: it refuses.
        assert!(unsafe { made.segments.adopt(0, 0) }.is_err());
        // SAFETY: as above.
        assert!(unsafe { made.segments.free(0) }.is_err());
    }
}

#[test]
fn no_words_in_the_table_cause_a_panic() {
    let mut rng = Rng::of("no_words_in_the_table_cause_a_panic");
    for _ in 0..NOISES {
        let (made, _) = filled(&mut rng);
        for index in 0..made.table.word_count() {
            // Shifted noise often decodes to a valid state.
            let noise = rng.next() >> (rng.below(8) * 8);
            made.table.word(index).store(noise, Relaxed);
        }
        let segments = &made.segments;
        for segment in 0..3 {
            let row = rng.below(u64::from(ROWS)) as u32;
            // SAFETY: one thread that reads no bytes here.
            let adopted = unsafe { segments.adopt(segment, row) };
            if let Ok(mut open) = adopted {
                let _ = rng.parts().append(&mut open, 1);
                seal(open, 1);
            }
            // SAFETY: as above.
            let _ = unsafe { segments.suspect(segment, row) };
            let _ = segments.table().drain(segment);
            // SAFETY: as above.
            let _ = unsafe { segments.free(segment) };
            segments.unpinned().walk(segment);
        }
        segments.table().segments_where(|state| state.phase == SegmentPhase::Free).count();
        look_everywhere(&made, &mut rng);
    }
}

#[test]
fn a_filler_is_not_a_record() {
    let made = made(1);
    seal(made.claim(0).unwrap(), 1);
    assert!(made.scan(0).is_empty());
    let why = HeaderError::Kind;
    assert_eq!(made.record(Location(0)).err(), Some(RecordDamage { location: Location(0), why }));
    let copied = made.segments.unpinned().copy(Location(0), || true);
    let damage = RecordDamage { location: Location(0), why };
    assert_eq!(copied.err(), Some(CopyError::Damaged(damage)));
    assert_eq!(
        damage.to_string(),
        "invalid record at unit 0: the kind is unknown, or is the kind of a filler"
    );
}
