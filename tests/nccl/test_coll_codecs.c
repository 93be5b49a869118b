/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A codec that WRING_NCCL_CODEC or WRING_CODEC_RULES names gives a sum of CollNet the very bits
 * that wring_allreduce() and wring_reduce_scatterv() give a job of the library's own with that
 * codec and those inputs; what is too small, or no sum of floats, stays exact.
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

/** Of a case, in all its ranks; NULL: WRING_NCCL_CODEC has the sum's codec. */
static const char *rules;
static const char *own_codec; /* beside rules; NULL: none */

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

static void set_rules(const char *text, const char *own)
{
    static char setting[512], codec[128];

    set(setting, sizeof(setting), "WRING_CODEC_RULES", text);
    if (own != NULL)
        set(codec, sizeof(codec), "WRING_NCCL_CODEC", own);
}

static void set_codec(const char *name)
{
    static char codec[128], smallest[64], number[16];

    if (rules != NULL) {
        set_rules(rules, own_codec);
        return;
    }

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

/* ---- rules ---- */

static void compare_scatter_of(const char *codec, size_t block, bool coded)
{
    compare_scatter((struct sum){codec, 3, COLL_F32, COLL_SUM, 0, coded, NULL, NULL},
                    (struct plugin_window){block, 0, 3 * block});
}

static void compare_sum_of(const char *codec, size_t elems, bool coded)
{
    compare((struct sum){codec, 2, COLL_F32, COLL_SUM, elems, coded, NULL, NULL});
}

static void rules_choose_by_operation_and_size(void)
{
    rules = "reduce_*=int8; *=bf16; max=70000";
    compare_sum_of("bf16", 16384, true);
    compare_sum_of("bf16", 70000, true);
    compare_sum_of("bf16", 16383, false);
    compare_sum_of("bf16", 70001, false);
    compare_scatter_of("int8", 23333, true); /* of 69999 elements */
    compare_scatter_of("int8", 23334, false);
    rules = "reduce_scatter=none; allreduce=onebit:block=128; min=100";
    compare_sum_of("onebit:block=128", 100, true);
    compare_scatter_of("int8", 20000, false);
    rules = NULL;
}

/** It is for operations that no rule fits. */
static void rules_stand_before_the_own_codec(void)
{
    rules = "allreduce=int8; min=1";
    own_codec = "bf16";
    compare_sum_of("int8", 5000, true);
    compare_scatter_of("bf16", 50000, true);
    compare_scatter_of("bf16", 5000, false); /* WRING_NCCL_CODEC_MIN is 256k */
    rules = own_codec = NULL;
}

enum {
    SUMMED = 1 << 18
};

struct sent {
    const char *rules;
    unsigned long long bytes; /* that a rank sends for SUMMED elements of f32, of two ranks */
    unsigned coded;
};

/** The plugin says what it sent as its communicator closes. */
static void sum_and_ask(const struct world_rank *me, void *arg)
{
    const struct sent *sent = arg;
    static float data[SUMMED];
    struct coll_rig coll;
    char line[160];

    for (int i = 0; i < SUMMED; i++)
        data[i] = 1 + (float)(i % 4096) / 4096;
    set_rules(sent->rules, NULL);
    coll_begin(&coll, me);
    void *region = coll_register(&coll, data, sizeof(data));
    coll_wait(&coll, coll_allreduce(&coll, data, data, SUMMED, COLL_F32, COLL_SUM, region, region),
              "an allreduce");
    coll_deregister(&coll, region);
    coll_leave(&coll);
    snprintf(
        line, sizeof(line),
        "rank %u: sent %llu bytes; of its calls %u allreduce and 0 reduce_scatter were encoded",
        me->rank, sent->bytes, sent->coded);
    CHECK(world_logged(PLUGIN_LOG_INFO, line) == 1, "with %s no line has \"%s\"", sent->rules,
          line);
    rig_end(&coll.rig);
}

static void what_rules_send(void)
{
    static const struct sent all[] = {
        {"allreduce=none", 4 * SUMMED, 0},
        {"allreduce=bf16", 2 * SUMMED, 1},
        {"allreduce=int8", SUMMED + SUMMED / 128, 1}, /* a scale for each 512 elements */
        {"allreduce=bf16; min=262145", 4 * SUMMED, 0},
        {"reduce_scatter=bf16", 4 * SUMMED, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        world_run(&(struct world_job){.size = 2, .run = sum_and_ask, .arg = (void *)&all[i]});
}

struct refusal {
    const char *rules, *own;
    const char *says;
    bool connects; /* init succeeds: rules are looked at as CollNet connects */
};

static void begin_refused(const struct world_rank *me, void *arg)
{
    const struct refusal *refusal = arg;
    struct plugin *plugin = plugin_open(rig_choice.path, rig_choice.version);
    unsigned char handle[PLUGIN_HANDLE];
    void *ctx, *coll_ctx, *listener, *comm = NULL, *handles[] = {handle};

    (void)me;
    MUST(plugin != NULL, "%s", rig_choice.path);
    set_rules(refusal->rules, refusal->own);
    bool works = plugin_init(plugin, 1, &ctx) == PLUGIN_OK;
    CHECK(works == refusal->connects, "init with %s %s", refusal->rules,
          works ? "succeeds" : "fails");
    if (works) {
        MUST(plugin_coll_init(plugin, 1, &coll_ctx) == PLUGIN_OK, "CollNet init");
        MUST(plugin_coll_listen(plugin, coll_ctx, 0, handle, &listener) == PLUGIN_OK, "listen");
        CHECK(plugin_coll_connect(plugin, handles, 1, 0, listener, &comm) != PLUGIN_OK,
              "CollNet connects with %s", refusal->rules);
        plugin_coll_close_listen(plugin, listener);
        plugin_coll_finalize(plugin, coll_ctx);
        plugin_finalize(plugin, ctx);
    }
    CHECK(world_logged(PLUGIN_LOG_WARN, refusal->says) == 1, "%u lines say \"%s\"",
          world_logged(PLUGIN_LOG_WARN, refusal->says), refusal->says);
    plugin_close(plugin);
}

static void rules_that_cannot_be_used_are_refused(void)
{
    static const struct refusal all[] = {
        {"bf16", NULL, "WRING_CODEC_RULES=bf16: a rule is PATTERN=CODEC", false},
        {"*=typo", NULL, "WRING_CODEC_RULES=*=typo: ", false},
        {"*=bf16", "int8", "WRING_NCCL_CODEC=int8 counts for no call", false},
        {"*=int8+ef", NULL, "allreduce of libnccl-net-wring.so cannot take int8+ef", true},
        {"*=bf16>int8", NULL, "put reduce_scatter=CODEC before that rule", true},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        world_run(&(struct world_job){.size = 1, .run = begin_refused, .arg = (void *)&all[i]});
}

static void differ_in_rules(const struct world_rank *me, void *arg)
{
    static float data[100000];
    static const char cause[] =
        "reduce_scatter: rank 0 has codec int8 from 16384 elements on, rank "
        "1 has int8 from 7 elements on: all ranks need the same";
    struct coll_rig coll;
    void *request = NULL;
    int result = PLUGIN_OK;

    (void)arg;
    set_rules(me->rank == 0 ? "*ter=int8" : "*ter=int8; min=7", NULL);
    coll_begin(&coll, me);
    void *region = coll_register(&coll, data, sizeof(data));
    while (result == PLUGIN_OK) { /* a sum that no rule speaks of: none is begun */
        result = plugin_coll_allreduce(coll.rig.plugin, coll.comm, data, data, 100000, COLL_F32,
                                       COLL_SUM, region, region, &request);
        MUST(request == NULL, "a sum begins among ranks whose codecs differ");
        world_turn("rules to be told apart");
    }
    CHECK(world_logged(PLUGIN_LOG_WARN, cause) == 1, "%u lines",
          world_logged(PLUGIN_LOG_WARN, cause));
    coll_deregister(&coll, region);
    coll_end(&coll);
}

static void rules_that_differ_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = differ_in_rules});
}

/** By one rank, once, however many communicators it has. */
static void join_twice(const struct world_rank *me, void *arg)
{
    struct coll_rig coll, other;
    unsigned want = me->rank == 0;

    (void)arg;
    set_rules("*embed*=bf16; 1d=none; *=int8", NULL);
    coll_begin(&coll, me);
    coll_join(&coll, &other);
    coll_leave(&other);
    coll_end(&coll);
    CHECK(world_logged(PLUGIN_LOG_WARN,
                       "*embed*=bf16: never counts in libnccl-net-wring.so: its sums are called "
                       "allreduce, reduce_scatter") == want,
          "rank %u", me->rank);
    CHECK(world_logged(PLUGIN_LOG_WARN, "1d=none: never counts in libnccl-net-wring.so") == want,
          "rank %u", me->rank);
    CHECK(world_logged(PLUGIN_LOG_WARN, "") == 2 * want, "%u lines",
          world_logged(PLUGIN_LOG_WARN, ""));
}

static void rules_that_never_count_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = join_twice});
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
        {"rules_choose_by_operation_and_size", rules_choose_by_operation_and_size},
        {"rules_stand_before_the_own_codec", rules_stand_before_the_own_codec},
        {"what_rules_send", what_rules_send},
        {"rules_that_cannot_be_used_are_refused", rules_that_cannot_be_used_are_refused},
        {"rules_that_differ_are_told", rules_that_differ_are_told},
        {"rules_that_never_count_are_told", rules_that_never_count_are_told},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
