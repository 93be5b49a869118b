#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py's arithmetic and tables, on figures made up here: nothing is measured, no peer needed."""
import argparse
import contextlib
import io
import pathlib
import sys
import threading
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import codec_rows
import compare
import peer_links
import peer_messages
import peer_mpi
import peer_scale
import peer_sides
import peer_table
from peer_bars import MIB, Entry, Loopback, Rotation, best_of, column, ratio
from peer_table import Check, Row
from peer_watch import Seen, Watch, changed

PATIENCE = 250  # seconds: for hangs, not for slowness


def arguments(**changes):
    return argparse.Namespace(**{"seconds": 0.2, "quick": False, **changes})


def never(*_):
    raise AssertionError("nothing is to be run here")


def tools(**changes):
    return types.SimpleNamespace(**{"gloo": True, "launchers": {"openmpi": "mpirun"}, "cores": 2,
                                    "has_bypass": lambda: True, "gloo_loopback": never, "mpi": never,
                                    "allreduce": never, "limits": never, **changes})


def printed(show, *values):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        show(*values)
    return output.getvalue()


def result(codec, size, median, wire=0, turns=()):
    return {"codec": codec, "bytes": size, "time_us": {"median": median}, "wire_bytes": wire,
            "turns_us": turns or [median]}


class CodecRows(unittest.TestCase):
    PAGE = f"before\n{codec_rows.BEGIN}\n| codec |\n|---|\n| int8:block=64+ef | 1 |\n{codec_rows.END}\nafter\n"

    def test_figures_are_medians_of_runs_and_shares(self):
        runs = [{"encode_gb_per_s": 2 * at, "encode_limit_gb_per_s": limit, "decode_add_gb_per_s": 3,
                 "decode_add_limit_gb_per_s": 4, "memcpy_gb_per_s": 2, "ratio": 0.25, "nmse": 0.0123456,
                 "nmse_sum": 0} for at, limit in ((1, 2), (2, 10), (3, 12))]
        self.assertEqual(codec_rows.row("int8", runs),
                         "| int8 | 4.0 (50 %) | 3.0 (75 %) | 2.00, 1.50 | 0.2500 | 0.0123 | 0 |")

    def test_the_page_around_the_table_stays(self):
        before, inside, after = codec_rows.between(self.PAGE)
        self.assertEqual(before + inside + after, self.PAGE)
        self.assertTrue(inside.startswith("| codec |"))

    def test_a_codec_without_a_row_is_named(self):
        self.assertEqual(codec_rows.without_rows(self.PAGE, ["int8", "int4"]), ["int4"])


class Arithmetic(unittest.TestCase):
    def test_ratio_is_the_median_of_the_rounds(self):
        # not the ratio of the medians, which would be 1
        self.assertEqual(ratio([10, 20, 30], [20, 10, 20]), 1.5)
        self.assertEqual(ratio([1, 2], [2, 2, 9]), 0.75)
        self.assertIsNone(ratio([], [1]))

    def test_best_is_the_side_with_the_least_median(self):
        figures = {"a": [1, 9, 9], "b": [5, 5, 5], "c": []}
        self.assertEqual(best_of(figures, ["a", "b", "c", "d"]), [5, 5, 5])
        self.assertEqual(best_of(figures, ["c", "d"]), [])

    def test_rotation_lets_everyone_begin(self):
        order = Rotation("abc")
        self.assertEqual(["".join(order.next()) for _ in range(4)], ["abc", "bca", "cab", "abc"])

    def test_column_leaves_out_runs_without_a_figure(self):
        self.assertEqual(column({"a": [{1: 5}, {2: 6}, {1: 7}]}, "a", 1), [5, 7])
        self.assertEqual(column({}, "a", 1), [])


class Bars(unittest.TestCase):
    def test_at_least(self):
        self.assertTrue(Check("", 2.0, 2).met)
        self.assertFalse(Check("", 1.99, 2).met)
        self.assertEqual(Check("", 3, 2).reach, 1.5)
        self.assertEqual(Check("", 1.5, 2).show(), "1.5 < 2 **missed**")
        self.assertEqual(Check("", 2.5, 2).show(), "2.5 ≥ 2 met")

    def test_at_most(self):
        self.assertTrue(Check("", 1.05, 1.05, True).met)
        self.assertFalse(Check("", 1.051, 1.05, True).met)
        self.assertEqual(Check("", 2, 1, True).reach, 0.5)
        self.assertEqual(Check("", 1.2, 1.05, True).show(), "1.2 > 1.05 **missed**")

    def test_nothing_to_compare_with_is_not_met(self):
        check = Check("", None, 2)
        self.assertIsNone(check.met)
        self.assertEqual(check.show(), "nothing to compare with")

    def test_summary_has_the_worst_row_of_each_bar(self):
        rows = [Row("f32", 4096, "us", {}, [Check("slow", 3, 2), Check("fast", 1.2, 1.05, True)]),
                Row("f32", MIB, "us", {}, [Check("slow", 1, 2), Check("fast", 1.0, 1.05, True)]),
                Row("f32", 8, "us", {}, [Check("slow", None, 2), Check("none", None, 1)])]
        slow, fast, none = peer_table.summarise([("tcp", rows)])
        self.assertEqual((slow["worst"], slow["at"], slow["met"]), (1, "f32 1m", False))
        self.assertEqual((slow["rows_met"], slow["rows"]), (1, 3))
        self.assertEqual((fast["worst"], fast["at"], fast["met"]), (1.2, "f32 4k", False))
        self.assertEqual((none["worst"], none["met"]), (None, None))
        text = printed(peer_table.show_summary, [slow, fast, none])
        self.assertIn("| tcp: slow | ≥ 2 | 1 | f32 1m | 1 of 3 | **missed** |", text)
        self.assertIn("not judged", text)


class Tables(unittest.TestCase):
    def test_a_row_has_medians_and_says_what_failed(self):
        rows = [Row("f32", 4096, "us", {"wring": [1, 3, 2], "MPI": []}, [Check("", 3, 2)],
                    "memcpy", 0.5),
                Row("f32", MIB, "us", {"wring": [1000.4], "apart": None}, [])]
        lines = printed(peer_table.show_section, "Title", "Note.", rows).splitlines()
        self.assertEqual(lines[-2], "| f32 | 4k | 2 | failed |  | 3 ≥ 2 met | 50 % of memcpy |")
        self.assertEqual(lines[-1], "| f32 | 1m | 1000 |  |  |  |  |")

    def test_json_has_every_round(self):
        row = Row("f32", 8, "us", {"wring": [1, 3], "MPI": [], "apart": None}, [Check("b", 3, 2)])
        got = row.as_json()
        self.assertEqual(got["figures"], {"wring": 2})
        self.assertEqual(got["rounds"], {"wring": [1, 3], "MPI": []})
        self.assertTrue(got["checks"][0]["met"])

    def test_bytes(self):
        self.assertEqual([peer_table.show_bytes(size) for size in (8, 1536, 4096, 64 * MIB)],
                         ["8", "1536", "4k", "64m"])


class Sides(unittest.TestCase):
    def test_wrong_sums_are_no_figures(self):
        self.assertEqual(peer_sides.times_of("4096 1.0 2.5 9.0 0\n", "MPI"), {4096: 2.5})
        with self.assertRaises(peer_sides.Failed):
            peer_sides.times_of("4096 1.0 2.5 9.0 3\n", "MPI")

    def test_a_codec_that_ran_twice_has_two_results(self):
        found = peer_sides.by_codec([result("none", 8, 1), result("int8", 8, 2),
                                     result("none", 8, 3)])
        self.assertEqual(found["none", 8]["time_us"]["median"], 1)
        self.assertEqual(found[peer_sides.repeated("none"), 8]["time_us"]["median"], 3)

    def test_versions(self):
        self.assertEqual(peer_sides.version_in("mpirun (Open MPI) 4.1.4\n\nReport bugs"), "4.1.4")
        self.assertEqual(peer_sides.version_in("HYDRA build details:\n Version: 4.0.2"), "4.0.2")


class Sections(unittest.TestCase):
    def test_loopback_is_judged_by_the_best_peer_of_the_same_rounds(self):
        section = Loopback(tools(), arguments())
        samples = {"wring": [{MIB: 200}, {MIB: 100}], "Gloo ring": [{MIB: 500}, {MIB: 500}],
                   "Open MPI": [{MIB: 300}, {MIB: 200}], "sockets": [{MIB: 100}, {MIB: 100}]}
        row = next(row for row in section.rows(samples) if row.bytes == MIB)
        self.assertEqual(row.checks[0].value, 1.75)  # 300 / 200 and 200 / 100
        self.assertEqual(row.share, 0.75)
        small = next(row for row in section.rows(samples) if row.bytes == 4096)
        self.assertIsNone(small.checks[0].value)

    def test_switch_compares_within_a_run(self):
        section = peer_links.Switch(tools(), arguments())
        runs = [peer_sides.by_codec([result("none", MIB, none), result("int8", MIB, int8),
                                     result("none", MIB, none + 20)])
                for none, int8 in ((90, 110), (190, 204), (390, 400))]
        rows = {(row.what, row.bytes): row for row in section.rows({"tcp": runs})}
        row = rows["tcp", MIB]
        self.assertEqual(row.checks[0].value, 1.02)
        self.assertEqual(row.figures[peer_sides.repeated("none")], [110, 210, 410])
        self.assertIsNone(row.checks[1].value)  # a codec that did not run
        self.assertAlmostEqual(row.share, 210 / 190)

    def test_a_machine_that_slows_down_does_so_for_both(self):
        quick_then_slow = [result("int8", MIB, 20, turns=[11, 22, 22])]
        self.assertEqual(peer_links.against_none(
            quick_then_slow, [[result("none", MIB, 10, turns=[10, 20, 20])]]), [1.1])
        two = [result("none", MIB, 10, turns=turns) for turns in ([9, 19, 21], [11, 21, 23])]
        self.assertEqual(peer_links.against_none(quick_then_slow, [two]), [1.1])

    def test_switch_runs_short_calls_more_often(self):
        section = peer_links.Switch(tools(), arguments())
        for side, counts in ("tcp", [9, 9, 3, 3, 3]), ("1g", [9, 9, 3, 1, 1]):
            sizes = [entry.run.args[1] for entry in section.entries() if entry.side == side]
            self.assertEqual([sizes.count(size) for size in section.sizes], counts, side)

    def test_on_a_slow_link_the_bytes_must_shrink(self):
        section = peer_links.Switch(tools(), arguments())
        full = 2 * (peer_links.RANKS - 1) * MIB / peer_links.RANKS
        checks = list(section.checks("1g", MIB, [result("int8", MIB, 1, 0.25 * full)],
                                     [[result("none", MIB, 4)]]))
        self.assertEqual([check.value for check in checks], [0.25, 0.25])

    def test_one_that_fails_is_left_out_of_further_rounds(self):
        ran = []

        def fails():
            ran.append("bad")
            raise peer_sides.Failed("why")
        entries = [Entry("good", lambda: {1: 2}), Entry("bad", fails)]
        section = types.SimpleNamespace(name="s", entries=lambda: iter(entries))
        with contextlib.redirect_stderr(io.StringIO()):
            samples, failed = compare.take_turns(section, 3, None)
        self.assertEqual((samples["good"], ran, failed), ([{1: 2}] * 3, ["bad"], {"bad": "why"}))


class Disturbances(unittest.TestCase):
    def setUp(self):
        still = unittest.mock.patch("peer_watch.processor_times", lambda: (0, 0))
        still.start()  # the host of this machine may take processors away just now
        self.addCleanup(still.stop)

    def watch(self, lines):
        watch = Watch(iter(lines).__next__)
        watch.measure()  # the shortest way of a line
        return watch

    def test_a_quiet_run_counts(self):
        said = []
        self.assertEqual(self.watch([0.05] * 4).run(lambda: "result", said.append), "result")
        self.assertEqual(said, [])

    def test_a_run_of_cores_far_apart_is_made_again(self):
        watch, results, said = self.watch([0.05, 0.05, 0.05, 0.2, 0.05, 0.05, 0.05]), [], []
        # settles (1), before (1), after: far; then all again
        self.assertEqual(watch.run(lambda: results.append(1) or len(results), said.append), 2)
        self.assertEqual((watch.repeats, watch.left_as_is), (1, 0))

    def test_stolen_time_disturbs(self):
        watch = self.watch([0.05])
        self.assertIn("10 %", watch.disturbed(Seen(0.05, 0, 0), Seen(0.05, 10, 100)))
        self.assertEqual(watch.disturbed(Seen(0.05, 0, 0), Seen(0.05, 3, 100)), "")

    def test_cores_far_apart_meanwhile_disturb(self):
        watch, near, far = self.watch([0.05]), Seen(0.05, 0, 1), Seen(0.2, 0, 1)
        self.assertEqual(watch.disturbed(near, near, [0.05] * 9 + [0.2]), "")
        self.assertIn("4.0 times", watch.disturbed(near, near, [0.05] * 8 + [0.2] * 2))
        self.assertIn("4.0 times", watch.disturbed(near, far))

    def test_looks_while_something_runs(self):
        runs, looks = threading.Event(), threading.Semaphore(0)

        def line():
            if not runs.is_set():
                return 0.05
            looks.release()
            return 0.2

        def run():
            runs.set()
            looked = [looks.acquire(timeout=PATIENCE) for _ in range(3)]
            runs.clear()
            return looked

        watch, said = Watch(line, every=0.001), []
        self.assertEqual(watch.run(run, said.append, tries=1), [True] * 3)
        self.assertEqual(len(said), 1, said)

    def test_processors_that_the_host_takes_disturb(self):
        ticks = iter([(0, 0), (4, 100), (4, 200), (9, 300)])
        watch, said = Watch(lambda: 0.05), []
        with unittest.mock.patch("peer_watch.processor_times", ticks.__next__):
            watch.run(lambda: None, said.append, tries=1)
            watch.run(lambda: None, said.append, tries=1)
        self.assertEqual(said, ["left as it is, though the host took 5 % of the processors away"])

    def test_memory_of_another_speed_disturbs(self):
        speeds = iter([{"4 MiB": 80, "64 MiB": 17}, {"4 MiB": 78, "64 MiB": 11},  # slower, and stays so
                       {"4 MiB": 78, "64 MiB": 11}, {"4 MiB": 81, "64 MiB": 12}])
        watch, said = Watch(lambda: 0.05, copies=speeds.__next__), []
        watch.run(lambda: None, said.append)
        self.assertEqual(said, ["again, as copies of 64 MiB went at 17 GB/s and now do at 11"])
        self.assertEqual(changed({}, {"4 MiB": 80}), "")


class Messages(unittest.TestCase):
    def test_the_better_mpi_is_the_peer(self):
        section = peer_messages.MappedMessages(
            tools(launchers={"openmpi": "mpirun", "mpich": "mpiexec"}, sendrecv=never,
                  mpi_messages=never), arguments(quick=True))
        rows = list(section.rows({"wring": [{8: 0.2}, {8: 0.3}],
                                  "Open MPI": [{8: 0.4}, {8: 0.3}],
                                  "MPICH": [{8: 0.1}, {8: 0.9}]}))
        self.assertEqual([row.bytes for row in rows], [8, 4 * MIB])
        self.assertEqual([check.value for check in rows[0].checks], [1.5])
        self.assertTrue(rows[0].checks[0].met)
        self.assertEqual(rows[1].checks, [])

    def test_nothing_is_compared_without_a_peer(self):
        section = peer_messages.LoopbackMessages(
            tools(launchers={}, sendrecv=never, mpi_messages=never), arguments())
        self.assertEqual([entry.side for entry in section.entries()], ["wring"])
        rows = list(section.rows({"wring": [{4 * MIB: 9}]}))
        self.assertIsNone(rows[-1].checks[0].met)


class Interposed(unittest.TestCase):
    def test_the_same_program_is_run_with_the_library_and_without(self):
        def mpi(driver, provider, ranks, sizes, seconds, apart, interposed):
            self.assertEqual((driver, provider, ranks, apart), ("openmpi", "tcp", 2, True))
            return {MIB: 1 if interposed else 4}
        section = peer_mpi.InterposedLoopback(tools(mpi=mpi), arguments())
        got = {entry.side: entry.run() for entry in section.entries()}
        self.assertEqual(got, {"wring": {MIB: 1}, "Open MPI": {MIB: 4}})

    def test_a_bar_may_allow_wring_more_time(self):
        section = peer_mpi.Interposed(tools(), arguments())
        rows = list(section.rows({"wring": [{8: 0.21}, {8: 0.2}], "Open MPI": [{8: 0.2}, {8: 0.2}]}))
        self.assertTrue(rows[0].checks[0].met)
        rows = list(section.rows({"wring": [{8: 0.24}], "Open MPI": [{8: 0.2}]}))
        self.assertFalse(rows[0].checks[0].met)


class ManyRanks(unittest.TestCase):
    def test_each_job_has_rows_and_bars_of_its_own(self):
        section = peer_scale.Scale(tools(), arguments())
        samples = {(ranks, provider, side): [{size: us * size for size in section.sizes}]
                   for ranks, provider in section.jobs
                   for side, us in (("wring", ranks), ("wring, calls", 2 * ranks),
                                    ("Open MPI", 3 * ranks), ("Open MPI, apart", 1.2 * ranks))}
        rows = list(section.rows(samples))
        self.assertEqual([entry.side for entry in section.entries()], list(samples))
        self.assertEqual(len(rows), len(section.jobs) * len(section.sizes))
        checks = {(row.what, row.bytes): row.checks for row in rows}
        self.assertEqual(checks["64 ranks, shm", MIB], [])
        self.assertEqual(checks["16 ranks, tcp", MIB], [Check("16 ranks, tcp", 1.2, 1.5)])
        self.assertFalse(checks["64 ranks, tcp", MIB][0].met)


if __name__ == "__main__":
    unittest.main()
