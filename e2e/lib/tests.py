"""Tests of the scripts' library: run `python3 -m unittest lib.tests` in e2e/."""

import pathlib
import tempfile
import unittest

from lib import differences, h2frames, rulefiles, smugglers
from lib.wire import Answer, Origin, get, response

RULES = """# What it shows.
#! scope both
#! with Server
#> GET /a
#> X-In: 1
#> once POST /b
#> more GET /c
set-header X-A b
"""
LISTED = """# Differences

### one global 1, one remap 1
Because.
```diff
-  200 OK
+  299 OK
```

### two remap load
(why)
```diff
-accepted
+refused
```

### one global 1
Twice.
```diff
```
"""


def in_file(text, what):
    """Returns the result of `what` for the path of a file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "name.conf")
        path.write_text(text, encoding="utf-8")
        return what(path)


class Tests(unittest.TestCase):
    def test_frames_of_http2_are_written_as_in_the_rfcs(self):
        self.assertEqual(h2frames.integer(10, 5), b"\x0a")
        self.assertEqual(h2frames.integer(1337, 5), b"\x1f\x9a\x0a")  # RFC 7541 C.1.2
        self.assertEqual(h2frames.literal("custom-key", "custom-header", indexed=True),
                         b"\x40\x0acustom-key\x0dcustom-header")  # RFC 7541 C.2.1
        self.assertEqual(h2frames.settings((4, 1)), b"\0\0\6\4\0\0\0\0\0\0\4\0\0\0\1")
        self.assertEqual(h2frames.reset(3), b"\0\0\4\3\0\0\0\0\3\0\0\0\x08")

    def test_vectors_replace_pseudo_fields_or_add_lines(self):
        for vector, expected in [
            ([("x", "y")], [("x", "y")]),
            ([(":path", None)], []),
            ([(":path", "/"), (":path", "/again")], [(":path", "/again")]),
            ([("x", "y"), (":path", "/again")], [("x", "y"), (":path", "/again")]),
        ]:
            lines = smugglers.lines_of(vector, "https")
            base = sum(name in smugglers.BASE for name, _ in lines[:4])
            self.assertEqual(lines[base:], expected)
        self.assertGreaterEqual(len(smugglers.vectors("http")), 100)

    def test_a_rule_file_carries_requests(self):
        rules = in_file(RULES, rulefiles.RuleFile)
        self.assertEqual((rules.name, rules.about), ("name", "What it shows."))
        self.assertEqual((rules.scopes, rules.also), (["global", "remap"], {"server"}))
        self.assertEqual([(r.kind, r.method, r.target, r.fields) for r in rules.requests],
                         [("twice", "GET", "/a", ["X-In: 1"]), ("once", "POST", "/b", []),
                          ("more", "GET", "/c", [])])
        self.assertEqual(rules.requests[1].bytes("h"),
                         b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")

    def test_a_rule_file_that_is_incomplete_or_malformed_is_an_error(self):
        for gone, put in [("#! scope both\n", ""), ("scope both", "scope all"), ("with", "unlike"),
                          ("# What it shows.\n", ""), ("#> X-In: 1", "#> X-In 1"),
                          ("#> GET /a\n", "")]:
            with self.assertRaises(ValueError, msg=put or gone):
                in_file(RULES.replace(gone, put), rulefiles.RuleFile)

    def test_outcomes_are_read_as_they_were_written(self):
        outcomes = {"global": {"load": ["accepted", "# said"], "1": ["GET /a", "  200 OK"]},
                    "remap": rulefiles.refused()}
        self.assertEqual(rulefiles.read(rulefiles.write(outcomes)), outcomes)

    def test_a_recording_of_other_requests_is_rejected(self):
        rules = in_file(RULES, rulefiles.RuleFile)
        blocks = {"load": ["accepted"], "1": ["GET /a"], "2": ["POST /b"], "3": ["GET /c"]}
        self.assertTrue(rulefiles.is_of(blocks, rules))
        self.assertTrue(rulefiles.is_of({"load": ["refused", "# why"]}, rules))
        self.assertFalse(rulefiles.is_of({**blocks, "2": ["GET /b"]}, rules))
        self.assertFalse(rulefiles.is_of({"load": ["accepted"]}, rules))
        self.assertFalse(rulefiles.is_of({}, rules))

    def test_the_origin_answers_as_the_request_tells_it(self):
        head = "GET / HTTP/1.1\r\nAnswer: X-A: 1\r\nAnswer: X-A: 2\r\nAnswer-Status: 404 No"
        self.assertEqual(rulefiles.answer_of(head),
                         b"HTTP/1.1 404 No\r\nX-A: 1\r\nX-A: 2\r\nCache-Control: max-age=60\r\n"
                         b"Content-Length: 5\r\n\r\npage\n")

    def test_messages_that_client_and_origin_get_become_lines(self):
        rules = in_file(RULES, rulefiles.RuleFile)
        with rulefiles.origin() as origin:
            blocks = rulefiles.outcome(rules, origin, origin.port, "h")
        self.assertEqual(list(blocks), ["load", "1", "2", "3"])
        once = ["  200 OK", "  origin: GET /a HTTP/1.1", "    host: h", "    x-in: 1"]
        self.assertEqual(blocks["1"], ["GET /a", *once, "again", *once])

    def test_repeated_lines_of_an_answer_are_kept(self):
        answer = response("x", "X-A: 1", "x-a: 2", status="404 Not Here")
        with Origin(lambda *_: answer) as origin:
            seen = get(origin.port, "/")
        self.assertEqual((seen.line, seen.status), ("HTTP/1.1 404 Not Here", 404))
        self.assertEqual(seen.lines, ["X-A: 1", "x-a: 2", "Content-Length: 1"])
        self.assertEqual(seen.fields["x-a"], "2")
        self.assertEqual(Answer(["HTTP/1.1 200 OK"], b"", True).fields, {})

    def test_a_diff_ignores_comments_of_the_recording(self):
        self.assertEqual(differences.diff(["a", "# said", "b"], ["a", "c"]), ["- b", "+ c"])
        self.assertEqual(differences.diff(["a", "# said"], ["a"]), [])

    def test_listed_differences_are_read_and_need_a_reason(self):
        listed = in_file(LISTED, differences.List)
        self.assertEqual(listed.expected("one", "remap", "1"), ["-  200 OK", "+  299 OK"])
        self.assertEqual(listed.expected("one", "remap", "2"), [])
        self.assertEqual([problem.split(":")[0] for problem in listed.problems],
                         ["### two remap load", "### one global 1"])


if __name__ == "__main__":
    unittest.main()
