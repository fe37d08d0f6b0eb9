//! A writer that is stopped while it holds the lock of its map.

use forebay_capi::*;
use rustix::process::Signal;

use crate::build::languages;
use crate::program::Program;
use crate::scene::{OutPlace, answered, by, bytes, closing, last_message};
use forebay_testkit::process::{PATIENCE, now};

#[test]
fn a_stopped_writer_is_waited_for_up_to_the_limit() {
    let Some(writer) = languages().first().cloned() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("own/region");
    let mut writer = Program::start(&writer, &path, &["fill"]);
    writer.hear().unwrap();
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the strings are valid during the call.
    let attach = |place: OutPlace<'_, _>| unsafe { forebay_region_attach(path.as_ptr(), place) };
    let region = answered(attach).unwrap();
    let participant = answered(|place| forebay_participant_join(by(region), place)).unwrap();
    // SAFETY: as above.
    let open = |place: OutPlace<'_, _>| unsafe {
        forebay_participant_existing_map(by(participant), c"table".as_ptr(), place)
    };
    let map = answered(open).unwrap();
    assert_eq!(forebay_participant_set_wait_max(by(participant), 20), Code::Ok);
    // SAFETY: the bytes are valid during the call.
    let put = || unsafe { forebay_map_put(by(map), bytes(b"ours"), bytes(b""), None) };
    let deadline = now() + PATIENCE;
    loop {
        writer.signal(Signal::STOP);
        match put() {
            Code::Busy => break,
            code => assert_eq!(code, Code::Ok),
        }
        assert!(now() < deadline, "the writer was never stopped while it held the lock");
        writer.signal(Signal::CONT);
        writer.hear().unwrap();
    }
    assert_eq!(last_message(), "timed out waiting for the map's lock; its owner may be stopped");
    assert_eq!(forebay_code_side(Code::Busy as i32), CodeSide::Others);
    // Readers do not wait for the writer.
    // SAFETY: the bytes are valid during the call.
    let read = unsafe { forebay_map_contains(by(map), bytes(b"row 00000000")) };
    assert_eq!(read, Code::Ok);
    writer.kill();
    assert_eq!(put(), Code::Ok, "a dead writer is not waited for");
    forebay_map_close(closing(map));
    forebay_participant_leave(closing(participant));
    forebay_region_close(closing(region));
}
