#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others test their MPI with, with libwring_mpi.so before it:
test_suites.py coll|mpi4py|lammps MPI LIBRARY

Nothing may fail that passes without it. Sources are fetched once, into WRING_TEST_FOREIGN.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpis  # noqa: E402

HERE = pathlib.Path(__file__).parent
WHICH, NAME = sys.argv[1:3]
LIBRARY = str(pathlib.Path(sys.argv[3]).resolve())
MPI = mpis.find(NAME)
LONG = 3000  # seconds: for hangs, not for slowness


def run(words, **extra):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=LONG,
                          env=mpis.bare_environment(**extra), check=False)


def run_tap(folder, source, entries, preload):
    """@return (passed, failed), each entry -> how often: some run with several arguments"""
    with tempfile.TemporaryDirectory() as made:
        tests, tap = pathlib.Path(made) / "testlist", pathlib.Path(made) / "tap"
        tests.write_text("\n".join(entries) + "\n", encoding="utf-8")
        shutil.copy(tests, folder / "coll" / "testlist.wring")
        subprocess.run(["perl", "../runtests", f"-srcdir={source}/coll", "-tests=testlist.wring",
                        "-maxnp=4", f"-mpiexec={folder.parent}/{folder.name}-prefix/bin/mpiexec",
                        f"-xmlfile={made}/xml", f"-tapfile={tap}"], cwd=folder / "coll",
                       env=mpis.bare_environment(PRELOAD=preload, MPITEST_TIMEOUT="120"),
                       capture_output=True, stdin=subprocess.DEVNULL, timeout=LONG, check=False)
        passed, failed = collections.Counter(), collections.Counter()
        for line in tap.read_text(encoding="utf-8", errors="replace").splitlines():
            match = re.match(r"(ok|not ok) +- \./(.*?) # (SKIP|skip)?", line)
            if match and not match[3]:
                (passed if match[1] == "ok" else failed)[match[2]] += 1
        return passed, failed


def check_coll():
    mpi = "openmpi" if MPI.openmpi else "mpich"
    base = mpis.FOREIGN / "mpich-tests"
    made = run([HERE / "coll_suite.sh", base, mpi])
    if made.returncode == 3:
        mpis.skip(made.stdout.strip().splitlines()[-1])
    if made.returncode != 0:
        sys.exit(made.stdout + made.stderr)
    folder, source = base / mpi, base / "mpich-source" / "test" / "mpi"
    entries = [line for line in (folder / "coll/testlist").read_text().splitlines() if line]
    passed, failed = run_tap(folder, source, entries, LIBRARY)
    again = [entry for entry in entries if any(entry.startswith(name) for name in failed)]
    stock = run_tap(folder, source, again, "")[1] if again else {}
    worse = [name for name, times in failed.items() if times > stock.get(name, 0)]
    print(f"{passed.total()} pass, {failed.total()} fail, {sum(stock.values())} of these without "
          "wring as well")
    if worse or passed.total() < 100:
        sys.exit(f"fail with libwring_mpi.so alone: {', '.join(worse)}")


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
               MPICC=shutil.which(MPI.compiler))
    if done.returncode != 0:
        sys.exit(f"mpi4py cannot be built:\n{done.stderr}")
    (folder / "complete").touch()
    return folder


def check_mpi4py():
    folder = build_mpi4py()
    tests = next((folder / "source").glob("mpi4py-*/test/main.py"))
    for ranks in (2, 4):
        for case in ("test_cco_buf", "test_cco_nb_buf", "test_cco_obj", "test_cco_pr_buf"):
            program = [str(folder / "bin/python"), str(tests), "-q", "-i", case]
            status, out, err = mpis.run_job(MPI, ranks, program, LIBRARY, LONG, WRING_STATS="1")
            if status != 0:
                status, _, _ = mpis.run_job(MPI, ranks, program, None, LONG)
                if status == 0:
                    sys.exit(f"{case} with {ranks} ranks:\n{out}\n{err}")
            print(case, ranks, " ".join(re.findall(r"Ran \d+ tests|OK.*|served:.*", err)[-3:]))


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
