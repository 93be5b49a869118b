/* SPDX-License-Identifier: Apache-2.0 */
/** Packed indices: the gaps by themselves, and codecs that send them against the same with short
 *  ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/codecs/gaps.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define BLOCK 65536
#define RANDOM_MAX 4294967296.0

/* ---- gaps ---- */

static const uint64_t lengths[] = {1, 2, 31, 64, 100, 256, 1000, 16384, BLOCK};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/** FORMAT.md: more never take less, all n take n bits, and short indices are beaten but by 1 or 2.
 */
static void bounds_grow(void)
{
    for (size_t l = 0; l < LENGTHS; l++) {
        uint64_t n = lengths[l];
        size_t before = wring_gaps_bound(0, n);
        CHECK(before == 0, "none take %zu bytes", before);
        for (uint64_t count = 1; count <= n; count++) {
            size_t bytes = wring_gaps_bound(count, n);
            CHECK(bytes >= before, "%d of %d: %zu bytes, one less %zu", (int)count, (int)n, bytes,
                  before);
            CHECK(bytes <= 2 * count + (count <= 2), "%d of %d: %zu bytes", (int)count, (int)n,
                  bytes);
            before = bytes;
        }
        CHECK(before == (n + 7) / 8, "all %d take %zu bytes", (int)n, before);
    }
}

/** Read all, in pieces. @return the bytes that were read; 0: they are refused */
static size_t read_all(const unsigned char *code, size_t left, uint32_t count, unsigned width,
                       uint64_t n, uint16_t *out)
{
    static struct wring_gaps gaps;
    size_t bytes = wring_gaps_open(&gaps, code, left, count, width, n);

    for (uint32_t done = 0, some; bytes != 0 && done < count; done += some) {
        some = count - done < WRING_GAPS_PIECE ? count - done : WRING_GAPS_PIECE;
        if (!wring_gaps_next(&gaps, out + done, some))
            return 0;
    }
    return bytes;
}

static void check_gaps(const uint16_t *indices, uint32_t count, uint64_t n)
{
    static uint16_t got[BLOCK];
    size_t bound = wring_gaps_bound(count, n);
    unsigned char *code = wring_test_guarded(bound);
    unsigned width = 99;
    size_t bytes = wring_gaps_put(code, indices, count, &width);

    CHECK(bytes <= bound && width <= WRING_GAPS_WIDTH_MAX, "%u of %d: %zu bytes, bound %zu", count,
          (int)n, bytes, bound);
    unsigned char *copy = wring_test_guarded(bytes); /* nothing behind them is read */
    memcpy(copy, code, bytes);
    CHECK(read_all(copy, bytes, count, width, n, got) == bytes &&
              memcmp(got, indices, count * sizeof(got[0])) == 0,
          "%u of %d come back otherwise", count, (int)n);
    CHECK(read_all(copy, bytes - 1, count, width, n, got) == 0, "%u of %d: a byte less is taken",
          count, (int)n);
    CHECK(count == indices[count - 1] + 1u ||
              read_all(copy, bytes, count, width, indices[count - 1], got) == 0,
          "%u: one outside is taken", count);
    wring_test_free_guarded();
}

/** Some of n elements: those that a draw chooses, or runs of neighbours. */
static uint32_t choose(uint16_t *indices, uint64_t n, double share, bool runs, uint32_t *random)
{
    uint32_t count = 0;
    bool chosen = false;

    for (uint64_t i = 0; i < n; i++) {
        if (!runs || i % 16 == 0)
            chosen = wring_test_random(random) < share * RANDOM_MAX;
        if (chosen)
            indices[count++] = (uint16_t)i;
    }
    return count;
}

static void gaps_come_back(void)
{
    static const double shares[] = {0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 1};
    static uint16_t indices[BLOCK];
    uint32_t random = 3;

    for (size_t l = 0; l < LENGTHS; l++)
        for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++)
            for (int runs = 0; runs < 2; runs++) {
                uint32_t count = choose(indices, lengths[l], shares[s], runs, &random);
                if (count > 0)
                    check_gaps(indices, count, lengths[l]);
            }
    for (uint32_t last = 0; last < BLOCK; last += 13) { /* few, with large gaps */
        indices[0] = (uint16_t)(last / 3), indices[1] = (uint16_t)(last / 3 * 2 + 1);
        indices[2] = (uint16_t)(last < 4 ? last + 3 : last);
        check_gaps(indices, 1, BLOCK);
        check_gaps(indices, 2, BLOCK);
        if (indices[2] > indices[1])
            check_gaps(indices, 3, BLOCK);
    }
}

/** Whatever bytes come: if they are taken, they are just those that the encoder writes. */
static void only_the_encoders_bytes_are_taken(void)
{
    static uint16_t indices[BLOCK], got[BLOCK];
    uint32_t random = 4, taken = 0;

    for (int trial = 0; trial < 200000; trial++) {
        unsigned char code[64] = {0}, again[64];
        uint64_t n = 40 + wring_test_random(&random) % 60;
        unsigned width, other;
        uint32_t count = choose(indices, n, 0.2, trial % 2 != 0, &random);
        if (count == 0)
            continue;
        size_t bytes = wring_gaps_put(code, indices, count, &width);
        code[wring_test_random(&random) % (bytes + 1)] ^= 1u << wring_test_random(&random) % 8;
        if (wring_test_random(&random) % 4 == 0)
            width = wring_test_random(&random) % 16;
        if (wring_test_random(&random) % 4 == 0)
            count = 1 + wring_test_random(&random) % (uint32_t)n;
        bytes = read_all(code, bytes, count, width, n, got);
        if (bytes == 0)
            continue;
        taken++;
        REQUIRE(wring_gaps_put(again, got, count, &other) == bytes && other == width &&
                    memcmp(again, code, bytes) == 0,
                "trial %d: other bytes than the encoder's are taken", trial);
    }
    CHECK(taken > 10000, "only %u are taken", taken);
}

/* ---- codecs ---- */

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";

    wring_codec_create(spec, NULL, NULL, why, sizeof(why), &codec);
    CHECK(codec != NULL, "%s: %s", spec, why);
    return codec;
}

/** A codec, and what a rank keeps for it. */
struct side {
    struct wring_codec *codec;
    struct wring_codec_context context;
    void *states[WRING_CODEC_STATES_MAX];
    float *residual, *out;
    size_t bytes;
};

static struct side side_of(const char *spec, uint64_t n)
{
    struct side side = {.codec = make(spec), .context = {.seed = 5, .ranks = 1, .elems = n}};

    for (uint32_t s = 0; s < WRING_CODEC_STATES_MAX; s++) {
        side.states[s] = wring_test_guarded(n * sizeof(float));
        memset(side.states[s], 0, n * sizeof(float));
    }
    side.residual = wring_test_guarded(n * sizeof(float));
    side.out = wring_test_guarded(n * sizeof(float));
    memset(side.residual, 0, n * sizeof(float));
    return side;
}

static void step_side(struct side *side, const float *x, uint64_t n)
{
    bool fed = (wring_codec_info(side->codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    size_t bound = wring_codec_bound(side->codec, n);
    unsigned char *code = wring_test_guarded(bound);

    side->context.states = side->states;
    side->bytes =
        wring_codec_encode(side->codec, &side->context, x, n, fed ? side->residual : NULL, code);
    CHECK(side->bytes <= bound, "%zu bytes, bound %zu", side->bytes, bound);
    CHECK(wring_codec_decode(side->codec, &side->context, code, side->bytes, side->out, n, false) ==
              WRING_OK,
          "%s: decode", wring_codec_info(side->codec)->spec);
    side->context.step++;
}

/** Both ways of writing indices give the same sums, and leave the same behind. */
static void check_alike(const char *const *specs, uint64_t n, float *x, uint32_t *random)
{
    struct side one = side_of(specs[0], n), other = side_of(specs[1], n);

    CHECK(wring_codec_bound(other.codec, n) <= wring_codec_bound(one.codec, n), "%s: bound",
          specs[1]);
    for (int step = 0; step < 5; step++) {
        for (uint64_t i = 0; i < n; i++)
            x[i] = step == 3 && i > n / 2 ? 0 : wring_test_random_float(random);
        step_side(&one, x, n);
        step_side(&other, x, n);
        CHECK(other.bytes <= one.bytes, "%s, %d elements: %zu bytes, short %zu", specs[1], (int)n,
              other.bytes, one.bytes);
        CHECK(memcmp(one.out, other.out, n * sizeof(float)) == 0, "%s decodes otherwise", specs[1]);
        CHECK(memcmp(one.residual, other.residual, n * sizeof(float)) == 0,
              "%s leaves something else", specs[1]);
        for (int s = 0; s < 2; s++)
            CHECK(memcmp(one.states[s], other.states[s], n * sizeof(float)) == 0, "%s: state %d",
                  specs[1], s);
    }
    wring_codec_destroy(one.codec);
    wring_codec_destroy(other.codec);
    wring_test_free_guarded();
}

static void codecs_decode_alike(void)
{
    static const char *const pairs[][2] = {
        {"topk", "topk:index=packed"},
        {"topk+ef", "topk:index=packed+ef"},
        {"topk:ratio=0.3:block=256", "topk:ratio=0.3:block=256:index=packed"},
        {"topk:select=exact:ratio=0.05+ef", "topk:select=exact:ratio=0.05:index=packed+ef"},
        {"topk:ratio=1", "topk:ratio=1:index=packed"},
        {"topk:ratio=0.05/int8+ef", "topk:ratio=0.05:index=packed/int8+ef"},
        {"topk/bf16+warmup:steps=4+ef", "topk:index=packed/bf16+warmup:steps=4+ef"},
        {"dgc:warmup=4", "dgc:warmup=4:index=packed"},
        {"dgc:ratio=0.05:block=512", "dgc:ratio=0.05:block=512:index=packed"},
        {"threshold:value=0.95+ef", "threshold:value=0.95:index=packed+ef"},
        {"threshold:value=0.5:cap=0.05", "threshold:value=0.5:cap=0.05:index=packed"},
        {"threshold:cap=1:block=256", "threshold:cap=1:block=256:index=packed"},
        {"threshold:value=0.9/int8+ef", "threshold:value=0.9:index=packed/int8+ef"},
    };
    static const uint64_t sizes[] = {1000, 16500, BLOCK + 700};
    static float x[BLOCK + 700];
    uint32_t random = 6;

    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            check_alike(pairs[p], sizes[s], x, &random);
}

/** Bits of an index of random places. The least that there is, by Shannon, is the entropy. */
static void places_take_few_bits(void)
{
    static const struct {
        double ratio, most;
    } cases[] = {{0.001, 11.7}, {0.01, 8.3}, {0.25, 3.4}};
    static float x[4 * BLOCK];
    uint32_t random = 7;

    for (int i = 0; i < 4 * BLOCK; i++)
        x[i] = wring_test_random_float(&random);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        char spec[64];
        double p = cases[c].ratio, entropy = -(log2(p) + (1 - p) / p * log2(1 - p));
        double count = 4 * ceil(p * BLOCK);
        snprintf(spec, sizeof(spec), "topk:ratio=%g:select=exact:index=packed", p);
        struct side side = side_of(spec, 4 * BLOCK);
        step_side(&side, x, 4 * BLOCK);
        double bits = ((double)side.bytes - 4 * count - 4 * 4) * 8 / count;
        CHECK(bits < cases[c].most && bits > entropy * 0.95, "%s: %.2f bits an index, entropy %.2f",
              spec, bits, entropy);
        wring_codec_destroy(side.codec);
        wring_test_free_guarded();
    }
}

static const struct wring_test_case cases[] = {
    {"bounds_grow", bounds_grow},
    {"gaps_come_back", gaps_come_back},
    {"only_the_encoders_bytes_are_taken", only_the_encoders_bytes_are_taken},
    {"codecs_decode_alike", codecs_decode_alike},
    {"places_take_few_bits", places_take_few_bits},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main_in_mode(argc, argv, cases);
}
