/* SPDX-License-Identifier: Apache-2.0 */
/** A job under WRING_PLAN=auto, or with a plan, and what came of it: sums are looked at in each
 * step. */
#ifndef WRING_TESTS_COLLECTIVE_AUTOTUNE_STORY_H
#define WRING_TESTS_COLLECTIVE_AUTOTUNE_STORY_H

#include <stdatomic.h>

#include "runtime/autotune/autotune.h"
#include "tests/lib/lines.h"

#define STORY_RANKS_MAX 3
#define STORY_TENSORS 5
#define STORY_ELEMS_MAX 60000 /* the tensor that has most is number 3 */

struct story {
    const char *plan;  /* a file; NULL: auto */
    const char *codec; /* of all buckets; NULL: none */
    const char *kept;  /* of the last one, which has it in every step; NULL: as the others */
    enum wring_op op;
    enum wring_dtype dtypes[STORY_TENSORS]; /* f32, f16 or bf16 */
    const char *tried;         /* a file for the first plan that is tried: it ends with that one */
    bool brief;                /* it ends before anything is chosen */
    bool early;                /* each bucket is waited for before the next is posted */
    bool conserves;            /* nothing may be lost: sums and what is held back add up */
    double slower_ns_per_byte; /* at least, of the link, once all is settled; 0: as it is */
    uint32_t first_step;       /* gradients are those of this step and on */
    bool apart;                /* each rank counts as a host of its own, with all cores */
    bool probes; /* the profile in the cache is to be used: see story_run_with_profile() */

    struct wring_test_lines lines; /* what the plan's module has logged in all ranks */
    struct wring_autotune_report report[STORY_RANKS_MAX];
    uint32_t steps[STORY_RANKS_MAX]; /* when all was settled, or it was tried; three more follow */
    char chosen[STORY_RANKS_MAX][STORY_TENSORS][WRING_CODEC_SPEC_MAX]; /* what runs in the end */
    float last[STORY_RANKS_MAX][STORY_TENSORS][STORY_ELEMS_MAX];       /* widened to float32 */
    atomic_uint wrong;                                                 /* elements of raw sums */
    struct story_setting {
        char executor[WRING_CONFIG_TEXT];
        char kind[16];                      /* of the one that there is: "pool" */
        uint64_t chunk_bytes, window_bytes; /* the latter to another rank, at most */
        bool coded;                         /* threads of the executor's own have worked */
    } set[STORY_RANKS_MAX];                 /* in the end */
};

struct story *story_new(void);

/** Run it, and compare what came of it between the ranks.
 *  @param more  settings, ended by NULL. @param cache  a setting, too; NULL: nothing is kept */
void story_run(struct story *story, uint32_t ranks, const char *const *more, const char *cache);

/**
 * The same where the cache has a profile, which is what the job is about. Where links look other
 * than it says, as other load on the machine may have it, the job does nothing more: then it is put
 * back and all is run again, a few times.
 */
void story_run_with_profile(struct story *story, uint32_t ranks, const char *const *more,
                            const char *cache);

unsigned story_lines(const struct story *story, const char *part);

/** A folder of a test's own. @param setting  out: of WRING_CACHE. @return the folder, in it */
const char *story_make_cache(char *setting, size_t bytes);

/** It, read; NULL: there is none, or none that can be read. */
struct wring_profile *story_load_profile(const char *cache);

/** Put it into the place of the one that is there, and destroy it. */
void story_replace_profile(const char *cache, struct wring_profile *profile);

/** The one profile that is in a cache. @return false: there is none */
bool story_find_profile(const char *cache, char *path, size_t bytes);

void story_remove_cache(const char *cache);

#endif
