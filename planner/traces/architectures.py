# SPDX-License-Identifier: Apache-2.0
"""What the models consist of: operations in forward order, with their parameters.

Names follow the usual PyTorch implementations: torchvision (VGG, ResNet, ViT), the word language
model of PyTorch's examples (LSTM, with tied weights), NVIDIA's BERT for question answering, GPT-2 as
published, and the authors' code of UGATIT, NCF (NeuMF) and Llama. Sources of the architectures:
arXiv 1409.1556, 1512.03385, 1810.04805, 1907.10830, 1708.05031, 2010.11929, 2302.13971, and "Language
Models are Unsupervised Multitask Learners".
"""
from dataclasses import dataclass, field

HALF = 2  # bytes of an activation, and of a weight that is multiplied with
SINGLE = 4  # of a gradient


@dataclass(frozen=True)
class Op:
    params: tuple  # of (name, elements), in the order in which backward finishes them
    flops: float  # forward; a multiply-add is two
    bytes: float  # read and written forward
    is_conv: bool = False
    dense_gradient_bytes: float = 0  # of an embedding: all that backward does is to write that


@dataclass(frozen=True)
class Step:
    """An operation's way forward or backward, and whether its gradients are complete then."""
    op: Op
    backward: bool = True
    ready: bool = True


@dataclass
class Model:
    name: str
    batch: str  # in words
    forward: list
    backward: list = field(default_factory=list)  # of Step; empty: forward, reversed

    def steps(self):
        return self.backward or [Step(op) for op in reversed(self.forward)]

    def parameters(self):
        return sum(elements for step in self.steps() if step.ready for _, elements in step.op.params)

    def flops(self):
        return sum(op.flops for op in self.forward)


# ---- operations ----

def linear(name, inputs, outputs, rows, bias=True, weight_name="weight", bias_name="bias"):
    params = ((f"{name}.{bias_name}", outputs),) if bias else ()
    params += ((f"{name}.{weight_name}", inputs * outputs),)
    moved = rows * (inputs + outputs) + inputs * outputs
    return Op(params, 2.0 * rows * inputs * outputs, HALF * moved)


def product(inputs, outputs, rows):
    """With a weight that belongs to another operation."""
    return Op((), 2.0 * rows * inputs * outputs, HALF * (rows * (inputs + outputs) + inputs * outputs))


def conv(name, inputs, outputs, kernel, size, batch, stride=1, bias=False, suffix="weight"):
    """@param size  pixels of an edge of the input; the output has size / stride"""
    out = size // stride
    weights = inputs * outputs * kernel * kernel
    params = ((f"{name}.bias", outputs),) if bias else ()
    params += ((f"{name}.{suffix}", weights),)
    moved = batch * (inputs * size * size + outputs * out * out) + weights
    return Op(params, 2.0 * batch * out * out * weights, HALF * moved, is_conv=True)


def elementwise(elements):
    """An activation, a residual sum: read and written once."""
    return Op((), elements, 2 * HALF * elements)


def norm(name, width, elements, names=("weight", "bias")):
    return Op(tuple((f"{name}.{suffix}", width) for suffix in names), 8 * elements,
              2 * HALF * elements)


def embedding(name, rows, width, lookups):
    return Op(((name, rows * width),), 0, 2 * HALF * lookups * width,
              dense_gradient_bytes=SINGLE * rows * width)


def attention(batch, tokens, width):
    """Scores, softmax and the weighted sum as one kernel that keeps no scores."""
    return Op((), 4.0 * batch * tokens * tokens * width, 4 * HALF * batch * tokens * width)


# ---- images ----

def vgg16(batch=64):
    ops, index, channels, size = [], 0, 3, 224
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width == 0:
            ops.append(elementwise(batch * channels * size * size))
            index, size = index + 1, size // 2
            continue
        ops.append(conv(f"features.{index}", channels, width, 3, size, batch, bias=True))
        ops.append(elementwise(batch * width * size * size))
        index, channels = index + 2, width
    for name, inputs, outputs in (("0", 512 * 49, 4096), ("3", 4096, 4096), ("6", 4096, 1000)):
        ops.append(linear(f"classifier.{name}", inputs, outputs, batch))
    return Model("VGG16", f"{batch} images of 224 x 224", ops)


def bottleneck(name, inputs, width, size, stride, batch):
    out, outputs = size // stride, 4 * width
    ops = []
    for i, (a, b, kernel, edge, step) in enumerate((
            (inputs, width, 1, size, 1), (width, width, 3, size, stride), (width, outputs, 1, out, 1))):
        ops.append(conv(f"{name}.conv{i + 1}", a, b, kernel, edge, batch, step))
        ops.append(norm(f"{name}.bn{i + 1}", b, batch * b * (edge // step) ** 2))
    if inputs != outputs:
        ops.append(conv(f"{name}.downsample.0", inputs, outputs, 1, size, batch, stride))
        ops.append(norm(f"{name}.downsample.1", outputs, batch * outputs * out * out))
    ops.append(elementwise(batch * outputs * out * out))
    return ops


def resnet(name, blocks, batch=64):
    ops = [conv("conv1", 3, 64, 7, 224, batch, 2), norm("bn1", 64, batch * 64 * 112 * 112),
           elementwise(batch * 64 * 112 * 112)]
    inputs, size = 64, 56
    for layer, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if layer > 0 and block == 0 else 1
            ops += bottleneck(f"layer{layer + 1}.{block}", inputs, 64 << layer, size, stride, batch)
            inputs, size = 256 << layer, size // stride
    ops.append(linear("fc", 2048, 1000, batch))
    return Model(name, f"{batch} images of 224 x 224", ops)


def vit_l_16(batch=64):
    width, tokens = 1024, 14 * 14 + 1
    rows = batch * tokens
    patches = conv("conv_proj", 3, width, 16, 224, batch, 16, bias=True)
    ops = [patches, Op((("class_token", width),), 0, HALF * batch * width),
           Op((("encoder.pos_embedding", tokens * width),), rows * width, 2 * HALF * rows * width)]
    for i in range(24):
        name = f"encoder.layers.encoder_layer_{i}"
        ops += [norm(f"{name}.ln_1", width, rows * width),
                linear(f"{name}.self_attention", width, 3 * width, rows, weight_name="in_proj_weight",
                       bias_name="in_proj_bias"),
                attention(batch, tokens, width),
                linear(f"{name}.self_attention.out_proj", width, width, rows),
                elementwise(rows * width),
                norm(f"{name}.ln_2", width, rows * width),
                linear(f"{name}.mlp.0", width, 4 * width, rows),
                elementwise(rows * 4 * width),
                linear(f"{name}.mlp.3", 4 * width, width, rows),
                elementwise(rows * width)]
    ops += [norm("encoder.ln", width, rows * width), linear("heads.head", width, 1000, batch)]
    return Model("ViT-L/16", f"{batch} images of 224 x 224", ops)


# ---- UGATIT: two generators, four discriminators, images of 256 x 256, one at a time ----

def discriminator(name, convs, batch):
    """@param convs  with 2 strides of 1 at the end, all others halve"""
    ops, channels, size = [], 3, 256
    for i in range(convs):
        width = 64 << i
        stride = 2 if i < convs - 1 else 1
        ops.append(conv(f"{name}.model.{1 + 3 * i}", channels, width, 4, size, batch, stride, bias=True,
                        suffix="weight_orig"))
        channels, size = width, size // stride
    pooled = [linear(f"{name}.{fc}", channels, 1, batch, bias=False, weight_name="weight_orig")
              for fc in ("gap_fc", "gmp_fc")]
    return ops + pooled + [conv(f"{name}.conv1x1", 2 * channels, channels, 1, size, batch, bias=True),
                           conv(f"{name}.conv", channels, 1, 4, size, batch, suffix="weight_orig")]


def iln(name, width, elements, learned):
    params = (("beta", width), ("gamma", width)) if learned else ()
    return Op(tuple((f"{name}.{suffix}", n) for suffix, n in params + (("rho", width),)),
              16 * elements, 4 * HALF * elements)


def generator(name, batch):
    pixels, spot = batch * 64 * 64, 256 * 64 * 64
    ops = [conv(f"{name}.DownBlock.1", 3, 64, 7, 256, batch), elementwise(batch * 64 * 256 * 256),
           conv(f"{name}.DownBlock.5", 64, 128, 3, 256, batch, 2), elementwise(batch * 128 * 128 * 128),
           conv(f"{name}.DownBlock.9", 128, 256, 3, 128, batch, 2), elementwise(pixels * 256)]
    for block in range(12, 16):
        for index in (1, 5):
            ops += [conv(f"{name}.DownBlock.{block}.conv_block.{index}", 256, 256, 3, 64, batch),
                    elementwise(pixels * 256)]
    ops += [linear(f"{name}.{fc}", 256, 1, batch, bias=False) for fc in ("gap_fc", "gmp_fc")]
    ops += [conv(f"{name}.conv1x1", 512, 256, 1, 64, batch, bias=True),
            linear(f"{name}.FC.0", spot, 256, batch, bias=False),
            linear(f"{name}.FC.2", 256, 256, batch, bias=False),
            linear(f"{name}.gamma", 256, 256, batch, bias=False),
            linear(f"{name}.beta", 256, 256, batch, bias=False)]
    for block in range(1, 5):
        for part in (1, 2):
            ops += [conv(f"{name}.UpBlock1_{block}.conv{part}", 256, 256, 3, 64, batch),
                    iln(f"{name}.UpBlock1_{block}.norm{part}", 256, pixels * 256, learned=False)]
    return ops + [conv(f"{name}.UpBlock2.2", 256, 128, 3, 128, batch),
                  iln(f"{name}.UpBlock2.3", 128, batch * 128 * 128 * 128, learned=True),
                  conv(f"{name}.UpBlock2.7", 128, 64, 3, 256, batch),
                  iln(f"{name}.UpBlock2.8", 64, batch * 64 * 256 * 256, learned=True),
                  conv(f"{name}.UpBlock2.11", 64, 3, 7, 256, batch)]


def ugatit():
    """
    The discriminators' backward on a real and a generated image comes first; then the generators run
    forward three times each (translation, back again, identity), and backward, the first passes last.
    """
    judges = {name: discriminator(name, convs, 2)
              for name, convs in (("disGA", 6), ("disLA", 4), ("disGB", 6), ("disLB", 4))}
    makers = {name: generator(name, 1) for name in ("genA2B", "genB2A")}
    judging = [op for ops in judges.values() for op in ops]
    making = [op for ops in makers.values() for op in ops]
    backward = [Step(op) for op in reversed(judging)]
    backward += [Step(op, backward=False, ready=False) for op in making * 3 + judging]
    backward += [Step(op, ready=False) for op in list(reversed(judging)) + list(reversed(making)) * 2]
    backward += [Step(op) for op in reversed(making)]
    return Model("UGATIT", "1 image of 256 x 256 of each kind; forward_us is that of the discriminators' "
                 "turn, the generators' lies within backward", making + judging, backward)


# ---- text ----

def bert(name, layers, width, batch, tokens=384):
    rows, encoder = batch * tokens, "bert.encoder.layer"
    ops = [embedding("bert.embeddings.word_embeddings.weight", 30528, width, rows),
           embedding("bert.embeddings.position_embeddings.weight", 512, width, rows),
           embedding("bert.embeddings.token_type_embeddings.weight", 2, width, rows),
           norm("bert.embeddings.LayerNorm", width, rows * width)]
    for i in range(layers):
        ops += [linear(f"{encoder}.{i}.attention.self.{which}", width, width, rows)
                for which in ("query", "key", "value")]
        ops += [attention(batch, tokens, width),
                linear(f"{encoder}.{i}.attention.output.dense", width, width, rows),
                elementwise(rows * width),
                norm(f"{encoder}.{i}.attention.output.LayerNorm", width, rows * width),
                linear(f"{encoder}.{i}.intermediate.dense_act", width, 4 * width, rows),
                elementwise(rows * 4 * width),
                linear(f"{encoder}.{i}.output.dense", 4 * width, width, rows),
                elementwise(rows * width),
                norm(f"{encoder}.{i}.output.LayerNorm", width, rows * width)]
    ops.append(linear("qa_outputs", width, 2, rows))
    return Model(name, f"{batch} texts of {tokens} tokens", ops)


def gpt2(name, layers, width, batch, tokens=1024, words=50257):
    rows = batch * tokens
    ops = [embedding("transformer.wte.weight", words, width, rows),
           embedding("transformer.wpe.weight", tokens, width, rows)]
    for i in range(layers):
        layer = f"transformer.h.{i}"
        ops += [norm(f"{layer}.ln_1", width, rows * width),
                linear(f"{layer}.attn.c_attn", width, 3 * width, rows),
                attention(batch, tokens, width),
                linear(f"{layer}.attn.c_proj", width, width, rows),
                elementwise(rows * width),
                norm(f"{layer}.ln_2", width, rows * width),
                linear(f"{layer}.mlp.c_fc", width, 4 * width, rows),
                elementwise(rows * 4 * width),
                linear(f"{layer}.mlp.c_proj", 4 * width, width, rows),
                elementwise(rows * width)]
    ops += [norm("transformer.ln_f", width, rows * width), product(width, words, rows)]
    return Model(name, f"{batch} texts of {tokens} tokens", ops)


def lstm(batch=64, tokens=35, width=1500, words=33278):
    def cell(i):
        """All gates of all steps; what is recurrent reads its weights again for each step."""
        weights = 4 * width * width
        params = ((f"rnns.{i}.weight_ih_l0", weights), (f"rnns.{i}.weight_hh_l0", weights),
                  (f"rnns.{i}.bias_hh_l0", 4 * width), (f"rnns.{i}.bias_ih_l0", 4 * width))
        return Op(params, 2.0 * 2 * batch * tokens * weights,
                  HALF * ((tokens + 1) * weights + 10 * batch * tokens * width))

    rows = batch * tokens
    decoder = product(width, words, rows)
    ops = [embedding("encoder.weight", words, width, rows), cell(0), cell(1),
           Op((("decoder.bias", words),), decoder.flops, decoder.bytes)]
    return Model("LSTM", f"{batch} texts of {tokens} words", ops)


def llama(name="Llama-7B", layers=32, width=4096, inner=11008, words=32000, batch=1, tokens=2048):
    rows = batch * tokens
    ops = [embedding("tok_embeddings.weight", words, width, rows)]
    for i in range(layers):
        layer = f"layers.{i}"
        ops.append(norm(f"{layer}.attention_norm", width, rows * width, ("weight",)))
        ops += [linear(f"{layer}.attention.{which}", width, width, rows, bias=False)
                for which in ("wq", "wk", "wv")]
        ops += [elementwise(2 * rows * width), attention(batch, tokens, width),
                linear(f"{layer}.attention.wo", width, width, rows, bias=False),
                elementwise(rows * width),
                norm(f"{layer}.ffn_norm", width, rows * width, ("weight",)),
                linear(f"{layer}.feed_forward.w1", width, inner, rows, bias=False),
                linear(f"{layer}.feed_forward.w3", width, inner, rows, bias=False),
                elementwise(rows * inner),
                linear(f"{layer}.feed_forward.w2", inner, width, rows, bias=False),
                elementwise(rows * width)]
    ops += [norm("norm", width, rows * width, ("weight",)),
            linear("output", width, words, rows, bias=False)]
    return Model(name, f"{batch} text of {tokens} tokens", ops)


# ---- recommendations ----

def ncf(batch=65536, users=498975, items=427888):
    ops = [embedding("mlp_user_embed.weight", users, 128, batch),
           embedding("mlp_item_embed.weight", items, 128, batch),
           embedding("mf_user_embed.weight", users, 64, batch),
           embedding("mf_item_embed.weight", items, 64, batch),
           elementwise(batch * 64)]
    for i, (inputs, outputs) in enumerate(((256, 256), (256, 128), (128, 64))):
        ops += [linear(f"mlp.{i}", inputs, outputs, batch), elementwise(batch * outputs)]
    ops.append(linear("final", 128, 1, batch))
    return Model("NCF", f"{batch} pairs; dense gradients of the embeddings", ops)


MODELS = {
    "vgg16": vgg16,
    "resnet50": lambda: resnet("ResNet50", (3, 4, 6, 3)),
    "resnet101": lambda: resnet("ResNet101", (3, 4, 23, 3)),
    "bert-base": lambda: bert("BERT-base", 12, 768, 32),
    "bert-large": lambda: bert("BERT-large", 24, 1024, 8),
    "gpt2": lambda: gpt2("GPT-2 small", 12, 768, 8),
    "gpt2-medium": lambda: gpt2("GPT-2 medium", 24, 1024, 4),
    "gpt2-large": lambda: gpt2("GPT-2 large", 36, 1280, 2),
    "gpt2-xl": lambda: gpt2("GPT-2 XL", 48, 1600, 1),
    "lstm": lstm,
    "ugatit": ugatit,
    "ncf": ncf,
    "vit-l-16": vit_l_16,
    "llama-7b": llama,
}
