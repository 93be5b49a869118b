/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "tests/nccl/flow.h"
#include "tests/nccl/net_cases.h"

#define MEMORY ((size_t)32 << 20) /* of a flow's slots */
#define VOLUME ((size_t)16 << 20) /* that a flow sends, about */
#define LINKS_MAX (2 * WORLD_MAX)
#define STREAMS 4

/* ---- a network and its traffic, by seed ---- */

static uint32_t choose(uint32_t *random, uint32_t n)
{
    return (wring_test_random(random) >> 8) % n;
}

/** Each rank sends to its right, and to another one; who has drawn itself sends to itself. */
static uint32_t draw_links(uint32_t *random, uint32_t ranks, struct rig_link *links)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        links[n++] = (struct rig_link){.from = r, .to = (r + 1) % ranks};
        if (choose(random, 2) == 0)
            links[n++] = (struct rig_link){.from = r, .to = choose(random, ranks)};
    }
    return n;
}

static struct flow_plan draw_plan(uint32_t *random, uint32_t ranks)
{
    static const size_t largest[] = {64, 8192, 8193, 70000, 1 << 20, 8 << 20};
    static const uint32_t tags[] = {1, 1, 2, 3, PLUGIN_GROUP_MAX};
    static const uint32_t depths[] = {1, 3, PLUGIN_STEPS, PLUGIN_REQUESTS};
    struct flow_plan plan = {
        .seed = wring_test_random(random),
        .tags = tags[choose(random, 5)],
        .depth = depths[choose(random, 4)],
        .largest = largest[choose(random, 6)],
        .no_sizes = choose(random, 2) == 0,
        .order = (enum flow_order)choose(random, 3),
    };

    while (plan.depth > 1 && plan.tags * plan.depth * plan.largest > MEMORY)
        plan.depth /= 2;
    size_t count = VOLUME / ranks / plan.tags / (plan.largest / 6 + 1); /* a mean size */
    plan.count = count < 4 ? 4 : count > 150 ? 150 : (uint32_t)count;
    return plan;
}

static void transfer(const struct world_rank *me, void *arg)
{
    uint32_t random = *(const uint32_t *)arg * 2654435761u | 1;
    struct rig_link links[LINKS_MAX];
    struct flow *flows[2 * LINKS_MAX] = {NULL};
    struct rig rig;

    rig_begin(&rig, me);
    uint32_t n = draw_links(&random, me->size, links);
    rig_connect(&rig, links, n);
    for (uint32_t i = 0; i < n; i++) {
        struct flow_plan plan = draw_plan(&random, me->size); /* by all ranks alike */
        if (links[i].send != NULL)
            flows[2 * i] = flow_start(&rig, &plan, links[i].send, true);
        if (links[i].receive != NULL)
            flows[2 * i + 1] = flow_start(&rig, &plan, links[i].receive, false);
    }
    flow_run(flows, 2 * n);
    rig_disconnect(&rig, links, n);
    rig_end(&rig);
}

void streams_of_random_sizes(void)
{
    static const uint32_t ranks[] = {2, 3, 5, 8};

    for (uint32_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        uint32_t seed = rig_choice.seed * 16 + i;
        unsigned before = wring_test_failures();
        world_run(&(struct world_job){.size = ranks[i], .run = transfer, .arg = &seed});
        if (wring_test_failures() != before)
            printf("with %u ranks and seed=%u\n", ranks[i], rig_choice.seed);
    }
}

/* ---- threads ---- */

struct part { /* one thread's */
    struct rig *rig;
    struct rig_link *links; /* two of them */
    struct rig_meeting *meeting;
    uint32_t number;
};

static void *use_part(void *arg)
{
    struct part *part = arg;
    uint32_t first = 2 * part->number;
    struct flow *flows[4] = {NULL};

    rig_join(part->rig, part->links, first, first + 2, part->meeting);
    for (uint32_t i = 0; i < 2; i++) {
        struct rig_link *link = &part->links[first + i];
        struct flow_plan plan = {.seed = 600 + first + i,
                                 .tags = 1 + part->number % 3,
                                 .count = 60,
                                 .depth = PLUGIN_STEPS,
                                 .largest = 60000,
                                 .order = FLOW_RANDOM};
        if (link->send != NULL)
            flows[2 * i] = flow_start(part->rig, &plan, link->send, true);
        if (link->receive != NULL)
            flows[2 * i + 1] = flow_start(part->rig, &plan, link->receive, false);
    }
    flow_run(flows, 4);
    rig_disconnect(part->rig, &part->links[first], 2);
    return NULL;
}

static void use_threads(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link links[2 * STREAMS];
    struct part parts[STREAMS];
    pthread_t threads[STREAMS];
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    for (uint32_t i = 0; i < 2 * STREAMS; i++)
        links[i] = (struct rig_link){.from = i % 2, .to = 1 - i % 2};
    rig_listen(&rig, links, 2 * STREAMS, &meeting);
    for (uint32_t i = 0; i < STREAMS; i++) {
        parts[i] = (struct part){&rig, links, &meeting, i};
        if (pthread_create(&threads[i], NULL, use_part, &parts[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        pthread_join(threads[i], NULL);
    world_meet();
    rig_end(&rig);
}

void threads_have_connections_of_their_own(void)
{
    world_run(&(struct world_job){.size = 2, .run = use_threads});
}
