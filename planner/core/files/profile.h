/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Profiles: what links, cores and codecs take. Built in, or measured by `wring calibrate`.
 * docs/planner-files.md has the JSON ("wring-profile").
 */
#ifndef WRING_FILES_PROFILE_H
#define WRING_FILES_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "planner/core/cost.h"
#include <wring/codec.h>
#include <wring/status.h>

#define WRING_PROFILE_FORMAT "wring-profile"
#define WRING_PROFILE_VERSION 1

enum wring_level {
    WRING_LEVEL_INTRA, /* between the ranks of a node */
    WRING_LEVEL_INTER, /* between nodes */
};
#define WRING_LEVELS 2

/** Where codecs run. */
enum wring_site {
    WRING_SITE_DEVICE, /* the one that computes: its codec work delays backward */
    WRING_SITE_CPU,    /* cores of the node, besides the computation */
    WRING_SITE_NODE,   /* an offload node in the path */
};
#define WRING_SITES 3

/** How far a measured curve can be trusted. All shares are of the value itself, at the worst of its
 *  points. */
struct wring_profile_trust {
    double error;     /* the points' medians against the curve */
    double spread;    /* middle half of a point's samples, from its lower to its upper quartile */
    double doubt;     /* half of the interval in which a point's median lies with 95 % confidence */
    uint32_t samples; /* of the point that has fewest */
    uint32_t points;  /* sizes that were measured */
    uint32_t noisy;   /* of these, points whose spread is more than WRING_PROFILE_NOISE */
    uint32_t doubtful; /* and those whose doubt is: their median is not known that well */
};
#define WRING_PROFILE_NOISE 0.25
/* samples = 0: not known */

/** A cost that was measured as a whole. */
struct wring_profile_curve {
    struct wring_cost us; /* by the float32 elements of one bucket */
    struct wring_profile_trust trust;
};

/** The time of a step that was measured by itself. */
struct wring_profile_routine {
    char name[16];        /* as options have it: "alltoall" */
    double latency_us;    /* of it alone */
    struct wring_cost us; /* beyond that, by bytes that pass the link one way */
    struct wring_profile_trust latency_trust, trust;
};
#define WRING_PROFILE_ROUTINES_MAX 8

/** The time of puts between two ranks of a level, without any collective around them. */
struct wring_profile_put {
    struct wring_profile_curve latency; /* us by bytes: from the put to its arrival. us.n = 0:
                                           nobody measured puts */
    struct wring_profile_curve each;    /* us by bytes: what each takes, many under way */
};

/**
 * What a level's link takes. Inside a node a link is one rank's; between nodes it is one node's,
 * which all its ranks share.
 */
struct wring_profile_link {
    bool present;
    char provider[32];
    double latency_us;    /* of one collective: both steps of a pair such as reduce-scatter and
                             allgather together, half of it for each */
    struct wring_cost us; /* by bytes that pass the link one way: of allgathers, and of steps that
                             are not among the routines */
    struct wring_profile_trust latency_trust, trust; /* of allgathers */
    struct wring_profile_put put;
    uint32_t n_routines;
    struct wring_profile_routine routines[WRING_PROFILE_ROUTINES_MAX]; /* no two of a name */
};

/**
 * What a codec takes at one site. All by the float32 elements that one coder there codes: a device
 * its rank's part of a tensor, the CPU and the offload node those of all ranks of the node.
 */
struct wring_profile_coding {
    bool present;
    struct wring_cost encode_us;
    struct wring_cost decode_us;     /* of one code, into its place */
    struct wring_cost decode_add_us; /* of one code, added to its place; n = 0: as decode_us */
    struct wring_cost sum_us; /* of one code, added to a sum of codes, where codes add up. n = 0:
                                 wring_profile_summing() */
    struct wring_profile_trust encode_trust, decode_trust, decode_add_trust, sum_trust;
    struct wring_cost state_us; /* by bytes that an encode reads and writes of its residual and
                                   state, where encode_us leaves them out; n = 0: it does not */
    char source[96];            /* where the times come from; "": as the profile's say */
};

/** The way back of a codec whose sums travel as other codes than contributions, or whose codes add
 *  up to wider sums. */
struct wring_profile_way_back {
    struct wring_cost bytes;      /* of the code of a sum of one contribution, by elements. n = 0:
                                     sums travel as contributions do */
    struct wring_cost most_bytes; /* up to which it grows, as sums of sparse contributions do: that
                                     of n ones takes n times `bytes`. n = 0: it does not grow */
    struct wring_cost encode_us, decode_us; /* by one core of a CPU; n = 0: as on the way in */
    double nmse; /* what a sum of a few contributions loses, as a codec's nmse; 0 where nothing is
                    lost again */
};

/** What a codec is, beside its times; all zero in files that do not say. */
struct wring_profile_traits {
    bool alters;     /* training is another with it than without, as with momentum or votes: no plan
                        may switch it on or off */
    uint32_t rounds; /* small allreduces of statistics before anything is encoded */
    struct wring_cost round_bytes; /* of all of them together, by the elements of the collective */
    double state_bytes;            /* of a rank for each element: residual and state. Each encode
                                      reads and writes them */
    struct wring_profile_way_back way_back;
};

/** The same of an executor, as it codes a bucket piece by piece, by all elements of the bucket. */
struct wring_profile_coder {
    uint32_t cores; /* of a pool; 0: inline, on the thread that makes progress */
    char tier[16];  /* of the kernels: "avx2" */
    struct wring_profile_curve encode, decode;
    struct wring_profile_curve decode_add; /* us.n = 0: as decode */
    struct wring_profile_curve sum;        /* where codes add up; us.n = 0: nobody measured it */
};
#define WRING_PROFILE_CODERS_MAX 16

/** How a session is set where a plan chooses that: it holds for all that the session exchanges. */
struct wring_tuning {
    uint32_t cores;       /* pinned for codecs, in each rank; 0: inline */
    uint64_t chunk_bytes; /* of a piece that travels, as WRING_CHUNK_BYTES */
};
#define WRING_TUNING_CORES_MAX 4096
#define WRING_TUNING_CHUNK_BYTES_MIN 4096
#define WRING_TUNING_CHUNK_BYTES_MAX (1u << 26)
#define WRING_TUNING_CHUNK_BYTES (256u << 10) /* the default */

struct wring_profile_codec {
    char spec[WRING_CODEC_SPEC_MAX]; /* with randk:ratio=R, dgc:ratio=R for those that match */
    bool summable, feedback;
    double nmse; /* |x - decoded|^2 / |x|^2 on bell-shaped numbers; NaN: not known. On gradients:
                    wring_profile_error() */
    struct wring_cost wire_bytes; /* of a code, by elements */
    struct wring_profile_traits traits;
    struct wring_profile_coding at[WRING_SITES];
    struct wring_profile_coding two_level[WRING_SITES]; /* of coding for both levels together,
                                                            where that was measured as one */
    uint32_t n_coders;                                  /* 0: nobody measured them */
    struct wring_profile_coder coders[WRING_PROFILE_CODERS_MAX]; /* no two alike in cores and tier;
                                                                    the best tier first */
};

/**
 * A whole collective, as the runtime really does it: all ranks, from bucket to bucket. Where there
 * is a collective of a group's codec and scheme, its times include all that the steps of the model
 * are made of (codec, links, hand-overs, other ranks that have the same processors), and go before
 * them.
 *
 *     k buckets of n elements, posted at once, take about  solo_us(n) + (k - 1) busy_us(n)
 *
 * and k · cpu_us(n) of a rank's processors. Curves rise from the smallest size that was measured;
 * beyond max_elems they are carried on, not measured.
 */
struct wring_measured_collective {
    char codec[WRING_CODEC_SPEC_MAX]; /* "none", too */
    char run_as[32];                  /* the runtime's scheme, as in plan.h; "auto" holds what that
                                         takes at each size */
    uint32_t ranks;                   /* of the group that was measured */
    uint32_t cores;                   /* processors that its ranks on one node had together */
    uint32_t coder_cores;             /* pinned for codecs, in each rank; 0: inline */
    uint64_t chunk_bytes;             /* of a piece; 0: nobody said, and it counts as the default */
    uint64_t max_elems;               /* of the largest bucket measured; at least 1 */
    struct wring_profile_curve solo;  /* one bucket alone: from post to the end of wait, of the
                                         slowest rank */
    struct wring_profile_curve busy;  /* what each further bucket adds, where several are posted at
                                         once: the reciprocal of the throughput */
    struct wring_profile_curve cpu;   /* processor time for each of those, of one rank (the mean of
                                         all): of all threads of its process, the one that waits
                                         among them */
    struct wring_cost wire_bytes;     /* payload that a rank puts for one bucket, mean of all; not
                                         what peers read where it lies */
};

/** What a codec loses of gradients. */
struct wring_profile_loss {
    double
        nmse; /* |x - decoded|^2 / |x|^2 of one step; with +ef x has what is left of earlier ones */
    double fed; /* with +ef: what has not come through of several steps' sum, in the same way;
                   without it nmse */
};

struct wring_profile_losses {
    char spec[WRING_CODEC_SPEC_MAX];
    struct wring_profile_loss all;   /* all tensors together: squares are summed up, then divided */
    struct wring_profile_loss *each; /* [n_tensors] */
};

/* At most, of recorded gradients (planner/tool/gradients.h): */
#define WRING_GRADIENTS_TENSORS_MAX 65536
#define WRING_GRADIENTS_STEPS_MAX 4096
#define WRING_GRADIENTS_NAME_MAX (WRING_NAME_MAX - 1) /* bytes of a tensor's name */

/** What codecs lose of gradients that a training recorded. */
struct wring_profile_errors {
    char source[256];                    /* of the gradients, in words */
    uint64_t gradients;                  /* their hash */
    uint32_t n_steps;                    /* of training that were recorded */
    uint32_t n_tensors, n_codecs;        /* 0: nothing was measured on gradients */
    char **tensors;                      /* [n_tensors] names, no two alike */
    char ***by_name;                     /* [n_tensors] into these, sorted */
    struct wring_profile_losses *codecs; /* [n_codecs] no two alike in spec */
};

#define WRING_CORE_SHARE_MIN 1e-6 /* a rank that got less has this: 0 would be "not measured" */

/**
 * The time that a collective loses to an application beside it on the same processors. In one case
 * a device computes and the application is woken for each gradient; in the other the processor
 * computes.
 */
struct wring_profile_computing {
    bool present;
    double wake_us;       /* longer a collective takes for each time the application is woken */
    double wake_doubt_us; /* half of the interval of that, as in struct wring_profile_trust */
    double spin_lost; /* share of a raw collective's pace that is lost while all ranks compute */
    double spin_doubt;
    char spin_codec[WRING_CODEC_SPEC_MAX];    /* the busiest codec: a collective with it loses */
    double spin_coded_lost, spin_coded_doubt; /* so much. "": nobody measured that */
    double core_share; /* from WRING_CORE_SHARE_MIN, of a processor that a rank has where all ranks
                          want one: less than 1 where they share; 0: not measured, and it counts as
                          1 */
    uint32_t samples;
};

#define WRING_PROFILE_CODECS_MAX 256
#define WRING_PROFILE_COLLECTIVES_MAX 1024

struct wring_profile {
    char name[64];
    char machine[256]; /* that it was measured on; "" for a built-in profile */
    char source[256];
    uint32_t nodes, ranks_per_node; /* unless told otherwise */
    bool chunked;                   /* it describes wring's own schedule: --timeline full */
    struct wring_profile_link links[WRING_LEVELS];
    uint32_t n_codecs;
    struct wring_profile_codec *codecs;
    struct wring_cost copy_us; /* of memory, by bytes, by one core; n = 0: not known */
    struct wring_profile_trust copy_trust;
    struct wring_profile_computing computing;
    uint32_t n_collectives;
    struct wring_measured_collective
        *collectives; /* no two alike in codec, run_as, ranks, cores and tuning */
    struct wring_profile_errors errors;
    uint64_t hash; /* of all but name and source: what a plan depends on */
};

/** "device", "cpu", "node"; a static string. */
const char *wring_site_name(enum wring_site site);

/** "intra", "inter"; a static string. */
const char *wring_level_name(enum wring_level level);

/** A built-in profile, a copy; NULL where there is none of that name or no memory. */
struct wring_profile *wring_profile_builtin(const char *name);

/** Names of the built-in profiles, ended by NULL. */
const char *const *wring_profile_builtin_names(void);

/**
 * The codec of that spec: "none", which needs no entry and is coded by anybody in no time, and
 * "randk:ratio=0.01" from "randk:ratio=R", whose wire_bytes are those of R = 1, filled in. Errors:
 * WRING_ERR_INVALID, with a log line that names those there are.
 */
enum wring_status wring_profile_codec(const struct wring_profile *profile, const char *spec,
                                      const struct wring_log *log, struct wring_profile_codec *out);

/**
 * A codec's error on a tensor's recorded gradients, after its error feedback if it has that. An
 * error budget limits this.
 *
 * @param spec    one that errors were measured of, or "in>out" of two such codecs: their sum
 * @param tensor  its name; where none of the recorded ones is called so, and with NULL, it is that
 *                of all together
 * @return NaN where nothing was measured. Threads: safe.
 */
double wring_profile_error(const struct wring_profile *profile, const char *spec,
                           const char *tensor);

/** Is more than that share of its points in doubt? Then it counts as not measured. */
static inline bool wring_profile_is_noise(const struct wring_profile_trust *trust, double share)
{
    return trust->doubtful > share * trust->points;
}

/** The time of decoding that adds, or does not; a profile may have one number for both. */
static inline const struct wring_cost *wring_profile_decoding(
    const struct wring_cost *decode_us, const struct wring_cost *decode_add_us, bool adds)
{
    return adds && decode_add_us->n > 0 ? decode_add_us : decode_us;
}

/**
 * The time of adding one code to a sum of codes. Older profiles do not have it: then a CPU takes as
 * long as to decode that code and to add it. A device takes no time of its own: its collectives sum
 * while they carry, and their links' times include it.
 */
static inline const struct wring_cost *wring_profile_summing(
    const struct wring_profile_coding *coding, enum wring_site site)
{
    if (coding->sum_us.n > 0 || site == WRING_SITE_DEVICE)
        return &coding->sum_us;
    return wring_profile_decoding(&coding->decode_us, &coding->decode_add_us, true);
}

/** The coder of so many cores with the best kernels that were measured; NULL: none. */
const struct wring_profile_coder *wring_profile_coder(const struct wring_profile_codec *codec,
                                                      uint32_t cores);

/** A step as it was measured on that link; NULL: it was not. */
const struct wring_profile_routine *wring_profile_routine(const struct wring_profile_link *link,
                                                          const char *name);

/** The collective of that codec, scheme and number of ranks (0: any); of several the first. NULL:
 * none. */
const struct wring_measured_collective *wring_profile_find_collective(
    const struct wring_profile *profile, const char *codec, const char *run_as, uint32_t ranks);

/** The same, of those measured with such a tuning. */
const struct wring_measured_collective *wring_profile_collective_at(
    const struct wring_profile *profile, const char *codec, const char *run_as, uint32_t ranks,
    const struct wring_tuning *tuning);

/** The tuning that a collective was measured with. */
struct wring_tuning wring_profile_collective_tuning(
    const struct wring_measured_collective *collective);

/**
 * Read and check a profile: a file, or the name of one that is built in.
 *
 * Errors: WRING_ERR_INVALID (one log line: file, field, reason), WRING_ERR_SYSTEM (cannot read),
 * WRING_ERR_VERSION, WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_profile_load(const char *path, const struct wring_log *log,
                                     struct wring_profile **out);

/** Write a profile as JSON that wring_profile_load() reads back to the same hash. */
enum wring_status wring_profile_save(const struct wring_profile *profile, FILE *file);

/**
 * The entry of that name, emptied but for it, or a new one at the end: what was there is replaced.
 * A collective's name is its codec, scheme and ranks. NULL: no memory, or there are too many.
 */
struct wring_profile_codec *wring_profile_put_codec(struct wring_profile *profile,
                                                    const char *spec);
struct wring_measured_collective *wring_profile_put_collective(struct wring_profile *profile,
                                                               const char *codec,
                                                               const char *run_as, uint32_t ranks,
                                                               uint32_t cores);

/**
 * Add what larger buckets take to a collective: it knows what it knew, and beyond its max_elems
 * what `larger` says, whose name is the same. Trust is that of the worse one.
 * @param common  sizes that both were measured at
 */
void wring_profile_extend_collective(struct wring_measured_collective *collective,
                                     const struct wring_measured_collective *larger,
                                     uint32_t common);

/** Set `hash` of a profile that was put together in memory. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_profile_rehash(struct wring_profile *profile);

/**
 * May plans of this profile run here?
 *
 * @param machine  what this machine, its links and this build are, as calibration wrote it
 *
 * Errors: WRING_ERR_MISMATCH, with a log line that names both sides.
 */
enum wring_status wring_profile_check_machine(const struct wring_profile *profile,
                                              const char *machine, const struct wring_log *log);

/** NULL is fine. */
void wring_profile_destroy(struct wring_profile *profile);

/*
 * A profile has collectives of several tunings side by side. While one tuning is measured, the
 * profile has its collectives alone: those of the others are set aside.
 */

/** Collectives of other tunings; owned, and freed by wring_profile_bring_back(), or by hand. */
struct wring_profile_aside {
    uint32_t n;
    struct wring_measured_collective *collectives; /* [n] */
};

/** Set collectives of other tunings aside: the profile has those alone that say this one, none
 * where `chunk_bytes` is 0 being one, too. Errors: WRING_ERR_NO_MEMORY, and all is as it was. */
enum wring_status wring_profile_set_aside(struct wring_profile *profile,
                                          const struct wring_tuning *tuning,
                                          struct wring_profile_aside *aside);

/**
 * Say of the profile's collectives with which tuning they were measured, and put the others beside
 * them; of those that are alike the profile's stay. The default tuning's come first. Errors:
 * WRING_ERR_NO_MEMORY, and all is as it was.
 */
enum wring_status wring_profile_bring_back(struct wring_profile *profile,
                                           const struct wring_tuning *tuning,
                                           struct wring_profile_aside *aside);

/** Collectives that do not say their tuning have this one. */
void wring_profile_label_collectives(struct wring_profile *profile,
                                     const struct wring_tuning *tuning);

/**
 * Extend the collectives of other tunings, which were measured with smaller buckets only. Beyond
 * their largest bucket they keep the ratio that they have there to the same collective with the
 * given tuning.
 */
void wring_profile_carry_on(struct wring_profile *profile, const struct wring_tuning *tuning);

#endif
