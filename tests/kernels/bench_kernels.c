/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel is called with, and what it moves. */
#include "compress/kernels/bf16.h"
#include "compress/kernels/bounded.h"
#include "compress/kernels/fp16.h"
#include "compress/kernels/int8.h"
#include "compress/kernels/ints.h"
#include "compress/kernels/lossless.h"
#include "compress/kernels/lossless16.h"
#include "compress/kernels/lowrank.h"
#include "compress/kernels/minifloat.h"
#include "compress/kernels/momentum.h"
#include "compress/kernels/natural.h"
#include "compress/kernels/onebit.h"
#include "compress/kernels/philox.h"
#include "compress/kernels/qsgd.h"
#include "compress/kernels/reduce.h"
#include "compress/kernels/residual.h"
#include "compress/kernels/rotate.h"
#include "compress/kernels/sparse.h"
#include "compress/kernels/steps.h"
#include "compress/kernels/topk.h"
#include "compress/kernels/votes.h"
#include "tests/kernels/time_kernels.h"

#define CALL(family, name, ...)                                                             \
    static void family##_##name(const void *tier, const struct bench_memory *m, uint64_t n) \
    {                                                                                       \
        ((const struct wring_##family##_tier *)tier)->kernels->name(__VA_ARGS__);           \
    }

CALL(bf16, encode, m->code, m->src, n)
CALL(bf16, encode_feedback, m->code, m->src, m->residual, n)
CALL(bf16, decode, m->dst, m->code, n)
CALL(bf16, decode_add, m->dst, m->code, n)
CALL(fp16, encode, m->code, m->src, n, WRING_FP16_OVERFLOW)
CALL(fp16, encode_feedback, m->code, m->src, m->residual, n)
CALL(fp16, decode, m->dst, m->code, n)
CALL(fp16, decode_add, m->dst, m->code, n)
CALL(int8, encode, m->code, m->src, NULL, n, 512)
CALL(int8, decode, m->dst, (const int8_t *)m->code, n, 0x1p-6f)
CALL(int8, decode_add, m->dst, (const int8_t *)m->code, n, 0x1p-6f)
CALL(onebit, signs, m->code, m->src, NULL, n)
CALL(onebit, keep, m->residual, m->src, n, 0.5f, -0.5f)
CALL(onebit, spread, m->dst, m->code, n, 0.5f, -0.5f)
CALL(onebit, spread_add, m->dst, m->code, n, 0.5f, -0.5f)
CALL(lossless, peak, m->src, n)
CALL(lossless16, pack, m->code, (const uint16_t *)m->src, n,
     (struct wring_lossless16_form){0, WRING_LOSSLESS_BLOCK_NARROW, 0x7F})
CALL(steps, peak, m->src, NULL, n)
CALL(votes, votes, m->code, m->src, n)
CALL(votes, mix, m->dst, m->residual, m->src, n, 0.9f, 0.1f)
CALL(sparse, peak, m->src, NULL, n)
CALL(sparse, feed, m->residual, m->src, n)
CALL(sparse, squares, m->src, NULL, n)
CALL(momentum, advance, m->residual, m->src, n, 0.9f)
CALL(momentum, look_ahead, m->residual, m->src, n, 0.9f)
CALL(momentum, step_back, m->residual, m->src, n)
CALL(topk, rank, m->src, NULL, n, (n + 99) / 100)
CALL(topk, retain, m->residual, m->src, m->map, n)

static void int8_encode_feedback(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_int8_tier *)tier)->kernels->encode(m->code, m->src, m->residual, n, 512);
}

/** Numbers serve as a packed block and as its others: most of their bits are random. */
static void lossless_pack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    struct wring_lossless_beside nothing = {0};
    ((const struct wring_lossless_tier *)tier)
        ->kernels->pack(m->code, m->src, n, WRING_LOSSLESS_BLOCK_WIDE, 126, &nothing);
}

static void lossless_unpack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_lossless_tier_kernels *kernels =
        ((const struct wring_lossless_tier *)tier)->kernels;
    kernels->unpack(m->dst, (const uint8_t *)m->src, (const uint8_t *)m->other, n,
                    WRING_LOSSLESS_BLOCK_WIDE, 126);
}

static void lossless_unpack_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_lossless_tier_kernels *kernels =
        ((const struct wring_lossless_tier *)tier)->kernels;
    kernels->unpack_add(m->dst, (const uint8_t *)m->src, (const uint8_t *)m->other, n,
                        WRING_LOSSLESS_BLOCK_WIDE, 126);
}

/** A matrix of 512 columns; numbers serve as what it is multiplied by. */
static struct wring_lowrank_shape shape_of(uint64_t n, unsigned rank)
{
    return (struct wring_lowrank_shape){n >> 9, 1 << 9, rank};
}

#define LOWRANK(rank)                                                                             \
    static void lowrank_right##rank(const void *tier, const struct bench_memory *m, uint64_t n)   \
    {                                                                                             \
        ((const struct wring_lowrank_tier *)tier)                                                 \
            ->kernels->right(m->dst, m->src, NULL, shape_of(n, rank), m->other);                  \
    }                                                                                             \
    static void lowrank_left##rank(const void *tier, const struct bench_memory *m, uint64_t n)    \
    {                                                                                             \
        ((const struct wring_lowrank_tier *)tier)                                                 \
            ->kernels->left(m->dst, m->src, NULL, shape_of(n, rank), m->other);                   \
    }                                                                                             \
    static void lowrank_product##rank(const void *tier, const struct bench_memory *m, uint64_t n) \
    {                                                                                             \
        ((const struct wring_lowrank_tier *)tier)                                                 \
            ->kernels->product(m->dst, shape_of(n, rank), m->other, m->src);                      \
    }                                                                                             \
    static void lowrank_keep##rank(const void *tier, const struct bench_memory *m, uint64_t n)    \
    {                                                                                             \
        ((const struct wring_lowrank_tier *)tier)                                                 \
            ->kernels->keep(m->residual, m->src, shape_of(n, rank), m->other, m->other);          \
    }

LOWRANK(1)
LOWRANK(4)
LOWRANK(8)

#define ROTATE ((const struct wring_rotate_tier *)tier)->kernels
#define ORDER 1024

static const uint32_t rotate_signs[ORDER / 32] = {0x12345678, 0x9ABCDEF0};

static void rotate_power(const void *tier, const struct bench_memory *m, uint64_t n)
{
    volatile double power = ROTATE->power(m->src, NULL, n);
    (void)power;
}

static void rotate_forward(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ROTATE->forward(m->dst, m->src, NULL, n < ORDER ? n : ORDER, rotate_signs, ORDER);
}

#define STEPS (((const struct wring_steps_tier *)tier)->kernels)

static void steps_encode4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->width[0].encode(m->code, m->src, NULL, n, 0x1p-3f, 0x1p3f, 7);
}

static void steps_decode4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->width[0].decode(m->dst, m->code, n, 0x1p-3f);
}

static void steps_add4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->add4_to8(m->code, m->src, n);
}

static void steps_encode(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->width[1].encode(m->code, m->src, NULL, n, 0x1p-6f, 0x1p6f, 63);
}

static void steps_encode16(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->width[2].encode(m->code, m->src, NULL, n, 0x1p-14f, 0x1p14f, 16383);
}

static void steps_decode16(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->width[2].decode(m->dst, m->code, n, 0x1p-14f);
}

static void steps_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    STEPS->add8(m->code, m->src, n);
}

static void onebit_signs_split(const void *tier, const struct bench_memory *m, uint64_t n)
{
    struct wring_onebit_split split;
    ((const struct wring_onebit_tier *)tier)
        ->kernels->signs_split(m->code, m->src, NULL, n, &split);
}

/** One element in a hundred: src is uniform in [-1, 1). */
static void topk_mark(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_topk_tier *topk = tier;
    topk->kernels->mark(m->map, m->src, NULL, n, 0x3F7D70A4);
}

static void sum_two(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->src, m->other};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(m->dst, src, 2, n, 1);
}

static void sum_into(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->dst, m->src};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(m->dst, src, 2, n, 1);
}

static void sum_mean(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const void *src[] = {m->src, m->other};
    ((const struct wring_reduce_tier *)tier)->kernels->sum(m->dst, src, 2, n, 3);
}

/** Two runs of `elems` elements. */
#define FOLD(name, dtype, kind, elems, divisor)                                           \
    static void reduce_##name(const void *tier, const struct bench_memory *m, uint64_t n) \
    {                                                                                     \
        struct wring_source src[] = {{m->src, 0, NULL, {0}}, {m->other, 0, NULL, {0}}};   \
        wring_reduce_fn reduce =                                                          \
            ((const struct wring_reduce_tier *)tier)->kernels->fold[dtype][kind];         \
        reduce(m->dst, src, 2, elems, divisor);                                           \
    }

FOLD(f32_min, WRING_F32, WRING_REDUCE_MIN, n, 1)
FOLD(f64_sum, WRING_F64, WRING_REDUCE_SUM, n / 2, 1)
FOLD(f16_sum, WRING_F16, WRING_REDUCE_SUM, n, 1)
FOLD(bf16_sum, WRING_BF16, WRING_REDUCE_SUM, n, 1)
FOLD(bf16_mean, WRING_BF16, WRING_REDUCE_SUM, n, 3)
FOLD(i32_sum, WRING_I32, WRING_REDUCE_SUM, n, 1)
FOLD(i32_mean, WRING_I32, WRING_REDUCE_SUM, n, 3)
FOLD(i64_max, WRING_I64, WRING_REDUCE_MAX, n / 2, 1)

/** A number for each element, of a whole number of blocks. */
static void philox_words(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_philox_stream stream = {{1, 2}, 3};
    ((const struct wring_philox_tier *)tier)
        ->kernels->words((uint32_t *)(void *)m->dst, &stream, 0, n / WRING_PHILOX_WORDS);
}

/** Of 4 bits, of which the noise is read as well: two bytes of an element. */
static const struct wring_qsgd_form *qsgd_form(const void *tier, int partition)
{
    return &((const struct wring_qsgd_tier *)tier)->kernels->forms[partition][1];
}

static const uint32_t *noise_of(const struct bench_memory *m)
{
    return (const uint32_t *)(const void *)m->other;
}

static void qsgd_encode(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_qsgd_scale scale = {7 * 0x1p16f, 1 / 7.0f, 7 * 65536};
    qsgd_form(tier, 0)->encode(m->code, m->src, NULL, n, &scale, noise_of(m));
}

static void qsgd_encode_powers(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_qsgd_scale scale = {1, 1, 0};
    qsgd_form(tier, 1)->encode(m->code, m->src, NULL, n, &scale, noise_of(m));
}

static void qsgd_decode_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    qsgd_form(tier, 0)->decode_add(m->dst, m->code, n, 1 / 7.0f);
}

static void qsgd_squares(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_qsgd_tier *)tier)->kernels->squares(m->src, NULL, n);
}

static void residual_pack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_residual_tier *)tier)->kernels->pack(m->code, m->src, n, noise_of(m));
}

static void residual_unpack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_residual_tier *)tier)->kernels->unpack(m->dst, m->code, n);
}

static void natural_encode(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_natural_scale scale = {1, 1};
    ((const struct wring_natural_tier *)tier)
        ->kernels->nine.encode(m->code, m->src, NULL, n, scale, noise_of(m));
}

static void natural_decode_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_natural_tier *)tier)->kernels->nine.decode_add(m->dst, m->code, n, 1);
}

/** Numbers serve as a packed block of as many halves, of which one in eight is an other. */
static void lossless16_unpack(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const uint8_t *packed = (const uint8_t *)m->src;
    ((const struct wring_lossless16_tier *)tier)
        ->kernels->unpack((uint16_t *)m->dst, packed, packed, n, n,
                          (struct wring_lossless16_form){0, WRING_LOSSLESS_BLOCK_NARROW, 0x7F});
}

static void bf16_encode_random(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_bf16_tier *)tier)
        ->kernels->encode_random(m->code, m->src, NULL, n, noise_of(m), WRING_BF16_LARGEST, false);
}

static void fp16_encode_random(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_fp16_tier *)tier)
        ->kernels->encode_random(m->code, m->src, NULL, n, noise_of(m), WRING_FP16_OVERFLOW, false);
}

/** A block after the other, as steps of 6 bits; codes are random. */
static void bounded_unpack_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_bounded_tier *)tier)->kernels->unpack_add(m->dst, m->code, n, 6, 0x1p-6f);
}

#define INTS ((const struct wring_ints_tier *)tier)->kernels

static void ints_encode4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    INTS->absmax[1].encode(m->code, m->src, NULL, n, 128);
}

static void ints_encode2(const void *tier, const struct bench_memory *m, uint64_t n)
{
    INTS->absmax[0].encode(m->code, m->src, NULL, n, 128);
}

static void ints_encode4_minmax(const void *tier, const struct bench_memory *m, uint64_t n)
{
    INTS->minmax[1].encode(m->code, m->src, NULL, n, 128);
}

static void ints_encode8_minmax(const void *tier, const struct bench_memory *m, uint64_t n)
{
    INTS->minmax[2].encode(m->code, m->src, NULL, n, 512);
}

static void ints_decode_add4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_ints_scale scale = {1 / 7.0f, 0};
    INTS->absmax[1].decode_add(m->dst, m->code, n, scale);
}

static void ints_decode_add8_minmax(const void *tier, const struct bench_memory *m, uint64_t n)
{
    const struct wring_ints_scale scale = {1 / 128.0f, -1};
    INTS->minmax[2].decode_add(m->dst, m->code, n, scale);
}

/** Steps and what numbers are multiplied by are numbers themselves. */
#define FORM(name) (((const struct wring_minifloat_tier *)tier)->kernels->forms[name])

static void minifloat_peaks(const void *tier, const struct bench_memory *m, uint64_t n)
{
    ((const struct wring_minifloat_tier *)tier)
        ->kernels->peaks((uint32_t *)(void *)m->dst, m->src, NULL, n, 32);
}

static void minifloat_encode(const void *tier, const struct bench_memory *m, uint64_t n)
{
    FORM(WRING_E4M3).encode[WRING_ROUND_EVEN](m->code, m->src, NULL, n, m->residual, NULL, NULL);
}

static void minifloat_encode_random(const void *tier, const struct bench_memory *m, uint64_t n)
{
    FORM(WRING_E4M3)
        .encode[WRING_ROUND_RANDOM](m->code, m->src, NULL, n, m->residual, NULL, noise_of(m));
}

static void minifloat_decode_add(const void *tier, const struct bench_memory *m, uint64_t n)
{
    FORM(WRING_E4M3).decode_add(m->dst, m->code, n, m->residual);
}

static void minifloat_encode_4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    FORM(WRING_E2M1_BY_16)
        .encode[WRING_ROUND_EVEN](m->code, m->src, NULL, n, m->residual, NULL, NULL);
}

static void minifloat_decode_add_4(const void *tier, const struct bench_memory *m, uint64_t n)
{
    FORM(WRING_E2M1_BY_16).decode_add(m->dst, m->code, n, m->residual);
}

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
    {"sum of 2",             TIERS(reduce),      ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   sum_two},
    {"sum in place",         TIERS(reduce),      ANY,   {SRC = 32, DST = 32},         {DST = 32},                   sum_into},
    {"mean of 2 by 3",       TIERS(reduce),      ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   sum_mean},
    {"reduce f32 min",       TIERS(reduce),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   reduce_f32_min},
    {"reduce f64 sum",       TIERS(reduce),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   reduce_f64_sum},
    {"reduce f16 sum",       TIERS(reduce),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   reduce_f16_sum},
    {"reduce bf16 sum",      TIERS(reduce),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   reduce_bf16_sum},
    {"reduce bf16 mean",     TIERS(reduce),   ANY,   {SRC = 16, OTHER = 16},       {DST = 16},                   reduce_bf16_mean},
    {"reduce i32 sum",       TIERS(reduce),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   reduce_i32_sum},
    {"reduce i32 mean",      TIERS(reduce),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   reduce_i32_mean},
    {"reduce i64 max",       TIERS(reduce),   ANY,   {SRC = 32, OTHER = 32},       {DST = 32},                   reduce_i64_max},
    {"bf16 encode",          TIERS(bf16),     ANY,   {SRC = 32},                   {CODE = 16},                  bf16_encode},
    {"bf16 encode_feedback", TIERS(bf16),     ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 16, RESIDUAL = 32},   bf16_encode_feedback},
    {"bf16 decode",          TIERS(bf16),     ANY,   {CODE = 16},                  {DST = 32},                   bf16_decode},
    {"bf16 decode_add",      TIERS(bf16),     ANY,   {CODE = 16, DST = 32},        {DST = 32},                   bf16_decode_add},
    {"fp16 encode",          TIERS(fp16),     ANY,   {SRC = 32},                   {CODE = 16},                  fp16_encode},
    {"fp16 encode_feedback", TIERS(fp16),     ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 16, RESIDUAL = 32},   fp16_encode_feedback},
    {"fp16 decode",          TIERS(fp16),     ANY,   {CODE = 16},                  {DST = 32},                   fp16_decode},
    {"fp16 decode_add",      TIERS(fp16),     ANY,   {CODE = 16, DST = 32},        {DST = 32},                   fp16_decode_add},
    {"int8 encode",          TIERS(int8),     ANY,   {SRC = 32},                   {CODE = 8},                   int8_encode},
    {"int8 encode_feedback", TIERS(int8),     ANY,   {SRC = 32, RESIDUAL = 32},    {CODE = 8, RESIDUAL = 32},    int8_encode_feedback},
    {"int8 decode",          TIERS(int8),     512,   {CODE = 8},                   {DST = 32},                   int8_decode},
    {"int8 decode_add",      TIERS(int8),     512,   {CODE = 8, DST = 32},         {DST = 32},                   int8_decode_add},
    {"onebit signs",         TIERS(onebit),   1024,  {SRC = 32},                   {CODE = 1},                   onebit_signs},
    {"onebit signs_split",   TIERS(onebit),   1024,  {SRC = 32},                   {CODE = 1},                   onebit_signs_split},
    {"onebit keep",          TIERS(onebit),   1024,  {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              onebit_keep},
    {"onebit spread",        TIERS(onebit),   1024,  {CODE = 1},                   {DST = 32},                   onebit_spread},
    {"onebit spread_add",    TIERS(onebit),   1024,  {CODE = 1, DST = 32},         {DST = 32},                   onebit_spread_add},
    {"votes",                TIERS(votes),    1024,  {SRC = 32},                   {CODE = 1},                   votes_votes},
    {"votes mix",            TIERS(votes),    1024,  {SRC = 32, RESIDUAL = 32},    {DST = 32},                   votes_mix},
    {"steps peak",           TIERS(steps),    512,   {SRC = 32},                   {0},                          steps_peak},
    {"steps encode",         TIERS(steps),    512,   {SRC = 32},                   {CODE = 8},                   steps_encode},
    {"steps encode 16",      TIERS(steps),    512,   {SRC = 32},                   {CODE = 16},                  steps_encode16},
    {"steps decode 16",      TIERS(steps),    512,   {CODE = 16},                  {DST = 32},                   steps_decode16},
    {"steps encode 4",       TIERS(steps),    512,   {SRC = 32},                   {CODE = 4},                   steps_encode4},
    {"steps decode 4",       TIERS(steps),    512,   {CODE = 4},                   {DST = 32},                   steps_decode4},
    {"steps add",            TIERS(steps),    512,   {CODE = 8, SRC = 8},          {CODE = 8},                   steps_add},
    {"steps add 4",          TIERS(steps),    512,   {CODE = 8, SRC = 4},          {CODE = 8},                   steps_add4},
    {"rotate power",         TIERS(rotate),   1024,  {SRC = 32},                   {0},                          rotate_power},
    {"rotate forward",       TIERS(rotate),   1024,  {SRC = 32},                   {DST = 32},                   rotate_forward},
    {"lowrank right 1",      TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_right1},
    {"lowrank right 4",      TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_right4},
    {"lowrank right 8",      TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_right8},
    {"lowrank left 1",       TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_left1},
    {"lowrank left 4",       TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_left4},
    {"lowrank left 8",       TIERS(lowrank),  ANY,   {SRC = 32},                   {0},                          lowrank_left8},
    {"lowrank product 1",    TIERS(lowrank),  ANY,   {0},                          {DST = 32},                   lowrank_product1},
    {"lowrank product 4",    TIERS(lowrank),  ANY,   {0},                          {DST = 32},                   lowrank_product4},
    {"lowrank product 8",    TIERS(lowrank),  ANY,   {0},                          {DST = 32},                   lowrank_product8},
    {"lowrank keep 1",       TIERS(lowrank),  ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              lowrank_keep1},
    {"lowrank keep 4",       TIERS(lowrank),  ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              lowrank_keep4},
    {"lowrank keep 8",       TIERS(lowrank),  ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              lowrank_keep8},
    {"lossless peak",        TIERS(lossless), 512,   {SRC = 32},                   {0},                          lossless_peak},
    {"lossless pack",        TIERS(lossless), 512,   {SRC = 32},                   {CODE = 28},                  lossless_pack},
    {"lossless unpack",      TIERS(lossless), 512,   {SRC = 28},                   {DST = 32},                   lossless_unpack},
    {"lossless16 pack",      TIERS(lossless16), 512, {SRC = 16},                   {CODE = 12},                  lossless16_pack},
    {"lossless16 unpack",    TIERS(lossless16), 512, {SRC = 12},                   {DST = 16},                   lossless16_unpack},
    {"lossless unpack_add",  TIERS(lossless), 512,   {SRC = 28, DST = 32},         {DST = 32},                   lossless_unpack_add},
    {"topk rank",            TIERS(topk),     65536, {SRC = 32},                   {0},                          topk_rank},
    {"topk mark",            TIERS(topk),     65536, {SRC = 32},                   {MAP = 1},                    topk_mark},
    {"topk retain",          TIERS(topk),     65536, {SRC = 32, RESIDUAL = 32, MAP = 1}, {RESIDUAL = 32},        topk_retain},
    {"sparse peak",          TIERS(sparse),   4096,  {SRC = 32},                   {0},                          sparse_peak},
    {"sparse feed",          TIERS(sparse),   4096,  {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              sparse_feed},
    {"sparse squares",       TIERS(sparse),   128,   {SRC = 32},                   {0},                          sparse_squares},
    {"momentum advance",     TIERS(momentum), ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              momentum_advance},
    {"momentum look_ahead",  TIERS(momentum), ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              momentum_look_ahead},
    {"momentum step_back",   TIERS(momentum), ANY,   {SRC = 32, RESIDUAL = 32},    {RESIDUAL = 32},              momentum_step_back},
    {"residual pack",        TIERS(residual), ANY,   {SRC = 32, OTHER = 16},       {CODE = 8},                   residual_pack},
    {"residual unpack",      TIERS(residual), ANY,   {CODE = 8},                   {DST = 32},                   residual_unpack},
    {"qsgd squares",         TIERS(qsgd),     65536, {SRC = 32},                   {0},                          qsgd_squares},
    {"qsgd encode",          TIERS(qsgd),     65536, {SRC = 32, OTHER = 16},       {CODE = 4},                   qsgd_encode},
    {"qsgd encode powers",   TIERS(qsgd),     65536, {SRC = 32, OTHER = 16},       {CODE = 4},                   qsgd_encode_powers},
    {"qsgd decode_add",      TIERS(qsgd),     65536, {CODE = 4, DST = 32},         {DST = 32},                   qsgd_decode_add},
    {"natural encode",       TIERS(natural),  ANY,   {SRC = 32, OTHER = 16},       {CODE = 9},                   natural_encode},
    {"natural decode_add",   TIERS(natural),  ANY,   {CODE = 9, DST = 32},         {DST = 32},                   natural_decode_add},
    {"bf16 encode_random",   TIERS(bf16),     ANY,   {SRC = 32, OTHER = 16},       {CODE = 16},                  bf16_encode_random},
    {"fp16 encode_random",   TIERS(fp16),     ANY,   {SRC = 32, OTHER = 16},       {CODE = 16},                  fp16_encode_random},
    {"bounded unpack_add",   TIERS(bounded),  256,   {CODE = 6, DST = 32},         {DST = 32},                   bounded_unpack_add},
    {"ints encode 4",        TIERS(ints),     ANY,   {SRC = 32},                   {CODE = 4},                   ints_encode4},
    {"ints encode 2",        TIERS(ints),     ANY,   {SRC = 32},                   {CODE = 2},                   ints_encode2},
    {"ints encode 4 minmax", TIERS(ints),     ANY,   {SRC = 32},                   {CODE = 4},                   ints_encode4_minmax},
    {"ints encode 8 minmax", TIERS(ints),     ANY,   {SRC = 32},                   {CODE = 8},                   ints_encode8_minmax},
    {"ints add 4",           TIERS(ints),     128,   {CODE = 4, DST = 32},         {DST = 32},                   ints_decode_add4},
    {"ints add 8 minmax",    TIERS(ints),     512,   {CODE = 8, DST = 32},         {DST = 32},                   ints_decode_add8_minmax},
    {"minifloat peaks",      TIERS(minifloat), ANY,  {SRC = 32},                   {DST = 1},                    minifloat_peaks},
    {"minifloat encode",     TIERS(minifloat), ANY,  {SRC = 32},                   {CODE = 8},                   minifloat_encode},
    {"minifloat random",     TIERS(minifloat), 1024, {SRC = 32, OTHER = 16},       {CODE = 8},                   minifloat_encode_random},
    {"minifloat decode_add", TIERS(minifloat), ANY,  {CODE = 8, DST = 32},         {DST = 32},                   minifloat_decode_add},
    {"minifloat encode 4",   TIERS(minifloat), ANY,  {SRC = 32, RESIDUAL = 2},     {CODE = 4},                   minifloat_encode_4},
    {"minifloat add 4",      TIERS(minifloat), ANY,  {CODE = 4, DST = 32, RESIDUAL = 2}, {DST = 32},             minifloat_decode_add_4},
    {"philox words",         TIERS(philox),   ANY,   {0},                          {DST = 32},                   philox_words},
    {0},
};
/* clang-format on */
