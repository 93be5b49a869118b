# SPDX-License-Identifier: Apache-2.0
"""Two hosts on this machine: hosta, where the test itself runs, and hostb, joined by a cable.

Each has a network, a name and a folder for temporary files of its own. All of it lives in
namespaces, of processes as well, and ends with the test whatever happens to it.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time

INSIDE = "WRINGTEST_INSIDE"  # set in the run that is in the namespaces already
NAMES = ("hosta", "hostb")
ADDRESSES = ("10.99.0.1", "10.99.0.2")
LINK_S = 250  # for a link that never comes up, not for slowness
SHELL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

AGENT = """#!/bin/sh
# agent [OPTION...] HOST COMMAND...: what ssh is between the hosts of this test
while :; do
    case $1 in -*) shift ;; *) break ;; esac
done
case $1 in
hosta) enter="" ;;
hostb) enter="{enter}" ;;
*) echo "agent: no such host: $1" >&2; exit 255 ;;
esac
shift
exec $enter sh -c "$*"
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def enter():
    """Start this script again where it may make hosts; returns in that run only."""
    if INSIDE in os.environ:
        return
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool, path=SHELL_PATH) is None:
            skip(f"no {tool}: two hosts need namespaces (packages iproute2 and util-linux)")
    words = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child",
             "--mount-proc"]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
    trial = subprocess.run([*words, "sh", "-c", "ip link set lo up && hostname hosta"],
                           capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if trial.returncode != 0:
        skip(f"no namespaces here: {trial.stderr.strip()}")
    os.environ[INSIDE] = "1"
    # the shell waits for whoever loses its parent in there
    os.execvp("unshare", [*words, "sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-B",
                          *sys.argv])


def run(*words):
    result = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            check=False)
    if result.returncode != 0:
        skip(f"no hosts here: {' '.join(words)}: {result.stderr.strip()}")


class Hosts:
    """hosta, which is this process, and hostb.

    prefixes  how to start a command on each
    agent     a program that stands for ssh
    folder    seen by both; what lies there is removed at the end
    """

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="wring-launchers-", dir="/var/tmp")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.own_temporary = not os.path.realpath(program).startswith("/tmp/")
        self.name_hosts()
        keeper = self.keep_hostb()
        self.enter_b = f"nsenter --net --uts --mount -t {keeper.pid} --"
        self.prefixes = ([], self.enter_b.split())
        self.lay_cable(keeper.pid)
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(enter=self.enter_b))
        os.chmod(self.agent, 0o755)

    def bin_with(self, name, program):
        """A folder for PATH in which this program has this name."""
        folder = os.path.join(self.folder, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{program}" "$@"\n')
            os.chmod(path, 0o755)
        return folder

    def name_hosts(self):
        names = os.path.join(self.folder, "hosts")
        with open(names, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            for name, address in zip(NAMES, ADDRESSES):
                file.write(f"{address} {name}\n")
        run("mount", "--bind", names, "/etc/hosts")
        run("hostname", NAMES[0])
        run("ip", "link", "set", "lo", "up")

    def keep_hostb(self):
        """@return the process that keeps hostb, once its name says that all is made"""
        temporary = "mount -t tmpfs tmpfs /tmp &&" if self.own_temporary else ""
        keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c",
             f"{temporary} hostname hostb && echo made && exec sleep 3600"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if keeper.stdout.readline() != "made\n":
            skip("no second host here")
        if self.own_temporary:
            run("mount", "-t", "tmpfs", "tmpfs", "/tmp")
        return keeper

    def lay_cable(self, pid):
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
            str(pid))
        for prefix, address in zip(self.prefixes, ADDRESSES):
            run(*prefix, "ip", "addr", "add", f"{address}/24", "dev", "cable")
            run(*prefix, "ip", "link", "set", "cable", "up")
            run(*prefix, "ip", "link", "set", "lo", "up")
        for prefix in self.prefixes:  # the kernel tells within a second that a link is up
            self.await_link(prefix)

    @staticmethod
    def await_link(prefix):
        deadline = time.monotonic() + LINK_S
        words = [*prefix, "ip", "-brief", "link", "show", "cable"]
        while " UP " not in subprocess.run(words, capture_output=True, text=True,
                                           stdin=subprocess.DEVNULL, check=False).stdout:
            if time.monotonic() > deadline:
                skip("the cable between the hosts does not come up")
            time.sleep(0.02)


def end(processes, seconds=20):
    """End these daemons, by their ids."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
