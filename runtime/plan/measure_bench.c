/* SPDX-License-Identifier: Apache-2.0 */
/* Which ways there are to measure, and the buckets that it takes. */
#include "runtime/plan/measure_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/commit/commit.h"
#include "runtime/group/group_nodes.h"

uint32_t wring_measure_batch(uint32_t size)
{
    static const uint32_t batches[WRING_MEASURE_SIZES] = {16, 16, 16, 16, 8, 4, 3, 2};
    return batches[size];
}

/* ---- what is measured ---- */

static void add_way(struct wring_measure_bench *bench, uint32_t codec, enum wring_scheme scheme)
{
    struct wring_measure_way *way = &bench->ways[bench->n++];

    way->codec = codec;
    way->scheme = scheme;
    way->n = bench->first;
}

/** Are there nodes that hierarchical schemes are made for, and is that wanted? */
static bool has_nodes(const struct wring_measure_bench *bench)
{
    struct wring_group_nodes nodes = wring_group_count_nodes(bench->session->world);
    return !bench->params->flat && wring_group_nodes_fit(&nodes);
}

/** Of a codec of which each of these flat schemes can be; the hierarchical ones follow. */
static void add_schemes(struct wring_measure_bench *bench, uint32_t codec, bool divisible,
                        bool indivisible)
{
    uint32_t hierarchical = has_nodes(bench) ? WRING_SCHEME_HIERARCHICAL : 0;

    for (uint32_t base = 0; base <= hierarchical; base += WRING_SCHEME_HIERARCHICAL) {
        if (divisible)
            add_way(bench, codec, (enum wring_scheme)(base + WRING_SCHEME_DIVISIBLE));
        if (indivisible)
            add_way(bench, codec, (enum wring_scheme)(base + WRING_SCHEME_INDIVISIBLE));
    }
}

/** Of none: between nodes it chooses for itself, whatever it does between all ranks. */
static void add_raw(struct wring_measure_bench *bench, uint32_t codec)
{
    if (bench->params->every_scheme) {
        add_way(bench, codec, WRING_SCHEME_DIVISIBLE);
        add_way(bench, codec, WRING_SCHEME_INDIVISIBLE);
    } else {
        add_way(bench, codec, WRING_SCHEME_AUTO);
    }
    if (has_nodes(bench))
        add_way(bench, codec, WRING_SCHEME_HIERARCHICAL);
}

/** The schemes that there are for a codec. */
static enum wring_status add_ways(struct wring_measure_bench *bench, uint32_t codec)
{
    const struct wring_measure_params *params = bench->params;
    struct wring_codec *made;
    enum wring_status status =
        wring_codec_create(params->codecs.specs[codec], bench->session->config.cpu,
                           bench->session->codecs, NULL, 0, &made);

    if (status != WRING_OK)
        return status;
    const struct wring_codec_info *info = wring_codec_info(made);
    if (info->flags & WRING_CODEC_RAW)
        add_raw(bench, codec);
    else
        add_schemes(bench, codec, info->unit != 0, (info->flags & WRING_CODEC_TWO_WAYS) == 0);
    wring_codec_destroy(made);
    return WRING_OK;
}

uint64_t wring_measure_fit_memory(uint64_t max_elems, uint32_t n_codecs, uint32_t ranks_per_node)
{
    uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    uint64_t per_elem = (3 + 2 * 3 * (uint64_t)n_codecs) * sizeof(float);
    uint64_t largest = wring_measure_size(WRING_MEASURE_SIZES - 1);

    max_elems = max_elems < largest ? max_elems : largest;
    while (max_elems > 1024 && max_elems * per_elem > room / ranks_per_node)
        max_elems /= 4;
    return max_elems;
}

static void choose_sizes(struct wring_measure_bench *bench)
{
    const struct wring_measure_params *params = bench->params;
    uint64_t most =
        wring_measure_fit_memory(params->max_elems, params->codecs.n, params->ranks_per_node);

    bench->sizes = bench->first + 2;
    while (bench->sizes < WRING_MEASURE_SIZES && wring_measure_size(bench->sizes) <= most)
        bench->sizes++;
}

/** What all ranks can do and want: the least of each. */
static enum wring_status agree_on_limits(struct wring_measure_bench *bench)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    bench->budget_ns = bench->params->budget_ns;
    wring_write_u32(&writer, bench->sizes);
    wring_write_u64(&writer, bench->budget_ns);
    enum wring_status status = wring_session_exchange_writer(bench->session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < bench->session->size; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, i);
        uint32_t sizes = wring_read_u32(&in);
        uint64_t budget_ns = wring_read_u64(&in);
        if (in.failed || sizes <= bench->first)
            status = WRING_ERR_FRAME;
        bench->sizes = sizes < bench->sizes ? sizes : bench->sizes;
        bench->budget_ns = budget_ns < bench->budget_ns ? budget_ns : bench->budget_ns;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/* ---- memory and buckets ---- */

/** Bell-shaped, as gradients are: the sum of four dice. */
static void fill(float *data, uint64_t elems, uint32_t rank)
{
    uint64_t random = rank + 1;

    for (uint64_t i = 0; i < elems; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t dice = (random >> 16 & 0xfff) + (random >> 28 & 0xfff) + (random >> 40 & 0xfff) +
                        (random >> 52 & 0xfff);
        data[i] = (float)((int)dice - 2 * 0xfff) * 0x1p-13f;
    }
}

/** The ranks of a node fill a last cache together. */
static size_t cold_bytes(const struct wring_measure_bench *bench)
{
    size_t bytes = WRING_MEASURE_LAST_BYTES / bench->params->ranks_per_node;

    return bytes > WRING_MEASURE_OWN_BYTES ? bytes : WRING_MEASURE_OWN_BYTES;
}

static enum wring_status make_memory(struct wring_measure_bench *bench)
{
    uint64_t elems = wring_measure_size(bench->sizes - 1), all = 0;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        if (all < wring_measure_batch(size) * wring_measure_size(size))
            all = wring_measure_batch(size) * wring_measure_size(size);
    bench->source = malloc(elems * sizeof(float));
    bench->cold_words = cold_bytes(bench) / sizeof(*bench->cold);
    bench->cold = calloc(bench->cold_words, sizeof(*bench->cold));
    if (bench->source == NULL || bench->cold == NULL)
        return WRING_ERR_NO_MEMORY;
    fill(bench->source, elems, bench->session->rank);
    if (bench->params->placed)
        return wring_buffer_alloc(bench->session, all * sizeof(float), (void **)&bench->data);
    bench->data = malloc(all * sizeof(float));
    return bench->data != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static enum wring_status register_numbers(struct wring_measure_bench *bench)
{
    struct wring_bucket_params params = {.name = "measure.slowest",
                                         .data = bench->words,
                                         .elems = WRING_MEASURE_WORDS,
                                         .dtype = WRING_F64,
                                         .op = WRING_MAX};
    enum wring_status status = wring_bucket_register(bench->session, &params, &bench->words_bucket);

    if (status != WRING_OK)
        return status;
    params = (struct wring_bucket_params){.name = "measure.mean",
                                          .data = &bench->mean,
                                          .elems = 1,
                                          .dtype = WRING_F64,
                                          .op = WRING_AVG};
    return wring_bucket_register(bench->session, &params, &bench->mean_bucket);
}

static enum wring_status register_bucket(struct wring_measure_bench *bench, uint32_t codec,
                                         enum wring_scheme scheme, uint32_t size, uint32_t k,
                                         struct wring_bucket **out)
{
    char name[WRING_NAME_MAX];
    const struct wring_bucket_params params = {.name = name,
                                               .data = bench->data + k * wring_measure_size(size),
                                               .elems = wring_measure_size(size),
                                               .codec = bench->params->codecs.specs[codec],
                                               .scheme = scheme};

    snprintf(name, sizeof(name), "measure.%u.%d.%u.%u", codec, scheme, size, k);
    return wring_bucket_register(bench->session, &params, out);
}

static enum wring_status register_way(struct wring_measure_bench *bench,
                                      struct wring_measure_way *way)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes; size++)
        for (uint32_t k = 0; k < wring_measure_batch(size) && status == WRING_OK; k++)
            status =
                register_bucket(bench, way->codec, way->scheme, size, k, &way->buckets[size][k]);
    return status;
}

/** Buckets that are asked what "auto" is of them. */
static enum wring_status register_asked(struct wring_measure_bench *bench, uint32_t codec)
{
    enum wring_status status = WRING_OK;

    for (uint32_t size = bench->first; size < bench->sizes && status == WRING_OK; size++)
        status =
            register_bucket(bench, codec, WRING_SCHEME_AUTO, size, 0, &bench->asked[codec][size]);
    return status;
}

static enum wring_status ask(struct wring_measure_bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t codec = 0; codec < bench->params->codecs.n; codec++)
        for (uint32_t size = bench->first; size < bench->sizes && status == WRING_OK; size++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            status = wring_bucket_stats(bench->asked[codec][size], &stats);
            bench->auto_is[codec][size] = strcmp(stats.scheme, "indivisible") == 0
                                              ? WRING_SCHEME_INDIVISIBLE
                                              : WRING_SCHEME_DIVISIBLE;
        }
    return status;
}

static enum wring_status register_all(struct wring_measure_bench *bench)
{
    const struct wring_measure_params *params = bench->params;
    enum wring_status status = make_memory(bench);

    if (status == WRING_OK)
        status = register_numbers(bench);
    for (uint32_t i = 0; i < params->codecs.n && status == WRING_OK; i++) {
        status = add_ways(bench, i);
        if (status == WRING_OK && params->every_scheme)
            status = register_asked(bench, i);
    }
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++)
        status = register_way(bench, &bench->ways[w]);
    return status;
}

enum wring_status wring_measure_prepare(struct wring_measure_bench *bench)
{
    choose_sizes(bench);
    enum wring_status status = agree_on_limits(bench);
    if (status == WRING_OK) /* each of it on all ranks or on none */
        status = wring_commit_passing(bench->session, register_all(bench));
    return status == WRING_OK && bench->params->every_scheme ? ask(bench) : status;
}

void wring_measure_clear(struct wring_measure_bench *bench)
{
    wring_commit_forget_passing(bench->session, bench->real);
    if (bench->params->placed)
        wring_buffer_free(bench->session, bench->data);
    else
        free(bench->data);
    free(bench->source);
    free(bench->cold);
}
