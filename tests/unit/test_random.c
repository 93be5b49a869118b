/* SPDX-License-Identifier: Apache-2.0 */
/** Random numbers of codecs: known answers, and what they depend on. */
#include <string.h>

#include "compress/philox.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define N 1000

/** The generator's published answers. */
static void generator(void)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t got[4];
        wring_philox(known[i].counter, known[i].key, got);
        CHECK(memcmp(got, known[i].want, sizeof(got)) == 0, "answer %zu: %08x...", i, got[0]);
    }
}

/** What another implementation of FORMAT.md's text gives. */
static void format(void)
{
    static const uint32_t shared[] = {0x22e64e84, 0xac07eca1, 0x9bc0713c, 0x9139e071},
                          own[] = {0x1609c52d, 0xdc52ef16};
    const struct wring_codec_context in = {.seed = 1234, .bucket = 77, .rank = 2, .step = 5};
    struct wring_codec_context back = in;
    uint32_t got[4];

    wring_codec_random(&in, WRING_DRAW_SHARED, 100, got, 4);
    CHECK(memcmp(got, shared, sizeof(shared)) == 0, "shared: %08x %08x", got[0], got[1]);
    back.phase = 1;
    wring_codec_random(&back, WRING_DRAW_PRIVATE, UINT64_C(1) << 40, got, 2);
    CHECK(memcmp(got, own, sizeof(own)) == 0, "private: %08x %08x", got[0], got[1]);
}

/** An element's number is its own, in whatever run it is drawn. */
static void runs(void)
{
    const struct wring_codec_context context = {.seed = 9, .bucket = 3, .rank = 1, .step = 2};
    static uint32_t whole[N], part[N];

    wring_codec_random(&context, WRING_DRAW_PRIVATE, 0, whole, N);
    for (uint64_t begin = 0; begin < 9; begin++)
        for (size_t n = 0; n < 11; n++) {
            memset(part, 0, sizeof(part));
            wring_codec_random(&context, WRING_DRAW_PRIVATE, begin, part, n);
            CHECK(memcmp(part, whole + begin, n * sizeof(part[0])) == 0 && part[n] == 0,
                  "%zu words from %d", n, (int)begin);
        }
}

/** Kernels that draw many at a time draw the same. */
static void streams(void)
{
    const struct wring_codec_context context = {
        .seed = 9, .bucket = 3, .rank = 1, .step = UINT64_C(5) << 32, .phase = 1};
    const uint64_t begin = UINT64_C(3) << 33;
    static uint32_t want[N], got[N];

    for (int draw = WRING_DRAW_PRIVATE; draw <= WRING_DRAW_SHARED; draw++) {
        struct wring_philox_stream stream = wring_codec_stream(&context, draw);
        wring_codec_random(&context, draw, begin, want, N);
        for (const struct wring_philox_tier *tier = wring_philox_tiers; tier->head.name; tier++) {
            if (!wring_cpu_has(tier->head.tier))
                continue;
            memset(got, 0, sizeof(got));
            tier->kernels->words(got, &stream, begin / WRING_PHILOX_WORDS, N / WRING_PHILOX_WORDS);
            CHECK(memcmp(got, want, sizeof(want)) == 0, "%s draws others", tier->head.name);
        }
    }
}

static uint32_t first(struct wring_codec_context context, enum wring_codec_draw draw)
{
    uint32_t word;
    wring_codec_random(&context, draw, 40, &word, 1);
    return word;
}

static void dependence(void)
{
    const struct wring_codec_context base = {.seed = 1, .bucket = 2, .rank = 3, .step = 4};
    struct wring_codec_context other = base;
    uint32_t own = first(base, WRING_DRAW_PRIVATE), all = first(base, WRING_DRAW_SHARED);

    other.rank = 0;
    CHECK(first(other, WRING_DRAW_SHARED) == all, "what is shared depends on the rank");
    CHECK(first(other, WRING_DRAW_PRIVATE) != own, "two ranks draw the same");
    CHECK(first(other, WRING_DRAW_PRIVATE) != all, "rank 0 draws what all do");
    other = base, other.seed++;
    CHECK(first(other, WRING_DRAW_SHARED) != all, "seed");
    other = base, other.bucket++;
    CHECK(first(other, WRING_DRAW_SHARED) != all, "bucket");
    other = base, other.step++;
    CHECK(first(other, WRING_DRAW_SHARED) != all, "step");
    other = base, other.phase++;
    CHECK(first(other, WRING_DRAW_SHARED) != all, "phase");
    other = base, other.element += 32, other.elems = 100;
    CHECK(first(other, WRING_DRAW_SHARED) == all, "where the run begins matters");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"generator", generator},   {"format", format},   {"runs", runs},
        {"dependence", dependence}, {"streams", streams}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
