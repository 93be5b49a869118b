/* SPDX-License-Identifier: Apache-2.0 */
/** Registering memory, keys of regions, and what a provider says it can do with them. */
#include "tests/provider/ends.h"
#include "transport/memory.h"

static void stale_keys_are_refused(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->region_destroy(a.region);
    a.region = NULL;
    REQUIRE(ops->region_create(a.provider, &a.memory, &a.region) == WRING_OK, "again");
    memset(b.base, 0x77, 64);
    end_put(&b, b.base, 0, 64, 0, 0);
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.arrived == 0 && is_all(a.base, 4096, 0), "written through a stale key");
    ends_close(&a, &b);
}

/** A put is under way when the region is revoked, and more follow: all arrive, none is written. */
static void revoked_regions_take_nothing(void)
{
    enum {
        BYTES = 1 << 20,
        SMALL = 100
    };
    struct end a, b;
    REQUIRE(ends_open(&a, &b, BYTES, 16), "no pair");
    const struct wring_provider_ops *ops = a.provider->ops;
    memset(b.base, 0x77, BYTES);
    CHECK(end_put(&b, b.base, 0, BYTES, 0, 0) == WRING_OK, "put");
    end_turn(&b);
    end_turn(&a);
    enum wring_status status = ops->region_revoke(a.region);
    CHECK(status == WRING_OK || status == WRING_ERR_UNSUPPORTED, "%s", wring_status_text(status));
    if (status == WRING_OK) {
        a.region = NULL;
        memset(a.base, 0, BYTES);
    }
    for (uint32_t i = 1; i < 4; i++)
        CHECK(end_put(&b, b.base, i, i % 2 == 0 ? BYTES / 2 : SMALL, i, i) == WRING_OK, "put");
    UNTIL(&a, &b, (a.arrived == 4 && b.done == 4) || a.closed == 1);
    CHECK(a.closed == 0 && a.arrived_bytes == BYTES + BYTES / 2 + 2 * SMALL, "%zu bytes",
          a.arrived_bytes);
    CHECK(is_all(a.base, BYTES, status == WRING_OK ? 0 : 0x77), "what is there");
    if (status == WRING_OK) { /* the same memory, by another key */
        const struct wring_memory again = {
            .base = a.base, .bytes = BYTES, .kind = WRING_MEMORY_HOST, .fd = -1};
        REQUIRE(ops->region_create(a.provider, &again, &a.region) == WRING_OK, "again");
        ops->remote_release(b.remote);
        end_import(&b, &a);
        CHECK(end_put(&b, b.base, 0, BYTES, 4, 4) == WRING_OK, "put");
        UNTIL(&a, &b, (a.arrived == 5 && b.done == 5) || a.closed == 1);
        CHECK(is_all(a.base, BYTES, 0x77), "put by the new key");
        memset(a.base, 0, BYTES);
        ops->region_destroy(a.region); /* which no key of names any more */
        a.region = NULL;
        end_put(&b, b.base, 0, SMALL, 5, 5);
        UNTIL(&a, &b, a.closed == 1);
        CHECK(is_all(a.base, BYTES, 0), "written through a stale key");
    }
    ends_close(&a, &b);
}

static void garbage_keys_are_refused(void)
{
    struct end a, b;
    uint8_t key[WRING_REGION_KEY_MAX] = {0};
    struct wring_remote *remote = NULL;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    size_t good = a.provider->ops->region_export(a.region, key);
    for (size_t n = 0; n <= sizeof(key); n++)
        if (n != good)
            CHECK(b.provider->ops->remote_import(b.conn, key, n, &remote) == WRING_ERR_FRAME,
                  "%zu bytes", n);
    ends_close(&a, &b);
}

/** Regions come and go while a connection stands; what is put goes to the one that was meant. */
static void regions_come_and_go(void)
{
    enum {
        TURNS = 40,
        BYTES = 512
    };
    struct end a, b;
    REQUIRE(ends_open(&a, &b, TURNS * BYTES, 16), "no pair");
    const struct wring_provider_ops *ops = a.provider->ops;
    for (unsigned i = 0; i < TURNS; i++) {
        struct wring_region *region;
        struct wring_remote *remote;
        uint8_t key[WRING_REGION_KEY_MAX];
        struct wring_memory part = a.memory;
        part.base = a.base + i * BYTES;
        part.bytes = BYTES;
        part.fd_offset += (uint64_t)(a.base + i * BYTES - (uint8_t *)a.memory.base);
        REQUIRE(ops->region_create(a.provider, &part, &region) == WRING_OK, "region %u", i);
        size_t n = ops->region_export(region, key);
        REQUIRE(ops->remote_import(b.conn, key, n, &remote) == WRING_OK, "import %u", i);
        fill_pattern(b.base, BYTES, i);
        CHECK(ops->put(b.conn, b.region, b.base, remote, 0, BYTES, i, i) == WRING_OK, "put");
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        ops->remote_release(remote);
        ops->region_destroy(region);
    }
    for (unsigned i = 0; i < TURNS; i++)
        CHECK(has_pattern(a.base + i * BYTES, BYTES, i), "part %u", i);
    ends_close(&a, &b);
}

/** Memory of the process's own is taken, or said to be unsupported, as capabilities say. */
static void host_memory_is_as_promised(void)
{
    struct end a;
    struct wring_provider_caps caps;
    struct wring_region *region = NULL;
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->capabilities(a.provider, &caps);
    struct wring_memory memory = {
        .base = wring_test_guarded(10000), .bytes = 10000, .kind = WRING_MEMORY_HOST, .fd = -1};
    enum wring_status status = ops->region_create(a.provider, &memory, &region);
    CHECK(status == (caps.host_regions ? WRING_OK : WRING_ERR_UNSUPPORTED), "%s",
          wring_status_text(status));
    ops->region_destroy(region);
    end_close(&a);
}

/** Memory of a device is refused by those that cannot reach it, whatever stands in its fields. */
static void device_memory_is_as_promised(void)
{
    struct end a;
    struct wring_provider_caps caps;
    struct wring_region *region = NULL;
    REQUIRE(end_open(&a, 1, 4096, 16), "open");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->capabilities(a.provider, &caps);
    struct wring_memory memory = {
        .base = a.base, .bytes = 4096, .kind = WRING_MEMORY_DEVICE, .fd = -1};
    enum wring_status status = ops->region_create(a.provider, &memory, &region);
    CHECK(caps.dmabuf_regions ? status != WRING_OK : status == WRING_ERR_UNSUPPORTED,
          "a descriptor that is none: %s", wring_status_text(status));
    end_close(&a);
}

/** A put from b to a, the next one. */
static void put_next(struct end *a, struct end *b, struct wring_region *region, const void *local,
                     struct wring_remote *remote, size_t bytes)
{
    unsigned n = a->arrived;
    enum wring_status status =
        b->provider->ops->put(b->conn, region, local, remote, 0, bytes, n, n);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    UNTIL(a, b, a->arrived == n + 1 && b->done == n + 1);
}

/** Bytes into a device's memory and, from another region of the same memory, back. */
static void carry(struct end *a, struct end *b, const struct wring_memory *device, uint8_t *bytes,
                  size_t n)
{
    const struct wring_provider_ops *ops = a->provider->ops;
    struct wring_region *target, *source;
    struct wring_remote *remote;
    uint8_t key[WRING_REGION_KEY_MAX];
    REQUIRE(ops->region_create(a->provider, device, &target) == WRING_OK, "target");
    REQUIRE(ops->region_create(b->provider, device, &source) == WRING_OK, "source");
    size_t key_bytes = ops->region_export(target, key);
    REQUIRE(ops->remote_import(b->conn, key, key_bytes, &remote) == WRING_OK, "import");
    fill_pattern(b->base, n, 1);
    put_next(a, b, b->region, b->base, remote, n);
    CHECK(has_pattern(bytes, n, 1), "%zu bytes did not land in it", n);
    CHECK(is_all(bytes + n, device->bytes - n, 0), "more than %zu bytes did", n);
    fill_pattern(bytes, n, 2);
    put_next(a, b, source, device->base, b->remote, n);
    CHECK(has_pattern(a->base, n, 2), "%zu bytes did not leave it", n);
    ops->remote_release(remote);
    ops->region_destroy(target);
    ops->region_destroy(source);
}

/** Through addresses that are none of this process: a file plays the device. What is small must not
 * be read by the processor on its way either. */
static void device_memory_carries_bytes(void)
{
    enum {
        BYTES = 5000,
        AT = 4096 + 256 /* in the file, and so in a page of the device's */
    };
    static const size_t sizes[] = {8, 200, BYTES};
    struct end a, b;
    struct wring_provider_caps caps;
    struct wring_memory file = {.fd = -1};
    REQUIRE(ends_open(&a, &b, BYTES, 16), "no pair");
    a.provider->ops->capabilities(a.provider, &caps);
    for (size_t i = 0; caps.dmabuf_regions && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        REQUIRE(wring_memory_alloc(AT + BYTES, &file) == WRING_OK, "memory");
        const struct wring_memory device = {.base = (void *)(uintptr_t)(0x7000000000 + AT),
                                            .bytes = BYTES,
                                            .kind = WRING_MEMORY_DEVICE,
                                            .fd = file.fd,
                                            .fd_offset = AT};
        carry(&a, &b, &device, (uint8_t *)file.base + AT, sizes[i]);
        CHECK(is_all(file.base, AT, 0), "written before it");
        wring_memory_free(&file);
    }
    ends_close(&a, &b);
}

/** Sources that are registered again and again, and one after its memory was announced as gone. */
static void sources_come_and_go(void)
{
    enum {
        BYTES = 20000,
        TURNS = 5
    };
    struct end a, b;
    REQUIRE(ends_open(&a, &b, BYTES, 16), "no pair");
    const struct wring_provider_ops *ops = b.provider->ops;
    uint8_t *source = b.base;
    struct wring_memory memory = b.memory;
    memory.source_only = true;
    for (unsigned i = 0; i < TURNS; i++) {
        struct wring_region *both[2];
        REQUIRE(ops->region_create(b.provider, &memory, &both[0]) == WRING_OK, "region %u", i);
        REQUIRE(ops->region_create(b.provider, &memory, &both[1]) == WRING_OK, "region %u", i);
        ops->region_destroy(both[i % 2]);
        fill_pattern(source, BYTES, i);
        CHECK(ops->put(b.conn, both[(i + 1) % 2], source, b.remote, 0, BYTES, i, i) == WRING_OK,
              "put");
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        CHECK(has_pattern(a.base, BYTES, i), "turn %u", i);
        ops->region_destroy(both[(i + 1) % 2]);
        if (i % 2 == 1)
            ops->memory_gone(b.provider, memory.base, memory.bytes);
    }
    ops->memory_gone(b.provider, memory.base, memory.bytes);
    ends_close(&a, &b);
}

/** Host memory as the target of puts: nothing lands behind its end, where a page is missing. */
static void host_memory_can_be_put_into(void)
{
    struct end a, b;
    struct wring_provider_caps caps;
    struct wring_region *region;
    struct wring_remote *remote;
    uint8_t key[WRING_REGION_KEY_MAX], *host = wring_test_guarded(10000);
    REQUIRE(ends_open(&a, &b, 10000, 16), "no pair");
    const struct wring_provider_ops *ops = a.provider->ops;
    ops->capabilities(a.provider, &caps);
    struct wring_memory memory = {
        .base = host, .bytes = 10000, .kind = WRING_MEMORY_HOST, .fd = -1};
    if (caps.host_regions) {
        REQUIRE(ops->region_create(a.provider, &memory, &region) == WRING_OK, "region");
        size_t n = ops->region_export(region, key);
        REQUIRE(ops->remote_import(b.conn, key, n, &remote) == WRING_OK, "import");
        fill_pattern(b.base, 10000, 3);
        CHECK(ops->put(b.conn, b.region, b.base, remote, 0, 10000, 0, 0) == WRING_OK, "put");
        UNTIL(&a, &b, a.arrived == 1 && b.done == 1);
        CHECK(has_pattern(host, 10000, 3), "other bytes");
        ops->remote_release(remote);
        ops->region_destroy(region);
    }
    ends_close(&a, &b);
}

/** A source that nobody registered: taken or refused, as capabilities say. */
static void local_any_is_as_promised(void)
{
    struct end a, b;
    struct wring_provider_caps caps;
    uint8_t *source = wring_test_guarded(5000);
    REQUIRE(ends_open(&a, &b, 5000, 16), "no pair");
    const struct wring_provider_ops *ops = b.provider->ops;
    ops->capabilities(b.provider, &caps);
    fill_pattern(source, 5000, 4);
    enum wring_status status = ops->put(b.conn, NULL, source, b.remote, 0, 5000, 0, 0);
    CHECK(status == (caps.local_any ? WRING_OK : WRING_ERR_INVALID), "%s",
          wring_status_text(status));
    if (status == WRING_OK) {
        UNTIL(&a, &b, a.arrived == 1 && b.done == 1);
        CHECK(has_pattern(a.base, 5000, 4), "other bytes");
    }
    ends_close(&a, &b);
}

/** A put of nothing is a word to the peer: it reads no memory, so none has to be named. */
static void puts_of_nothing_need_no_region(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 5000, 16), "no pair");
    put_next(&a, &b, NULL, NULL, b.remote, 0);
    put_next(&a, &b, b.region, b.base, b.remote, 0);
    CHECK(a.arrived == 2 && a.arrived_bytes == 0 && is_all(a.base, 5000, 0), "bytes came");
    ends_close(&a, &b);
}

static void maps_are_as_promised(void)
{
    struct end a, b;
    struct wring_provider_caps caps;
    void *map = NULL;
    REQUIRE(ends_open(&a, &b, 5000, 16), "no pair");
    const struct wring_provider_ops *ops = b.provider->ops;
    ops->capabilities(b.provider, &caps);
    enum wring_status status = ops->remote_map(b.remote, &map);
    CHECK(status == (caps.remote_map ? WRING_OK : WRING_ERR_UNSUPPORTED), "%s",
          wring_status_text(status));
    if (status == WRING_OK) {
        fill_pattern(a.base, 5000, 5);
        CHECK(has_pattern(map, 5000, 5), "another memory");
        fill_pattern(map, 5000, 6);
        put_next(&a, &b, NULL, map, b.remote, 5000); /* it lies there already */
        put_next(&a, &b, NULL, map, b.remote, 8);
        CHECK(a.arrived_bytes == 5008 && has_pattern(a.base, 5000, 6), "put where it lay");
    }
    ends_close(&a, &b);
}

/** The pointer stays good until it is released, whatever becomes of the connection. */
static void remotes_outlive_their_connection(void)
{
    struct end a, b;
    struct wring_provider_caps caps;
    void *map = NULL;
    REQUIRE(ends_open(&a, &b, 5000, 16), "no pair");
    const struct wring_provider_ops *ops = b.provider->ops;
    ops->capabilities(b.provider, &caps);
    if (caps.remote_map)
        CHECK(ops->remote_map(b.remote, &map) == WRING_OK, "map");
    fill_pattern(a.base, 5000, 6);
    ops->disconnect(b.conn);
    b.conn = NULL;
    end_turn(&b);
    CHECK(map == NULL || has_pattern(map, 5000, 6), "gone");
    ops->remote_release(b.remote);
    b.remote = NULL;
    ends_close(&a, &b);
}

const struct wring_test_case suite_cases_region[] = {
    {"stale_keys_are_refused", stale_keys_are_refused},
    {"revoked_regions_take_nothing", revoked_regions_take_nothing},
    {"garbage_keys_are_refused", garbage_keys_are_refused},
    {"regions_come_and_go", regions_come_and_go},
    {"host_memory_is_as_promised", host_memory_is_as_promised},
    {"device_memory_is_as_promised", device_memory_is_as_promised},
    {"device_memory_carries_bytes", device_memory_carries_bytes},
    {"sources_come_and_go", sources_come_and_go},
    {"host_memory_can_be_put_into", host_memory_can_be_put_into},
    {"local_any_is_as_promised", local_any_is_as_promised},
    {"puts_of_nothing_need_no_region", puts_of_nothing_need_no_region},
    {"maps_are_as_promised", maps_are_as_promised},
    {"remotes_outlive_their_connection", remotes_outlive_their_connection},
    {NULL, NULL},
};
