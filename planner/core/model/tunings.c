/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/tunings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/model/measured_collective.h"

#define WRING_MODULE "planner"

/** The question, and what was found out on the way. */
struct asking {
    const struct wring_cost_model_params *params;
    const struct wring_tunings_wanted *wanted;
    const struct wring_log *log;
    struct wring_core_scaling scaling;
    bool collectives; /* whole collectives were measured */
    bool coded;       /* somebody may code on the CPU */
    uint32_t n_cores, n_chunks;
    uint64_t cores[WRING_TUNINGS_EACH_MAX];  /* candidates, rising */
    uint64_t chunks[WRING_TUNINGS_EACH_MAX]; /* known ones, the default first */
};

/** Put a number in its place, once; the largest go where there is no room. */
static void insert_sorted(uint64_t *list, uint32_t *n, uint64_t value)
{
    uint32_t at = 0;

    while (at < *n && list[at] < value)
        at++;
    if (at == WRING_TUNINGS_EACH_MAX || (at < *n && list[at] == value))
        return;
    *n += *n < WRING_TUNINGS_EACH_MAX;
    memmove(list + at + 1, list + at, (*n - at - 1) * sizeof(*list));
    list[at] = value;
}

/* ---- what the profile has ---- */

static void look_at_collectives(struct asking *asking)
{
    const struct wring_profile *profile = asking->params->profile;

    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        struct wring_tuning tuning = wring_profile_collective_tuning(&profile->collectives[i]);
        if (!wring_core_scaling_is_of(&asking->scaling, &profile->collectives[i]))
            continue;
        if (strcmp(profile->collectives[i].codec, "none") == 0) {
            insert_sorted(asking->chunks, &asking->n_chunks, tuning.chunk_bytes);
            asking->collectives = true;
        }
        insert_sorted(asking->cores, &asking->n_cores, tuning.cores);
    }
}

static void look_at_coders(struct asking *asking)
{
    const struct wring_profile *profile = asking->params->profile;

    insert_sorted(asking->cores, &asking->n_cores, 0);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (uint32_t j = 0; j < profile->codecs[i].n_coders; j++)
            insert_sorted(asking->cores, &asking->n_cores, profile->codecs[i].coders[j].cores);
}

/** Whoever plans nothing else has the default. */
static void put_default_first(struct asking *asking)
{
    for (uint32_t i = 0; i < asking->n_chunks; i++)
        if (asking->chunks[i] == WRING_TUNING_CHUNK_BYTES) {
            memmove(asking->chunks + 1, asking->chunks, i * sizeof(*asking->chunks));
            asking->chunks[0] = WRING_TUNING_CHUNK_BYTES;
        }
}

static void look_at_profile(struct asking *asking)
{
    uint32_t sites = asking->params->sites;

    asking->coded = sites == 0 || (sites >> WRING_SITE_CPU & 1) != 0;
    look_at_collectives(asking);
    look_at_coders(asking);
    if (asking->collectives)
        put_default_first(asking);
    else
        asking->chunks[asking->n_chunks++] = WRING_TUNING_CHUNK_BYTES;
}

/* ---- what can be said ---- */

/** Was a codec, the first `bytes` of a spec, measured on the cores of the tuning? */
static bool is_measured(const struct wring_core_scaling *scaling, const char *spec, size_t bytes)
{
    const struct wring_profile *profile = scaling->profile;

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        if (strlen(codec->spec) == bytes && memcmp(codec->spec, spec, bytes) == 0)
            return wring_core_scaling_knows(scaling, codec) || !codec->at[WRING_SITE_CPU].present ||
                   (codec->n_coders == 0 && scaling->tuning->cores == 0);
    }
    return true; /* one that is not there is refused elsewhere */
}

/** A codec, or both of "in>out" where these were not measured as one. */
static bool is_measured_whole(const struct wring_core_scaling *scaling, const char *spec)
{
    const char *two = strchr(spec, '>');

    return is_measured(scaling, spec, strlen(spec)) &&
           (two == NULL || (is_measured(scaling, spec, (size_t)(two - spec)) &&
                            is_measured(scaling, two + 1, strlen(two + 1))));
}

static bool has_collective(const struct wring_core_scaling *scaling, const char *spec)
{
    struct wring_measured_cost cost;

    return wring_core_scaling_collective(scaling, spec, "divisible", &cost) != NULL ||
           wring_core_scaling_collective(scaling, spec, "indivisible", &cost) != NULL;
}

/** Collectives uncompressed, and those of each codec that has any, with that tuning. */
static bool collectives_tell(const struct asking *asking, const struct wring_core_scaling *scaling)
{
    const struct wring_cost_model_params *params = asking->params;
    struct wring_core_scaling as_measured = *scaling;
    struct wring_measured_cost cost;
    bool any = scaling->tuning->cores == 0 || has_collective(scaling, "fp16");

    as_measured.tuning = NULL;
    for (uint32_t i = 0; i < params->n_codecs; i++) {
        bool has = has_collective(scaling, params->codecs[i]);
        if (!has && has_collective(&as_measured, params->codecs[i]))
            return false;
        any = any || has;
    }
    return any && wring_core_scaling_collective(scaling, "none", "auto", &cost) != NULL;
}

static bool coders_tell(const struct asking *asking, const struct wring_core_scaling *scaling)
{
    const struct wring_cost_model_params *params = asking->params;
    bool all = is_measured_whole(scaling, "fp16");

    for (uint32_t i = 0; i < params->n_codecs; i++)
        all = all && is_measured_whole(scaling, params->codecs[i]);
    return all && wring_core_scaling_fits(scaling);
}

static bool is_known(const struct asking *asking, uint64_t chunk_bytes, uint64_t cores)
{
    struct wring_tuning tuning = {.cores = (uint32_t)cores, .chunk_bytes = chunk_bytes};
    struct wring_core_scaling scaling = asking->scaling;

    scaling.tuning = &tuning;
    if (cores > 0 && !asking->coded)
        return false;
    return asking->collectives ? collectives_tell(asking, &scaling) : coders_tell(asking, &scaling);
}

/* ---- what is wanted ---- */

static bool is_among(const uint64_t *list, uint32_t n, uint64_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

static enum wring_status narrow_chunks_to_wanted(struct asking *asking)
{
    const struct wring_tunings_wanted *wanted = asking->wanted;
    char known[256] = "";

    for (uint32_t i = 0; i < asking->n_chunks; i++)
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%" PRIu64,
                 i > 0 ? ", " : "", asking->chunks[i]);
    for (uint32_t i = 0; i < wanted->n_chunks && asking->collectives; i++)
        if (!is_among(asking->chunks, asking->n_chunks, wanted->chunk_bytes[i])) {
            wring_error(asking->log,
                        "the profile %s has no collectives in pieces of %" PRIu64
                        " bytes; it has those of %s",
                        asking->params->profile->name, wanted->chunk_bytes[i], known);
            return WRING_ERR_INVALID;
        }
    if (wanted->n_chunks == 0)
        return WRING_OK;
    asking->n_chunks = 0;
    for (uint32_t i = 0; i < wanted->n_chunks; i++)
        insert_sorted(asking->chunks, &asking->n_chunks, wanted->chunk_bytes[i]);
    put_default_first(asking);
    return WRING_OK;
}

static enum wring_status refuse_cores(const struct asking *asking, uint32_t cores)
{
    const struct wring_profile *profile = asking->params->profile;
    char known[256] = "";

    for (uint32_t i = 0; i < asking->n_cores; i++)
        for (uint32_t j = 0; j < asking->n_chunks; j++)
            if (is_known(asking, asking->chunks[j], asking->cores[i])) {
                snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%" PRIu64,
                         known[0] != '\0' ? ", " : "", asking->cores[i]);
                break;
            }
    wring_error(asking->log,
                "the profile %s cannot tell what these codecs take on %u cores pinned in each of a "
                "node's %u ranks; it can tell for %s, where 0 is inline",
                profile->name, cores, asking->scaling.ranks_per_node,
                known[0] != '\0' ? known : "no number");
    return WRING_ERR_INVALID;
}

static enum wring_status narrow_cores_to_wanted(struct asking *asking)
{
    const struct wring_tunings_wanted *wanted = asking->wanted;

    for (uint32_t i = 0; i < wanted->n_cores; i++) {
        bool known = false;
        for (uint32_t j = 0; j < asking->n_chunks; j++)
            known = known || is_known(asking, asking->chunks[j], wanted->cores[i]);
        if (!known)
            return refuse_cores(asking, wanted->cores[i]);
    }
    if (wanted->n_cores == 0)
        return WRING_OK;
    asking->n_cores = 0;
    for (uint32_t i = 0; i < wanted->n_cores; i++)
        insert_sorted(asking->cores, &asking->n_cores, wanted->cores[i]);
    return WRING_OK;
}

/** Has anything been said about tunings, be it by the profile? Else all is as it comes. */
static bool is_anything_said(const struct asking *asking, const struct wring_tunings *tunings)
{
    const struct wring_profile *profile = asking->params->profile;
    const struct wring_tunings_wanted *wanted = asking->wanted;
    bool said = tunings->n > 1 || wanted->n_cores > 0 || wanted->n_chunks > 0;

    for (uint32_t i = 0; asking->collectives && i < profile->n_collectives; i++)
        said = said || (wring_core_scaling_is_of(&asking->scaling, &profile->collectives[i]) &&
                        profile->collectives[i].chunk_bytes != 0);
    for (uint32_t i = 0; !asking->collectives && i < profile->n_codecs; i++)
        said = said || profile->codecs[i].n_coders > 0;
    return said;
}

static enum wring_status refuse_timeline(const struct asking *asking)
{
    if (asking->wanted->n_cores == 0 && asking->wanted->n_chunks == 0)
        return WRING_OK;
    wring_error(asking->log, "neither pinned cores nor sizes of pieces are told apart but in "
                             "timeline full");
    return WRING_ERR_INVALID;
}

enum wring_status wring_tunings_list(const struct wring_cost_model_params *params,
                                     const struct wring_tunings_wanted *wanted,
                                     const struct wring_log *log, struct wring_tunings *out)
{
    static const struct wring_tunings_wanted anything = {0};
    const struct wring_cluster cluster = wring_cost_model_cluster(params);
    struct asking asking = {.params = params,
                            .wanted = wanted != NULL ? wanted : &anything,
                            .log = log,
                            .scaling = {.profile = params->profile,
                                        .nodes = cluster.nodes,
                                        .ranks_per_node = cluster.ranks_per_node,
                                        .link_scale = params->link_scale,
                                        .computing = params->computing}};

    out->n = 0;
    if (cluster.timeline != WRING_TIMELINE_FULL)
        return refuse_timeline(&asking);
    look_at_profile(&asking);
    enum wring_status status = narrow_chunks_to_wanted(&asking);
    if (status == WRING_OK)
        status = narrow_cores_to_wanted(&asking);
    for (uint32_t i = 0; status == WRING_OK && i < asking.n_chunks; i++)
        for (uint32_t j = 0; j < asking.n_cores; j++)
            if (is_known(&asking, asking.chunks[i], asking.cores[j]))
                out->list[out->n++] =
                    (struct wring_tuning){(uint32_t)asking.cores[j], asking.chunks[i]};
    if (status == WRING_OK && !is_anything_said(&asking, out))
        out->n = 0;
    return status;
}
