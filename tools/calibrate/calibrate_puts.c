/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What puts between two ranks of a level take, by size: their latency, and what each takes with
 * many under way, as `wring bench p2p` measures both. They are the level's first two ranks, over
 * its provider, while all others rest.
 */
#include <stdlib.h>
#include <string.h>

#include "planner/fit.h"
#include "runtime/session/session.h"
#include "tools/bench/bench_p2p.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include <wring/provider.h>

#define SIZES 6
#define SAMPLES 200 /* of the latency, at most */
#define PUTS 100.0  /* of a size, at least, in round trips and streams */

static const uint64_t sizes[SIZES] = {8, 512, 4096, 65536, 1u << 20, 4u << 20};

struct bench {
    uint32_t n; /* sizes that were measured */
    double latency_us[SIZES][SAMPLES];
    uint32_t samples[SIZES];
    double put_us[SIZES][WRING_P2P_ROUNDS_MAX];
    uint32_t rounds[SIZES];
};

/** Of the sorted times as many as there is room for, evenly. */
static void on_result(void *arg, const struct wring_p2p_result *result)
{
    struct bench *bench = arg;
    uint64_t n = result->round_trips < SAMPLES ? result->round_trips : SAMPLES;

    for (uint64_t i = 0; i < n; i++)
        bench->latency_us[bench->n][i] = result->trips_us[i * result->round_trips / n];
    bench->samples[bench->n] = (uint32_t)n;
    memcpy(bench->put_us[bench->n], result->put_us, result->rounds * sizeof(double));
    bench->rounds[bench->n++] = result->rounds;
}

/** Sizes that the time is enough for, by what the link takes; two at least. Rank 0 says it. */
static enum wring_status agree_on_sizes(struct wring_calibration *job,
                                        const struct wring_profile_link *link, double seconds,
                                        struct wring_p2p_params *params)
{
    uint64_t n = 0;

    while (n < SIZES &&
           (n < 2 || PUTS * wring_cost_at(&link->us, (double)sizes[n]) < seconds * 1e6))
        n++;
    enum wring_status status = wring_broadcast(job->world, &n, sizeof(n), 0, NULL, NULL);
    params->n_bytes = n < SIZES ? n : SIZES;
    memcpy(params->bytes, sizes, sizeof(sizes));
    params->seconds = seconds / (double)params->n_bytes;
    return status;
}

static enum wring_status fit(struct bench *bench, struct wring_profile_put *out)
{
    struct wring_fit_point latency[SIZES], each[SIZES];

    for (uint32_t i = 0; i < bench->n; i++) {
        double bytes = (double)sizes[i];
        latency[i] = (struct wring_fit_point){bytes, bench->latency_us[i], bench->samples[i]};
        each[i] = (struct wring_fit_point){bytes, bench->put_us[i], bench->rounds[i]};
    }
    enum wring_status status = wring_fit_curve(latency, bench->n, WRING_FIT_MEDIAN, &out->latency);
    return status == WRING_OK ? wring_fit_curve(each, bench->n, WRING_FIT_MEDIAN, &out->each)
                              : status;
}

/** The provider of that name; who looks on may know none. */
static const struct wring_provider_ops *find_provider(const char *name)
{
    const struct wring_provider_ops *ops = wring_provider_find(name);

    return ops != NULL ? ops : wring_provider_list()[0];
}

enum wring_status wring_calibrate_puts(struct wring_calibration *job, enum wring_level level,
                                       double seconds, struct wring_profile_link *link)
{
    struct wring_p2p_params params = {.name = job->params->name,
                                      .config = &job->session->config,
                                      .provider = find_provider(link->provider),
                                      .session = job->session,
                                      .ranks = {job->pairs[level][0], job->pairs[level][1]}};
    struct bench *bench = calloc(1, sizeof(*bench));
    enum wring_status status =
        wring_session_agree(job->session, bench != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");

    if (status == WRING_OK)
        status = agree_on_sizes(job, link, seconds, &params);
    if (status == WRING_OK && wring_p2p_rank(&params, on_result, bench) != WRING_EXIT_OK)
        status = wring_session_error(job->session, NULL); /* else there are no puts, as was said */
    if (status == WRING_OK && bench->n > 0)
        status = fit(bench, &link->put);
    free(bench);
    return status;
}
