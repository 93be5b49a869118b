/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/gradients.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "planner/core/files/hash.h"
#include "planner/core/files/json.h"

#define RUN 4096 /* elements of a run of a sample */
#define RUNS (WRING_GRADIENTS_SAMPLE_MAX / RUN)
/* ---- samples ---- */

uint32_t wring_gradients_sampled(uint64_t elems)
{
    return elems < WRING_GRADIENTS_SAMPLE_MAX ? (uint32_t)elems : WRING_GRADIENTS_SAMPLE_MAX;
}

void wring_gradients_sample(const float *gradient, uint64_t elems, float *out)
{
    if (elems <= WRING_GRADIENTS_SAMPLE_MAX) {
        memcpy(out, gradient, elems * sizeof(*out));
        return;
    }
    for (uint64_t i = 0; i < RUNS; i++)
        memcpy(out + i * RUN, gradient + (elems - RUN) / (RUNS - 1) * i, RUN * sizeof(*out));
    memcpy(out + (RUNS - 1) * RUN, gradient + elems - RUN, RUN * sizeof(*out));
}

/* ---- the file ---- */

/** All but the source, as the file has it. */
static void write_body(struct wring_writer *writer, const struct wring_gradients *gradients)
{
    for (uint32_t i = 0; i < gradients->n_steps; i++)
        wring_write_u64(writer, gradients->steps[i]);
    for (uint32_t i = 0; i < gradients->n_tensors; i++) {
        const struct wring_gradients_tensor *tensor = &gradients->tensors[i];
        wring_write_sized(writer, tensor->name, strlen(tensor->name));
        wring_write_u64(writer, tensor->elems);
        wring_write_u32(writer, tensor->n);
    }
    wring_write(writer, gradients->values,
                (size_t)wring_gradients_count(gradients) * sizeof(float));
}

/** How many there are, ranks only if several. */
static void write_counts(struct wring_writer *writer, const struct wring_gradients *gradients)
{
    wring_write_u32(writer, gradients->n_tensors);
    wring_write_u32(writer, gradients->n_steps);
    if (gradients->n_ranks > 1)
        wring_write_u32(writer, gradients->n_ranks);
}

/** Set `hash`, of all else that is there. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status gradients_rehash(struct wring_gradients *gradients)
{
    struct wring_writer writer = {0};

    write_counts(&writer, gradients);
    write_body(&writer, gradients);
    return wring_hash(&writer, &gradients->hash);
}

enum wring_status wring_gradients_save(const struct wring_gradients *gradients, FILE *file)
{
    struct wring_writer writer = {0};
    enum wring_status status = WRING_OK;

    wring_write(&writer, WRING_GRADIENTS_MAGIC, WRING_GRADIENTS_MAGIC_BYTES);
    wring_write_u32(&writer, gradients->n_ranks > 1 ? WRING_GRADIENTS_VERSION_RANKS
                                                    : WRING_GRADIENTS_VERSION);
    write_counts(&writer, gradients);
    wring_write_sized(&writer, gradients->source, strlen(gradients->source));
    write_body(&writer, gradients);
    if (writer.failed)
        status = WRING_ERR_NO_MEMORY;
    else if (fwrite(writer.data, 1, writer.bytes, file) != writer.bytes || fflush(file) != 0)
        status = WRING_ERR_SYSTEM;
    free(writer.data);
    return status;
}

void wring_gradients_destroy(struct wring_gradients *gradients)
{
    if (gradients == NULL)
        return;
    for (uint32_t i = 0; i < gradients->n_tensors && gradients->tensors != NULL; i++)
        free(gradients->tensors[i].name);
    free(gradients->tensors);
    free(gradients->steps);
    free(gradients->values);
    free(gradients->source);
    free(gradients);
}

/* ---- gradients read ---- */

/* Recorded gradients read from files. */

/* a file has its values, names and numbers, and no more */
#define FILE_BYTES_MAX                                      \
    (sizeof(float) * (uint64_t)WRING_GRADIENTS_VALUES_MAX + \
     WRING_GRADIENTS_TENSORS_MAX * (WRING_GRADIENTS_NAME_MAX + (uint64_t)32) + (1u << 20))

/** @return the caller's; NULL after a fault */
static uint8_t *read_file(struct wring_reading *reading, size_t *bytes)
{
    FILE *file = fopen(reading->file, "rbe");
    uint8_t *data = NULL;
    size_t room = 0;

    *bytes = 0;
    while (file != NULL && *bytes == room && room <= FILE_BYTES_MAX) {
        room = 2 * room + (1 << 16);
        uint8_t *grown = realloc(data, room);
        if (grown == NULL) {
            wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
            break;
        }
        data = grown;
        *bytes += fread(data + *bytes, 1, room - *bytes, file);
    }
    if (file == NULL || ferror(file))
        wring_reading_fault(reading, WRING_ERR_SYSTEM, "cannot be read: %s", strerror(errno));
    if (file != NULL)
        fclose(file);
    if (*bytes > FILE_BYTES_MAX)
        wring_reading_fault(reading, WRING_ERR_INVALID, "is longer than any such file can be");
    if (reading->status == WRING_OK)
        return data;
    free(data);
    return NULL;
}

static void check_end(struct wring_reading *reading, const struct wring_reader *in)
{
    if (in->failed)
        wring_reading_fault(reading, WRING_ERR_INVALID, "the file ends too early");
}

static uint64_t read_count(struct wring_reading *reading, uint64_t value, uint64_t min,
                           uint64_t max)
{
    if (value < min || value > max)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "needs a whole number from %" PRIu64 " to %" PRIu64 ", is %" PRIu64,
                            min, max, value);
    return reading->status == WRING_OK ? value : 0;
}

static bool is_text(const char *bytes, size_t n)
{
    json_t *text = json_stringn(bytes, n);
    bool is = text != NULL && memchr(bytes, '\0', n) == NULL;

    json_decref(text);
    return is;
}

/** @return a copy of a text, UTF-8 without NUL as in the JSON files; NULL after a fault */
static char *read_text(struct wring_reading *reading, struct wring_reader *in, size_t min,
                       size_t max)
{
    size_t bytes;
    const void *text = wring_read_sized(in, &bytes);

    check_end(reading, in);
    if (reading->status == WRING_OK && (bytes < min || bytes > max))
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs %zu to %zu bytes, has %zu", min, max,
                            bytes);
    if (reading->status == WRING_OK && !is_text(text, bytes))
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs UTF-8 without NUL");
    if (reading->status != WRING_OK)
        return NULL;
    char *copy = strndup(bytes > 0 ? text : "", bytes);
    if (copy == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    return copy;
}

static void read_tensor(struct wring_reading *reading, struct wring_reader *in,
                        struct wring_gradients *out, struct wring_gradients_tensor *tensor)
{
    wring_reading_enter(reading, "name");
    tensor->name = read_text(reading, in, 1, WRING_GRADIENTS_NAME_MAX);
    wring_reading_leave(reading);
    uint64_t elems = wring_read_u64(in), n = wring_read_u32(in);
    check_end(reading, in);
    wring_reading_enter(reading, "elements");
    tensor->elems = read_count(reading, elems, 1, UINT64_C(1) << 40);
    wring_reading_leave(reading);
    wring_reading_enter(reading, "kept");
    uint64_t max = elems < WRING_GRADIENTS_VALUES_MAX ? elems : WRING_GRADIENTS_VALUES_MAX;
    tensor->n = (uint32_t)read_count(reading, n, 1, max);
    tensor->begin = out->per_step;
    out->per_step += tensor->n;
    if (wring_gradients_count(out) > WRING_GRADIENTS_VALUES_MAX)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "makes it more than the %u values that a file may have",
                            WRING_GRADIENTS_VALUES_MAX);
    wring_reading_leave(reading);
}

static void read_tensors(struct wring_reading *reading, struct wring_reader *in,
                         struct wring_gradients *out)
{
    wring_reading_enter(reading, "tensors");
    for (uint32_t i = 0; i < out->n_tensors && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_tensor(reading, in, out, &out->tensors[i]);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static int by_name(const void *a, const void *b)
{
    const struct wring_gradients_tensor *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

static void check_names(struct wring_reading *reading, const struct wring_gradients *gradients)
{
    const struct wring_gradients_tensor **sorted = calloc(gradients->n_tensors, sizeof(*sorted));

    if (sorted == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < gradients->n_tensors; i++)
        sorted[i] = &gradients->tensors[i];
    qsort(sorted, gradients->n_tensors, sizeof(*sorted), by_name);
    for (uint32_t i = 1; i < gradients->n_tensors; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "tensors[%td] and tensors[%td] have the same name, \"%.60s\"",
                                sorted[i - 1] - gradients->tensors, sorted[i] - gradients->tensors,
                                sorted[i]->name);
    free(sorted);
}

static void read_steps(struct wring_reading *reading, struct wring_reader *in,
                       struct wring_gradients *out)
{
    wring_reading_enter(reading, "steps");
    for (uint32_t i = 0; i < out->n_steps && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        out->steps[i] = wring_read_u64(in);
        check_end(reading, in);
        if (reading->status == WRING_OK && i > 0 && out->steps[i] <= out->steps[i - 1])
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "step %" PRIu64 " does not come after step %" PRIu64, out->steps[i],
                                out->steps[i - 1]);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

/** The first value that is none is named by its place. */
static void check_values(struct wring_reading *reading, const struct wring_gradients *gradients)
{
    wring_reading_enter(reading, "values");
    for (uint64_t i = 0; i < wring_gradients_count(gradients); i++)
        if (!isfinite(gradients->values[i])) {
            wring_reading_enter_index(reading, i);
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "needs a finite number, in step %" PRIu64,
                                gradients->steps[i / gradients->per_step % gradients->n_steps]);
            wring_reading_leave(reading);
            break;
        }
    wring_reading_leave(reading);
}

static void read_values(struct wring_reading *reading, struct wring_reader *in,
                        struct wring_gradients *out)
{
    size_t bytes = (size_t)wring_gradients_count(out) * sizeof(float);

    wring_reading_enter(reading, "values");
    if (in->bytes != bytes)
        wring_reading_fault(reading, WRING_ERR_INVALID, "need %zu bytes, have %zu", bytes,
                            in->bytes);
    wring_reading_leave(reading);
    if (reading->status != WRING_OK)
        return;
    out->values = malloc(bytes);
    if (out->values == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    memcpy(out->values, in->data, bytes);
    check_values(reading, out);
}

static void read_head(struct wring_reading *reading, struct wring_reader *in,
                      struct wring_gradients *out)
{
    const void *magic = wring_read(in, WRING_GRADIENTS_MAGIC_BYTES);

    if (magic == NULL || memcmp(magic, WRING_GRADIENTS_MAGIC, WRING_GRADIENTS_MAGIC_BYTES) != 0) {
        wring_reading_fault(reading, WRING_ERR_INVALID, "is no wring-gradients file");
        return;
    }
    uint32_t version = wring_read_u32(in), n_tensors = wring_read_u32(in),
             n_steps = wring_read_u32(in);
    bool several = version == WRING_GRADIENTS_VERSION_RANKS;
    uint32_t n_ranks = several ? wring_read_u32(in) : 1;
    check_end(reading, in);
    wring_reading_enter(reading, "version");
    if (version != WRING_GRADIENTS_VERSION && !several)
        wring_reading_fault(reading, WRING_ERR_VERSION, "needs %d or %d, is %" PRIu32,
                            WRING_GRADIENTS_VERSION, WRING_GRADIENTS_VERSION_RANKS, version);
    wring_reading_leave(reading);
    wring_reading_enter(reading, "tensors");
    out->n_tensors = (uint32_t)read_count(reading, n_tensors, 1, WRING_GRADIENTS_TENSORS_MAX);
    wring_reading_leave(reading);
    wring_reading_enter(reading, "steps");
    out->n_steps = (uint32_t)read_count(reading, n_steps, 1, WRING_GRADIENTS_STEPS_MAX);
    wring_reading_leave(reading);
    wring_reading_enter(reading, "ranks");
    out->n_ranks =
        (uint32_t)read_count(reading, n_ranks, several ? 2 : 1, WRING_GRADIENTS_RANKS_MAX);
    wring_reading_leave(reading);
    wring_reading_enter(reading, "source");
    out->source = read_text(reading, in, 0, WRING_GRADIENTS_SOURCE_MAX);
    wring_reading_leave(reading);
}

static void read_gradients(struct wring_reading *reading, struct wring_reader *in,
                           struct wring_gradients *out)
{
    read_head(reading, in, out);
    if (reading->status != WRING_OK)
        return;
    out->tensors = calloc(out->n_tensors, sizeof(*out->tensors));
    out->steps = calloc(out->n_steps, sizeof(*out->steps));
    if (out->tensors == NULL || out->steps == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    read_steps(reading, in, out);
    read_tensors(reading, in, out);
    if (reading->status == WRING_OK)
        check_names(reading, out);
    if (reading->status == WRING_OK)
        read_values(reading, in, out);
}

enum wring_status wring_gradients_load(const char *path, const struct wring_log *log,
                                       struct wring_gradients **out)
{
    struct wring_reading reading = {.file = path, .log = log};
    struct wring_gradients *gradients = calloc(1, sizeof(*gradients));

    if (gradients == NULL)
        return WRING_ERR_NO_MEMORY;
    struct wring_reader in = {0};
    uint8_t *data = read_file(&reading, &in.bytes);
    in.data = data;
    if (data != NULL)
        read_gradients(&reading, &in, gradients);
    free(data);
    if (reading.status == WRING_OK)
        reading.status = gradients_rehash(gradients);
    if (reading.status != WRING_OK) {
        wring_gradients_destroy(gradients);
        return reading.status;
    }
    *out = gradients;
    return WRING_OK;
}
