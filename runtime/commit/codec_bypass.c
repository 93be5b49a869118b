/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/codec_bypass.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "compress/codec.h"
#include "runtime/commit/bypass.h"
#include "runtime/commit/commit.h"

#define WRING_MODULE "commit"
#define GAIN_MIN 0.15    /* of the time without */
#define GAIN_MIN_NS 5000 /* and no less than this: about the time to wake a thread */

/** On the line through two points. */
static double interpolate_curve(const struct wring_curve *curve, uint32_t a, uint32_t b,
                                uint64_t bytes)
{
    double from = (double)curve->points[a].bytes, to = (double)curve->points[b].bytes;
    double low = (double)curve->points[a].ns, high = (double)curve->points[b].ns;
    return low + (high - low) * ((double)bytes - from) / (to - from);
}

uint64_t wring_curve_at(const struct wring_curve *curve, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < curve->n && curve->points[i].bytes < bytes)
        i++;
    if (i == 0)
        return curve->points[0].ns;
    if (i < curve->n)
        return (uint64_t)interpolate_curve(curve, i - 1, i, bytes);
    uint64_t last = curve->points[i - 1].ns;
    double more = i > 1 ? interpolate_curve(curve, i - 2, i - 1, bytes)
                        : (double)last * ((double)bytes / (double)curve->points[0].bytes);
    return more > (double)last ? (uint64_t)more : last;
}

struct wring_choice wring_codec_bypass_rule(const struct wring_curve *with,
                                            const struct wring_curve *without, uint64_t bytes)
{
    struct wring_choice choice = {
        .with_ns = wring_curve_at(with, bytes),
        .without_ns = wring_curve_at(without, bytes),
    };
    double most = (1 - GAIN_MIN) * (double)choice.without_ns;
    choice.bypass =
        (double)choice.with_ns > most || choice.with_ns + GAIN_MIN_NS > choice.without_ns;
    return choice;
}

/* ---- trial bench ---- */

static const uint64_t sizes[WRING_CURVE_POINTS] = {4 << 10, 64 << 10, 1 << 20, 8 << 20};

static uint64_t trial_size(const struct wring_codec_bypass_case *tried, uint32_t i)
{
    return sizes[i] < tried->wanted ? sizes[i] : tried->wanted;
}

static enum wring_status list_trials(struct wring_codec_bypass_bench *bench)
{
    uint32_t n = 0;
    for (const struct wring_codec_bypass_case *at = bench->session->tried; at != NULL;
         at = at->next)
        n += at->fresh;
    bench->trials = calloc(n + 1, sizeof(*bench->trials));
    if (bench->trials == NULL)
        return WRING_ERR_NO_MEMORY;
    for (struct wring_codec_bypass_case *at = bench->session->tried; at != NULL; at = at->next)
        if (at->fresh)
            bench->trials[bench->n++].tried = at;
    return WRING_OK;
}

static enum wring_status make_memory(struct wring_codec_bypass_bench *bench)
{
    bool placed = false, foreign = false;
    uint32_t random = 1;

    for (uint32_t i = 0; i < bench->n; i++) {
        const struct wring_codec_bypass_case *tried = bench->trials[i].tried;
        uint64_t bytes = trial_size(tried, WRING_CURVE_POINTS - 1);
        bench->bytes = bytes > bench->bytes ? bytes : bench->bytes;
        placed |= tried->placed;
        foreign |= !tried->placed;
    }
    if (bench->n == 0)
        return WRING_OK;
    bench->source = malloc(bench->bytes);
    if (bench->source == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < bench->bytes / sizeof(float); i++) {
        random = random * 1664525 + 1013904223; /* any numbers but equal ones */
        bench->source[i] = (float)(int32_t)random * 0x1p-31f;
    }
    if (foreign && (bench->foreign = malloc(bench->bytes)) == NULL)
        return WRING_ERR_NO_MEMORY;
    return placed ? wring_buffer_alloc(bench->session, bench->bytes, &bench->placed) : WRING_OK;
}

/** The same on all members, and no other's: by the group, the case and the size. */
static void name_bucket(const struct wring_codec_bypass_case *tried, const char *what, char *name)
{
    const struct wring_members *members = &tried->group->members;
    uint64_t hash = WRING_FNV64;
    char text[WRING_CODEC_SPEC_MAX + WRING_EXECUTOR_TEXT + 16];

    snprintf(text, sizeof(text), "%s %d %d %s", tried->spec, (int)tried->scheme, tried->placed,
             tried->executor);
    for (uint32_t i = 0; i < members->n; i++)
        hash = (hash ^ members->ranks[i]) * WRING_FNV64_PRIME;
    hash = wring_fnv64(hash, text, strlen(text));
    snprintf(name, WRING_NAME_MAX, "trial %016" PRIx64 " %.20s", hash, what);
}

static enum wring_status register_sizes(struct wring_codec_bypass_bench *bench,
                                        struct wring_codec_bypass_trial *trial)
{
    struct wring_codec_bypass_case *tried = trial->tried;
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX], what[24];

    for (uint32_t i = 0; i < WRING_CURVE_POINTS && status == WRING_OK; i++) {
        if (i > 0 && trial_size(tried, i) == trial_size(tried, i - 1))
            break;
        snprintf(what, sizeof(what), "%" PRIu64, trial_size(tried, i));
        name_bucket(tried, what, name);
        struct wring_bucket_params params = {
            .name = name,
            .data = tried->placed ? bench->placed : bench->foreign,
            .elems = trial_size(tried, i) / sizeof(float),
            .codec = tried->spec,
            .scheme = tried->scheme,
            .group = tried->group,
            .executor = tried->executor,
        };
        status = wring_bucket_register(bench->session, &params, &trial->buckets[i]);
        trial->n = i + 1;
    }
    return status;
}

static enum wring_status register_all(struct wring_codec_bypass_bench *bench)
{
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++) {
        struct wring_codec_bypass_trial *trial = &bench->trials[i];
        name_bucket(trial->tried, "slowest", name);
        struct wring_bucket_params params = {
            .name = name,
            .data = &bench->ns,
            .elems = 1,
            .dtype = WRING_F64,
            .op = WRING_MAX,
            .group = trial->tried->group,
        };
        status = wring_bucket_register(bench->session, &params, &trial->slowest);
        if (status == WRING_OK)
            status = register_sizes(bench, trial);
    }
    return status;
}

/**
 * Register the buckets of all that are fresh in the session's list, which has no others meanwhile.
 * Local. Errors: WRING_ERR_NO_MEMORY and those of a registration; finish it then, too.
 */
static enum wring_status trial_bench_init(struct wring_codec_bypass_bench *bench)
{
    enum wring_status status = list_trials(bench);
    if (status == WRING_OK)
        status = make_memory(bench);
    return status == WRING_OK ? register_all(bench) : status;
}

/** The session is as it was before. */
static void trial_bench_finish(struct wring_codec_bypass_bench *bench)
{
    struct wring_session *session = bench->session;
    wring_commit_forget_passing(session, bench->real);
    wring_buffer_free(session, bench->placed);
    free(bench->foreign);
    free(bench->source);
    free(bench->trials);
}

/* ---- trials ---- */

#define STEPS_MAX 50
#define STEPS_MIN 5
#define TURNS 2
#define ENOUGH_NS (3 * WRING_NS_PER_MS)   /* of steps of one size in a turn */
#define SHORT_NS (50 * WRING_NS_PER_MS)   /* longer steps have one turn: a disturbance is less */
#define PLENTY_NS (100 * WRING_NS_PER_MS) /* fewer than STEPS_MIN are enough */
#define SLOPE_NS (4 * WRING_NS_PER_MS)    /* more than latency: larger sizes tell nothing new */
#define FAR_NS (5 * WRING_NS_PER_MS)      /* of the least size: ranks are far apart */
#define FAR_STEPS 4 /* so many steps of the least size that takes if ranks are far apart */

static enum wring_status run_step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post_inside(bucket);
    return status == WRING_OK ? wring_bucket_wait_inside(bucket, WRING_FOREVER) : status;
}

/** What the slowest member took, and a barrier. @param ns  in, ours; out */
static enum wring_status agree_on_time(struct wring_codec_bypass_bench *bench,
                                       struct wring_codec_bypass_trial *trial, uint64_t *ns)
{
    bench->ns = (double)*ns;
    enum wring_status status = run_step(trial->slowest);
    *ns = (uint64_t)bench->ns;
    return status;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/**
 * A few steps of one size; all members stop after the same one.
 * @param ns  out, what most of them took: the best are further from it with a codec, whose ranks
 *            wait for each other
 */
static enum wring_status measure_size(struct wring_codec_bypass_bench *bench,
                                      struct wring_codec_bypass_trial *trial, uint32_t size,
                                      uint64_t *ns)
{
    struct wring_bucket *bucket = trial->buckets[size];
    uint64_t all[STEPS_MAX], total = 0, took = 0;
    enum wring_status status = WRING_OK;
    uint32_t n = 0;

    while (n < STEPS_MAX && status == WRING_OK) {
        memcpy(bucket->data, bench->source, wring_bucket_bytes(bucket));
        status = agree_on_time(bench, trial, &took); /* so that all begin together */
        uint64_t began = wring_now_ns();
        if (status == WRING_OK)
            status = run_step(bucket);
        took = wring_now_ns() - began;
        if (status == WRING_OK)
            status = agree_on_time(bench, trial, &took);
        all[n++] = took;
        total += took;
        if (total >= PLENTY_NS || (n >= STEPS_MIN && total >= ENOUGH_NS))
            break;
    }
    qsort(all, n, sizeof(*all), compare_times);
    *ns = all[(n - 1) / 2];
    return status;
}

/** Time that bytes take, as against the way: enough of it to tell how many there are. */
static uint64_t telling_ns(const struct wring_curve *curve)
{
    uint64_t far = FAR_STEPS * curve->points[0].ns;
    return far > SLOPE_NS ? far : SLOPE_NS;
}

/** The first turn of one case: its sizes, as far as they tell something new. */
static enum wring_status measure_first_turn(struct wring_codec_bypass_bench *bench,
                                            struct wring_codec_bypass_trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    while (curve->n < trial->n && status == WRING_OK) {
        uint32_t size = curve->n++;
        curve->points[size].bytes = wring_bucket_bytes(trial->buckets[size]);
        status = measure_size(bench, trial, size, &curve->points[size].ns);
        if (curve->points[size].ns > curve->points[0].ns + telling_ns(curve))
            break;
    }
    return status;
}

/** A further turn: what is disturbed, is so for a while, and looks longer than it is. So is what
 *  was the first to take a long way, whose connections had yet to find out its rate. */
static enum wring_status measure_further_turn(struct wring_codec_bypass_bench *bench,
                                              struct wring_codec_bypass_trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < curve->n && status == WRING_OK; size++) {
        uint64_t ns = curve->points[size].ns;
        if (ns < SHORT_NS || curve->points[0].ns > FAR_NS)
            status = measure_size(bench, trial, size, &ns);
        if (ns < curve->points[size].ns)
            curve->points[size].ns = ns;
    }
    return status;
}

/** All cases take turns. */
static enum wring_status measure_all_cases(struct wring_codec_bypass_bench *bench)
{
    enum wring_status status = WRING_OK;
    for (uint32_t turn = 0; turn < TURNS; turn++)
        for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++)
            status = turn == 0 ? measure_first_turn(bench, &bench->trials[i])
                               : measure_further_turn(bench, &bench->trials[i]);
    return status;
}

/** Register, connect, run; each of it on all ranks or on none. */
static enum wring_status run_all_trials(struct wring_codec_bypass_bench *bench)
{
    struct wring_session *session = bench->session;
    enum wring_status status = wring_commit_passing(session, trial_bench_init(bench));
    if (status == WRING_OK)
        status = wring_session_agree(session, measure_all_cases(bench), "");
    return status;
}

static void keep_trial_curves(const struct wring_codec_bypass_bench *bench)
{
    for (uint32_t i = 0; i < bench->n; i++) {
        struct wring_codec_bypass_trial *trial = &bench->trials[i];
        trial->tried->curve = trial->curve;
        trial->tried->measured = trial->tried->wanted;
        trial->tried->fresh = false;
    }
}

/**
 * Measure all that are fresh in the session's list. Collective: a rank has the fresh ones of its
 * groups, perhaps none, and all lists are in one order. The session's channels are gone; what it
 * has of buckets is left alone.
 *
 * Each takes a few steps of 4 KiB, 64 KiB, 1 MiB and 8 MiB, the largest no larger than `wanted`,
 * and ends early once a step takes milliseconds, or several times as long as the way. The time of a
 * step is that of its slowest rank, and of a few the median counts. All cases have two turns at
 * steps of less than 50 ms, and at all where ranks are far apart, and the lower median is taken:
 * who was disturbed in one turn is not left out for it.
 *
 * Errors: those of a commit, and of a bucket's wait. Nothing is taken over then.
 */
static enum wring_status trials_run(struct wring_session *session)
{
    struct wring_codec_bypass_bench bench = {.session = session, .real = session->buckets};
    uint64_t began = wring_now_ns();

    session->buckets = NULL;
    enum wring_status status = run_all_trials(&bench);
    if (status == WRING_OK)
        keep_trial_curves(&bench);
    wring_debug(&session->log, "trials of %" PRIu32 " cases took %.1f ms", bench.n,
                (double)(wring_now_ns() - began) / 1e6);
    trial_bench_finish(&bench);
    return status;
}

void wring_codec_bypass_forget(struct wring_session *session)
{
    while (session->tried != NULL) {
        struct wring_codec_bypass_case *tried = session->tried;
        session->tried = tried->next;
        free(tried->ranks);
        free(tried);
    }
}

/* ---- choose ---- */

/*
 * Which buckets' codecs run. Trials tell how long steps take with and without, in this group, over
 * this link, on these cores; wring_codec_bypass_rule() is the rule. All members of a group measured
 * the same and so decide alike.
 */

static bool has_raw_codec(const struct wring_bucket *bucket)
{
    return (wring_codec_info(bucket->codec)->flags & WRING_CODEC_RAW) != 0;
}

/** Is there anything to choose? Not where a step would mean another thing without the codec. */
static bool has_bypass_choice(const struct wring_bucket *bucket)
{
    return !has_raw_codec(bucket) && !wring_codec_alters(bucket->codec) && bucket->elems > 0 &&
           bucket->group->members.n > 1 && bucket->whole == NULL; /* legs do as their bucket */
}

/** A bucket's case, with its codec or another. */
static struct wring_codec_bypass_case bucket_case(const struct wring_bucket *bucket,
                                                  const char *spec)
{
    struct wring_codec_bypass_case key = {
        .ranks = bucket->group->ranks,
        .n = bucket->group->members.n,
        .group = bucket->group,
        .scheme = bucket->scheme,
        .placed = bucket->placed,
        .wanted = wring_bucket_bytes(bucket),
        .fresh = true, /* until it is found */
    };
    strncpy(key.spec, spec, sizeof(key.spec) - 1);
    memcpy(key.executor, bucket->executor, sizeof(key.executor));
    return key;
}

/** The order of trials: by the ranks first, the same for all who meet in several groups. */
static int compare_cases(const struct wring_codec_bypass_case *a,
                         const struct wring_codec_bypass_case *b)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (a->ranks[i] != b->ranks[i])
            return a->ranks[i] < b->ranks[i] ? -1 : 1;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    if (a->scheme != b->scheme)
        return a->scheme < b->scheme ? -1 : 1;
    if (a->placed != b->placed)
        return a->placed < b->placed ? -1 : 1;
    int executors = strcmp(a->executor, b->executor);
    return executors != 0 ? executors : strcmp(a->spec, b->spec);
}

/** The link in the list where such a case is, or belongs. */
static struct wring_codec_bypass_case **find_case_link(struct wring_session *session,
                                                       const struct wring_codec_bypass_case *key)
{
    struct wring_codec_bypass_case **at = &session->tried;
    while (*at != NULL && compare_cases(*at, key) < 0)
        at = &(*at)->next;
    return at;
}

static struct wring_codec_bypass_case *find_case(struct wring_session *session,
                                                 const struct wring_codec_bypass_case *key)
{
    struct wring_codec_bypass_case *at = *find_case_link(session, key);
    return at != NULL && compare_cases(at, key) == 0 ? at : NULL;
}

/** Have a case measured, up to its size, unless it is. */
static enum wring_status want_trial(struct wring_session *session,
                                    const struct wring_codec_bypass_case *key)
{
    struct wring_codec_bypass_case *known = find_case(session, key);
    if (known != NULL) {
        known->group = key->group;
        known->wanted = key->wanted > known->wanted ? key->wanted : known->wanted;
        known->fresh = known->wanted > known->measured;
        return WRING_OK;
    }
    struct wring_codec_bypass_case *tried = malloc(sizeof(*tried));
    uint32_t *ranks = malloc(key->n * sizeof(*ranks));
    if (tried == NULL || ranks == NULL) {
        free(tried);
        free(ranks);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(ranks, key->ranks, key->n * sizeof(*ranks));
    struct wring_codec_bypass_case **link = find_case_link(session, key);
    *tried = *key;
    tried->ranks = ranks;
    tried->next = *link;
    *link = tried;
    return WRING_OK;
}

/** All that is to be measured for the buckets as they are now. @param any out: is anything? */
static enum wring_status want_all_trials(struct wring_session *session, bool *any)
{
    *any = false;
    for (struct wring_codec_bypass_case *at = session->tried; at != NULL; at = at->next) {
        at->wanted = 0;
        at->fresh = false;
    }
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!has_bypass_choice(at))
            continue;
        struct wring_codec_bypass_case with = bucket_case(at, wring_codec_info(at->codec)->spec);
        struct wring_codec_bypass_case without = bucket_case(at, "none");
        with.wanted = at->elems * sizeof(float);
        enum wring_status status = want_trial(session, &with);
        if (status == WRING_OK)
            status = want_trial(session, &without);
        if (status != WRING_OK)
            return status;
    }
    for (const struct wring_codec_bypass_case *at = session->tried; at != NULL; at = at->next)
        *any |= at->fresh;
    return WRING_OK;
}

/** Trials are for all ranks, or for none. @param any in, ours; out */
static enum wring_status agree_on_any_trial(struct wring_session *session, bool *any)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, *any);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++) {
        struct wring_reader reader = wring_blobs_reader(&blobs, i);
        uint32_t theirs = wring_read_u32(&reader);
        *any |= theirs != 0;
        if (!reader.failed && theirs <= 1)
            continue;
        wring_error(&session->log, "rank %" PRIu32 " does not say whether it has trials to make",
                    i);
        status = WRING_ERR_FRAME;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/** Trials are of float32, as which codecs see all elements: what a step takes of the bucket's bytes
 *  if it has fewer of them for as many elements. */
static struct wring_curve bucket_curve(const struct wring_codec_bypass_case *tried,
                                       const struct wring_bucket *bucket)
{
    struct wring_curve curve = tried->curve;
    for (uint32_t i = 0; i < curve.n; i++)
        curve.points[i].bytes =
            curve.points[i].bytes * wring_dtype_bytes(bucket->dtype) / sizeof(float);
    return curve;
}

static void choose_bypass(struct wring_session *session, struct wring_bucket *bucket)
{
    struct wring_codec_bypass_case with =
        bucket_case(bucket, wring_codec_info(bucket->codec)->spec);
    struct wring_codec_bypass_case without = bucket_case(bucket, "none");
    struct wring_choice *choice = &bucket->choice;

    const struct wring_curve coded = bucket_curve(find_case(session, &with), bucket);
    *choice = wring_codec_bypass_rule(&coded, &find_case(session, &without)->curve,
                                      wring_bucket_bytes(bucket));
    wring_info(&session->log,
               "bucket '%s', %zu bytes: codec %s %s: a step is expected to take %.1f us with it, "
               "%.1f us without",
               bucket->name, wring_bucket_bytes(bucket), with.spec,
               choice->bypass ? "is left out" : "runs", (double)choice->with_ns / 1e3,
               (double)choice->without_ns / 1e3);
}

/** Of a codec of matrices: what ranks share about one is empty where there is none. */
static bool lacks_a_matrix(const struct wring_bucket *bucket)
{
    const struct wring_codec_states *states = bucket->states;
    bool shares = false, any = false;

    if ((wring_codec_info(bucket->codec)->flags & WRING_CODEC_MATRIX) == 0 || states == NULL)
        return false;
    for (uint32_t i = 0; i < states->n; i++)
        if (states->what[i].holder == WRING_CODEC_SHARED) {
            shares = true;
            any |= states->counts[i] > 0;
        }
    return shares && !any;
}

/** Statistics name the codec, which runs: it adds up the numbers themselves. Told before the first
 *  step, and so once. */
static void tell_of_no_matrix(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->collective.step == 0 && lacks_a_matrix(at))
            wring_info(&session->log,
                       "bucket '%s', %zu bytes: codec %s sums it as it is: its shape of %" PRIu64
                       " x %" PRIu64 " is no matrix, or too small a one",
                       at->name, wring_bucket_bytes(at), wring_codec_info(at->codec)->spec,
                       at->rows, at->columns);
}

enum wring_status wring_codec_bypass_choose(struct wring_session *session)
{
    const char *how = session->plan == NULL ? session->config.bypass : "never";
    enum wring_status status = WRING_OK;
    bool any = false;

    if (session->keeps_choices)
        return WRING_OK;
    tell_of_no_matrix(session);
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        at->choice =
            (struct wring_choice){.bypass = has_bypass_choice(at) && strcmp(how, "always") == 0};
    if (strcmp(how, "auto") == 0)
        status = want_all_trials(session, &any);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = agree_on_any_trial(session, &any);
    if (status == WRING_OK && any)
        status = trials_run(session);
    if (status != WRING_OK || strcmp(how, "auto") != 0)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (has_bypass_choice(at))
            choose_bypass(session, at);
    return WRING_OK;
}
