/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/flow.h"
#include "tests/nccl/net_cases.h"
#include "tests/nccl/strangers.h"

#define POLLS 200 /* of something that cannot be there yet */

/* ---- tables and properties ---- */

static void look_at_tables(const struct world_rank *me, void *arg)
{
    static const int versions[] = {12, 11, 8};
    struct plugin *newest = plugin_open(rig_choice.path, 0);

    (void)me, (void)arg;
    MUST(newest != NULL, "%s", rig_choice.path);
    CHECK(plugin_version(newest) == 12, "NCCL takes version %d", plugin_version(newest));
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct plugin *plugin = plugin_open(rig_choice.path, versions[i]);
        MUST(plugin != NULL, "version %d", versions[i]);
        const char *name = plugin_name(plugin);
        CHECK(*plugin_holes(plugin) == '\0', "version %d lacks%s", versions[i],
              plugin_holes(plugin));
        CHECK(plugin_has_coll(plugin), "version %d has no CollNet", versions[i]);
        CHECK(name != NULL && strcmp(name, plugin_name(newest)) == 0, "version %d is called %s",
              versions[i], name);
        plugin_close(plugin);
    }
    plugin_close(newest);
}

void tables_are_whole_in_every_version(void)
{
    world_run(&(struct world_job){.size = 1, .run = look_at_tables});
}

static void check_properties(const struct plugin_properties *p, int device)
{
    const int known = PLUGIN_HOST | PLUGIN_CUDA | PLUGIN_DMABUF;

    CHECK(p->name != NULL && *p->name != '\0', "device %d has no name", device);
    CHECK(p->pci_path == NULL || access(p->pci_path, F_OK) == 0, "device %d: there is no %s",
          device, p->pci_path);
    CHECK((p->pointers & PLUGIN_HOST) != 0 && (p->pointers & ~known) == 0,
          "device %d: ptrSupport %d", device, p->pointers);
    CHECK(p->global_regions == 0 || p->global_regions == 1, "regIsGlobal %d", p->global_regions);
    CHECK(p->force_flush == 0 || p->force_flush == 1, "forceFlush %d", p->force_flush);
    CHECK(p->speed > 0 && p->latency >= 0 && p->latency < 1e6f, "%d Mbit/s, %f us", p->speed,
          (double)p->latency);
    CHECK(p->port >= 0 && p->port < 256, "port %d", p->port);
    CHECK(p->max_comms > 0, "maxComms %d", p->max_comms);
    CHECK(p->max_receives > 0 && p->max_receives <= 8, "maxRecvs %d", p->max_receives);
    CHECK(p->device_type == 0, "netDeviceType %d", p->device_type);
    CHECK(p->max_p2p_bytes > 0 && p->max_p2p_bytes <= PLUGIN_MAX_BYTES, "maxP2pBytes %zu",
          p->max_p2p_bytes);
    CHECK(p->max_coll_bytes > 0 && p->max_coll_bytes <= PLUGIN_MAX_BYTES, "maxCollBytes %zu",
          p->max_coll_bytes);
    CHECK(p->virtual_devices == 1 && p->virtual_device[0] == device, "made up of %d devices",
          p->virtual_devices);
}

static void look_at_properties(const struct world_rank *me, void *arg)
{
    struct plugin_properties properties, again;
    struct rig rig;
    int n = 0;

    (void)arg;
    rig_begin(&rig, me);
    plugin_devices(rig.plugin, &n);
    for (int i = 0; i < n; i++) {
        MUST(plugin_get_properties(rig.plugin, i, &properties) == PLUGIN_OK, "device %d", i);
        check_properties(&properties, i);
        MUST(plugin_get_properties(rig.plugin, i, &again) == PLUGIN_OK, "device %d", i);
        CHECK(strcmp(properties.name, again.name) == 0 && properties.guid == again.guid,
              "device %d was %s and is %s", i, properties.name, again.name);
    }
    CHECK(plugin_get_properties(rig.plugin, n, &properties) != PLUGIN_OK, "of %d devices", n);
    CHECK(plugin_get_properties(rig.plugin, -1, &properties) != PLUGIN_OK, "of %d devices", n);
    CHECK(plugin_set_attributes(rig.plugin, rig.ctx) == PLUGIN_OK, "setNetAttr");
    rig_end(&rig);
}

void properties_make_sense(void)
{
    world_run(&(struct world_job){.size = 1, .run = look_at_properties});
}

static void look_at_banner(const struct world_rank *me, void *arg)
{
    struct plugin_properties properties;
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    MUST(plugin_get_properties(rig.plugin, 0, &properties) == PLUGIN_OK, "device 0");
    /* NCCL falls back without a word: the line is how a user sees that it did not */
    CHECK(world_logged(PLUGIN_LOG_INFO, plugin_name(rig.plugin)) > 0, "no line has the name");
    CHECK(world_logged(PLUGIN_LOG_INFO, properties.name) > 0, "no line has the device %s",
          properties.name);
    CHECK(world_logged(PLUGIN_LOG_INFO, "|") == 0, "a line holds several");
    rig_end(&rig);
}

void init_says_who_it_is(void)
{
    world_run(&(struct world_job){.size = 1, .run = look_at_banner});
}

static void begin_without_device(const struct world_rank *me, void *arg)
{
    static char setting[256];
    struct plugin *plugin = plugin_open(rig_choice.path, rig_choice.version);
    void *ctx;

    (void)me, (void)arg;
    MUST(plugin != NULL, "%s", rig_choice.path);
    strncpy(setting, rig_choice.no_device, sizeof(setting) - 1);
    putenv(setting);
    CHECK(plugin_init(plugin, 1, &ctx) != PLUGIN_OK, "init with %s succeeds", setting);
    CHECK(world_logged(PLUGIN_LOG_WARN, "") > 0, "no line says why init failed");
    setting[strcspn(setting, "=")] = '\0';
    CHECK(world_logged(PLUGIN_LOG_WARN, setting) > 0, "no line names %s", setting);
    plugin_close(plugin);
}

void no_device_fails_loudly(void)
{
    world_run(&(struct world_job){.size = 1, .run = begin_without_device});
}

/* ---- connections ---- */

/** Who listens and who connects take turns: a call that waits for the other one never returns. */
static void poll_apart(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    struct rig_meeting meeting;
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    for (int i = 0; i < POLLS && me->rank == 1; i++) {
        int result = plugin_accept(rig.plugin, meeting.listeners[0], &link.receive);
        CHECK(result == PLUGIN_OK && link.receive == NULL,
              "nobody connects, and accept says %d, %p", result, link.receive);
    }
    world_meet();
    for (int i = 0; i < POLLS && me->rank == 0 && link.send == NULL; i++) {
        int result =
            plugin_connect(rig.plugin, rig.ctx, rig.device, meeting.handles[0], &link.send);
        CHECK(result == PLUGIN_OK, "nobody accepts, and connect says %d", result);
        usleep(1000);
    }
    world_meet();
    rig_join(&rig, &link, 0, 1, &meeting);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

void connecting_never_blocks(void)
{
    world_run(&(struct world_job){.size = 2, .run = poll_apart});
}

static void send_before_accept(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    struct rig_meeting meeting;
    struct rig rig;
    unsigned char data[1000];
    void *request = NULL, *comm, *region;

    (void)arg;
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    rig_fill(data, sizeof(data), 5);
    for (int i = 0; i < POLLS && me->rank == 0 && link.send == NULL; i++) {
        plugin_connect(rig.plugin, rig.ctx, rig.device, meeting.handles[0], &link.send);
        usleep(1000);
    }
    if (link.send != NULL) { /* a plugin may also wait for the accept */
        region = rig_register(&rig, link.send, data, sizeof(data));
        plugin_isend(rig.plugin, link.send, data, sizeof(data), 3, region, &request);
    }
    world_meet();
    rig_join(&rig, &link, 0, 1, &meeting);
    comm = me->rank == 0 ? link.send : link.receive;
    if (request == NULL) {
        memset(data, me->rank == 1 ? 0 : data[0], me->rank == 1 ? sizeof(data) : 1);
        region = rig_register(&rig, comm, data, sizeof(data));
        request = me->rank == 0 ? rig_send(&rig, comm, data, sizeof(data), 3, region)
                                : rig_receive(&rig, comm, data, sizeof(data), 3, region);
    }
    rig_wait(&rig, request, NULL, "the message sent before accept");
    CHECK(rig_differs(data, sizeof(data), 5) == sizeof(data), "other bytes have come");
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

void sends_before_accept_arrive(void)
{
    world_run(&(struct world_job){.size = 2, .run = send_before_accept});
}

/** Connect by a handle that is none; the calls return. @return whether an error came of it */
static bool try_handle(struct rig *rig, unsigned char *handle, bool insist)
{
    void *comm = NULL;
    int result = PLUGIN_OK;

    for (int i = 0; (insist || i < POLLS) && result == PLUGIN_OK && comm == NULL; i++) {
        result = plugin_connect(rig->plugin, rig->ctx, rig->device, handle, &comm);
        if (result == PLUGIN_OK && comm == NULL && insist)
            world_turn("connect to refuse a handle");
    }
    if (comm != NULL)
        plugin_close_send(rig->plugin, comm);
    return result != PLUGIN_OK;
}

static void offer_handles(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link link = {.from = 1, .to = 0}, healthy = {.from = 1, .to = 0};
    unsigned char handle[PLUGIN_HANDLE];
    uint32_t random = rig_choice.seed | 1;
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    for (unsigned i = 0; i < 40 && me->rank == 1; i++) {
        bool whole = i < 8; /* no part of it is a listener's */
        memcpy(handle, meeting.handles[0], sizeof(handle));
        for (unsigned at = 0; at < sizeof(handle) && whole; at++)
            handle[at] = i == 0 ? 0 : (unsigned char)(wring_test_random(&random) >> 9);
        if (!whole)
            handle[wring_test_random(&random) % sizeof(handle)] ^= 1 << i % 8;
        world_forget_log();
        bool refused = try_handle(&rig, handle, whole);
        CHECK(refused || !whole, "handle %u is taken", i);
        CHECK(!whole || world_logged(PLUGIN_LOG_WARN, "") == 1, "%u lines say why",
              world_logged(PLUGIN_LOG_WARN, ""));
    }
    world_meet();
    if (me->rank == 0)
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    rig_connect(&rig, &healthy, 1); /* no harm is done */
    rig_disconnect(&rig, &healthy, 1);
    rig_end(&rig);
}

void malformed_handles_are_refused(void)
{
    world_run(&(struct world_job){.size = 2, .run = offer_handles});
}

/* ---- strangers ---- */

static void come_as_strangers(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link link = {.from = 1, .to = 0};
    struct doors *doors = (void *)((unsigned char *)world_board(0) + WORLD_BOARD / 2);
    struct strangers strangers;
    struct flow_plan plan = {
        .seed = 10, .tags = 1, .count = 20, .depth = PLUGIN_STEPS, .largest = 50000};
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    if (me->rank == 0)
        doors_find(doors);
    world_meet();
    if (me->rank == 1)
        strangers_come(&strangers, doors);
    rig_join(&rig, &link, 0, 1, &meeting);
    struct flow *flow =
        flow_start(&rig, &plan, me->rank == 1 ? link.send : link.receive, me->rank == 1);
    flow_run(&flow, 1);
    if (me->rank == 1)
        strangers_leave(&strangers);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

void strangers_do_no_harm(void)
{
    world_run(&(struct world_job){.size = 2, .run = come_as_strangers});
}

#define PAIRS 16

static void use_many(const struct world_rank *me, void *arg)
{
    struct rig_link links[2 * PAIRS];
    struct flow *flows[4 * PAIRS] = {NULL};
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    for (uint32_t i = 0; i < 2 * PAIRS; i++)
        links[i] = (struct rig_link){.from = i % 2, .to = 1 - i % 2};
    rig_connect(&rig, links, 2 * PAIRS);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        struct flow_plan plan = {
            .seed = 1000 + i, .tags = 1, .count = 20, .depth = PLUGIN_STEPS, .largest = 20000};
        if (links[i].send != NULL)
            flows[2 * i] = flow_start(&rig, &plan, links[i].send, true);
        if (links[i].receive != NULL)
            flows[2 * i + 1] = flow_start(&rig, &plan, links[i].receive, false);
    }
    flow_run(flows, 4 * PAIRS);
    rig_disconnect(&rig, links, 2 * PAIRS);
    rig_end(&rig);
}

void many_connections_of_one_pair(void)
{
    world_run(&(struct world_job){.size = 2, .run = use_many});
}

static void use_oneself(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 0};
    struct flow_plan plan = {
        .seed = 9, .tags = 2, .count = 20, .depth = PLUGIN_STEPS, .largest = 300000};
    struct flow *flows[2];
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    flows[0] = flow_start(&rig, &plan, link.send, true);
    flows[1] = flow_start(&rig, &plan, link.receive, false);
    flow_run(flows, 2);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

void rank_connects_to_itself(void)
{
    world_run(&(struct world_job){.size = 1, .run = use_oneself});
}
