/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A codec that WRING_NCCL_CODEC names gives a sum of CollNet the very bits that wring_allreduce()
 * and wring_reduce_scatterv() give a job of the library's own with that codec and those inputs;
 * what is too small, or no sum of floats, stays exact.
 *
 *     test_coll_codecs PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [seed=N] [deadline=SECONDS] [CASE...]
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/nccl/coll_rig.h"

#define SMALLEST 4096 /* bytes that are coded */
#define COLL_I32 2
#define COLL_MAX 2
#define COLL_BF16 9

struct sum {
    const char *codec; /* NULL: none */
    uint32_t ranks;
    int dtype, op;
    size_t elems;
    bool coded;  /* the codec has to be seen in the bits */
    void *want;  /* shared: what the library's own job gives */
    void *exact; /* shared: and without a codec */
};

struct scatter { /* the sum of what lies in a window, each rank's part to that rank */
    struct sum sum;
    struct plugin_window window;
};

static size_t bytes_of(const struct sum *sum)
{
    return sum->elems * wring_dtype_bytes((enum wring_dtype)coll_dtype(sum->dtype));
}

static void *fill_input(const struct sum *sum, uint32_t rank)
{
    void *data = malloc(bytes_of(sum));
    if (data == NULL)
        abort();
    wring_test_fill((enum wring_dtype)coll_dtype(sum->dtype), data, sum->elems, WRING_TEST_PLAIN,
                    rig_choice.seed * 8 + rank + 1);
    return data;
}

static void reduce_as_job(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct sum *sum = arg;
    struct wring_call how = WRING_CALL_INIT;
    void *data = fill_input(sum, rank);

    for (int coded = 0; coded < 2; coded++) {
        void *out = malloc(bytes_of(sum));
        if (out == NULL)
            abort();
        how.codec = coded && sum->coded ? sum->codec : NULL;
        enum wring_status status = wring_allreduce(
            wring_session_world(session), data, out, sum->elems,
            (enum wring_dtype)coll_dtype(sum->dtype), (enum wring_op)coll_op(sum->op), &how, NULL);
        CHECK(status == WRING_OK, "%s: %s", sum->codec, wring_status_text(status));
        if (rank == 0)
            memcpy(coded ? sum->want : sum->exact, out, bytes_of(sum));
        free(out);
    }
    free(data);
}

/** In a process of its own, as are those with the plugin. */
static void run_job(const struct world_rank *me, void *arg)
{
    const struct sum *sum = arg;
    (void)me;
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = sum->ranks, .run = reduce_as_job, .arg = arg});
}

static void set(char *setting, size_t bytes, const char *name, const char *value)
{
    snprintf(setting, bytes, "%s=%s", name, value);
    putenv(setting);
}

static void set_codec(const char *name)
{
    static char codec[128], smallest[64], number[16];

    snprintf(number, sizeof(number), "%d", SMALLEST);
    set(codec, sizeof(codec), "WRING_NCCL_CODEC", name);
    set(smallest, sizeof(smallest), "WRING_NCCL_CODEC_MIN", number);
}

static void run_plugin(const struct world_rank *me, void *arg)
{
    const struct sum *sum = arg;
    struct coll_rig coll;
    void *data = fill_input(sum, me->rank), *out = malloc(bytes_of(sum));

    set_codec(sum->codec);
    coll_begin(&coll, me);
    void *in_region = coll_register(&coll, data, bytes_of(sum));
    void *out_region = coll_register(&coll, out, bytes_of(sum));
    for (int i = 0; i < 2; i++) { /* it keeps nothing from one call to the next */
        memset(out, 0, bytes_of(sum));
        coll_wait(&coll,
                  coll_allreduce(&coll, data, out, sum->elems, sum->dtype, sum->op, in_region,
                                 out_region),
                  "a coded allreduce");
        CHECK(memcmp(out, sum->want, bytes_of(sum)) == 0, "%s, %u ranks, %zu elements: other bits",
              sum->codec, me->size, sum->elems);
    }
    bool exact = memcmp(out, sum->exact, bytes_of(sum)) == 0;
    CHECK(exact != sum->coded, "%s, %zu elements: %s", sum->codec, sum->elems,
          exact ? "it is not coded" : "it is coded");
    coll_deregister(&coll, in_region);
    coll_deregister(&coll, out_region);
    coll_end(&coll);
    free(data);
    free(out);
}

/** Memory for what a job of the library's own gives. @return what munmap() takes, 2 * bytes_of() */
static unsigned char *show(struct sum *sum)
{
    size_t bytes = bytes_of(sum);
    unsigned char *shared =
        mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        abort();
    sum->want = shared;
    sum->exact = shared + bytes;
    return shared;
}

static void compare(struct sum sum)
{
    unsigned char *shared = show(&sum);
    world_run(&(struct world_job){.size = 1, .run = run_job, .arg = &sum});
    world_run(&(struct world_job){.size = sum.ranks, .run = run_plugin, .arg = &sum});
    munmap(shared, 2 * bytes_of(&sum));
}

/* ---- reduce-scatter ---- */

/** As reduce_as_job(): each rank's part of the window lies at its place there. */
static void scatter_as_job(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct scatter *scatter = arg;
    const struct sum *sum = &scatter->sum;
    size_t unit = wring_dtype_bytes((enum wring_dtype)coll_dtype(sum->dtype));
    uint64_t runs[WORLD_MAX];
    size_t in_window = 0, in_block, bytes = 0;
    void *data = fill_input(sum, rank);

    for (uint32_t i = 0; i < sum->ranks; i++)
        runs[i] = coll_part_of(scatter->window, i, &in_window, &in_block) / unit;
    bytes = coll_part_of(scatter->window, rank, &in_window, &in_block);
    for (int coded = 0; coded < 2; coded++) {
        struct wring_call how = WRING_CALL_INIT;
        unsigned char *out = malloc(bytes + 1);
        if (out == NULL)
            abort();
        how.codec = coded && sum->coded ? sum->codec : NULL;
        enum wring_status status = wring_reduce_scatterv(
            wring_session_world(session), data, out, runs, (enum wring_dtype)coll_dtype(sum->dtype),
            (enum wring_op)coll_op(sum->op), &how, NULL);
        CHECK(status == WRING_OK, "%s: %s", sum->codec, wring_status_text(status));
        if (bytes > 0)
            memcpy((unsigned char *)(coded ? sum->want : sum->exact) + in_window, out, bytes);
        free(out);
    }
    free(data);
}

static void run_scatter_job(const struct world_rank *me, void *arg)
{
    const struct scatter *scatter = arg;
    (void)me;
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = scatter->sum.ranks, .run = scatter_as_job, .arg = arg});
}

static void scatter_by_plugin(const struct world_rank *me, void *arg)
{
    const struct scatter *scatter = arg;
    const struct sum *sum = &scatter->sum;
    struct coll_rig coll;
    size_t in_window = 0, in_block = 0;
    size_t bytes = coll_part_of(scatter->window, me->rank, &in_window, &in_block);
    unsigned char *data = fill_input(sum, me->rank), *out = malloc(scatter->window.block);

    if (out == NULL)
        abort();
    set_codec(sum->codec);
    coll_begin(&coll, me);
    void *in_region = coll_register(&coll, data, scatter->window.bytes);
    void *out_region = coll_register(&coll, out, scatter->window.block);
    in_block = bytes > 0 ? in_block : 0;
    coll_wait(&coll,
              coll_reduce_scatter(&coll, data, out + in_block, scatter->window, sum->dtype, sum->op,
                                  in_region, out_region),
              "a coded reduce-scatter");
    const unsigned char *want = sum->want, *exact = sum->exact;
    CHECK(bytes == 0 || memcmp(out + in_block, want + in_window, bytes) == 0,
          "%s, %u ranks, window %zu+%zu: other bits", sum->codec, me->size, scatter->window.offset,
          scatter->window.bytes);
    bool is_exact = bytes == 0 || memcmp(out + in_block, exact + in_window, bytes) == 0;
    CHECK(bytes == 0 || is_exact != sum->coded, "%s, %u ranks, window %zu+%zu: %s", sum->codec,
          me->size, scatter->window.offset, scatter->window.bytes,
          is_exact ? "it is not coded" : "it is coded");
    coll_deregister(&coll, in_region);
    coll_deregister(&coll, out_region);
    coll_end(&coll);
    free(data);
    free(out);
}

/** @param window  in elements */
static void compare_scatter(struct sum sum, struct plugin_window window)
{
    size_t unit = wring_dtype_bytes((enum wring_dtype)coll_dtype(sum.dtype));
    struct scatter scatter = {
        .sum = sum, .window = {window.block * unit, window.offset * unit, window.bytes * unit}};

    scatter.sum.elems = window.bytes;
    unsigned char *shared = show(&scatter.sum);
    world_run(&(struct world_job){.size = 1, .run = run_scatter_job, .arg = &scatter});
    world_run(&(struct world_job){.size = sum.ranks, .run = scatter_by_plugin, .arg = &scatter});
    munmap(shared, 2 * bytes_of(&scatter.sum));
}

static void reduce_scatters_give_the_bits_of_a_job(void)
{
    static const char *const codecs[] = {"bf16", "int8", "onebit:block=128", "topk:ratio=0.05"};
    enum {
        BLOCK = 20011
    };

    for (uint32_t ranks = 2; ranks <= WORLD_MAX; ranks++) {
        struct sum sum = {codecs[ranks % 4], ranks, COLL_F32, COLL_SUM, 0, true, NULL, NULL};
        compare_scatter(sum, (struct plugin_window){BLOCK, 0, ranks * BLOCK}); /* all blocks */
        sum.codec = codecs[(ranks + 1) % 4];
        compare_scatter(sum, (struct plugin_window){BLOCK, BLOCK / 2, (ranks - 1) * BLOCK});
    }
    struct sum half = {"int8", 3, COLL_BF16, COLL_SUM, 0, true, NULL, NULL};
    compare_scatter(half, (struct plugin_window){BLOCK, 1000, 2 * BLOCK});
}

static void codecs_give_the_bits_of_a_job(void)
{
    static const char *const codecs[] = {"bf16", "int8", "onebit:block=128", "topk:ratio=0.05"};

    for (uint32_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
        compare((struct sum){codecs[i], i % 2 ? 4 : 2, COLL_F32, COLL_SUM, 100003 + i, true, 0, 0});
    compare((struct sum){"int8", 3, COLL_BF16, COLL_SUM, 50000, true, 0, 0});
}

static void the_rest_stays_exact(void)
{
    compare((struct sum){"int8", 2, COLL_F32, COLL_SUM, SMALLEST / 4 - 1, false, 0, 0});
    compare((struct sum){"int8", 2, COLL_F32, COLL_SUM, SMALLEST / 4, true, 0, 0});
    compare((struct sum){"int8", 2, COLL_I32, COLL_SUM, 10000, false, 0, 0});
    compare((struct sum){"int8", 2, COLL_F32, COLL_MAX, 10000, false, 0, 0});
}

/** Each rank has another codec: no sum comes of it, and a line names both. */
static void disagree(const struct world_rank *me, void *arg)
{
    enum {
        ELEMS = 100000
    };
    static char codec[128];
    static float data[ELEMS];
    struct coll_rig coll;
    void *request = NULL;
    int result = PLUGIN_OK, done = 0, bytes;

    (void)arg;
    set(codec, sizeof(codec), "WRING_NCCL_CODEC", me->rank == 0 ? "bf16" : "int8");
    coll_begin(&coll, me);
    void *region = coll_register(&coll, data, sizeof(data));
    while (result == PLUGIN_OK) {
        result = request == NULL
                     ? plugin_coll_allreduce(coll.rig.plugin, coll.comm, data, data, ELEMS,
                                             COLL_F32, COLL_SUM, region, region, &request)
                     : plugin_coll_test(coll.rig.plugin, request, &done, &bytes);
        MUST(done == 0, "a sum by two codecs is done");
        world_turn("two codecs to be told apart");
    }
    CHECK(world_logged(PLUGIN_LOG_WARN, "bf16") == 1 && world_logged(PLUGIN_LOG_WARN, "int8") == 1,
          "%u lines", world_logged(PLUGIN_LOG_WARN, ""));
    coll_deregister(&coll, region);
    coll_end(&coll);
}

static void codecs_that_differ_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = disagree});
}

static void begin_with_feedback(const struct world_rank *me, void *arg)
{
    static char codec[] = "WRING_NCCL_CODEC=onebit:block=128+ef";
    struct plugin *plugin = plugin_open(rig_choice.path, rig_choice.version);
    void *ctx;

    (void)me, (void)arg;
    MUST(plugin != NULL, "%s", rig_choice.path);
    putenv(codec);
    CHECK(plugin_init(plugin, 1, &ctx) != PLUGIN_OK, "init succeeds");
    CHECK(world_logged(PLUGIN_LOG_WARN, "WRING_NCCL_CODEC") == 1, "no line names the setting");
    plugin_close(plugin);
}

static void feedback_is_refused(void)
{
    world_run(&(struct world_job){.size = 1, .run = begin_with_feedback});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"codecs_give_the_bits_of_a_job", codecs_give_the_bits_of_a_job},
        {"reduce_scatters_give_the_bits_of_a_job", reduce_scatters_give_the_bits_of_a_job},
        {"the_rest_stays_exact", the_rest_stays_exact},
        {"codecs_that_differ_are_told", codecs_that_differ_are_told},
        {"feedback_is_refused", feedback_is_refused},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
