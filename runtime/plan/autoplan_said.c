/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say of their last iterations when they meet. */
#include "runtime/plan/autoplan_said.h"

#include <math.h>

#include "base/clock.h"
#include "runtime/plan/joined.h"

#define ITERATION_MAX_US 1e12
#define REPLAN_SHARE 20 /* times as long as planning took must pass until the next */

static void write_number(struct wring_writer *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    wring_write_u64(out, bits);
}

static double read_number(struct wring_reader *in)
{
    uint64_t bits = wring_read_u64(in);
    double value;

    memcpy(&value, &bits, sizeof(value));
    if (!(value >= 0 && value <= ITERATION_MAX_US))
        in->failed = true;
    return value;
}

/** Would buckets that change their ways now do so under somebody's hands? */
static bool is_busy(const struct wring_autoplan *autoplan)
{
    struct wring_session *session = autoplan->session;
    bool busy = false;

    for (uint32_t i = 0; i < autoplan->iterations.n; i++)
        busy |= autoplan->iterations.tensors[i].pending; /* somebody may be about to wait for it */
    if (busy)
        return true;
    wring_progress_lock(session->progress);
    busy = !wring_engine_idle(session->engine);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        busy |= !at->committed || at->dropped || wring_bucket_under_way(at);
    for (const struct wring_bucket *at = session->joined; at != NULL; at = at->next)
        busy |= at->dropped || wring_bucket_under_way(at);
    wring_progress_unlock(session->progress);
    return busy;
}

/** Has rank 0 the time for planning anew? */
static bool may_replan(const struct wring_autoplan *autoplan)
{
    return wring_now_ns() - autoplan->settled_ns > REPLAN_SHARE * autoplan->spent_ns;
}

static void write_report(struct wring_autoplan *autoplan, struct wring_writer *out)
{
    wring_write_u32(out, autoplan->stage);
    wring_write_u32(out, autoplan->at);
    wring_write_u32(out, is_busy(autoplan));
    wring_write_u32(out, autoplan->iterations.early);
    wring_write_u32(out, may_replan(autoplan));
    write_number(out,
                 wring_iterations_median(autoplan->iterations.took_us, WRING_ITERATIONS_TIMED));
    write_number(out,
                 wring_iterations_median(autoplan->iterations.compute_us, WRING_ITERATIONS_TIMED));
    wring_write_u32(out, autoplan->iterations.n);
    for (uint32_t i = 0; i < autoplan->iterations.n; i++)
        write_number(out, wring_iterations_median(autoplan->iterations.tensors[i].ready_us,
                                                  WRING_ITERATIONS_TIMED));
}

/** The slowest rank's. @return false: not what it should be */
static bool read_report(struct wring_autoplan *autoplan, struct wring_reader in, bool is_root,
                        struct wring_autoplan_said *all)
{
    uint32_t stage = wring_read_u32(&in), at = wring_read_u32(&in);
    uint32_t busy = wring_read_u32(&in), early = wring_read_u32(&in), may = wring_read_u32(&in);

    all->busy |= busy;
    all->early |= early;
    all->may |= is_root ? may : 0;
    all->us = fmax(all->us, read_number(&in));
    all->compute_us = fmax(all->compute_us, read_number(&in));
    if (wring_read_u32(&in) != autoplan->iterations.n)
        return false;
    for (uint32_t i = 0; i < autoplan->iterations.n && !in.failed; i++)
        autoplan->ready_us[i] = fmax(autoplan->ready_us[i], read_number(&in));
    return stage == all->stage && at == all->at && !in.failed;
}

enum wring_status wring_autoplan_hear(struct wring_autoplan *autoplan,
                                      struct wring_autoplan_said *all)
{
    struct wring_session *session = autoplan->session;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    *all = (struct wring_autoplan_said){.stage = autoplan->stage, .at = autoplan->at};
    memset(autoplan->ready_us, 0, autoplan->iterations.n * sizeof(*autoplan->ready_us));
    write_report(autoplan, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++)
        if (!read_report(autoplan, wring_blobs_reader(&blobs, i), i == 0, all))
            status = WRING_ERR_MISMATCH;
    wring_blobs_finish(&blobs);
    return status;
}
