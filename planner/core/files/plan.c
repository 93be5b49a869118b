/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/fields.h"
#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/option.h"
#include <wring/types.h>

#define WRING_MODULE "planner"

static enum wring_status differ_in_tensor(const struct wring_plan *plan, const char *planned,
                                          const char *found, uint32_t i,
                                          const struct wring_log *log)
{
    wring_error(log,
                "the plan was made for other tensors: as number %" PRIu32
                " of model %s it has \"%s\", and there is \"%s\"; plan again",
                i, plan->model, planned, found);
    return WRING_ERR_MISMATCH;
}

/** The tensors that both name, in their order. */
static enum wring_status check_names(const struct wring_plan *plan,
                                     const struct wring_tensor *tensors, uint32_t n,
                                     const struct wring_log *log)
{
    uint32_t i = 0;

    for (uint32_t g = 0; g < plan->n_groups; g++)
        for (uint32_t t = 0; t < plan->groups[g].n; t++, i++) {
            const char *found = i < n ? tensors[i].name : "nothing more";
            if (strcmp(plan->groups[g].tensors[t], found) != 0 || i >= n)
                return differ_in_tensor(plan, plan->groups[g].tensors[t], found, i, log);
        }
    return i == n ? WRING_OK : differ_in_tensor(plan, "nothing more", tensors[i].name, i, log);
}

static enum wring_status differ_in_size(const char *name, uint64_t planned, uint64_t found,
                                        const struct wring_log *log)
{
    wring_error(log,
                "the plan was made for other sizes: its tensor \"%s\" has %" PRIu64
                " elements, and there are %" PRIu64 "; plan again",
                name, planned, found);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check_sizes(const struct wring_plan *plan, uint32_t g,
                                         const uint64_t *elems, const struct wring_log *log)
{
    const struct wring_plan_group *group = &plan->groups[g];
    uint64_t sum = 0;

    for (uint32_t t = 0; t < group->n; t++) {
        if (group->each != NULL && group->each[t] != elems[t])
            return differ_in_size(group->tensors[t], group->each[t], elems[t], log);
        sum += elems[t];
    }
    if (sum == group->elems)
        return WRING_OK;
    wring_error(log,
                "the plan was made for other sizes: its group %" PRIu32
                ", from \"%s\" on, has %" PRIu64 " elements, and there are %" PRIu64 "; plan again",
                g, group->tensors[0], group->elems, sum);
    return WRING_ERR_MISMATCH;
}

static enum wring_status check_sizes(const struct wring_plan *plan,
                                     const struct wring_tensor *tensors, uint32_t n,
                                     const struct wring_log *log)
{
    uint64_t *elems = calloc((size_t)n + 1, sizeof(*elems));
    enum wring_status status = elems != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        elems[i] = tensors[i].elems;
    for (uint32_t g = 0; g < plan->n_groups && status == WRING_OK; begin += plan->groups[g++].n)
        status = wring_plan_check_sizes(plan, g, elems + begin, log);
    free(elems);
    return status;
}

enum wring_status wring_plan_check_tensors(const struct wring_plan *plan,
                                           const struct wring_tensor *tensors, uint32_t n,
                                           const struct wring_log *log)
{
    enum wring_status status = check_names(plan, tensors, n, log);
    return status == WRING_OK ? check_sizes(plan, tensors, n, log) : status;
}

static enum wring_status check_hash(const char *what, const char *name, uint64_t planned,
                                    uint64_t found, const struct wring_log *log)
{
    if (planned == found)
        return WRING_OK;
    wring_error(log,
                "the plan was made from another %s: its hash was %016" PRIx64
                ", that of %s is %016" PRIx64 "; plan again",
                what, planned, name, found);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check(const struct wring_plan *plan,
                                   const struct wring_tensor_trace *trace,
                                   const struct wring_profile *profile, const struct wring_log *log)
{
    enum wring_status status = wring_plan_check_tensors(plan, trace->tensors, trace->n, log);

    if (status == WRING_OK)
        status = check_hash("trace", trace->model, plan->trace_hash, trace->hash, log);
    if (status == WRING_OK && profile != NULL)
        status = check_hash("profile", profile->name, plan->profile_hash, profile->hash, log);
    return status;
}

enum wring_status wring_plan_check_ranks(const struct wring_plan *plan, const char *name,
                                         uint32_t ranks, const struct wring_log *log)
{
    if ((uint64_t)plan->nodes * plan->ranks_per_node == ranks)
        return WRING_OK;
    wring_error(log,
                "%s is for %" PRIu32 " nodes of %" PRIu32 " ranks, and the job has %" PRIu32
                " ranks; plan again with --nodes and --gpus-per-node",
                name, plan->nodes, plan->ranks_per_node, ranks);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check_machine(const struct wring_plan *plan, const char *machine,
                                           const struct wring_log *log)
{
    if (plan->machine[0] == '\0' || strcmp(plan->machine, machine) == 0)
        return WRING_OK;
    wring_error(log,
                "the plan was made for \"%s\", and this is \"%s\": plan with what wring calibrate "
                "measures here",
                plan->machine, machine);
    return WRING_ERR_MISMATCH;
}

static void finish_group(struct wring_plan_group *group)
{
    for (uint32_t i = 0; i < group->n; i++)
        free(group->tensors[i]);
    free(group->tensors);
    free(group->each);
}

void wring_plan_destroy(struct wring_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        finish_group(&plan->groups[g]);
    free(plan->groups);
    free(plan);
}

/* ---- create ---- */

/* What a search found, made into a plan. */

/** Cut where a character ends, since half a one is no text for JSON. */
static void copy_text(char *to, size_t bytes, const char *from)
{
    size_t n = strnlen(from, bytes - 1);

    while (n > 0 && from[n] != '\0' && ((unsigned char)from[n] & 0xC0) == 0x80)
        n--;
    memcpy(to, from, n);
    to[n] = '\0';
}

static bool has_codec_step(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM)
            return true;
    return false;
}

static enum wring_status copy_tensors(const struct wring_tensor *tensors, uint32_t n,
                                      struct wring_plan_group *out)
{
    out->tensors = calloc(n, sizeof(*out->tensors));
    out->each = calloc(n, sizeof(*out->each));
    if (out->tensors == NULL || out->each == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        out->tensors[i] = strdup(tensors[i].name);
        if (out->tensors[i] == NULL)
            return WRING_ERR_NO_MEMORY;
        out->each[out->n++] = tensors[i].elems;
        out->elems += tensors[i].elems;
    }
    return WRING_OK;
}

static enum wring_status fill_group(const struct wring_cost_model *model,
                                    const struct wring_cost_option *chosen,
                                    const struct wring_tensor *tensors, uint32_t n,
                                    struct wring_plan_group *out)
{
    const char *codec = model->codecs[chosen->codec].spec;

    copy_text(out->codec, sizeof(out->codec), codec);
    if (has_codec_step(&chosen->option))
        snprintf(out->where, sizeof(out->where), "%s", wring_site_name(chosen->site));
    wring_option_text(&chosen->option, out->scheme, sizeof(out->scheme));
    out->chunk_elems = chosen->chunk_elems;
    out->cores = chosen->cores;
    copy_text(out->run_as, sizeof(out->run_as),
              wring_option_run_as(&chosen->option, codec, model->ranks_per_node));
    return copy_tensors(tensors, n, out);
}

static enum wring_status fill_groups(const struct wring_cost_model *model,
                                     const struct wring_tensor_trace *trace,
                                     const struct wring_grouping *grouping, struct wring_plan *plan)
{
    uint32_t begin = 0;

    plan->groups = calloc(grouping->n, sizeof(*plan->groups));
    if (plan->groups == NULL)
        return WRING_ERR_NO_MEMORY;
    while (plan->n_groups < grouping->n) {
        uint32_t g = plan->n_groups++;
        enum wring_status status =
            fill_group(model, &model->options[grouping->option[g]], &trace->tensors[begin],
                       grouping->end[g] - begin, &plan->groups[g]);
        if (status != WRING_OK)
            return status;
        begin = grouping->end[g];
    }
    return WRING_OK;
}

/** Every tensor alone and by this option, as its type of elements has it; NaN where there is no
 * such option, or no memory. */
static double time_of_all(const struct wring_cost_model *model, uint32_t option)
{
    const struct wring_problem *problem = &model->problem;
    struct wring_grouping alone = {.n = problem->n_tensors};
    double us = NAN;

    alone.end = calloc(alone.n, sizeof(*alone.end));
    alone.option = calloc(alone.n, sizeof(*alone.option));
    if (alone.end != NULL && alone.option != NULL && option < problem->n_options) {
        for (uint32_t i = 0; i < alone.n; i++) {
            alone.end[i] = i + 1;
            alone.option[i] = wring_cost_model_option(model, i, option);
        }
        us = wring_problem_time(problem, &alone);
    }
    free(alone.end);
    free(alone.option);
    return us;
}

/** What the session has to be set to; nothing where any will do. */
static void fill_tuning(const struct wring_cost_model *model, struct wring_plan *plan)
{
    if (!model->settled)
        return;
    plan->chunk_bytes = model->tuning.chunk_bytes;
    if (model->tuning.cores > 0)
        snprintf(plan->executor, sizeof(plan->executor), "pool:%u", model->tuning.cores);
    else
        snprintf(plan->executor, sizeof(plan->executor), "inline");
}

static void fill_times(const struct wring_cost_model *model, const struct wring_tensor_trace *trace,
                       const struct wring_grouping *grouping, struct wring_plan *plan)
{
    plan->iteration_us = wring_problem_time(&model->problem, grouping);
    plan->last_ready_us = wring_tensor_trace_alone_us(trace);
    plan->fp32_us = time_of_all(model, model->uncompressed);
    plan->fp16_us = time_of_all(model, model->fp16);
    plan->espresso_us = plan->bound_us = plan->gap = NAN;
    plan->selection_us = plan->bound_time_us = NAN;
}

enum wring_status wring_plan_create(const struct wring_cost_model *model,
                                    const struct wring_tensor_trace *trace,
                                    const struct wring_profile *profile,
                                    const struct wring_grouping *grouping, struct wring_plan **out)
{
    struct wring_plan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL)
        return WRING_ERR_NO_MEMORY;
    plan->trace_hash = trace->hash;
    plan->profile_hash = profile->hash;
    copy_text(plan->model, sizeof(plan->model), trace->model);
    copy_text(plan->profile, sizeof(plan->profile), profile->name);
    copy_text(plan->machine, sizeof(plan->machine), profile->machine);
    snprintf(plan->timeline, sizeof(plan->timeline), "%s", wring_timeline_name(model->timeline));
    snprintf(plan->costs, sizeof(plan->costs), "%s", wring_cost_source_name(model->source));
    plan->nodes = model->nodes;
    plan->ranks_per_node = model->ranks_per_node;
    fill_tuning(model, plan);
    fill_times(model, trace, grouping, plan);
    enum wring_status status = fill_groups(model, trace, grouping, plan);
    if (status != WRING_OK) {
        wring_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WRING_OK;
}

/* ---- the file ---- */

/* The table of each record's fields, which docs/planner-files.md explains. */

#define NODES_MAX (1u << 20)
#define RANKS_MAX (1u << 16)

/** As WRING_EXECUTOR; whether this machine has the cores is not the file's to say. */
static void check_executor(struct wring_reading *reading, const char *executor)
{
    if (executor[0] == '\0' || strcmp(executor, "inline") == 0 || strcmp(executor, "pool") == 0 ||
        strncmp(executor, "pool:", 5) == 0)
        return;
    wring_reading_enter(reading, "executor");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "needs \"\", inline, pool, pool:N or pool:cores=LIST, is \"%s\"", executor);
    wring_reading_leave(reading);
}

static void check_group(struct wring_reading *reading, const void *record)
{
    const struct wring_plan_group *group = record;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < group->n && group->each != NULL; i++)
        sum += group->each[i];
    wring_reading_enter(reading, "tensor_elements");
    if (group->each != NULL && sum != group->elems)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "makes it %" PRIu64 " elements, and the group has %" PRIu64, sum,
                            group->elems);
    wring_reading_leave(reading);
    check_executor(reading, group->executor);
}

static const char *name_site(unsigned i)
{
    return wring_site_name((enum wring_site)i);
}

static const char *name_scheme(unsigned i)
{
    return wring_scheme_name((enum wring_scheme)i);
}

#define OWNER struct wring_plan_group
static const struct wring_field group_fields[] = {
    {"tensors", .type = WRING_FIELD_STRINGS, FIELD_AT(tensors), .count = offsetof(OWNER, n),
     .bytes = WRING_TRACE_NAME_MAX, .max = WRING_TRACE_TENSORS_MAX},
    {"elements", FIELD_U64(elems, 1, WRING_TRACE_ELEMS_MAX)},
    {"codec", FIELD_TEXT(codec), .min = 1},
    {"where", FIELD_WORD(where, name_site, WRING_SITES)},
    {"scheme", FIELD_TEXT(scheme)},
    {"chunk_elements", FIELD_U64(chunk_elems, 0, WRING_TRACE_ELEMS_MAX)},
    {"cores", FIELD_U32(cores, 0, WRING_TUNING_CORES_MAX)},
    {"run_as", FIELD_WORD(run_as, name_scheme, WRING_SCHEMES)},
    {"tensor_elements", .type = WRING_FIELD_COUNTS, FIELD_AT(each), .count = offsetof(OWNER, n),
     .min = 1, .max = (double)WRING_TRACE_ELEMS_MAX, FIELD_SPARSE},
    {"executor", FIELD_TEXT(executor), FIELD_SPARSE},
};
#undef OWNER

static const struct wring_record group_record = {RECORD_FIELDS(group_fields), .check = check_group};

static const char *name_timeline(unsigned i)
{
    static const char *const names[] = {"serial", "phases", "full"};
    return names[i];
}

/** What is left after the last gradient; rounding takes none of it below nothing. */
static double us_past_last_ready(const struct wring_plan *plan, double us)
{
    return us > plan->last_ready_us ? us - plan->last_ready_us : 0;
}

static double exposed_us(const void *owner)
{
    return us_past_last_ready(owner, ((const struct wring_plan *)owner)->iteration_us);
}

static double bound_exposed_us(const void *owner)
{
    return us_past_last_ready(owner, ((const struct wring_plan *)owner)->bound_us);
}

#define OWNER struct wring_plan
static const struct wring_field baseline_fields[] = {
    {"fp32", FIELD_NUMBER_OR_NULL(fp32_us, WRING_TRACE_US_MAX)},
    {"fp16", FIELD_NUMBER_OR_NULL(fp16_us, WRING_TRACE_US_MAX)},
};

static const struct wring_record baseline_record = {RECORD_FIELDS(baseline_fields)};

static const struct wring_field plan_fields[] = {
    {"trace_hash", FIELD_HASH(trace_hash)},
    {"profile_hash", FIELD_HASH(profile_hash)},
    {"model", FIELD_TEXT(model), .min = 1},
    {"profile", FIELD_TEXT(profile), .min = 1},
    {"machine", FIELD_TEXT(machine)},
    {"timeline", FIELD_WORD(timeline, name_timeline, 3), .min = 1},
    {"nodes", FIELD_U32(nodes, 1, NODES_MAX)},
    {"ranks_per_node", FIELD_U32(ranks_per_node, 1, RANKS_MAX)},
    {"iteration_us", FIELD_NUMBER(iteration_us, 0, WRING_TRACE_US_MAX)},
    {"last_ready_us", FIELD_NUMBER(last_ready_us, 0, WRING_TRACE_US_MAX)},
    {"exposed_us", .type = WRING_FIELD_DERIVED, .derive = exposed_us},
    {"baseline_us", FIELD_PART(baseline_record)},
    {"espresso_us", FIELD_NUMBER_OR_NULL(espresso_us, WRING_TRACE_US_MAX)},
    {"bound_us", FIELD_NUMBER_OR_NULL(bound_us, WRING_TRACE_US_MAX)},
    {"bound_exposed_us", .type = WRING_FIELD_DERIVED, .derive = bound_exposed_us},
    {"gap", FIELD_NUMBER_OR_NULL(gap, WRING_TRACE_US_MAX)},
    {"selection_us", FIELD_NUMBER_OR_NULL(selection_us, WRING_TRACE_US_MAX)},
    {"bound_time_us", FIELD_NUMBER_OR_NULL(bound_time_us, WRING_TRACE_US_MAX)},
    {"costs", FIELD_TEXT(costs), FIELD_SPARSE},
    {"executor", FIELD_TEXT(executor), FIELD_SPARSE},
    {"chunk_bytes",
     FIELD_U64(chunk_bytes, WRING_TUNING_CHUNK_BYTES_MIN, WRING_TUNING_CHUNK_BYTES_MAX),
     FIELD_SPARSE},
    {"groups", FIELD_LIST(groups, n_groups, group_record, WRING_TRACE_TENSORS_MAX), .min = 1},
};
#undef OWNER

struct listed {
    const char *name;
    uint32_t group, tensor;
};

static int by_name(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order != 0)
        return order;
    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void report_twice(struct wring_reading *reading, const struct listed *first,
                         const struct listed *second)
{
    wring_reading_enter(reading, "groups");
    wring_reading_enter_index(reading, second->group);
    wring_reading_enter(reading, "tensors");
    wring_reading_enter_index(reading, second->tensor);
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "\"%.60s\" is in groups[%" PRIu32 "] already; a tensor travels once",
                        second->name, first->group);
    for (int i = 0; i < 4; i++)
        wring_reading_leave(reading);
}

/** @return tensors in all */
static uint32_t list_all(const struct wring_plan *plan, struct listed *out)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < plan->n_groups; g++)
        for (uint32_t t = 0; t < plan->groups[g].n; t++)
            out[n++] = (struct listed){plan->groups[g].tensors[t], g, t};
    return n;
}

static void check_each_once(struct wring_reading *reading, const struct wring_plan *plan)
{
    struct listed *all = calloc(WRING_TRACE_TENSORS_MAX, sizeof(*all));

    if (all == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    uint32_t n = list_all(plan, all);
    qsort(all, n, sizeof(*all), by_name);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(all[i - 1].name, all[i].name) == 0)
            report_twice(reading, &all[i - 1], &all[i]);
    free(all);
}

static void check_count(struct wring_reading *reading, const struct wring_plan *plan)
{
    uint64_t tensors = 0;

    wring_reading_enter(reading, "groups");
    for (uint32_t i = 0; i < plan->n_groups; i++) {
        tensors += plan->groups[i].n;
        wring_reading_enter_index(reading, i);
        if (tensors > WRING_TRACE_TENSORS_MAX)
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "makes it %" PRIu64
                                " tensors with the groups before it; a plan may have %d",
                                tensors, WRING_TRACE_TENSORS_MAX);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void check_plan(struct wring_reading *reading, const void *record)
{
    const struct wring_plan *plan = record;

    check_executor(reading, plan->executor);
    check_count(reading, plan);
    if (reading->status == WRING_OK)
        check_each_once(reading, plan);
}

static const struct wring_record plan_record = {RECORD_FIELDS(plan_fields), .check = check_plan};

static enum wring_status load_plan(struct wring_reading *reading, struct wring_plan **out)
{
    struct wring_plan *plan = calloc(1, sizeof(*plan));
    json_t *object;

    if (plan == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_reading_open(reading, WRING_PLAN_FORMAT, WRING_PLAN_VERSION, &object);
    if (reading->status == WRING_OK)
        wring_record_read(reading, object, &plan_record, plan);
    json_decref(object);
    if (reading->status != WRING_OK) {
        wring_plan_destroy(plan);
        return reading->status;
    }
    *out = plan;
    return WRING_OK;
}

enum wring_status wring_plan_load(const char *path, const struct wring_log *log,
                                  struct wring_plan **out)
{
    struct wring_reading reading = {.file = path, .log = log};

    return load_plan(&reading, out);
}

enum wring_status wring_plan_parse(const char *name, const char *text, size_t bytes,
                                   const struct wring_log *log, struct wring_plan **out)
{
    struct wring_reading reading = {.file = name, .text = text, .bytes = bytes, .log = log};

    return load_plan(&reading, out);
}

json_t *wring_plan_json(const struct wring_plan *plan)
{
    json_t *object =
        json_pack("{s:s, s:i}", "format", WRING_PLAN_FORMAT, "version", WRING_PLAN_VERSION);

    if (wring_record_put(object, &plan_record, plan))
        return object;
    json_decref(object);
    return NULL;
}

enum wring_status wring_plan_save(const struct wring_plan *plan, FILE *file)
{
    return wring_json_write(file, wring_plan_json(plan));
}
