/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/tensor_trace.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "planner/core/files/hash.h"
#include "planner/core/files/json.h"

#define WRING_MODULE "planner"
#define FORMAT "wring-trace"
#define VERSION 1

/* ---- reading ---- */

static char *copy_text(struct wring_reading *reading, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    return copy;
}

static void check_order(struct wring_reading *reading, const struct wring_tensor *tensors,
                        uint32_t i)
{
    if (reading->status != WRING_OK || i == 0 || tensors[i].ready_us >= tensors[i - 1].ready_us)
        return;
    wring_reading_enter(reading, "ready_us");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "%.15g is before the %.15g of tensors[%" PRIu32 "]; list tensors in the "
                        "order in which they become ready",
                        tensors[i].ready_us, tensors[i - 1].ready_us, i - 1);
    wring_reading_leave(reading);
}

static void check_sum(struct wring_reading *reading, uint64_t sum)
{
    if (sum <= WRING_TRACE_ELEMS_MAX)
        return;
    wring_reading_enter(reading, "elements");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "makes it %" PRIu64 " with the tensors before it; all together may have "
                        "%" PRIu64,
                        sum, WRING_TRACE_ELEMS_MAX);
    wring_reading_leave(reading);
}

static void read_tensor(struct wring_reading *reading, const json_t *value,
                        struct wring_tensor *out)
{
    wring_reading_expect_object(reading, value);
    out->name =
        copy_text(reading, wring_reading_text(reading, value, "name", 1, WRING_TRACE_NAME_MAX));
    out->elems = wring_reading_count(reading, value, "elements", 1, WRING_TRACE_ELEMS_MAX);
    out->ready_us = wring_reading_number(reading, value, "ready_us", 0, WRING_TRACE_US_MAX) + 0.0;
}

static void read_tensors(struct wring_reading *reading, const json_t *list,
                         struct wring_tensor_trace *trace)
{
    uint64_t sum = 0;

    wring_reading_enter(reading, "tensors");
    for (uint32_t i = 0; i < trace->n && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_tensor(reading, json_array_get(list, i), &trace->tensors[i]);
        sum += trace->tensors[i].elems;
        check_order(reading, trace->tensors, i);
        check_sum(reading, sum);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static int by_name(const void *a, const void *b)
{
    const struct wring_tensor *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

static void report_twice(struct wring_reading *reading, const char *name, size_t first,
                         size_t second)
{
    wring_reading_enter(reading, "tensors");
    wring_reading_enter_index(reading, second);
    wring_reading_enter(reading, "name");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "\"%.60s\" is the name of tensors[%zu] already; names must differ", name,
                        first);
    wring_reading_leave(reading);
    wring_reading_leave(reading);
    wring_reading_leave(reading);
}

static void check_names(struct wring_reading *reading, const struct wring_tensor_trace *trace)
{
    const struct wring_tensor **sorted = calloc(trace->n, sizeof(*sorted));

    if (sorted == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < trace->n; i++)
        sorted[i] = &trace->tensors[i];
    qsort(sorted, trace->n, sizeof(*sorted), by_name);
    for (uint32_t i = 1; i < trace->n; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            report_twice(reading, sorted[i]->name, (size_t)(sorted[i - 1] - trace->tensors),
                         (size_t)(sorted[i] - trace->tensors));
    free(sorted);
}

/** More types can follow; what the planner knows of codecs is counted in float32 elements. */
static void check_dtype(struct wring_reading *reading, const json_t *object)
{
    const char *dtype = wring_reading_text(reading, object, "dtype", 0, 64);

    wring_reading_enter(reading, "dtype");
    if (strcmp(dtype, "float32") != 0)
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs \"float32\", is \"%s\"", dtype);
    wring_reading_leave(reading);
}

static void read_trace(struct wring_reading *reading, const json_t *object,
                       struct wring_tensor_trace *trace)
{
    bool has_source = wring_reading_has(reading, object, "source");

    check_dtype(reading, object);
    trace->dtype = WRING_F32;
    trace->model =
        copy_text(reading, wring_reading_text(reading, object, "model", 1, WRING_TRACE_NAME_MAX));
    trace->source = copy_text(
        reading,
        has_source ? wring_reading_text(reading, object, "source", 0, WRING_TRACE_SOURCE_MAX) : "");
    trace->forward_us =
        wring_reading_number_or_null(reading, object, "forward_us", 0, WRING_TRACE_US_MAX);
    if (wring_reading_has(reading, object, "optimizer_us"))
        trace->optimizer_us =
            wring_reading_number(reading, object, "optimizer_us", 0, WRING_TRACE_US_MAX) + 0.0;

    const json_t *list =
        wring_reading_array(reading, object, "tensors", 1, WRING_TRACE_TENSORS_MAX);
    if (reading->status != WRING_OK)
        return;
    trace->tensors = calloc(json_array_size(list), sizeof(*trace->tensors));
    if (trace->tensors == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    trace->n = (uint32_t)json_array_size(list);
    read_tensors(reading, list, trace);
    if (reading->status == WRING_OK)
        check_names(reading, trace);
}

enum wring_status wring_tensor_trace_rehash(struct wring_tensor_trace *trace)
{
    struct wring_writer writer = {0};

    wring_write_u32(&writer, trace->dtype);
    wring_write_u32(&writer, trace->n);
    for (uint32_t i = 0; i < trace->n; i++) {
        const struct wring_tensor *tensor = &trace->tensors[i];
        wring_write_sized(&writer, tensor->name, strlen(tensor->name));
        wring_write_u64(&writer, tensor->elems);
        wring_write_double(&writer, tensor->ready_us);
    }
    if (trace->optimizer_us > 0)
        wring_write_double(&writer, trace->optimizer_us);
    return wring_hash(&writer, &trace->hash);
}

double wring_tensor_trace_alone_us(const struct wring_tensor_trace *trace)
{
    return trace->optimizer_us + trace->tensors[trace->n - 1].ready_us;
}

enum wring_status wring_tensor_trace_scale(struct wring_tensor_trace *trace, double factor)
{
    for (uint32_t i = 0; i < trace->n; i++) {
        struct wring_tensor *tensor = &trace->tensors[i];
        uint64_t elems = (uint64_t)((double)tensor->elems * factor);
        tensor->elems = elems > 0 ? elems : 1;
        tensor->ready_us *= factor;
    }
    trace->forward_us *= factor;
    trace->optimizer_us *= factor;
    return wring_tensor_trace_rehash(trace);
}

enum wring_status wring_tensor_trace_load(const char *path, const struct wring_log *log,
                                          struct wring_tensor_trace **out)
{
    struct wring_reading reading = {.file = path, .log = log};
    struct wring_tensor_trace *trace = calloc(1, sizeof(*trace));
    json_t *object;

    if (trace == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_reading_open(&reading, FORMAT, VERSION, &object);
    if (reading.status == WRING_OK)
        read_trace(&reading, object, trace);
    json_decref(object);
    if (reading.status == WRING_OK)
        reading.status = wring_tensor_trace_rehash(trace);
    if (reading.status != WRING_OK) {
        wring_tensor_trace_destroy(trace);
        return reading.status;
    }
    *out = trace;
    return WRING_OK;
}

/* ---- writing ---- */

static json_t *tensors_to_json(const struct wring_tensor_trace *trace)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < trace->n; i++) {
        const struct wring_tensor *tensor = &trace->tensors[i];
        json_t *value =
            json_pack("{s:s, s:I, s:o}", "name", tensor->name, "elements",
                      (json_int_t)tensor->elems, "ready_us", wring_json_number(tensor->ready_us));
        if (json_array_append_new(list, value) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

enum wring_status wring_tensor_trace_save(const struct wring_tensor_trace *trace, FILE *file)
{
    return wring_json_write(
        file, json_pack("{s:s, s:i, s:s, s:s, s:o, s:o*, s:s, s:o}", "format", FORMAT, "version",
                        VERSION, "model", trace->model, "dtype", "float32", "forward_us",
                        wring_json_number(trace->forward_us), "optimizer_us",
                        trace->optimizer_us > 0 ? wring_json_number(trace->optimizer_us) : NULL,
                        "source", trace->source, "tensors", tensors_to_json(trace)));
}

void wring_tensor_trace_destroy(struct wring_tensor_trace *trace)
{
    if (trace == NULL)
        return;
    for (uint32_t i = 0; i < trace->n; i++)
        free(trace->tensors[i].name);
    free(trace->tensors);
    free(trace->model);
    free(trace->source);
    free(trace);
}

/* ---- find ---- */

/* Traces by name: those of a folder, or those that wring ships. */

#define ENDING ".json"

static bool has_ending(const char *name)
{
    size_t n = strlen(name);
    return n > strlen(ENDING) && strcmp(name + n - strlen(ENDING), ENDING) == 0;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
}

static bool is_path(const char *name)
{
    return strchr(name, '/') != NULL || has_ending(name) || is_file(name);
}

static int is_trace(const struct dirent *entry)
{
    return has_ending(entry->d_name) && entry->d_name[0] != '.';
}

/** "a, b, c" of a folder's traces; "none" where there are none, or no folder. */
static void list_names(const char *folder, char *text, size_t bytes)
{
    struct dirent **entries;
    size_t used = 0;
    int n = scandir(folder, &entries, is_trace, alphasort);

    snprintf(text, bytes, "none");
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : "",
                                     (int)(strlen(name) - strlen(ENDING)), name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

enum wring_status wring_tensor_trace_find(const char *name, const char *folder,
                                          const struct wring_log *log, char *path, size_t bytes)
{
    char found[4096], names[512];

    if (folder[0] == '\0') {
        folder = WRING_TRACES_SOURCE "/vgg16" ENDING;
        folder = is_file(folder) ? WRING_TRACES_SOURCE : WRING_TRACES_INSTALLED;
    }
    int length = is_path(name) ? snprintf(found, sizeof(found), "%s", name)
                               : snprintf(found, sizeof(found), "%s/%s" ENDING, folder, name);
    bool fits = length < (int)sizeof(found) && length < (int)bytes;
    if (fits && (is_path(name) || is_file(found))) {
        memcpy(path, found, (size_t)length + 1);
        return WRING_OK;
    }
    list_names(folder, names, sizeof(names));
    wring_error(log, "%s: neither a file nor the name of a trace in %s, which has %s", name, folder,
                names);
    return WRING_ERR_INVALID;
}
