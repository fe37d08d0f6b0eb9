//! Finds phrases that make a comment or a message hard to read: `GLOSSARY.md`, "How we write".
//!
//! A phrase is recognised by its words and their neighbours, not by grammar. Code spans and
//! quotations are ignored, so that a text may name the words that it is about.

use super::source::Source;

/// A phrase that is counted in comments and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phrase {
    /// "what is stored" in place of a noun.
    WhatClause,
    /// "who reads" without an antecedent.
    BareWho,
    /// "somebody", "nobody", "everybody", "whoever".
    Somebody,
    /// A doc comment that is a question.
    Question,
    /// "meanwhile", "anew", "in vain".
    Archaic,
}

/// Text without markup, and the line of each of its characters.
#[derive(Debug, Default)]
struct Paragraph {
    text: Vec<char>,
    lines: Vec<usize>,
    is_doc: bool,
}

/// A word of a paragraph.
#[derive(Debug)]
struct Word {
    /// The word in lower case, without a possessive ending.
    text: String,
    line: usize,
    /// Whether a sentence or a clause begins here.
    is_first: bool,
}

/// Placeholder for a code span or a quotation. It counts as a noun and matches no pattern.
const SPAN: char = 'x';

/// The fewest words of a text that is checked. Shorter texts are labels or keys.
const WORDS_MIN: usize = 3;

/// Auxiliaries and common verbs. After "what" they begin a clause that stands for a noun.
const VERBS: &[&str] = &[
    "are", "becomes", "began", "begins", "belongs", "came", "can", "cannot", "comes", "could",
    "did", "does", "follows", "gave", "gets", "gives", "goes", "got", "had", "has", "have",
    "holds", "is", "keeps", "lay", "leads", "lies", "makes", "may", "might", "must", "needs",
    "reads", "remained", "remains", "runs", "shall", "should", "stands", "stood", "takes", "took",
    "was", "went", "were", "will", "would", "writes",
];

/// Words before "what" that turn its clause into a noun.
const PREPOSITIONS: &[&str] = &[
    "after", "and", "as", "at", "before", "behind", "beside", "besides", "but", "by", "except",
    "for", "from", "in", "into", "like", "nor", "of", "on", "or", "over", "than", "to", "under",
    "upon", "with", "without",
];

/// Words after "what" that make it ask for a kind, as in "what sort".
const KINDS: &[&str] = &["degree", "else", "extent", "kind", "kinds", "sort", "sorts", "to"];

/// Words that may stand before "who" although they do not end like a word for an agent.
const PERSONS: &[&str] = &[
    "all",
    "another",
    "anyone",
    "attacker",
    "clients",
    "else",
    "engineers",
    "everyone",
    "one",
    "ones",
    "others",
    "people",
    "person",
    "process",
    "processes",
    "side",
    "someone",
    "task",
    "tasks",
    "they",
    "those",
    "thread",
    "threads",
];

/// Endings of words for agents: a reader, an operator, a client, an attendant.
const AGENT_ENDINGS: &[&str] = &["er", "ers", "or", "ors", "ent", "ents", "ant", "ants"];

/// Words with an ending from `AGENT_ENDINGS` that are not agents.
const NO_AGENTS: &[&str] =
    &["after", "different", "ever", "for", "however", "never", "nor", "or", "over", "under"];

/// Returns the phrases in the comments of a file, with their lines, counted from 1.
pub(super) fn in_comments(source: &Source) -> Vec<(usize, Phrase)> {
    paragraphs(source).iter().flat_map(phrases).collect()
}

/// Returns the phrases in the string literals of a file outside of its tests, with their lines.
pub(super) fn in_messages(source: &Source) -> Vec<(usize, Phrase)> {
    if source.is_test_file() {
        return Vec::new();
    }
    let literals = source.strings.iter().filter(|(line, _)| !source.is_test[*line]);
    literals.flat_map(|(line, text)| phrases(&message(*line, text))).collect()
}

/// Returns the phrases in the text of a page outside of its code blocks, with their lines.
pub(super) fn in_page(text: &str) -> Vec<(usize, Phrase)> {
    let mut found = Vec::new();
    let mut paragraph = Paragraph::default();
    let mut is_block = false;
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        if is_fence || is_block || line.trim().is_empty() || line.starts_with(['|', '#', '-']) {
            found.extend(phrases(&std::mem::take(&mut paragraph)));
        }
        if !is_fence && !is_block {
            paragraph.push(index, line);
        }
    }
    found.extend(phrases(&paragraph));
    found
}

/// Returns the comments of a file, split at empty lines and where the kind of comment changes.
fn paragraphs(source: &Source) -> Vec<Paragraph> {
    let mut all = Vec::new();
    let mut open = Paragraph::default();
    let mut open_mark = "";
    let mut is_block = false;
    for (index, comment) in source.comments.iter().enumerate() {
        let (mark, text) = marked(comment.trim());
        let stands_alone = source.code[index].trim().is_empty();
        let is_fence = text.starts_with("```");
        is_block = (is_block && mark == open_mark) ^ is_fence;
        if mark != open_mark || text.is_empty() || !stands_alone || is_fence || is_block {
            all.push(std::mem::take(&mut open));
        }
        open_mark = mark;
        open.is_doc = mark.len() == "///".len();
        if !is_fence && !is_block {
            open.push(index, text);
        }
        if !stands_alone {
            all.push(std::mem::take(&mut open));
        }
    }
    all.push(open);
    all
}

/// Returns a comment's marker and its text. The marker is empty if there is no comment.
fn marked(comment: &str) -> (&'static str, &str) {
    let marks = ["///", "//!", "//"].into_iter();
    let mut found = marks.filter_map(|mark| Some((mark, comment.strip_prefix(mark)?.trim())));
    found.next().unwrap_or(("", ""))
}

/// Returns a literal's text; each `{…}` becomes a noun.
fn message(line: usize, literal: &str) -> Paragraph {
    let mut paragraph = Paragraph { is_doc: true, ..Paragraph::default() };
    let mut depth = 0;
    let inside = literal.trim_start_matches(['b', 'r', '#']).trim_matches(['"', '#']);
    for (index, text) in inside.replace("\\n", " ").replace('\\', " ").lines().enumerate() {
        for c in text.chars() {
            depth += usize::from(c == '{');
            paragraph.push_char(line + index, if depth == 0 { c } else { SPAN });
            depth -= usize::from(c == '}' && depth > 0);
        }
        paragraph.push_char(line + index, ' ');
    }
    paragraph
}

impl Paragraph {
    fn push(&mut self, line: usize, text: &str) {
        for c in text.chars().chain([' ']) {
            self.push_char(line, c);
        }
    }

    fn push_char(&mut self, line: usize, c: char) {
        self.text.push(c);
        self.lines.push(line);
    }

    /// Replaces everything between a pair of marks, so that it counts as one noun.
    fn hide(&mut self, mark: char) {
        let at: Vec<usize> = (0..self.text.len()).filter(|&at| self.text[at] == mark).collect();
        for pair in at.chunks_exact(2) {
            self.text[pair[0]..=pair[1]].fill(SPAN);
        }
    }

    fn words(&self) -> Vec<Word> {
        let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '_';
        let (mut words, mut is_first, mut at) = (Vec::new(), true, 0);
        while at < self.text.len() {
            let end = (at..self.text.len()).find(|&end| !is_part(self.text[end]));
            let end = end.unwrap_or(self.text.len());
            if end == at {
                let is_space = self.text.get(at + 1).is_none_or(|next| next.is_whitespace());
                is_first |= matches!(self.text[at], '.' | '!' | '?' | ':' | ';') && is_space;
                is_first |= matches!(self.text[at], '(' | '|');
                at += 1;
                continue;
            }
            let word: String = self.text[at..end].iter().collect::<String>().to_lowercase();
            let text = word.trim_end_matches("'s").to_string();
            words.push(Word { text, line: self.lines[at] + 1, is_first });
            (at, is_first) = (end, false);
        }
        words
    }
}

fn phrases(paragraph: &Paragraph) -> Vec<(usize, Phrase)> {
    let mut paragraph =
        Paragraph { text: paragraph.text.clone(), lines: paragraph.lines.clone(), ..*paragraph };
    paragraph.hide('`');
    paragraph.hide('"');
    let words = paragraph.words();
    if words.len() < WORDS_MIN {
        return Vec::new();
    }
    let mut found: Vec<(usize, Phrase)> =
        (0..words.len()).filter_map(|at| Some((words[at].line, phrase_at(&words, at)?))).collect();
    if paragraph.is_doc {
        found.extend(questions(&paragraph, &words));
    }
    found
}

fn phrase_at(words: &[Word], at: usize) -> Option<Phrase> {
    let word = &words[at];
    let before = at.checked_sub(1).map(|at| words[at].text.as_str()).filter(|_| !word.is_first);
    let after = words.get(at + 1).filter(|after| !after.is_first).map(|after| after.text.as_str());
    match word.text.as_str() {
        "what" => is_what_clause(before, after).then_some(Phrase::WhatClause),
        "who" => (!before.is_some_and(is_antecedent)).then_some(Phrase::BareWho),
        "anybody" | "somebody" | "nobody" | "everybody" | "whoever" | "whomever" => {
            Some(Phrase::Somebody)
        }
        "meanwhile" | "anew" => Some(Phrase::Archaic),
        "vain" => (before == Some("in")).then_some(Phrase::Archaic),
        _ => None,
    }
}

/// Whether "what" begins a clause that stands for a noun. It does not if it is the object of a
/// verb, or if it asks for a kind.
fn is_what_clause(before: Option<&str>, after: Option<&str>) -> bool {
    let Some(after) = after else { return false };
    if KINDS.contains(&after) {
        return false;
    }
    before.is_none_or(|before| PREPOSITIONS.contains(&before)) || VERBS.contains(&after)
}

fn is_antecedent(word: &str) -> bool {
    let ends_like_agent = AGENT_ENDINGS.iter().any(|ending| word.ends_with(ending));
    PERSONS.contains(&word) || (ends_like_agent && !NO_AGENTS.contains(&word))
}

/// Returns the sentences that end in a question mark. A message may ask "did you mean".
fn questions(paragraph: &Paragraph, words: &[Word]) -> Vec<(usize, Phrase)> {
    let may_ask = words.windows(2).any(|pair| pair[0].text == "you" && pair[1].text == "mean");
    let text = &paragraph.text;
    let ends = (1..text.len()).filter(|&at| {
        let ends_word = text[at - 1].is_alphanumeric() || text[at - 1] == ')';
        text[at] == '?' && ends_word && text.get(at + 1).is_none_or(|next| next.is_whitespace())
    });
    let ends = ends.filter(|_| !may_ask);
    ends.map(|at| (paragraph.lines[at] + 1, Phrase::Question)).collect()
}
