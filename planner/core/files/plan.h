/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Plans: what a search found, as it is kept and executed. docs/planner-files.md has the JSON
 * ("wring-plan").
 */
#ifndef WRING_FILES_PLAN_H
#define WRING_FILES_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "planner/core/model/option.h"
#include <wring/codec.h>
#include <wring/status.h>

#define WRING_PLAN_FORMAT "wring-plan"
#define WRING_PLAN_VERSION 1
#define WRING_PLAN_SCHEME_MAX 224 /* bytes of an option in words, its NUL included */

struct wring_cost_model;
struct wring_grouping;
struct wring_profile;
struct wring_tensor;
struct wring_tensor_trace;

struct wring_plan_group {
    uint32_t n;                         /* tensors */
    char **tensors;                     /* [n] names, in backward order */
    uint64_t elems;                     /* of all */
    uint64_t *each;                     /* [n] of each; NULL: an old file did not say */
    char codec[WRING_CODEC_SPEC_MAX];   /* "none" */
    char where[16];                     /* that codes: "device", "cpu", "node"; "": raw */
    char scheme[WRING_PLAN_SCHEME_MAX]; /* the option in words */
    uint64_t chunk_elems;               /* of a piece, as the model has it; 0: not known to it */
    uint32_t cores;                     /* pinned for the codec; 0: as the plan's executor says */
    char run_as[32]; /* the runtime's scheme, by its name in wring/types.h; "" where this build
                        cannot run the option */
    char
        executor[64]; /* runs its jobs, as a bucket's executor has it; "": the one of its buckets */
};

struct wring_plan {
    uint64_t trace_hash, profile_hash;
    char model[128], profile[64], machine[256], timeline[16];
    char costs[16]; /* where times come from: "measured", "parts" ... as
                       wring_cost_source_name() has it; "": nobody said */
    uint32_t nodes, ranks_per_node;
    double iteration_us, last_ready_us;
    /* NaN: not known, of all that follow */
    double fp32_us, fp16_us; /* every tensor alone, uncompressed or as fp16 */
    double espresso_us;      /* Espresso's Algorithms 1 and 2 on the same timeline */
    double bound_us, gap;    /* no plan takes less; gap = (iteration_us - bound_us) / bound_us,
                                which a file has only where it is finite */
    double selection_us, bound_time_us;
    char executor[64];    /* where codecs run, as WRING_EXECUTOR has it; "": the runtime's own */
    uint64_t chunk_bytes; /* as WRING_CHUNK_BYTES; 0: the runtime's own */
    uint32_t n_groups;
    struct wring_plan_group *groups;
};

/**
 * Create the plan of a grouping, with its time and the baselines' times. The caller adds
 * espresso_us, bound_us, gap and the times of the search, if it knows them. Borrows nothing.
 *
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_plan_create(const struct wring_cost_model *model,
                                    const struct wring_tensor_trace *trace,
                                    const struct wring_profile *profile,
                                    const struct wring_grouping *grouping, struct wring_plan **out);

/** Read and check. Errors: one log line with file, field, reason; as wring_tensor_trace_load(). */
enum wring_status wring_plan_load(const char *path, const struct wring_log *log,
                                  struct wring_plan **out);

/** The same for a text that is in memory. @param name  in the place of the file's, for the line */
enum wring_status wring_plan_parse(const char *name, const char *text, size_t bytes,
                                   const struct wring_log *log, struct wring_plan **out);

/** As JSON; a new reference, NULL without memory. */
json_t *wring_plan_json(const struct wring_plan *plan);

/** Write JSON that wring_plan_load() reads back. */
enum wring_status wring_plan_save(const struct wring_plan *plan, FILE *file);

/**
 * Was the plan made for these tensors? Names and sizes count, in their order; times do not.
 *
 * Errors: WRING_ERR_MISMATCH, with a log line that names the first difference, both sides of it.
 */
enum wring_status wring_plan_check_tensors(const struct wring_plan *plan,
                                           const struct wring_tensor *tensors, uint32_t n,
                                           const struct wring_log *log);

/**
 * The same of one group, by the elements of its tensors alone. @param elems  [groups[g].n]; an old
 * file knows only what they make together
 */
enum wring_status wring_plan_check_sizes(const struct wring_plan *plan, uint32_t g,
                                         const uint64_t *elems, const struct wring_log *log);

/** Was it made from this trace, and from this profile (NULL: any)? Errors: likewise. */
enum wring_status wring_plan_check(const struct wring_plan *plan,
                                   const struct wring_tensor_trace *trace,
                                   const struct wring_profile *profile,
                                   const struct wring_log *log);

/**
 * Is it for as many ranks? Errors: WRING_ERR_MISMATCH, with a log line that says both.
 * @param name  of the plan, for that line
 */
enum wring_status wring_plan_check_ranks(const struct wring_plan *plan, const char *name,
                                         uint32_t ranks, const struct wring_log *log);

/**
 * May the plan run on a machine, as wring_machine_describe() has it? One whose profile is built in
 * is of none, and may run on any. Errors: WRING_ERR_MISMATCH, with a log line that names both.
 */
enum wring_status wring_plan_check_machine(const struct wring_plan *plan, const char *machine,
                                           const struct wring_log *log);

/** NULL is fine. */
void wring_plan_destroy(struct wring_plan *plan);

#endif
