/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks together, steps one after the other, and codecs as jobs run them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compress/job.h"
#include "compress/kernels/reduce.h"
#include "tests/lib/codec_trial.h"
#include "tests/lib/odd_mode.h"
#include "tests/lib/test.h"

#define STEPS 3
#define PART 129  /* units */
#define NEAR 1e-5 /* of a sum of float32 */
#define TINY 0x1p-128f

static size_t float_bytes(const struct codec_trial *trial)
{
    return trial->elems * sizeof(float);
}

/** Another object of the codec, to be tried now. */
static void take_other(struct codec_trial *trial)
{
    const char *tier = wring_codec_info(trial->codec)->tier;
    struct wring_codec *made = NULL;

    HOLD(trial, wring_codec_create(trial->spec, tier, trial->own, NULL, 0, &made) == WRING_OK,
         "the codec cannot be made once more");
    wring_codec_destroy(trial->other);
    trial->codec = trial->other = made;
}

/* ---- rounds ---- */

/** A run after the other, from what a round begins with. */
static void *begin_by_runs(struct codec_trial *trial, const struct wring_job *whole)
{
    uint64_t step = codec_trial_unit(trial) * PART;
    size_t bytes = codec_trial_statistics_bytes(trial, TRIAL_ME, whole->round);
    struct wring_job run = *whole;

    run.dst = wring_test_guarded(bytes);
    wring_round_fill(&run);
    for (uint64_t at = 0; at < trial->elems; at += step) {
        uint64_t left = trial->elems - at;
        run.context.element = at;
        run.src = (const float *)whole->src + at;
        run.residual = whole->residual != NULL ? whole->residual + at : NULL;
        run.elems = left < step ? left : step;
        codec_trial_fold(trial, TRIAL_ME, &run, bytes);
    }
    return run.dst;
}

static void check_round(struct codec_trial *trial, size_t round)
{
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    const char *name = trial->codec->ops->rounds[round].name;
    size_t bytes = codec_trial_statistics_bytes(trial, TRIAL_ME, round);

    for (uint32_t r = 0; r < TRIAL_RANKS; r++)
        HOLD(trial,
             codec_trial_statistics_bytes(trial, r, round) == bytes &&
                 codec_trial_same(trial->ranks[r].statistics[round], me->statistics[round], bytes),
             "round %s comes to something else on another rank", name);
    struct wring_job job = {.kind = WRING_JOB_ROUND_BEGIN,
                            .codec_out = trial->codec,
                            .round = (uint32_t)round,
                            .elems = trial->elems,
                            .src = me->src,
                            .residual = me->residual,
                            .context = me->context,
                            .dst = wring_test_guarded(bytes)};
    codec_trial_job(trial, TRIAL_ME, &job, "statistics", bytes);
    codec_trial_rewind(trial);
    HOLD(trial, codec_trial_same(begin_by_runs(trial, &job), job.dst, bytes),
         "round %s finds something else run by run", name);
    codec_trial_rewind(trial);
}

static void check_rounds(struct codec_trial *trial, uint64_t elems)
{
    trial->rule = "rounds";
    codec_trial_set_up(trial, elems, 0, true);
    codec_trial_rounds(trial);
    const float *src = codec_trial_copy(trial->ranks[TRIAL_ME].src, float_bytes(trial));
    for (size_t round = 0; round < trial->codec->ops->n_rounds; round++)
        check_round(trial, round);
    HOLD(trial, codec_trial_same(src, trial->ranks[TRIAL_ME].src, float_bytes(trial)),
         "a round changes its input");
}

/* ---- codes that add up ---- */

struct codes {
    unsigned char *code[TRIAL_RANKS];
    size_t bytes;
};

static struct codes encode_all(struct codec_trial *trial)
{
    struct codes codes;

    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        codes.code[r] =
            codec_trial_encode(trial, r, rank->src, 0, trial->elems, rank->residual, &codes.bytes);
    }
    return codes;
}

/** To what the first one has, the others are added. */
static unsigned char *sum_in_order(struct codec_trial *trial, const struct codes *codes,
                                   const uint32_t *order)
{
    unsigned char *sum =
        codec_trial_sum_of_one(trial, codes->code[order[0]], codes->bytes, 0, trial->elems);

    for (uint32_t i = 1; i < TRIAL_RANKS; i++)
        HOLD(trial,
             codec_trial_sum(trial, sum, codes->code[order[i]], codes->bytes, 0, trial->elems) ==
                 WRING_OK,
             "codes of %d ranks do not add up", TRIAL_RANKS);
    return sum;
}

/** The first one's, and the sum of the two others. */
static unsigned char *sum_of_two(struct codec_trial *trial, const struct codes *codes)
{
    unsigned char *sum = codec_trial_copy(codes->code[0], codes->bytes);
    unsigned char *two = codec_trial_copy(codes->code[1], codes->bytes);

    HOLD(trial,
         codec_trial_sum(trial, two, codes->code[2], codes->bytes, 0, trial->elems) == WRING_OK &&
             codec_trial_sum(trial, sum, two, codes->bytes, 0, trial->elems) == WRING_OK,
         "a code and a sum do not add up");
    return sum;
}

/** A sum as it goes back. */
struct ended {
    unsigned char *sum;
    size_t bytes;
    uint64_t cut; /* numbers */
};

static struct ended end_sum(struct codec_trial *trial, const unsigned char *sum, uint64_t at,
                            uint64_t n)
{
    struct ended ended = {.sum = codec_trial_copy(sum, codec_trial_sum_bytes(trial, n))};
    ended.bytes = codec_trial_sum_end(trial, ended.sum, at, n, &ended.cut);
    return ended;
}

/** What the sum stands for, unless some of it is cut off. */
static void check_sum(struct codec_trial *trial, const struct codes *codes,
                      const struct ended *ended)
{
    const float *out[TRIAL_RANKS];

    for (uint32_t r = 0; r < TRIAL_RANKS; r++)
        out[r] = codec_trial_decoded(trial, r, codes->code[r], codes->bytes, 0, trial->elems);
    trial->ranks[TRIAL_ME].context.phase = 1;
    const float *of_sum =
        codec_trial_decoded(trial, TRIAL_ME, ended->sum, ended->bytes, 0, trial->elems);
    trial->ranks[TRIAL_ME].context.phase = 0;
    for (uint64_t i = 0; i < trial->elems; i++) {
        double want = 0, size = 0;
        for (uint32_t r = 0; r < TRIAL_RANKS; r++)
            want += (double)out[r][i], size += fabs((double)out[r][i]);
        HOLD(trial, ended->cut > 0 || fabs((double)of_sum[i] - want) <= size * NEAR,
             "element %" PRIu64 ": codes of %a together decode to %a", i, want, (double)of_sum[i]);
    }
}

/** Runs are added by themselves. */
static void check_sum_of_runs(struct codec_trial *trial, const struct codes *codes,
                              const unsigned char *sum, const struct ended *whole)
{
    uint64_t step = codec_trial_unit(trial) * PART, cut = 0;
    size_t back = 0;
    const uint32_t *order = (const uint32_t[]){0, 1, 2};

    for (uint64_t at = 0; at < trial->elems; at += step) {
        uint64_t n = trial->elems - at < step ? trial->elems - at : step;
        size_t from = wring_codec_bound(trial->codec, at),
               bytes = wring_codec_bound(trial->codec, n);
        unsigned char *run = codec_trial_sum_of_one(
            trial, codec_trial_copy(codes->code[order[0]] + from, bytes), bytes, at, n);
        for (uint32_t i = 1; i < TRIAL_RANKS; i++)
            HOLD(trial,
                 codec_trial_sum(trial, run, codec_trial_copy(codes->code[order[i]] + from, bytes),
                                 bytes, at, n) == WRING_OK,
                 "codes of a run do not add up");
        HOLD(trial,
             codec_trial_same(run, sum + codec_trial_sum_bytes(trial, at),
                              codec_trial_sum_bytes(trial, n)),
             "codes of elements %" PRIu64 " to %" PRIu64 " alone have another sum", at, at + n);
        struct ended part = end_sum(trial, run, at, n);
        HOLD(trial,
             back + part.bytes <= whole->bytes &&
                 codec_trial_same(part.sum, whole->sum + back, part.bytes),
             "the sum of elements %" PRIu64 " to %" PRIu64 " alone ends otherwise", at, at + n);
        back += part.bytes, cut += part.cut;
    }
    HOLD(trial, back == whole->bytes && cut == whole->cut,
         "sums of runs end with %zu bytes and %" PRIu64 " numbers cut off, not %zu and %" PRIu64,
         back, cut, whole->bytes, whole->cut);
}

static void check_sums(struct codec_trial *trial, uint64_t elems)
{
    static const uint32_t orders[][TRIAL_RANKS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    if (trial->codec->ops->code_sum == NULL)
        return;
    trial->rule = "sums";
    codec_trial_set_up(trial, elems, 0, true);
    codec_trial_rounds(trial);
    struct codes codes = encode_all(trial);
    size_t bytes = codec_trial_sum_bytes(trial, elems);
    unsigned char *sum = sum_in_order(trial, &codes, orders[0]);
    for (size_t i = 1; i < sizeof(orders) / sizeof(orders[0]); i++)
        HOLD(trial, codec_trial_same(sum, sum_in_order(trial, &codes, orders[i]), bytes),
             "another order of codes has another sum");
    HOLD(trial,
         trial->codec->ops->sum_bound != NULL ||
             codec_trial_same(sum, sum_of_two(trial, &codes), bytes),
         "a code and the sum of two others have another sum than the three");
    struct ended ended = end_sum(trial, sum, 0, elems);
    check_sum(trial, &codes, &ended);
    check_sum_of_runs(trial, &codes, sum, &ended);
    if (codes.bytes > 0)
        HOLD(trial,
             codec_trial_sum(trial, codec_trial_copy(sum, bytes),
                             codec_trial_copy(codes.code[0], codes.bytes - 1), codes.bytes - 1, 0,
                             elems) == WRING_ERR_FRAME,
             "code_sum takes codes that are a byte too short");
}

/* ---- steps ---- */

/** What a bucket keeps, and what its ranks and an owner made of a step. */
struct step {
    struct {
        float *residual;
        void *states[WRING_CODEC_STATES_MAX];
    } kept[TRIAL_RANKS];
    struct codes codes;
    unsigned char *back;
    size_t bytes[TRIAL_RANKS], back_bytes;
};

/** What was kept goes into new memory. */
static void load(struct codec_trial *trial, const struct step *from)
{
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        if (rank->residual != NULL)
            rank->residual = codec_trial_copy(from->kept[r].residual, float_bytes(trial));
        for (size_t s = 0; s < trial->codec->ops->n_states; s++)
            rank->states[s] =
                codec_trial_state(from->kept[r].states[s], codec_trial_state_bytes(trial, s));
    }
}

static void save(struct codec_trial *trial, struct step *to)
{
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        const struct codec_trial_rank *rank = &trial->ranks[r];
        if (rank->residual != NULL)
            to->kept[r].residual = codec_trial_copy(rank->residual, float_bytes(trial));
        for (size_t s = 0; s < trial->codec->ops->n_states; s++)
            to->kept[r].states[s] =
                codec_trial_copy(rank->states[s], codec_trial_state_bytes(trial, s));
    }
}

static void check_shared(struct codec_trial *trial)
{
    for (size_t s = 0; s < trial->codec->ops->n_states; s++) {
        const struct wring_codec_state *what = &trial->codec->ops->states[s];
        for (uint32_t r = 0; r < TRIAL_RANKS && what->holder == WRING_CODEC_SHARED; r++)
            HOLD(trial,
                 codec_trial_same(trial->ranks[r].states[s], trial->ranks[TRIAL_ME].states[s],
                                  codec_trial_state_bytes(trial, s)),
                 "shared state %s differs between ranks", what->name);
    }
}

/** The owner's code of what contributions decode to. */
static void send_back(struct codec_trial *trial, const float *sum, struct step *step)
{
    trial->ranks[TRIAL_ME].context.phase = 1;
    step->back = codec_trial_encode(trial, TRIAL_ME, sum, 0, trial->elems, NULL, &step->back_bytes);
    codec_trial_decoded(trial, TRIAL_ME, step->back, step->back_bytes, 0, trial->elems);
    trial->ranks[TRIAL_ME].context.phase = 0;
}

/** @param from  what was kept; NULL: it is the first step */
static struct step run_step(struct codec_trial *trial, uint64_t elems, uint64_t number,
                            const struct step *from)
{
    float *sum = wring_test_guarded(elems * sizeof(*sum));
    struct step step = {0};

    codec_trial_set_up(trial, elems, number, true);
    if (from != NULL)
        load(trial, from);
    codec_trial_rounds(trial);
    check_shared(trial);
    memset(sum, 0, elems * sizeof(*sum));
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        step.codes.code[r] =
            codec_trial_encode(trial, r, rank->src, 0, elems, rank->residual, &step.bytes[r]);
        const float *out =
            codec_trial_decoded(trial, r, step.codes.code[r], step.bytes[r], 0, elems);
        for (uint64_t i = 0; i < elems; i++)
            sum[i] += out[i];
    }
    if (trial->codec->ops->code_sum == NULL)
        send_back(trial, sum, &step);
    check_shared(trial);
    save(trial, &step);
    return step;
}

static void compare_steps(struct codec_trial *trial, const struct step *a, const struct step *b,
                          const char *what)
{
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        HOLD(trial,
             a->bytes[r] == b->bytes[r] &&
                 codec_trial_same(a->codes.code[r], b->codes.code[r], a->bytes[r]),
             "%s: another code", what);
        HOLD(trial,
             a->kept[r].residual == NULL ||
                 codec_trial_same(a->kept[r].residual, b->kept[r].residual, float_bytes(trial)),
             "%s: another residual", what);
        for (size_t s = 0; s < trial->codec->ops->n_states; s++)
            HOLD(trial,
                 codec_trial_same(a->kept[r].states[s], b->kept[r].states[s],
                                  codec_trial_state_bytes(trial, s)),
                 "%s: another state %s", what, trial->codec->ops->states[s].name);
    }
    HOLD(trial, a->back_bytes == b->back_bytes && codec_trial_same(a->back, b->back, a->back_bytes),
         "%s: another code on the way back", what);
}

/** A step follows from what is kept, and from nothing else. */
static void check_steps(struct codec_trial *trial, uint64_t elems)
{
    struct step steps[STEPS];

    trial->rule = "states";
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i] = run_step(trial, elems, i, i > 0 ? &steps[i - 1] : NULL);
    struct step again = run_step(trial, elems, STEPS - 1, &steps[STEPS - 2]);
    compare_steps(trial, &again, &steps[STEPS - 1], "a step that is taken back and made again");
    take_other(trial);
    again = run_step(trial, elems, STEPS - 1, &steps[STEPS - 2]);
    compare_steps(trial, &again, &steps[STEPS - 1], "a step by another object of the codec");
    again = run_step(trial, elems, 0, NULL);
    compare_steps(trial, &again, &steps[0], "the first step once more");
}

/** A decode may look at state that is shared, and changes none. */
static void check_decode_keeps(struct codec_trial *trial, uint64_t elems)
{
    trial->rule = "states";
    codec_trial_set_up(trial, elems, 0, false);
    codec_trial_rounds(trial);
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    size_t bytes;
    unsigned char *code =
        codec_trial_encode(trial, TRIAL_ME, me->src, 0, elems, me->residual, &bytes);
    for (size_t s = 0; s < trial->codec->ops->n_states; s++) {
        size_t state_bytes = codec_trial_state_bytes(trial, s);
        const void *before = codec_trial_copy(me->states[s], state_bytes);
        codec_trial_decoded(trial, TRIAL_ME, code, bytes, 0, elems);
        HOLD(trial, codec_trial_same(before, me->states[s], state_bytes), "decode changes state %s",
             trial->codec->ops->states[s].name);
    }
}

/* ---- jobs ---- */

/** What a job of mine makes, and what another makes of that. */
struct work {
    unsigned char *code;
    size_t bytes;
    float *residual;
    void *out; /* [elems] of the type */
};

static struct work run_jobs(struct codec_trial *trial, enum wring_dtype dtype, const void *src)
{
    struct codec_trial_rank *me = &trial->ranks[TRIAL_ME];
    size_t bound = wring_codec_bound(trial->codec, trial->elems);
    size_t out_bytes = trial->elems * wring_dtype_bytes(dtype);
    struct work work = {.residual = me->residual != NULL
                                        ? codec_trial_copy(me->residual, float_bytes(trial))
                                        : NULL};

    codec_trial_rewind(trial);
    struct wring_job job = {.kind = WRING_JOB_ENCODE,
                            .dtype = dtype,
                            .elems = trial->elems,
                            .context = me->context,
                            .src = src,
                            .codec_out = trial->codec,
                            .residual = work.residual,
                            .code = wring_test_guarded(bound)};
    codec_trial_job(trial, TRIAL_ME, &job, "code", bound);
    work.bytes = job.result.code_bytes;
    work.code = codec_trial_copy(job.code, work.bytes);
    struct wring_source source = {.data = work.code, .bytes = work.bytes, .codec = trial->codec};
    struct wring_job decode = {.kind = WRING_JOB_DECODE,
                               .dtype = dtype,
                               .elems = trial->elems,
                               .context = me->context,
                               .sources = &source,
                               .n_sources = 1,
                               .dst = work.out = wring_test_guarded(out_bytes)};
    codec_trial_job(trial, TRIAL_ME, &decode, "output", out_bytes);
    return work;
}

static bool same_code(const struct codec_trial *trial, const struct work *a, const struct work *b)
{
    return a->bytes == b->bytes && codec_trial_same(a->code, b->code, a->bytes) &&
           (a->residual == NULL || codec_trial_same(a->residual, b->residual, float_bytes(trial)));
}

/** Near the denormals, where flushing them would show. */
static void shrink(struct codec_trial *trial)
{
    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        struct codec_trial_rank *rank = &trial->ranks[r];
        for (uint64_t i = 0; i < trial->elems && rank->src != NULL; i++)
            rank->src[i] *= TINY;
        for (uint64_t i = 0; i < trial->elems && rank->residual != NULL; i++)
            rank->residual[i] *= TINY;
    }
}

static void check_mode(struct codec_trial *trial, uint64_t elems)
{
    trial->rule = "mode";
    codec_trial_set_up(trial, elems, 0, false);
    shrink(trial);
    codec_trial_rounds(trial);
    struct work plain = run_jobs(trial, WRING_F32, trial->ranks[TRIAL_ME].src);
    wring_test_odd_mode();
    take_other(trial);
    codec_trial_rewind(trial);
    struct work odd = run_jobs(trial, WRING_F32, trial->ranks[TRIAL_ME].src);
    wring_fp_enter();
    HOLD(trial,
         same_code(trial, &plain, &odd) && codec_trial_same(plain.out, odd.out, float_bytes(trial)),
         "another code, residual or output where the caller flushes denormals and rounds up");
}

/** Everyone has numbers that the type has. @return mine, of the type */
static void *narrow_all(struct codec_trial *trial, enum wring_dtype dtype)
{
    const struct wring_reduce_kernels *kernels = wring_reduce_tiers[0].kernels;
    size_t bytes = trial->elems * wring_dtype_bytes(dtype);
    void *mine = wring_test_guarded(bytes), *other = wring_test_guarded(bytes);

    for (uint32_t r = 0; r < TRIAL_RANKS; r++) {
        void *narrow = r == TRIAL_ME ? mine : other;
        float *src = trial->ranks[r].src;
        if (src == NULL)
            continue;
        kernels->narrow[dtype](narrow, src, trial->elems, 1);
        kernels->widen[dtype](src, narrow, trial->elems);
    }
    return mine;
}

static enum wring_status decode_16(struct codec_trial *trial, enum wring_dtype dtype,
                                   const void *code, size_t bytes)
{
    return trial->codec->ops->decode16(trial->codec, &trial->ranks[TRIAL_ME].context, dtype, code,
                                       bytes, wring_test_guarded(trial->elems * 2), trial->elems);
}

/** Of a codec that takes elements of 16 bits as they are: every bit comes back, and no code of
 *  another length is taken. */
static void check_as_they_are(struct codec_trial *trial, enum wring_dtype dtype, const void *src,
                              const struct work *work)
{
    const char *name = wring_dtype_name(dtype);
    unsigned char *longer = wring_test_guarded(work->bytes + 1);

    HOLD(trial, codec_trial_same(src, work->out, trial->elems * 2), "%s: other bits come back",
         name);
    memcpy(longer, work->code, work->bytes);
    longer[work->bytes] = 0;
    HOLD(trial, decode_16(trial, dtype, longer, work->bytes + 1) == WRING_ERR_FRAME,
         "%s: a code is taken that is a byte too long", name);
    for (size_t cut = 1; cut <= work->bytes; cut += 1 + cut / 2) {
        size_t bytes = work->bytes - cut;
        HOLD(trial,
             decode_16(trial, dtype, codec_trial_copy(work->code, bytes), bytes) == WRING_ERR_FRAME,
             "%s: a code is taken that is %zu bytes too short", name, cut);
    }
}

static void check_half(struct codec_trial *trial, uint64_t elems, enum wring_dtype dtype)
{
    codec_trial_set_up(trial, elems, 0, false);
    void *narrow = narrow_all(trial, dtype), *rounded = wring_test_guarded(elems * 2);
    codec_trial_rounds(trial);
    struct work whole = run_jobs(trial, WRING_F32, trial->ranks[TRIAL_ME].src);
    struct work half = run_jobs(trial, dtype, narrow);
    if (trial->codec->ops->encode16 != NULL) {
        check_as_they_are(trial, dtype, narrow, &half);
        return;
    }
    HOLD(trial, same_code(trial, &whole, &half), "%s: another code or residual than of float32",
         wring_dtype_name(dtype));
    wring_reduce_tiers[0].kernels->narrow[dtype](rounded, whole.out, elems, 1);
    HOLD(trial, codec_trial_same(rounded, half.out, elems * 2),
         "%s: decodes to something else than float32, rounded", wring_dtype_name(dtype));
}

void codec_trial_group(struct codec_trial *trial, uint64_t elems)
{
    const struct wring_codec *codec = trial->codec;

    check_rounds(trial, elems);
    check_sums(trial, elems);
    check_decode_keeps(trial, elems);
    check_steps(trial, elems);
    check_mode(trial, elems);
    trial->rule = "halves";
    check_half(trial, elems, WRING_F16);
    check_half(trial, elems, WRING_BF16);
    trial->codec = codec;
}
