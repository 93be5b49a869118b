# SPDX-License-Identifier: Apache-2.0
"""What tests of wring in torch need: a Python that has torch, and an environment."""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

FOREIGN = ("WRING_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "MASTER_", "GLOO_")
ALONE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
ROOMS = ("base", "compress", "transport", "offload", "runtime")  # whose headers are public


def skip(reason):
    print(f"skipped: {reason}: ./run test --foreign installs what this needs")
    sys.exit(77)


def find_python(modules):
    """@return the Python of the virtual environment that has all of the modules; else the test ends
    here, skipped"""
    folder = os.environ.get("WRING_TEST_FOREIGN", "")
    python = os.path.join(folder, "torch", "bin", "python")
    if not folder or not os.path.exists(python):
        skip("there is no torch")
    check = "import importlib.util as u, sys; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"
    done = subprocess.run([python, "-c", check, *modules], capture_output=True, text=True,
                          check=True)
    if done.stdout.split():
        skip(f"{python} has no {', '.join(done.stdout.split())}")
    return python


def where_wring_is(library, source):
    """The variables that say so."""
    source = pathlib.Path(source).resolve()
    library = pathlib.Path(library).resolve()
    return {"WRING_LIBRARY": str(library),
            "WRING_INCLUDE": ":".join(str(source / room / "include") for room in ROOMS),
            "WRING_TORCH_CACHE": str(library.parents[1] / "torch-cache"),
            "PYTHONPATH": str(source / "dropin" / "torch"), "PYTHONDONTWRITEBYTECODE": "1"}


def environment(library, source):
    """The caller's, without any launcher's variables, and where wring is."""
    bare = {name: value for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and name not in ALONE}
    return {**bare, "OMP_NUM_THREADS": "1", **where_wring_is(library, source)}


def measure_with(source):
    """For scripts that measure: their ranks take wring of this tree, as WRING_LIBRARY or ./run build
    has it."""
    library = os.environ.get("WRING_LIBRARY", os.path.join(source, "build/runtime/libwring.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} is not there: ./run build makes it")
    os.environ.update(where_wring_is(library, source))


def require_native():
    """A rank that is to have its process group in C++ ends where it cannot, and says why."""
    from wring.torch import native
    module, reason = native.load()
    if module is None and reason != native.SWITCHED_OFF:
        sys.exit(f"no process group in C++: {reason}")


def installed(folder, environment):
    """As if the package had been installed: what pip writes of its entry points lies in `folder`."""
    info = pathlib.Path(folder) / "wring-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wring\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nwring = wring.torch:register\n")
    return {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{folder}"}


class RankServer:
    """Starts ranks of a program that imports torch; see rank_server.py."""

    def __init__(self, python, program, environment):
        server = pathlib.Path(__file__).resolve().with_name("rank_server.py")
        self.process = subprocess.Popen([python, "-W", "ignore", server, program], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, arguments, environments, patience):
        """Ranks share a folder, TEST_FOLDER. @return [(exit status or None, all that was printed)] of all
        ranks"""
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, str(rank)) for rank in range(len(environments))]
            job = {"arguments": arguments, "patience": patience,
                   "ranks": [{"environment": {**environment, "TEST_FOLDER": folder}, "said": file}
                             for environment, file in zip(environments, files)]}
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise AssertionError(f"the server of ranks ended: {self.process.wait(patience)}")
            return [(status, pathlib.Path(file).read_text(encoding="utf-8", errors="replace"))
                    for status, file in zip(json.loads(answer), files)]

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


def free_port():
    """Below those that the kernel gives to whoever connects, which others may have by the time that
    this one is used."""
    while True:
        port = random.randrange(12000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
