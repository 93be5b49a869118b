/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The work of an option's steps for each worker, by formulas for each routine. lanes.h puts the
 * workers on lanes.
 */
#ifndef WRING_MODEL_OPTION_WORK_H
#define WRING_MODEL_OPTION_WORK_H

#include "planner/core/cost.h"
#include "planner/core/files/profile.h"
#include "planner/core/model/option.h"

/** A device, cores or a link that can be busy. */
enum wring_worker {
    WRING_WORKER_DEVICE_ENCODE,
    WRING_WORKER_DEVICE_DECODE,
    WRING_WORKER_CPU_ENCODE,
    WRING_WORKER_CPU_DECODE, /* and sums of raw data, where the profile knows what they take */
    WRING_WORKER_NODE,
    WRING_WORKER_INTRA_IN,
    WRING_WORKER_INTER, /* flat collectives too, where there is more than one node */
    WRING_WORKER_INTRA_OUT,
    WRING_WORKER_PROGRESS, /* the node's cores, where these make progress */
};
#define WRING_WORKERS 9

struct wring_work {
    struct wring_cost us[WRING_WORKERS]; /* by elements of a tensor; latency left out */
    double latency_us[WRING_WORKERS];    /* of each tensor, whatever its size */
};

/** Whose option it is. A codec of two ways ("in>out") has one until the sum, the other after. */
struct wring_work_params {
    const struct wring_profile *profile;
    uint32_t nodes, ranks_per_node;
    double link_scale; /* of bandwidth between nodes */
    struct wring_cost
        progress_us;     /* by bytes that pass a rank's link, sums of raw data among it,
                            as wring_core_scaling_progress() has it; n = 0: nobody measured it,
                            and sums count as the profile's codec "none" does */
    uint32_t elem_bytes; /* of an element that travels raw; 0: 4 */
    double width;        /* bytes of a code, against those that the profile has; 0: 1 */
    bool own_cores;      /* each rank's CPU codes what is the rank's, not one the node's all */
    bool scattered; /* a tensor is copied into one place before its first step, and back after its
                       last one */
    const struct wring_profile_codec *in;  /* NULL: nothing is coded */
    const struct wring_profile_codec *out; /* the same, unless the codec has two ways */
};

/** Copying a tensor by one core, by its elements of that many bytes. */
struct wring_cost wring_work_copy(const struct wring_profile *profile, uint32_t elem_bytes);

/** Work out one option. Threads: safe. */
void wring_option_work(const struct wring_work_params *params, const struct wring_option *option,
                       struct wring_work *out);

/** Options that have a name of their own. */
enum wring_known_option {
    WRING_KNOWN_NONE,
    WRING_KNOWN_RAW,        /* the baseline, uncompressed */
    WRING_KNOWN_SUMMED,     /* codes that are summed on their whole way */
    WRING_KNOWN_INTER_ONLY, /* coded between nodes, decoded, added and coded again there */
    WRING_KNOWN_TWO_LEVEL,  /* the same, inside the nodes as well */
};

/** Which one is it? Where there is one level only, hierarchical ones are not among them. */
enum wring_known_option wring_option_known(const struct wring_option *option, bool one_level);

/* A tensor's walk through the steps of an option: between the files that work it out. */

struct wring_walk {
    const struct wring_work_params *params;
    const struct wring_option *option;
    struct wring_work *work;
    enum wring_known_option whole; /* its codec work is known as a whole */
    bool half_intra;               /* raw data inside nodes travel as 16 bits */
    bool both_levels;
    double x, f, codes, active;              /* active: ranks of a node */
    bool second[WRING_PHASE_INTRA_OUT + 1];  /* by phase: the next step there is its second */
    const struct wring_profile_codec *codec; /* that made the codes */
    enum wring_site site;                    /* and who did */
    bool other_back; /* the codec's sums travel as other codes, or as wider sums of codes, which the
                        profile describes */
    uint32_t contributions; /* whose codes a sum is of; UINT32_MAX: they travelled raw, so that the
                               sum has all elements */
    uint32_t summed;        /* contributions in the codes of such a sum; 0: they are no sums */
};

static inline void wring_walk_add(struct wring_walk *walk, enum wring_worker worker,
                                  struct wring_cost cost)
{
    walk->work->us[worker] = wring_cost_add(&walk->work->us[worker], &cost);
}

#endif
