/* SPDX-License-Identifier: Apache-2.0 */
/** Values that are not those of gradients, and codes that no encoder made. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tests/lib/codec_trial.h"
#include "tests/lib/test.h"

#define LARGEST 0x1.fffffep127f

static bool is_one_nan(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits == 0x7FC00000;
}

/** The sum of a unit may overflow: then it is as one that was not finite. */
static bool is_lost(const float *out, const float *left, uint64_t at)
{
    return isnan(out[at]) && (left == NULL || left[at] == 0);
}

static void check_constant(struct codec_trial *trial, uint64_t elems, float value)
{
    codec_trial_set_up(trial, elems, 0, false);
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    size_t bytes;

    for (uint64_t i = 0; i < elems; i++)
        me->src[i] = i % 3 == 0 ? -value : value;
    for (uint32_t r = 0; r < TRIAL_RANKS; r++)
        if (trial->ranks[r].residual != NULL)
            memset(trial->ranks[r].residual, 0, elems * sizeof(float));
    codec_trial_rounds(trial);
    unsigned char *code =
        codec_trial_encode(trial, TRIAL_ME, me->src, 0, elems, me->residual, &bytes);
    const float *out = codec_trial_decoded(trial, TRIAL_ME, code, bytes, 0, elems);
    for (uint64_t i = 0; i < elems; i++) {
        float left = me->residual != NULL ? me->residual[i] : 0;
        if (value == LARGEST && is_lost(out, me->residual, i))
            continue;
        HOLD(trial, isfinite(out[i]) && isfinite(left), "%a became %a and left %a",
             (double)me->src[i], (double)out[i], (double)left);
        HOLD(trial, value != 0 || codec_trial_has(trial, WRING_CODEC_UNBIASED) || out[i] == 0,
             "zero became %a", (double)out[i]);
        HOLD(trial, me->src[i] - out[i] == left, "%a became %a and left %a", (double)me->src[i],
             (double)out[i], (double)left);
    }
}

static void check_finite(struct codec_trial *trial, uint64_t elems)
{
    static const float values[] = {0, 0x1p-149f, 0x1p-127f, 0x1p-119f, 0x0.fffp-119f,
                                   1, 0x1p96f,   LARGEST};

    trial->rule = "finite";
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        check_constant(trial, elems, values[i]);
}

/** What rounds find may be of more than a unit: there others may be NaN as well. */
static void check_nan(struct codec_trial *trial, uint64_t elems, uint64_t where, float what,
                      bool in_residual)
{
    codec_trial_set_up(trial, elems, 0, false);
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    uint64_t unit = codec_trial_unit(trial);
    bool strict = trial->codec->ops->n_rounds == 0;
    float *sum = wring_test_gradient(elems, 17);
    size_t bytes;

    (in_residual ? me->residual : me->src)[where] = what;
    const float *before = codec_trial_copy(me->residual, elems * sizeof(float));
    codec_trial_rounds(trial);
    unsigned char *code =
        codec_trial_encode(trial, TRIAL_ME, me->src, 0, elems, me->residual, &bytes);
    const float *out = codec_trial_decoded(trial, TRIAL_ME, code, bytes, 0, elems);
    HOLD(trial, codec_trial_decode(trial, TRIAL_ME, code, bytes, 0, elems, sum, true) == WRING_OK,
         "a code with NaN is refused");
    for (uint64_t i = 0; i < elems; i++) {
        bool hit = i / unit == where / unit, nan = isnan(out[i]);
        HOLD(trial, nan == hit || (nan && !strict),
             "%a at %" PRIu64 ": element %" PRIu64 " became %a", (double)what, where, i,
             (double)out[i]);
        HOLD(trial, !nan || (is_one_nan(out[i]) && isnan(sum[i])),
             "element %" PRIu64 " is another NaN than 0x7FC00000, or gone once added", i);
        HOLD(trial, nan || isfinite(sum[i]), "element %" PRIu64 " is %a once added", i,
             (double)sum[i]);
        HOLD(trial, !nan || codec_trial_same(&me->residual[i], &before[i], sizeof(*before)),
             "element %" PRIu64 ": a unit that is NaN changes its residual", i);
    }
}

static void check_nans(struct codec_trial *trial, uint64_t n)
{
    trial->rule = "nan";
    check_nan(trial, n, 0, NAN, false);
    check_nan(trial, n, n - 1, INFINITY, false);
    check_nan(trial, n, n / 2, -INFINITY, false);
    check_nan(trial, n, n / 3, -NAN, true);
    check_nan(trial, n, n / 3, INFINITY, true);
}

/** @param round  every other one harms the beginning alone, where lengths and marks are */
static void harm(unsigned char *code, size_t bytes, int round, uint32_t *random)
{
    for (uint32_t flips = wring_test_random(random) % 8 + 1; flips > 0; flips--) {
        size_t at = wring_test_random(random) % (round % 2 == 0 ? bytes : (bytes + 7) / 8);
        code[at] = (unsigned char)wring_test_random(random);
    }
}

/** Refused or decoded, and never a step aside. */
static void check_damage(struct codec_trial *trial, uint64_t elems)
{
    uint32_t random = trial->limits->seed + 53;
    float *out = wring_test_guarded(elems * sizeof(*out));
    size_t bytes;

    trial->rule = "damage";
    codec_trial_set_up(trial, elems, 0, false);
    codec_trial_rounds(trial);
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    unsigned char *code =
        codec_trial_encode(trial, TRIAL_ME, me->src, 0, elems, me->residual, &bytes);
    unsigned char *damaged = wring_test_guarded(bytes), *sum = NULL;
    if (trial->codec->ops->code_sum != NULL)
        sum = codec_trial_sum_of_one(trial, code, bytes, 0, elems);
    for (int round = 0; round < 200 && bytes > 0; round++) {
        memcpy(damaged, code, bytes);
        harm(damaged, bytes, round, &random);
        codec_trial_decode(trial, TRIAL_ME, damaged, bytes, 0, elems, out, round % 3 == 0);
        if (sum != NULL)
            codec_trial_sum(trial, sum, damaged, bytes, 0, elems);
    }
}

void codec_trial_values(struct codec_trial *trial, uint64_t elems)
{
    bool alters = codec_trial_has(trial, WRING_CODEC_ALTERS);

    if (!alters)
        check_finite(trial, elems);
    if (!alters && !codec_trial_has(trial, WRING_CODEC_EXACT))
        check_nans(trial, elems);
    check_damage(trial, elems);
}
