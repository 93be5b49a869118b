/* SPDX-License-Identifier: Apache-2.0 */
/** What `wring plan` and `wring simulate` have in common: what is asked, and one plan made. */
#ifndef WRING_TOOLS_PLAN_PLANNING_H
#define WRING_TOOLS_PLAN_PLANNING_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "planner/core/files/plan.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/tunings.h"
#include "planner/core/search/search.h"

#define WRING_PLANNING_CODECS_MAX WRING_PROFILE_CODECS_MAX

/** The question. */
struct wring_planning {
    const char *trace_path, *profile_path; /* as given; or names of built-in ones */
    uint32_t nodes, ranks_per_node;        /* 0: the profile's */
    char *codecs[WRING_PLANNING_CODECS_MAX];
    size_t n_codecs;
    bool all_codecs;               /* those that the profile knows, once it is loaded */
    double max_nmse;               /* 0: no budget */
    uint32_t sites;                /* bit per enum wring_site; 0: WRING_SITES_DEFAULT */
    bool runnable;                 /* only options that this build can execute */
    bool flat, indivisible, apart; /* do without hierarchies, division, merging */
    enum wring_timeline timeline;
    struct wring_tunings_wanted tunings; /* pinned cores and pieces to choose among */
    enum wring_computing computing;
    bool scattered; /* gradients of a group do not lie one after another */
    enum wring_search_method search;
    bool layers; /* no search: every tensor by itself, all with one option */
    bool only;   /* every tensor takes a codec of the list: neither none nor fp16, unless listed */
    uint64_t budget_ns; /* of the search; 0: no limit */
    bool no_bound;
    uint64_t bound_ns;     /* of the proof; 0: no limit but that of its effort */
    uint64_t bound_effort; /* 0: none but that of time */

    double scale; /* of tensors and times, against the trace */

    struct wring_log log;
    struct wring_tensor_trace *trace; /* once loaded */
    struct wring_profile *profile;
};

/** --trace, --profile, --codec and what else both commands take; input: struct wring_planning. */
extern const struct argp wring_planning_argp;

/** The defaults. */
#define WRING_PLANNING_INIT                                                              \
    {                                                                                    \
        .scale = 1, .profile_path = "espresso-pcie", .bound_effort = 500000000, .log = { \
            .level = WRING_LOG_WARN                                                      \
        }                                                                                \
    }

/** Load trace and profile; a fault is logged in one line. */
enum wring_status wring_planning_load(struct wring_planning *planning);

/** Load the trace alone, to scale; likewise. */
enum wring_status wring_planning_load_trace(struct wring_planning *planning);

/** A log whose lines are those of a failed command, name and all. */
struct wring_log wring_planning_log(char *name);

/** Free what was loaded. */
void wring_planning_finish(struct wring_planning *planning);

/** Between nodes, of one node one way, as the profile has it: 1e9 bits per second. Infinite where
 *  bytes take no time; NaN where the profile knows no such link. */
double wring_planning_link_gbit(const struct wring_profile *profile);

/** Pass the status on. If it is an error, print one line that names `what`. */
enum wring_status wring_planning_said(const struct wring_planning *planning, const char *what,
                                      enum wring_status status);

/** Everything with one option. */
struct wring_baseline {
    double apart_us;                /* each tensor by itself, as the papers compare */
    double merged_us;               /* in the best groups that the search finds */
    struct wring_grouping grouping; /* the better of both */
};

/** The answer. All times in us; NaN where they were not worked out. */
struct wring_planned {
    struct wring_cost_model *model; /* of the best tuning */
    struct wring_found found;
    uint32_t n_tunings; /* that were searched; 0: the plan has none */
    double last_ready_us;
    struct wring_baseline fp32, fp16;
    double espresso_us;
    struct wring_bound bound;          /* time_us NaN where none was asked for */
    uint64_t evaluations_before_proof; /* of searches that take of its effort */
};

/** How much to work out beside the plan. */
struct wring_planned_want {
    uint32_t nodes;    /* 0: as in the question */
    double link_scale; /* of bandwidth between nodes, against the profile's; 0: 1 */
    bool espresso, bound;
};

/** The model's parameters that answer a question; its tuning is still open. */
struct wring_cost_model_params wring_planning_model(const struct wring_planning *planning,
                                                    const struct wring_planned_want *want);

/**
 * With `runnable`, print a line about each allowed codec that has no option which this build can
 * run.
 *
 * @param said  in and out: [planning->n_codecs] of which ones it was said; once is enough
 */
void wring_planning_say_lacking(const struct wring_planning *planning,
                                const struct wring_cost_model *model, bool *said);

/** Is it among the codecs that were asked for? */
bool wring_planning_lists(const struct wring_planning *planning, const char *spec);

/** Make a plan. Free it with wring_planned_finish(). A fault is logged in one line. */
enum wring_status wring_planned_init(const struct wring_planning *planning,
                                     const struct wring_planned_want *want,
                                     struct wring_planned *out);

/**
 * A part of wring_planned_init(): a plan for each of the tunings that the profile knows, within
 * the time of all of them; the best one stays, of equals the one with fewest cores. The bound is
 * that of all.
 *
 * @param params   of the model; its tuning is chosen here
 * @param planned  out: the model, what was found, and the bound; to be finished on failure, too
 */
enum wring_status wring_planned_tunings(const struct wring_planning *planning,
                                        const struct wring_planned_want *want,
                                        const struct wring_cost_model_params *params,
                                        struct wring_planned *planned);

/** All tensors by themselves, with one option. @param grouping  out, with room for them */
void wring_planned_apart(uint32_t n_tensors, uint32_t option, struct wring_grouping *grouping);

/** A problem with some of another one's options. */
struct wring_planned_part {
    struct wring_problem problem;
    uint32_t *whole;                   /* [problem.n_options] their indices there */
    struct wring_option_cost *options; /* the problem's */
    uint64_t *allowed;                 /* likewise; NULL: anything */
    uint32_t *alike;                   /* see search.h; NULL: tensors are of one type */
};

void wring_planned_finish(struct wring_planned *planned);

/* The options --cores and --chunk-bytes, of those who plan and of those who measure. */

/** Their lists; what is no such list ends the program as argp_error() does. @param arg  cut */
void wring_tunings_parse_cores(struct wring_tunings_wanted *tunings, char *arg,
                               struct argp_state *state);
void wring_tunings_parse_chunks(struct wring_tunings_wanted *tunings, char *arg,
                                struct argp_state *state);

/* wring plan: its question and what it shows. */

#endif
