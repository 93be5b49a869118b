/* SPDX-License-Identifier: Apache-2.0 */
/* How the control tree comes to stand as a session opens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "transport/fabric_connect.h"
#include "transport/fabric_describe.h"
#include "transport/liveness.h"

#define WRING_MODULE "fabric"
#define LOOK_NS (50 * WRING_NS_PER_MS) /* between two looks at who has ended */
#define BLAME_NS WRING_NS_PER_S        /* for the bootstrap to say whose fault a loss is */

static uint32_t first_missing(const struct wring_fabric *fabric)
{
    return fabric->tree != NULL ? wring_control_tree_missing(fabric->tree) : fabric->size;
}

/** Nothing came: sleep until something does, but look after the other ranks too. */
static enum wring_status rest(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                              struct wring_wait_set *set, uint64_t deadline_ns)
{
    uint64_t now = wring_now_ns();
    enum wring_status status = bootstrap->ops->check(bootstrap);
    if (status != WRING_OK)
        return status;
    if (now >= deadline_ns) {
        wring_error(fabric->log, "rank %" PRIu32 " did not connect in time (WRING_JOIN_TIMEOUT)",
                    first_missing(fabric));
        return WRING_ERR_PEER;
    }
    if (set->deadline_ns > now + LOOK_NS)
        set->deadline_ns = now + LOOK_NS;
    wring_wait_set_sleep(set);
    return WRING_OK;
}

/** What has become of it so far. */
static enum wring_status status_of(const struct wring_fabric *fabric)
{
    enum wring_status status = wring_fabric_status(fabric);
    return status != WRING_OK ? status : fabric->mishap.status;
}

static enum wring_status await_tree(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap,
                                    uint64_t deadline_ns)
{
    enum wring_status status = status_of(fabric);
    while (status == WRING_OK && first_missing(fabric) < fabric->size) {
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        wring_fabric_arm(fabric, &set);
        bool any = wring_fabric_poll(fabric);
        status = status_of(fabric);
        if (status == WRING_OK && !any)
            status = rest(fabric, bootstrap, &set, deadline_ns);
    }
    return status;
}

/**
 * A connection was lost: is its rank at fault, or did that one leave because another has ended?
 * The bootstrap knows who ended, and tells all ranks of the same one; who goes without waiting for
 * its word would look like the one at fault to others.
 */
static enum wring_status blame(struct wring_fabric *fabric, struct wring_bootstrap *bootstrap)
{
    uint64_t until_ns = wring_now_ns() + BLAME_NS;
    while (wring_now_ns() < until_ns) {
        struct wring_wait_set pause = {.deadline_ns = wring_now_ns() + LOOK_NS};
        enum wring_status status = bootstrap->ops->check(bootstrap);
        if (status != WRING_OK)
            return status;
        wring_wait_set_sleep(&pause);
    }
    wring_error(fabric->log, "%s", fabric->mishap.text);
    return fabric->mishap.status;
}

/** Begin with the control tree. */
static enum wring_status join_tree(struct wring_fabric *fabric)
{
    struct wring_description *one = calloc(1, sizeof(*one));
    struct wring_control_tree_place *places = calloc(fabric->size, sizeof(*places));
    enum wring_status status = WRING_ERR_NO_MEMORY;
    bool read = one != NULL && places != NULL;

    for (uint32_t i = 0; i < fabric->size && read; i++) {
        read = wring_description_read(&fabric->blobs, i, one);
        places[i] = one->tree;
    }
    if (read && fabric->tree != NULL)
        status = wring_control_tree_join(fabric->tree, places);
    else if (read)
        status = WRING_OK;
    free(places);
    free(one);
    return status;
}

/** The bootstrap has told us; others, who have joined already, hear it from us. */
static void tell_why(struct wring_fabric *fabric, const struct wring_bootstrap *bootstrap)
{
    if (bootstrap->at_fault < 0)
        return;
    fabric->failure = (struct wring_failure){WRING_ERR_PEER, bootstrap->at_fault, ""};
    snprintf(fabric->failure.text, sizeof(fabric->failure.text),
             "rank %" PRId32 " ended while ranks connected to each other", bootstrap->at_fault);
    wring_liveness_tell(fabric);
}

enum wring_status wring_fabric_connect(struct wring_fabric *fabric,
                                       struct wring_bootstrap *bootstrap, struct wring_blobs *blobs,
                                       uint64_t deadline_ns)
{
    fabric->blobs = *blobs;
    *blobs = (struct wring_blobs){0};
    enum wring_status status = wring_fabric_choose(fabric, &fabric->blobs);
    if (status == WRING_OK)
        status = join_tree(fabric);
    if (status == WRING_OK)
        status = await_tree(fabric, bootstrap, deadline_ns);
    if (fabric->mishap.status != WRING_OK)
        status = blame(fabric, bootstrap);
    if (status != WRING_OK) {
        tell_why(fabric, bootstrap);
        return status;
    }

    fabric->tick_ns = fabric->judged_ns = wring_now_ns();
    fabric->state = WRING_FABRIC_WORKING;
    return WRING_OK;
}
