//! Asks the admin interface of a running server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_server::config::{AdminAddress, RuntimeDir};
use forebay_server::engine::runtime_dir;

use crate::runtime_files::{list, with_extension};

/// How long a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// More than any answer has.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// An answer of the admin interface.
pub(crate) struct AdminAnswer {
    pub(crate) is_success: bool,
    pub(crate) body: String,
}

/// Where a server's admin interface is: what `--admin` says, else the only one that answers.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn find(admin: Option<&String>) -> Result<AdminAddress, String> {
    if let Some(text) = admin {
        return match AdminAddress::parse(text)? {
            AdminAddress::Auto => only_one(&runtime_dir(&RuntimeDir::Auto)),
            address => Ok(address),
        };
    }
    only_one(&runtime_dir(&RuntimeDir::Auto))
}

fn only_one(dir: &Path) -> Result<AdminAddress, String> {
    let mut sockets = with_extension(dir, "admin");
    sockets.retain(|path| UnixStream::connect(path).is_ok());
    match sockets.len() {
        0 => Err(format!(
            "no running server found in {}; say where it is with --admin ADDR|PATH",
            dir.display()
        )),
        1 => Ok(AdminAddress::Path(sockets.remove(0))),
        _ => Err(format!("several servers run; choose one with --admin:\n{}", list(&sockets))),
    }
}

/// Sends one request and reads the whole answer.
///
/// # Errors
/// A sentence for the user: who could not be reached, and why.
pub(crate) fn ask(
    address: &AdminAddress,
    method: &str,
    path: &str,
    body: &str,
) -> Result<AdminAnswer, String> {
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = match address {
        AdminAddress::Loopback(address) => TcpStream::connect_timeout(address, ANSWER_LIMIT)
            .and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_LIMIT))?;
                exchange(stream, &request)
            }),
        AdminAddress::Path(path) => UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            exchange(stream, &request)
        }),
        AdminAddress::Auto => return Err("no admin address".to_owned()),
    };
    let answer =
        answer.map_err(|error| format!("no answer from the server at {address}: {error}"))?;
    parse(&answer).ok_or_else(|| format!("what answers at {address} is not a Forebay server"))
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn parse(answer: &str) -> Option<AdminAnswer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some(AdminAnswer { is_success: status.starts_with('2'), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_other_servers_output() {
        let ok = parse("HTTP/1.0 200 OK\r\na: b\r\n\r\nbody").expect("an answer");
        assert!(ok.is_success && ok.body == "body");
        assert!(!parse("HTTP/1.1 422 X\r\n\r\n").expect("an answer").is_success);
        for other in ["", "220 mail ESMTP\r\n", "HTTP/1.0 200 OK\r\n", "SSH-2.0-x\r\n\r\n"] {
            assert!(parse(other).is_none(), "{other:?}");
        }
    }
}
