/* SPDX-License-Identifier: Apache-2.0 */
/* Every dimension of an allreduce, drawn at random with a fixed seed and along each axis. */
#include "tests/collective/matrix.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

static const char *const codecs[] = {
    "none",
    "bf16",
    "bf16+ef",
    "fp16",
    "fp16+ef",
    "int8:block=64",
    "int8+ef",
    "onebit:block=128+ef",
    "onebit",
    "onebit:block=32:means=2+ef",
    "topk:ratio=0.1:block=256+ef",
    "topk:ratio=0.01:select=exact+ef",
    "topk:ratio=1:block=1024",
    "onebit+ef>int8",
    "topk:ratio=0.1:block=256+ef>bf16",
    "none>int8:block=64+ef",
    "fp16>none",
    "int8:block=64+ef>onebit:block=128+ef",
};
static const uint64_t counts[] = {0, 1, 2, 31, 33, 127, 1000, 2049, 10007, 65537, 100001};
static const char *const providers[] = {"tcp", "shm", "auto"};
static const char *const chunks[] = {"4k", "16k", "256k"};
static const char *const tiers[] = {"scalar", "avx2", "best"};
static const char *const executors[] = {"inline", "pool:2"};
static const char *const progress[] = {"thread", "caller"};

#define PICK(list) (list)[wring_test_random(&state) % (sizeof(list) / sizeof((list)[0]))]

static void run_and_check(const struct wring_matrix_case *c)
{
    float *out = calloc(c->elems + 1, sizeof(float));
    if (wring_matrix_run(c, out))
        wring_matrix_check(c, out);
    free(out);
}

static const struct wring_matrix_case plain = {
    .ranks = 3,
    .elems = 10007,
    .codec = "int8:block=64+ef",
    .op = WRING_AVG,
    .steps = 3,
    .provider = "shm",
    .chunk = "16k",
    .cpu = "best",
    .executor = "inline",
    .progress = "thread",
};

/** What each codec can do: "in>out" needs a way back. */
static bool has_scheme(const char *codec, enum wring_scheme scheme)
{
    return strchr(codec, '>') == NULL || scheme != WRING_SCHEME_INDIVISIBLE;
}

static void draw(uint32_t seed, unsigned cases)
{
    uint32_t state = seed;
    for (unsigned i = 0; i < cases; i++) {
        struct wring_matrix_case c = {
            .ranks = 1 + wring_test_random(&state) % 9,
            .elems = PICK(counts),
            .codec = PICK(codecs),
            .scheme = (enum wring_scheme)(wring_test_random(&state) % 3),
            .op = wring_test_random(&state) % 2 ? WRING_AVG : WRING_SUM,
            .steps = 1 + wring_test_random(&state) % 4,
            .provider = PICK(providers),
            .chunk = PICK(chunks),
            .cpu = PICK(tiers),
            .executor = PICK(executors),
            .progress = PICK(progress),
            .foreign = wring_test_random(&state) % 3 == 0,
            .flush = wring_test_random(&state) % 3 == 0,
            .special = wring_test_random(&state) % 3 == 0 ? 3 : 0,
        };
        if (has_scheme(c.codec, c.scheme))
            run_and_check(&c);
    }
}

static void random_cases(void)
{
    draw(20240607, 275);
}

static void every_codec_is_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
            found |= strncmp(codecs[i], (*ops)->name, strlen((*ops)->name)) == 0;
        CHECK(found, "codec %s is not among the codecs of this test", (*ops)->name);
    }
}

static void every_rank_count(void)
{
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            struct wring_matrix_case c = plain;
            c.ranks = ranks;
            c.elems = counts[i];
            c.provider = providers[(ranks + i) % 2];
            c.codec = i % 2 ? "none" : plain.codec;
            run_and_check(&c);
        }
}

static void every_codec_scheme_and_provider(void)
{
    for (size_t codec = 0; codec < sizeof(codecs) / sizeof(codecs[0]); codec++)
        for (int scheme = 0; scheme < 3; scheme++)
            for (size_t p = 0; p < 2; p++) {
                struct wring_matrix_case c = plain;
                c.codec = codecs[codec];
                c.scheme = (enum wring_scheme)scheme;
                c.provider = providers[p];
                if (!has_scheme(c.codec, c.scheme))
                    continue;
                run_and_check(&c);
                c.special = 2;
                run_and_check(&c);
            }
}

static void large(void)
{
    for (size_t codec = 0; codec < 18; codec += 3) {
        struct wring_matrix_case c = plain;
        c.elems = 3000001;
        c.codec = codecs[codec];
        c.chunk = "256k";
        c.ranks = 4;
        run_and_check(&c);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_codec_is_listed", every_codec_is_listed},
        {"every_codec_scheme_and_provider", every_codec_scheme_and_provider},
        {"every_rank_count", every_rank_count},
        {"random_cases", random_cases},
        {"large", large},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
