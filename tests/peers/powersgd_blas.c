/* SPDX-License-Identifier: Apache-2.0 */
/**
 * powersgd beside OpenBLAS and beside a twin, one thread each, in turns.
 *
 *     powersgd_blas [ROWS [TURNS]]
 *
 * All three do a step of `powersgd:rank=4+ef` over ROWS x ROWS numbers, encode and decode: OpenBLAS
 * by one saxpy and four sgemm, with the same columns made orthonormal between them; the twin reads
 * and writes the same arrays as the codec, as often, and computes nothing. Prints the medians of
 * milliseconds and of the turns' ratios. Fails where codec and OpenBLAS differ in more than their
 * roundings. Exits with 77 where there is no OpenBLAS.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "compress/solo.h"
#include "tools/bench/bench.h"
#include "tools/bench/twin.h"
#include "tools/demo/blas.h"

#define RANK 4
#define SPEC "powersgd:rank=4+ef"
#define TURNS_MAX 1000
#define TOLERANCE 1e-3 /* of the product's length: sums of thousands of products in two orders */

/** One side's memory: a matrix, what a step leaves of it, and the product. */
struct side {
    float *src, *residual, *out;
};

struct blas_side {
    struct side side;
    struct demo_blas blas;
    float *p, *q, *next; /* tall ones, column after column */
};

struct codec_side {
    struct side side;
    struct wring_codec *codec;
    struct wring_codec_context context;
    struct wring_solo solo;
};

static uint64_t rows, elems;

static void *allocate(uint64_t numbers)
{
    void *memory = aligned_alloc(4096, (numbers * sizeof(float) + 4095) / 4096 * 4096);

    if (memory == NULL) {
        fprintf(stderr, "powersgd_blas: out of memory\n");
        exit(1);
    }
    memset(memory, 0, numbers * sizeof(float));
    return memory;
}

static struct side make_side(void)
{
    struct side side = {allocate(elems), allocate(elems), allocate(elems)};

    for (uint64_t i = 0; i < elems; i++)
        side.src[i] = wring_pattern(1, i);
    return side;
}

static void free_side(const struct side *side)
{
    free(side->src);
    free(side->residual);
    free(side->out);
}

/* ---- OpenBLAS ---- */

static double dot(const float *a, const float *b)
{
    double sum = 0;

    for (uint64_t i = 0; i < rows; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void normalise(float *column)
{
    double length = sqrt(dot(column, column));

    for (uint64_t i = 0; i < rows; i++)
        column[i] = (float)((double)column[i] / length);
}

static void orthonormalise(float *p)
{
    for (unsigned k = 0; k < RANK; k++) {
        for (unsigned j = 0; j < k; j++) {
            double factor = dot(p + k * rows, p + j * rows);
            for (uint64_t i = 0; i < rows; i++)
                p[k * rows + i] -= (float)(factor * (double)p[j * rows + i]);
        }
        normalise(p + k * rows);
    }
}

static void finish_blas(struct blas_side *side)
{
    free_side(&side->side);
    free(side->p);
    free(side->q);
    free(side->next);
    demo_blas_unload(&side->blas);
}

/** out = scale (p q') + keep out; for BLAS, row after row is column after column of the transpose.
 */
static void multiply(const struct blas_side *side, float scale, float keep, float *out)
{
    int n = (int)rows;
    side->blas.sgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, RANK, scale, side->next, n,
                     side->p, n, keep, out, n);
}

static void run_blas(struct blas_side *side)
{
    float *v = side->side.residual;
    int n = (int)rows;

    side->blas.saxpy((int)elems, 1, side->side.src, 1, v, 1);
    side->blas.sgemm(CblasColMajor, CblasTrans, CblasNoTrans, n, RANK, n, 1, v, n, side->q, n, 0,
                     side->p, n);
    orthonormalise(side->p);
    side->blas.sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, RANK, n, 1, v, n, side->p, n, 0,
                     side->next, n);
    multiply(side, -1, 1, v);
    multiply(side, 1, 0, side->side.out);
    memcpy(side->q, side->next, RANK * rows * sizeof(float));
    for (unsigned k = 0; k < RANK; k++)
        normalise(side->q + k * rows);
}

/* ---- the codec ---- */

static void run_codec(struct codec_side *side)
{
    float code[16];

    side->context.step++;
    wring_solo_rounds(&side->solo, &side->context, side->side.src, side->side.residual);
    size_t bytes = wring_codec_encode(side->codec, &side->context, side->side.src, elems,
                                      side->side.residual, code);
    if (wring_codec_decode(side->codec, &side->context, code, bytes, side->side.out, elems,
                           false) != WRING_OK) {
        fprintf(stderr, "powersgd_blas: " SPEC " refuses its own code\n");
        exit(1);
    }
}

static void make_codec(struct codec_side *side)
{
    char why[256];

    side->side = make_side();
    side->context = (struct wring_codec_context){
        .seed = 1, .ranks = 2, .elems = elems, .rows = rows, .columns = rows};
    if (wring_codec_create(SPEC, "best", NULL, why, sizeof(why), &side->codec) != WRING_OK ||
        wring_solo_init(&side->solo, side->codec, &side->context) != WRING_OK) {
        fprintf(stderr, "powersgd_blas: " SPEC " cannot be made\n");
        exit(1);
    }
}

static void finish_codec(struct codec_side *side)
{
    free_side(&side->side);
    wring_solo_finish(&side->solo);
    wring_codec_destroy(side->codec);
}

/* ---- the twin ---- */

/** Two rounds read both arrays; then the residual is renewed, and the product written. */
static void run_twin(const struct side *side)
{
    const struct wring_twin_stream src = wring_twin_all(side->src, elems * sizeof(float)),
                                   residual = wring_twin_all(side->residual, elems * sizeof(float)),
                                   out = wring_twin_all(side->out, elems * sizeof(float));
    const struct wring_twin_work passes[] = {{.read = src, .other = residual},
                                             {.read = src, .other = residual},
                                             {.read = src, .update = residual},
                                             {.write = out}};

    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
        wring_twin_run(wring_twin_widest(), &passes[i], WRING_TWIN_STREAM_WRITES);
}

/* ---- turns ---- */

static double since_ms(uint64_t begin_ns)
{
    return (double)(wring_now_ns() - begin_ns) / 1e6;
}

static bool agree(const float *a, const float *b)
{
    double error = 0, power = 0;

    for (uint64_t i = 0; i < elems; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        power += (double)b[i] * (double)b[i];
    }
    return power > 0 && error <= TOLERANCE * TOLERANCE * power;
}

int main(int argc, char **argv)
{
    static double times[3][TURNS_MAX], of_blas[TURNS_MAX], of_twin[TURNS_MAX];
    struct blas_side blas = {0};
    struct codec_side codec = {0};
    char why[128];

    rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    uint64_t turns = argc > 2 ? strtoull(argv[2], NULL, 10) : 15;
    if (rows < 64 || rows > 16384 || rows % 16 != 0 || turns == 0 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: powersgd_blas [ROWS [TURNS]], ROWS a multiple of 16 from 64 on\n");
        return 2;
    }
    if (!demo_blas_load(&blas.blas, why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    elems = rows * rows;
    uint64_t mode = wring_fp_enter();
    make_codec(&codec);
    blas.side = make_side();
    blas.p = allocate(RANK * rows);
    blas.q = allocate(RANK * rows);
    blas.next = allocate(RANK * rows);
    memcpy(blas.q, codec.solo.states[0], RANK * rows * sizeof(float));
    run_codec(&codec);
    run_blas(&blas);
    bool same =
        agree(codec.side.out, blas.side.out) && agree(codec.side.residual, blas.side.residual);
    for (uint64_t turn = 0; turn < turns; turn++) {
        uint64_t begin = wring_now_ns();
        run_codec(&codec);
        times[0][turn] = since_ms(begin);
        begin = wring_now_ns();
        run_blas(&blas);
        times[1][turn] = since_ms(begin);
        begin = wring_now_ns();
        run_twin(&codec.side);
        times[2][turn] = since_ms(begin);
        of_blas[turn] = times[1][turn] / times[0][turn];
        of_twin[turn] = times[2][turn] / times[0][turn];
    }
    wring_fp_leave(mode);
    printf("%s, %zu x %zu, %zu turns: codec %.1f ms, OpenBLAS %.1f ms, twin %.1f ms; codec's speed "
           "%.2f x OpenBLAS, %.2f x twin\n",
           SPEC, (size_t)rows, (size_t)rows, (size_t)turns, wring_spread_of(times[0], turns).median,
           wring_spread_of(times[1], turns).median, wring_spread_of(times[2], turns).median,
           wring_spread_of(of_blas, turns).median, wring_spread_of(of_twin, turns).median);
    if (!same)
        fprintf(stderr, "powersgd_blas: codec and OpenBLAS differ\n");
    finish_codec(&codec);
    finish_blas(&blas);
    return same ? 0 : 1;
}
