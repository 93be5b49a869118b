# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's gradients by wring's buckets: a communication hook.

    model = DistributedDataParallel(model)
    state = wring.torch.DDPState(model, codec="onebit:block=128+ef")      # or plan="auto"
    model.register_comm_hook(state, wring.torch.ddp_hook)

Each tensor that takes a codec is a bucket of wring's, named as its parameter, a matrix of as many rows
as its first dimension has; tensors that travel as they are go together. Under a plan (WRING_PLAN=FILE
or auto) each tensor is a bucket, and the plan decides what travels together and by which codec.

Backward posts what is ready and computes on. The hook of the last bucket of an iteration, behind which
there is no more to compute, waits for all: no thread is needed, and nobody waits elsewhere.

Error feedback lives in the library, under the names of parameters. So it outlives DDP's rebuilding
of its buckets after the first iteration, and checkpoints: state_dict() has it, and a pickle of the
state. After a change of the number of ranks, load what gather_state_dict() gave.
"""
import os

import torch
import torch.distributed as dist

from ..api import Op, WringError
from .meeting import open_session
from .rules import Rules

SMALL_BYTES = 64 << 10  # runs of raw tensors below it are packed into one bucket
VERSION = 1


class _Piece:
    """A wring bucket: a run of a DDP bucket's numbers, or several runs packed together.

    parameters  [(index in the DDP bucket, ...)] as it lies there
    """

    def __init__(self, name, codec, runs, shape=None):
        self.name, self.codec, self.runs, self.shape = name, codec, runs, shape
        self.bucket = self.packed = None

    def register(self, session, buffer, result):
        first, end = self.runs[0]
        data = buffer[first:end]
        out = None if result is buffer else result[first:end]
        if len(self.runs) > 1:
            data, out = torch.empty(sum(end - first for first, end in self.runs),
                                    dtype=buffer.dtype), None
            self.packed = data
        self.bucket = session.register(self.name, data, out=out, op=Op.AVG, codec=self.codec,
                                       shape=self.shape)

    def post(self, buffer):
        if self.packed is not None:
            torch.cat([buffer[first:end] for first, end in self.runs], out=self.packed)
        self.bucket.post()

    def finish(self, result):
        self.bucket.wait()
        at = 0
        for first, end in self.runs if self.packed is not None else ():
            result[first:end].copy_(self.packed[at:at + end - first])
            at += end - first


class _Layout:
    """One of DDP's buckets, as it was when its pieces were made.

    result  where DDP finds the averages. It copies gradients from there: so it is memory of wring's,
            which ranks of a host can map. Where gradients are views of the bucket
            (gradient_as_bucket_view) it is the bucket, and nothing is copied
    """

    def __init__(self, session, bucket, pieces):
        self.session, self.buffer, self.pieces = session, bucket.buffer(), pieces
        self.result, self._memory = self.buffer, None
        if self.buffer.numel() > 0:
            session.register_memory(self.buffer)
        if self.buffer.numel() > 0 and not has_views(bucket):
            self._memory = session.alloc(self.buffer.numel() * self.buffer.element_size())
            self.result = torch.frombuffer(self._memory, dtype=self.buffer.dtype)
        for piece in pieces:
            piece.register(session, self.buffer, self.result)

    def free(self):
        """Behind the commit without its pieces."""
        if self.buffer.numel() > 0:
            self.session.free(self.buffer)
        if self._memory is not None:
            self.session.free(self._memory)

    def is_of(self, buffer):
        """The buffer is held, so another one lies elsewhere: on all ranks in the same iteration."""
        return buffer.data_ptr() == self.buffer.data_ptr() and \
            buffer.numel() == self.buffer.numel()


def has_views(bucket):
    """Do gradients lie in DDP's bucket itself?"""
    first = bucket.buffer().data_ptr()
    end = first + bucket.buffer().numel() * bucket.buffer().element_size()
    return all(parameter.grad is not None and first <= parameter.grad.data_ptr() < end
               for parameter in bucket.parameters() if parameter.numel() > 0)


def plan_in_force(settings):
    return bool(settings.get("WRING_PLAN", os.environ.get("WRING_PLAN", "")))


class DDPState:
    """What ddp_hook keeps from step to step.

    model          the model, wrapped or not: rules and plans go by its parameters' names. Without,
                   gradients are called gradient.0, gradient.1, ... as DDP first hands them over.
                   After unpickling, bind() sets it
    codec          of tensors that no rule of WRING_CODEC_RULES names
    rules          in place of WRING_CODEC_RULES
    plan           "auto" or a file, in place of WRING_PLAN
    process_group  None: the default one
    settings       {"WRING_X": value} for its session, over the environment's
    """

    def __init__(self, model=None, codec="none", rules=None, plan=None, process_group=None,
                 settings=None):
        text = os.environ.get("WRING_CODEC_RULES", "") if rules is None else rules
        self.rules, self.settings = Rules(text, codec), dict(settings or {})
        if plan is not None:
            self.settings["WRING_PLAN"] = plan
        self._loaded = None  # a state that waits for the buckets
        self.renewals = 0  # how often DDP's buckets have come in new places
        self._reset()
        self.bind(model, process_group)

    def _reset(self):
        self.session, self._layouts, self._new, self._waiting = None, {}, {}, []
        self.names, self.process_group, self._is_bound = {}, None, False

    def bind(self, model, process_group=None):
        """Say whose gradients these are, and which ranks exchange them."""
        self.process_group, self._is_bound = process_group, model is not None
        if model is not None:
            self.names = {parameter: name.removeprefix("module.")
                          for name, parameter in model.named_parameters()}
        return self

    # ---- pieces ------------------------------------------------------------------------------

    def _name_of(self, parameter):
        name = self.names.get(parameter)
        if name is None and (self._is_bound or self.rules.patterns):
            raise RuntimeError("wring: a gradient of a parameter whose name the hook's state does not "
                               "know: make DDPState(model) with the model that DDP wraps, or call "
                               "state.bind(model)")
        return name or self.names.setdefault(parameter, f"gradient.{len(self.names)}")

    def _cut(self, index, bucket):
        """@return pieces of a DDP bucket"""
        planned, pieces, raw = plan_in_force(self.settings), [], []
        at = 0
        for parameter in bucket.parameters():
            name, end = self._name_of(parameter), at + parameter.numel()
            codec = self.rules.codec_of(name, parameter)
            shape = None
            if parameter.dim() >= 2 and parameter.numel() > 0:
                shape = (parameter.shape[0], parameter.numel() // parameter.shape[0])
            if planned or codec != "none":
                pieces.append(_Piece(name, codec, [(at, end)], shape))
            elif raw and raw[-1][1] == at:
                raw[-1] = (raw[-1][0], end)
            else:
                raw.append((at, end))
            at = end
        width = bucket.buffer().element_size()
        small = [run for run in raw if (run[1] - run[0]) * width < SMALL_BYTES]
        large = [run for run in raw if run not in small]
        if small:
            pieces.append(_Piece(f"ddp.{index}.small", "none", small))
        pieces += [_Piece(f"ddp.{index}.{i}", "none", [run]) for i, run in enumerate(large)]
        return pieces

    def _renew(self):
        """Make buckets of all that came in another place than before. Collective."""
        if self.session is None:
            self.session = open_session(self.process_group, self.settings)
        self.renewals += 1
        old = [piece for layout in self._layouts.values() for piece in layout.pieces]
        kept = self.session.save_state() if old and self._loaded is None else None
        for piece in old:
            piece.bucket.drop()
        former, self._layouts = self._layouts, {
            index: _Layout(self.session, bucket, self._cut(index, bucket))
            for index, bucket in sorted(self._new.items())}
        self.session.commit()
        for layout in former.values():
            layout.free()
        if kept is not None:
            self.session.load_state(kept)
        self._take_loaded()

    # ---- the hook ----------------------------------------------------------------------------

    def sum(self, bucket):
        """@return a future of the averaged gradients of one of DDP's buckets"""
        buffer, index = bucket.buffer(), bucket.index()
        if buffer.device.type != "cpu":
            raise RuntimeError(f"wring: gradients on {buffer.device}: this release exchanges memory "
                               "of the host; keep the model on the CPU, or leave the hook out")
        future = torch.futures.Future()
        self._waiting.append((bucket, future))
        layout = self._layouts.get(index)
        if not self._new and layout is not None and layout.is_of(buffer):
            self._post(layout)
        else:
            self._new[index] = bucket
        if bucket.is_last():
            self._finish()
        return future

    def _post(self, layout):
        for piece in layout.pieces:
            piece.post(layout.buffer)

    def _finish(self):
        waiting, self._waiting = self._waiting, []
        if self._new:
            if len(self._new) != len(waiting):
                raise RuntimeError("wring: DDP made some of its buckets anew and kept others")
            self._renew()
            self._new = {}
            for layout in self._layouts.values():
                self._post(layout)
        for bucket, future in waiting:
            layout = self._layouts[bucket.index()]
            for piece in layout.pieces:
                piece.finish(layout.result)
            future.set_result(layout.result)

    def close(self):
        """Leave the session, for a program that goes on without this model. All ranks call it."""
        if self.session is not None:
            self.session.close()
        self._reset()

    # ---- other ranks -------------------------------------------------------------------------

    def shrink(self, timeout=None):
        """Go on without lost ranks: elastic.shrink() calls it. With WRING_ROLLBACK=on what is held back is
        that of the last step that all ranks have made; without, tensors of the step that was cut off
        begin anew."""
        self._waiting, self._new = [], {}
        if self.session.error() is None:  # another one has failed
            self.session.abort()
        self.session.shrink(timeout)

    def forget(self):
        """Close the session, whatever its state; the next step opens another one."""
        if self.session is not None:
            self.session.close()
        self.session, self._layouts, self._new, self._waiting = None, {}, {}, []

    def spread(self):
        """The process group is another one, of other ranks: all of them call this. The next step
        opens a session of theirs, with all that was held back at those that were there."""
        mine = self.state_dict()
        parts = [None] * dist.get_world_size(self.process_group)
        dist.all_gather_object(parts, (mine["size"], mine["states"]), group=self.process_group)
        states = {rank: state for _size, part in parts for rank, state in part.items()}
        self.forget()
        self._loaded = None
        if states:
            self._loaded = {"version": VERSION, "size": max(size for size, _part in parts),
                            "states": states}

    # ---- what is kept ------------------------------------------------------------------------

    def stats(self):
        """@return {name of a bucket: its wring_bucket_stats as a dict}: what ran, what it cost"""
        return {piece.name: piece.bucket.stats()
                for layout in self._layouts.values() for piece in layout.pieces}

    def _own(self):
        if self.session is None:
            return {}
        return {self.session.rank: self.session.save_state()}

    def state_dict(self):
        """What a checkpoint needs of this rank, which every rank saves for itself; between steps."""
        if self._loaded is not None:
            return dict(self._loaded)
        size = 0 if self.session is None else self.session.size
        return {"version": VERSION, "size": size, "states": self._own()}

    def gather_state_dict(self):
        """The same of all ranks, on every rank: for checkpoints that one rank writes, and for jobs
        that go on with another number of ranks. Collective."""
        mine = self.state_dict()
        states = [None] * dist.get_world_size(self.process_group)
        dist.all_gather_object(states, mine["states"], group=self.process_group)
        return {**mine, "states": {rank: state for part in states for rank, state in part.items()}}

    def load_state_dict(self, state):
        """Take over what state_dict() or gather_state_dict() gave, between steps. All ranks call it;
        what a job of another size saved has to be that of all its ranks."""
        if state.get("version") != VERSION:
            raise ValueError(f"a state of version {state.get('version')}: this release reads "
                             f"{VERSION}")
        self._loaded = dict(state)
        if self._layouts:
            self._take_loaded()

    def _take_loaded(self):
        loaded, self._loaded = self._loaded, None
        if loaded is None or not loaded["states"]:
            return
        states, rank = loaded["states"], self.session.rank
        if loaded["size"] == self.session.size and rank in states:
            self.session.load_state(states[rank])
            return
        missing = [rank for rank in range(loaded["size"]) if rank not in states]
        if missing:
            raise RuntimeError(
                f"wring: the state was saved by {loaded['size']} ranks, this job has "
                f"{self.session.size}, and the states of ranks {missing} are not in it: save with "
                "gather_state_dict()")
        for old in range(loaded["size"]):
            self.session.load_state(states[old])

    def __getstate__(self):
        return {"rules": self.rules, "settings": self.settings, "loaded": self.state_dict()}

    def __setstate__(self, state):
        self.rules, self.settings, self._loaded = state["rules"], state["settings"], state["loaded"]
        self.renewals = 0
        self._reset()


def ddp_hook(state, bucket):
    """Average a DDP bucket over wring: for register_comm_hook(DDPState(model), ddp_hook)."""
    try:
        return state.sum(bucket)
    except WringError as error:
        state._waiting, state._new = [], {}
        raise RuntimeError(f"wring: the allreduce of gradients failed: {error}") from error
