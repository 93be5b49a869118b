/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/codec_error_stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MORE ",..."

bool wring_codec_error_stats_wants(struct wring_codec_error_stats *error_stats, uint32_t way,
                                   uint64_t step)
{
    struct wring_codec_error *loss = &error_stats->ways[way];

    if (error_stats->every == 0 || step % error_stats->every != 0)
        return false;
    if (loss->next_step != step + 1) {
        loss->turn = loss->count > 0 ? step / error_stats->every % loss->count : 0;
        loss->count = 0;
        loss->next_step = step + 1;
    }
    return loss->count++ == loss->turn;
}

static void add_sample(struct wring_codec_error *loss, const struct wring_job *job)
{
    if (!isfinite(job->result.lost) || !isfinite(job->result.whole))
        return;
    loss->lost += job->result.lost;
    loss->whole += job->result.whole;
    loss->last = job->result.whole > 0 ? job->result.lost / job->result.whole : 0;
    loss->pieces++;
}

void wring_codec_error_stats_take(struct wring_codec_error_stats *error_stats,
                                  const struct wring_job *job)
{
    if (job->result.core >= 0 && job->result.core < WRING_CORES_MAX)
        error_stats->cores[job->result.core / 64] |= UINT64_C(1) << job->result.core % 64;
    if (job->measure && job->result.status == WRING_OK)
        add_sample(&error_stats->ways[job->context.phase], job);
    if (job->result.status == WRING_OK)
        error_stats->cut += job->result.cut;
}

static bool has_core(const struct wring_codec_error_stats *error_stats, uint32_t core)
{
    return core < WRING_CORES_MAX && error_stats->cores[core / 64] >> core % 64 & 1;
}

/** Add "first" or "first-last". @return whether it and a later ",..." fit */
static bool add_run(char *text, size_t bytes, uint32_t first, uint32_t last)
{
    char run[32];
    size_t length = strlen(text);
    int n = snprintf(run, sizeof(run), first == last ? "%s%u" : "%s%u-%u", length > 0 ? "," : "",
                     first, last);
    if (length + (size_t)n + sizeof(MORE) > bytes) {
        snprintf(text + length, bytes - length, MORE);
        return false;
    }
    memcpy(text + length, run, (size_t)n + 1);
    return true;
}

uint32_t wring_codec_error_stats_cores(const struct wring_codec_error_stats *error_stats,
                                       char *text, size_t bytes)
{
    uint32_t count = 0;
    bool room = true;

    text[0] = '\0';
    for (uint32_t core = 0; core < WRING_CORES_MAX; core++) {
        if (!has_core(error_stats, core))
            continue;
        uint32_t last = core;
        while (has_core(error_stats, last + 1))
            last++;
        room = room && add_run(text, bytes, core, last);
        count += last - core + 1;
        core = last;
    }
    return count;
}
