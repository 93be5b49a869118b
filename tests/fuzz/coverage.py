#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of each parser the fuzzers' corpora reach, in lines.

    tests/fuzz/coverage.py [--seconds S] [--build DIR]

Builds the fuzz targets by clang with its coverage, runs each over its corpus (and, for S seconds, over
changed entries), and prints the lines of each file that reads what others wrote. A file that no
target reaches counts as well, with 0.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = "-fprofile-instr-generate -fcoverage-mapping"

# What comes from whom, and the files that read it first.
PARSERS = {
    "a stranger": ["transport/auth.c", "transport/door.c", "transport/bootstrap/rendezvous.c",
                   "transport/bootstrap/rendezvous_frame.c", "transport/bootstrap/rendezvous_root.c"],
    "a rank, while joining": ["transport/bootstrap/rendezvous_join.c", "transport/bootstrap/rendezvous_plant.c",
                              "transport/bootstrap/rendezvous_tree.c", "transport/providers/handshake.c",
                              "transport/providers/verbs/handshake.c", "runtime/session/join.c",
                              "runtime/commit/commit.c", "runtime/commit/endpoint_exchange.c"],
    "a rank, over a connection": ["transport/control.c", "transport/channel.c", "transport/flight.c",
                                  "transport/slot_pool.c", "transport/pool_link.c",
                                  "transport/message/peer.c", "transport/message/incoming.c",
                                  "transport/message/ring.h", "transport/providers/tcp/conn.c",
                                  "transport/providers/tcp/traffic.c",
                                  "transport/providers/shm/conn.c", "transport/providers/shm/shm.c",
                                  "transport/providers/shm/listen.c",
                                  "transport/providers/verbs/traffic.c"],
    "codes": ["compress/codecs/bf16.c", "compress/codecs/fp16.c", "compress/codecs/int8.c",
              "compress/codecs/lossless.c", "compress/codecs/onebit.c", "compress/codecs/topk.c"],
    "a launcher": ["transport/bootstrap/pmi.c", "transport/bootstrap/launcher.c"],
    "files": ["planner/core/files/json.c", "planner/core/files/fields.c", "planner/core/files/plan.c",
              "planner/core/files/profile.c", "planner/core/files/profile_errors.c",
              "planner/core/files/tensor_trace.c", "planner/core/files/machine.c", "runtime/state.c"],
    "settings": ["base/parse.c", "base/config.c", "base/bytes.c", "compress/codec.c",
                 "transport/providers/fault/harm.c", "transport/providers/verbs/select.c",
                 "transport/interface.c"],
}


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def build(folder):
    if not (folder / "build.ninja").exists():
        run("meson", "setup", folder, ROOT, "-Doptimization=1", f"-Dc_args={FLAGS}",
            "-Dc_link_args=-fprofile-instr-generate",
            env=os.environ | {"CC": os.environ.get("WRING_COVERAGE_CC", "clang")})
    names = [line.split(":")[0] for line in run("ninja", "-C", folder, "-t", "targets", "all").split("\n")]
    targets = sorted(name for name in names
                     if name.startswith("tests/fuzz/fuzz_") and "." not in name)
    run("ninja", "-C", folder, *targets)
    return [folder / name for name in targets]


def profile(folder, target, seconds):
    out = folder / (target.name + ".profraw")
    corpus = ROOT / "tests/fuzz/corpus" / target.name.removeprefix("fuzz_")
    run(target, "--seconds", str(seconds), corpus, cwd=folder,
        env=os.environ | {"LLVM_PROFILE_FILE": str(out)})
    return out


def summarize(folder, targets, raw):
    merged = folder / "fuzz.profdata"
    run("llvm-profdata", "merge", "-o", merged, *raw)
    objects = [word for target in targets[1:] for word in ("-object", target)]
    data = json.loads(run("llvm-cov", "export", "-summary-only", "-instr-profile", merged, targets[0],
                          *objects))
    return {str(pathlib.Path(entry["filename"]).resolve()): entry["summary"]["lines"]
            for entry in data["data"][0]["files"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-coverage")
    options = parser.parse_args()
    folder = options.build.resolve()
    targets = build(folder)
    lines = summarize(folder, targets,
                      [profile(folder, target, options.seconds) for target in targets])
    total = covered = 0
    print("| comes from | file | lines | reached | % |\n|---|---|---|---|---|")
    for source, files in PARSERS.items():
        for name in files:
            if not (ROOT / name).exists():
                sys.exit(f"there is no {name}: bring the list in {__file__} up to date")
            entry = lines.get(str(ROOT / name), {"count": 0, "covered": 0})
            total += entry["count"]
            covered += entry["covered"]
            percent = 100 * entry["covered"] / entry["count"] if entry["count"] else 0
            print(f"| {source} | `{name}` | {entry['count']} | {entry['covered']} | {percent:.0f} |")
    print(f"| all | | {total} | {covered} | {100 * covered / max(total, 1):.0f} |")


if __name__ == "__main__":
    main()
