# SPDX-License-Identifier: Apache-2.0
"""Machines that were booted together, and the running of tests in them."""
import dataclasses
import os
import pathlib
import re
import shlex
import sys
import time

from rig import Broken, network
from rig.machine import Machine, kvm_works

RIG = str(pathlib.Path(__file__).resolve().parent.parent)
UP_SECONDS = {"kvm": 30, "tcg": 240}
BOOTS_MAX = 3  # under emulation a kernel hangs now and then, before it can say why
SLACK_SECONDS = 60  # for a machine to tell of a test whose time was up


@dataclasses.dataclass
class Shape:
    machines: int = 1
    rails: int = 1
    mtu: int = 4300  # of the links
    memory: int = 768  # MiB, of each
    cpus: int = 2
    rig: str = RIG


@dataclasses.dataclass
class Outcome:
    statuses: list  # of each machine; None: it did not tell
    outputs: list
    seconds: float
    cpu_seconds: float  # of the host
    note: str = ""  # what the rig has to say

    def text(self):
        """All output, with the machine's number where there are several."""
        lines = []
        for number, output in enumerate(self.outputs):
            prefix = f"[machine {number}] " if len(self.outputs) > 1 else ""
            lines += [prefix + line for line in output.splitlines()]
        return lines + ([self.note] if self.note else [])


def environment_script():
    """The caller's environment, for the tests."""
    names = [name for name in os.environ if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    return "".join(f"export {name}={shlex.quote(os.environ[name])}\n" for name in sorted(names)
                   if name not in ("PATH", "WRING_REQUIRE"))


class Cluster:
    """Use as a context: no machine outlives it."""

    def __init__(self, run, kernel, shape, accel="auto"):
        self.run, self.kernel, self.shape, self.accel = run, kernel, shape, accel
        self.machines, self.next = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        for machine in self.machines:
            machine.kill()
        self.machines = []

    def boot(self):
        """
        Under "auto" a KVM that does not work is no error.

        @return seconds that it took
        """
        begin = time.monotonic()
        if self.accel != "auto":
            self._boot_again(self.accel)
        elif not kvm_works():
            self._boot_again("tcg")
        else:
            try:
                self._boot("kvm")
            except Broken as broken:
                print(f"vm: no boot under KVM, going on in emulation: {broken}", file=sys.stderr)
                self.accel = "tcg"
                self._boot_again("tcg")
        return time.monotonic() - begin

    def _boot_again(self, accel):
        """The last of the boots shows what the kernels say."""
        for _ in range(1, BOOTS_MAX):
            try:
                return self._boot(accel)
            except Broken as broken:
                print(f"vm: {broken}\nvm: booting once more", file=sys.stderr)
        return self._boot(accel, quiet=False)

    def _boot(self, accel, quiet=True):
        self.kill()
        self._clear()
        self._write("settings", "".join(
            f"{name}={shlex.quote(str(value))}\n" for name, value in {
                "RIG": self.shape.rig, "RELEASE": self.kernel.release,
                "MODULES": self.kernel.modules, "MACHINES": self.shape.machines,
                "RAILS": self.shape.rails, "LINK_MTU": self.shape.mtu}.items()))
        self.machines = [Machine(0, self.run, self.kernel, accel, self.shape, quiet)]
        deadline = time.monotonic() + UP_SECONDS[accel]
        listening = network.sockets_to_listen_on(self.run, self.shape.machines, self.shape.rails)
        self._await(lambda: all(map(os.path.exists, listening)), deadline, "has no network")
        for number in range(1, self.shape.machines):
            self.machines.append(
                Machine(number, self.run, self.kernel, accel, self.shape, quiet))
        self._await(lambda: all(machine.is_up() for machine in self.machines), deadline,
                    "did not come up")

    def _clear(self):
        """Traces of a boot that failed."""
        for name in os.listdir(self.run):
            if name.startswith(("rail", "up.")):
                os.unlink(os.path.join(self.run, name))

    def _await(self, condition, deadline, what):
        while not condition():
            ended = self._ended()
            if ended or time.monotonic() > deadline:
                how = "ended by itself" if ended else "its time is up"
                raise Broken("\n".join([f"a machine {what}: {how}; the last lines:"] +
                                       self.last_lines()))
            time.sleep(0.02)

    def cpu_seconds(self):
        return sum(machine.cpu_seconds() for machine in self.machines)

    def _ended(self):
        return any(machine.has_ended() for machine in self.machines)

    def panicked_in(self, module):
        """Has a machine's kernel stopped at an instruction of that module?"""
        return any(machine.panicked_in(module) for machine in self.machines)

    def last_lines(self):
        return [f"[machine {machine.number}] {line}" for machine in self.machines
                for line in machine.last_lines()]

    def _write(self, name, text):
        with open(os.path.join(self.run, name), "w", encoding="utf-8") as out:
            out.write(text)

    def _read(self, name):
        try:
            with open(os.path.join(self.run, name), encoding="utf-8", errors="replace") as text:
                return text.read()
        except FileNotFoundError:
            return None

    def read_answer(self, name):
        """A file that the last test wrote into HERE."""
        return self._read(f"{self.next - 1}/{name}") or ""

    def run_test(self, script, seconds):
        """
        Run a shell script in every machine, with the caller's environment and current folder.

        @return an Outcome; a machine that says nothing in time has the status None
        """
        folder, numbers = str(self.next), range(self.shape.machines)
        self.next += 1
        os.mkdir(os.path.join(self.run, folder))
        self._write(f"{folder}/command", self._command(script))
        self._write(f"{folder}/seconds", f"{seconds}\n")
        begin, cpu_begin = time.monotonic(), self.cpu_seconds()
        self._write(f"{folder}/go", "")
        note = self._watch([f"{folder}/status.{n}" for n in numbers],
                           begin + seconds + SLACK_SECONDS)
        statuses = [self._read(f"{folder}/status.{n}") for n in numbers]
        return Outcome(
            statuses=[None if status is None else int(status) for status in statuses],
            outputs=[self._read(f"{folder}/output.{n}") or "" for n in numbers],
            seconds=time.monotonic() - begin, cpu_seconds=self.cpu_seconds() - cpu_begin,
            note=note)

    def _watch(self, names, deadline):
        paths = [os.path.join(self.run, name) for name in names]
        while not all(map(os.path.exists, paths)):
            if self._ended():
                return "\n".join(["a machine ended by itself; the last lines:"] +
                                 self.last_lines())
            if time.monotonic() > deadline:
                return "\n".join(["a machine hangs; the last lines:"] + self.last_lines())
            time.sleep(0.02)
        return ""

    def _command(self, script):
        path = shlex.quote(os.environ.get("PATH", ""))
        variables = {"RIG": self.shape.rig, "MACHINES": self.shape.machines,
                     "RAILS": self.shape.rails, "LINK_MTU": self.shape.mtu}
        return (environment_script() + f"export PATH={path}:$PATH\n" +
                "".join(f"export {name}={shlex.quote(str(value))}\n"
                        for name, value in variables.items()) +
                f"cd {shlex.quote(os.getcwd())} || exit 125\n{script}\n")
