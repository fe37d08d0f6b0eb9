//! `key_fields` and `key_cookies`: the values of fields and cookies are in the key.

use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};

const KEYED: &str = "key_fields = [\"X-Device\", \"X-Real-IP\"]\nkey_cookies = [\"plan\"]\n\
    keep_cookies = []\npurge_from = [\"127.0.0.1\"]\n";

/// An origin whose pages repeat the request that the origin got, and have no Vary.
fn origin() -> Origin {
    Origin::start(|request| {
        Script::answer("200 OK", &["Cache-Control: max-age=60"], asked(request).as_bytes())
    })
}

fn asked(request: &Request) -> String {
    let field = |name| request.head.field(name).unwrap_or("none");
    format!("{} {} {}", field("x-device"), field("x-real-ip"), field("cookie"))
}

fn start(origin: &Origin, settings: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    builder.config(&config(origin, settings)).flag("--workers", "1").start()
}

fn config(origin: &Origin, settings: &str) -> String {
    let site = "[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    format!("{site}origin = \"http://{}\"\n{settings}", origin.address())
}

fn ask(server: &Server, method: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, "/page", fields).expect("an answer")
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Requests, each with the form in which the origin gets it. No two forms are equal.
const FORMS: &[(&[&str], &str)] = &[
    (&[], "none none none"),
    (&["X-Device: phone"], "phone none none"),
    (&["X-Device: "], " none none"),
    (&["X-Device: desk"], "desk none none"),
    (&["X-Real-IP: 1.2.3.4"], "none 1.2.3.4 none"),
    (&["Cookie: plan=gold"], "none none plan=gold"),
    (&["Cookie: a=b; plan=tin; c=d"], "none none plan=tin"),
    (&["Cookie: Plan=gold"], "none none Plan=gold"),
    (&["Cookie: plan=gold; plan=tin"], "none none plan=gold; plan=tin"),
    (&["X-Device: phone", "Cookie: plan=gold"], "phone none plan=gold"),
];

#[test]
fn each_request_gets_the_page_that_the_origin_made_for_its_fields_and_cookies() {
    let origin = origin();
    let server = start(&origin, KEYED);
    for round in 0..2 {
        for (fields, expected) in FORMS {
            let answer = ask(&server, "GET", fields);
            assert_eq!(answer.text(), *expected, "{fields:?}");
            assert_eq!(
                is_hit(&answer),
                round == 1,
                "{fields:?}: {:?}",
                answer.field("cache-status")
            );
        }
    }
    // Other fields and cookies, and the case of names, make no difference.
    for fields in [&["x-device: phone", "X-Other: 1"][..], &["X-Device: phone", "Cookie: z=1"]] {
        let answer = ask(&server, "GET", fields);
        assert!(is_hit(&answer) && answer.text() == "phone none none", "{fields:?}");
    }
}

/// Origins parse such Cookie fields in different ways, and some find no cookie `plan` in them.
#[test]
fn cookies_that_some_origins_do_not_see_are_not_those_of_the_key() {
    let hostile: [&[&str]; 16] = [
        &["Cookie: x=1", "Cookie: plan=gold"],
        &["Cookie: plan=gold", "Cookie: x=1"],
        &["Cookie: x=\"1; plan=gold; y=\""],
        &["Cookie: x; plan=gold"],
        &["Cookie: ; plan=gold"],
        &["Cookie: x@y=1; plan=gold"],
        &["Cookie: x=a b; plan=gold"],
        &["Cookie: x=\\; plan=gold"],
        &["Cookie: x=\u{e9}; plan=gold"],
        &["Cookie: Path=/; plan=gold"],
        &["Cookie: $Version=1; plan=gold"],
        &["Cookie: plan=gold ; a=b"],
        &["Cookie: a=b;\tplan=gold"],
        &["Cookie: a=b;plan=gold"],
        &["Cookie: a=b;  plan=gold"],
        &["Cookie: plan=gold;"],
    ];
    for fields in hostile {
        let origin = origin();
        let server = start(&origin, "key_cookies = [\"plan\"]\n");
        for round in 0..2 {
            assert_eq!(is_hit(&ask(&server, "GET", fields)), round == 1, "{fields:?}");
        }
        let plain = ask(&server, "GET", &["Cookie: plan=gold"]);
        assert!(!is_hit(&plain), "{fields:?}: {:?}", plain.field("cache-status"));
        for others in ["a=b; plan=gold", "plan=gold; a=\"b\"", "plan=gold; a="] {
            let field = format!("Cookie: {others}");
            assert!(is_hit(&ask(&server, "GET", &[&field])), "{others}");
        }
    }
}

#[test]
fn a_purge_and_an_unsafe_request_reach_a_url_with_all_its_values() {
    type Removal = fn(&Server);
    let removals: &[(&str, Removal)] = &[
        ("PURGE", |server| assert_eq!(ask(server, "PURGE", &[]).status, 200)),
        ("POST", |server| assert_eq!(ask(server, "POST", &["Content-Length: 0"]).status, 200)),
        ("purge URL", |server| command(server, &["purge", "http://example.test/page"])),
        ("purge --prefix", |server| {
            command(server, &["purge", "--prefix", "http://example.test/p"]);
        }),
        ("purge --host", |server| command(server, &["purge", "--host", "example.test"])),
    ];
    for (name, remove) in removals {
        let origin = origin();
        let server = start(&origin, KEYED);
        FORMS.iter().for_each(|(fields, _)| drop(ask(&server, "GET", fields)));
        remove(&server);
        for (fields, expected) in FORMS {
            let answer = ask(&server, "GET", fields);
            assert!(!is_hit(&answer), "{name}: {fields:?}");
            assert_eq!(answer.text(), *expected, "{name}: {fields:?}");
        }
    }
}

fn command(server: &Server, words: &[&str]) {
    let done = server.command(words);
    assert!(done.status.success(), "{words:?}: {done:?}");
}

#[test]
fn pages_that_were_stored_with_other_parts_in_the_key_are_not_served() {
    let origin = origin();
    let server = start(&origin, "");
    assert_eq!(ask(&server, "GET", &["X-Device: phone"]).text(), "phone none none");
    assert_eq!(ask(&server, "GET", &["X-Device: desk"]).text(), "phone none none", "no Vary");
    for settings in ["key_fields = [\"X-Device\"]\n", KEYED] {
        server.write_config(&config(&origin, settings));
        command(&server, &["reload"]);
        for device in ["desk", "phone"] {
            let field = format!("X-Device: {device}");
            let first = ask(&server, "GET", &[&field]);
            assert!(!is_hit(&first), "{settings} {device}");
            assert_eq!(first.text(), format!("{device} none none"));
            let second = ask(&server, "GET", &[&field]);
            assert!(is_hit(&second) && second.text() == first.text(), "{settings} {device}");
        }
    }
}

#[test]
fn the_names_in_vary_stay_in_the_key() {
    let origin = Origin::start(|request| {
        let fields = ["Cache-Control: max-age=60", "Vary: X-A, X-Device"];
        let text = format!("{} {:?}", asked(request), request.head.field("x-a"));
        Script::answer("200 OK", &fields, text.as_bytes())
    });
    let server = start(&origin, KEYED);
    let cases: [&[&str]; 4] =
        [&["X-A: 1"], &["X-A: 2"], &["X-A: 1", "X-Device: p"], &["X-A: 1", "Cookie: plan=x"]];
    let texts = cases.map(|fields| ask(&server, "GET", fields).text());
    for (fields, text) in cases.iter().zip(&texts) {
        let answer = ask(&server, "GET", fields);
        assert!(is_hit(&answer) && answer.text() == *text, "{fields:?}");
    }
    let url = "http://example.test/page";
    let explained = server.command(&["explain", url, "-H", "X-A: 1", "-H", "Cookie: plan=x"]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(text.contains("cookie:plan"), "{text}");
}

#[test]
fn rules_that_change_a_field_in_the_key_keep_responses_out_of_the_store() {
    let origin = origin();
    let rules = "cond %{SEND_REQUEST_HDR_HOOK}\nset-header X-Device none\n";
    let server = start(&origin, KEYED);
    std::fs::write(server.path("device"), rules).expect("it is written");
    server.write_config(&config(&origin, &format!("{KEYED}rules = [\"device\"]\n")));
    command(&server, &["reload"]);
    for _ in 0..2 {
        assert!(!is_hit(&ask(&server, "GET", &["X-Device: phone"])));
    }
}
