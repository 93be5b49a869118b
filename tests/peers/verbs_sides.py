# SPDX-License-Identifier: Apache-2.0
"""The programs that verbs_perftest.py compares, each run between the two devices of one machine.

Every function runs both sides of one measurement and returns what it gave: bandwidth in GB/s (1e9
bytes per second), times in us. A side that fails or does not end raises Failed.
"""
import json
import os
import re
import subprocess
import time

from peer_sides import Failed, start

NICS = ("cable0", "cable1")
DEVICES = ("rxa", "rxb")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
TIMEOUT = 120
SEGMENTS = 65535  # the kernel's own bound
PERFTEST_PORT = 18515
MIB_PER_GB = 2**20 / 1e9


def finish(process, what, deadline):
    """@return standard output of a process that must end well, and in time"""
    try:
        out, err = process.communicate(timeout=max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"{what}: no end within {TIMEOUT} s") from None
    if process.returncode != 0:
        raise Failed(f"{what}: exit {process.returncode}: {(err or out).strip()[-500:]}")
    return out


def run_both(first, second, what):
    """Wait for two processes. @return the standard output of both"""
    deadline = time.monotonic() + TIMEOUT
    try:
        return finish(first, what, deadline), finish(second, what, deadline)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


def cable_bytes():
    """That were sent so far, from both ends."""
    return sum(int(open(f"/sys/class/net/{nic}/statistics/tx_bytes", encoding="ascii").read())
               for nic in NICS)


def wait_for_listener(port, process):
    wanted = re.compile(rf"^\s*\d+: \S+:{port:04X} \S+ 0A ", re.M)
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if wanted.search(open(table, encoding="ascii").read()):
                return
        time.sleep(0.02)


def gid_index(device):
    """Of the RoCE v2 GID that holds the device's IPv4 address."""
    folder = f"/sys/class/infiniband/{device}/ports/1"
    for index in range(16):
        gid = open(f"{folder}/gids/{index}", encoding="ascii").read()
        if gid.startswith("0000:0000:0000:0000:0000:ffff:"):
            return index
    raise Failed(f"{device} has no GID of an IPv4 address")


def perftest(tool, options):
    """Both sides of one of perftest's programs. @return the last line of figures"""
    def side(device):
        return [tool, "-d", device, "-x", str(gid_index(device)), "-F", *options]
    server = start(side(DEVICES[0]))
    wait_for_listener(PERFTEST_PORT, server)
    client = start([*side(DEVICES[1]), ADDRESSES[0]])
    _, out = run_both(server, client, tool)
    figures = [line.split() for line in out.splitlines() if re.match(r"^ *\d[\d. ]+", line)]
    if not figures:
        raise Failed(f"{tool}: no figures in what it printed:\n{out[-500:]}")
    return figures[-1]


def perftest_bandwidth(tool, size, messages, depth, qps):
    figures = perftest(tool, ["-s", str(size), "-n", str(messages), "-t", str(depth),
                              "-q", str(qps)])
    return float(figures[3]) * MIB_PER_GB


def perftest_latency(size, trips):
    """@return the typical (median) time of half a round trip"""
    return float(perftest("ib_send_lat", ["-s", str(size), "-n", str(trips)])[4])


def wring_both(build, command, provider, qps):
    """Both ranks of one of wring's benchmarks, each bound to its end. @return the JSON object"""
    ranks = [start([f"{build}/tools/wring", "bench", command[0], "-p", provider, "--json",
                    *command[1:]],
                   WRING_RANK=str(rank), WRING_SIZE="2", WRING_ROOT=f"{ADDRESSES[0]}:5555",
                   WRING_KEY="between two devices", WRING_BIND=ADDRESSES[rank],
                   WRING_LOG="error", **device_settings(rank, qps))
             for rank in range(2)]
    out, _ = run_both(*ranks, f"wring bench {command[0]} over {provider}")
    return json.loads(out)


def device_settings(rank, qps):
    """What says to a rank which device it has, and how many queue pairs where there are several."""
    settings = {"WRING_VERBS_DEVICES": "=" + DEVICES[rank]}
    if qps > 1:
        settings["WRING_VERBS_QPS"] = str(qps)
    return settings


def wring_p2p(build, size, seconds, qps):
    got = wring_both(build, ["p2p", "-b", str(size), "--seconds", str(seconds)], "verbs", qps)
    return got["results"][0]


def wring_bandwidth(build, size, seconds, qps):
    return wring_p2p(build, size, seconds, qps)["bandwidth_gb_per_s"]


def wring_latency(build, size, seconds):
    return wring_p2p(build, size, seconds, 1)["latency_us"]["median"]


def keep_order(nic, wanted):
    """
    What a shaped cable lets go on one processor and then on another overtakes itself where each has
    a queue of its own for what comes in; soft-RoCE takes that for loss, and sends again. So all of a
    cable's packets go through one queue, as on a wire. Without shaping none overtakes another.
    """
    with open(f"/sys/class/net/{nic}/queues/rx-0/rps_cpus", "w", encoding="ascii") as file:
        file.write("1" if wanted else "0")


def set_link(segments, rate):
    """
    @param segments  packets that the system may hand to a network card as one (TCP does)
    @param rate      of the link, such as 100mbit; "" leaves it as fast as it is
    """
    for nic in NICS:
        command = ["ip", "link", "set", nic, "gso_max_segs", str(segments)]
        subprocess.run(command, check=True)
        keep_order(nic, bool(rate))
        subprocess.run(["tc", "qdisc", "del", "dev", nic, "root"], capture_output=True)
        if rate:
            subprocess.run(["tc", "qdisc", "add", "dev", nic, "root", "netem", "rate", rate,
                            "limit", "10000"], check=True)


def wring_allreduce(build, provider, size, seconds, qps, segments=SEGMENTS, rate=""):
    """@return the median time; the bytes of each call must have been on the cable"""
    set_link(segments, rate)
    before = cable_bytes()
    got = wring_both(build, ["allreduce", "-b", str(size), "-c", "none", "--seconds",
                             str(seconds)], provider, qps)["results"][0]
    if got["wrong"] != 0:
        raise Failed(f"wring over {provider}: {got['wrong']} wrong elements")
    if cable_bytes() - before < 2 * size:
        raise Failed(f"wring over {provider}: its bytes were not on the cable")
    return got["time_us"]["median"]


def mpi_allreduce(build, size, seconds, rate=""):
    """
    Open MPI over UCX's reliable connections and nothing else, a device for each rank.

    UCX meets over unreliable datagrams, and drops those of soft-RoCE for the GID that they say they
    came for; that check is switched off.
    """
    set_link(SEGMENTS, rate)
    program = [f"{build}/tests/peers/openmpi_allreduce", str(seconds), str(size)]
    command = ["mpirun", "--mca", "pml", "ucx", "--mca", "osc", "^ucx", "--mca", "coll", "^hcoll"]
    for rank in range(2):
        command += [":"] if rank else []
        command += ["-n", "1", "-x", f"UCX_NET_DEVICES={DEVICES[rank]}:1",
                    "-x", "UCX_TLS=rc,self", "-x", "UCX_UD_VERBS_ETH_DGID_CHECK=n",
                    "-x", f"UCX_IB_GID_INDEX={gid_index(DEVICES[rank])}", *program]
    process = start(command, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    OMPI_MCA_rmaps_base_oversubscribe="1")
    _, _, median, _, wrong = finish(process, "Open MPI over UCX",
                                    time.monotonic() + TIMEOUT).split()
    if wrong != "0":
        raise Failed(f"Open MPI: {wrong} wrong elements")
    return float(median)
