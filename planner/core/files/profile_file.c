/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/profile_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include <wring/types.h>

#define WAY_RANKS_MAX (1u << 20)
#define CORES_MAX (1u << 20)
#define ELEMS_MAX (1ull << 40)
#define SHARE_MAX 1e9
#define SAMPLES_MAX 1000000000u
#define WAKE_MAX_US 1e9
#define CORE_SHARE_MIN 1e-6

/* ---- reading measured exchanges ---- */

static void read_trust(struct wring_reading *reading, const json_t *value,
                       struct wring_profile_trust *out)
{
    out->error = wring_reading_number(reading, value, "error", 0, SHARE_MAX) + 0.0;
    out->spread = wring_reading_number(reading, value, "spread", 0, SHARE_MAX) + 0.0;
    out->doubt = wring_reading_number(reading, value, "doubt", 0, SHARE_MAX) + 0.0;
    out->samples = (uint32_t)wring_reading_count(reading, value, "samples", 1, SAMPLES_MAX);
    out->points = (uint32_t)wring_reading_count(reading, value, "points", 1, SAMPLES_MAX);
    out->noisy = (uint32_t)wring_reading_count(reading, value, "noisy", 0, SAMPLES_MAX);
    if (wring_reading_has(reading, value, "doubtful"))
        out->doubtful = (uint32_t)wring_reading_count(reading, value, "doubtful", 0, SAMPLES_MAX);
    if (out->noisy > out->points)
        wring_reading_fault(reading, WRING_ERR_INVALID, "%u of %u points cannot be noisy",
                            out->noisy, out->points);
    if (out->doubtful > out->points)
        wring_reading_fault(reading, WRING_ERR_INVALID, "%u of %u points cannot be in doubt",
                            out->doubtful, out->points);
}

/** How far a cost that is a field of `object` can be trusted, if it says so. */
static struct wring_profile_trust profile_read_trust(struct wring_reading *reading,
                                                     const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    struct wring_profile_trust trust = {0};

    if (!wring_reading_has(reading, value, "samples"))
        return trust;
    wring_reading_enter(reading, name);
    read_trust(reading, value, &trust);
    wring_reading_leave(reading);
    return trust;
}

/** A cost that says so, and has corners. */
static struct wring_profile_curve profile_read_curve(struct wring_reading *reading,
                                                     const json_t *object, const char *name)
{
    struct wring_profile_curve curve = {.us = wring_reading_cost(reading, object, name)};

    wring_reading_enter(reading, name);
    read_trust(reading, json_object_get(object, name), &curve.trust);
    if (curve.us.n == 0)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "has no corners; what was measured has one at least");
    wring_reading_leave(reading);
    return curve;
}

static void check_scheme(struct wring_reading *reading, const char *run_as)
{
    if (wring_scheme_find(run_as) != WRING_SCHEMES)
        return;
    wring_reading_enter(reading, "run_as");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "needs auto, divisible or indivisible, or one of hierarchical, "
                        "hierarchical-divisible and hierarchical-indivisible; is \"%s\"",
                        run_as);
    wring_reading_leave(reading);
}

static bool are_alike(const struct wring_measured_collective *a,
                      const struct wring_measured_collective *b)
{
    struct wring_tuning x = wring_profile_collective_tuning(a),
                        y = wring_profile_collective_tuning(b);

    return x.cores == y.cores && x.chunk_bytes == y.chunk_bytes &&
           strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores;
}

static void check_new(struct wring_reading *reading, const struct wring_profile *profile,
                      uint32_t i)
{
    for (uint32_t before = 0; before < i; before++)
        if (are_alike(&profile->collectives[before], &profile->collectives[i]))
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "codec, run_as, ranks, cores and setting are those of ways[%u]",
                                before);
}

/** What coded, and how large pieces were; both may be missing. */
static void read_tuning(struct wring_reading *reading, const json_t *value,
                        struct wring_measured_collective *out)
{
    if (wring_reading_has(reading, value, "coder_cores"))
        out->coder_cores =
            (uint32_t)wring_reading_count(reading, value, "coder_cores", 0, WRING_TUNING_CORES_MAX);
    if (wring_reading_has(reading, value, "chunk_bytes"))
        out->chunk_bytes =
            wring_reading_count(reading, value, "chunk_bytes", WRING_TUNING_CHUNK_BYTES_MIN,
                                WRING_TUNING_CHUNK_BYTES_MAX);
}

static void read_collective(struct wring_reading *reading, const json_t *value,
                            struct wring_measured_collective *out)
{
    wring_reading_expect_object(reading, value);
    wring_reading_copy(reading, value, "codec", 1, out->codec, sizeof(out->codec));
    wring_reading_copy(reading, value, "run_as", 1, out->run_as, sizeof(out->run_as));
    check_scheme(reading, out->run_as);
    out->ranks = (uint32_t)wring_reading_count(reading, value, "ranks", 1, WAY_RANKS_MAX);
    out->cores = (uint32_t)wring_reading_count(reading, value, "cores", 1, CORES_MAX);
    read_tuning(reading, value, out);
    out->max_elems = wring_reading_count(reading, value, "max_elements", 1, ELEMS_MAX);
    out->solo = profile_read_curve(reading, value, "solo_us");
    out->busy = profile_read_curve(reading, value, "busy_us");
    out->cpu = profile_read_curve(reading, value, "cpu_us");
    out->wire_bytes = wring_reading_cost(reading, value, "wire_bytes");
}

/** Its field "ways", which may be missing, into the profile. */
static void profile_read_collectives(struct wring_reading *reading, const json_t *object,
                                     struct wring_profile *profile)
{
    if (!wring_reading_has(reading, object, "ways"))
        return;
    const json_t *list =
        wring_reading_array(reading, object, "ways", 0, WRING_PROFILE_COLLECTIVES_MAX);
    if (list == NULL)
        return;
    profile->n_collectives = (uint32_t)json_array_size(list);
    profile->collectives = calloc(profile->n_collectives + 1, sizeof(*profile->collectives));
    if (profile->collectives == NULL) {
        profile->n_collectives = 0;
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    wring_reading_enter(reading, "ways");
    for (uint32_t i = 0; i < profile->n_collectives && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_collective(reading, json_array_get(list, i), &profile->collectives[i]);
        check_new(reading, profile, i);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void profile_read_computing(struct wring_reading *reading, const json_t *object,
                                   struct wring_profile *profile)
{
    struct wring_profile_computing *out = &profile->computing;

    if (!wring_reading_has(reading, object, "computing"))
        return;
    const json_t *value = wring_reading_object(reading, object, "computing");
    wring_reading_enter(reading, "computing");
    out->present = true;
    out->wake_us = wring_reading_number(reading, value, "wake_us", 0, WAKE_MAX_US) + 0.0;
    out->wake_doubt_us =
        wring_reading_number(reading, value, "wake_doubt_us", 0, WAKE_MAX_US) + 0.0;
    out->spin_lost = wring_reading_number(reading, value, "spin_lost", 0, 1) + 0.0;
    out->spin_doubt = wring_reading_number(reading, value, "spin_doubt", 0, SHARE_MAX) + 0.0;
    if (wring_reading_has(reading, value, "spin_coded")) {
        const json_t *coded = wring_reading_object(reading, value, "spin_coded");
        wring_reading_enter(reading, "spin_coded");
        wring_reading_copy(reading, coded, "codec", 1, out->spin_codec, sizeof(out->spin_codec));
        out->spin_coded_lost = wring_reading_number(reading, coded, "lost", 0, 1) + 0.0;
        out->spin_coded_doubt = wring_reading_number(reading, coded, "doubt", 0, SHARE_MAX) + 0.0;
        wring_reading_leave(reading);
    }
    if (wring_reading_has(reading, value, "core_share"))
        out->core_share = wring_reading_number(reading, value, "core_share", CORE_SHARE_MIN, 1);
    out->samples = (uint32_t)wring_reading_count(reading, value, "samples", 1, SAMPLES_MAX);
    wring_reading_leave(reading);
}

/* ---- writing measured exchanges ---- */

/** How far something can be trusted; a new reference, NULL without memory. */
static json_t *profile_trust_json(const struct wring_profile_trust *trust)
{
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "error",
                     wring_json_number(trust->error), "spread", wring_json_number(trust->spread),
                     "doubt", wring_json_number(trust->doubt), "samples",
                     (json_int_t)trust->samples, "points", (json_int_t)trust->points, "noisy",
                     (json_int_t)trust->noisy, "doubtful", (json_int_t)trust->doubtful);
}

/** A cost, and how far it can be trusted; a new reference, NULL without memory. */
static json_t *profile_cost_json(const struct wring_cost *cost,
                                 const struct wring_profile_trust *trust)
{
    json_t *object = wring_json_cost(cost);

    if (trust->samples == 0)
        return object;
    json_t *more = profile_trust_json(trust);
    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

static json_t *curve_json(const struct wring_profile_curve *curve)
{
    return profile_cost_json(&curve->us, &curve->trust);
}

/** @return 0; else there is no memory */
static int put_tuning(json_t *value, const struct wring_measured_collective *collective)
{
    int failed = 0;

    if (collective->chunk_bytes != 0 || collective->coder_cores != 0)
        failed = json_object_set_new(value, "coder_cores", json_integer(collective->coder_cores));
    if (failed == 0 && collective->chunk_bytes != 0)
        failed = json_object_set_new(value, "chunk_bytes",
                                     json_integer((json_int_t)collective->chunk_bytes));
    return failed;
}

/** The field's value, a new reference; NULL without memory. */
static json_t *profile_collectives_json(const struct wring_profile *profile)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        json_t *value = json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "codec", collective->codec, "run_as",
            collective->run_as, "ranks", (json_int_t)collective->ranks, "cores",
            (json_int_t)collective->cores, "max_elements", (json_int_t)collective->max_elems,
            "solo_us", curve_json(&collective->solo), "busy_us", curve_json(&collective->busy),
            "cpu_us", curve_json(&collective->cpu), "wire_bytes",
            wring_json_cost(&collective->wire_bytes));
        int failed = put_tuning(value, collective); /* NULL is refused */
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/** Likewise, "computing". */
static json_t *profile_computing_json(const struct wring_profile_computing *computing)
{
    json_t *share = computing->core_share > 0 ? wring_json_number(computing->core_share) : NULL;
    json_t *coded = NULL;

    if (computing->spin_codec[0] != '\0')
        coded = json_pack("{s:s, s:o, s:o}", "codec", computing->spin_codec, "lost",
                          wring_json_number(computing->spin_coded_lost), "doubt",
                          wring_json_number(computing->spin_coded_doubt));
    return json_pack("{s:o, s:o, s:o, s:o, s:o*, s:o*, s:I}", "wake_us",
                     wring_json_number(computing->wake_us), "wake_doubt_us",
                     wring_json_number(computing->wake_doubt_us), "spin_lost",
                     wring_json_number(computing->spin_lost), "spin_doubt",
                     wring_json_number(computing->spin_doubt), "spin_coded", coded, "core_share",
                     share, "samples", (json_int_t)computing->samples);
}

/* ---- reading links ---- */

static void read_put(struct wring_reading *reading, const json_t *object,
                     struct wring_profile_put *out)
{
    if (!wring_reading_has(reading, object, "put"))
        return;
    const json_t *value = wring_reading_object(reading, object, "put");
    wring_reading_enter(reading, "put");
    out->latency = profile_read_curve(reading, value, "latency_us_by_bytes");
    out->each = profile_read_curve(reading, value, "us_by_bytes");
    wring_reading_leave(reading);
}

/** What a link takes, or a step on it, and how far that can be trusted. */
static void read_line(struct wring_reading *reading, const json_t *value, double *latency_us,
                      struct wring_profile_trust *latency_trust, struct wring_cost *us,
                      struct wring_profile_trust *trust)
{
    *latency_us = wring_reading_number(reading, value, "latency_us", 0, 1e9) + 0.0;
    *us = wring_reading_cost(reading, value, "us_by_bytes");
    *trust = profile_read_trust(reading, value, "us_by_bytes");
    if (wring_reading_has(reading, value, "latency_trust"))
        *latency_trust = profile_read_trust(reading, value, "latency_trust");
}

static void read_routine(struct wring_reading *reading, const json_t *value,
                         struct wring_profile_routine *out)
{
    wring_reading_expect_object(reading, value);
    wring_reading_copy(reading, value, "routine", 1, out->name, sizeof(out->name));
    read_line(reading, value, &out->latency_us, &out->latency_trust, &out->us, &out->trust);
}

static void read_routines(struct wring_reading *reading, const json_t *object,
                          struct wring_profile_link *out)
{
    if (!wring_reading_has(reading, object, "routines"))
        return;
    const json_t *list =
        wring_reading_array(reading, object, "routines", 0, WRING_PROFILE_ROUTINES_MAX);
    wring_reading_enter(reading, "routines");
    while (out->n_routines < json_array_size(list) && reading->status == WRING_OK) {
        struct wring_profile_routine *routine = &out->routines[out->n_routines];
        wring_reading_enter_index(reading, out->n_routines);
        read_routine(reading, json_array_get(list, out->n_routines), routine);
        if (wring_profile_routine(out, routine->name) != NULL)
            wring_reading_fault(reading, WRING_ERR_INVALID, "\"%s\" is there already",
                                routine->name);
        out->n_routines++;
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_link(struct wring_reading *reading, const json_t *object, const char *name,
                      struct wring_profile_link *out)
{
    if (!wring_reading_has(reading, object, name))
        return;
    const json_t *value = wring_reading_object(reading, object, name);
    wring_reading_enter(reading, name);
    out->present = true;
    wring_reading_copy(reading, value, "provider", 0, out->provider, sizeof(out->provider));
    read_line(reading, value, &out->latency_us, &out->latency_trust, &out->us, &out->trust);
    read_put(reading, value, &out->put);
    read_routines(reading, value, out);
    wring_reading_leave(reading);
}

/** Its field "links", into the profile. */
static void profile_read_links(struct wring_reading *reading, const json_t *object,
                               struct wring_profile *profile)
{
    const json_t *links = wring_reading_object(reading, object, "links");
    bool any = false;

    wring_reading_enter(reading, "links");
    for (int level = 0; level < WRING_LEVELS; level++) {
        read_link(reading, links, wring_level_name((enum wring_level)level),
                  &profile->links[level]);
        any |= profile->links[level].present;
    }
    if (!any)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "needs \"intra\" or \"inter\", has neither");
    wring_reading_leave(reading);
}

/* ---- writing links ---- */

static int put_trust(json_t *value, const char *name, const struct wring_profile_trust *trust)
{
    if (trust->samples == 0)
        return 0;
    return json_object_set_new(value, name, profile_trust_json(trust));
}

static json_t *routine_json(const struct wring_profile_routine *routine)
{
    json_t *value = json_pack("{s:s, s:o, s:o}", "routine", routine->name, "latency_us",
                              wring_json_number(routine->latency_us), "us_by_bytes",
                              profile_cost_json(&routine->us, &routine->trust));

    if (value != NULL && put_trust(value, "latency_trust", &routine->latency_trust) != 0) {
        json_decref(value);
        return NULL;
    }
    return value;
}

/** What a link may have besides. @return 0; else there is no memory */
static int put_more(json_t *value, const struct wring_profile_link *link)
{
    const struct wring_profile_put *put = &link->put;
    json_t *list = json_array();
    int failed = put_trust(value, "latency_trust", &link->latency_trust);

    if (failed == 0 && put->latency.us.n > 0)
        failed = json_object_set_new(
            value, "put",
            json_pack("{s:o, s:o}", "latency_us_by_bytes",
                      profile_cost_json(&put->latency.us, &put->latency.trust), "us_by_bytes",
                      profile_cost_json(&put->each.us, &put->each.trust)));
    for (uint32_t i = 0; i < link->n_routines && failed == 0; i++)
        failed = json_array_append_new(list, routine_json(&link->routines[i]));
    if (failed == 0 && link->n_routines > 0)
        return json_object_set_new(value, "routines", list);
    json_decref(list);
    return failed;
}

/** The field's value, a new reference; NULL without memory. */
static json_t *profile_links_json(const struct wring_profile *profile)
{
    json_t *object = json_object();

    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        if (!link->present)
            continue;
        json_t *value = json_pack("{s:s, s:o, s:o}", "provider", link->provider, "latency_us",
                                  wring_json_number(link->latency_us), "us_by_bytes",
                                  profile_cost_json(&link->us, &link->trust));
        int failed = put_more(value, link); /* NULL is refused */
        if (json_object_set_new(object, wring_level_name((enum wring_level)level), value) != 0 ||
            failed != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* ---- reading the file ---- */

/* Profiles read from files. docs/planner-files.md has the fields. */

#define NODES_MAX (1u << 20)
#define RANKS_MAX (1u << 16)

static void read_coding(struct wring_reading *reading, const json_t *object, const char *name,
                        struct wring_profile_coding *out)
{
    if (!wring_reading_has(reading, object, name))
        return;
    const json_t *value = wring_reading_object(reading, object, name);
    wring_reading_enter(reading, name);
    out->present = true;
    out->encode_us = wring_reading_cost(reading, value, "encode_us");
    out->decode_us = wring_reading_cost(reading, value, "decode_us");
    out->encode_trust = profile_read_trust(reading, value, "encode_us");
    out->decode_trust = profile_read_trust(reading, value, "decode_us");
    if (wring_reading_has(reading, value, "decode_add_us")) {
        out->decode_add_us = wring_reading_cost(reading, value, "decode_add_us");
        out->decode_add_trust = profile_read_trust(reading, value, "decode_add_us");
    }
    wring_reading_leave(reading);
}

/** Codings by place, each of which may be missing. */
static void read_places(struct wring_reading *reading, const json_t *object, const char *name,
                        struct wring_profile_coding *out)
{
    if (!wring_reading_has(reading, object, name))
        return;
    const json_t *value = wring_reading_object(reading, object, name);
    wring_reading_enter(reading, name);
    for (int place = 0; place < WRING_PLACES; place++)
        read_coding(reading, value, wring_place_name((enum wring_place)place), &out[place]);
    wring_reading_leave(reading);
}

static void read_coder(struct wring_reading *reading, const json_t *value,
                       struct wring_profile_coder *out)
{
    wring_reading_expect_object(reading, value);
    out->cores = (uint32_t)wring_reading_count(reading, value, "cores", 0, WRING_TUNING_CORES_MAX);
    wring_reading_copy(reading, value, "tier", 1, out->tier, sizeof(out->tier));
    out->encode = profile_read_curve(reading, value, "encode_us");
    out->decode = profile_read_curve(reading, value, "decode_us");
    if (wring_reading_has(reading, value, "decode_add_us"))
        out->decode_add = profile_read_curve(reading, value, "decode_add_us");
}

static void read_coders(struct wring_reading *reading, const json_t *object,
                        struct wring_profile_codec *out)
{
    if (!wring_reading_has(reading, object, "coders"))
        return;
    const json_t *list =
        wring_reading_array(reading, object, "coders", 0, WRING_PROFILE_CODERS_MAX);
    wring_reading_enter(reading, "coders");
    while (out->n_coders < json_array_size(list) && reading->status == WRING_OK) {
        struct wring_profile_coder *coder = &out->coders[out->n_coders];
        wring_reading_enter_index(reading, out->n_coders);
        read_coder(reading, json_array_get(list, out->n_coders), coder);
        for (uint32_t before = 0; before < out->n_coders; before++)
            if (out->coders[before].cores == coder->cores &&
                strcmp(out->coders[before].tier, coder->tier) == 0)
                wring_reading_fault(reading, WRING_ERR_INVALID,
                                    "cores and tier are those of coders[%u]", before);
        out->n_coders++;
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void check_spec(struct wring_reading *reading, const struct wring_profile *profile,
                       uint32_t i)
{
    wring_reading_enter(reading, "spec");
    if (strcmp(profile->codecs[i].spec, "none") == 0)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "\"none\" costs nothing and needs no entry");
    for (uint32_t before = 0; before < i; before++)
        if (strcmp(profile->codecs[before].spec, profile->codecs[i].spec) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "\"%s\" is the codec of codecs[%u] already",
                                profile->codecs[i].spec, before);
    wring_reading_leave(reading);
}

static void read_codec(struct wring_reading *reading, const json_t *value,
                       struct wring_profile_codec *out)
{
    wring_reading_expect_object(reading, value);
    wring_reading_copy(reading, value, "spec", 1, out->spec, sizeof(out->spec));
    out->summable = wring_reading_bool(reading, value, "summable");
    out->feedback = wring_reading_bool(reading, value, "feedback");
    out->nmse = wring_reading_number_or_null(reading, value, "nmse", 0, 1e9) + 0.0;
    out->wire_bytes = wring_reading_cost(reading, value, "wire_bytes");
    read_places(reading, value, "at", out->at);
    read_places(reading, value, "two_level", out->two_level);
    read_coders(reading, value, out);
}

static void read_codecs(struct wring_reading *reading, const json_t *object,
                        struct wring_profile *profile)
{
    const json_t *list =
        wring_reading_array(reading, object, "codecs", 0, WRING_PROFILE_CODECS_MAX);

    if (list == NULL)
        return;
    profile->n_codecs = (uint32_t)json_array_size(list);
    profile->codecs = calloc(profile->n_codecs + 1, sizeof(*profile->codecs));
    if (profile->codecs == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    wring_reading_enter(reading, "codecs");
    for (uint32_t i = 0; i < profile->n_codecs && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_codec(reading, json_array_get(list, i), &profile->codecs[i]);
        check_spec(reading, profile, i);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_profile(struct wring_reading *reading, const json_t *object,
                         struct wring_profile *profile)
{
    wring_reading_copy(reading, object, "name", 1, profile->name, sizeof(profile->name));
    wring_reading_copy(reading, object, "machine", 0, profile->machine, sizeof(profile->machine));
    if (wring_reading_has(reading, object, "source"))
        wring_reading_copy(reading, object, "source", 0, profile->source, sizeof(profile->source));
    profile->nodes = (uint32_t)wring_reading_count(reading, object, "nodes", 1, NODES_MAX);
    profile->ranks_per_node =
        (uint32_t)wring_reading_count(reading, object, "ranks_per_node", 1, RANKS_MAX);
    profile->chunked = wring_reading_bool(reading, object, "chunked");
    profile_read_links(reading, object, profile);
    read_codecs(reading, object, profile);
    if (wring_reading_has(reading, object, "copy_us")) {
        profile->copy_us = wring_reading_cost(reading, object, "copy_us");
        profile->copy_trust = profile_read_trust(reading, object, "copy_us");
    }
    profile_read_computing(reading, object, profile);
    profile_read_collectives(reading, object, profile);
    wring_profile_read_errors(reading, object, profile);
}

static bool is_builtin(const char *name)
{
    for (const char *const *known = wring_profile_builtin_names(); *known != NULL; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

/** Somebody who meant a name would look for its file in vain. */
static void check_name(struct wring_reading *reading)
{
    char known[200] = "";

    if (strchr(reading->file, '/') != NULL || access(reading->file, F_OK) == 0)
        return;
    for (const char *const *name = wring_profile_builtin_names(); *name != NULL; name++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "", *name);
    }
    wring_reading_fault(reading, WRING_ERR_SYSTEM,
                        "neither a file nor the name of a built-in profile: %s", known);
}

enum wring_status wring_profile_load(const char *path, const struct wring_log *log,
                                     struct wring_profile **out)
{
    struct wring_reading reading = {.file = path, .log = log};
    struct wring_profile *profile =
        is_builtin(path) ? wring_profile_builtin(path) : calloc(1, sizeof(*profile));
    json_t *object = NULL;

    if (profile == NULL)
        return WRING_ERR_NO_MEMORY;
    if (!is_builtin(path))
        check_name(&reading);
    if (!is_builtin(path) && reading.status == WRING_OK)
        wring_reading_open(&reading, WRING_PROFILE_FORMAT, WRING_PROFILE_VERSION, &object);
    if (object != NULL)
        read_profile(&reading, object, profile);
    json_decref(object);
    if (reading.status == WRING_OK)
        reading.status = wring_profile_rehash(profile);
    if (reading.status != WRING_OK) {
        wring_profile_destroy(profile);
        return reading.status;
    }
    *out = profile;
    return WRING_OK;
}

/* ---- writing the file ---- */

/* Profiles written as files. docs/planner-files.md has the fields. */

/** "decode_add_us" too, where it is known by itself. @return 0; else there is no memory */
static int put_adding(json_t *value, const struct wring_cost *us,
                      const struct wring_profile_trust *trust)
{
    if (us->n == 0)
        return 0;
    return json_object_set_new(value, "decode_add_us", profile_cost_json(us, trust));
}

/** Codings by place; @return NULL without memory */
static json_t *places_to_json(const struct wring_profile_coding *codings)
{
    json_t *object = json_object();

    for (int place = 0; place < WRING_PLACES; place++) {
        if (!codings[place].present)
            continue;
        json_t *value = json_pack(
            "{s:o, s:o}", "encode_us",
            profile_cost_json(&codings[place].encode_us, &codings[place].encode_trust), "decode_us",
            profile_cost_json(&codings[place].decode_us, &codings[place].decode_trust));
        int failed = put_adding(value, &codings[place].decode_add_us,
                                &codings[place].decode_add_trust); /* NULL is refused */
        if (json_object_set_new(object, wring_place_name((enum wring_place)place), value) != 0 ||
            failed != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *coders_to_json(const struct wring_profile_codec *codec)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < codec->n_coders; i++) {
        const struct wring_profile_coder *coder = &codec->coders[i];
        json_t *value =
            json_pack("{s:i, s:s, s:o, s:o}", "cores", (int)coder->cores, "tier", coder->tier,
                      "encode_us", profile_cost_json(&coder->encode.us, &coder->encode.trust),
                      "decode_us", profile_cost_json(&coder->decode.us, &coder->decode.trust));
        int failed = put_adding(value, &coder->decode_add.us, &coder->decode_add.trust);
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *codecs_to_json(const struct wring_profile *profile)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        json_t *value = json_pack(
            "{s:s, s:b, s:b, s:o, s:o, s:o, s:o}", "spec", codec->spec, "summable",
            (int)codec->summable, "feedback", (int)codec->feedback, "nmse",
            wring_json_number(codec->nmse), "wire_bytes", wring_json_cost(&codec->wire_bytes), "at",
            places_to_json(codec->at), "two_level", places_to_json(codec->two_level));
        int failed = 0;
        if (value != NULL && codec->n_coders > 0)
            failed = json_object_set_new(value, "coders", coders_to_json(codec));
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

enum wring_status wring_profile_save(const struct wring_profile *profile, FILE *file)
{
    json_t *object = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o}", "format", WRING_PROFILE_FORMAT,
        "version", WRING_PROFILE_VERSION, "name", profile->name, "machine", profile->machine,
        "source", profile->source, "nodes", (int)profile->nodes, "ranks_per_node",
        (int)profile->ranks_per_node, "chunked", (int)profile->chunked, "links",
        profile_links_json(profile), "codecs", codecs_to_json(profile));
    int failed = object == NULL;

    if (!failed && profile->copy_us.n > 0)
        failed = json_object_set_new(object, "copy_us",
                                     profile_cost_json(&profile->copy_us, &profile->copy_trust));
    if (!failed && profile->computing.present)
        failed =
            json_object_set_new(object, "computing", profile_computing_json(&profile->computing));
    if (!failed && profile->n_collectives > 0)
        failed = json_object_set_new(object, "ways", profile_collectives_json(profile));
    if (!failed && profile->errors.n_codecs > 0)
        failed = json_object_set_new(object, "errors", wring_profile_errors_json(&profile->errors));
    if (failed != 0) {
        json_decref(object);
        object = NULL;
    }
    return wring_json_write(file, object);
}
