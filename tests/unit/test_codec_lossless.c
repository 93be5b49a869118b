/* SPDX-License-Identifier: Apache-2.0 */
/** lossless gives back every bit, takes no more bytes than it has to, and keeps to its own. */
#include <string.h>

#include "base/cpu.h"
#include "tests/unit/codec_check.h"

/** Elements of every kind, in runs as long as several blocks of few kinds, and all mixed. */
static void fill_any(float *x, uint64_t n, uint32_t seed)
{
    static const uint32_t tops[] = {0x00000000, 0x80000000, 0x3F800000, 0x3C000000, 0x00400000,
                                    0x7F800000, 0xFFC00000, 0x7F7FFFFF, 0xBF000000, 0x00000001};
    const uint32_t kinds = sizeof(tops) / sizeof(tops[0]);

    for (uint64_t i = 0; i < n; i++) {
        uint32_t run = (uint32_t)(i / 700), random = wring_test_random(&seed);
        uint32_t kind = run % 4 == 0   ? random % kinds
                        : run % 4 == 1 ? random % 64 == 0 ? random / 64 % kinds : 2
                                       : run % kinds;
        uint32_t bits = tops[kind] ^ (run % 4 == 3 ? 0 : wring_test_random(&seed) >> 9);
        memcpy(&x[i], &bits, sizeof(bits));
    }
}

/** What loses nothing gives back every bit: zeros' signs, denormals, and what NaN carry. */
static void check_exact(const struct wring_codec *codec, uint64_t n)
{
    size_t bytes;
    float *x = wring_test_guarded(n * sizeof(*x));

    if (!codec_is_named(codec, "lossless"))
        return;
    fill_any(x, n, 19);
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    float *y = codec_decode(codec, code, bytes, n);
    for (uint64_t i = 0; i < n; i++)
        REQUIRE(memcmp(&x[i], &y[i], sizeof(*x)) == 0, "%s n=%zu i=%zu: %a became %a",
                wring_codec_info(codec)->spec, (size_t)n, (size_t)i, x[i], y[i]);
}

static void exact(void)
{
    codec_for_each(check_exact, true);
}

/** What gradients and zeros take, and that nothing takes more than was foretold. */
static void sizes(void)
{
    const uint64_t n = 65536;
    struct wring_codec *codec = codec_make("lossless", NULL, NULL);
    float *x = wring_test_gradient(n, 3);
    size_t bytes;

    codec_encode(codec, x, n, NULL, &bytes);
    CHECK(bytes < n * 28 / 8, "%zu bytes of %zu numbers", bytes, (size_t)n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)i * 0x9E3779B1u;
        memcpy(&x[i], &bits, sizeof(bits));
    }
    codec_encode(codec, x, n, NULL, &bytes);
    CHECK(bytes == wring_codec_bound(codec, n) && bytes == n * 4 + n / 512 * 4,
          "%zu bytes where nothing can be saved", bytes);
    memset(x, 0, n * sizeof(*x));
    codec_encode(codec, x, n, NULL, &bytes);
    CHECK(bytes == n / 512 * 4, "%zu bytes of zeros", bytes);
    wring_codec_destroy(codec);
}

/** Runs of all that blocks are laid out for: zeros, zeros below 0, bits that nothing can be saved
 *  of, exponents that are far apart, and gradients. Each is longer than an encoder is careful
 * behind the third. */
static float *fill_runs(uint64_t n)
{
    float *x = wring_test_gradient(n, 5);

    for (uint64_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)(i % 30011), any = (uint32_t)i * 0x9E3779B1u;
        uint32_t bits = at < 3000 ? 0 : at < 4000 ? 0x80000000 : any;
        if (at < 5000)
            memcpy(&x[i], &bits, sizeof(bits));
        else if (at < 18000)
            x[i] *= x[i] * x[i];
    }
    return x;
}

/** Wherever in a line a code begins, it has the same bytes, and there are others around it. */
static void check_positions(const struct wring_codec *codec, const float *x, uint64_t n,
                            const unsigned char *want, size_t want_bytes)
{
    const size_t around = 128, room = wring_codec_bound(codec, n);
    unsigned char *memory = wring_test_guarded(room + 2 * around), kept[128];
    unsigned char *line = memory + around - (uintptr_t)memory % 64;

    memset(kept, 0xA5, sizeof(kept));
    for (size_t skip = 0; skip < 64; skip += 31) {
        unsigned char *code = line - skip;
        memset(memory, 0xA5, around);
        memset(code + room, 0xA5, around);
        size_t bytes = wring_codec_encode(codec, &codec_alone, x, n, NULL, code);
        CHECK(bytes == want_bytes && memcmp(code, want, bytes) == 0, "%s: other bytes at %zu",
              wring_codec_info(codec)->tier, skip);
        CHECK(memcmp(memory, kept, (size_t)(code - memory)) == 0 &&
                  memcmp(code + room, kept, around) == 0,
              "%s: bytes around a code at %zu", wring_codec_info(codec)->tier, skip);
    }
}

/** Some blocks of a long call leave no whole line; its bytes are those of two shorter calls. */
static void check_long(const char *spec, const char *tier, const float *x, uint64_t n)
{
    struct wring_codec *codec = codec_make(spec, tier, NULL);
    uint64_t unit = wring_codec_info(codec)->unit, cut = n / 2 / unit * unit;
    size_t bytes, first, second;
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    unsigned char *a = codec_encode(codec, x, cut, NULL, &first);
    unsigned char *b = codec_encode(codec, x + cut, n - cut, NULL, &second);

    CHECK(bytes == first + second && memcmp(code, a, first) == 0 &&
              memcmp(code + first, b, second) == 0,
          "%s: other bytes of a long call", wring_codec_info(codec)->tier);
    check_positions(codec, x, n, code, bytes);
    wring_codec_destroy(codec);
}

static void long_calls(void)
{
    const uint64_t n = (uint64_t)1 << 20;
    float *x = fill_runs(n);

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        check_long("lossless", wring_cpu_tier_name(tier), x, n);
        check_long("lossless:block=96", wring_cpu_tier_name(tier), x, n);
    }
}

static const struct wring_test_case cases[] = {
    {"exact", exact},
    {"sizes", sizes},
    {"long_calls", long_calls},
    {0},
};

int main(int argc, char **argv)
{
    return codec_test_main(argc, argv, cases);
}
