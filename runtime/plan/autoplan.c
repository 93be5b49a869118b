/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes part, and what an iteration is. */
#include "runtime/plan/autoplan.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/files/plan.h"

#define WRING_MODULE "plan"

enum wring_status wring_autoplan_open(struct wring_session *session)
{
    struct wring_autoplan *autoplan = calloc(1, sizeof(*autoplan));
    struct wring_measure_codecs unused;

    if (autoplan == NULL)
        return WRING_ERR_NO_MEMORY;
    autoplan->session = session;
    pthread_mutex_init(&autoplan->mutex, NULL);
    session->autoplan = autoplan;
    wring_autoplan_note_leeway(autoplan);
    return wring_autoplan_codecs(session, autoplan, &unused);
}

static void forget_tensors(struct wring_autoplan *autoplan)
{
    struct wring_bucket *const lists[] = {autoplan->session->buckets, autoplan->session->joined};
    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next) {
            at->tensor = NULL;
            at->watch = NULL;
        }
    free(autoplan->tensors);
    free(autoplan->ready_us);
    autoplan->tensors = NULL;
    autoplan->ready_us = NULL;
    autoplan->n = 0;
}

void wring_autoplan_forget_ways(struct wring_autoplan *autoplan)
{
    autoplan->session->plan = NULL;
    for (uint32_t i = 0; i < autoplan->n_ways; i++)
        wring_plan_destroy(autoplan->ways[i].plan);
    autoplan->n_ways = autoplan->at = autoplan->first = autoplan->in_turn = 0;
}

void wring_autoplan_close(struct wring_session *session)
{
    struct wring_autoplan *autoplan = session->autoplan;

    if (autoplan == NULL)
        return;
    wring_autoplan_forget_ways(autoplan);
    forget_tensors(autoplan);
    wring_autoplan_forget_profile(autoplan);
    pthread_mutex_destroy(&autoplan->mutex);
    free(autoplan);
    session->autoplan = NULL;
}

static enum wring_status arrive(struct wring_bucket *bucket);
static void posted(struct wring_bucket *bucket, uint64_t at_ns);
static bool is_over(struct wring_bucket *bucket, enum wring_status *status);
static void waited(struct wring_bucket *bucket, uint64_t began_ns, bool ended);

static const struct wring_bucket_watch watch = {
    .arrive = arrive,
    .posted = posted,
    .is_over = is_over,
    .waited = waited,
};

/* ---- who takes part ---- */

/** Only what is of one kind can travel as one: the first bucket's. What was registered to go
 *  hierarchically keeps the order of its sums, and so its scheme; and an executor that is named. */
static bool takes_part(const struct wring_bucket *bucket, const struct wring_bucket *first)
{
    return bucket->dtype == WRING_F32 && bucket->elems > 0 &&
           (bucket->op == WRING_SUM || bucket->op == WRING_AVG) &&
           !wring_scheme_is_hierarchical(bucket->scheme) && bucket->executor[0] == '\0' &&
           bucket->group == bucket->session->world && (first == NULL || bucket->op == first->op);
}

static enum wring_status list_tensors(struct wring_autoplan *autoplan)
{
    const struct wring_bucket *first = NULL;
    uint32_t n = 0;

    forget_tensors(autoplan);
    for (const struct wring_bucket *at = autoplan->session->buckets; at != NULL; at = at->next)
        n++;
    autoplan->tensors = calloc(n + 1, sizeof(*autoplan->tensors));
    autoplan->ready_us = calloc(n + 1, sizeof(*autoplan->ready_us));
    if (autoplan->tensors == NULL || autoplan->ready_us == NULL)
        return WRING_ERR_NO_MEMORY;
    for (struct wring_bucket *at = autoplan->session->buckets; at != NULL; at = at->next) {
        if (!takes_part(at, first))
            continue;
        first = first == NULL ? at : first;
        at->tensor = &autoplan->tensors[autoplan->n++];
        at->tensor->bucket = at;
        at->watch = &watch;
    }
    return WRING_OK;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t hash_tensors(const struct wring_autoplan *autoplan)
{
    const char *codecs = autoplan->session->config.plan_codecs;
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, codecs, strlen(codecs) + 1);

    for (uint32_t i = 0; i < autoplan->n; i++) {
        const struct wring_bucket *bucket = autoplan->tensors[i].bucket;
        const char *spec = wring_codec_info(bucket->codec)->spec;
        hash = hash_bytes(hash, bucket->name, strlen(bucket->name) + 1);
        hash = hash_bytes(hash, spec, strlen(spec) + 1);
        hash = hash_bytes(hash, &bucket->elems, sizeof(bucket->elems));
        hash = hash_bytes(hash, &bucket->op, sizeof(bucket->op));
    }
    return hash;
}

enum wring_status wring_autoplan_begin(struct wring_session *session)
{
    struct wring_autoplan *autoplan = session->autoplan;

    if (autoplan == NULL)
        return WRING_OK;
    pthread_mutex_lock(&autoplan->mutex);
    uint64_t before = autoplan->question;
    enum wring_status status = list_tensors(autoplan);
    autoplan->question = hash_tensors(autoplan);
    bool kept = autoplan->stage == WRING_AUTOPLAN_KEEP && autoplan->question == before;
    if (!kept) {
        wring_autoplan_forget_ways(autoplan);
        autoplan->stage = WRING_AUTOPLAN_RECORD;
        autoplan->measure = false;
        autoplan->known = false;
    }
    wring_autoplan_restart(autoplan, WRING_AUTOPLAN_WARM + WRING_AUTOPLAN_TIMED);
    pthread_mutex_unlock(&autoplan->mutex);
    return status;
}

/* ---- what an iteration is ---- */

void wring_autoplan_restart(struct wring_autoplan *autoplan, uint64_t iterations)
{
    for (uint32_t i = 0; i < autoplan->n; i++) {
        autoplan->tensors[i].posts = 0;
        autoplan->tensors[i].pending = false;
    }
    autoplan->iteration = 0;
    autoplan->due = iterations;
    autoplan->left = autoplan->n;
    autoplan->began_ns = autoplan->ended_ns = autoplan->waited_ns = 0;
    autoplan->early = false;
}

/** Where an iteration's times go: those after warming up, the last ones. */
static uint32_t slot_of(const struct wring_autoplan *autoplan)
{
    uint64_t warm = autoplan->iteration < WRING_AUTOPLAN_WARM ? 0 : WRING_AUTOPLAN_WARM;

    return (uint32_t)((autoplan->iteration - warm) % WRING_AUTOPLAN_TIMED);
}

/** An iteration is complete; the next one begins where it ended. */
static enum wring_status turn(struct wring_autoplan *autoplan)
{
    uint64_t ended_ns = autoplan->ended_ns;

    for (uint32_t i = 0; i < autoplan->n; i++)
        if (autoplan->tensors[i].pending) /* nobody has looked whether it ended */
            ended_ns = wring_now_ns();
    autoplan->took_us[slot_of(autoplan)] = (double)(ended_ns - autoplan->began_ns) / 1e3;
    autoplan->iteration++;
    autoplan->began_ns = ended_ns;
    autoplan->waited_ns = 0;
    for (uint32_t i = 0; i < autoplan->n; i++)
        autoplan->left += autoplan->tensors[i].posts == autoplan->iteration;
    return autoplan->iteration < autoplan->due ? WRING_OK : wring_autoplan_meet(autoplan);
}

static enum wring_status arrive(struct wring_bucket *bucket)
{
    struct wring_autoplan *autoplan = bucket->session->autoplan;
    enum wring_status status = WRING_OK;

    pthread_mutex_lock(&autoplan->mutex);
    if (autoplan->left == 0 && autoplan->stage != WRING_AUTOPLAN_OFF)
        status = turn(autoplan);
    pthread_mutex_unlock(&autoplan->mutex);
    return status;
}

static void posted(struct wring_bucket *bucket, uint64_t at_ns)
{
    struct wring_autoplan *autoplan = bucket->session->autoplan;
    struct wring_autoplan_tensor *tensor = bucket->tensor;

    pthread_mutex_lock(&autoplan->mutex);
    double computed_us = (double)(at_ns - autoplan->began_ns - autoplan->waited_ns) / 1e3;
    tensor->pending = true;
    if (tensor->posts++ == autoplan->iteration) {
        autoplan->left--;
        tensor->ready_us[slot_of(autoplan)] = computed_us;
        autoplan->compute_us[slot_of(autoplan)] = computed_us;
    }
    autoplan->waited_ns += wring_now_ns() - at_ns;
    pthread_mutex_unlock(&autoplan->mutex);
}

static bool is_over(struct wring_bucket *bucket, enum wring_status *status)
{
    struct wring_autoplan *autoplan = bucket->session->autoplan;

    pthread_mutex_lock(&autoplan->mutex);
    bool over = bucket->committed && !bucket->tensor->pending;
    if (over)
        *status = (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                          memory_order_acquire);
    pthread_mutex_unlock(&autoplan->mutex);
    return over;
}

static void waited(struct wring_bucket *bucket, uint64_t began_ns, bool ended)
{
    struct wring_autoplan *autoplan = bucket->session->autoplan;

    pthread_mutex_lock(&autoplan->mutex);
    if (bucket->tensor->pending) {
        uint64_t now_ns = wring_now_ns();
        if (autoplan->left > 0 && began_ns != 0) {
            autoplan->waited_ns += now_ns - began_ns;
            autoplan->early = true;
        }
        bucket->tensor->pending = !ended;
        autoplan->ended_ns = now_ns;
    }
    pthread_mutex_unlock(&autoplan->mutex);
}

static int compare_values(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

double wring_autoplan_median(const double *values, uint32_t n)
{
    double sorted[WRING_AUTOPLAN_TIMED];

    memcpy(sorted, values, n * sizeof(*values));
    qsort(sorted, n, sizeof(*sorted), compare_values);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

void wring_autoplan_tell(const struct wring_session *session, struct wring_autoplan_report *out)
{
    struct wring_autoplan *autoplan = session->autoplan;

    *out = (struct wring_autoplan_report){.with_us = NAN, .without_us = NAN, .predicted_us = NAN};
    if (autoplan == NULL)
        return;
    pthread_mutex_lock(&autoplan->mutex);
    out->settled = autoplan->stage >= WRING_AUTOPLAN_KEEP;
    if (out->settled && autoplan->n_ways > 0) {
        const struct wring_autoplan_way *way = &autoplan->ways[autoplan->at];
        out->planned = way->plan != NULL;
        out->with_us = autoplan->kept_us;
        out->without_us = autoplan->without_us;
        out->predicted_us = way->predicted_us;
        memcpy(out->name, way->name, sizeof(out->name));
        out->groups = way->plan != NULL ? way->plan->n_groups : autoplan->n;
    }
    pthread_mutex_unlock(&autoplan->mutex);
}
