/* SPDX-License-Identifier: Apache-2.0 */
/** How elements are cut: shards and chunks are a partition, and fit where they are sent. */
#include "tests/lib/test.h"
#include "transport/collective/collective.h"

#define SHARDS_MAX 9

static const char *const specs[] = {
    NULL,
    "bf16",
    "int8",
    "int8:block=512",
    "onebit",
    "onebit:block=128",
    "onebit+ef",
    "topk:ratio=0.01",
    "topk:ratio=0.01+ef",
    "topk:ratio=0.5",
};
static const size_t chunk_sizes[] = {1, 128, 4096, 5000, 65536, 256 << 10, 1 << 26};
static const uint64_t counts[] = {0,
                                  1,
                                  2,
                                  31,
                                  32,
                                  33,
                                  127,
                                  128,
                                  129,
                                  511,
                                  513,
                                  4095,
                                  4096,
                                  65537,
                                  99991,
                                  1 << 20,
                                  (1 << 20) + 17,
                                  (1ull << 33) + 5};

struct subject {
    const char *spec;
    struct wring_codec *codec;
    uint32_t elem_bytes; /* of raw ones; codecs take float32 */
    struct wring_partition partition;
    size_t chunk_bytes;
};

#define WHO(s)                                                                           \
    "%s, %llu elements of %u bytes, %u shards, chunks of %zu bytes",                     \
        (s)->spec != NULL ? (s)->spec : "raw", (unsigned long long)(s)->partition.elems, \
        (s)->elem_bytes, (s)->partition.shards, (s)->chunk_bytes

static bool is_cut(const struct wring_partition *partition, uint64_t at)
{
    return at % partition->grain == 0 || at == partition->elems;
}

/** The grain holds whole units, and a full chunk fits into its bytes unless it is one grain. */
static void check_sizes(const struct subject *s)
{
    const struct wring_partition *g = &s->partition;
    uint64_t unit = s->codec != NULL ? wring_codec_info(s->codec)->unit : 1;
    if (unit == 0)
        unit = g->elems > 0 ? g->elems : 1;
    CHECK(g->grain >= 32 && g->grain % unit == 0, WHO(s));
    CHECK(g->chunk_elems >= g->grain && g->chunk_elems % g->grain == 0, WHO(s));
    if (g->chunk_elems == g->grain)
        return;
    size_t bytes = s->codec != NULL ? wring_codec_bound(s->codec, g->chunk_elems)
                                    : (size_t)g->chunk_elems * s->elem_bytes;
    CHECK(bytes <= s->chunk_bytes, WHO(s));
    CHECK(g->chunk_elems <= wring_partition_most(s->chunk_bytes), WHO(s));
}

/** Of a span with very many chunks the first, the last and some between are looked at. */
static uint64_t next_chunk(uint64_t chunk, uint64_t n)
{
    return chunk < 100 || chunk + 100 >= n ? chunk + 1 : chunk + (n - chunk) / 3;
}

static void check_chunks(const struct subject *s, struct wring_span span)
{
    const struct wring_partition *g = &s->partition;
    uint64_t n = wring_partition_chunks(g, span), last = UINT64_MAX, end = span.begin;
    struct wring_span first = wring_partition_chunk(g, span, 0); /* slots are made for this one */
    size_t slot = s->codec != NULL ? wring_codec_bound(s->codec, first.end - first.begin) : 0;
    CHECK((n == 0) == (span.begin == span.end), WHO(s));
    for (uint64_t i = 0; i < n; i = next_chunk(i, n)) {
        struct wring_span chunk = wring_partition_chunk(g, span, i);
        uint64_t elems = chunk.end - chunk.begin;
        CHECK(chunk.begin < chunk.end && elems <= g->chunk_elems, WHO(s));
        CHECK(chunk.begin == span.begin + i * g->chunk_elems, WHO(s));
        CHECK(is_cut(g, chunk.begin) && is_cut(g, chunk.end), WHO(s));
        CHECK(i + 1 == n || elems == g->chunk_elems, WHO(s));
        if (last + 1 == i)
            CHECK(chunk.begin == end, WHO(s));
        if (s->codec != NULL)
            CHECK(wring_codec_bound(s->codec, elems) <= slot, WHO(s));
        end = chunk.end;
        last = i;
    }
    CHECK(end == span.end, WHO(s));
}

static void check_shards(const struct subject *s)
{
    const struct wring_partition *g = &s->partition;
    uint64_t end = 0, largest = 0, smallest = UINT64_MAX;
    struct wring_span first = wring_partition_shard(g, 0); /* slots are made for this one */
    for (uint32_t i = 0; i < g->shards; i++) {
        struct wring_span span = wring_partition_shard(g, i);
        CHECK(span.begin == end && span.begin <= span.end, WHO(s));
        CHECK(is_cut(g, span.begin) && is_cut(g, span.end), WHO(s));
        CHECK(span.end - span.begin <= first.end - first.begin, WHO(s));
        uint64_t grains = (span.end - span.begin + g->grain - 1) / g->grain;
        largest = grains > largest ? grains : largest;
        smallest = grains < smallest ? grains : smallest;
        check_chunks(s, span);
        end = span.end;
    }
    CHECK(end == g->elems, WHO(s));
    CHECK(largest - smallest <= 1, WHO(s));
    check_chunks(s, (struct wring_span){0, g->elems});
}

static void check_counts(struct subject *s)
{
    uint64_t unit = s->codec != NULL ? wring_codec_info(s->codec)->unit : 1;
    for (size_t c = 0; c < sizeof(chunk_sizes) / sizeof(chunk_sizes[0]); c++)
        for (size_t e = 0; e < sizeof(counts) / sizeof(counts[0]); e++) {
            if (unit == 0 && counts[e] > 1 << 30)
                continue; /* one unit of so many elements is beyond what its codec takes */
            s->chunk_bytes = chunk_sizes[c];
            for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++) {
                s->partition = wring_partition_make(counts[e], s->elem_bytes, shards, s->codec,
                                                    s->chunk_bytes);
                CHECK(s->partition.elems == counts[e] && s->partition.shards == shards, WHO(s));
                check_sizes(s);
                check_shards(s);
            }
        }
}

/** Every size of chunks there is room for a few grains in: the last one must not be too much. */
static void check_tight_chunks(struct subject *s)
{
    for (s->chunk_bytes = 1; s->chunk_bytes < 9000; s->chunk_bytes++) {
        s->partition = wring_partition_make(1 << 20, s->elem_bytes, 3, s->codec, s->chunk_bytes);
        check_sizes(s);
    }
}

static void raw_elements_of_all_sizes(void)
{
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2) {
        struct subject subject = {.elem_bytes = bytes};
        check_counts(&subject);
        check_tight_chunks(&subject);
    }
}

static void shards_and_chunks_are_partitions(void)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct subject subject = {.spec = specs[i], .elem_bytes = 4};
        char why[128];
        if (specs[i] != NULL)
            REQUIRE(wring_codec_create(specs[i], "scalar", NULL, why, sizeof(why),
                                       &subject.codec) == WRING_OK,
                    "%s: %s", specs[i], why);
        check_counts(&subject);
        check_tight_chunks(&subject);
        wring_codec_destroy(subject.codec);
    }
}

/** Runs of each member's own: one after the other, cut alike, and for codecs each begins a grain.
 */
static void runs_of_each_member(void)
{
    static const uint64_t runs[] = {0, 1, 31, 32, 100, 513, 10007};
    struct wring_codec *codec;
    REQUIRE(wring_codec_create("int8:block=64", "scalar", NULL, NULL, 0, &codec) == WRING_OK,
            "codec");
    for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
        struct wring_partition g = wring_partition_make(runs[r], 4, 5, codec, 4096);
        uint64_t begin = 0, taken = 0;
        g.each = true;
        for (uint32_t i = 0; i < 5; i++) {
            struct wring_span run = wring_partition_shard(&g, i);
            CHECK(run.begin == begin && run.end == begin + runs[r], "run %u of %zu", i, r);
            for (uint64_t c = 0; c < wring_partition_chunks(&g, run); c++) {
                struct wring_span chunk = wring_partition_chunk(&g, run, c);
                uint64_t element = wring_partition_element(&g, chunk.begin);
                CHECK(chunk.begin == begin && chunk.end <= run.end, "chunk %zu", (size_t)c);
                CHECK(element % 64 == 0 && element >= taken, "codecs take it to be at %zu",
                      (size_t)element);
                taken = element + (chunk.end - chunk.begin);
                begin = chunk.end;
            }
            CHECK(begin == run.end, "run %u of %zu ends early", i, r);
        }
    }
    wring_codec_destroy(codec);
}

/** As WIRE.md says, in numbers: 1000 elements, raw, three shards, chunks of 512 bytes. */
static void a_worked_example(void)
{
    struct wring_partition g = wring_partition_make(1000, 4, 3, NULL, 512);
    static const struct wring_span want[] = {{0, 352}, {352, 704}, {704, 1000}};
    CHECK(g.grain == 32 && g.chunk_elems == 128, "%llu %llu", (unsigned long long)g.grain,
          (unsigned long long)g.chunk_elems);
    for (uint32_t i = 0; i < 3; i++) {
        struct wring_span span = wring_partition_shard(&g, i);
        CHECK(span.begin == want[i].begin && span.end == want[i].end, "shard %u", i);
        CHECK(wring_partition_chunks(&g, span) == 3, "chunks of %u", i);
    }
    struct wring_span last = wring_partition_chunk(&g, want[2], 2);
    CHECK(last.begin == 960 && last.end == 1000, "last chunk");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"shards_and_chunks_are_partitions", shards_and_chunks_are_partitions},
        {"raw_elements_of_all_sizes", raw_elements_of_all_sizes},
        {"runs_of_each_member", runs_of_each_member},
        {"a_worked_example", a_worked_example},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
