/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_up_devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"

struct made_up_devices devices;
struct verbs_library library;
struct wring_config config;
char said[1024];
char *pages;

static struct ibv_pd pds[RAILS];

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(said, sizeof(said), "%s", text);
}

const struct wring_log log_said = {hear, NULL, WRING_LOG_INFO};

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

struct verbs_memory *open_memory(const char *const *settings)
{
    struct verbs_memory *memory = NULL;
    library = (struct verbs_library){.reg_mr = reg_mr,
                                     .dereg_mr = dereg_mr,
                                     .reg_mr_iova2 = reg_mr_iova2,
                                     .reg_dmabuf_mr = reg_dmabuf_mr};
    struct verbs_memory_params params = {
        .library = &library,
        .log = &log_said,
        .config = &config,
        .n_rails = RAILS,
        .rails = {{&pds[0], "first", NULL}, {&pds[1], "second", NULL}}};
    CHECK(wring_config_load(&config, NULL) == WRING_OK, "config");
    for (; *settings != NULL; settings += 2)
        CHECK(wring_config_set(&config, NULL, settings[0], settings[1]) == WRING_OK, "%s=%s",
              settings[0], settings[1]);
    said[0] = '\0';
    CHECK(wring_verbs_memory_create(&params, &memory) == WRING_OK, "create");
    return memory;
}

void restart(void)
{
    memset(&devices, 0, sizeof(devices));
    devices.probe_error = EOPNOTSUPP;
}

struct wring_memory host(void *base, size_t bytes, bool source_only)
{
    return (struct wring_memory){.base = base,
                                 .bytes = bytes,
                                 .kind = WRING_MEMORY_HOST,
                                 .fd = -1,
                                 .source_only = source_only};
}

struct wring_region *make_region(struct verbs_memory *memory, struct wring_memory what)
{
    static struct wring_provider provider;
    struct wring_region *region = NULL;
    enum wring_status status = wring_verbs_region_create(memory, &provider, &what, &region);
    CHECK(status == WRING_OK && region->base == what.base && region->bytes == what.bytes &&
              region->provider == &provider,
          "%s: %s", wring_status_text(status), said);
    return region;
}

bool devices_begin(void)
{
    if (sysconf(_SC_PAGESIZE) != 4096)
        wring_test_skip("the cases count in pages of 4096 bytes, this machine's have others");
    pages = mmap(NULL, PAGES * (size_t)4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    return pages != MAP_FAILED;
}
