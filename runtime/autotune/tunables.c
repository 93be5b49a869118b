/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/autotune/tunables.h"

#include <string.h>

#include "planner/core/files/plan.h"
#include "runtime/autotune/autotune.h"
#include "runtime/session/executor.h"

/** What one rank was configured to. */
struct heard {
    char executor[WRING_CONFIG_TEXT];
    uint64_t chunk_bytes;
    bool executor_given, pieces_given;
};

/* ---- what all ranks were told ---- */

static void write_own(const struct wring_autotune *autotune, struct wring_writer *out)
{
    const struct wring_config *config = &autotune->session->config;
    const struct wring_autotune_tunables *tunables = &autotune->tunables;

    wring_write_sized(out, tunables->executor, strlen(tunables->executor));
    wring_write_u64(out, tunables->chunk_bytes);
    wring_write_u32(out, wring_config_given(config, "WRING_EXECUTOR"));
    wring_write_u32(out, wring_config_given(config, "WRING_CHUNK_BYTES"));
}

static bool read_one(struct wring_reader in, struct heard *out)
{
    wring_read_text(&in, out->executor, sizeof(out->executor));
    out->chunk_bytes = wring_read_u64(&in);
    out->executor_given = wring_read_u32(&in) != 0;
    out->pieces_given = wring_read_u32(&in) != 0;
    return !in.failed;
}

/** What any rank was given, and whether all have the same. @param all  out */
static enum wring_status read_all(const struct wring_session *session,
                                  const struct wring_blobs *blobs, struct heard *all, bool *alike)
{
    struct heard one = {.chunk_bytes = 0};

    *alike = true;
    for (uint32_t i = 0; i < session->size; i++) {
        if (!read_one(wring_blobs_reader(blobs, i), &one))
            return WRING_ERR_FRAME;
        if (i == 0)
            *all = one;
        *alike = *alike && strcmp(one.executor, all->executor) == 0 &&
                 one.chunk_bytes == all->chunk_bytes;
        all->executor_given = all->executor_given || one.executor_given;
        all->pieces_given = all->pieces_given || one.pieces_given;
    }
    return WRING_OK;
}

static void decide(struct wring_autotune *autotune, const struct heard *all, bool alike)
{
    struct wring_autotune_tunables *tunables = &autotune->tunables;
    uint32_t own = autotune->machine.own_cores, counted;
    bool told = alike && wring_executor_count_cores(all->executor, &counted);

    tunables->tuning = (struct wring_tuning){0};
    tunables->cores = 0;
    tunables->pieces = told && !all->pieces_given;
    tunables->pieces_why = tunables->pieces ? NULL
                           : told           ? "WRING_CHUNK_BYTES is set"
                                            : "WRING_EXECUTOR says which cores, or differs";
    if (told)
        tunables->tuning = (struct wring_tuning){counted, all->chunk_bytes};
    if (!told || all->executor_given)
        tunables->cores_why = "WRING_EXECUTOR is set";
    else if (own == 0)
        tunables->cores_why = "ranks of a host share their cores: bind each to its own";
    else if (own == 1)
        tunables->cores_why = "a rank has one core, and none to spare";
    else {
        tunables->cores_why = NULL;
        tunables->cores = own - 1;
    }
}

enum wring_status wring_autotune_agree_on_tunables(struct wring_autotune *autotune)
{
    struct wring_session *session = autotune->session;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    struct heard all = {.chunk_bytes = 0};
    bool alike;

    write_own(autotune, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    status = read_all(session, &blobs, &all, &alike);
    wring_blobs_finish(&blobs);
    if (status == WRING_OK)
        decide(autotune, &all, alike);
    return status;
}

bool wring_autotune_may_have(const struct wring_autotune *autotune,
                             const struct wring_tuning *tuning)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    bool cores = tuning->cores == tunables->tuning.cores || tuning->cores <= tunables->cores;
    bool pieces = tuning->chunk_bytes == tunables->tuning.chunk_bytes || tunables->pieces;

    return tunables->tuning.chunk_bytes != 0 && cores && pieces;
}

/* ---- the session ---- */

enum wring_status wring_autotune_settle(struct wring_session *session)
{
    const struct wring_plan *plan = session->plan;

    if (session->autotune == NULL)
        return WRING_OK;
    const struct wring_autotune_tunables *tunables = &session->autotune->tunables;
    bool has_executor = plan != NULL && plan->executor[0] != '\0';
    bool has_pieces = plan != NULL && plan->chunk_bytes != 0;
    return wring_session_settle(session, has_executor ? plan->executor : tunables->executor,
                                has_pieces ? plan->chunk_bytes : tunables->chunk_bytes);
}
