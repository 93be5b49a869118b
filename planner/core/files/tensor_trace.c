/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/tensor_trace.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "planner/core/files/fields.h"
#include "planner/core/files/hash.h"
#include "planner/core/files/json.h"

#define WRING_MODULE "planner"
#define FORMAT "wring-trace"
#define VERSION 1

/* ---- the file ---- */

/* The table of each record's fields, which docs/planner-files.md explains. */

const char *wring_tensor_trace_type_name(unsigned dtype)
{
    switch (dtype) {
    case WRING_F32:
        return "float32";
    case WRING_F16:
        return "float16";
    case WRING_BF16:
        return "bfloat16";
    default:
        return NULL;
    }
}

/** Of a tensor beside others: a trace with any of float32 is one of float32. */
static const char *name_own_dtype(unsigned dtype)
{
    return dtype != WRING_F32 ? wring_tensor_trace_type_name(dtype) : NULL;
}

#define DTYPES (WRING_BF16 + 1)

#define OWNER struct wring_tensor
static const struct wring_field tensor_fields[] = {
    {"name", FIELD_STRING(name, 1, WRING_TRACE_NAME_MAX)},
    {"elements", FIELD_U64(elems, 1, WRING_TRACE_ELEMS_MAX)},
    {"ready_us", FIELD_NUMBER(ready_us, 0, WRING_TRACE_US_MAX)},
    {"dtype", FIELD_CHOICE(dtype, name_own_dtype, DTYPES), FIELD_SPARSE},
};
#undef OWNER

static const struct wring_record tensor_record = {RECORD_FIELDS(tensor_fields)};

static void check_order(struct wring_reading *reading, const void *owner, uint32_t i)
{
    const struct wring_tensor *tensors = ((const struct wring_tensor_trace *)owner)->tensors;

    if (i == 0 || tensors[i].ready_us >= tensors[i - 1].ready_us)
        return;
    wring_reading_enter(reading, "ready_us");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "%.15g is before the %.15g of tensors[%" PRIu32 "]; list tensors in the "
                        "order in which they become ready",
                        tensors[i].ready_us, tensors[i - 1].ready_us, i - 1);
    wring_reading_leave(reading);
}

#define OWNER struct wring_tensor_trace
static const struct wring_field trace_fields[] = {
    {"model", FIELD_STRING(model, 1, WRING_TRACE_NAME_MAX)},
    {"dtype", FIELD_CHOICE(dtype, wring_tensor_trace_type_name, DTYPES)},
    {"forward_us", FIELD_NUMBER_OR_NULL(forward_us, WRING_TRACE_US_MAX)},
    {"optimizer_us", FIELD_NUMBER(optimizer_us, 0, WRING_TRACE_US_MAX), FIELD_SPARSE},
    {"source", FIELD_STRING(source, 0, WRING_TRACE_SOURCE_MAX), FIELD_OPTIONAL},
    {"tensors", FIELD_LIST(tensors, n, tensor_record, WRING_TRACE_TENSORS_MAX), .min = 1,
     .check = check_order},
};
#undef OWNER

static void check_sum(struct wring_reading *reading, const struct wring_tensor_trace *trace)
{
    uint64_t sum = 0;
    uint32_t i = 0;

    while (i < trace->n && sum + trace->tensors[i].elems <= WRING_TRACE_ELEMS_MAX)
        sum += trace->tensors[i++].elems;
    if (i == trace->n)
        return;
    wring_reading_enter(reading, "tensors");
    wring_reading_enter_index(reading, i);
    wring_reading_enter(reading, "elements");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "makes it %" PRIu64 " with the tensors before it; all together may have "
                        "%" PRIu64,
                        sum + trace->tensors[i].elems, WRING_TRACE_ELEMS_MAX);
    for (int level = 0; level < 3; level++)
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

static void check_trace(struct wring_reading *reading, const void *record)
{
    check_sum(reading, record);
    if (reading->status == WRING_OK)
        check_names(reading, record);
}

static const struct wring_record trace_record = {RECORD_FIELDS(trace_fields), .check = check_trace};

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
        if (tensor->dtype != WRING_F32)
            wring_write_u32(&writer, tensor->dtype);
    }
    if (trace->optimizer_us > 0)
        wring_write_double(&writer, trace->optimizer_us);
    return wring_hash(&writer, &trace->hash);
}

bool wring_tensor_trace_is_mixed(const struct wring_tensor_trace *trace)
{
    for (uint32_t i = 1; i < trace->n; i++)
        if (wring_tensor_trace_dtype(trace, i) != wring_tensor_trace_dtype(trace, 0))
            return true;
    return false;
}

const char *wring_tensor_trace_types(const struct wring_tensor_trace *trace)
{
    return wring_tensor_trace_is_mixed(trace)
               ? "mixed types"
               : wring_tensor_trace_type_name(wring_tensor_trace_dtype(trace, 0));
}

void wring_tensor_trace_gather_dtype(struct wring_tensor_trace *trace)
{
    uint32_t all = trace->n > 0 ? trace->tensors[0].dtype : WRING_F32;

    trace->dtype = WRING_F32;
    for (uint32_t i = 1; i < trace->n; i++)
        if (trace->tensors[i].dtype != all)
            return;
    trace->dtype = all;
    for (uint32_t i = 0; i < trace->n; i++)
        trace->tensors[i].dtype = WRING_F32;
}

uint64_t wring_tensor_trace_bytes(const struct wring_tensor_trace *trace)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < trace->n; i++)
        bytes += trace->tensors[i].elems * wring_dtype_bytes(wring_tensor_trace_dtype(trace, i));
    return bytes;
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
        wring_record_read(&reading, object, &trace_record, trace);
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

enum wring_status wring_tensor_trace_save(const struct wring_tensor_trace *trace, FILE *file)
{
    return wring_record_write(file, FORMAT, VERSION, &trace_record, trace);
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
