#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring.api, the binding for Python, without any further package: test_api.py WRING LIBRARY SOURCE

Ranks are threads that meet by a bootstrap made in Python, or processes of `wring run`.
"""
import array
import importlib.util
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest

if __name__ == "__main__":
    WRING, LIBRARY, SOURCE = sys.argv[1:4]
    os.environ["WRING_LIBRARY"] = LIBRARY
    for name in [name for name in os.environ if name.startswith("WRING_") and
                 name != "WRING_LIBRARY"]:
        del os.environ[name]
    sys.path.insert(0, str(pathlib.Path(SOURCE) / "dropin" / "torch"))

from wring import api  # noqa: E402
from wring.api import Dtype, Op, Status, WringError  # noqa: E402

PATIENCE = 120  # seconds: for hangs
N = 1000


class Meeting:
    """Where the bootstraps of threads exchange."""

    def __init__(self, size):
        self.barrier, self.blobs = threading.Barrier(size), [None] * size

    def bootstrap(self, rank):
        def exchange(blob, seconds, _cancelled):
            self.blobs[rank] = blob
            self.barrier.wait(seconds)
            got = list(self.blobs)
            self.barrier.wait(seconds)
            return got
        return api.Bootstrap(rank, len(self.blobs), exchange)


def run_ranks(size, body, log=None, **settings):
    """body(session) in a thread for each rank; log(level, module, text) gets the lines of all.
    @return what they return"""
    meeting, results, failures = Meeting(size), [None] * size, []

    def run(rank):
        try:
            with api.Session(bootstrap=meeting.bootstrap(rank), key="threads", log=log,
                             settings=settings) as session:
                results[rank] = body(session)
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return results


def floats(*values):
    return array.array("f", values)


class Calls(unittest.TestCase):
    def test_reductions(self):
        def body(session):
            mine = array.array("f", [session.rank + i for i in range(N)])
            out = array.array("f", bytes(4 * N))
            session.world.allreduce(mine, out)
            self.assertEqual(mine[1], session.rank + 1)
            session.world.allreduce(mine, op=Op.MAX)
            whole = array.array("q", [session.rank])
            session.world.reduce(whole, root=1)
            return out.tolist(), mine[0], whole[0]

        for rank, (total, largest, summed) in enumerate(run_ranks(3, body)):
            self.assertEqual(total, [3.0 + 3 * i for i in range(N)])
            self.assertEqual(largest, 2.0)
            self.assertEqual(summed, 3 if rank == 1 else rank)

    def test_premultiplied_sum_and_codec(self):
        def body(session):
            data = floats(*[1.0] * N)
            session.world.allreduce(data, op=Op.PREMUL_SUM, factor=session.rank + 1.0)
            coarse = floats(*[0.1] * N)
            session.world.allreduce(coarse, codec="bf16")
            return data[7], coarse[7]

        for exact, coarse in run_ranks(2, body):
            self.assertEqual(exact, 3.0)
            self.assertNotEqual(coarse, floats(0.2)[0])
            self.assertAlmostEqual(coarse, 0.2, delta=0.002)

    def test_what_moves(self):
        def body(session):
            world, rank = session.world, session.rank
            gathered = bytearray(6)
            world.allgather(bytes([rank, rank + 10]), gathered)
            ragged = bytearray(3)
            world.allgather(bytes([rank + 1] * rank), ragged, elems=[0, 1, 2])
            scattered = floats(0)
            world.reduce_scatter(floats(1, 2, 3), scattered)
            runs = floats(*[0.0] * rank)
            world.reduce_scatter(floats(1, 2, 3), runs, elems=[0, 1, 2])
            turned = bytearray(3)
            world.alltoall(bytes([10 * rank, 10 * rank + 1, 10 * rank + 2]), turned)
            uneven = bytearray(sum(range(3)) + 3)  # member m sends m + 1 bytes to each
            world.alltoall(bytes([rank] * 3 * (rank + 1)), uneven, elems=[rank + 1] * 3,
                           out_elems=[1, 2, 3])
            word = bytearray(b"root" if rank == 2 else b"none")
            world.broadcast(word, root=2)
            halves = bytearray(bytes.fromhex("003c00c1" if rank == 1 else "ffffffff"))
            world.broadcast(halves, root=1, codec="lossless", dtype=api.Dtype.F16)
            at_root = bytearray(3)
            world.gather(bytes([rank]), at_root, root=0)
            part = bytearray(1)
            world.scatter(b"xyz" if rank == 0 else None, part, root=0)
            world.barrier()
            return (bytes(gathered), bytes(ragged), scattered[0], runs.tolist(), bytes(turned),
                    bytes(uneven), bytes(word), halves.hex(), bytes(at_root), bytes(part))

        for rank, got in enumerate(run_ranks(3, body)):
            self.assertEqual(got, (
                bytes([0, 10, 1, 11, 2, 12]), bytes([2, 3, 3]), 3.0 * (rank + 1),
                [[], [3.0], [6.0, 9.0]][rank], bytes([rank, 10 + rank, 20 + rank]),
                bytes([0, 1, 1, 2, 2, 2]), b"root", "003c00c1",
                b"\0\1\2" if rank == 0 else bytes(3), [b"x", b"y", b"z"][rank]))

    def test_requests(self):
        def body(session):
            ended = []
            data = [floats(*[float(session.rank)] * N) for _ in range(4)]
            requests = [session.world.allreduce(each, wait=False,
                                                done=lambda result: ended.append(result.status))
                        for each in data]
            seen = set()
            while len(seen) < 3:
                index, result = api.wait_any([None if i in seen else request
                                              for i, request in enumerate(requests)], PATIENCE)
                self.assertEqual(result.status, Status.OK)
                seen.add(index)
            last = ({0, 1, 2, 3} - seen).pop()
            self.assertEqual(requests[last].wait(PATIENCE).bytes, 4 * N)
            self.assertEqual(requests[last].test(), requests[last].wait())  # told again
            self.assertEqual(api.wait_any([None]), (None, None))
            end = time.monotonic() + PATIENCE
            while len(ended) < 4 and time.monotonic() < end:
                session.progress()
            return ended, [each[0] for each in data]

        for ended, sums in run_ranks(2, body):
            self.assertEqual((ended, sums), ([Status.OK] * 4, [1.0] * 4))

    def test_messages(self):
        def body(session):
            if session.rank == 0:
                session.world.send(b"hello", 1, tag=7)
                session.world.send(b"too long", 1, tag=8)
                return None
            room = bytearray(10)
            first = session.world.recv(room)
            with self.assertRaises(WringError) as caught:
                session.world.recv(bytearray(3), source=0, tag=8)
            return first, bytes(room[:5]), caught.exception

        first, text, error = run_ranks(2, body)[1]
        self.assertEqual((first.rank, first.tag, first.bytes, text), (0, 7, 5, b"hello"))
        self.assertEqual(error.status, Status.TRUNCATED)

    def test_groups(self):
        def body(session):
            if session.rank == 1:
                return None
            pair = session.world.create([2, 0], tag=5, timeout=PATIENCE)
            data = bytearray(2)
            pair.allgather(bytes([session.rank]), data)
            pair.destroy()
            with self.assertRaisesRegex(WringError, "destroyed"):
                pair.barrier()
            return pair.rank, bytes(data)

        self.assertEqual(run_ranks(3, body), [(1, b"\2\0"), None, (0, b"\2\0")])

    def test_where_members_are(self):
        asked = threading.Event()

        def body(session):
            session.world.barrier()
            line = None
            if session.rank == 0:
                request = session.world.allreduce(floats(*[1.0] * N), wait=False)
                while (line := session.world.where(PATIENCE)).startswith("no rank"):
                    time.sleep(0.01)  # its call has not begun yet
                asked.set()
                request.wait(PATIENCE)
            else:
                asked.wait(PATIENCE)
                session.world.allreduce(floats(*[1.0] * N))
            session.world.barrier()
            return line

        self.assertRegex(run_ranks(2, body)[0],
                         "^rank 1 is behind; 1 is in call 2 of all 2 ranks, allreduce of 1000 f32")

    def test_abort_of_a_group(self):
        def body(session):
            request = None
            pair = session.world.create(range(2), timeout=PATIENCE)
            if session.rank == 0:
                request = pair.allreduce(floats(*[1.0] * N), wait=False)
                self.assertIn(pair.abort(), (True, False))
                with self.assertRaises(WringError) as caught:
                    request.wait(PATIENCE)
                self.assertEqual(caught.exception.status, Status.CANCELLED)
                with self.assertRaises(WringError) as caught:
                    request.wait()  # told again
            session.world.barrier()
            return request is None or caught.exception.status

        self.assertEqual(run_ranks(2, body), [Status.CANCELLED, True])


class Buckets(unittest.TestCase):
    def test_steps(self):
        def body(session):
            ended = []
            gradient = session.alloc(4 * N)
            values = memoryview(gradient).cast("B").cast("f")
            out = array.array("f", bytes(4 * N))
            named = {"op": Op.AVG, "dtype": Dtype.F32, "done": ended.append}
            bucket = session.register("layer", gradient, **named)
            apart = session.register("apart", floats(*[session.rank] * N), out=out, priority=-1,
                                     shape=(10, N // 10))
            session.commit()
            for step in range(3):
                for i in range(N):
                    values[i] = session.rank + step
                bucket.post()
                apart.post()
                self.assertEqual(bucket.wait(PATIENCE).bytes, 4 * N)
                apart.wait()
                self.assertEqual((values[N - 1], out[5]), (0.5 + step, 1.0))
            stats = bucket.stats()
            self.assertEqual((stats["steps"], stats["codec"]), (3, "none"))
            self.assertGreater(session.stats()["steps"], 5)
            session.world.barrier()
            bucket.drop()
            session.commit()
            with self.assertRaisesRegex(WringError, "'layer' was dropped"):
                bucket.post()
            return len(ended)

        self.assertEqual(run_ranks(2, body), [3, 3])

    def test_state(self):
        """What a codec holds back is saved, and taken over by another session."""
        def step(session, state=None):
            data = array.array("f", [0.001 * i * (1 + session.rank) for i in range(N)])
            bucket = session.register("layer", data, codec="onebit+ef", op=Op.AVG)
            session.commit()
            if state is not None:
                session.load_state(state[session.rank])
            bucket.post()
            bucket.wait(PATIENCE)
            return data.tolist(), session.save_state(), bucket.stats()["residual_rms"]

        def two(session):
            first = step(session)
            for bucket in list(session._buckets):
                bucket.post()
                bucket.wait(PATIENCE)
            return first

        fresh = run_ranks(2, step, WRING_BYPASS="never")
        states = [state for _, state, _ in fresh]
        went_on = run_ranks(2, lambda session: step(session, states), WRING_BYPASS="never")
        self.assertGreater(fresh[0][2], 0)
        self.assertEqual(fresh[0][0], fresh[1][0])
        self.assertNotEqual(fresh[0][0], went_on[0][0])
        self.assertEqual(run_ranks(2, two, WRING_BYPASS="never")[0][0], fresh[0][0])

        def refuse(session):
            session.register("layer", array.array("f", bytes(4 * N)), codec="onebit+ef")
            session.commit()
            with self.assertRaises(WringError) as caught:
                session.load_state(b"no state")
            return caught.exception.status

        self.assertEqual(run_ranks(1, refuse), [Status.FRAME])


class Errors(unittest.TestCase):
    def test_reasons_are_the_library_s(self):
        lines = []
        with api.Session(log=lambda *line: lines.append(line)) as session:
            with self.assertRaisesRegex(WringError, "nonsense") as caught:
                session.register("a", floats(1.0), codec="nonsense")
            self.assertEqual(caught.exception.status, Status.INVALID)
            self.assertEqual(lines[-1][0], api.LogLevel.ERROR)
            self.assertIsNone(session.error())
        with self.assertRaisesRegex(WringError, "closed"):
            session.world.barrier()
        session.close()

    def test_memory_is_checked(self):
        with api.Session() as session:
            for wrong, said in ((lambda: session.world.allreduce(bytes(8), dtype=Dtype.F32),
                                 "read-only"),
                                (lambda: session.world.allreduce(bytearray(7), dtype=Dtype.F32),
                                 "7 bytes"),
                                (lambda: session.world.allreduce(floats(1, 2), floats(1)),
                                 "needs 8"),
                                (lambda: session.world.allreduce(floats(1), elems=2), "memory for 1"),
                                (lambda: session.world.allgather(floats(1), floats()), "needs 4")):
                with self.assertRaisesRegex(ValueError, said):
                    wrong()
            with self.assertRaisesRegex(TypeError, "elems and dtype"):
                session.world.allreduce(4096)
            session.world.allreduce(array.array("f"))  # nothing is fine

    def test_a_rank_that_leaves_is_named(self):
        def body(session):
            if session.rank == 1:
                return None  # closes its session
            with self.assertRaises(WringError) as caught:
                session.world.allreduce(floats(*[1.0] * N))
            self.assertEqual(session.error().status, Status.PEER)
            return caught.exception.status, caught.exception.rank

        self.assertEqual(run_ranks(2, body)[0], (Status.PEER, 1))

    def test_bootstrap_that_fails(self):
        def exchange(_blob, _seconds, _cancelled):
            raise KeyError("no store")

        lines = []
        with self.assertRaises(WringError) as caught:
            api.Session(bootstrap=api.Bootstrap(0, 2, exchange), key="k",
                        log=lambda *line: lines.append(line))
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_timeouts_leave_requests(self):
        def body(session):
            if session.rank == 1:
                time.sleep(0.3)
            request = session.world.barrier(wait=False)
            try:
                request.wait(0.01 if session.rank == 0 else PATIENCE)
                timed_out = False
            except api.WringTimeout as error:
                timed_out = error.status == Status.TIMEOUT
            request.wait(PATIENCE)
            return timed_out

        self.assertEqual(run_ranks(2, body)[1], False)

    def test_event_loop(self):
        def body(session):
            if session.rank == 1:
                session.world.send(b"x", 0)
                return True
            fd, room = session.fileno(), bytearray(1)
            request = session.world.recv(room, wait=False)
            end = time.monotonic() + PATIENCE
            while request.test() is None and time.monotonic() < end:
                select.select([fd], [], [], session.next_seconds() or 1)
                session.progress()
            return bytes(room) == b"x"

        self.assertEqual(run_ranks(2, body), [True, True])


class Matrices(unittest.TestCase):
    def test_what_is_none_is_told(self):
        def body(session):
            buckets = [session.register(name, floats(*bytes(4096)), codec="powersgd+ef", shape=shape)
                       for name, shape in (("flat", None), ("row", (1, 4096)), ("column", (4096, 1)),
                                           ("small", (2, 2048)), ("matrix", (64, 64)))]
            session.register("plain", floats(*bytes(4096)), codec="int8+ef")
            session.commit()
            for bucket in buckets:
                bucket.post()
                bucket.wait(PATIENCE)
            session.commit()

        lines = []
        run_ranks(2, body, log=lambda level, module, text: lines.append(text),
                  WRING_LOG="info", WRING_BYPASS="auto")
        told = [line for line in lines if "sums it as it is" in line]
        self.assertEqual(sorted(line.split("'")[1] for line in told),
                         sorted(2 * ["flat", "row", "column", "small"]))
        row = next(line for line in told if "'row'" in line)
        self.assertIn("bucket 'row', 16384 bytes: codec powersgd+ef sums it as it is: its shape of 1 "
                      "x 4096 is no matrix", row)


class CodecRules(unittest.TestCase):
    """WRING_CODEC_RULES, as every job and as wring.torch has it."""
    RULES = ("*.embed=int8; min=100 ;*=bf16;; 1d=fp16;layer[!2]*=int8",
             "layer?.w*=onebit:block=64+ef; min=0",
             "a/*=bf16;[[]=int8;  ", "*w=none; *=bf16; min=1", "",
             "*=int8; max=16384", "1d=bf16; max=4096; min=50; *=int8")
    TENSORS = (("layer1.embed", (10, 20)), ("layer1.weight", (100, 200)), ("layer2.w", (3, 33)),
               ("layer2.bias", (1, 4096)), ("a/b/c", (128, 128)), ("[", (200, 100)),
               ("norm", (20000, 1)), ("layer1.embedding", (5, 20)))

    def codecs(self, session):
        buckets = [session.register(name, floats(*bytes(rows * columns)), shape=(rows, columns))
                   for name, (rows, columns) in self.TENSORS]
        session.commit()
        return [bucket.stats()["codec_asked"] for bucket in buckets]

    def test_the_same_as_in_torch(self):
        path = pathlib.Path(SOURCE, "dropin", "torch", "wring", "torch", "rules.py")
        spec = importlib.util.spec_from_file_location("rules", path)
        rules = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(rules)
        seen = set()
        for text in self.RULES:
            codecs = run_ranks(1, self.codecs, WRING_CODEC_RULES=text)[0]
            for (name, (rows, columns)), codec in zip(self.TENSORS, codecs):
                parameter = types.SimpleNamespace(
                    numel=lambda: rows * columns, element_size=lambda: 4,
                    dim=lambda: 1 if 1 in (rows, columns) else 2,
                    dtype=types.SimpleNamespace(is_floating_point=True))
                want = rules.Rules(text).codec_of(name, parameter)
                self.assertEqual(codec.split(":")[0].split("+")[0], want.split(":")[0], (text, name))
                seen.add(want)
        self.assertEqual(seen, {"none", "bf16", "fp16", "int8", "onebit:block=64+ef"})

    def test_brackets_that_end_are_sets(self):
        def body(session):
            buckets = [session.register(name, floats(*bytes(2))) for name in names]
            session.commit()
            return [bucket.stats()["codec_asked"] for bucket in buckets]

        names = ("[a", "]", "c", "a]", "xbyc", "[x")
        text = "min=1; [[]a=bf16; []]=fp16; [!]x[]=int8; a]=bf16; x[ab]y[cd]=fp16; [a[]*=int8"
        self.assertEqual(run_ranks(1, body, WRING_CODEC_RULES=text)[0],
                         ["bf16", "fp16", "int8", "bf16", "fp16", "int8"])

    def test_what_they_leave_alone(self):
        def body(session):
            said = session.register("said", floats(*bytes(20000)), codec="none")
            words = session.register("words", array.array("q", [session.rank] * 20000))
            most = session.register("most", floats(*bytes(20000)), op=Op.MAX)
            plain = session.register("plain", floats(*[0.1] * 20000))
            session.commit()
            plain.post()
            plain.wait(PATIENCE)
            return [bucket.stats()["codec_asked"] for bucket in (said, words, most, plain)], \
                plain.stats()["codec"]

        for asked, ran in run_ranks(2, body, WRING_CODEC_RULES="*=bf16", WRING_BYPASS="never"):
            self.assertEqual((asked, ran), (["none", "none", "none", "bf16"], "bf16"))

    def test_ranks_that_differ(self):
        meeting = Meeting(2)

        def run(rank):
            with api.Session(bootstrap=meeting.bootstrap(rank), key="k", log=lambda *line: None,
                             settings={"WRING_CODEC_RULES": ("*=bf16", "*=fp16")[rank]}) as session:
                session.register("b", floats(*bytes(20000)))
                try:
                    session.commit()
                except WringError as error:
                    said[rank] = error.status

        said = [None, None]
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(said, [Status.MISMATCH, Status.MISMATCH])

    def told(self, body, **settings):
        """Lines about rules of a job of two ranks."""
        lines = []
        run_ranks(2, body, log=lambda level, module, text: lines.append(text), **settings)
        return [line for line in lines if line.startswith("WRING_CODEC_RULES")]

    def test_rules_that_count_for_no_bucket_are_told_once(self):
        def body(session):
            for name in ("embed", "layer.0", "layer.1", "norm"):
                session.register(name, floats(*bytes(20)))
            session.register("said", floats(*bytes(20)), codec="none")
            session.register("words", array.array("q", [0] * 20))
            session.commit()
            session.register("later", floats(*bytes(20)))
            session.commit()

        rules = ("*embd*=int8; layer*=bf16; layer.1=fp16; l?=bf16; said=int8; words=int8; 1d=none; "
                 "max=99999; later=int8")
        lines = self.told(body, WRING_CODEC_RULES=rules)
        self.assertEqual(lines, [
            "WRING_CODEC_RULES: *embd*=int8; l?=bf16; later=int8: counts for no bucket: buckets are "
            "called 'embed', 'layer.0', 'layer.1' and so on",
            "WRING_CODEC_RULES: layer.1=fp16: counts for no bucket: rules before it decide for all "
            "that it fits; put it before them"])
        self.assertEqual(self.told(body, WRING_CODEC_RULES=rules, WRING_LOG="error"), [])
        self.assertEqual(self.told(body, WRING_CODEC_RULES="*=int8"), [])
        self.assertEqual(self.told(body), [])

    def test_rules_wait_for_a_bucket_that_could_take_them(self):
        def body(session):
            session.register("said", floats(*bytes(20)), codec="none")
            session.register("words", array.array("q", [0] * 20))
            session.register("most", floats(*bytes(20)), op=Op.MAX)
            session.commit()
            counts.append(len(lines))
            session.world.barrier()
            if ruled:
                session.register("b", floats(*bytes(20)))
                session.commit()

        for ruled in (False, True):
            lines, counts = [], []
            run_ranks(2, body, log=lambda level, module, text: lines.append(text),
                      WRING_CODEC_RULES="typo=int8")
            self.assertEqual(counts, [0, 0])
            self.assertEqual(len(lines), int(ruled), lines)

    def test_bad_rules_are_refused(self):
        for text, said in (("bf16", "a rule is"), ("*=", "a rule is"), ("=bf16", "a rule is"),
                           ("*=typo", "'typo'"), ("1d=int8:block=x", "block"),
                           ("min=4k", "min=4k"), ("min=-1", "min=-1"), ("min=99999999999999999999",
                                                                       "min=999"),
                           ("max=4k", "max=4k"), ("*=bf16; max=100", "from min=16384 to max=100 "),
                           ("max=5; min=6", "from min=6 to max=5 "),
                           ("*=bf16; min=", "a rule is"),
                           ("min=1; *=bf16; min=1", "min is given twice"),
                           ("max=99999; max=99998", "max is given twice"),
                           ("1d=bf16; 1d=none", "1d is given twice"),
                           ("[abc=int8", "pattern '[abc': the bracket at byte 1 has no end"),
                           ("x[a]y[!]=int8", "the bracket at byte 6 has no end"),
                           ("*=bf16; a[=int8", "the bracket at byte 2 has no end"),
                           ("a[^=int8", "the bracket at byte 2 has no end"), ("x" * 600 + "=bf16", "a rule is"),
                           ("*=" + "int8" * 40, "a rule is")):
            with self.subTest(rules=text):
                lines = []
                with self.assertRaises(WringError) as caught:
                    api.Session(bootstrap=Meeting(1).bootstrap(0), key="k",
                                log=lambda *line: lines.append(line),
                                settings={"WRING_CODEC_RULES": text})
                self.assertEqual(caught.exception.status, Status.INVALID)
                self.assertRegex(str(lines), "WRING_CODEC_RULES=.*" + re.escape(said))


class Library(unittest.TestCase):
    """What an import says where there is no library, or another one."""

    def ask(self, library, program="from wring import api; api.library()"):
        environment = {**os.environ, "WRING_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1",
                       "PYTHONPATH": str(pathlib.Path(SOURCE) / "dropin" / "torch")}
        return subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                              capture_output=True, timeout=PATIENCE)

    def last_line(self, library):
        said = self.ask(library)
        self.assertEqual(said.returncode, 1)
        return said.stderr.splitlines()[-1]

    def test_missing(self):
        self.assertRegex(self.last_line("/nowhere/libwring.so"),
                         "ImportError: WRING_LIBRARY=/nowhere/libwring.so: .*install the package")

    def test_another_library(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"no library")
            file.flush()
            self.assertRegex(self.last_line(file.name), "ImportError: .*cannot be loaded.*WRING_LIB")
        with open("/proc/self/maps", encoding="utf-8") as file:
            libc = next(line.split()[-1] for line in file if re.search(r"/libc[.-]", line))
        self.assertRegex(self.last_line(libc), "ImportError: .*has no wring_.*of version WRING_0")

    def test_sessions_left_open_are_closed_at_exit(self):
        said = self.ask(LIBRARY, "from wring import api; s = api.Session(); print(s.size)")
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, "1\n", ""))


class Processes(unittest.TestCase):
    def test_run(self):
        program = ("import array; from wring import api\n"
                   "with api.Session() as s:\n"
                   "    a = array.array('d', [s.rank + 1.0] * 100000)\n"
                   "    s.world.allreduce(a)\n"
                   "    assert a[99999] == 6.0, a[0]\n"
                   "    print(f'rank {s.rank} of {s.size}\\n', end='')\n")
        environment = {**os.environ,
                       "PYTHONPATH": str(pathlib.Path(SOURCE) / "dropin" / "torch")}
        for provider in ("shm", "tcp"):
            said = subprocess.run([WRING, "run", "-n", "3", "--", sys.executable, "-B", "-c", program],
                                  env={**environment, "WRING_PROVIDER": provider}, text=True,
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertEqual(sorted(line[-11:] for line in said.stdout.splitlines()),
                             [f"rank {rank} of 3" for rank in range(3)])

    def test_a_lost_rank_comes_back(self):
        program = '''
import array, os, signal
from wring import api
session = api.Session()
number, weights = session.rank, array.array("d", [0.0])
data, out = array.array("f", [0.0] * 1000), array.array("f", [0.0] * 1000)
bucket = session.register("b", data, out=out)
session.commit()
session.share(weights)
step = grown = bucket.steps
newcomer = step > 0
while step < 30 or session.size < 3:
    if not newcomer and (number, step) == (1, 12):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        if step % 5 == 0 and grown != step:
            grown = step
            if session.grow():
                session.share(weights)
            continue
        data[999] = 1.0
        bucket.post()
        bucket.wait()
        assert out[999] == session.size, out[999]
        weights[0], before, step = weights[0] + out[999], weights[0], step + 1
    except api.WringError as error:
        assert error.status == api.Status.PEER, error
        session.shrink()
        if bucket.steps < step:
            weights[0] = before
        grown = step = bucket.steps
print(f"{session.size} ranks, step {step}, {weights[0]}\\n", end="")
session.close()
'''
        environment = {**os.environ, "WRING_CODEC_RULES": "typo=int8",
                       "PYTHONPATH": str(pathlib.Path(SOURCE) / "dropin" / "torch")}
        said = subprocess.run([WRING, "run", "--elastic", "2:3", "--", sys.executable, "-B", "-c",
                               program], env=environment, text=True, capture_output=True,
                              timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stderr)
        lines = said.stdout.splitlines()
        self.assertEqual((len(lines), len(set(lines)), lines[0][:7]), (3, 1, "3 ranks"),
                         said.stdout + said.stderr)
        self.assertEqual(said.stderr.count("counts for no bucket"), 1, said.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
