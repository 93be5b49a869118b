/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/error_bound.h"

#include <math.h>
#include <string.h>

#include "tests/lib/elements.h"
#include "tests/lib/test.h"
#include "transport/collective/algorithm_select.h"

/* How far one encoding of x may be off, in a block whose largest magnitude is `peak`. */

typedef long double error_fn(long double x, long double peak);

static long double no_error(long double x, long double peak)
{
    (void)x, (void)peak;
    return 0;
}

static long double bf16_error(long double x, long double peak)
{
    (void)peak;
    return fabsl(x) * 0x1p-8L + 1e-40L;
}

static long double random_bf16_error(long double x, long double peak)
{
    (void)peak;
    return fabsl(x) * 0x1p-7L + 1e-40L;
}

static long double fp16_error(long double x, long double peak)
{
    (void)peak;
    return fabsl(x) * 0x1p-11L + 0x1p-25L;
}

static long double error_of_a_hundredth(long double x, long double peak)
{
    (void)x, (void)peak;
    return 0.01L;
}

static long double int4_error(long double x, long double peak)
{
    (void)x;
    return peak / 7 * 0.5001L + 1e-35L;
}

/** With 4 bits. */
static long double qsgd_error(long double x, long double peak)
{
    (void)x;
    return peak / 7 * 1.0001L + 1e-30L;
}

/** Half a neighbour's distance, or what is cut off. */
static long double mxfp4_error(long double x, long double peak)
{
    return fmaxl(fabsl(x), peak / 4) * 0.2501L + 1e-35L;
}

static long double int8_error(long double x, long double peak)
{
    (void)x;
    return peak / 127 * 0.5001L + 1e-35L;
}

/** @return NULL of a codec without a bound */
static error_fn *error_of(const char *codec)
{
    static const struct {
        const char *codec;
        bool any; /* whatever its parameters */
        error_fn *error;
    } errors[] = {
        {"none", false, no_error},
        {"lossless", true, no_error},
        {"bf16", false, bf16_error},
        {"bf16:round=random", false, random_bf16_error},
        {"fp16", false, fp16_error},
        {"bounded:error=0.01:block=64", false, error_of_a_hundredth},
        {"int8", true, int8_error},
        {"int4:block=64", false, int4_error},
        {"qsgd:block=64", false, qsgd_error},
        {"mxfp4", false, mxfp4_error},
    };
    if (strpbrk(codec, "+>") != NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].any ? strncmp(codec, errors[i].codec, strlen(errors[i].codec)) == 0
                          : strcmp(codec, errors[i].codec) == 0)
            return errors[i].error;
    return NULL;
}

static bool has_bound(const struct wring_matrix_case *c)
{
    bool reduces = c->what == WRING_MATRIX_BUCKET || c->what == WRING_MATRIX_ALLREDUCE ||
                   c->what == WRING_MATRIX_REDUCE_SCATTER;
    bool arithmetic = c->op <= WRING_MAX || c->op == WRING_PREMUL_SUM;
    return reduces && arithmetic && c->dtype <= WRING_I64 && c->special == 0 &&
           error_of(c->codec) != NULL;
}

/** Half a unit of the last place of the precision that sums have, and of the result's. */
static void precision_of(enum wring_dtype dtype, long double *sums, long double *result,
                         long double *smallest)
{
    *sums = dtype == WRING_F64 ? 0x1p-53L : 0x1p-24L;
    *result = dtype == WRING_F16 ? 0x1p-11L : dtype == WRING_BF16 ? 0x1p-8L : *sums;
    *smallest = dtype == WRING_F64 ? 0x1p-1074L : dtype == WRING_F16 ? 0x1p-25L : 0x1p-133L;
}

struct truth {
    long double value, bound;
};

static struct truth true_sum(const struct wring_matrix_case *c, error_fn *error,
                             const void *const *inputs, uint64_t i)
{
    long double sums, result, smallest, total = 0, magnitudes = 0, bound = 0;
    precision_of(c->dtype, &sums, &result, &smallest);
    for (uint32_t r = 0; r < c->ranks; r++) {
        long double x = wring_test_element(c->dtype, inputs[r], i);
        total += x;
        magnitudes += fabsl(x);
        bound += error(x, 1); /* inputs are below 1 */
    }
    bound += c->ranks * (magnitudes + bound) * 2 * sums;
    long double divisor = c->op == WRING_AVG ? c->ranks : 1;
    bound += divisor * error((fabsl(total) + bound) / divisor,
                             (c->ranks + bound) / divisor); /* owners divide, then encode */
    if (wring_scheme_is_hierarchical(c->scheme))            /* each node's sum is rounded */
        bound += magnitudes * 2 * result;
    bound = bound / divisor + (fabsl(total) / divisor + bound) * 2 * result + c->ranks * smallest;
    return (struct truth){total / divisor, bound};
}

__extension__ typedef __int128 wide;

/** Wraps as the type does; an average is cut off. */
static struct truth integer_sum(const struct wring_matrix_case *c, const void *const *inputs,
                                uint64_t i)
{
    wide total = 0;
    for (uint32_t r = 0; r < c->ranks; r++)
        total += (int64_t)wring_test_element(c->dtype, inputs[r], i);
    int64_t wrapped = c->dtype == WRING_I32 ? (int32_t)total : (int64_t)total;
    return (struct truth){(long double)(c->op == WRING_AVG ? wrapped / (int64_t)c->ranks : wrapped),
                          0};
}

static struct truth extreme(const struct wring_matrix_case *c, const void *const *inputs,
                            uint64_t i)
{
    long double best = wring_test_element(c->dtype, inputs[0], i);
    for (uint32_t r = 1; r < c->ranks; r++) {
        long double x = wring_test_element(c->dtype, inputs[r], i);
        if (c->op == WRING_MIN ? x < best : x > best)
            best = x;
    }
    return (struct truth){best, 0};
}

static struct truth truth_of(const struct wring_matrix_case *c, error_fn *error,
                             const void *const *inputs, uint64_t i)
{
    if (c->op == WRING_MIN || c->op == WRING_MAX)
        return extreme(c, inputs, i);
    bool integer = c->dtype == WRING_I32 || c->dtype == WRING_I64;
    return integer ? integer_sum(c, inputs, i) : true_sum(c, error, inputs, i);
}

void wring_matrix_check_bound(const struct wring_matrix_case *c, uint32_t rank,
                              const void *const *inputs, const void *out)
{
    uint64_t begin = c->what == WRING_MATRIX_REDUCE_SCATTER ? rank * c->elems : 0;
    error_fn *error = error_of(c->codec);
    char text[512];

    for (uint64_t i = 0, n = has_bound(c) ? c->elems : 0; i < n; i++) {
        struct truth truth = truth_of(c, error, inputs, begin + i);
        long double got = wring_test_element(c->dtype, out, i);
        if (!(fabsl(got - truth.value) <= truth.bound)) {
            CHECK(false, "element %llu is %Lg, not %Lg, bound %Lg: %s", (unsigned long long)i, got,
                  truth.value, truth.bound, wring_matrix_text(c, text, sizeof(text)));
            return;
        }
    }
}
