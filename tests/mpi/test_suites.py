#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others test their MPI with, with libwring_mpi.so before it:
test_suites.py coll|mpi4py|lammps MPI LIBRARY [ENTRY...]

Nothing may fail that passes without it. Sources are fetched once, into WRING_TEST_FOREIGN. Entries of
MPICH's list may be named: 'allred 4 arg=-count=10'.
"""
import collections
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpis  # noqa: E402

HERE = pathlib.Path(__file__).parent
WHICH, NAME = sys.argv[1:3]
LIBRARY = str(pathlib.Path(sys.argv[3]).resolve())
MPI = mpis.find(NAME)
LONG = 3000  # seconds: for hangs, not for slowness
ENTRY = 300  # the same, for an entry of MPICH's tests


def run(words, **extra):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=LONG,
                          env=mpis.bare_environment(**extra), check=False)


# Launches an entry of MPICH's tests. They take any line but "No Errors" for a failure, so the counts
# of WRING_STATS go to a file of their own.
LAUNCHER = """#!/bin/sh
{words} "$@" >{made}/said 2>&1
status=$?
grep -E '^wring: mpi: (served|left to)' {made}/said >>{made}/counts
grep -vE '^wring: mpi: (served|left to)' {made}/said
exit $status
"""


class Coll:
    """MPICH's tests of collectives: each entry of their list by their own script."""

    def __init__(self, made):
        name = "openmpi" if MPI.openmpi else "mpich"
        base = mpis.FOREIGN / "mpich-tests"
        done = run([HERE / "coll_suite.sh", base, name])
        if done.returncode == 3:
            mpis.skip(done.stdout.strip().splitlines()[-1])
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        self.made = pathlib.Path(made)
        self.folder = base / name / "coll"
        self.source = base / "mpich-source" / "test" / "mpi" / "coll"
        for side, variables in (("wring", {"LD_PRELOAD": LIBRARY, "WRING_STATS": "1"}),
                               ("stock", {})):
            words = shlex.join(MPI.start_words(None, variables))
            launcher = self.made / side
            launcher.write_text(LAUNCHER.format(words=words, made=made), encoding="utf-8")
            launcher.chmod(0o755)

    def entries(self):
        """Lines of the list: a program, its ranks, and more."""
        lines = (self.folder / "testlist").read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def run(self, side, entry):
        """@return ("ok", "failed", "skipped" or "not built"; what it said; whether it took all of
        its time)"""
        mine = self.folder / "testlist.wring"
        mine.write_text(entry + "\n", encoding="utf-8")
        tap = self.made / "tap"
        tap.unlink(missing_ok=True)
        begun = time.monotonic()
        subprocess.run(["perl", "../runtests", f"-srcdir={self.source}", f"-tests={mine.name}",
                        "-maxnp=4", f"-mpiexec={self.made / side}", f"-xmlfile={self.made}/xml",
                        f"-tapfile={tap}"], cwd=self.folder,
                       env=mpis.bare_environment(MPITEST_TIMEOUT=str(ENTRY)), capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=LONG, check=False)
        took = time.monotonic() - begun
        said = tap.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^(ok|not ok) [^#]*(# SKIP)?", said, re.M)
        if match is None:
            return "not built", said, False
        if match[2]:
            return "skipped", said, False
        limit = re.search(r"timeLimit=(\d+)", entry)
        return ("ok" if match[1] == "ok" else "failed", said,
                took > int(limit[1] if limit else ENTRY) - 2)

    def served(self):
        counts = (self.made / "counts").read_text(encoding="utf-8")
        return sum(int(number) for line in re.findall(r"served: (.*)", counts)
                   for number in re.findall(r" (\d+)", " " + line))


def check_coll():
    with tempfile.TemporaryDirectory() as made:
        coll = Coll(made)
        results, worse = collections.Counter(), []
        for entry in sys.argv[4:] or coll.entries():
            sides = {side: coll.run(side, entry) for side in ("wring", "stock")}
            if sides["wring"][0] == "failed" and sides["stock"][0] == "ok" and sides["wring"][2]:
                # what else this machine did may have taken its time
                sides["wring"] = coll.run("wring", entry)
            ended = (sides["wring"][0], sides["stock"][0])
            results[ended] += 1
            print(f"{entry}: {ended[0]}; in stock {ended[1]}", flush=True)
            if ended[0] != "ok" and ended[1] == "ok":
                worse.append(entry)
                print(sides["wring"][1], flush=True)
        served = coll.served()
    print(f"{results.total()} entries: {results['ok', 'ok']} pass with wring and in stock, "
          f"{results['failed', 'failed']} fail in both, {results['ok', 'failed']} in stock alone, "
          f"{len(worse)} with wring alone; {results['skipped', 'skipped']} are skipped, "
          f"{results['not built', 'not built']} cannot be built; {served} calls served")
    if worse:
        sys.exit(f"fail with libwring_mpi.so alone: {', '.join(worse)}")
    if len(sys.argv) == 4 and (results["ok", "ok"] < 100 or served <= 1000):
        sys.exit("more than 100 entries should pass, and more than 1,000 calls be served")


def build_mpi4py():
    folder = mpis.FOREIGN / f"mpi4py-{NAME}"
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    steps = [[sys.executable, "-m", "venv", folder],
             [folder / "bin/pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
              "--no-binary=mpi4py", "--dest", folder / "sdist", "mpi4py>=4,<5"]]
    for words in steps:
        done = run(words)
        if done.returncode != 0:
            mpis.skip(f"mpi4py cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    sdist = next((folder / "sdist").glob("mpi4py-*.tar.gz"))
    shutil.unpack_archive(sdist, folder / "source")
    done = run([folder / "bin/pip", "--disable-pip-version-check", "install", "--quiet", sdist],
               MPICC=shutil.which(MPI.compiler), CFLAGS="-O0 -g0")  # a minute instead of five
    if done.returncode != 0:
        sys.exit(f"mpi4py cannot be built:\n{done.stderr}")
    (folder / "complete").touch()
    return folder


def run_mpi4py(folder, ranks, library):
    """@return (tests that ran, names of those that failed, what it said)"""
    tests = next((folder / "source").glob("mpi4py-*/test/main.py"))
    program = [str(folder / "bin/python"), str(tests), "-q", "-i", "test_cco"]
    status, out, err = mpis.run_job(MPI, ranks, program, library, LONG, WRING_STATS="1")
    ran = re.search(r"Ran (\d+) tests", err)
    failed = set(re.findall(r"^(?:FAIL|ERROR): (\S+ \(\S+)", err, re.M))
    if ran is None or (status != 0 and not failed):
        failed.add(f"the program: it ends with {status}")
    return int(ran[1]) if ran else 0, failed, out + err


def check_mpi4py():
    folder = build_mpi4py()
    for ranks in (2, 4):
        n_stock, stock, _ = run_mpi4py(folder, ranks, None)
        n_wring, wring, said = run_mpi4py(folder, ranks, LIBRARY)
        served = re.search(r"served:(.*)", said)
        print(f"{ranks} ranks: {n_wring} tests, {len(wring)} fail, in stock {n_stock} and "
              f"{len(stock)}; served:{served[1] if served else ' nothing'}", flush=True)
        if wring - stock or n_wring != n_stock or served is None:
            sys.exit(f"{said}\nfail with libwring_mpi.so alone: {sorted(wring - stock)}")


LAMMPS = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 50
run 200
"""


def check_lammps():
    if shutil.which("lmp") is None:
        mpis.skip("lammps is not installed: apt-get install lammps")
    said = []
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "in.lj"
        script.write_text(LAMMPS, encoding="utf-8")
        for library in (None, LIBRARY):
            status, out, err = mpis.run_job(
                MPI, 2, ["lmp", "-in", str(script), "-log", "none"], library, WRING_STATS="1")
            if status != 0:
                sys.exit(f"lammps ends with {status}:\n{out}\n{err}")
            said.append(re.findall(r"^ +\d+ +[\d.-]+ +[\d.-]+ .*$", out, re.M))
            served = re.search(r"served:.*allreduce (\d+)", err)
    if len(said[0]) < 4 or said[0] != said[1]:
        sys.exit(f"lammps computes otherwise:\n{said[0]}\n{said[1]}")
    if served is None:
        sys.exit("lammps: no allreduce was served")
    print(f"lammps: the same {len(said[0])} rows, {served[1]} allreduces served")


{"coll": check_coll, "mpi4py": check_mpi4py, "lammps": check_lammps}[WHICH]()
