/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/time_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/test.h"

#define TURNS 9                /* each times the kernel, its twin and memcpy, one after the other */
#define ELEMS_MAX (1ull << 34) /* twins count their lines in 32 bits */
#define CALLS_NS 200000.0      /* at least so long a measurement */

/** What is timed in turn. */
enum contender {
    KERNEL,
    TWIN,
    MEMCPY,
    CONTENDERS
};

struct bench {
    const struct bench_kernel *kernel;
    const void *tier;
    struct bench_memory memory;
    struct wring_twin_work work;
    const struct wring_twin_tier *twin; /* the widest sets the limit for all tiers */
    uint64_t elems;
    uint64_t seen; /* by twins */
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *new_stream(uint64_t bytes)
{
    void *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (data == NULL) {
        fputs("no memory for a benchmark of so many elements\n", stderr);
        exit(1);
    }
    return data;
}

/** Uniform in [-1, 1). */
static float *new_floats(uint64_t n, uint32_t seed)
{
    float *data = new_stream(n * sizeof(*data));
    for (uint64_t i = 0; i < n; i++)
        data[i] = wring_test_random_float(&seed);
    return data;
}

static void open_memory(struct bench_memory *memory, uint64_t n)
{
    memory->src = new_floats(n, 1);
    memory->residual = new_floats(n, 2);
    memory->dst = new_floats(n, 3);
    memory->other = new_floats(n, 4);
    memory->code = new_stream(n * 4);
    memory->map = new_stream(n / 8);
    memset(memory->code, 0x2F, n * 4); /* a finite number in every format */
    memset(memory->map, 1, n / 8);
}

static void close_memory(struct bench_memory *memory)
{
    free(memory->src);
    free(memory->residual);
    free(memory->dst);
    free(memory->other);
    free(memory->code);
    free(memory->map);
}

/** The part of a kernel's memory that begins at an element. */
static struct bench_memory memory_from(const struct bench *bench, uint64_t at)
{
    const struct bench_memory *all = &bench->memory;
    const struct bench_kernel *kernel = bench->kernel;
    unsigned code_bits = kernel->read_bits[BENCH_CODE] + kernel->write_bits[BENCH_CODE];

    return (struct bench_memory){all->src + at,   all->residual + at,
                                 all->dst + at,   all->code + at / 8 * code_bits,
                                 all->other + at, all->map + at / 64};
}

static void call_kernel(const struct bench *bench)
{
    uint64_t block = bench->kernel->block;
    for (uint64_t at = 0; at < bench->elems; at += block) {
        uint64_t left = bench->elems - at;
        struct bench_memory memory = memory_from(bench, at);
        bench->kernel->run(bench->tier, &memory, left < block ? left : block);
        if (left <= block)
            return;
    }
}

static void call(struct bench *bench, enum contender contender)
{
    switch (contender) {
    case KERNEL:
        call_kernel(bench);
        return;
    case TWIN:
        bench->seen |= wring_twin_run(bench->twin, &bench->work, WRING_TWIN_PLAIN);
        return;
    case MEMCPY:
        memcpy(bench->memory.dst, bench->memory.src, bench->elems * sizeof(float));
        __asm__ volatile("" : : "r"(bench->memory.dst) : "memory");
        return;
    case CONTENDERS:
        break;
    }
}

/** ns of one call, of as many in a row as take CALLS_NS. */
static double time_calls(struct bench *bench, enum contender contender, uint64_t *calls)
{
    for (;; *calls *= 2) {
        double begin = now_ns();
        for (uint64_t i = 0; i < *calls; i++)
            call(bench, contender);
        double ns = now_ns() - begin;
        if (ns >= CALLS_NS)
            return ns / (double)*calls;
    }
}

static int upward(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, TURNS, sizeof(*values), upward);
    return values[TURNS / 2];
}

static void bench_tier(struct bench *bench, const char *tier)
{
    double ns[CONTENDERS][TURNS], middle[CONTENDERS];
    uint64_t calls[CONTENDERS] = {1, 1, 1};

    for (int c = 0; c < CONTENDERS; c++) /* touches the pages, finds the number of calls */
        time_calls(bench, (enum contender)c, &calls[c]);
    for (int turn = 0; turn < TURNS; turn++)
        for (int c = 0; c < CONTENDERS; c++)
            ns[c][turn] = time_calls(bench, (enum contender)c, &calls[c]);
    for (int c = 0; c < CONTENDERS; c++)
        middle[c] = median(ns[c]);
    double bytes = (double)bench->elems * sizeof(float);
    double spread = (ns[KERNEL][TURNS * 3 / 4] - ns[KERNEL][TURNS / 4]) / middle[KERNEL];
    printf("%-23s %-7s %8.2f %8.2f %8.2f %8.2f %8.2f %6.0f %%\n", bench->kernel->name, tier,
           bytes / middle[KERNEL], bytes / middle[TWIN], bytes / middle[MEMCPY],
           middle[TWIN] / middle[KERNEL], middle[MEMCPY] / middle[KERNEL], spread * 100);
}

/** Where a stream goes that is read, written, or both. */
static struct wring_twin_stream *stream_of(struct wring_twin_work *work, bool read, bool written)
{
    if (read && written)
        return &work->update;
    if (written)
        return &work->write;
    return work->read.lines == 0 ? &work->read : &work->other;
}

static void set_work(struct bench *bench)
{
    const struct bench_kernel *kernel = bench->kernel;
    const void *data[BENCH_STREAMS] = {
        [BENCH_SRC] = bench->memory.src,     [BENCH_RESIDUAL] = bench->memory.residual,
        [BENCH_DST] = bench->memory.dst,     [BENCH_CODE] = bench->memory.code,
        [BENCH_OTHER] = bench->memory.other, [BENCH_MAP] = bench->memory.map,
    };

    bench->work = (struct wring_twin_work){0};
    for (int s = 0; s < BENCH_STREAMS; s++) {
        unsigned read = kernel->read_bits[s], written = kernel->write_bits[s];
        if (read == 0 && written == 0)
            continue;
        struct wring_twin_stream *stream = stream_of(&bench->work, read > 0, written > 0);
        if (stream->lines > 0 || (read > 0 && written > 0 && read != written)) {
            fprintf(stderr, "%s: no twin moves what it moves\n", kernel->name);
            exit(1);
        }
        *stream = wring_twin_all(data[s], bench->elems / 8 * (read > 0 ? read : written));
    }
}

int bench_run(uint64_t elems)
{
    struct bench bench = {.twin = wring_twin_widest(),
                          .elems = (elems + BENCH_STEP - 1) / BENCH_STEP * BENCH_STEP};
    if (elems == 0 || elems > ELEMS_MAX) {
        fputs("--bench needs a number of elements, from 1 to 17179869184\n", stderr);
        return 2;
    }
    printf("%llu elements; GB/s of float32, medians of %d; 'of twin': 1 means that only memory "
           "limits it; spread: of the middle half\n%-23s %-7s %8s %8s "
           "%8s %8s %8s %8s\n",
           (unsigned long long)bench.elems, TURNS, "kernel", "tier", "GB/s", "twin", "memcpy",
           "of twin", "of mcpy", "spread");
    open_memory(&bench.memory, bench.elems);
    for (bench.kernel = bench_kernels; bench.kernel->name != NULL; bench.kernel++) {
        const char *entry = bench.kernel->tiers;
        set_work(&bench);
        for (;; entry += bench.kernel->entry_bytes) {
            const struct wring_kernel_tier *tier = (const void *)entry;
            if (tier->name == NULL)
                break;
            bench.tier = entry;
            if (wring_cpu_has(tier->tier))
                bench_tier(&bench, tier->name);
        }
    }
    close_memory(&bench.memory);
    return 0;
}
