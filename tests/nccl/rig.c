/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

struct rig_choice rig_choice = {.seed = 1, .no_device = "WRING_IFACE=nosuch0", .largest_mib = 300};

static bool take_version(const char *text)
{
    static const char *const names[] = {"auto", "v8", "v11", "v12"};
    static const int versions[] = {0, 8, 11, 12};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0) {
            rig_choice.version = versions[i];
            return true;
        }
    return false;
}

int rig_take_arguments(int argc, char **argv)
{
    int at = 3;

    if (argc < 3 || !take_version(argv[2])) {
        fprintf(stderr,
                "usage: %s PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [seed=N] [deadline=SECONDS] "
                "[largest=MIB] [memory=MIB] [no-device=NAME=VALUE] [each=NAME=VALUE|VALUE...] "
                "[CASE...]\n",
                argv[0]);
        return 0;
    }
    rig_choice.path = argv[1];
    for (; at < argc && strchr(argv[at], '=') != NULL; at++) {
        if (strncmp(argv[at], "seed=", 5) == 0)
            rig_choice.seed = (uint32_t)strtoul(argv[at] + 5, NULL, 10);
        else if (strncmp(argv[at], "deadline=", 9) == 0)
            world_set_deadline((unsigned)strtoul(argv[at] + 9, NULL, 10));
        else if (strncmp(argv[at], "largest=", 8) == 0)
            rig_choice.largest_mib = strtoul(argv[at] + 8, NULL, 10);
        else if (strncmp(argv[at], "memory=", 7) == 0)
            rig_choice.memory_mib = strtoul(argv[at] + 7, NULL, 10);
        else if (strncmp(argv[at], "no-device=", 10) == 0)
            rig_choice.no_device = argv[at] + 10;
        else if (strncmp(argv[at], "each=", 5) == 0 && strchr(argv[at] + 5, '=') != NULL &&
                 rig_choice.n_each < RIG_EACH_MAX)
            rig_choice.each[rig_choice.n_each++] = argv[at] + 5;
        else
            putenv(argv[at]);
    }
    return at - 1;
}

/** What is another value in each rank, as an end of a cable is: the values are taken in turn. */
static void set_own(uint32_t rank)
{
    for (unsigned i = 0; i < rig_choice.n_each; i++) {
        const char *values = strchr(rig_choice.each[i], '=') + 1, *end;
        size_t name_bytes = (size_t)(values - rig_choice.each[i]);
        uint32_t n = 1;
        char *setting = calloc(1, strlen(rig_choice.each[i]) + 1); /* the environment keeps it */
        for (const char *at = values; (at = strchr(at, '|')) != NULL; at++)
            n++;
        for (uint32_t skip = rank % n; skip > 0; skip--)
            values = strchr(values, '|') + 1;
        end = strchr(values, '|');
        if (setting == NULL)
            abort();
        memcpy(setting, rig_choice.each[i], name_bytes);
        memcpy(setting + name_bytes, values, end != NULL ? (size_t)(end - values) : strlen(values));
        putenv(setting);
    }
}

void rig_begin_version(struct rig *rig, const struct world_rank *me, int version, uint64_t comm_id)
{
    int n = 0;

    set_own(me->rank);
    *rig = (struct rig){.me = *me, .plugin = plugin_open(rig_choice.path, version)};
    MUST(rig->plugin != NULL, "%s", rig_choice.path);
    int result = plugin_init(rig->plugin, comm_id, &rig->ctx);
    MUST(result == PLUGIN_OK, "init: %d", result);
    result = plugin_devices(rig->plugin, &n);
    MUST(result == PLUGIN_OK && n > 0, "devices: %d, %d of them", result, n);
    rig->device = (int)(me->rank % (uint32_t)n); /* each rank the one that is nearest to its GPU */
}

void rig_begin(struct rig *rig, const struct world_rank *me)
{
    rig_begin_version(rig, me, rig_choice.version, 0xC0FFEE);
}

void rig_end(struct rig *rig)
{
    int result = plugin_finalize(rig->plugin, rig->ctx);
    CHECK(result == PLUGIN_OK, "finalize: %d", result);
    plugin_close(rig->plugin);
}

/** Where a receiver shows the handle of a link. */
static void *shown_handle(const struct rig_link *link, uint32_t index)
{
    return (unsigned char *)world_board(link->to) + (size_t)index * PLUGIN_HANDLE;
}

/** One more try of a link that is not there yet. @return whether it is now */
static bool try_link(struct rig *rig, struct rig_link *link, void **listener, unsigned char *handle)
{
    bool sends = link->from == rig->me.rank, receives = link->to == rig->me.rank;
    int result = PLUGIN_OK;

    if (sends && link->send == NULL)
        result = plugin_connect(rig->plugin, rig->ctx, rig->device, handle, &link->send);
    MUST(result == PLUGIN_OK, "connect: %d", result);
    if (receives && link->receive == NULL)
        result = plugin_accept(rig->plugin, *listener, &link->receive);
    MUST(result == PLUGIN_OK, "accept: %d", result);
    if (*listener != NULL && link->receive != NULL) { /* at once, as the proxy does */
        result = plugin_close_listen(rig->plugin, *listener);
        *listener = NULL;
    }
    MUST(result == PLUGIN_OK, "closeListen: %d", result);
    return (!sends || link->send != NULL) && (!receives || link->receive != NULL);
}

void rig_listen(struct rig *rig, struct rig_link *links, uint32_t n, struct rig_meeting *meeting)
{
    memset(meeting, 0, sizeof(*meeting));
    for (uint32_t i = 0; i < n; i++) {
        links[i].send = links[i].receive = NULL;
        if (links[i].to != rig->me.rank)
            continue;
        int result = plugin_listen(rig->plugin, rig->ctx, rig->device, shown_handle(&links[i], i),
                                   &meeting->listeners[i]);
        MUST(result == PLUGIN_OK && meeting->listeners[i] != NULL, "listen: %d", result);
    }
    world_meet();
    for (uint32_t i = 0; i < n; i++)
        memcpy(meeting->handles[i], shown_handle(&links[i], i), PLUGIN_HANDLE);
}

void rig_join(struct rig *rig, struct rig_link *links, uint32_t first, uint32_t end,
              struct rig_meeting *meeting)
{
    for (uint32_t there = 0; there < end - first;) {
        there = 0;
        for (uint32_t i = first; i < end; i++)
            there += try_link(rig, &links[i], &meeting->listeners[i], meeting->handles[i]);
        if (there < end - first)
            world_turn("%u of %u connections", end - first - there, end - first);
    }
}

void rig_connect(struct rig *rig, struct rig_link *links, uint32_t n)
{
    static struct rig_meeting meeting;

    rig_listen(rig, links, n, &meeting);
    rig_join(rig, links, 0, n, &meeting);
    world_meet(); /* the boards may be used again */
}

void rig_disconnect(struct rig *rig, struct rig_link *links, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int result = PLUGIN_OK;
        if (links[i].send != NULL)
            result = plugin_close_send(rig->plugin, links[i].send);
        CHECK(result == PLUGIN_OK, "closeSend: %d", result);
        if (links[i].receive != NULL)
            result = plugin_close_receive(rig->plugin, links[i].receive);
        CHECK(result == PLUGIN_OK, "closeRecv: %d", result);
    }
}

static void run_pair(const struct world_rank *me, void *arg)
{
    void (*const *run)(struct rig *, void *) = arg;
    struct rig_link link = {.from = 0, .to = 1};
    struct rig rig;

    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    (*run)(&rig, me->rank == 0 ? link.send : link.receive);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
}

void rig_run_pair(void (*run)(struct rig *rig, void *comm))
{
    world_run(&(struct world_job){.size = 2, .run = run_pair, .arg = &run});
}

void *rig_register(struct rig *rig, void *comm, void *data, size_t bytes)
{
    void *region = NULL;
    int result = plugin_register(rig->plugin, comm, data, bytes, &region);
    MUST(result == PLUGIN_OK, "regMr of %zu bytes: %d", bytes, result);
    return region;
}

void rig_deregister(struct rig *rig, void *comm, void *region)
{
    int result = plugin_deregister(rig->plugin, comm, region);
    MUST(result == PLUGIN_OK, "deregMr: %d", result);
}

void *rig_send(struct rig *rig, void *comm, void *data, size_t bytes, int tag, void *region)
{
    for (;;) {
        void *request = NULL;
        int result = plugin_isend(rig->plugin, comm, data, bytes, tag, region, &request);
        MUST(result == PLUGIN_OK, "isend of %zu bytes: %d", bytes, result);
        if (request != NULL)
            return request;
        world_turn("isend to take %zu bytes of tag %d", bytes, tag);
    }
}

void *rig_receive_group(struct rig *rig, void *comm, int n, void **data, const size_t *bytes,
                        int *tags, void *region)
{
    void *regions[PLUGIN_GROUP_MAX];

    for (int i = 0; i < n; i++)
        regions[i] = region;
    for (;;) {
        void *request = NULL;
        int result = plugin_irecv(rig->plugin, comm, n, data, bytes, tags, regions, &request);
        MUST(result == PLUGIN_OK, "irecv of %d: %d", n, result);
        if (request != NULL)
            return request;
        world_turn("irecv to take a group of %d", n);
    }
}

void *rig_receive(struct rig *rig, void *comm, void *data, size_t bytes, int tag, void *region)
{
    return rig_receive_group(rig, comm, 1, &data, &bytes, &tag, region);
}

int rig_finish(struct rig *rig, void *request, int *sizes, const char *what)
{
    for (;;) {
        int done = 0, result = plugin_test(rig->plugin, request, &done, sizes);
        if (result != PLUGIN_OK || done != 0)
            return result;
        world_turn("%s", what);
    }
}

void rig_wait(struct rig *rig, void *request, int *sizes, const char *what)
{
    int result = rig_finish(rig, request, sizes, what);
    MUST(result == PLUGIN_OK, "test of %s: %d", what, result);
}

static uint64_t word_of(uint64_t seed, uint64_t i)
{
    return (seed + 1) * 0x9E3779B97F4A7C15u + i * 0xD6E8FEB86659FD93u;
}

void rig_fill(void *data, size_t bytes, uint64_t seed)
{
    unsigned char *to = data;
    uint64_t word, i = 0;

    for (; (i + 1) * sizeof(word) <= bytes; i++) {
        word = word_of(seed, i);
        memcpy(to + i * sizeof(word), &word, sizeof(word));
    }
    word = word_of(seed, i);
    memcpy(to + i * sizeof(word), &word, bytes % sizeof(word));
}

size_t rig_differs(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *from = data;
    uint64_t word, want, i = 0;

    for (; (i + 1) * sizeof(word) <= bytes; i++) {
        memcpy(&word, from + i * sizeof(word), sizeof(word));
        if (word != word_of(seed, i))
            break;
    }
    want = word_of(seed, i);
    for (size_t at = i * sizeof(word); at < bytes; at++) {
        unsigned char byte;
        memcpy(&byte, (unsigned char *)&want + at % sizeof(word), 1);
        if (from[at] != byte)
            return at;
    }
    return bytes;
}

unsigned rig_count_threads(void)
{
    DIR *directory = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned n = 0;

    if (directory == NULL)
        abort();
    while ((entry = readdir(directory)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue; /* it has ended, or is no thread */
        n += fgets(name, sizeof(name), file) != NULL && strcmp(name, "mock-clock\n") != 0;
        fclose(file);
    }
    closedir(directory);
    return n;
}
