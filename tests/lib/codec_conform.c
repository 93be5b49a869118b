/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/codec_conform.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/codec_trial.h"
#include "tests/lib/test.h"

#define NEAR 4096 /* bytes past a buffer: the page there is not mapped */

enum { /* how a trial was left */
    FAILED = 1,
    STRAYED
};

static const uint64_t lengths[] = {0,    1,    2,    31,   32,    33,    255,   257,   511,
                                   1023, 1024, 1025, 4096, 10007, 65535, 65537, 140001};

const struct codec_conform_limits codec_conform_defaults = {
    .lengths = lengths,
    .n_lengths = sizeof(lengths) / sizeof(lengths[0]),
    .deep = 10007,
    .seed = 1,
};

/* ---- who reads or writes where nothing is ---- */

static _Thread_local struct codec_trial *under_way;

static void caught(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (under_way == NULL || under_way->call == NULL) {
        signal(number, SIG_DFL); /* the fault is not the codec's: it comes again */
        return;
    }
    under_way->stray = info->si_addr;
    siglongjmp(under_way->failed, STRAYED);
}

/** The codec's part of the line. */
static void tell_stray(struct codec_trial *trial)
{
    const char *call = trial->call, *at = trial->stray, *rule = trial->rule;

    trial->rule = "stray";
    for (int i = 0; i < trial->n_buffers; i++) {
        const char *end = (const char *)trial->buffers[i].data + trial->buffers[i].bytes;
        if (trial->buffers[i].data != NULL && at >= end && at < end + NEAR)
            codec_trial_fail(trial, "%s goes past the end of its %s, at byte %zu of %zu, in '%s'",
                             call, trial->buffers[i].name,
                             trial->buffers[i].bytes + (size_t)(at - end), trial->buffers[i].bytes,
                             rule);
    }
    codec_trial_fail(trial, "%s touches memory that is none of its buffers, in '%s'", call, rule);
}

/* ---- the walk ---- */

/** What was written before buffers; then they are free again. */
static void let_go(struct codec_trial *trial)
{
    size_t harm = wring_test_guarded_harm();

    trial->rule = "stray";
    HOLD(trial, harm == 0, "%zu bytes before a buffer are written", harm);
    wring_test_free_guarded();
}

static void walk_tiers(struct codec_trial *trial, uint64_t elems, uint32_t phase, bool any)
{
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        bool between = tier != WRING_CPU_SCALAR && tier != trial->best;
        if (trial->codecs[tier] == NULL || (trial->limits->quick && between))
            continue;
        trial->codec = trial->codecs[tier];
        codec_trial_runs(trial, elems, phase, any);
        let_go(trial);
    }
}

static void walk_runs(struct codec_trial *trial, uint64_t elems, uint32_t phase)
{
    bool exact = codec_trial_has(trial, WRING_CODEC_EXACT);

    walk_tiers(trial, elems, phase, false);
    if (exact && !trial->limits->quick && !codec_trial_has(trial, WRING_CODEC_ALTERS))
        walk_tiers(trial, elems, phase, true);
}

/** What is of several ranks, or of jobs, is alike in every tier: the best one is enough. */
static void walk(struct codec_trial *trial)
{
    const struct codec_conform_limits *limits = trial->limits;

    for (size_t i = 0; i < limits->n_lengths; i++)
        walk_runs(trial, limits->lengths[i], 0);
    if (limits->deep == 0)
        return;
    if (trial->codec->ops->code_sum == NULL) /* there it is a sum that goes back */
        walk_runs(trial, limits->deep, 1);
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (trial->codecs[tier] == NULL)
            continue;
        trial->codec = trial->codecs[tier];
        codec_trial_values(trial, limits->deep);
        let_go(trial);
    }
    codec_trial_group(trial, limits->deep);
    let_go(trial);
}

/** A codec of the library is its own in the tiers that it has kernels for. */
static bool create(struct codec_trial *trial, int tier)
{
    const char *name = wring_cpu_tier_name((enum wring_cpu_tier)tier);
    struct wring_codec *codec;

    if (wring_codec_create(trial->spec, name, trial->own, trial->why, trial->why_bytes, &codec) !=
        WRING_OK)
        return false;
    if (strcmp(wring_codec_info(codec)->tier, name) != 0) {
        wring_codec_destroy(codec);
        return true;
    }
    trial->codecs[tier] = codec;
    trial->best = tier;
    return true;
}

static bool create_all(struct codec_trial *trial)
{
    if (strchr(trial->spec, '>') != NULL) {
        snprintf(trial->why, trial->why_bytes, "%s: two codecs; name each by itself", trial->spec);
        return false;
    }
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (wring_cpu_has((enum wring_cpu_tier)tier) && !create(trial, tier))
            return false;
    trial->codec = trial->codecs[WRING_CPU_SCALAR];
    return true;
}

/** @return did it hold? */
static bool run(struct codec_trial *trial)
{
    switch (sigsetjmp(trial->failed, 1)) {
    case 0:
        walk(trial);
        return true;
    case STRAYED:
        if (sigsetjmp(trial->failed, 1) == 0)
            tell_stray(trial);
        return false;
    default:
        return false;
    }
}

bool codec_conform(const struct wring_codec_ops *const *own, const char *spec,
                   const struct codec_conform_limits *limits, char *why, size_t why_bytes)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    struct codec_trial trial = {.own = own,
                                .spec = spec,
                                .limits = limits != NULL ? limits : &codec_conform_defaults,
                                .why = why,
                                .why_bytes = why_bytes};
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO}, before[2];
    uint64_t mode = wring_fp_enter();
    bool holds = create_all(&trial);

    wring_crc32c_init(&trial.crc, wring_cpu_best());
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &action, &before[i]);
    under_way = &trial;
    holds = holds && run(&trial);
    under_way = NULL;
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &before[i], NULL);
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        wring_codec_destroy(trial.codecs[tier]);
    wring_codec_destroy(trial.other);
    wring_test_guarded_harm(); /* it has been told */
    wring_test_free_guarded();
    wring_fp_enter();
    wring_fp_leave(mode);
    return holds;
}
