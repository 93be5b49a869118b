# SPDX-License-Identifier: Apache-2.0
"""What a process group of wring does, case by case; each rank checks its own part.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 group_program.py CASE
"""
import contextlib
import os
import pathlib
import re
import signal
import sys
import time
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "dropin" / "torch"))

import torch
import torch.distributed as dist

from wring.torch import DDPState, ddp_hook, elastic, session

LONG = timedelta(seconds=120)


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


@contextlib.contextmanager
def raises(pattern):
    """The block raises an error of wring's whose text fits."""
    try:
        yield
    except (dist.DistBackendError, RuntimeError) as error:
        if not re.search(pattern, str(error)):
            raise AssertionError(f"'{error}' does not say '{pattern}'") from error
        return
    raise AssertionError(f"nothing was raised: '{pattern}' was to be said")


def same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=0)


# ---- values -------------------------------------------------------------------------------------

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
         torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.complex128]


def sample(dtype, of_rank, elems=7):
    """Small numbers, so that results are exact."""
    numbers = torch.arange(1, elems + 1) + 2 * of_rank
    if dtype == torch.bool:
        return (numbers + of_rank) % 3 > 0
    if dtype.is_complex:
        return torch.complex(numbers.double(), numbers.double() - 3).to(dtype)
    return (numbers % 5 + 1).to(dtype)


def fold(values, op, dtype):
    """The reduction, or None where there is none of that type."""
    stacked = torch.stack(values)
    floats, whole = dtype.is_floating_point, not dtype.is_floating_point and not dtype.is_complex
    if op == dist.ReduceOp.SUM:
        return stacked.any(0) if dtype == torch.bool else stacked.sum(0).to(dtype)
    if op == dist.ReduceOp.PRODUCT:
        return stacked.all(0) if dtype == torch.bool else stacked.prod(0).to(dtype)
    if op == dist.ReduceOp.AVG and (floats or dtype.is_complex):
        return stacked.sum(0).div(len(values)).to(dtype)
    if op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX) and not dtype.is_complex:
        return (stacked.amin(0) if op == dist.ReduceOp.MIN else stacked.amax(0)).to(dtype)
    bitwise = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
               dist.ReduceOp.BXOR: torch.bitwise_xor}
    if op in bitwise and whole:
        result = values[0]
        for value in values[1:]:
            result = bitwise[op](result, value)
        return result
    return None


def reductions():
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.AVG, dist.ReduceOp.MIN,
           dist.ReduceOp.MAX, dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
    group, checked = dist.group.WORLD, 0
    for dtype in TYPES:
        for op in ops:
            want = fold([sample(dtype, one) for one in range(size())], op, dtype)
            if want is None:
                continue
            tensor, opts = sample(dtype, rank()), dist.AllreduceOptions()
            opts.reduceOp = op
            group.allreduce([tensor], opts).wait()
            same(tensor, want)
            checked += 1
    assert checked > 60, checked
    tensor = torch.ones(3) * (rank() + 1)
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.5))
    same(tensor, torch.full((3,), sum(range(1, size() + 1)) / 2))
    with raises("no BAND of"):
        dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND)


def shapes():
    """Memory that is not contiguous, and lengths that differ."""
    n, me = size(), rank()
    wide = torch.zeros(4, 6)
    view = wide[:, ::2]
    view.copy_(torch.arange(12.).view(4, 3) + me)
    dist.all_reduce(view)
    want = torch.arange(12.).view(4, 3) * n + sum(range(n))
    same(view, want)
    same(wide[:, 1::2], torch.zeros(4, 3))

    dist.broadcast(view, src=n - 1)
    same(view, want)
    dist.reduce(view, dst=0)
    same(view, want * n if me == 0 else want)

    parts = [torch.zeros(one + 1, 4)[:, 1:3] for one in range(n)]
    dist.all_gather(parts, torch.full((me + 1, 2), float(me)))
    for one, part in enumerate(parts):
        same(part, torch.full((one + 1, 2), float(one)))
    flat = torch.zeros(n * 3, 2).t()
    dist.all_gather_into_tensor(flat, torch.full((2, 3), float(me)))
    same(flat.reshape(-1), torch.arange(float(n)).repeat_interleave(6))

    out = torch.zeros(me + 1, 2)
    dist.reduce_scatter(out, [torch.full((one + 1, 2), float(one + me)) for one in range(n)])
    same(out, torch.full((me + 1, 2), float(me * n + sum(range(n)))))
    out = torch.zeros(2, 2).t()
    dist.reduce_scatter_tensor(out, torch.arange(4. * n).t() + me)
    same(out.reshape(-1), (torch.arange(4.) + 4 * me) * n + sum(range(n)))

    gathered = [torch.zeros(2, 4)[:, ::2] for _ in range(n)] if me == 1 else None
    dist.gather(torch.full((2, 2), float(me)), gathered, dst=1)
    if me == 1:
        same(torch.stack(gathered)[:, 0, 0], torch.arange(float(n)))
    mine = torch.zeros(2, 4)[:, ::2]
    dist.scatter(mine, [torch.full((2, 2), float(one)) for one in range(n)] if me == 0 else None)
    same(mine, torch.full((2, 2), float(me)))


def all_to_all():
    n, me = size(), rank()
    out = torch.zeros(n, 2)
    dist.all_to_all_single(out, torch.arange(2. * n).view(n, 2) + 100 * me)
    same(out[:, 0], torch.arange(float(n)) * 100 + 2 * me)
    sent = [one + me for one in range(n)]  # to each rank another length, to some none
    got = [me + one for one in range(n)]
    out = torch.zeros(sum(got))
    dist.all_to_all_single(out, torch.full((sum(sent),), float(me)), got, sent)
    same(out, torch.repeat_interleave(torch.arange(float(n)), torch.tensor(got)))
    outs = [torch.zeros(length, 2) for length in got]
    dist.all_to_all(outs, [torch.full((length, 2), float(me)) for length in sent])
    for one, part in enumerate(outs):
        same(part, torch.full((got[one], 2), float(one)))
    with raises("split sizes"):
        dist.all_to_all_single(torch.zeros(n + 1), torch.zeros(n + 1))


def odd_types():
    """Types that wring only moves."""
    n, me = size(), rank()
    for dtype in (torch.float8_e4m3fn, torch.uint16, torch.uint64):
        tensor = torch.full((4,), float(me + 1)).to(dtype)
        out = torch.zeros(4 * n).to(dtype)
        dist.all_gather_into_tensor(out, tensor)
        same(out.float()[::4], torch.arange(1., n + 1))
        dist.broadcast(tensor, src=1)
        same(tensor.float(), torch.full((4,), 2.0))
    with raises("no SUM of"):
        dist.all_reduce(torch.zeros(4).to(torch.float8_e4m3fn))
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    dist.all_gather_into_tensor(torch.zeros(0), empty)


# ---- messages -----------------------------------------------------------------------------------

def messages():
    n, me = size(), rank()
    right, left = (me + 1) % n, (me - 1) % n
    big = torch.full((300000,), float(me))
    sends = [dist.isend(big, right, tag=5), dist.isend(torch.full((3,), 10. + me), right, tag=6)]
    small, large = torch.zeros(3), torch.zeros(300000)
    dist.recv(small, left, tag=6)
    dist.recv(large, left, tag=5)
    same(small, torch.full((3,), 10. + left))
    same(large, torch.full((300000,), float(left)))
    for work in sends:
        work.wait()
    if me == 0:
        got = []
        for _ in range(n - 1):
            tensor = torch.zeros(2)
            got.append((dist.recv(tensor), tensor[0].item()))
        assert sorted(got) == [(one, float(one)) for one in range(1, n)], got
    else:
        dist.send(torch.full((2,), float(me)), 0)
    dist.barrier()  # else what rank 0 takes from anyone may be what follows
    wide = torch.zeros(2, 4)
    ops = [dist.P2POp(dist.isend, torch.full((2, 2), float(me)), right),
           dist.P2POp(dist.irecv, wide[:, ::2], left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(wide[:, ::2], torch.full((2, 2), float(left)))
    dist.barrier()
    if me == 0:
        dist.send(torch.zeros(8), 1, tag=9)
    elif me == 1:
        with raises(r"rank 0 has sent 32 bytes.*has 16: both need the same shape"):
            dist.recv(torch.zeros(4), 0, tag=9)
    dist.barrier()


def leaving():
    """Who sends and leaves is no lost rank to whom has yet to receive."""
    if rank() == 0:
        dist.send(torch.ones(4), 1)
    elif rank() == 1:
        time.sleep(0.5)
        tensor = torch.zeros(4)
        dist.recv(tensor, 0)
        same(tensor, torch.ones(4))


# ---- works --------------------------------------------------------------------------------------

def futures():
    """Callbacks may make further calls and wait for them."""
    n = size()

    def again(future):
        tensor = future.value()[0]
        inner = dist.all_reduce(tensor, async_op=True).get_future()
        return inner.wait()[0] + 1

    for _ in range(20):
        tensors = [torch.full((1000,), float(i)) for i in range(4)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        chained = [work.get_future().then(again).then(lambda future: future.value() * 2)
                   for work in works[:1]]
        for work in works[1:]:
            assert work.get_future().wait()[0].shape == (1000,)
        same(chained[0].wait(), torch.full((1000,), 2.0))
        for i, tensor in enumerate(tensors[1:]):
            same(tensor, torch.full((1000,), (i + 1.) * n))
    work = dist.all_reduce(torch.ones(4), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert work.is_success() and work.exception() is None
    work.wait()


def forgotten():
    """Works that nobody keeps still end."""
    for i in range(200):
        dist.all_reduce(torch.full((100,), float(i)), async_op=True)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((3,), float(size())))


def coalesced():
    n = size()
    with dist._coalescing_manager(async_ops=True) as manager:
        tensors = [torch.full((i + 1,), float(i)) for i in range(5)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((i + 1,), float(i * n)))
    with dist._coalescing_manager():
        outs = [torch.zeros(n * 2) for _ in range(3)]
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((2,), float(rank() + i)))
    for i, out in enumerate(outs):
        same(out[::2], torch.arange(float(n)) + i)


def hooks_of_torch():
    """PowerSGD waits inside callbacks; two groups are used side by side."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    torch.manual_seed(3)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2,
                                        min_compression_rate=1)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(6):
        net(torch.randn(8, 64)).square().mean().backward()
    gradient = net.module.weight.grad.clone()
    dist.broadcast(gradient, src=0)
    same(net.module.weight.grad, gradient)


# ---- groups -------------------------------------------------------------------------------------

def groups():
    n, me = size(), rank()
    pairs = [dist.new_group([one, (one + 1) % n]) for one in range(n)]
    for one, group in enumerate(pairs):
        if me not in (one, (one + 1) % n):
            continue
        tensor = torch.full((5,), float(me))
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((5,), float(one + (one + 1) % n)))
    backward = dist.new_group(list(reversed(range(n))))
    got = [torch.zeros(1) for _ in range(n)]
    dist.all_gather(got, torch.full((1,), float(me)), group=backward)
    order = [float(dist.get_global_rank(backward, one)) for one in range(n)]
    assert [tensor.item() for tensor in got] == order, (got, order)
    dist.destroy_process_group(backward)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1,), float(n)))


def split():
    """A group out of another one, as device meshes make them."""
    n, me = size(), rank()
    ranks = list(range(n - 1, 0, -1))
    if me > 0:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        if backend.supports_splitting:  # that of the class in C++
            part = dist.split_group(dist.group.WORLD, [ranks])
            tensor = torch.full((3,), float(me))
            part.allreduce([tensor]).wait()
            same(tensor, torch.full((3,), float(sum(ranks))))
            assert (part.rank(), part.size()) == (ranks.index(me), n - 1), part.rank()
    dist.barrier()


def memory():
    """Tensors in memory that wring moves without a copy outlive the group."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if not hasattr(backend, "allocate_tensor"):
        return
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    tensor = backend.allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    tensor.fill_(1)
    dist.all_reduce(tensor)
    want = torch.full((1000,), float(size()))
    same(tensor, want)
    dist.destroy_process_group()
    same(tensor, want)


def again():
    for turn in range(3):
        tensor = torch.full((4,), float(rank() + turn))
        dist.all_reduce(tensor)
        same(tensor, torch.full((4,), float(sum(range(size())) + turn * size())))
        dist.destroy_process_group()
        dist.init_process_group("wring", timeout=LONG)


# ---- failures -----------------------------------------------------------------------------------

def lose_rank(victim):
    """It is killed when all are here: what has ended on it may be under way on others, and fail there
    if it dies."""
    folder = pathlib.Path(os.environ["TEST_FOLDER"])
    (folder / f"here.{rank()}").touch()
    if rank() == victim:
        while not all((folder / f"here.{one}").exists() for one in range(size())):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def refused():
    with raises("sparse tensor: pass tensor.to_dense"):
        dist.all_reduce(torch.eye(3).to_sparse())
    with raises("quantized|Quantized"):  # torch itself may say so
        dist.broadcast(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), src=0)
    with raises("the output has 5 elements"):
        dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(3))
    with raises("rank 7 is not in the group|Group rank 7|rank 7"):
        dist.group.WORLD.broadcast([torch.zeros(3)], broadcast_to(7)).wait()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((3,), float(size())))


def broadcast_to(root):
    opts = dist.BroadcastOptions()
    opts.rootRank = root
    return opts


def mismatch():
    with raises("(?s)all_reduce.*rank"):
        for _ in range(3):
            dist.all_reduce(torch.ones(4 + rank()))


def set_timeout(timeout, group=None):
    group = group or dist.group.WORLD
    if type(group) is dist.ProcessGroup:
        dist.distributed_c10d._set_pg_timeout(timeout, group)
    else:  # the class in Python
        group._set_default_timeout(timeout)


def hasty_group():
    """It may take long to be made, as other groups may; its calls may not."""
    group = dist.new_group()
    set_timeout(timedelta(seconds=5), group)
    return group


def late():
    """A rank does not come: whoever waits says so, and the others hear of it."""
    group = hasty_group()
    if rank() != 1:
        # the other one may not have come yet, either
        with raises("timeout of 5000 ms: (rank 1 is|ranks 0, 1 are|ranks 1, 2 are) behind; [12] (is|are) "
                    "in call 1 of the group of ranks 0, 1, 2, allreduce of 4 f32, sum|has aborted the "
                    "group"):
            dist.all_reduce(torch.ones(4), group=group)
        with raises("all_reduce"):
            dist.all_reduce(torch.ones(4), group=group)
        dist.barrier()
    else:
        dist.barrier()  # until the others have given up
        with raises("all_reduce.*aborted|cancelled"):
            dist.all_reduce(torch.ones(4), group=group)
    tensor = torch.ones(1)  # the other groups go on
    dist.all_reduce(tensor)
    same(tensor, torch.full((1,), float(size())))


def late_unwaited():
    """Nobody waits for it, and it ends all the same."""
    group = hasty_group()
    if rank() != 1:
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        end = time.monotonic() + 60
        while not work.is_completed() and time.monotonic() < end:
            time.sleep(0.01)
        with raises("timeout of 5000 ms|has aborted the group"):
            work.wait()
        with raises("timeout of 5000 ms|has aborted the group"):
            work.get_future().wait()
    dist.barrier()
    if rank() == 0:
        with raises("recv.* on rank 0 has reached its timeout of 500 ms"):
            set_timeout(timedelta(seconds=0.5))
            dist.recv(torch.ones(4), 1)
    else:
        time.sleep(1)
    tensor = torch.ones(1)
    if rank() == 0:
        set_timeout(LONG)
    dist.all_reduce(tensor)


def killed():
    """The others hear at once who is gone."""
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300))
    for step in range(4):
        loss = net(torch.randn(4, 300)).square().mean()
        if step == 2:
            lose_rank(1)
            with raises("rank 1"):
                loss.backward()
                dist.barrier()
            return
        loss.backward()


def lose(victim):
    """The others go on in a new default group, with what error feedback held back."""
    torch.manual_seed(1)
    net, steps = torch.nn.Linear(200, 200), elastic.Steps()
    state = DDPState(net, codec="int8+ef",
                     settings={"WRING_ROLLBACK": "on", "WRING_BYPASS": "never"})

    def wrap():
        model = torch.nn.parallel.DistributedDataParallel(net)
        model.register_comm_hook(state, ddp_hook)
        return model

    def step(model, made):
        """@return the mean gradient of the bias, and what it should be"""
        batch = torch.randn(4, 200, generator=torch.Generator().manual_seed(9 * made + rank()))
        net.zero_grad()
        own = torch.autograd.grad(net(batch).square().mean(), net.bias)[0]
        model(batch).square().mean().backward()
        steps.arrive()
        dist.all_reduce(own)
        return net.bias.grad, own / size()

    def held_back():
        return state.stats()["weight"]["residual_rms"]

    steps.meet()
    model, ranks, me, old, pair = wrap(), size(), rank(), dist.group.WORLD, dist.new_group([0, 2])
    for made in range(3):
        torch.testing.assert_close(*step(model, made))
    before = held_back()
    assert before > 0, before
    lose_rank(victim)
    with raises(f"rank {victim}"):
        step(model, 3)
    assert elastic.has_lost(state)
    elastic.shrink(state)
    assert (rank(), size()) == (me - (me > victim), ranks - 1), (rank(), size())
    assert not elastic.has_lost(state, patience=0)
    # what was held back of sums is in units of contributions then, which is more
    assert held_back() > before / 2, (held_back(), before)
    assert not steps.settle() and steps.done == 3, (steps.done, steps.ready)
    for group in (old, pair):
        if me in (0, 2) or group is old:
            with raises("destroyed"):
                group.allreduce([torch.ones(3)]).wait()
    assert session.of() is session.current() and session.current().size == ranks - 1
    tensor = torch.full((3,), float(me))
    dist.all_reduce(tensor, group=dist.new_group(list(reversed(range(size())))))
    same(tensor, torch.full((3,), float(sum(range(ranks)) - victim)))
    elastic.unwrap(model)
    model = wrap()
    for made in range(3, 6):
        torch.testing.assert_close(*step(model, made))
    assert held_back() > 0 and steps.done == 6
    assert not elastic.grow()
    state.close()


def lose_1():
    lose(1)


def lose_0():
    """It keeps torch's Store, too."""
    lose(0)


def lose_in_first_step():
    """While the hook's ranks meet; the next one is lost while the others make their group."""
    net, me = torch.nn.Linear(20, 20), rank()
    state = DDPState(net, codec="int8+ef")
    model = torch.nn.parallel.DistributedDataParallel(net)
    model.register_comm_hook(state, ddp_hook)
    lose_rank(2)
    with raises("rank 2"):
        model(torch.ones(1, 20)).sum().backward()
    assert elastic.has_lost(state)
    if me == 0:  # all know by then where it keeps the new Store
        session.adopt = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    elastic.shrink(state)
    assert (rank(), size()) == ((me - 1) // 2, 2), (rank(), size())
    elastic.unwrap(model)
    model = torch.nn.parallel.DistributedDataParallel(net)
    model.register_comm_hook(state, ddp_hook)
    net.zero_grad()
    model(torch.full((1, 20), float(me))).sum().backward()
    torch.testing.assert_close(net.weight.grad, torch.full((20, 20), 2.0))
    state.close()


def shrunk_by_torch():
    """By torch's own function, to which the program says who is lost."""
    lose_rank(2)
    with raises("rank 2"):
        dist.all_reduce(torch.ones(4))
    if session.current().native is not None and hasattr(dist, "shrink_group"):
        dist.shrink_group([2])
    else:  # it takes groups in C++ only
        elastic.shrink()
    tensor = torch.full((4,), float(rank() + 1))
    dist.all_reduce(tensor)
    same(tensor, torch.full((4,), 3.0))
    assert size() == 2 and session.current().size == 2 and session.of() is session.current()


def reconfigured():
    """By torch's experimental reconfigure(): the program says who takes part."""
    if not hasattr(dist, "_reconfigure"):
        return
    store, me = dist.distributed_c10d._get_default_store(), rank()
    dist.barrier()
    dist.destroy_process_group()
    more = {"store": dist.PrefixStore("again", store), "rank": me, "world_size": 3}
    dist.init_process_group("wring", timeout=LONG, enable_reconfigure=True, **more)

    def reopen(number, members):
        store.set(f"{number}/{me}", dist._get_reconfigure_handle())
        handles = [store.get(f"{number}/{one}").decode() for one in members]
        dist._reconfigure(number, handles, timeout=LONG).wait()
        assert (rank(), size()) == (members.index(me), len(members)), (rank(), size())
        tensor = torch.full((4,), float(me))
        dist.all_reduce(tensor)
        same(tensor, torch.full((4,), float(sum(members))))

    assert dist._supports_reconfigure()
    with raises("waits for reconfigure"):
        dist.all_reduce(torch.ones(4))
    with raises("not among the handles"):
        dist._reconfigure(1, ["{}"])
    reopen(1, [2, 0, 1])  # any order of ranks
    reopen(2, [0, 1, 2])
    lose_rank(1)
    with raises("rank 1"):
        dist.all_reduce(torch.ones(4))
    reopen(3, [0, 2])


def cut_off():
    """A step counts if one rank has passed arrive(), or if all have its gradients."""
    steps, me = elastic.Steps(), rank()
    assert not steps.settle() and steps.done == -1, "before all have met nothing counts"
    for done, ready, made, behind in (((7, 7), (7, 8), 7, ()), ((7, 7), (8, 8), 8, (0, 1)),
                                      ((7, 8), (8, 8), 8, (0,)), ((-1, 7), (-1, 8), 7, ())):
        steps.done, steps.ready = done[me], ready[me]
        assert steps.settle() == (me in behind), (done, ready)
        assert steps.done == steps.ready == (made if done[me] >= 0 else -1), (done, ready)


def aborted():
    """abort() of one rank ends what the others wait for."""
    if rank() == 0:
        time.sleep(0.5)
        dist.distributed_c10d._abort_process_group()
        return
    with raises("rank 0|aborted"):
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4))


def whose():
    """Which session a group is of: also where wring stands in gloo's place, and beside gloo."""
    ours = session.current()
    for group in (None, dist.group.WORLD, dist.new_group()):
        assert ours is not None and session.of(group) is ours, (ours, session.of(group))
    dist.destroy_process_group()
    assert session.current() is None

    dist.init_process_group("gloo", timeout=LONG)
    assert session.of() is None and session.of(dist.group.WORLD) is None
    one, other = dist.new_group(backend="wring"), dist.new_group(backend="wring")
    assert session.of(one) is not None and session.of(other) is not None
    assert session.of(one) is not session.of(other)
    assert session.of() is None
    dist.destroy_process_group()

    session.register_backend(replace="gloo")
    dist.init_process_group("gloo", timeout=LONG)
    assert session.current() is not None and session.of(dist.group.WORLD) is session.current()


def main():
    session.register_backend()
    dist.init_process_group("wring", timeout=LONG)
    cases = sys.argv[1].split(",")
    for case in cases:
        globals()[case]()
    if dist.is_initialized():
        dist.destroy_process_group()
    print("passed", *cases, flush=True)


if __name__ == "__main__":
    main()
