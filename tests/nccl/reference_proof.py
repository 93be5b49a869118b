#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Show that each case of the NCCL driver is able to fail.

    reference_proof.py TEST_NET TEST_COLLNET REFERENCE HOLES [CASE...]

The reference plugin is broken in one way after the other, by REFERENCE_BREAK; each case of the driver
has to fail at least in the way that is listed for it here, by a failed check, and for the reason that
is listed too. A case that is missing here is a failure as well. That all of them pass on the reference
as it is are tests of their own. Where much else runs, a short deadline may be over before the reason
shows: what did not fail by it has two more tries, with time enough.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

# A case, how the plugin is broken, what the driver has to say of it. What waits until a deadline gets
# a short one.
Proof = collections.namedtuple("Proof", "case broken says deadline")
SOON, LATE = 2, 30
AT_ONCE = 6  # most of them wait for their deadline


def proof(case, broken, says, deadline=LATE):
    return Proof(case, broken, says, deadline)


NET = [
    proof("tables_are_whole_in_every_version", "holes", "lacks test"),
    proof("properties_make_sense", "properties", "maxP2pBytes 0"),
    proof("init_says_who_it_is", "silent", "no line has the name"),
    proof("no_device_fails_loudly", "quiet", "no line says why"),
    proof("no_device_fails_loudly", "hopeful", "succeeds"),
    proof("connecting_never_blocks", "block-accept", "is inside accept", SOON),
    proof("sends_before_accept_arrive", "lose", "other bytes"),
    proof("malformed_handles_are_refused", "trusting", "connect to refuse", SOON),
    proof("strangers_do_no_harm", "open-door", "(test|irecv|isend) of|messages of|connect: ", SOON),
    proof("many_connections_of_one_pair", "crosstalk", "differs|says|waits|(test|irecv|isend) of", SOON),
    proof("rank_connects_to_itself", "corrupt", "differs"),
    proof("posting_never_blocks", "block-send", "is inside isend", SOON),
    proof("small_sends_need_no_receive", "lazy", "isend to take", SOON),
    proof("grouped_receives_fill_all_requests", "shallow", "to take", SOON),
    proof("refused_sends_make_progress", "idle", "waits for", SOON),
    proof("tags_pick_slots_of_the_head", "untagged", "differs|says"),
    proof("tags_pick_slots_of_the_head", "plain", "waits for", SOON),
    proof("equal_tags_fill_slots_in_order", "reorder", "differs|says"),
    proof("messages_keep_their_order", "reorder", "differs|says"),
    proof("receives_may_be_larger", "posted-size", "test says"),
    proof("receives_may_be_larger", "overrun", "is written"),
    proof("larger_sends_fail_at_both_ends", "truncate", "are sent to|come to"),
    proof("larger_sends_fail_at_both_ends", "one-sided", "are sent to"),
    proof("messages_of_zero_bytes", "no-zero", "a message of zero bytes", SOON),
    proof("requests_are_tested_in_any_order", "fifo", "the newest request", SOON),
    proof("requests_are_tested_in_any_order", "sizes", "signal 11|ended with"),
    proof("completion_may_be_optional", "optional", "the mark"),
    proof("flush_comes_to_an_end", "flush", "a flush", SOON),
    proof("what_is_sent_is_left_alone", "flip-send", "changes what it sends"),
    proof("large_messages_come_whole", "corrupt", "differs"),
    proof("large_messages_come_whole", "nothing", "of memory more"),
    proof("streams_of_random_sizes", "corrupt", "differs"),
    proof("streams_of_random_sizes", "overrun", "is written"),
    proof("threads_have_connections_of_their_own", "one-thread", ": 3"),
    proof("regions_nest_and_repeat", "flat-regions", ": 5"),
    proof("closing_ends_requests_in_flight", "busy-close", "close(Send|Recv): 3"),
    proof("last_message_outlives_its_sender", "hasty", "test of|post|irecv|isend|connect: "),
    proof("sends_end_though_the_receiver_has_gone", "rude", "test"),
    proof("communicators_are_counted", "finalize-all", ": 3"),
    proof("library_is_loaded_again", "leak", "descriptors more"),
    proof("library_is_loaded_again", "linger", "threads of an|signal 11|SEGV", SOON),
    proof("library_is_loaded_twice", "finalize-all", ": 3"),
    proof("versions_work_side_by_side", "old-sizes", ": 5|waits|differs", SOON),
    proof("versions_talk_to_each_other", "old-sizes", ": 5|waits|differs", SOON),
    proof("dead_receiver_is_told", "deaf", "the death of a peer", SOON),
    proof("dead_receiver_is_told", "chatty", "lines tell"),
    proof("dead_sender_is_told", "deaf", "the death of a peer", SOON),
]
COLLNET = [
    proof("support_is_what_can_be_done", "coll-affirms", "is supported"),
    proof("support_is_what_can_be_done", "coll-denies", "no sum of type"),
    proof("support_is_what_can_be_done", "coll-none", "CollNet connect: 0"),
    proof("allreduce_is_exact", "coll-order", "differs"),
    proof("allreduce_is_exact", "coll-apart", "differs"),
    proof("allreduce_of_long_buffers", "coll-order", "differs"),
    proof("several_are_in_flight", "coll-shallow", "iallreduce to take", SOON),
    proof("several_are_in_flight", "coll-swap", "of 8 the one"),
    proof("allgather_moves_its_window", "coll-window", "'s part"),
    proof("reduce_scatter_moves_its_window", "coll-window", "reduce-scatter"),
    proof("strangers_do_no_harm", "coll-open-door", "allreduce|test of|CollNet", SOON),
    proof("communicators_live_side_by_side", "coll-order", "differs"),
    proof("dead_rank_is_told", "deaf", "the death of a rank", SOON),
    proof("dead_rank_is_told", "chatty", "lines tell"),
]


def run(binary, plugin, one, deadline):
    environment = dict(os.environ, REFERENCE_BREAK=one.broken)
    done = subprocess.run([binary, plugin, "v8" if one.broken == "old-sizes" else "v12",
                           f"deadline={deadline}", "largest=64", "memory=8",
                           "no-device=REFERENCE_NO_DEVICE=1", one.case],
                          env=environment, text=True, timeout=240, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def check(binary, plugin, holes, one):
    for deadline in (one.deadline, LATE, LATE):
        fault = check_once(binary, holes if one.broken == "holes" else plugin, one, deadline)
        if fault is None:
            return None
    return fault


def check_once(binary, plugin, one, deadline):
    code, text = run(binary, plugin, one, deadline)
    failed = [line for line in text.splitlines() if "check failed" in line]
    if code != 1 or not failed:
        return f"{one.case} passes on a plugin that is broken by {one.broken} (exit {code}):\n{text}"
    if not re.search(one.says, "\n".join(failed)):
        return f"{one.case} on {one.broken} fails, but not by /{one.says}/:\n{text}"
    return None


def cases_of(binary, plugin):
    """The binary's cases, which its source lists."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.path.basename(binary) + ".c")
    with open(source, encoding="utf-8") as text:
        return re.findall(r'^ +\{"(\w+)", \1\},$', text.read(), re.M)


def main():
    binaries, plugin, holes, wanted = sys.argv[1:3], sys.argv[3], sys.argv[4], sys.argv[5:]
    faults, jobs = [], []
    for binary, proofs in zip(binaries, (NET, COLLNET)):
        cases = cases_of(binary, plugin)
        listed = {one.case for one in proofs}
        faults += [f"nothing shows that {case} can fail" for case in cases if case not in listed]
        faults += [f"there is no case {case}" for case in listed if case not in cases]
        for one in proofs:
            if not wanted or one.case in wanted or one.broken in wanted:
                jobs.append((binary, plugin, holes, one))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        faults += [fault for fault in pool.map(check, *zip(*jobs)) if fault]
    for fault in faults:
        print(fault)
    print(f"{len(jobs)} broken plugins, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
