//! Writes parts of a message to a buffer that the caller reuses.
//!
//! Nothing here allocates while the buffer has spare capacity. Nothing is validated: the caller
//! passes names and values that were parsed or are constants.

use crate::date::DATE_BYTES;

/// Appends `HTTP/1.1 200 OK` and CRLF (RFC 9112 §4).
///
/// The version is always 1.1, because it is that of the sender (RFC 9110 §2.5).
pub fn status_line(out: &mut Vec<u8>, status: u16) {
    status_line_with(out, status, None);
}

/// Appends a status line like [`status_line`], with a custom reason phrase, which must be a valid
/// field value.
pub fn status_line_with(out: &mut Vec<u8>, status: u16, reason: Option<&[u8]>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason.unwrap_or(reason_phrase(status).as_bytes()));
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value` and CRLF.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: 123` and CRLF.
pub fn number_field(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Appends a Date field (RFC 9110 §6.6.1). `date` comes from `date::write_date`, which a caller
/// needs only once a second.
pub fn date_field(out: &mut Vec<u8>, date: &[u8; DATE_BYTES]) {
    field(out, b"Date", date);
}

/// Appends the decimal digits of a number.
pub fn decimal(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + number as u8);
        return;
    }
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number;
    // Two digits per division, because divisions dominate the cost.
    while rest >= 100 {
        let pair = &PAIRS[(rest % 100) as usize];
        rest /= 100;
        start -= 2;
        digits[start..start + 2].copy_from_slice(pair);
    }
    let [tens, ones] = PAIRS[rest as usize];
    start -= 1;
    digits[start] = ones;
    if rest >= 10 {
        start -= 1;
        digits[start] = tens;
    }
    out.extend_from_slice(&digits[start..]);
}

/// The decimal digits of the numbers `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Returns the registered reason phrase of a status code, or an empty text (RFC 9110 §15).
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => error_phrase(status),
    }
}

const fn error_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("all of it is ASCII")
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power.wrapping_mul(7)]);
        for number in (0..1_100).chain(near).chain([u64::MAX]) {
            assert_eq!(written(|out| decimal(out, number)), number.to_string());
        }
    }

    #[test]
    fn lines_are_written_as_they_go_on_the_wire() {
        assert_eq!(written(|out| status_line(out, 200)), "HTTP/1.1 200 OK\r\n");
        assert_eq!(written(|out| status_line(out, 599)), "HTTP/1.1 599 \r\n");
        assert_eq!(written(|out| field(out, b"ETag", b"\"x\"")), "ETag: \"x\"\r\n");
        assert_eq!(written(|out| number_field(out, b"Age", 10)), "Age: 10\r\n");
        let date = crate::date::write_date(784_111_777);
        let line = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(written(|out| date_field(out, &date)), line);
    }
}
