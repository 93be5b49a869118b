/* SPDX-License-Identifier: Apache-2.0 */
/* Published values, every tier against a bit-by-bit definition; --bench tells the speed. */
#include "base/crc32c.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"

static const enum wring_cpu_tier tiers[] = {WRING_CPU_SCALAR, WRING_CPU_AVX2};

static uint32_t by_definition(uint32_t before, const uint8_t *data, size_t bytes)
{
    uint32_t state = ~before;
    for (size_t i = 0; i < bytes; i++) {
        state ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (0x82F63B78u & -(state & 1));
    }
    return ~state;
}

static void published_values(void)
{
    uint8_t rising[32], zeros[32] = {0}, ones[32];
    memset(ones, 0xFF, sizeof(ones));
    for (uint8_t i = 0; i < 32; i++)
        rising[i] = i;
    for (int t = 0; t < 2; t++) {
        struct wring_crc32c crc;
        wring_crc32c_init(&crc, tiers[t]);
        /* RFC 3720, B.4, and the check value that catalogues of CRCs give */
        CHECK(wring_crc32c_update(&crc, 0, zeros, 32) == 0x8A9136AA, "tier %d: zeros", t);
        CHECK(wring_crc32c_update(&crc, 0, ones, 32) == 0x62A8AB43, "tier %d: ones", t);
        CHECK(wring_crc32c_update(&crc, 0, rising, 32) == 0x46DD794E, "tier %d: rising", t);
        CHECK(wring_crc32c_update(&crc, 0, "123456789", 9) == 0xE3069283, "tier %d: digits", t);
        CHECK(wring_crc32c_update(&crc, 0, NULL, 0) == 0, "tier %d: nothing", t);
    }
}

static void lengths_and_alignments(void)
{
    static const size_t lengths[] = {1023, 1024, 3071, 3072, 3073, 6144, 10007};
    uint32_t random = 42;
    for (int t = 0; t < 2; t++) {
        struct wring_crc32c crc;
        wring_crc32c_init(&crc, tiers[t]);
        for (size_t i = 0; i < 70 + sizeof(lengths) / sizeof(lengths[0]); i++) {
            size_t n = i < 70 ? i : lengths[i - 70];
            uint8_t *data = wring_test_guarded(n); /* its end decides its alignment */
            for (size_t k = 0; k < n; k++)
                data[k] = (uint8_t)wring_test_random(&random);
            uint32_t want = by_definition(0x12345678, data, n);
            uint32_t got = wring_crc32c_update(&crc, 0x12345678, data, n);
            CHECK(got == want, "tier %d, %zu bytes: %08x, not %08x", t, n, got, want);
            uint32_t parts = wring_crc32c_update(&crc, 0x12345678, data, n / 3);
            parts = wring_crc32c_update(&crc, parts, data + n / 3, n - n / 3);
            CHECK(parts == want, "tier %d, %zu bytes in two parts", t, n);
        }
        wring_test_free_guarded();
    }
}

static int bench(void)
{
    const size_t bytes = 256 << 10;
    uint8_t *data = calloc(1, bytes);
    for (int t = 0; t < 2 && data != NULL; t++) {
        struct wring_crc32c crc;
        uint32_t sum = 0;
        wring_crc32c_init(&crc, tiers[t]);
        uint64_t began = wring_now_ns(), turns = 0;
        while (wring_now_ns() - began < 300 * WRING_NS_PER_MS) {
            sum = wring_crc32c_update(&crc, sum, data, bytes);
            turns++;
        }
        printf("crc32c %s: %.2f GB/s, 256 KiB in cache (%08x)\n",
               crc.run == wring_crc32c_run_scalar ? "scalar" : "sse4.2",
               (double)(turns * bytes) / (double)(wring_now_ns() - began), sum);
    }
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"published_values", published_values},
        {"lengths_and_alignments", lengths_and_alignments},
        {NULL, NULL},
    };
    if (argc == 2 && strcmp(argv[1], "--bench") == 0)
        return bench();
    return wring_test_main(argc, argv, cases);
}
