"""Tests of the driver's pure parts: python3 -m unittest lib.tests, in bench/."""

import argparse
import gzip
import pathlib
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

import rules
from lib import (chart, clients, files, origins, process, proof, report, rulesets, slopes,
                 workloads)
from lib.errors import Broken, Usage
from lib.servers import Spec, parse_curl

WRK = """Running 1s test @ http://127.0.0.1:1/1k/0
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   621.01us  214.03us   4.52ms   91.60%
  Latency Distribution
     50%  624.00us
     75%  672.00us
     90%  800.00us
     99%    1.55ms
  86685 requests in 1.10s, 107.85MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 3
Requests/sec:  78804.55
"""

H2LOAD = """finished in 2.00s, 176860.00 req/s, 193.52MB/s
requests: 353720 total, 354360 started, 353720 done, 353717 succeeded, 1 failed, 2 errored, 0 timeout
status codes: 353717 2xx, 0 3xx, 1 4xx, 2 5xx
traffic: 387.05MB (405848842) total, 19.90MB (20866000) headers (space savings 81.5%), 345.43MB data
"""


def sample(us, foreign=0.0, compilers=(), **more):
    return {"us": us, "per_second": 1000, "foreign_cores": foreign, "server_cores": 0.5,
            "p50_us": 1, "p99_us": 2, "compilers": list(compilers), "problems": [], **more}


class Tests(unittest.TestCase):
    def test_the_output_of_wrk_is_read(self):
        result = clients.parse_wrk(WRK)
        self.assertEqual(result["requests"], 86685)
        self.assertAlmostEqual(result["per_second"], 78804.5, delta=0.1)
        self.assertAlmostEqual(result["p50_us"], 624)
        self.assertAlmostEqual(result["p99_us"], 1550)
        self.assertEqual(result["errors"], 6)
        with self.assertRaises(Broken):
            clients.parse_wrk("unable to connect")

    def test_the_output_of_h2load_is_read(self):
        result = clients.parse_h2load(H2LOAD, 2)
        self.assertEqual(result, {"requests": 353_720, "per_second": 176_860, "errors": 6})
        with self.assertRaises(Broken):
            clients.parse_h2load("could not connect", 2)

    def test_resumed_handshakes_are_errors_or_a_share(self):
        full, resume = (workloads.WORKLOADS[f"1k-tls-{name}"] for name in ("close", "resumed"))
        for workload, resumed, errors, percent in [(full, 0, 3, None), (full, 5, 8, None),
                                                   (resume, 900, 3, 90)]:
            seen = {"requests": 1000, "resumed": resumed, "not_ok": 1, "failed": 2}
            seen = clients.from_handshakes(seen, workload)
            self.assertEqual((seen["errors"], seen.get("resumed_percent")), (errors, percent))
        notes = report.summarise([sample(1, resumed_percent=90)], 100)["notes"]
        self.assertEqual(notes, ["90 % resumed"])

    def test_the_output_of_curl_is_read(self):
        one = b"HTTP/2 200 \r\ncontent-length: 7\r\nx: a: b\r\n\r\nHTTP/1\n"
        two = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        self.assertEqual(parse_curl(one + two), [
            ("HTTP/2 200 ", [("content-length", "7"), ("x", "a: b")], b"HTTP/1\n"),
            ("HTTP/1.1 404 Not Found", [("Content-Length", "0")], b"")])
        with self.assertRaises(Broken):
            parse_curl(b"HTTP/2 200 \r\n\r\nx")

    def test_the_quietest_runs_are_kept_and_compilers_go_first(self):
        runs = [sample(1, 0.5), sample(2, 0.0), sample(3, 0.0, ["rustc"]), sample(4, 0.1)]
        for percent, want in [(25, [2]), (50, [2, 4]), (60, [2, 4, 1]), (100, [2, 4, 1, 3])]:
            kept = [s["us"] for s in report.quietest(runs, percent)]
            self.assertEqual(kept, want, f"{percent} %")

    def test_ratios_divide_forebay_by_the_other(self):
        results = {"w": {"haproxy": [sample(8)], "forebay": [sample(4), sample(6)]}}
        rows = report.summaries(results, 100)["w"]
        self.assertEqual(list(rows), ["forebay", "haproxy"])
        self.assertAlmostEqual(rows["haproxy"]["forebay_ratio"], 5 / 8)
        self.assertEqual((rows["forebay"]["us_min"], rows["forebay"]["us_max"]), (4, 6))
        alone = report.summaries({"w": {"haproxy": [sample(8)]}}, 100)["w"]
        self.assertIsNone(alone["haproxy"]["forebay_ratio"])

    def test_a_caption_says_how_many_of_the_runs_count(self):
        tables = report.summaries({"w": {"forebay": [sample(us) for us in (1, 2, 3, 4)]}}, 60)
        record = {"machine": {}, "versions": {}, "settings": {}, "command": "", "left out": [],
                  "tables": tables}
        self.assertIn("\nhits. Median of the 3 quietest of 4 runs.\n",
                      report.markdown(record, {"w": "hits"}))

    def test_doubtful_figures_say_so(self):
        for samples, note in [
            ([sample(1, 0.0, ["cc1"])], "NOT QUOTABLE"),
            ([sample(1, 0.5)], "noisy"),
            ([sample(1, 0.0)], ""),
        ]:
            notes = "; ".join(report.summarise(samples, 100)["notes"])
            self.assertTrue(notes.startswith(note) and bool(notes) == bool(note), notes)

    def test_workloads_are_chosen_by_name_group_and_pattern(self):
        for text, want in [
            ("mixed", ["mixed"]),
            ("pass-*k,mixed,pass-1k", ["pass-1k", "pass-64k", "mixed"]),
            ("*-o10", ["pass-1k-o10", "miss-1k-o10"]),
            ("1k-u1-*", ["1k-u1-c64", "1k-u1-c64-close", "1k-u1-c640", "1k-u1-c640-close"]),
        ]:
            self.assertEqual([w.name for w in workloads.select(text)], want, text)
        with self.assertRaises(Usage):
            workloads.select("2k-u1-c64")

    def test_every_group_names_workloads(self):
        for group, members in workloads.GROUPS.items():
            self.assertLessEqual(set(members), set(workloads.WORKLOADS), group)

    def test_servers_carry_settings(self):
        specs = Spec.parse_list("nginx@SENDFILE=on+THREADS=2,haproxy")
        self.assertEqual([s.name for s in specs], ["nginx", "haproxy"])
        self.assertEqual(specs[0].settings, {"SENDFILE": "on", "THREADS": "2"})
        for wrong in ("apache", "nginx@SENDFILE"):
            with self.assertRaises(Usage):
                Spec.parse_list(wrong)

    def test_processors_are_lists_and_ranges(self):
        for text, want in [("0", {0}), ("0,2", {0, 2}), ("1-3,5", {1, 2, 3, 5})]:
            self.assertEqual(process.parse_cpus(text), want, text)
        with self.assertRaises(ValueError):
            process.parse_cpus("a")

    def test_switches_of_a_tree_are_those_of_all_its_threads(self):
        with subprocess.Popen(["sh", "-c", "while :; do sleep 0.02; done"]) as root:
            first, limit = process.tree_switches(root.pid), time.monotonic() + 20
            while process.tree_switches(root.pid) <= first and time.monotonic() < limit:
                time.sleep(0.05)
            self.assertGreater(process.tree_switches(root.pid), first)
            process.stop(root)
        self.assertEqual(process.tree_switches(root.pid), 0, "an ended process has no switches")

    def test_results_replace_what_stands_between_the_marks(self):
        begin, end = report.PAGE_MARKS
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text(f"# Head\n{begin}\nold\n{end}\ntail\n", encoding="utf-8")
            report.fill_page(page, "new\n")
            self.assertEqual(page.read_text(encoding="utf-8"),
                             f"# Head\n{begin}\nnew\n{end}\ntail\n")
            page.write_text("no marks", encoding="utf-8")
            with self.assertRaises(Usage):
                report.fill_page(page, "new\n")

    def test_each_section_of_a_page_has_its_own_marks(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            text = "".join("\n".join(report.page_marks(name)) + "\n" for name in report.SECTIONS)
            page.write_text(text, encoding="utf-8")
            for name in report.SECTIONS:
                report.fill_page(page, f"{name} new\n", report.page_marks(name))
            seen = page.read_text(encoding="utf-8").splitlines()
            begin, end = report.page_marks("sites")
            self.assertEqual(seen[3:6], [begin, "sites new", end])
            self.assertEqual(seen[1], "results new")

    def test_targets_reach_every_group_of_origins(self):
        for count, folders in [(1, ["/1k"]), (10, ["/1k"]),
                               (100, [f"/group/{i}/1k" for i in range(10)])]:
            workload = workloads.WORKLOADS[f"miss-1k-o{count}"]
            self.assertEqual(workload.folders, folders, count)
            targets = workload.targets_from(7_000_000)
            self.assertEqual(len(set(targets)), 100, count)
            for folder in folders:
                share = [t for t in targets if t.startswith(folder + "/")]
                self.assertEqual(len(share), 100 // len(folders), folder)

    def test_every_server_has_all_origins(self):
        parts = {"forebay": [""], "nginx": ["upstreams", "locations"],
                 "haproxy": ["backends", "choice"], "varnish": ["backends", "directors", "choice"],
                 "trafficserver": ["remap", "parents"]}
        self.assertEqual(parts.keys(), origins.LANGUAGES.keys())
        for server, names in parts.items():
            for count in (1, 10, 100):
                text = "\n".join(line for part in names
                                 for line in origins.lines(server, 18000, count, part))
                if (server, count) == ("varnish", 1):
                    self.assertEqual(text, "")  # Its one backend is in the template.
                    continue
                for address in origins.addresses(count):
                    self.assertRegex(text, rf"\b{address}[:\"]", f"{server} {count}")
                seen = {prefix for prefix in origins.prefixes(100)
                        if any(f"{prefix}{end}" in text for end in '/"')}
                self.assertEqual(len(seen), 10 if count == 100 else 0, f"{server} {count}")
        self.assertEqual(origins.lines("trafficserver", 1, 1, "remap"),
                         ["map / http://127.0.0.1:1/"])
        self.assertEqual(origins.lines("trafficserver", 1, 1, "parents"), [])

    def test_no_list_has_more_origins_than_forebay_takes(self):
        for count in (1, 2, 10, 11, 100):
            parts = origins.groups(count)
            self.assertLessEqual(max(len(members) for _, members in parts), 16, count)
            self.assertEqual({a for _, members in parts for a in members},
                             set(origins.addresses(count)), count)

    def test_uneven_shares_are_seen(self):
        for after, count, even in [([110, 90], 2, True), ([130, 70], 2, False),
                                   ([200, 0], 2, False), ([200, 0], 1, True), ([1, 0], 2, True)]:
            self.assertEqual(not proof.uneven([0, 0], after, count), even, after)

    def test_shares_of_origins_are_proven(self):
        workload = workloads.WORKLOADS["pass-1k-o10"]
        for case, shares, holds in [("in turn", [4] * 10, True),
                                    ("one gets none", [4] * 9 + [0], False),
                                    ("one gets most", [1] * 9 + [31], False)]:
            class Origin:
                """An origin whose counters grow by these shares."""
                seen = iter([[5] * 100, [5 + share for share in shares] + [5] * 90])

                def counts(self):
                    return next(self.seen)
            answering = Answering([], b"x" * 1024)
            try:
                proof._check_shares(answering, Origin(), workload)
                seen = True
            except Broken:
                seen = False
            self.assertEqual(seen, holds, case)

    def test_a_compressed_body_must_be_one(self):
        coded, field = gzip.compress(b"text"), [("Content-Encoding", "gzip")]
        self.assertEqual(proof.decoded("a", "/", coded, field, "gzip"), b"text")
        self.assertEqual(proof.decoded("a", "/", b"text", [], ""), b"text")
        for body, fields, coding in [(b"text", [], "gzip"), (coded, field, ""),
                                     (b"text", field, "gzip"), (coded[:9], field, "gzip")]:
            with self.assertRaises(Broken, msg=(body, fields, coding)):
                proof.decoded("a", "/", body, fields, coding)

    def test_servers_that_cannot_serve_a_workload_say_why(self):
        for server, workload, able in [
            ("haproxy", "file-1k", False), ("nginx@SENDFILE=on", "file-1k", True),
            ("forebay", "file-1m", True), ("haproxy", "hit-gzip-10k", True),
            ("bare-tokio", "hit-gzip-10k", False), ("bare-tokio", "pass-1k-o10", False),
            ("bare-tokio", "1k-u1-c64", True), ("bare-epoll", "mixed", False),
        ]:
            spec, = Spec.parse_list(server)
            reason = workloads.WORKLOADS[workload].unable(spec)
            self.assertEqual(not reason, able, f"{server} {workload}")
        tables = report.summaries({"file-1k": {"forebay": [sample(1)]}}, 60)
        record = {"machine": {}, "versions": {}, "settings": {}, "command": "", "left out": [],
                  "tables": tables,
                  "unable": {"file-1k": {"a": "no files", "b": "no code", "c": "no files"}}}
        self.assertIn("\nNot compared: a, c (no files); b (no code).\n",
                      report.markdown(record, {"file-1k": "files"}))

    def test_each_file_is_unlike_the_others(self):
        chosen = [workloads.WORKLOADS[name] for name in ("file-1k", "file-1m")]
        contents = [files.content(t, w.body_bytes) for w in chosen for t in w.targets]
        self.assertEqual(len(set(contents)), len(contents))
        self.assertEqual({len(content) for content in contents}, {1024, 2**20})

    def test_unique_urls_begin_at_another_number_each_time(self):
        server = argparse.Namespace(port=1)
        numbers = lambda name: [str(word) for word in clients._wrk(
            server, workloads.WORKLOADS[name], 1)]
        first, second = (numbers("miss-1k-o10") for _ in range(2))
        at = first.index("from") + 1
        self.assertLess(int(first[at]), int(second[at]))
        self.assertEqual(first[at + 1:], ["/1k"])
        self.assertEqual(numbers("pass-1k-o100")[-12:-9], ["below", "100", "/group/0/nocache/1k"])

    def test_labels_keep_their_distance_and_stay_near(self):
        for case, wanted, want in [
                ("far apart", [0, 50, 100], [0, 50, 100]),
                ("at the same place", [50, 50], [45, 55]),
                ("in another order", [52, 48], [55, 45]),
                ("a group that grows into its neighbour", [50, 50, 62], [44, 54, 64]),
                ("none", [], [])]:
            self.assertEqual(chart.spread(wanted, 10), want, case)

    def test_a_chart_has_a_named_line_for_each_lock(self):
        load = lambda lock, threads, samples, percent=0.0: {
            "figure": "completion_ns", "lock": lock, "threads": threads, "samples": samples,
            "write_percent": percent}
        samples = [load("A < B", 1, [1e5]), load("A < B", 2, [1e5, 2e5, 3e5]),
                   load("Bravo", 1, [2e4]), load("Bravo", 2, [2e4]), load("C", 1, [1], 10.0),
                   {"figure": "read_ns", "lock": "D", "samples": [7]}]
        record = {"rounds": 3, "operations": 10_000, "processors": 1, "samples": samples}
        tree = xml.etree.ElementTree.fromstring(chart.draw(record))
        names = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")
                 if "name" in text.get("class")]
        self.assertEqual(names, ["A < B", "Bravo"])
        self.assertEqual(chart.lines_of(record, 0.0)[0].median, (1e5, 2e5))
        self.assertEqual(len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))), 2)

    def test_every_server_gets_as_many_rules_as_asked_for(self):
        for server, kind, part, word, more in [
            ("forebay", "set", "", "set-header", 0), ("forebay", "eq", "", "=yes", 0),
            ("trafficserver", "eqd", "", "cond %{CLIENT-HEADER:X-", 0),
            ("trafficserver", "rx", "", "/(bot|", 0), ("nginx", "set", "rules", "add_header", 0),
            ("nginx", "set", "maps", "map", -5), ("nginx", "rx", "maps", '"~(bot|', 0),
            ("nginx", "eq", "rules", "$rule_", 0), ("haproxy", "set", "", "set-header", 0),
            ("haproxy", "eq", "", "txn.t", 1), ("haproxy", "rx", "", "txn.a", 1),
            ("varnish", "eq", "", '== "yes"', 0), ("varnish", "rx", "", '~ "(bot|', 0),
        ]:
            lines = rulesets.rules(server, kind, 5, part)
            found = [line for line in lines if word in line]
            self.assertEqual(len(found), 5 + more, f"{server} {kind} {part}: {lines}")
            self.assertEqual(rulesets.rules(server, kind, 0, part), [], f"{server} {kind} {part}")
        four = rulesets.rules("forebay", "four", 100)
        self.assertEqual([line.split()[0] for line in four if "header" in line],
                         ["add-header", "add-header", "set-header", "set-header"])
        for server, kind in [("nginx", "four"), ("varnish", "eqd"), ("bare-epoll", "set"),
                             ("forebay", "other")]:
            with self.assertRaises(Usage, msg=f"{server} {kind}"):
                rulesets.rules(server, kind, 1)

    def test_it_is_known_which_rules_an_answer_shows(self):
        test, bot = {"X-Test": "yes"}, {"X-Agent": "somebot-2.x/"}
        for kind, count, fields, want in [
            ("set", 3, {}, [0, 1, 2]), ("eq", 3, test, [0, 1, 2]), ("eq", 3, bot, []),
            ("eqd", 2, None, [0, 1]), ("eqd", 2, {}, []), ("rx", 3, None, []), ("rx", 3, bot, [2]),
            ("rx", 2, bot, []), ("four", 9, {}, [0, 1, 2, 3]), ("four", 0, {}, []),
        ]:
            self.assertEqual(rulesets.expected(kind, count, fields), want, (kind, count, fields))

    def test_different_conditions_differ_and_hold(self):
        for i in range(400):
            name, less = rulesets.different(i)
            self.assertGreater(rulesets.REQUEST_FIELDS[name], less, i)
        self.assertEqual(len({rulesets.different(i) for i in range(400)}), 400)

    def test_rules_that_do_not_do_what_they_must_stop_a_run(self):
        right = [(rulesets.field(i), rulesets.value(i)) for i in range(2)]
        for case, fields, holds in [
            ("all", right, True), ("one too few", right[:1], False),
            ("one twice", [*right, right[0]], False), ("other values", [(n, "x") for n, _ in right],
                                                       False),
            ("in lower case, and others", [("x-other", "1"), *((n.lower(), v) for n, v in right)],
             True),
        ]:
            try:
                proof.check_rules(Answering(fields), "/1k/0", "set", 2)
                seen = True
            except Broken:
                seen = False
            self.assertEqual(seen, holds, case)

    def test_a_server_names_its_rules(self):
        specs = Spec.parse_list("forebay@KIND=eq+N=4,nginx,haproxy@KIND=set")
        self.assertEqual([rulesets.settings_of(s) for s in specs], [("eq", 4), None, ("set", 0)])

    def test_a_line_goes_through_points(self):
        slope, at_zero, fit = slopes.line([(0, 10), (4, 12), (16, 18), (100, 60)])
        self.assertAlmostEqual(slope, 0.5)
        self.assertAlmostEqual(at_zero, 10)
        self.assertAlmostEqual(fit, 1)
        _, _, bent = slopes.line([(0, 0), (50, 0), (100, 100)])
        self.assertAlmostEqual(bent, 0.75)
        self.assertIsNone(slopes.line([(0, 5), (9, 5)])[2])

    def test_slopes_are_of_common_counts_and_segments_of_all(self):
        one = slopes.summarise([(400, 999), (0, 10), (16, 18), (100, 60), (64, 42)])
        self.assertAlmostEqual(one["slope_us"], 0.5)
        self.assertEqual([(s["from"], s["to"], s["us"]) for s in one["segments"]],
                         [(0, 16, 0.5), (16, 64, 0.5), (64, 100, 0.5), (100, 400, 3.13)])
        self.assertIsNone(slopes.summarise([(4, 1.0)]))

    def test_tables_of_rules_have_a_column_for_each_number(self):
        cell = lambda us, *notes: {"us": us, "us_min": us, "us_max": us, "notes": list(notes)}
        text = slopes.count_table({"a": {0: cell(1), 400: cell(2, "noisy")}, "b": {0: cell(3)}})
        self.assertEqual(text.splitlines()[0], "| server | 0 rules | 400 rules |")
        self.assertEqual(text.splitlines()[2:],
                         ["| a | 1.00 (1.00-1.00) | 2.00 (2.00-2.00)† |",
                          "| b | 3.00 (3.00-3.00) |  |"])
        lines = {name: slopes.summarise([(0, 10), (16, 10 + 16 * us)])
                 for name, us in (("dear", 2.0), ("cheap", 0.5))}
        self.assertEqual(slopes.slope_table(lines).splitlines()[2:],
                         ["| cheap | 10.00 | **0.500** | 1.000 | 0.500 |",
                          "| dear | 10.00 | **2.000** | 1.000 | 2.000 |"])

    def test_a_command_line_names_each_server_and_number_of_rules(self):
        arguments = lambda **more: argparse.Namespace(
            **{"servers": "forebay,nginx@POSTPONE=32k", "kinds": "set,eqd", "counts": "0,100",
               "four": False, **more})
        (kind, _, cells), (other, _, only) = rules.groups(arguments())
        self.assertEqual((kind, other), ("set", "eqd"))
        self.assertEqual(list(cells), [
            "forebay@KIND=set+N=0", "forebay@KIND=set+N=100", "forebay@KIND=set+N=400",
            "nginx@POSTPONE=32k+KIND=set+N=0", "nginx@POSTPONE=32k+KIND=set+N=100"])
        self.assertEqual(cells["nginx@POSTPONE=32k+KIND=set+N=100"], ("nginx@POSTPONE=32k", 100))
        self.assertEqual({base for base, _ in only.values()}, {"forebay"})
        (_, chosen, four), = rules.groups(arguments(four=True))
        self.assertEqual([w.name for w in chosen], workloads.GROUPS["rules"])
        self.assertEqual(list(four), ["forebay@KIND=four+N=0", "forebay@KIND=four+N=4"])
        for wrong in ({"kinds": "sett"}, {"counts": "1,x"}, {"servers": "forebay@KIND=set"}):
            with self.assertRaises(Usage, msg=wrong):
                rules.groups(arguments(**wrong))

    def test_one_function_of_a_program_is_taken_out(self):
        patcher = pathlib.Path(__file__).resolve().parents[1] / "peers/trafficserver/without-check"
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "text")
            text.write_text("no program", encoding="utf-8")
            done = subprocess.run([patcher, text, f"{folder}/out"], capture_output=True, text=True,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("not a program", done.stderr)
            self.assertFalse(pathlib.Path(folder, "out").exists())


class Answering:
    """A server that answers everything with these fields."""

    name = "answering"

    def __init__(self, fields, body=b""):
        self.fields = fields
        self.body = body

    def fetch_whole(self, targets, _fields):
        return [(self.body, self.fields) for _ in targets]


if __name__ == "__main__":
    unittest.main()
