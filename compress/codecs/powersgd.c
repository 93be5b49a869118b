/* SPDX-License-Identifier: Apache-2.0 */
/**
 * powersgd: the sum of all ranks' matrices, approximated by one of rank 1, 2, 4 or 8.
 *
 * PowerSGD (Vogels and others, arXiv:1905.13727): one step of a power iteration, from where the
 * last one ended. A round sums P = V Q, of which all ranks make orthonormal columns; another sums
 * Q = (the transpose of V) P. The sum is then P times the transpose of Q, which everyone has: codes
 * say nothing. What a rank keeps is V less what P and its own Q say of it. A bucket that is no
 * matrix, or too small a one, is summed as it is, by the first round. Bytes in FORMAT.md,
 * "powersgd".
 */
#include "compress/codec.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/lowrank.h"
#include "compress/root.h"

#define CODE_BYTES 4       /* of a code, which is 0 */
#define POWER_MIN 0x1p-200 /* of a column: a smaller one counts as 0 */
#define POWER_LOST 0x1p-40 /* of a column before: a smaller rest is noise */
#define TAME 0x1p98f /* of a rank's own Q: no number less products of smaller ones is infinite */

enum {
    PARAM_RANK
};

enum {
    STATE_Q,
    STATE_OWN
};

enum {
    ROUND_P,
    ROUND_Q
};

static const struct wring_codec_param params[] = {
    [PARAM_RANK] = {"rank", "1|2|4|8", "of the matrix that approximates a sum", 2, 0, 3, 1},
};

/* ---- what a bucket is ---- */

static unsigned rank_of(const struct wring_codec *codec)
{
    return 1u << (int)codec->params[PARAM_RANK];
}

static bool is_matrix(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    uint64_t rows = context->rows, columns = context->columns;
    return rows > 0 && columns > 0 && context->first == 0 && columns <= context->elems / rows &&
           rows * columns == context->elems &&
           rows + columns <= context->elems / (2 * (uint64_t)rank_of(codec));
}

static struct wring_lowrank_shape shape_of(const struct wring_codec *codec,
                                           const struct wring_codec_context *context)
{
    return (struct wring_lowrank_shape){context->rows, context->columns, rank_of(codec)};
}

static const struct wring_lowrank_kernels *kernels_of(const struct wring_codec *codec)
{
    return ((const struct wring_lowrank_tier *)codec->kernels)->kernels;
}

static enum wring_status powersgd_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_lowrank_tiers, sizeof(wring_lowrank_tiers[0]));
    return WRING_OK;
}

static uint64_t powersgd_unit(const struct wring_codec *codec)
{
    (void)codec;
    return 0;
}

static size_t powersgd_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems > 0 ? CODE_BYTES : 0;
}

/* ---- states ---- */

static uint64_t count_q(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    return is_matrix(codec, context) ? rank_of(codec) * context->columns : 0;
}

static uint64_t count_own(const struct wring_codec *codec,
                          const struct wring_codec_context *context)
{
    return is_matrix(codec, context) ? count_q(codec, context) : context->elems;
}

/** Numbers from -1 to 1 that all ranks draw alike. */
static void draw_numbers(const struct wring_codec_context *context, uint64_t from, float *numbers,
                         uint64_t n)
{
    uint32_t random[64];

    for (uint64_t done = 0; done < n; done += 64) {
        uint64_t now = n - done < 64 ? n - done : 64;
        wring_codec_random(context, WRING_DRAW_SHARED, from + done, random, now);
        for (uint64_t i = 0; i < now; i++)
            numbers[done + i] = (float)(int32_t)random[i] * 0x1p-31f;
    }
}

static void draw_q(const struct wring_codec *codec, const struct wring_codec_context *context,
                   void *state, uint64_t count)
{
    (void)codec;
    draw_numbers(context, 0, state, count);
}

static const struct wring_codec_state states[] = {
    [STATE_Q] = {.name = "q",
                 .doc = "directions that the next step begins with",
                 .holder = WRING_CODEC_SHARED,
                 .dtype = WRING_F32,
                 .count = count_q,
                 .init = draw_q},
    [STATE_OWN] = {.name = "own",
                   .doc = "what the rank added to the second round, or to the first alone",
                   .holder = WRING_CODEC_PRIVATE,
                   .dtype = WRING_F32,
                   .count = count_own},
};

/* ---- rounds ---- */

static void fill_nan(float *numbers, uint64_t n)
{
    wring_codec_fill_nan(numbers, n);
}

static bool are_finite(const float *numbers, uint64_t n)
{
    uint32_t most = 0;

    for (uint64_t i = 0; i < n; i++)
        most = wring_magnitude(numbers[i]) > most ? wring_magnitude(numbers[i]) : most;
    return most < WRING_INF_BITS;
}

static double dot(const float *a, const float *b, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/** a -= factor b */
static void subtract(float *a, const float *b, double factor, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        a[i] = (float)((double)a[i] - factor * (double)b[i]);
}

/** Make its length 1; or 0, if it is too short for that. @return whether it is 1 */
static bool normalise(float *column, double power, uint64_t n)
{
    if (power < POWER_MIN) {
        memset(column, 0, n * sizeof(*column));
        return false;
    }
    double length = (double)wring_root_below(power);
    for (uint64_t i = 0; i < n; i++)
        column[i] = (float)((double)column[i] / length);
    return true;
}

/** Gram and Schmidt's way, column by column. What earlier ones leave nothing of becomes 0. */
static void orthogonalise(float *p, uint64_t rows, unsigned rank)
{
    for (unsigned k = 0; k < rank; k++) {
        float *column = p + k * rows;
        double before = dot(column, column, rows);
        for (unsigned j = 0; j < k; j++)
            subtract(column, p + j * rows, dot(column, p + j * rows, rows), rows);
        double power = dot(column, column, rows);
        normalise(column, power < POWER_LOST * before ? 0 : power, rows);
    }
}

static uint64_t count_p(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    return is_matrix(codec, context) ? rank_of(codec) * context->rows : context->elems;
}

static void begin_p(const struct wring_codec *codec, const struct wring_codec_context *context,
                    const float *src, uint64_t elems, const float *residual, void *statistics,
                    void *scratch)
{
    float *sum = statistics, *own = context->states[STATE_OWN];

    (void)scratch;
    if (is_matrix(codec, context)) {
        kernels_of(codec)->right(sum, src, residual, shape_of(codec, context),
                                 context->states[STATE_Q]);
        return;
    }
    for (uint64_t i = 0; i < elems; i++)
        sum[i] = own[i] = wring_fed(src, residual, i);
}

static void end_p(const struct wring_codec *codec, const struct wring_codec_context *context,
                  void *statistics, uint64_t count)
{
    if (!are_finite(statistics, count))
        fill_nan(statistics, count);
    else if (is_matrix(codec, context))
        orthogonalise(statistics, context->rows, rank_of(codec));
}

static uint64_t count_q_or_one(const struct wring_codec *codec,
                               const struct wring_codec_context *context)
{
    return is_matrix(codec, context) ? count_q(codec, context) : 1;
}

static void begin_q(const struct wring_codec *codec, const struct wring_codec_context *context,
                    const float *src, uint64_t elems, const float *residual, void *statistics,
                    void *scratch)
{
    (void)elems, (void)scratch;
    if (!is_matrix(codec, context))
        return;
    kernels_of(codec)->left(statistics, src, residual, shape_of(codec, context),
                            context->statistics[ROUND_P]);
    memcpy(context->states[STATE_OWN], statistics, count_q(codec, context) * sizeof(float));
}

/** The next step begins with this one's directions; with new ones, where it found none. */
static void end_q(const struct wring_codec *codec, const struct wring_codec_context *context,
                  void *statistics, uint64_t count)
{
    uint64_t n = context->columns;
    float *q = context->states[STATE_Q];

    if (!is_matrix(codec, context))
        return;
    if (!are_finite(statistics, count)) {
        fill_nan(statistics, count);
        return;
    }
    memcpy(q, statistics, count * sizeof(*q));
    for (unsigned k = 0; k < rank_of(codec); k++)
        if (!normalise(q + k * n, dot(q + k * n, q + k * n, n), n))
            draw_numbers(context, k * n, q + k * n, n);
}

static const struct wring_codec_round rounds[] = {
    [ROUND_P] = {.name = "p",
                 .dtype = WRING_F32,
                 .op = WRING_SUM,
                 .count = count_p,
                 .begin = begin_p,
                 .end = end_p},
    [ROUND_Q] = {.name = "q",
                 .dtype = WRING_F32,
                 .op = WRING_SUM,
                 .count = count_q_or_one,
                 .begin = begin_q,
                 .end = end_q},
};

/* ---- codes ---- */

/** Is the sum not a number? */
static bool is_lost(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    const float *last = context->statistics[is_matrix(codec, context) ? ROUND_Q : ROUND_P];
    return context->elems > 0 && wring_magnitude(last[0]) >= WRING_INF_BITS;
}

/** What is not finite would stay, and make all sums NaN. */
static void drop_infinite(float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (wring_magnitude(residual[i]) >= WRING_INF_BITS)
            residual[i] = 0;
}

static void keep_rest(const struct wring_codec *codec, const struct wring_codec_context *context,
                      const float *src, float *residual)
{
    const float *own = context->states[STATE_OWN];

    kernels_of(codec)->keep(residual, src, shape_of(codec, context), context->statistics[ROUND_P],
                            own);
    if (wring_peak(own, NULL, count_q(codec, context)) >= wring_bits_of(TAME))
        drop_infinite(residual, context->elems);
}

static size_t powersgd_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)scratch;
    if (elems == 0)
        return 0;
    wring_put_u32(code, 0);
    if (residual == NULL || is_lost(codec, context))
        return CODE_BYTES;
    if (is_matrix(codec, context))
        keep_rest(codec, context, src, residual);
    else
        memset(residual, 0, elems * sizeof(*residual));
    return CODE_BYTES;
}

static void take_numbers(float *dst, const float *numbers, uint64_t n, bool add)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = add ? dst[i] + numbers[i] : numbers[i];
}

/** A sum; or, on the way in, a rank's own part of it, which that rank alone can decode. */
static enum wring_status powersgd_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    bool own = context->phase == 0;

    if (code_bytes != powersgd_bound(codec, elems) || elems != context->elems)
        return WRING_ERR_FRAME;
    if (elems == 0)
        return WRING_OK;
    if (wring_take_u32(code) != 0 || (own && context->states == NULL))
        return WRING_ERR_FRAME;
    const float *numbers = own ? context->states[STATE_OWN]
                               : context->statistics[is_matrix(codec, context) ? ROUND_Q : ROUND_P];
    if (is_lost(codec, context))
        wring_codec_fill_nan(dst, elems);
    else if (!is_matrix(codec, context))
        take_numbers(dst, numbers, elems, add);
    else
        (add ? kernels_of(codec)->product_add : kernels_of(codec)->product)(
            dst, shape_of(codec, context), context->statistics[ROUND_P], numbers);
    return WRING_OK;
}

static enum wring_status powersgd_sum(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, void *code,
                                      const void *other, size_t code_bytes, uint64_t elems)
{
    (void)context;
    if (code_bytes != powersgd_bound(codec, elems))
        return WRING_ERR_FRAME;
    return elems == 0 || (wring_take_u32(code) == 0 && wring_take_u32(other) == 0)
               ? WRING_OK
               : WRING_ERR_FRAME;
}

const struct wring_codec_ops wring_codec_powersgd = {
    .name = "powersgd",
    .doc = "the sum of matrices as one of low rank, which rounds agree on",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_MATRIX,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = powersgd_init,
    .unit = powersgd_unit,
    .bound = powersgd_bound,
    .encode = powersgd_encode,
    .decode = powersgd_decode,
    .rounds = rounds,
    .n_rounds = sizeof(rounds) / sizeof(rounds[0]),
    .code_sum = powersgd_sum,
    .states = states,
    .n_states = sizeof(states) / sizeof(states[0]),
};
