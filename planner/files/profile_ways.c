/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/profile_ways.h"

#include <stdlib.h>
#include <string.h>

#include "planner/files/json_cost.h"
#include "planner/files/json_writer.h"
#include <wring/types.h>

#define RANKS_MAX (1u << 20)
#define CORES_MAX (1u << 20)
#define ELEMS_MAX (1ull << 40)
#define SHARE_MAX 1e9
#define SAMPLES_MAX 1000000000u
#define WAKE_MAX_US 1e9
#define CORE_SHARE_MIN 1e-6

/* ---- reading ---- */

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

struct wring_profile_trust wring_profile_read_trust(struct wring_reading *reading,
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

struct wring_profile_curve wring_profile_read_curve(struct wring_reading *reading,
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

static bool are_alike(const struct wring_profile_way *a, const struct wring_profile_way *b)
{
    struct wring_setting x = wring_profile_way_setting(a), y = wring_profile_way_setting(b);

    return x.cores == y.cores && x.chunk_bytes == y.chunk_bytes &&
           strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores;
}

static void check_new(struct wring_reading *reading, const struct wring_profile *profile,
                      uint32_t i)
{
    for (uint32_t before = 0; before < i; before++)
        if (are_alike(&profile->ways[before], &profile->ways[i]))
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "codec, run_as, ranks, cores and setting are those of ways[%u]",
                                before);
}

/** What coded, and how large pieces were; both may be missing. */
static void read_setting(struct wring_reading *reading, const json_t *value,
                         struct wring_profile_way *out)
{
    if (wring_reading_has(reading, value, "coder_cores"))
        out->coder_cores = (uint32_t)wring_reading_count(reading, value, "coder_cores", 0,
                                                         WRING_SETTING_CORES_MAX);
    if (wring_reading_has(reading, value, "chunk_bytes"))
        out->chunk_bytes =
            wring_reading_count(reading, value, "chunk_bytes", WRING_SETTING_CHUNK_BYTES_MIN,
                                WRING_SETTING_CHUNK_BYTES_MAX);
}

static void read_way(struct wring_reading *reading, const json_t *value,
                     struct wring_profile_way *out)
{
    wring_reading_expect_object(reading, value);
    wring_reading_copy(reading, value, "codec", 1, out->codec, sizeof(out->codec));
    wring_reading_copy(reading, value, "run_as", 1, out->run_as, sizeof(out->run_as));
    check_scheme(reading, out->run_as);
    out->ranks = (uint32_t)wring_reading_count(reading, value, "ranks", 1, RANKS_MAX);
    out->cores = (uint32_t)wring_reading_count(reading, value, "cores", 1, CORES_MAX);
    read_setting(reading, value, out);
    out->max_elems = wring_reading_count(reading, value, "max_elements", 1, ELEMS_MAX);
    out->solo = wring_profile_read_curve(reading, value, "solo_us");
    out->busy = wring_profile_read_curve(reading, value, "busy_us");
    out->cpu = wring_profile_read_curve(reading, value, "cpu_us");
    out->wire_bytes = wring_reading_cost(reading, value, "wire_bytes");
}

void wring_profile_read_ways(struct wring_reading *reading, const json_t *object,
                             struct wring_profile *profile)
{
    if (!wring_reading_has(reading, object, "ways"))
        return;
    const json_t *list = wring_reading_array(reading, object, "ways", 0, WRING_PROFILE_WAYS_MAX);
    if (list == NULL)
        return;
    profile->n_ways = (uint32_t)json_array_size(list);
    profile->ways = calloc(profile->n_ways + 1, sizeof(*profile->ways));
    if (profile->ways == NULL) {
        profile->n_ways = 0;
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    wring_reading_enter(reading, "ways");
    for (uint32_t i = 0; i < profile->n_ways && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_way(reading, json_array_get(list, i), &profile->ways[i]);
        check_new(reading, profile, i);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

void wring_profile_read_computing(struct wring_reading *reading, const json_t *object,
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

/* ---- writing ---- */

json_t *wring_profile_trust_json(const struct wring_profile_trust *trust)
{
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "error",
                     wring_json_number(trust->error), "spread", wring_json_number(trust->spread),
                     "doubt", wring_json_number(trust->doubt), "samples",
                     (json_int_t)trust->samples, "points", (json_int_t)trust->points, "noisy",
                     (json_int_t)trust->noisy, "doubtful", (json_int_t)trust->doubtful);
}

json_t *wring_profile_cost_json(const struct wring_cost *cost,
                                const struct wring_profile_trust *trust)
{
    json_t *object = wring_json_cost(cost);

    if (trust->samples == 0)
        return object;
    json_t *more = wring_profile_trust_json(trust);
    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

static json_t *curve_json(const struct wring_profile_curve *curve)
{
    return wring_profile_cost_json(&curve->us, &curve->trust);
}

/** @return 0; else there is no memory */
static int put_setting(json_t *value, const struct wring_profile_way *way)
{
    int failed = 0;

    if (way->chunk_bytes != 0 || way->coder_cores != 0)
        failed = json_object_set_new(value, "coder_cores", json_integer(way->coder_cores));
    if (failed == 0 && way->chunk_bytes != 0)
        failed =
            json_object_set_new(value, "chunk_bytes", json_integer((json_int_t)way->chunk_bytes));
    return failed;
}

json_t *wring_profile_ways_json(const struct wring_profile *profile)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < profile->n_ways; i++) {
        const struct wring_profile_way *way = &profile->ways[i];
        json_t *value =
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "codec", way->codec,
                      "run_as", way->run_as, "ranks", (json_int_t)way->ranks, "cores",
                      (json_int_t)way->cores, "max_elements", (json_int_t)way->max_elems, "solo_us",
                      curve_json(&way->solo), "busy_us", curve_json(&way->busy), "cpu_us",
                      curve_json(&way->cpu), "wire_bytes", wring_json_cost(&way->wire_bytes));
        int failed = put_setting(value, way); /* NULL is refused */
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *wring_profile_computing_json(const struct wring_profile_computing *computing)
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
