/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/trials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/commit/commit.h"

#define WRING_MODULE "commit"
#define STEPS_MAX 50
#define STEPS_MIN 5
#define TURNS 2
#define ENOUGH_NS (3 * WRING_NS_PER_MS)   /* of steps of one size in a turn */
#define SHORT_NS (50 * WRING_NS_PER_MS)   /* longer steps have one turn: a disturbance is less */
#define PLENTY_NS (100 * WRING_NS_PER_MS) /* fewer than STEPS_MIN are enough */
#define SLOPE_NS (4 * WRING_NS_PER_MS)    /* more than latency: larger sizes tell nothing new */

static const uint64_t sizes[WRING_CURVE_POINTS] = {4 << 10, 64 << 10, 1 << 20, 8 << 20};

/** The buckets of one wring_tried. */
struct trial {
    struct wring_tried *tried;
    uint32_t n; /* sizes */
    struct wring_bucket *buckets[WRING_CURVE_POINTS];
    struct wring_bucket *slowest; /* in which the ranks find out how long a step took */
    struct wring_curve curve;
};

/** All of them, and the memory that they share. */
struct bench {
    struct wring_session *session;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    struct trial *trials;
    uint32_t n;
    uint64_t bytes;         /* of the largest bucket */
    float *source;          /* [bytes] what steps begin with */
    void *placed, *foreign; /* [bytes] or NULL */
    double ns;              /* the data of all buckets `slowest` */
};

static uint64_t size_of(const struct wring_tried *tried, uint32_t i)
{
    return sizes[i] < tried->wanted ? sizes[i] : tried->wanted;
}

static enum wring_status list_trials(struct bench *bench)
{
    uint32_t n = 0;
    for (const struct wring_tried *at = bench->session->tried; at != NULL; at = at->next)
        n += at->fresh;
    bench->trials = calloc(n + 1, sizeof(*bench->trials));
    if (bench->trials == NULL)
        return WRING_ERR_NO_MEMORY;
    for (struct wring_tried *at = bench->session->tried; at != NULL; at = at->next)
        if (at->fresh)
            bench->trials[bench->n++].tried = at;
    return WRING_OK;
}

static enum wring_status make_memory(struct bench *bench)
{
    bool placed = false, foreign = false;
    uint32_t random = 1;

    for (uint32_t i = 0; i < bench->n; i++) {
        const struct wring_tried *tried = bench->trials[i].tried;
        uint64_t bytes = size_of(tried, WRING_CURVE_POINTS - 1);
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

/** The same on all members, and no other's: by the group, the way and the size. */
static void name_bucket(const struct wring_tried *tried, const char *what, char *name)
{
    const struct wring_members *members = &tried->group->members;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    char way[WRING_CODEC_SPEC_MAX + 16];

    snprintf(way, sizeof(way), "%s %d %d", tried->spec, (int)tried->scheme, tried->placed);
    for (uint32_t i = 0; i < members->n; i++)
        hash = (hash ^ members->ranks[i]) * 0x100000001b3u;
    for (const char *at = way; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(name, WRING_NAME_MAX, "trial %016" PRIx64 " %.20s", hash, what);
}

static enum wring_status register_sizes(struct bench *bench, struct trial *trial)
{
    struct wring_tried *tried = trial->tried;
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX], what[24];

    for (uint32_t i = 0; i < WRING_CURVE_POINTS && status == WRING_OK; i++) {
        if (i > 0 && size_of(tried, i) == size_of(tried, i - 1))
            break;
        snprintf(what, sizeof(what), "%" PRIu64, size_of(tried, i));
        name_bucket(tried, what, name);
        struct wring_bucket_params params = {
            .name = name,
            .data = tried->placed ? bench->placed : bench->foreign,
            .elems = size_of(tried, i) / sizeof(float),
            .codec = tried->spec,
            .scheme = tried->scheme,
            .group = tried->group,
        };
        status = wring_bucket_register(bench->session, &params, &trial->buckets[i]);
        trial->n = i + 1;
    }
    return status;
}

static enum wring_status register_all(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++) {
        struct trial *trial = &bench->trials[i];
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

static enum wring_status step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, WRING_FOREVER) : status;
}

/** What the slowest member took, and a barrier. @param ns  in, ours; out */
static enum wring_status agree_on_time(struct bench *bench, struct trial *trial, uint64_t *ns)
{
    bench->ns = (double)*ns;
    enum wring_status status = step(trial->slowest);
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
static enum wring_status time_size(struct bench *bench, struct trial *trial, uint32_t size,
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
            status = step(bucket);
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

/** The first turn of one way: its sizes, as far as they tell something new. */
static enum wring_status time_sizes(struct bench *bench, struct trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    while (curve->n < trial->n && status == WRING_OK) {
        uint32_t size = curve->n++;
        curve->points[size].bytes = wring_bucket_bytes(trial->buckets[size]);
        status = time_size(bench, trial, size, &curve->points[size].ns);
        if (curve->points[size].ns > curve->points[0].ns + SLOPE_NS)
            break;
    }
    return status;
}

/** A further turn: what is disturbed, is so for a while, and looks longer than it is. */
static enum wring_status time_again(struct bench *bench, struct trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < curve->n && status == WRING_OK; size++) {
        uint64_t ns = curve->points[size].ns;
        if (ns < SHORT_NS)
            status = time_size(bench, trial, size, &ns);
        if (ns < curve->points[size].ns)
            curve->points[size].ns = ns;
    }
    return status;
}

/** All ways take turns. */
static enum wring_status time_all(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    for (uint32_t turn = 0; turn < TURNS; turn++)
        for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++)
            status = turn == 0 ? time_sizes(bench, &bench->trials[i])
                               : time_again(bench, &bench->trials[i]);
    return status;
}

/** Register, connect, run; each of it on all ranks or on none. */
static enum wring_status try_all(struct bench *bench)
{
    struct wring_session *session = bench->session;
    enum wring_status status = list_trials(bench);
    if (status == WRING_OK)
        status = make_memory(bench);
    if (status == WRING_OK)
        status = register_all(bench);
    status = wring_commit_passing(session, status);
    if (status == WRING_OK)
        status = wring_session_agree(session, time_all(bench), "");
    return status;
}

static void take_over(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->n; i++) {
        struct trial *trial = &bench->trials[i];
        trial->tried->curve = trial->curve;
        trial->tried->measured = trial->tried->wanted;
        trial->tried->fresh = false;
    }
}

/** The session is as it was before. */
static void clear_away(struct bench *bench)
{
    struct wring_session *session = bench->session;
    wring_commit_forget_passing(session, bench->real);
    wring_buffer_free(session, bench->placed);
    free(bench->foreign);
    free(bench->source);
}

enum wring_status wring_trials_run(struct wring_session *session)
{
    struct bench bench = {.session = session, .real = session->buckets};
    uint64_t began = wring_now_ns();

    session->buckets = NULL;
    enum wring_status status = try_all(&bench);
    if (status == WRING_OK)
        take_over(&bench);
    wring_debug(&session->log, "trials of %" PRIu32 " ways took %.1f ms", bench.n,
                (double)(wring_now_ns() - began) / 1e6);
    clear_away(&bench);
    free(bench.trials);
    return status;
}

void wring_trials_forget(struct wring_session *session)
{
    while (session->tried != NULL) {
        struct wring_tried *tried = session->tried;
        session->tried = tried->next;
        free(tried->ranks);
        free(tried);
    }
}
