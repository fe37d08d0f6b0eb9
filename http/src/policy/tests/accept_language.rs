use super::block;
use crate::policy::accept_language::preferred_language;

#[test]
fn the_best_language_is_looked_up() {
    let languages = ["en", "de", "pt-BR", "zh-Hant", "de-CH"].map(Box::from);
    let cases = [
        ("no field", "X: y", None),
        ("an empty field", "Accept-Language:", None),
        ("a language", "Accept-Language: de", Some("de")),
        ("languages have no case", "Accept-Language: PT-br", Some("pt-BR")),
        ("a longer range is shortened", "Accept-Language: de-AT", Some("de")),
        ("as little as possible", "Accept-Language: de-CH-1996", Some("de-CH")),
        ("a range is not extended", "Accept-Language: pt", None),
        ("a range is not extended, so the next counts", "Accept-Language: pt, en", Some("en")),
        ("the first of equal weights", "Accept-Language: fr, de, en", Some("de")),
        ("the highest weight", "Accept-Language: de;q=0.8, en;q=0.9", Some("en")),
        ("weights may have space", "Accept-Language: en ; q=0.1 , de", Some("de")),
        ("the weight 0", "Accept-Language: de;q=0, en;q=0.1", Some("en")),
        ("only the weight 0", "Accept-Language: de;q=0", None),
        ("a refused end of a longer range", "Accept-Language: de;q=0, de-AT, en;q=0.5", Some("en")),
        ("a refusal after the range", "Accept-Language: de-AT, DE;q=0.0", None),
        ("a refused longer range", "Accept-Language: de-AT;q=0, de", Some("de")),
        ("a refused tag in between", "Accept-Language: de-CH-1996, de-CH;q=0", Some("de")),
        ("a star selects none", "Accept-Language: *, en;q=0.5", Some("en")),
        ("only a star", "Accept-Language: *", None),
        ("a star within a range", "Accept-Language: de-*, en;q=0.5", Some("de")),
        ("several lines", "Accept-Language: fr\nAccept-Language: de", Some("de")),
        ("a malformed weight", "Accept-Language: de;q=2, en;q=0.1", Some("en")),
        ("a malformed member", "Accept-Language: d e, en", Some("en")),
        ("a single letter goes with its subtag", "Accept-Language: zh-Hant-x-a", Some("zh-Hant")),
        ("a private range", "Accept-Language: x-de", None),
        ("hyphens", "Accept-Language: -, --, en-, de", Some("en")),
        ("an over-long range", &format!("Accept-Language: de{}", "-a".repeat(40)), None),
        ("too many ranges", &format!("Accept-Language: {}en", "fr,".repeat(32)), None),
    ];
    for (name, text, expected) in cases {
        assert_eq!(preferred_language(block(text).fields(), &languages), expected, "{name}");
    }
}
