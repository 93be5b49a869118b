/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective must give, computed in one thread straight from the definition of its scheme:
 * whole spans at once, scalar codecs, sums element by element. The machine under test has to agree
 * with it bit for bit; how far results may be off the true sum is checked in bound.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/compose.h"
#include "compress/residual.h"
#include "runtime/codec_states.h"
#include "tests/collective/error_bound.h"
#include "tests/collective/matrix.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/collective/collective.h"

struct oracle {
    const struct wring_matrix_case *c;
    uint32_t rank; /* whose result is wanted */
    struct wring_codec *codec;
    bool raw;
    uint32_t n;        /* who exchange: ranks, or nodes */
    void **inputs;     /* [n][in_elems] */
    float **wide;      /* [n][in_elems] inputs as codecs see them */
    float **residuals; /* [n][in_elems] */
    uint32_t nodes;    /* they exchange hierarchically; 0: they do not */
    void **own;        /* [ranks][in_elems] hierarchically: what nodes' inputs are the sums of */
    float **decoded;   /* [n][in_elems] */
    float *scratch;    /* [in_elems] */
    void *out;         /* [out_elems] */
    float *sums;       /* [out_elems] what codecs make of it, before it is rounded */
    uint8_t *code;
    void **states[WRING_TEST_SOURCES]; /* [n][states] by exchanging rank, of one for each element */
    struct wring_span covered;         /* what the collective covers, of which … */
    void *statistics[WRING_CODEC_ROUNDS_MAX]; /* … these are */
};

static float one_nan(float x)
{
    return isnan(x) ? NAN : x;
}

/** Elements on their way, from element `at` of the memory on. */
struct travel {
    uint64_t n, at;
    unsigned step;
    uint32_t rank, phase;
};

/** Where codecs take an element to be: each member's run begins at a grain (WIRE.md). */
static uint64_t element_of(const struct oracle *o, uint64_t at)
{
    uint64_t run = o->c->elems, grain = wring_codec_info(o->codec)->unit;
    bool each = o->c->what == WRING_MATRIX_REDUCE_SCATTER || o->c->what == WRING_MATRIX_ALLGATHER ||
                o->c->what == WRING_MATRIX_ALLTOALL;
    if (!each || grain == 0)
        return at;
    while (grain < 32)
        grain *= 2;
    return at / run * ((run + grain - 1) / grain * grain) + at % run;
}

static struct wring_codec_context context_of(const struct oracle *o, struct travel travel)
{
    bool is_bucket = o->c->what == WRING_MATRIX_BUCKET;
    return (struct wring_codec_context){
        .seed = WRING_TEST_SEED,
        .bucket = is_bucket ? wring_bucket_id("b") : 0,
        .rank = travel.rank,
        .ranks = o->n,
        .phase = travel.phase,
        .step = travel.step,
        .element = element_of(o, travel.at),
        .first = o->covered.begin,
        .elems = o->covered.end - o->covered.begin,
        .rows = o->c->rows,
        .columns = o->c->rows > 0 ? o->c->elems / o->c->rows : 0,
        .statistics = (const void *const *)o->statistics,
        .states = o->states[travel.rank],
    };
}

/** @return bytes of o->code = encode(from + residual), by the codec of that way */
static size_t encode(struct oracle *o, struct travel travel, const float *from, float *residual)
{
    struct wring_codec_context context = context_of(o, travel);
    const struct wring_codec *codec = wring_codec_way(o->codec, travel.phase);
    bool feedback = (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    size_t bytes =
        wring_codec_encode(codec, &context, from, travel.n, feedback ? residual : NULL, o->code);
    CHECK(bytes <= wring_codec_bound(codec, travel.n), "%zu bytes", bytes);
    return bytes;
}

/** to = decode(encode(from + residual)), or to += that with `add` */
static void decode_or_add(struct oracle *o, struct travel travel, const float *from, float *to,
                          float *residual, bool add)
{
    struct wring_codec_context context = context_of(o, travel);
    const struct wring_codec *codec = wring_codec_way(o->codec, travel.phase);
    size_t bytes = encode(o, travel, from, residual);
    CHECK(wring_codec_decode(codec, &context, o->code, bytes, to, travel.n, add) == WRING_OK,
          "decode");
    wring_compose_hold(codec, &context, to, travel.n);
}

static void through_codec(struct oracle *o, struct travel travel, const float *from, float *to,
                          float *residual)
{
    decode_or_add(o, travel, from, to, residual, false);
}

/** to = what adding the code would add: where nothing was sent −0, which changes no bit. */
static void through_codec_to_add(struct oracle *o, struct travel travel, const float *from,
                                 float *to, float *residual)
{
    for (uint64_t i = 0; i < travel.n; i++)
        to[i] = -0.0f;
    decode_or_add(o, travel, from, to, residual, true);
}

static bool is_short_float(enum wring_dtype dtype)
{
    return dtype == WRING_F16 || dtype == WRING_BF16;
}

/** Between nodes an average of 16-bit floats is one of nodes' averages. */
static float divisor_of(const struct oracle *o)
{
    return (float)(o->nodes > 0 && is_short_float(o->c->dtype) ? o->nodes : o->c->ranks);
}

/** All ranks' statistics of the covered part, reduced. */
static void run_round(struct oracle *o, uint32_t round, unsigned step)
{
    void *scratch = aligned_alloc(64, wring_job_scratch_bytes(0));
    const struct wring_codec *codec = wring_codec_way(o->codec, 0);
    const struct wring_codec_round *what = &codec->ops->rounds[round];
    uint64_t begin = o->covered.begin, n = o->covered.end - begin;
    struct wring_job job = {.kind = WRING_JOB_ROUND_BEGIN,
                            .elems = n,
                            .codec_out = codec,
                            .round = round,
                            .context = context_of(o, (struct travel){n, begin, step, 0, 0})};
    uint64_t count = what->count(codec, &job.context);
    void *of_ranks[WRING_TEST_SOURCES];

    for (uint32_t r = 0; r < o->n; r++) {
        job.context = context_of(o, (struct travel){n, begin, step, r, 0});
        job.src = o->wide[r] + begin;
        job.residual =
            wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK ? o->residuals[r] + begin : NULL;
        job.dst = of_ranks[r] = calloc(count + 1, wring_dtype_bytes(what->dtype));
        wring_job_run(&job, scratch);
    }
    o->statistics[round] = calloc(count + 1, wring_dtype_bytes(what->dtype));
    wring_test_reduce(what->dtype, what->op, (const void *const *)of_ranks, o->n, count,
                      o->statistics[round]);
    job.kind = WRING_JOB_ROUND_END;
    for (uint32_t r = 0; r < o->n; r++) { /* each for itself, as it may change the rank's state */
        job.context = context_of(o, (struct travel){n, begin, step, r, 0});
        job.dst = of_ranks[r];
        memcpy(job.dst, o->statistics[round], count * wring_dtype_bytes(what->dtype));
        wring_job_run(&job, scratch);
    }
    free(o->statistics[round]);
    o->statistics[round] = of_ranks[0];
    for (uint32_t r = 1; r < o->n; r++)
        free(of_ranks[r]);
    free(scratch);
}

static void run_rounds(struct oracle *o, struct wring_span part, unsigned step)
{
    o->covered = part;
    for (uint32_t round = 0; round < wring_codec_rounds(o->codec); round++)
        run_round(o, round, step);
}

static void end_rounds(struct oracle *o)
{
    for (uint32_t round = 0; round < wring_codec_rounds(o->codec); round++)
        free(o->statistics[round]);
}

/** sum[0..n) = that of everyone's elements from `begin` on; the owner's own are not encoded, as
 *  a rule. */
static void reduce_span(struct oracle *o, float *sum, struct wring_span span, uint32_t owner,
                        unsigned step)
{
    uint64_t n = span.end - span.begin;
    const float *x[WRING_TEST_SOURCES];
    for (uint32_t r = 0; r < o->n; r++) {
        x[r] = o->wide[r] + span.begin;
        if (r == owner && !wring_codec_encodes_own(o->codec))
            continue;
        (wring_test_is_second(r, o->n) ? through_codec_to_add : through_codec)(
            o, (struct travel){n, span.begin, step, r, 0}, x[r], o->decoded[r],
            o->residuals[r] + span.begin);
        x[r] = o->decoded[r];
    }
    for (uint64_t i = 0; i < n; i++) {
        sum[i] = one_nan(wring_test_sum(x, o->n, i));
        if (o->c->op == WRING_AVG)
            sum[i] = one_nan(sum[i] / divisor_of(o));
    }
}

static bool is_sharded(const struct oracle *o)
{
    enum wring_scheme scheme = wring_scheme_across(o->c->scheme);
    if (o->c->what == WRING_MATRIX_BUCKET && scheme != WRING_SCHEME_AUTO)
        return scheme == WRING_SCHEME_DIVISIBLE;
    return wring_codec_info(o->codec)->flags & WRING_CODEC_TWO_WAYS ||
           (o->n > 2 && wring_codec_info(o->codec)->unit != 0);
}

/** Whoever adds them, and wherever they are cut. */
static void add_codes(struct oracle *o, struct wring_span part, unsigned step)
{
    uint64_t n = part.end - part.begin;
    struct wring_codec_context context = context_of(o, (struct travel){n, part.begin, step, 0, 1});
    size_t bytes = wring_codec_bound(o->codec, n);
    bool apart = o->codec->ops->sum_bound != NULL; /* a sum begins with zeros, not with a code */
    size_t sum_bytes = apart ? o->codec->ops->sum_bound(o->codec, n) : bytes;
    unsigned char *sum = calloc(sum_bytes + 1, 1);
    float *out = o->sums + part.begin;

    for (uint32_t r = 0; r < o->n; r++) {
        encode(o, (struct travel){n, part.begin, step, r, 0}, o->wide[r] + part.begin,
               o->residuals[r] + part.begin);
        if (r == 0 && !apart)
            memcpy(sum, o->code, bytes);
        else
            CHECK(o->codec->ops->code_sum(o->codec, &context, sum, o->code, bytes, n) == WRING_OK,
                  "codes do not add up");
    }
    uint64_t cut = 0;
    if (o->codec->ops->sum_end != NULL)
        sum_bytes = o->codec->ops->sum_end(o->codec, &context, sum, n, &cut);
    CHECK(wring_codec_decode(o->codec, &context, sum, sum_bytes, out, n, false) == WRING_OK,
          "decode");
    for (uint64_t i = 0; i < n; i++)
        out[i] = one_nan(o->c->op == WRING_AVG ? out[i] / divisor_of(o) : out[i]);
    free(sum);
}

/** An owner that encodes its own contributions keeps what sums lack apart. */
static float *residual_of_sums(const struct oracle *o, uint32_t owner, uint64_t element)
{
    unsigned owed = wring_codec_way(o->codec, 0)->owed;
    return owed != 0 ? wring_residual_run(wring_codec_way(o->codec, 1), o->states[owner][owed - 1],
                                          element)
                     : o->residuals[owner] + element;
}

static void allreduce_part(struct oracle *o, struct wring_span part, unsigned step)
{
    float *out = o->sums;
    if (wring_codec_adds_codes(o->codec)) {
        add_codes(o, part, step);
        return;
    }
    if (!is_sharded(o)) {
        reduce_span(o, out + part.begin, part, UINT32_MAX, step);
        return;
    }
    struct wring_partition partition =
        wring_partition_make(part.end - part.begin, 4, o->n, o->codec, 4096);
    for (uint32_t owner = 0; owner < o->n; owner++) {
        struct wring_span span = wring_partition_shard(&partition, owner);
        uint64_t n = span.end - span.begin;
        span = (struct wring_span){part.begin + span.begin, part.begin + span.end};
        if (n == 0)
            continue;
        reduce_span(o, out + span.begin, span, owner, step);
        through_codec(o, (struct travel){n, span.begin, step, owner, 1}, out + span.begin,
                      o->scratch, residual_of_sums(o, owner, span.begin));
        memcpy(out + span.begin, o->scratch, n * sizeof(float));
    }
}

static void encoded_allreduce(struct oracle *o, struct wring_span part, unsigned step)
{
    run_rounds(o, part, step);
    allreduce_part(o, part, step);
    end_rounds(o);
}

/** The node's sums: of 16-bit floats an average is one of nodes' averages. */
static void sum_nodes(struct oracle *o)
{
    const struct wring_matrix_case *c = o->c;
    bool average = c->op == WRING_AVG && !is_short_float(c->dtype);
    for (uint32_t node = 0; node < o->nodes; node++)
        wring_test_reduce(c->dtype, average ? WRING_SUM : c->op,
                          (const void *const *)o->own + node * c->ranks_per_node, c->ranks_per_node,
                          c->elems, o->inputs[node]);
}

static void raw_between_nodes(struct oracle *o)
{
    const struct wring_matrix_case *c = o->c;
    bool average = c->op == WRING_AVG && !is_short_float(c->dtype);
    wring_test_reduce(c->dtype, average ? WRING_SUM : c->op, (const void *const *)o->inputs,
                      o->nodes, c->elems, o->out);
    if (average)
        wring_test_divide(c->dtype, o->out, c->elems, c->ranks);
}

/** Each rank of a node has a shard of each slice, and exchanges it with those in its place. */
static void encoded_between_nodes(struct oracle *o, unsigned step)
{
    uint64_t elems = o->c->elems, most = elems >> 18;
    uint32_t slices = most > 4 ? 4 : most > 1 ? (uint32_t)most : 1;
    if (wring_codec_info(o->codec)->unit == 0)
        slices = 1;
    struct wring_partition whole = wring_partition_make(elems, 4, slices, o->codec, 4096);
    for (uint32_t s = 0; s < slices; s++) {
        struct wring_span slice = wring_partition_shard(&whole, s);
        struct wring_partition node =
            wring_partition_make(slice.end - slice.begin, 4, o->c->ranks_per_node, o->codec, 4096);
        for (uint32_t local = 0; local < o->c->ranks_per_node; local++) {
            struct wring_span shard = wring_partition_shard(&node, local);
            shard = (struct wring_span){slice.begin + shard.begin, slice.begin + shard.end};
            if (shard.begin < shard.end)
                encoded_allreduce(o, shard, step);
        }
    }
}

static void widen_inputs(struct oracle *o)
{
    for (uint32_t r = 0; r < o->n; r++)
        wring_test_widen(o->c->dtype, o->wide[r], o->inputs[r], wring_matrix_in_elems(o->c));
}

static void hierarchical_step(struct oracle *o, unsigned step)
{
    for (uint32_t r = 0; r < o->c->ranks; r++)
        wring_matrix_input(o->c, r, step, o->own[r]);
    sum_nodes(o);
    if (o->raw) {
        raw_between_nodes(o);
        return;
    }
    widen_inputs(o);
    encoded_between_nodes(o, step);
    wring_test_narrow(o->c->dtype, o->out, o->sums, o->c->elems);
}

/** Runs of `in` go to runs of `out`; what stays at home is encoded if everyone gets the same. */
static void encoded_alltoall(struct oracle *o, unsigned step)
{
    uint64_t n = o->c->elems;
    bool all = o->c->what == WRING_MATRIX_ALLGATHER;
    for (uint32_t from = 0; from < o->c->ranks; from++) {
        const float *in = o->wide[from] + (all ? 0 : o->rank * n);
        float *out = o->sums + from * n;
        if (all || from != o->rank)
            through_codec(o, (struct travel){n, (all ? from : o->rank) * n, step, from, 0}, in, out,
                          NULL);
        else
            memcpy(out, in, n * sizeof(float));
    }
}

/** The root, too, ends with what its code decodes to. */
static void encoded_broadcast(struct oracle *o, unsigned step)
{
    uint32_t root = wring_matrix_root(o->c, step);
    through_codec(o, (struct travel){o->c->elems, 0, step, root, 0}, o->wide[root], o->sums, NULL);
}

static void encoded_step(struct oracle *o, unsigned step)
{
    uint64_t own = o->rank * o->c->elems;
    switch (o->c->what) {
    case WRING_MATRIX_BROADCAST:
        encoded_broadcast(o, step);
        return;
    case WRING_MATRIX_BUCKET:
    case WRING_MATRIX_ALLREDUCE:
        encoded_allreduce(o, (struct wring_span){0, o->c->elems}, step);
        return;
    case WRING_MATRIX_REDUCE_SCATTER:
        reduce_span(o, o->sums, (struct wring_span){own, own + o->c->elems}, o->rank, step);
        return;
    default:
        encoded_alltoall(o, step);
    }
}

/** Sums of 16-bit floats are float32 until here. */
static void encoded_and_rounded_step(struct oracle *o, unsigned step)
{
    widen_inputs(o);
    encoded_step(o, step);
    wring_test_narrow(o->c->dtype, o->out, o->sums, wring_matrix_out_elems(o->c));
}

static const uint8_t *input_at(const struct oracle *o, uint32_t rank, uint64_t element)
{
    return (const uint8_t *)o->inputs[rank] + element * wring_dtype_bytes(o->c->dtype);
}

/** The same for all schemes but one: in the one order, whoever does it. */
static void raw_reduction(struct oracle *o, uint64_t begin)
{
    const void *sources[WRING_TEST_SOURCES];
    for (uint32_t r = 0; r < o->c->ranks; r++)
        sources[r] = input_at(o, r, begin);
    enum wring_op op = o->c->op == WRING_PREMUL_SUM ? WRING_SUM : o->c->op;
    bool ring = o->c->what == WRING_MATRIX_BUCKET && o->c->scheme == WRING_SCHEME_RING;
    if (ring && wring_test_goes_around(o->c->elems, o->c->ranks)) /* hosts' ranks are neighbours */
        wring_test_reduce_ring(o->c->dtype, op, sources, o->c->ranks, o->c->elems, o->out);
    else
        wring_test_reduce(o->c->dtype, op, sources, o->c->ranks, o->c->elems, o->out);
}

static void raw_step(struct oracle *o, unsigned step)
{
    const struct wring_matrix_case *c = o->c;
    size_t run = c->elems * wring_dtype_bytes(c->dtype);
    uint8_t *out = o->out;

    switch (c->what) {
    case WRING_MATRIX_BUCKET:
    case WRING_MATRIX_ALLREDUCE:
        raw_reduction(o, 0);
        return;
    case WRING_MATRIX_REDUCE_SCATTER:
        raw_reduction(o, o->rank * c->elems);
        return;
    case WRING_MATRIX_ALLGATHER:
        for (uint32_t r = 0; r < c->ranks; r++)
            memcpy(out + r * run, o->inputs[r], run);
        return;
    case WRING_MATRIX_ALLTOALL:
        for (uint32_t r = 0; r < c->ranks; r++)
            memcpy(out + r * run, input_at(o, r, o->rank * c->elems), run);
        return;
    default:
        memcpy(out, o->inputs[wring_matrix_root(c, step)], run);
    }
}

static void get_input(const struct oracle *o, uint32_t rank, unsigned step, void *input)
{
    const struct wring_matrix_case *c = o->c;
    wring_matrix_input(c, rank, step, input);
    if (c->op == WRING_PREMUL_SUM)
        wring_test_scale(c->dtype, input, wring_matrix_in_elems(c),
                         wring_matrix_factor(rank, step));
}

static void run_step(struct oracle *o, unsigned step)
{
    if (o->nodes > 0) {
        hierarchical_step(o, step);
        return;
    }
    for (uint32_t r = 0; r < o->c->ranks; r++)
        get_input(o, r, step, o->inputs[r]);
    if (o->c->ranks == 1) /* nothing else is done to it */
        memcpy(o->out, o->inputs[0], o->c->elems * wring_dtype_bytes(o->c->dtype));
    else if (o->raw)
        raw_step(o, step);
    else if (o->c->elems > 0)
        encoded_and_rounded_step(o, step);
}

static void check_bits(const struct oracle *o, const void *out)
{
    size_t bytes = wring_dtype_bytes(o->c->dtype);
    uint64_t i = 0, n = wring_matrix_out_elems(o->c);
    char text[512];

    while (i < n &&
           memcmp((const char *)o->out + i * bytes, (const char *)out + i * bytes, bytes) == 0)
        i++;
    CHECK(i == n, "rank %u: element %llu is %La, should be %La: %s", o->rank, (unsigned long long)i,
          wring_test_element(o->c->dtype, out, i), wring_test_element(o->c->dtype, o->out, i),
          wring_matrix_text(o->c, text, sizeof(text)));
}

/** Nodes of equally many ranks, as a bucket's scheme wants them, or 0. Votes are those of ranks. */
static uint32_t count_nodes(const struct wring_matrix_case *c, const struct wring_codec_info *info)
{
    bool wanted = c->what == WRING_MATRIX_BUCKET && wring_scheme_is_hierarchical(c->scheme) &&
                  !(info->flags & WRING_CODEC_VOTES);
    if (!wanted || c->ranks_per_node < 2 || c->ranks % c->ranks_per_node != 0 ||
        c->ranks == c->ranks_per_node || c->elems == 0)
        return 0;
    return c->ranks / c->ranks_per_node;
}

static void **make_rows(uint32_t n, uint64_t elems, size_t bytes)
{
    void **rows = calloc(n, sizeof(*rows));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = calloc(elems, bytes);
    return rows;
}

static void free_rows(void **rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(rows[i]);
    free(rows);
}

/** The ranks' own inputs. */
static const void *const *inputs_of(const struct oracle *o)
{
    return (const void *const *)(o->nodes > 0 ? o->own : o->inputs);
}

/** In immediate calls none of the codecs has any. */
static void make_states(struct oracle *o)
{
    const struct wring_codec_ops *ops = wring_codec_way(o->codec, 0)->ops;
    for (uint32_t r = 0; r < o->n && ops->n_states > 0; r++) {
        o->states[r] = calloc(ops->n_states, sizeof(*o->states[r]));
        struct wring_codec_context context = context_of(o, (struct travel){.rank = r});
        context.elems = o->c->elems;
        for (size_t s = 0; s < ops->n_states; s++) {
            const struct wring_codec_state *what = &ops->states[s];
            uint64_t count = what->count != NULL ? what->count(o->codec, &context) : o->c->elems;
            o->states[r][s] = calloc(count + 1, wring_dtype_bytes(what->dtype));
            if (what->init != NULL)
                what->init(o->codec, &context, o->states[r][s], count);
        }
    }
}

static void free_states(struct oracle *o)
{
    size_t n = wring_codec_info(o->codec)->states;
    for (uint32_t r = 0; r < o->n; r++) {
        for (size_t s = 0; s < n; s++)
            free(o->states[r][s]);
        free(o->states[r]);
    }
}

void wring_matrix_check(const struct wring_matrix_case *c, uint32_t rank, const void *out)
{
    struct oracle o = {.c = c, .rank = rank};
    uint64_t in_elems = wring_matrix_in_elems(c);
    size_t bytes = wring_dtype_bytes(c->dtype);

    REQUIRE(wring_codec_create(c->codec, "scalar", NULL, NULL, 0, &o.codec) == WRING_OK, "codec");
    const struct wring_codec_info *info = wring_codec_info(o.codec);
    o.raw = (info->flags & WRING_CODEC_EXACT) != 0; /* as without a codec, bit for bit */
    o.nodes = count_nodes(c, info);
    o.n = o.nodes > 0 ? o.nodes : c->ranks;
    o.inputs = make_rows(o.n, in_elems + 1, bytes);
    o.wide = (float **)make_rows(o.n, in_elems + 1, sizeof(float));
    o.residuals = (float **)make_rows(o.n, in_elems + 1, sizeof(float));
    o.own = make_rows(o.nodes > 0 ? c->ranks : 0, in_elems + 1, bytes);
    o.decoded = (float **)make_rows(o.n, in_elems + 1, sizeof(float));
    o.scratch = calloc(in_elems + 1, sizeof(float));
    o.out = calloc(wring_matrix_out_elems(c) + 1, bytes);
    o.sums = calloc(wring_matrix_out_elems(c) + 1, sizeof(float));
    o.code = malloc(wring_codec_bound(o.codec, in_elems) + 64);
    make_states(&o);

    uint64_t saved = wring_fp_enter();
    for (unsigned step = 0; step < c->steps; step++)
        run_step(&o, step);
    check_bits(&o, out);
    wring_matrix_check_bound(c, rank, inputs_of(&o), out);
    wring_fp_leave(saved);

    free_rows(o.inputs, o.n);
    free_rows((void **)o.wide, o.n);
    free_rows((void **)o.residuals, o.n);
    free_rows((void **)o.decoded, o.n);
    free_rows(o.own, o.nodes > 0 ? c->ranks : 0);
    free(o.scratch);
    free(o.out);
    free(o.sums);
    free(o.code);
    free_states(&o);
    wring_codec_destroy(o.codec);
}
