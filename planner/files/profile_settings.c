/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/profile_settings.h"

#include <stdlib.h>
#include <string.h>

static bool is_said(const struct wring_profile_way *way, const struct wring_setting *setting)
{
    return way->coder_cores == setting->cores && way->chunk_bytes == setting->chunk_bytes;
}

/** The same exchange, with whatever setting. */
static bool is_same_way(const struct wring_profile_way *a, const struct wring_profile_way *b)
{
    return strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores;
}

static bool are_alike(const struct wring_profile_way *a, const struct wring_profile_way *b)
{
    struct wring_setting x = wring_profile_way_setting(a), y = wring_profile_way_setting(b);

    return is_same_way(a, b) && x.cores == y.cores && x.chunk_bytes == y.chunk_bytes;
}

enum wring_status wring_profile_set_aside(struct wring_profile *profile,
                                          const struct wring_setting *setting,
                                          struct wring_profile_aside *aside)
{
    uint32_t left = 0;

    aside->n = 0;
    aside->ways = calloc((size_t)profile->n_ways + 1, sizeof(*aside->ways));
    if (aside->ways == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < profile->n_ways; i++)
        if (is_said(&profile->ways[i], setting))
            profile->ways[left++] = profile->ways[i];
        else
            aside->ways[aside->n++] = profile->ways[i];
    profile->n_ways = left;
    return WRING_OK;
}

/** Those that nobody measured anew. @return how many */
static uint32_t list_others(const struct wring_profile_aside *aside,
                            const struct wring_profile *profile, struct wring_profile_way *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < aside->n; i++) {
        uint32_t same = 0;
        while (same < profile->n_ways && !are_alike(&profile->ways[same], &aside->ways[i]))
            same++;
        if (same == profile->n_ways)
            out[n++] = aside->ways[i];
    }
    return n;
}

static bool is_default(const struct wring_setting *setting)
{
    return setting->cores == 0 &&
           (setting->chunk_bytes == 0 || setting->chunk_bytes == WRING_SETTING_CHUNK_BYTES);
}

enum wring_status wring_profile_bring_back(struct wring_profile *profile,
                                           const struct wring_setting *setting,
                                           struct wring_profile_aside *aside)
{
    uint32_t n = profile->n_ways, others, begin;
    struct wring_profile_way *all = calloc((size_t)n + aside->n + 1, sizeof(*all));

    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        profile->ways[i].coder_cores = setting->cores;
        profile->ways[i].chunk_bytes = setting->chunk_bytes;
    }
    others = list_others(aside, profile, all);
    begin = is_default(setting) ? 0 : others; /* the default's come first */
    memmove(all + (begin == 0 ? n : 0), all, others * sizeof(*all));
    if (n > 0)
        memcpy(all + begin, profile->ways, n * sizeof(*all));
    free(profile->ways);
    free(aside->ways);
    *aside = (struct wring_profile_aside){0};
    profile->ways = all;
    profile->n_ways = n + others;
    return WRING_OK;
}

void wring_profile_label_ways(struct wring_profile *profile, const struct wring_setting *setting)
{
    for (uint32_t i = 0; i < profile->n_ways; i++)
        if (profile->ways[i].chunk_bytes == 0) {
            profile->ways[i].coder_cores = setting->cores;
            profile->ways[i].chunk_bytes = setting->chunk_bytes;
        }
}

/** Beyond `at`, as many times what the other one takes there. */
static void carry_on(struct wring_cost *us, const struct wring_cost *other, double at)
{
    double there = wring_cost_at(other, at);
    double times = there > 0 ? wring_cost_at(us, at) / there : 1;
    const struct wring_cost scaled = wring_cost_scale(other, times, 1);

    *us = wring_cost_continue(us, at, &scaled);
}

void wring_profile_carry_on(struct wring_profile *profile, const struct wring_setting *setting)
{
    for (uint32_t i = 0; i < profile->n_ways; i++) {
        struct wring_profile_way *way = &profile->ways[i];
        const struct wring_profile_way *known =
            wring_profile_way_at(profile, way->codec, way->run_as, way->ranks, setting);
        double at = (double)way->max_elems;
        if (known == NULL || !is_same_way(way, known) || known->max_elems <= way->max_elems)
            continue;
        carry_on(&way->solo.us, &known->solo.us, at);
        carry_on(&way->busy.us, &known->busy.us, at);
        carry_on(&way->cpu.us, &known->cpu.us, at);
        way->wire_bytes = wring_cost_continue(&way->wire_bytes, at, &known->wire_bytes);
        way->max_elems = known->max_elems;
    }
}
