/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel is called with, and what it moves. */
#include "compress/kernels/fold.h"
#include "compress/kernels/half.h"
#include "compress/kernels/narrow.h"
#include "compress/kernels/pick.h"
#include "compress/kernels/quant.h"
#include "compress/kernels/sign.h"
#include "compress/kernels/split.h"
#include "compress/kernels/sum.h"
#include "tests/kernels/time_kernels.h"

#define CALL(family, name, ...)                                                             \
    static void family##_##name(const void *tier, const struct bench_memory *m, uint64_t n) \
    {                                                                                       \
        ((const struct wring_##family##_tier *)tier)->kernels->name(__VA_ARGS__);           \
    }

CALL(narrow, encode, m->code, m->src, n)
CALL(narrow, encode_feedback, m->code, m->src, m->residual, n)
CALL(narrow, decode, m->dst, m->code, n)
CALL(narrow, decode_add, m->dst, m->code, n)
CALL(half, encode, m->code, m->src, n, WRING_HALF_OVERFLOW)
CALL(half, encode_feedback, m->code, m->src, m->residual, n)
CALL(half, decode, m->dst, m->code, n)
CALL(half, decode_add, m->dst, m->code, n)
CALL(quant, encode, m->code, m->src, NULL, n, 512)
CALL(quant, decode, m->dst, (const int8_t *)m->code, n, 0x1p-6f)
CALL(quant, decode_add, m->dst, (const int8_t *)m->code, n, 0x1p-6f)
CALL(sign, signs, m->code, m->src, NULL, n)
CALL(sign, keep, m->residual, m->src, n, 0.5f, -0.5f)
CALL(sign, spread, m->dst, m->code, n, 0.5f, -0.5f)
CALL(sign, spread_add, m->dst, m->code, n, 0.5f, -0.5f)
CALL(split, peak, m->src, n)
CALL(pick, rank, m->src, NULL, n, (n + 99) / 100)
CALL(pick, retain, m->residual, m->src, m->map, n)

static void quant_encode_feedback(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_quant_tier *)tier)->kernels->encode(m->code, m->src, m->residual, n, 512);
}

/** Numbers serve as a packed block and as its others: most of their bits are random. */
static void split_pack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    struct wring_split_beside nothing = {0};
    ((const struct wring_split_tier *)tier)
        ->kernels->pack(m->code, m->src, n, WRING_SPLIT_WIDE, 126, &nothing);
}

static void split_unpack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_split_kernels *kernels = ((const struct wring_split_tier *)tier)->kernels;
    kernels->unpack(m->dst, (const uint8_t *)m->src, (const uint8_t *)m->other, n, WRING_SPLIT_WIDE,
                    126);
}

static void split_unpack_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_split_kernels *kernels = ((const struct wring_split_tier *)tier)->kernels;
    kernels->unpack_add(m->dst, (const uint8_t *)m->src, (const uint8_t *)m->other, n,
                        WRING_SPLIT_WIDE, 126);
}

static void sign_signs_split(const void *tier, const struct bench_memory *m, uint64_t n)
{
    struct wring_sign_split split;
    ((const struct wring_sign_tier *)tier)->kernels->signs_split(m->code, m->src, NULL, n, &split);
}

/** One element in a hundred: src is uniform in [-1, 1). */
static void pick_mark(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_pick_tier *pick = tier;
    pick->kernels->mark(m->map, m->src, NULL, n, 0x3F7D70A4);
}

static void sum_two(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->src, m->other};
    ((const struct wring_sum_tier *)tier)->sum(m->dst, src, 2, n, 1);
}

static void sum_into(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->dst, m->src};
    ((const struct wring_sum_tier *)tier)->sum(m->dst, src, 2, n, 1);
}

static void sum_mean(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->src, m->other};
    ((const struct wring_sum_tier *)tier)->sum(m->dst, src, 2, n, 3);
}

/** Two runs of `elems` elements. */
#define FOLD(name, dtype, kind, elems, divisor)                                                  \
    static void fold_##name(const void *tier, const struct bench_memory *m, uint64_t n)          \
    {                                                                                            \
        struct wring_source src[] = {{m->src, 0, NULL, {0}}, {m->other, 0, NULL, {0}}};          \
        wring_fold_fn fold = ((const struct wring_fold_tier *)tier)->kernels->fold[dtype][kind]; \
        fold(m->dst, src, 2, elems, divisor);                                                    \
    }

FOLD(f32_min, WRING_F32, WRING_FOLD_MIN, n, 1)
FOLD(f64_sum, WRING_F64, WRING_FOLD_SUM, n / 2, 1)
FOLD(f16_sum, WRING_F16, WRING_FOLD_SUM, n, 1)
FOLD(bf16_sum, WRING_BF16, WRING_FOLD_SUM, n, 1)
FOLD(bf16_mean, WRING_BF16, WRING_FOLD_SUM, n, 3)
FOLD(i32_sum, WRING_I32, WRING_FOLD_SUM, n, 1)
FOLD(i32_mean, WRING_I32, WRING_FOLD_SUM, n, 3)
FOLD(i64_max, WRING_I64, WRING_FOLD_MAX, n / 2, 1)

#define TIERS(family) wring_##family##_tiers, sizeof(wring_##family##_tiers[0])
#define ANY UINT64_MAX
#define SRC [BENCH_SRC]
#define RESIDUAL [BENCH_RESIDUAL]
#define DST [BENCH_DST]
#define CODE [BENCH_CODE]
#define OTHER [BENCH_OTHER]
#define MAP [BENCH_MAP]

/* clang-format off */
const struct bench_kernel bench_kernels[] = {
    /* name                    table          block   reads                         writes                        */
    {"sum of 2",               TIERS(sum),    ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   sum_two},
    {"sum in place",           TIERS(sum),    ANY,   {SRC = 32, DST = 32},         {DST = 32},                   sum_into},
    {"mean of 2 by 3",         TIERS(sum),    ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   sum_mean},
    {"fold f32 min",           TIERS(fold),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   fold_f32_min},
    {"fold f64 sum",           TIERS(fold),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   fold_f64_sum},
    {"fold f16 sum",           TIERS(fold),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   fold_f16_sum},
    {"fold bf16 sum",          TIERS(fold),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   fold_bf16_sum},
    {"fold bf16 mean",         TIERS(fold),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   fold_bf16_mean},
    {"fold i32 sum",           TIERS(fold),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   fold_i32_sum},
    {"fold i32 mean",          TIERS(fold),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   fold_i32_mean},
    {"fold i64 max",           TIERS(fold),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   fold_i64_max},
    {"narrow encode",          TIERS(narrow), ANY,   {SRC = 32},                   {CODE = 16},                  narrow_encode},
    {"narrow encode_feedback", TIERS(narrow), ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 16, RESIDUAL = 32},   narrow_encode_feedback},
    {"narrow decode",          TIERS(narrow), ANY,   {CODE = 16},                  {DST = 32},                   narrow_decode},
    {"narrow decode_add",      TIERS(narrow), ANY,   {CODE = 16, DST = 32},        {DST = 32},                   narrow_decode_add},
    {"half encode",            TIERS(half),   ANY,   {SRC = 32},                   {CODE = 16},                  half_encode},
    {"half encode_feedback",   TIERS(half),   ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 16, RESIDUAL = 32},   half_encode_feedback},
    {"half decode",            TIERS(half),   ANY,   {CODE = 16},                  {DST = 32},                   half_decode},
    {"half decode_add",        TIERS(half),   ANY,   {CODE = 16, DST = 32},        {DST = 32},                   half_decode_add},
    {"quant encode",           TIERS(quant),  ANY,   {SRC = 32},                   {CODE = 8},                   quant_encode},
    {"quant encode_feedback",  TIERS(quant),  ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 8, RESIDUAL = 32},    quant_encode_feedback},
    {"quant decode",           TIERS(quant),  512,   {CODE = 8},                   {DST = 32},                   quant_decode},
    {"quant decode_add",       TIERS(quant),  512,   {CODE = 8, DST = 32},         {DST = 32},                   quant_decode_add},
    {"sign signs",             TIERS(sign),   1024,  {SRC = 32},                   {CODE = 1},                   sign_signs},
    {"sign signs_split",       TIERS(sign),   1024,  {SRC = 32},                   {CODE = 1},                   sign_signs_split},
    {"sign keep",              TIERS(sign),   1024,  {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              sign_keep},
    {"sign spread",            TIERS(sign),   1024,  {CODE = 1},                   {DST = 32},                   sign_spread},
    {"sign spread_add",        TIERS(sign),   1024,  {CODE = 1, DST = 32},         {DST = 32},                   sign_spread_add},
    {"split peak",             TIERS(split),  512,   {SRC = 32},                   {0},                          split_peak},
    {"split pack",             TIERS(split),  512,   {SRC = 32},                   {CODE = 28},                  split_pack},
    {"split unpack",           TIERS(split),  512,   {SRC = 28},                   {DST = 32},                   split_unpack},
    {"split unpack_add",       TIERS(split),  512,   {SRC = 28, DST = 32},         {DST = 32},                   split_unpack_add},
    {"pick rank",              TIERS(pick),   65536, {SRC = 32},                   {0},                          pick_rank},
    {"pick mark",              TIERS(pick),   65536, {SRC = 32},                   {MAP = 1},                    pick_mark},
    {"pick retain",            TIERS(pick),   65536, {SRC = 32, RESIDUAL = 32, MAP = 1}, {RESIDUAL = 32},        pick_retain},
    {0},
};
/* clang-format on */
