#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_launcher.py RIG WRING WHO PAGE [TEST...]: the same programs, by one launcher.

WRING_TEST_FOREIGN names the folder where ./run test --foreign installs launchers of others.
"""
import contextlib
import json
import os
import re
import signal
import sys
import time
import unittest

import hosts as machines
import rig as rigs
import rig_hydra
import rig_openmpi
import rig_slurm
import rig_torchrun

RIGS = {
    "variables": rigs.OwnVariables,
    "run": rigs.WringRun,
    "torch-variables": rig_torchrun.TorchVariables,
    "srun-none": rig_slurm.SrunNone,
    "srun-pmi2": rig_slurm.SrunPmi2,
    "srun-pmix": rig_slurm.SrunPmix,
    "openmpi4": rig_openmpi.OpenMpi4,
    "openmpi5": rig_openmpi.OpenMpi5,
    "hydra4": rig_hydra.Hydra4,
    "hydra5": rig_hydra.Hydra5,
    "torchrun": rig_torchrun.Torchrun,
}
NEED_FOREIGN = ("openmpi4", "openmpi5", "hydra4", "hydra5", "torchrun")
RIG, WRING, WHO, PAGE = sys.argv[1], *map(os.path.abspath, sys.argv[2:5])
KEY = "a key that nobody may see, 4711"
HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")  # what a launcher carries looks so
COMPLAINTS = ("BAD TERMINATION", "exiting improperly", "exited improperly", "PMIX ERROR")
rig = None  # the one of this run


def keyed(hosts):
    """The variables that a job needs on so many hosts."""
    return {} if hosts == 1 or rig.carries else {"WRING_KEY": KEY}


def start(ranks, hosts, *program, **variables):
    return rigs.Job(rig.commands(ranks, hosts), program, **{**keyed(hosts), **variables})


class Case(unittest.TestCase):
    maxDiff = None

    def launch(self, ranks, hosts, *program, **variables):
        """A job that succeeds. @return (standard output, standard error)"""
        return self.end(start(ranks, hosts, *program, **variables))

    def end(self, job):
        status, out, err = job.finish()
        self.assertEqual(status, 0, f"{out}\n{err}")
        for complaint in COMPLAINTS:
            self.assertNotIn(complaint, out + err)
        return out, err

    def check_who(self, out, ranks, hosts):
        # launchers may put the pieces of other lines before and after them
        lines = re.findall(r"(first|second) rank (\d+) of (\d+) host (\w+) exact (yes|no)", out)
        wanted = sorted((turn, str(rank), str(ranks), machines.NAMES[rank * hosts // ranks], "yes")
                        for turn in ("first", "second") for rank in range(ranks))
        self.assertEqual(sorted(lines), wanted, out)

    @staticmethod
    def shapes():
        """(ranks, hosts) that the launcher can start."""
        return [(ranks, hosts) for ranks in (2, 4) for hosts in range(1, rig.hosts + 1)]


class Jobs(Case):
    def test_ranks_meet_twice_and_sum_exactly(self):
        for ranks, hosts in self.shapes():
            with self.subTest(ranks=ranks, hosts=hosts):
                out, _ = self.launch(ranks, hosts, WHO)
                self.check_who(out, ranks, hosts)

    def test_bench_prints_one_table(self):
        for ranks, hosts in self.shapes():
            with self.subTest(ranks=ranks, hosts=hosts):
                out, _ = self.launch(ranks, hosts, WRING, "bench", "allreduce", "--bytes",
                                     "8,64k,1m", "--iterations", "20", "--json")
                results = json.loads(out)["results"]
                self.assertEqual([row["bytes"] for row in results], [8, 64 << 10, 1 << 20])
                self.assertEqual({(row["ranks"], row["wrong"]) for row in results}, {(ranks, 0)})

    def test_one_rank_is_a_job_of_its_own(self):
        out, _ = self.launch(1, 1, WHO)
        self.check_who(out, 1, 1)

    def test_commands_that_join_a_job(self):
        folder = os.path.join(places.folder, "profiles")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{RIG}.json")
        self.launch(2, 1, WRING, "calibrate", "-c", "none", "--seconds", "0.3", "--elements", "4k",
                    "--doubt", "100", "-o", path)
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
        self.assertEqual((profile["nodes"], profile["ranks_per_node"]), (1, 2))
        out, _ = self.launch(2, 1, WRING, "replay", "-t", "lstm", "--iterations", "2",
                             "--scale", "0.02", "--json")
        self.assertEqual(json.loads(out)["ranks"], 2, out)
        if RIG in ("srun-pmi2", "openmpi4"):  # the slowest of them: twice is enough
            report = os.path.join(folder, f"{RIG}.html")
            out, _ = self.launch(2, 1, WRING, "demo", "--steps", "40", "--timed-steps", "20",
                                 "--hidden", "32", "--codec", "fp32,bf16", "--report", report,
                                 "--json")
            self.assertEqual(json.loads(out)["ranks"], 2, out[:2000])

    def test_two_jobs_at_once(self):
        jobs = [start(2, 1, WHO) for _ in range(2)]
        for job in jobs:
            out, _ = self.end(job)
            self.check_who(out, 2, 1)

    def test_job_begins_again_at_once_when_it_was_killed(self):
        job = start(2, 1, WHO, "stay")
        self.wait_for(job, 4)
        self.kill_ranks()
        again = start(2, 1, WHO)
        out, _ = self.end(again)
        self.check_who(out, 2, 1)
        status, _, _ = job.finish(20)
        self.assertNotEqual(status, 0)

    def wait_for(self, job, lines, part="exact", which=0):
        """@param which  0: standard output, 1: standard error"""
        deadline = time.monotonic() + rigs.PATIENCE
        while job.said(which).count(part) < lines:
            self.assertLess(time.monotonic(), deadline, job.said(0) + job.said(1))
            time.sleep(0.02)

    @staticmethod
    def command_lines():
        """(pid, words) of every process here; these namespaces have those of this test only."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                        found.append((int(name), file.read().split("\0")))
                except OSError:
                    pass  # it has ended
        return found

    def ranks_running(self):
        pids = [pid for pid, words in self.command_lines() if words[0] == WHO]
        self.assertEqual(len(pids), 2)
        return pids

    def kill_ranks(self):
        for pid in self.ranks_running():
            with contextlib.suppress(ProcessLookupError):  # its launcher may be faster
                os.kill(pid, signal.SIGKILL)

    def test_nobody_sees_the_key(self):
        hosts = rig.hosts
        for variables in ({"WRING_KEY": KEY}, {}):
            if hosts > 1 and not variables and not rig.carries:
                continue
            with self.subTest(variables=list(variables)):
                job = start(2, hosts, WHO, "stay", WRING_LOG="debug", **variables)
                self.wait_for(job, 4)
                self.wait_for(job, 1, "wring: ", 1)  # a launcher may lose what comes last
                words = [" ".join(words) for _, words in self.command_lines()]
                self.kill_ranks()
                _, out, err = job.finish(20)  # some launchers stay when their ranks are killed
                self.assertIn("wring: ", err, "logs at debug")
                for text in [*words, out, err]:
                    self.assertNotIn(KEY, text)
                    self.assertIsNone(HEX_KEY.search(text), text)


class Told(Case):
    """What wring info says of the launcher."""

    def test_info_names_the_launcher(self):
        own_file = f"$(mktemp --suffix=.info -p '{places.folder}')"
        out, _ = self.launch(2, 1, "sh", "-c", f"'{WRING}' info --json > {own_file}")
        self.assertEqual(out, "")
        told = []
        for name in os.listdir(places.folder):
            if name.endswith(".info"):
                with open(os.path.join(places.folder, name), encoding="utf-8") as file:
                    told.append(json.load(file)["launcher"])
                os.unlink(os.path.join(places.folder, name))
        self.assertEqual({one["name"] for one in told}, {rig.name})
        self.assertEqual(sorted(one["rank"] for one in told), [0, 1])
        self.assertEqual({(one["size"], one["usable"]) for one in told}, {(2, True)})
        if RIG != "variables":
            self.assertEqual({one["local_size"] for one in told}, {2})

    def test_info_does_not_show_the_key(self):
        for form in ([], ["--json"]):
            out, err = self.launch(2, 1, WRING, "info", *form, WRING_KEY=KEY)
            self.assertNotIn(KEY, out + err)
            if RIG != "run":  # which gives each job a key of its own
                self.assertIn("WRING_KEY", out)
            self.assertIsNone(HEX_KEY.search(out + err))

    def test_without_a_key_there_are_no_two_hosts(self):
        if rig.carries or rig.hosts < 2:
            return
        # both ranks end by themselves: srun may lose the last lines of a job that it kills
        job = rigs.Job(rig.commands(2, 2), [WHO], WRING_JOIN_TIMEOUT="20", SLURM_KILL_BAD_EXIT="0")
        status, out, err = job.finish()
        self.assertNotEqual(status, 0)
        self.assertRegex(err, r"set .*WRING_KEY")
        self.assertNotIn("exact", out)

    def test_key_from_a_file(self):
        path = os.path.join(places.folder, "job.key")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w",
                  encoding="ascii") as file:
            file.write("e" * 43 + "\n")
        job = rigs.Job(rig.commands(2, rig.hosts), [WHO], WRING_KEY_FILE=path)
        out, _ = self.end(job)
        self.check_who(out, 2, rig.hosts)


class Page(Case):
    """What docs/launchers.md says for this launcher, typed as it stands."""

    def boxes(self):
        """Of each box for this launcher, what is typed on the two hosts."""
        with open(PAGE, encoding="utf-8") as file:
            found = re.findall(r"^<!-- (.*?) -->\n```\n(.*?)^```$", file.read(), re.M | re.S)
        return [["\n".join(re.findall(rf"^{host}\$ (.*)$", body, re.M)) for host in "AB"]
                for rigs_named, body in found if RIG in rigs_named.split()]

    def test_commands_of_the_page(self):
        boxes = self.boxes()
        if not boxes:
            self.assertIn(RIG, ("variables", "torch-variables"), "a launcher without a section")
            return
        folder = os.path.join(places.folder, "typed")
        os.makedirs(folder, exist_ok=True)
        os.symlink(WHO, os.path.join(folder, "train"))
        environment = rig.typing() if hasattr(rig, "typing") else {}
        environment["PATH"] = ":".join([environment.get("PATH", ""), os.path.dirname(WRING),
                                        os.environ["PATH"]]).lstrip(":")
        before = ["", ""]  # what stays set from one box to the next
        for box in boxes:
            starts = "./train" in "".join(box)
            commands = [(prefix, ["sh", "-e", "-c", f"cd {folder}\n{told}\n{typed}"], environment)
                        for prefix, told, typed in zip(places.prefixes, before, box) if typed]
            out, _ = self.end(rigs.Job(commands, []))
            if starts:
                self.check_who(out, 4, rig.hosts)
            else:
                before = [f"{told}\n" + "\n".join(line for line in typed.splitlines()
                                                  if line.startswith("export "))
                          for told, typed in zip(before, box)]


if __name__ == "__main__":
    if RIG in NEED_FOREIGN and not os.environ.get("WRING_TEST_FOREIGN"):
        machines.skip("launchers of others are tried by ./run test --foreign")
    machines.enter()
    places = machines.Hosts(WRING)
    places.program = WRING
    rig = RIGS[RIG](places, os.environ.get("WRING_TEST_FOREIGN", ""))
    if hasattr(rig, "program") and not os.path.exists(rig.program):
        sys.exit(f"no {rig.program}")
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[5:]])
