/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench codec` and its measurement. */
#ifndef WRING_TOOLS_BENCH_CODEC_H
#define WRING_TOOLS_BENCH_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/codec.h>

#include "base/json.h"

#define WRING_BENCH_THREADS_MAX 256

struct wring_codec_bench {
    const char *name; /* of the command, before messages */
    uint64_t elems;   /* float32 numbers per thread and call, > 0 */
    uint32_t threads;
    const unsigned *cores; /* [threads] the system's numbers, one for each thread */
    double seconds;        /* per codec */
};

/** Speeds are of all threads together, in 1e9 bytes of float32 per second: medians of rounds. */
struct wring_codec_speed {
    double encode, decode, decode_add;
    double encode_limit, decode_add_limit;   /* of the twins */
    double copy;                             /* memcpy */
    bool encode_streams, decode_add_streams; /* the faster twin's stores went past the caches */
    uint64_t encoded_bytes;                  /* of the first call */
    double nmse;                             /* of the first call: |x - decode|² / |x|² */
    uint32_t rounds;
};

/**
 * Measure one codec. Starts the threads, which end with the call.
 * @return an exit status; failures are said
 */
int wring_codec_measure(const struct wring_codec_bench *bench, const struct wring_codec *codec,
                        struct wring_codec_speed *out);

/** One of the results; a new reference, NULL without memory. @param spec as it was asked for */
json_t *wring_codec_speed_json(const char *spec, const char *tier, uint64_t elems,
                               const struct wring_codec_speed *speed);

/** All of them as a table. */
void wring_codec_speed_show(FILE *file, json_t *results);

/** Bytes of memory that one thread's measurement takes. */
uint64_t wring_codec_measure_bytes(const struct wring_codec *codec, uint64_t elems);

#endif
