/* SPDX-License-Identifier: Apache-2.0 */
/** What holds for a code of any length. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tests/lib/codec_trial.h"
#include "tests/lib/test.h"

#define RUNS 31

/** What one tier makes of an input. */
struct made {
    const float *src;     /* [elems] */
    float *before, *left; /* [elems] the residual; NULL: the codec has no feedback */
    unsigned char *code;
    size_t bytes;
    float *out; /* [elems] decoded */
    void *states[WRING_CODEC_STATES_MAX];
};

static size_t float_bytes(const struct codec_trial *trial)
{
    return trial->elems * sizeof(float);
}

static float *copy_floats(const struct codec_trial *trial, const float *data)
{
    return data != NULL ? codec_trial_copy(data, float_bytes(trial)) : NULL;
}

/** Bits of every kind, in runs of one kind and all mixed. */
static void fill_any(float *x, uint64_t n, uint32_t seed)
{
    static const uint32_t tops[] = {0x00000000, 0x80000000, 0x3F800000, 0x3C000000, 0x00400000,
                                    0x7F800000, 0xFFC00000, 0x7F7FFFFF, 0xBF000000, 0x00000001};
    const uint32_t kinds = sizeof(tops) / sizeof(tops[0]);

    for (uint64_t i = 0; i < n; i++) {
        uint32_t run = (uint32_t)(i / 700), random = wring_test_random(&seed);
        uint32_t kind = run % 2 == 0 ? random % kinds : run % kinds;
        uint32_t bits = tops[kind] ^ (run % 4 == 3 ? 0 : wring_test_random(&seed) >> 9);
        memcpy(&x[i], &bits, sizeof(bits));
    }
}

/** What a sum of all ranks' codes comes to at most. */
static void add_ranks(struct codec_trial *trial)
{
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        const struct codec_trial_rank *rank = &trial->ranks[r];
        for (uint64_t i = 0; i < trial->elems && rank->src != NULL && r != TRIAL_ME; i++)
            trial->ranks[TRIAL_ME].src[i] += rank->src[i];
    }
}

static void set_up(struct codec_trial *trial, uint64_t elems, uint32_t phase, bool any)
{
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];

    codec_trial_set_up(trial, elems, 3, phase == 1);
    if (any)
        fill_any(me->src, elems, trial->limits->seed);
    codec_trial_rounds(trial);
    if (phase == 1)
        add_ranks(trial);
    me->context.phase = phase;
}

static bool same_number(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static struct made make(struct codec_trial *trial)
{
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    const float *src = copy_floats(trial, me->src);
    struct made made = {
        .src = me->src, .before = me->residual, .left = copy_floats(trial, me->residual)};

    trial->rule = "bound";
    made.code =
        codec_trial_encode(trial, TRIAL_ME, made.src, 0, trial->elems, made.left, &made.bytes);
    for (size_t s = 0; s < trial->codec->ops->n_states; s++)
        made.states[s] = codec_trial_copy(me->states[s], codec_trial_state_bytes(trial, s));
    const unsigned char *code = codec_trial_copy(made.code, made.bytes);
    made.out = codec_trial_decoded(trial, TRIAL_ME, made.code, made.bytes, 0, trial->elems);
    trial->rule = "stray";
    HOLD(trial, codec_trial_same(src, made.src, float_bytes(trial)), "encode changes its input");
    HOLD(trial, codec_trial_same(code, made.code, made.bytes), "decode changes the code");
    return made;
}

/** Checksums of it, which stay where its memory is free again. */
static struct codec_trial_digest digest(const struct codec_trial *trial, const struct made *made)
{
    struct codec_trial_digest digest = {
        .bytes = made->bytes,
        .code = wring_crc32c_update(&trial->crc, 0, made->code, made->bytes),
        .left = made->left != NULL
                    ? wring_crc32c_update(&trial->crc, 0, made->left, float_bytes(trial))
                    : 0,
        .out = wring_crc32c_update(&trial->crc, 0, made->out, float_bytes(trial)),
    };
    for (size_t s = 0; s < trial->codec->ops->n_states; s++)
        digest.states[s] =
            wring_crc32c_update(&trial->crc, 0, made->states[s], codec_trial_state_bytes(trial, s));
    return digest;
}

static void check_tiers(struct codec_trial *trial, const struct made *made)
{
    struct codec_trial_digest now = digest(trial, made), *scalar = &trial->scalar;

    if (trial->codec == trial->codecs[WRING_CPU_SCALAR])
        *scalar = now;
    trial->rule = "tiers";
    HOLD(trial, now.bytes == scalar->bytes && now.code == scalar->code,
         "the code is another one than by the scalar tier");
    HOLD(trial, now.left == scalar->left, "the residual is another one than by the scalar tier");
    HOLD(trial, now.out == scalar->out, "it decodes to something else than by the scalar tier");
    for (size_t s = 0; s < trial->codec->ops->n_states; s++)
        HOLD(trial, now.states[s] == scalar->states[s],
             "state %s is another one than by the scalar tier", trial->codec->ops->states[s].name);
}

/** Whole units; at most so many runs. */
static uint64_t part_elems(const struct codec_trial *trial)
{
    uint64_t unit = codec_trial_unit(trial);
    return unit * (trial->elems / unit / RUNS + 1);
}

/** From the last run to the first: whole codes are made the other way around. */
static void check_units(struct codec_trial *trial, const struct made *made)
{
    uint64_t step = part_elems(trial),
             at = trial->elems == 0 ? 0 : (trial->elems - 1) / step * step;
    float *left = copy_floats(trial, made->before);
    size_t end = made->bytes;

    trial->rule = "units";
    codec_trial_rewind(trial);
    for (uint64_t n = trial->elems - at; n > 0; n = at > 0 ? step : 0, at -= n) {
        size_t bytes;
        unsigned char *code = codec_trial_encode(trial, TRIAL_ME, made->src + at, at, n,
                                                 left != NULL ? left + at : NULL, &bytes);
        HOLD(trial, bytes <= end && codec_trial_same(made->code + end - bytes, code, bytes),
             "elements %" PRIu64 " to %" PRIu64 " alone have another code", at, at + n);
        end -= bytes;
        const float *out = codec_trial_decoded(trial, TRIAL_ME, code, bytes, at, n);
        HOLD(trial, codec_trial_same(made->out + at, out, n * sizeof(*out)),
             "elements %" PRIu64 " to %" PRIu64 " alone decode to something else", at, at + n);
    }
    HOLD(trial, end == 0, "the code is %zu bytes longer than those of its runs", end);
    HOLD(trial, left == NULL || codec_trial_same(left, made->left, float_bytes(trial)),
         "runs alone leave another residual");
    for (size_t s = 0; s < trial->codec->ops->n_states; s++)
        HOLD(trial,
             codec_trial_same(trial->ranks[TRIAL_ME].states[s], made->states[s],
                              codec_trial_state_bytes(trial, s)),
             "runs alone leave another state %s", trial->codec->ops->states[s].name);
}

static void check_adding(struct codec_trial *trial, const struct made *made)
{
    float *sum = wring_test_gradient(trial->elems, 29), *before = copy_floats(trial, sum);

    trial->rule = "adding";
    HOLD(trial,
         codec_trial_decode(trial, TRIAL_ME, made->code, made->bytes, 0, trial->elems, sum, true) ==
             WRING_OK,
         "a code is refused where it is added");
    for (uint64_t i = 0; i < trial->elems; i++)
        HOLD(trial, same_number(sum[i], before[i] + made->out[i]),
             "element %" PRIu64 ": %a and %a gave %a", i, (double)before[i], (double)made->out[i],
             (double)sum[i]);
}

static void check_exact(struct codec_trial *trial, const struct made *made)
{
    trial->rule = "exact";
    for (uint64_t i = 0; i < trial->elems; i++)
        HOLD(trial, same_number(made->src[i], made->out[i]), "element %" PRIu64 ": %a became %a", i,
             (double)made->src[i], (double)made->out[i]);
}

static void check_feedback(struct codec_trial *trial, const struct made *made)
{
    float *whole = wring_test_guarded(float_bytes(trial));
    size_t bytes;

    trial->rule = "feedback";
    for (uint64_t i = 0; i < trial->elems; i++) {
        whole[i] = made->src[i] + made->before[i];
        HOLD(trial, same_number(made->left[i], whole[i] - made->out[i]),
             "element %" PRIu64 ": %a became %a and left %a", i, (double)whole[i],
             (double)made->out[i], (double)made->left[i]);
    }
    codec_trial_rewind(trial);
    unsigned char *code = codec_trial_encode(trial, TRIAL_ME, whole, 0, trial->elems, NULL, &bytes);
    HOLD(trial, bytes == made->bytes && codec_trial_same(code, made->code, bytes),
         "input and residual are encoded otherwise than their sum");
}

static void check_length(struct codec_trial *trial, const struct made *made)
{
    float *out = wring_test_guarded(float_bytes(trial));
    unsigned char *longer = wring_test_guarded(made->bytes + 1);

    trial->rule = "length";
    memcpy(longer, made->code, made->bytes);
    HOLD(trial,
         codec_trial_decode(trial, TRIAL_ME, longer, made->bytes + 1, 0, trial->elems, out,
                            false) == WRING_ERR_FRAME,
         "a code is taken that is a byte too long");
    for (size_t cut = 1; cut <= made->bytes; cut += 1 + cut / 2) {
        size_t bytes = made->bytes - cut;
        HOLD(trial,
             codec_trial_decode(trial, TRIAL_ME, codec_trial_copy(made->code, bytes), bytes, 0,
                                trial->elems, out, true) == WRING_ERR_FRAME,
             "a code is taken that is %zu bytes too short", cut);
    }
}

void codec_trial_runs(struct codec_trial *trial, uint64_t elems, uint32_t phase, bool any)
{
    bool alters = codec_trial_has(trial, WRING_CODEC_ALTERS);

    set_up(trial, elems, phase, any);
    struct made made = make(trial);
    check_tiers(trial, &made);
    check_units(trial, &made);
    check_adding(trial, &made);
    if (!alters && codec_trial_has(trial, WRING_CODEC_EXACT))
        check_exact(trial, &made);
    else if (!alters)
        check_feedback(trial, &made);
    if (!trial->limits->quick)
        check_length(trial, &made);
}
