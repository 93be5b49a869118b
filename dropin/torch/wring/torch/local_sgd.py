# SPDX-License-Identifier: Apache-2.0
"""Local-step training (DiLoCo): each rank takes many steps by itself, and then ranks exchange what
these changed.

    local = wring.torch.LocalSGD(model, every=50, codec="onebit:block=128+ef")
    for batch in data:
        optimizer.zero_grad(); loss(model, batch).backward(); optimizer.step()
        local.step()
    local.finish()

What a rank changed since the last outer step, anchor - parameters, is its outer gradient. The average of
all ranks' goes to the outer optimizer: Nesterov momentum on the anchor (arXiv:2311.08105). Every tensor
of any shape takes the codec, and error feedback keeps what a code lacks for the next outer step. What
travels at full precision nevertheless is said in one warning at the first outer step, and by
raw_tensors().

With overlap=N an outer step runs beside the next N local steps, which are not lost: what they change is
put on top of the new anchor.

Buffers, such as running means, stay each rank's own.
"""
import warnings

import torch

from ..api import Op
from .meeting import open_session
from .rules import Rules

VERSION = 1


class _Tensor:
    """One parameter: its anchor, momentum and outer gradient, which is the bucket's data."""

    def __init__(self, name, parameter, codec):
        self.name, self.parameter, self.codec = name, parameter, codec
        self.anchor = parameter.detach().clone(memory_format=torch.contiguous_format)
        self.momentum = torch.zeros_like(self.anchor)
        self.change = torch.zeros_like(self.anchor)
        self.sent = None  # the parameter as its change was taken, while an outer step runs
        self.bucket = None

    def take_change(self, keep):
        torch.sub(self.anchor, self.parameter.detach(), out=self.change)
        if keep:
            self.sent = self.parameter.detach().clone(memory_format=torch.contiguous_format)

    def apply(self, rate, momentum):
        """The outer step, with the average in `change`."""
        if momentum == 0:
            self.anchor.sub_(self.change, alpha=rate)
        else:
            self.momentum.mul_(momentum).add_(self.change)
            self.anchor.sub_(self.change.add_(self.momentum, alpha=momentum), alpha=rate)
        with torch.no_grad():
            if self.sent is None:
                self.parameter.copy_(self.anchor)
            else:
                self.parameter.add_(self.sent.sub_(self.anchor), alpha=-1)
        self.sent = None


class LocalSGD:
    """
    every          local steps between outer steps
    codec          of all tensors that no rule names; None: "none"
    rules          as WRING_CODEC_RULES has them; None: every tensor takes the codec
    overlap        local steps that an outer step may take; 0: step() waits for it
    outer_rate, outer_momentum   of the outer optimizer
    process_group  None: the default one
    settings       {"WRING_X": value} for its session

    All ranks begin with the same parameters, which the caller sees to (broadcast, seed, checkpoint).
    """

    def __init__(self, model, every, codec="none", rules=None, overlap=0, outer_rate=0.7,
                 outer_momentum=0.9, process_group=None, settings=None):
        if every < 1 or not 0 <= overlap < every:
            raise ValueError(f"every={every}, overlap={overlap}: needs every >= 1 and overlap below "
                             "it, as an outer step ends before the next one")
        rules = Rules(f"min=0; 1d={codec}" if rules is None else rules, codec)
        self.every, self.overlap = every, overlap
        self.outer_rate, self.outer_momentum = outer_rate, outer_momentum
        self.steps = self.outer_steps = 0
        self._under_way = False
        self._tensors = []
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.device.type != "cpu":
                raise RuntimeError(f"wring: {name} on {parameter.device}: this release exchanges "
                                   "memory of the host")
            self._tensors.append(_Tensor(name, parameter, rules.codec_of(name, parameter)))
        self.session = open_session(process_group, settings)
        for tensor in self._tensors:
            shape = tensor.anchor.shape
            matrix = (shape[0], tensor.anchor.numel() // shape[0]) if len(shape) >= 2 and \
                tensor.anchor.numel() else None
            tensor.bucket = self.session.register(tensor.name, tensor.change, op=Op.AVG,
                                                  codec=tensor.codec, shape=matrix)
        self.session.commit()
        self._say_what_is_raw()

    # ---- what is raw -------------------------------------------------------------------------

    def raw_tensors(self):
        """@return [(name, elements, why)] of tensors that travel at full precision"""
        raw = []
        for tensor in self._tensors:
            stats = tensor.bucket.stats()
            if stats["codec"] != "none":
                continue
            why = "its rule or type says so" if tensor.codec == "none" else \
                f"{tensor.codec} saves no time on this link (WRING_BYPASS)"
            raw.append((tensor.name, tensor.anchor.numel(), why))
        return raw

    def _say_what_is_raw(self):
        raw, total = self.raw_tensors(), sum(each.anchor.numel() for each in self._tensors)
        if not raw or self.session.rank != 0 or self.session.size == 1 or \
                all(tensor.codec == "none" for tensor in self._tensors):
            return
        share = sum(elements for _, elements, _ in raw) / max(1, total)
        first = ", ".join(f"{name} ({why})" for name, _, why in raw[:3])
        more = "" if len(raw) <= 3 else f" and {len(raw) - 3} more"
        warnings.warn(f"wring: {len(raw)} of {len(self._tensors)} tensors, {100 * share:.1f} % of the "
                      f"elements, travel at full precision: {first}{more}", stacklevel=3)

    # ---- steps -------------------------------------------------------------------------------

    def step(self):
        """After each step of the inner optimizer. @return whether an outer step ended with it"""
        self.steps += 1
        due = self.steps % self.every
        if self._under_way and due == self.overlap:
            return self._end()
        if due != 0:
            return False
        for tensor in self._tensors:
            tensor.take_change(keep=self.overlap > 0)
        for tensor in self._tensors:
            tensor.bucket.post()
        self._under_way = True
        return self._end() if self.overlap == 0 else False

    def _end(self):
        for tensor in self._tensors:
            tensor.bucket.wait()
        for tensor in self._tensors:
            tensor.apply(self.outer_rate, self.outer_momentum)
        self._under_way = False
        self.outer_steps += 1
        return True

    def finish(self):
        """End an outer step that is under way; before evaluating, saving, and at the end."""
        if self._under_way:
            self._end()

    def stats(self):
        """@return {name: its wring_bucket_stats as a dict}"""
        return {tensor.name: tensor.bucket.stats() for tensor in self._tensors}

    # ---- what is kept ------------------------------------------------------------------------

    def state_dict(self):
        """Anchors, momentum, and what this rank's codecs hold back; each rank saves its own."""
        if self._under_way:
            raise RuntimeError("wring: an outer step is under way: call finish() first")
        return {"version": VERSION, "steps": self.steps, "exchanges": self.outer_steps,
                "size": self.session.size, "codecs": self.session.save_state(),
                "tensors": {tensor.name: (tensor.anchor.clone(), tensor.momentum.clone())
                            for tensor in self._tensors}}

    def load_state_dict(self, state):
        """Take over a state of state_dict(), between outer steps."""
        if state.get("version") != VERSION:
            raise ValueError(f"a state of version {state.get('version')}: this release reads "
                             f"{VERSION}")
        names = [tensor.name for tensor in self._tensors]
        if sorted(state["tensors"]) != sorted(names):
            raise ValueError("a state of other tensors than this model has")
        self.session.load_state(state["codecs"])
        self.steps, self.outer_steps = state["steps"], state["exchanges"]
        for tensor in self._tensors:
            anchor, momentum = state["tensors"][tensor.name]
            tensor.anchor.copy_(anchor)
            tensor.momentum.copy_(momentum)
