# SPDX-License-Identifier: Apache-2.0
"""Where replay_matrix.py runs wring, and what it keeps in its folder from one time to the next."""
import contextlib
import functools
import json
import os
import pathlib
import subprocess

import links
from peer_sides import Failed
from replay_cases import ON_LINKS

TRIES = 4  # of a calibration that finds nothing but noise, or leaves out too much for that
NOISE = "this is noise"


def run_here(wring, provider, ranks, words, timeout, **settings):
    """A command of wring whose ranks are all on this host."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("WRING_")}
    command = [wring, *map(str, words), "-n", str(ranks), "-p", provider]
    try:
        done = subprocess.run(command, env={**bare, **settings}, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: no end within {timeout:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def run_there(wring, hosts, words, timeout, **settings):
    """The same with a rank on each host."""
    try:
        return links.run_ranks(hosts, [wring, *words], timeout, **settings)
    except SystemExit as error:
        raise Failed(f"{' '.join(map(str, words))}: {error}") from None


@contextlib.contextmanager
def place(wring, setting, ranks):
    """@return a function (words, timeout, **environment): what rank 0 of so many printed"""
    if setting not in ON_LINKS:
        yield functools.partial(run_here, wring, setting, ranks)
        return
    with links.Hosts(ranks, links.LINKS[setting], bound=True) as hosts:
        yield functools.partial(run_there, wring, hosts)


class Runs:
    """A folder, and in it a line for each run."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.log = self.path / "runs.jsonl"
        self.lines = self.read()

    def read(self):
        if not self.log.exists():
            return []
        with open(self.log, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def add(self, line):
        self.lines.append(line)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def find(self, **what):
        return [line for line in self.lines
                if all(line.get(name) == value for name, value in what.items())]


class Folder(Runs):
    """Profiles and plans, and the runs of them."""

    def __init__(self, path, wring):
        super().__init__(path)
        self.wring = wring

    def profile(self, setting, ranks):
        return self.path / f"profile-{setting}-{ranks}.json"

    def calibrate(self, run, setting, ranks, codec, seconds, onto, **limits):
        """
        One codec's part; a machine that others use may be too noisy at first.
        @param onto  the profile that it is added to, as keep() gave it
        """
        path = self.profile(setting, ranks)
        words = ["calibrate", "-o", path, "-c", codec, "--name", f"{setting}, {ranks} ranks",
                 "--seconds", seconds]
        for name, value in limits.items():
            if value is not None:
                words += [f"--{name}", value]
        for attempt in range(TRIES):
            path.unlink(missing_ok=True)
            if onto:
                path.write_bytes(onto)
            try:
                run(words, 2 * seconds + 60)
                if codec in self.codecs(setting, ranks):
                    return
                raise Failed(f"{setting} x{ranks}: {codec} was left out, as {NOISE}")
            except Failed as error:
                if NOISE not in str(error) or attempt + 1 == TRIES:
                    raise

    def codecs(self, setting, ranks):
        """Those of which the profile has all that a plan needs: exchanges, and what coding costs."""
        with open(self.profile(setting, ranks), encoding="utf-8") as file:
            profile = json.load(file)
        coded = {codec["spec"] for codec in profile["codecs"]} | {"none"}
        return coded & {way["codec"] for way in profile["ways"]}

    def keep(self, setting, ranks):
        """@return the profile as it is now; None without one"""
        path = self.profile(setting, ranks)
        return path.read_bytes() if path.exists() else None

    def plan(self, case, compute):
        """@return (the plan's file, the plan)"""
        path = self.path / ("plan-" + case.title.translate(str.maketrans(" /:=", "----")) + ".json")
        words = [self.wring, "plan", "--json", "-t", case.model, "--scale", str(case.scale),
                 "--profile", str(self.profile(case.setting, case.ranks)), "-c", case.codec,
                 "--only", "--where", "cpu", "--runnable", "--bound-ms", "0", "-o", str(path)]
        if compute != "sleep":
            words += ["--compute", compute]
        done = subprocess.run(words, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=120, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
        return path, json.loads(done.stdout)
