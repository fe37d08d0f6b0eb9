//! Reads the requests of one connection and writes the pages.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::pages::{self, ExamplePage, page};

/// The limits of a request head. Forebay's own limits are lower.
const LINE_BYTES_MAX: u64 = 64 << 10;
const LINES_MAX: usize = 1000;

/// The answer to any method other than GET and HEAD, because the pages are read-only.
const REFUSAL: &str = "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n\
     Connection: close\r\nContent-Length: 0\r\n\r\n";

/// Serves the requests of one connection until it ends.
///
/// # Errors
/// The connection was lost, or the input is not a request.
pub(super) fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some((method, path)) = read_head(&mut reader)? {
        if method != "GET" && method != "HEAD" {
            // The connection is closed, because the request may have a body, which is not read.
            return { stream }.write_all(REFUSAL.as_bytes());
        }
        write_page(stream, &method, &page(&path))?;
    }
    Ok(())
}

/// Returns the method and the path of the next request; `None` at the end of the connection.
fn read_head(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<(String, String)>> {
    let mut first = String::new();
    for count in 0..LINES_MAX {
        let mut line = String::new();
        let bytes = io::Read::take(&mut *reader, LINE_BYTES_MAX).read_line(&mut line)?;
        if bytes == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            let mut words = first.split(' ').map(str::to_owned);
            return Ok(words.next().zip(words.next()));
        }
        if count == 0 {
            first = line;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn write_page(mut stream: &TcpStream, method: &str, page: &ExamplePage) -> io::Result<()> {
    let framing = match page.length() {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_owned(),
    };
    let status = if page.is_missing() { "404 Not Found" } else { "200 OK" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nCache-Control: {}\r\n{framing}\r\n\r\n",
        page.content_type, page.cache_control
    );
    stream.write_all(head.as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    match &page.body {
        pages::PageBody::Text { text, delay_ms, .. } => {
            std::thread::park_timeout(Duration::from_millis(*delay_ms));
            stream.write_all(text.as_bytes())
        }
        pages::PageBody::Slow { lines, pause_ms } => {
            for line in lines {
                write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
                std::thread::park_timeout(Duration::from_millis(*pause_ms));
            }
            stream.write_all(b"0\r\n\r\n")
        }
        pages::PageBody::Large { bytes } => write_large(stream, *bytes),
    }
}

fn write_large(mut stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let block = vec![b'~'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        stream.write_all(block.get(..count).unwrap_or_default())?;
        left -= count as u64;
    }
    Ok(())
}
