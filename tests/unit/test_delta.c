/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Differences of weights come back byte for byte by every tier, and take few bytes. With --bench:
 * bytes and speeds beside twins that only read and write.
 */
#include <stdlib.h>
#include <string.h>

#include "compress/delta.h"
#include "tests/lib/test.h"
#include "tests/unit/beside.h"
#include "tools/bench/twin.h"

#define PER_MILLE 1000

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float bell(uint32_t *random)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += wring_test_random_float(random);
    return sum / 2; /* of -1 to 1 each: a variance of 1 */
}

/**
 * Weights of bf16 that an optimizer changed as Adam does: each of their float32 by about as much,
 * whatever it is. How many of bf16 change then depends on that much.
 * @param size  of a change, in shares of the weights' spread
 */
static void step_weights(uint16_t *base, uint16_t *now, uint64_t n, float size)
{
    uint32_t random = 7;

    for (uint64_t i = 0; i < n; i++) {
        float weight = 0.02f * bell(&random);
        base[i] = bf16_of(weight);
        now[i] = bf16_of(weight + 0.02f * size * wring_test_random_float(&random));
    }
}

static uint64_t differing(const uint16_t *base, const uint16_t *now, uint64_t n)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++)
        count += base[i] != now[i];
    return count;
}

/** How large changes are of which so much of the words differs. */
static float size_of_step(double share)
{
    enum {
        SOME = 1 << 16
    };
    static uint16_t base[SOME], now[SOME];
    float size = (float)share / 400;

    for (int i = 0; i < 8; i++) {
        step_weights(base, now, SOME, size);
        size *= (float)(share * SOME / (double)(differing(base, now, SOME) + 1));
    }
    return size;
}

static void change_some(const uint16_t *base, uint16_t *now, uint64_t n, uint32_t per_mille)
{
    uint32_t random = 9;

    for (uint64_t i = 0; i < n; i++) {
        bool changes = wring_test_random(&random) % PER_MILLE < per_mille;
        uint32_t by = wring_test_random(&random);
        now[i] = (uint16_t)(changes ? base[i] + (by % 16 ? by % 3 - 1 : by >> 16) : base[i]);
    }
}

static void check_back(enum wring_cpu_tier tier, const void *base, const void *now, uint64_t bytes)
{
    unsigned char *code = wring_test_guarded(wring_delta_bound(bytes));
    unsigned char *other = wring_test_guarded(wring_delta_bound(bytes));
    unsigned char *out = wring_test_guarded(bytes), *in_place = wring_test_guarded(bytes);
    size_t size = wring_delta_encode(tier, base, now, bytes, code);
    size_t plain = wring_delta_encode(WRING_CPU_SCALAR, base, now, bytes, other);

    CHECK(size == plain && memcmp(code, other, size) == 0, "%s: another code of %zu bytes",
          wring_cpu_tier_name(tier), (size_t)bytes);
    REQUIRE(size <= wring_delta_bound(bytes), "%zu bytes", size);
    unsigned char *tight = wring_test_guarded(size);
    memcpy(tight, code, size);
    CHECK(wring_delta_apply(tier, out, base, bytes, tight, size) == WRING_OK &&
              memcmp(out, now, bytes) == 0,
          "%s: %zu bytes come back otherwise", wring_cpu_tier_name(tier), (size_t)bytes);
    memcpy(in_place, base, bytes);
    CHECK(wring_delta_apply(tier, in_place, in_place, bytes, tight, size) == WRING_OK &&
              memcmp(in_place, now, bytes) == 0,
          "%s: %zu bytes change otherwise in place", wring_cpu_tier_name(tier), (size_t)bytes);
}

static const uint32_t shares[] = {0, 1, 23, 110, 130, 200, 500, 1000};
#define SHARES (sizeof(shares) / sizeof(shares[0]))

static void exact(void)
{
    static const uint64_t lengths[] = {0,   1,   2,    3,    62,   63,   64,   65,
                                       127, 200, 8191, 8192, 8194, 8255, 30001};

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
            for (size_t s = 0; s < SHARES && wring_cpu_has((enum wring_cpu_tier)tier); s++) {
                uint64_t bytes = lengths[l], n = bytes / 2;
                unsigned char *base = wring_test_guarded(bytes), *now = wring_test_guarded(bytes);
                uint32_t random = 3;
                uint16_t words[2][15001];
                for (uint64_t i = 0; i <= n; i++)
                    words[0][i] = (uint16_t)wring_test_random(&random);
                change_some(words[0], words[1], n + 1, shares[s]);
                if (bytes > 0) { /* at odd addresses, too: guarded memory ends at a page */
                    memcpy(base, words[0], bytes);
                    memcpy(now, words[1], bytes);
                }
                check_back((enum wring_cpu_tier)tier, base, now, bytes);
                wring_test_free_guarded();
            }
}

/** Beyond what caches hold, where results leave past them. */
static void long_runs(void)
{
    const uint64_t n = ((uint64_t)2 << 20) + 77;
    uint16_t *base = wring_test_guarded(n * 2), *now = wring_test_guarded(n * 2);

    step_weights(base, now, n, size_of_step(0.023));
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (wring_cpu_has((enum wring_cpu_tier)tier))
            check_back((enum wring_cpu_tier)tier, base, now, n * 2);
}

static void sizes(void)
{
    const uint64_t n = (uint64_t)1 << 18;
    uint16_t *base = wring_test_guarded(n * 2), *now = wring_test_guarded(n * 2);
    unsigned char *code = wring_test_guarded(wring_delta_bound(n * 2));
    uint32_t random = 5;

    step_weights(base, now, n, size_of_step(0.023));
    uint64_t changed = differing(base, now, n);
    CHECK(changed * 1000 > n * 21 && changed * 1000 < n * 25, "%zu of %zu change", (size_t)changed,
          (size_t)n);
    size_t bytes = wring_delta_encode(wring_cpu_best(), base, now, n * 2, code);
    CHECK(bytes * 50 < n * 2, "%zu bytes of %zu", bytes, (size_t)n * 2);
    bytes = wring_delta_encode(wring_cpu_best(), base, base, n * 2, code);
    CHECK(bytes == n / 4096, "%zu bytes where nothing changes", bytes);
    for (uint64_t i = 0; i < n; i++)
        now[i] = (uint16_t)wring_test_random(&random);
    bytes = wring_delta_encode(wring_cpu_best(), base, now, n * 2, code);
    CHECK(bytes * 1000 <= n * 2 * 1001, "%zu bytes of %zu that all change", bytes, (size_t)n * 2);
}

static void hashes(void)
{
    const uint64_t n = 40000;
    unsigned char *data = wring_test_guarded(n);
    uint32_t random = 1;

    for (uint64_t i = 0; i < n; i++)
        data[i] = (unsigned char)wring_test_random(&random);
    uint64_t hash = wring_delta_hash(WRING_DELTA_HASH, data, n);
    uint64_t first = wring_delta_hash(WRING_DELTA_HASH, data, 3 * WRING_DELTA_RUN);
    CHECK(wring_delta_hash(first, data + 3 * WRING_DELTA_RUN, n - 3 * WRING_DELTA_RUN) == hash,
          "in parts the hash is another");
    for (uint64_t i = 0; i < n; i += 61) {
        data[i] ^= (unsigned char)(1 << i % 8);
        CHECK(wring_delta_hash(WRING_DELTA_HASH, data, n) != hash, "byte %zu is not seen",
              (size_t)i);
        data[i] ^= (unsigned char)(1 << i % 8);
    }
    CHECK(wring_delta_hash(WRING_DELTA_HASH, data, n - 1) != hash, "the length is not seen");
    unsigned char *zeros = wring_test_guarded(200);
    memset(zeros, 0, 200);
    CHECK(wring_delta_hash(WRING_DELTA_HASH, zeros, 100) !=
              wring_delta_hash(WRING_DELTA_HASH, zeros, 101),
          "the number of zeros is not seen");
    for (int i = 0; i < 8; i++) /* as FORMAT.md defines it, of one line */
        zeros[8 * i] = (unsigned char)i;
    uint64_t want = WRING_DELTA_HASH, golden = UINT64_C(0x9E3779B97F4A7C15);
    for (uint64_t j = 0; j <= 8; j++) {
        uint64_t x = j ^ (golden + j * UINT64_C(0xD6E8FEB86659FD93));
        uint64_t sum = j == 8 ? 64 : (x & UINT32_MAX) * (x >> 32) + j;
        want = (want ^ sum) * golden;
        want ^= want >> 32;
    }
    CHECK(wring_delta_hash(WRING_DELTA_HASH, zeros, 64) == want, "another hash than FORMAT.md's");
    for (int i = 0; i < 64; i++) /* its examples */
        zeros[i] = (unsigned char)i;
    CHECK(wring_delta_hash(WRING_DELTA_HASH, zeros + 1, 1) == UINT64_C(0xC2744C3FFF0AC7FE) &&
              wring_delta_hash(WRING_DELTA_HASH, zeros, 64) == UINT64_C(0xC0E3A65465D2155C),
          "other hashes than FORMAT.md's");
}

/* ---- bench ---- */

struct subject {
    uint16_t *base, *now, *out;
    unsigned char *code;
    uint64_t n;
    size_t code_bytes;
};

static void run_encode(void *arg)
{
    struct subject *s = arg;
    s->code_bytes = wring_delta_encode(wring_cpu_best(), s->base, s->now, s->n * 2, s->code);
}

static void run_apply(void *arg)
{
    struct subject *s = arg;
    wring_delta_apply(wring_cpu_best(), s->out, s->base, s->n * 2, s->code, s->code_bytes);
}

static void run_in_place(void *arg)
{
    struct subject *s = arg;
    wring_delta_apply(wring_cpu_best(), s->now, s->now, s->n * 2, s->code, s->code_bytes);
}

static void run_hash(void *arg)
{
    struct subject *s = arg;
    s->code_bytes += wring_delta_hash(WRING_DELTA_HASH, s->base, s->n * 2) == 0;
}

static void run_twin_encode(void *arg)
{
    struct subject *s = arg;
    struct wring_twin_work work = {.read = wring_twin_all(s->base, s->n * 2),
                                   .other = wring_twin_all(s->now, s->n * 2)};
    s->code_bytes += wring_twin_run(wring_twin_widest(), &work, WRING_TWIN_PLAIN) == 1;
}

static void run_twin_apply(void *arg)
{
    struct subject *s = arg;
    struct wring_twin_work work = {.read = wring_twin_all(s->base, s->n * 2),
                                   .write = wring_twin_all(s->out, s->n * 2)};
    s->code_bytes += wring_twin_run(wring_twin_widest(), &work, WRING_TWIN_STREAMS) == 1;
}

static void time_beside(const char *what, struct subject *s, void (*run)(void *),
                        void (*twin)(void *))
{
    void (*const calls[2])(void *) = {run, twin};
    double ns[2];

    beside_time(calls, s, ns);
    printf("  %-18s %6.2f GB/s of weights, %.2f of the twin's\n", what, (double)s->n * 2 / ns[0],
           ns[1] / ns[0]);
}

static int bench(uint64_t n)
{
    static const double steps[] = {0.001, 0.023, 0.2};
    struct subject s = {.n = n};
    void *memory[4];

    for (int i = 0; i < 4; i++) {
        size_t bytes = i == 3 ? wring_delta_bound(n * 2) : n * 2;
        if (posix_memalign(&memory[i], 4096, (bytes + 63) / 64 * 64) != 0)
            return 1;
        memset(memory[i], 1, bytes);
    }
    s.base = memory[0], s.now = memory[1], s.out = memory[2], s.code = memory[3];
    for (size_t i = 0; i <= sizeof(steps) / sizeof(steps[0]); i++) {
        if (i < sizeof(steps) / sizeof(steps[0]))
            step_weights(s.base, s.now, n, size_of_step(steps[i]));
        else
            for (uint64_t w = 0; w < n; w++)
                s.now[w] = (uint16_t)(s.base[w] + 1 + (w * 0x9E3779B1u >> 16) % 65535);
        run_encode(&s);
        printf("%.2f %% of %zu words differ: %zu bytes, %.1f x\n",
               100.0 * (double)differing(s.base, s.now, n) / (double)n, (size_t)n, s.code_bytes,
               2.0 * (double)n / (double)s.code_bytes);
        time_beside("encode", &s, run_encode, run_twin_encode);
        run_encode(&s);
        time_beside("copy and apply", &s, run_apply, run_twin_apply);
        time_beside("apply in place", &s, run_in_place, run_twin_apply);
        time_beside("hash", &s, run_hash, run_twin_encode);
    }
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"exact", exact}, {"long_runs", long_runs}, {"sizes", sizes}, {"hashes", hashes}, {0},
    };

    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)16 << 20);
    return wring_test_main(argc, argv, cases);
}
