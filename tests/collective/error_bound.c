/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/error_bound.h"

#include <math.h>
#include <string.h>

#include "tests/lib/elements.h"
#include "tests/lib/test.h"
#include "transport/collective/algorithm_select.h"

/** How far one encoding of a value may be off, in a block whose largest magnitude is `peak`. */
static long double codec_error(const char *codec, long double x, long double peak)
{
    if (strcmp(codec, "none") == 0 || strncmp(codec, "lossless", 8) == 0)
        return 0;
    if (strcmp(codec, "bf16") == 0)
        return fabsl(x) * 0x1p-8L + 1e-40L;
    if (strcmp(codec, "bf16:round=random") == 0)
        return fabsl(x) * 0x1p-7L + 1e-40L;
    if (strcmp(codec, "fp16") == 0)
        return fabsl(x) * 0x1p-11L + 0x1p-25L;
    if (strcmp(codec, "bounded:error=0.01:block=64") == 0)
        return 0.01L;
    if (strncmp(codec, "int4", 4) == 0)
        return peak / 7 * 0.5001L + 1e-35L;
    if (strncmp(codec, "qsgd", 4) == 0)
        return peak / 7 * 1.0001L + 1e-30L; /* with 4 bits */
    if (strcmp(codec, "mxfp4") == 0)        /* half a neighbour's distance, or what is cut off */
        return fmaxl(fabsl(x), peak / 4) * 0.2501L + 1e-35L;
    return peak / 127 * 0.5001L + 1e-35L; /* int8 */
}

static bool has_bound(const struct wring_matrix_case *c)
{
    bool reduces = c->what == WRING_MATRIX_BUCKET || c->what == WRING_MATRIX_ALLREDUCE ||
                   c->what == WRING_MATRIX_REDUCE_SCATTER;
    bool known = strcmp(c->codec, "none") == 0 || strncmp(c->codec, "lossless", 8) == 0 ||
                 strcmp(c->codec, "bf16") == 0 || strcmp(c->codec, "fp16") == 0 ||
                 strncmp(c->codec, "int8", 4) == 0 || strcmp(c->codec, "int4:block=64") == 0 ||
                 strcmp(c->codec, "bf16:round=random") == 0 ||
                 strcmp(c->codec, "bounded:error=0.01:block=64") == 0 ||
                 strcmp(c->codec, "qsgd:block=64") == 0 || strcmp(c->codec, "mxfp4") == 0;
    bool arithmetic = c->op <= WRING_MAX || c->op == WRING_PREMUL_SUM;
    return reduces && arithmetic && c->dtype <= WRING_I64 && known && c->special == 0 &&
           strpbrk(c->codec, "+>") == NULL;
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

static struct truth true_sum(const struct wring_matrix_case *c, const void *const *inputs,
                             uint64_t i)
{
    long double sums, result, smallest, total = 0, magnitudes = 0, bound = 0;
    precision_of(c->dtype, &sums, &result, &smallest);
    for (uint32_t r = 0; r < c->ranks; r++) {
        long double x = wring_test_element(c->dtype, inputs[r], i);
        total += x;
        magnitudes += fabsl(x);
        bound += codec_error(c->codec, x, 1); /* inputs are below 1 */
    }
    bound += c->ranks * (magnitudes + bound) * 2 * sums;
    long double divisor = c->op == WRING_AVG ? c->ranks : 1;
    bound += divisor * codec_error(c->codec, (fabsl(total) + bound) / divisor,
                                   (c->ranks + bound) / divisor); /* owners divide, then encode */
    if (wring_scheme_is_hierarchical(c->scheme))                  /* each node's sum is rounded */
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

static struct truth truth_of(const struct wring_matrix_case *c, const void *const *inputs,
                             uint64_t i)
{
    if (c->op == WRING_MIN || c->op == WRING_MAX)
        return extreme(c, inputs, i);
    bool integer = c->dtype == WRING_I32 || c->dtype == WRING_I64;
    return integer ? integer_sum(c, inputs, i) : true_sum(c, inputs, i);
}

void wring_matrix_check_bound(const struct wring_matrix_case *c, uint32_t rank,
                              const void *const *inputs, const void *out)
{
    uint64_t begin = c->what == WRING_MATRIX_REDUCE_SCATTER ? rank * c->elems : 0;
    char text[512];

    for (uint64_t i = 0; has_bound(c) && i < c->elems; i++) {
        struct truth truth = truth_of(c, inputs, begin + i);
        long double got = wring_test_element(c->dtype, out, i);
        if (!(fabsl(got - truth.value) <= truth.bound)) {
            CHECK(false, "element %llu is %Lg, not %Lg, bound %Lg: %s", (unsigned long long)i, got,
                  truth.value, truth.bound, wring_matrix_text(c, text, sizeof(text)));
            return;
        }
    }
}
