#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring run: what ranks are told, whose failure is reported, and that nothing is left behind."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import wringtest
from wringtest import is_alive, start, wait_until, wring


class Ranks(unittest.TestCase):
    def test_know_who_they_are(self):
        result = wring("run", "-n", "3", "--tag", "--", "sh", "-c",
                       'echo "$WRING_RANK/$WRING_SIZE/$WRING_LOCAL_SIZE $WRING_ROOT $WRING_KEY"; '
                       'echo "fd ${WRING_ROOT_FD-none}"')
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = sorted(result.stdout.splitlines())
        told = [re.fullmatch(r"\[(\d)\] (\d)/3/3 (127\.0\.0\.1:\d+) ([0-9a-f]{64})", line)
                for line in lines if "/3/3" in line]
        self.assertEqual([(m[1], m[2]) for m in told], [("0", "0"), ("1", "1"), ("2", "2")])
        self.assertEqual(len({(m[3], m[4]) for m in told}), 1, "root and key are the job's")
        self.assertRegex("\n".join(lines), r"\[0\] fd \d+")
        self.assertIn("[1] fd none", lines)
        self.assertIn("[2] fd none", lines)

    def test_each_job_has_a_key_of_its_own(self):
        keys = {wring("run", "-n", "1", "--", "sh", "-c", "echo $WRING_KEY",
                      WRING_KEY="mine").stdout for _ in range(2)}
        self.assertEqual(len(keys), 2)
        self.assertNotIn("mine\n", keys)

    def test_provider_is_passed_on(self):
        result = wring("run", "-n", "1", "-p", "tcp", "--", "sh", "-c", "echo $WRING_PROVIDER")
        self.assertEqual(result.stdout, "tcp\n")

    def test_as_many_ranks_as_asked_for(self):
        """Commands that are told how many they are say so where a launcher started others."""
        for command in (("bench", "allreduce"), ("calibrate", "-o", "/nowhere"),
                        ("replay", "-t", "lstm")):
            result = wring("run", "-n", "1", "--", wringtest.WRING, *command, "-n", "2")
            self.assertEqual(result.returncode, 1)
            self.assertIn("the launcher started 1 ranks; asked for were 2", result.stderr)

    def test_arguments_are_left_alone(self):
        result = wring("run", "-n", "1", "printf", "%s|", "-n", "--help", "a b")
        self.assertEqual(result.stdout, "-n|--help|a b|")

    def test_tagged_lines_are_whole(self):
        result = wring("run", "-n", "4", "-t", "--", "sh", "-c",
                       "i=0; while [ $i -lt 2000 ]; do echo line$i; i=$((i+1)); done; printf end")
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 4 * 2001)
        for rank in range(4):
            own = [line[4:] for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"line{i}" for i in range(2000)] + ["end"])

    SHOW_CORES = [sys.executable, "-c",
                  "import os; os.write(1, f'{sorted(os.sched_getaffinity(0))}\\n'.encode())"]

    def cores_of(self, ranks, *options):
        result = wring("run", "-n", str(ranks), *options, "--", *self.SHOW_CORES)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [set(json.loads(line)) for line in result.stdout.splitlines()]

    def test_share_out_the_cores(self):
        ours = os.sched_getaffinity(0)
        alone = self.cores_of(1)
        self.assertEqual(alone, [ours])
        pair = self.cores_of(2)
        self.assertEqual(pair[0] | pair[1], ours)
        if len(ours) % 2 == 0 and len(ours) > 1:
            self.assertFalse(pair[0] & pair[1], "two ranks on different cores")

    def test_are_bound_to_no_cores_when_asked_or_uneven(self):
        ours = os.sched_getaffinity(0)
        self.assertEqual(self.cores_of(2, "--bind", "none"), [ours, ours])
        uneven = len(ours) + 1
        if uneven > 2:
            self.assertEqual(self.cores_of(uneven), [ours] * uneven)
        self.assertEqual(wring("run", "--bind", "some", "true").returncode, 2)


class Failure(unittest.TestCase):
    STAY = "while :; do sleep 0.1; done"  # until the launcher has seen that another one failed

    def end_after_failure(self, script):
        """Rank 1 fails, and rank 0 runs the script once the launcher has said so.
        @return exit status, what was said"""
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as said:
            with open(said.name, "w", encoding="utf-8") as errors:
                status = subprocess.run(
                    [wringtest.WRING, "run", "-n", "2", "-g", "240", "--", "sh", "-c",
                     f"[ $WRING_RANK = 1 ] && exit 3; until grep -q 'rank 1 ended' {said.name}; "
                     f"do sleep 0.05; done; {script}"],
                    env=wringtest.environment(), stdin=subprocess.DEVNULL, stderr=errors,
                    timeout=wringtest.PATIENCE, check=False).returncode
            return status, said.read()

    def test_exit_status_of_the_failing_rank(self):
        result = wring("run", "-n", "3", "-g", "60", "--", "sh", "-c",
                       '[ $WRING_RANK = 1 ] && exit 7; sleep 0.5; exit 0')
        self.assertEqual(result.returncode, 7)
        self.assertIn("rank 1 ended with exit status 7", result.stderr)

    def test_first_failure_counts(self):
        result = wring("run", "-n", "2", "-g", "1", "--", "sh", "-c",
                       '[ $WRING_RANK = 1 ] && exit 3; trap "exit 4" TERM; ' + self.STAY)
        self.assertEqual(result.returncode, 3)
        self.assertNotIn("status 4", result.stderr)

    def test_killed_rank_is_named(self):
        result = wring("run", "-n", "2", "-g", "1", "--", "sh", "-c",
                       '[ $WRING_RANK = 0 ] && kill -9 $$; trap "exit 1" TERM; ' + self.STAY)
        self.assertEqual(result.returncode, 128 + signal.SIGKILL)
        self.assertIn("rank 0 was killed by signal 9", result.stderr)

    def test_killed_rank_explains_one_that_gave_up_before(self):
        status, said = self.end_after_failure("kill -KILL $$")
        self.assertEqual(status, 128 + signal.SIGKILL, said)
        self.assertIn("rank 0 was killed by signal 9", said)

    def test_rank_that_aborts_afterwards_explains_nothing(self):
        """Programs abort because a peer has failed; nobody kills itself for that."""
        status, said = self.end_after_failure("kill -ABRT $$")
        self.assertEqual(status, 3, said)
        self.assertNotIn("rank 0 was killed", said)

    def test_survivors_are_ended_after_their_grace(self):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            result = wring("run", "-n", "3", "-g", "0.2", "--", "sh", "-c",
                           f'cd {folder}; if [ $WRING_RANK = 2 ]; then '
                           'until [ -e 0 ] && [ -e 1 ]; do sleep 0.05; done; exit 5; fi; '
                           'trap "" TERM; touch $WRING_RANK; sleep 600 & wait; sleep 600')
        self.assertEqual(result.returncode, 5)
        self.assertIn("SIGTERM to ranks 0, 1", result.stderr)
        self.assertIn("SIGKILL to ranks 0, 1", result.stderr)
        self.assertLess(time.monotonic() - began, 240)

    def test_stopped_survivor_is_ended_too(self):
        result = wring("run", "-n", "2", "-g", "0.2", "--", "sh", "-c",
                       '[ $WRING_RANK = 0 ] && { sleep 0.3; exit 5; }; kill -STOP $$')
        self.assertEqual(result.returncode, 5)

    def test_program_that_cannot_start(self):
        result = wring("run", "-n", "4", "--", "/nonexistent/program")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("/nonexistent/program", result.stderr)
        self.assertEqual(wring("run", "--", "/etc/passwd").returncode, 126)


class Inherited(unittest.TestCase):
    """What whoever starts wring run has set up beforehand."""

    def start_ignoring(self, number, script, **more):
        def ignore():
            signal.signal(number, signal.SIG_IGN)

        return subprocess.Popen([wringtest.WRING, "run", "-n", "2", "--", "sh", "-c", script],
                                env=wringtest.environment(), text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=ignore,
                                **more)

    def test_ignored_signals_stay_ignored(self):
        """nohup, and background jobs of a script; by the launcher and by its ranks."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            with self.subTest(number=number), tempfile.TemporaryDirectory() as folder:
                script = (f"touch {folder}/up$WRING_RANK; "
                          f"until [ -e {folder}/go ]; do sleep 0.05; done; "
                          f"kill -{int(number)} $$; touch {folder}/end$WRING_RANK")
                process = self.start_ignoring(number, script)
                self.assertTrue(wait_until(lambda: len(os.listdir(folder)) == 2))
                process.send_signal(number)
                process.send_signal(number)
                time.sleep(0.2)  # for a launcher that would pass them on
                with open(f"{folder}/go", "w", encoding="ascii"):
                    pass
                _, errors = process.communicate(timeout=wringtest.PATIENCE)
                self.assertEqual(process.returncode, 0, errors)
                self.assertIn("end0", os.listdir(folder))
                self.assertIn("end1", os.listdir(folder))

    def test_others_still_reach_the_ranks(self):
        """Of a process that ignores one signal."""
        with tempfile.TemporaryDirectory() as folder:
            process = self.start_ignoring(signal.SIGHUP,
                                          f"touch {folder}/$WRING_RANK; exec sleep 600")
            self.assertTrue(wait_until(lambda: len(os.listdir(folder)) == 2))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=wringtest.PATIENCE)
            self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_ends_of_children_are_heard_of(self):
        """Who ignores them has the system forget how they ended."""
        process = self.start_ignoring(signal.SIGCHLD, "exit 3")
        _, errors = process.communicate(timeout=wringtest.PATIENCE)
        self.assertEqual(process.returncode, 3, errors)

    def test_ranks_have_the_signals_of_their_launcher(self):
        result = wring("run", "-n", "1", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
        self.assertEqual(re.findall("[0-9a-f]{16}", result.stdout)[0], "0" * 16,
                         "nothing is blocked in them, SIGPIPE neither")
        self.assertFalse(int(re.findall("[0-9a-f]{16}", result.stdout)[1], 16)
                         & 1 << (signal.SIGPIPE - 1), "subprocess gives it its default back")


class NothingIsLeft(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def pids(self, count):
        """Process numbers that ranks wrote into the directory."""
        def read():
            found = []
            for name in os.listdir(self.directory):
                with open(os.path.join(self.directory, name), encoding="ascii") as file:
                    found += [int(word) for word in file.read().split()]
            return found
        self.assertTrue(wait_until(lambda: len(read()) == count), "ranks did not start")
        return read()

    def script(self, body):
        return body.replace("NOTE", f"> {self.directory}/$WRING_RANK.$$")

    def test_not_even_what_left_its_group(self):
        result = wring("run", "-n", "2", "--", "sh", "-c",
                       self.script("setsid sleep 300 & echo $! NOTE; sleep 0.2; exit 0"))
        self.assertEqual(result.returncode, 0)
        self.assertFalse([pid for pid in self.pids(2) if is_alive(pid)])

    def test_after_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            job = start("run", "-n", "2", "-g", "0.5", "--", "sh", "-c",
                        self.script("sleep 300 & echo $$ $! NOTE; wait"))
            pids = self.pids(4)
            job.send_signal(number)
            job.communicate(timeout=wringtest.PATIENCE)
            self.assertEqual(job.returncode, 128 + number)
            self.assertFalse([pid for pid in pids if is_alive(pid)])
            for name in os.listdir(self.directory):
                os.unlink(os.path.join(self.directory, name))

    def test_signal_reaches_the_ranks(self):
        job = start("run", "-n", "2", "-g", "240", "--", "sh", "-c", self.script(
            "trap 'echo heard; exit 0' TERM; echo $$ NOTE; while :; do sleep 0.1; done"))
        self.pids(2)
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=wringtest.PATIENCE)
        self.assertEqual(output, "heard\nheard\n")
        self.assertEqual(job.returncode, 0)

    def test_ranks_die_with_a_killed_launcher(self):
        job = start("run", "-n", "2", "--", "sh", "-c",
                    self.script("echo $$ NOTE; exec sleep 300"))
        pids = self.pids(2)
        job.kill()
        job.communicate(timeout=wringtest.PATIENCE)
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in pids)))

    def test_what_ranks_started_dies_with_a_killed_launcher(self):
        job = start("run", "-n", "2", "--", "sh", "-c",
                    self.script("trap '' HUP TERM; sleep 300 & echo $$ $! NOTE; wait"))
        pids = self.pids(4)
        with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="ascii") as file:
            pids += [int(pid) for pid in file.read().split()]
        job.kill()
        job.communicate(timeout=wringtest.PATIENCE)  # nobody holds its output open
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in pids)))

    def test_what_became_a_daemon_ends_with_the_job(self):
        """It left its group and session, and its parent is gone."""
        result = wring("run", "-n", "1", "--", "sh", "-c",
                       f"setsid sh -c 'sleep 300 & echo $! > {self.directory}/daemon'; exit 0")
        self.assertEqual(result.returncode, 0)
        self.assertFalse([pid for pid in self.pids(1) if is_alive(pid)])


if __name__ == "__main__":
    wringtest.main()
