/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/elements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

/* No race detector watches this file, whose every access would take it ten times as long. What
 * others may look at, data that is filled, is copied there, some elements at a time: copies it
 * sees. */
#define SOME 64

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

/** Elements of complex types are two of another one. */
static bool is_complex(enum wring_dtype dtype)
{
    return dtype == WRING_COMPLEX64 || dtype == WRING_COMPLEX128;
}

static enum wring_dtype part_of(enum wring_dtype dtype)
{
    if (!is_complex(dtype))
        return dtype;
    return dtype == WRING_COMPLEX64 ? WRING_F32 : WRING_F64;
}

static bool is_float(enum wring_dtype dtype)
{
    return dtype <= WRING_BF16;
}

static bool has_sign(enum wring_dtype dtype)
{
    return dtype >= WRING_I32 && dtype <= WRING_I16;
}

static uint64_t get_bits(enum wring_dtype dtype, const void *data, uint64_t i)
{
    size_t bytes = wring_dtype_bytes(dtype);
    const char *from = (const char *)data + i * bytes;
    uint64_t bits = 0; /* little endian */
    /* of a known number of bytes the compiler makes no call, which sanitizers would look into */
    if (bytes == 4)
        memcpy(&bits, from, 4);
    else if (bytes == 2)
        memcpy(&bits, from, 2);
    else if (bytes == 8)
        memcpy(&bits, from, 8);
    else
        bits = *(const unsigned char *)from;
    return bits;
}

static void put_bits(enum wring_dtype dtype, void *data, uint64_t i, uint64_t bits)
{
    size_t bytes = wring_dtype_bytes(dtype);
    char *to = (char *)data + i * bytes;
    if (bytes == 4)
        memcpy(to, &bits, 4);
    else if (bytes == 2)
        memcpy(to, &bits, 2);
    else if (bytes == 8)
        memcpy(to, &bits, 8);
    else
        *to = (char)bits;
}

/** The integer of those bits, as wide as its value modulo 2^64. */
static uint64_t integer_of(enum wring_dtype dtype, uint64_t bits)
{
    unsigned unused = 64 - 8 * (unsigned)wring_dtype_bytes(dtype);
    return has_sign(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused)
                           : bits << unused >> unused;
}

/** The power of two of x's leading digit, or less than any number's that is not denormal. */
static int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (int)(bits >> 52 & 0x7FF) - 0x3FF;
}

/** x * 2^exponent */
static double scale(double x, int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 0x3FF) << 52;
    double power;

    if (exponent <= -0x3FF || exponent > 0x3FF)
        return ldexp(x, exponent);
    memcpy(&power, &bits, sizeof(power));
    return x * power;
}

long double wring_test_element(enum wring_dtype dtype, const void *data, uint64_t i)
{
    if (is_complex(dtype))
        return wring_test_element(part_of(dtype), data, 2 * i);
    uint64_t bits = get_bits(dtype, data, i);
    if (!is_float(dtype))
        return has_sign(dtype) ? (long double)(int64_t)integer_of(dtype, bits) : (long double)bits;

    const struct format *f = &formats[dtype];
    uint64_t fraction = bits & ((UINT64_C(1) << f->fraction) - 1);
    int exponent = (int)(bits >> f->fraction) & (2 * f->bias + 1);
    double steps = (double)(exponent == 0 ? fraction : fraction | UINT64_C(1) << f->fraction);
    int last = (exponent == 0 ? 1 : exponent) - f->bias - f->fraction; /* digit */
    long double value;
    if (exponent == 2 * f->bias + 1)
        value = fraction == 0 ? INFINITY : NAN;
    else if (dtype == WRING_F64) /* whose denormals a double does not have in each mode */
        value = ldexpl((long double)steps, last);
    else
        value = (long double)scale(steps, last);
    return bits >> (f->bits - 1) ? -value : value;
}

/** To the nearest whole number, of two as near the even one. @param x  not negative */
static double round_even(double x)
{
    const double whole = 0x1p52; /* above it all numbers are */
    return x < whole ? (x + whole) - whole : x;
}

/** The bits of x, which is a number of more digits, rounded to nearest even. */
static uint64_t round_to(const struct format *f, double x)
{
    uint64_t sign = signbit(x) ? UINT64_C(1) << (f->bits - 1) : 0;
    uint64_t top = (uint64_t)(2 * f->bias + 1) << f->fraction;
    if (isnan(x))
        return top | UINT64_C(1) << (f->fraction - 1); /* the one NaN has no sign */
    int exponent = exponent_of(x);
    exponent = exponent < 1 - f->bias ? 1 - f->bias : exponent;
    double steps = isinf(x) ? INFINITY : round_even(scale(fabs(x), f->fraction - exponent));
    if (steps == scale(2, f->fraction)) {
        steps /= 2;
        exponent++;
    }
    if (isinf(steps) || exponent > f->bias)
        return sign | top;
    /* the leading 1 of a normal number's steps carries into the exponent */
    return sign | ((uint64_t)steps + ((uint64_t)(exponent + f->bias - 1) << f->fraction));
}

void wring_test_widen(enum wring_dtype dtype, float *to, const void *data, uint64_t elems)
{
    static float of_bits[2][UINT16_MAX + 1];
    float *table = of_bits[dtype == WRING_BF16];

    if (dtype == WRING_F32) {
        memcpy(to, data, elems * sizeof(*to));
        return;
    }
    for (uint32_t i = 0; i <= UINT16_MAX && table[1] == 0; i++) {
        uint16_t bits = (uint16_t)(UINT16_MAX - i); /* 1 comes when nearly all are there */
        table[bits] = (float)wring_test_element(dtype, &bits, 0);
    }
    for (uint64_t i = 0; i < elems; i++)
        to[i] = table[((const uint16_t *)data)[i]];
}

void wring_test_narrow(enum wring_dtype dtype, void *to, const float *data, uint64_t elems)
{
    uint16_t some[SOME];

    if (dtype == WRING_F32)
        memmove(to, data, elems * sizeof(*data));
    for (uint64_t begin = 0; begin < elems && dtype != WRING_F32; begin += SOME) {
        uint64_t n = elems - begin < SOME ? elems - begin : SOME;
        for (uint64_t i = 0; i < n; i++)
            some[i] = (uint16_t)round_to(&formats[dtype], (double)data[begin + i]);
        memcpy((char *)to + begin * sizeof(*some), some, n * sizeof(*some));
    }
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
    if (dtype == WRING_BOOL) /* true in many ways */
        return bits % 3 == 0 ? 0 : kind == WRING_TEST_BITS ? bits : 1;
    if (kind == WRING_TEST_DENORMAL)
        return (uint64_t)((int64_t)(bits % 41) - 20);
    return kind == WRING_TEST_PLAIN ? (uint64_t)((int64_t)bits >> shift) : bits;
}

void wring_test_fill(enum wring_dtype dtype, void *data, uint64_t elems, enum wring_test_kind kind,
                     uint32_t seed)
{
    uint32_t random = seed * 2654435761u + 1;
    uint64_t some[SOME];
    random = random == 0 ? 1 : random;
    elems = is_complex(dtype) ? 2 * elems : elems;
    dtype = part_of(dtype);
    size_t bytes = wring_dtype_bytes(dtype);
    for (uint64_t begin = 0; begin < elems; begin += SOME) {
        uint64_t n = elems - begin < SOME ? elems - begin : SOME;
        for (uint64_t i = 0; i < n; i++)
            put_bits(dtype, some, i, random_bits(dtype, kind, &random));
        memcpy((char *)data + begin * bytes, some, n * bytes);
    }
}

/** Whether an integer is less, in its type. */
static bool is_less(enum wring_dtype dtype, uint64_t a, uint64_t b)
{
    return has_sign(dtype) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t combine_integers(enum wring_dtype dtype, enum wring_op op, uint64_t a,
                                 uint64_t next)
{
    switch (op) {
    case WRING_MIN:
        return is_less(dtype, next, a) ? next : a;
    case WRING_MAX:
        return is_less(dtype, a, next) ? next : a;
    case WRING_PROD:
        return a * next;
    case WRING_BAND:
        return a & next;
    case WRING_BOR:
        return a | next;
    case WRING_BXOR:
        return a ^ next;
    case WRING_LAND:
        return a != 0 && next != 0;
    case WRING_LOR:
        return a != 0 || next != 0;
    default:
        return a + next;
    }
}

/** In any order: none of these operations depends on it. */
static uint64_t reduce_integers(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                                uint32_t n_src, uint64_t i)
{
    bool truth = dtype == WRING_BOOL || op == WRING_LAND || op == WRING_LOR;
    uint64_t all = 0;
    for (uint32_t s = 0; s < n_src; s++) {
        uint64_t value = integer_of(dtype, get_bits(dtype, src[s], i));
        value = truth ? value != 0 : value;
        all = s == 0 ? value : combine_integers(dtype, op, all, value);
    }
    if (op != WRING_AVG)
        return all;
    all = integer_of(dtype, all);
    return has_sign(dtype) ? (uint64_t)((int64_t)all / (int64_t)n_src) : all / n_src;
}

struct number {
    double re, im; /* of real types 0 */
};

/* Of a type's parts, in the precision that their sums have. */

static double add(enum wring_dtype part, double a, double b)
{
    return part == WRING_F64 ? a + b : (double)((float)a + (float)b);
}

static double times(enum wring_dtype part, double a, double b)
{
    return part == WRING_F64 ? a * b : (double)((float)a * (float)b);
}

static double divide(enum wring_dtype part, double x, uint32_t divisor)
{
    return part == WRING_F64 ? x / divisor : (double)((float)x / (float)divisor);
}

static struct number multiply(enum wring_dtype dtype, struct number a, struct number b)
{
    enum wring_dtype part = part_of(dtype);
    if (!is_complex(dtype))
        return (struct number){times(part, a.re, b.re), 0};
    return (struct number){
        add(part, times(part, a.re, b.re), -times(part, a.im, b.im)),
        add(part, times(part, a.re, b.im), times(part, a.im, b.re)),
    };
}

static struct number combine(enum wring_dtype dtype, enum wring_op op, struct number a,
                             struct number next)
{
    enum wring_dtype part = part_of(dtype);
    if (op == WRING_SUM || op == WRING_AVG)
        return (struct number){add(part, a.re, next.re), add(part, a.im, next.im)};
    if (op == WRING_PROD)
        return multiply(dtype, a, next);
    if (isnan(a.re) || isnan(next.re))
        return (struct number){NAN, 0};
    return (op == WRING_MIN ? next.re < a.re : next.re > a.re) ? next : a;
}

bool wring_test_is_second(uint32_t source, uint32_t n_src)
{
    uint32_t leaves = wring_test_leaves(n_src);

    if (n_src <= 8)
        return source > 0;
    return source >= leaves || (source % 2 == 1 && source + leaves >= n_src);
}

uint32_t wring_test_leaves(uint32_t n)
{
    uint32_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

/** The leaves from `first` on, `width` of them: a block of the tree. */
static struct number reduce_block(enum wring_dtype dtype, enum wring_op op, const struct number *x,
                                  uint32_t n, uint32_t first, uint32_t width)
{
    uint32_t other = first + wring_test_leaves(n);
    if (width > 1)
        return combine(dtype, op, reduce_block(dtype, op, x, n, first, width / 2),
                       reduce_block(dtype, op, x, n, first + width / 2, width / 2));
    return other < n ? combine(dtype, op, x[first], x[other]) : x[first];
}

static struct number number_at(enum wring_dtype dtype, const void *data, uint64_t i)
{
    enum wring_dtype part = part_of(dtype);
    if (!is_complex(dtype))
        return (struct number){(double)wring_test_element(dtype, data, i), 0};
    return (struct number){(double)wring_test_element(part, data, 2 * i),
                           (double)wring_test_element(part, data, 2 * i + 1)};
}

/** @param tree  not from the left */
static struct number reduce_numbers_by(bool tree, enum wring_dtype dtype, enum wring_op op,
                                       const void *const *src, uint32_t n_src, uint64_t i)
{
    struct number x[WRING_TEST_SOURCES] = {{0, 0}};
    if (n_src > WRING_TEST_SOURCES)
        abort();
    for (uint32_t s = 0; s < n_src; s++)
        x[s] = number_at(dtype, src[s], i);
    struct number a = x[0];
    if (tree)
        a = reduce_block(dtype, op, x, n_src, 0, wring_test_leaves(n_src));
    for (uint32_t s = 1; !tree && s < n_src; s++)
        a = combine(dtype, op, a, x[s]);
    if (op == WRING_AVG) {
        a.re = divide(part_of(dtype), a.re, n_src);
        a.im = divide(part_of(dtype), a.im, n_src);
    }
    return a;
}

static struct number reduce_numbers(enum wring_dtype dtype, enum wring_op op,
                                    const void *const *src, uint32_t n_src, uint64_t i)
{
    return reduce_numbers_by(n_src > 8, dtype, op, src, n_src, i);
}

static void put_number(enum wring_dtype dtype, void *data, uint64_t i, struct number x)
{
    enum wring_dtype part = part_of(dtype);
    const struct format *f = &formats[part];
    if (!is_complex(dtype)) {
        put_bits(dtype, data, i, round_to(f, x.re));
        return;
    }
    put_bits(part, data, 2 * i, round_to(f, x.re));
    put_bits(part, data, 2 * i + 1, round_to(f, x.im));
}

float wring_test_sum(const float *const *src, uint32_t n_src, uint64_t i)
{
    const void *runs[WRING_TEST_SOURCES];
    for (uint32_t s = 0; s < n_src && s < WRING_TEST_SOURCES; s++)
        runs[s] = src[s];
    return (float)reduce_numbers(WRING_F32, WRING_SUM, runs, n_src, i).re;
}

void wring_test_reduce(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                       uint32_t n_src, uint64_t elems, void *dst)
{
    for (uint64_t i = 0; i < elems; i++)
        if (is_float(part_of(dtype)))
            put_number(dtype, dst, i, reduce_numbers(dtype, op, src, n_src, i));
        else
            put_bits(dtype, dst, i, reduce_integers(dtype, op, src, n_src, i));
}

bool wring_test_goes_around(uint64_t elems, uint32_t members)
{
    return members > 1 && elems >= (uint64_t)1024 * members;
}

/** Blocks are runs of 32 elements, the first ones of one more where they cannot be alike. */
static uint32_t ring_block_of(uint64_t i, uint64_t elems, uint32_t n)
{
    uint64_t runs = (elems + 31) / 32, each = runs / n, longer = runs % n, run = i / 32;
    if (run < longer * (each + 1))
        return (uint32_t)(run / (each + 1));
    return (uint32_t)(longer + (run - longer * (each + 1)) / each);
}

void wring_test_reduce_ring(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                            uint32_t n_src, uint64_t elems, void *dst)
{
    const void *turned[WRING_TEST_SOURCES];

    for (uint64_t i = 0; i < elems; i++) {
        uint32_t block = ring_block_of(i, elems, n_src);
        for (uint32_t s = 0; s < n_src && s < WRING_TEST_SOURCES; s++)
            turned[s] = src[(block + 1 + s) % n_src];
        if (is_float(part_of(dtype)))
            put_number(dtype, dst, i, reduce_numbers_by(false, dtype, op, turned, n_src, i));
        else
            put_bits(dtype, dst, i, reduce_integers(dtype, op, turned, n_src, i));
    }
}

void wring_test_divide(enum wring_dtype dtype, void *data, uint64_t elems, uint32_t divisor)
{
    enum wring_dtype part = part_of(dtype);
    for (uint64_t i = 0; i < elems; i++)
        if (is_float(part)) {
            struct number x = number_at(dtype, data, i);
            put_number(dtype, data, i,
                       (struct number){divide(part, x.re, divisor), divide(part, x.im, divisor)});
        } else {
            uint64_t x = integer_of(dtype, get_bits(dtype, data, i));
            x = has_sign(dtype) ? (uint64_t)((int64_t)x / (int64_t)divisor) : x / divisor;
            put_bits(dtype, data, i, x);
        }
}

void wring_test_scale(enum wring_dtype dtype, void *data, uint64_t elems, double factor)
{
    enum wring_dtype part = part_of(dtype);
    for (uint64_t i = 0; i < elems; i++) {
        struct number x = number_at(dtype, data, i);
        put_number(dtype, data, i,
                   (struct number){times(part, x.re, factor), times(part, x.im, factor)});
    }
}
