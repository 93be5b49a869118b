/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/generate.h"

#include <stdlib.h>
#include <string.h>

#include <wring/codec.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define PROGRAM_BYTES (3u << 20) /* of all results, about */
#define ELEMS_MAX 100000
#define RUN_ELEMS_MAX 20000 /* of a call in which each member has a run */

const char *const generate_configs[] = {"shm", "tcp", "nodes", "verbs", NULL};

/* the first ones go into immediate calls, of these the last two only into allreduces */
#define RUN_CODECS 7
#define CALL_CODECS 9 /* calls of one group may use 8 besides none */
static const char *const codecs[] = {
    "none",
    "lossless:block=64",
    "bf16",
    "fp16",
    "int8:block=64",
    "onebit:block=128",
    "topk:ratio=0.1:block=256",
    "fp16>none",
    "none>int8:block=64",
    "onebit",
    "onebit:block=32:means=2",
    "lossless",
    "bf16+ef",
    "fp16+ef",
    "int8+ef",
    "onebit:block=128+ef",
    "topk:ratio=0.01:select=exact+ef",
    "topk:ratio=0.1:block=256+ef>bf16",
    "none>int8:block=64+ef",
    "onebit+ef>int8",
};

/** What is drawn from, and what the program has so far. */
struct draw {
    uint64_t state;
    struct program *p;
    uint32_t chunk_bytes, flat_bytes;
    bool live[PROGRAM_BUCKETS];      /* registered, not dropped */
    bool committed[PROGRAM_BUCKETS]; /* and of the last commit */
    bool group_there[PROGRAM_GROUPS];
    bool uncommitted; /* something was registered or dropped since */
};

static uint64_t next(struct draw *d)
{
    uint64_t z = d->state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t below(struct draw *d, uint32_t n)
{
    return (uint32_t)(next(d) >> 32) % n;
}

static bool chance(struct draw *d, uint32_t percent)
{
    return below(d, 100) < percent;
}

#define PICK(d, list) ((list)[below(d, COUNT(list))])

static bool is_config(const struct draw *d, const char *name)
{
    return strcmp(d->p->config, name) == 0;
}

/* ---- settings ---- */

static void set(struct draw *d, const char *name, const char *value)
{
    struct program *p = d->p;
    snprintf(p->settings[p->n_settings++], sizeof(p->settings[0]), "%s=%s", name, value);
}

static void draw_nodes(struct draw *d)
{
    struct program *p = d->p;
    uint32_t per_node = 1 + below(d, 3), nodes = 1 + below(d, 3);
    bool even = is_config(d, "nodes") && chance(d, 80);

    if (even && p->ranks > 3)
        p->ranks = p->ranks / 2 * 2;
    if (even && p->ranks >= 4) {
        nodes = p->ranks == 6 && chance(d, 50) ? 3 : 2;
        per_node = p->ranks / nodes;
    }
    for (uint32_t rank = 0; rank < p->ranks; rank++) {
        if (is_config(d, "shm"))
            p->node[rank] = 0;
        else if (even)
            p->node[rank] = rank / per_node % nodes;
        else
            p->node[rank] = below(d, nodes);
    }
    for (uint32_t i = 0; even && chance(d, 30) && i < 3; i++) { /* as many on each, in no order */
        uint32_t a = below(d, p->ranks), b = below(d, p->ranks), node = p->node[a];
        p->node[a] = p->node[b];
        p->node[b] = node;
    }
}

static void draw_provider(struct draw *d)
{
    static const char *const mild[] = {"delay=300us", "rate=4gbit,delay=100us", "jitter=200us",
                                       "rate=2gbit"};
    static const char *const breaks[] = {"disconnect=3e-3", "disconnect=after:5",
                                         "disconnect=after:40", "disconnect=3e-2,rank=0"};
    char fault[48];

    set(d, "WRING_PROVIDER", is_config(d, "nodes") ? "auto" : d->p->config);
    if (d->p->faults && d->p->killed < 0) {
        snprintf(fault, sizeof(fault), "%s,seed=%u", PICK(d, breaks), below(d, 1000));
        set(d, "WRING_FAULT", fault);
    } else if (chance(d, 20)) {
        set(d, "WRING_FAULT", PICK(d, mild));
    }
}

static void draw_scheme(struct draw *d)
{
    static const enum wring_scheme flat[] = {WRING_SCHEME_AUTO, WRING_SCHEME_DIVISIBLE,
                                             WRING_SCHEME_INDIVISIBLE, WRING_SCHEME_RING};
    uint32_t hierarchical = is_config(d, "nodes") ? 50 : 10;

    d->p->scheme = chance(d, hierarchical)
                       ? (enum wring_scheme)(WRING_SCHEME_HIERARCHICAL + below(d, 3))
                   : chance(d, 30) ? PICK(d, flat)
                                   : WRING_SCHEME_AUTO;
    set(d, "WRING_SCHEME", wring_scheme_name(d->p->scheme));
}

static void draw_settings(struct draw *d)
{
    static const char *const chunks[] = {"4096",  "4096",  "4096",  "8192",  "8192",
                                         "16384", "16384", "65536", "262144"};
    static const char *const flats[] = {"8192", "8192", "8192", "0", "512", "65536"};
    static const char *const windows[] = {"2", "3", "4", "8"};
    static const char *const executors[] = {"inline", "inline", "pool:1", "pool:2"};
    static const char *const eagers[] = {"0", "64", "1024"};
    const char *chunk = PICK(d, chunks), *flat = PICK(d, flats);

    d->chunk_bytes = (uint32_t)atoi(chunk);
    d->flat_bytes = (uint32_t)atoi(flat);
    draw_provider(d);
    draw_scheme(d);
    set(d, "WRING_CHUNK_BYTES", chunk);
    set(d, "WRING_FLAT_BYTES", flat);
    set(d, "WRING_WINDOW", PICK(d, windows));
    set(d, "WRING_EXECUTOR", PICK(d, executors));
    set(d, "WRING_PROGRESS", chance(d, 60) ? "thread" : "caller");
    set(d, "WRING_CPU", chance(d, 70) ? "best" : "scalar");
    set(d, "WRING_ROLLBACK", chance(d, 30) ? "on" : "off");
    if (chance(d, 30))
        set(d, "WRING_HEARTBEAT", "10ms");
    if (chance(d, 20))
        set(d, "WRING_SPIN", "0");
    if (chance(d, 30))
        set(d, "WRING_EAGER_BYTES", PICK(d, eagers));
    if (chance(d, 20))
        set(d, "WRING_UNEXPECTED_BYTES", "0");
    if (chance(d, 30))
        set(d, "WRING_CMA", "off");
    d->p->bypasses = chance(d, 15);
    set(d, "WRING_BYPASS", !d->p->bypasses ? "never" : chance(d, 60) ? "auto" : "always");
}

/* ---- operations ---- */

static struct program_op *add_op(struct draw *d, enum program_op_kind kind, uint32_t index)
{
    struct program_op *op = &d->p->ops[d->p->n_ops++];
    op->kind = kind;
    op->index = index;
    return op;
}

static bool has_room(const struct draw *d)
{
    return d->p->n_ops + 2 * PROGRAM_BUCKETS + 12 < PROGRAM_OPS &&
           d->p->result_bytes < PROGRAM_BYTES;
}

static void create_group(struct draw *d)
{
    struct program *p = d->p;
    if (p->n_groups == PROGRAM_GROUPS || p->ranks < 2)
        return;
    uint32_t group = p->n_groups++;
    p->groups[group] = 1 + below(d, (1u << p->ranks) - 1);
    if (chance(d, 25))
        p->groups[group] = (1u << p->ranks) - 1;
    d->group_there[group] = true;
    add_op(d, PROGRAM_CREATE, group);
}

/** Is a bucket of it registered, or not yet gone? */
static bool is_used(const struct draw *d, uint32_t group)
{
    for (uint32_t b = 0; b < d->p->n_buckets; b++)
        if (d->p->buckets[b].group == group && (d->live[b] || d->committed[b]))
            return true;
    return false;
}

static void destroy_group(struct draw *d)
{
    uint32_t group = 1 + below(d, PROGRAM_GROUPS - 1);
    if (group >= d->p->n_groups || !d->group_there[group] || is_used(d, group))
        return;
    d->group_there[group] = false;
    add_op(d, PROGRAM_DESTROY, group);
}

static uint32_t draw_group(struct draw *d)
{
    uint32_t group = chance(d, 50) ? 0 : below(d, d->p->n_groups);
    return d->group_there[group] ? group : 0;
}

/** @param ops  of which operations: with premul_sum, or without */
static const char *draw_codec(struct draw *d, uint32_t n, uint32_t ops, enum wring_dtype *dtype,
                              enum wring_op *op)
{
    const char *codec = chance(d, 35) ? "none" : codecs[below(d, n)];
    *dtype = (enum wring_dtype)below(d, WRING_DTYPES);
    do
        *op = (enum wring_op)below(d, ops);
    while (!wring_op_takes(*op, *dtype));
    if (strcmp(codec, "none") != 0) {
        *dtype = WRING_F32;
        *op = chance(d, 50) ? WRING_SUM : WRING_AVG;
        if (ops == WRING_OPS && chance(d, 15))
            *op = WRING_PREMUL_SUM;
    }
    return codec;
}

/** At the borders of all that cuts or chooses. */
static uint64_t draw_elems(struct draw *d, enum wring_dtype dtype, uint32_t group, uint64_t most)
{
    static const uint32_t units[] = {1, 32, 64, 128, 256, 512, 1024};
    uint32_t bytes = (uint32_t)wring_dtype_bytes(dtype), ranks[PROGRAM_RANKS];
    uint32_t n = program_members(d->p, group, ranks);
    uint64_t at = 0;

    switch (below(d, 8)) {
    case 0:
        at = below(d, 3);
        break;
    case 1:
        at = (uint64_t)PICK(d, units) * (1 + below(d, 8));
        break;
    case 2:
        at = d->flat_bytes / bytes * (chance(d, 70) ? 1 : n == 2 ? 64 : 8);
        break;
    case 3:
        at = (uint64_t)d->chunk_bytes / bytes * (1 + below(d, 4));
        break;
    case 4:
        at = (uint64_t)d->chunk_bytes / bytes * n * (1 + below(d, 3));
        break;
    case 5:
        at = 32 * n * (1 + below(d, 10));
        break;
    case 6:
        at = below(d, 3000);
        break;
    default:
        at = below(d, ELEMS_MAX);
    }
    uint32_t off = below(d, 4);
    at = off == 1 && at > 0 ? at - 1 : off == 2 ? at + 1 : at;
    if (d->p->result_bytes > PROGRAM_BYTES / 2)
        most = most < 3000 ? most : 3000;
    return at <= most ? at : at % most;
}

static bool goes_both_ways(const char *codec)
{
    return strchr(codec, '>') != NULL;
}

static enum wring_scheme draw_bucket_scheme(struct draw *d, const char *codec)
{
    enum wring_scheme scheme =
        chance(d, 50) ? WRING_SCHEME_AUTO : (enum wring_scheme)below(d, WRING_SCHEMES);
    if (scheme == WRING_SCHEME_RING && strcmp(codec, "none") != 0)
        scheme = WRING_SCHEME_AUTO;
    bool set = scheme != WRING_SCHEME_AUTO;
    enum wring_scheme runs = set ? scheme : d->p->scheme;
    if (goes_both_ways(codec) &&
        (runs == WRING_SCHEME_INDIVISIBLE || runs == WRING_SCHEME_HIERARCHICAL_INDIVISIBLE))
        return WRING_SCHEME_DIVISIBLE; /* there is no way back in these */
    return scheme;
}

static void register_bucket(struct draw *d)
{
    struct program *p = d->p;
    if (p->n_buckets == PROGRAM_BUCKETS)
        return;
    uint32_t index = p->n_buckets++;
    struct program_bucket *b = &p->buckets[index];
    snprintf(b->name, sizeof(b->name), "b%u", index);
    b->group = draw_group(d);
    b->codec = draw_codec(d, COUNT(codecs), WRING_PREMUL_SUM, &b->dtype, &b->op);
    while (p->bypasses && strstr(b->codec, "+ef") != NULL)
        b->codec = draw_codec(d, COUNT(codecs), WRING_PREMUL_SUM, &b->dtype, &b->op);
    b->elems = draw_elems(d, b->dtype, b->group, ELEMS_MAX);
    b->scheme = draw_bucket_scheme(d, b->codec);
    b->memory = (enum program_memory)below(d, PROGRAM_MEMORIES);
    b->priority = (int32_t)below(d, 4);
    d->live[index] = true;
    d->uncommitted = true;
    add_op(d, PROGRAM_REGISTER, index);
}

static void drop_bucket(struct draw *d)
{
    uint32_t index = below(d, d->p->n_buckets + 1);
    if (index == d->p->n_buckets || !d->live[index])
        return;
    d->live[index] = false;
    d->uncommitted = true;
    add_op(d, PROGRAM_DROP, index);
}

static void commit(struct draw *d)
{
    add_op(d, PROGRAM_COMMIT, 0);
    memcpy(d->committed, d->live, sizeof(d->committed));
    d->uncommitted = false;
}

static void choose_result(struct draw *d, struct program_result *result, size_t bytes)
{
    result->item = d->p->n_items++;
    result->stride = (bytes + 63) / 64 * 64;
    result->at = d->p->result_bytes;
    d->p->result_bytes += result->stride * d->p->ranks;
}

static void draw_call(struct draw *d, struct program_call *call, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS], n;
    uint64_t most = 0;

    call->kind = (enum program_call_kind)below(d, PROGRAM_CALL_KINDS);
    call->group = group;
    bool sums = call->kind == PROGRAM_ALLREDUCE || call->kind == PROGRAM_REDUCE;
    call->codec =
        draw_codec(d, sums ? CALL_CODECS : RUN_CODECS, WRING_OPS, &call->dtype, &call->op);
    if (call->kind == PROGRAM_BARRIER || call->kind == PROGRAM_ALLTOALLV)
        call->codec = "none";
    call->elems = call->kind == PROGRAM_BARRIER
                      ? 0
                      : draw_elems(d, call->dtype, call->group, sums ? ELEMS_MAX : RUN_ELEMS_MAX);
    n = program_members(d->p, call->group, ranks);
    call->root = below(d, n);
    call->memory = (enum program_memory)below(d, PROGRAM_MEMORIES);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t out = program_call_out(d->p, call, i);
        most = out > most ? out : most;
    }
    choose_result(d, &call->result, most * wring_dtype_bytes(call->dtype));
}

/** Around what leaves at once, and what the pieces of larger ones are. */
static uint64_t draw_bytes(struct draw *d)
{
    static const uint32_t edges[] = {0, 64, 1024, 8192, 65536, 131072};

    switch (below(d, 4)) {
    case 0:
        return below(d, 20);
    case 1:
        return PICK(d, edges) + below(d, 2);
    case 2:
        return below(d, 20000);
    default:
        return below(d, 300000);
    }
}

/** From each to the next, all to one, or anyhow; few tags, so that several messages have one. */
static void draw_messages(struct draw *d, struct program_phase *phase, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS];
    uint32_t n = program_members(d->p, group, ranks), choice = below(d, 3), root = below(d, n);

    phase->n_messages = choice == 0 ? n : 1 + below(d, PROGRAM_MESSAGES);
    for (uint32_t i = 0; i < phase->n_messages; i++) {
        struct program_message *m = &phase->messages[i];
        m->group = group;
        m->from = choice == 0 ? i : below(d, n);
        m->to = choice == 0 ? (i + 1) % n : choice == 1 ? root : below(d, n);
        m->tag = (uint64_t)d->p->n_ops << 32 | below(d, 3);
        m->bytes = draw_bytes(d);
        m->send_memory = (enum program_memory)below(d, PROGRAM_MEMORIES);
        m->receive_memory = (enum program_memory)below(d, PROGRAM_MEMORIES);
        choose_result(d, &m->result, 0);
        m->result.at = d->p->result_bytes; /* one rank's alone */
        d->p->result_bytes += (m->bytes + 63) / 64 * 64;
    }
}

static struct program_phase *add_phase(struct draw *d)
{
    struct program_phase *phase = &add_op(d, PROGRAM_PHASE, 0)->phase;

    phase->aborted_group = PROGRAM_NONE;

    phase->seed = (uint32_t)next(d);
    phase->values =
        chance(d, 85) ? WRING_TEST_PLAIN : (enum wring_test_kind)below(d, WRING_TEST_KINDS);
    for (uint32_t b = 0; b < d->p->n_buckets; b++) {
        const struct program_bucket *bucket = &d->p->buckets[b];
        if (!d->live[b] || !d->committed[b] || !chance(d, 80))
            continue;
        phase->buckets[phase->n_buckets] = b;
        choose_result(d, &phase->results[phase->n_buckets++],
                      bucket->elems * wring_dtype_bytes(bucket->dtype));
    }
    phase->n_calls = chance(d, 60) ? below(d, PROGRAM_CALLS + 1) : 0;
    for (uint32_t c = 0; c < phase->n_calls; c++)
        draw_call(d, &phase->calls[c], draw_group(d));
    phase->blocking = chance(d, 30);
    for (uint32_t c = 0; c < phase->n_calls; c++)
        phase->blocking |= phase->calls[c].kind == PROGRAM_BARRIER;
    if (chance(d, 35))
        draw_messages(d, phase, draw_group(d));
    return phase;
}

/** A group that can be aborted. @return PROGRAM_NONE: there is none */
static uint32_t draw_doomed_group(struct draw *d)
{
    uint32_t ranks[PROGRAM_RANKS], found[PROGRAM_GROUPS], n = 0;

    for (uint32_t group = 1; group < d->p->n_groups; group++)
        if (d->group_there[group] && program_members(d->p, group, ranks) > 1)
            found[n++] = group;
    return n > 0 ? found[below(d, n)] : PROGRAM_NONE;
}

/** Its buckets can only be dropped, and itself destroyed. */
static void end_group(struct draw *d, uint32_t group)
{
    for (uint32_t b = 0; b < d->p->n_buckets; b++) {
        if (!d->live[b] || d->p->buckets[b].group != group)
            continue;
        d->live[b] = false;
        d->uncommitted = true;
        add_op(d, PROGRAM_DROP, b);
    }
    d->group_there[group] = false;
    add_op(d, PROGRAM_DESTROY, group);
}

/** A group is aborted while its calls and buckets, and others, are under way. */
static void add_abort(struct draw *d)
{
    uint32_t group = draw_doomed_group(d), ranks[PROGRAM_RANKS];
    if (group == PROGRAM_NONE)
        create_group(d);
    group = draw_doomed_group(d);
    if (group == PROGRAM_NONE)
        return;
    struct program_phase *phase = add_phase(d);
    phase->aborted_group = group;
    phase->aborter = ranks[below(d, program_members(d->p, group, ranks))];
    phase->cancels = chance(d, 50);
    choose_result(d, &phase->aborted, 0);
    phase->n_calls = 2 + below(d, PROGRAM_CALLS - 1);
    phase->blocking = false;
    for (uint32_t m = 0; m < phase->n_messages; m++) /* sends are refused, too, from then on */
        if (phase->messages[m].group == group)
            phase->n_messages = 0;
    if (phase->n_messages == 0)
        draw_messages(d, phase, 0);
    for (uint32_t c = 0; c < phase->n_calls; c++)
        do
            draw_call(d, &phase->calls[c], c < 2 ? group : draw_group(d));
        while (phase->calls[c].kind == PROGRAM_BARRIER);
    end_group(d, group);
}

/** What comes after was there before: the same buckets, other steps. */
static void save_and_load(struct draw *d)
{
    if (d->uncommitted)
        return;
    add_op(d, PROGRAM_SAVE, 0);
    for (uint32_t i = below(d, 3); i > 0 && has_room(d); i--)
        add_phase(d);
    if (chance(d, 20))
        commit(d);
    add_op(d, PROGRAM_LOAD, 0);
}

static void change_something(struct draw *d)
{
    switch (below(d, d->p->faults ? 6 : 7)) {
    case 0:
        create_group(d);
        break;
    case 1:
        destroy_group(d);
        break;
    case 2:
        register_bucket(d);
        break;
    case 3:
        drop_bucket(d);
        break;
    case 4:
        commit(d);
        break;
    case 5:
        save_and_load(d);
        break;
    default:
        add_abort(d);
    }
}

static void draw_operations(struct draw *d)
{
    for (uint32_t i = below(d, 3); i > 0; i--)
        create_group(d);
    if (chance(d, 20))
        destroy_group(d);
    for (uint32_t i = 1 + below(d, 5); i > 0; i--)
        register_bucket(d);
    commit(d);
    for (uint32_t i = 1 + below(d, 5); i > 0 && has_room(d); i--) {
        for (uint32_t phases = 1 + below(d, 2); phases > 0 && has_room(d); phases--)
            add_phase(d);
        for (uint32_t changes = below(d, 4); changes > 0 && has_room(d); changes--)
            change_something(d);
        if (d->uncommitted && has_room(d) && chance(d, 70))
            commit(d);
    }
    struct program_phase *last = add_phase(d);
    if (!d->p->faults && chance(d, 20))
        add_abort(d);
    else
        last->last = true;
}

void generate_program(struct program *out, uint64_t seed, const char *config, bool faults)
{
    struct draw d = {.state = seed * 0x2545F4914F6CDD1Du + (uint64_t)config[0] + (faults ? 77 : 0),
                     .p = out};

    *out = (struct program){.seed = seed, .config = config, .faults = faults, .killed = -1};
    out->ranks = chance(&d, 10) ? 1 : 2 + below(&d, PROGRAM_RANKS - 1);
    draw_nodes(&d);
    out->processes = chance(&d, is_config(&d, "nodes") ? 25 : 8);
    if (faults && chance(&d, 60) && out->ranks > 1) {
        out->processes = true;
        out->killed = (int32_t)below(&d, out->ranks);
    }
    out->n_groups = 1;
    out->groups[0] = (1u << out->ranks) - 1;
    d.group_there[0] = true;
    draw_settings(&d);
    draw_operations(&d);
    if (out->killed >= 0)
        out->killed_at = below(&d, out->n_ops);
}
