/* SPDX-License-Identifier: Apache-2.0 */
/* Every call works in a thread whose stack is as small as the header says, with a guard page. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include <wring/bootstrap.h>
#include <wring/codec.h>
#include <wring/wring.h>

#define RANKS 2
#define GUARD 65536
#define ELEMS 150000 /* two blocks of topk and a part, more than a chunk */
#define WAIT_NS (120ull * 1000000000)
#define PAINT 0xA5

/** A thread, and how much of its stack was used. */
struct small {
    size_t bytes; /* of stack */
    void (*run)(void *arg);
    void *arg;
    uint8_t *base; /* the guard's; the stack follows */
    pthread_t thread;
};

static void *small_main(void *arg)
{
    const struct small *small = arg;
    small->run(small->arg);
    return NULL;
}

static bool small_start(struct small *small)
{
    pthread_attr_t attr;
    small->base = mmap(NULL, GUARD + small->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (small->base == MAP_FAILED || mprotect(small->base, GUARD, PROT_NONE) != 0)
        return false;
    memset(small->base + GUARD, PAINT, small->bytes);
    pthread_attr_init(&attr);
    bool started = pthread_attr_setstack(&attr, small->base + GUARD, small->bytes) == 0 &&
                   pthread_create(&small->thread, &attr, small_main, small) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

/** @return bytes of stack that were used */
static size_t small_join(struct small *small)
{
    size_t left = 0;
    pthread_join(small->thread, NULL);
    while (left < small->bytes && small->base[GUARD + left] == PAINT)
        left++;
    munmap(small->base, GUARD + small->bytes);
    return small->bytes - left;
}

static void run_small(size_t bytes, const char *what, void (*run)(void *arg), void *arg)
{
    struct small small = {.bytes = bytes, .run = run, .arg = arg};
    REQUIRE(small_start(&small), "no thread of %zu bytes", bytes);
    printf("%s: %zu of %zu bytes of stack\n", what, small_join(&small), bytes);
}

static const char *const specs[] = {"none",           "lossless",       "lossless:block=4096",
                                    "bf16+ef",        "fp16+ef",        "int8:block=64+ef",
                                    "onebit+ef",      "topk+ef",        "topk:select=exact+ef",
                                    "topk:ratio=0.2", "onebit+ef>topk", NULL};
static const char *const tiers[] = {"scalar", "avx2", "avx512", "best", NULL};

struct coding {
    const char *spec, *tier;
    float *src, *residual, *dst;
    void *code;
};

/** An application's own calls: encode, decode, decode and add; of what is finite and what is not.
 */
static void code(void *arg)
{
    const struct coding *coding = arg;
    struct wring_codec_context context = {.seed = 1};
    struct wring_codec *codec;
    char why[128];

    REQUIRE(wring_codec_create(coding->spec, coding->tier, NULL, why, sizeof(why), &codec) ==
                WRING_OK,
            "%s: %s", coding->spec, why);
    bool fed = (wring_codec_info(wring_codec_way(codec, 0))->flags & WRING_CODEC_FEEDBACK) != 0;
    for (uint64_t n = 1; n <= ELEMS; n = n < ELEMS && n * 19 > ELEMS ? ELEMS : n * 19) {
        size_t bytes = wring_codec_encode(codec, &context, coding->src, n,
                                          fed ? coding->residual : NULL, coding->code);
        CHECK(wring_codec_decode(codec, &context, coding->code, bytes, coding->dst, n, false) ==
                      WRING_OK &&
                  wring_codec_decode(codec, &context, coding->code, bytes, coding->dst, n, true) ==
                      WRING_OK,
              "%s does not decode", coding->spec);
    }
    wring_codec_destroy(codec);
}

static void fill(float *data, uint64_t elems, uint32_t seed)
{
    uint32_t state = seed;
    for (uint64_t i = 0; i < elems; i++)
        data[i] = wring_test_random_float(&state);
}

static void codecs_fit(void)
{
    struct coding coding;
    coding.src = malloc(ELEMS * sizeof(float));
    coding.residual = calloc(ELEMS, sizeof(float));
    coding.dst = malloc(ELEMS * sizeof(float));
    coding.code = malloc(ELEMS * 8 + 4096);
    for (int t = 0; tiers[t] != NULL; t++)
        for (int s = 0; specs[s] != NULL; s++) {
            coding.spec = specs[s];
            coding.tier = tiers[t];
            fill(coding.src, ELEMS, 1);
            run_small(WRING_STACK_MIN, specs[s], code, &coding);
            coding.src[777] = (float)1e39;
            run_small(WRING_STACK_MIN, specs[s], code, &coding);
        }
    free(coding.src);
    free(coding.residual);
    free(coding.dst);
    free(coding.code);
}

struct rank {
    struct wring_bootstrap *bootstrap;
    const char *const *settings;
    uint32_t rank;
    struct wring_session *session;
    struct wring_bucket *buckets[16];
    float *data[16];
    int n;
};

static void open_rank(void *arg)
{
    struct rank *rank = arg;
    struct wring_session_params params = {
        .bootstrap = rank->bootstrap, .settings = rank->settings, .seed = 7};
    enum wring_status status = wring_session_open(&params, &rank->session);
    REQUIRE(status == WRING_OK, "open: %s", wring_status_text(status));
    for (rank->n = 0; specs[rank->n] != NULL; rank->n++) {
        int b = rank->n;
        REQUIRE(wring_buffer_alloc(rank->session, ELEMS * sizeof(float), (void **)&rank->data[b]) ==
                    WRING_OK,
                "memory");
        char name[16];
        snprintf(name, sizeof(name), "b%d", b);
        struct wring_bucket_params bucket = WRING_BUCKET_PARAMS_INIT;
        bucket.name = name;
        bucket.data = rank->data[b];
        bucket.elems = ELEMS;
        bucket.codec = specs[b];
        REQUIRE(wring_bucket_register(rank->session, &bucket, &rank->buckets[b]) == WRING_OK,
                "register");
    }
}

static void commit(void *arg)
{
    struct rank *rank = arg;
    CHECK(wring_session_commit(rank->session) == WRING_OK, "commit");
}

static void close_rank(void *arg)
{
    struct rank *rank = arg;
    wring_session_close(rank->session);
}

static void steps(void *arg)
{
    struct rank *rank = arg;
    for (int step = 0; step < 3; step++) {
        for (int b = 0; b < rank->n; b++) {
            fill(rank->data[b], ELEMS, 1 + rank->rank);
            CHECK(wring_bucket_post(rank->buckets[b]) == WRING_OK, "post of %s", specs[b]);
            if (step == 2) /* one at a time */
                CHECK(wring_bucket_wait(rank->buckets[b], WAIT_NS, NULL) == WRING_OK, "wait");
        }
        struct wring_waitable first = {.bucket = rank->buckets[0]};
        size_t index;
        if (step == 1)
            CHECK(wring_wait_any(&first, 1, WAIT_NS, &index, NULL) == WRING_OK, "wait for any");
        for (int b = 0; b < rank->n; b++)
            CHECK(wring_bucket_wait(rank->buckets[b], WAIT_NS, NULL) == WRING_OK, "wait");
    }
}

static void others(void *arg)
{
    struct rank *rank = arg;
    struct wring_group *world = wring_session_world(rank->session), *group;
    static const char *const codecs[] = {"none", "topk", "lossless", "int8"};
    const uint32_t all[RANKS] = {0, 1};
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    float *x = rank->data[0], *y = rank->data[1];
    char where[WRING_WHERE_TEXT] = "no answer";
    size_t bytes = 0;

    CHECK(wring_group_create(wring_session_world(rank->session), all, RANKS, 0, WRING_FOREVER,
                             &group) == WRING_OK,
          "group");
    for (size_t c = 0; c < sizeof(codecs) / sizeof(codecs[0]); c++)
        for (uint64_t n = 2; n <= ELEMS / RANKS; n = n * 200) {
            const char *codec = codecs[c];
            CHECK(wring_allreduce(group, x, x, n, WRING_F32, WRING_SUM,
                                  &(struct wring_call){.codec = codec}, NULL) == WRING_OK &&
                      wring_reduce_scatter(world, x, y, n, WRING_F32, WRING_SUM,
                                           &(struct wring_call){.codec = codec},
                                           NULL) == WRING_OK &&
                      wring_allgather(world, y, x, n, WRING_F32,
                                      &(struct wring_call){.codec = codec}, NULL) == WRING_OK &&
                      wring_alltoall(world, x, y, n, WRING_F32,
                                     &(struct wring_call){.codec = codec}, NULL) == WRING_OK &&
                      wring_broadcast(world, x, n * sizeof(float), 1,
                                      &(struct wring_call){.codec = codec}, NULL) == WRING_OK &&
                      wring_barrier(world, NULL, NULL) == WRING_OK,
                  "calls of %llu by %s", (unsigned long long)n, codec);
        }
    CHECK(wring_group_where(group, 60000000000u, where, sizeof(where)) == WRING_OK, "%s", where);
    wring_group_destroy(group);
    CHECK(wring_session_stats(rank->session, &stats) == WRING_OK, "stats");
    CHECK(wring_session_save_state(rank->session, NULL, &bytes) == WRING_OK, "size of the state");
    void *state = malloc(bytes + 1);
    CHECK(wring_session_save_state(rank->session, state, &bytes) == WRING_OK &&
              wring_session_load_state(rank->session, state, bytes) == WRING_OK,
          "state");
    free(state);
}

static void run_all(struct rank *ranks, size_t bytes, const char *what, void (*run)(void *arg))
{
    struct small small[RANKS];
    for (int i = 0; i < RANKS; i++) {
        small[i] = (struct small){.bytes = bytes, .run = run, .arg = &ranks[i]};
        REQUIRE(small_start(&small[i]), "no thread of %zu bytes", bytes);
    }
    for (int i = 0; i < RANKS; i++)
        printf("%s: %zu of %zu bytes of stack\n", what, small_join(&small[i]), bytes);
}

/** @param turns  of steps */
static void check_calls(const char *const *settings, int turns)
{
    struct wring_bootstrap *ends[RANKS];
    struct rank ranks[RANKS];

    REQUIRE(wring_bootstrap_local_create(RANKS, ends) == WRING_OK, "bootstrap");
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[i] = (struct rank){.bootstrap = ends[i], .settings = settings, .rank = i};
    run_all(ranks, WRING_STACK_PLANNING, "open", open_rank);
    if (ranks[0].session != NULL && ranks[1].session != NULL) {
        run_all(ranks, WRING_STACK_PLANNING, "commit", commit);
        for (int turn = 0; turn < turns; turn++)
            run_all(ranks, WRING_STACK_MIN, "steps", steps);
        run_all(ranks, WRING_STACK_MIN, "other calls", others);
    }
    run_all(ranks, WRING_STACK_MIN, "close", close_rank);
    for (uint32_t i = 0; i < RANKS; i++)
        ends[i]->ops->close(ends[i]);
}

static void calls_fit(void)
{
    static const char *const inline_shm[] = {"WRING_PROVIDER=shm", "WRING_BYPASS=never",
                                             "WRING_STATS_EVERY=1", "WRING_PROGRESS=caller", NULL};
    static const char *const pool_shm[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:2",
                                           "WRING_BYPASS=never", NULL};
    static const char *const tcp[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=auto",
                                      "WRING_SCHEME=divisible", "WRING_LOG=debug", NULL};
    static const char *const bad[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=delay=1ms", NULL};
    check_calls(inline_shm, 1);
    check_calls(pool_shm, 1);
    check_calls(tcp, 1);
    check_calls(bad, 1);
}

/** A post writes the trace. */
static void recorded_calls_fit(void)
{
    char path[] = "/tmp/wring-stacks-XXXXXX", record[64];
    const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_BYPASS=never", record, NULL};
    int fd = mkstemp(path);

    REQUIRE(fd >= 0, "no file");
    snprintf(record, sizeof(record), "WRING_RECORD=%s", path);
    check_calls(settings, 4);
    struct stat found;
    CHECK(stat(path, &found) == 0 && found.st_size > 0, "no trace is written");
    unlink(path);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"codecs_fit", codecs_fit},
        {"calls_fit", calls_fit},
        {"recorded_calls_fit", recorded_calls_fit},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
