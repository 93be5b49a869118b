/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Does a plugin for NCCL's CollNet do what NCCL's proxy relies on, and to the bit?
 *
 *     test_collnet PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [seed=N] [deadline=SECONDS] [CASE...]
 *
 * Each case starts its own ranks, 2 to 8 processes. Results are held against the definition of
 * reductions, and those of a lossy codec against a job of the library's own: see
 * test_coll_codecs.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/nccl/coll_rig.h"
#include "tests/nccl/strangers.h"

#define UNTOUCHED 0x3D

static void *allocate(size_t bytes)
{
    void *data = malloc(bytes + 1);
    if (data == NULL)
        abort();
    return memset(data, UNTOUCHED, bytes + 1);
}

/** Every rank knows what each of them puts in. */
static void fill(int dtype, void *data, size_t elems, enum wring_test_kind kind, uint32_t seed)
{
    wring_test_fill((enum wring_dtype)coll_dtype(dtype), data, elems, kind, seed);
}

/** What comes of it: by the definition. @param seed  of rank 0; each has one more */
static void reduce(int dtype, int op, size_t elems, enum wring_test_kind kind, uint32_t seed,
                   uint32_t ranks, void *out)
{
    size_t bytes = elems * wring_dtype_bytes((enum wring_dtype)coll_dtype(dtype));
    void *inputs[WORLD_MAX];

    for (uint32_t r = 0; r < ranks; r++) {
        inputs[r] = allocate(bytes);
        fill(dtype, inputs[r], elems, kind, seed + r);
    }
    uint64_t saved = wring_fp_enter();
    wring_test_reduce((enum wring_dtype)coll_dtype(dtype), (enum wring_op)coll_op(op),
                      (const void *const *)inputs, ranks, elems, out);
    wring_fp_leave(saved);
    for (uint32_t r = 0; r < ranks; r++)
        free(inputs[r]);
}

static size_t first_difference(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    size_t at = 0;

    if (memcmp(a, b, bytes) == 0)
        return bytes;
    while (x[at] == y[at])
        at++;
    return at;
}

/* ---- what is supported ---- */

static bool is_supported(struct coll_rig *coll, int dtype, int op)
{
    int supported = -1;
    int result = plugin_coll_reduce_support(coll->rig.plugin, dtype, op, &supported);

    CHECK(result != PLUGIN_OK || supported == 0 || supported == 1, "type %d, op %d: %d", dtype, op,
          supported);
    return result == PLUGIN_OK && supported == 1;
}

static void ask_for_support(const struct world_rank *me, void *arg)
{
    struct coll_rig coll;

    (void)arg;
    coll_begin(&coll, me);
    for (int dtype = -1; dtype <= COLL_DTYPES; dtype++)
        for (int op = -1; op <= COLL_OPS + 1; op++) {
            bool known = coll_dtype(dtype) >= 0 && coll_op(op) >= 0;
            CHECK(known || !is_supported(&coll, dtype, op), "type %d, op %d is supported", dtype,
                  op);
        }
    /* what training needs */
    static const int types[] = {6, 7, 8, 9};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        CHECK(is_supported(&coll, types[i], COLL_SUM), "no sum of type %d", types[i]);
    coll_end(&coll);
}

static void support_is_what_can_be_done(void)
{
    world_run(&(struct world_job){.size = 2, .run = ask_for_support});
}

/* ---- allreduce ---- */

static void reduce_once(struct coll_rig *coll, int dtype, int op, size_t elems, uint32_t number)
{
    size_t bytes = elems * wring_dtype_bytes((enum wring_dtype)coll_dtype(dtype));
    enum wring_test_kind kind = (enum wring_test_kind)(number % WRING_TEST_KINDS);
    bool in_place = number / WRING_TEST_KINDS % 2 == 0;
    unsigned char *in = allocate(bytes), *out = in_place ? in : allocate(bytes);
    unsigned char *want = allocate(bytes), *was = allocate(bytes);
    void *in_region = coll_register(coll, in, bytes);
    void *out_region = in_place ? in_region : coll_register(coll, out, bytes);

    fill(dtype, in, elems, kind, number * 16 + 1 + coll->rig.me.rank);
    memcpy(was, in, bytes);
    reduce(dtype, op, elems, kind, number * 16 + 1, coll->rig.me.size, want);
    coll_wait(coll, coll_allreduce(coll, in, out, elems, dtype, op, in_region, out_region),
              "an allreduce");
    CHECK(memcmp(out, want, bytes) == 0,
          "type %d, op %d, %zu elements of kind %d, %s: byte %zu differs", dtype, op, elems,
          (int)kind, in_place ? "in place" : "out of place", first_difference(out, want, bytes));
    CHECK(in_place || memcmp(in, was, bytes) == 0, "an allreduce changes its input");
    CHECK(out[bytes] == UNTOUCHED, "an allreduce of %zu bytes writes one more", bytes);
    coll_deregister(coll, in_region);
    if (!in_place)
        coll_deregister(coll, out_region);
    free(in);
    free(in_place ? NULL : out);
    free(want);
    free(was);
}

static void reduce_all(const struct world_rank *me, void *arg)
{
    static const size_t counts[] = {4099, 1, 7, 700}; /* many ranks do without the first */
    struct coll_rig coll;
    uint32_t number = rig_choice.seed * 1000;

    (void)arg;
    coll_begin(&coll, me);
    for (int dtype = 0; dtype < COLL_DTYPES; dtype++)
        for (int op = 0; op < COLL_OPS; op++)
            for (size_t i = me->size > 4; i < 4 && is_supported(&coll, dtype, op); i++)
                reduce_once(&coll, dtype, op, counts[i], number++ + (uint32_t)op);
    coll_end(&coll);
}

static void allreduce_is_exact(void)
{
    static const uint32_t ranks[] = {2, 3, 8};

    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        world_run(&(struct world_job){.size = ranks[i], .run = reduce_all});
}

/** Small whole numbers, whose sums are exact: what is long is soon checked. */
static float whole_number(uint32_t rank, size_t i)
{
    uint32_t hash = ((uint32_t)i + rank * 40503) * 2654435761u;
    return (float)(int32_t)(hash >> 20) - 2048;
}

static void sum_whole_numbers(struct coll_rig *coll, size_t elems, bool in_place)
{
    float *in = allocate(elems * sizeof(float)), *out = in;
    void *in_region = coll_register(coll, in, elems * sizeof(float)), *out_region = in_region;
    size_t at = 0;

    if (!in_place) {
        out = allocate(elems * sizeof(float));
        out_region = coll_register(coll, out, elems * sizeof(float));
    }
    for (size_t i = 0; i < elems; i++)
        in[i] = whole_number(coll->rig.me.rank, i);
    coll_wait(coll, coll_allreduce(coll, in, out, elems, COLL_F32, COLL_SUM, in_region, out_region),
              "a long allreduce");
    for (; at < elems; at++) {
        float sum = 0;
        for (uint32_t r = 0; r < coll->rig.me.size; r++)
            sum += whole_number(r, at);
        if (out[at] != sum)
            break;
    }
    CHECK(at == elems, "of %zu elements, %s: the one at %zu differs", elems,
          in_place ? "in place" : "out of place", at);
    coll_deregister(coll, in_region);
    if (!in_place) {
        coll_deregister(coll, out_region);
        free(out);
    }
    free(in);
}

static void reduce_long(const struct world_rank *me, void *arg)
{
    struct coll_rig coll;

    (void)arg;
    coll_begin(&coll, me);
    for (uint32_t apart = 0; apart < 2; apart++) {
        reduce_once(&coll, COLL_F32, COLL_SUM, 100003, apart * WRING_TEST_KINDS);
        sum_whole_numbers(&coll, 262144, apart == 0);
        sum_whole_numbers(&coll, 2000003, apart == 0);
    }
    coll_end(&coll);
}

static void allreduce_of_long_buffers(void)
{
    world_run(&(struct world_job){.size = 2, .run = reduce_long});
    world_run(&(struct world_job){.size = 4, .run = reduce_long});
}

/** As many as NCCL has under way, of several sizes, out of one registered buffer. */
static void keep_in_flight(const struct world_rank *me, void *arg)
{
    enum {
        TURNS = 4,
        SLOT = 20000
    };
    struct coll_rig coll;
    float *data = allocate(2 * PLUGIN_STEPS * SLOT * sizeof(float)), *want = allocate(SLOT * 4);
    void *requests[PLUGIN_STEPS];
    uint32_t random = rig_choice.seed | 1;

    (void)arg;
    coll_begin(&coll, me);
    void *region = coll_register(&coll, data, 2 * PLUGIN_STEPS * SLOT * sizeof(float));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        size_t elems[PLUGIN_STEPS];
        for (uint32_t i = 0; i < PLUGIN_STEPS; i++) {
            float *in = data + 2 * i * SLOT;
            elems[i] = 1 + wring_test_random(&random) % SLOT;
            fill(COLL_F32, in, elems[i], WRING_TEST_PLAIN, (turn * 8 + i) * 16 + me->rank + 1);
            requests[i] =
                coll_allreduce(&coll, in, in + SLOT, elems[i], COLL_F32, COLL_SUM, region, region);
        }
        for (uint32_t i = PLUGIN_STEPS; i-- > 0;) { /* the newest is looked at first */
            coll_wait(&coll, requests[i], "one of several allreduces");
            reduce(COLL_F32, COLL_SUM, elems[i], WRING_TEST_PLAIN, (turn * 8 + i) * 16 + 1,
                   me->size, want);
            size_t bytes = elems[i] * sizeof(float);
            CHECK(memcmp(data + (2 * i + 1) * SLOT, want, bytes) == 0, "of %u the one of %zu bytes",
                  PLUGIN_STEPS, bytes);
        }
    }
    coll_deregister(&coll, region);
    coll_end(&coll);
    free(data);
    free(want);
}

static void several_are_in_flight(void)
{
    world_run(&(struct world_job){.size = 3, .run = keep_in_flight});
}

/* ---- windows ---- */

static struct plugin_window draw_window(uint32_t *random, uint32_t ranks, size_t unit)
{
    size_t block = 1 + wring_test_random(random) % 5000, whole = ranks * block, begin, end;

    begin = wring_test_random(random) % whole;
    end = begin + 1 + wring_test_random(random) % (whole - begin);
    if (wring_test_random(random) % 4 == 0) {
        begin = 0;
        end = whole;
    }
    return (struct plugin_window){block * unit, begin * unit, (end - begin) * unit};
}

static void gather_windows(const struct world_rank *me, void *arg)
{
    uint32_t random = rig_choice.seed * 77 + 5;
    struct coll_rig coll;

    (void)arg;
    coll_begin(&coll, me);
    for (uint32_t i = 0; i < 30; i++) {
        struct plugin_window window = draw_window(&random, me->size, 1);
        unsigned char *in = allocate(window.block), *out = allocate(window.bytes);
        void *in_region = coll_register(&coll, in, window.block), *request = NULL;
        void *out_region = coll_register(&coll, out, window.bytes);
        size_t in_window, in_block, bytes = coll_part_of(window, me->rank, &in_window, &in_block);
        rig_fill(in, window.block, i * 16 + me->rank);
        while (request == NULL) {
            int result =
                plugin_coll_allgather(coll.rig.plugin, coll.comm, in + (bytes > 0 ? in_block : 0),
                                      in_region, out, out_region, window, &request);
            MUST(result == PLUGIN_OK, "iallgather: %d", result);
            if (request == NULL)
                world_turn("iallgather to take %zu bytes", window.bytes);
        }
        coll_wait(&coll, request, "an allgather");
        for (uint32_t r = 0; r < me->size; r++) {
            unsigned char *want = allocate(window.block);
            rig_fill(want, window.block, i * 16 + r);
            bytes = coll_part_of(window, r, &in_window, &in_block);
            CHECK(bytes == 0 || memcmp(out + in_window, want + in_block, bytes) == 0,
                  "allgather %u, block %zu, window %zu+%zu: rank %u's part", i, window.block,
                  window.offset, window.bytes, r);
            free(want);
        }
        CHECK(out[window.bytes] == UNTOUCHED, "an allgather writes too much");
        coll_deregister(&coll, in_region);
        coll_deregister(&coll, out_region);
        free(in);
        free(out);
    }
    coll_end(&coll);
}

static void allgather_moves_its_window(void)
{
    world_run(&(struct world_job){.size = 2, .run = gather_windows});
    world_run(&(struct world_job){.size = 5, .run = gather_windows});
}

static void scatter_windows(const struct world_rank *me, void *arg)
{
    static const int dtypes[] = {COLL_F32, 2, 9, 8,
                                 0}; /* float32, int32, bfloat16, float64, int8 */
    uint32_t random = rig_choice.seed * 79 + 5;
    struct coll_rig coll;

    (void)arg;
    coll_begin(&coll, me);
    for (uint32_t i = 0; i < 30; i++) {
        int dtype = dtypes[i % 5];
        size_t unit = wring_dtype_bytes((enum wring_dtype)coll_dtype(dtype));
        struct plugin_window window = draw_window(&random, me->size, unit);
        size_t elems = window.bytes / unit, in_window, in_block;
        size_t bytes = coll_part_of(window, me->rank, &in_window, &in_block);
        unsigned char *in = allocate(window.bytes), *out = allocate(window.block);
        unsigned char *want = allocate(window.bytes);
        void *in_region = coll_register(&coll, in, window.bytes);
        void *out_region = coll_register(&coll, out, window.block);
        fill(dtype, in, elems, WRING_TEST_PLAIN, i * 16 + 1 + me->rank);
        reduce(dtype, COLL_SUM, elems, WRING_TEST_PLAIN, i * 16 + 1, me->size, want);
        in_block = bytes > 0 ? in_block : 0;
        coll_wait(&coll,
                  coll_reduce_scatter(&coll, in, out + in_block, window, dtype, COLL_SUM, in_region,
                                      out_region),
                  "a reduce-scatter");
        CHECK(bytes == 0 || memcmp(out + in_block, want + in_window, bytes) == 0,
              "reduce-scatter %u of type %d, block %zu, window %zu+%zu", i, dtype, window.block,
              window.offset, window.bytes);
        for (size_t at = 0; at <= window.block; at++) /* only that is written */
            if ((at < in_block || at >= in_block + bytes) && out[at] != UNTOUCHED) {
                CHECK(false, "reduce-scatter %u writes byte %zu of its block", i, at);
                break;
            }
        coll_deregister(&coll, in_region);
        coll_deregister(&coll, out_region);
        free(in);
        free(out);
        free(want);
    }
    coll_end(&coll);
}

static void reduce_scatter_moves_its_window(void)
{
    world_run(&(struct world_job){.size = 2, .run = scatter_windows});
    world_run(&(struct world_job){.size = 5, .run = scatter_windows});
}

/* ---- lives ---- */

static void sum_once(struct coll_rig *coll, uint32_t number)
{
    reduce_once(coll, COLL_F32, COLL_SUM, 5000, number * 2 * WRING_TEST_KINDS);
}

static void use_two(const struct world_rank *me, void *arg)
{
    struct coll_rig first, second, third;

    (void)arg;
    coll_begin(&first, me);
    coll_join(&first, &second);
    sum_once(&second, 1);
    sum_once(&first, 2);
    coll_join(&second, &third);
    coll_leave(&second);
    sum_once(&third, 3);
    sum_once(&first, 4);
    coll_leave(&third);
    sum_once(&first, 5);
    coll_end(&first);
}

static void communicators_live_side_by_side(void)
{
    world_run(&(struct world_job){.size = 3, .run = use_two});
}

/** Rank 1 sends strangers to rank 0, where all others meet. */
static void send_strangers(const struct world_rank *me, void *arg)
{
    struct doors *doors = (void *)((unsigned char *)world_board(0) + WORLD_BOARD / 2);

    if (me->rank == 0)
        doors_find(doors);
    world_meet();
    if (me->rank == 1)
        strangers_come(arg, doors);
    world_meet();
}

static void join_among_strangers(const struct world_rank *me, void *arg)
{
    struct strangers strangers;
    struct coll_rig coll;

    (void)arg;
    coll_begin_with(&coll, me, send_strangers, &strangers);
    for (uint32_t i = 0; i < 5; i++)
        sum_once(&coll, i);
    if (me->rank == 1)
        strangers_leave(&strangers);
    sum_once(&coll, 5);
    coll_end(&coll);
}

static void strangers_do_no_harm(void)
{
    world_run(&(struct world_job){.size = 2, .run = join_among_strangers});
    world_run(&(struct world_job){.size = 5, .run = join_among_strangers});
}

#define VICTIM 1

struct sums { /* under way, of which one rank gives nothing */
    struct coll_rig *coll;
    float *data;
    size_t elems;
    void *region, *requests[2];
};

/** Ask for a sum, or test it. @return what the plugin says */
static int go_on(struct sums *sums, uint32_t at)
{
    struct coll_rig *coll = sums->coll;
    int done = 0, bytes, result;

    if (sums->requests[at] == NULL)
        return plugin_coll_allreduce(coll->rig.plugin, coll->comm, sums->data, sums->data,
                                     sums->elems, COLL_F32, COLL_SUM, sums->region, sums->region,
                                     &sums->requests[at]);
    result = plugin_coll_test(coll->rig.plugin, sums->requests[at], &done, &bytes);
    MUST(done == 0, "a sum is done to which a rank gave nothing");
    return result;
}

static void outlive(const struct world_rank *me, void *arg)
{
    struct coll_rig coll;
    struct sums sums = {.coll = &coll, .elems = 300000};
    int result = PLUGIN_OK;

    (void)arg;
    coll_begin(&coll, me);
    sum_once(&coll, 1);
    world_meet(); /* a sum that has ended on one may fail on others if that one dies */
    if (me->rank == VICTIM)
        for (;;)
            world_turn("its death");
    sums.data = allocate(sums.elems * sizeof(float));
    sums.region = coll_register(&coll, sums.data, sums.elems * sizeof(float));
    fill(COLL_F32, sums.data, sums.elems, WRING_TEST_PLAIN, me->rank + 1);
    world_forget_log();
    for (uint32_t turn = 0; result == PLUGIN_OK; turn++) {
        if (turn == 30 && me->rank == 0)
            world_kill(VICTIM);
        result = go_on(&sums, turn % 2);
        world_turn("the death of a rank to be told");
    }
    CHECK(result == PLUGIN_REMOTE_ERROR, "of a dead rank the plugin says %d", result);
    for (uint32_t i = 0; i < 2; i++)
        go_on(&sums, i); /* the other one fails as well, and no more is said */
    CHECK(world_logged(PLUGIN_LOG_WARN, "") == 1, "%u lines tell of a dead rank",
          world_logged(PLUGIN_LOG_WARN, ""));
    coll_deregister(&coll, sums.region);
    coll_end(&coll);
    free(sums.data);
}

static void dead_rank_is_told(void)
{
    world_run(&(struct world_job){.size = 3, .run = outlive, .doomed = 1 << VICTIM});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"support_is_what_can_be_done", support_is_what_can_be_done},
        {"allreduce_is_exact", allreduce_is_exact},
        {"allreduce_of_long_buffers", allreduce_of_long_buffers},
        {"several_are_in_flight", several_are_in_flight},
        {"allgather_moves_its_window", allgather_moves_its_window},
        {"reduce_scatter_moves_its_window", reduce_scatter_moves_its_window},
        {"strangers_do_no_harm", strangers_do_no_harm},
        {"communicators_live_side_by_side", communicators_live_side_by_side},
        {"dead_rank_is_told", dead_rank_is_told},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
