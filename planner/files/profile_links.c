/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/profile_links.h"

#include <string.h>

#include "planner/files/json_cost.h"
#include "planner/files/json_writer.h"
#include "planner/files/profile_ways.h"

/* ---- reading ---- */

static void read_put(struct wring_reading *reading, const json_t *object,
                     struct wring_profile_put *out)
{
    if (!wring_reading_has(reading, object, "put"))
        return;
    const json_t *value = wring_reading_object(reading, object, "put");
    wring_reading_enter(reading, "put");
    out->latency = wring_profile_read_curve(reading, value, "latency_us_by_bytes");
    out->each = wring_profile_read_curve(reading, value, "us_by_bytes");
    wring_reading_leave(reading);
}

/** What a link takes, or a step on it, and how far that can be trusted. */
static void read_line(struct wring_reading *reading, const json_t *value, double *latency_us,
                      struct wring_profile_trust *latency_trust, struct wring_cost *us,
                      struct wring_profile_trust *trust)
{
    *latency_us = wring_reading_number(reading, value, "latency_us", 0, 1e9) + 0.0;
    *us = wring_reading_cost(reading, value, "us_by_bytes");
    *trust = wring_profile_read_trust(reading, value, "us_by_bytes");
    if (wring_reading_has(reading, value, "latency_trust"))
        *latency_trust = wring_profile_read_trust(reading, value, "latency_trust");
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

void wring_profile_read_links(struct wring_reading *reading, const json_t *object,
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

/* ---- writing ---- */

static int put_trust(json_t *value, const char *name, const struct wring_profile_trust *trust)
{
    if (trust->samples == 0)
        return 0;
    return json_object_set_new(value, name, wring_profile_trust_json(trust));
}

static json_t *routine_json(const struct wring_profile_routine *routine)
{
    json_t *value = json_pack("{s:s, s:o, s:o}", "routine", routine->name, "latency_us",
                              wring_json_number(routine->latency_us), "us_by_bytes",
                              wring_profile_cost_json(&routine->us, &routine->trust));

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
                      wring_profile_cost_json(&put->latency.us, &put->latency.trust), "us_by_bytes",
                      wring_profile_cost_json(&put->each.us, &put->each.trust)));
    for (uint32_t i = 0; i < link->n_routines && failed == 0; i++)
        failed = json_array_append_new(list, routine_json(&link->routines[i]));
    if (failed == 0 && link->n_routines > 0)
        return json_object_set_new(value, "routines", list);
    json_decref(list);
    return failed;
}

json_t *wring_profile_links_json(const struct wring_profile *profile)
{
    json_t *object = json_object();

    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        if (!link->present)
            continue;
        json_t *value = json_pack("{s:s, s:o, s:o}", "provider", link->provider, "latency_us",
                                  wring_json_number(link->latency_us), "us_by_bytes",
                                  wring_profile_cost_json(&link->us, &link->trust));
        int failed = put_more(value, link); /* NULL is refused */
        if (json_object_set_new(object, wring_level_name((enum wring_level)level), value) != 0 ||
            failed != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
