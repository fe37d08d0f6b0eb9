//! The files of a configuration, in one space of offsets.
//!
//! Each file has a range of offsets of its own, so an offset names both a file and a byte of it.
//! The spans of values are offsets of this kind once [`moved`] has added the file's first offset.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::{FileText, ProblemSpan, SourceSpan};

/// The files of a configuration. The first is the one that the user named; it includes the others.
pub(crate) struct SourceFiles<'a> {
    /// The files, each with the offset of its first byte, in ascending order.
    files: Vec<(usize, FileText<'a>)>,
    /// The offset of the next file's first byte.
    end: usize,
}

impl<'a> SourceFiles<'a> {
    /// Creates the sources of a configuration with one file.
    pub(crate) fn new(name: &'a str, text: &'a str) -> SourceFiles<'a> {
        let mut files = SourceFiles { files: Vec::new(), end: 0 };
        files.add(name, text);
        files
    }

    /// Adds a file. Returns the offset of its first byte.
    pub(super) fn add(&mut self, name: &'a str, text: &'a str) -> usize {
        let first = self.end;
        self.files.push((first, FileText::new(name, text)));
        // The offset behind the last byte is part of the file, because errors at the end of the
        // file are there.
        self.end += text.len() + 1;
        first
    }

    /// Returns the number of bytes of all files.
    pub(super) fn bytes(&self) -> usize {
        self.end
    }

    /// Returns the text of a span; empty if the span is not within one file.
    pub(super) fn text(&self, span: &Range<usize>) -> &'a str {
        let (first, file) = self.file_of(span.start);
        file.text.get(span.start - first..span.end - first).unwrap_or_default()
    }

    /// Returns the directory of the file that has the byte at `offset`; empty if the file's name
    /// has no directory.
    pub(crate) fn dir(&self, offset: usize) -> &'a Path {
        self.file_of(offset).1.dir()
    }

    /// Returns `file:line:column` of the byte at `offset`.
    pub(crate) fn position(&self, offset: usize) -> String {
        let (first, file) = self.file_of(offset);
        file.position(offset - first)
    }

    /// Returns the position for an error. `hidden` are the values that its line does not show, in
    /// their order.
    pub(super) fn place(&self, at: ProblemSpan, hidden: &[Range<usize>]) -> SourceSpan {
        match at {
            ProblemSpan::Span(span) => {
                let (first, file) = self.file_of(span.start);
                let here = hidden.iter().filter(|value| value.start >= first);
                let here: Vec<_> = here.map(|it| it.start - first..it.end - first).collect();
                file.place(ProblemSpan::Span(span.start - first..span.end - first), &here)
            }
            at => self.file_of(0).1.place(at, &[]),
        }
    }

    fn file_of(&self, offset: usize) -> (usize, &FileText<'a>) {
        let behind = self.files.partition_point(|(first, _)| *first <= offset);
        let (first, file) = self.files.get(behind - 1).expect("the first file begins at 0");
        (*first, file)
    }
}

/// Returns the table with `by` added to each span. The parser limits the depth of tables, and so
/// that of the recursion.
pub(super) fn moved(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    let entries = table.into_iter().map(|(key, value)| {
        let span = moved_span(key.span(), by);
        (Spanned::new(span, key.into_inner()), moved_value(value, by))
    });
    entries.collect()
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = moved_span(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Array(array) => {
            let elements = array.into_iter().map(|element| moved_value(element, by));
            DeValue::Array(elements.collect::<DeArray<'_>>())
        }
        DeValue::Table(table) => DeValue::Table(moved(table, by)),
        other => other,
    };
    Spanned::new(span, value)
}

fn moved_span(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}
