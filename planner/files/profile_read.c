/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles read from files. docs/planner-files.md has the fields. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/files/json_cost.h"
#include "planner/files/json_reader.h"
#include "planner/files/profile.h"
#include "planner/files/profile_errors.h"
#include "planner/files/profile_links.h"
#include "planner/files/profile_ways.h"

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
    out->encode_trust = wring_profile_read_trust(reading, value, "encode_us");
    out->decode_trust = wring_profile_read_trust(reading, value, "decode_us");
    if (wring_reading_has(reading, value, "decode_add_us")) {
        out->decode_add_us = wring_reading_cost(reading, value, "decode_add_us");
        out->decode_add_trust = wring_profile_read_trust(reading, value, "decode_add_us");
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
    out->cores = (uint32_t)wring_reading_count(reading, value, "cores", 0, WRING_SETTING_CORES_MAX);
    wring_reading_copy(reading, value, "tier", 1, out->tier, sizeof(out->tier));
    out->encode = wring_profile_read_curve(reading, value, "encode_us");
    out->decode = wring_profile_read_curve(reading, value, "decode_us");
    if (wring_reading_has(reading, value, "decode_add_us"))
        out->decode_add = wring_profile_read_curve(reading, value, "decode_add_us");
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
    wring_profile_read_links(reading, object, profile);
    read_codecs(reading, object, profile);
    if (wring_reading_has(reading, object, "copy_us")) {
        profile->copy_us = wring_reading_cost(reading, object, "copy_us");
        profile->copy_trust = wring_profile_read_trust(reading, object, "copy_us");
    }
    wring_profile_read_computing(reading, object, profile);
    wring_profile_read_ways(reading, object, profile);
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
