/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Providers of one process on the same devices: what they have in common is there once, the events
 * of a device reach all of them, and what fails for one leaves the others alone.
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "tests/provider/mock/mock.h"
#include "tests/provider/verbs_losses.h"
#include "transport/memory.h"
#include "transport/providers/providers.h"

#define MANY 6
#define THREADS 4
#define ROUNDS 100
#define FLAPS 20 /* even: the port is up at the end */
#define BYTES ((size_t)1 << 20)

static struct wring_config config;

static struct mock_counts counts(void)
{
    struct mock_counts now = {0};
    mock_get_counts(&now);
    return now;
}

static struct wring_provider *open_one(const char *devices, const char *key)
{
    struct wring_provider *provider = NULL;
    const struct wring_provider_params params = {.config = &config};
    CHECK(wring_config_load(&config, NULL) == WRING_OK &&
              wring_config_set(&config, NULL, "WRING_VERBS_DEVICES", devices) == WRING_OK &&
              wring_config_set(&config, NULL, "WRING_KEY", key) == WRING_OK,
          "config");
    CHECK(wring_provider_verbs.open(&params, &provider) == WRING_OK, "open");
    return provider;
}

static struct wring_region *register_one(struct wring_provider *provider, void *base, size_t bytes,
                                         bool source_only, bool common)
{
    struct wring_region *region = NULL;
    const struct wring_memory memory = {.base = base,
                                        .bytes = bytes,
                                        .kind = WRING_MEMORY_HOST,
                                        .fd = -1,
                                        .source_only = source_only,
                                        .common = common};
    CHECK(provider->ops->region_create(provider, &memory, &region) == WRING_OK, "region");
    return region;
}

static void nothing_is_left(void)
{
    struct mock_counts now = counts();
    CHECK(now.contexts == 0 && now.pds == 0 && now.mrs == 0 && now.channels == 0 && now.cqs == 0,
          "left: %llu contexts, %llu domains, %llu registrations", (unsigned long long)now.contexts,
          (unsigned long long)now.pds, (unsigned long long)now.mrs);
    CHECK(now.misuse == 0, "misused");
}

/* ---- once per process ---- */

static void a_device_is_open_once(void)
{
    struct wring_provider *all[MANY];
    uint64_t opens = 0;
    for (unsigned i = 0; i < MANY; i++) {
        all[i] = open_one("=mock0,mock1", "of all");
        opens = i == 0 ? counts().opens : opens;
    }
    CHECK(counts().opens == opens + 2 * (MANY - 1), "%llu more times were devices opened",
          (unsigned long long)(counts().opens - opens)); /* mock2 and mock3, to be looked at */
    CHECK(counts().contexts == 2 && counts().pds == 2, "%llu contexts, %llu domains",
          (unsigned long long)counts().contexts, (unsigned long long)counts().pds);
    CHECK(counts().channels == MANY * 2, "each rail has notices of its own");
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(counts().contexts == 2, "closed too early");
        wring_provider_verbs.close(all[i]);
    }
    nothing_is_left();
}

static void other_keys_are_other_domains(void)
{
    struct wring_provider *one = open_one("=mock0", "one"), *other = open_one("=mock0", "other");
    CHECK(counts().contexts == 2 && counts().pds == 2, "a peer of one reaches the other");
    wring_provider_verbs.close(one);
    wring_provider_verbs.close(other);
    nothing_is_left();
}

/** @return whether keys are equal */
static bool has_same_key(const struct wring_region *one, const struct wring_region *other)
{
    uint8_t a[WRING_REGION_KEY_MAX], b[WRING_REGION_KEY_MAX];
    size_t n = one->provider->ops->region_export((struct wring_region *)one, a);
    size_t m = other->provider->ops->region_export((struct wring_region *)other, b);
    return n == m && memcmp(a, b, n) == 0;
}

static void common_memory_is_registered_once(void)
{
    static uint8_t memory[1 << 16];
    struct wring_provider *all[MANY];
    struct wring_region *regions[MANY];
    for (unsigned i = 0; i < MANY; i++)
        all[i] = open_one("=mock0", "of all");
    uint64_t before = counts().registrations;
    for (unsigned i = 0; i < MANY; i++)
        regions[i] = register_one(all[i], memory, sizeof(memory), false, true);
    CHECK(counts().registrations == before + 1, "%llu registrations",
          (unsigned long long)(counts().registrations - before));
    CHECK(has_same_key(regions[0], regions[MANY - 1]), "two keys of one registration");
    struct wring_region *part = register_one(all[0], memory, 4096, false, true);
    CHECK(counts().registrations == before + 2, "another piece is another one");
    all[0]->ops->region_destroy(part);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(counts().mrs == 1, "%llu are left", (unsigned long long)counts().mrs);
        all[i]->ops->region_destroy(regions[i]);
    }
    CHECK(counts().mrs == 0, "the last one lets go");
    for (unsigned i = 0; i < MANY; i++)
        wring_provider_verbs.close(all[i]);
    nothing_is_left();
}

/** A key that was handed out names nothing once its region is gone. */
static void targets_are_not_shared(void)
{
    static uint8_t memory[1 << 16];
    struct wring_provider *a = open_one("=mock0", "k"), *b = open_one("=mock0", "k");
    uint64_t before = counts().registrations;
    struct wring_region *one = register_one(a, memory, sizeof(memory), false, false);
    struct wring_region *other = register_one(b, memory, sizeof(memory), false, false);
    CHECK(counts().registrations == before + 2 && !has_same_key(one, other), "one key for both");
    a->ops->region_destroy(one);
    b->ops->region_destroy(other);
    wring_provider_verbs.close(a);
    wring_provider_verbs.close(b);
    nothing_is_left();
}

/** They are kept without a user, until their owner says that the memory goes. */
static void sources_are_shared_until_they_go(void)
{
    static _Alignas(4096) uint8_t memory[1 << 16];
    struct wring_provider *a = open_one("=mock0", "k"), *b = open_one("=mock0", "k");
    uint64_t before = counts().registrations;
    struct wring_region *one = register_one(a, memory, sizeof(memory), true, false);
    struct wring_region *other = register_one(b, memory, sizeof(memory), true, false);
    CHECK(counts().registrations == before + 1, "a source was registered twice");
    a->ops->region_destroy(one);
    a->ops->memory_gone(a, memory, sizeof(memory));
    one = register_one(a, memory, sizeof(memory), true, false); /* mapped anew, for all we know */
    CHECK(counts().registrations == before + 2, "found what is gone");
    b->ops->region_destroy(other);
    a->ops->region_destroy(one);
    wring_provider_verbs.close(a);
    wring_provider_verbs.close(b);
    nothing_is_left();
}

static void a_refusal_is_one_providers_own(void)
{
    static uint8_t memory[1 << 16];
    struct wring_provider *a = open_one("=mock0", "k"), *b = open_one("=mock0", "k");
    struct wring_region *region = NULL;
    const struct wring_memory what = {.base = memory,
                                      .bytes = sizeof(memory),
                                      .kind = WRING_MEMORY_HOST,
                                      .fd = -1,
                                      .common = true};
    mock_fail_call("ibv_reg_mr", EPERM, 0);
    CHECK(a->ops->region_create(a, &what, &region) == WRING_ERR_DEVICE, "not refused");
    region = register_one(b, memory, sizeof(memory), false, true);
    CHECK(counts().mrs == 1, "%llu", (unsigned long long)counts().mrs);
    b->ops->region_destroy(region);
    wring_provider_verbs.close(a);
    wring_provider_verbs.close(b);
    nothing_is_left();
}

/* ---- threads ---- */

static uint8_t everybodys[1 << 16];
static struct wring_config of_threads;

static void *come_and_go(void *arg)
{
    const struct wring_provider_params params = {.config = &of_threads};
    (void)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct wring_provider *provider = NULL;
        if (wring_provider_verbs.open(&params, &provider) != WRING_OK)
            return (void *)(uintptr_t)1;
        struct wring_region *region =
            register_one(provider, everybodys, sizeof(everybodys), false, i % 2 == 0);
        provider->ops->region_destroy(region);
        wring_provider_verbs.close(provider);
    }
    return NULL;
}

static void threads_come_and_go(void)
{
    pthread_t threads[THREADS];
    REQUIRE(wring_config_load(&of_threads, NULL) == WRING_OK &&
                wring_config_set(&of_threads, NULL, "WRING_VERBS_DEVICES", "=mock0") == WRING_OK,
            "config");
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0, "thread");
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL, "a thread could not open");
    }
    nothing_is_left();
}

/* ---- events ---- */

static struct losses one_of_two(void)
{
    return (struct losses){
        .devices = {"=mock0,mock2", "=mock1,mock3"}, .qps = "1", .recover = "10", .revive = "0"};
}

static struct wring_verbs_counters counters_of(const struct end *end)
{
    struct wring_verbs_counters now = {0};
    wring_verbs_counters_of(end->provider, &now);
    return now;
}

/** Does a thread that sleeps on an end's descriptors wake? */
static bool would_wake(const struct end *end)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
    end->provider->ops->arm(end->provider, &set);
    return set.busy || poll(set.fds, set.n, 0) > 0;
}

/** Puts travel between all: what a case did harms nobody for good. */
static void go_on(struct losses *losses)
{
    struct end *a = &losses->a, *b = &losses->b;
    unsigned done = a->done, arrived = b->arrived;
    enum wring_status status = WRING_ERR_AGAIN;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (status == WRING_ERR_AGAIN && wring_now_ns() < limit) {
        status = end_put(a, a->base, 0, 1024, arrived, done);
        end_turn(a);
        end_turn(b);
    }
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    UNTIL(a, b, a->done == done + 1 && b->arrived == arrived + 1);
    ends_close(a, b);
}

static void a_ports_events_reach_all(void)
{
    struct losses one = one_of_two(), two = one_of_two();
    REQUIRE(losses_pair(&one, BYTES) && losses_pair(&two, BYTES), "no pairs");
    CHECK(counts().contexts == 4, "%llu contexts", (unsigned long long)counts().contexts);
    mock_port_state("mock2", 1, IBV_PORT_DOWN);
    UNTIL(&one.a, &one.b, counters_of(&one.a).paths_lost > 0); /* it has read the event */
    CHECK(counters_of(&two.a).paths_lost == 0 && would_wake(&two.a), "the other one sleeps on");
    UNTIL(&two.a, &two.b, counters_of(&two.a).paths_lost > 0);
    mock_port_state("mock2", 1, IBV_PORT_ACTIVE);
    UNTIL(&two.a, &two.b, counters_of(&two.a).recoveries > 0 && counters_of(&two.b).recoveries > 0);
    UNTIL(&one.a, &one.b, counters_of(&one.a).recoveries > 0 && counters_of(&one.b).recoveries > 0);
    go_on(&one);
    go_on(&two);
    nothing_is_left();
}

/** Down and back before the other one looked: it loses the path, and takes it back. */
static void events_are_not_lost_by_those_that_rest(void)
{
    struct losses one = one_of_two(), two = one_of_two();
    REQUIRE(losses_pair(&one, BYTES) && losses_pair(&two, BYTES), "no pairs");
    mock_port_state("mock2", 1, IBV_PORT_DOWN);
    UNTIL(&one.a, &one.b, counters_of(&one.a).paths_lost > 0);
    mock_port_state("mock2", 1, IBV_PORT_ACTIVE);
    UNTIL(&one.a, &one.b, counters_of(&one.a).recoveries > 0 && counters_of(&one.b).recoveries > 0);
    UNTIL(&two.a, &two.b, counters_of(&two.a).recoveries > 0 && counters_of(&two.b).recoveries > 0);
    go_on(&one);
    go_on(&two);
    nothing_is_left();
}

static bool lists(const uint32_t *qpns, unsigned n, uint32_t qpn)
{
    for (unsigned i = 0; i < n; i++)
        if (qpns[i] == qpn)
            return true;
    return false;
}

static void a_queue_pairs_event_is_its_owners(void)
{
    struct losses one = one_of_two(), two = one_of_two();
    uint32_t before[64], after[64];
    REQUIRE(losses_pair(&one, BYTES), "no pair");
    unsigned n = mock_qp_list(before, 64);
    REQUIRE(losses_pair(&two, BYTES), "no pair");
    unsigned m = mock_qp_list(after, 64);
    unsigned at = 0;
    while (at < m && lists(before, n, after[at]))
        at++;
    REQUIRE(at < m, "no queue pair of the second pair");
    mock_qp_fatal(after[at]);
    for (unsigned i = 0; i < 200; i++) { /* either of them has read it, or nobody will */
        end_sleep(&one.a, wring_deadline_in(WRING_NS_PER_MS / 10));
        end_sleep(&one.b, wring_deadline_in(WRING_NS_PER_MS / 10));
    }
    UNTIL(&two.a, &two.b,
          counters_of(&two.a).recoveries + counters_of(&two.a).resyncs > 0 &&
              counters_of(&two.b).paths_lost > 0);
    CHECK(counters_of(&one.a).paths_lost == 0 && counters_of(&one.b).paths_lost == 0,
          "it harmed the others");
    go_on(&one);
    go_on(&two);
    nothing_is_left();
}

struct driver {
    struct losses losses;
    _Atomic bool stop;
};

static void *drive(void *arg)
{
    struct driver *driver = arg;
    for (unsigned i = 0; !driver->stop; i++) {
        end_turn(&driver->losses.a);
        end_turn(&driver->losses.b);
        if (i % 16 == 0) /* it reads events around a sleep */
            end_sleep(&driver->losses.a, wring_deadline_in(WRING_NS_PER_MS / 10));
    }
    return NULL;
}

/** A port goes down and comes back, while each pair has a thread of its own that may read it. */
static void threads_share_what_a_port_says(void)
{
    static struct driver drivers[2];
    pthread_t threads[2];
    const struct timespec pause = {0, 5 * WRING_NS_PER_MS};
    for (unsigned i = 0; i < 2; i++) {
        drivers[i].losses = one_of_two();
        REQUIRE(losses_pair(&drivers[i].losses, BYTES), "no pair");
    }
    for (unsigned i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, drive, &drivers[i]) == 0, "thread");
    for (unsigned i = 0; i < FLAPS; i++) {
        mock_port_state("mock2", 1, i % 2 == 0 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE);
        nanosleep(&pause, NULL);
    }
    for (unsigned i = 0; i < 2; i++) {
        drivers[i].stop = true;
        pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct end *a = &drivers[i].losses.a, *b = &drivers[i].losses.b;
        UNTIL(a, b, counters_of(a).recoveries > 0 && counters_of(b).recoveries > 0);
        go_on(&drivers[i].losses);
    }
    nothing_is_left();
}

/* ---- forks ---- */

static int use_in_child(void)
{
    struct losses losses = one_of_two();
    uint64_t contexts = counts().contexts; /* of the parent, as the child has them */
    if (!losses_pair(&losses, BYTES) || counts().contexts != contexts + 4)
        return 1;
    go_on(&losses);
    return counts().contexts == contexts ? 0 : 2;
}

static void a_child_opens_its_own(void)
{
    struct losses losses = one_of_two();
    int status = -1;
    REQUIRE(losses_pair(&losses, BYTES), "no pair");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child());
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child, "no child");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %x", (unsigned)status);
    go_on(&losses);
    nothing_is_left();
}

/** The last one: a device that broke does not work again. */
static void a_broken_device_is_given_to_nobody_new(void)
{
    struct losses losses = one_of_two();
    REQUIRE(losses_pair(&losses, BYTES), "no pair");
    uint64_t contexts = counts().contexts;
    mock_device_fatal("mock2");
    UNTIL(&losses.a, &losses.b, counters_of(&losses.a).paths_lost > 0);
    end_sleep(&losses.a,
              wring_deadline_in(
                  50 * WRING_NS_PER_MS)); /* it looks at the device's events around a sleep */
    struct wring_provider *more = open_one("=mock2", "");
    CHECK(counts().contexts == contexts + 1, "it has what broke");
    struct wring_provider *still = open_one("=mock0", "");
    CHECK(counts().contexts == contexts + 1, "what works is not shared any more");
    wring_provider_verbs.close(more);
    wring_provider_verbs.close(still);
    go_on(&losses);
    nothing_is_left();
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_device_is_open_once", a_device_is_open_once},
        {"other_keys_are_other_domains", other_keys_are_other_domains},
        {"common_memory_is_registered_once", common_memory_is_registered_once},
        {"targets_are_not_shared", targets_are_not_shared},
        {"sources_are_shared_until_they_go", sources_are_shared_until_they_go},
        {"a_refusal_is_one_providers_own", a_refusal_is_one_providers_own},
        {"threads_come_and_go", threads_come_and_go},
        {"a_ports_events_reach_all", a_ports_events_reach_all},
        {"events_are_not_lost_by_those_that_rest", events_are_not_lost_by_those_that_rest},
        {"a_queue_pairs_event_is_its_owners", a_queue_pairs_event_is_its_owners},
        {"threads_share_what_a_port_says", threads_share_what_a_port_says},
        {"a_child_opens_its_own", a_child_opens_its_own},
        {"a_broken_device_is_given_to_nobody_new", a_broken_device_is_given_to_nobody_new},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
