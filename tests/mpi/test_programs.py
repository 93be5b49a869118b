#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unchanged MPI programs with libwring_mpi.so before their MPI: test_programs.py MPI LIBRARY SOURCES"""
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpis  # noqa: E402

NAME, LIBRARY, SOURCES = sys.argv[1:4]
MPI = mpis.find(NAME)


# Before a program: rank 1 alone has another environment.
RANK_1 = """[ "${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}" != 1 ] || CHANGE
exec "$0"
"""

# What rank 0 writes to standard error waits: its pipe is full, and is read 3 seconds later, into a file
# that is there once rank 0 has ended.
SLOW_0 = """if [ "${OMPI_COMM_WORLD_RANK-${PMI_RANK-}}" = 0 ]; then
    mkfifo FILE.pipe
    setsid sh -c 'exec <FILE.pipe; sleep 3; tr -d "\\0" >FILE.part; mv FILE.part FILE' >/dev/null 2>&1 &
    exec 2>FILE.pipe
    head -c 65536 /dev/zero >&2
fi
exec "$0"
"""


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="wring-mpi-")
        cls.addClassCleanup(cls.folder.cleanup)

    def build(self, source):
        program = str(pathlib.Path(self.folder.name) / source.replace(".", "-"))
        # one buffer of several types, which mpif.h cannot declare
        flags = ["-fallow-argument-mismatch"] if source.endswith("_old.f90") else []
        if not pathlib.Path(program).exists():
            mpis.compile_program(MPI, str(pathlib.Path(SOURCES) / source), program, *flags)
        return program

    def job(self, ranks, source, *args, **variables):
        status, out, err = mpis.run_job(MPI, ranks, [self.build(source), *args], LIBRARY,
                                        WRING_STATS="1", **variables)
        self.assertEqual(status, 0, f"{out}\n{err}")
        return out + err

    def opening(self, change, **variables):
        """Runs three ranks. @param change  a command, of rank 1"""
        words = ["sh", "-c", RANK_1.replace("CHANGE", change), self.build("opening.c")]
        return mpis.run_job(MPI, 3, words, LIBRARY, **variables)

    def test_all_calls_are_served(self):
        for ranks in (2, 3, 4):
            said = self.job(ranks, "calls.c")
            self.assertIn("0 failures", said)
            self.assertNotIn("left to", said)
            for call in ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block",
                         "allgather", "alltoall", "bcast", "barrier"):
                self.assertRegex(said, rf"served:.* {call} \d")

    def check_case(self, case, **variables):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                said = self.job(ranks, "comms.c", case, **variables)
                self.assertIn("0 failures", said)
        return said

    def test_communicators_however_they_are_made(self):
        said = self.check_case("made")
        self.assertRegex(said, r"left to .*one process\): allreduce")
        self.assertRegex(said, r"left to .*no blocking call.*: allreduce 4\n")

    def test_communicators_in_different_orders(self):
        self.check_case("orders")

    def test_a_wait_in_one_library_serves_the_other(self):
        self.check_case("progress")

    def test_requests_of_both_in_one_array(self):
        self.check_case("mixed")

    def test_persistent_requests(self):
        self.assertRegex(self.check_case("persistent"), r"served:.* reduce_scatter 4")

    def test_threads(self):
        self.check_case("threads")

    def test_a_failure_goes_to_the_error_handler(self):
        self.assertIn("overlap", self.check_case("errors"))

    def test_what_wring_lacks_is_the_mpis(self):
        said = self.check_case("passed")
        for reason in ("operation", "datatype", "no elements", "intercommunicator"):
            self.assertRegex(said, rf"left to .*\({reason}\): allreduce \d")

    def test_sums_are_exact_unless_a_codec_is_named(self):
        self.assertIn("large exact, small exact, double exact", self.job(2, "coded.c"))
        said = self.job(2, "coded.c", WRING_MPI_CODEC="bf16")
        self.assertIn("large lossy, small exact, double exact", said)
        said = self.job(2, "coded.c", WRING_MPI_CODEC="bf16", WRING_MPI_CODEC_MIN="1k")
        self.assertIn("large lossy, small lossy, double exact", said)

    def ruled(self, *args, ranks=2, **variables):
        """@return the sums of ruled.c that are lossy, the codec of each kind, bytes sent, all lines"""
        said = self.job(ranks, "ruled.c", *args, WRING_PROVIDER="tcp", **variables)
        judged = dict(re.findall(r"^(\w+) (exact|lossy)$", said, re.M))
        self.assertEqual(len(judged), 1 if args else 7, said)
        codecs = {kind: (codec, int(calls)) for codec, kind, calls in
                  re.findall(r"by codec (\S+): (\w+) (\d+)$", said, re.M)}
        sent = int(re.search(r"sent by wring, all ranks: (\d+) bytes$", said, re.M)[1])
        return {name for name, how in judged.items() if how == "lossy"}, codecs, sent, said

    def test_rules_give_each_operation_its_codec(self):
        rules = "reduce=none; allreduce=bf16; reduce_scatter_*=onebit:block=128; reduce_*=int8;" \
                "min=30000"
        for ranks in (2, 4):
            lossy, codecs, _, said = self.ruled(ranks=ranks, WRING_CODEC_RULES=rules)
            self.assertEqual(lossy, {"allreduce", "reduce_scatter", "reduce_scatter_block"}, said)
            self.assertEqual(codecs, {"allreduce": ("bf16", ranks),
                                      "reduce_scatter": ("int8", ranks),
                                      "reduce_scatter_block": ("onebit:block=128", ranks)}, said)
            self.assertNotIn("WRING_CODEC_RULES", said)

    def test_sizes_of_rules(self):
        for rules, lossy in (("allreduce=bf16", {"allreduce", "small"}),
                             ("allreduce=bf16; max=99999", {"small"}),
                             ("allreduce=bf16; min=100000; max=100000", {"allreduce"}),
                             ("allreduce=bf16; min=100001", set())):
            self.assertEqual(self.ruled(WRING_CODEC_RULES=rules)[0], lossy, rules)
        _, codecs, _, said = self.ruled(WRING_CODEC_RULES="*=none")
        self.assertEqual(codecs, {}, said)

    def test_what_rules_send(self):
        """One sum of 400,000 bytes, and a byte that says whether it is exact."""
        raw = self.ruled("allreduce")[2]
        for codec, least, most in (("bf16", 0.49, 0.51), ("int8", 0.25, 0.27),
                                   ("onebit", 0.03, 0.05), ("none", 0.99, 1.01),
                                   ("bf16; min=100001", 0.99, 1.01)):
            sent = self.ruled("allreduce", WRING_CODEC_RULES=f"allreduce={codec}")[2]
            self.assertTrue(least * raw <= sent <= most * raw, (codec, sent, raw))

    def test_rules_beside_the_own_codec(self):
        """It is for operations that no rule fits, and has its own size."""
        _, codecs, _, said = self.ruled(
            WRING_CODEC_RULES="reduce=int8; reduce_scatter=none; min=1; max=100000",
            WRING_MPI_CODEC="bf16", WRING_MPI_CODEC_MIN="400000")
        self.assertEqual(codecs, {"allreduce": ("bf16", 2), "reduce": ("int8", 2),
                                  "reduce_scatter_block": ("bf16", 2)}, said)

    def test_an_own_codec_is_for_those_that_can_take_it(self):
        for codec, why in (("thc", "rounds"), ("bf16>int8", "a way back")):
            _, codecs, _, said = self.ruled(WRING_MPI_CODEC=codec)
            self.assertEqual(codecs, {"allreduce": (codec, 2), "reduce": (codec, 2)}, said)
            self.assertEqual(re.findall(r"WRING_MPI_CODEC (.*)$", said, re.M),
                             ["leaves reduce_scatter, reduce_scatter_block of libwring_mpi.so "
                              f"exact: it has {why}, which only an allreduce and a reduce have"])

    def test_rules_that_never_count_are_told(self):
        rules = "*embed*=bf16; 1d=none; allreduce=bf16; all*=int8; MPI_Reduce=int8"
        said = self.job(2, "coded.c", WRING_CODEC_RULES=rules)
        self.assertIn("large lossy, small exact, double exact", said)
        for line in ("*embed*=bf16; MPI_Reduce=int8: never counts in libwring_mpi.so: its sums are "
                     "called allreduce, reduce, reduce_scatter, reduce_scatter_block",
                     "all*=int8: never counts in libwring_mpi.so: rules before it decide",
                     "1d=none: never counts in libwring_mpi.so: its calls have no shape"):
            self.assertEqual(said.count(line), 1, said)
        self.assertEqual(said.count("never counts"), 3, said)
        said = self.job(2, "coded.c", WRING_CODEC_RULES="min=1")
        self.assertEqual(said.count("never counts"), 1, said)
        self.assertIn("min=1: never counts in libwring_mpi.so: no rule names a codec", said)

    def test_settings_of_codecs_that_cannot_be_used(self):
        """All ranks end in MPI_Init, and one of them says why."""
        for variables, cause in (
                ({"WRING_CODEC_RULES": "allreduce=typo"}, "WRING_CODEC_RULES=allreduce=typo: "),
                ({"WRING_CODEC_RULES": "*=bf16; max=10"}, "from min=16384 to max=10 elements"),
                ({"WRING_CODEC_RULES": "*=onebit+ef"}, "allreduce of libwring_mpi.so cannot take "
                 "onebit+ef: it keeps something from call to call"),
                ({"WRING_CODEC_RULES": "*=bf16>int8"}, "reduce_scatter of libwring_mpi.so cannot "
                 "take bf16>int8: it has a way back"),
                ({"WRING_CODEC_RULES": "reduce*=sharedint"}, "reduce_scatter of libwring_mpi.so "
                 "cannot take sharedint: it has rounds"),
                ({"WRING_CODEC_RULES": "*=bf16", "WRING_MPI_CODEC": "int8"},
                 "WRING_MPI_CODEC=int8 counts for no call"),
                ({"WRING_CODEC_RULES": "allreduce=bf16", "WRING_MPI_CODEC_MIN": "1k"},
                 "WRING_MPI_CODEC_MIN is the size of WRING_MPI_CODEC, which names no codec"),
                ({"WRING_MPI_CODEC": "typo"}, "WRING_MPI_CODEC=typo cannot be used: "),
                ({"WRING_MPI_CODEC": "onebit+ef"}, "WRING_MPI_CODEC=onebit+ef cannot be used: it "
                 "keeps a residual")):
            with self.subTest(variables=variables):
                status, out, err = self.opening("true", WRING_JOIN_TIMEOUT="3600", **variables)
                self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
                lines = re.findall(r"\bwring: [a-z]+: .*", err)
                self.assertEqual(len(lines), 1, err)
                self.assertIn("rank 0 of 3 cannot open its session (and 2 more ranks fail): rules: ",
                              lines[0])
                self.assertIn(cause, lines[0])
                self.assertNotIn("failures", out)

    def test_ranks_whose_codecs_differ(self):
        for setting, other in (("WRING_CODEC_RULES='reduce=bf16'", "none"),
                               ("WRING_CODEC_RULES='allreduce=bf16; min=5'",
                                "bf16 from 5 elements on"),
                               ("WRING_CODEC_RULES='reduce=int8' WRING_MPI_CODEC=bf16",
                                "bf16 from 262144 bytes on")):
            with self.subTest(setting=setting):
                status, out, err = self.opening(f"export {setting}", WRING_JOIN_TIMEOUT="3600",
                                                WRING_CODEC_RULES="allreduce=bf16")
                self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
                lines = re.findall(r"\bwring: [a-z]+: .*", err)
                self.assertEqual(len(lines), 1, err)
                self.assertIn("allreduce: rank 0 has codec bf16 from 16384 elements on, rank 1 has "
                              f"{other}: all ranks need the same WRING_CODEC_RULES", err)

    def test_a_setting_that_is_wrong_ends_the_program(self):
        status, out, err = mpis.run_job(MPI, 2, [self.build("coded.c")], LIBRARY,
                                        WRING_MPI_CODEC_MIN="none")
        self.assertNotEqual(status, 0, out)
        self.assertIn("WRING_MPI_CODEC_MIN=none: needs a number", err)

    def test_all_ranks_hear_at_once_of_one_that_cannot_open(self):
        """It would take longer than this test may if a rank waited for another."""
        for setting, cause in (
                ("WRING_PLAN=/nowhere/plan", "planner: /nowhere/plan: cannot be read"),
                ("WRING_PROVIDER=nothing", "WRING_PROVIDER=nothing: no provider 'nothing'"),
                ("WRING_MPI_CODEC_MIN=none", "config: WRING_MPI_CODEC_MIN=none: needs a number"),
                ("WRING_KEY=a-key-that-nobody-else-has", "does not have this job's key")):
            with self.subTest(setting=setting):
                status, out, err = self.opening(f"export {setting}", WRING_JOIN_TIMEOUT="3600")
                self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
                # launchers may put the pieces of other lines before it
                lines = re.findall(r"\bwring: [a-z]+: .*", err)
                self.assertEqual(len(lines), 1, err)
                self.assertIn("rank 1 of 3 cannot open its session: ", lines[0])
                self.assertIn(cause, lines[0])

    def test_a_slow_rank_still_says_why(self):
        """The others wait until it has, before they end the job."""
        path = pathlib.Path(self.folder.name) / "said"
        words = ["sh", "-c", SLOW_0.replace("FILE", str(path)), self.build("opening.c")]
        status, out, err = mpis.run_job(MPI, 3, words, LIBRARY, WRING_CODEC_RULES="allreduce=typo")
        self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
        deadline = time.monotonic() + mpis.PATIENCE
        while not path.exists():
            self.assertLess(time.monotonic(), deadline, f"{out}\n{err}")
            time.sleep(0.05)
        self.assertEqual(path.read_text(encoding="utf-8").count("rank 0 of 3 cannot open its "
                                                                "session (and 2 more ranks fail)"), 1)

    @unittest.skipIf(NAME != "openmpi5", "only Open MPI 5 lets MPI_Init return an error")
    def test_a_program_may_go_on_without_wring(self):
        status, out, err = self.opening("export WRING_PLAN=/nowhere/plan",
                                        WRING_JOIN_TIMEOUT="3600",
                                        OMPI_MCA_mpi_initial_errhandler="mpi_errors_return")
        self.assertEqual(status, 0, f"{out}\n{err}")
        for rank in range(3):
            self.assertRegex(out, rf"rank {rank} hears: wring: rank 1: planner: /nowhere/plan")
            self.assertIn(f"rank {rank}: 0 failures", out)

    def test_a_rank_without_the_library(self):
        status, out, err = self.opening("unset LD_PRELOAD", WRING_JOIN_TIMEOUT="1")
        self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
        self.assertIn("a rank did not come", err)
        self.assertIn("all ranks need libwring_mpi.so in LD_PRELOAD", err)

    def test_the_library_twice(self):
        copy = shutil.copy(LIBRARY, pathlib.Path(self.folder.name) / "libcopy_mpi.so")
        status, out, err = mpis.run_job(MPI, 3, [self.build("calls.c")], f"{LIBRARY}:{copy}",
                                        WRING_STATS="1")
        self.assertEqual(status, 0, f"{out}\n{err}")
        self.assertIn("0 failures", out + err)
        self.assertEqual(re.findall("twice, (.*) and (.*): the first", err),
                         [(LIBRARY, str(copy))], err)
        self.assertEqual(err.count("served:"), 1, err)

    @unittest.skipIf(MPI.fortran is None, "this MPI comes without Fortran")
    def test_fortran(self):
        for source in ("fortran_old.f90", "fortran_mod.f90", "fortran_new.f90"):
            with self.subTest(source=source):
                said = self.job(3, source)
                self.assertIn("0 failures", said)
                self.assertRegex(said, r"served: allreduce 12|served: allreduce 11")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
