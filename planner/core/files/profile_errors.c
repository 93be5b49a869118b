/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/profile_errors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
