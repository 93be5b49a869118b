# SPDX-License-Identifier: Apache-2.0
"""The MPIs that libwring_mpi.so is tried with: how each compiles, and starts a job.

Debian's stand beside each other, and those of PyPI in WRING_TEST_FOREIGN, by launchers/install.sh.
"""
import os
import pathlib
import shutil
import subprocess
import sys

PATIENCE = 250  # seconds: for hangs, not for slowness
FOREIGN = pathlib.Path(os.environ.get("WRING_TEST_FOREIGN", "")
                       or pathlib.Path.home() / ".cache" / "wring-foreign")
LAUNCHED = ("WRING_", "OMPI_", "OPAL_", "PMI_", "PMIX_", "PRTE_", "SLURM_", "HYDRA_", "MPI_LOCAL",
            "LD_PRELOAD")


class Mpi:
    """One MPI library: its compiler wrapper, its mpirun, and how that passes variables on."""

    def __init__(self, name, compiler, launcher, openmpi, fortran=None):
        self.name, self.openmpi = name, openmpi
        self.compiler, self.launcher, self.fortran = compiler, launcher, fortran

    def missing(self):
        """What of it cannot be found, or None."""
        for program in (self.compiler, self.launcher):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        return None

    def start_words(self, ranks, variables):
        """The words that start a job whose ranks have these variables.

        @param ranks  None: more words are to follow that say it
        """
        number = [] if ranks is None else ["-n", str(ranks)]
        if self.openmpi:
            words = [self.launcher, "--allow-run-as-root", "--oversubscribe", *number]
            for name, value in variables.items():
                words += ["-x", f"{name}={value}"]
            return words
        words = [self.launcher, *number]
        for name, value in variables.items():
            words += ["-genv", name, value]
        return words


MPIS = [
    Mpi("openmpi4", "mpicc.openmpi", "mpirun.openmpi", True, "mpifort.openmpi"),
    Mpi("mpich4", "mpicc.mpich", "mpirun.mpich", False, "mpifort.mpich"),
    Mpi("openmpi5", str(FOREIGN / "openmpi/bin/mpicc"), str(FOREIGN / "openmpi/bin/mpirun"), True),
    Mpi("mpich5", str(FOREIGN / "mpich/bin/mpicc"), str(FOREIGN / "mpich/bin/mpirun"), False),
    Mpi("standard", str(FOREIGN / "mpich/bin/mpicc_abi"), str(FOREIGN / "mpich/bin/mpirun"), False),
]


def find(name):
    """The MPI of that name; a test that needs one that is not there is skipped."""
    mpi = next(one for one in MPIS if one.name == name)
    reason = mpi.missing()
    if reason is not None:
        skip(f"{reason}: ./run test --foreign installs it")
    return mpi


def skip(reason):
    print(reason)
    sys.exit(77)


def bare_environment(**extra):
    bare = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHED)}
    return {**bare, "HWLOC_COMPONENTS": "-pci", **extra}


def compile_program(mpi, source, program, *flags):
    compiler = mpi.fortran if source.endswith((".f90", ".F90", ".f")) else mpi.compiler
    done = subprocess.run([compiler, "-O1", "-o", program, source, *flags], text=True,
                          env=bare_environment(), capture_output=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise AssertionError(f"{compiler} {source}:\n{done.stderr}")


def run_job(mpi, ranks, program, library, seconds=PATIENCE, **variables):
    """@param library  for LD_PRELOAD; None: the MPI alone
    @return (exit status, standard output, standard error)"""
    if library is not None:
        variables = {"LD_PRELOAD": library, **variables}
    with subprocess.Popen([*mpi.start_words(ranks, variables), *program], text=True,
                          env=bare_environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as job:
        try:
            out, err = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            job.terminate()  # launchers end their ranks then
            try:
                out, err = job.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                job.kill()
                out, err = job.communicate()
            return "did not end", out, err
    return job.returncode, out, err
