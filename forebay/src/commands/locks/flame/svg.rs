//! Boxes on boxes: as wide as what was lost in them, the beginning of a stack below.

use std::rc::Rc;

use super::Stacks;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
const TITLE: f64 = 40.0;

/// Of a letter of the font, about.
const LETTER: f64 = 6.7;

/// Narrower boxes are not drawn.
const WIDTH_MIN: f64 = 0.3;

/// Higher stacks are cut off.
const DEPTH_MAX: usize = 128;

/// A box of the picture.
struct Frame<'a> {
    name: &'a str,
    depth: usize,
    start_ns: u64,
    ns: u64,
}

/// The picture as a document.
pub(super) fn draw(stacks: &Stacks, title: &str) -> String {
    let frames = frames(stacks);
    let whole = stacks.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns)).max(1);
    let depth = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(1);
    let height = TITLE + depth as f64 * ROW + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>.f {{ stroke: #fff; stroke-width: 0.5 }} .f:hover {{ stroke: #000 }} \
         text {{ pointer-events: none }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdf8\"/>\n\
         <text x=\"{}\" y=\"24\" font-size=\"15\" text-anchor=\"middle\">{}</text>\n",
        WIDTH / 2.0,
        escaped(title),
    );
    let scale = (WIDTH - 2.0 * MARGIN) / whole as f64;
    for frame in &frames {
        let (x, width) = (MARGIN + frame.start_ns as f64 * scale, frame.ns as f64 * scale);
        if width >= WIDTH_MIN {
            let y = height - MARGIN - (frame.depth + 1) as f64 * ROW;
            svg += &drawn(frame, (x, y, width), whole);
        }
    }
    svg + "</svg>\n"
}

/// All boxes: in the order of the stacks, those that begin alike are one.
fn frames(stacks: &Stacks) -> Vec<Frame<'_>> {
    let mut frames = vec![Frame { name: "all", depth: 0, start_ns: 0, ns: 0 }];
    // The boxes that the stack before lies in, from below.
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
            frames.push(Frame { name, depth: open.len(), start_ns: at_ns, ns: 0 });
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

fn drawn(frame: &Frame<'_>, (x, y, width): (f64, f64, f64), whole: u64) -> String {
    let share = frame.ns as f64 * 100.0 / whole as f64;
    let (colour, title) =
        (colour(frame), format!("{}: {}, {share:.1} %", frame.name, time(frame.ns)));
    let letters = ((width - 6.0) / LETTER) as usize;
    let name = match frame.name.chars().count() {
        count if count <= letters => frame.name.to_owned(),
        _ if letters < 4 => String::new(),
        // The end of a path tells more than its beginning.
        count => {
            let end: String = frame.name.chars().skip(count - letters + 1).collect();
            format!("…{end}")
        }
    };
    format!(
        "<g><title>{}</title><rect class=\"f\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" \
         height=\"{ROW}\" fill=\"{colour}\"/><text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>\n",
        escaped(&title),
        x + 3.0,
        y + 13.0,
        escaped(&name),
    )
}

/// The same name has the same colour; who held a lock is blue, all else is warm.
fn colour(frame: &Frame<'_>) -> String {
    let hash = frame
        .name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (first, second) = (hash >> 8 & 0x3f, hash >> 20 & 0x3f);
    match frame.name.starts_with("held by ") {
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
