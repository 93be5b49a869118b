/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/trial_bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/commit/commit.h"

static const uint64_t sizes[WRING_CURVE_POINTS] = {4 << 10, 64 << 10, 1 << 20, 8 << 20};

static uint64_t size_of(const struct wring_tried *tried, uint32_t i)
{
    return sizes[i] < tried->wanted ? sizes[i] : tried->wanted;
}

static enum wring_status list_trials(struct wring_trial_bench *bench)
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

static enum wring_status make_memory(struct wring_trial_bench *bench)
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
    char way[WRING_CODEC_SPEC_MAX + WRING_EXECUTOR_TEXT + 16];

    snprintf(way, sizeof(way), "%s %d %d %s", tried->spec, (int)tried->scheme, tried->placed,
             tried->executor);
    for (uint32_t i = 0; i < members->n; i++)
        hash = (hash ^ members->ranks[i]) * 0x100000001b3u;
    for (const char *at = way; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(name, WRING_NAME_MAX, "trial %016" PRIx64 " %.20s", hash, what);
}

static enum wring_status register_sizes(struct wring_trial_bench *bench, struct wring_trial *trial)
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
            .executor = tried->executor,
        };
        status = wring_bucket_register(bench->session, &params, &trial->buckets[i]);
        trial->n = i + 1;
    }
    return status;
}

static enum wring_status register_all(struct wring_trial_bench *bench)
{
    enum wring_status status = WRING_OK;
    char name[WRING_NAME_MAX];

    for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++) {
        struct wring_trial *trial = &bench->trials[i];
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

enum wring_status wring_trial_bench_init(struct wring_trial_bench *bench)
{
    enum wring_status status = list_trials(bench);
    if (status == WRING_OK)
        status = make_memory(bench);
    return status == WRING_OK ? register_all(bench) : status;
}

void wring_trial_bench_finish(struct wring_trial_bench *bench)
{
    struct wring_session *session = bench->session;
    wring_commit_forget_passing(session, bench->real);
    wring_buffer_free(session, bench->placed);
    free(bench->foreign);
    free(bench->source);
    free(bench->trials);
}
