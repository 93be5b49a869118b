/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codec.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/parse.h"
#include "compress/compose.h"
#include "compress/spec.h"

#define ROOM_ALIGN 64 /* sizes are multiples of it */

/* clang-format off */
static const struct wring_codec_ops *const codecs[] = {
    &wring_codec_none,
    &wring_codec_lossless,
    &wring_codec_bf16,
    &wring_codec_fp16,
    &wring_codec_int8,
    &wring_codec_onebit,
    &wring_codec_topk,
    &wring_codec_signsgd,
    &wring_codec_signum,
    &wring_codec_sharedint,
    &wring_codec_randk,
    &wring_codec_union,
    &wring_codec_topkc,
    &wring_codec_dgc,
    &wring_codec_hashed,
    &wring_codec_threshold,
    &wring_codec_thc,
    &wring_codec_qsgd,
    &wring_codec_natural,
    &wring_codec_terngrad,
    &wring_codec_powersgd,
    &wring_codec_int4,
    &wring_codec_int2,
    &wring_codec_bounded,
    &wring_codec_fp8,
    &wring_codec_mxfp8,
    &wring_codec_mxfp4,
    &wring_codec_nvfp4,
    NULL,
};
/* clang-format on */

const struct wring_codec_ops *const *wring_codec_list(void)
{
    return codecs;
}

static enum wring_status set_tier(struct wring_codec *codec, const char *name, char *why,
                                  size_t why_bytes)
{
    if (wring_cpu_tier_parse(name != NULL ? name : "best", &codec->tier))
        return WRING_OK;
    snprintf(why, why_bytes,
             "no kernel tier '%s'; there are scalar, avx2, avx512, vbmi2, neon and best", name);
    return WRING_ERR_INVALID;
}

static size_t round_up(size_t bytes)
{
    return (bytes + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
}

static enum wring_status make_own_memory(struct wring_codec *codec)
{
    size_t bytes = round_up(codec->ops->own_bytes);

    if (bytes == 0)
        return WRING_OK;
    codec->own = aligned_alloc(ROOM_ALIGN, bytes);
    if (codec->own == NULL)
        return WRING_ERR_NO_MEMORY;
    memset(codec->own, 0, bytes);
    return WRING_OK;
}

static enum wring_status make_room(struct wring_codec *codec)
{
    size_t bytes = round_up(codec->ops->scratch_bytes);

    if (bytes == 0)
        return WRING_OK;
    codec->room = aligned_alloc(ROOM_ALIGN, sizeof(*codec->room) + bytes);
    if (codec->room == NULL)
        return WRING_ERR_NO_MEMORY;
    atomic_init(&codec->room->taken, false);
    return WRING_OK;
}

/** The library's codecs have no versions: the wire's is theirs. */
static void name_identity(struct wring_codec *codec)
{
    bool own = codec->base == &codec->read;

    snprintf(codec->identity, sizeof(codec->identity), own ? "%s (version %" PRIu32 ")" : "%s",
             codec->spec, codec->ops->version);
    codec->info.identity = codec->identity;
}

static enum wring_status init_codec(struct wring_codec *codec, char *why, size_t why_bytes)
{
    enum wring_status status = wring_compose_check(codec, why, why_bytes);
    if (status == WRING_OK && codec->ops->init != NULL)
        status = codec->ops->init(codec, why, why_bytes);
    return status;
}

static void describe_codec(struct wring_codec *codec)
{
    codec->info.name = codec->ops->name;
    codec->info.spec = codec->spec;
    name_identity(codec);
    codec->info.tier = wring_cpu_tier_name(codec->tier);
    codec->info.rounds = (unsigned)codec->ops->n_rounds;
    codec->info.states = (unsigned)codec->ops->n_states;
    if (codec->ops->code_sum != NULL)
        codec->info.flags |= WRING_CODEC_SUMMABLE;
}

static enum wring_status set_up_codec(struct wring_codec *codec, const char *spec, const char *tier,
                                      const struct wring_codec_ops *const *own, char *why,
                                      size_t why_bytes)
{
    enum wring_status status = set_tier(codec, tier, why, why_bytes);
    if (status == WRING_OK)
        status = wring_codec_check_own(own, why, why_bytes);
    if (status == WRING_OK)
        status = wring_spec_parse(codec, spec, own, why, why_bytes);
    if (status == WRING_OK)
        status = wring_compose_values(codec, tier, own, why, why_bytes);
    if (status == WRING_OK)
        status = make_own_memory(codec);
    if (status == WRING_OK)
        status = init_codec(codec, why, why_bytes);
    if (status == WRING_OK)
        codec->info.unit = codec->ops->unit(codec);
    if (status == WRING_OK)
        status = wring_compose(codec, why, why_bytes);
    if (status == WRING_OK)
        status = wring_spec_write(codec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    describe_codec(codec);
    return make_room(codec);
}

enum wring_status wring_codec_create_way(const char *spec, const char *tier,
                                         const struct wring_codec_ops *const *own, bool returns,
                                         char *why, size_t why_bytes, struct wring_codec **out)
{
    struct wring_codec *codec = calloc(1, sizeof(*codec));
    if (codec == NULL) {
        snprintf(why, why_bytes, "%s", wring_status_text(WRING_ERR_NO_MEMORY));
        return WRING_ERR_NO_MEMORY;
    }

    codec->returns = returns;
    enum wring_status status = set_up_codec(codec, spec, tier, own, why, why_bytes);
    if (status != WRING_OK) {
        wring_codec_destroy(codec);
        return status;
    }
    *out = codec;
    return WRING_OK;
}

/** Shards and chunks begin at units of the codec. */
static enum wring_status check_way_back(const struct wring_codec *codec, char *why,
                                        size_t why_bytes)
{
    const struct wring_codec *back = codec->ways[1];
    uint64_t unit = codec->info.unit, other = back->info.unit;
    bool same = strcmp(back->ops->name, codec->ops->name) == 0;
    bool fits = unit == other || (unit != 0 && other != 0 && unit % other == 0);

    if (fits && (same || (back->info.rounds == 0 && back->info.states == 0)))
        return WRING_OK;
    snprintf(why, why_bytes,
             "%s: its way back, %s, needs a unit that divides %" PRIu64 ", no rounds and no state",
             codec->spec, back->spec, unit);
    return WRING_ERR_INVALID;
}

/** Add the way back that the codec's table names, if it does. */
static enum wring_status add_way_back(struct wring_codec *codec, const char *tier,
                                      const struct wring_codec_ops *const *own, char *why,
                                      size_t why_bytes)
{
    char spec[WRING_CODEC_SPEC_MAX];

    if (codec->ops->way_back == NULL)
        return WRING_OK;
    codec->ops->way_back(codec, spec);
    enum wring_status status =
        wring_codec_create_way(spec, tier, own, true, why, why_bytes, &codec->ways[1]);
    if (status == WRING_OK)
        status = check_way_back(codec, why, why_bytes);
    if (status == WRING_OK && strcmp(codec->ways[1]->ops->name, codec->ops->name) != 0)
        codec->info.flags &= ~(unsigned)WRING_CODEC_FIXED; /* its bound is that of both ways */
    return status;
}

enum wring_status wring_codec_create(const char *spec, const char *tier,
                                     const struct wring_codec_ops *const *own, char *why,
                                     size_t why_bytes, struct wring_codec **out)
{
    struct wring_codec *codec = NULL;

    if (why == NULL)
        why_bytes = 0;
    uint64_t mode = wring_fp_enter();
    enum wring_status status =
        strchr(spec, '>') != NULL
            ? wring_pair_create(spec, tier, own, why, why_bytes, &codec)
            : wring_codec_create_way(spec, tier, own, false, why, why_bytes, &codec);
    if (status == WRING_OK)
        status = add_way_back(codec, tier, own, why, why_bytes);
    if (status == WRING_OK)
        status = wring_compose_ways(codec, why, why_bytes);
    wring_fp_leave(mode);
    if (status == WRING_OK)
        *out = codec;
    else
        wring_codec_destroy(codec);
    return status;
}

void wring_codec_destroy(struct wring_codec *codec)
{
    if (codec == NULL)
        return;
    wring_pair_finish(codec);
    wring_codec_destroy(codec->values);
    free(codec->room);
    free(codec->own);
    free(codec);
}

const struct wring_codec *wring_codec_way(const struct wring_codec *codec, uint32_t phase)
{
    const struct wring_codec *way = codec->ways[phase == 0 ? 0 : 1];
    return way != NULL ? way : codec;
}

const struct wring_codec_info *wring_codec_info(const struct wring_codec *codec)
{
    return &codec->info;
}

double wring_codec_param(const struct wring_codec *codec, size_t index)
{
    return codec->params[index];
}

void *wring_codec_own(const struct wring_codec *codec)
{
    return codec->own;
}

size_t wring_codec_bound(const struct wring_codec *codec, uint64_t elems)
{
    size_t in = codec->ops->bound(codec, elems);
    size_t back = codec->ways[1] != NULL ? wring_codec_bound(codec->ways[1], elems) : 0;

    return in > back ? in : back;
}

size_t wring_codec_piece_bytes(const struct wring_codec *codec, uint64_t elems)
{
    size_t code = wring_codec_bound(codec, elems);
    size_t sum = codec->ops->sum_bound != NULL ? codec->ops->sum_bound(codec, elems) : 0;

    return code > sum ? code : sum;
}

/** Another thread encodes by this codec. @return NULL: there is no memory */
static void *allocate_scratch(void)
{
    return aligned_alloc(ROOM_ALIGN, WRING_CODEC_ROOM_MAX);
}

/** An encode ends, whatever else happens. */
static void wait_for_room(struct wring_codec_room *room)
{
    while (atomic_exchange_explicit(&room->taken, true, memory_order_acquire))
        sched_yield();
}

size_t wring_codec_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code)
{
    codec = wring_codec_way(codec, context->phase);
    struct wring_codec_room *room = codec->room;
    void *scratch = NULL, *more = NULL;

    if (room != NULL && !atomic_exchange_explicit(&room->taken, true, memory_order_acquire))
        scratch = room->bytes;
    else if (room != NULL)
        scratch = more = allocate_scratch();
    if (room != NULL && scratch == NULL) {
        wait_for_room(room);
        scratch = room->bytes;
    }
    size_t bytes = codec->ops->encode(codec, context, src, elems, residual, code, scratch);
    if (room != NULL && more == NULL)
        atomic_store_explicit(&room->taken, false, memory_order_release);
    free(more);
    return bytes;
}

size_t wring_codec_encode_in(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch)
{
    if (scratch == NULL)
        return wring_codec_encode(codec, context, src, elems, residual, code);
    codec = wring_codec_way(codec, context->phase);
    return codec->ops->encode(codec, context, src, elems, residual, code, scratch);
}

enum wring_status wring_codec_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    codec = wring_codec_way(codec, context->phase);
    return codec->ops->decode(codec, context, code, code_bytes, dst, elems, add);
}

void wring_codec_take_kernels(struct wring_codec *codec, const void *tiers, size_t entry_bytes)
{
    codec->kernels = wring_kernels_pick(tiers, entry_bytes, codec->tier);
    codec->tier = ((const struct wring_kernel_tier *)codec->kernels)->tier;
}

void wring_codec_fill_nan(float *dst, uint64_t elems)
{
    const uint32_t bits = WRING_NAN_BITS;
    for (uint64_t i = 0; i < elems; i++)
        memcpy(&dst[i], &bits, sizeof(bits));
}

/* ---- own ---- */

#define STRUCT_BYTES_MAX 4096 /* more is no size but memory that was not set */
#define FIRST_BYTES (offsetof(struct wring_codec_ops, decode) + sizeof(void (*)(void)))
#define FLAGS                                                                            \
    (WRING_CODEC_UNBIASED | WRING_CODEC_FIXED | WRING_CODEC_EXACT | WRING_CODEC_ALTERS | \
     WRING_CODEC_OWN | WRING_CODEC_MATRIX | WRING_CODEC_VOTES)

bool wring_own_read(const struct wring_codec_ops *theirs, struct wring_codec_ops *out)
{
    const unsigned char *entries = (const unsigned char *)theirs;
    size_t bytes = theirs->struct_bytes;

    if (bytes < FIRST_BYTES || bytes > STRUCT_BYTES_MAX)
        return false;
    memset(out, 0, sizeof(*out));
    memcpy(out, theirs, bytes < sizeof(*out) ? bytes : sizeof(*out));
    for (size_t i = sizeof(*out); i < bytes; i++)
        if (entries[i] != 0)
            return false;
    return true;
}

/** Where to say what is wrong with the codec in that place of the list. */
struct complaint {
    char *why;
    size_t why_bytes;
    size_t index;
    const char *name; /* NULL: it has none that could be said */
};

__attribute__((format(printf, 2, 3))) static enum wring_status complain(
    const struct complaint *complaint, const char *format, ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    wring_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    if (complaint->name != NULL)
        snprintf(complaint->why, complaint->why_bytes, "own codec '%s': %s", complaint->name, text);
    else
        snprintf(complaint->why, complaint->why_bytes, "own codec %zu: %s", complaint->index, text);
    return WRING_ERR_INVALID;
}

static bool is_valid_name(const char *name)
{
    size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return name[0] >= 'a' && name[0] <= 'z' && name[bytes] == '\0' && bytes < WRING_CODEC_NAME_MAX;
}

static bool is_name_in(const struct wring_codec_ops *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n && list[i] != NULL; i++)
        if (strcmp(list[i]->name, name) == 0)
            return true;
    return false;
}

static enum wring_status check_param(const struct complaint *complaint,
                                     const struct wring_codec_param *param)
{
    if (param->name == NULL || !is_valid_name(param->name) || param->doc == NULL)
        return complain(complaint,
                        "each parameter needs a doc and a name of [a-z][a-z0-9_-]*, of "
                        "%d bytes at most",
                        WRING_CODEC_NAME_MAX - 1);
    if (param->words == NULL && !(param->min >= 0 && param->min <= param->fallback &&
                                  param->fallback <= param->max && param->multiple_of >= 0))
        return complain(complaint, "parameter %s: needs 0 <= min <= fallback <= max", param->name);
    return WRING_OK;
}

static enum wring_status check_params(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    enum wring_status status = WRING_OK;

    if (ops->n_params > WRING_CODEC_PARAMS_MAX || (ops->n_params > 0 && ops->params == NULL))
        return complain(complaint, "params and n_params: needs at most %d of them",
                        WRING_CODEC_PARAMS_MAX);
    for (size_t i = 0; i < ops->n_params && status == WRING_OK; i++)
        status = check_param(complaint, &ops->params[i]);
    return status;
}

static bool is_valid_round(const struct wring_codec_round *round)
{
    bool type = round->dtype == WRING_F32 || round->dtype == WRING_F64 ||
                round->dtype == WRING_I32 || round->dtype == WRING_I64;
    bool op = round->op == WRING_SUM || round->op == WRING_MIN || round->op == WRING_MAX;
    return round->name != NULL && type && op && round->count != NULL && round->begin != NULL;
}

static enum wring_status check_rounds(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    if (ops->n_rounds > WRING_CODEC_ROUNDS_MAX || (ops->n_rounds > 0 && ops->rounds == NULL))
        return complain(complaint, "rounds and n_rounds: needs at most %d of them",
                        WRING_CODEC_ROUNDS_MAX);
    for (size_t i = 0; i < ops->n_rounds; i++)
        if (!is_valid_round(&ops->rounds[i]))
            return complain(complaint,
                            "round %zu: needs a name, count, begin, f32, f64, i32 or "
                            "i64, and sum, min or max",
                            i);
    if (ops->code_sum != NULL && !(ops->flags & WRING_CODEC_FIXED))
        return complain(complaint, "code_sum: needs FIXED, codes of the size that bound says");
    if (ops->sum_bound != NULL && ops->code_sum == NULL)
        return complain(complaint, "sum_bound: needs code_sum, whose sums it is about");
    if (ops->sum_end != NULL && ops->sum_bound == NULL)
        return complain(complaint, "sum_end: needs sum_bound");
    return WRING_OK;
}

static enum wring_status check_states(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    if (ops->n_states > WRING_CODEC_STATES_MAX || (ops->n_states > 0 && ops->states == NULL))
        return complain(complaint, "states and n_states: needs at most %d of them",
                        WRING_CODEC_STATES_MAX);
    for (size_t i = 0; i < ops->n_states; i++) {
        const struct wring_codec_state *state = &ops->states[i];
        if (state->name == NULL || !is_valid_name(state->name) || state->doc == NULL ||
            wring_dtype_bytes(state->dtype) == 0)
            return complain(complaint,
                            "state %zu: needs a doc, a type and a name of "
                            "[a-z][a-z0-9_-]*",
                            i);
        if ((unsigned)state->holder > WRING_CODEC_SHARED ||
            (state->holder == WRING_CODEC_OWNER && state->count != NULL))
            return complain(complaint,
                            "state %s: an owner has one number for each element, and "
                            "no count",
                            state->name);
    }
    return WRING_OK;
}

static enum wring_status check_table(struct complaint *complaint,
                                     const struct wring_codec_ops *theirs)
{
    struct wring_codec_ops ops;

    if (!wring_own_read(theirs, &ops))
        return complain(complaint,
                        "struct_bytes is %zu, or an entry is set that this release lacks: set it "
                        "to sizeof(struct wring_codec_ops), which is %zu here",
                        theirs->struct_bytes, sizeof(ops));
    if (ops.name == NULL || !is_valid_name(ops.name) || ops.doc == NULL)
        return complain(complaint,
                        "needs a doc and a name of [a-z][a-z0-9_-]*, of %d bytes at most",
                        WRING_CODEC_NAME_MAX - 1);
    complaint->name = ops.name;
    if (ops.unit == NULL || ops.bound == NULL || ops.encode == NULL || ops.decode == NULL)
        return complain(complaint, "needs unit, bound, encode and decode");
    if (ops.flags & ~(unsigned)FLAGS)
        return complain(
            complaint,
            "flags may be UNBIASED, FIXED, EXACT, ALTERS, OWN, MATRIX and VOTES, not %#x",
            ops.flags);
    if ((ops.encode16 == NULL) != (ops.decode16 == NULL) ||
        (ops.encode16 != NULL &&
         (!(ops.flags & WRING_CODEC_EXACT) || ops.flags & WRING_CODEC_FIXED)))
        return complain(complaint, "needs both of encode16 and decode16 or none of them, and with "
                                   "them to be EXACT and not FIXED");
    if (ops.scratch_bytes > WRING_CODEC_SCRATCH_MAX || ops.own_bytes > WRING_CODEC_OWN_MAX)
        return complain(complaint,
                        "needs scratch_bytes of at most %zu and own_bytes of at most %zu",
                        WRING_CODEC_SCRATCH_MAX, WRING_CODEC_OWN_MAX);
    enum wring_status status = check_params(complaint, &ops);
    if (status == WRING_OK)
        status = check_rounds(complaint, &ops);
    return status == WRING_OK ? check_states(complaint, &ops) : status;
}

enum wring_status wring_codec_check_own(const struct wring_codec_ops *const *own, char *why,
                                        size_t why_bytes)
{
    enum wring_status status = WRING_OK;

    for (size_t i = 0; own != NULL && own[i] != NULL && status == WRING_OK; i++) {
        struct complaint complaint = {why, why != NULL ? why_bytes : 0, i, NULL};
        status = check_table(&complaint, own[i]);
        if (status == WRING_OK && (is_name_in(wring_codec_list(), SIZE_MAX, complaint.name) ||
                                   is_name_in(own, i, complaint.name)))
            status = complain(&complaint, "another codec has that name: choose a new one");
    }
    return status;
}
