/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "planner/core/files/hash.h"
#include "planner/core/files/profile_errors.h"
#include "planner/core/files/profile_traits.h"

#define WRING_MODULE "planner"

const char *wring_site_name(enum wring_site site)
{
    static const char *const names[WRING_SITES] = {"device", "cpu", "node"};
    return names[site];
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

/** The raw direction of a pair like "in>none": it takes no codec time. */
static struct wring_profile_codec make_uncoded(void)
{
    struct wring_profile_codec none = {
        .spec = "none", .summable = true, .wire_bytes = wring_cost_line(0, sizeof(float))};

    for (int site = 0; site < WRING_SITES; site++)
        none.at[site].present = true;
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
        *out = make_uncoded();
        return WRING_OK;
    }
    list_codecs(profile, known, sizeof(known));
    wring_error(log, "the profile %s knows no codec \"%s\"; it has none%s", profile->name, spec,
                known);
    return WRING_ERR_INVALID;
}

struct wring_tuning wring_profile_collective_tuning(
    const struct wring_measured_collective *collective)
{
    return (struct wring_tuning){.cores = collective->coder_cores,
                                 .chunk_bytes = collective->chunk_bytes != 0
                                                    ? collective->chunk_bytes
                                                    : WRING_TUNING_CHUNK_BYTES};
}

static bool was_measured_with(const struct wring_measured_collective *collective,
                              const struct wring_tuning *tuning)
{
    struct wring_tuning measured = wring_profile_collective_tuning(collective);

    return measured.cores == tuning->cores && measured.chunk_bytes == tuning->chunk_bytes;
}

/** @param tuning  NULL: any */
static const struct wring_measured_collective *find_collective(const struct wring_profile *profile,
                                                               const char *codec,
                                                               const char *run_as, uint32_t ranks,
                                                               const struct wring_tuning *tuning)
{
    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        if (strcmp(collective->codec, codec) == 0 && strcmp(collective->run_as, run_as) == 0 &&
            (ranks == 0 || collective->ranks == ranks) &&
            (tuning == NULL || was_measured_with(collective, tuning)))
            return collective;
    }
    return NULL;
}

const struct wring_measured_collective *wring_profile_find_collective(
    const struct wring_profile *profile, const char *codec, const char *run_as, uint32_t ranks)
{
    return find_collective(profile, codec, run_as, ranks, NULL);
}

const struct wring_measured_collective *wring_profile_collective_at(
    const struct wring_profile *profile, const char *codec, const char *run_as, uint32_t ranks,
    const struct wring_tuning *tuning)
{
    return find_collective(profile, codec, run_as, ranks, tuning);
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
    free(profile->collectives);
    wring_profile_errors_finish(&profile->errors);
    free(profile);
}

/* ---- put ---- */

/* Entries of a profile that is put together in memory. */

/** A list with room for one more. NULL: no memory; the list is as it was */
static void *grow_list(void *list, uint32_t n, size_t bytes)
{
    return realloc(list, (n + 1) * bytes);
}

struct wring_profile_codec *wring_profile_put_codec(struct wring_profile *profile, const char *spec)
{
    uint32_t i = 0;

    while (i < profile->n_codecs && strcmp(profile->codecs[i].spec, spec) != 0)
        i++;
    if (i == profile->n_codecs) {
        struct wring_profile_codec *grown =
            i < WRING_PROFILE_CODECS_MAX ? grow_list(profile->codecs, i, sizeof(*grown)) : NULL;
        if (grown == NULL)
            return NULL;
        profile->codecs = grown;
        profile->n_codecs++;
    }
    profile->codecs[i] = (struct wring_profile_codec){.nmse = NAN};
    snprintf(profile->codecs[i].spec, WRING_CODEC_SPEC_MAX, "%s", spec);
    return &profile->codecs[i];
}

struct wring_measured_collective *wring_profile_put_collective(struct wring_profile *profile,
                                                               const char *codec,
                                                               const char *run_as, uint32_t ranks,
                                                               uint32_t cores)
{
    uint32_t i = 0;

    while (i < profile->n_collectives && (strcmp(profile->collectives[i].codec, codec) != 0 ||
                                          strcmp(profile->collectives[i].run_as, run_as) != 0 ||
                                          profile->collectives[i].ranks != ranks))
        i++;
    if (i == profile->n_collectives) {
        struct wring_measured_collective *grown =
            i < WRING_PROFILE_COLLECTIVES_MAX ? grow_list(profile->collectives, i, sizeof(*grown))
                                              : NULL;
        if (grown == NULL)
            return NULL;
        profile->collectives = grown;
        profile->n_collectives++;
    }
    profile->collectives[i] = (struct wring_measured_collective){.ranks = ranks, .cores = cores};
    snprintf(profile->collectives[i].codec, WRING_CODEC_SPEC_MAX, "%s", codec);
    snprintf(profile->collectives[i].run_as, sizeof(profile->collectives[i].run_as), "%s", run_as);
    return &profile->collectives[i];
}

static void extend_curve(struct wring_profile_curve *curve, double at,
                         const struct wring_profile_curve *larger, uint32_t common)
{
    struct wring_profile_trust *trust = &curve->trust;
    const struct wring_profile_trust *more = &larger->trust;

    curve->us = wring_cost_continue(&curve->us, at, &larger->us);
    trust->error = fmax(trust->error, more->error);
    trust->spread = fmax(trust->spread, more->spread);
    trust->doubt = fmax(trust->doubt, more->doubt);
    trust->samples = more->samples < trust->samples ? more->samples : trust->samples;
    trust->points += more->points - common;
    trust->noisy += more->noisy;
    trust->noisy = trust->noisy < trust->points ? trust->noisy : trust->points;
    trust->doubtful += more->doubtful;
    trust->doubtful = trust->doubtful < trust->points ? trust->doubtful : trust->points;
}

void wring_profile_extend_collective(struct wring_measured_collective *collective,
                                     const struct wring_measured_collective *larger,
                                     uint32_t common)
{
    double at = (double)collective->max_elems;

    if (larger->max_elems <= collective->max_elems)
        return;
    extend_curve(&collective->solo, at, &larger->solo, common);
    extend_curve(&collective->busy, at, &larger->busy, common);
    extend_curve(&collective->cpu, at, &larger->cpu, common);
    collective->wire_bytes = wring_cost_continue(&collective->wire_bytes, at, &larger->wire_bytes);
    collective->max_elems = larger->max_elems;
}

/* ---- hash ---- */

/* The hash of a profile covers all that a plan depends on. Fields without a value add nothing to
 * it, so that profiles older than a field keep their hash. */

/** Writes nothing if the profile has no value. */
static void write_trust(struct wring_writer *writer, const struct wring_profile_trust *trust)
{
    if (trust->samples == 0)
        return;
    wring_write_double(writer, trust->error);
    wring_write_double(writer, trust->spread);
    wring_write_double(writer, trust->doubt);
    wring_write_u32(writer, trust->samples);
    wring_write_u32(writer, trust->points);
    wring_write_u32(writer, trust->noisy);
    if (trust->doubtful > 0)
        wring_write_u32(writer, trust->doubtful);
}

static void write_curve(struct wring_writer *writer, const struct wring_profile_curve *curve)
{
    wring_write_cost(writer, &curve->us);
    write_trust(writer, &curve->trust);
}

static void write_text(struct wring_writer *writer, const char *text)
{
    wring_write_sized(writer, text, strlen(text));
}

static void write_coding(struct wring_writer *writer, const struct wring_profile_coding *coding)
{
    wring_write_u32(writer, coding->present);
    if (!coding->present)
        return;
    wring_write_cost(writer, &coding->encode_us);
    wring_write_cost(writer, &coding->decode_us);
    write_trust(writer, &coding->encode_trust);
    write_trust(writer, &coding->decode_trust);
    if (coding->state_us.n > 0) {
        write_text(writer, "state");
        wring_write_cost(writer, &coding->state_us);
    }
    if (coding->sum_us.n > 0) {
        write_text(writer, "sum");
        wring_write_cost(writer, &coding->sum_us);
        write_trust(writer, &coding->sum_trust);
    }
    if (coding->decode_add_us.n == 0)
        return;
    wring_write_cost(writer, &coding->decode_add_us);
    write_trust(writer, &coding->decode_add_trust);
}

static void write_routine(struct wring_writer *writer, const struct wring_profile_routine *routine)
{
    write_text(writer, routine->name);
    wring_write_double(writer, routine->latency_us);
    wring_write_cost(writer, &routine->us);
    write_trust(writer, &routine->latency_trust);
    write_trust(writer, &routine->trust);
}

static void write_link(struct wring_writer *writer, const struct wring_profile_link *link)
{
    wring_write_u32(writer, link->present);
    if (!link->present)
        return;
    write_text(writer, link->provider);
    wring_write_double(writer, link->latency_us);
    wring_write_cost(writer, &link->us);
    write_trust(writer, &link->trust);
    write_trust(writer, &link->latency_trust);
    if (link->put.latency.us.n > 0) {
        write_curve(writer, &link->put.latency);
        write_curve(writer, &link->put.each);
    }
    for (uint32_t i = 0; i < link->n_routines; i++)
        write_routine(writer, &link->routines[i]);
}

static void write_codec(struct wring_writer *writer, const struct wring_profile_codec *codec)
{
    write_text(writer, codec->spec);
    wring_write_u32(writer, codec->summable);
    wring_write_u32(writer, codec->feedback);
    wring_write_double(writer, isnan(codec->nmse) ? -1 : codec->nmse);
    wring_write_cost(writer, &codec->wire_bytes);
    wring_record_hash(writer, &wring_profile_traits_record, &codec->traits);
    for (int site = 0; site < WRING_SITES; site++) {
        write_coding(writer, &codec->at[site]);
        write_coding(writer, &codec->two_level[site]);
    }
    for (uint32_t i = 0; i < codec->n_coders; i++) {
        wring_write_u32(writer, codec->coders[i].cores);
        write_text(writer, codec->coders[i].tier);
        write_curve(writer, &codec->coders[i].encode);
        write_curve(writer, &codec->coders[i].decode);
        if (codec->coders[i].decode_add.us.n > 0)
            write_curve(writer, &codec->coders[i].decode_add);
        if (codec->coders[i].sum.us.n > 0) {
            write_text(writer, "sum");
            write_curve(writer, &codec->coders[i].sum);
        }
    }
}

static void write_collective(struct wring_writer *writer,
                             const struct wring_measured_collective *collective)
{
    write_text(writer, collective->codec);
    write_text(writer, collective->run_as);
    wring_write_u32(writer, collective->ranks);
    wring_write_u32(writer, collective->cores);
    wring_write_double(writer, (double)collective->max_elems);
    write_curve(writer, &collective->solo);
    write_curve(writer, &collective->busy);
    write_curve(writer, &collective->cpu);
    wring_write_cost(writer, &collective->wire_bytes);
    if (collective->chunk_bytes == 0 && collective->coder_cores == 0)
        return; /* nobody has said */
    wring_write_u32(writer, collective->coder_cores);
    wring_write_double(writer, (double)collective->chunk_bytes);
}

static void write_computing(struct wring_writer *writer,
                            const struct wring_profile_computing *computing)
{
    if (!computing->present)
        return;
    wring_write_double(writer, computing->wake_us);
    wring_write_double(writer, computing->wake_doubt_us);
    wring_write_double(writer, computing->spin_lost);
    wring_write_double(writer, computing->spin_doubt);
    if (computing->core_share > 0)
        wring_write_double(writer, computing->core_share);
    if (computing->spin_codec[0] != '\0') {
        write_text(writer, computing->spin_codec);
        wring_write_double(writer, computing->spin_coded_lost);
        wring_write_double(writer, computing->spin_coded_doubt);
    }
    wring_write_u32(writer, computing->samples);
}

/** Nothing where nothing of it was measured. */
static void write_measured(struct wring_writer *writer, const struct wring_profile *profile)
{
    if (profile->copy_us.n == 0 && profile->n_collectives == 0)
        return;
    wring_write_cost(writer, &profile->copy_us);
    write_trust(writer, &profile->copy_trust);
    wring_write_u32(writer, profile->n_collectives);
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        write_collective(writer, &profile->collectives[i]);
}

enum wring_status wring_profile_rehash(struct wring_profile *profile)
{
    struct wring_writer writer = {0};

    write_text(&writer, profile->machine);
    wring_write_u32(&writer, profile->nodes);
    wring_write_u32(&writer, profile->ranks_per_node);
    wring_write_u32(&writer, profile->chunked);
    for (int level = 0; level < WRING_LEVELS; level++)
        write_link(&writer, &profile->links[level]);
    wring_write_u32(&writer, profile->n_codecs);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        write_codec(&writer, &profile->codecs[i]);
    write_measured(&writer, profile);
    wring_profile_write_errors(&writer, &profile->errors);
    write_computing(&writer, &profile->computing);
    return wring_hash(&writer, &profile->hash);
}

/* ---- tunings ---- */

static bool names_tuning(const struct wring_measured_collective *collective,
                         const struct wring_tuning *tuning)
{
    return collective->coder_cores == tuning->cores &&
           collective->chunk_bytes == tuning->chunk_bytes;
}

/** The same collective, with any tuning. */
static bool is_same_collective(const struct wring_measured_collective *a,
                               const struct wring_measured_collective *b)
{
    return strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores;
}

static bool are_alike(const struct wring_measured_collective *a,
                      const struct wring_measured_collective *b)
{
    struct wring_tuning x = wring_profile_collective_tuning(a),
                        y = wring_profile_collective_tuning(b);

    return is_same_collective(a, b) && x.cores == y.cores && x.chunk_bytes == y.chunk_bytes;
}

enum wring_status wring_profile_set_aside(struct wring_profile *profile,
                                          const struct wring_tuning *tuning,
                                          struct wring_profile_aside *aside)
{
    uint32_t left = 0;

    aside->n = 0;
    aside->collectives = calloc((size_t)profile->n_collectives + 1, sizeof(*aside->collectives));
    if (aside->collectives == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        if (names_tuning(&profile->collectives[i], tuning))
            profile->collectives[left++] = profile->collectives[i];
        else
            aside->collectives[aside->n++] = profile->collectives[i];
    profile->n_collectives = left;
    return WRING_OK;
}

/** List the collectives set aside that were not measured again. @param out  [aside->n] @return how
 * many */
static uint32_t list_not_remeasured(const struct wring_profile_aside *aside,
                                    const struct wring_profile *profile,
                                    struct wring_measured_collective *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < aside->n; i++) {
        uint32_t same = 0;
        while (same < profile->n_collectives &&
               !are_alike(&profile->collectives[same], &aside->collectives[i]))
            same++;
        if (same == profile->n_collectives)
            out[n++] = aside->collectives[i];
    }
    return n;
}

static bool is_default(const struct wring_tuning *tuning)
{
    return tuning->cores == 0 &&
           (tuning->chunk_bytes == 0 || tuning->chunk_bytes == WRING_TUNING_CHUNK_BYTES);
}

enum wring_status wring_profile_bring_back(struct wring_profile *profile,
                                           const struct wring_tuning *tuning,
                                           struct wring_profile_aside *aside)
{
    uint32_t n = profile->n_collectives, others, begin;
    struct wring_measured_collective *all = calloc((size_t)n + aside->n + 1, sizeof(*all));

    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        profile->collectives[i].coder_cores = tuning->cores;
        profile->collectives[i].chunk_bytes = tuning->chunk_bytes;
    }
    others = list_not_remeasured(aside, profile, all);
    begin = is_default(tuning) ? 0 : others; /* the default's come first */
    memmove(all + (begin == 0 ? n : 0), all, others * sizeof(*all));
    if (n > 0)
        memcpy(all + begin, profile->collectives, n * sizeof(*all));
    free(profile->collectives);
    free(aside->collectives);
    *aside = (struct wring_profile_aside){0};
    profile->collectives = all;
    profile->n_collectives = n + others;
    return WRING_OK;
}

void wring_profile_label_collectives(struct wring_profile *profile,
                                     const struct wring_tuning *tuning)
{
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        if (profile->collectives[i].chunk_bytes == 0) {
            profile->collectives[i].coder_cores = tuning->cores;
            profile->collectives[i].chunk_bytes = tuning->chunk_bytes;
        }
}

/** Beyond `at`, as many times what the other one takes there. */
static void extend_cost_like(struct wring_cost *us, const struct wring_cost *other, double at)
{
    double there = wring_cost_at(other, at);
    double times = there > 0 ? wring_cost_at(us, at) / there : 1;
    const struct wring_cost scaled = wring_cost_scale(other, times, 1);

    *us = wring_cost_continue(us, at, &scaled);
}

void wring_profile_carry_on(struct wring_profile *profile, const struct wring_tuning *tuning)
{
    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        struct wring_measured_collective *collective = &profile->collectives[i];
        const struct wring_measured_collective *known = wring_profile_collective_at(
            profile, collective->codec, collective->run_as, collective->ranks, tuning);
        double at = (double)collective->max_elems;
        if (known == NULL || !is_same_collective(collective, known) ||
            known->max_elems <= collective->max_elems)
            continue;
        extend_cost_like(&collective->solo.us, &known->solo.us, at);
        extend_cost_like(&collective->busy.us, &known->busy.us, at);
        extend_cost_like(&collective->cpu.us, &known->cpu.us, at);
        collective->wire_bytes =
            wring_cost_continue(&collective->wire_bytes, at, &known->wire_bytes);
        collective->max_elems = known->max_elems;
    }
}
