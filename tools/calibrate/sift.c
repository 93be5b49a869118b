/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Curves that are noise do not stay because others are good: what was measured now is looked at
 * curve by curve. A codec or its collectives are left out then, and said, and the next run finds
 * them missing; an executor of a codec, or the time of adding its codes, if --coding names it.
 * Links, copies and raw collectives are needed by all plans: without them there is no profile.
 */
#include <stdio.h>
#include <string.h>

#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

/** The job and profile to sift, and the last curve that was too noisy. */
struct sieve {
    const struct wring_calibration *job;
    struct wring_profile *profile;
    const struct wring_profile_trust *worst;
};

static bool note_noise(struct sieve *sieve, const struct wring_profile_trust *trust)
{
    bool noise = wring_profile_is_noise(trust, sieve->job->params->doubtful_max);

    if (noise)
        sieve->worst = trust;
    return noise;
}

/** @param again  what measures it again */
static void say_left_out(const struct sieve *sieve, const char *spec, const char *what,
                         const char *again)
{
    fprintf(stderr,
            "%s: %s%s is left out: at %u of %u points not even the median is known to %.0f %%; "
            "%s measures it again\n",
            sieve->job->params->name, spec, what, sieve->worst->doubtful, sieve->worst->points,
            WRING_PROFILE_NOISE * 100, again);
}

/** A run misses it. */
static void say_it_comes_again(const struct sieve *sieve, const char *spec, const char *what)
{
    say_left_out(sieve, spec, what, "the same command");
}

/** Without it a profile has the codec's coding, so that a run has to be told. */
static void say_it_is_asked_for(const struct sieve *sieve, const char *spec, const char *what)
{
    char again[WRING_CODEC_SPEC_MAX + 16];

    snprintf(again, sizeof(again), "--coding '%s'", spec);
    say_left_out(sieve, spec, what, again);
}

static int refuse_noise(const struct sieve *sieve, const char *what)
{
    return wring_fail(sieve->job->params->name,
                      "this is noise, no measurement: of %s, at %u of %u points not even the "
                      "median is known to %.0f %%; let the machine rest, give more --seconds, or "
                      "accept it with --doubt 100",
                      what, sieve->worst->doubtful, sieve->worst->points,
                      WRING_PROFILE_NOISE * 100);
}

static bool was_coding_measured(const struct wring_calibration *job, const char *spec)
{
    for (uint32_t i = 0; i < job->wants.coded.n; i++)
        if (strcmp(job->wants.coded.specs[i], spec) == 0)
            return true;
    return false;
}

/* ---- links ---- */

/** Puts and steps without which a plan takes what allgathers say. */
static void sift_link(struct sieve *sieve, enum wring_level level)
{
    struct wring_profile_link *link = &sieve->profile->links[level];
    uint32_t left = 0;

    if (note_noise(sieve, &link->put.latency.trust) || note_noise(sieve, &link->put.each.trust)) {
        say_it_comes_again(sieve, wring_level_name(level), "-node put");
        link->put = (struct wring_profile_put){0};
    }
    for (uint32_t i = 0; i < link->n_routines; i++) {
        const struct wring_profile_routine *routine = &link->routines[i];
        char what[32];
        snprintf(what, sizeof(what), "-node %.15s", routine->name);
        if (note_noise(sieve, &routine->latency_trust) || note_noise(sieve, &routine->trust))
            say_it_comes_again(sieve, wring_level_name(level), what);
        else
            link->routines[left++] = *routine;
    }
    link->n_routines = left;
}

static int sift_links(struct sieve *sieve)
{
    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &sieve->profile->links[level];
        if (note_noise(sieve, &link->latency_trust) || note_noise(sieve, &link->trust))
            return refuse_noise(sieve, "links");
        sift_link(sieve, (enum wring_level)level);
    }
    return WRING_EXIT_OK;
}

/* ---- codecs ---- */

static bool note_coding_noise(struct sieve *sieve, const struct wring_profile_coding *coding)
{
    return note_noise(sieve, &coding->encode_trust) || note_noise(sieve, &coding->decode_trust) ||
           note_noise(sieve, &coding->decode_add_trust);
}

/** Without it adding a code counts as decoding and adding it does. */
static void sift_sum(struct sieve *sieve, const char *spec, const char *what,
                     const struct wring_profile_trust *trust, struct wring_cost *us)
{
    char text[96];

    if (us->n == 0 || !note_noise(sieve, trust))
        return;
    snprintf(text, sizeof(text), ", adding its codes%s", what);
    say_it_is_asked_for(sieve, spec, text);
    *us = (struct wring_cost){.n = 0};
}

static void sift_coders(struct sieve *sieve, struct wring_profile_codec *codec)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < codec->n_coders; i++) {
        struct wring_profile_coder *coder = &codec->coders[i];
        char what[64];
        if (coder->cores > 0)
            snprintf(what, sizeof(what), " on %u pinned cores", coder->cores);
        else
            snprintf(what, sizeof(what), " inline, with %.15s kernels,", coder->tier);
        sift_sum(sieve, codec->spec, what, &coder->sum.trust, &coder->sum.us);
        if (note_noise(sieve, &coder->encode.trust) || note_noise(sieve, &coder->decode.trust) ||
            note_noise(sieve, &coder->decode_add.trust))
            say_it_is_asked_for(sieve, codec->spec, what);
        else
            codec->coders[left++] = *coder;
    }
    codec->n_coders = left;
}

static void sift_codecs(struct sieve *sieve)
{
    struct wring_profile *profile = sieve->profile;
    uint32_t left = 0;

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        struct wring_profile_codec *codec = &profile->codecs[i];
        bool now = was_coding_measured(sieve->job, codec->spec);
        if (now && note_coding_noise(sieve, &codec->at[WRING_SITE_CPU])) {
            say_it_comes_again(sieve, codec->spec, ", coded by one core,");
            continue;
        }
        if (now) {
            struct wring_profile_coding *coding = &codec->at[WRING_SITE_CPU];
            sift_sum(sieve, codec->spec, " by one core,", &coding->sum_trust, &coding->sum_us);
            sift_coders(sieve, codec);
        }
        if (left != i)
            profile->codecs[left] = *codec;
        left++;
    }
    profile->n_codecs = left;
}

/* ---- collectives ---- */

static bool note_collective_noise(struct sieve *sieve,
                                  const struct wring_measured_collective *collective)
{
    return note_noise(sieve, &collective->solo.trust) ||
           note_noise(sieve, &collective->busy.trust) || note_noise(sieve, &collective->cpu.trust);
}

static bool note_codec_noise(struct sieve *sieve, const char *spec)
{
    for (uint32_t i = 0; i < sieve->profile->n_collectives; i++)
        if (strcmp(sieve->profile->collectives[i].codec, spec) == 0 &&
            note_collective_noise(sieve, &sieve->profile->collectives[i]))
            return true;
    return false;
}

/** Drop all collectives of a codec: if only one scheme were missing, a user would not notice. */
static void drop_collectives(struct wring_profile *profile, const char *spec)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < profile->n_collectives; i++)
        if (strcmp(profile->collectives[i].codec, spec) != 0)
            profile->collectives[left++] = profile->collectives[i];
    profile->n_collectives = left;
}

/** Fails if every codec that was asked for is dropped. */
static int sift_collectives(struct sieve *sieve)
{
    const struct wring_collective_bench_codecs *codecs = &sieve->job->wants.codecs;
    uint32_t dropped = 0;

    for (uint32_t i = 0; i < codecs->n; i++) {
        if (!note_codec_noise(sieve, codecs->specs[i]))
            continue;
        if (strcmp(codecs->specs[i], "none") == 0)
            return refuse_noise(sieve, "raw collectives");
        say_it_comes_again(sieve, codecs->specs[i], "'s collective");
        drop_collectives(sieve->profile, codecs->specs[i]);
        dropped++;
    }
    return dropped > 0 && dropped == codecs->n ? refuse_noise(sieve, "collectives") : WRING_EXIT_OK;
}

/* ---- all of it ---- */

int wring_calibrate_sift(const struct wring_calibration *job, struct wring_profile *profile)
{
    struct sieve sieve = {.job = job, .profile = profile};
    int code = job->wants.links ? sift_links(&sieve) : WRING_EXIT_OK;

    if (code == WRING_EXIT_OK && job->wants.copies && note_noise(&sieve, &profile->copy_trust))
        return refuse_noise(&sieve, "copies");
    if (code == WRING_EXIT_OK)
        code = sift_collectives(&sieve);
    if (code == WRING_EXIT_OK)
        sift_codecs(&sieve);
    return code;
}
