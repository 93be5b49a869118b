/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a profile: what a plan depends on. What nobody has said adds nothing to it, so that
 * profiles of times when it could not be said keep theirs. */
#include <math.h>
#include <string.h>

#include "planner/files/hash.h"
#include "planner/files/profile.h"
#include "planner/files/profile_errors.h"

static void write_cost(struct wring_writer *writer, const struct wring_cost *cost)
{
    wring_write_u32(writer, cost->n);
    wring_write_double(writer, cost->slope);
    for (uint32_t i = 0; i < cost->n; i++) {
        wring_write_double(writer, cost->corners[i].x);
        wring_write_double(writer, cost->corners[i].y);
    }
}

/** Nothing where nobody has said. */
static void write_trust(struct wring_writer *writer, const struct wring_profile_trust *trust)
{
    if (trust->samples == 0)
        return;
    wring_write_double(writer, trust->error);
    wring_write_double(writer, trust->spread);
    wring_write_double(writer, trust->doubt);
    wring_write_u32(writer, trust->samples);
    wring_write_u32(writer, trust->points);
    wring_write_u32(writer, trust->noisy);
    if (trust->doubtful > 0)
        wring_write_u32(writer, trust->doubtful);
}

static void write_curve(struct wring_writer *writer, const struct wring_profile_curve *curve)
{
    write_cost(writer, &curve->us);
    write_trust(writer, &curve->trust);
}

static void write_text(struct wring_writer *writer, const char *text)
{
    wring_write_sized(writer, text, strlen(text));
}

static void write_coding(struct wring_writer *writer, const struct wring_profile_coding *coding)
{
    wring_write_u32(writer, coding->present);
    if (!coding->present)
        return;
    write_cost(writer, &coding->encode_us);
    write_cost(writer, &coding->decode_us);
    write_trust(writer, &coding->encode_trust);
    write_trust(writer, &coding->decode_trust);
    if (coding->decode_add_us.n == 0)
        return;
    write_cost(writer, &coding->decode_add_us);
    write_trust(writer, &coding->decode_add_trust);
}

static void write_routine(struct wring_writer *writer, const struct wring_profile_routine *routine)
{
    write_text(writer, routine->name);
    wring_write_double(writer, routine->latency_us);
    write_cost(writer, &routine->us);
    write_trust(writer, &routine->latency_trust);
    write_trust(writer, &routine->trust);
}

static void write_link(struct wring_writer *writer, const struct wring_profile_link *link)
{
    wring_write_u32(writer, link->present);
    if (!link->present)
        return;
    write_text(writer, link->provider);
    wring_write_double(writer, link->latency_us);
    write_cost(writer, &link->us);
    write_trust(writer, &link->trust);
    write_trust(writer, &link->latency_trust);
    if (link->put.latency.us.n > 0) {
        write_curve(writer, &link->put.latency);
        write_curve(writer, &link->put.each);
    }
    for (uint32_t i = 0; i < link->n_routines; i++)
        write_routine(writer, &link->routines[i]);
}

static void write_codec(struct wring_writer *writer, const struct wring_profile_codec *codec)
{
    write_text(writer, codec->spec);
    wring_write_u32(writer, codec->summable);
    wring_write_u32(writer, codec->feedback);
    wring_write_double(writer, isnan(codec->nmse) ? -1 : codec->nmse);
    write_cost(writer, &codec->wire_bytes);
    for (int place = 0; place < WRING_PLACES; place++) {
        write_coding(writer, &codec->at[place]);
        write_coding(writer, &codec->two_level[place]);
    }
    for (uint32_t i = 0; i < codec->n_coders; i++) {
        wring_write_u32(writer, codec->coders[i].cores);
        write_text(writer, codec->coders[i].tier);
        write_curve(writer, &codec->coders[i].encode);
        write_curve(writer, &codec->coders[i].decode);
        if (codec->coders[i].decode_add.us.n > 0)
            write_curve(writer, &codec->coders[i].decode_add);
    }
}

static void write_way(struct wring_writer *writer, const struct wring_profile_way *way)
{
    write_text(writer, way->codec);
    write_text(writer, way->run_as);
    wring_write_u32(writer, way->ranks);
    wring_write_u32(writer, way->cores);
    wring_write_double(writer, (double)way->max_elems);
    write_curve(writer, &way->solo);
    write_curve(writer, &way->busy);
    write_curve(writer, &way->cpu);
    write_cost(writer, &way->wire_bytes);
    if (way->chunk_bytes == 0 && way->coder_cores == 0)
        return; /* nobody has said */
    wring_write_u32(writer, way->coder_cores);
    wring_write_double(writer, (double)way->chunk_bytes);
}

static void write_computing(struct wring_writer *writer,
                            const struct wring_profile_computing *computing)
{
    if (!computing->present)
        return;
    wring_write_double(writer, computing->wake_us);
    wring_write_double(writer, computing->wake_doubt_us);
    wring_write_double(writer, computing->spin_lost);
    wring_write_double(writer, computing->spin_doubt);
    if (computing->core_share > 0)
        wring_write_double(writer, computing->core_share);
    if (computing->spin_codec[0] != '\0') {
        write_text(writer, computing->spin_codec);
        wring_write_double(writer, computing->spin_coded_lost);
        wring_write_double(writer, computing->spin_coded_doubt);
    }
    wring_write_u32(writer, computing->samples);
}

/** Nothing where nothing of it was measured. */
static void write_measured(struct wring_writer *writer, const struct wring_profile *profile)
{
    if (profile->copy_us.n == 0 && profile->n_ways == 0)
        return;
    write_cost(writer, &profile->copy_us);
    write_trust(writer, &profile->copy_trust);
    wring_write_u32(writer, profile->n_ways);
    for (uint32_t i = 0; i < profile->n_ways; i++)
        write_way(writer, &profile->ways[i]);
}

enum wring_status wring_profile_rehash(struct wring_profile *profile)
{
    struct wring_writer writer = {0};

    write_text(&writer, profile->machine);
    wring_write_u32(&writer, profile->nodes);
    wring_write_u32(&writer, profile->ranks_per_node);
    wring_write_u32(&writer, profile->chunked);
    for (int level = 0; level < WRING_LEVELS; level++)
        write_link(&writer, &profile->links[level]);
    wring_write_u32(&writer, profile->n_codecs);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        write_codec(&writer, &profile->codecs[i]);
    write_measured(&writer, profile);
    wring_profile_write_errors(&writer, &profile->errors);
    write_computing(&writer, &profile->computing);
    return wring_hash(&writer, &profile->hash);
}
