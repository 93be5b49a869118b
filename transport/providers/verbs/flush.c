/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Flushes: what peers have written into device memory becomes visible to that device.
 *
 * An adapter's writes to the memory of another PCI device may still be on their way when it tells
 * the processor, through memory of the host, that they are done. A read of that device by the
 * same adapter does not overtake them. So each rail has a queue pair that is connected to itself,
 * and writes one byte out of the device's memory to a word of ours: the adapter has to read it
 * there. Unlike an RDMA read, that needs no key by which peers could read the memory, too.
 *
 * Source: the ordering rules of PCI Express (a read request does not pass posted writes).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define FLUSHES 64 /* under way on a rail */

struct verbs_flusher {
    struct verbs_provider *verbs;
    struct verbs_pin *pin; /* of the words */
    uint64_t begun;        /* flushes */
    bool failed;
    struct flush_rail {
        struct ibv_cq *cq;
        struct verbs_path *path; /* its queue pair, which is all that is used of it */
        uint64_t ended;          /* flushes */
    } rails[VERBS_RAILS_MAX];
    uint64_t *words; /* [VERBS_RAILS_MAX] a page */
};

static bool open_rail(struct verbs_flusher *flusher, unsigned index)
{
    const struct verbs_library *library = &flusher->verbs->library;
    struct verbs_rail *rail = &flusher->verbs->rails[index];
    struct flush_rail *flush = &flusher->rails[index];
    char why[VERBS_TEXT] = "";

    flush->path = calloc(1, sizeof(*flush->path));
    if (flush->path == NULL)
        return false;
    flush->path->rail = rail;
    flush->path->mtu = rail->choice.mtu;
    flush->cq = library->create_cq(rail->context, FLUSHES, NULL, NULL, 0);
    if (flush->cq != NULL) {
        struct ibv_qp_init_attr init = {.cap = {FLUSHES, 1, 1, 1, 0},
                                        .qp_type = IBV_QPT_RC,
                                        .send_cq = flush->cq,
                                        .recv_cq = flush->cq};
        flush->path->qp = library->create_qp(rail->pd, &init);
    }
    if (flush->path->qp == NULL) {
        wring_error(&flusher->verbs->log, "no queue pair for flushes on %s: %s",
                    rail->choice.device, strerror(errno));
        return false;
    }
    if (wring_verbs_path_connect_self(flush->path, why, sizeof(why)) == WRING_OK)
        return true;
    wring_error(&flusher->verbs->log, "%s", why);
    return false;
}

void wring_verbs_flusher_destroy(struct verbs_flusher *flusher)
{
    if (flusher == NULL)
        return;
    const struct verbs_library *library = &flusher->verbs->library;
    for (unsigned i = 0; i < flusher->verbs->n_rails; i++) {
        struct flush_rail *flush = &flusher->rails[i];
        if (flush->path != NULL && flush->path->qp != NULL)
            library->destroy_qp(flush->path->qp);
        if (flush->cq != NULL)
            library->destroy_cq(flush->cq);
        free(flush->path);
    }
    wring_verbs_unpin(flusher->verbs->memory, flusher->pin);
    free(flusher->words);
    free(flusher);
}

static enum wring_status open_words(struct verbs_flusher *flusher)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    flusher->words = aligned_alloc(page, page);
    if (flusher->words == NULL)
        return WRING_ERR_NO_MEMORY;
    memset(flusher->words, 0, page);
    const struct wring_memory memory = {
        .base = flusher->words, .bytes = page, .kind = WRING_MEMORY_HOST, .fd = -1};
    return wring_verbs_pin(flusher->verbs->memory, &memory, VERBS_PIN_WORDS, &flusher->pin);
}

static enum wring_status flusher_create(struct verbs_provider *verbs, struct verbs_flusher **out)
{
    struct verbs_flusher *flusher = calloc(1, sizeof(*flusher));
    if (flusher == NULL)
        return WRING_ERR_NO_MEMORY;
    flusher->verbs = verbs;
    enum wring_status status = open_words(flusher);
    for (unsigned i = 0; i < verbs->n_rails && status == WRING_OK; i++)
        status = open_rail(flusher, i) ? WRING_OK : WRING_ERR_DEVICE;
    if (status != WRING_OK) {
        wring_verbs_flusher_destroy(flusher);
        return status;
    }
    *out = flusher;
    return WRING_OK;
}

/** Log what failed, once. */
static enum wring_status flush_failed(struct verbs_flusher *flusher, unsigned rail,
                                      const char *what)
{
    if (!flusher->failed)
        wring_error(&flusher->verbs->log,
                    "a flush of device memory failed on %s port %u: %s; data that has come may "
                    "not be visible there",
                    flusher->verbs->rails[rail].choice.device,
                    flusher->verbs->rails[rail].choice.port, what);
    flusher->failed = true;
    return WRING_ERR_DEVICE;
}

static enum wring_status take_ends(struct verbs_flusher *flusher, unsigned rail)
{
    struct ibv_wc wcs[16];
    int n;

    do {
        n = ibv_poll_cq(flusher->rails[rail].cq, 16, wcs);
        for (int i = 0; i < n; i++) {
            if (wcs[i].status != IBV_WC_SUCCESS)
                return flush_failed(flusher, rail,
                                    flusher->verbs->library.wc_status_str(wcs[i].status));
            flusher->rails[rail].ended = wcs[i].wr_id;
        }
    } while (n == 16);
    return n < 0 ? flush_failed(flusher, rail, "its completion queue failed") : WRING_OK;
}

/** The number of flushes that all rails have ended. */
static enum wring_status look(struct verbs_flusher *flusher, uint64_t *ended)
{
    *ended = flusher->begun;
    for (unsigned i = 0; i < flusher->verbs->n_rails; i++) {
        enum wring_status status = take_ends(flusher, i);
        if (status != WRING_OK)
            return status;
        if (flusher->rails[i].ended < *ended)
            *ended = flusher->rails[i].ended;
    }
    return WRING_OK;
}

static enum wring_status begin(struct verbs_flusher *flusher, const struct wring_region *region,
                               const void *at)
{
    uint64_t number = ++flusher->begun;

    for (unsigned i = 0; i < flusher->verbs->n_rails; i++) {
        struct ibv_sge piece = {(uintptr_t)at, 1, wring_verbs_lkey(region, i)};
        struct ibv_send_wr request = {
            .wr_id = number,
            .sg_list = &piece,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = (uintptr_t)&flusher->words[i],
                        .rkey = flusher->pin->mrs[i]->rkey},
        };
        struct ibv_send_wr *bad;
        int error = ibv_post_send(flusher->rails[i].path->qp, &request, &bad);
        if (error != 0)
            return flush_failed(flusher, i, strerror(error));
    }
    return WRING_OK;
}

enum wring_status wring_verbs_region_flush(struct wring_region *region, const void *at,
                                           uint64_t *ticket)
{
    struct verbs_provider *verbs = (struct verbs_provider *)region->provider;
    size_t offset = (size_t)((uintptr_t)at - (uintptr_t)region->base);
    uint64_t ended;

    if (offset >= region->bytes)
        return WRING_ERR_INVALID;
    enum wring_status status =
        verbs->flusher != NULL ? WRING_OK : flusher_create(verbs, &verbs->flusher);
    if (status == WRING_OK)
        status = verbs->flusher->failed ? WRING_ERR_DEVICE : look(verbs->flusher, &ended);
    if (status != WRING_OK)
        return status;
    if (*ticket != 0)
        return ended >= *ticket ? WRING_OK : WRING_ERR_AGAIN;
    if (verbs->flusher->begun - ended == FLUSHES)
        return WRING_ERR_AGAIN;
    status = begin(verbs->flusher, region, at);
    if (status != WRING_OK)
        return status;
    *ticket = verbs->flusher->begun;
    return WRING_ERR_AGAIN;
}
