# SPDX-License-Identifier: Apache-2.0
"""One QEMU process, which cannot outlive the one that started it."""
import contextlib
import ctypes
import os
import re
import subprocess

from rig import clock, network, packages

PR_SET_PDEATHSIG, SIGKILL = 1, 9
BOARD = "q35,usb=off,sata=off,smbus=off,vmport=off"
# the emulation of PCLMUL is slow, and the devices' checksum uses it where it is there
EMULATED_CPU = "max,-pclmulqdq,-erms,la57=off"
KERNEL_OPTIONS = ("console=ttyS0 panic=-1 nokaslr mitigations=off random.trust_cpu=on "
                  "tsc=reliable net.ifnames=0")
libc = ctypes.CDLL(None)


def kvm_works():
    """A /dev/kvm without a module for this processor is a substitute that hangs stock kernels."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and any(
        os.path.isdir("/sys/module/" + name) for name in ("kvm_intel", "kvm_amd"))


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)


def shared_folder(name, path, more=""):
    return ["-fsdev", f"local,security_model=none,multidevs=remap,id={name},path={path}{more}",
            "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]


class Machine:
    def __init__(self, number, run, kernel, accel, shape, quiet=True):
        self.number, self.run = number, run
        self.log = os.path.join(run, f"qemu.{number}")
        self.console = os.path.join(run, f"console.{number}")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                self._command(kernel, accel, shape, quiet), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=die_with_parent)

    def _command(self, kernel, accel, shape, quiet):
        agent = os.path.join(shape.rig, "guest", "agent.sh")
        return [
            packages.find("qemu-system-x86_64"), "-M", BOARD,
            "-accel", "kvm" if accel == "kvm" else "tcg,thread=multi",
            "-cpu", "host" if accel == "kvm" else EMULATED_CPU,
            "-smp", str(shape.cpus), "-m", str(shape.memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel.image, "-initrd", kernel.initrd,
            "-append", f"{KERNEL_OPTIONS}{' quiet' if quiet else ''} wring.run={self.run} wring.agent={agent} "
                       f"wring.machine={self.number}" +
                       ("" if accel == "kvm" else f" tsc_early_khz={clock.khz()}"),
            "-serial", "file:" + self.console, "-device", "virtio-rng-pci",
            *shared_folder("host", "/", ",readonly=on"), *shared_folder("run", self.run),
            *network.arguments_for(self.number, self.run, shape.machines, shape.rails),
        ]

    def is_up(self):
        return os.path.exists(os.path.join(self.run, f"up.{self.number}"))

    def has_ended(self):
        return self.process.poll() is not None

    def cpu_seconds(self):
        """Processor time of the host's that it took so far: what it costs, however busy the host."""
        try:
            with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """Not by wait(): a signal that has ended has_ended() midway may have left a lock in there."""
        self.process.kill()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.process.pid, 0)

    def panicked_in(self, module):
        """Has its kernel stopped at an instruction of that module?"""
        try:
            with open(self.console, encoding="utf-8", errors="replace") as text:
                told = text.read()
        except OSError:
            return False
        return "Kernel panic" in told and re.search(rf"RIP: .*\[{module}\]", told) is not None

    def last_lines(self):
        """For the reader of a failure."""
        lines = []
        for path, count in ((self.log, 5), (self.console, 20)):
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as text:
                    lines += text.read().splitlines()[-count:]
        return lines
