#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts on slow links, to measure on: network namespaces on a bridge, each link shaped both ways.

    tests/peers/links.py [--build DIR] [--links LIST] [--ranks N] [--bytes LIST] [--codecs LIST]
                         [--rounds N] [--seconds S] [--bare ROUNDS] [--foreign]

Runs `wring bench allreduce` with one rank per host and prints, for each link, size and codec, the
time, the bound of the link for what a rank sends, and what the queues dropped. A link is one of
LINKS or says itself what it is: 0.5g:delay=40:loss=0.0005:reorder=0.001:seed=7 lets through
0.5 Gbit/s each way, takes 40 ms there and back, and loses and reorders these shares of frames. With
--bare two hosts also exchange as many bytes over bare sockets, before and after. As a module:

    with links.Hosts(4, links.find("1g")) as hosts:
        outputs = hosts.run(lambda host: ["program", hosts.address(host)])

A host is the namespace of a process that does nothing, and so is the switch between them: they are
gone when that process is, however this one ends. Needs root, or user namespaces, and iproute2;
where that is not given it exits with 77.
"""
import argparse
import ctypes
import dataclasses
import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

INSIDE = "WRINGTEST_INSIDE"  # set in the run that may make networks
PORT = 5555
MTU = 1500
FRAME_SHARE = (MTU - 52) / (MTU + 14)  # of a link's bits that are payload: headers, timestamps
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Link:
    """What a link lets through each way, and how tc's token bucket is told."""
    name: str
    gbit: float = 0  # 0: as fast as the machine is
    burst: str = ""
    limit: str = ""
    delay: float = 0  # ms from a host to one of another site and back
    loss: float = 0  # share of frames that are lost, each way
    reorder: float = 0  # and of those that others overtake
    seed: int = 1
    sites: int = 0  # the hosts stand in so many, next ones together, and only what leaves one
    #                 passes the link; 0: each in its own
    rmem: int = 0  # bytes that a socket may hold received, at most; 0: as the system has it

    def bytes_per_us(self):
        return self.gbit * 1e3 / 8

    def is_relayed(self):
        """Do its frames pass a program (link_relay.c)? The kernel's bridge is no long way."""
        return self.delay > 0 or self.loss > 0 or self.reorder > 0


LINKS = {
    "1g": Link("1g", 1, "256kb", "4mb"),
    "10g": Link("10g", 10, "1mb", "8mb"),
    "none": Link("none"),
}


def find(name):
    """A link of LINKS, or one that says what it is."""
    rate, *words = name.split(":")
    if not words and name in LINKS:
        return LINKS[name]
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    kinds = {"delay": float, "loss": float, "reorder": float, "seed": int, "sites": int,
             "rmem": int}
    try:
        if not rate.endswith("g") or len(settings) < len(words):
            raise ValueError
        link = Link(name, float(rate[:-1]), "256kb", "4mb",
                    **{key: kinds[key](value) for key, value in settings.items()})
    except (KeyError, ValueError):
        sys.exit(f"--links: '{name}' is none of {', '.join(LINKS)}, and not RATEg[:KEY=VALUE]... "
                 f"with keys of {', '.join(kinds)}")
    return link


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def require_root():
    """Have the rights to make networks: the script starts again as a user namespace's root."""
    for tool in ("ip", "tc", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            skip(f"no {tool}: hosts need namespaces (packages iproute2 and util-linux)")
    if INSIDE in os.environ:  # a network of our own, in which nothing is up yet
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() == 0:
        return
    os.environ[INSIDE] = "1"
    trial = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*trial, "true"], capture_output=True, check=False).returncode != 0:
        skip("no root, and no user namespaces")
    os.execvp("unshare", [*trial, sys.executable, *sys.argv])


class Hosts:
    """So many hosts, each with a link of its own to one switch."""

    def __init__(self, count, link, ways=("up", "down"), bound=False, build="build"):
        """
        @param bound  each host to its share of the cores, as `wring run` binds ranks
        @param build  where link_relay is, for links that are relayed
        """
        self.count, self.link, self.ways, self.bound = count, link, ways, bound
        self.program = os.path.abspath(f"{build}/tests/peers/link_relay")
        self.keepers = []  # the switch's, then the hosts'
        self.relay = None

    def __enter__(self):
        try:
            self.build()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            skip(f"no hosts here: {getattr(error, 'stderr', None) or error}")
        return self

    def __exit__(self, *_):
        if self.relay is not None:
            self.relay.kill()
            self.relay.communicate()
            self.relay = None
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
        self.keepers = []

    @staticmethod
    def address(host):
        return f"10.99.0.{host + 1}"

    def inside(self, place):
        return ["nsenter", f"--net=/proc/{self.keepers[place].pid}/ns/net"]

    def begin(self, host):
        """In a process of a host, before its program."""
        die_with_parent()
        if self.bound:
            os.sched_setaffinity(0, self.share(host, sorted(os.sched_getaffinity(0))))

    def share(self, host, cores):
        """Of the cores; all of them where some would have more hosts than others."""
        n = len(cores)
        if self.count <= n:
            return cores[host * n // self.count:(host + 1) * n // self.count]
        return [cores[host % n]] if self.count % n == 0 else cores

    def do(self, place, *words):
        return subprocess.run([*self.inside(place), *map(str, words)], check=True, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL).stdout

    def keep(self):
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"],
                                  stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.keepers.append(keeper)
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 100
        while os.readlink(f"/proc/{keeper.pid}/ns/net") == own:
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise OSError("no network namespaces")
            time.sleep(0.01)

    def build(self):
        for _ in range(self.count + 1):
            self.keep()
        if not self.link.is_relayed():
            self.do(0, "ip", "link", "add", "switch", "type", "bridge")
            self.do(0, "ip", "link", "set", "switch", "up")
        for host in range(self.count):
            self.plug_in(host)
        if self.link.is_relayed():
            self.start_relay()

    def start_relay(self):
        link = self.link
        if not os.access(self.program, os.X_OK):
            raise OSError(f"{self.program} is not built: ninja tests/peers/link_relay")
        ports = [f"port{host}" + (f"@{host * link.sites // self.count}" if link.sites > 0 else "")
                 for host in range(self.count)]
        queue = max(link.bytes_per_us() * 1e3 * link.delay, 256 << 10)
        words = {"-r": link.gbit * 1e9, "-d": link.delay / 2 * 1e3, "-q": queue, "-l": link.loss,
                 "-o": link.reorder, "-s": link.seed}
        self.relay = subprocess.Popen(
            [*self.inside(0), self.program, *(str(word) for pair in words.items() for word in pair),
             *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        if self.relay.stdout.readline().strip() != "ready":
            raise OSError("link_relay does not run")

    def relayed(self):
        """Frames that a relay forwarded, lost, reordered, dropped, and forwarded late so far."""
        self.relay.stdin.write("\n")
        self.relay.stdin.flush()
        names = "forwarded", "lost", "reordered", "dropped", "late"
        return dict(zip(names, map(int, self.relay.stdout.readline().split())))

    def plug_in(self, host):
        port = f"port{host}"
        self.do(0, "ip", "link", "add", port, "mtu", MTU, "type", "veth", "peer", "name", "cable",
                "mtu", MTU, "netns", self.keepers[host + 1].pid)
        if self.link.is_relayed():
            # single frames get lost, so hosts cut their own; else a few together, to save time here
            segments = 1 if self.link.loss > 0 or self.link.reorder > 0 else 8
            self.do(host + 1, "ip", "link", "set", "cable", "gso_max_segs", segments)
            # and send nothing by themselves, as frames are chosen by their numbers
            for place, device in ((host + 1, "cable"), (0, port)):
                self.do(place, "ip", "link", "set", device, "addrgenmode", "none")
        else:
            self.do(0, "ip", "link", "set", port, "master", "switch")
        self.do(0, "ip", "link", "set", port, "up")
        for words in (("addr", "add", self.address(host) + "/24", "dev", "cable"),
                      ("link", "set", "cable", "up"), ("link", "set", "lo", "up")):
            self.do(host + 1, "ip", *words)
        if self.link.rmem > 0:
            self.do(host + 1, "sh", "-c", f"echo 4096 {min(self.link.rmem, 131072)} "
                    f"{self.link.rmem} > /proc/sys/net/ipv4/tcp_rmem")
        if self.link.is_relayed():
            return
        if "up" in self.ways:
            self.shape(host + 1, "cable")
        if "down" in self.ways:
            self.shape(0, port)

    def shape(self, place, device):
        if self.link.gbit > 0:
            self.do(place, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                    f"{self.link.gbit}gbit", "burst", self.link.burst, "limit", self.link.limit)

    def dropped(self):
        """Packets that the queues had no room for so far: on the way up, and down."""
        if self.relay is not None:
            return self.relayed()["dropped"], 0
        def count(place):
            return sum(map(int, re.findall(r"dropped (\d+)", self.do(place, "tc", "-s", "qdisc"))))
        return sum(map(count, range(1, self.count + 1))), count(0)

    def retransmitted(self):
        """Segments that TCP has sent again so far, on all hosts."""
        return sum(int(self.do(host + 1, "nstat", "-asz", "TcpRetransSegs").split()[-2])
                   for host in range(self.count))

    def run(self, command_of, environment_of=lambda host: {}, timeout=95):
        """
        Run a command on each host at once.
        Returns what each printed; ends the script where one fails.
        """
        runs = []
        for host in range(self.count):
            files = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            runs.append((subprocess.Popen(
                [*self.inside(host + 1), *map(str, command_of(host))], stdin=subprocess.DEVNULL,
                stdout=files[0], stderr=files[1], preexec_fn=functools.partial(self.begin, host),
                env={**os.environ, **environment_of(host)}), files))
        deadline = time.monotonic() + timeout
        outputs = [self.collect(process, files, deadline) for process, files in runs]
        failed = [f"host {host}: exit {status}: {error.strip()}"
                  for host, (status, _, error) in enumerate(outputs) if status != 0]
        if failed:
            sys.exit("\n".join(failed))
        return [output for _, output, _ in outputs]

    @staticmethod
    def collect(process, files, deadline):
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        texts = []
        for file in files:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return process.returncode, *texts


def run_ranks(hosts, command, timeout=95, **settings):
    """A command of wring, one rank per host, over tcp. Returns what rank 0 printed."""
    sites = hosts.link.sites

    def environment(host):
        site = {"WRING_SITE": f"site{host * sites // hosts.count}"} if sites > 0 else {}
        return {**site, "WRING_RANK": str(host), "WRING_SIZE": str(hosts.count), "WRING_KEY": "links",
                "WRING_ROOT": f"{hosts.address(0)}:{PORT}", **settings}
    return hosts.run(lambda _: [*command, "-n", hosts.count, "-p", "tcp"], environment, timeout)[0]


def run_wring(hosts, wring, arguments, **settings):
    """`wring bench allreduce` on all hosts. Returns its results."""
    return json.loads(run_ranks(hosts, [wring, "bench", "allreduce", "--json", *arguments],
                                **settings))["results"]


def bound_us(link, result, ranks):
    """
    The least time that a link leaves for this. Raw: a ring's, as bytes of gradient over bits per
    second. Encoded: the bytes that a rank really sends. Headers of frames are not counted.
    """
    if link.gbit == 0:
        return 0
    sent = result["bytes"] * 2 * (ranks - 1) / ranks
    if result["codec"] != "none":
        sent = result["wire_bytes"]
    return sent / link.bytes_per_us()


def exchange_bare(hosts, build, sizes, rounds):
    """
    Two hosts exchange so many bytes each way over bare sockets.
    @return {bytes: (best, median, 90th percentile)} in us
    """
    program = os.path.abspath(f"{build}/tests/peers/socket_exchange")
    ends = hosts.run(lambda host: [program, hosts.address(0), PORT,
                                   "connect" if host else "listen", rounds, *sizes]
                     if host < 2 else ["true"])
    rows = [list(map(int, line.split())) for line in ends[0].splitlines()]
    return {row[0]: tuple(row[1:]) for row in rows}


def print_bare(hosts, arguments, name, last):
    """As many bytes as a rank sent, for each size and codec."""
    sizes = sorted({result["wire_bytes"] for result in last.values()})
    for size, us in exchange_bare(hosts, arguments.build, sizes, arguments.bare).items():
        print(f"| {name} | bare | {size} | {us[1]} | {us[0]} | {us[2]} (p90) "
              f"| {size / hosts.link.bytes_per_us():.0f} | | | |", flush=True)


def measure(arguments, wring, name):
    """Print a table for one link."""
    link = find(name)
    times, last = {}, {}
    with Hosts(arguments.ranks, link, arguments.ways.split(","), build=arguments.build) as hosts:
        for _ in range(arguments.rounds):
            for result in run_wring(hosts, wring, ["-b", arguments.bytes, "-c", arguments.codecs,
                                                   "--seconds", str(arguments.seconds),
                                                   *["--foreign"] * arguments.foreign]):
                key = result["codec"], result["bytes"]
                times.setdefault(key, []).append(result["time_us"]["median"])
                last[key] = result
            if arguments.bare > 0:
                print_bare(hosts, arguments, name, last)
        up, down = hosts.dropped()
        again = hosts.retransmitted()
        relayed = hosts.relayed() if link.is_relayed() else {}
    for (codec, size), all_us in times.items():
        median = statistics.median(all_us)
        result, raw = last[codec, size], times.get(("none", size))
        bound = bound_us(link, result, arguments.ranks)
        gain = statistics.median(raw) / median if raw else float("nan")
        print(f"| {name} | {codec} | {size} | {median:.0f} | {min(all_us):.0f} "
              f"| {max(all_us):.0f} | {bound:.0f} | {100 * bound / median:.1f} "
              f"| {gain:.2f} | {result['wrong']} |", flush=True)
    print(f"\n{name}: {up} packets dropped on the way up, {down} on the way down; "
          f"{again} segments sent again", flush=True)
    if relayed:
        print(f"{name}: of {relayed['forwarded']} frames {relayed['late']} were late as this "
              f"machine was busy; {relayed['lost']} more lost, {relayed['reordered']} reordered")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--links", default="1g,10g,none")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--bytes", default="64m")
    parser.add_argument("--codecs", default="none,bf16,int8,onebit,onebit+ef,topk:ratio=0.01")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--ways", default="up,down", help="which ways of a link are shaped")
    parser.add_argument("--bare", type=int, default=0, metavar="ROUNDS",
                        help="also exchange as many bytes over bare sockets, so often")
    parser.add_argument("--foreign", action="store_true",
                        help="immediate calls instead of buckets")
    arguments = parser.parse_args()

    require_root()
    print("| link | codec | bytes | µs | best round | worst | bound µs | % of bound | times none's "
          "speed | wrong |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.links.split(","):
        measure(arguments, os.path.abspath(f"{arguments.build}/tools/wring"), name)


if __name__ == "__main__":
    main()
