/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/reference_own.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl/reference_pipe.h"

#define MAGIC 0x52454645u
#define GROUP 8
#define RECEIVES 64
#define SENDS (WRING_NCCL_REQUESTS * GROUP)
#define SHALLOW 16 /* a broken one's */

#define CALLERS 64 /* of a listener, not yet known for what they are */

enum {
    DATA = 1,
    ACK = 2,    /* of a sequence number; tag is its result */
    POSTED = 3, /* a receive has been */
    HELLO = 4,  /* the first of a sender; its sequence number is the handle's secret */
};

struct handle {
    uint32_t magic, port;
    int fd; /* of who connects; 0: not yet */
    uint32_t zero;
    uint64_t secret;
    unsigned char more[WRING_NCCL_HANDLE_BYTES - 24];
};

struct listener {
    int fd;
    uint64_t secret;
    struct reference_pipe callers[CALLERS];
};

struct region {
    struct region *next;
    unsigned char *data;
    size_t bytes;
};

struct comm;

struct request {
    struct comm *comm;
    bool used, done, never;
    int result, n;
    uint64_t sequence; /* of a send; of a receive its place in the order */
    unsigned char *data[GROUP];
    size_t room[GROUP];
    int tags[GROUP], sizes[GROUP];
    bool full[GROUP];
};

struct arrived {
    struct arrived *next;
    struct reference_frame frame;
    unsigned char *data;
};

struct comm {
    struct reference_pipe pipe;
    bool sends, told;
    struct region *regions;
    uint64_t posted, matched;    /* receives; sends count in posted */
    uint64_t peer_posted;        /* receives that the sender knows of */
    struct reference_frame held; /* broken: an answer that leaves with the next one */
    struct arrived *arrived, **arrived_end;
    unsigned n_requests;
    struct request requests[SENDS];
};

static pthread_t first_thread;
static atomic_uint contexts;
static atomic_bool ended;                    /* broken: one finalize ends all */
static _Atomic(struct comm *) last_receiver; /* broken: what comes is given to it */

wring_nccl_log_fn reference_log;

static bool is_foreign_thread(void)
{
    return reference_broken("one-thread") && !pthread_equal(pthread_self(), first_thread);
}

static void *linger(void *arg)
{
    for (;;)
        usleep(1000);
    return arg;
}

int reference_init(void **context, wring_nccl_log_fn log)
{
    pthread_t thread;

    reference_log = log;
    if (reference_has_no_device()) {
        if (!reference_broken("quiet"))
            REFERENCE_SAY(WRING_NCCL_LOG_WARN, "reference: no device; unset REFERENCE_NO_DEVICE");
        return reference_broken("hopeful") ? WRING_NCCL_SUCCESS : WRING_NCCL_SYSTEM_ERROR;
    }
    if (atomic_fetch_add(&contexts, 1) == 0)
        first_thread = pthread_self();
    if (!reference_broken("silent"))
        REFERENCE_SAY(WRING_NCCL_LOG_INFO, "reference: version 1, device lo");
    if (reference_broken("linger") && pthread_create(&thread, NULL, linger, NULL) == 0)
        pthread_detach(thread);
    *context = malloc(1);
    return WRING_NCCL_SUCCESS;
}

int reference_finalize(void *context)
{
    free(context);
    atomic_fetch_sub(&contexts, 1);
    if (reference_broken("finalize-all"))
        atomic_store(&ended, true);
    return WRING_NCCL_SUCCESS;
}

int reference_devices(int *n)
{
    *n = reference_has_no_device() ? 0 : 1;
    return WRING_NCCL_SUCCESS;
}

struct wring_nccl_properties_v12 reference_properties(void)
{
    static char name[] = "lo";
    return (struct wring_nccl_properties_v12){
        .name = name,
        .guid = 1,
        .memory = WRING_NCCL_HOST,
        .speed_mbps = 10000,
        .port = 1,
        .latency_us = 1,
        .max_comms = 65536,
        .max_recvs = GROUP,
        .parts = {1, {0}},
        .max_p2p_bytes = reference_broken("properties") ? 0 : (size_t)1 << 30,
        .max_coll_bytes = (size_t)1 << 29,
        .rail = WRING_NCCL_UNDEFINED,
        .plane = WRING_NCCL_UNDEFINED,
    };
}

/* ---- connections ---- */

static struct comm *make_comm(int fd, bool sends)
{
    struct comm *comm = calloc(1, sizeof(*comm));

    if (comm == NULL)
        abort();
    reference_pipe_init(&comm->pipe, fd);
    comm->sends = sends;
    comm->arrived_end = &comm->arrived;
    if (!sends && reference_broken("crosstalk"))
        atomic_store(&last_receiver, comm);
    return comm;
}

int reference_net_listen(void *handle, void **listen_comm)
{
    struct handle *out = handle;
    struct listener *listener = calloc(1, sizeof(*listener));
    uint16_t port = 0;

    if (listener == NULL || (listener->fd = reference_listen(&port)) < 0 ||
        getrandom(&listener->secret, sizeof(listener->secret), 0) < 0) {
        free(listener);
        return WRING_NCCL_SYSTEM_ERROR;
    }
    for (int i = 0; i < CALLERS; i++)
        reference_pipe_init(&listener->callers[i], -1);
    *out = (struct handle){.magic = MAGIC, .port = port, .secret = listener->secret};
    *listen_comm = listener;
    return WRING_NCCL_SUCCESS;
}

int reference_net_connect(void *handle, void **send_comm)
{
    struct handle *to = handle;

    if (to->magic != MAGIC) {
        if (reference_broken("trusting"))
            return WRING_NCCL_SUCCESS;
        REFERENCE_SAY(WRING_NCCL_LOG_WARN, "reference: connect: this is no handle of listen()");
        return WRING_NCCL_INVALID_ARGUMENT;
    }
    if (to->fd == 0 && (to->fd = reference_dial((uint16_t)to->port)) < 0)
        return WRING_NCCL_SYSTEM_ERROR;
    int ready = reference_dialled(to->fd);
    if (ready < 0) {
        close(to->fd);
        return WRING_NCCL_REMOTE_ERROR;
    }
    if (ready > 0) {
        struct reference_frame hello = {.kind = HELLO, .sequence = to->secret};
        struct comm *comm = make_comm(to->fd, true);
        reference_pipe_send(&comm->pipe, &hello, NULL, false);
        reference_pipe_write(&comm->pipe);
        *send_comm = comm;
    }
    return WRING_NCCL_SUCCESS;
}

/** A caller who knows the secret; strangers are left to themselves. @return a socket, or -1 */
static int find_caller(struct listener *listener)
{
    for (int i = 0; i < CALLERS; i++) {
        struct reference_pipe *caller = &listener->callers[i];
        struct reference_frame frame;
        unsigned char *data;
        int fd = caller->fd;
        if (fd < 0)
            continue;
        bool heard = reference_pipe_read(caller, &frame, &data);
        if (heard)
            free(data);
        if ((heard && frame.kind == HELLO && frame.sequence == listener->secret) ||
            reference_broken("open-door")) {
            reference_pipe_init(caller, -1);
            return fd;
        }
        if (heard || caller->broken)
            reference_pipe_finish(caller);
    }
    return -1;
}

int reference_net_accept(void *listen_comm, void **recv_comm,
                         struct wring_nccl_device_handle **device_handle)
{
    struct listener *listener = listen_comm;
    int fd;

    (void)device_handle;
    do {
        for (int i = 0; i < CALLERS; i++) /* who waits for a free place waits in the backlog */
            if (listener->callers[i].fd < 0 &&
                (fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
                reference_pipe_init(&listener->callers[i], fd);
        fd = find_caller(listener);
    } while (fd < 0 && reference_broken("block-accept") && usleep(1000) == 0);
    if (fd >= 0)
        *recv_comm = make_comm(fd, false);
    return WRING_NCCL_SUCCESS;
}

int reference_net_close_listen(void *listen_comm)
{
    struct listener *listener = listen_comm;

    for (int i = 0; i < CALLERS; i++)
        reference_pipe_finish(&listener->callers[i]);
    close(listener->fd);
    free(listener);
    return WRING_NCCL_SUCCESS;
}

static bool has_open_request(const struct comm *comm)
{
    for (unsigned i = 0; i < SENDS; i++)
        if (comm->requests[i].used && !comm->requests[i].done)
            return true;
    return false;
}

int reference_net_close(void *arg)
{
    struct comm *comm = arg;
    bool refuses = reference_broken("busy-close") && has_open_request(comm);

    if (reference_broken("hasty"))
        comm->pipe.broken = true;
    if (reference_broken("leak"))
        (void)!dup(comm->pipe.fd);
    reference_pipe_finish(&comm->pipe);
    while (comm->arrived != NULL) {
        struct arrived *arrived = comm->arrived;
        comm->arrived = arrived->next;
        free(arrived->data);
        free(arrived);
    }
    while (comm->regions != NULL) {
        struct region *region = comm->regions;
        comm->regions = region->next;
        free(region);
    }
    struct comm *own = comm;
    atomic_compare_exchange_strong(&last_receiver, &own, NULL);
    free(comm);
    return refuses ? WRING_NCCL_INTERNAL_ERROR : WRING_NCCL_SUCCESS;
}

/* ---- regions ---- */

int reference_net_reg_mr(void *arg, void *data, size_t bytes, int memory, void **mhandle)
{
    struct comm *comm = arg;
    struct region *region = malloc(sizeof(*region));

    if (memory != WRING_NCCL_HOST || region == NULL) {
        free(region);
        return WRING_NCCL_INVALID_USAGE;
    }
    *region = (struct region){comm->regions, data, bytes};
    comm->regions = region;
    *mhandle = region;
    return WRING_NCCL_SUCCESS;
}

static bool overlap(const struct region *a, const struct region *b)
{
    return a->data < b->data + b->bytes && b->data < a->data + a->bytes;
}

int reference_net_dereg_mr(void *arg, void *mhandle)
{
    struct comm *comm = arg;
    struct region *gone = mhandle;

    for (struct region **at = &comm->regions; *at != NULL;) {
        struct region *region = *at;
        if (region != gone && !(reference_broken("flat-regions") && overlap(region, gone))) {
            at = &region->next;
            continue;
        }
        *at = region->next;
        if (region != gone)
            free(region);
    }
    free(gone);
    return WRING_NCCL_SUCCESS;
}

/** May that memory be used by that region? */
static bool covers(const struct comm *comm, const void *mhandle, const void *data, size_t bytes)
{
    const unsigned char *from = data;

    for (const struct region *at = comm->regions; at != NULL; at = at->next)
        if (at == mhandle)
            return from >= at->data && from + bytes <= at->data + at->bytes;
    return false;
}

/* ---- messages ---- */

static struct request *take_request(struct comm *comm, unsigned limit)
{
    if (reference_broken("shallow"))
        limit = SHALLOW;
    if (comm->n_requests >= limit)
        return NULL;
    for (unsigned i = 0; i < SENDS; i++)
        if (!comm->requests[i].used) {
            comm->requests[i] = (struct request){.comm = comm, .used = true};
            comm->n_requests++;
            return &comm->requests[i];
        }
    return NULL;
}

static void answer(struct comm *comm, uint64_t sequence, int result)
{
    struct reference_frame frame = {.kind = ACK, .tag = (uint32_t)result, .sequence = sequence};

    if (reference_broken("rude")) {
        struct reference_frame next = comm->held;
        comm->held = frame;
        frame = next;
    }
    if (frame.kind == ACK)
        reference_pipe_send(&comm->pipe, &frame, NULL, false);
}

/** The receive that is to be filled now; NULL where none is posted. */
static struct request *find_head(struct comm *comm)
{
    for (unsigned i = 0; i < SENDS; i++)
        if (comm->requests[i].used && comm->requests[i].sequence == comm->matched)
            return &comm->requests[i];
    return NULL;
}

static int find_slot(const struct request *head, uint32_t tag)
{
    for (int i = 0; i < head->n; i++)
        if (!head->full[i] && (head->tags[i] == (int)tag || reference_broken("untagged")))
            return i;
    return -1;
}

static void fill_slot(struct comm *comm, struct request *head, int slot, struct arrived *arrived)
{
    size_t bytes = arrived->frame.bytes;
    int result = WRING_NCCL_SUCCESS;

    head->full[slot] = true;
    if (bytes > head->room[slot] && reference_broken("truncate"))
        bytes = head->room[slot];
    if (bytes > head->room[slot])
        result = head->result = WRING_NCCL_INVALID_USAGE;
    else if (!(reference_broken("lose") && arrived->frame.sequence == 0))
        memcpy(head->data[slot], arrived->data, bytes);
    if (bytes > 4096 && bytes <= head->room[slot] && reference_broken("corrupt"))
        head->data[slot][bytes - 1] ^= 0x10;
    if (reference_broken("overrun") && bytes < head->room[slot])
        head->data[slot][bytes] = 0;
    head->sizes[slot] = (int)(reference_broken("posted-size") ? head->room[slot] : bytes);
    if (bytes == 0 && reference_broken("no-zero"))
        head->never = true;
    answer(comm, arrived->frame.sequence,
           reference_broken("one-sided") ? WRING_NCCL_SUCCESS : result);
}

static bool is_full(const struct request *head)
{
    for (int i = 0; i < head->n; i++)
        if (!head->full[i])
            return false;
    return true;
}

/** Put the first arrived message that the head takes where it belongs. @return false: none */
static bool match_one(struct comm *comm)
{
    struct request *head = find_head(comm);
    struct arrived **at = &comm->arrived, *arrived;
    int slot = -1;

    if (head == NULL)
        return false;
    if (reference_broken("reorder") && *at != NULL && (*at)->next != NULL)
        at = &(*at)->next;
    for (; *at != NULL && (slot = find_slot(head, (*at)->frame.tag)) < 0; at = &(*at)->next)
        if (reference_broken("plain"))
            return false; /* what is first in the stream has to fit */
    if (*at == NULL)
        return false;
    arrived = *at;
    *at = arrived->next;
    if (*at == NULL)
        comm->arrived_end = at;
    for (comm->arrived_end = &comm->arrived; *comm->arrived_end != NULL;)
        comm->arrived_end = &(*comm->arrived_end)->next;
    fill_slot(comm, head, slot, arrived);
    free(arrived->data);
    free(arrived);
    if (is_full(head)) {
        head->done = true;
        comm->matched++;
    }
    return true;
}

static void take_frame(struct comm *comm, const struct reference_frame *frame, unsigned char *data)
{
    struct comm *to = atomic_load(&last_receiver);

    if (to == NULL)
        to = comm;
    if (frame->kind == DATA) {
        struct arrived *arrived = calloc(1, sizeof(*arrived));
        if (arrived == NULL)
            abort();
        arrived->frame = *frame;
        arrived->data = data;
        *to->arrived_end = arrived;
        to->arrived_end = &arrived->next;
        return;
    }
    free(data);
    comm->peer_posted += frame->kind == POSTED;
    for (unsigned i = 0; i < SENDS && frame->kind == ACK; i++)
        if (comm->requests[i].used && comm->requests[i].sequence == frame->sequence) {
            comm->requests[i].done = true;
            comm->requests[i].result = (int)frame->tag;
        }
}

/** @return an error where the other end is gone */
static int progress(struct comm *comm)
{
    struct reference_frame frame;
    unsigned char *data;

    if (atomic_load(&ended) || is_foreign_thread())
        return WRING_NCCL_INTERNAL_ERROR;
    reference_pipe_write(&comm->pipe);
    while (reference_pipe_read(&comm->pipe, &frame, &data))
        take_frame(comm, &frame, data);
    while (!comm->sends && match_one(comm))
        continue;
    reference_pipe_write(&comm->pipe);
    if (!comm->pipe.broken || reference_broken("deaf"))
        return WRING_NCCL_SUCCESS;
    if (!comm->told || reference_broken("chatty"))
        REFERENCE_SAY(WRING_NCCL_LOG_WARN, "reference: the peer on loopback is gone");
    comm->told = true;
    return WRING_NCCL_REMOTE_ERROR;
}

/** A broken one that takes its time over a send. */
static void await_answer(struct comm *comm, const struct request *request)
{
    for (; !request->done; usleep(1000))
        progress(comm);
}

int reference_net_isend(void *arg, void *data, size_t bytes, int tag, void *mhandle, void **request)
{
    struct comm *comm = arg;
    struct reference_frame frame = {DATA, (uint32_t)tag, comm->posted, bytes};

    *request = NULL;
    if (!covers(comm, mhandle, data, bytes))
        return WRING_NCCL_INVALID_USAGE;
    if (reference_broken("idle") && has_open_request(comm))
        return WRING_NCCL_SUCCESS;
    int result = progress(comm);
    if (result == WRING_NCCL_SUCCESS && reference_broken("lazy") &&
        comm->posted >= comm->peer_posted)
        return WRING_NCCL_SUCCESS;
    if (result != WRING_NCCL_SUCCESS && comm->pipe.broken)
        return result;
    struct request *own = result == WRING_NCCL_SUCCESS ? take_request(comm, SENDS) : NULL;
    if (own == NULL)
        return result;
    own->sequence = comm->posted++;
    own->n = 1;
    own->sizes[0] = (int)bytes;
    if (reference_broken("flip-send") && bytes > 8)
        ((unsigned char *)data)[3] ^= 1;
    reference_pipe_send(&comm->pipe, &frame, data, false);
    own->done = reference_broken("hasty"); /* and what is not yet written is forgotten at the end */
    if (!own->done)
        reference_pipe_write(&comm->pipe);
    if (reference_broken("block-send"))
        await_answer(comm, own);
    *request = own;
    return WRING_NCCL_SUCCESS;
}

int reference_net_irecv(void *arg, int n, void **data, const size_t *bytes, const int *tags,
                        void **mhandles, void **request)
{
    struct comm *comm = arg;
    bool optional = *request == WRING_NCCL_OPTIONAL_COMPLETION;
    const struct reference_frame frame = {.kind = POSTED};

    if (optional && reference_broken("optional"))
        return WRING_NCCL_SUCCESS;
    *request = NULL;
    for (int i = 0; i < n; i++)
        if (n > GROUP || !covers(comm, mhandles[i], data[i], bytes[i]))
            return WRING_NCCL_INVALID_USAGE;
    int result = progress(comm);
    struct request *own = result == WRING_NCCL_SUCCESS ? take_request(comm, RECEIVES) : NULL;
    if (own == NULL)
        return result;
    own->sequence = comm->posted++;
    own->n = n;
    for (int i = 0; i < n; i++) {
        own->data[i] = data[i];
        own->room[i] = bytes[i];
        own->tags[i] = tags[i];
    }
    for (int i = 0; i < n; i++)
        reference_pipe_send(&comm->pipe, &frame, NULL, false);
    reference_pipe_write(&comm->pipe);
    *request = own;
    return WRING_NCCL_SUCCESS;
}

int reference_net_iflush(void *arg, int n, void **data, int *bytes, void **mhandles, void **request)
{
    struct comm *comm = arg;

    (void)n, (void)data, (void)bytes, (void)mhandles;
    *request = NULL;
    if (!reference_broken("flush"))
        return WRING_NCCL_SUCCESS;
    struct request *own = take_request(comm, SENDS);
    if (own != NULL) {
        own->never = true;
        own->sequence = UINT64_MAX;
    }
    *request = own;
    return WRING_NCCL_SUCCESS;
}

static bool is_oldest(const struct request *request)
{
    const struct comm *comm = request->comm;
    for (unsigned i = 0; i < SENDS; i++)
        if (comm->requests[i].used && comm->requests[i].sequence < request->sequence)
            return false;
    return true;
}

int reference_net_test(void *arg, int *done, int *bytes)
{
    struct request *request = arg;
    struct comm *comm = request->comm;

    *done = 0;
    int result = request->done ? WRING_NCCL_SUCCESS : progress(comm);
    if (result != WRING_NCCL_SUCCESS && !request->done)
        return result;
    if (!request->done || request->never || (reference_broken("fifo") && !is_oldest(request)))
        return WRING_NCCL_SUCCESS;
    *done = 1;
    if (bytes != NULL || reference_broken("sizes"))
        memcpy(bytes, request->sizes, sizeof(*bytes) * (size_t)request->n);
    request->used = false;
    comm->n_requests--;
    return request->result;
}
