# SPDX-License-Identifier: Apache-2.0
"""One of two ranks of test_hooks.py: DDP's and FSDP2's hooks, local steps, and the recorder.

    hooks_program.py FOLDER

All ranks run the same tests in the same order, over gloo, which wring's hooks do not use.
"""
import datetime
import io
import os
import pickle
import sys
import unittest
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import wring.torch
from wring.torch import fsdp

FOLDER = sys.argv[1]
RUN_ALL = {"WRING_BYPASS": "never"}  # codecs, whatever they gain on this machine
CODEC = "onebit:block=128+ef"
DIRECTIONS = 2  # of each matrix, in a step
LOW_RANK = f"powersgd:rank={DIRECTIONS}+ef"


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(200, 160), nn.LayerNorm(160), nn.ReLU(), nn.Linear(160, 150),
                         nn.ReLU(), nn.Linear(150, 10))


def batches(seed=0):
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    while True:
        x = torch.randn(32, 200, generator=generator)
        yield x, x[:, :10].argmax(1)


def train(model, data, steps, rate=0.1, after=lambda: None):
    """@return the last loss"""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        x, y = next(data)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        after()
    return loss.item()


def wrapped(model=None, **options):
    return DistributedDataParallel(model or network(), bucket_cap_mb=0.1, **options)


def values(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def hooked(state, **options):
    model = wrapped(**options)
    state.bind(model)
    model.register_comm_hook(state, wring.torch.ddp_hook)
    return model


class Slopes(nn.Module):
    """A loss that is linear in its parameters: this rank's gradients are the same in each step. Those
    of matrices have few directions."""

    MATRICES = {"wide": (120, 200), "convolution": (48, 6, 3, 3), "tall": (360, 10),
                "square": (64, 64)}
    OTHERS = {"bias": (3000,), "small": (30, 40)}

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(dist.get_rank())
        self.slopes = {}
        for name, shape in {**self.MATRICES, **self.OTHERS}.items():
            rows, columns = shape[0], torch.Size(shape[1:]).numel()
            self.slopes[name] = (torch.randn(rows, 3, generator=generator) @
                                 torch.randn(3, columns, generator=generator)).reshape(shape)
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self):
        return sum((parameter * self.slopes[name]).sum()
                   for name, parameter in self.named_parameters())


class Ddp(unittest.TestCase):
    def same_everywhere(self, tensor):
        everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, tensor)
        for other in everyone:
            self.assertTrue(torch.equal(other, tensor))

    def test_raw_is_what_gloo_makes_of_it(self):
        plain = wrapped()
        train(plain, batches(), 4)
        for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                        {"find_unused_parameters": True}):
            with self.subTest(options=options):
                state = wring.torch.DDPState()
                model = hooked(state, **options)
                train(model, batches(), 4)
                self.assertTrue(torch.equal(values(model), values(plain)))
                state.close()

    def test_layers_that_one_rank_leaves_out(self):
        """Ranks differ in which gradients are there when buckets are made."""
        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.always, self.seldom = nn.Linear(50, 50), nn.Linear(50, 50)

            def forward(self, x, both):
                return self.seldom(self.always(x)) if both else self.always(x)

        def run(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            rank = dist.get_rank()
            for step in range(6):
                optimizer.zero_grad()
                out = model(torch.full((2, 50), 1.0 + rank), rank == 0 or step % 2 == 1)
                out.pow(2).mean().backward()
                optimizer.step()
            return values(model)

        for view in (False, True):
            options = {"find_unused_parameters": True, "gradient_as_bucket_view": view}
            plain, model = wrapped(Branches(), **options), wrapped(Branches(), **options)
            state = wring.torch.DDPState(model)
            model.register_comm_hook(state, wring.torch.ddp_hook)
            self.assertTrue(torch.equal(run(model), run(plain)))
            state.close()

    def test_accumulation(self):
        """Steps without an allreduce between others."""
        def run(model):
            data = batches()
            for _ in range(3):
                with model.no_sync():
                    x, y = next(data)
                    nn.functional.cross_entropy(model(x), y).backward()
                train(model, data, 1)
            return values(model)

        state = wring.torch.DDPState()
        self.assertTrue(torch.equal(run(hooked(state)), run(wrapped())))
        state.close()

    def test_codec_with_feedback(self):
        state = wring.torch.DDPState(codec=CODEC, rules="3.*=bf16; min=2000", settings=RUN_ALL)
        model = hooked(state)
        plain = wrapped()
        self.assertAlmostEqual(train(model, batches(), 151), train(plain, batches(), 151), delta=0.2)
        self.same_everywhere(values(model))
        stats = state.stats()
        ran = {name: each["codec"] for name, each in stats.items() if each["codec"] != "none"}
        self.assertEqual(ran, {"0.weight": CODEC, "3.weight": "bf16"})
        self.assertGreater(stats["0.weight"]["residual_rms"], 0)
        self.assertEqual(stats["0.weight"]["steps"], 151)
        self.assertEqual(state.renewals, 2)  # DDP made its buckets anew after the first step
        raw = sum(each["steps"] for name, each in stats.items() if each["codec"] == "none")
        self.assertGreater(raw, 0)
        state.close()

    def average(self, model, steps):
        """@return {name: the mean of the gradients of so many steps}"""
        total = {}
        for _ in range(steps):
            model.zero_grad()
            model().backward()
            for name, parameter in model.module.named_parameters():
                total[name] = total.get(name, 0) + parameter.grad
        return {name: each / steps for name, each in total.items()}

    def off(self, name, found, exact):
        return ((found[name] - exact[name]).norm() / exact[name].norm()).item()

    def test_each_matrix_of_one_bucket_of_ddp(self):
        """A codec of matrices takes each by itself; all else in the DDP bucket travels as it is."""
        for views in (False, True):
            with self.subTest(gradient_as_bucket_view=views):
                self.check_each_matrix(views)

    def check_each_matrix(self, views):
        model = DistributedDataParallel(Slopes(), gradient_as_bucket_view=views)
        state = wring.torch.DDPState(model, codec=LOW_RANK, rules="min=2000", settings=RUN_ALL)
        model.register_comm_hook(state, wring.torch.ddp_hook)
        exact = {name: slope.clone() for name, slope in model.module.slopes.items()}
        for slope in exact.values():
            dist.all_reduce(slope)
            slope /= dist.get_world_size()

        once = self.average(model, 1)
        self.average(model, 2)
        before = state.stats()
        self.assertEqual({name.split(".")[1] for name in before if name.startswith("ddp.")}, {"0"},
                         "DDP has one bucket")
        self.assertEqual({name for name, each in before.items() if each["codec"] == LOW_RANK},
                         set(Slopes.MATRICES))
        steps = 60
        mean = self.average(model, steps)
        self.check_bytes(before, state.stats(), steps)
        for name in Slopes.MATRICES:
            self.assertGreater(self.off(name, once, exact), 0.3)
            self.assertLess(self.off(name, mean, exact), 0.1)
        for name in Slopes.OTHERS:
            self.assertLess(self.off(name, once, exact), 1e-6)
        self.same_everywhere(torch.cat([each.reshape(-1) for each in mean.values()]))
        state.close()

    def check_bytes(self, before, after, steps):
        """Each rank sends its two factors to the other one, and next to nothing else."""
        for name, (rows, *rest) in Slopes.MATRICES.items():
            sent = (after[name]["wire_bytes_sent"] - before[name]["wire_bytes_sent"]) / steps
            factors = 4 * DIRECTIONS * (rows + torch.Size(rest).numel())
            self.assertGreaterEqual(sent, factors)
            self.assertLess(sent, factors + 256)

    def straight(self, codec=CODEC):
        state = wring.torch.DDPState(codec=codec, rules="min=2000", settings=RUN_ALL)
        model, data = hooked(state), batches()
        train(model, data, 8)
        return model, state, data

    def resumed(self, saved, model, codec=CODEC):
        """Another DDP, with the parameters of `model`, and a state that was saved."""
        state = wring.torch.DDPState(codec=codec, rules="min=2000", settings=RUN_ALL)
        saved(state)
        again = hooked(state)
        again.load_state_dict(model.state_dict())
        return again, state

    def test_states_are_saved(self):
        """Going on from a checkpoint, over DDP's rebuilding of its buckets, makes the same bits as
        never having stopped."""
        for codec in (CODEC, LOW_RANK):
            with self.subTest(codec=codec):
                self.check_saved(codec)

    def check_saved(self, codec):
        whole, state, data = self.straight(codec)
        train(whole, data, 4)
        end = values(whole)
        state.close()

        model, state, data = self.straight(codec)
        checkpoint = io.BytesIO()
        torch.save(state.state_dict(), checkpoint)
        pickled = pickle.dumps(state)
        state.close()
        rest = [next(data) for _ in range(4)]
        checkpoint.seek(0)
        saved = torch.load(checkpoint, weights_only=True)
        again, state = self.resumed(lambda fresh: fresh.load_state_dict(saved), model, codec)
        train(again, iter(rest), 4)
        self.assertTrue(torch.equal(values(again), end))
        state.close()

        state = pickle.loads(pickled)
        again = hooked(state)
        again.load_state_dict(model.state_dict())
        train(again, iter(rest), 4)
        self.assertTrue(torch.equal(values(again), end))
        state.close()

        forgetful, state = self.resumed(lambda fresh: None, model, codec)
        train(forgetful, iter(rest), 4)
        self.assertFalse(torch.equal(values(forgetful), end))
        state.close()

    def test_another_number_of_ranks(self):
        model, state, _ = self.straight()
        gathered, own = state.gather_state_dict(), state.state_dict()
        self.assertEqual(sorted(gathered["states"]), [0, 1])
        state.close()
        alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
        for saved, said in ((gathered, None), (own, "states of ranks")):
            state = wring.torch.DDPState(codec=CODEC, rules="min=2000", settings=RUN_ALL)
            again = wrapped(process_group=alone)
            state.bind(again, alone)
            again.register_comm_hook(state, wring.torch.ddp_hook)
            state.load_state_dict(saved)
            if said is None:
                train(again, batches(), 2)
                state.close()
            else:
                with self.assertRaisesRegex(RuntimeError, said):
                    train(again, batches(), 1)
                state.close()

    def test_names_are_needed_by_rules(self):
        state = wring.torch.DDPState(rules="0.weight=bf16")
        model = wrapped()
        model.register_comm_hook(state, wring.torch.ddp_hook)
        with self.assertRaisesRegex(RuntimeError, "DDPState\\(model\\)"):
            train(model, batches(), 1)

    def test_plan_of_its_own_trace(self):
        """record_trace, wring plan, WRING_PLAN: names and sizes fit."""
        wring_tool, plan = os.environ["WRING_TEST_TOOL"], os.path.join(FOLDER, "plan.json")
        trace = os.path.join(FOLDER, f"trace.{dist.get_rank()}.json")
        data = batches()
        model = network()

        def loss():
            x, y = next(data)
            return nn.functional.cross_entropy(model(x), y)

        wring.torch.record_trace(model, loss, trace, steps=3,
                                 gradients=os.path.join(FOLDER, f"grad.{dist.get_rank()}.bin"))
        if dist.get_rank() == 0:
            done = os.spawnv(os.P_WAIT, wring_tool, [
                "wring", "plan", "-t", trace, "-p", "testbed-pcie-25g", "-N", "2", "-g", "1", "-c",
                "onebit+ef", "--where", "cpu", "--runnable", "--bound-ms", "0", "-o", plan])
        dist.barrier()
        self.assertTrue(os.path.exists(plan), done if dist.get_rank() == 0 else "see rank 0")
        state = wring.torch.DDPState(plan=plan)
        model = hooked(state)
        train(model, batches(), 4)
        self.assertEqual(len(state.stats()), len(list(model.parameters())))
        self.same_everywhere(values(model))
        state.close()

    def test_plan_auto(self):
        state = wring.torch.DDPState(plan="auto", settings={
            "WRING_PLAN_CODECS": "bf16", "WRING_PLAN_SECONDS": "0.2", "WRING_CACHE": "off"})
        model = hooked(state)
        train(model, batches(), 50)
        self.same_everywhere(values(model))
        state.close()


class Lost(unittest.TestCase):
    def test_a_rank_that_leaves_is_named(self):
        """Backward of the others ends at once, with the rank at fault."""
        state = wring.torch.DDPState(settings={"WRING_LOG": "error"})
        model = hooked(state)
        train(model, batches(), 3)
        if dist.get_rank() == 1:
            state.session.close()
            return
        with self.assertRaisesRegex(RuntimeError, "wring: .*rank 1 closed its session"):
            for _ in range(3):
                train(model, batches(), 1)


class Fsdp(unittest.TestCase):
    def sharded(self):
        model = network()
        for layer in (model[0], model[3]):
            fully_shard(layer)
        return fully_shard(model)

    def whole(self, model):
        return torch.cat([parameter.full_tensor().detach().reshape(-1)
                          for parameter in model.parameters()])

    def test_raw_is_what_gloo_makes_of_it(self):
        plain, model = self.sharded(), self.sharded()
        fsdp.attach(model)
        train(plain, batches(), 4)
        train(model, batches(), 4)
        self.assertTrue(torch.equal(self.whole(plain), self.whole(model)))

    def test_codecs(self):
        model = self.sharded()
        attached = fsdp.attach(model, gather="bf16", reduce=CODEC)
        self.assertEqual(len(attached.reduces), 3)
        plain = self.sharded()
        self.assertAlmostEqual(train(model, batches(), 151), train(plain, batches(), 151), delta=0.2)
        for state in attached.state_dict().values():
            self.assertEqual(state["steps"], 151)
            self.assertGreater(state["residual"].abs().sum().item(), 0)

    def test_what_is_late_comes(self):
        """Of a gradient that stays the same, nothing is missing in the long run."""
        reduce = fsdp.ReduceScatter(CODEC)
        generator = torch.Generator().manual_seed(dist.get_rank())
        mine = torch.randn(2000, generator=generator)
        exact, out, total = torch.empty(1000), torch.empty(1000), torch.zeros(1000)
        dist.reduce_scatter_tensor(exact, mine)
        group, steps = dist.group.WORLD, 400
        for _ in range(steps):
            reduce(output_tensor=out, input_tensor=mine, group=group, op=dist.ReduceOp.SUM)
            total += out
        error = ((total / steps - exact).norm() / exact.norm()).item()
        once = ((out - exact).norm() / exact.norm()).item()
        self.assertLess(error, 0.1)
        self.assertGreater(once, 2 * error)
        saved = reduce.state_dict()
        other = fsdp.ReduceScatter(CODEC)
        other.load_state_dict(saved)
        self.assertEqual(other.steps, steps)

    def test_all_reduce_hook(self):
        hook = fsdp.AllReduce(dist.group.WORLD, codec="bf16")
        tensor = torch.full((3000,), 1.0 + dist.get_rank())
        hook(tensor)
        self.assertTrue(torch.equal(tensor, torch.full((3000,), 1.5)))

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "without \\+ef"):
            fsdp.attach(self.sharded(), gather=CODEC)
        with self.assertRaisesRegex(ValueError, "no FSDP module"):
            fsdp.attach(network())


class Local(unittest.TestCase):
    def run_local(self, steps=60, **options):
        model = network()
        local = wring.torch.LocalSGD(model, every=10, settings=RUN_ALL, **options)
        self.last = train(model, batches(), steps, after=local.step)
        local.finish()
        return model, local

    def test_raw_is_the_formula(self):
        model, _ = self.run_local(10)
        alone = network()
        train(alone, batches(), 10)
        begin = values(network())
        change = begin - values(alone)
        dist.all_reduce(change)
        want = begin - 0.7 * (change / 2 + 0.9 * (change / 2))
        self.assertTrue(torch.allclose(values(model), want, atol=1e-6))

    def test_averages(self):
        """Rate 1 without momentum is the mean of the ranks' parameters; steps beside an outer step are
        on top of it."""
        alone, path = network(), []
        train(alone, batches(), 13, after=lambda: path.append(values(alone)))
        mean = path[9].clone()
        dist.all_reduce(mean)
        mean /= 2
        model, _ = self.run_local(10, outer_rate=1, outer_momentum=0)
        self.assertTrue(torch.allclose(values(model), mean, atol=1e-6))
        model, _ = self.run_local(13, outer_rate=1, outer_momentum=0, overlap=3)
        self.assertTrue(torch.allclose(values(model), mean + path[12] - path[9], atol=1e-6))

    def test_two_outer_steps(self):
        """The second one's momentum has the first one's change."""
        model, local = self.run_local(20)
        first, second = network(), network()
        begin = values(first)
        train(first, batches(), 10)
        change = begin - values(first)
        dist.all_reduce(change)
        momentum = change / 2
        anchor = begin - 0.7 * (change / 2 + 0.9 * momentum)
        torch.nn.utils.vector_to_parameters(anchor.clone(), second.parameters())
        data = batches()
        for _ in range(10):
            next(data)
        train(second, data, 10)
        change = anchor - values(second)
        dist.all_reduce(change)
        momentum = 0.9 * momentum + change / 2
        want = anchor - 0.7 * (change / 2 + 0.9 * momentum)
        self.assertTrue(torch.allclose(values(model), want, atol=1e-5))
        self.assertTrue(torch.allclose(
            torch.cat([each.momentum.reshape(-1) for each in local._tensors]), momentum, atol=1e-5))

    def test_every_shape_takes_the_codec(self):
        self.run_local()
        raw = self.last
        self.run_local(codec="int8+ef")
        self.assertAlmostEqual(self.last, raw, delta=0.2)
        model, local = self.run_local(codec=CODEC)
        self.assertEqual({each["codec"] for each in local.stats().values()}, {CODEC})
        self.assertEqual(local.raw_tensors(), [])
        Ddp.same_everywhere(self, values(model))

    def test_overlap(self):
        model, local = self.run_local(63, codec=CODEC, overlap=3)
        self.assertEqual(local.outer_steps, 6)
        model, local = self.run_local(60, codec=CODEC, overlap=3)
        self.assertEqual(local.outer_steps, 6)  # finish() ends the last one
        Ddp.same_everywhere(self, torch.cat([each.anchor.reshape(-1) for each in local._tensors]))

    def test_what_is_raw_is_said(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            local = wring.torch.LocalSGD(network(), every=5, codec=CODEC, rules="1d=none",
                                         settings=RUN_ALL)
        self.assertGreater(len(local.raw_tensors()), 3)
        lines = [str(each.message) for each in said if "full precision" in str(each.message)]
        self.assertEqual(len(lines), 1 if dist.get_rank() == 0 else 0)

    def test_state(self):
        _, local = self.run_local(20, codec=CODEC)
        saved = local.state_dict()
        other = wring.torch.LocalSGD(network(), every=10, codec=CODEC, settings=RUN_ALL)
        other.load_state_dict(saved)
        self.assertEqual(other.outer_steps, 2)
        self.assertTrue(torch.equal(other._tensors[0].anchor, local._tensors[0].anchor))
        with self.assertRaisesRegex(ValueError, "overlap"):
            wring.torch.LocalSGD(network(), every=3, overlap=3)


class Recorder(unittest.TestCase):
    def test_unused_parameters_are_named(self):
        model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        with self.assertRaisesRegex(RuntimeError, "1.weight, 1.bias: freeze"):
            wring.torch.record_trace(model, lambda: model[0](torch.ones(1, 4)).sum(),
                                     os.path.join(FOLDER, "none.json"))
        self.assertFalse(os.path.exists(os.path.join(FOLDER, "none.json")))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=200))
    program = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False)
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(0 if program.result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
