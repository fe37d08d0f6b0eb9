//! Many maps in one region, and its check.

use forebay_ordmap::{MapOptions, MapsError};

use crate::{map, own, region};

#[test]
fn a_hundred_maps_keep_apart() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let names: Vec<_> = (0..100).map(|number| format!("map {number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let map = map(&participant, name);
        for key in 0..=number {
            map.insert(format!("{own}{key}").as_bytes(), name.as_bytes()).unwrap();
        }
    }
    for (number, name) in names.iter().enumerate() {
        let map = participant.existing_map(name).unwrap();
        let mut range = map.prefix(own.as_bytes());
        let mut count = 0;
        while let Some(entry) = range.next().unwrap() {
            assert_eq!(entry.value(), name.as_bytes());
            count += 1;
        }
        assert_eq!(count, number + 1, "{name}");
        for key in 0..=number {
            assert!(map.remove(format!("{own}{key}").as_bytes()).unwrap());
        }
    }
    let known = participant.map_names();
    assert!(names.iter().all(|name| known.contains(&name.clone().into_bytes())));
}

#[test]
fn names_have_a_length() {
    let region = region();
    let participant = region.join().unwrap();
    let options = MapOptions::default();
    assert_eq!(participant.map("", &options).unwrap_err(), MapsError::Name);
    assert_eq!(participant.map(&"n".repeat(65), &options).unwrap_err(), MapsError::Name);
    assert_eq!(participant.existing_map("nobody made it").unwrap_err(), MapsError::NotThere);
    let longest = "n".repeat(64);
    let map = participant.map(&longest, &options).unwrap();
    let own = own();
    map.insert(own.as_bytes(), b"1").unwrap();
    let again = participant.existing_map(&longest).unwrap();
    assert_eq!(again.get(own.as_bytes()).unwrap().as_deref(), Some(&b"1"[..]));
    map.remove(own.as_bytes()).unwrap();
}

#[test]
fn a_region_that_is_used_is_sound() {
    let (region, own) = (region(), own());
    let participant = region.join().unwrap();
    let map = map(&participant, "sound");
    for number in 0..700 {
        let value = vec![1; number % 300 * 7];
        map.insert(format!("{own}{number}").as_bytes(), &value).unwrap();
    }
    let report = participant.check().unwrap();
    assert!(report.is_sound() && report.entries >= 700, "{report}");
    for number in 0..700 {
        map.remove(format!("{own}{number}").as_bytes()).unwrap();
    }
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
}
