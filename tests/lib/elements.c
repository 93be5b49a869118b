/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/elements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

/** A binary format of at most 64 bits. */
struct format {
    int bits, fraction, bias;
};

static const struct format formats[] = {
    [WRING_F32] = {32, 23, 127},
    [WRING_F64] = {64, 52, 1023},
    [WRING_F16] = {16, 10, 15},
    [WRING_BF16] = {16, 7, 127},
};

static bool is_float(enum wring_dtype dtype)
{
    return dtype != WRING_I32 && dtype != WRING_I64;
}

static uint64_t get_bits(enum wring_dtype dtype, const void *data, uint64_t i)
{
    size_t bytes = wring_dtype_bytes(dtype);
    uint64_t bits = 0; /* little endian */
    memcpy(&bits, (const char *)data + i * bytes, bytes);
    return bits;
}

static void put_bits(enum wring_dtype dtype, void *data, uint64_t i, uint64_t bits)
{
    size_t bytes = wring_dtype_bytes(dtype);
    memcpy((char *)data + i * bytes, &bits, bytes);
}

long double wring_test_element(enum wring_dtype dtype, const void *data, uint64_t i)
{
    uint64_t bits = get_bits(dtype, data, i);
    if (dtype == WRING_I32)
        return (int32_t)bits;
    if (dtype == WRING_I64)
        return (long double)(int64_t)bits;

    const struct format *f = &formats[dtype];
    uint64_t fraction = bits & ((UINT64_C(1) << f->fraction) - 1);
    int exponent = (int)(bits >> f->fraction) & (2 * f->bias + 1);
    long double value = (long double)fraction;
    if (exponent == 2 * f->bias + 1)
        value = fraction == 0 ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexpl(value, 1 - f->bias - f->fraction);
    else
        value = ldexpl(value + ldexpl(1, f->fraction), exponent - f->bias - f->fraction);
    return bits >> (f->bits - 1) ? -value : value;
}

/** The bits of x, which is a number of more digits, rounded to nearest even. */
static uint64_t round_to(const struct format *f, double x)
{
    uint64_t sign = signbit(x) ? UINT64_C(1) << (f->bits - 1) : 0;
    uint64_t top = (uint64_t)(2 * f->bias + 1) << f->fraction;
    if (isnan(x))
        return top | UINT64_C(1) << (f->fraction - 1); /* the one NaN has no sign */
    int exponent = x == 0 || isinf(x) ? 1 - f->bias : ilogb(x);
    exponent = exponent < 1 - f->bias ? 1 - f->bias : exponent;
    double steps = isinf(x) ? INFINITY : nearbyint(ldexp(fabs(x), f->fraction - exponent));
    if (steps == ldexp(2, f->fraction)) {
        steps /= 2;
        exponent++;
    }
    if (isinf(steps) || exponent > f->bias)
        return sign | top;
    /* the leading 1 of a normal number's steps carries into the exponent */
    return sign | ((uint64_t)steps + ((uint64_t)(exponent + f->bias - 1) << f->fraction));
}

static double random_number(enum wring_dtype dtype, enum wring_test_kind kind, uint32_t *random)
{
    const struct format *f = &formats[dtype];
    double x = (double)wring_test_random_float(random);
    if (kind == WRING_TEST_DENORMAL)
        return ldexp(x, 3 - f->bias - (int)(wring_test_random(random) % (unsigned)f->fraction));
    return kind == WRING_TEST_LARGE ? ldexp(x, f->bias + 1) * 0.999 : x;
}

static uint64_t random_bits(enum wring_dtype dtype, enum wring_test_kind kind, uint32_t *random)
{
    uint64_t bits = (uint64_t)wring_test_random(random) << 32 | wring_test_random(random);
    unsigned shift = wring_test_random(random) % 64;

    if (is_float(dtype) && kind != WRING_TEST_BITS)
        return round_to(&formats[dtype], random_number(dtype, kind, random));
    if (is_float(dtype)) { /* the highest bits of each kind of number that there is */
        static const uint8_t tops[] = {0x00, 0x80, 0x7F, 0xFF, 0x3F};
        int rest = formats[dtype].bits - 8;
        uint64_t top = tops[wring_test_random(random) % sizeof(tops)];
        return top << rest | (bits & ((UINT64_C(1) << rest) - 1)) >> (shift % (unsigned)rest);
    }
    if (kind == WRING_TEST_DENORMAL)
        return (uint64_t)((int64_t)(bits % 41) - 20);
    return kind == WRING_TEST_PLAIN ? (uint64_t)((int64_t)bits >> shift) : bits;
}

void wring_test_fill(enum wring_dtype dtype, void *data, uint64_t elems, enum wring_test_kind kind,
                     uint32_t seed)
{
    uint32_t random = seed * 2654435761u + 1;
    random = random == 0 ? 1 : random;
    for (uint64_t i = 0; i < elems; i++)
        put_bits(dtype, data, i, random_bits(dtype, kind, &random));
}

static uint64_t reduce_integers(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                                uint32_t n_src, uint64_t i)
{
    bool narrow = dtype == WRING_I32;
    uint64_t total = 0;
    int64_t best = 0;
    for (uint32_t s = 0; s < n_src; s++) {
        uint64_t bits = get_bits(dtype, src[s], i);
        int64_t value = narrow ? (int32_t)bits : (int64_t)bits;
        total += (uint64_t)value;
        if (s == 0 || (op == WRING_MIN && value < best) || (op == WRING_MAX && value > best))
            best = value;
    }
    int64_t sum = narrow ? (int32_t)(uint32_t)total : (int64_t)total;
    if (op == WRING_AVG)
        sum /= (int64_t)n_src;
    return (uint64_t)(op == WRING_SUM || op == WRING_AVG ? sum : best);
}

/** a + next in the precision that sums of the type have. */
static double add(enum wring_dtype dtype, double a, double next)
{
    return dtype == WRING_F64 ? a + next : (double)((float)a + (float)next);
}

static double combine(enum wring_dtype dtype, enum wring_op op, double a, double next)
{
    if (op == WRING_SUM || op == WRING_AVG)
        return add(dtype, a, next);
    if (isnan(a) || isnan(next))
        return NAN;
    return (op == WRING_MIN ? next < a : next > a) ? next : a;
}

uint32_t wring_test_leaves(uint32_t n)
{
    uint32_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

/** The leaves from `first` on, `width` of them: a block of the tree. */
static double reduce_block(enum wring_dtype dtype, enum wring_op op, const double *x, uint32_t n,
                           uint32_t first, uint32_t width)
{
    uint32_t other = first + wring_test_leaves(n);
    if (width > 1)
        return combine(dtype, op, reduce_block(dtype, op, x, n, first, width / 2),
                       reduce_block(dtype, op, x, n, first + width / 2, width / 2));
    return other < n ? combine(dtype, op, x[first], x[other]) : x[first];
}

static double reduce_floats(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                            uint32_t n_src, uint64_t i)
{
    double x[WRING_TEST_SOURCES] = {0};
    if (n_src > WRING_TEST_SOURCES)
        abort();
    for (uint32_t s = 0; s < n_src; s++)
        x[s] = (double)wring_test_element(dtype, src[s], i);
    double a = x[0];
    if (n_src > 8)
        a = reduce_block(dtype, op, x, n_src, 0, wring_test_leaves(n_src));
    for (uint32_t s = 1; n_src <= 8 && s < n_src; s++)
        a = combine(dtype, op, a, x[s]);
    if (op == WRING_AVG)
        a = dtype == WRING_F64 ? a / n_src : (double)((float)a / (float)n_src);
    return a;
}

float wring_test_sum(const float *const *src, uint32_t n_src, uint64_t i)
{
    const void *runs[WRING_TEST_SOURCES];
    for (uint32_t s = 0; s < n_src && s < WRING_TEST_SOURCES; s++)
        runs[s] = src[s];
    return (float)reduce_floats(WRING_F32, WRING_SUM, runs, n_src, i);
}

void wring_test_reduce(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                       uint32_t n_src, uint64_t elems, void *dst)
{
    for (uint64_t i = 0; i < elems; i++)
        put_bits(dtype, dst, i,
                 is_float(dtype)
                     ? round_to(&formats[dtype], reduce_floats(dtype, op, src, n_src, i))
                     : reduce_integers(dtype, op, src, n_src, i));
}

void wring_test_divide(enum wring_dtype dtype, void *data, uint64_t elems, uint32_t divisor)
{
    for (uint64_t i = 0; i < elems; i++)
        if (is_float(dtype)) {
            double x = (double)wring_test_element(dtype, data, i);
            x = dtype == WRING_F64 ? x / divisor : (double)((float)x / (float)divisor);
            put_bits(dtype, data, i, round_to(&formats[dtype], x));
        } else {
            int64_t x = (int64_t)wring_test_element(dtype, data, i);
            put_bits(dtype, data, i, (uint64_t)(x / (int64_t)divisor));
        }
}
