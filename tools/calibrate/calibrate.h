/* SPDX-License-Identifier: Apache-2.0 */
/** wring calibrate: between its command line, the ranks and the parts that are measured. */
#ifndef WRING_TOOLS_CALIBRATE_H
#define WRING_TOOLS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "planner/core/files/profile.h"
#include "planner/core/fit.h"
#include "planner/core/model/tunings.h"
#include "planner/tool/gradients.h"
#include "runtime/plan/collective_bench.h"
#include "runtime/plan/machine.h"
#include "tools/rank_faults.h"
#include <wring/codec.h>
#include <wring/wring.h>

#define WRING_CALIBRATE_CODECS_MAX 16
#define WRING_CALIBRATE_CODED_MAX 128
#define WRING_CALIBRATE_ROUTINES 4 /* of a link, beside allgathers */

/** Codecs whose coding is measured. */
struct wring_calibrate_coded {
    uint32_t n;
    char specs[WRING_CALIBRATE_CODED_MAX][WRING_CODEC_SPEC_MAX];
};

struct wring_calibrate_params {
    const char *name;      /* of the command, before messages */
    const char *into;      /* the profile's file; NULL: none */
    const char *gradients; /* a file of recorded ones; NULL: none */
    const char *profile_name;
    const char *provider; /* NULL: as configured */
    uint32_t ranks;       /* 0: not said */
    char *codecs[WRING_CALIBRATE_CODECS_MAX];
    size_t n_codecs;
    bool codecs_given; /* on the command line: measured again if the file has them */
    struct wring_calibrate_coded coded; /* those above too */
    uint32_t coded_again; /* the first of these: measured again if the file has them */
    bool must_exist;      /* `into` does */
    bool fresh;           /* whatever the file has */
    double seconds;       /* for everything, about */
    uint64_t max_elems;
    struct wring_tunings_wanted tunings; /* that collectives are measured with; none: as
                                              configured */
    uint32_t part, parts;                /* which of the tunings it is this time, of how many */
    double doubtful_max; /* the part of a curve's points that may be in doubt; more is noise */
};

/** What is to be measured; rank 0 finds out and tells the others. */
struct wring_calibrate_wants {
    int32_t code;                              /* an exit status: other than 0, all ranks end */
    uint32_t links, copies, computing, waking; /* the last two: an application computes meanwhile */
    struct wring_collective_bench_codecs codecs; /* whole collectives */
    struct wring_calibrate_coded coded;          /* their coding alone */
};

/** A rank in its job. */
struct wring_calibration {
    const struct wring_calibrate_params *params;
    struct wring_tuning tuning;        /* of its session; chunk_bytes 0: nobody can say */
    struct wring_profile_aside *aside; /* collectives of other tunings, in rank 0 */
    struct wring_session *session;
    struct wring_group *world;
    struct wring_group *levels[WRING_LEVELS]; /* the ranks of our node; the first of each node.
                                                 NULL: we are in none, or nobody is */
    uint32_t level_ranks[WRING_LEVELS];       /* members of each; 0 or 1: there is no such level */
    uint32_t rank, ranks;
    uint32_t me[WRING_LEVELS];       /* ours among them */
    uint32_t pairs[WRING_LEVELS][2]; /* the first two ranks of the first group of each, of all */
    struct wring_job_machine machine;
    struct wring_calibrate_wants wants;
    uint64_t max_elems; /* the largest size, as memory allows */
    uint64_t begin_ns;
    uint64_t late_ns; /* so long codecs that are in doubt may be measured; in rank 0 */
    struct wring_gradients *gradients; /* in rank 0, where they were asked for */
    struct wring_rank_faults faults;
};

/** The largest of all ranks' times, each of [n]. */
enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *times,
                                            uint64_t n);

/** Rank 0 says whether there is time left; all ranks hear the same. */
enum wring_status wring_calibration_agree(struct wring_calibration *job, bool *more);

/** On a terminal and in rank 0: what goes on, over the line before. "" ends that line. */
__attribute__((format(printf, 2, 3))) void wring_calibration_tell(
    const struct wring_calibration *job, const char *format, ...);

/* ---- the parts; what they measure is put into the profile on rank 0. A share is of the seconds
 * ---- */

/** Is their median not known to WRING_PROFILE_NOISE? Sorts them. */
bool wring_calibrate_is_in_doubt(double *samples, uint32_t n);

/** One point more; sorts its samples. */
void wring_calibrate_count(struct wring_fit_point *point,
                           struct wring_collective_bench_noise *noise);

/** The links of the levels. @param noise  here and below: the points that all plans need are added
 */
enum wring_status wring_calibrate_links(struct wring_calibration *job, double share,
                                        struct wring_profile *profile,
                                        struct wring_collective_bench_noise *noise);

/** Copies and codecs, on one core of rank 0 while all else rests. */
enum wring_status wring_calibrate_codecs(struct wring_calibration *job, double share,
                                         struct wring_profile *profile,
                                         struct wring_collective_bench_noise *noise);

/** A codec by executor, number of cores and tier; in rank 0. */
enum wring_status wring_calibrate_coders(const struct wring_calibration *job, double seconds,
                                         struct wring_profile_codec *codec,
                                         struct wring_collective_bench_noise *noise);

/**
 * What a codec is, beside its times; in rank 0. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_FRAME (the
 * codec refuses its own code).
 */
enum wring_status wring_calibrate_traits(const struct wring_codec *codec,
                                         struct wring_profile_traits *out);

/** Every codec of the library but none: with its defaults, with +ef, and in other usual forms. */
void wring_calibrate_list_all(struct wring_calibrate_coded *out);

/** What the profile's codecs lose of recorded gradients; in rank 0. */
enum wring_status wring_calibrate_errors(const struct wring_calibration *job,
                                         const struct wring_gradients *gradients,
                                         struct wring_profile *profile);

/** Whole collectives. */
enum wring_status wring_calibrate_collectives(struct wring_calibration *job, double share,
                                              struct wring_profile *profile,
                                              struct wring_collective_bench_noise *noise);

/** What collectives lose to an application that computes beside them. Before the collectives, as
 * its buckets are few. */
enum wring_status wring_calibrate_computing(struct wring_calibration *job, double share,
                                            struct wring_profile *profile);

/** And to one that is woken; after that. */
enum wring_status wring_calibrate_waking(struct wring_calibration *job, double share,
                                         struct wring_profile *profile);

/* ---- the profile, in rank 0 ---- */

/**
 * Read the profile to add to from the file, or begin a new one. List the wanted measurements that
 * it lacks. If that fails, an error line is printed and wants->code is not 0.
 * @return the caller's; NULL: it failed
 */
struct wring_profile *wring_calibrate_open(const struct wring_calibration *job,
                                           struct wring_calibrate_wants *wants);

/** Leave out, and say, each curve of those measured now that is noise. @return an exit status: what
 *  all plans need is among them; said */
int wring_calibrate_sift(const struct wring_calibration *job, struct wring_profile *profile);

/** Write it in place of the file, whole or not at all. @return an exit status; said */
int wring_calibrate_write(const struct wring_calibrate_params *params,
                          const struct wring_profile *profile);

/** As one rank. @param out  the finished profile in rank 0, else NULL. @return an exit status */
int wring_calibrate_rank(const struct wring_calibrate_params *params, struct wring_profile **out);

/* Steps of collectives among the ranks of a level, timed in turns: for calibrate/links.c. */

#define WRING_LINK_SIZES 9 /* latency, and 4 KiB, 16 KiB, ... 64 MiB to pass a link */
#define WRING_LINK_SAMPLES_MAX 120

/** The steps; those after the first have every other size. */
enum wring_link_step {
    WRING_LINK_ALLGATHER,
    WRING_LINK_ALLREDUCE,
    WRING_LINK_REDUCE_SCATTER,
    WRING_LINK_ALLTOALL,
    WRING_LINK_BROADCAST,
    WRING_LINK_STEPS
};

struct wring_link_bench {
    struct wring_calibration *job;
    struct wring_group *group; /* NULL: this rank looks on */
    uint32_t members, me;
    uint32_t n; /* sizes */
    uint64_t deadline_ns, late_ns;
    float *data, *into; /* placed; what a member gives lies at its place. All of it is 0 */
    uint32_t repeats[WRING_LINK_SIZES]; /* in a turn */
    double samples[WRING_LINK_STEPS][WRING_LINK_SIZES]
                  [WRING_LINK_SAMPLES_MAX]; /* us; the same on all ranks */
    uint32_t samples_n[WRING_LINK_STEPS][WRING_LINK_SIZES];
    uint32_t turns;
};

/* A profile for people. */

/** As tables: links, codecs, whole collectives. */
void wring_profile_show(FILE *file, const struct wring_profile *profile);

/** wring info --profile: print one of a file, or a built-in one. @param svg NULL: none.
 *  @return an exit status */
int wring_profile_info(const char *name, const char *path, const char *svg, int json);

#endif
