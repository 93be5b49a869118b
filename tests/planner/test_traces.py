#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The traces that wring ships: test_traces.py FOLDER

They are what their generator writes, their models are the published ones, and their times follow the
stated model.
"""
import json
import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER))
import architectures  # noqa: E402
import generate  # noqa: E402

# As published, and multiply-adds of one input where those are. BERT is published with a pooler of
# width x (width + 1) and 30522 words; here are 30528 words and an output for questions instead.
PUBLISHED = {
    "vgg16": (138357544, 15.47e9),
    "resnet50": (25557032, 4.09e9),
    "resnet101": (44549160, 7.80e9),
    "vit-l-16": (304326632, 61.55e9),
    "bert-base": (109482240 - 768 * 769 + 6 * 768 + 2 * 769, None),
    "bert-large": (335141888 - 1024 * 1025 + 6 * 1024 + 2 * 1025, None),
    "gpt2": (124439808, None),
    "gpt2-medium": (354823168, None),
    "gpt2-large": (774030080, None),
    "gpt2-xl": (1557611200, None),
    "llama-7b": (6738415616, None),
    # encoder, two layers of 8 x 1500 x 1500 weights and their biases, and the decoder's biases
    "lstm": (33278 * 1501 + 2 * (8 * 1500 * 1500 + 8 * 1500), None),
    "ncf": ((498975 + 427888) * (64 + 128) + 257 * 256 + 257 * 128 + 129 * 64 + 129, None),
}
TENSORS = {"vgg16": 32, "resnet50": 161, "resnet101": 314, "bert-base": 199, "bert-large": 391,
           "gpt2": 148, "lstm": 10, "ncf": 12, "ugatit": 148, "vit-l-16": 296, "llama-7b": 291}


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


class Traces(unittest.TestCase):
    def test_generator_writes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            generate.main([folder])
            for name in architectures.MODELS:
                new = (pathlib.Path(folder) / f"{name}.json").read_text(encoding="utf-8")
                self.assertEqual((FOLDER / f"{name}.json").read_text(encoding="utf-8"), new, name)
        self.assertEqual({path.stem for path in FOLDER.glob("*.json")}, set(architectures.MODELS))

    def test_parameters(self):
        for name, (parameters, _) in PUBLISHED.items():
            self.assertEqual(architectures.MODELS[name]().parameters(), parameters, name)

    def test_tensors(self):
        for name, count in TENSORS.items():
            tensors = load(FOLDER / f"{name}.json")["tensors"]
            self.assertEqual(len(tensors), count, name)
            self.assertEqual(len({tensor["name"] for tensor in tensors}), count, name)

    def test_multiply_adds(self):
        for name, (_, published) in PUBLISHED.items():
            if published is None:
                continue
            model = architectures.MODELS[name]()
            batch = int(model.batch.split()[0])
            self.assertLess(abs(model.flops() / 2 / batch / published - 1), 0.02, name)

    def test_backward_is_twice_forward(self):
        for name in ("vgg16", "resnet50", "vit-l-16"):  # no embeddings, whose gradients are dense
            trace = load(FOLDER / f"{name}.json")
            last = trace["tensors"][-1]["ready_us"]
            self.assertLess(abs(last / trace["forward_us"] - 2), 0.001, name)

    def test_times_rise(self):
        for name in architectures.MODELS:
            times = [tensor["ready_us"] for tensor in load(FOLDER / f"{name}.json")["tensors"]]
            self.assertEqual(times, sorted(times), name)

    def test_device(self):
        """Half the speed is twice the time, where kernels launch at no cost."""
        slow = generate.replace(generate.DEVICES["a100"], launch_us=0)
        fast = generate.replace(slow, tflops=2 * slow.tflops, gb_per_s=2 * slow.gb_per_s)
        model = architectures.MODELS["resnet50"]()
        a = generate.make_trace(slow, model)["tensors"][-1]["ready_us"]
        b = generate.make_trace(fast, model)["tensors"][-1]["ready_us"]
        self.assertLess(abs(a / b - 2), 0.001)


if __name__ == "__main__":
    unittest.main()
