/* SPDX-License-Identifier: Apache-2.0 */
/* What to try is rank 0's to say: it thinks, and the others hear its plans. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/files/plan.h"
#include "runtime/plan/autoplan.h"

#define PLAN_BYTES_MAX (16u << 20)

static void write_way(const struct wring_autoplan_way *way, struct wring_writer *out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL || wring_plan_save(way->plan, file) != WRING_OK)
        out->failed = true;
    if (file != NULL && fclose(file) != 0)
        out->failed = true;
    wring_write_sized(out, way->name, strlen(way->name));
    wring_write_sized(out, text, out->failed ? 0 : bytes);
    free(text);
}

static enum wring_status read_way(struct wring_autoplan *autoplan, struct wring_reader *in)
{
    struct wring_autoplan_way *way = &autoplan->ways[autoplan->n_ways];
    size_t bytes;

    *way = (struct wring_autoplan_way){.plan = NULL};
    wring_read_text(in, way->name, sizeof(way->name));
    const char *text = wring_read_sized(in, &bytes);
    if (in->failed || bytes > PLAN_BYTES_MAX)
        return WRING_ERR_FRAME;
    enum wring_status status =
        wring_plan_parse("rank 0's plan", text, bytes, &autoplan->session->log, &way->plan);
    if (status != WRING_OK)
        return status;
    way->predicted_us = way->plan->iteration_us;
    autoplan->n_ways++;
    return WRING_OK;
}

static enum wring_status read_ways(struct wring_autoplan *autoplan, struct wring_reader in)
{
    enum wring_status status = (enum wring_status)wring_read_u32(&in);
    uint32_t n = wring_read_u32(&in);

    if (status != WRING_OK || in.failed)
        return status != WRING_OK ? status : WRING_ERR_FRAME;
    if (n == 0 || n > WRING_AUTOPLAN_WAYS_MAX)
        return WRING_ERR_FRAME;
    for (uint32_t i = 1; i < n && status == WRING_OK; i++)
        status = read_way(autoplan, &in);
    return status;
}

enum wring_status wring_autoplan_find_ways(struct wring_autoplan *autoplan, bool early)
{
    struct wring_session *session = autoplan->session;
    enum wring_status status = WRING_OK;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    if (session->rank == 0) {
        uint64_t began_ns = wring_now_ns();
        status = wring_autoplan_think(autoplan, early);
        autoplan->spent_ns += wring_now_ns() - began_ns;
        wring_write_u32(&writer, status);
        wring_write_u32(&writer, autoplan->n_ways);
        for (uint32_t i = 1; i < autoplan->n_ways && status == WRING_OK; i++)
            write_way(&autoplan->ways[i], &writer);
    }
    enum wring_status exchanged = wring_session_exchange_writer(session, &writer, &blobs);
    if (exchanged != WRING_OK)
        return exchanged;
    if (session->rank != 0)
        status = read_ways(autoplan, wring_blobs_reader(&blobs, 0));
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, NULL);
}
