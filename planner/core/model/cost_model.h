/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The model: trace, profile and cluster made into a problem. Here it is decided which lanes there
 * are and what each step of an option takes on which lane; dominated options are dropped.
 */
#ifndef WRING_MODEL_COST_MODEL_H
#define WRING_MODEL_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "planner/core/model/option.h"
#include "planner/core/problem.h"
#include <wring/status.h>
#include <wring/types.h>

/** How much of the machine a timeline tells apart. */
enum wring_timeline {
    WRING_TIMELINE_AUTO,   /* phases for built-in profiles, full for calibrated ones */
    WRING_TIMELINE_SERIAL, /* the one network lane of Espresso's F, and a lane of the CPU */
    WRING_TIMELINE_PHASES, /* a lane per link and site, unchunked */
    WRING_TIMELINE_FULL,   /* wring's own chunked schedule */
};

/** "serial", "phases", "full"; a static string. */
const char *wring_timeline_name(enum wring_timeline timeline);

/** Who computes, which tells what a collective loses to it where that was measured. */
enum wring_computing {
    WRING_COMPUTING_DEVICE,    /* the application sleeps, and is woken for each gradient */
    WRING_COMPUTING_PROCESSOR, /* on which the collective runs, too */
};

/** Who may code unless it is said: an offload node has to be there, and to be asked for. */
#define WRING_SITES_DEFAULT (1u << WRING_SITE_DEVICE | 1u << WRING_SITE_CPU)

/** Where the times of collectives come from. */
enum wring_cost_source {
    WRING_COSTS_NOTHING,  /* of one rank: nothing is exchanged */
    WRING_COSTS_MEASURED, /* whole collectives of such a cluster */
    WRING_COSTS_RESCALED, /* the same, on links as fast as they are asked for */
    WRING_COSTS_PARTS,    /* put together from links, codecs and processors */
};

/** "nothing", "measured", "rescaled", "parts"; a static string. */
const char *wring_cost_source_name(enum wring_cost_source source);

/** The least budget that is one: nothing but 0 is below it. */
#define WRING_BUDGET_NOTHING 0x1p-1022

struct wring_cost_model_params {
    const struct wring_tensor_trace *trace; /* borrowed for the model's life */
    const struct wring_profile *profile;    /* likewise */
    uint32_t nodes, ranks_per_node;         /* 0: the profile's */
    enum wring_timeline timeline;
    /* [n_codecs] the allow-list; none and fp16 always are among them. "in>out" has one codec until
       the sum, another one after it */
    const char *const *codecs;
    uint32_t n_codecs;
    uint32_t sites;       /* bit per enum wring_site: who may code; 0: WRING_SITES_DEFAULT. Who is
                              not in the profile cannot */
    double max_nmse;      /* a tensor takes no codec that loses more of it than that, as
                             wring_profile_error() knows it; 0: no budget;
                             WRING_BUDGET_NOTHING: only what loses nothing */
    double link_scale;    /* of bandwidth between nodes, against the profile's; 0: 1 */
    uint64_t chunk_bytes; /* of timeline full, as WRING_CHUNK_BYTES; 0: its default, 256 KiB */
    const struct wring_tuning *tuning; /* of timeline full: the session's, which goes before
                                            chunk_bytes, and into the plan; borrowed for the call.
                                            NULL: as the job is configured */
    enum wring_computing computing;
    bool runnable;       /* only options that this build's runtime can execute */
    bool flat;           /* only options that are no hierarchy */
    bool indivisible;    /* only those whose collective between nodes, or all ranks, is one step */
    bool apart;          /* every tensor by itself */
    bool scattered;      /* gradients of a group do not lie one after another: they are copied
                            together, and their sums back */
    bool keep_dominated; /* prune nothing: for those who want to see all options */
};

/** What stands behind an option of the problem. */
struct wring_cost_option {
    uint32_t codec;             /* index in codecs; the first is "none" */
    enum wring_dtype dtype;     /* of the tensors that may take it, and no others */
    struct wring_option option; /* its steps */
    enum wring_site site;       /* of its first encode, for a short name */
    uint64_t chunk_elems;       /* of a piece that travels; 0: nothing is cut */
    uint32_t cores;             /* pinned for the codec; 0: none, or nobody said */
    const struct wring_measured_collective *collective; /* that it was measured as, of the profile;
                                            NULL: it was put together from links and codecs */
};

/** The lane of collectives that were measured as a whole. */
#define WRING_LANE_COLLECTIVE "collective"

struct wring_cost_model {
    struct wring_problem problem;
    const struct wring_tensor_trace *trace; /* borrowed, as is the profile */
    const struct wring_profile *profile;
    enum wring_timeline timeline;
    uint32_t nodes, ranks_per_node;
    enum wring_cost_source source;
    bool settled; /* for sessions with this tuning, and no other */
    struct wring_tuning tuning;
    const char *lanes[WRING_PLAN_LANES_MAX]; /* names, static */
    struct wring_cost_option *options;       /* [problem.n_options] */
    struct wring_profile_codec *codecs;      /* [n_codecs] "none", "fp16", then the allow-list */
    uint32_t n_codecs;
    uint32_t *n_allowed; /* [n_codecs] that some tensor may take, before pruning */
    uint32_t *offload;   /* [problem.n_options] see search.h */
    bool *on_device;     /* [problem.n_options] likewise */
    /* Of the trace's first type, float32 if it has any; wring_cost_model_option() has the others'
     */
    uint32_t uncompressed; /* the option "none" that the baseline takes */
    uint32_t raw;          /* the one that plans may take: the same, unless it is barred */
    uint32_t fp16;         /* the 16-bit baseline's; n_options where there is none. Of 16-bit
                              tensors it is the uncompressed one */
    uint32_t raws[WRING_BF16 + 1]; /* `raw` by type; n_options for those that no tensor has */
    uint8_t *kinds;                /* [n_tensors] see search.h: their types; NULL: all are of one */
    uint32_t *alike;               /* [types × problem.n_options] likewise */
    uint64_t considered, dominated; /* options before pruning, and those that it took away; both
                                       baselines stay */
    double *compute_us;             /* the problem's, whose memory is the model's */
    double lost_us;                 /* that collectives lose to computing, in all; see lanes.h */
    uint64_t *elems, *allowed;
    struct wring_option_cost *costs;
};

/** What parameters leave to the profile. */
struct wring_cluster {
    uint32_t nodes, ranks_per_node;
    enum wring_timeline timeline; /* not AUTO */
};

struct wring_cluster wring_cost_model_cluster(const struct wring_cost_model_params *params);

/**
 * Build a model. Lanes that no option needs are left out. Of two codecs' worth of options with the
 * same costs the first stays.
 *
 * In profiles that are built in (not chunked) Espresso's own options cost what its artifact says:
 * codec work is known as a whole, and what travels raw inside nodes while codes travel between them
 * has 16 bits. All else is put together step by step.
 *
 * Errors: WRING_ERR_INVALID (one line says which codec, link or size), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_cost_model_create(const struct wring_cost_model_params *params,
                                          const struct wring_log *log,
                                          struct wring_cost_model **out);

/**
 * What a tensor takes where all take an option: that option, or of another type of elements the one
 * with the same codec and steps. Where there is none it is that type's raw option, as it is for
 * 16-bit tensors in the place of fp16.
 * @param option  below problem.n_options
 */
uint32_t wring_cost_model_option(const struct wring_cost_model *model, uint32_t tensor,
                                 uint32_t option);

/**
 * Elements of float32 that travel as one of a type does with a codec: a half where 16 bits travel
 * as they are, else 1.
 */
double wring_cost_model_width(enum wring_dtype dtype, const char *spec);

/** NULL is fine. */
void wring_cost_model_destroy(struct wring_cost_model *model);

#endif
