/* SPDX-License-Identifier: Apache-2.0 */
/**
 * NCCL's own variables name the network where wring's are not set, and the user sees which counted.
 *
 *     test_nccl_settings PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [CASE...]
 *
 * The case of RDMA devices is for WRING_PROVIDER=verbs over those of tests/provider/mock.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/flow.h"

#define SETTINGS 3

struct settings {
    const char *set[SETTINGS]; /* NAME=VALUE; NULL: no more */
    const char *says;          /* at init */
    int level;                 /* of that line, or a graver one */
    bool works;
};

static void set_all(const struct settings *settings)
{
    static const char *const known[] = {"WRING_BIND", "WRING_IFACE", "WRING_VERBS_DEVICES",
                                        "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        unsetenv(known[i]);
    for (int i = 0; i < SETTINGS && settings->set[i] != NULL; i++) {
        char *setting = strdup(settings->set[i]); /* the environment keeps it */
        if (setting == NULL)
            abort();
        putenv(setting);
    }
}

static void check_line(const struct settings *settings)
{
    CHECK(settings->says == NULL || world_logged(settings->level, settings->says) == 1,
          "with %s %u lines say \"%s\"", settings->set[0],
          world_logged(settings->level, settings->says), settings->says);
}

static void begin(const struct world_rank *me, void *arg)
{
    const struct settings *settings = arg;
    struct plugin *plugin = plugin_open(rig_choice.path, rig_choice.version);
    void *ctx;
    (void)me;

    MUST(plugin != NULL, "%s", rig_choice.path);
    set_all(settings);
    bool works = plugin_init(plugin, 1, &ctx) == PLUGIN_OK;
    CHECK(works == settings->works, "init with %s %s", settings->set[0],
          works ? "succeeds" : "fails");
    check_line(settings);
    if (works)
        plugin_finalize(plugin, ctx);
    plugin_close(plugin);
}

static void try_all(const struct settings *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        world_run(&(struct world_job){.size = 1, .run = begin, .arg = (void *)&settings[i]});
}

static void nccl_names_the_interface(void)
{
    static const struct settings all[] = {
        {{"NCCL_SOCKET_IFNAME=lo"}, "127.0.0.1 (lo)", PLUGIN_LOG_INFO, true},
        {{"NCCL_SOCKET_IFNAME==lo"}, "WRING_IFACE is not set", PLUGIN_LOG_INFO, true},
        {{"NCCL_SOCKET_IFNAME=nosuch0"}, "NCCL_SOCKET_IFNAME=nosuch0", PLUGIN_LOG_WARN, false},
        {{"NCCL_SOCKET_IFNAME=lo,,"}, "NCCL_SOCKET_IFNAME=lo,,", PLUGIN_LOG_WARN, false},
        {{"NCCL_SOCKET_IFNAME="}, NULL, PLUGIN_LOG_WARN, true},
    };
    try_all(all, sizeof(all) / sizeof(all[0]));
}

static void what_wring_is_told_comes_first(void)
{
    static const struct settings all[] = {
        {{"NCCL_SOCKET_IFNAME=nosuch0", "WRING_IFACE=lo"}, "(lo)", PLUGIN_LOG_INFO, true},
        {{"NCCL_SOCKET_IFNAME=nosuch0", "WRING_BIND=127.0.0.1"}, "(lo)", PLUGIN_LOG_INFO, true},
        {{"WRING_IFACE=nosuch1", "NCCL_SOCKET_IFNAME=lo"},
         "WRING_IFACE=nosuch1",
         PLUGIN_LOG_WARN,
         false},
    };
    try_all(all, sizeof(all) / sizeof(all[0]));
}

/** Sessions of links have it, too. */
static void transfer(const struct world_rank *me, void *arg)
{
    const struct settings *settings = arg;
    struct rig_link link = {.from = 0, .to = 1};
    struct flow_plan plan = {
        .seed = 5, .tags = 1, .count = 20, .depth = PLUGIN_STEPS, .largest = 50000};
    struct rig rig;

    set_all(settings);
    rig_begin(&rig, me);
    check_line(settings);
    rig_connect(&rig, &link, 1);
    struct flow *flow =
        flow_start(&rig, &plan, me->rank == 0 ? link.send : link.receive, me->rank == 0);
    flow_run(&flow, 1);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

static void links_use_that_network(void)
{
    static const struct settings all[] = {
        {{"NCCL_SOCKET_IFNAME=lo"}, "(lo)", PLUGIN_LOG_INFO, true},
        {{"NCCL_IB_HCA=^nosuch0:1"}, "NCCL_IB_HCA=^nosuch0:1 counts", PLUGIN_LOG_INFO, true},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        world_run(&(struct world_job){.size = 2, .run = transfer, .arg = (void *)&all[i]});
}

/** Poll until there is a connection or an error. @return what the plugin says */
static int poll_connection(struct rig *rig, struct rig_link *link, struct rig_meeting *meeting)
{
    for (;;) {
        bool sends = rig->me.rank == link->from;
        void **comm = sends ? &link->send : &link->receive;
        int result =
            sends ? plugin_connect(rig->plugin, rig->ctx, rig->device, meeting->handles[0], comm)
                  : plugin_accept(rig->plugin, meeting->listeners[0], comm);
        if (result != PLUGIN_OK || *comm != NULL)
            return result;
        world_turn("a connection, or an error");
    }
}

/** Where NCCL names a device that there is not, no link goes by another one. */
static void find_no_device(const struct world_rank *me, void *arg)
{
    const struct settings *settings = arg;
    struct rig_link link = {.from = 0, .to = 1};
    static struct rig_meeting meeting;
    struct rig rig;

    set_all(settings);
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    int result = poll_connection(&rig, &link, &meeting);
    CHECK(result != PLUGIN_OK, "there is a connection by no device");
    CHECK(world_logged(PLUGIN_LOG_WARN, "WRING_VERBS_DEVICES=nosuch0") == 1,
          "%u lines name the device", world_logged(PLUGIN_LOG_WARN, "WRING_VERBS_DEVICES=nosuch0"));
    world_meet();
    if (me->rank == 1)
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    rig_end(&rig);
}

static void nccl_names_the_rdma_devices(void)
{
    static const struct settings first = {
        {"NCCL_IB_HCA==mock1:1"}, "counts", PLUGIN_LOG_INFO, true};
    static const struct settings none = {{"NCCL_IB_HCA=nosuch0"}, "counts", PLUGIN_LOG_INFO, true};

    world_run(&(struct world_job){.size = 2, .run = transfer, .arg = (void *)&first});
    world_run(&(struct world_job){.size = 2, .run = find_no_device, .arg = (void *)&none});
}

/** Each process has one device; where two have nothing in common, both say so. */
static void differ(const struct world_rank *me, void *arg)
{
    struct rig_link link = {.from = 0, .to = 1};
    static struct rig_meeting meeting;
    static char providers[2][32] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};
    struct rig rig;

    (void)arg;
    putenv(providers[me->rank]);
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    int result = poll_connection(&rig, &link, &meeting);
    CHECK(result != PLUGIN_OK, "two without a common provider are connected");
    CHECK(world_logged(PLUGIN_LOG_WARN, "no provider in common") == 1, "%u lines say why",
          world_logged(PLUGIN_LOG_WARN, "no provider in common"));
    CHECK(world_logged(PLUGIN_LOG_WARN, "WRING_PROVIDER") == 1, "no line names the setting");
    world_meet();
    if (me->rank == 1)
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    rig_end(&rig);
}

static void providers_that_differ_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = differ});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"nccl_names_the_interface", nccl_names_the_interface},
        {"what_wring_is_told_comes_first", what_wring_is_told_comes_first},
        {"links_use_that_network", links_use_that_network},
        {"providers_that_differ_are_told", providers_that_differ_are_told},
        {"nccl_names_the_rdma_devices", nccl_names_the_rdma_devices},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
