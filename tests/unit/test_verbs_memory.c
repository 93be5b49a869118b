/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory over two devices that are made up: which calls reach them, and what becomes of
 * refusals. */
#include "transport/providers/verbs/verbs_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "tests/lib/test.h"

#define RAILS 2
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* The devices: each registration has a number of its own, by which its keys are known. */
static struct {
    unsigned made, alive;
    uint64_t locked, limit; /* bytes; 0: no limit */
    int error;              /* of the next registrations */
    bool strict;            /* they refuse relaxed ordering */
    int probe_error;        /* what a dma-buf of descriptor -1 gets */
    unsigned access;        /* of the last one */
    uint64_t iova, offset;
    int fd;
} devices;

static struct ibv_pd pds[RAILS];
static char said[1024];

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(said, sizeof(said), "%s", text);
}

static const struct wring_log log_said = {hear, NULL, WRING_LOG_INFO};

static struct ibv_mr *make_mr(struct ibv_pd *pd, uint64_t iova, size_t bytes, unsigned access)
{
    errno = devices.error;
    if (devices.error == 0 && devices.limit != 0 && devices.locked + bytes > devices.limit)
        errno = ENOMEM;
    if (errno == 0 && devices.strict && (access & IBV_ACCESS_RELAXED_ORDERING) != 0)
        errno = EOPNOTSUPP;
    if (errno != 0)
        return NULL;
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL)
        abort();
    devices.made++;
    devices.alive++;
    devices.locked += bytes;
    devices.access = access;
    devices.iova = iova;
    *mr = (struct ibv_mr){.pd = pd,
                          .addr = (void *)(uintptr_t)iova,
                          .length = bytes,
                          .lkey = devices.made,
                          .rkey = 1000 + devices.made};
    return mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    return make_mr(pd, (uintptr_t)base, bytes, (unsigned)access);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *base, size_t bytes, uint64_t iova,
                                   unsigned access)
{
    CHECK(iova == (uintptr_t)base, "another address");
    return make_mr(pd, iova, bytes, access);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access)
{
    if (fd < 0) {
        errno = devices.probe_error;
        return NULL;
    }
    devices.fd = fd;
    devices.offset = offset;
    return make_mr(pd, iova, bytes, (unsigned)access);
}

static int dereg_mr(struct ibv_mr *mr)
{
    devices.alive--;
    devices.locked -= mr->length;
    free(mr);
    return 0;
}

static struct verbs_library library;
static struct wring_config config;

/** Settings are NAME, VALUE, ..., NULL. */
static struct verbs_memory *open_memory(const char *const *settings)
{
    struct verbs_memory *memory = NULL;
    library = (struct verbs_library){.reg_mr = reg_mr,
                                     .dereg_mr = dereg_mr,
                                     .reg_mr_iova2 = reg_mr_iova2,
                                     .reg_dmabuf_mr = reg_dmabuf_mr};
    struct verbs_memory_params params = {.library = &library,
                                         .log = &log_said,
                                         .config = &config,
                                         .n_rails = RAILS,
                                         .rails = {{&pds[0], "first"}, {&pds[1], "second"}}};
    CHECK(wring_config_load(&config, NULL) == WRING_OK, "config");
    for (; *settings != NULL; settings += 2)
        CHECK(wring_config_set(&config, NULL, settings[0], settings[1]) == WRING_OK, "%s=%s",
              settings[0], settings[1]);
    said[0] = '\0';
    CHECK(wring_verbs_memory_create(&params, &memory) == WRING_OK, "create");
    return memory;
}

static void restart(void)
{
    memset(&devices, 0, sizeof(devices));
    devices.probe_error = EOPNOTSUPP;
}

static const char *const usual[] = {NULL};

static struct wring_memory host(void *base, size_t bytes, bool source_only)
{
    return (struct wring_memory){.base = base,
                                 .bytes = bytes,
                                 .kind = WRING_MEMORY_HOST,
                                 .fd = -1,
                                 .source_only = source_only};
}

static struct wring_region *make_region(struct verbs_memory *memory, struct wring_memory what)
{
    static struct wring_provider provider;
    struct wring_region *region = NULL;
    enum wring_status status = wring_verbs_region_create(memory, &provider, &what, &region);
    CHECK(status == WRING_OK && region->base == what.base && region->bytes == what.bytes &&
              region->provider == &provider,
          "%s: %s", wring_status_text(status), said);
    return region;
}

static char *pages; /* 16 of them */

static void targets_have_keys_of_their_own(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    uint8_t key[WRING_REGION_KEY_MAX], again[WRING_REGION_KEY_MAX];
    struct verbs_key read;
    struct wring_region *a = make_region(memory, host(pages, 5000, false));
    struct wring_region *b = make_region(memory, host(pages, 5000, false));
    CHECK(devices.alive == 2 * RAILS && wring_verbs_memory_registrations(memory) == 2 * RAILS,
          "%u registrations", devices.alive);
    size_t bytes = wring_verbs_region_export(a, key);
    CHECK(bytes == 16 + 4 * RAILS && wring_verbs_region_export(b, again) == bytes, "%zu", bytes);
    REQUIRE(wring_verbs_key_read(key, bytes, RAILS, &read), "its own key is refused");
    CHECK(read.address == (uintptr_t)pages && read.bytes == 5000, "another place");
    CHECK(read.rkeys[0] == 1001 && read.rkeys[1] == 1002, "%u %u", read.rkeys[0], read.rkeys[1]);
    REQUIRE(wring_verbs_key_read(again, bytes, RAILS, &read), "its own key is refused");
    CHECK(read.rkeys[0] == 1003 && wring_verbs_lkey(b, 1) == 4, "shared");
    wring_verbs_region_destroy(a);
    CHECK(devices.alive == RAILS, "%u are left, a key still names something", devices.alive);
    wring_verbs_region_destroy(NULL);
    wring_verbs_memory_destroy(memory); /* with b, which was forgotten */
    CHECK(devices.alive == 0 && devices.locked == 0, "%u left", devices.alive);
    wring_verbs_memory_destroy(NULL);
}

static void keys_are_checked(void)
{
    struct verbs_key read;
    uint8_t key[WRING_REGION_KEY_MAX] = {[0] = 1, [8] = 1};
    for (unsigned rails = 0; rails <= VERBS_RAILS_MAX + 1; rails++)
        for (size_t n = 0; n <= sizeof(key); n++)
            CHECK(wring_verbs_key_read(key, n, rails, &read) ==
                      (rails >= 1 && rails <= VERBS_RAILS_MAX && n == 16 + 4 * rails),
                  "%zu bytes of %u rails", n, rails);
    memset(key, 0xff, 16); /* wraps */
    CHECK(!wring_verbs_key_read(key, 20, 1, &read), "wraps");
    memset(key, 0, 16);
    CHECK(!wring_verbs_key_read(key, 20, 1, &read), "no bytes");
}

static void sources_share_pages(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    uint8_t key[WRING_REGION_KEY_MAX];
    struct wring_region *a = make_region(memory, host(pages + 100, 50, true));
    struct wring_region *b = make_region(memory, host(pages + 3000, 1000, true));
    CHECK(devices.alive == RAILS && devices.access == 0, "%u, access %u", devices.alive,
          devices.access);
    CHECK(wring_verbs_lkey(a, 0) == wring_verbs_lkey(b, 0), "not shared");
    CHECK(wring_verbs_region_export(a, key) == 0, "a source has a key");
    struct wring_region *c = make_region(memory, host(pages + 4000, 200, true)); /* two pages */
    CHECK(devices.alive == 2 * RAILS, "%u", devices.alive);
    struct wring_region *target = make_region(memory, host(pages + 100, 50, false));
    CHECK(devices.alive == 3 * RAILS, "a target shares with a source");
    wring_verbs_region_destroy(target);
    wring_verbs_region_destroy(a);
    wring_verbs_region_destroy(b);
    wring_verbs_region_destroy(c);
    CHECK(devices.alive == 2 * RAILS, "nothing is kept");
    unsigned made = devices.made;
    for (unsigned i = 0; i < 100; i++)
        wring_verbs_region_destroy(make_region(memory, host(pages + 100, 3000, true)));
    CHECK(devices.made == made, "registered again");
    wring_verbs_memory_gone(memory, pages, 1);
    CHECK(devices.alive == 0, "%u are left of memory that is gone", devices.alive);
    wring_verbs_region_destroy(make_region(memory, host(pages + 100, 50, true)));
    CHECK(devices.made == made + RAILS, "found what is gone");
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

static void budgets_hold(void)
{
    static const char *const two_pages[] = {"WRING_VERBS_CACHE_BYTES", "8192", NULL};
    static const char *const none[] = {"WRING_VERBS_CACHE_BYTES", "0", NULL};
    restart();
    struct verbs_memory *memory = open_memory(two_pages);
    for (unsigned i = 0; i < 4; i++)
        wring_verbs_region_destroy(make_region(memory, host(pages + 4096 * i, 4096, true)));
    CHECK(devices.alive == 2 * RAILS, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
    memory = open_memory(none);
    wring_verbs_region_destroy(make_region(memory, host(pages, 4096, true)));
    CHECK(devices.alive == 0, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
}

static void what_is_kept_makes_room(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    devices.limit = 4 * 4096;
    wring_verbs_region_destroy(make_region(memory, host(pages, 8192, true))); /* twice 8192 */
    CHECK(devices.locked == devices.limit, "not full");
    struct wring_region *region = make_region(memory, host(pages + 8192, 8192, false));
    CHECK(devices.alive == RAILS && wring_verbs_lkey(region, 1) != 0, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
}

/** The limit in force and the need, both in the line. */
static void limits_are_explained(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    struct wring_memory what = host(pages, 12288, false);
    struct wring_region *region, *first = make_region(memory, host(pages, 4096, false));
    struct rlimit before, small = {65536, 65536};
    CHECK(getrlimit(RLIMIT_MEMLOCK, &before) == 0, "getrlimit");
    small.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0, "setrlimit");
    devices.limit = 2 * 4096 + 12288; /* the second device has no room */
    enum wring_status status = wring_verbs_region_create(memory, NULL, &what, &region);
    CHECK(status == WRING_ERR_NO_MEMORY, "%s", wring_status_text(status));
    static const char *const parts[] = {"cannot register 12288 bytes with second",
                                        "may lock 65536 bytes (ulimit -l 64)",
                                        "has 20480 registered", "needs 12288 more"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        CHECK(strstr(said, parts[i]) != NULL, "'%s' has no '%s'", said, parts[i]);
    CHECK(devices.alive == RAILS, "the first device's part is left");
    CHECK(setrlimit(RLIMIT_MEMLOCK, &before) == 0, "setrlimit");
    if (before.rlim_cur == RLIM_INFINITY) {
        wring_verbs_region_create(memory, NULL, &what, &region);
        CHECK(strstr(said, "not limited") != NULL, "'%s'", said);
    }
    wring_verbs_region_destroy(first);
    devices.error = EFAULT;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_INVALID, "EFAULT");
    devices.error = EIO;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_DEVICE, "EIO");
    CHECK(strstr(said, "with first") != NULL, "'%s'", said);
    what.bytes = 0;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_INVALID, "no bytes");
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

static void ordering_is_relaxed_for_targets_only(void)
{
    static const char *const off[] = {"WRING_VERBS_RELAXED_ORDERING", "off", NULL};
    static const char *const on[] = {"WRING_VERBS_RELAXED_ORDERING", "on", NULL};
    restart();
    struct wring_memory what = host(pages, 4096, false);
    struct verbs_pin *pin;
    struct verbs_memory *memory = open_memory(usual);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == (ACCESS | IBV_ACCESS_RELAXED_ORDERING), "0x%x", devices.access);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_WORDS, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS, "0x%x", devices.access);
    wring_verbs_unpin(memory, pin);
    wring_verbs_unpin(memory, NULL);
    wring_verbs_memory_destroy(memory);
    memory = open_memory(off);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS, "0x%x", devices.access);
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);

    memory = open_memory(usual);
    devices.strict = true;
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS && strstr(said, "first refuses") != NULL, "'%s'", said);
    said[0] = '\0';
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(said[0] == '\0', "tried again: '%s'", said);
    wring_verbs_memory_destroy(memory);

    struct verbs_memory_params params = {.library = &library, .log = &log_said, .config = &config};
    memory = open_memory(on);
    wring_verbs_memory_destroy(memory);
    library.reg_mr_iova2 = NULL; /* an old library */
    said[0] = '\0';
    CHECK(wring_verbs_memory_create(&params, &memory) == WRING_OK, "create");
    CHECK(strstr(said, "writes stay in order") != NULL, "'%s'", said);
    wring_verbs_memory_destroy(memory);
}

static void dmabufs_are_taken_where_devices_take_them(void)
{
    static const int noes[] = {EOPNOTSUPP, EPROTONOSUPPORT, EINVAL};
    struct wring_region *region;
    struct wring_memory what = {.base = (void *)(uintptr_t)0x7f0000001000,
                                .bytes = 8192,
                                .kind = WRING_MEMORY_DMABUF,
                                .fd = 33,
                                .fd_offset = 4096};
    for (size_t i = 0; i < sizeof(noes) / sizeof(noes[0]); i++) {
        restart();
        devices.probe_error = noes[i];
        struct verbs_memory *memory = open_memory(usual);
        CHECK(!wring_verbs_memory_takes_dmabuf(memory), "error %d", noes[i]);
        CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_UNSUPPORTED,
              "error %d", noes[i]);
        CHECK(strstr(said, "dma-buf") != NULL, "'%s'", said);
        wring_verbs_memory_destroy(memory);
    }
    restart();
    devices.probe_error = EBADF;
    struct verbs_memory *memory = open_memory(usual);
    CHECK(wring_verbs_memory_takes_dmabuf(memory), "EBADF");
    region = make_region(memory, what);
    CHECK(devices.alive == RAILS && devices.fd == 33 && devices.offset == 4096 &&
              devices.iova == 0x7f0000001000,
          "registered otherwise");
    what.source_only = true; /* never shared: its address is another device's */
    struct wring_region *a = make_region(memory, what), *b = make_region(memory, what);
    CHECK(devices.alive == 3 * RAILS, "shared");
    wring_verbs_region_destroy(a);
    wring_verbs_region_destroy(b);
    CHECK(devices.alive == RAILS, "kept");
    devices.error = EOPNOTSUPP; /* of that exporter */
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_UNSUPPORTED, "'%s'",
          said);
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"targets_have_keys_of_their_own", targets_have_keys_of_their_own},
        {"keys_are_checked", keys_are_checked},
        {"sources_share_pages", sources_share_pages},
        {"budgets_hold", budgets_hold},
        {"what_is_kept_makes_room", what_is_kept_makes_room},
        {"limits_are_explained", limits_are_explained},
        {"ordering_is_relaxed_for_targets_only", ordering_is_relaxed_for_targets_only},
        {"dmabufs_are_taken_where_devices_take_them", dmabufs_are_taken_where_devices_take_them},
        {NULL, NULL},
    };
    if (sysconf(_SC_PAGESIZE) != 4096)
        wring_test_skip("the cases count in pages of 4096 bytes, this machine's have others");
    pages = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 1;
    return wring_test_main(argc, argv, cases);
}
