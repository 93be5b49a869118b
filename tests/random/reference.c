/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/lib/test.h"
#include "transport/collective/algorithm_select.h"
#include <wring/codec.h>

#define SLICE_ELEMS (1u << 18)
#define SLICES_MAX 4

struct span {
    uint64_t begin, end;
};

/** Who exchanges what. */
struct party {
    uint32_t n, ranks[PROGRAM_RANKS]; /* of the session, ascending */
    void *inputs[PROGRAM_RANKS];      /* [elems] of each member, or of each node */
    float *residuals[PROGRAM_RANKS];  /* likewise; NULL: none */
    uint32_t divisor;                 /* of an average */
};

struct bucket_state {
    struct wring_codec *codec;
    float *residuals[PROGRAM_RANKS], *saved[PROGRAM_RANKS]; /* [elems] */
};

struct reference {
    const struct program *p;
    const struct results *results;
    struct bucket_state buckets[PROGRAM_BUCKETS];
    uint32_t compared;
    bool broken; /* an item was not done everywhere: residuals are not known from here on */
};

static float one_nan(float x)
{
    return isnan(x) ? NAN : x;
}

static bool has(const struct wring_codec *codec, unsigned flag)
{
    return (wring_codec_info(codec)->flags & flag) != 0;
}

/* ---- how elements are cut ---- */

/** Shard i of n: whole grains, the first ones one more. */
static struct span shard_of(struct span of, const struct wring_codec *codec, uint32_t i, uint32_t n)
{
    uint64_t elems = of.end - of.begin, unit = codec != NULL ? wring_codec_info(codec)->unit : 1;
    uint64_t grain = unit > 0 ? unit : elems > 0 ? elems : 1;
    while (grain < 32)
        grain *= 2;
    uint64_t grains = (elems + grain - 1) / grain, each = grains / n, more = grains % n;
    uint64_t begin = (each * i + (i < more ? i : more)) * grain;
    uint64_t end = begin + (each + (i < more)) * grain;
    return (struct span){of.begin + (begin < elems ? begin : elems),
                         of.begin + (end < elems ? end : elems)};
}

/* ---- through codecs ---- */

/** to = decode(encode(from + residual)), [n], by the codec of a way, or with `add` to += that: what
 *  a code does not hold is left alone then, a negative zero too. */
static void through(const struct wring_codec *codec, uint32_t phase, const float *from, uint64_t n,
                    float *residual, float *to, bool add)
{
    const struct wring_codec *way = wring_codec_way(codec, phase);
    struct wring_codec_context context = {.phase = phase};
    uint8_t *code = malloc(wring_codec_bound(way, n) + 64);
    size_t bytes = wring_codec_encode(way, &context, from, n,
                                      has(way, WRING_CODEC_FEEDBACK) ? residual : NULL, code);

    CHECK(wring_codec_decode(way, &context, code, bytes, to, n, add) == WRING_OK, "decode");
    free(code);
}

/** What members contribute to a span: each but `own` through the codec. */
struct contributions {
    const struct party *party;
    const struct wring_codec *codec;
    struct span span;
    uint32_t own;
};

/** sum = a member's contribution, or with `add` += that. */
static void contribute(const struct contributions *all, uint32_t i, float *sum, bool add)
{
    const struct party *party = all->party;
    uint64_t n = all->span.end - all->span.begin;
    const float *x = (const float *)party->inputs[i] + all->span.begin;
    float *residual = party->residuals[i] != NULL ? party->residuals[i] + all->span.begin : NULL;

    bool raw = i == all->own && !has(all->codec, WRING_CODEC_OWN);

    if (!raw)
        through(all->codec, 0, x, n, residual, sum, add);
    for (uint64_t e = 0; raw && e < n; e++)
        sum[e] = add ? sum[e] + x[e] : x[e];
}

/** sum = the leaves from `first` on, `width` of them: a block of the tree. */
static void sum_block(const struct contributions *all, uint32_t first, uint32_t width, float *sum)
{
    uint64_t n = all->span.end - all->span.begin;
    uint32_t second = first + width / 2, p = wring_test_leaves(all->party->n);

    if (width == 1) {
        contribute(all, first, sum, false);
        if (first + p < all->party->n)
            contribute(all, first + p, sum, true);
        return;
    }
    sum_block(all, first, width / 2, sum);
    if (width == 2 && second + p >= all->party->n) { /* a contribution itself */
        contribute(all, second, sum, true);
        return;
    }
    float *other = malloc((n + 1) * sizeof(*other));
    sum_block(all, second, width / 2, other);
    for (uint64_t e = 0; e < n; e++)
        sum[e] += other[e];
    free(other);
}

/** sum = that of all, each but `own` through the codec; divided if it is an average. */
static void add_up(const struct party *party, const struct wring_codec *codec, enum wring_op op,
                   struct span span, uint32_t own, float *sum)
{
    const struct contributions all = {party, codec, span, own};

    if (party->n > 8)
        sum_block(&all, 0, wring_test_leaves(party->n), sum);
    for (uint32_t i = 0; party->n <= 8 && i < party->n; i++)
        contribute(&all, i, sum, i > 0);
    for (uint64_t e = 0; e < span.end - span.begin; e++)
        sum[e] = one_nan(op == WRING_AVG ? sum[e] / (float)party->divisor : sum[e]);
}

/** Shards, whose sums their owners encode once more. */
static void sharded(const struct party *party, const struct wring_codec *codec, enum wring_op op,
                    struct span span, float *out)
{
    for (uint32_t owner = 0; owner < party->n; owner++) {
        struct span shard = shard_of(span, codec, owner, party->n);
        uint64_t n = shard.end - shard.begin;
        float *sum = malloc((n + 1) * sizeof(*sum));
        float *residual = party->residuals[owner];
        if (n > 0) {
            add_up(party, codec, op, shard, owner, sum);
            through(codec, 1, sum, n, residual != NULL ? residual + shard.begin : NULL,
                    out + shard.begin, false);
        }
        free(sum);
    }
}

static void coded_allreduce(const struct party *party, const struct wring_codec *codec,
                            enum wring_op op, enum wring_scheme scheme, struct span span,
                            float *out)
{
    bool whole = wring_codec_info(codec)->unit == 0;
    bool shards = scheme == WRING_SCHEME_AUTO
                      ? has(codec, WRING_CODEC_TWO_WAYS) || (party->n > 2 && !whole)
                      : scheme == WRING_SCHEME_DIVISIBLE;
    if (span.begin == span.end)
        return;
    if (shards)
        sharded(party, codec, op, span, out);
    else
        add_up(party, codec, op, span, UINT32_MAX, out + span.begin);
}

/** @param out  where the span's elements go */
static void raw_reduce(const struct party *party, enum wring_dtype dtype, enum wring_op op,
                       struct span span, void *out)
{
    enum wring_op by = op == WRING_PREMUL_SUM ? WRING_SUM : op; /* of what is multiplied already */
    const void *sources[PROGRAM_RANKS];
    size_t bytes = wring_dtype_bytes(dtype);
    for (uint32_t i = 0; i < party->n; i++)
        sources[i] = (const uint8_t *)party->inputs[i] + span.begin * bytes;
    wring_test_reduce(dtype, by, sources, party->n, span.end - span.begin, out);
}

/* ---- hierarchically ---- */

struct nodes {
    uint32_t n, each;                               /* nodes; ranks of each */
    uint32_t members[PROGRAM_RANKS][PROGRAM_RANKS]; /* [n][each] index of a member, ascending */
};

/** Nodes in the order of their first members. @return false: they are not as legs need them */
static bool find_nodes(const struct program *p, const struct party *party, struct nodes *out)
{
    uint32_t counts[PROGRAM_RANKS] = {0}, names[PROGRAM_RANKS];

    *out = (struct nodes){0};
    for (uint32_t i = 0; i < party->n; i++) {
        uint32_t at = 0;
        while (at < out->n && names[at] != p->node[party->ranks[i]])
            at++;
        if (at == out->n)
            names[out->n++] = p->node[party->ranks[i]];
        out->members[at][counts[at]++] = i;
    }
    out->each = counts[0];
    for (uint32_t node = 0; node < out->n; node++)
        if (counts[node] != out->each)
            return false;
    return out->n > 1 && out->each > 1;
}

/** Around a ring on which ranks of a node are neighbours. */
static void reduce_around(const struct program *p, const struct party *party,
                          const struct program_bucket *b, void *out)
{
    const void *sources[PROGRAM_RANKS];
    uint32_t n = 0;
    struct nodes nodes;

    find_nodes(p, party, &nodes);
    for (uint32_t node = 0; node < nodes.n; node++)
        for (uint32_t i = 0; i < party->n; i++)
            if (p->node[party->ranks[i]] == p->node[party->ranks[nodes.members[node][0]]])
                sources[n++] = party->inputs[i];
    wring_test_reduce_ring(b->dtype, b->op, sources, n, b->elems, out);
}

/** Between those of one place of all nodes, in rank order. @param sums  [nodes] of each node */
static void between_nodes(const struct party *party, const struct nodes *nodes, uint32_t local,
                          void *const *sums, struct party *out)
{
    *out = (struct party){.n = nodes->n, .divisor = party->n};
    for (uint32_t i = 0; i < nodes->n; i++) {
        uint32_t member = nodes->members[i][local], at = 0;
        for (uint32_t j = 0; j < nodes->n; j++)
            at += nodes->members[j][local] < member;
        out->ranks[at] = party->ranks[member];
        out->inputs[at] = sums[i];
        out->residuals[at] = party->residuals[member];
    }
}

/** An average of those is divided in each node, too: FORMAT.md. */
static bool is_short_float(enum wring_dtype dtype)
{
    return dtype == WRING_F16 || dtype == WRING_BF16;
}

static void one_shard(const struct party *across, const struct program_bucket *b,
                      const struct wring_codec *codec, enum wring_scheme scheme, struct span shard,
                      void *out)
{
    size_t bytes = wring_dtype_bytes(b->dtype);
    bool divides = b->op == WRING_AVG && !is_short_float(b->dtype);

    if (codec != NULL) {
        coded_allreduce(across, codec, b->op, scheme, shard, out);
        return;
    }
    uint8_t *at = (uint8_t *)out + shard.begin * bytes;
    raw_reduce(across, b->dtype, divides ? WRING_SUM : b->op, shard, at);
    if (divides)
        wring_test_divide(b->dtype, at, shard.end - shard.begin, across->divisor);
}

/** @param cut    by whose units slices and shards are cut
 *  @param codec  NULL: raw between nodes */
static void hierarchical(const struct party *party, const struct nodes *nodes,
                         const struct program_bucket *b, const struct wring_codec *cut,
                         const struct wring_codec *codec, enum wring_scheme scheme, void *out)
{
    struct span whole = {0, b->elems};
    enum wring_op in_node = b->op == WRING_AVG && !is_short_float(b->dtype) ? WRING_SUM : b->op;
    uint64_t most = b->elems / SLICE_ELEMS;
    uint32_t slices = most > SLICES_MAX ? SLICES_MAX : most > 1 ? (uint32_t)most : 1;
    void *sums[PROGRAM_RANKS];

    if (wring_codec_info(cut)->unit == 0)
        slices = 1;
    for (uint32_t node = 0; node < nodes->n; node++) {
        struct party in = {.n = nodes->each};
        for (uint32_t i = 0; i < nodes->each; i++)
            in.inputs[i] = party->inputs[nodes->members[node][i]];
        sums[node] = malloc(b->elems * wring_dtype_bytes(b->dtype) + 8);
        raw_reduce(&in, b->dtype, in_node, whole, sums[node]);
    }
    for (uint32_t s = 0; s < slices; s++)
        for (uint32_t local = 0; local < nodes->each; local++) {
            struct span slice = shard_of(whole, cut, s, slices);
            struct party across;
            between_nodes(party, nodes, local, sums, &across);
            one_shard(&across, b, codec, scheme, shard_of(slice, cut, local, nodes->each), out);
        }
    for (uint32_t node = 0; node < nodes->n; node++)
        free(sums[node]);
}

/* ---- items ---- */

static void compare(struct reference *r, const struct program_result *result, uint32_t rank,
                    enum wring_dtype dtype, const void *want, uint64_t elems)
{
    const uint8_t *got = results_at(r->results, result, rank);
    size_t bytes = wring_dtype_bytes(dtype);
    char text[256];
    uint64_t i = 0, wrong = 0, first = 0;

    if (!r->results->items[result->item].done[rank])
        return;
    r->compared++;
    for (i = 0; i < elems; i++)
        if (memcmp(got + i * bytes, (const uint8_t *)want + i * bytes, bytes) != 0 && wrong++ == 0)
            first = i;
    if (wrong == 0)
        return;
    program_name_item(r->p, result->item, text, sizeof(text));
    CHECK(false,
          "item %u, rank %u: %llu of %llu elements are wrong, the first one, %llu, is %La and not "
          "%La: %s",
          result->item, rank, (unsigned long long)wrong, (unsigned long long)elems,
          (unsigned long long)first, wring_test_element(dtype, got, first),
          wring_test_element(dtype, want, first), text);
}

static void make_party(const struct reference *r, uint32_t group, const struct program_phase *phase,
                       const struct program_result *result, enum wring_dtype dtype, uint64_t elems,
                       struct party *party)
{
    *party = (struct party){0};
    party->n = party->divisor = program_members(r->p, group, party->ranks);
    for (uint32_t i = 0; i < party->n; i++) {
        party->inputs[i] = malloc(elems * wring_dtype_bytes(dtype) + 8);
        program_fill(phase, result, party->ranks[i], dtype, elems, party->inputs[i]);
    }
}

static void free_party(struct party *party)
{
    for (uint32_t i = 0; i < party->n; i++)
        free(party->inputs[i]);
}

/** Was the codec left out? All ranks must say the same. */
static bool ran_raw(const struct reference *r, const struct party *party,
                    const struct program_result *result)
{
    const struct results_item *item = &r->results->items[result->item];
    bool raw = false, any = false;
    for (uint32_t i = 0; i < party->n; i++) {
        if (!item->done[party->ranks[i]])
            continue;
        CHECK(!any || raw == item->raw[party->ranks[i]],
              "item %u: ranks leave a codec out, and not", result->item);
        raw = item->raw[party->ranks[i]];
        any = true;
    }
    return raw;
}

static bool all_done(const struct reference *r, const struct party *party,
                     const struct program_result *result)
{
    for (uint32_t i = 0; i < party->n; i++)
        if (!r->results->items[result->item].done[party->ranks[i]])
            return false;
    return true;
}

static void reduce_bucket(struct reference *r, const struct program_bucket *b,
                          const struct bucket_state *state, const struct party *party, bool raw,
                          void *out)
{
    enum wring_scheme scheme = b->scheme != WRING_SCHEME_AUTO ? b->scheme : r->p->scheme;
    bool exact = raw || has(state->codec, WRING_CODEC_EXACT);
    bool legs = wring_scheme_is_hierarchical(scheme) && !has(state->codec, WRING_CODEC_VOTES);
    bool ring = scheme == WRING_SCHEME_RING && has(state->codec, WRING_CODEC_RAW);
    struct nodes nodes;
    struct span whole = {0, b->elems};

    scheme = wring_scheme_across(scheme);
    if (ring && wring_test_goes_around(b->elems, party->n))
        reduce_around(r->p, party, b, out);
    else if (party->n == 1)
        memcpy(out, party->inputs[0], b->elems * wring_dtype_bytes(b->dtype));
    else if (legs && b->elems > 0 && find_nodes(r->p, party, &nodes))
        hierarchical(party, &nodes, b, state->codec, exact ? NULL : state->codec, scheme, out);
    else if (exact)
        raw_reduce(party, b->dtype, b->op, whole, out);
    else
        coded_allreduce(party, state->codec, b->op, scheme, whole, out);
}

static void check_bucket(struct reference *r, const struct program_phase *phase, uint32_t at)
{
    const struct program_result *result = &phase->results[at];
    const struct program_bucket *b = &r->p->buckets[phase->buckets[at]];
    struct bucket_state *state = &r->buckets[phase->buckets[at]];
    struct party party;
    void *out = malloc(b->elems * wring_dtype_bytes(b->dtype) + 8);

    make_party(r, b->group, phase, result, b->dtype, b->elems, &party);
    for (uint32_t i = 0; i < party.n; i++)
        party.residuals[i] = state->residuals[party.ranks[i]];
    r->broken |= !all_done(r, &party, result);
    if (!r->broken || !has(state->codec, WRING_CODEC_FEEDBACK)) {
        reduce_bucket(r, b, state, &party, ran_raw(r, &party, result), out);
        for (uint32_t i = 0; i < party.n; i++)
            compare(r, result, party.ranks[i], b->dtype, out, b->elems);
    }
    free_party(&party);
    free(out);
}

/** What goes from one member to another in an alltoall: elements, and where they begin. */
static struct span part_for(const struct program_call *call, uint32_t from, uint32_t to)
{
    uint64_t begin = 0, n = program_pair_elems(call, from, to);

    switch (call->kind) {
    case PROGRAM_SCATTER:
        begin = call->elems * to;
        break;
    case PROGRAM_ALLTOALL:
    case PROGRAM_ALLTOALLV:
        for (uint32_t i = 0; i < to; i++)
            begin += program_pair_elems(call, from, i);
        break;
    default:
        n = program_run_elems(call, from);
    }
    return (struct span){begin, begin + n};
}

/** Do all members end with the same? */
static bool is_for_all(const struct program_call *call)
{
    return call->kind == PROGRAM_ALLGATHER || call->kind == PROGRAM_ALLGATHERV ||
           call->kind == PROGRAM_BROADCAST;
}

/** The runs of an alltoall that a member ends with. What stays at home is encoded if all get it. */
static void alltoall_runs(const struct program_call *call, const struct party *party,
                          uint32_t member, const struct wring_codec *codec, void *out)
{
    size_t bytes = wring_dtype_bytes(call->dtype);
    bool exact = has(codec, WRING_CODEC_EXACT);
    bool one = call->kind == PROGRAM_BROADCAST || call->kind == PROGRAM_SCATTER;
    uint8_t *to = out;

    if (call->kind == PROGRAM_GATHER && member != call->root)
        return;
    for (uint32_t from = 0; from < party->n; from++) {
        struct span part = part_for(call, from, member);
        uint64_t n = part.end - part.begin;
        const uint8_t *in = (const uint8_t *)party->inputs[from] + part.begin * bytes;
        if (one && from != call->root)
            continue;
        if (exact || party->n == 1 || n == 0 || (from == member && !is_for_all(call)))
            memcpy(to, in, n * bytes);
        else
            through(codec, 0, (const float *)(const void *)in, n, NULL, (float *)(void *)to, false);
        to += n * bytes;
    }
}

/** A member's run of everyone's; its own contribution is not encoded, nor is the sum. */
static void reduce_run(const struct program_call *call, const struct party *party, uint32_t member,
                       const struct wring_codec *codec, void *out)
{
    uint64_t begin = program_run_begin(call, member), n = program_run_elems(call, member);
    struct span run = {begin, begin + n};

    if (party->n == 1) {
        memcpy(out, party->inputs[0], n * wring_dtype_bytes(call->dtype));
    } else if (has(codec, WRING_CODEC_EXACT)) {
        raw_reduce(party, call->dtype, call->op, run, out);
    } else if (n > 0) {
        add_up(party, codec, call->op, run, member, out);
    }
}

static void reduce_all(const struct program_call *call, const struct party *party,
                       const struct wring_codec *codec, void *out)
{
    struct span whole = {0, call->elems};

    if (party->n == 1)
        memcpy(out, party->inputs[0], call->elems * wring_dtype_bytes(call->dtype));
    else if (has(codec, WRING_CODEC_EXACT))
        raw_reduce(party, call->dtype, call->op, whole, out);
    else
        coded_allreduce(party, codec, call->op, WRING_SCHEME_AUTO, whole, out);
}

static void make_call_party(const struct reference *r, const struct program_phase *phase,
                            const struct program_call *call, struct party *party)
{
    *party = (struct party){0};
    party->n = party->divisor = program_members(r->p, call->group, party->ranks);
    for (uint32_t i = 0; i < party->n; i++) {
        uint64_t elems = program_call_in(r->p, call, i);
        party->inputs[i] = malloc(elems * wring_dtype_bytes(call->dtype) + 8);
        program_fill(phase, &call->result, party->ranks[i], call->dtype, elems, party->inputs[i]);
        if (program_premultiplies(call))
            wring_test_scale(call->dtype, party->inputs[i], elems,
                             program_factor(&call->result, i));
    }
}

static bool reduces_all(const struct program_call *call)
{
    return call->kind == PROGRAM_ALLREDUCE || call->kind == PROGRAM_REDUCE;
}

/** Results of members may be of different sizes: room for the largest. */
static uint64_t most_out(const struct reference *r, const struct program_call *call, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t elems = program_call_out(r->p, call, i);
        most = elems > most ? elems : most;
    }
    return most;
}

static void check_call(struct reference *r, const struct program_phase *phase,
                       const struct program_call *call)
{
    struct wring_codec *codec = NULL;
    struct party party;

    CHECK(wring_codec_create(call->codec, "scalar", NULL, NULL, 0, &codec) == WRING_OK, "codec");
    make_call_party(r, phase, call, &party);
    void *out = malloc(most_out(r, call, party.n) * wring_dtype_bytes(call->dtype) + 8);
    for (uint32_t i = 0; i < party.n; i++) {
        if (call->kind == PROGRAM_REDUCE_SCATTER || call->kind == PROGRAM_REDUCE_SCATTERV)
            reduce_run(call, &party, i, codec, out);
        else if (!reduces_all(call))
            alltoall_runs(call, &party, i, codec, out);
        else if (i == 0)
            reduce_all(call, &party, codec, out);
        compare(r, &call->result, party.ranks[i], call->dtype, out,
                program_call_out(r->p, call, i));
    }
    free_party(&party);
    wring_codec_destroy(codec);
    free(out);
}

/** Each message is what its sender sent. */
static void check_message(struct reference *r, const struct program_phase *phase,
                          const struct program_message *m)
{
    uint32_t ranks[PROGRAM_RANKS];
    program_members(r->p, m->group, ranks);
    void *want = malloc(m->bytes + 1);
    program_fill(phase, &m->result, ranks[m->from], WRING_U8, m->bytes, want);
    compare(r, &m->result, ranks[m->to], WRING_U8, want, m->bytes);
    free(want);
}

/** A group is aborted on all its members, or on none. */
static void check_end_of_group(const struct reference *r, const struct program_phase *phase)
{
    const struct results_item *item = &r->results->items[phase->aborted.item];
    uint32_t ranks[PROGRAM_RANKS], n = program_members(r->p, phase->aborted_group, ranks);

    for (uint32_t i = 0; i < n; i++)
        CHECK(!item->done[ranks[i]] || item->gone[ranks[i]] == item->gone[ranks[0]],
              "item %u: group %u is %s on rank %u, and on rank %u otherwise", phase->aborted.item,
              phase->aborted_group, item->gone[ranks[i]] ? "aborted" : "not aborted", ranks[i],
              ranks[0]);
}

/* ---- the program ---- */

static void begin_bucket(struct reference *r, uint32_t index)
{
    const struct program_bucket *b = &r->p->buckets[index];
    struct bucket_state *state = &r->buckets[index];

    CHECK(wring_codec_create(b->codec, "scalar", NULL, NULL, 0, &state->codec) == WRING_OK,
          "codec");
    for (uint32_t rank = 0; rank < r->p->ranks; rank++) {
        state->residuals[rank] = calloc(b->elems + 1, sizeof(float));
        state->saved[rank] = calloc(b->elems + 1, sizeof(float));
    }
}

static void copy_states(struct reference *r, bool save)
{
    for (uint32_t b = 0; b < r->p->n_buckets; b++)
        for (uint32_t rank = 0; rank < r->p->ranks; rank++) {
            struct bucket_state *s = &r->buckets[b];
            size_t bytes = r->p->buckets[b].elems * sizeof(float);
            if (s->codec != NULL)
                memcpy(save ? s->saved[rank] : s->residuals[rank],
                       save ? s->residuals[rank] : s->saved[rank], bytes);
        }
}

static void run_op(struct reference *r, const struct program_op *op)
{
    if (op->kind == PROGRAM_REGISTER)
        begin_bucket(r, op->index);
    if (op->kind == PROGRAM_SAVE || op->kind == PROGRAM_LOAD)
        copy_states(r, op->kind == PROGRAM_SAVE);
    if (op->kind != PROGRAM_PHASE)
        return;
    for (uint32_t b = 0; b < op->phase.n_buckets; b++)
        check_bucket(r, &op->phase, b);
    for (uint32_t c = 0; c < op->phase.n_calls; c++)
        check_call(r, &op->phase, &op->phase.calls[c]);
    for (uint32_t m = 0; m < op->phase.n_messages; m++)
        check_message(r, &op->phase, &op->phase.messages[m]);
    if (op->phase.aborted_group != PROGRAM_NONE)
        check_end_of_group(r, &op->phase);
}

uint32_t reference_check(const struct program *p, const struct results *results)
{
    struct reference r = {.p = p, .results = results};
    unsigned before = wring_test_failures();

    uint64_t saved = wring_fp_enter();
    for (uint32_t i = 0; i < p->n_ops && wring_test_failures() == before; i++)
        run_op(&r, &p->ops[i]);
    wring_fp_leave(saved);
    for (uint32_t b = 0; b < p->n_buckets; b++) {
        wring_codec_destroy(r.buckets[b].codec);
        for (uint32_t rank = 0; rank < p->ranks; rank++) {
            free(r.buckets[b].residuals[rank]);
            free(r.buckets[b].saved[rank]);
        }
    }
    return r.compared;
}
