/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A codec under trial: ranks of a group in one thread, with the statistics and states that they
 * would have, and calls that are watched. Private to codec_conform(). Memory is guarded, and freed
 * after each length; what fails leaves the trial by a jump.
 */
#ifndef WRING_TESTS_CODEC_TRIAL_H
#define WRING_TESTS_CODEC_TRIAL_H

#include <setjmp.h>

#include "base/crc32c.h"
#include "compress/codec.h"
#include "tests/lib/codec_conform.h"
#include <wring/executor.h>

#define TRIAL_RANKS 3
#define TRIAL_ME 1      /* the rank whose codes are looked at */
#define TRIAL_BUFFERS 3 /* at most, of a call */

/** A rank of the group. */
struct codec_trial_rank {
    struct wring_codec_context context; /* of all elements */
    float *src, *residual;              /* [elems]; residual NULL: the codec is EXACT */
    void *statistics[WRING_CODEC_ROUNDS_MAX];
    void *states[WRING_CODEC_STATES_MAX];
};

struct codec_trial {
    /* of the call to codec_conform() */
    const struct wring_codec_ops *const *own;
    const char *spec;
    const struct codec_conform_limits *limits;
    char *why;
    size_t why_bytes;
    sigjmp_buf failed;
    struct wring_codec *codecs[WRING_CPU_TIERS]; /* NULL: processor or codec lack the tier */
    int best;                                    /* the last of them */
    struct wring_codec *other;                   /* what a rule has made; NULL: nothing */

    struct wring_crc32c crc;

    /* what is tried now */
    const struct wring_codec *codec;
    const char *rule;
    uint64_t elems;
    struct codec_trial_rank ranks[TRIAL_RANKS];
    void *ready[WRING_CODEC_STATES_MAX]; /* my states once rounds were over */
    struct codec_trial_digest {          /* of what the scalar tier made of the same */
        size_t bytes;
        uint32_t code, left, out, states[WRING_CODEC_STATES_MAX];
    } scalar;

    /* the call under way */
    const char *call; /* NULL: there is none */
    struct {
        const char *name;
        const void *data;
        size_t bytes;
    } buffers[TRIAL_BUFFERS];
    int n_buffers;
    uint64_t mode;
    const void *stray; /* what it touched */
};

/** Write the line and leave the trial. */
__attribute__((noreturn, format(printf, 2, 3))) void codec_trial_fail(struct codec_trial *trial,
                                                                      const char *format, ...);

/** What has to hold by the rule that is tried. */
#define HOLD(trial, condition, ...)                 \
    do {                                            \
        if (!(condition))                           \
            codec_trial_fail((trial), __VA_ARGS__); \
    } while (0)

bool codec_trial_has(const struct codec_trial *trial, unsigned flag);

/** Elements of a unit; of a codec that takes whole buckets alone, all. */
uint64_t codec_trial_unit(const struct codec_trial *trial);

void *codec_trial_copy(const void *data, size_t bytes);
bool codec_trial_same(const void *a, const void *b, size_t bytes);

/** Contexts of a step for codes on the way in, gradients, and states as they are at first.
 *  @param everyone  all ranks have gradients; else only me, unless the codec has rounds */
void codec_trial_set_up(struct codec_trial *trial, uint64_t elems, uint64_t step, bool everyone);

/** Rounds over what ranks have as src and residual; my states are then `ready`. */
void codec_trial_rounds(struct codec_trial *trial);

/** Take my states back to that. */
void codec_trial_rewind(struct codec_trial *trial);

/** Of one array. */
size_t codec_trial_state_bytes(const struct codec_trial *trial, size_t state);
size_t codec_trial_statistics_bytes(const struct codec_trial *trial, uint32_t rank, size_t round);

/** A new array of state, [bytes], whose end is watched. @param from  NULL: zeros */
void *codec_trial_state(const void *from, size_t bytes);

/**
 * Encode elements [at, at + n) of a rank's bucket.
 * @param residual  NULL: none
 * @return [*bytes] and no larger
 */
unsigned char *codec_trial_encode(struct codec_trial *trial, uint32_t rank, const float *src,
                                  uint64_t at, uint64_t n, float *residual, size_t *bytes);

/** Decode what a rank has encoded, or what somebody made of it. */
enum wring_status codec_trial_decode(struct codec_trial *trial, uint32_t rank, const void *code,
                                     size_t bytes, uint64_t at, uint64_t n, float *dst, bool add);

/** Where that has to succeed. @return [n] */
float *codec_trial_decoded(struct codec_trial *trial, uint32_t rank, const void *code, size_t bytes,
                           uint64_t at, uint64_t n);

/** Bytes of a sum of codes. */
size_t codec_trial_sum_bytes(const struct codec_trial *trial, uint64_t n);

/** sum += code, [bytes], of elements [at, at + n) */
enum wring_status codec_trial_sum(struct codec_trial *trial, void *sum, const void *code,
                                  size_t bytes, uint64_t at, uint64_t n);

/** A sum that one code begins. @return [codec_trial_sum_bytes()] */
unsigned char *codec_trial_sum_of_one(struct codec_trial *trial, const void *code, size_t bytes,
                                      uint64_t at, uint64_t n);

/** End a sum. @param cut  out @return its bytes */
size_t codec_trial_sum_end(struct codec_trial *trial, void *sum, uint64_t at, uint64_t n,
                           uint64_t *cut);

/** Run a job of a rank's. @param out_name  of its output, [out_bytes] */
void codec_trial_job(struct codec_trial *trial, uint32_t rank, struct wring_job *job,
                     const char *out_name, size_t out_bytes);

/** Fold a job's run into the statistics of a round, [bytes] at its dst. */
void codec_trial_fold(struct codec_trial *trial, uint32_t rank, const struct wring_job *job,
                      size_t bytes);

/** The rules that hold at every length, by a tier; the scalar one comes first.
 *  @param any  bits of all kinds instead of gradients */
void codec_trial_runs(struct codec_trial *trial, uint64_t elems, uint32_t phase, bool any);

/** What is tried at one length: of odd values, and of codes that nobody made. */
void codec_trial_values(struct codec_trial *trial, uint64_t elems);

/** The same: of ranks together, steps one after the other, and jobs. */
void codec_trial_group(struct codec_trial *trial, uint64_t elems);

#endif
