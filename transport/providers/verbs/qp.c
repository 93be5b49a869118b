/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define RECEIVE_CHAIN 32 /* receives posted under one doorbell, where nothing presses */
#define RECEIVES_AT_ONCE 64
#define RNR_TIMER 12 /* 0.64 ms; credits see to it that no peer has to wait for a receive */
#define HOPS 64

static enum ibv_mtu mtu_code(uint32_t bytes)
{
    unsigned code = IBV_MTU_256;
    while (code < IBV_MTU_4096 && 128u << code < bytes)
        code++;
    return (enum ibv_mtu)code;
}

static int move_qp_to_init(struct verbs_path *path)
{
    const struct verbs_choice *choice = &path->rail->choice;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = choice->pkey_index,
                               .port_num = choice->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return path->rail->provider->library.modify_qp(
        path->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void fill_card(struct verbs_path *path)
{
    const struct verbs_choice *choice = &path->rail->choice;
    const struct verbs_conn *conn = path->conn;
    uint32_t psn = 0;
    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
        psn = 0;
    path->card = (struct verbs_card){
        .qpn = path->qp->qp_num,
        .psn = psn & 0xffffff,
        .lid = choice->lid,
        .mtu = (uint8_t)mtu_code(path->mtu),
        .credit_address = (uintptr_t)conn->buffers->credits,
        .credit_rkey = conn->pin->mrs[path->rail->index]->rkey,
    };
    memcpy(path->card.gid, choice->gid.bytes, sizeof(path->card.gid));
}

/** Inline data is a wish that a device may refuse. */
static bool make_qp(struct verbs_path *path)
{
    const struct verbs_rail *rail = path->rail;
    const struct verbs_settings *settings = &rail->provider->settings;
    struct ibv_qp_init_attr init = {
        .qp_context = &path->news,
        .cap = {VERBS_REQUESTS, VERBS_RECEIVES, 1, 1,
                rail->inline_works ? settings->inline_bytes : 0},
        .qp_type = IBV_QPT_RC,
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
    };
    bool made = rail->api->make_qp(path, &init);
    if (!made && init.cap.max_inline_data > 0) {
        init.cap.max_inline_data = 0;
        made = rail->api->make_qp(path, &init);
    }
    uint32_t granted = rail->inline_works ? init.cap.max_inline_data : 0;
    path->inline_bytes = granted < settings->inline_bytes ? granted : settings->inline_bytes;
    return made;
}

static void fill_receive_request(const struct verbs_path *path, uint32_t position,
                                 struct ibv_recv_wr *to, struct ibv_sge *piece)
{
    const struct verbs_conn *conn = path->conn;
    uint8_t *slot = conn->buffers->receives[path->index][position % VERBS_RECEIVES];
    *piece =
        (struct ibv_sge){(uintptr_t)slot, WRING_SEND_MAX, conn->pin->mrs[path->rail->index]->lkey};
    *to = (struct ibv_recv_wr){.wr_id = path->id | VERBS_RECEIVE_ID | position,
                               .next = to + 1,
                               .sg_list = piece,
                               .num_sge = 1};
}

static int post_receives(struct verbs_path *path, uint32_t n)
{
    struct ibv_recv_wr requests[RECEIVES_AT_ONCE], *bad;
    struct ibv_sge pieces[RECEIVES_AT_ONCE];
    struct wring_verbs_counters *counters = &path->rail->provider->counters;
    for (uint32_t i = 0; i < n; i++)
        fill_receive_request(path, path->receives + i, &requests[i], &pieces[i]);
    requests[n - 1].next = NULL;
    int error = ibv_post_recv(path->qp, requests, &bad);
    if (error != 0)
        return error;
    path->receives += n;
    __atomic_store_n(&path->conn->buffers->posted[path->index], path->receives, __ATOMIC_RELAXED);
    counters->receives += n;
    counters->receive_doorbells++;
    return 0;
}

static int top_up_receives(struct verbs_path *path, uint32_t least)
{
    uint32_t missing = path->surfaced + VERBS_RECEIVES - path->receives;
    int error = 0;
    while (error == 0 && missing >= least && missing > 0) {
        uint32_t n = missing < RECEIVES_AT_ONCE ? missing : RECEIVES_AT_ONCE;
        error = post_receives(path, n);
        missing -= n;
    }
    return error;
}

int wring_verbs_path_post_receives(struct verbs_path *path)
{
    return top_up_receives(path, RECEIVE_CHAIN);
}

static bool set_up_queue_pair(struct verbs_path *path)
{
    int error = 0;
    if (!make_qp(path))
        return false;
    error = move_qp_to_init(path);
    if (error == 0)
        error = top_up_receives(path, 1);
    if (error != 0)
        errno = error;
    path->again.made_ns = wring_now_ns();
    path->told = path->credits = VERBS_RECEIVES; /* both sides begin with all of them */
    return error == 0;
}

static void log_no_queue_pair(const struct verbs_path *path)
{
    wring_error(&path->rail->provider->log, "no queue pair on %s: %s%s", path->rail->choice.device,
                strerror(errno), errno == ENOMEM ? " (locked memory: see ulimit -l)" : "");
}

enum wring_status wring_verbs_path_create(struct verbs_conn *conn, unsigned index,
                                          struct verbs_rail *rail, unsigned peer_rail, uint32_t mtu)
{
    struct verbs_path *path = calloc(1, sizeof(*path));
    if (path == NULL)
        return WRING_ERR_NO_MEMORY;
    path->conn = conn;
    path->rail = rail;
    path->index = index;
    path->state = VERBS_PATH_WORKS;
    path->news.seat = &rail->seat;
    path->peer_rail = peer_rail;
    path->mtu = mtu;
    enum wring_status status = wring_verbs_rail_join(rail, path);
    if (status != WRING_OK) {
        free(path);
        return status;
    }
    conn->paths[index] = path;
    if (set_up_queue_pair(path)) {
        fill_card(path);
        return WRING_OK;
    }
    log_no_queue_pair(path);
    wring_verbs_path_destroy(path);
    conn->paths[index] = NULL;
    return WRING_ERR_DEVICE;
}

void wring_verbs_path_destroy(struct verbs_path *path)
{
    if (path == NULL)
        return;
    struct verbs_rail *rail = path->rail;
    if (path->qp != NULL)
        rail->provider->library.destroy_qp(path->qp);
    wring_verbs_rail_leave(rail, path);
    free(path);
}

enum wring_status wring_verbs_path_renew(struct verbs_path *path)
{
    struct verbs_rail *rail = path->rail;
    struct verbs_buffers *buffers = path->conn->buffers;
    if (path->qp != NULL)
        rail->provider->library.destroy_qp(path->qp);
    path->qp = NULL;
    path->qp_ex = NULL;
    path->news.failure = 0; /* of the old one, whose events are all acknowledged */
    wring_verbs_rail_leave(rail, path);
    wring_verbs_rail_empty(rail);
    path->head = path->posted = path->tail = path->unsignalled = path->sent = 0;
    path->unsignalled_bytes = 0;
    path->receives = path->taken = path->surfaced = 0;
    buffers->credits[path->index] = buffers->posted[path->index] = 0;
    enum wring_status status = wring_verbs_rail_join(rail, path);
    if (status != WRING_OK)
        return status;
    if (!set_up_queue_pair(path)) {
        log_no_queue_pair(path);
        return WRING_ERR_DEVICE;
    }
    fill_card(path);
    return WRING_OK;
}

void wring_verbs_path_stop(struct verbs_path *path)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (path->qp == NULL)
        return;
    path->rail->provider->library.modify_qp(path->qp, &attr, IBV_QP_STATE);
    path->stopped_look = path->rail->looks;
}

static int move_qp_to_rtr(struct verbs_path *path)
{
    const struct verbs_choice *choice = &path->rail->choice;
    const struct verbs_settings *settings = &path->rail->provider->settings;
    enum ibv_mtu mtu = mtu_code(path->mtu);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = path->peer.mtu < mtu ? (enum ibv_mtu)path->peer.mtu : mtu,
        .dest_qp_num = path->peer.qpn,
        .rq_psn = path->peer.psn,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = {.dlid = path->peer.lid, .sl = settings->sl, .port_num = choice->port},
    };
    if (choice->link == VERBS_LINK_ROCE) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, path->peer.gid, sizeof(path->peer.gid));
        attr.ah_attr.grh.sgid_index = (uint8_t)choice->gid.index;
        attr.ah_attr.grh.hop_limit = HOPS;
        attr.ah_attr.grh.traffic_class = settings->tc;
    }
    return path->rail->provider->library.modify_qp(
        path->qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int move_qp_to_rts(struct verbs_path *path)
{
    const struct verbs_settings *settings = &path->rail->provider->settings;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = path->card.psn,
        .timeout = settings->timeout,
        .retry_cnt = settings->retries,
        .rnr_retry = settings->rnr_retries,
    };
    return path->rail->provider->library.modify_qp(path->qp, &attr,
                                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                       IBV_QP_MAX_QP_RD_ATOMIC);
}

void wring_verbs_path_text(const struct verbs_path *path, char *text, size_t bytes)
{
    char from[VERBS_GID_TEXT], to[VERBS_GID_TEXT];
    snprintf(text, bytes, "%s port %u queue pair %u to %u, GID %s to %s", path->rail->choice.device,
             path->rail->choice.port, path->qp != NULL ? path->qp->qp_num : 0, path->peer.qpn,
             wring_verbs_gid_text(path->card.gid, from), wring_verbs_gid_text(path->peer.gid, to));
}

enum wring_status wring_verbs_path_connect(struct verbs_path *path, char *why, size_t bytes)
{
    char text[VERBS_TEXT / 2];
    int error = move_qp_to_rtr(path);
    if (error == 0)
        error = move_qp_to_rts(path);
    if (error == 0)
        return WRING_OK;
    wring_verbs_path_text(path, text, sizeof(text));
    snprintf(why, bytes, "%s cannot be connected: %s", text, strerror(error));
    return WRING_ERR_DEVICE;
}

/** Connect a new queue pair to itself. Of the path, rail, mtu and qp are set.
 * @param why  out, [bytes], on failure */
static enum wring_status path_connect_self(struct verbs_path *path, char *why, size_t bytes)
{
    const struct verbs_choice *choice = &path->rail->choice;

    path->card = (struct verbs_card){
        .qpn = path->qp->qp_num, .lid = choice->lid, .mtu = (uint8_t)mtu_code(path->mtu)};
    memcpy(path->card.gid, choice->gid.bytes, sizeof(path->card.gid));
    path->peer = path->card;
    int error = move_qp_to_init(path);
    if (error == 0)
        return wring_verbs_path_connect(path, why, bytes);
    snprintf(why, bytes, "a queue pair on %s cannot be set up: %s", choice->device,
             strerror(error));
    return WRING_ERR_DEVICE;
}

/* ---- flushes ---- */

/*
 * What peers have written into device memory becomes visible to that device.
 *
 * An adapter's writes to the memory of another PCI device may still be on their way when it tells
 * the processor, through memory of the host, that they are done. A read of that device by the
 * same adapter does not overtake them. So each rail has a queue pair that is connected to itself,
 * and writes one byte out of the device's memory to a word of ours: the adapter has to read it
 * there. Unlike an RDMA read, that needs no key by which peers could read the memory, too.
 *
 * Source: the ordering rules of PCI Express (a read request does not pass posted writes).
 */

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

static bool open_flush_rail(struct verbs_flusher *flusher, unsigned index)
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
    flush->cq = library->create_cq(rail->context, FLUSHES, &rail->seat, NULL, 0);
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
    if (path_connect_self(flush->path, why, sizeof(why)) == WRING_OK)
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

static enum wring_status make_flush_words(struct verbs_flusher *flusher)
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
    enum wring_status status = make_flush_words(flusher);
    for (unsigned i = 0; i < verbs->n_rails && status == WRING_OK; i++)
        status = open_flush_rail(flusher, i) ? WRING_OK : WRING_ERR_DEVICE;
    if (status != WRING_OK) {
        wring_verbs_flusher_destroy(flusher);
        return status;
    }
    *out = flusher;
    return WRING_OK;
}

/** Log what failed, once. */
static enum wring_status fail_flusher(struct verbs_flusher *flusher, unsigned rail,
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

static enum wring_status poll_rail_ends(struct verbs_flusher *flusher, unsigned rail)
{
    struct ibv_wc wcs[16];
    int n;

    do {
        n = ibv_poll_cq(flusher->rails[rail].cq, 16, wcs);
        for (int i = 0; i < n; i++) {
            if (wcs[i].status != IBV_WC_SUCCESS)
                return fail_flusher(flusher, rail,
                                    flusher->verbs->library.wc_status_str(wcs[i].status));
            flusher->rails[rail].ended = wcs[i].wr_id;
        }
    } while (n == 16);
    return n < 0 ? fail_flusher(flusher, rail, "its completion queue failed") : WRING_OK;
}

/** The number of flushes that all rails have ended. */
static enum wring_status poll_flush_ends(struct verbs_flusher *flusher, uint64_t *ended)
{
    *ended = flusher->begun;
    for (unsigned i = 0; i < flusher->verbs->n_rails; i++) {
        enum wring_status status = poll_rail_ends(flusher, i);
        if (status != WRING_OK)
            return status;
        if (flusher->rails[i].ended < *ended)
            *ended = flusher->rails[i].ended;
    }
    return WRING_OK;
}

static enum wring_status begin_flush(struct verbs_flusher *flusher,
                                     const struct wring_region *region, const void *at)
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
            return fail_flusher(flusher, i, strerror(error));
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
        status =
            verbs->flusher->failed ? WRING_ERR_DEVICE : poll_flush_ends(verbs->flusher, &ended);
    if (status != WRING_OK)
        return status;
    if (*ticket != 0)
        return ended >= *ticket ? WRING_OK : WRING_ERR_AGAIN;
    if (verbs->flusher->begun - ended == FLUSHES)
        return WRING_ERR_AGAIN;
    status = begin_flush(verbs->flusher, region, at);
    if (status != WRING_OK)
        return status;
    *ticket = verbs->flusher->begun;
    return WRING_ERR_AGAIN;
}
