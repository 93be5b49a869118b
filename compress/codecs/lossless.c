/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless: float32 bit for bit, in fewer of them. The exponents of neighbours are much alike, so
 * each block keeps a large one and how far the others lie below it. Bytes in FORMAT.md, "lossless".
 */
#include "compress/codec.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/far.h"
#include "compress/kernels/split.h"

#define HEAD 4
#define AHEAD 4608 /* elements after which those lie that a long call asks for */
#define MANY(n) (2 * WRING_SPLIT_PLANE(n)) /* others, from which on another top is tried */
#define FRONT (2 * WRING_LINE)             /* of a buffer: what is left of a line, and the head */
#define PAGE_BYTES (WRING_PAGE * sizeof(float))
#define APART (PAGE_BYTES / 8 * 5)           /* of a page: from a block's elements to its code */
#define ROOM(n) (HEAD + WRING_SPLIT_ROOM(n)) /* that a block's code is made in */

/* whole lines, with room for the code of a block wherever in a page it begins */
#define BUFFER_BYTES \
    ((FRONT + PAGE_BYTES + ROOM(WRING_SPLIT_BLOCK_MAX) + WRING_LINE) & ~(size_t)(WRING_LINE - 1))

enum {
    PARAM_BLOCK
};

/** What a block's first byte says. */
enum layout {
    LAYOUT_ZEROS = 0,                   /* +0 everywhere: nothing follows */
    LAYOUT_NARROW = WRING_SPLIT_NARROW, /* packed with distances of so many bits */
    LAYOUT_WIDE = WRING_SPLIT_WIDE,
    LAYOUT_AS_IS = 8, /* float32 */
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share an exponent", WRING_SPLIT_BLOCK_USUAL, 32,
                     WRING_SPLIT_BLOCK_MAX, 32},
};

/** How a block is laid out. */
struct plan {
    enum layout layout;
    uint32_t top;    /* exponent; 0 where there is none */
    uint32_t others; /* elements whose exponents are written out */
};

static uint64_t lossless_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status lossless_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_split_tiers, sizeof(wring_split_tiers[0]));
    return WRING_OK;
}

static size_t lossless_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = lossless_unit(codec);
    return (elems + unit - 1) / unit * HEAD + elems * sizeof(float);
}

static bool is_packed(const struct plan *plan)
{
    return plan->layout == LAYOUT_NARROW || plan->layout == LAYOUT_WIDE;
}

/** Of the whole code of a block. */
static size_t plan_bytes(const struct plan *plan, uint64_t n)
{
    if (plan->layout == LAYOUT_AS_IS)
        return HEAD + n * sizeof(float);
    if (!is_packed(plan))
        return HEAD;
    return (HEAD + WRING_SPLIT_OTHERS(n, plan->layout) + plan->others + 3) & ~(size_t)3;
}

/** Which layout takes least. */
static struct plan make_plan(struct wring_split_far far, uint32_t top, uint64_t n)
{
    uint64_t narrow = WRING_SPLIT_NARROW * WRING_SPLIT_PLANE(n) + far.narrow;
    uint64_t wide = WRING_SPLIT_WIDE * WRING_SPLIT_PLANE(n) + far.wide;

    if (narrow >= n && wide >= n)
        return (struct plan){LAYOUT_AS_IS, 0, 0};
    if (narrow <= wide)
        return (struct plan){LAYOUT_NARROW, top, far.narrow};
    return (struct plan){LAYOUT_WIDE, top, far.wide};
}

static bool is_zeros(const float *src, uint64_t n)
{
    uint32_t any = 0;
    for (uint64_t i = 0; i < n; i++)
        any |= wring_bits_of(src[i]);
    return any == 0;
}

/** Float32 on their way into blocks. */
struct input {
    const struct wring_split_kernels *kernels;
    const float *src;
    uint64_t left, unit, n; /* elements: from here on, of a block, of this block */
    uint32_t peak;          /* of this block's sample */
    enum layout guess;      /* one that is packed: of the block before */
};

/** Of a block's first elements: only a block that is unlike these is looked at twice. */
static uint32_t sample_peak(const struct wring_split_kernels *kernels, const float *src, uint64_t n)
{
    return kernels->peak(src, WRING_SPLIT_SAMPLE(n));
}

static struct input input_begin(const struct wring_codec *codec, const float *src, uint64_t elems)
{
    struct input in = {
        .kernels = ((const struct wring_split_tier *)codec->kernels)->kernels,
        .src = src,
        .left = elems,
        .unit = codec->info.unit,
        .n = wring_codec_unit_length(codec->info.unit, elems),
        .guess = LAYOUT_NARROW,
    };
    in.peak = sample_peak(in.kernels, src, in.n);
    return in;
}

/** The next block's sample is looked at beside this one, if that is as long. */
static const float *input_next(const struct input *in)
{
    return in->left - in->n >= in->n ? in->src + in->n : NULL;
}

static void input_advance(struct input *in, const struct wring_split_beside *beside)
{
    in->src += in->n;
    in->left -= in->n;
    in->n = wring_codec_unit_length(in->unit, in->left);
    in->peak = beside->next != NULL ? beside->peak : sample_peak(in->kernels, in->src, in->n);
}

/** Packed with this top: which layout takes least. Where narrow leaves many, wide is packed, too.
 */
static struct plan weigh(const struct input *in, unsigned char *packed, uint32_t top,
                         struct wring_split_far far, enum layout *packed_as)
{
    struct wring_split_beside nothing = {0};

    if (*packed_as == LAYOUT_NARROW && far.narrow > WRING_SPLIT_PLANE(in->n)) {
        far = in->kernels->pack(packed, in->src, in->n, LAYOUT_WIDE, top, &nothing);
        *packed_as = LAYOUT_WIDE;
    }
    return make_plan(far, top, in->n);
}

/** With the largest exponent as top, where the sample's leaves many others, if that takes less. */
static struct plan try_largest(const struct input *in, unsigned char *packed, struct plan plan,
                               enum layout *packed_as)
{
    struct wring_split_beside nothing = {0};
    uint32_t top = in->kernels->peak(in->src, in->n) >> 24;
    if (top == in->peak >> 24)
        return plan;

    enum layout as = LAYOUT_NARROW;
    struct wring_split_far far = in->kernels->pack(packed, in->src, in->n, as, top, &nothing);
    struct plan other = weigh(in, packed, top, far, &as);
    bool better = plan_bytes(&other, in->n) < plan_bytes(&plan, in->n);

    *packed_as = better ? as : LAYOUT_AS_IS; /* or with a top that is not taken */
    return better ? other : plan;
}

/**
 * A block that is unlike its sample or the block before. Not inlined: the plans of all others stay
 * in registers, as a load of what was stored in parts waits for the stores past the caches.
 * @param far  of packing as the block before
 */
static __attribute__((noinline)) struct plan look_again(struct input *in, unsigned char *packed,
                                                        struct wring_split_far far)
{
    struct wring_split_beside nothing = {0};
    enum layout packed_as = in->guess;
    struct plan plan = weigh(in, packed, in->peak >> 24, far, &packed_as);

    if (in->peak == 0 && is_zeros(in->src, in->n))
        return (struct plan){LAYOUT_ZEROS, 0, 0};
    if (plan.layout == LAYOUT_AS_IS || plan.others > MANY(in->n))
        plan = try_largest(in, packed, plan, &packed_as);
    if (plan.layout == LAYOUT_AS_IS) {
        memcpy(packed, in->src, in->n * sizeof(*in->src));
        return plan;
    }
    if (plan.layout != packed_as)
        in->kernels->pack(packed, in->src, in->n, plan.layout, plan.top, &nothing);
    in->guess = plan.layout;
    return plan;
}

/** Pack as the block before was: most often that takes least, and few others say so. */
static struct plan pack_block(struct input *in, unsigned char *packed,
                              struct wring_split_beside *beside)
{
    uint32_t top = in->peak >> 24, few = (uint32_t)WRING_SPLIT_PLANE(in->n);
    struct wring_split_far far = in->kernels->pack(packed, in->src, in->n, in->guess, top, beside);

    if (in->peak == 0 || 6 * few >= in->n) /* perhaps all zeros, or a short one */
        return look_again(in, packed, far);
    if (in->guess == LAYOUT_NARROW && far.narrow <= few)
        return (struct plan){LAYOUT_NARROW, top, far.narrow};
    if (in->guess == LAYOUT_WIDE && far.wide <= MANY(in->n) && far.narrow > far.wide + few)
        return (struct plan){LAYOUT_WIDE, top, far.wide};
    return look_again(in, packed, far);
}

/** @param at  out, ROOM(in->n) bytes @return bytes of the code */
static size_t put_block(struct input *in, unsigned char *at, struct wring_split_beside *beside)
{
    struct plan plan = pack_block(in, at + HEAD, beside);
    size_t bytes = plan_bytes(&plan, in->n);

    wring_put_u32(at, (uint32_t)plan.layout | plan.top << 8 | plan.others << 16);
    if (is_packed(&plan))
        memset(at + HEAD + WRING_SPLIT_OTHERS(in->n, plan.layout) + plan.others, 0, 3);
    return bytes;
}

/** Codes that stay in a near cache until they are sent. @param room  bytes of code */
static size_t encode_near(struct input in, unsigned char *code, size_t room)
{
    unsigned char piece[ROOM(WRING_SPLIT_BLOCK_MAX)];
    size_t bytes = 0;

    while (in.left > 0) {
        struct wring_split_beside beside = {.next = input_next(&in)};
        bool fits = room - bytes >= ROOM(in.n);
        size_t more = put_block(&in, fits ? code + bytes : piece, &beside);
        if (!fits)
            memcpy(code + bytes, piece, more);
        bytes += more;
        input_advance(&in, &beside);
    }
    return bytes;
}

/**
 * Codes on their way past the caches: those of a block leave while the next one is packed into the
 * other buffer. A load that meets stores under way waits for all of them, so a block waits for its
 * turn before the rest of those before it, which fills no line, is put in front of it.
 */
struct outflow {
    unsigned char *to; /* where a line begins: the one that the rest belongs to */
    size_t skip;       /* bytes of this one that are before the first code */
    size_t rest;       /* bytes, with those; less than a line */
    unsigned char *rest_end;
    unsigned char *block; /* the code that waits */
    size_t bytes;
    unsigned turn; /* which buffer is next */
    _Alignas(WRING_LINE) unsigned char buffers[2][BUFFER_BYTES];
};

static void outflow_begin(struct outflow *out, unsigned char *code)
{
    out->skip = out->rest = (uintptr_t)code % WRING_LINE;
    out->to = code - out->skip;
    out->rest_end = out->buffers[0] + FRONT;
    out->block = out->buffers[1] + FRONT;
    out->bytes = 0;
    out->turn = 0;
}

/**
 * Where the next block's code is put together: its packed part begins a line, and has another place
 * in its page than the elements that it is made of. In the same place all takes half as long again:
 * loads seem to wait for stores that are alike in this, and those wait behind ones past the caches.
 */
static unsigned char *choose_place(struct outflow *out, const float *src)
{
    unsigned char *begin = out->buffers[out->turn] + FRONT;
    size_t apart = (uintptr_t)src + APART - (uintptr_t)begin;

    return begin + (apart & (PAGE_BYTES - WRING_LINE)) - HEAD;
}

/** Put the rest in front of the code that waits. @return where all that is pending begins */
static unsigned char *join(struct outflow *out)
{
    memcpy(out->block - WRING_LINE, out->rest_end - WRING_LINE, WRING_LINE);
    return out->block - out->rest;
}

/** Whole lines that leave now; from now on `block` waits, of so many bytes. */
static void follow(struct outflow *out, uint64_t lines, unsigned char *block, size_t bytes)
{
    out->to += lines * WRING_LINE;
    out->rest = (out->rest + out->bytes) % WRING_LINE;
    out->rest_end = out->block + out->bytes;
    out->block = block;
    out->bytes = bytes;
    out->turn ^= 1;
}

/** The line in which the first code begins belongs to others, too. @return lines that leave so */
static uint64_t put_first(struct outflow *out, const unsigned char *from, uint64_t lines)
{
    if (out->skip == 0 || lines == 0)
        return 0;
    memcpy(out->to + out->skip, from + out->skip, WRING_LINE - out->skip);
    out->skip = 0;
    return 1;
}

static size_t encode_far(struct input in, unsigned char *code)
{
    struct outflow out;

    outflow_begin(&out, code);
    while (in.left > 0) {
        unsigned char *from = join(&out), *block = choose_place(&out, in.src);
        uint64_t lines = (out.rest + out.bytes) / WRING_LINE, first = put_first(&out, from, lines);
        struct wring_split_beside beside = {
            .next = input_next(&in),
            .fetch = in.left >= AHEAD + in.n ? in.src + AHEAD : NULL,
            .from = from + first * WRING_LINE,
            .to = out.to + first * WRING_LINE,
            .lines = lines - first,
        };
        wring_far_enter(out.to);
        follow(&out, lines, block, put_block(&in, block, &beside));
        input_advance(&in, &beside);
    }
    unsigned char *from = join(&out);
    size_t pending = out.rest + out.bytes;
    wring_far_stream(out.to + out.skip, from + out.skip, pending - out.skip);
    wring_far_settle();
    return (size_t)(out.to + pending - code);
}

static size_t lossless_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code)
{
    (void)context, (void)residual; /* nothing is lost, so nothing remains */
    if (elems == 0)
        return 0;
    struct input in = input_begin(codec, src, elems);
    if (WRING_IS_LONG(elems))
        return encode_far(in, code);
    return encode_near(in, code, lossless_bound(codec, elems));
}

/** @return false where the head or what it says of the length is wrong */
static bool take_plan(const unsigned char *code, size_t left, uint64_t n, struct plan *plan)
{
    if (left < HEAD)
        return false;
    uint32_t head = wring_take_u32(code);
    *plan = (struct plan){head & 0xFF, head >> 8 & 0xFF, head >> 16};
    bool known = is_packed(plan) ? plan->others <= n
                                 : (plan->layout == LAYOUT_ZEROS || plan->layout == LAYOUT_AS_IS) &&
                                       head >> 8 == 0;
    return known && plan_bytes(plan, n) <= left;
}

/** As they are, or added; a NaN's payload comes back only where nothing is added. */
static void take_as_is(float *dst, const unsigned char *code, uint64_t n, bool add)
{
    if (!add)
        memcpy(dst, code, n * sizeof(*dst));
    for (uint64_t i = 0; add && i < n; i++)
        dst[i] += wring_float_of(wring_take_u32(code + i * sizeof(*dst)));
}

/**
 * Whatever a peer makes of the planes, the others are read inside the code, or of its last blocks
 * in memory of our own.
 * @param left  bytes of code from `packed` on
 */
static enum wring_status take_packed(const struct wring_split_kernels *kernels,
                                     const struct plan *plan, float *dst,
                                     const unsigned char *packed, size_t left, uint64_t n, bool add)
{
    unsigned char copy[WRING_SPLIT_BLOCK_MAX + WRING_SPLIT_SLACK];
    unsigned width = plan->layout;
    const unsigned char *others = packed + WRING_SPLIT_OTHERS(n, width);

    if (left < WRING_SPLIT_OTHERS(n, width) + n + WRING_SPLIT_SLACK) {
        memcpy(copy, others, plan->others);
        memset(copy + plan->others, 0, n + WRING_SPLIT_SLACK - plan->others);
        others = copy;
    }
    uint64_t taken =
        (add ? kernels->unpack_add : kernels->unpack)(dst, packed, others, n, width, plan->top);
    return taken == plan->others ? WRING_OK : WRING_ERR_FRAME;
}

static enum wring_status take_block(const struct wring_split_kernels *kernels,
                                    const struct plan *plan, float *dst, const unsigned char *code,
                                    size_t left, uint64_t n, bool add)
{
    if (is_packed(plan))
        return take_packed(kernels, plan, dst, code, left, n, add);
    if (plan->layout == LAYOUT_AS_IS)
        take_as_is(dst, code, n, add);
    for (uint64_t i = 0; plan->layout == LAYOUT_ZEROS && i < n; i++)
        dst[i] = add ? dst[i] + 0.0f : 0.0f;
    return WRING_OK;
}

static enum wring_status lossless_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    const struct wring_split_kernels *kernels =
        ((const struct wring_split_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;
    struct plan plan;

    (void)context;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (!take_plan(at, code_bytes, n, &plan))
            return WRING_ERR_FRAME;
        size_t bytes = plan_bytes(&plan, n);
        if (WRING_IS_LONG(elems)) { /* streams that take turns are fetched more slowly */
            wring_far_read(at, bytes);
            wring_far_read(dst + done, add ? n * sizeof(*dst) : 0);
        }
        status = take_block(kernels, &plan, dst + done, at + HEAD, code_bytes - HEAD, n, add);
        at += bytes;
        code_bytes -= bytes;
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}

const struct wring_codec_ops wring_codec_lossless = {
    .name = "lossless",
    .doc = "float32 bit for bit, with the exponents of each block packed",
    .flags = WRING_CODEC_EXACT | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = lossless_init,
    .unit = lossless_unit,
    .bound = lossless_bound,
    .encode = lossless_encode,
    .decode = lossless_decode,
};
