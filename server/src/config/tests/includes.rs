//! Configurations in several files: the order of the files, and errors with their files.

use std::fs;

use forebay_testkit::server::Folder;

use super::super::*;

fn site(name: &str) -> String {
    format!("[[site]]\nname = \"{name}\"\nnames = [\"{name}.org\"]\norigin = \"http://{name}\"\n")
}

/// Reads `main.toml` of these files. `$` in an error stands for the folder.
fn read(files: &[(&str, &str)]) -> Result<Config, String> {
    let folder = Folder::new();
    for (name, text) in files {
        let path = folder.path(name);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("writable");
        fs::write(path, text).expect("writable");
    }
    let path = folder.path("main.toml");
    let name = path.display().to_string();
    let text = read_file(&path).expect("it exists");
    let dir = folder.path("").display().to_string();
    let shown = |errors: ConfigErrors| errors.to_string().replace(dir.trim_end_matches('/'), "$");
    Config::from_toml(&text, &name).map_err(shown)
}

fn names(config: &Config) -> Vec<&str> {
    config.sites.iter().map(|site| site.name.as_str()).collect()
}

#[test]
fn included_files_are_read_in_the_order_of_their_names() {
    let main = format!("include = [\"conf.d/*.toml\", \"last.toml\"]\nworkers = 2\n{}", site("m"));
    let files = [
        ("main.toml", main.as_str()),
        ("conf.d/20.toml", &site("b")),
        ("conf.d/10.toml", &format!("include = [\"x/*\"]\n{}", site("a"))),
        ("conf.d/x/deep", &site("deep")),
        ("conf.d/30.toml.bak", "not read"),
        ("conf.d/.hidden.toml", "not read"),
        (
            "last.toml",
            "idle_ms_max = \"7s\"\n[[site]]\nname = \"z\"\nnames = [\"*\"]\nredirect = '301 /x'",
        ),
    ];
    let config = read(&files).expect("valid");
    assert_eq!(names(&config), ["m", "a", "deep", "b", "z"]);
    assert_eq!((config.server.workers, config.server.idle_ms_max), (2, 7000));
}

#[test]
fn a_pattern_may_match_no_file_and_a_name_must_exist() {
    let main = format!("include = [\"*.conf\"]\n{}", site("m"));
    assert_eq!(names(&read(&[("main.toml", &main)]).expect("valid")), ["m"]);
    let cases = [
        (
            "include = [\"none.toml\"]",
            "$/main.toml:1:12: cannot read $/none.toml: No such file or directory (os error 2)
  1 | include = [\"none.toml\"]
    |            ^^^^^^^^^^^
  hint: a path is relative to the directory of the file that includes it

1 error",
        ),
        (
            "include = [\"none/*.toml\"]",
            "$/main.toml:1:12: cannot read the directory $/none: No such file or directory \
(os error 2)
  1 | include = [\"none/*.toml\"]
    |            ^^^^^^^^^^^^^
  hint: correct the path, which is relative to the directory of this file; if there are no files \
               yet, create the directory

1 error",
        ),
        (
            "include = [\".\"]",
            "$/main.toml:1:12: cannot read $/.: it is not a regular file
  1 | include = [\".\"]
    |            ^^^
  hint: for all files of a directory, write a pattern, such as \"conf.d/*.toml\"

1 error",
        ),
        (
            "include = \"a.toml\"",
            "$/main.toml:1:11: `include` is not an array
  1 | include = \"a.toml\"
    |           ^^^^^^^^
  expected: an array of files or patterns, such as [\"conf.d/*.toml\"]
  hint: write [\"a.toml\"]

1 error",
        ),
        (
            "include = [\"*/a.toml\"]",
            "$/main.toml:1:12: `include` cannot contain \"*/a.toml\"
  1 | include = [\"*/a.toml\"]
    |            ^^^^^^^^^^
  expected: an array of files or patterns, such as [\"conf.d/*.toml\"]
  hint: write * and ? only in the name of the file, not in that of a directory

1 error",
        ),
        (
            "include = [1]",
            "$/main.toml:1:12: `include` has an element that is not text
  1 | include = [1]
    |            ^
  expected: an array of files or patterns, such as [\"conf.d/*.toml\"]

1 error",
        ),
        (
            "include = [\"*.toml\"]",
            "$/main.toml:1:12: the pattern matches $/main.toml, the file that has it
  1 | include = [\"*.toml\"]
    |            ^^^^^^^^
  hint: put the included files into a directory of their own

1 error",
        ),
    ];
    for (line, expected) in cases {
        let error = read(&[("main.toml", &format!("{line}\n{}", site("m")))]).expect_err(line);
        assert_eq!(error, expected, "{line}");
    }
}

#[test]
fn a_cycle_and_a_second_include_of_a_file_are_refused() {
    let error = read(&[
        ("main.toml", "include = [\"a.toml\"]"),
        ("a.toml", "\ninclude = [\"b.toml\"]"),
        ("b.toml", "include = [\"./x/../a.toml\"]"),
        ("x/keep", ""),
    ]);
    let expected = "$/b.toml:1:12: $/./x/../a.toml includes itself
  1 | include = [\"./x/../a.toml\"]
    |            ^^^^^^^^^^^^^^^
  hint: leave it out here, or where it includes this file

1 error";
    assert_eq!(error.expect_err("a cycle"), expected);
    let error = read(&[
        ("main.toml", "include = [\"a.toml\", \"b.toml\"]"),
        ("a.toml", &site("a")),
        ("b.toml", "include = [\"a.toml\"]"),
    ]);
    let expected = "$/b.toml:1:12: $/a.toml is included twice
  1 | include = [\"a.toml\"]
    |            ^^^^^^^^
  hint: the first include is at $/main.toml:1:12

1 error";
    assert_eq!(error.expect_err("twice"), expected);
    let mut files = vec![("main.toml".to_owned(), "include = [\"1\"]".to_owned())];
    files.extend((1..20).map(|n| (n.to_string(), format!("include = [\"{}\"]", n + 1))));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let error = read(&files).expect_err("too deep");
    assert!(error.starts_with("$/8:1:12: files are included more than 8 levels deep"), "{error}");
}

#[test]
fn an_error_names_the_file_that_has_it() {
    let main = format!("include = [\"d/*\"]\nworkers = 1\n{}", site("m"));
    let in_file = |text: &str| read(&[("main.toml", &main), ("d/a", &site("a")), ("d/b", text)]);
    let cases = [
        ("\n\nworkers = 2", "$/d/b:3:11: `workers` is set in two files\n", "at $/main.toml:2:11"),
        ("listn = 1", "$/d/b:1:1: `listn` is not", "did you mean `listen`?"),
        ("ä = 1", "$/d/b:1:1: a key has only letters", ""),
        ("# ü\n\nx = [", "$/d/b:3:6: ", ""),
        (
            "[[site]]\nname = \"a\"\nnames = [\"b.org\"]\nredirect = '301 /x'",
            "$/d/b:2:8: two sites have the name \"a\"",
            "at $/d/a:2:8",
        ),
        (
            "[[site]]\nname = \"b\"\nnames = [\"M.org\"]\nredirect = '301 /x'",
            "$/d/b:3:10: a site already serves `m.org`",
            "at $/main.toml:5:10",
        ),
        (
            "[[site]]\nname = \"b\"\nnames = [\"b.org\"]\nrules = \"r\"\nredirect = '301 /x'",
            "$/d/b:4:9: rules `$/d/r`: cannot read",
            "",
        ),
        ("[[site]]\nname = \"b\"\nnames = [\"b.org\"]\n", "$/d/b:1:1: `origin` is missing", ""),
        (
            "[[site]]\nname = \"b\"\nnames = [\"b.org\"]\norigin = \"http://b\"\ntls_cert = \"c\"\n\
          tls_key = \"k\"",
            "$/d/b:5:12: cannot read $/d/c: No such",
            "cannot read $/d/k: No",
        ),
        ("[site]\nname = \"b\"", "$/d/b:1:1: this has to be a [[site]] section", ""),
    ];
    for (text, start, part) in cases {
        let error = in_file(text).expect_err(text);
        assert!(error.starts_with(start) && error.contains(part), "{text}\n{error}");
    }
    let error = read(&[("main.toml", "include = [\"a\"]\n"), ("a", "workers = 1")]);
    let error = error.expect_err("there is no site");
    assert!(error.starts_with("$/main.toml: there is no [[site]]"), "{error}");
}

#[test]
fn a_file_that_is_no_text_is_refused_at_its_byte() {
    let folder = Folder::new();
    fs::write(folder.path("a"), b"workers = 1\nlisten = \"\xff\"").expect("writable");
    let name = folder.path("main.toml").display().to_string();
    let error = Config::from_toml("include = [\"a\"]", &name).expect_err("not UTF-8").to_string();
    assert!(error.contains("/a:2:11: the byte 0xff is not UTF-8"), "{error}");
}
