/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of the reference plugin: everyone's input goes to rank 0, which answers each. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/nccl/reference_own.h"
#include "tests/nccl/reference_pipe.h"

#define MAGIC 0x434F4C4Cu
#define RANKS 16
#define OPS 64 /* under way */
#define CALLERS 64
#define JOIN_NS (20 * WRING_NS_PER_S)

enum {
    INPUT = 1,
    RESULT = 2,
};

enum kind {
    ALLREDUCE,
    ALLGATHER,
    REDUCE_SCATTER,
};

struct handle {
    uint32_t magic, port;
    uint64_t secret;
    unsigned char more[WRING_NCCL_HANDLE_BYTES - 16];
};

struct listener {
    int fd;
    uint64_t secret;
};

struct op {
    struct coll *coll;
    bool used, done;
    enum kind kind;
    uint64_t sequence;
    void *out;
    size_t in_bytes, out_bytes, elems;
    size_t block, window, window_bytes;
    int dtype, op;
    unsigned char *inputs[RANKS]; /* at rank 0 */
    uint32_t n_inputs;
};

struct early { /* input of an operation that rank 0 has not called yet */
    struct early *next;
    uint32_t rank;
    uint64_t sequence;
    unsigned char *data;
};

struct coll {
    uint32_t rank, ranks;
    bool told;
    struct reference_pipe pipes[RANKS]; /* rank 0: to each; others: [0] to it */
    uint64_t sequence;
    struct op ops[OPS];
    struct early *early;
};

int reference_coll_listen(void *handle, void **listen_comm)
{
    struct handle *out = handle;
    struct listener *listener = malloc(sizeof(*listener));
    uint16_t port = 0;

    if (listener == NULL || (listener->fd = reference_listen(&port)) < 0 ||
        getrandom(&listener->secret, sizeof(listener->secret), 0) < 0)
        return WRING_NCCL_SYSTEM_ERROR;
    *out = (struct handle){.magic = MAGIC, .port = port, .secret = listener->secret};
    *listen_comm = listener;
    return WRING_NCCL_SUCCESS;
}

int reference_coll_close_listen(void *listen_comm)
{
    struct listener *listener = listen_comm;

    close(listener->fd);
    free(listener);
    return WRING_NCCL_SUCCESS;
}

/** Is that a rank? A stranger is let go, or heard later. */
static bool take_caller(struct coll *coll, const struct listener *listener,
                        struct reference_pipe *caller)
{
    struct reference_frame frame = {.sequence = 0};
    unsigned char *data = NULL;
    bool heard = reference_pipe_read(caller, &frame, &data);
    bool known = heard && frame.sequence == listener->secret && frame.tag > 0 &&
                 frame.tag < coll->ranks && coll->pipes[frame.tag].fd < 0;

    if (heard)
        free(data);
    for (uint32_t r = 1; !known && reference_broken("coll-open-door") && r < coll->ranks; r++)
        if (coll->pipes[r].fd < 0) {
            known = true;
            frame.tag = r;
        }
    if (known) {
        reference_pipe_init(&coll->pipes[frame.tag], caller->fd);
        reference_pipe_init(caller, -1);
    } else if (heard || caller->broken) {
        reference_pipe_finish(caller);
    }
    return known;
}

static bool gather_ranks(struct coll *coll, const struct listener *listener)
{
    uint64_t until_ns = wring_deadline_in(JOIN_NS);
    struct reference_pipe callers[CALLERS];
    uint32_t joined = 1;

    for (int i = 0; i < CALLERS; i++)
        reference_pipe_init(&callers[i], -1);
    while (joined < coll->ranks && wring_now_ns() < until_ns) {
        for (int i = 0; i < CALLERS && joined < coll->ranks; i++) {
            int fd = callers[i].fd < 0
                         ? accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
                         : -1;
            if (fd >= 0)
                reference_pipe_init(&callers[i], fd);
            if (callers[i].fd >= 0)
                joined += take_caller(coll, listener, &callers[i]);
        }
        usleep(100);
    }
    for (int i = 0; i < CALLERS; i++)
        reference_pipe_finish(&callers[i]);
    return joined == coll->ranks;
}

static bool join_root(struct coll *coll, const struct handle *root)
{
    uint64_t until_ns = wring_deadline_in(JOIN_NS);
    struct reference_frame hello = {.kind = INPUT, .tag = coll->rank, .sequence = root->secret};
    int fd = reference_dial((uint16_t)root->port), ready = 0;

    while (fd >= 0 && (ready = reference_dialled(fd)) == 0 && wring_now_ns() < until_ns)
        usleep(100);
    if (ready != 1)
        return false;
    reference_pipe_init(&coll->pipes[0], fd);
    reference_pipe_send(&coll->pipes[0], &hello, NULL, false);
    reference_pipe_write(&coll->pipes[0]);
    return true;
}

int reference_coll_connect(void *handles[], int ranks, int rank, void *listen_comm, void **comm)
{
    struct coll *coll = calloc(1, sizeof(*coll));
    struct listener *listener = listen_comm;
    const struct handle *root = handles[0];

    if (reference_broken("coll-none")) {
        free(coll);
        return WRING_NCCL_SUCCESS;
    }
    if (coll == NULL || ranks > RANKS || root->magic != MAGIC)
        return WRING_NCCL_INVALID_ARGUMENT;
    coll->rank = (uint32_t)rank;
    coll->ranks = (uint32_t)ranks;
    for (uint32_t i = 0; i < RANKS; i++)
        reference_pipe_init(&coll->pipes[i], -1);
    if (rank == 0 ? !gather_ranks(coll, listener) : !join_root(coll, root)) {
        reference_coll_close(coll);
        return WRING_NCCL_REMOTE_ERROR;
    }
    *comm = coll;
    return WRING_NCCL_SUCCESS;
}

int reference_coll_close(void *arg)
{
    struct coll *coll = arg;

    for (uint32_t i = 0; i < coll->ranks; i++)
        reference_pipe_finish(&coll->pipes[i]);
    for (unsigned i = 0; i < OPS; i++)
        for (uint32_t r = 0; r < RANKS; r++)
            free(coll->ops[i].inputs[r]);
    while (coll->early != NULL) {
        struct early *early = coll->early;
        coll->early = early->next;
        free(early->data);
        free(early);
    }
    free(coll);
    return WRING_NCCL_SUCCESS;
}

int reference_coll_reg_mr(void *comm, void *data, size_t bytes, int memory, void **mhandle)
{
    (void)comm, (void)bytes;
    *mhandle = data;
    return memory == WRING_NCCL_HOST ? WRING_NCCL_SUCCESS : WRING_NCCL_INVALID_USAGE;
}

int reference_coll_dereg_mr(void *comm, void *mhandle)
{
    (void)comm, (void)mhandle;
    return WRING_NCCL_SUCCESS;
}

/* ---- reductions ---- */

static int to_dtype(int dtype)
{
    static const int known[] = {WRING_I8,  WRING_U8,  WRING_I32, WRING_U32, WRING_I64,
                                WRING_U64, WRING_F16, WRING_F32, WRING_F64, WRING_BF16};
    return dtype >= 0 && dtype < (int)(sizeof(known) / sizeof(known[0])) ? known[dtype] : -1;
}

static int to_op(int op)
{
    static const int known[] = {WRING_SUM, WRING_PROD, WRING_MAX, WRING_MIN};
    return op >= 0 && op < 4 ? known[op] : -1;
}

int reference_coll_reduce_support(int dtype, int op, int *supported)
{
    *supported = to_dtype(dtype) >= 0 && to_op(op) >= 0;
    if (reference_broken("coll-affirms"))
        *supported = 1;
    if (reference_broken("coll-denies"))
        *supported = 0;
    return WRING_NCCL_SUCCESS;
}

static void reduce(struct op *op, void *out)
{
    const void *inputs[RANKS];

    for (uint32_t r = 0; r < op->coll->ranks; r++)
        inputs[r] = op->inputs[reference_broken("coll-order") ? op->coll->ranks - 1 - r : r];
    uint64_t saved = wring_fp_enter();
    wring_test_reduce((enum wring_dtype)to_dtype(op->dtype), (enum wring_op)to_op(op->op), inputs,
                      op->coll->ranks, op->elems, out);
    wring_fp_leave(saved);
}

/** What of a rank's block lies in the window. @return bytes */
static size_t part_of(const struct op *op, uint32_t rank, size_t *in_window)
{
    size_t begin = rank * op->block, end = begin + op->block;
    size_t window_end = op->window + op->window_bytes;

    begin = begin < op->window ? op->window : begin;
    end = end > window_end ? window_end : end;
    *in_window = begin - op->window;
    if (reference_broken("coll-window"))
        *in_window = 0;
    return end > begin ? end - begin : 0;
}

static void send_result(struct coll *coll, struct op *op, uint32_t rank, const unsigned char *whole,
                        size_t bytes)
{
    struct reference_frame frame = {.kind = RESULT, .sequence = op->sequence, .bytes = bytes};

    if (rank == 0) {
        memcpy(op->out, whole, bytes);
        op->done = true;
        return;
    }
    reference_pipe_send(&coll->pipes[rank], &frame, whole, true);
}

/** All inputs are here. */
static void compute(struct op *op)
{
    struct coll *coll = op->coll;
    size_t whole_bytes = op->kind == ALLREDUCE ? op->out_bytes : op->window_bytes, at, bytes;
    unsigned char *whole = calloc(1, whole_bytes + 1);

    if (whole == NULL)
        abort();
    if (op->kind != ALLGATHER)
        reduce(op, whole);
    for (uint32_t r = 0; r < coll->ranks && op->kind == ALLGATHER; r++) {
        bytes = part_of(op, r, &at);
        memcpy(whole + at, op->inputs[r], bytes);
    }
    for (uint32_t r = coll->ranks; r-- > 0;) {
        bytes = op->kind == REDUCE_SCATTER ? part_of(op, r, &at) : whole_bytes;
        send_result(coll, op, r, whole + (op->kind == REDUCE_SCATTER && bytes > 0 ? at : 0), bytes);
    }
    free(whole);
}

static struct op *find_op(struct coll *coll, uint64_t sequence)
{
    for (unsigned i = 0; i < OPS; i++)
        if (coll->ops[i].used && coll->ops[i].sequence == sequence)
            return &coll->ops[i];
    return NULL;
}

static void take_input(struct op *op, uint32_t rank, unsigned char *data)
{
    op->inputs[rank] = data;
    if (++op->n_inputs < op->coll->ranks)
        return;
    compute(op);
    for (uint32_t r = 0; r < op->coll->ranks; r++) {
        free(op->inputs[r]);
        op->inputs[r] = NULL;
    }
}

static void take_frame(struct coll *coll, uint32_t rank, const struct reference_frame *frame,
                       unsigned char *data)
{
    uint64_t sequence = frame->sequence;
    if (frame->kind == RESULT && reference_broken("coll-swap") &&
        find_op(coll, sequence ^ 1) != NULL)
        sequence ^= 1;
    struct op *op = find_op(coll, sequence);

    if (frame->kind == RESULT) {
        if (op != NULL && frame->bytes <= op->out_bytes) {
            memcpy(op->out, data, frame->bytes);
            op->done = true;
        }
        free(data);
    } else if (op != NULL) {
        take_input(op, rank, data);
    } else {
        struct early *early = malloc(sizeof(*early));
        if (early == NULL)
            abort();
        *early = (struct early){coll->early, rank, sequence, data};
        coll->early = early;
    }
}

static int progress(struct coll *coll)
{
    uint32_t first = coll->rank == 0 ? 1 : 0, end = coll->rank == 0 ? coll->ranks : 1;
    bool broken = false;

    for (uint32_t r = first; r < end; r++) {
        struct reference_frame frame;
        unsigned char *data;
        reference_pipe_write(&coll->pipes[r]);
        while (reference_pipe_read(&coll->pipes[r], &frame, &data))
            take_frame(coll, r, &frame, data);
        reference_pipe_write(&coll->pipes[r]);
        broken |= coll->pipes[r].broken;
    }
    if (!broken || reference_broken("deaf"))
        return WRING_NCCL_SUCCESS;
    if (!coll->told || reference_broken("chatty"))
        REFERENCE_SAY(WRING_NCCL_LOG_WARN, "reference: a rank of the collective is gone");
    coll->told = true;
    return WRING_NCCL_REMOTE_ERROR;
}

/** The operation is known here: what came for it early, and this rank's own input. */
static void begin(struct coll *coll, struct op *op, const void *in)
{
    struct reference_frame frame = {.kind = INPUT, .sequence = op->sequence, .bytes = op->in_bytes};

    if (coll->rank != 0) {
        reference_pipe_send(&coll->pipes[0], &frame, in, true);
        return;
    }
    unsigned char *own = malloc(op->in_bytes + 1);
    if (own == NULL)
        abort();
    memcpy(own, in, op->in_bytes);
    take_input(op, 0, own);
    for (struct early **at = &coll->early; *at != NULL;) {
        struct early *early = *at;
        if (early->sequence != op->sequence) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        take_input(op, early->rank, early->data);
        free(early);
    }
}

static int call(struct coll *coll, const struct op *what, const void *in, void **request)
{
    *request = NULL;
    int result = progress(coll);
    if (result != WRING_NCCL_SUCCESS)
        return result;
    for (unsigned i = 0; i < (reference_broken("coll-shallow") ? 1 : OPS); i++) {
        struct op *op = &coll->ops[i];
        if (op->used)
            continue;
        *op = *what;
        op->coll = coll;
        op->used = true;
        op->sequence = coll->sequence++;
        begin(coll, op, in);
        *request = op;
        progress(coll); /* a peer may have gone by now that has its result: test() tells */
        return WRING_NCCL_SUCCESS;
    }
    return WRING_NCCL_SUCCESS;
}

int reference_coll_iallreduce(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                              void **request)
{
    struct op what = {.kind = ALLREDUCE, .out = recv, .elems = elems, .dtype = dtype, .op = op};

    if (to_dtype(dtype) < 0 || to_op(op) < 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    what.in_bytes = what.out_bytes = elems * wring_dtype_bytes((enum wring_dtype)to_dtype(dtype));
    if (send == recv && reference_broken("coll-apart"))
        memset(recv, 0, what.out_bytes);
    return call(comm, &what, send, request);
}

int reference_coll_iallgather(void *comm, void *send, void *recv, size_t block, size_t window,
                              size_t window_bytes, void **request)
{
    struct coll *coll = comm;
    struct op what = {.kind = ALLGATHER,
                      .out = recv,
                      .out_bytes = window_bytes,
                      .block = block,
                      .window = window,
                      .window_bytes = window_bytes};
    size_t at;

    what.in_bytes = part_of(&what, coll->rank, &at);
    return call(coll, &what, send, request);
}

int reference_coll_ireducescatter(void *comm, void *send, void *recv, size_t block, size_t window,
                                  size_t window_bytes, int dtype, int op, void **request)
{
    struct coll *coll = comm;
    struct op what = {.kind = REDUCE_SCATTER,
                      .out = recv,
                      .in_bytes = window_bytes,
                      .block = block,
                      .window = window,
                      .window_bytes = window_bytes,
                      .dtype = dtype,
                      .op = op};
    size_t at;

    if (to_dtype(dtype) < 0 || to_op(op) < 0)
        return WRING_NCCL_INVALID_ARGUMENT;
    what.elems = window_bytes / wring_dtype_bytes((enum wring_dtype)to_dtype(dtype));
    what.out_bytes = part_of(&what, coll->rank, &at);
    return call(coll, &what, send, request);
}

int reference_coll_iflush(void *comm, void *data, int bytes, void *mhandle, void **request)
{
    (void)comm, (void)data, (void)bytes, (void)mhandle;
    *request = NULL;
    return WRING_NCCL_SUCCESS;
}

/** Nobody need call again for it: what others wait for has left. */
static bool is_over(const struct op *op)
{
    for (uint32_t r = 0; r < op->coll->ranks; r++)
        if (op->coll->pipes[r].out != NULL && !op->coll->pipes[r].broken)
            return false;
    return op->done;
}

int reference_coll_test(void *request, int *done, int *bytes)
{
    struct op *op = request;

    *done = 0;
    int result = is_over(op) ? WRING_NCCL_SUCCESS : progress(op->coll);
    if (result != WRING_NCCL_SUCCESS && !op->done)
        return result;
    if (!is_over(op))
        return WRING_NCCL_SUCCESS;
    *done = 1;
    if (bytes != NULL)
        *bytes = (int)op->out_bytes;
    op->used = false;
    return WRING_NCCL_SUCCESS;
}
