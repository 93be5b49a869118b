/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "planner/files/profile_errors.h"

#define WRING_MODULE "planner"

const char *wring_place_name(enum wring_place place)
{
    static const char *const names[WRING_PLACES] = {"device", "cpu", "node"};
    return names[place];
}

const char *wring_level_name(enum wring_level level)
{
    static const char *const names[WRING_LEVELS] = {"intra", "inter"};
    return names[level];
}

/* ---- one of its codecs ---- */

/**
 * Is `spec` one of a family such as "randk:ratio=R"? @param ratio out: what stands for R, above 0
 * and up to 1
 */
static bool is_of_family(const char *family, const char *spec, double *ratio)
{
    const char *equals = strstr(family, "=R"), *end;
    size_t before = equals != NULL ? (size_t)(equals - family) + 1 : 0;

    return equals != NULL && strncmp(family, spec, before) == 0 &&
           wring_number_parse(spec + before, ratio, &end) && *ratio > 0 && *ratio <= 1 &&
           strcmp(end, equals + 2) == 0;
}

static void list_codecs(const struct wring_profile *profile, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < profile->n_codecs && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, ", %s", profile->codecs[i].spec);
}

/** Whoever codes one way of a pair leaves the other as it is in no time. */
static struct wring_profile_codec uncoded(void)
{
    struct wring_profile_codec none = {
        .spec = "none", .summable = true, .wire_bytes = wring_cost_line(0, sizeof(float))};

    for (int place = 0; place < WRING_PLACES; place++)
        none.at[place].present = true;
    return none;
}

enum wring_status wring_profile_codec(const struct wring_profile *profile, const char *spec,
                                      const struct wring_log *log, struct wring_profile_codec *out)
{
    char known[512];
    double ratio;

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, spec) == 0 && strstr(spec, "=R") == NULL) {
            *out = profile->codecs[i];
            return WRING_OK;
        }
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strlen(spec) < WRING_CODEC_SPEC_MAX &&
            is_of_family(profile->codecs[i].spec, spec, &ratio)) {
            *out = profile->codecs[i];
            memcpy(out->spec, spec, strlen(spec) + 1);
            out->wire_bytes = wring_cost_scale(&out->wire_bytes, ratio, 1);
            return WRING_OK;
        }
    if (strcmp(spec, "none") == 0) {
        *out = uncoded();
        return WRING_OK;
    }
    list_codecs(profile, known, sizeof(known));
    wring_error(log, "the profile %s knows no codec \"%s\"; it has none%s", profile->name, spec,
                known);
    return WRING_ERR_INVALID;
}

struct wring_setting wring_profile_way_setting(const struct wring_profile_way *way)
{
    return (struct wring_setting){.cores = way->coder_cores,
                                  .chunk_bytes = way->chunk_bytes != 0 ? way->chunk_bytes
                                                                       : WRING_SETTING_CHUNK_BYTES};
}

static bool is_at(const struct wring_profile_way *way, const struct wring_setting *setting)
{
    struct wring_setting measured = wring_profile_way_setting(way);

    return measured.cores == setting->cores && measured.chunk_bytes == setting->chunk_bytes;
}

/** @param setting  NULL: any */
static const struct wring_profile_way *find_way(const struct wring_profile *profile,
                                                const char *codec, const char *run_as,
                                                uint32_t ranks, const struct wring_setting *setting)
{
    for (uint32_t i = 0; i < profile->n_ways; i++) {
        const struct wring_profile_way *way = &profile->ways[i];
        if (strcmp(way->codec, codec) == 0 && strcmp(way->run_as, run_as) == 0 &&
            (ranks == 0 || way->ranks == ranks) && (setting == NULL || is_at(way, setting)))
            return way;
    }
    return NULL;
}

const struct wring_profile_way *wring_profile_way(const struct wring_profile *profile,
                                                  const char *codec, const char *run_as,
                                                  uint32_t ranks)
{
    return find_way(profile, codec, run_as, ranks, NULL);
}

const struct wring_profile_way *wring_profile_way_at(const struct wring_profile *profile,
                                                     const char *codec, const char *run_as,
                                                     uint32_t ranks,
                                                     const struct wring_setting *setting)
{
    return find_way(profile, codec, run_as, ranks, setting);
}

const struct wring_profile_routine *wring_profile_routine(const struct wring_profile_link *link,
                                                          const char *name)
{
    for (uint32_t i = 0; i < link->n_routines; i++)
        if (strcmp(link->routines[i].name, name) == 0)
            return &link->routines[i];
    return NULL;
}

const struct wring_profile_coder *wring_profile_coder(const struct wring_profile_codec *codec,
                                                      uint32_t cores)
{
    for (uint32_t i = 0; i < codec->n_coders; i++)
        if (codec->coders[i].cores == cores)
            return &codec->coders[i];
    return NULL;
}

/* ---- whose it is ---- */

enum wring_status wring_profile_check_machine(const struct wring_profile *profile,
                                              const char *machine, const struct wring_log *log)
{
    if (profile->machine[0] != '\0' && strcmp(profile->machine, machine) == 0)
        return WRING_OK;
    if (profile->machine[0] == '\0')
        wring_error(log,
                    "the profile %s is built in, and of no machine; this is \"%s\": measure it "
                    "with wring calibrate",
                    profile->name, machine);
    else
        wring_error(log,
                    "the profile %s was measured on \"%s\", and this is \"%s\": measure it with "
                    "wring calibrate",
                    profile->name, profile->machine, machine);
    return WRING_ERR_MISMATCH;
}

void wring_profile_destroy(struct wring_profile *profile)
{
    if (profile == NULL)
        return;
    free(profile->codecs);
    free(profile->ways);
    wring_profile_errors_finish(&profile->errors);
    free(profile);
}
