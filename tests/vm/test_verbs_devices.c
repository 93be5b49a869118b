/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing rails and registering memory, on the soft-RoCE devices of the rig: rxa has the address
 * 10.77.0.1 and rxb 10.77.0.2. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "tests/lib/test.h"
#include "transport/memory.h"
#include "transport/providers/verbs/library.h"
#include "transport/providers/verbs/memory.h"
#include "transport/providers/verbs/verbs.h"

static struct verbs_library library;
static struct wring_config config;
static char said[4096];

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    size_t n = strlen(said);
    (void)arg, (void)level, (void)module;
    snprintf(said + n, sizeof(said) - n, "%s\n", text);
}

static const struct wring_log log_said = {hear, NULL, WRING_LOG_INFO};

/** "rxa:1/1 rxb:1/1": device, port and GID index of each rail; or the status. */
static const char *choose(const char *name, const char *value, const char *bound)
{
    static char text[256];
    struct verbs_choice rails[VERBS_RAILS_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET};
    size_t n = 0, at = 0;
    said[0] = text[0] = '\0';
    CHECK(wring_config_load(&config, NULL) == WRING_OK, "config");
    CHECK(name == NULL || wring_config_set(&config, NULL, name, value) == WRING_OK, "%s", value);
    CHECK(bound == NULL || inet_pton(AF_INET, bound, &address.sin_addr) == 1, "%s", bound);
    enum wring_status status =
        wring_verbs_select(&library, &config, bound != NULL ? (struct sockaddr *)&address : NULL,
                           &log_said, rails, &n);
    if (status != WRING_OK)
        return wring_status_text(status);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%u/%u", i > 0 ? " " : "",
                               rails[i].device, rails[i].port, rails[i].gid.index);
    return text;
}

static void rails_are_chosen(void)
{
    const char *device_error = wring_status_text(WRING_ERR_DEVICE);
    const struct {
        const char *name, *value, *bound, *want, *said;
    } cases[] = {
        {NULL, NULL, NULL, "rxa:1/1 rxb:1/1", "rail rxa:1, RoCE"},
        {NULL, NULL, "10.77.0.2", "rxb:1/1 rxa:1/1", "the one bound to"},
        {"WRING_VERBS_RAILS", "1", "10.77.0.2", "rxb:1/1",
         "rxa:1 is not used: WRING_VERBS_RAILS=1"},
        {"WRING_VERBS_DEVICES", "rxb", NULL, "rxb:1/1", "rxa:1 is not used"},
        {"WRING_VERBS_DEVICES", "=rxb:1,rxa", NULL, "rxb:1/1 rxa:1/1", "names it"},
        {"WRING_VERBS_DEVICES", "^rxa", NULL, "rxb:1/1", "leaves it out"},
        {"WRING_VERBS_DEVICES", "rxa:2", NULL, device_error, "rxb:1: WRING_VERBS_DEVICES=rxa:2"},
        {"WRING_VERBS_DEVICES", "rxa:", NULL, wring_status_text(WRING_ERR_INVALID), "a port is"},
        {"WRING_VERBS_GID_INDEX", "0", NULL, "rxa:1/0 rxb:1/0", "fe80"},
        {"WRING_VERBS_GID_INDEX", "77", NULL, device_error, "entry 77 of its GID table is empty"},
        {"WRING_VERBS_PKEY", "0x8123", NULL, device_error, "partition 0x8123"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *got = choose(cases[i].name, cases[i].value, cases[i].bound);
        CHECK(strcmp(got, cases[i].want) == 0, "%zu: '%s', not '%s'; %s", i, got, cases[i].want,
              said);
        CHECK(strstr(said, cases[i].said) != NULL, "%zu: no '%s' in %s", i, cases[i].said, said);
    }
}

static void devices_open_by_name(void)
{
    struct ibv_context *context = wring_verbs_open_named(&library, "rxb");
    CHECK(context != NULL && strcmp(library.get_device_name(context->device), "rxb") == 0, "rxb");
    if (context != NULL)
        library.close_device(context);
    CHECK(wring_verbs_open_named(&library, "rx") == NULL && errno == ENODEV, "a prefix");
}

struct rig {
    struct ibv_context *contexts[2];
    struct ibv_pd *pds[2];
    struct verbs_memory *memory;
};

static bool open_rig(struct rig *rig)
{
    static const char *const devices[] = {"rxa", "rxb"};
    struct verbs_memory_params params = {
        .library = &library, .log = &log_said, .config = &config, .n_rails = 2};
    said[0] = '\0';
    for (int i = 0; i < 2; i++) {
        rig->contexts[i] = wring_verbs_open_named(&library, devices[i]);
        if (rig->contexts[i] == NULL)
            return false;
        rig->pds[i] = library.alloc_pd(rig->contexts[i]);
        params.rails[i] = (struct verbs_memory_rail){rig->pds[i], devices[i], NULL};
    }
    return wring_config_load(&config, NULL) == WRING_OK && rig->pds[0] != NULL &&
           rig->pds[1] != NULL && wring_verbs_memory_create(&params, &rig->memory) == WRING_OK;
}

static void close_rig(struct rig *rig)
{
    wring_verbs_memory_destroy(rig->memory);
    for (int i = 0; i < 2; i++) {
        CHECK(library.dealloc_pd(rig->pds[i]) == 0, "registrations are left: %s", strerror(errno));
        library.close_device(rig->contexts[i]);
    }
}

static char *map(size_t bytes)
{
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return base != MAP_FAILED ? base : NULL;
}

static void memory_is_registered_with_both(void)
{
    struct rig rig;
    uint8_t key[WRING_REGION_KEY_MAX];
    struct verbs_key read, again;
    struct wring_region *target, *sources[2];
    REQUIRE(open_rig(&rig), "%s", said);
    struct wring_memory what = {.base = map(1 << 20), .bytes = 1 << 20, .fd = -1};
    REQUIRE(what.base != NULL, "no memory");
    CHECK(!wring_verbs_memory_takes_dmabuf(rig.memory), "soft-RoCE takes dma-bufs by now?");
    REQUIRE(wring_verbs_region_create(rig.memory, NULL, &what, &target) == WRING_OK, "%s", said);
    CHECK(wring_verbs_key_read(key, wring_verbs_region_export(target, key), 2, &read), "key");
    wring_verbs_region_destroy(target);
    REQUIRE(wring_verbs_region_create(rig.memory, NULL, &what, &target) == WRING_OK, "%s", said);
    CHECK(wring_verbs_key_read(key, wring_verbs_region_export(target, key), 2, &again), "key");
    CHECK(read.rkeys[0] != again.rkeys[0] && read.rkeys[1] != again.rkeys[1],
          "a key of what is gone names it again");
    what.source_only = true;
    for (int i = 0; i < 2; i++)
        REQUIRE(wring_verbs_region_create(rig.memory, NULL, &what, &sources[i]) == WRING_OK, "%s",
                said);
    CHECK(wring_verbs_memory_registrations(rig.memory) == 6, "not shared");
    wring_verbs_region_destroy(sources[0]);
    close_rig(&rig); /* with what is left */
    munmap(what.base, what.bytes);
}

/** Large pages of the pool, which the machine of the rig gets for this, are registered too. */
static void large_pages_are_registered(void)
{
    struct rig rig;
    struct wring_memory memory;
    struct wring_region *region;
    enum wring_memory_pages got = WRING_PAGES_SMALL;
    FILE *pool = fopen("/proc/sys/vm/nr_hugepages", "we");
    bool grown = pool != NULL && fputs("4", pool) >= 0;
    if (pool != NULL)
        grown = fclose(pool) == 0 && grown;
    REQUIRE(grown && open_rig(&rig), "%s, or the pool does not grow", said);
    CHECK(wring_memory_alloc_on(6 << 20, WRING_PAGES_POOL, &memory, &got) == WRING_OK &&
              got == WRING_PAGES_POOL,
          "became %d", got);
    CHECK(wring_verbs_region_create(rig.memory, NULL, &memory, &region) == WRING_OK, "%s", said);
    close_rig(&rig);
    wring_memory_free(&memory);
}

/** Root may lock without a limit; this process not from here on. */
static bool drop_lock_capability(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) == 0;
}

static void limits_are_explained(void)
{
    struct rig rig;
    struct wring_region *region, *small;
    const struct rlimit limit = {1 << 20, 1 << 20};
    REQUIRE(open_rig(&rig), "%s", said);
    struct wring_memory what = {.base = map(4 << 20), .bytes = 768 << 10, .fd = -1};
    REQUIRE(what.base != NULL, "no memory");
    REQUIRE(drop_lock_capability() && setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "%s",
            strerror(errno));
    enum wring_status status = wring_verbs_region_create(rig.memory, NULL, &what, &region);
    CHECK(status == WRING_ERR_NO_MEMORY, "%s", wring_status_text(status)); /* twice 768k */
    CHECK(strstr(said, "with rxb") != NULL && strstr(said, "lock 1048576 bytes (ulimit -l 1024)") &&
              strstr(said, "has 786432 registered and needs 786432 more") != NULL,
          "%s", said);
    what.bytes = 256 << 10;
    REQUIRE(wring_verbs_region_create(rig.memory, NULL, &what, &region) == WRING_OK, "%s", said);
    what.base = (char *)what.base + (1 << 20); /* kept, until another needs the room */
    what.source_only = true;
    REQUIRE(wring_verbs_region_create(rig.memory, NULL, &what, &small) == WRING_OK, "%s", said);
    wring_verbs_region_destroy(small);
    what.base = (char *)what.base + (1 << 20);
    CHECK(wring_verbs_region_create(rig.memory, NULL, &what, &small) == WRING_OK, "%s", said);
    close_rig(&rig);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"rails_are_chosen", rails_are_chosen},
        {"devices_open_by_name", devices_open_by_name},
        {"memory_is_registered_with_both", memory_is_registered_with_both},
        {"large_pages_are_registered", large_pages_are_registered},
        {"limits_are_explained", limits_are_explained}, /* last: the limit stays */
        {NULL, NULL},
    };
    char reason[256];
    if (!wring_verbs_library_load(&library, reason, sizeof(reason)) ||
        wring_verbs_probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("verbs: %s", reason);
    struct ibv_context *rig = wring_verbs_open_named(&library, "rxb");
    if (rig == NULL)
        wring_test_skip("this is not the rig's machine: it has no rxb");
    library.close_device(rig);
    return wring_test_main(argc, argv, cases);
}
