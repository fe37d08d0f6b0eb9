//! The format of files that end in `.yaml`.

use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser};

use super::source::SourceLine;
use crate::ImportError;

/// Largest number of values of a file, aliases included.
const NODES_MAX: usize = 100_000;
/// Deepest nesting.
const DEPTH_MAX: usize = 32;

/// A value and its line.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) at: SourceLine,
    pub(super) value: YamlValue,
    /// Number of values in it.
    count: usize,
}

#[derive(Clone, Debug)]
pub(super) enum YamlValue {
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    /// The value of a name of a map; `<<` has further names.
    pub(super) fn get(&self, name: &str) -> Option<&YamlNode> {
        let YamlValue::Map(pairs) = &self.value else { return None };
        let own = pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        own.or_else(|| {
            let merged = pairs.iter().filter(|(known, _)| known == "<<");
            merged.flat_map(|(_, node)| node.list()).find_map(|node| node.get(name))
        })
    }

    pub(super) fn text(&self) -> &str {
        if let YamlValue::Text(text) = &self.value { text } else { "" }
    }

    /// The text of a name of a map.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.get(name).map(YamlNode::text)
    }

    /// The elements of a list; any other value is a list of one.
    pub(super) fn list(&self) -> &[YamlNode] {
        match &self.value {
            YamlValue::List(list) => list,
            _ => std::slice::from_ref(self),
        }
    }

    /// The names and values of a map.
    pub(super) fn pairs(&self) -> &[(String, YamlNode)] {
        if let YamlValue::Map(pairs) = &self.value { pairs } else { &[] }
    }
}

/// A list or a map whose end has not been read.
struct OpenNode {
    anchor: usize,
    node: YamlNode,
    /// The name that waits for its value.
    name: Option<String>,
}

/// Reads the first document of a file; `None` if it is empty.
///
/// # Errors
/// The file is malformed, nested too deeply, or too large with its aliases.
pub(super) fn yaml(text: &str, file: &Rc<str>) -> Result<Option<YamlNode>, ImportError> {
    let mut anchors = BTreeMap::<usize, YamlNode>::new();
    let mut open: Vec<OpenNode> = Vec::new();
    let mut count = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            at(file, error.marker().line()).error(column(error.marker().col()), error.info())
        })?;
        let line = at(file, span.start.line());
        let start = |value| YamlNode { at: line.clone(), value, count: 1 };
        let (anchor, node) = match event {
            Event::Scalar(text, _, anchor, _) => {
                (anchor, start(YamlValue::Text(text.into_owned())))
            }
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some(node) => (0, node.clone()),
                None => return Err(line.error(column(span.start.col()), "an unknown alias")),
            },
            Event::SequenceStart(anchor, _) => {
                open.push(OpenNode {
                    anchor,
                    node: start(YamlValue::List(Vec::new())),
                    name: None,
                });
                if open.len() > DEPTH_MAX {
                    return Err(line.error(column(span.start.col()), "nested too deeply"));
                }
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(OpenNode { anchor, node: start(YamlValue::Map(Vec::new())), name: None });
                if open.len() > DEPTH_MAX {
                    return Err(line.error(column(span.start.col()), "nested too deeply"));
                }
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(closed) => (closed.anchor, closed.node),
                None => continue,
            },
            Event::DocumentEnd | Event::StreamEnd => return Ok(None),
            _ => continue,
        };
        count = count.saturating_add(node.count);
        if count > NODES_MAX {
            return Err(line.error(column(span.start.col()), "the file is too large"));
        }
        if anchor != 0 {
            anchors.insert(anchor, node.clone());
        }
        match open.last_mut() {
            Some(outer) => add(outer, node)?,
            None => return Ok(Some(node)),
        }
    }
    Ok(None)
}

fn add(outer: &mut OpenNode, node: YamlNode) -> Result<(), ImportError> {
    outer.node.count = outer.node.count.saturating_add(node.count);
    match (&mut outer.node.value, outer.name.take()) {
        (YamlValue::Map(pairs), Some(name)) => pairs.push((name, node)),
        (YamlValue::Map(pairs), None) => {
            let name = node.text().to_owned();
            if !matches!(node.value, YamlValue::Text(_)) {
                return Err(node.at.error(1, "a name has to be a text"));
            }
            if name != "<<" && pairs.iter().any(|(known, _)| *known == name) {
                return Err(node.at.error(1, format!("{name} is there twice")));
            }
            outer.name = Some(name);
        }
        (YamlValue::List(list), _) => list.push(node),
        (YamlValue::Text(_), _) => {}
    }
    Ok(())
}

fn at(file: &Rc<str>, line: usize) -> SourceLine {
    SourceLine { file: Rc::clone(file), line: u32::try_from(line).unwrap_or(u32::MAX).max(1) }
}

fn column(column: usize) -> u32 {
    u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1)
}
