//! Checks that an edit gives the same result as a plain list of lines, for any order of operations,
//! in a number of steps that is linear in the lines and operations.

use super::*;

/// The slow and obvious implementation: a list of lines. The last part of a line says whether rules
/// have written it.
#[derive(Clone, Debug, Default)]
struct Model(Vec<(String, String, bool)>);

impl Model {
    fn is(name: &str, other: &str) -> bool {
        name.eq_ignore_ascii_case(other)
    }

    fn values(&self, name: &str) -> Vec<(&str, bool)> {
        let lines = self.0.iter().filter(|(other, ..)| Model::is(name, other));
        lines.map(|(_, value, is_ruled)| (value.as_str(), *is_ruled)).collect()
    }

    fn set(&mut self, name: &str, value: &str) {
        let first = self.0.iter().position(|(other, ..)| Model::is(name, other));
        match first {
            None => self.append(name, value),
            Some(first) => {
                self.0[first].1 = value.to_owned();
                self.0[first].2 = true;
                let mut index = 0;
                self.0.retain(|(other, ..)| {
                    index += 1;
                    index - 1 <= first || !Model::is(name, other)
                });
            }
        }
    }

    fn append(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned(), true));
    }

    fn wire_bytes(&self) -> usize {
        self.0.iter().map(|(name, value, _)| name.len() + value.len() + 4).sum()
    }
}

/// A pseudorandom sequence (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn name(text: &str) -> FieldName {
    FieldName::parse(text.as_bytes()).expect("a token")
}

fn value(text: &str) -> FieldValue<'_> {
    FieldValue::parse(text.as_bytes()).expect("a value")
}

/// Appends these lines in wire form.
fn write_lines(lines: &[(String, String, bool)], head: &mut Vec<u8>, ruled: &mut RuledLines) {
    ruled.clear();
    for (name, value, is_ruled) in lines {
        if *is_ruled {
            ruled.push(head.len());
        }
        head.extend(format!("{name}: {value}\r\n").into_bytes());
    }
}

/// Parses the lines from `start` on with the parser of stored blocks.
fn lines_of(head: &[u8], mut start: usize, ruled: &RuledLines) -> Model {
    let block = crate::fields::FieldBlock::parse(&head[start..]).expect("the head is whole");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    let lines = block.fields().iter().map(|field| {
        let is_ruled = ruled.contains(start);
        start += field.name.len() + field.value.len() + 4;
        (text(field.name), text(field.value), is_ruled)
    });
    Model(lines.collect())
}

const NAMES: &[&str] = &["Via", "via", "X-A", "x-a", "Set-Cookie", "X-Long-Name-Of-A-Field", "b"];

/// Sets or appends all these lines.
fn apply(edit: &mut FieldEdit<'_>, lines: &ConstantLines) -> u32 {
    let mut conflicts = ConflictingLines::default();
    edit.find_conflicts(lines, &mut conflicts);
    edit.apply_range(lines, 0..lines.lines().len(), &conflicts)
}

/// Performs one random operation on the edit and on the model.
fn step(random: &mut Random, edit: &mut FieldEdit<'_>, model: &mut Model) {
    let picked = NAMES[random.below(NAMES.len() as u64) as usize];
    let text = "v".repeat(random.below(12) as usize) + &random.below(100).to_string();
    match random.below(8) {
        0 | 1 => {
            edit.set(&name(picked), value(&text)).expect("there is room");
            model.set(picked, &text);
        }
        2 => {
            edit.append(&name(picked), value(&text)).expect("there is room");
            model.append(picked, &text);
        }
        3 => {
            let before = model.0.len();
            model.0.retain(|(other, ..)| !Model::is(picked, other));
            assert_eq!(edit.remove_all(&name(picked)), before - model.0.len());
        }
        4 => change_one(random, edit, model, picked, Some(&text)),
        5 => change_one(random, edit, model, picked, None),
        _ => {
            let mut lines = Vec::new();
            for index in 0..random.below(5) {
                let (picked, text) = (NAMES[random.below(7) as usize], format!("c{index}"));
                if random.below(2) == 0 {
                    lines.push(ConstantLine::set(name(picked), value(&text)));
                    model.set(picked, &text);
                } else {
                    lines.push(ConstantLine::append(name(picked), value(&text)));
                    model.append(picked, &text);
                }
            }
            assert_eq!(apply(edit, &ConstantLines::new(lines)), 0);
        }
    }
}

/// Changes or removes some line of this name.
fn change_one(
    random: &mut Random,
    edit: &mut FieldEdit<'_>,
    model: &mut Model,
    picked: &str,
    text: Option<&str>,
) {
    let mut next = edit.find(&name(picked));
    let skipped = random.below(3) as usize;
    for _ in 0..skipped {
        next = next.and_then(|at| edit.next_duplicate(at));
    }
    let names = model.0.iter().map(|(other, ..)| other).enumerate();
    let index = names.filter(|(_, other)| Model::is(picked, other)).nth(skipped);
    let index = index.map(|(index, _)| index);
    assert_eq!(next.is_some(), index.is_some());
    let (Some(at), Some(index)) = (next, index) else {
        return;
    };
    match text {
        Some(text) => {
            edit.set_value(at, value(text)).expect("there is room");
            model.0[index].1 = text.to_owned();
        }
        None => {
            assert!(edit.remove(at) && !edit.remove(at));
            assert_eq!((edit.value(at), edit.name(at)), (&b""[..], &b""[..]));
            model.0.remove(index);
        }
    }
}

#[test]
fn an_edit_equals_the_same_changes_to_a_list_of_lines() {
    let mut table = EditTable::default();
    for seed in 1..3_000 {
        let mut random = Random(seed << 32 | 0x9e37_79b9);
        let mut model = Model::default();
        for index in 0..random.below(6) {
            model.append(NAMES[random.below(7) as usize], &format!("old{index}"));
            model.0[index as usize].2 = random.below(3) == 0;
        }
        let mut head = b"line\r\n".to_vec();
        write_lines(&model.0, &mut head, table.ruled_lines());
        let mut edit = FieldEdit::of_request(&mut head, 6, &mut table, EditLimits::default());
        for _ in 0..random.below(12) {
            step(&mut random, &mut edit, &mut model);
            if random.below(3) == 0 {
                assert_eq!(edit.wire_bytes(), model.wire_bytes(), "seed {seed}");
                assert_eq!(edit.count(), model.0.len(), "seed {seed}");
                assert_eq!(edit.iter().count(), model.0.len(), "seed {seed}");
            }
        }
        edit.finish();
        assert!(head.starts_with(b"line\r\n"));
        let seen = lines_of(&head, 6, table.ruled_lines());
        assert_eq!(seen.0.len(), model.0.len(), "seed {seed}: {seen:?} is not {model:?}");
        for name in NAMES {
            assert_eq!(seen.values(name), model.values(name), "seed {seed}: {name}");
        }
    }
}

#[test]
fn a_value_cannot_end_a_line() {
    for text in ["a\r\nX: b", "a\n", "a\r", "a\0", "\x7f", "a\x1bb"] {
        assert_eq!(FieldValue::parse(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(FieldValue::parse(b" \ta\tb ").map(FieldValue::as_bytes), Some(&b"a\tb"[..]));
    for text in ["", "a b", "a:", "a\r", "\u{e9}"] {
        assert_eq!(FieldName::parse(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(name("ETAG"), name("etag"));
    assert_ne!(name("etag"), name("etags"));
}

#[test]
fn white_space_around_a_removed_value_is_removed() {
    let mut head = b"a:  x \t\r\nb:y\r\nc: \r\n".to_vec();
    let mut table = EditTable::default();
    let mut edit = FieldEdit::new(&mut head, 0, &mut table, EditLimits::default());
    for (field, expected) in [("a", "x"), ("b", "y"), ("c", "")] {
        let at = edit.find(&name(field)).expect("it is there");
        assert_eq!(edit.value(at), expected.as_bytes(), "{field}");
    }
    edit.remove_all(&name("a"));
    edit.set(&name("b"), value("")).expect("there is room");
    edit.finish();
    assert_eq!(String::from_utf8(head).expect("ASCII"), "b:\r\nc: \r\n");
}

#[test]
fn a_head_does_not_exceed_its_limits() {
    let limits = EditLimits { bytes_max: 24, line_count_max: 3 };
    let mut table = EditTable::default();
    for indexed in [false, true] {
        let mut head = b"a: 1\r\n".to_vec();
        let mut edit = FieldEdit::new(&mut head, 0, &mut table, limits);
        if indexed {
            edit.find(&name("a"));
        }
        let many = |count: usize| {
            let lines = (0..count).map(|index| name(&format!("n{index}")));
            ConstantLines::new(lines.map(|name| ConstantLine::set(name, value(""))).collect())
        };
        assert_eq!(apply(&mut edit, &many(4)), 2, "two of four lines have room");
        assert_eq!(edit.append(&name("b"), value("")), Err(EditError::TooManyFields));
        assert_eq!(edit.set(&name("b"), value("")), Err(EditError::TooManyFields));
        assert_eq!(edit.set(&name("a"), value("12345678")), Err(EditError::TooManyBytes));
        let too_large = ConstantLine::set(name("N1"), value("1234567890"));
        assert_eq!(edit.apply_line(&too_large), Err(EditError::TooManyBytes));
        assert_eq!(
            edit.find(&name("n1")),
            None,
            "the value of another party stands in for a line without room"
        );
        edit.append(&name("n1"), value("")).expect("there is room again");
        edit.set(&name("a"), value("1234567")).expect("24 bytes are allowed");
        assert_eq!(edit.wire_bytes(), 24);
        edit.remove_all(&name("n0"));
        edit.append(&name("b"), value("1")).expect("there is room again");
        drop(edit);
        assert_eq!(String::from_utf8(head).expect("ASCII"), "n1: \r\na: 1234567\r\nb: 1\r\n");
    }
}

/// Runs 400 rules, each of which sets a different field: one by one, with conditions in between, or
/// as blocks. The number of steps of a rule does not depend on the rules before it.
#[test]
fn steps_grow_linearly_with_the_lines() {
    for block_len in [1, 2, 10, 400] {
        for looks_between in [false, true] {
            let count_for = |rule_count: usize| {
                let mut head = b"Host: a\r\nAccept: b\r\nVia: c\r\n".to_vec();
                let mut table = EditTable::default();
                let mut edit = FieldEdit::new(&mut head, 0, &mut table, EditLimits::default());
                edit.table.probe_count.set(0);
                // With a constant seed the number of steps is the same in every run.
                let seed = name::HashSeed::new(0);
                edit.table.seed = seed;
                let name = |text: &str| FieldName::seeded(text.as_bytes(), seed);
                let names: Vec<_> =
                    (0..rule_count).map(|i| name(&format!("X-Rule-{i:03}"))).collect();
                let line = |name: &FieldName| ConstantLine::set(name.clone(), value("v"));
                let lines = ConstantLines::new(names.iter().map(line).collect());
                let mut conflicts = ConflictingLines::default();
                edit.find_conflicts(&lines, &mut conflicts);
                for start in (0..rule_count).step_by(block_len) {
                    edit.apply_range(
                        &lines,
                        start..start + block_len.min(rule_count - start),
                        &conflicts,
                    );
                    if looks_between {
                        assert_eq!(edit.find(&name("X-None")), None);
                    }
                }
                let steps = edit.table.probe_count.get();
                assert_eq!(edit.count(), rule_count + 3);
                steps
            };
            let (few, many) = (count_for(100), count_for(400));
            let shown = format!("blocks of {block_len}, {looks_between}: {few} and {many} steps");
            assert!(many <= 6 * few.max(20) && many <= 400 * 8, "{shown}");
        }
    }
}

/// Returns the number of steps for entering these names into an index and finding each of them.
fn steps_for(seed: name::HashSeed, names: &[String]) -> usize {
    let head: Vec<u8> =
        names.iter().flat_map(|name| format!("{name}: v\r\n").into_bytes()).collect();
    let mut table = EditTable::default();
    table.seed = seed;
    let mut at = 0;
    while let Some((line, end)) = fields::line_at(seed, &head, at) {
        table.push(line, &head);
        at = end;
    }
    assert_eq!(table.lines.len(), names.len());
    for (index, name) in names.iter().enumerate() {
        let found = table.find(seed.hash(name.as_bytes()), &head, name.as_bytes());
        assert_eq!(found, Some(index as u32), "{name}");
    }
    table.probe_count.get()
}

/// Names that collide under a known seed do not collide under the secret one. Clients choose field
/// names, so this matters.
#[test]
fn names_made_to_collide_take_few_steps_each() {
    const COUNT: usize = 1_000;
    let known = name::HashSeed::new(0);
    let same_slot = |name: &String| known.hash(name.as_bytes()) % 2_048 == 7;
    let chosen = (0..).map(|number: u32| format!("X-{number:x}-Field")).filter(same_slot);
    let chosen: Vec<String> = chosen.take(COUNT).collect();
    // `^` and `~` differ in the one bit by which letters differ in case.
    let mark = |number: usize, bit: usize| ['^', '~'][number >> bit & 1];
    let marks = (0..COUNT).map(|number| (0..10).map(|bit| mark(number, bit)).collect()).collect();
    let steps = steps_for(known, &chosen);
    assert!(
        steps > COUNT * COUNT / 4,
        "the names do not collide under a known seed: {steps} steps"
    );
    for names in [chosen, marks] {
        let steps = steps_for(name::HashSeed::default(), &names);
        assert!(steps <= COUNT * 2 * 12, "{steps} steps for {COUNT} names like {}", names[0]);
    }
}

#[test]
fn hashes_depend_on_the_seed_but_not_on_case() {
    let (one, other) = (name::HashSeed::new(1), name::HashSeed::new(2));
    for text in ["A", "etag", "Host", "Accept", "X-Forwarded-For", "Z^~z_|`!", "content-TYPE-09aZ"]
    {
        let (lower, upper) = (text.to_ascii_lowercase(), text.to_ascii_uppercase());
        assert_eq!(one.hash(lower.as_bytes()), one.hash(upper.as_bytes()), "{text}");
        assert_ne!(one.hash(text.as_bytes()), other.hash(text.as_bytes()), "{text}");
    }
    // One-byte tokens have different hashes unless they differ only in case.
    let tokens: Vec<u8> = (0..=u8::MAX).filter(|byte| crate::bytes::is_token(&[*byte])).collect();
    let hashes: std::collections::HashSet<u32> =
        tokens.iter().map(|byte| one.hash(&[*byte])).collect();
    assert_eq!(hashes.len(), tokens.len() - 26);
}
