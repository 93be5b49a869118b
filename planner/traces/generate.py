#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the traces that wring ships: generate.py [OPTION...] FOLDER

Sizes come from the architectures in architectures.py. Times come from a model, not from a
measurement: an operation takes in its forward pass

    max(flops / (peak * share of it that is reached), bytes / (bandwidth * share)) + launch

once, and in its backward pass twice that; of an embedding, which only gathers rows forward, backward
writes the whole dense gradient. Backward runs the operations from last to first, and the gradients of
an operation's parameters are ready when its backward is done, biases before weights. The default
device is an A100 that computes in 16 bits and keeps gradients in 32.

Where a model was trained on more than one input at a time, its batch is of one device.
"""
import argparse
import json
import pathlib
import sys
from dataclasses import dataclass, replace

import architectures


@dataclass(frozen=True)
class Device:
    name: str
    tflops: float  # peak of 16-bit multiply-adds, in 1e12 operations per second
    gb_per_s: float  # of its memory
    matmul_share: float = 0.5  # of the peak that large matrix products reach
    conv_share: float = 0.35  # and convolutions
    memory_share: float = 0.8
    launch_us: float = 4.0  # of a kernel, besides its work


DEVICES = {
    "v100": Device("V100", 125, 900),
    "a100": Device("A100", 312, 1555),
    "h100": Device("H100", 989, 3350),
}


def forward_us(device, op):
    share = device.conv_share if op.is_conv else device.matmul_share
    compute = op.flops / (device.tflops * share * 1e6)
    memory = op.bytes / (device.gb_per_s * device.memory_share * 1e3)
    return max(compute, memory) + device.launch_us


def backward_us(device, op):
    if op.dense_gradient_bytes:
        return op.dense_gradient_bytes / (device.gb_per_s * device.memory_share * 1e3) + device.launch_us
    return 2 * forward_us(device, op)


def walk(device, steps):
    """@return tensors in backward order, and the time of all steps"""
    now, tensors = 0.0, []
    for step in steps:
        if step.backward:
            now += backward_us(device, step.op)
        else:
            now += forward_us(device, step.op)
        if step.ready:
            tensors += [{"name": name, "elements": elements, "ready_us": round(now, 1)}
                        for name, elements in step.op.params]
    return tensors


def make_trace(device, model):
    source = (f"computed, not measured: {device.name} in 16 bits, {device.tflops:g} Tflop/s of which "
              f"{device.matmul_share:g} (convolutions {device.conv_share:g}), {device.gb_per_s:g} GB/s "
              f"of which {device.memory_share:g}, {device.launch_us:g} us per kernel; {model.batch}")
    return {
        "format": "wring-trace",
        "version": 1,
        "model": model.name,
        "dtype": "float32",
        "forward_us": round(sum(forward_us(device, op) for op in model.forward), 1),
        "source": source,
        "tensors": walk(device, model.steps()),
    }


def render(trace):
    """As wring itself writes it: a tensor on each line, numbers as short as can be."""
    def number(value):
        return int(value) if isinstance(value, float) and value == int(value) else value

    lines = [f' {json.dumps(key)}: {json.dumps(number(value))},'
             for key, value in trace.items() if key != "tensors"]
    tensors = [json.dumps({key: number(value) for key, value in tensor.items()})
               for tensor in trace["tensors"]]
    body = ",\n".join("  " + tensor for tensor in tensors)
    return "{\n" + "\n".join(lines) + '\n "tensors": [\n' + body + "\n ]\n}\n"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=sorted(DEVICES), default="a100")
    parser.add_argument("--only", metavar="NAME", help="of " + ", ".join(architectures.MODELS))
    for name in ("tflops", "gb_per_s", "matmul_share", "conv_share", "memory_share", "launch_us"):
        parser.add_argument("--" + name.replace("_", "-"), type=float, help="instead of the device's")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    given = {name: value for name, value in vars(options).items()
             if name in Device.__dataclass_fields__ and value is not None}
    device = replace(DEVICES[options.device], **given)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, make in architectures.MODELS.items():
        if options.only in (None, name):
            text = render(make_trace(device, make()))
            (options.folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
