//! Draws stacks as boxes, with the outermost frame at the bottom. The width of a box is
//! proportional to the time lost in it.

use std::rc::Rc;

use super::Stacks;
use crate::commands::locks::abbreviate::{abbreviate, truncate};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
const TITLE: f64 = 60.0;

/// The line below the title.
const LEGEND: &str = "width: time lost by waits and failed try-locks; from bottom to top: where \
                      and which lock was wanted; blue: its holder";

/// Prefix of a holder's name.
const HELD_BY: &str = "held by ";

/// Approximate width of a letter in pixels.
const LETTER: f64 = 6.7;

/// Width in pixels of the narrowest box that is drawn.
const WIDTH_MIN: f64 = 0.3;

/// Number of frames of the highest stack; higher stacks are cut off.
const DEPTH_MAX: usize = 128;

/// A box of the picture.
struct FlameBox<'a> {
    name: &'a str,
    depth: usize,
    start_ns: u64,
    ns: u64,
}

/// Returns the picture as an SVG document.
pub(super) fn draw(stacks: &Stacks, title: &str) -> String {
    let frames = frames(stacks);
    let whole = stacks.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns)).max(1);
    let scale = (WIDTH - 2.0 * MARGIN) / whole as f64;
    let is_drawn = |frame: &&FlameBox<'_>| frame.ns as f64 * scale >= WIDTH_MIN;
    let depth = frames.iter().filter(is_drawn).map(|frame| frame.depth + 1).max().unwrap_or(1);
    let height = TITLE + depth as f64 * ROW + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>.f {{ stroke: #fff; stroke-width: 0.5 }} .f:hover {{ stroke: #000 }} \
         text {{ pointer-events: none }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdf8\"/>\n\
         <text x=\"{}\" y=\"24\" font-size=\"15\" text-anchor=\"middle\">{}</text>\n\
         <text x=\"{}\" y=\"44\" fill=\"#555\" text-anchor=\"middle\">{LEGEND}</text>\n",
        WIDTH / 2.0,
        escaped(title),
        WIDTH / 2.0,
    );
    for frame in frames.iter().filter(is_drawn) {
        let (x, width) = (MARGIN + frame.start_ns as f64 * scale, frame.ns as f64 * scale);
        let y = height - MARGIN - (frame.depth + 1) as f64 * ROW;
        svg += &drawn(frame, (x, y, width), whole);
    }
    svg + "</svg>\n"
}

/// Returns all boxes. Stacks that start with the same frames share the boxes of these frames.
fn frames(stacks: &Stacks) -> Vec<FlameBox<'_>> {
    let mut frames = vec![FlameBox { name: "all", depth: 0, start_ns: 0, ns: 0 }];
    // The boxes of the previous stack, from bottom to top.
    let mut open: Vec<usize> = vec![0];
    let mut at_ns = 0_u64;
    for (stack, ns) in stacks {
        let stack = stack.get(..DEPTH_MAX).unwrap_or(stack);
        let is_same = |(index, name): &(&usize, &Rc<str>)| {
            frames.get(**index).is_some_and(|frame| frame.name == &***name)
        };
        let common = open.iter().skip(1).zip(stack).take_while(is_same).count();
        open.truncate(1 + common);
        for name in stack.iter().skip(common) {
            frames.push(FlameBox { name, depth: open.len(), start_ns: at_ns, ns: 0 });
            open.push(frames.len() - 1);
        }
        for index in &open {
            if let Some(frame) = frames.get_mut(*index) {
                frame.ns = frame.ns.saturating_add(*ns);
            }
        }
        at_ns = at_ns.saturating_add(*ns);
    }
    frames
}

fn drawn(frame: &FlameBox<'_>, (x, y, width): (f64, f64, f64), whole: u64) -> String {
    let share = frame.ns as f64 * 100.0 / whole as f64;
    let (colour, title) =
        (colour(frame), format!("{}: {}, {share:.1} %", frame.name, time(frame.ns)));
    let letters = ((width - 6.0) / LETTER) as usize;
    let name = label(frame, letters);
    format!(
        "<g><title>{}</title><rect class=\"f\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" \
         height=\"{ROW}\" fill=\"{colour}\"/><text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>\n",
        escaped(&title),
        x + 3.0,
        y + 13.0,
        escaped(&name),
    )
}

/// Returns as much of the name as fits into the box.
fn label(frame: &FlameBox<'_>, letters: usize) -> String {
    if letters < 4 {
        return String::new();
    }
    let name = match frame.depth {
        0 => format!("all: {}", time(frame.ns)),
        _ => abbreviate(frame.name),
    };
    match name.strip_prefix(HELD_BY) {
        // Without the prefix, the colour still shows that this is a holder.
        Some(holder) if letters < 2 * HELD_BY.len() => truncate(holder, letters),
        Some(holder) => format!("{HELD_BY}{}", truncate(holder, letters - HELD_BY.len())),
        None => truncate(&name, letters),
    }
}

/// Returns a colour that depends only on the name: blue for a holder, a warm colour for any other
/// frame.
fn colour(frame: &FlameBox<'_>) -> String {
    let hash = frame
        .name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (first, second) = (hash >> 8 & 0x3f, hash >> 20 & 0x3f);
    match frame.name.starts_with(HELD_BY) {
        true => format!("rgb({},{},235)", 130 + first, 175 + second / 2),
        false => format!("rgb({},{},{})", 225 + first / 3, 120 + second, 60 + first / 2),
    }
}

fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_its_least_specific_end() {
        let long = format!("a::B<{}>::f(int) x.cc:1", "x".repeat(60));
        for (name, letters, expected) in [
            ("f x.c:12", 3, ""),
            ("f x.c:12", 8, "f x.c:12"),
            ("function x.c:12", 9, "function…"),
            ("cache/src/maps.rs:12", 9, "…ps.rs:12"),
            ("held by cache/src/maps.rs:12", 18, "held by …aps.rs:12"),
            ("held by cache/src/maps.rs:12", 9, "…ps.rs:12"),
            (&long, 30, "a::B<…>::f(…) x.cc:1"),
        ] {
            let frame = FlameBox { name, depth: 1, start_ns: 0, ns: 1 };
            assert_eq!(label(&frame, letters), expected, "{name}");
            assert!(label(&frame, letters).chars().count() <= letters, "{name}");
        }
    }

    #[test]
    fn a_flame_graph_is_as_high_as_its_drawn_stacks() {
        let stack = |names: &[&str]| names.iter().map(|name| Rc::from(*name)).collect::<Vec<_>>();
        let narrow = stack(&["b", "c", "d", "e", "f"]);
        let stacks = Stacks::from([(stack(&["a"]), 1_000_000), (narrow, 1)]);
        let svg = draw(&stacks, "x");
        assert_eq!(svg.matches("<rect class=\"f\"").count(), 2, "{svg}");
        assert!(svg.contains("height=\"106\""), "{svg}");
    }
}
