/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/coll_rig.h"

#include <string.h>

int coll_dtype(int dtype)
{
    static const int known[] = {WRING_I8,  WRING_U8,  WRING_I32, WRING_U32, WRING_I64,
                                WRING_U64, WRING_F16, WRING_F32, WRING_F64, WRING_BF16};
    return dtype >= 0 && dtype < (int)(sizeof(known) / sizeof(known[0])) ? known[dtype] : -1;
}

int coll_op(int op)
{
    static const int known[COLL_OPS] = {WRING_SUM, WRING_PROD, WRING_MAX, WRING_MIN, WRING_AVG};
    return op >= 0 && op < COLL_OPS ? known[op] : -1;
}

/** All ranks listen, see all handles, and connect; once, and whoever gets no comm has no CollNet.
 */
static void join(struct coll_rig *coll,
                 void (*when_listening)(const struct world_rank *me, void *arg), void *arg)
{
    struct plugin *plugin = coll->rig.plugin;
    unsigned char handles[WORLD_MAX][PLUGIN_HANDLE];
    void *shown[WORLD_MAX], *listener;
    int n = (int)coll->rig.me.size;

    int result = plugin_coll_listen(plugin, coll->ctx, coll->rig.device,
                                    world_board(coll->rig.me.rank), &listener);
    MUST(result == PLUGIN_OK && listener != NULL, "CollNet listen: %d", result);
    world_meet();
    if (when_listening != NULL)
        when_listening(&coll->rig.me, arg);
    for (int i = 0; i < n; i++)
        shown[i] = memcpy(handles[i], world_board((uint32_t)i), PLUGIN_HANDLE);
    result = plugin_coll_connect(plugin, shown, n, (int)coll->rig.me.rank, listener, &coll->comm);
    MUST(result == PLUGIN_OK && coll->comm != NULL, "CollNet connect: %d, %p", result, coll->comm);
    result = plugin_coll_close_listen(plugin, listener);
    MUST(result == PLUGIN_OK, "CollNet closeListen: %d", result);
    world_meet(); /* the boards may be used again */
}

void coll_join(const struct coll_rig *coll, struct coll_rig *out)
{
    *out = *coll;
    int result = plugin_coll_init(out->rig.plugin, 0xC011, &out->ctx);
    MUST(result == PLUGIN_OK, "CollNet init: %d", result);
    join(out, NULL, NULL);
}

void coll_begin(struct coll_rig *coll, const struct world_rank *me)
{
    coll_begin_with(coll, me, NULL, NULL);
}

void coll_begin_with(struct coll_rig *coll, const struct world_rank *me,
                     void (*when_listening)(const struct world_rank *me, void *arg), void *arg)
{
    struct plugin_properties properties;
    int n = 0;

    *coll = (struct coll_rig){0};
    rig_begin(&coll->rig, me);
    MUST(plugin_has_coll(coll->rig.plugin), "the plugin has no CollNet");
    int result = plugin_coll_init(coll->rig.plugin, 0xC0FFEE, &coll->ctx);
    MUST(result == PLUGIN_OK, "CollNet init: %d", result);
    result = plugin_coll_devices(coll->rig.plugin, &n);
    MUST(result == PLUGIN_OK && n > 0, "CollNet devices: %d, %d of them", result, n);
    result = plugin_coll_get_properties(coll->rig.plugin, 0, &properties);
    MUST(result == PLUGIN_OK, "CollNet getProperties: %d", result);
    coll->max_bytes = properties.max_coll_bytes;
    join(coll, when_listening, arg);
}

void coll_leave(struct coll_rig *coll)
{
    int result = plugin_coll_close(coll->rig.plugin, coll->comm);
    CHECK(result == PLUGIN_OK, "closeColl: %d", result);
    result = plugin_coll_finalize(coll->rig.plugin, coll->ctx);
    CHECK(result == PLUGIN_OK, "CollNet finalize: %d", result);
}

void coll_end(struct coll_rig *coll)
{
    coll_leave(coll);
    rig_end(&coll->rig);
}

void *coll_register(struct coll_rig *coll, void *data, size_t bytes)
{
    void *region;
    int result = plugin_coll_register(coll->rig.plugin, coll->comm, data, bytes, &region);
    MUST(result == PLUGIN_OK, "CollNet regMr of %zu bytes: %d", bytes, result);
    return region;
}

void coll_deregister(struct coll_rig *coll, void *region)
{
    int result = plugin_coll_deregister(coll->rig.plugin, coll->comm, region);
    MUST(result == PLUGIN_OK, "CollNet deregMr: %d", result);
}

void *coll_allreduce(struct coll_rig *coll, void *in, void *out, size_t elems, int dtype, int op,
                     void *in_region, void *out_region)
{
    for (;;) {
        void *request = NULL;
        int result = plugin_coll_allreduce(coll->rig.plugin, coll->comm, in, out, elems, dtype, op,
                                           in_region, out_region, &request);
        MUST(result == PLUGIN_OK, "iallreduce of type %d, op %d: %d", dtype, op, result);
        if (request != NULL)
            return request;
        world_turn("iallreduce to take %zu elements", elems);
    }
}

size_t coll_part_of(struct plugin_window window, uint32_t rank, size_t *in_window, size_t *in_block)
{
    size_t begin = rank * window.block, end = begin + window.block;
    size_t from = begin > window.offset ? begin : window.offset;
    size_t to = end < window.offset + window.bytes ? end : window.offset + window.bytes;

    *in_window = from - window.offset;
    *in_block = from - begin;
    return to > from ? to - from : 0;
}

void *coll_reduce_scatter(struct coll_rig *coll, void *in, void *out, struct plugin_window window,
                          int dtype, int op, void *in_region, void *out_region)
{
    for (;;) {
        void *request = NULL;
        int result = plugin_coll_reduce_scatter(coll->rig.plugin, coll->comm, in, in_region, out,
                                                out_region, window, dtype, op, &request);
        MUST(result == PLUGIN_OK, "ireducescatter of type %d, op %d: %d", dtype, op, result);
        if (request != NULL)
            return request;
        world_turn("ireducescatter to take %zu bytes", window.bytes);
    }
}

int coll_finish(struct coll_rig *coll, void *request, const char *what)
{
    for (;;) {
        int done = 0, bytes = 0;
        int result = plugin_coll_test(coll->rig.plugin, request, &done, &bytes);
        if (result != PLUGIN_OK || done != 0)
            return result;
        world_turn("%s", what);
    }
}

void coll_wait(struct coll_rig *coll, void *request, const char *what)
{
    int result = coll_finish(coll, request, what);
    MUST(result == PLUGIN_OK, "test of %s: %d", what, result);
}
