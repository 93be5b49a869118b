/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes that are whole numbers, and add up: every such codec of the library in every width and kind
 * of sums, in every scheme, by 2 to 9 ranks.
 *
 * The test reads the numbers out of each rank's code as FORMAT.md lays them out, adds them, and
 * writes their sum by itself; what that decodes to is what all ranks must have, bit for bit. The
 * same numbers must come out when codes are decoded, added as floats in rank order, and encoded
 * under the same scale.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "runtime/codec_states.h"
#include "tests/collective/matrix.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS_MAX 9
#define ELEMS 10341 /* each of 9 owners has a unit, and the last one is short */
#define STEPS 2
#define SPECS_MAX 64

/** One codec in one form. */
struct spec {
    char text[WRING_CODEC_SPEC_MAX];
    const struct wring_codec_ops *ops; /* of the name */
    unsigned bits, back;               /* of a number in a code, and in a sum that goes back */
    bool saturates, rotates;
};

static struct spec specs[SPECS_MAX];
static size_t n_specs;

/* ---- every form of every codec ---- */

/** Codes of floats are of no interest here; "float_sums" has them. */
static const char *const of_floats[] = {"powersgd"};

static bool is_of_floats(const char *name)
{
    for (size_t i = 0; i < sizeof(of_floats) / sizeof(of_floats[0]); i++)
        if (strcmp(name, of_floats[i]) == 0)
            return true;
    return false;
}

/** The number of bits that a spec names: each of these codecs has one parameter of such words. */
static unsigned bits_of(const char *text)
{
    const char *at = strstr(text, "width=");
    at = at != NULL ? at + strlen("width=") : strstr(text, "bits=") + strlen("bits=");
    return (unsigned)atoi(at);
}

static void add_spec(const struct wring_codec_ops *ops, const char *text)
{
    struct spec *spec = &specs[n_specs];
    struct wring_codec *codec;

    if (wring_codec_create(text, "scalar", NULL, NULL, 0, &codec) != WRING_OK)
        return; /* these words do not go together */
    unsigned flags = wring_codec_info(codec)->flags;
    bool sums = (flags & WRING_CODEC_SUMMABLE) != 0 && (flags & WRING_CODEC_RAW) == 0;
    wring_codec_destroy(codec);
    if (!sums || is_of_floats(ops->name))
        return;
    REQUIRE(n_specs < SPECS_MAX, "more than %d forms", SPECS_MAX);
    snprintf(spec->text, sizeof(spec->text), "%s", text);
    spec->ops = ops;
    spec->bits = bits_of(text);
    spec->saturates = strstr(text, "=saturate") != NULL;
    spec->rotates = strcmp(ops->name, "thc") == 0;
    bool wider = strcmp(ops->name, "terngrad") != 0 && !spec->saturates && spec->bits == 4;
    spec->back = wider ? 8 : spec->bits;
    n_specs++;
}

/** Add a codec with each choice of its parameters from `param` on. */
static void add_choices(const struct wring_codec_ops *ops, size_t param, const char *text)
{
    char longer[WRING_CODEC_SPEC_MAX];

    while (param < ops->n_params && ops->params[param].words == NULL)
        param++;
    if (param == ops->n_params) {
        add_spec(ops, text);
        snprintf(longer, sizeof(longer), "%s+ef", text);
        add_spec(ops, longer);
        return;
    }
    const char *word = ops->params[param].words;
    while (true) {
        int length = (int)strcspn(word, "|");
        snprintf(longer, sizeof(longer), "%s:%s=%.*s", text, ops->params[param].name, length, word);
        add_choices(ops, param + 1, longer);
        if (word[length] == '\0')
            return;
        word += length + 1;
    }
}

static void find_specs(void)
{
    n_specs = 0;
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++)
        add_choices(*ops, 0, (*ops)->name);
}

/* ---- what the ranks give ---- */

/** Of all magnitudes between blocks, and now and then far larger than its neighbours. */
static void fill(float *data, uint32_t rank, unsigned step)
{
    uint32_t random = 1 + rank * 7919 + step * 104729;

    for (uint64_t i = 0; i < ELEMS; i++) {
        float x = wring_test_random_float(&random) * (1 + (float)(i / 1000));
        data[i] = i % 501 == 5 ? 8 * x : x;
    }
}

/** Who exchanges codes: ranks, or nodes that have added their ranks' numbers. */
struct party {
    uint32_t n, ranks, per_node;
    float *inputs[RANKS_MAX];
};

static void make_inputs(struct party *party, unsigned step)
{
    uint32_t each = party->ranks / party->n;
    float *own[RANKS_MAX];

    for (uint32_t r = 0; r < party->ranks; r++) {
        own[r] = malloc(ELEMS * sizeof(float));
        fill(own[r], r, step);
    }
    for (uint32_t i = 0; i < party->n; i++) {
        party->inputs[i] = malloc(ELEMS * sizeof(float));
        wring_test_reduce(WRING_F32, WRING_SUM, (const void *const *)&own[i * each], each, ELEMS,
                          party->inputs[i]);
    }
    for (uint32_t r = 0; r < party->ranks; r++)
        free(own[r]);
}

/* ---- the numbers in codes ---- */

/** Numbers of 4 bits stand in a byte by two, the first in its lower half; all have two's
 *  complement, and the lowest byte first. */
static int32_t get_number(const uint8_t *code, unsigned bits, uint64_t i)
{
    if (bits == 4) {
        int32_t nibble = code[i / 2] >> (i % 2 * 4) & 15;
        return nibble < 8 ? nibble : nibble - 16;
    }
    if (bits == 8)
        return code[i] < 128 ? code[i] : code[i] - 256;
    int32_t pair = code[2 * i] | code[2 * i + 1] << 8;
    return pair < 32768 ? pair : pair - 65536;
}

static void put_number(uint8_t *code, unsigned bits, uint64_t i, int32_t number)
{
    uint32_t low = (uint32_t)number;

    if (bits == 4)
        code[i / 2] |= (uint8_t)((low & 15) << (i % 2 * 4));
    else
        code[bits / 8 * i] = (uint8_t)low;
    if (bits == 16)
        code[2 * i + 1] = (uint8_t)(low >> 8);
}

/* ---- what must come out ---- */

/** A bucket of all parties at once. */
struct sum {
    const struct spec *spec;
    struct party party;
    struct wring_codec *codec;
    struct wring_codec_context context;
    const void *statistics[1];
    float *residuals[RANKS_MAX];
    int32_t *numbers;  /* [count] the sum of all codes' */
    float *decoded;    /* [ELEMS] the sum of what all codes decode to, in rank order */
    uint64_t count;    /* numbers in a code: a rotation fills the last block up */
    uint64_t beyond;   /* numbers that saturated */
    float *want;       /* [ELEMS] */
    uint8_t *code;     /* where the next one is written */
    size_t code_bytes; /* of a code */
    void *work;        /* of the codec */
};

static const struct wring_codec_context *place(struct sum *sum, uint32_t rank, uint32_t phase)
{
    sum->context.rank = rank;
    sum->context.phase = phase;
    return &sum->context;
}

/** The largest statistic of any rank, made into scales. */
static void find_scales(struct sum *sum)
{
    const struct wring_codec_round *round = sum->codec->ops->rounds;
    uint64_t count = round->count(sum->codec, place(sum, 0, 0));
    bool wide = round->dtype == WRING_F64;
    double *most = calloc(count, sizeof(double)), *own = calloc(count, sizeof(double));

    REQUIRE(sum->codec->ops->n_rounds == 1 && round->op == WRING_MAX, "%s", sum->spec->text);
    for (uint32_t r = 0; r < sum->party.n; r++) {
        round->begin(sum->codec, place(sum, r, 0), sum->party.inputs[r], ELEMS, sum->residuals[r],
                     own, sum->work);
        for (uint64_t i = 0; i < count; i++)
            if (wide)
                most[i] = fmax(most[i], own[i]);
            else
                ((float *)most)[i] = fmaxf(((float *)most)[i], ((float *)own)[i]);
    }
    round->end(sum->codec, place(sum, 0, 0), most, count);
    free(own);
    sum->statistics[0] = most;
}

/** Encode what each rank has, add the numbers of codes, and what codes decode to. */
static void add_codes(struct sum *sum)
{
    float *alone[RANKS_MAX];

    memset(sum->numbers, 0, sum->count * sizeof(*sum->numbers));
    for (uint32_t r = 0; r < sum->party.n; r++) {
        size_t bytes = wring_codec_encode(sum->codec, place(sum, r, 0), sum->party.inputs[r], ELEMS,
                                          sum->residuals[r], sum->code);
        CHECK(bytes == sum->code_bytes, "%s: %zu bytes", sum->spec->text, bytes);
        for (uint64_t i = 0; i < sum->count; i++)
            sum->numbers[i] += get_number(sum->code, sum->spec->bits, i);
        alone[r] = malloc(ELEMS * sizeof(float));
        CHECK(wring_codec_decode(sum->codec, place(sum, r, 0), sum->code, bytes, alone[r], ELEMS,
                                 false) == WRING_OK,
              "%s: decode", sum->spec->text);
    }
    for (uint64_t i = 0; i < ELEMS; i++)
        sum->decoded[i] = wring_test_sum((const float *const *)alone, sum->party.n, i);
    for (uint32_t r = 0; r < sum->party.n; r++)
        free(alone[r]);
    int32_t most = (1 << (sum->spec->back - 1)) - 1;
    for (uint64_t i = 0; i < sum->count; i++) {
        int32_t number = sum->numbers[i];
        sum->numbers[i] = number > most ? most : number < -most ? -most : number;
        sum->beyond += sum->numbers[i] != number;
    }
}

/** The floats' sum, encoded by the codec itself: with room for the sum, as one rank alone has it.
 *  @param numbers  out, [count] */
static void encode_rotated(struct sum *sum, int32_t *numbers)
{
    struct wring_codec_context context = *place(sum, 0, 0);
    struct wring_codec *codec;
    char text[WRING_CODEC_SPEC_MAX];

    snprintf(text, sizeof(text), "thc:width=%u%s", sum->spec->back,
             sum->spec->saturates ? ":sums=saturate" : "");
    REQUIRE(wring_codec_create(text, "scalar", NULL, NULL, 0, &codec) == WRING_OK, "%s", text);
    uint8_t *code = calloc(1, wring_codec_bound(codec, ELEMS));
    context.ranks = 1;
    wring_codec_encode(codec, &context, sum->decoded, ELEMS, NULL, code);
    for (uint64_t i = 0; i < sum->count; i++)
        numbers[i] = get_number(code, sum->spec->back, i);
    free(code);
    wring_codec_destroy(codec);
}

/** The floats' sum in steps: the difference that a 1 makes. */
static void count_steps(struct sum *sum, int32_t *numbers)
{
    float *step = malloc(ELEMS * sizeof(float));

    memset(sum->code, 0, sum->code_bytes);
    for (uint64_t i = 0; i < sum->count; i++)
        put_number(sum->code, sum->spec->bits, i, 1);
    CHECK(wring_codec_decode(sum->codec, place(sum, 0, 0), sum->code, sum->code_bytes, step, ELEMS,
                             false) == WRING_OK,
          "%s: decode", sum->spec->text);
    for (uint64_t i = 0; i < ELEMS; i++)
        numbers[i] = step[i] > 0 ? (int32_t)lrintf(sum->decoded[i] / step[i]) : 0;
    free(step);
}

/** Decoded, added and encoded anew they are the same numbers. Of a short block that a rotation has
 *  filled up with zeros a code holds more than its elements tell. */
static void check_decode_add_encode(struct sum *sum)
{
    uint64_t n = sum->spec->rotates ? ELEMS - ELEMS % wring_codec_info(sum->codec)->unit : ELEMS;
    int32_t *numbers = calloc(sum->count, sizeof(*numbers));

    if (sum->spec->rotates)
        encode_rotated(sum, numbers);
    else
        count_steps(sum, numbers);
    for (uint64_t i = 0; i < n; i++)
        REQUIRE(numbers[i] == sum->numbers[i],
                "%s, %u ranks: number %" PRIu64 " is %d added as codes, %d as floats",
                sum->spec->text, sum->party.n, i, sum->numbers[i], numbers[i]);
    free(numbers);
}

static void decode_sum(struct sum *sum, bool average)
{
    size_t bytes = (sum->count * sum->spec->back + 7) / 8;
    uint8_t *code = calloc(1, bytes);

    for (uint64_t i = 0; i < sum->count; i++)
        put_number(code, sum->spec->back, i, sum->numbers[i]);
    CHECK(wring_codec_decode(sum->codec, place(sum, 0, 1), code, bytes, sum->want, ELEMS, false) ==
              WRING_OK,
          "%s: the sum of codes is refused", sum->spec->text);
    for (uint64_t i = 0; i < ELEMS && average; i++)
        sum->want[i] /= (float)sum->party.ranks;
    free(code);
}

static void write_name(const struct spec *spec, char *name, size_t bytes)
{
    snprintf(name, bytes, "bucket %d", (int)(spec - specs));
}

static bool is_average(const struct spec *spec)
{
    return (spec - specs) / 2 % 2 == 1;
}

static bool may_add(const struct spec *spec, uint32_t ranks)
{
    struct wring_codec *codec;
    uint32_t most = UINT32_MAX;

    if (wring_codec_create(spec->text, "scalar", NULL, NULL, 0, &codec) != WRING_OK)
        return false;
    if (codec->ops->most_ranks != NULL)
        most = codec->ops->most_ranks(codec);
    wring_codec_destroy(codec);
    return ranks <= most;
}

static void begin_sum(struct sum *sum)
{
    const struct spec *spec = sum->spec;
    char name[32];

    REQUIRE(wring_codec_create(spec->text, "scalar", NULL, NULL, 0, &sum->codec) == WRING_OK, "%s",
            spec->text);
    write_name(spec, name, sizeof(name));
    sum->context = (struct wring_codec_context){.seed = WRING_TEST_SEED,
                                                .bucket = wring_bucket_id(name),
                                                .ranks = sum->party.n,
                                                .elems = ELEMS,
                                                .statistics = sum->statistics};
    sum->code_bytes = wring_codec_bound(sum->codec, ELEMS);
    sum->count = spec->rotates ? sum->code_bytes * 8 / spec->bits : ELEMS;
    sum->code = calloc(1, sum->code_bytes);
    sum->numbers = calloc(sum->count, sizeof(*sum->numbers));
    sum->decoded = calloc(ELEMS, sizeof(float));
    sum->work = aligned_alloc(64, WRING_CODEC_SCRATCH_MAX);
    bool feedback = (wring_codec_info(sum->codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    for (uint32_t r = 0; r < sum->party.n && feedback; r++)
        sum->residuals[r] = calloc(ELEMS, sizeof(float));
}

static void end_sum(struct sum *sum)
{
    for (uint32_t r = 0; r < sum->party.n; r++)
        free(sum->residuals[r]);
    free(sum->work);
    free(sum->decoded);
    free(sum->numbers);
    free(sum->code);
    wring_codec_destroy(sum->codec);
}

/** @param want  out, [ELEMS] after the last step @return how many numbers saturated */
static uint64_t expect(const struct spec *spec, const struct party *party, float *want)
{
    struct sum sum = {.spec = spec, .party = *party, .want = want};

    begin_sum(&sum);
    for (unsigned step = 0; step < STEPS; step++) {
        sum.context.step = step;
        make_inputs(&sum.party, step);
        find_scales(&sum);
        add_codes(&sum);
        check_decode_add_encode(&sum);
        decode_sum(&sum, is_average(spec));
        free((void *)(uintptr_t)sum.statistics[0]);
        for (uint32_t r = 0; r < party->n; r++)
            free(sum.party.inputs[r]);
    }
    CHECK(spec->saturates || sum.beyond == 0, "%s, %u ranks: %" PRIu64 " sums do not fit",
          spec->text, party->n, sum.beyond);
    end_sum(&sum);
    return sum.beyond;
}

/* ---- as jobs add them ---- */

struct job {
    uint32_t ranks, per_node;
    enum wring_scheme scheme;
    float *results[RANKS_MAX]; /* [n_specs][ELEMS] */
};

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct job *job = arg;
    struct wring_bucket *buckets[SPECS_MAX] = {NULL};
    float *data[SPECS_MAX];
    char name[32];

    for (size_t i = 0; i < n_specs; i++) {
        if (!may_add(&specs[i], job->ranks))
            continue;
        REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data[i]) == WRING_OK,
                "alloc");
        write_name(&specs[i], name, sizeof(name));
        struct wring_bucket_params params = {.name = name,
                                             .data = data[i],
                                             .elems = ELEMS,
                                             .codec = specs[i].text,
                                             .scheme = job->scheme,
                                             .op = is_average(&specs[i]) ? WRING_AVG : WRING_SUM};
        REQUIRE(wring_bucket_register(session, &params, &buckets[i]) == WRING_OK, "%s",
                specs[i].text);
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (unsigned step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n_specs; i++)
            if (buckets[i] != NULL) {
                fill(data[i], rank, step);
                CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post");
            }
        for (size_t i = 0; i < n_specs; i++)
            if (buckets[i] != NULL) {
                enum wring_status status = wring_bucket_wait(buckets[i], WAIT_NS, NULL);
                CHECK(status == WRING_OK, "%s: %s", specs[i].text, wring_status_text(status));
            }
    }
    for (size_t i = 0; i < n_specs; i++)
        if (buckets[i] != NULL)
            memcpy(job->results[rank] + i * ELEMS, data[i], ELEMS * sizeof(float));
}

static void check_results(const struct job *job, const struct spec *spec, const float *want)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        const float *got = job->results[r] + (size_t)(spec - specs) * ELEMS;
        uint64_t i = 0;
        while (i < ELEMS && memcmp(&got[i], &want[i], sizeof(float)) == 0)
            i++;
        CHECK(i == ELEMS,
              "%s, scheme %d, %u ranks, %u a node, rank %u: element %" PRIu64 " is %a, not %a",
              spec->text, (int)job->scheme, job->ranks, job->per_node, r, i, (double)got[i],
              (double)want[i]);
    }
}

/** One job with all codecs. */
static void run_job(struct job *job)
{
    static const char *const settings[][4] = {
        {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=4k", "WRING_EXECUTOR=pool:2"},
        {"WRING_PROVIDER=auto", "WRING_CHUNK_BYTES=16k", "WRING_EXECUTOR=inline"},
        {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=inline", "WRING_CPU=scalar"},
        {"WRING_PROVIDER=auto", "WRING_CHUNK_BYTES=4k", "WRING_CPU=avx2"},
    };

    for (uint32_t r = 0; r < job->ranks; r++)
        job->results[r] = calloc(n_specs * ELEMS, sizeof(float));
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = job->ranks,
                                 .ranks_per_node = job->per_node,
                                 .settings = settings[(job->ranks + job->scheme) % 4],
                                 .run = run_rank,
                                 .arg = job});
}

static void free_results(struct job *job)
{
    for (uint32_t r = 0; r < job->ranks; r++)
        free(job->results[r]);
}

/** Jobs in some schemes, of which all codecs have to come out alike. @return comparisons */
static unsigned run_schemes(uint32_t ranks, uint32_t per_node, const enum wring_scheme *schemes,
                            size_t n)
{
    bool nodes = per_node > 0 && ranks % per_node == 0 && ranks > per_node;
    const struct party party = {.n = nodes ? ranks / per_node : ranks, .ranks = ranks};
    float *want = calloc(n_specs * ELEMS, sizeof(float));
    unsigned compared = 0;
    uint64_t beyond = 0;

    uint64_t saved = wring_fp_enter();
    for (size_t i = 0; i < n_specs; i++)
        if (may_add(&specs[i], ranks))
            beyond += expect(&specs[i], &party, want + i * ELEMS);
    wring_fp_leave(saved);
    CHECK(beyond > 0, "%u ranks: no sum saturates", party.n);
    for (size_t s = 0; s < n; s++) {
        struct job job = {.ranks = ranks, .per_node = per_node, .scheme = schemes[s]};
        run_job(&job);
        for (size_t i = 0; i < n_specs; i++)
            if (may_add(&specs[i], ranks)) {
                check_results(&job, &specs[i], want + i * ELEMS);
                compared++;
            }
        free_results(&job);
    }
    free(want);
    return compared;
}

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define RANKS_STEP (WRING_TEST_STRIDE > 1 ? 3 : 1) /* no fault of memory or order needs all */

static void every_form_is_found(void)
{
    find_specs();
    CHECK(n_specs >= 20, "%zu forms of codes that add up", n_specs);
    for (size_t i = 0; i < n_specs; i++)
        CHECK(specs[i].bits == 4 || specs[i].bits == 8 || specs[i].bits == 16, "%s: %u bits",
              specs[i].text, specs[i].bits);
}

static void among_ranks(void)
{
    static const enum wring_scheme flat[] = {WRING_SCHEME_AUTO, WRING_SCHEME_DIVISIBLE,
                                             WRING_SCHEME_INDIVISIBLE};
    unsigned compared = 0;

    find_specs();
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks += RANKS_STEP)
        compared += run_schemes(ranks, 0, flat, COUNT(flat));
    printf("%zu forms of integer codes, 2 to %d ranks, %zu flat schemes: %u sums have the bits of "
           "decode, add, encode, on all ranks\n",
           n_specs, RANKS_MAX, COUNT(flat), compared);
}

/** Where nodes have not as many ranks each, it is as if they had one. */
static void between_nodes(void)
{
    static const enum wring_scheme schemes[] = {WRING_SCHEME_HIERARCHICAL,
                                                WRING_SCHEME_HIERARCHICAL_DIVISIBLE,
                                                WRING_SCHEME_HIERARCHICAL_INDIVISIBLE};
    unsigned compared = 0;

    find_specs();
    for (uint32_t ranks = 3; ranks <= RANKS_MAX; ranks += RANKS_STEP)
        compared += run_schemes(ranks, ranks % 3 == 0 ? ranks / 3 + (ranks == 3) : 2, schemes,
                                COUNT(schemes));
    printf("%zu forms of integer codes, 3 to %d ranks on nodes, %zu schemes: %u sums likewise\n",
           n_specs, RANKS_MAX, COUNT(schemes), compared);
}

/** Codes of floats are added in the order of ranks: against the definition, by all numbers of them,
 *  and by nodes. */
static void float_sums(void)
{
    static const char *const codecs[] = {"topkc:ratio=0.1:chunk=32:block=1024+ef",
                                         "randk:ratio=0.02+ef", "powersgd+ef"};
    unsigned jobs = 0;

    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks += RANKS_STEP)
        for (size_t i = 0; i < 2 * COUNT(codecs); i++) {
            uint32_t per_node = i < COUNT(codecs) ? 0 : ranks == 9 ? 3 : 2;
            const struct wring_matrix_case c = {
                .ranks = ranks,
                .ranks_per_node = per_node,
                .elems = 48 * 83,
                .rows = 48,
                .op = i % 2 == 0 ? WRING_SUM : WRING_AVG,
                .codec = codecs[i % COUNT(codecs)],
                .scheme = per_node > 0 ? WRING_SCHEME_HIERARCHICAL : WRING_SCHEME_AUTO,
                .steps = 2,
                .provider = per_node > 0 || ranks % 2 == 0 ? "tcp" : "shm",
                .chunk = ranks % 3 == 0 ? "4k" : "16k",
                .cpu = ranks % 4 == 0 ? "scalar" : "best",
                .executor = ranks % 4 == 1 ? "pool:2" : "inline",
                .progress = "thread",
                .in_place = true,
            };
            if (per_node > 0 && (ranks % per_node != 0 || ranks == per_node))
                continue;
            wring_matrix_run(&c);
            jobs++;
        }
    printf("%zu codecs of floats, 2 to %d ranks: %u sums in rank order\n", COUNT(codecs), RANKS_MAX,
           jobs);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_form_is_found", every_form_is_found},
        {"among_ranks", among_ranks},
        {"between_nodes", between_nodes},
        {"float_sums", float_sums},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
