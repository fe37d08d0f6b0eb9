//! A client for the admin interface of a running server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_server::config::{AdminAddress, RuntimeDir};
use forebay_server::engine::runtime_dir;

use crate::running_servers::{RunningServer, running_servers};
use crate::runtime_files::list;

/// The longest time that a server may take for each read of its answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Largest size in bytes of a line of a successful response, and of the body of a failed response.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Largest size in bytes of a response head.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// A response of the admin interface.
pub(crate) struct AdminAnswer {
    pub(crate) is_success: bool,
    pub(crate) body: String,
}

/// Returns the address of the admin interface that `--admin` names. Without `--admin`, or with
/// `auto`, this is that of the only server that runs with the default runtime directory.
///
/// # Errors
/// No server was found, several servers were found, the only one has left no address, or the given
/// address is invalid. The text is a message for the user.
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
    let servers = running_servers(dir);
    match &servers[..] {
        [] => Err(format!(
            "no running server found in {}; name its admin interface with --admin ADDR|PATH",
            dir.display()
        )),
        [RunningServer { admin: Some(admin), .. }] => Ok(admin.clone()),
        [unknown] => Err(format!(
            "a server is running, but has left no address in {}; name its admin interface with \
             --admin ADDR|PATH:\n{}",
            dir.display(),
            list(&[unknown])
        )),
        _ => Err(format!(
            "several servers are running; choose one with --admin:\n{}",
            list(&servers)
        )),
    }
}

/// Sends one request and reads the whole response.
///
/// # Errors
/// The text is a message for the user: which server failed to answer, and why.
pub(crate) fn ask(
    address: &AdminAddress,
    method: &str,
    path: &str,
    body: &str,
) -> Result<AdminAnswer, String> {
    let mut text = String::new();
    let answer = ask_by_line(address, (method, path, body), &mut |line| {
        text.push_str(line);
        ControlFlow::Continue(())
    })?;
    Ok(AdminAnswer { body: text + &answer.body, ..answer })
}

/// Sends one request, given as method, path and body. Each line of a successful response is passed
/// to `see` as it arrives, with its line end; `see` may stop the reading. The body of a failed
/// response is in the result.
///
/// # Errors
/// The text is a message for the user: which server failed to answer, and why.
pub(crate) fn ask_by_line(
    address: &AdminAddress,
    request: (&str, &str, &str),
    see: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<AdminAnswer, String> {
    let failed = |error: io::Error| format!("no answer from the server at {address}: {error}");
    let mut stream = connect(address)?.map_err(failed)?;
    let (method, path, body) = request;
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = BufReader::new(stream);
    let is_success = read_head(&mut answer).map_err(failed)?;
    let is_success =
        is_success.ok_or_else(|| format!("the server at {address} is not a Forebay server"))?;
    if !is_success {
        let mut body = String::new();
        answer.take(ANSWER_BYTES_MAX).read_to_string(&mut body).map_err(failed)?;
        return Ok(AdminAnswer { is_success, body });
    }
    let mut line = String::new();
    while (&mut answer).take(ANSWER_BYTES_MAX).read_line(&mut line).map_err(failed)? > 0 {
        if see(&line).is_break() {
            break;
        }
        line.clear();
    }
    Ok(AdminAnswer { is_success, body: String::new() })
}

fn connect(address: &AdminAddress) -> Result<io::Result<Box<dyn Stream>>, String> {
    Ok(match address {
        AdminAddress::Loopback(address) => TcpStream::connect_timeout(address, ANSWER_LIMIT)
            .and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_LIMIT))?;
                Ok(Box::new(stream) as Box<dyn Stream>)
            }),
        AdminAddress::Path(path) => UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        }),
        AdminAddress::Auto => return Err("the address `auto` names no admin interface".to_owned()),
    })
}

/// A connection to an admin interface.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Reads a response head up to its empty line. Returns whether the status is a success, or `None`
/// if the input is not an HTTP response.
fn read_head(answer: &mut impl BufRead) -> io::Result<Option<bool>> {
    let mut limited = answer.take(HEAD_BYTES_MAX);
    let mut line = Vec::new();
    limited.read_until(b'\n', &mut line)?;
    let status = str::from_utf8(&line).ok().and_then(|line| {
        let status = line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
        Some(status.starts_with('2'))
    });
    let Some(is_success) = status else {
        return Ok(None);
    };
    loop {
        line.clear();
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line == b"\r\n" {
            return Ok(Some(is_success));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_told_from_the_output_of_other_servers() {
        let head = |text: &str| read_head(&mut text.as_bytes()).expect("bytes do not fail");
        assert_eq!(head("HTTP/1.0 200 OK\r\na: b\r\n\r\nbody"), Some(true));
        assert_eq!(head("HTTP/1.1 422 X\r\n\r\n"), Some(false));
        for other in ["", "220 mail ESMTP\r\n", "HTTP/1.0 200 OK\r\n", "SSH-2.0-x\r\n\r\n"] {
            assert_eq!(head(other), None, "{other:?}");
        }
    }
}
