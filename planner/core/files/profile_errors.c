/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/profile_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/json.h"

#define ERROR_MAX 1e9

/* ---- in memory ---- */

enum wring_status wring_profile_errors_init(struct wring_profile_errors *errors, uint32_t n_tensors,
                                            uint32_t n_codecs)
{
    *errors = (struct wring_profile_errors){0};
    errors->tensors = calloc((size_t)n_tensors + 1, sizeof(*errors->tensors));
    errors->by_name = calloc((size_t)n_tensors + 1, sizeof(*errors->by_name));
    errors->codecs = calloc((size_t)n_codecs + 1, sizeof(*errors->codecs));
    if (errors->tensors == NULL || errors->by_name == NULL || errors->codecs == NULL)
        goto finish;
    errors->n_tensors = n_tensors;
    for (uint32_t i = 0; i < n_codecs; i++) {
        errors->codecs[i].each = calloc((size_t)n_tensors + 1, sizeof(*errors->codecs[i].each));
        if (errors->codecs[i].each == NULL)
            goto finish;
        errors->n_codecs++;
    }
    return WRING_OK;

finish:
    wring_profile_errors_finish(errors);
    return WRING_ERR_NO_MEMORY;
}

void wring_profile_errors_finish(struct wring_profile_errors *errors)
{
    for (uint32_t i = 0; i < errors->n_tensors; i++)
        free(errors->tensors[i]);
    for (uint32_t i = 0; i < errors->n_codecs; i++)
        free(errors->codecs[i].each);
    free(errors->tensors);
    free(errors->by_name);
    free(errors->codecs);
    *errors = (struct wring_profile_errors){0};
}

static int by_name(const void *a, const void *b)
{
    char *const *const *x = a, *const *const *y = b;
    return strcmp(**x, **y);
}

void wring_profile_errors_sort(struct wring_profile_errors *errors)
{
    for (uint32_t i = 0; i < errors->n_tensors; i++)
        errors->by_name[i] = &errors->tensors[i];
    qsort(errors->by_name, errors->n_tensors, sizeof(*errors->by_name), by_name);
}

/* ---- asked for ---- */

static int is_name(const void *key, const void *element)
{
    char *const *const *name = element;
    return strcmp(key, **name);
}

static const struct wring_profile_loss *loss_of(const struct wring_profile_errors *errors,
                                                const char *spec, const char *tensor)
{
    char ***at = NULL;
    uint32_t i = 0;

    while (i < errors->n_codecs && strcmp(errors->codecs[i].spec, spec) != 0)
        i++;
    if (i == errors->n_codecs)
        return NULL;
    if (tensor != NULL)
        at = bsearch(tensor, errors->by_name, errors->n_tensors, sizeof(*errors->by_name), is_name);
    return at != NULL ? &errors->codecs[i].each[*at - errors->tensors] : &errors->codecs[i].all;
}

double wring_profile_error(const struct wring_profile *profile, const char *spec,
                           const char *tensor)
{
    const struct wring_profile_loss *loss = loss_of(&profile->errors, spec, tensor);
    const char *two = strchr(spec, '>');
    char first[WRING_CODEC_SPEC_MAX];

    if (loss != NULL)
        return loss->fed;
    if (profile->errors.n_codecs > 0 && strcmp(spec, "none") == 0)
        return 0;
    if (two == NULL || strlen(spec) >= sizeof(first))
        return NAN;
    memcpy(first, spec, (size_t)(two - spec));
    first[two - spec] = '\0';
    return wring_profile_error(profile, first, tensor) +
           wring_profile_error(profile, two + 1, tensor);
}

/* ---- read ---- */

static char *copy_text(struct wring_reading *reading, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    return copy;
}

static void read_tensors(struct wring_reading *reading, const json_t *list,
                         struct wring_profile_errors *errors)
{
    wring_reading_enter(reading, "tensors");
    for (uint32_t i = 0; i < errors->n_tensors && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        errors->tensors[i] =
            copy_text(reading, wring_reading_value_text(reading, json_array_get(list, i), 1,
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

static void read_each(struct wring_reading *reading, const json_t *object,
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

static void read_codec(struct wring_reading *reading, const json_t *object,
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
    read_each(reading, object, errors, codec);
}

static void read_head(struct wring_reading *reading, const json_t *object,
                      struct wring_profile_errors *errors)
{
    const char *source =
        wring_reading_text(reading, object, "source", 0, sizeof(errors->source) - 1);

    memcpy(errors->source, source, strlen(source) + 1);
    errors->gradients = wring_reading_hash(reading, object, "gradients");
    errors->n_steps =
        (uint32_t)wring_reading_count(reading, object, "steps", 1, WRING_GRADIENTS_STEPS_MAX);
}

void wring_profile_read_errors(struct wring_reading *reading, const json_t *object,
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
        read_tensors(reading, tensors, errors);
        read_head(reading, value, errors);
    }
    wring_reading_enter(reading, "codecs");
    for (uint32_t i = 0; i < errors->n_codecs && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_codec(reading, json_array_get(codecs, i), errors, i);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
    wring_reading_leave(reading);
}

/* ---- written ---- */

static json_t *each_json(const struct wring_profile_errors *errors,
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

static json_t *codecs_json(const struct wring_profile_errors *errors)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < errors->n_codecs; i++) {
        const struct wring_profile_losses *codec = &errors->codecs[i];
        json_t *value = json_pack(
            "{s:s, s:o, s:o, s:o}", "spec", codec->spec, "nmse", wring_json_number(codec->all.nmse),
            "nmse_fed", wring_json_number(codec->all.fed), "tensors", each_json(errors, codec));
        if (json_array_append_new(list, value) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *tensors_json(const struct wring_profile_errors *errors)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < errors->n_tensors; i++)
        if (json_array_append_new(list, json_string(errors->tensors[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *wring_profile_errors_json(const struct wring_profile_errors *errors)
{
    return json_pack("{s:s, s:o, s:i, s:o, s:o}", "source", errors->source, "gradients",
                     wring_json_hash(errors->gradients), "steps", (int)errors->n_steps, "tensors",
                     tensors_json(errors), "codecs", codecs_json(errors));
}

/* ---- hashed ---- */

static void write_loss(struct wring_writer *writer, const struct wring_profile_loss *loss)
{
    wring_write_double(writer, loss->nmse);
    wring_write_double(writer, loss->fed);
}

void wring_profile_write_errors(struct wring_writer *writer,
                                const struct wring_profile_errors *errors)
{
    if (errors->n_codecs == 0)
        return;
    wring_write_u64(writer, errors->gradients);
    wring_write_u32(writer, errors->n_steps);
    wring_write_u32(writer, errors->n_tensors);
    for (uint32_t i = 0; i < errors->n_tensors; i++)
        wring_write_sized(writer, errors->tensors[i], strlen(errors->tensors[i]));
    wring_write_u32(writer, errors->n_codecs);
    for (uint32_t i = 0; i < errors->n_codecs; i++) {
        const struct wring_profile_losses *codec = &errors->codecs[i];
        wring_write_sized(writer, codec->spec, strlen(codec->spec));
        write_loss(writer, &codec->all);
        for (uint32_t t = 0; t < errors->n_tensors; t++)
            write_loss(writer, &codec->each[t]);
    }
}
