/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How ranks meet by their MPI before they have connections, and hear of each other's failure.
 *
 * All ranks make the same exchanges, one after the other, and the last one is about whether the
 * session stands. A rank that cannot open its session makes no more of the usual exchanges: in its
 * next one it says so. In that one all ranks learn who fails and why, and nobody makes another.
 * Ranks that wait elsewhere meanwhile are alarmed by an empty message, for which mpi_check() looks.
 */
#include "dropin/mpi/mpi_own.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include <wring/bootstrap.h>

#define PAUSE_NS 20000
#define LINES_NS (30 * WRING_NS_PER_S) /* for ranks that never print them */
#define ALARM_TAG 1
#define STATUS_WORDS 16 /* more than any MPI_Status has */

/** What a failing rank tells the others. The text of its cause follows, without a final zero. */
struct failure {
    uint32_t status;
    uint8_t is_cause; /* it fails by itself, and not because another does */
    uint8_t alarms;   /* it has sent an alarm to all others */
};

/** An exchange that is under way: first of lengths, then of blobs. */
struct exchange {
    int *bytes, *begins; /* [size] each; a rank that fails gives ~bytes */
    uint8_t *own;
    int own_bytes;
    bool fails; /* this rank does */
    bool lengths_are_known, somebody_fails;
    struct wring_blobs blobs;
    uintptr_t request;
};

static struct {
    struct wring_bootstrap base; /* first */
    struct exchange *open;       /* one that this rank was called off from; else NULL */
    struct wring_blobs failures; /* each failing rank's struct failure and text, at the end */
    bool over;                   /* the last exchange has been */
    uintptr_t control, alone;    /* as the MPI writes them */
} meeting;

/* ---- waiting for the MPI ---- */

static bool probe_alarm(int32_t *rank)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uint32_t status[STATUS_WORDS];
    int flag = 0;

    if (abi->pmpi.Iprobe(abi->any_source, ALARM_TAG, wring_mpi_own.control, &flag, status) !=
            MPI_SUCCESS ||
        !flag)
        return false;
    memcpy(rank, (char *)status + abi->status_source, sizeof(*rank));
    return true;
}

/** Wait for the MPI's own request. What it uses is left to it if it does not end in time. */
static enum wring_status await_mpi_request(uintptr_t *request, uint64_t deadline_ns,
                                           const struct wring_cancel *cancel)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    const struct timespec pause = {0, PAUSE_NS};
    int done = 0;

    for (;;) {
        if (pmpi->Test(request, &done, wring_mpi_abi.status_ignore) != MPI_SUCCESS)
            return WRING_ERR_PEER;
        if (done)
            return WRING_OK;
        if (cancel != NULL && cancel->cancelled(cancel->arg))
            return WRING_ERR_CLOSED;
        if (wring_now_ns() > deadline_ns)
            return WRING_ERR_TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

/* ---- one exchange ---- */

static void exchange_free(struct exchange *exchange)
{
    free(exchange->bytes);
    free(exchange->begins);
    free(exchange->own);
    wring_blobs_finish(&exchange->blobs);
    free(exchange);
}

static struct exchange *exchange_new(const void *blob, size_t bytes, bool fails)
{
    uint32_t size = wring_mpi_own.size;
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL)
        return NULL;
    exchange->own_bytes = (int)bytes;
    exchange->fails = fails;
    exchange->bytes = calloc(size, sizeof(int));
    exchange->begins = calloc(size, sizeof(int));
    exchange->own = malloc(bytes + 1);
    exchange->blobs.n = size;
    exchange->blobs.offsets = calloc(size + 1, sizeof(size_t));
    if (exchange->bytes == NULL || exchange->begins == NULL || exchange->own == NULL ||
        exchange->blobs.offsets == NULL) {
        exchange_free(exchange);
        return NULL;
    }
    if (bytes > 0)
        memcpy(exchange->own, blob, bytes);
    return exchange;
}

static enum wring_status begin_lengths(struct exchange *exchange)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    int own = exchange->fails ? ~exchange->own_bytes : exchange->own_bytes;

    exchange->bytes[wring_mpi_own.rank] = own;
    return abi->pmpi.Iallgather(abi->in_place, 0, abi->byte, exchange->bytes, sizeof(int),
                                abi->byte, wring_mpi_own.control, &exchange->request) == MPI_SUCCESS
               ? WRING_OK
               : WRING_ERR_PEER;
}

/** Begin the exchange of blobs. If any rank fails, only failing ranks send one. */
static enum wring_status begin_blobs(struct exchange *exchange)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    struct wring_blobs *blobs = &exchange->blobs;
    size_t total = 0;

    for (uint32_t i = 0; i < blobs->n; i++)
        exchange->somebody_fails |= exchange->bytes[i] < 0;
    for (uint32_t i = 0; i < blobs->n; i++) {
        int bytes = exchange->bytes[i];
        if (exchange->somebody_fails)
            bytes = bytes < 0 ? ~bytes : 0;
        if (total + (size_t)bytes > INT_MAX)
            return WRING_ERR_FRAME;
        exchange->bytes[i] = bytes;
        exchange->begins[i] = (int)total;
        blobs->offsets[i + 1] = total += (size_t)bytes;
    }
    blobs->storage = malloc(total + 1);
    if (blobs->storage == NULL)
        return WRING_ERR_NO_MEMORY;
    exchange->lengths_are_known = true;
    return abi->pmpi.Iallgatherv(exchange->own, exchange->bytes[wring_mpi_own.rank], abi->byte,
                                 blobs->storage, exchange->bytes, exchange->begins, abi->byte,
                                 wring_mpi_own.control, &exchange->request) == MPI_SUCCESS
               ? WRING_OK
               : WRING_ERR_PEER;
}

/** Go on with it to its end. WRING_ERR_CLOSED, _TIMEOUT: the MPI still has its memory. */
static enum wring_status exchange_await(struct exchange *exchange, uint64_t deadline_ns,
                                        const struct wring_cancel *cancel)
{
    enum wring_status status = WRING_OK;
    if (!exchange->lengths_are_known) {
        status = await_mpi_request(&exchange->request, deadline_ns, cancel);
        if (status == WRING_OK)
            status = begin_blobs(exchange);
    }
    return status == WRING_OK ? await_mpi_request(&exchange->request, deadline_ns, cancel) : status;
}

static void say_nobody_came(void)
{
    wring_error(&wring_mpi_own.log,
                "a rank did not come to exchange addresses in WRING_JOIN_TIMEOUT: all ranks need "
                "libwring_mpi.so in LD_PRELOAD (mpirun -x or -genv pass it on)");
}

/**
 * Go on with the meeting's exchange. If any rank fails it is the last one.
 * WRING_ERR_CLOSED: this rank was called off, and has to go on with it later.
 */
static enum wring_status go_on_with_exchange(uint64_t deadline_ns,
                                             const struct wring_cancel *cancel,
                                             struct wring_blobs *out)
{
    struct exchange *exchange = meeting.open;
    enum wring_status status = exchange_await(exchange, deadline_ns, cancel);

    if (status == WRING_ERR_CLOSED)
        return status;
    meeting.open = NULL;
    meeting.over = status != WRING_OK || exchange->somebody_fails;
    if (status == WRING_ERR_TIMEOUT)
        say_nobody_came();
    if (status == WRING_ERR_TIMEOUT || status == WRING_ERR_PEER)
        return WRING_ERR_PEER; /* the MPI may still write into its memory */
    if (status == WRING_OK) {
        *(meeting.over ? &meeting.failures : out) = exchange->blobs;
        exchange->blobs = (struct wring_blobs){0};
        status = meeting.over ? WRING_ERR_PEER : WRING_OK;
    }
    exchange_free(exchange);
    return status;
}

static enum wring_status begin_exchange(const void *blob, size_t bytes, bool fails)
{
    meeting.open = exchange_new(blob, bytes, fails);
    if (meeting.open == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = begin_lengths(meeting.open);
    if (status == WRING_OK)
        return WRING_OK;
    meeting.open = NULL;
    meeting.over = true;
    return status;
}

/* ---- as a bootstrap ---- */

static enum wring_status mpi_exchange(struct wring_bootstrap *bootstrap, const void *blob,
                                      size_t bytes, uint64_t deadline_ns,
                                      const struct wring_cancel *cancel, struct wring_blobs *out)
{
    (void)bootstrap;
    if (bytes > WRING_BLOB_MAX)
        return WRING_ERR_INVALID;
    if (meeting.over || meeting.open != NULL)
        return WRING_ERR_PEER;
    enum wring_status status = begin_exchange(blob, bytes, false);
    return status == WRING_OK ? go_on_with_exchange(deadline_ns, cancel, out) : status;
}

static enum wring_status mpi_check(struct wring_bootstrap *bootstrap)
{
    return probe_alarm(&bootstrap->at_fault) ? WRING_ERR_PEER : WRING_OK;
}

static const char *mpi_address(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
    return wring_mpi_own.address;
}

static void mpi_close(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
}

static const struct wring_bootstrap_ops mpi_ops = {
    .name = "MPI",
    .exchange = mpi_exchange,
    .check = mpi_check,
    .local_address = mpi_address,
    .close = mpi_close,
};

struct wring_bootstrap *wring_mpi_bootstrap(void)
{
    return &meeting.base;
}

/* ---- the beginning ---- */

/** MPI calls of wring return error codes, since their errors are not the program's. A rank that has
 *  not loaded this library never comes to the copy of MPI_COMM_WORLD. */
enum wring_status wring_mpi_meet(uint64_t deadline_ns)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uintptr_t group = 0, request = 0;

    if (abi->pmpi.Comm_dup(abi->comm_self, &meeting.alone) != MPI_SUCCESS ||
        abi->pmpi.Comm_group(abi->comm_world, &group) != MPI_SUCCESS ||
        abi->pmpi.Comm_idup(abi->comm_world, &meeting.control, &request) != MPI_SUCCESS)
        return WRING_ERR_SYSTEM;
    enum wring_status status = await_mpi_request(&request, deadline_ns, NULL);
    if (status == WRING_ERR_TIMEOUT)
        say_nobody_came();
    if (status != WRING_OK)
        return WRING_ERR_PEER;
    own->control = wring_mpi_read_handle(&meeting.control, 0);
    own->alone = wring_mpi_read_handle(&meeting.alone, 0);
    own->group = wring_mpi_read_handle(&group, 0);
    meeting.base = (struct wring_bootstrap){&mpi_ops, own->rank, own->size, -1};
    return abi->pmpi.Comm_set_errhandler(own->control, abi->errors_return) == MPI_SUCCESS
               ? WRING_OK
               : WRING_ERR_SYSTEM;
}

/* ---- the end ---- */

/** Send an alarm to each other rank. @return the sends' requests, [size]; NULL: out of memory */
static uintptr_t *alarm_others(void)
{
    const struct wring_mpi_own *own = &wring_mpi_own;
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uintptr_t *requests = calloc(own->size, sizeof(*requests));

    for (uint32_t i = 0; requests != NULL && i < own->size; i++) {
        wring_mpi_write_handle(&requests[i], 0, abi->request_null);
        if (i != own->rank)
            abi->pmpi.Isend(NULL, 0, abi->byte, (int)i, ALARM_TAG, own->control, &requests[i]);
    }
    return requests;
}

/** Receive the alarm that a rank said it has sent. */
static void receive_alarm(uint32_t rank)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    abi->pmpi.Recv(NULL, 0, abi->byte, (int)rank, ALARM_TAG, wring_mpi_own.control,
                   abi->status_ignore);
}

/** Find the first rank that fails by itself, else the first that fails. Counts the former. */
static void judge_failures(struct wring_mpi_verdict *verdict)
{
    for (uint32_t i = 0; i < meeting.failures.n; i++) {
        const uint8_t *said = meeting.failures.storage + meeting.failures.offsets[i];
        size_t bytes = meeting.failures.offsets[i + 1] - meeting.failures.offsets[i];
        struct failure failure;
        if (bytes < sizeof(failure))
            continue;
        memcpy(&failure, said, sizeof(failure));
        if (failure.alarms && i != wring_mpi_own.rank)
            receive_alarm(i);
        bool better = verdict->status == WRING_OK || (failure.is_cause && verdict->n_causes == 0);
        verdict->n_causes += failure.is_cause;
        if (!better)
            continue;
        size_t length = bytes - sizeof(failure);
        length = length < sizeof(verdict->text) ? length : sizeof(verdict->text) - 1;
        verdict->status = (enum wring_status)failure.status;
        verdict->rank = i;
        memcpy(verdict->text, said + sizeof(failure), length);
        verdict->text[length] = '\0';
    }
}

/** All ranks come to the last exchange, whichever this is to each of them. */
static enum wring_status last_exchange(const struct wring_mpi_verdict *mine, bool alarms,
                                       uint64_t deadline_ns)
{
    bool fails = mine->status != WRING_OK, is_cause = fails && mine->rank == wring_mpi_own.rank;
    struct wring_blobs blobs = {0};
    uint8_t said[sizeof(struct failure) + sizeof(mine->text)];
    struct failure failure = {(uint32_t)mine->status, is_cause, alarms};
    size_t length = strlen(mine->text);
    enum wring_status status = WRING_OK;

    memcpy(said, &failure, sizeof(failure));
    memcpy(said + sizeof(failure), mine->text, length);
    if (meeting.open != NULL)
        status = go_on_with_exchange(deadline_ns, NULL, &blobs);
    wring_blobs_finish(&blobs);
    if (meeting.over || status != WRING_OK)
        return status;
    status = begin_exchange(said, fails ? sizeof(failure) + length : 0, fails);
    if (status == WRING_OK)
        status = go_on_with_exchange(deadline_ns, NULL, &blobs);
    wring_blobs_finish(&blobs);
    return status;
}

/** Wait, so that the other ranks print their error lines before one ends the job: each of them may
 * be slow. */
static void await_lines(void)
{
    uintptr_t request = 0;
    if (wring_mpi_abi.pmpi.Ibarrier(wring_mpi_own.control, &request) == MPI_SUCCESS)
        await_mpi_request(&request, wring_deadline_in(LINES_NS), NULL);
}

void wring_mpi_conclude(struct wring_mpi_verdict *verdict, uint64_t deadline_ns,
                        void (*say)(const struct wring_mpi_verdict *verdict))
{
    struct wring_mpi_verdict all = {0};
    uintptr_t *alarms = NULL;
    int32_t other;

    if (verdict->status != WRING_OK && verdict->rank == wring_mpi_own.rank && !meeting.over &&
        !probe_alarm(&other))
        alarms = alarm_others();
    enum wring_status status =
        meeting.over ? WRING_OK : last_exchange(verdict, alarms != NULL, deadline_ns);
    judge_failures(&all);
    if (all.status != WRING_OK)
        *verdict = all;
    else if (verdict->status == WRING_OK)
        verdict->status = status;
    if (verdict->status != WRING_OK)
        say(verdict);
    if (all.status != WRING_OK)
        await_lines();
    for (uint32_t i = 0; alarms != NULL && all.status != WRING_OK && i < wring_mpi_own.size; i++)
        await_mpi_request(&alarms[i], wring_deadline_in(WRING_NS_PER_S), NULL);
    free(alarms);
    wring_blobs_finish(&meeting.failures);
}
