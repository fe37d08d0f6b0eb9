//! Large downloads on a cold cache: they are stored if they fit, in one piece or in parts.

use forebay_testkit::{
    Client, Origin, RangedFile, Response, Script, Server, ServerBuilder, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const MIB: usize = 1 << 20;

/// Starts a server whose room for arriving responses is 20 MiB.
fn start(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2");
    builder.flag("--cache-size", "256MiB").flag("--growing-percent-max", "8").start()
}

fn ask(server: &Server) -> Response {
    let response = Client::connect(server.address()).ask("GET", "/film", &[]);
    // A broken response would be printed with megabytes of its body.
    response
        .map_err(|broken| format!("{:.300}", format!("{broken:?}")))
        .unwrap_or_else(|broken| panic!("the response is not whole: {broken:?}"))
}

fn says(response: &Response, text: &str) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains(text))
}

#[test]
fn a_large_download_is_stored_if_it_fits() {
    let cases = [
        ("with a length", true, 17 * MIB, true),
        ("of unknown length", false, 17 * MIB, true),
        ("that does not fit", true, 22 * MIB, false),
        ("of unknown length that does not fit", false, 22 * MIB, false),
    ];
    for (name, has_length, length, is_stored) in cases {
        let body: Vec<u8> = b"0123456".iter().copied().cycle().take(length).collect();
        let sent = body.clone();
        let origin = Origin::start(move |_| {
            let fields = ["Cache-Control: max-age=600", "ETag: \"a\""];
            if has_length {
                return Script::answer("200 OK", &fields, &sent);
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\n{}\r\nTransfer-Encoding: chunked\r\n\r\n",
                fields.join("\r\n")
            );
            let chunk = [format!("{length:x}\r\n").as_bytes(), &sent, b"\r\n0\r\n\r\n"].concat();
            Script::new().send(head).send(chunk)
        });
        let server = start(&origin);
        let first = ask(&server);
        assert!(first.body == body, "a download {name}");
        if is_stored {
            eventually("it is stored", || server.stat("stored_total") == 1.0);
        }
        let again = ask(&server);
        assert!(again.body == body, "a download {name}, the second time");
        assert_eq!(says(&again, "; hit"), is_stored, "{name}: {:?}", again.head);
        assert_eq!(origin.request_count(), if is_stored { 1 } else { 2 }, "{name}");
        assert!(server.stat("cache_growing_bytes") == 0.0, "{name}: the room is free again");
    }
}

#[test]
fn a_download_that_would_take_most_of_the_room_is_stored_in_parts() {
    for (length, is_whole) in [(15 * MIB, true), (17 * MIB + 7, false)] {
        let mut file = RangedFile::new(length);
        file.fields = "Cache-Control: max-age=600\r\nAccept-Ranges: bytes";
        let origin = file.origin();
        let server = start(&origin);
        let first = ask(&server);
        assert!(first.body == file.bytes(0..length), "{length}");
        eventually("it is stored", || {
            server.stat("stored_total") == 1.0 || server.stat("parts_stored_total") >= 18.0
        });
        let again = ask(&server);
        assert!(again.body == file.bytes(0..length), "{length}");
        assert!(says(&again, "; hit"), "{length}: {:?}", again.head);
        assert_eq!(origin.request_count() == 1, is_whole, "{length}");
    }
}
