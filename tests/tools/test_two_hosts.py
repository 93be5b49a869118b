#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_two_hosts.py WRING DOCUMENT: type what the walk-through says, on two hosts.

The hosts are network namespaces joined by two virtual cables, with the document's addresses, and a
home directory each. `scp`, for which there would have to be an ssh server, is a stand-in that copies
from one home to the other. All else is the document's. Needs root, or user namespaces, and
iproute2; where that is not given the test is skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

BOX_DEADLINE_S = 250  # for hangs, not for slowness
NAMESPACE_S = 100
ADDRESSES = {"A": "192.0.2.1", "B": "192.0.2.2"}
CABLES = {"eth0": "192.0.2.{}", "eth1": "198.51.100.{}"}
INSIDE = "WRINGTEST_INSIDE"  # set in the run that is in a namespace already

SCP = """#!/bin/sh
# scp [-p] FILE HOST: between the homes of this test
[ "$1" = -p ] && shift
case $2 in
{a}:) home={home_a} ;;
{b}:) home={home_b} ;;
*) echo "scp: no such host: $2" >&2; exit 1 ;;
esac
exec cp -p "$1" "$home/"
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def read_boxes(document):
    """Each box as a list of lines: (host, command), or (None, expected output)."""
    boxes = []
    for body in re.findall(r"^```\n(.*?)^```$", document, re.M | re.S):
        lines = []
        for line in body.splitlines():
            prompt = re.match(r"([AB])\$ (.*)", line)
            lines.append(prompt.groups() if prompt else (None, line))
        boxes.append(lines)
    return boxes


def enter_namespace():
    """Start this script again, where it may make networks of its own."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            skip(f"no {tool}: two hosts need namespaces (packages iproute2 and util-linux)")
    unshare = ["unshare", "--net"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    trial = subprocess.run(unshare + ["ip", "link", "set", "lo", "up"], capture_output=True,
                           text=True, stdin=subprocess.DEVNULL)
    if trial.returncode != 0:
        skip(f"no network namespaces here: {trial.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", unshare + [sys.executable, *sys.argv])


def run(words):
    subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Host:
    """A shell that is typed into, in one of the namespaces."""

    def __init__(self, name, home, prefix, path):
        environment = {"PATH": path, "HOME": str(home), "LANG": "C"}
        for variable in os.environ:  # of sanitizers, if the build has them
            if variable.endswith("SAN_OPTIONS"):
                environment[variable] = os.environ[variable]
        self.name = name
        self.shell = subprocess.Popen(
            [*prefix, "bash"], cwd=home, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines, self.statuses = [], []
        self.changed = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.shell.stdout:
            with self.changed:
                done = re.fullmatch(r"(.*)--done (\d+)--\n", line)
                if done and done.group(1):
                    self.lines.append(done.group(1))
                if done:
                    self.statuses.append(int(done.group(2)))
                else:
                    self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def type(self, command):
        self.shell.stdin.write(f"{command}\necho \"--done $?--\"\n")

    def wait(self, count, deadline):
        """True once so many commands have ended."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.statuses) >= count,
                                         max(0, deadline - time.monotonic()))

    def take(self):
        with self.changed:
            lines, statuses = self.lines, self.statuses
            self.lines, self.statuses = [], []
            return lines, statuses

    def end(self):
        self.shell.kill()
        self.shell.wait()


def run_box(hosts, box):
    """Type the box. Returns what is wrong, or None."""
    typed = {name: [command for host, command in box if host == name] for name in hosts}
    for host, command in box:
        if host is not None:
            hosts[host].type(command)
    deadline = time.monotonic() + BOX_DEADLINE_S
    late = [name for name in hosts if not hosts[name].wait(len(typed[name]), deadline)]
    said, wrong = [], []
    for name in hosts:
        lines, statuses = hosts[name].take()
        said += lines
        for line in lines:
            print(f"{name}: {line}")
        wrong += [f"'{command}' on {name} exited with {status}"
                  for command, status in zip(typed[name], statuses) if status != 0]
    if late:
        return f"host {' and '.join(late)} did not come to an end"
    if wrong:
        return "; ".join(wrong)
    heard = {" ".join(line.split()) for line in said}
    missing = [line for host, line in box if host is None and " ".join(line.split()) not in heard]
    if missing:
        return f"nobody said '{missing[0]}'"
    if any("wring bench allreduce" in line for _, line in box):
        return look_at_bench(said)
    return None


def look_at_bench(said):
    """Every row of the table must say that nothing was wrong."""
    head = next((line.split("  ") for line in said if " wrong" in line), None)
    rows = [line.split() for line in said if re.match(r" +(none|int8\+ef) ", line)]
    if head is None or not rows:
        return "no table"
    return None if all(row[-2] == "0" for row in rows) else "wrong results"


def join_hosts():
    """This namespace is host A. Returns the process that keeps host B's."""
    keeper = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stdin=subprocess.DEVNULL)
    own = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + NAMESPACE_S
    while os.readlink(f"/proc/{keeper.pid}/ns/net") == own and time.monotonic() < deadline:
        time.sleep(0.01)
    inside = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
    try:
        for prefix in ([], inside):
            run([*prefix, "ip", "link", "set", "lo", "up"])
        for cable, address in CABLES.items():
            run(["ip", "link", "add", cable, "type", "veth", "peer", "name", cable, "netns",
                 str(keeper.pid)])
            for number, prefix in ((1, []), (2, inside)):
                run([*prefix, "ip", "addr", "add", address.format(number) + "/24", "dev", cable])
                run([*prefix, "ip", "link", "set", cable, "up"])
    except subprocess.CalledProcessError as error:
        keeper.kill()
        skip(f"no virtual cables here: {error.stderr.strip()}")
    return keeper, inside


def main():
    wring, document = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    boxes = read_boxes(document.read_text(encoding="utf-8"))
    commands = [command for box in boxes for host, command in box if host]
    if len(commands) < 10:
        sys.exit(f"{document}: only {len(commands)} commands")
    if INSIDE not in os.environ:
        enter_namespace()
    keeper, inside_b = join_hosts()
    with tempfile.TemporaryDirectory() as folder:
        homes = {name: pathlib.Path(folder) / name for name in "AB"}
        for home in homes.values():
            home.mkdir()
        bin_folder = pathlib.Path(folder) / "bin"
        bin_folder.mkdir()
        scp = bin_folder / "scp"
        scp.write_text(SCP.format(a=ADDRESSES["A"], b=ADDRESSES["B"], home_a=homes["A"],
                                  home_b=homes["B"]), encoding="utf-8")
        scp.chmod(0o755)
        path = f"{bin_folder}:{wring.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        hosts = {"A": Host("A", homes["A"], [], path), "B": Host("B", homes["B"], inside_b, path)}
        wrong = None
        for box in boxes:
            wrong = run_box(hosts, box)
            if wrong:
                break
        for host in hosts.values():
            host.end()
    keeper.kill()
    keeper.wait()
    if wrong:
        sys.exit(f"failed: {wrong}")
    print(f"{len(commands)} commands")


if __name__ == "__main__":
    main()
