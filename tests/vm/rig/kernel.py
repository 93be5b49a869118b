# SPDX-License-Identifier: Apache-2.0
"""Debian's stock kernel, fetched once as a package and unpacked into a cache, never installed."""
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from rig import Missing, packages
from rig.archive import FILE, FOLDER, PROGRAM, Archive

INIT = pathlib.Path(__file__).resolve().parent.parent / "guest" / "init.sh"

# of the package: what reaches the file system, the devices and the network
WANTED = re.compile(
    r"\./(boot/vmlinuz-|lib/modules/[^/]+/(modules\.(builtin|order)|kernel/"
    r"(lib|crypto|arch|mm|net/(9p|core|ipv4|ipv6|sched|802)|fs/(9p|overlayfs|netfs|fscache)|"
    r"drivers/(virtio|infiniband/(core|sw)|net/(veth|dummy|net_failover|virtio_net)|"
    r"char/hw_random))))")
EARLY = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
ENVIRONMENT = {"PATH": packages.SBIN}


class Kernel:
    """A folder of the cache: kernel, initrd, lib/modules/RELEASE."""

    def __init__(self, folder, release):
        self.release = release
        self.image = os.path.join(folder, "kernel")
        self.initrd = os.path.join(folder, "initrd")
        self.modules = os.path.join(folder, "lib", "modules", release)


def find():
    """@return a Kernel; fetched the first time, under a lock"""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.path.join(base, "wring", "vm")
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = [name for name in os.listdir(cache) if name.endswith(recipe()) and
                 os.path.exists(os.path.join(cache, name, "initrd"))]
        name = newest(ready)
        if name is None:
            name = fetch_newest(cache)
    return Kernel(os.path.join(cache, name), name[:-len(recipe())])


def recipe():
    """What the cached files depend on, as the end of their folder's name."""
    text = WANTED.pattern + " ".join(EARLY) + INIT.read_text(encoding="ascii")
    return "+" + hashlib.sha256(text.encode()).hexdigest()[:8]


def newest(names):
    return max(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name.split("+")[0])],
               default=None)


def fetch_newest(cache):
    """The stock kernel is the one that the package linux-image-amd64 stands for."""
    found = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True,
                           text=True).stdout
    release = newest(re.findall(r"Depends: linux-image-([0-9][^ ]*-amd64)$", found, re.M))
    if release is None:
        raise Missing("no kernel package is known: run apt-get update")
    print(f"vm: fetching linux-image-{release} into {cache}, once", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as new:
        os.chmod(new, 0o755)
        unpack(release, new)
        prepare(release, new)
        final = os.path.join(cache, release + recipe())
        shutil.rmtree(final, ignore_errors=True)
        shutil.copytree(new, final)
    return release + recipe()


def unpack(release, into):
    """What is wanted of the package."""
    got = subprocess.run(["apt-get", "-qq", "download", "linux-image-" + release], cwd=into,
                         capture_output=True, text=True)
    debs = [name for name in os.listdir(into) if name.endswith(".deb")]
    if got.returncode != 0 or not debs:
        raise Missing(f"cannot download the package linux-image-{release}")
    deb = os.path.join(into, debs[0])
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as stream:
        with tarfile.open(fileobj=stream.stdout, mode="r|") as archive:
            for member in archive:
                if member.isfile() and WANTED.match(member.name):
                    archive.extract(member, into)
    os.unlink(deb)


def prepare(release, folder):
    subprocess.run(["depmod", "-b", folder, release], capture_output=True, check=True,
                   env=ENVIRONMENT)
    with open(os.path.join(folder, "kernel"), "wb") as out:
        out.write(uncompressed(os.path.join(folder, "boot", "vmlinuz-" + release)))
    with open(os.path.join(folder, "initrd"), "wb") as out:
        out.write(first_files(folder, release))


def uncompressed(image):
    """The ELF file inside a compressed kernel boots much faster in emulation."""
    data = pathlib.Path(image).read_bytes()
    at = data.find(b"\xfd7zXZ\0")
    while at >= 0:
        try:
            kernel = lzma.LZMADecompressor().decompress(data[at:])
            if kernel.startswith(b"\x7fELF"):
                return kernel
        except lzma.LZMAError:
            pass
        at = data.find(b"\xfd7zXZ\0", at + 1)
    return data


def first_files(folder, release):
    """The initial file system: it only reaches the host's."""
    archive = Archive()
    for name in ["bin", "dev", "proc", "host", "memory", "root", "modules"]:
        archive.add(name, FOLDER)
    archive.add("bin/busybox", PROGRAM, pathlib.Path(packages.find("busybox")).read_bytes())
    for i, data in enumerate(early_modules(folder, release)):
        archive.add(f"modules/{i:02d}.ko", FILE, data)
    archive.add("init", PROGRAM, INIT.read_bytes())
    return archive.bytes()


def early_modules(folder, release):
    """In the order in which they can be loaded."""
    found = subprocess.run(["modprobe", "-d", folder, "-S", release, "-a", "--show-depends",
                            *EARLY], capture_output=True, text=True, env=ENVIRONMENT).stdout
    for path in dict.fromkeys(re.findall(r"^insmod (\S+)", found, re.M)):
        data = pathlib.Path(path).read_bytes()
        yield lzma.decompress(data) if path.endswith(".xz") else data
