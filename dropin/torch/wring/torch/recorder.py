# SPDX-License-Identifier: Apache-2.0
"""Writes a trace of a model for `wring plan`: its tensors in the order in which backward finishes them,
and when; and, where asked, what its gradients are, for error budgets. docs/planner-files.md has both
formats.

    wring.torch.record_trace(model, lambda: loss(model(x), y), "trace.json",
                             gradients="gradients.bin")
    wring plan -t trace.json -p profile.json -c bf16,onebit+ef --runnable -o plan.json
    WRING_PLAN=plan.json ...           a job whose hook is made by DDPState(model)

Names are those of DDPState(model), so that a plan made of the trace fits its buckets.

This takes a model alone, without a job. A job that runs records itself, torch or not, with
WRING_RECORD=trace.json: docs/observing.md. Its file has the same format, its tensors are the job's
buckets, and what it says of computing includes forward and the optimizer's step.
"""
import json
import math
import os
import statistics
import struct
import time

import torch

WHOLE = 65536  # elements of a tensor that are kept whole; of larger ones RUNS runs of RUN
RUNS, RUN = 16, 4096
MAX_VALUES = 1 << 26
MAX_NAME = 512


class _Watch:
    """Notes when each parameter's gradient is complete."""

    def __init__(self, parameters):
        self.at = {}
        self.handles = [parameter.register_post_accumulate_grad_hook(self._note(name))
                        for name, parameter in parameters.items()]

    def _note(self, name):
        def note(_parameter):
            self.at[name] = time.perf_counter()
        return note

    def remove(self):
        for handle in self.handles:
            handle.remove()


def _sample(gradient):
    """What is kept of a tensor: all of it, or evenly spread runs of neighbours."""
    flat = gradient.detach().reshape(-1).to(torch.float32)
    if flat.numel() <= WHOLE:
        return flat.clone()
    last = flat.numel() - RUN
    return torch.cat([flat[last * i // (RUNS - 1):][:RUN] for i in range(RUNS)])


def _write_gradients(path, names, elements, samples, steps, source):
    """@param samples  {name: [steps] tensors}"""
    total = sum(samples[name][0].numel() for name in names) * steps
    if total > MAX_VALUES:
        raise ValueError(f"{path}: {total} values of {steps} steps, and a file holds {MAX_VALUES}: "
                         "record fewer steps")
    with open(path, "wb") as file:
        text = source.encode()
        file.write(b"wring-gradients\n" + struct.pack("<III", 1, len(names), steps))
        file.write(struct.pack("<I", len(text)) + text)
        file.write(struct.pack(f"<{steps}Q", *range(steps)))
        for name in names:
            raw = name.encode()
            file.write(struct.pack("<I", len(raw)) + raw +
                       struct.pack("<QI", elements[name], samples[name][0].numel()))
        for step in range(steps):
            for name in names:
                values = samples[name][step]
                if not bool(torch.isfinite(values).all()):
                    raise ValueError(f"{path}: the gradient of {name} in step {step} is not finite: "
                                     "record after the loss has come down, or with a smaller rate")
                file.write(values.numpy().tobytes())


def _check(model, path):
    parameters = {name.removeprefix("module."): parameter
                  for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not parameters:
        raise ValueError(f"{path}: the model has no parameter that needs a gradient")
    for name, parameter in parameters.items():
        if parameter.device.type != "cpu":
            raise RuntimeError(f"wring: {name} is on {parameter.device}: this release records models "
                               "on the CPU, where a call has ended when it returns")
        if len(name.encode()) > MAX_NAME:
            raise ValueError(f"{path}: a name of {len(name.encode())} bytes, at most {MAX_NAME} go "
                             f"into a trace: {name[:40]}...")
    return parameters


def record_trace(model, loss_of, path, *, steps=8, warm_up=2, optimizer=None, gradients=None,
                 name=None, source=""):
    """Run forward and backward some times, and write what is learnt.

    @param model      not yet wrapped by DDP, so that nothing is exchanged meanwhile
    @param loss_of    a function that runs forward and returns the loss; it may take another batch in
                      each call
    @param path       of the trace
    @param steps      that count, behind `warm_up` that do not; times are their medians
    @param optimizer  stepped after each backward, and timed: then this is training. None: parameters
                      stay as they are, and gradients are cleared
    @param gradients  also write gradients there, one sample of each of the steps
    @param name       the model's; None: its class
    @return the trace, as a dict
    """
    if steps < 1 or warm_up < 0:
        raise ValueError(f"steps={steps}, warm_up={warm_up}: needs one step at least")
    parameters = _check(model, path)
    ready = {each: [] for each in parameters}
    samples = {each: [] for each in parameters}
    forward, stepping = [], []
    watch = _Watch(parameters)
    try:
        for step in range(warm_up + steps):
            model.zero_grad(set_to_none=True)
            watch.at.clear()
            begin = time.perf_counter()
            loss = loss_of()
            backward = time.perf_counter()
            loss.backward()
            done = time.perf_counter()
            if optimizer is not None:
                optimizer.step()
            if step < warm_up:
                continue
            forward.append(backward - begin)
            stepping.append(time.perf_counter() - done)
            for each, parameter in parameters.items():
                if each in watch.at:
                    ready[each].append(watch.at[each] - backward)
                if gradients is not None and parameter.grad is not None:
                    samples[each].append(_sample(parameter.grad))
    finally:
        watch.remove()
        if optimizer is None:
            model.zero_grad(set_to_none=True)
    unused = [each for each in parameters if len(ready[each]) < steps]
    if unused:
        raise RuntimeError(f"{path}: no gradient in some step for {', '.join(unused[:3])}"
                           f"{' and others' if len(unused) > 3 else ''}: freeze these parameters "
                           "(requires_grad_(False)), or have loss_of() use them in each step")
    trace = _trace(model if name is None else name, parameters, ready, forward,
                   stepping if optimizer is not None else None,
                   source or f"wring.torch.record_trace: medians of {steps} steps, "
                             f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(trace, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)
    if gradients is not None:
        _write_gradients(gradients, [each["name"] for each in trace["tensors"]],
                         {each: parameters[each].numel() for each in parameters}, samples, steps,
                         trace["source"])
    return trace


def _trace(model, parameters, ready, forward, stepping, source):
    at = sorted((statistics.median(times), name) for name, times in ready.items())
    tensors, before = [], 0.0
    for seconds, name in at:
        before = max(before, round(seconds * 1e6, 3), 0.0)
        if parameters[name].numel() > 0:
            tensors.append({"name": name, "elements": parameters[name].numel(), "ready_us": before})
    trace = {"format": "wring-trace", "version": 1,
             "model": model if isinstance(model, str) else type(model).__name__, "dtype": "float32",
             "forward_us": round(statistics.median(forward) * 1e6, 3)}
    if stepping is not None:
        trace["optimizer_us"] = round(statistics.median(stepping) * 1e6, 3)
    assert math.isfinite(before)
    return {**trace, "source": source, "tensors": tensors}
