/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The losses of a collective's codec jobs, sampled piece by piece, what their sums lost, and where
 * the jobs ran. Written by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_CODEC_ERROR_STATS_H
#define WRING_TRANSPORT_CODEC_ERROR_STATS_H

#include <wring/executor.h>

#define WRING_CORES_MAX 4096 /* higher numbers of the system's are left out */

/** One way: in, or the sum's way back. */
struct wring_codec_error {
    double lost, whole; /* sums of squares, of all samples; struct wring_job */
    double last;        /* lost / whole of the last one */
    uint64_t pieces;    /* sampled */

    uint64_t next_step; /* after the one that is counted now */
    uint64_t count;     /* pieces of it so far */
    uint64_t turn;      /* which of them is the sample */
};

struct wring_codec_error_stats {
    uint64_t every; /* so many steps give one sample each way; 0: none */
    struct wring_codec_error ways[2];
    uint64_t cut;                         /* numbers of sums that were cut off */
    uint64_t cores[WRING_CORES_MAX / 64]; /* a bit for each that ran a job */
};

/**
 * Shall the next piece that is encoded in this step be a sample? Each step that is sampled takes
 * another piece, in turn.
 */
bool wring_codec_error_stats_wants(struct wring_codec_error_stats *error_stats, uint32_t way,
                                   uint64_t step);

/** A job is done. One whose input was not finite is no sample. */
void wring_codec_error_stats_take(struct wring_codec_error_stats *error_stats,
                                  const struct wring_job *job);

/**
 * The cores as text, in the way of "0,2-3"; ends in ",..." where there is no room for all.
 * @return how many they are
 */
uint32_t wring_codec_error_stats_cores(const struct wring_codec_error_stats *error_stats,
                                       char *text, size_t bytes);

#endif
