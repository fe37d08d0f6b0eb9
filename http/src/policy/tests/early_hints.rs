use super::block;
use crate::policy::early_hints::{hints, takes_hints};

#[test]
fn only_links_to_load_or_connect_are_hints() {
    let many = "Link: </a>; rel=preload\n".repeat(20);
    let long = format!("Link: </{}>; rel=preload, </b>; rel=preload", "a".repeat(5000));
    let cases: [(&str, &str, &[&str]); 15] = [
        (
            "a preload",
            "Link: </a.css>; rel=preload; as=style",
            &["</a.css>; rel=preload; as=style"],
        ),
        ("quotes", "Link: </a>; rel=\"preload\"", &["</a>; rel=\"preload\""]),
        ("case", "LINK: </a>; REL=PreConnect", &["</a>; REL=PreConnect"]),
        ("a module", "Link: </a>;rel=modulepreload", &["</a>;rel=modulepreload"]),
        ("one of several relations", "Link: </a>; rel=\"x preload\"", &["</a>; rel=\"x preload\""]),
        ("another relation", "Link: </a>; rel=next", &[]),
        ("another field", "X-Link: </a>; rel=preload", &[]),
        ("no relation", "Link: </a>", &[]),
        ("the first relation counts", "Link: </a>; rel=next; rel=preload", &[]),
        (
            "a list",
            "Link: </a>; rel=preload, </b>; rel=next ,</c>; rel=preload",
            &["</a>; rel=preload", "</c>; rel=preload"],
        ),
        ("a comma in the target", "Link: </a,b>; rel=preload", &["</a,b>; rel=preload"]),
        (
            "a comma in quotes",
            "Link: </a>; title=\"x, y\"; rel=preload",
            &["</a>; title=\"x, y\"; rel=preload"],
        ),
        ("no target", "Link: /a; rel=preload", &[]),
        ("too many", &many, &["</a>; rel=preload"; 16]),
        ("too long", &long, &[]),
    ];
    for (name, stored, expected) in cases {
        let hints = hints(block(stored).bytes());
        let sent: Vec<_> =
            hints.fields().iter().map(|field| String::from_utf8_lossy(field.value)).collect();
        assert_eq!(sent, expected, "{name}");
    }
}

#[test]
fn hints_are_for_browsers_that_have_no_copy() {
    let cases = [
        ("Sec-Fetch-Mode: navigate", true),
        ("sec-fetch-mode: navigate\nAccept: */*", true),
        ("Sec-Fetch-Mode: cors", false),
        ("Sec-Fetch-Mode: navigate\nIf-None-Match: \"a\"", false),
        ("Sec-Fetch-Mode: navigate\nSec-Fetch-Mode: navigate", false),
        ("Accept: */*", false),
    ];
    for (request, expected) in cases {
        assert_eq!(takes_hints(block(request).fields()), expected, "{request}");
    }
}
