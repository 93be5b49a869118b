# SPDX-License-Identifier: Apache-2.0
"""What the host must have installed."""
import os
import shutil
import subprocess

from rig import Missing

SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "rdma": "iproute2",
    "tc": "iproute2",
    "setpriv": "util-linux",
}
DRIVERS = "/usr/lib/x86_64-linux-gnu/libibverbs"


def find(tool):
    return shutil.which(tool, path=SBIN)


def has_library(name):
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    return name in known


def has_driver(name):
    names = os.listdir(DRIVERS) if os.path.isdir(DRIVERS) else []
    return any(found.startswith(name) for found in names)


def check():
    """Raises Missing, which names all that is missing."""
    if os.uname().machine != "x86_64":
        raise Missing("the rig knows x86_64 only")
    wanted = {package for tool, package in PACKAGES.items() if find(tool) is None}
    if not has_library("libibverbs.so.1"):
        wanted.add("libibverbs1")
    if not has_driver("librxe"):
        wanted.add("ibverbs-providers")
    if wanted:
        raise Missing("needs the packages " + " ".join(sorted(wanted)))
