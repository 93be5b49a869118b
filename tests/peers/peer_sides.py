# SPDX-License-Identifier: Apache-2.0
"""The programs that compare.py runs: wring's benchmarks, the peers' drivers, the machine's limits.

Each function runs one of them and returns a dictionary of its medians in us by bytes, or what its
own line says. A program that fails, hangs or gives a wrong sum raises Failed.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

TIMEOUT = 300
LOOPBACK = "127.0.0.1"
BTL = {"shm": ["self,vader"], "tcp": ["self,tcp", "--mca", "btl_tcp_if_include", "lo"]}
MPI = {  # driver: name, launchers, what a launcher's version says, packages
    "openmpi": ("Open MPI", ("mpirun.openmpi", "mpirun"), ("Open MPI", "OpenRTE"),
                "openmpi-bin libopenmpi-dev"),
    "mpich": ("MPICH", ("mpiexec.mpich", "mpiexec.hydra", "mpiexec"), ("HYDRA",),
              "mpich libmpich-dev"),
}


class Failed(Exception):
    pass


def finish(process, command):
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"{' '.join(command)}: no end within {TIMEOUT} s") from None
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {process.returncode}: {err.strip()[-500:]}")
    return out


def start(command, **environment):
    return subprocess.Popen(command, env={**os.environ, **environment}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def run(command, **environment):
    return finish(start(command, **environment), command)


def run_limits(program, *words):
    """What machine_limits measured, by size; 0 where it has none."""
    output = run([str(program), *map(str, words)])
    return {int(size): float(value) for size, value in map(str.split, output.splitlines())}


def times_of(output, who):
    """What peer_method.c printed."""
    times = {}
    for line in output.splitlines():
        size, _, median, _, wrong = line.split()
        if wrong != "0":
            raise Failed(f"{who}: {wrong} wrong elements at {size} bytes")
        times[int(size)] = float(median)
    return times


class Tools:
    """What is there to be run; looks once."""

    def __init__(self, build, large_pages=False):
        self.memory = ["-l"] if large_pages else []
        self.folder = pathlib.Path(build).resolve() / "tests/peers"
        self.wring = str(pathlib.Path(build).resolve() / "tools/wring")
        self.interposer = str(pathlib.Path(build).resolve() / "dropin/mpi/libwring_mpi.so")
        self.launchers, self.versions, self.missing = {}, [], []
        self.cores = len(os.sched_getaffinity(0))
        if not os.access(self.wring, os.X_OK) or not self.has("machine_limits"):
            raise Failed(f"{build} is not built: meson setup {build} && ninja -C {build}")
        for driver, (name, launchers, marks, packages) in MPI.items():
            launcher = self.find_launcher(name, launchers, marks)
            if launcher and self.has(f"{driver}_allreduce"):
                self.launchers[driver] = launcher
            else:
                self.miss(name, packages)
        self.gloo = self.has("gloo_allreduce")
        if self.gloo:
            self.versions.append("Gloo" + self.package_version("libgloo0"))
        else:
            self.miss("Gloo", "libgloo-dev g++")

    def has(self, program):
        return os.access(self.folder / program, os.X_OK)

    def miss(self, name, packages):
        self.missing.append(f"{name} is not there, nor are its columns (Debian: apt-get install "
                            f"{packages}; then meson setup --wipe BUILD, and ninja)")

    def find_launcher(self, library, names, marks):
        for name in filter(shutil.which, names):
            text = run([name, "--version"])
            if any(mark in text for mark in marks):
                self.versions.append(f"{library} {version_in(text)}")
                return name
        return None

    @staticmethod
    def package_version(package):
        got = subprocess.run(["dpkg-query", "-W", "-f", " ${Version}", package],
                             capture_output=True, text=True, check=False) \
            if shutil.which("dpkg-query") else None
        return got.stdout if got and got.returncode == 0 else ""

    def limits(self, *words):
        return run_limits(self.folder / "machine_limits", *words)

    def codecs(self, specs, elems, seconds):
        output = run([self.wring, "bench", "codec", "--codec", ",".join(specs), "--elements",
                      str(elems), "--seconds", str(seconds), "--json"])
        return {result["codec"]: result for result in json.loads(output)["results"]}

    def has_bypass(self):
        return "--bypass" in run([self.wring, "bench", "allreduce", "--help"])

    def allreduce(self, provider, ranks, sizes, seconds, *more):
        """Full results of wring's, by codec and bytes."""
        output = run([self.wring, "bench", "allreduce", "-n", str(ranks), "-p", provider, "--json",
                      "-b", ",".join(map(str, sizes)), "--seconds", str(seconds), *more])
        return by_codec(json.loads(output)["results"])

    def mpi(self, driver, provider, ranks, sizes, seconds, apart=False, interposed=False):
        """@param interposed  wring serves its collectives: Open MPI only"""
        variables = {"LD_PRELOAD": self.interposer, "WRING_PROVIDER": provider}
        return self.mpi_run(driver, provider, ranks, f"{driver}_allreduce", seconds, sizes,
                            *(["-o"] if apart else []), *self.memory,
                            variables=variables if interposed else None)

    def mpi_run(self, driver, provider, ranks, program, seconds, sizes, *words, variables=None):
        options = []
        if driver == "openmpi":
            options = ["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", *BTL[provider]]
        for name, value in (variables or {}).items():
            options += ["-x", f"{name}={value}"]
        output = run([self.launchers[driver], *options, "-n", str(ranks),
                      str(self.folder / program), *words, str(seconds), *map(str, sizes)],
                     OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return times_of(output, MPI[driver][0])

    def sendrecv(self, provider, sizes, seconds):
        """Half of wring's round trips."""
        output = run([self.wring, "bench", "sendrecv", "-p", provider, "--json", "-b",
                      ",".join(map(str, sizes)), "--seconds", str(2 * seconds)])
        return {result["bytes"]: result["latency_us"]["median"]
                for result in json.loads(output)["results"]}

    def mpi_messages(self, driver, provider, sizes, seconds):
        return self.mpi_run(driver, provider, 2, f"{driver}_sendrecv", seconds, sizes)

    def gloo_command(self, rank, ranks, folder, address, algorithm, sizes, seconds):
        apart = ["-o"] if algorithm == "ring apart" else []
        return [str(self.folder / "gloo_allreduce"), str(rank), str(ranks), folder, address,
                algorithm.split()[0], *apart, *self.memory, str(seconds), *map(str, sizes)]

    def gloo_loopback(self, algorithm, ranks, sizes, seconds):
        with tempfile.TemporaryDirectory(prefix="wring-gloo-") as folder:
            commands = [self.gloo_command(rank, ranks, folder, LOOPBACK, algorithm, sizes, seconds)
                        for rank in range(ranks)]
            running = [start(command) for command in commands]
            try:
                outputs = list(map(finish, running, commands))
            finally:
                for process in running:
                    process.kill()
                    process.wait()
        return times_of(outputs[0], "Gloo")

    def gloo_hosts(self, hosts, algorithm, sizes, seconds):
        with tempfile.TemporaryDirectory(prefix="wring-gloo-") as folder:
            outputs = hosts.run(lambda host: self.gloo_command(
                host, hosts.count, folder, hosts.address(host), algorithm, sizes, seconds))
        return times_of(outputs[0], "Gloo")


def version_in(text):
    """Of what a launcher prints: "mpirun (Open MPI) 4.1.4", or MPICH's "Version: 4.0.2"."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return next((words[-1] for words in lines if words[0] == "Version:"), lines[0][-1])


def repeated(codec):
    """The key of a codec that a run was asked for once more."""
    return f"{codec}, again"


def by_codec(results):
    """wring's bench has failed by now, were any element wrong."""
    found = {}
    for result in results:
        key = result["codec"], result["bytes"]
        found[(repeated(key[0]), key[1]) if key in found else key] = result
    return found
