/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in files: the table of each record's fields, which docs/planner-files.md explains. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/fields.h"
#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/profile_errors.h"
#include "planner/core/files/profile_traits.h"
#include <wring/types.h>

#define COLLECTIVE_RANKS_MAX (1u << 20)
#define CORES_MAX (1u << 20)
#define ELEMS_MAX 0x1p40
#define SHARE_MAX 1e9
#define SAMPLES_MAX 1e9
#define US_MAX 1e9
#define NMSE_MAX 1e9
#define ERROR_MAX 1e9
#define NODES_MAX (1u << 20)
#define RANKS_MAX (1u << 16)

/* ---- how far what was measured can be trusted ---- */

#define OWNER struct wring_profile_trust
static const struct wring_field trust_fields[] = {
    {"error", FIELD_NUMBER(error, 0, SHARE_MAX)},
    {"spread", FIELD_NUMBER(spread, 0, SHARE_MAX)},
    {"doubt", FIELD_NUMBER(doubt, 0, SHARE_MAX)},
    {"samples", FIELD_U32(samples, 1, SAMPLES_MAX)},
    {"points", FIELD_U32(points, 1, SAMPLES_MAX)},
    {"noisy", FIELD_U32(noisy, 0, SAMPLES_MAX)},
    {"doubtful", FIELD_U32(doubtful, 0, SAMPLES_MAX), FIELD_OPTIONAL},
};
#undef OWNER

static bool is_trusted(const void *record)
{
    return ((const struct wring_profile_trust *)record)->samples > 0;
}

static void check_trust(struct wring_reading *reading, const void *record)
{
    const struct wring_profile_trust *trust = record;

    if (trust->noisy > trust->points)
        wring_reading_fault(reading, WRING_ERR_INVALID, "%u of %u points cannot be noisy",
                            trust->noisy, trust->points);
    if (trust->doubtful > trust->points)
        wring_reading_fault(reading, WRING_ERR_INVALID, "%u of %u points cannot be in doubt",
                            trust->doubtful, trust->points);
}

static const struct wring_record trust_record = {RECORD_FIELDS(trust_fields), .field = "samples",
                                                 .is_set = is_trusted, .check = check_trust};

/** The same, which must be there where its cost is. */
static const struct wring_record measured_record = {RECORD_FIELDS(trust_fields),
                                                    .is_set = is_trusted, .check = check_trust};

/** A cost that may say how far it can be trusted, and one that has corners and must. */
#define TRUSTED(name, cost, its_trust)                            \
    {name, FIELD_COST(cost)},                                     \
    {                                                             \
        name, FIELD_OBJECT(its_trust, trust_record), FIELD_SPARSE \
    }
#define SPARSE_TRUSTED(name, cost, its_trust)                     \
    {name, FIELD_COST(cost), FIELD_SPARSE},                       \
    {                                                             \
        name, FIELD_OBJECT(its_trust, trust_record), FIELD_SPARSE \
    }
#define CURVE(name, member)                            \
    {name, FIELD_COST(member.us), .min = 1},           \
    {                                                  \
        name, FIELD_OBJECT(member.trust, trust_record) \
    }

/* ---- links ---- */

#define OWNER struct wring_profile_put
static const struct wring_field put_fields[] = {
    CURVE("latency_us_by_bytes", latency),
    CURVE("us_by_bytes", each),
};
#undef OWNER

static bool is_put_measured(const void *record)
{
    return ((const struct wring_profile_put *)record)->latency.us.n > 0;
}

static const struct wring_record put_record = {RECORD_FIELDS(put_fields),
                                               .is_set = is_put_measured};

#define OWNER struct wring_profile_routine
static const struct wring_field routine_fields[] = {
    {"routine", FIELD_TEXT(name), .min = 1},
    {"latency_us", FIELD_NUMBER(latency_us, 0, US_MAX)},
    TRUSTED("us_by_bytes", us, trust),
    {"latency_trust", FIELD_OBJECT(latency_trust, trust_record), FIELD_SPARSE},
};
#undef OWNER

static const struct wring_record routine_record = {RECORD_FIELDS(routine_fields)};

static void check_routine(struct wring_reading *reading, const void *owner, uint32_t i)
{
    const struct wring_profile_link *link = owner; /* which counts those before */

    if (wring_profile_routine(link, link->routines[i].name) != NULL)
        wring_reading_fault(reading, WRING_ERR_INVALID, "\"%s\" is there already",
                            link->routines[i].name);
}

#define OWNER struct wring_profile_link
static const struct wring_field link_fields[] = {
    {"provider", FIELD_TEXT(provider)},
    {"latency_us", FIELD_NUMBER(latency_us, 0, US_MAX)},
    TRUSTED("us_by_bytes", us, trust),
    {"latency_trust", FIELD_OBJECT(latency_trust, trust_record), FIELD_SPARSE},
    {"put", FIELD_OBJECT(put, put_record), FIELD_SPARSE},
    {"routines", FIELD_ARRAY(routines, n_routines, routine_record, WRING_PROFILE_ROUTINES_MAX),
     FIELD_SPARSE, .check = check_routine},
};
#undef OWNER

static const struct wring_record link_record = {RECORD_FIELDS(link_fields), .flagged = true};

static const char *name_level(unsigned i)
{
    return wring_level_name((enum wring_level)i);
}

/* ---- codecs ---- */

#define OWNER struct wring_profile_coding
static const struct wring_field coding_fields[] = {
    TRUSTED("encode_us", encode_us, encode_trust),
    TRUSTED("decode_us", decode_us, decode_trust),
    SPARSE_TRUSTED("decode_add_us", decode_add_us, decode_add_trust),
    SPARSE_TRUSTED("code_sum_us", sum_us, sum_trust),
    {"state_us_by_bytes", FIELD_COST(state_us), FIELD_SPARSE},
    {"source", FIELD_TEXT(source), FIELD_SPARSE},
};
#undef OWNER

static const struct wring_record coding_record = {RECORD_FIELDS(coding_fields), .flagged = true};

static const char *name_site(unsigned i)
{
    return wring_site_name((enum wring_site)i);
}

#define OWNER struct wring_profile_coder
static const struct wring_field coder_fields[] = {
    {"cores", FIELD_U32(cores, 0, WRING_TUNING_CORES_MAX)},
    {"tier", FIELD_TEXT(tier), .min = 1},
    CURVE("encode_us", encode),
    CURVE("decode_us", decode),
    {"decode_add_us", FIELD_COST(decode_add.us), FIELD_SPARSE, .min = 1},
    {"decode_add_us", FIELD_OBJECT(decode_add.trust, measured_record), FIELD_SPARSE},
    {"code_sum_us", FIELD_COST(sum.us), FIELD_SPARSE, .min = 1},
    {"code_sum_us", FIELD_OBJECT(sum.trust, measured_record), FIELD_SPARSE},
};
#undef OWNER

static const struct wring_record coder_record = {RECORD_FIELDS(coder_fields)};

static void check_coder(struct wring_reading *reading, const void *owner, uint32_t i)
{
    const struct wring_profile_coder *coders = ((const struct wring_profile_codec *)owner)->coders;

    for (uint32_t before = 0; before < i; before++)
        if (coders[before].cores == coders[i].cores &&
            strcmp(coders[before].tier, coders[i].tier) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "cores and tier are those of coders[%u]", before);
}

#define OWNER struct wring_profile_codec
static const struct wring_field codec_fields[] = {
    {"spec", FIELD_TEXT(spec), .min = 1},
    {"summable", FIELD_BOOL(summable)},
    {"feedback", FIELD_BOOL(feedback)},
    {"nmse", FIELD_NUMBER_OR_NULL(nmse, NMSE_MAX)},
    {"wire_bytes", FIELD_COST(wire_bytes)},
    {"traits", FIELD_OBJECT(traits, wring_profile_traits_record), FIELD_SPARSE},
    {"at", FIELD_NAMED(at, coding_record, name_site, WRING_SITES), FIELD_OPTIONAL},
    {"two_level", FIELD_NAMED(two_level, coding_record, name_site, WRING_SITES), FIELD_OPTIONAL},
    {"coders", FIELD_ARRAY(coders, n_coders, coder_record, WRING_PROFILE_CODERS_MAX), FIELD_SPARSE,
     .check = check_coder},
};
#undef OWNER

static const struct wring_record codec_record = {RECORD_FIELDS(codec_fields)};

static void check_codec(struct wring_reading *reading, const void *owner, uint32_t i)
{
    const struct wring_profile_codec *codecs = ((const struct wring_profile *)owner)->codecs;

    wring_reading_enter(reading, "spec");
    if (strcmp(codecs[i].spec, "none") == 0)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "\"none\" costs nothing and needs no entry");
    for (uint32_t before = 0; before < i; before++)
        if (strcmp(codecs[before].spec, codecs[i].spec) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "\"%s\" is the codec of codecs[%u] already", codecs[i].spec,
                                before);
    wring_reading_leave(reading);
}

/* ---- measured collectives ---- */

static bool has_tuning(const void *owner)
{
    const struct wring_measured_collective *collective = owner;
    return collective->chunk_bytes != 0 || collective->coder_cores != 0;
}

#define OWNER struct wring_measured_collective
static const struct wring_field collective_fields[] = {
    {"codec", FIELD_TEXT(codec), .min = 1},
    {"run_as", FIELD_TEXT(run_as), .min = 1},
    {"ranks", FIELD_U32(ranks, 1, COLLECTIVE_RANKS_MAX)},
    {"cores", FIELD_U32(cores, 1, CORES_MAX)},
    {"max_elements", FIELD_U64(max_elems, 1, ELEMS_MAX)},
    CURVE("solo_us", solo),
    CURVE("busy_us", busy),
    CURVE("cpu_us", cpu),
    {"wire_bytes", FIELD_COST(wire_bytes)},
    {"coder_cores", FIELD_U32(coder_cores, 0, WRING_TUNING_CORES_MAX), FIELD_SPARSE,
     .is_set = has_tuning},
    {"chunk_bytes",
     FIELD_U64(chunk_bytes, WRING_TUNING_CHUNK_BYTES_MIN, WRING_TUNING_CHUNK_BYTES_MAX),
     FIELD_SPARSE},
};
#undef OWNER

static void check_scheme(struct wring_reading *reading, const void *record)
{
    const char *run_as = ((const struct wring_measured_collective *)record)->run_as;

    enum wring_scheme scheme = wring_scheme_find(run_as);

    if (scheme != WRING_SCHEMES && scheme != WRING_SCHEME_RING) /* no plan takes a ring */
        return;
    wring_reading_enter(reading, "run_as");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "needs auto, divisible or indivisible, or one of hierarchical, "
                        "hierarchical-divisible and hierarchical-indivisible; is \"%s\"",
                        run_as);
    wring_reading_leave(reading);
}

static const struct wring_record collective_record = {RECORD_FIELDS(collective_fields),
                                                      .check = check_scheme};

static bool are_alike(const struct wring_measured_collective *a,
                      const struct wring_measured_collective *b)
{
    struct wring_tuning x = wring_profile_collective_tuning(a),
                        y = wring_profile_collective_tuning(b);

    return x.cores == y.cores && x.chunk_bytes == y.chunk_bytes &&
           strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores;
}

static void check_collective(struct wring_reading *reading, const void *owner, uint32_t i)
{
    const struct wring_measured_collective *all =
        ((const struct wring_profile *)owner)->collectives;

    for (uint32_t before = 0; before < i; before++)
        if (are_alike(&all[before], &all[i]))
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "codec, run_as, ranks, cores and tuning are those of ways[%u]",
                                before);
}

/* ---- computing ---- */

#define OWNER struct wring_profile_computing
static const struct wring_field spin_coded_fields[] = {
    {"codec", FIELD_TEXT(spin_codec), .min = 1},
    {"lost", FIELD_NUMBER(spin_coded_lost, 0, 1)},
    {"doubt", FIELD_NUMBER(spin_coded_doubt, 0, SHARE_MAX)},
};

static bool has_spin_coded(const void *record)
{
    return ((const struct wring_profile_computing *)record)->spin_codec[0] != '\0';
}

static const struct wring_record spin_coded_record = {RECORD_FIELDS(spin_coded_fields),
                                                      .is_set = has_spin_coded};

static const struct wring_field computing_fields[] = {
    {"wake_us", FIELD_NUMBER(wake_us, 0, US_MAX)},
    {"wake_doubt_us", FIELD_NUMBER(wake_doubt_us, 0, US_MAX)},
    {"spin_lost", FIELD_NUMBER(spin_lost, 0, 1)},
    {"spin_doubt", FIELD_NUMBER(spin_doubt, 0, SHARE_MAX)},
    {"spin_coded", FIELD_PART(spin_coded_record), FIELD_SPARSE},
    {"core_share", FIELD_NUMBER(core_share, WRING_CORE_SHARE_MIN, 1), FIELD_SPARSE},
    {"samples", FIELD_U32(samples, 1, SAMPLES_MAX)},
};
#undef OWNER

static const struct wring_record computing_record = {RECORD_FIELDS(computing_fields),
                                                     .flagged = true};

/* ---- the file ---- */

#define OWNER struct wring_profile
static const struct wring_field profile_fields[] = {
    {"name", FIELD_TEXT(name), .min = 1},
    {"machine", FIELD_TEXT(machine)},
    {"source", FIELD_TEXT(source), FIELD_OPTIONAL},
    {"nodes", FIELD_U32(nodes, 1, NODES_MAX)},
    {"ranks_per_node", FIELD_U32(ranks_per_node, 1, RANKS_MAX)},
    {"chunked", FIELD_BOOL(chunked)},
    {"links", FIELD_NAMED(links, link_record, name_level, WRING_LEVELS)},
    {"codecs", FIELD_LIST(codecs, n_codecs, codec_record, WRING_PROFILE_CODECS_MAX),
     .check = check_codec},
    SPARSE_TRUSTED("copy_us", copy_us, copy_trust),
    {"computing", FIELD_OBJECT(computing, computing_record), FIELD_SPARSE},
    {"ways",
     FIELD_LIST(collectives, n_collectives, collective_record, WRING_PROFILE_COLLECTIVES_MAX),
     FIELD_SPARSE, .check = check_collective},
};
#undef OWNER

static void check_links(struct wring_reading *reading, const void *record)
{
    const struct wring_profile *profile = record;
    bool any = false;

    for (int level = 0; level < WRING_LEVELS; level++)
        any |= profile->links[level].present;
    if (any)
        return;
    wring_reading_enter(reading, "links");
    wring_reading_fault(reading, WRING_ERR_INVALID, "needs \"intra\" or \"inter\", has neither");
    wring_reading_leave(reading);
}

static const struct wring_record profile_record = {RECORD_FIELDS(profile_fields),
                                                   .check = check_links};

/* ---- errors ---- */

static char *copy_tensor_name(struct wring_reading *reading, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    return copy;
}

static void read_error_tensors(struct wring_reading *reading, const json_t *list,
                               struct wring_profile_errors *errors)
{
    wring_reading_enter(reading, "tensors");
    for (uint32_t i = 0; i < errors->n_tensors && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        errors->tensors[i] =
            copy_tensor_name(reading, wring_reading_value_text(reading, json_array_get(list, i), 1,
                                                               WRING_GRADIENTS_NAME_MAX));
        wring_reading_leave(reading);
    }
    if (reading->status == WRING_OK)
        wring_profile_errors_sort(errors);
    for (uint32_t i = 1; i < errors->n_tensors && reading->status == WRING_OK; i++)
        if (strcmp(*errors->by_name[i - 1], *errors->by_name[i]) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID, "has \"%.60s\" twice",
                                *errors->by_name[i]);
    wring_reading_leave(reading);
}

static struct wring_profile_loss read_loss(struct wring_reading *reading, const json_t *object)
{
    return (struct wring_profile_loss){
        .nmse = wring_reading_number(reading, object, "nmse", 0, ERROR_MAX) + 0.0,
        .fed = wring_reading_number(reading, object, "nmse_fed", 0, ERROR_MAX) + 0.0};
}

static void read_losses(struct wring_reading *reading, const json_t *object,
                        const struct wring_profile_errors *errors, struct wring_profile_losses *out)
{
    const json_t *list =
        wring_reading_array(reading, object, "tensors", errors->n_tensors, errors->n_tensors);

    wring_reading_enter(reading, "tensors");
    for (uint32_t i = 0; i < errors->n_tensors && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        out->each[i] = read_loss(reading, json_array_get(list, i));
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_codec_errors(struct wring_reading *reading, const json_t *object,
                              struct wring_profile_errors *errors, uint32_t i)
{
    struct wring_profile_losses *codec = &errors->codecs[i];
    const char *spec = wring_reading_text(reading, object, "spec", 1, sizeof(codec->spec) - 1);

    memcpy(codec->spec, spec, strlen(spec) + 1);
    for (uint32_t before = 0; before < i; before++)
        if (strcmp(errors->codecs[before].spec, spec) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "\"%s\" is the codec of codecs[%u] already", spec, before);
    codec->all = read_loss(reading, object);
    read_losses(reading, object, errors, codec);
}

static void read_errors_head(struct wring_reading *reading, const json_t *object,
                             struct wring_profile_errors *errors)
{
    const char *source =
        wring_reading_text(reading, object, "source", 0, sizeof(errors->source) - 1);

    memcpy(errors->source, source, strlen(source) + 1);
    errors->gradients = wring_reading_hash(reading, object, "gradients");
    errors->n_steps =
        (uint32_t)wring_reading_count(reading, object, "steps", 1, WRING_GRADIENTS_STEPS_MAX);
}

/** Its field "errors", which may be missing, into the profile. */
static void read_errors(struct wring_reading *reading, const json_t *object,
                        struct wring_profile *profile)
{
    struct wring_profile_errors *errors = &profile->errors;

    if (!wring_reading_has(reading, object, "errors"))
        return;
    const json_t *value = wring_reading_object(reading, object, "errors");
    wring_reading_enter(reading, "errors");
    const json_t *tensors =
        wring_reading_array(reading, value, "tensors", 1, WRING_GRADIENTS_TENSORS_MAX);
    const json_t *codecs =
        wring_reading_array(reading, value, "codecs", 1, WRING_PROFILE_CODECS_MAX);
    if (reading->status == WRING_OK)
        reading->status = wring_profile_errors_init(errors, (uint32_t)json_array_size(tensors),
                                                    (uint32_t)json_array_size(codecs));
    if (reading->status == WRING_OK) {
        read_error_tensors(reading, tensors, errors);
        read_errors_head(reading, value, errors);
    }
    wring_reading_enter(reading, "codecs");
    for (uint32_t i = 0; i < errors->n_codecs && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_codec_errors(reading, json_array_get(codecs, i), errors, i);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
    wring_reading_leave(reading);
}

static json_t *losses_json(const struct wring_profile_errors *errors,
                           const struct wring_profile_losses *codec)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < errors->n_tensors; i++) {
        json_t *value = json_pack("{s:o, s:o}", "nmse", wring_json_number(codec->each[i].nmse),
                                  "nmse_fed", wring_json_number(codec->each[i].fed));
        if (json_array_append_new(list, value) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *codec_errors_json(const struct wring_profile_errors *errors)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < errors->n_codecs; i++) {
        const struct wring_profile_losses *codec = &errors->codecs[i];
        json_t *value = json_pack(
            "{s:s, s:o, s:o, s:o}", "spec", codec->spec, "nmse", wring_json_number(codec->all.nmse),
            "nmse_fed", wring_json_number(codec->all.fed), "tensors", losses_json(errors, codec));
        if (json_array_append_new(list, value) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *error_tensors_json(const struct wring_profile_errors *errors)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < errors->n_tensors; i++)
        if (json_array_append_new(list, json_string(errors->tensors[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/** The field's value, a new reference; NULL without memory. */
static json_t *errors_json(const struct wring_profile_errors *errors)
{
    return json_pack("{s:s, s:o, s:i, s:o, s:o}", "source", errors->source, "gradients",
                     wring_json_hash(errors->gradients), "steps", (int)errors->n_steps, "tensors",
                     error_tensors_json(errors), "codecs", codec_errors_json(errors));
}

/* ---- the file ---- */

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
    if (object != NULL) {
        wring_record_read(&reading, object, &profile_record, profile);
        read_errors(&reading, object, profile);
    }
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

enum wring_status wring_profile_save(const struct wring_profile *profile, FILE *file)
{
    json_t *object =
        json_pack("{s:s, s:i}", "format", WRING_PROFILE_FORMAT, "version", WRING_PROFILE_VERSION);
    bool whole = wring_record_put(object, &profile_record, profile);

    if (whole && profile->errors.n_codecs > 0)
        whole = json_object_set_new(object, "errors", errors_json(&profile->errors)) == 0;
    if (!whole) {
        json_decref(object);
        object = NULL;
    }
    return wring_json_write(file, object);
}
