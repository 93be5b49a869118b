/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reductions of every element type: the scalar kernels against the definition, all other tiers
 * against the scalar ones, bit for bit; each tail and alignment, in buffers that end at an unmapped
 * page.
 *
 * The argument "quick" takes fewer lengths, for emulated processors: of the long ones all with
 * plain values only, as no instruction depends on a value.
 */
#include <string.h>

#include "base/cpu.h"
#include "compress/kernels/reduce.h"
#include "compress/reduce.h"
#include "tests/lib/elements.h"
#include "tests/lib/test.h"

#define SOURCES 5
#define LONGEST 140
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static bool quick;

struct trial {
    enum wring_dtype dtype;
    enum wring_op op;
    enum wring_test_kind kind;
    uint64_t n;
    uint32_t n_src;
    struct wring_source src[SOURCES];
};

static void fold(const struct wring_reduce_tier *tier, const struct trial *trial,
                 const struct wring_source *src, void *dst)
{
    float divisor = trial->op == WRING_AVG ? (float)trial->n_src : 1;
    wring_reduce_fold(trial->dtype, trial->op, tier->head.tier)(dst, src, trial->n_src, trial->n,
                                                                divisor);
}

static void check_same(const struct trial *trial, const char *tier, const void *want,
                       const void *got)
{
    size_t bytes = wring_dtype_bytes(trial->dtype);
    for (uint64_t i = 0; i < trial->n; i++)
        if (memcmp((const char *)want + i * bytes, (const char *)got + i * bytes, bytes) != 0) {
            CHECK(false, "%s %s %s kind=%d n=%zu sources=%u: element %zu is %Lg, not %Lg", tier,
                  wring_dtype_name(trial->dtype), wring_op_name(trial->op), trial->kind,
                  (size_t)trial->n, trial->n_src, (size_t)i,
                  wring_test_element(trial->dtype, got, i),
                  wring_test_element(trial->dtype, want, i));
            return;
        }
}

/** The tier has no kernel of its own for that. */
static bool is_scalar(const struct wring_reduce_tier *tier, const struct trial *trial)
{
    return wring_reduce_fold(trial->dtype, trial->op, tier->head.tier) ==
           wring_reduce_fold(trial->dtype, trial->op, WRING_CPU_SCALAR);
}

/** One shape in all tiers, into memory of its own and over its last source. */
static void check_tiers(const struct trial *trial, const void *want)
{
    size_t bytes = trial->n * wring_dtype_bytes(trial->dtype);
    for (const struct wring_reduce_tier *tier = wring_reduce_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier) ||
            (tier > wring_reduce_tiers && is_scalar(tier, trial)))
            continue;
        void *got = wring_test_guarded(bytes);
        fold(tier, trial, trial->src, got);
        check_same(trial, tier->head.name, want, got);

        struct wring_source in_place[SOURCES];
        memcpy(in_place, trial->src, sizeof(in_place));
        void *last = memcpy(wring_test_guarded(bytes), trial->src[trial->n_src - 1].data, bytes);
        in_place[trial->n_src - 1].data = last;
        fold(tier, trial, in_place, last);
        check_same(trial, tier->head.name, want, last);
    }
}

static void check_length(struct trial *trial)
{
    size_t bytes = trial->n * wring_dtype_bytes(trial->dtype);
    const void *src[SOURCES];

    for (uint32_t s = 0; s < SOURCES; s++) {
        void *data = wring_test_guarded(bytes);
        wring_test_fill(trial->dtype, data, trial->n, trial->kind, (uint32_t)trial->n * 8 + s);
        trial->src[s] = (struct wring_source){data, bytes, NULL, {0}};
        src[s] = data;
    }
    for (int op = 0; op < WRING_OPS; op++)
        for (trial->n_src = 1; trial->n_src <= SOURCES; trial->n_src += 2) {
            void *want = wring_test_guarded(bytes);
            trial->op = (enum wring_op)op;
            if ((trial->dtype == WRING_F32 && op <= WRING_AVG) || /* test_kernels.c has those */
                op == WRING_PREMUL_SUM || !wring_op_takes(trial->op, trial->dtype))
                continue;
            wring_test_reduce(trial->dtype, trial->op, src, trial->n_src, trial->n, want);
            check_tiers(trial, want);
        }
    wring_test_free_guarded();
}

static void check_type(enum wring_dtype dtype)
{
    static const uint64_t more[] = {256, 511, 1024, 4099};
    const bool wide = dtype <= WRING_I64; /* vector tiers have kernels of it */

    for (int kind = 0; kind < WRING_TEST_KINDS; kind++) {
        struct trial trial = {.dtype = dtype, .kind = (enum wring_test_kind)kind};
        for (trial.n = 1; trial.n <= LONGEST; trial.n += quick ? 13 : wide ? 1 : 3)
            check_length(&trial);
        for (size_t i = 0; i < (quick && kind != WRING_TEST_PLAIN ? 1 : COUNT(more)); i++) {
            trial.n = more[i];
            check_length(&trial);
        }
    }
}

static void f32(void)
{
    check_type(WRING_F32);
}
static void f64(void)
{
    check_type(WRING_F64);
}
static void f16(void)
{
    check_type(WRING_F16);
}
static void bf16(void)
{
    check_type(WRING_BF16);
}
static void complex_numbers(void)
{
    check_type(WRING_COMPLEX64);
    check_type(WRING_COMPLEX128);
}
static void truth_and_bytes(void)
{
    check_type(WRING_BOOL);
    check_type(WRING_BYTE);
}
static void short_integers(void)
{
    check_type(WRING_I8);
    check_type(WRING_I16);
    check_type(WRING_U8);
    check_type(WRING_U16);
}
static void unsigned_integers(void)
{
    check_type(WRING_U32);
    check_type(WRING_U64);
}
static void i32(void)
{
    check_type(WRING_I32);
}
static void i64(void)
{
    check_type(WRING_I64);
}

/** All 65536 values of a short type, alone (they come back as they are, but NaN as the one NaN)
 *  and halved with a neighbour, where sums lie midway between two values. */
static void every_value(enum wring_dtype dtype)
{
    enum {
        N = 65536
    };
    uint16_t *all = wring_test_guarded(N * 2), *next = wring_test_guarded(N * 2);
    void *want = wring_test_guarded(N * 2);
    struct trial trial = {.dtype = dtype, .n = N};

    for (uint32_t i = 0; i < N; i++) {
        all[i] = (uint16_t)i;
        next[i] = (uint16_t)(i + 1);
    }
    trial.src[0] = (struct wring_source){all, N * 2, NULL, {0}};
    trial.src[1] = (struct wring_source){next, N * 2, NULL, {0}};
    const void *src[] = {all, next};
    for (trial.n_src = 1; trial.n_src <= 2; trial.n_src++) {
        trial.op = WRING_AVG;
        wring_test_reduce(dtype, trial.op, src, trial.n_src, N, want);
        check_tiers(&trial, want);
    }
}

static void every_f16(void)
{
    every_value(WRING_F16);
}
static void every_bf16(void)
{
    every_value(WRING_BF16);
}

/** Of what no two paths may disagree on, some by hand. */
static void by_hand(void)
{
    static const uint16_t in[3][4] = {{0x7BFF, 0x8000, 0x3C00, 0x7C00}, /* 65504, -0, 1, inf */
                                      {0x7BFF, 0x0000, 0x1000, 0xFC00}, /* 65504, +0, 2^-11, -inf */
                                      {0xFBFF, 0x0000, 0x1000, 0x0000}}; /* -65504, +0, 2^-11, 0 */
    struct trial trial = {.dtype = WRING_F16, .n = 4, .n_src = 3, .op = WRING_SUM};
    uint16_t out[4];
    for (int s = 0; s < 3; s++)
        trial.src[s] = (struct wring_source){in[s], 8, NULL, {0}};
    for (const struct wring_reduce_tier *tier = wring_reduce_tiers; tier->head.name; tier++) {
        if (!wring_cpu_has(tier->head.tier))
            continue;
        trial.op = WRING_SUM; /* 131008 on the way; one rounding: 1 + 2^-10, not 1 */
        fold(tier, &trial, trial.src, out);
        CHECK(out[0] == 0x7BFF && out[1] == 0x0000 && out[2] == 0x3C01 && out[3] == 0x7E00,
              "%s sum %x %x %x %x", tier->head.name, out[0], out[1], out[2], out[3]);
        trial.op = WRING_MIN; /* of equal zeros the first */
        fold(tier, &trial, trial.src, out);
        CHECK(out[0] == 0xFBFF && out[1] == 0x8000 && out[2] == 0x1000 && out[3] == 0xFC00,
              "%s min %x %x %x %x", tier->head.name, out[0], out[1], out[2], out[3]);
    }
}

static const struct wring_test_case cases[] = {
    {"f32", f32},
    {"f64", f64},
    {"f16", f16},
    {"bf16", bf16},
    {"i32", i32},
    {"i64", i64},
    {"short_integers", short_integers},
    {"unsigned_integers", unsigned_integers},
    {"truth_and_bytes", truth_and_bytes},
    {"complex_numbers", complex_numbers},
    {"every_f16", every_f16},
    {"every_bf16", every_bf16},
    {"by_hand", by_hand},
    {0},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "quick") == 0) {
        quick = true;
        argc--, argv++;
    }
    return wring_test_main_in_mode(argc, argv, cases);
}
