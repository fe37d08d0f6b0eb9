//! Tests of regions that are made before they get their names.

use super::*;

#[test]
fn what_is_there_stays_until_a_prepared_region_is_named() {
    let (_dir, path) = fresh();
    let larger = RegionSpec { bytes: 2 * SPEC.bytes, ..SPEC };
    let old = Region::open_or_create(&path, &SPEC).unwrap();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let was = inode(&path);
    let too_large = RegionSpec { bytes: 1 << 60, ..SPEC };
    let error = Region::prepare(&path, &too_large).unwrap_err();
    assert!(matches!(error.kind, RegionErrorKind::NoSpace { old_is_kept: true, .. }), "{error}");
    let (new, unnamed) = Region::prepare(&path, &larger).unwrap();
    assert_eq!(new.opened(), &Opened::Replaced { why: ReplacedWhy::OtherPlan });
    assert_eq!(inode(&path), was);
    drop(unnamed);
    assert_eq!(
        names_beside(&path),
        ["region"],
        "the new file is left although the region was given up"
    );
    assert_eq!(inode(&path), was);
    let (same, unnamed) = Region::prepare(&path, &SPEC).unwrap();
    assert_eq!((same.opened(), same.seed()), (&Opened::Attached, old.seed()));
    unnamed.name().unwrap();
    assert_eq!(inode(&path), was);
    let (new, unnamed) = Region::prepare(&path, &larger).unwrap();
    unnamed.name().unwrap();
    assert_eq!(names_beside(&path), ["region"]);
    let again = Region::open_or_create(&path, &larger).unwrap();
    assert_eq!((again.opened(), again.seed()), (&Opened::Attached, new.seed()));

    // Before the region gets its name, no file is removed: neither a useless file, nor any file to
    // free space.
    fs::write(&path, "junk").unwrap();
    let error = Region::prepare(&path, &too_large).unwrap_err();
    assert!(matches!(error.kind, RegionErrorKind::NoSpace { old_is_kept: true, .. }), "{error}");
    let (new, unnamed) = Region::prepare(&path, &SPEC).unwrap();
    let kept = path.with_file_name("region.damaged");
    let Opened::Replaced { why: ReplacedWhy::Damaged { kept: said, .. } } = new.opened() else {
        panic!("{:?}", new.opened());
    };
    assert_eq!(said.as_deref(), Some(&*kept));
    assert_eq!((fs::read(&path).unwrap(), kept.exists()), (b"junk".to_vec(), false));
    unnamed.name().unwrap();
    assert_eq!(fs::read(&kept).unwrap(), b"junk");
    assert_eq!(names_beside(&path), ["region", "region.damaged"]);
}
