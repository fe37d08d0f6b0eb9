//! Request heads as clients send them.

/// The request of a load generator.
const PLAIN: &str = "GET /1k/0 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// The request of a browser.
const BROWSER: &str = "GET /images/poster-large.webp?v=20260105 HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5\r\n\
    Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Referer: https://www.example.org/gallery/2026/index.html\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
    Sec-Fetch-Dest: image\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=5, i\r\n\r\n";

/// Both heads with their names.
pub(crate) const HEADS: [(&str, &[u8]); 2] =
    [("plain", PLAIN.as_bytes()), ("browser", BROWSER.as_bytes())];
