"""The differences between nginx and the imported Forebay, with their reasons."""

import dataclasses
import gzip
import typing


@dataclasses.dataclass(frozen=True)
class Difference:
    """A part of an answer that differs: `status`, `body`, or a field. `nginx`, or another server's
    `theirs`, and `forebay` have all parts of both answers."""

    request: typing.Any
    part: str
    theirs: typing.Any
    ours: typing.Any
    nginx: dict = dataclasses.field(hash=False)
    forebay: dict = dataclasses.field(hash=False)

    @property
    def statuses(self):
        return self.nginx["status"], self.forebay["status"]

    @property
    def path(self):
        return self.request.path

    def is_same_status(self, first, last):
        theirs, ours = self.statuses
        return theirs == ours and theirs.isdigit() and first <= int(ours) <= last

    def __str__(self):
        shown = [repr(value if not isinstance(value, bytes) else value[:40])
                 for value in (self.theirs, self.ours)]
        return f"{self.request}: {self.part}: theirs {shown[0]}, Forebay {shown[1]}"


@dataclasses.dataclass(frozen=True)
class Reason:
    """A reason, and the function that tells whether it explains a difference. The list must not
    have a reason without a difference in its case."""

    text: str
    applies: typing.Callable
    case: str = "answers"


def whole(*statuses, when=lambda difference: True):
    """Whether another status explains all parts of the answer."""
    return lambda difference: difference.statuses in statuses and when(difference)


def is_of(host):
    return lambda difference: difference.request.host == host


def is_odd(difference):
    """A path that is not in its normal form, as `docs/sites.md` and `docs/files.md` say."""
    path = difference.path
    return "//" in path or "/." in path or "%" in path


def own_page(difference):
    is_page = difference.part in ("body", "content-length", "content-type")
    return is_page and (difference.is_same_status(300, 399) or difference.is_same_status(400, 599))


def own_type(difference):
    known = {"application/javascript": "text/javascript; charset=utf-8",
             "application/octet-stream": "application/gzip"}
    return difference.part == "content-type" and difference.request.host == "static.test" and (
        difference.ours in (f"{difference.theirs}; charset=utf-8", known.get(difference.theirs)))


def same_gzip(difference):
    """Other compressed bytes of the same body, or their length."""
    answers = difference.nginx, difference.forebay
    if any(answer.get("content-encoding") != "gzip" for answer in answers):
        return False
    bodies = [answer["body"] for answer in answers]
    if difference.request.method == "HEAD" or difference.part == "accept-ranges":
        return difference.part in ("content-length", "accept-ranges")
    return difference.part in ("body", "content-length") and (
        gzip.decompress(bodies[0]) == gzip.decompress(bodies[1]))


def forwarded(difference):
    """An echo of the request that differs only in the fields about proxies."""
    def rest(answer):
        lines = answer["body"].split(b"\n")
        return [line for line in lines if not line.lower().startswith(b"x-forwarded-")]
    return (difference.part in ("body", "content-length")
            and difference.nginx.get("body", b"").startswith(difference.request.method.encode())
            and rest(difference.nginx) == rest(difference.forebay))


def has_field(difference, text):
    return any(text in field for field in difference.request.fields)


# Reasons for any configuration of nginx.
GENERAL = [
    Reason("Forebay's own answers are lines of text, those of nginx pages of HTML (error_pages)",
           own_page),
    Reason("Forebay's own answers must not be stored",
           lambda d: d.part == "cache-control" and (d.theirs, d.ours) == (None, "no-store")),
    Reason("nginx makes the path of a redirect an absolute URL",
           lambda d: d.part == "location" and d.ours and str(d.theirs).endswith(d.ours)),
    Reason("a response of which a compressed form exists varies (gzip_vary is off in nginx)",
           lambda d: d.part == "vary" and (d.theirs, d.ours) == (None, "accept-encoding")),
    Reason("another encoder; a stored length is known, and compressed bodies have no ranges",
           same_gzip),
    Reason("405 has Allow, as RFC 9110 section 15.5.6 demands",
           lambda d: d.part == "allow" and d.is_same_status(405, 405)),
    Reason("a 206 and a 416 say that ranges work",
           lambda d: d.part == "accept-ranges" and d.ours == "bytes"),
    Reason("304 has Last-Modified only if there is no tag (RFC 9110 section 15.4.5)",
           lambda d: d.part == "last-modified" and d.is_same_status(304, 304)),
    Reason("the challenge says that passwords are UTF-8",
           lambda d: d.part == "www-authenticate" and d.ours == f'{d.theirs}, charset="UTF-8"'),
]

# Reasons for the three sites.
REASONS = [
    Reason("a request beyond a rate limit gets 429 with Retry-After (docs/rate-limits.md)",
           whole(("503", "429"))),
    Reason("the redirect to https has status 308, which keeps the method (docs/tls.md)",
           whole(("301", "308"))),
    Reason("a final dot makes another host, which the default site has (docs/sites.md)",
           whole(("200", "308"), when=lambda d: d.request.host.endswith("."))),
    Reason("a request without a host cannot be redirected to https (docs/tls.md)",
           whole(("301", "421"), when=lambda d: not d.request.host)),
    Reason("paths that may belong to another route are refused (docs/sites.md)",
           whole(("401", "400"), ("403", "400"), ("200", "400"), when=is_odd)),
    Reason("files: paths that are not in their normal form, and names with a dot at the start, are "
           "not served (docs/files.md)",
           whole(("200", "404"), ("400", "404"),
                 when=lambda d: is_of("static.test")(d) and is_odd(d))),
    Reason("files: links that lead out of the directory are not served (docs/files.md)",
           whole(("200", "403"), when=lambda d: d.path == "/outside.txt")),
    Reason("TRACE is not implemented in Forebay, which says so by 501",
           whole(("405", "501"), when=lambda d: d.request.method == "TRACE")),
    Reason("OPTIONS * goes to the origin",
           whole(("400", "200"), when=lambda d: d.path == "*")),
    Reason("an invalid range is ignored, as RFC 9110 section 14.2 says",
           whole(("416", "200"))),
    Reason("ranges of stored responses are answered, though the origin does not (docs/ranges.md)",
           whole(("200", "206"), when=is_of("shop.test"))),
    Reason("Range has no meaning for HEAD (RFC 9110 section 14.2)",
           whole(("206", "200"), when=lambda d: d.request.method == "HEAD")),
    Reason("several ranges of a file that lie near each other are sent as one (docs/files.md)",
           lambda d: has_field(d, "0-9,20-29")),
    Reason("files: built-in types, and text is UTF-8 (files_types)", own_type),
    Reason("files: another form of tag (docs/files.md)",
           lambda d: d.part == "etag" and is_of("static.test")(d)),
    Reason("`Accept-Encoding: *` accepts gzip, which nginx does not see",
           lambda d: has_field(d, "Accept-Encoding: *")),
    Reason("a HEAD that goes to the files has the fields of the uncompressed form",
           lambda d: d.request.method == "HEAD" and has_field(d, "Accept-Encoding: gzip")),
    Reason("a decompressed response says that it has no ranges (docs/compression.md)",
           lambda d: d.part == "accept-ranges" and d.ours == "none" and "/packed/" in d.path),
    Reason("X-Forwarded-For and -Proto are always set, and clients cannot state them "
           "(docs/proxies.md)", forwarded),
    Reason("hsts is in all responses; add_header without `always` only in those without an error",
           lambda d: d.part == "strict-transport-security" and d.is_same_status(400, 599)),
    *GENERAL,
]
