/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Traces: when the gradients of one iteration become ready, and how large they are.
 * docs/planner-files.md has the JSON ("wring-trace").
 */
#ifndef WRING_FILES_TENSOR_TRACE_H
#define WRING_FILES_TENSOR_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include <wring/status.h>
#include <wring/types.h>

#define WRING_TRACE_TENSORS_MAX 65536
#define WRING_TRACE_ELEMS_MAX (UINT64_C(1) << 40) /* of one tensor, and of all together */
#define WRING_TRACE_US_MAX 1e12
#define WRING_TRACE_NAME_MAX (WRING_NAME_MAX - 1) /* bytes of a tensor's or a model's name */
#define WRING_TRACE_SOURCE_MAX 4096               /* of a source */

struct wring_tensor {
    char *name;      /* unique in the trace */
    uint64_t elems;  /* 1 or more */
    double ready_us; /* since backward began; never earlier than the tensor before */
    uint32_t dtype;  /* enum wring_dtype: WRING_F16, WRING_BF16; WRING_F32: as the trace says */
};

struct wring_tensor_trace {
    char *model;
    char *source;        /* where it comes from, in words; "" where nobody said */
    uint32_t dtype;      /* enum wring_dtype, of tensors that name none: WRING_F32, F16, BF16 */
    double forward_us;   /* of one iteration; NaN where it is not known */
    double optimizer_us; /* of its step, by the gradients of all tensors; 0: nobody has said */
    uint32_t n;
    struct wring_tensor *tensors; /* [n], in backward order */
    uint64_t hash;                /* of dtype, names, sizes and times: equal traces, equal hash */
};

/**
 * Read and check a trace. Free it with wring_tensor_trace_destroy().
 *
 * Errors: WRING_ERR_INVALID (one log line: file, field, reason), WRING_ERR_SYSTEM (cannot read),
 * WRING_ERR_VERSION, WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_tensor_trace_load(const char *path, const struct wring_log *log,
                                          struct wring_tensor_trace **out);

/**
 * The file of a trace: `name` itself where it is a path or a file, else name.json in a folder.
 *
 * @param folder  "" stands for that of the traces which wring ships
 * @param path    out, [bytes]
 *
 * Errors: WRING_ERR_INVALID, with a log line that lists the traces of the folder.
 */
enum wring_status wring_tensor_trace_find(const char *name, const char *folder,
                                          const struct wring_log *log, char *path, size_t bytes);

/** The type of a tensor's elements. */
static inline enum wring_dtype wring_tensor_trace_dtype(const struct wring_tensor_trace *trace,
                                                        uint32_t tensor)
{
    uint32_t own = trace->tensors[tensor].dtype;

    return (enum wring_dtype)(own != WRING_F32 ? own : trace->dtype);
}

/** "float32", "float16" or "bfloat16", as files have them. @return static; NULL for other types */
const char *wring_tensor_trace_type_name(unsigned dtype);

/** Have its tensors several types? */
bool wring_tensor_trace_is_mixed(const struct wring_tensor_trace *trace);

/** The name of its tensors' type, or "mixed types". Static. */
const char *wring_tensor_trace_types(const struct wring_tensor_trace *trace);

/** Can tensors of a trace have that type? */
static inline bool wring_tensor_trace_has_type(enum wring_dtype dtype)
{
    return dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16;
}

/** Of a trace put together in memory, where each tensor names its type: if all name the same one,
 * it is the trace's. */
void wring_tensor_trace_gather_dtype(struct wring_tensor_trace *trace);

/** Bytes of all tensors as they are. */
uint64_t wring_tensor_trace_bytes(const struct wring_tensor_trace *trace);

/** What an iteration takes without any collective: the optimizer's step, and backward. */
double wring_tensor_trace_alone_us(const struct wring_tensor_trace *trace);

/** Set `hash` of a trace that was put together in memory. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_tensor_trace_rehash(struct wring_tensor_trace *trace);

/** Write a trace as JSON that wring_tensor_trace_load() reads back to the same hash. */
enum wring_status wring_tensor_trace_save(const struct wring_tensor_trace *trace, FILE *file);

/**
 * Make a smaller trace of it: elements (at least one of each tensor) and times by a factor.
 *
 * @param factor  above 0, up to 1
 *
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_tensor_trace_scale(struct wring_tensor_trace *trace, double factor);

/** NULL is fine. */
void wring_tensor_trace_destroy(struct wring_tensor_trace *trace);

#endif
