//! Files and directories that change while they are served.

use std::fs;
use std::path::Path;

use super::{builder, config, content, get, holds, start, write};
use forebay_testkit::{Broken, Client, Response, Server};

const BYTES: usize = 4 << 20;

/// Requests `/big` with a client that reads little until `change` has been called; returns the
/// response.
fn slowly(server: &Server, change: impl FnOnce()) -> Result<Response, Broken> {
    let mut client = Client::connect_narrow(server.address());
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    client.peek("GET", |response| response.body.len() > 1000).expect("the response begins");
    change();
    client.widen();
    client.response("GET")
}

#[test]
fn a_response_is_never_a_mix_of_two_versions() {
    let (builder, www) = builder();
    let old = content(BYTES);
    write(&www, "big", &old);
    let server = start((builder, &www), "cache = false\n");
    // A file that is replaced is read to its end.
    let new = vec![b'n'; BYTES];
    let answer = slowly(&server, || {
        write(&www, "new", &new);
        fs::rename(www.join("new"), www.join("big")).expect("it is moved");
    });
    assert!(answer.expect("a whole response").body == old);
    assert!(get(&server, "/big", &[]).body == new);
    // Of a file that is changed in place, nothing is sent after the change.
    let in_place = |www: &Path, change: &dyn Fn(&fs::File)| {
        let file = fs::File::options().write(true).open(www.join("big")).expect("a file");
        change(&file);
    };
    let changes: [&dyn Fn(&fs::File); 3] = [
        &|file| file.set_len(1 << 20).expect("shorter"),
        &|file| file.set_len(BYTES as u64 + 1).expect("longer"),
        &|file| std::os::unix::fs::FileExt::write_all_at(file, &old, 0).expect("other bytes"),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        write(&www, "big", &new);
        match slowly(&server, || in_place(&www, change)) {
            Ok(answer) => panic!("{index}: a whole response of {} bytes", answer.body.len()),
            Err(Broken::Cut(_, Some(answer))) => {
                assert!(!answer.is_whole && answer.body.iter().all(|byte| *byte == b'n'));
            }
            Err(broken) => panic!("{index}: {broken:?}"),
        }
    }
    holds(|| server.stat("files_changed_total") == 3.0);
    assert!(server.errors().contains("file_changed"), "{}", server.errors());
}

#[test]
fn parts_of_a_replaced_file_are_not_combined() {
    let (builder, www) = builder();
    let (old, new) = (content(3 << 20), vec![b'n'; 3 << 20]);
    write(&www, "big", &old);
    let settings = "status_freshness = ['200=1h']\nrange_unit_bytes = '1MiB'\n";
    let server = start((builder, &www), settings);
    let part = get(&server, "/big", &["Range: bytes=0-9"]);
    assert!(part.status == 206 && part.body == old[..10]);
    write(&www, "new", &new);
    fs::rename(www.join("new"), www.join("big")).expect("it is moved");
    let tag = part.field("etag").expect("a tag").to_owned();
    let fields = ["Range: bytes=10-", &format!("If-Range: {tag}")];
    // The head with the old tag has been sent when the next part is requested.
    match Client::connect(server.address()).ask("GET", "/big", &fields) {
        Err(Broken::Cut(_, Some(answer))) => assert!(old[10..].starts_with(&answer.body)),
        Ok(answer) => assert!(answer.status == 200 && answer.body == new),
        Err(broken) => panic!("{}", format!("{broken:?}").get(..500).unwrap_or("no response")),
    }
    let answer = get(&server, "/big", &fields);
    assert!(answer.status == 200 && answer.body == new);
}

#[test]
fn a_reload_changes_the_directory_and_a_lost_one_is_reported() {
    let (builder, www) = builder();
    write(&www, "one/a", "one");
    write(&www, "two/a", "two");
    let settings = "status_freshness = ['200=0s']\nstale_if_error_s = '1h'\n";
    let server = start((builder, &www.join("one")), settings);
    assert_eq!(get(&server, "/a", &[]).text(), "one");
    server.write_config(&config(&www.join("two"), settings));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(get(&server, "/a", &[]).text(), "two");
    holds(|| server.stat("stored_total") == 2.0);
    server.write_config(&config(&www.join("three"), settings));
    assert!(!server.command(&["reload"]).status.success(), "there is no such directory");
    assert_eq!(get(&server, "/a", &[]).text(), "two");
    // The directory is lost: stored files are served stale, others fail.
    fs::rename(www.join("two"), www.join("gone")).expect("it is moved");
    assert_eq!(get(&server, "/a", &[]).text(), "two");
    assert_eq!(get(&server, "/b", &[]).status, 500);
    holds(|| server.errors().contains("files_failed"));
    fs::rename(www.join("gone"), www.join("two")).expect("it is moved back");
    assert_eq!(get(&server, "/b", &[]).status, 404);
}
