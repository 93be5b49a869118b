/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Several devices, and messages in device memory, over adapters of tests/provider/mock and a CUDA
 * driver that is not there. A core that touches device memory ends its rank; adapters show late
 * what they write there, so that a flush that does nothing is found.
 *
 *     test_nccl_devices PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [CASE...]
 *
 * WRING_PROVIDER=verbs and two adapters: MOCKVERBS=late=1,net=FILE.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "tests/lib/device_memory.h"
#include "tests/nccl/flow.h"
#include "tests/provider/mock/mock.h"

#define BYTES ((size_t)4 << 20)
#define CUDA (PLUGIN_HOST | PLUGIN_CUDA | PLUGIN_DMABUF)
#define PEERMEM (PLUGIN_HOST | PLUGIN_CUDA)

static const size_t sizes[] = {1, 100, 4096, 8192, 8193, 1 << 20, (3 << 20) + 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/** A process of a job that uses GPUs has this library. @param exported  it has dma-bufs */
static void load_driver(bool exported)
{
    void *driver = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    void (*set)(int exported) = NULL;

    MUST(driver != NULL, "%s", dlerror());
    *(void **)(uintptr_t)&set = dlsym(driver, "fake_dmabufs");
    MUST(set != NULL, "fake_dmabufs");
    set(exported);
}

static void add_to_mock(const char *more)
{
    static char setting[512];
    const char *given = wring_config_foreign("MOCKVERBS");
    snprintf(setting, sizeof(setting), "MOCKVERBS=%s,%s", given != NULL ? given : "", more);
    putenv(setting);
}

static struct plugin_properties properties_of(struct rig *rig, int device)
{
    struct plugin_properties properties;
    MUST(plugin_get_properties(rig->plugin, device, &properties) == PLUGIN_OK, "device %d", device);
    return properties;
}

/** The kernel translates addresses of CUDA memory, and no driver takes dma-bufs. @param known  by
 *  adapters, too */
static void load_peermem(bool known)
{
    putenv((char *)(uintptr_t) "WRING_VERBS_PEERMEM=on");
    add_to_mock(known ? "dmabuf=0,peermem=1" : "dmabuf=0");
}

/** Adapters find the memory at that address. */
static void show_to_adapters(const struct device_memory *memory)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW); /* the plugin has it, too */
    bool (*show)(const void *base, size_t bytes, int fd) = NULL;

    MUST(verbs != NULL, "%s", dlerror());
    *(void **)(uintptr_t)&show = dlsym(verbs, "mock_peer_memory");
    MUST(show != NULL && show(memory->base, memory->bytes, memory->fd), "mock_peer_memory");
}

/* ---- which devices there are ---- */

struct surroundings {
    const char *setting; /* NAME=VALUE; NULL: none */
    const char *mock;    /* likewise */
    int driver;          /* 0: none, 1: one without dma-bufs, 2: one with */
    int n;
    const char *names[2];
    int pointers[2];
};

static void look_around(const struct world_rank *me, void *arg)
{
    const struct surroundings *around = arg;
    struct rig rig;
    int n = 0;

    if (around->setting != NULL)
        putenv((char *)(uintptr_t)around->setting);
    if (around->mock != NULL)
        add_to_mock(around->mock);
    if (around->driver > 0)
        load_driver(around->driver == 2);
    rig_begin(&rig, me);
    plugin_devices(rig.plugin, &n);
    MUST(n == around->n, "%d devices, not %d", n, around->n);
    for (int i = 0; i < n; i++) {
        struct plugin_properties properties = properties_of(&rig, i);
        CHECK(strcmp(properties.name, around->names[i]) == 0, "device %d is %s", i,
              properties.name);
        CHECK(properties.pointers == around->pointers[i], "device %d: ptrSupport %d", i,
              properties.pointers);
        CHECK(properties.global_regions == (properties.pointers == PLUGIN_HOST), "regIsGlobal %d",
              properties.global_regions);
        CHECK(properties.speed == 100000 || n == 1, "%d Mbit/s", properties.speed);
        CHECK(i == 0 || properties.guid != properties_of(&rig, 0).guid, "both have one GUID");
        CHECK(world_logged(PLUGIN_LOG_INFO, properties.name) > 0, "no line names %s",
              properties.name);
    }
    rig_end(&rig);
}

static void each_port_is_a_device(void)
{
    static const struct surroundings all[] = {
        {NULL, NULL, 0, 2, {"mock0:1", "mock1:1"}, {PLUGIN_HOST, PLUGIN_HOST}},
        {NULL, NULL, 1, 2, {"mock0:1", "mock1:1"}, {PLUGIN_HOST, PLUGIN_HOST}},
        {NULL, NULL, 2, 2, {"mock0:1", "mock1:1"}, {CUDA, CUDA}},
        {NULL, "dmabuf@0=0", 2, 2, {"mock0:1", "mock1:1"}, {PLUGIN_HOST, CUDA}},
        {"NCCL_IB_HCA==mock1,mock0",
         NULL,
         0,
         2,
         {"mock1:1", "mock0:1"},
         {PLUGIN_HOST, PLUGIN_HOST}},
        {"WRING_VERBS_DEVICES=^mock0", NULL, 2, 1, {"mock1:1"}, {CUDA}},
        {"WRING_VERBS_PEERMEM=on", "dmabuf=0", 2, 2, {"mock0:1", "mock1:1"}, {PEERMEM, PEERMEM}},
        {"WRING_VERBS_PEERMEM=on", "dmabuf@0=0", 2, 2, {"mock0:1", "mock1:1"}, {PEERMEM, CUDA}},
        {"WRING_VERBS_PEERMEM=off",
         "dmabuf=0",
         2,
         2,
         {"mock0:1", "mock1:1"},
         {PLUGIN_HOST, PLUGIN_HOST}},
        {"WRING_NCCL_DEVICES=one", NULL, 2, 1, {"wring"}, {PLUGIN_HOST}},
        {"WRING_PROVIDER=tcp", NULL, 2, 1, {"wring"}, {PLUGIN_HOST}},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        world_run(&(struct world_job){.size = 1, .run = look_around, .arg = (void *)&all[i]});
}

/** Every device of one process with every one of the other, and no other one is used. */
static void use_each(const struct world_rank *me, void *arg)
{
    int devices = *(const int *)arg;
    struct rig_link links[2] = {{.from = 0, .to = 1}, {.from = 1, .to = 0}};
    struct flow_plan plan = {
        .seed = 6, .tags = 1, .count = 20, .depth = PLUGIN_STEPS, .largest = 50000};
    struct flow *flows[2];
    struct rig rig;

    putenv((char *)(uintptr_t) "WRING_LOG=info"); /* sessions name their rails */
    rig_begin(&rig, me);
    rig.device = me->rank == 0 ? devices % 2 : devices / 2;
    world_forget_log();
    rig_connect(&rig, links, 2);
    for (int i = 0; i < 2; i++)
        flows[i] = flow_start(&rig, &plan, links[i].send != NULL ? links[i].send : links[i].receive,
                              links[i].send != NULL);
    flow_run(flows, 2);
    CHECK(world_logged(PLUGIN_LOG_INFO, rig.device == 0 ? "rail mock0:1" : "rail mock1:1") > 0,
          "device %d is not used", rig.device);
    CHECK(world_logged(PLUGIN_LOG_INFO, rig.device == 0 ? "rail mock1:1" : "rail mock0:1") == 0,
          "another one than device %d is used", rig.device);
    rig_disconnect(&rig, links, 2);
    rig_end(&rig);
}

static void connections_use_their_devices(void)
{
    for (int devices = 0; devices < 4; devices++)
        world_run(&(struct world_job){.size = 2, .run = use_each, .arg = &devices});
}

/* ---- several ports as one ---- */

static int fuse(struct rig *rig, int n, const int *parts)
{
    int device = -1;
    int result = plugin_fuse(rig->plugin, n, parts, &device);
    MUST(result == PLUGIN_OK || device == -1, "an error, and a device");
    return result == PLUGIN_OK ? device : -1;
}

static void check_fused(struct rig *rig, int device)
{
    struct plugin_properties properties = properties_of(rig, device);
    CHECK(strcmp(properties.name, "mock0:1+mock1:1") == 0, "it is %s", properties.name);
    CHECK(properties.speed == 200000, "%d Mbit/s", properties.speed);
    CHECK(properties.pointers == CUDA, "ptrSupport %d", properties.pointers);
    CHECK(properties.virtual_devices == 2 && properties.virtual_device[0] == 0 &&
              properties.virtual_device[1] == 1,
          "made of %d", properties.virtual_devices);
    CHECK(properties.guid != properties_of(rig, 0).guid &&
              properties.guid != properties_of(rig, 1).guid,
          "it has a part's GUID");
}

static void fuse_well_and_badly(const struct world_rank *me, void *arg)
{
    const int version = *(const int *)arg, both[] = {0, 1}, one[] = {1};
    const struct {
        int n, parts[2];
        const char *why;
    } wrong[] = {{2, {0, 0}, "a part is there twice"},
                 {2, {0, 2}, "made of several itself"},
                 {2, {-1, 0}, "a part is no device"},
                 {0, {0}, "between 1 and 8"}};
    struct rig rig;
    int n = 0;

    load_driver(true);
    rig_begin_version(&rig, me, version, 1);
    MUST(plugin_can_fuse(rig.plugin), "makeVDevice");
    MUST(fuse(&rig, 2, both) == 2, "not the number that follows");
    check_fused(&rig, 2);
    CHECK(plugin_devices(rig.plugin, &n) == PLUGIN_OK && n == 3, "%d devices", n);
    CHECK(fuse(&rig, 2, both) == 2, "the same parts are another device");
    CHECK(fuse(&rig, 1, one) == 1, "one part is not itself");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        world_forget_log();
        CHECK(fuse(&rig, wrong[i].n, wrong[i].parts) == -1, "%s: taken", wrong[i].why);
        CHECK(world_logged(PLUGIN_LOG_WARN, wrong[i].why) == 1, "no line says: %s", wrong[i].why);
    }
    CHECK(plugin_devices(rig.plugin, &n) == PLUGIN_OK && n == 3, "%d devices", n);
    int result = plugin_finalize(rig.plugin, rig.ctx); /* NCCL keeps its numbers */
    MUST(result == PLUGIN_OK && plugin_init(rig.plugin, 2, &rig.ctx) == PLUGIN_OK, "init again");
    CHECK(plugin_devices(rig.plugin, &n) == PLUGIN_OK && n == 3, "then %d devices", n);
    check_fused(&rig, 2);
    rig_end(&rig);
}

static void ports_are_made_one_device(void)
{
    for (int version = 11; version <= 12; version++)
        world_run(&(struct world_job){.size = 1, .run = fuse_well_and_badly, .arg = &version});
}

static void fuse_the_network(const struct world_rank *me, void *arg)
{
    const int alone[] = {0};
    struct rig rig;

    (void)arg;
    putenv((char *)(uintptr_t) "WRING_NCCL_DEVICES=one");
    rig_begin(&rig, me);
    CHECK(fuse(&rig, 1, alone) == -1, "taken");
    CHECK(world_logged(PLUGIN_LOG_WARN, "only ports of RDMA devices can be parts") == 1,
          "no line says why");
    rig_end(&rig);
}

static void the_network_is_no_part(void)
{
    world_run(&(struct world_job){.size = 1, .run = fuse_the_network});
}

static void set_port(const char *device, enum ibv_port_state state)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);
    void (*set)(const char *device, unsigned port, enum ibv_port_state state) = NULL;

    MUST(verbs != NULL, "%s", dlerror());
    *(void **)(uintptr_t)&set = dlsym(verbs, "mock_port_state");
    MUST(set != NULL, "mock_port_state");
    set(device, 1, state);
    dlclose(verbs);
}

/** Both ports are used; one of them goes down, and messages go on over the other. */
static void use_fused(const struct world_rank *me, void *arg)
{
    const int both[] = {0, 1};
    struct rig_link link = {.from = 0, .to = 1};
    struct flow_plan plan = {
        .seed = 8, .tags = 1, .count = 30, .depth = PLUGIN_STEPS, .largest = 500000};
    struct rig rig;

    (void)arg;
    putenv((char *)(uintptr_t) "WRING_LOG=info");
    rig_begin(&rig, me);
    rig.device = fuse(&rig, 2, both);
    world_forget_log();
    rig_connect(&rig, &link, 1);
    CHECK(world_logged(PLUGIN_LOG_INFO, "rail mock0:1") > 0 &&
              world_logged(PLUGIN_LOG_INFO, "rail mock1:1") > 0,
          "a port is not used");
    for (int i = 0; i < 2; i++) {
        struct flow *flow = flow_start(&rig, &plan, link.send != NULL ? link.send : link.receive,
                                       link.send != NULL);
        flow_run(&flow, 1);
        world_meet();
        if (me->rank == 0)
            set_port("mock0", i == 0 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE);
        world_meet();
    }
    CHECK(world_logged(PLUGIN_LOG_INFO, "goes on over 1 of 2 queue pairs") > 0,
          "no path was lost with the port");
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

static void a_fused_device_outlives_a_port(void)
{
    world_run(&(struct world_job){.size = 2, .run = use_fused});
}

/** @return what the plugin says to the last call */
static int try_to_connect(struct rig *rig, struct rig_link *link, struct rig_meeting *meeting)
{
    for (;;) {
        int result =
            plugin_connect(rig->plugin, rig->ctx, rig->device, meeting->handles[0], &link->send);
        if (result != PLUGIN_OK || link->send != NULL)
            return result;
        world_turn("a connection, or an error");
    }
}

static void have_one_or_two(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    static struct rig_meeting meeting;
    struct rig rig;

    (void)arg;
    if (me->rank == 1)
        putenv((char *)(uintptr_t) "WRING_VERBS_DEVICES==mock1");
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    if (me->rank == 0) {
        CHECK(try_to_connect(&rig, &link, &meeting) == PLUGIN_INVALID_USAGE, "connected");
        CHECK(world_logged(PLUGIN_LOG_WARN, "2 devices here (mock0:1, mock1:1), and 1 at ") == 1,
              "no line says which differs");
        CHECK(world_logged(PLUGIN_LOG_WARN, "WRING_VERBS_DEVICES or NCCL_IB_HCA") == 1,
              "no line says what to do");
    }
    world_meet();
    if (me->rank == 1)
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    rig_end(&rig);
}

static void counts_that_differ_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = have_one_or_two});
}

/** CollNet has the handles of all ranks, so that the line names the one that differs. */
static void have_one_or_two_of_collnet(const struct world_rank *me, void *arg)
{
    void *handles[2] = {world_board(0), world_board(1)}, *listener = NULL, *comm = NULL, *ctx;
    struct rig rig;

    (void)arg;
    if (me->rank == 1)
        putenv((char *)(uintptr_t) "WRING_VERBS_DEVICES==mock1");
    rig_begin(&rig, me);
    MUST(plugin_coll_init(rig.plugin, 1, &ctx) == PLUGIN_OK, "CollNet's init");
    MUST(plugin_coll_listen(rig.plugin, ctx, rig.device, world_board(me->rank), &listener) ==
             PLUGIN_OK,
         "CollNet's listen");
    world_meet();
    int result = plugin_coll_connect(rig.plugin, handles, 2, (int)me->rank, listener, &comm);
    CHECK(result == PLUGIN_INVALID_USAGE && comm == NULL, "connect: %d", result);
    const char *which = me->rank == 0 ? "(rank 1)" : "(rank 0)";
    CHECK(world_logged(PLUGIN_LOG_WARN, which) == 1, "no line names %s", which);
    world_meet();
    plugin_coll_close_listen(rig.plugin, listener);
    plugin_coll_finalize(rig.plugin, ctx);
    rig_end(&rig);
}

static void collnet_names_the_rank_that_differs(void)
{
    world_run(&(struct world_job){.size = 2, .run = have_one_or_two_of_collnet});
}

/* ---- device memory ---- */

/** A rank's end of one connection, with memory of both kinds. */
struct side {
    struct rig rig;
    struct rig_link link;
    void *comm;
    struct device_memory device;
    unsigned char *host;
    size_t room; /* of its receives */
    void *device_region, *host_region;
};

static int register_device(struct side *side, bool by_address)
{
    if (!by_address)
        return plugin_register_dmabuf(side->rig.plugin, side->comm, side->device.base, BYTES, 0,
                                      side->device.fd, &side->device_region);
    show_to_adapters(&side->device);
    return plugin_register_kind(side->rig.plugin, side->comm, side->device.base, BYTES, PLUGIN_CUDA,
                                &side->device_region);
}

static void side_begin(struct side *side, const struct world_rank *me, bool by_address)
{
    *side = (struct side){.link = {.from = 0, .to = 1}, .room = BYTES};
    load_driver(true);
    if (by_address)
        load_peermem(true);
    rig_begin(&side->rig, me);
    rig_connect(&side->rig, &side->link, 1);
    side->comm = me->rank == 0 ? side->link.send : side->link.receive;
    device_memory_create(&side->device, BYTES);
    side->host = calloc(1, BYTES);
    MUST(side->host != NULL, "no memory");
    side->host_region = rig_register(&side->rig, side->comm, side->host, BYTES);
    int result = register_device(side, by_address);
    MUST(result == PLUGIN_OK, "regMr: %d", result);
}

static void side_end(struct side *side)
{
    if (side->device_region != NULL)
        rig_deregister(&side->rig, side->comm, side->device_region);
    rig_deregister(&side->rig, side->comm, side->host_region);
    rig_disconnect(&side->rig, &side->link, 1);
    rig_end(&side->rig);
    device_memory_destroy(&side->device);
    free(side->host);
}

static void flush(struct side *side, void *data, int bytes)
{
    void *request = NULL;
    int result = plugin_iflush(side->rig.plugin, side->comm, 1, &data, &bytes, &side->device_region,
                               &request);
    MUST(result == PLUGIN_OK, "iflush: %d", result);
    MUST(bytes == 0 || request != NULL, "iflush says that nothing need be done");
    if (request != NULL)
        rig_wait(&side->rig, request, NULL, "a flush");
}

static void send_one(struct side *side, bool device, size_t bytes, uint64_t seed)
{
    rig_fill(device ? side->device.seen : side->host, bytes, seed);
    rig_wait(&side->rig,
             rig_send(&side->rig, side->comm, device ? side->device.base : side->host, bytes, 5,
                      device ? side->device_region : side->host_region),
             NULL, "a send");
}

static void receive_one(struct side *side, bool device, size_t bytes, uint64_t seed)
{
    unsigned char *base = device ? side->device.base : side->host;
    unsigned char *seen = device ? side->device.seen : side->host;
    int came = -1;

    memset(seen, 0xA5, BYTES);
    rig_wait(&side->rig,
             rig_receive(&side->rig, side->comm, base, side->room, 5,
                         device ? side->device_region : side->host_region),
             &came, "a receive");
    CHECK(came == (int)bytes, "%d bytes, not %zu", came, bytes);
    if (device) {
        CHECK(bytes == 0 || rig_differs(seen, bytes, seed) < bytes,
              "%zu bytes are seen without a flush", bytes);
        flush(side, base, came);
    }
    CHECK(rig_differs(seen, bytes, seed) == bytes, "%zu bytes differ at %zu", bytes,
          rig_differs(seen, bytes, seed));
    CHECK(seen[bytes] == 0xA5, "a byte behind %zu changed", bytes);
}

/** The sender begins before the receiver has posted, and behind it. */
static void transfer_all(const struct world_rank *me, void *arg)
{
    struct side side;
    uint64_t seed = 0;

    side_begin(&side, me, *(const bool *)arg);
    for (int kinds = 0; kinds < 4; kinds++)
        for (size_t i = 0; i <= SIZES; i++, seed++) {
            size_t bytes = i < SIZES ? sizes[i] : 0;
            if (me->rank == 0)
                send_one(&side, (kinds & 1) != 0, bytes, seed);
            else
                receive_one(&side, (kinds & 2) != 0, bytes, seed);
        }
    side_end(&side);
}

static void device_memory_travels(void)
{
    bool by_address = false;
    world_run(&(struct world_job){.size = 2, .run = transfer_all, .arg = &by_address});
}

static void device_memory_travels_by_its_address(void)
{
    bool by_address = true;
    world_run(&(struct world_job){.size = 2, .run = transfer_all, .arg = &by_address});
}

/** Of regions that nest each is found while it is there. */
static void nest(const struct world_rank *me, void *arg)
{
    struct side side;
    void *whole, *inner = NULL;

    (void)arg;
    side_begin(&side, me, false);
    whole = side.device_region;
    MUST(plugin_register_dmabuf(side.rig.plugin, side.comm, side.device.base, 1 << 20, 0,
                                side.device.fd, &inner) == PLUGIN_OK,
         "regMrDmaBuf");
    for (uint64_t seed = 0; seed < 3; seed++) {
        if (me->rank == 0)
            send_one(&side, true, 100000, seed);
        else
            receive_one(&side, true, 100000, seed);
        world_meet();
        if (seed == 0) {
            rig_deregister(&side.rig, side.comm, whole);
            side.device_region = inner;
            side.room = 1 << 20;
        }
    }
    if (me->rank == 1) { /* which no core could fill */
        void *data = side.device.base, *request;
        size_t bytes = BYTES;
        int tag = 5;
        CHECK(plugin_irecv(side.rig.plugin, side.comm, 1, &data, &bytes, &tag, &inner, &request) ==
                  PLUGIN_INVALID_ARGUMENT,
              "a receive that is larger than its region");
        CHECK(world_logged(PLUGIN_LOG_WARN, "are not in the memory that was registered") == 1,
              "no line says why");
    }
    side_end(&side);
}

static void device_regions_nest(void)
{
    world_run(&(struct world_job){.size = 2, .run = nest});
}

/** As after an abort: registrations go, then comms, whatever is under way. */
static void leave_early(const struct world_rank *me, void *arg)
{
    struct side side;
    void *data, *request = NULL;
    int bytes = 1000;

    (void)arg;
    side_begin(&side, me, false);
    data = side.device.base;
    if (me->rank == 1) {
        rig_receive(&side.rig, side.comm, side.device.base, BYTES, 7, side.device_region);
        CHECK(plugin_iflush(side.rig.plugin, side.comm, 1, &data, &bytes, &side.device_region,
                            &request) == PLUGIN_OK &&
                  request != NULL,
              "iflush");
    }
    rig_deregister(&side.rig, side.comm, side.device_region);
    side.device_region = NULL;
    world_meet();
    side_end(&side);
}

static void regions_go_with_requests_in_flight(void)
{
    world_run(&(struct world_job){.size = 2, .run = leave_early});
}

/** What a device does not take is refused, and the line says why. */
static void misuse(const struct world_rank *me, void *arg)
{
    bool driver = *(const bool *)arg;
    struct rig_link link = {.from = 0, .to = 1};
    struct device_memory memory;
    struct rig rig;
    void *region;

    if (driver)
        load_driver(true);
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    device_memory_create(&memory, BYTES);
    void *comm = me->rank == 0 ? link.send : link.receive;
    CHECK(plugin_register_kind(rig.plugin, comm, memory.base, BYTES, PLUGIN_CUDA, &region) !=
              PLUGIN_OK,
          "without a dma-buf");
    CHECK(world_logged(PLUGIN_LOG_WARN, "device memory without a dma-buf cannot be registered") ==
              1,
          "no line says why");
    int result = plugin_register_dmabuf(rig.plugin, comm, memory.base, BYTES, 0,
                                        driver ? -1 : memory.fd, &region);
    CHECK(result != PLUGIN_OK, "a dma-buf");
    CHECK(world_logged(PLUGIN_LOG_WARN, "no CUDA driver that exports dma-bufs is loaded") ==
              (driver ? 0 : 2),
          "no line says why");
    CHECK(!driver || world_logged(PLUGIN_LOG_WARN, "a dma-buf of 4194304 bytes") == 1,
          "no line says why");
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
    device_memory_destroy(&memory);
}

static void what_is_not_supported_is_told(void)
{
    for (int driver = 0; driver < 2; driver++) {
        bool loaded = driver != 0;
        world_run(&(struct world_job){.size = 2, .run = misuse, .arg = &loaded});
    }
}

/** The setting says what the kernel does not do. */
static void register_unknown(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    struct device_memory memory;
    struct rig rig;
    void *region;

    (void)arg;
    load_driver(true);
    load_peermem(false);
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    device_memory_create(&memory, BYTES);
    show_to_adapters(&memory);
    CHECK(plugin_register_kind(rig.plugin, me->rank == 0 ? link.send : link.receive, memory.base,
                               BYTES, PLUGIN_CUDA, &region) != PLUGIN_OK,
          "an address that the kernel does not know");
    CHECK(world_logged(PLUGIN_LOG_WARN, "load nvidia_peermem") == 1, "no line says what to do");
    world_meet(); /* a rank that has gone would be what the other one's line names */
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
    device_memory_destroy(&memory);
}

static void unknown_addresses_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = register_unknown});
}

/* ---- several links of one device ---- */

/** Registrations of dma-bufs that adapters have had. */
static uint64_t count_dmabufs(void)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW); /* the plugin has it, too */
    void (*get)(struct mock_counts * out) = NULL;
    struct mock_counts counts;

    MUST(verbs != NULL, "%s", dlerror());
    *(void **)(uintptr_t)&get = dlsym(verbs, "mock_get_counts");
    MUST(get != NULL, "mock_get_counts");
    get(&counts);
    dlclose(verbs);
    return counts.dmabuf_registrations;
}

/** Rank 0 sends the same memory to each of the others; they have a region for it each. */
static void send_to_many(const struct world_rank *me, void *arg)
{
    struct rig_link links[2] = {{.from = 0, .to = 1}, {.from = 0, .to = 2}};
    struct device_memory memory;
    struct rig rig;
    void *regions[2] = {NULL, NULL};
    int came = -1;

    (void)arg;
    load_driver(true);
    rig_begin(&rig, me);
    rig_connect(&rig, links, 2);
    device_memory_create(&memory, BYTES);
    uint64_t before = count_dmabufs();
    for (int i = 0; i < 2; i++) {
        void *comm = me->rank == 0 ? links[i].send : links[i].receive;
        MUST(comm == NULL || plugin_register_dmabuf(rig.plugin, comm, memory.base, BYTES, 0,
                                                    memory.fd, &regions[i]) == PLUGIN_OK,
             "regMrDmaBuf");
    }
    CHECK(count_dmabufs() == before + 1, "%llu registrations of one buffer",
          (unsigned long long)(count_dmabufs() - before));
    for (int i = 0; i < 2; i++) { /* what one link lets go is still the other one's */
        rig_fill(memory.seen, me->rank == 0 ? BYTES : 0, 77);
        if (links[i].send != NULL) {
            rig_wait(&rig, rig_send(&rig, links[i].send, memory.base, BYTES, 5, regions[i]), NULL,
                     "a send");
            rig_deregister(&rig, links[i].send, regions[i]);
        } else if (links[i].receive != NULL) {
            rig_wait(&rig, rig_receive(&rig, links[i].receive, memory.base, BYTES, 5, regions[i]),
                     &came, "a receive");
            CHECK(came == (int)BYTES, "%d bytes", came);
            rig_deregister(&rig, links[i].receive, regions[i]);
        }
    }
    rig_disconnect(&rig, links, 2);
    rig_end(&rig);
    device_memory_destroy(&memory);
}

static void links_register_a_buffer_once(void)
{
    world_run(&(struct world_job){.size = 3, .run = send_to_many});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"each_port_is_a_device", each_port_is_a_device},
        {"connections_use_their_devices", connections_use_their_devices},
        {"ports_are_made_one_device", ports_are_made_one_device},
        {"the_network_is_no_part", the_network_is_no_part},
        {"a_fused_device_outlives_a_port", a_fused_device_outlives_a_port},
        {"counts_that_differ_are_told", counts_that_differ_are_told},
        {"collnet_names_the_rank_that_differs", collnet_names_the_rank_that_differs},
        {"device_memory_travels", device_memory_travels},
        {"device_memory_travels_by_its_address", device_memory_travels_by_its_address},
        {"unknown_addresses_are_told", unknown_addresses_are_told},
        {"links_register_a_buffer_once", links_register_a_buffer_once},
        {"device_regions_nest", device_regions_nest},
        {"regions_go_with_requests_in_flight", regions_go_with_requests_in_flight},
        {"what_is_not_supported_is_told", what_is_not_supported_is_told},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
