#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of many jobs, forked from a process that has imported torch: rank_server.py PROGRAM

Importing torch takes longer than most cases that need it. Each line of the input is a job, as JSON:
    {"arguments": [...], "patience": seconds, "ranks": [{"environment": {...}, "said": FILE}, ...]}
Each rank runs PROGRAM, from its first line to the end of the interpreter, in a process of its own.
What is answered is a line with the ranks' exit statuses, as subprocess has them; null: none in time.
"""
import json
import os
import runpy
import select
import signal
import sys
import time
import warnings

import numpy
import torch
import torch.distributed

IMPORTED = (numpy, torch)


def become(rank, program, arguments):
    """In the child: descriptors, environment and arguments of a process that was started anew."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(rank["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, descriptor in enumerate((nothing, said, said)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(said)
    os.environ.update(rank["environment"])
    sys.argv[:] = [program, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(program))


def end_of(pid, end_time):
    """@return its exit status; None: it was killed, as it had not ended in time"""
    poll, descriptor = select.poll(), os.pidfd_open(pid)
    poll.register(descriptor, select.POLLIN)
    in_time = bool(poll.poll(max(0, end_time - time.monotonic()) * 1000))
    os.close(descriptor)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if in_time else None


def serve(program):
    """@return once in each child, and never in the server, which ends with its input"""
    while line := os.read(0, 1 << 16):
        while not line.endswith(b"\n"):
            line += os.read(0, 1 << 16)
        job = json.loads(line)
        end_time = time.monotonic() + job["patience"]
        children = []
        for rank in job["ranks"]:
            pid = os.fork()
            if pid == 0:
                become(rank, program, job["arguments"])
                return
            children.append(pid)
        print(json.dumps([end_of(pid, end_time) for pid in children]), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(sys.argv[1])
    runpy.run_path(sys.argv[0], run_name="__main__")
