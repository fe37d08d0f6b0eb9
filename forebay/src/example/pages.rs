//! The pages of the example site and their cache headers.

use std::time::SystemTime;

/// A page as the origin serves it.
pub(super) struct ExamplePage {
    pub(super) content_type: &'static str,
    pub(super) cache_control: &'static str,
    pub(super) body: PageBody,
}

/// The body of a page, and the way in which it is sent.
pub(super) enum PageBody {
    /// The whole text is sent in one piece, after a delay.
    Text { text: String, delay_ms: u64, missing: bool },
    /// The lines are sent as chunks, with a pause after each chunk.
    Slow { lines: Vec<String>, pause_ms: u64 },
    /// A body of this size is sent, which consists of a single repeated byte.
    Large { bytes: u64 },
}

impl ExamplePage {
    /// Length of the body, if it is known in advance.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.body {
            PageBody::Text { text, .. } => Some(text.len() as u64),
            PageBody::Slow { .. } => None,
            PageBody::Large { bytes } => Some(*bytes),
        }
    }

    /// Whether this page stands for a page that does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.body, PageBody::Text { missing: true, .. })
    }
}

/// Time that this origin takes to render a page.
const RENDER_MS: u64 = 120;

/// Length of the large page, which exceeds the default limit for stored bodies. A length such as 1
/// GiB would take too long to try.
const LARGE_BYTES: u64 = 256 << 20;

const HTML: &str = "text/html; charset=utf-8";

/// Returns the page at a path.
pub(super) fn page(path: &str) -> ExamplePage {
    let path = path.split('?').next().unwrap_or_default();
    match path {
        "/" => text(HTML, "public, max-age=60", front_page()),
        "/style.css" => text("text/css", "public, max-age=3600", STYLE.to_owned()),
        "/time" => text(HTML, "no-store", time_page()),
        "/slow" => ExamplePage {
            content_type: "text/plain; charset=utf-8",
            cache_control: "public, max-age=60",
            body: PageBody::Slow {
                lines: (1..=10).map(|n| format!("line {n} of 10, made at {}\n", now())).collect(),
                pause_ms: 300,
            },
        },
        "/large" => ExamplePage {
            content_type: "application/octet-stream",
            cache_control: "public, max-age=3600",
            body: PageBody::Large { bytes: LARGE_BYTES },
        },
        _ => match path.strip_prefix("/picture/").and_then(|name| name.strip_suffix(".svg")) {
            Some(name) if !name.is_empty() => {
                text("image/svg+xml", "public, max-age=3600", picture(name))
            }
            _ => missing(),
        },
    }
}

fn text(content_type: &'static str, cache_control: &'static str, text: String) -> ExamplePage {
    let body = PageBody::Text { text, delay_ms: RENDER_MS, missing: false };
    ExamplePage { content_type, cache_control, body }
}

fn missing() -> ExamplePage {
    let text = "there is no such page\n".to_owned();
    let body = PageBody::Text { text, delay_ms: 0, missing: true };
    ExamplePage { content_type: "text/plain; charset=utf-8", cache_control: "no-store", body }
}

/// Returns the seconds since 1970, which are precise enough to recognise a stored copy.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

fn front_page() -> String {
    let pictures: String = ["reeds", "heron", "sluice"]
        .map(|name| {
            format!(
                "<figure><img src=\"/picture/{name}.svg\" alt=\"{name}\" width=\"220\" \
             height=\"140\"><figcaption>{name}</figcaption></figure>"
            )
        })
        .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><title>The forebay</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <link rel=\"stylesheet\" href=\"/style.css\"></head>\n<body><h1>The forebay</h1>\n\
         <p>This page was made by the origin at second <b>{}</b>. It took the origin \
         {RENDER_MS} ms. Load it again: \
         the number stays for a minute, and the page comes immediately.</p>\n\
         <div class=\"row\">{pictures}</div>\n\
         <ul><li><a href=\"/time\">/time</a> is never stored</li>\n\
         <li><a href=\"/slow\">/slow</a> takes three seconds; open it twice at the same time</li>\n\
         <li><a href=\"/large\">/large</a> has 256 MiB and passes through</li></ul>\n\
         </body></html>\n",
        now()
    )
}

fn time_page() -> String {
    format!(
        "<!doctype html>\n<title>Time</title>\n<p>It is second {} and this is new.</p>\n",
        now()
    )
}

const STYLE: &str = "body { font: 17px/1.5 Georgia, serif; max-width: 46em; margin: 3em auto; \
     padding: 0 1.2em; color: #1d3440; background: #f4f8f7 }\n\
     h1 { font-weight: normal; letter-spacing: .02em }\n\
     .row { display: flex; flex-wrap: wrap; gap: 1em }\n\
     figure { margin: 0; text-align: center; font-size: 14px }\n\
     img { border-radius: 6px }\na { color: #0b6e7f }\n";

/// Returns a small SVG picture whose colours and waves depend on its name.
fn picture(name: &str) -> String {
    let seed = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
    let hue = 170 + seed % 60;
    let waves: String = (0..5u32)
        .map(|row| {
            let y = 60 + row * 17;
            let rise = 6 + (seed >> row) % 12;
            format!(
                "<path d=\"M0 {y} q 27 -{rise} 55 0 t 55 0 t 55 0 t 55 0 V140 H0 Z\" \
                 fill=\"hsl({hue} 45% {}%)\"/>",
                72 - row * 9
            )
        })
        .collect();
    let sun = 30 + seed % 160;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 220 140\">\
         <rect width=\"220\" height=\"140\" fill=\"hsl({hue} 60% 92%)\"/>\
         <circle cx=\"{sun}\" cy=\"34\" r=\"16\" fill=\"hsl(42 90% 70%)\"/>{waves}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_front_page_leads_to_a_page() {
        let front = front_page();
        let links: Vec<_> = front
            .split(['"'])
            .filter(|part| part.starts_with('/') && !part.contains('<'))
            .collect();
        assert!(links.len() >= 7, "{links:?}");
        for link in links {
            assert!(!page(link).is_missing(), "{link}");
        }
        assert!(page("/nothing").is_missing());
    }
}
