# SPDX-License-Identifier: Apache-2.0
"""FSDP2's collectives by wring, each with a codec of its own.

    fully_shard(layer) ... fully_shard(model)
    attached = wring.torch.fsdp.attach(model, gather="bf16", reduce="onebit:block=128+ef")

`gather` codes parameters on their way to all ranks, `reduce` codes gradients. Only gradients may have
error feedback: what is late is added to a later step's. For replicated shards (HSDP), or where the
all-reduce is the program's own business, AllReduce is what set_all_reduce_hook() takes.

attached.state_dict() has what error feedback holds back, for checkpoints of the same number of ranks.
"""
import ctypes

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather as FsdpAllGather
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter as FsdpReduceScatter

from .. import abi
from ..api import Op
from ..codec import Codec
from .meeting import open_session

LENGTH = 8  # bytes before each code
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class _Sessions:
    """One session for each process group that FSDP hands over."""

    def __init__(self, settings=None):
        self.settings, self.of_group = settings, {}

    def world(self, group):
        session = self.of_group.get(group)
        if session is None:
            session = self.of_group[group] = open_session(group, self.settings)
        return session.world


class _Memory:
    """FSDP's allocate()."""

    def allocate(self, size, *, dtype, device):
        if device.type != "cpu":
            raise RuntimeError(f"wring: FSDP on {device}: this release exchanges memory of the host")
        return torch.empty(*size, dtype=dtype, device=device)


class _Work(dist._Work):
    def __init__(self, request):
        super().__init__()
        self.request = request

    def wait(self, timeout=None):
        self.request.wait()
        return True


class AllGather(_Memory, FsdpAllGather):
    """For set_custom_all_gather(). Parameters of FSDP groups that mix types travel as they are."""

    def __init__(self, codec="none", sessions=None):
        self.codec, self.sessions = codec, sessions or _Sessions()

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        codec = self.codec if input_tensor.dtype in FLOATS and self.codec != "none" else None
        request = self.sessions.world(group).allgather(input_tensor, output_tensor, codec=codec,
                                                       wait=False)
        if async_op:
            return _Work(request)
        request.wait()
        return None


def _op_of(op):
    """@return (wring's operation, factor) of torch's"""
    for theirs, ours in ((dist.ReduceOp.SUM, Op.SUM), (dist.ReduceOp.AVG, Op.AVG)):
        if op == theirs:
            return ours
    raise RuntimeError(f"wring: FSDP asks for {op}: only sums and averages are known here; do not "
                       "call set_gradient_divide_factor(), or set_force_sum_reduction_for_comms(True)")


class ReduceScatter(_Memory, FsdpReduceScatter):
    """For set_custom_reduce_scatter(); one for each module, whose residual it has.

    With +ef each rank encodes what it contributes to the others' shards, and keeps what the codes
    lack; codes travel, and owners add them to their own contribution in the order of ranks.
    """

    def __init__(self, codec="none", sessions=None):
        self.spec, self.sessions = codec, sessions or _Sessions()
        self.codec = Codec(codec) if codec.endswith("+ef") else None
        self.residual, self.steps = None, 0

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        world, op = self.sessions.world(group), _op_of(op)
        if self.codec is None or input_tensor.dtype not in FLOATS or world.size == 1:
            codec = self.spec if self.codec is None and self.spec != "none" and \
                input_tensor.dtype in FLOATS else None
            request = world.reduce_scatter(input_tensor, output_tensor, op=op, codec=codec,
                                           wait=False)
            if async_op:
                return _Work(request)
            request.wait()
            return None
        self._alltoall_codes(output_tensor, input_tensor, world, op)
        if async_op:
            raise RuntimeError("wring: a reduce-scatter with error feedback is not asynchronous")
        return None

    def _context(self, rank, world, elems):
        return abi.WringCodecContext(rank=rank, ranks=world.size, step=self.steps, elems=elems)

    def _encode(self, source, world, elems):
        """@return [members, slot] bytes: for each member the length of its code, and the code"""
        slot = LENGTH + -(-self.codec.bound(elems) // LENGTH) * LENGTH
        codes = torch.zeros(world.size, slot, dtype=torch.uint8)
        context = self._context(world.rank, world, elems)
        for member in range(world.size):
            if member == world.rank:
                continue
            at = codes[member].data_ptr()
            length = self.codec.encode(context, source[member].data_ptr(), elems,
                                       self.residual[member].data_ptr(), at + LENGTH)
            ctypes.c_uint64.from_address(at).value = length
        return codes

    def _alltoall_codes(self, output, data, world, op):
        elems = output.numel()
        source = data.view(world.size, elems).to(torch.float32)
        if self.residual is None or self.residual.shape != source.shape:
            if self.residual is not None:
                raise RuntimeError(f"wring: error feedback of {tuple(self.residual.shape)} numbers "
                                   f"meets gradients of {tuple(source.shape)}: one ReduceScatter "
                                   "belongs to one module, and its state to one number of ranks")
            self.residual = torch.zeros_like(source)
        codes = self._encode(source, world, elems)
        arrived = torch.empty_like(codes)
        world.alltoall(codes, arrived)
        total = torch.zeros(elems, dtype=torch.float32)
        for member in range(world.size):
            if member == world.rank:
                total += source[member]
                continue
            at = arrived[member].data_ptr()
            length = ctypes.c_uint64.from_address(at).value
            if length > codes.shape[1] - LENGTH:
                raise RuntimeError(f"wring: rank {member} sent a code of {length} bytes")
            self.codec.decode(self._context(member, world, elems), at + LENGTH, length,
                              total.data_ptr(), elems, True)
        if op == Op.AVG:
            total /= world.size
        output.copy_(total)
        self.steps += 1

    def state_dict(self):
        return {"residual": self.residual, "steps": self.steps}

    def load_state_dict(self, state):
        self.residual, self.steps = state["residual"], state["steps"]


class AllReduce:
    """For set_all_reduce_hook(): sums what FSDP hands over among the ranks of another group, and
    divides it by their number.

        model.set_all_reduce_hook(wring.torch.fsdp.AllReduce(group, codec="bf16"))
    """

    def __init__(self, group, codec="none", settings=None):
        if codec.endswith("+ef"):
            raise ValueError(f"codec {codec}: a call keeps no residual; use one without +ef")
        self.group, self.codec, self.sessions = group, codec, _Sessions(settings)

    def __call__(self, tensor):
        codec = self.codec if tensor.dtype in FLOATS and self.codec != "none" else None
        self.sessions.world(self.group).allreduce(tensor, op=Op.AVG, codec=codec)


class Attached:
    """What attach() did: the collectives of each module, by the module's name."""

    def __init__(self):
        self.gathers, self.reduces = {}, {}

    def state_dict(self):
        return {name: reduce.state_dict() for name, reduce in self.reduces.items()}

    def load_state_dict(self, states):
        if states.keys() != self.reduces.keys():
            raise ValueError(f"a state of the modules {sorted(states)}; here are "
                             f"{sorted(self.reduces)}")
        for name, state in states.items():
            self.reduces[name].load_state_dict(state)


def attach(model, gather="none", reduce="none", settings=None):
    """Give all of a model's FSDP modules wring's collectives. @return Attached"""
    if gather.endswith("+ef"):
        raise ValueError(f"gather={gather}: parameters are gathered as they are now, so nothing can "
                         "be fed back; use a codec without +ef")
    sessions, attached = _Sessions(settings), Attached()
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule):
            attached.gathers[name] = AllGather(gather, sessions)
            attached.reduces[name] = ReduceScatter(reduce, sessions)
            module.set_custom_all_gather(attached.gathers[name])
            module.set_custom_reduce_scatter(attached.reduces[name])
    if not attached.gathers:
        raise ValueError("the model has no FSDP module: call fully_shard() first")
    return attached
