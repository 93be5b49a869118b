/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Requests of MPI_I… and of persistent collectives that wring serves.
 *
 * To the program and the MPI a call in flight is a generalized request: a handle like all others.
 * It may stand in arrays between the MPI's own, be converted to Fortran's, and be tested by any
 * function. The MPI cannot drive it, and no thread of ours may tell the MPI of its end, since the
 * program may have asked for MPI_THREAD_SINGLE. So the program's own thread does, in each function
 * that waits or tests: it drives wring's calls first, and then asks the MPI. A wait for requests of
 * both kinds waits for wring's one after the other, while it lets the MPI progress. Then it waits
 * for the others in the MPI.
 *
 * A persistent request is a persistent receive of the MPI's. When the call that MPI_Start began has
 * ended, wring starts the receive and sends its message from this rank to itself. Until then the
 * MPI takes the request for inactive, and the functions here correct what the MPI says of it.
 */
#include "dropin/mpi/mpi_own.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define H wring_mpi_handle_t

struct wring_mpi_lasting {
    struct wring_mpi_lasting *next;
    H handle;
    struct wring_mpi_comm *comm;
    struct wring_mpi_args args;
    void *counts;                     /* its own copy of args.counts */
    struct wring_mpi_pending *active; /* NULL: not started, or ended */
    int code;                         /* of the last call */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct wring_mpi_pending *pendings; /* not ended */
static struct wring_mpi_pending *failures; /* ended badly, and not waited for yet */
static struct wring_mpi_lasting *lastings;
static atomic_uint n_failures, n_lastings;

static void pending_release(struct wring_mpi_pending *pending)
{
    if (atomic_fetch_sub(&pending->users, 1) == 1)
        free(pending);
}

/* ---- what the MPI calls back ---- */

static void write_status(void *status, size_t offset, int value)
{
    memcpy((char *)status + offset, &value, sizeof(value));
}

static int on_query(void *extra, void *status)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    (void)extra;
    if (status == NULL || status == abi->status_ignore)
        return MPI_SUCCESS;
    abi->pmpi.Status_set_elements(status, abi->byte, 0);
    abi->pmpi.Status_set_cancelled(status, 0);
    write_status(status, abi->status_source, abi->any_source);
    write_status(status, abi->status_tag, abi->any_tag);
    return MPI_SUCCESS;
}

static void forget_failure(struct wring_mpi_pending *pending)
{
    pthread_mutex_lock(&mutex);
    struct wring_mpi_pending **at = &failures;
    while (*at != NULL && *at != pending)
        at = &(*at)->next;
    if (*at != NULL) {
        *at = pending->next;
        atomic_fetch_sub(&n_failures, 1);
    }
    pthread_mutex_unlock(&mutex);
}

static int on_free(void *extra)
{
    struct wring_mpi_pending *pending = extra;
    if (atomic_load(&pending->code) != MPI_SUCCESS)
        forget_failure(pending);
    pending_release(pending);
    return MPI_SUCCESS;
}

/** A collective cannot be cancelled. */
static int on_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return wring_mpi_abi.err_request;
}

/* ---- the end of a call ---- */

/** Under the mutex. */
static void unlink_pending(struct wring_mpi_pending *pending)
{
    struct wring_mpi_pending **at = &pendings;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
}

static void note_failure(struct wring_mpi_pending *pending)
{
    pthread_mutex_lock(&mutex);
    pending->next = failures;
    failures = pending;
    atomic_fetch_add(&n_failures, 1);
    pthread_mutex_unlock(&mutex);
}

static void end_lasting(struct wring_mpi_lasting *lasting, int code)
{
    uintptr_t handle = 0;

    wring_mpi_write_handle(&handle, 0, lasting->handle);
    wring_mpi_abi.pmpi.Start(&handle);
    wring_mpi_abi.pmpi.Send(NULL, 0, wring_mpi_abi.byte, 0, 0, wring_mpi_own.alone);
    pthread_mutex_lock(&mutex);
    lasting->code = code;
    lasting->active = NULL;
    pthread_mutex_unlock(&mutex);
    if (code != MPI_SUCCESS)
        atomic_fetch_add(&n_failures, 1);
}

/** It is in no list any more: only this thread has it. */
static void complete_pending(struct wring_mpi_pending *pending, enum wring_status status)
{
    struct wring_mpi_comm *comm = pending->comm;

    status = wring_mpi_finish(&pending->call, status);
    int code =
        status == WRING_OK ? MPI_SUCCESS : wring_mpi_fail(wring_mpi_comm_to_blame(comm), status);
    atomic_store(&pending->code, code);
    if (pending->lasting != NULL) {
        end_lasting(pending->lasting, code);
        pending_release(pending);
    } else {
        if (code != MPI_SUCCESS)
            note_failure(pending);
        wring_mpi_abi.pmpi.Grequest_complete(pending->handle);
    }
    atomic_fetch_sub(&wring_mpi_own.unsettled, 1);
    pending_release(pending);
    wring_mpi_comm_release(comm);
}

/** Whether it has ended, and how. */
static enum wring_status test_pending(struct wring_mpi_pending *pending)
{
    if (!atomic_load_explicit(&pending->begun, memory_order_acquire))
        return WRING_ERR_AGAIN;
    if (pending->failed != WRING_OK)
        return pending->failed;
    return wring_request_test(pending->request, NULL);
}

/** See to all calls under way that no other thread waits for. */
static void complete_ended_calls(void)
{
    if (atomic_load(&wring_mpi_own.unsettled) == 0)
        return;
    for (;;) {
        enum wring_status status = WRING_ERR_AGAIN;
        pthread_mutex_lock(&mutex);
        struct wring_mpi_pending *pending = pendings;
        for (; pending != NULL; pending = pending->next)
            if (!pending->held && (status = test_pending(pending)) != WRING_ERR_AGAIN)
                break;
        if (pending != NULL)
            unlink_pending(pending);
        pthread_mutex_unlock(&mutex);
        if (pending == NULL)
            return;
        complete_pending(pending, status);
    }
}

/** Under the mutex: the call under way that a request stands for, or NULL. */
static struct wring_mpi_pending *find_pending(H handle)
{
    struct wring_mpi_pending *pending = pendings;
    while (pending != NULL &&
           (pending->lasting != NULL ? pending->lasting->handle : pending->handle) != handle)
        pending = pending->next;
    return pending;
}

/** Wait until it has begun; then for its end. Nobody else looks at it. */
static enum wring_status wait_for_pending(struct wring_mpi_pending *pending)
{
    if (!atomic_load_explicit(&pending->begun, memory_order_acquire))
        wring_mpi_comm_await(pending->comm);
    if (pending->failed != WRING_OK)
        return pending->failed;
    return wring_request_wait(pending->request, WRING_FOREVER, NULL);
}

/** Until a request of ours is complete to the MPI; one of the MPI's is left to it. */
static void await_request(H handle)
{
    while (atomic_load(&wring_mpi_own.unsettled) > 0) {
        pthread_mutex_lock(&mutex);
        struct wring_mpi_pending *pending = find_pending(handle);
        bool other = pending != NULL && pending->held;
        if (pending != NULL && !other) {
            pending->held = true;
            pthread_mutex_unlock(&mutex);
            enum wring_status status = wait_for_pending(pending);
            pthread_mutex_lock(&mutex);
            unlink_pending(pending);
            pthread_mutex_unlock(&mutex);
            complete_pending(pending, status);
            return;
        }
        pthread_mutex_unlock(&mutex);
        if (!other)
            return;
        sched_yield(); /* another thread waits for all of them, or for the same */
    }
}

/** Is a persistent request under way? To the MPI it is inactive until it has ended. */
static bool is_lasting_active(H handle)
{
    bool active = false;
    if (atomic_load(&n_lastings) == 0)
        return false;
    pthread_mutex_lock(&mutex);
    for (struct wring_mpi_lasting *at = lastings; at != NULL; at = at->next)
        active |= at->handle == handle && at->active != NULL;
    pthread_mutex_unlock(&mutex);
    return active;
}

static bool is_any_active(const void *requests, int n)
{
    for (int i = 0; atomic_load(&n_lastings) > 0 && i < n; i++)
        if (is_lasting_active(wring_mpi_read_handle(requests, (size_t)i)))
            return true;
    return false;
}

/** The code with which a request ended that is about to be handed to the MPI. */
static int take_request_code(H handle)
{
    int code = MPI_SUCCESS;
    if (atomic_load(&n_failures) == 0)
        return code;
    pthread_mutex_lock(&mutex);
    for (const struct wring_mpi_pending *at = failures; at != NULL; at = at->next)
        code = at->handle == handle ? atomic_load(&at->code) : code;
    for (struct wring_mpi_lasting *at = lastings; at != NULL; at = at->next)
        if (at->handle == handle && at->active == NULL && at->code != MPI_SUCCESS) {
            code = at->code;
            at->code = MPI_SUCCESS;
            atomic_fetch_sub(&n_failures, 1);
        }
    pthread_mutex_unlock(&mutex);
    return code;
}

/* ---- beginning ---- */

static struct wring_mpi_pending *pending_new(struct wring_mpi_comm *comm,
                                             const struct wring_mpi_call *call)
{
    struct wring_mpi_pending *pending = calloc(1, sizeof(*pending));
    if (pending == NULL)
        return NULL;
    pending->comm = comm;
    pending->call = *call;
    atomic_init(&pending->users, 2);
    wring_mpi_comm_hold(comm);
    return pending;
}

static void launch_pending(struct wring_mpi_pending *pending)
{
    atomic_fetch_add(&wring_mpi_own.unsettled, 1);
    wring_mpi_comm_queue(pending->comm, pending);
    pthread_mutex_lock(&mutex);
    pending->next = pendings;
    pendings = pending;
    pthread_mutex_unlock(&mutex);
}

int wring_mpi_pending_start(struct wring_mpi_comm *comm, const struct wring_mpi_call *call,
                            void *request)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    struct wring_mpi_pending *pending = pending_new(comm, call);
    if (pending == NULL)
        return wring_mpi_fail(comm->handle, WRING_ERR_NO_MEMORY);
    int code = pmpi->Grequest_start(on_query, on_free, on_cancel, pending, request);
    if (code != MPI_SUCCESS) {
        wring_mpi_comm_release(comm);
        free(pending);
        return code;
    }
    pending->handle = wring_mpi_read_handle(request, 0);
    launch_pending(pending);
    return MPI_SUCCESS;
}

/* ---- persistent requests ---- */

static bool copy_counts(struct wring_mpi_lasting *lasting)
{
    if (lasting->args.counts == NULL)
        return true;
    size_t bytes = lasting->comm->n * (lasting->args.wide ? sizeof(int64_t) : sizeof(int));
    lasting->counts = malloc(bytes);
    if (lasting->counts == NULL)
        return false;
    memcpy(lasting->counts, lasting->args.counts, bytes);
    lasting->args.counts = lasting->counts;
    return true;
}

int wring_mpi_lasting_create(struct wring_mpi_comm *comm, const struct wring_mpi_args *args,
                             void *request)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    struct wring_mpi_lasting *lasting = calloc(1, sizeof(*lasting));
    if (lasting == NULL)
        return wring_mpi_fail(comm->handle, WRING_ERR_NO_MEMORY);
    lasting->comm = wring_mpi_comm_twin(comm);
    lasting->args = *args;
    if (lasting->comm == NULL || !copy_counts(lasting)) {
        if (lasting->comm != NULL)
            wring_mpi_comm_release(lasting->comm);
        free(lasting);
        return wring_mpi_fail(comm->handle, WRING_ERR_NO_MEMORY);
    }
    int code = abi->pmpi.Recv_init(NULL, 0, abi->byte, 0, 0, wring_mpi_own.alone, request);
    if (code != MPI_SUCCESS) {
        wring_mpi_comm_release(lasting->comm);
        free(lasting->counts);
        free(lasting);
        return code;
    }
    lasting->handle = wring_mpi_read_handle(request, 0);
    pthread_mutex_lock(&mutex);
    lasting->next = lastings;
    lastings = lasting;
    atomic_fetch_add(&n_lastings, 1);
    pthread_mutex_unlock(&mutex);
    return MPI_SUCCESS;
}

static struct wring_mpi_lasting *find_lasting(H handle)
{
    if (atomic_load(&n_lastings) == 0)
        return NULL;
    pthread_mutex_lock(&mutex);
    struct wring_mpi_lasting *lasting = lastings;
    while (lasting != NULL && lasting->handle != handle)
        lasting = lasting->next;
    pthread_mutex_unlock(&mutex);
    return lasting;
}

static int start_lasting(struct wring_mpi_lasting *lasting)
{
    struct wring_mpi_call call;
    struct wring_mpi_comm *comm = lasting->comm;
    enum wring_status failed;

    if (lasting->active != NULL)
        return wring_mpi_abi.err_request;
    wring_mpi_prepare(&lasting->args, comm, &call, &failed);
    struct wring_mpi_pending *pending = failed == WRING_OK ? pending_new(comm, &call) : NULL;
    if (pending == NULL) {
        wring_mpi_finish(&call, WRING_ERR_NO_MEMORY);
        return wring_mpi_fail(wring_mpi_comm_to_blame(comm), WRING_ERR_NO_MEMORY);
    }
    pending->lasting = lasting;
    lasting->active = pending;
    wring_mpi_count(lasting->args.kind, WRING_MPI_SERVED);
    launch_pending(pending);
    return MPI_SUCCESS;
}

static void free_lasting(struct wring_mpi_lasting *lasting)
{
    pthread_mutex_lock(&mutex);
    struct wring_mpi_lasting **at = &lastings;
    while (*at != lasting)
        at = &(*at)->next;
    *at = lasting->next;
    atomic_fetch_sub(&n_lastings, 1);
    pthread_mutex_unlock(&mutex);
    wring_mpi_comm_release(lasting->comm);
    free(lasting->counts);
    free(lasting);
}

#define PMPI(name) (wring_mpi_library()->pmpi.name)

/** Nothing of ours is under way or has failed: the MPI has all there is. */
static bool has_nothing_unsettled(void)
{
    return atomic_load_explicit(&wring_mpi_own.unsettled, memory_order_acquire) == 0 &&
           atomic_load_explicit(&n_failures, memory_order_acquire) == 0;
}

WRING_MPI_EXPORT(Start, void *request)
{
    struct wring_mpi_lasting *lasting = find_lasting(wring_mpi_read_handle(request, 0));
    return lasting != NULL ? start_lasting(lasting) : PMPI(Start)(request);
}

WRING_MPI_EXPORT(Startall, int n, void *requests)
{
    if (atomic_load(&n_lastings) == 0)
        return PMPI(Startall)(n, requests);
    for (int i = 0; i < n; i++) {
        int code = MPI_Start((char *)requests + (size_t)i * wring_mpi_abi.handle_bytes);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

WRING_MPI_EXPORT(Request_free, void *request)
{
    struct wring_mpi_lasting *lasting = find_lasting(wring_mpi_read_handle(request, 0));
    if (lasting == NULL)
        return PMPI(Request_free)(request);
    await_request(lasting->handle);
    take_request_code(lasting->handle);
    free_lasting(lasting);
    return PMPI(Request_free)(request);
}

WRING_MPI_EXPORT(Cancel, void *request)
{
    if (find_lasting(wring_mpi_read_handle(request, 0)) != NULL)
        return wring_mpi_abi.err_request;
    return PMPI(Cancel)(request);
}

/* ---- waiting ---- */

/** One request after PMPI: how ours ended counts, where the MPI found nothing. */
static int merge_code(int code, int own)
{
    return code == MPI_SUCCESS ? own : code;
}

WRING_MPI_EXPORT(Wait, void *request, void *status)
{
    if (has_nothing_unsettled())
        return PMPI(Wait)(request, status);
    H handle = wring_mpi_read_handle(request, 0);
    await_request(handle);
    int own = take_request_code(handle);
    return merge_code(PMPI(Wait)(request, status), own);
}

static int *take_codes_of_all(const void *requests, int n)
{
    int *codes = NULL;
    for (int i = 0; i < n; i++) {
        int code = take_request_code(wring_mpi_read_handle(requests, (size_t)i));
        if (code != MPI_SUCCESS && codes == NULL)
            codes = calloc((size_t)n, sizeof(*codes));
        if (codes != NULL)
            codes[i] = code;
    }
    return codes;
}

/** Some of ours failed: that is in the statuses. Frees the codes. */
static int write_codes_and_free(int code, int *codes, int n, void *statuses)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    if (codes == NULL)
        return code;
    if (code != MPI_SUCCESS && code != abi->err_in_status) {
        free(codes);
        return code;
    }
    for (int i = 0; statuses != abi->status_ignore && i < n; i++)
        if (code == MPI_SUCCESS || codes[i] != MPI_SUCCESS)
            write_status((char *)statuses + (size_t)i * abi->status_bytes, abi->status_error,
                         codes[i]);
    free(codes);
    return abi->err_in_status;
}

WRING_MPI_EXPORT(Waitall, int n, void *requests, void *statuses)
{
    if (has_nothing_unsettled())
        return PMPI(Waitall)(n, requests, statuses);
    for (int i = 0; i < n; i++)
        await_request(wring_mpi_read_handle(requests, (size_t)i));
    int *codes = take_codes_of_all(requests, n);
    return write_codes_and_free(PMPI(Waitall)(n, requests, statuses), codes, n, statuses);
}

WRING_MPI_EXPORT(Test, void *request, int *flag, void *status)
{
    if (has_nothing_unsettled())
        return PMPI(Test)(request, flag, status);
    complete_ended_calls();
    H handle = wring_mpi_read_handle(request, 0);
    if (is_lasting_active(handle)) {
        *flag = 0;
        wring_mpi_poke(NULL);
        return MPI_SUCCESS;
    }
    int own = take_request_code(handle);
    return merge_code(PMPI(Test)(request, flag, status), own);
}

WRING_MPI_EXPORT(Testall, int n, void *requests, int *flag, void *statuses)
{
    if (has_nothing_unsettled())
        return PMPI(Testall)(n, requests, flag, statuses);
    complete_ended_calls();
    if (is_any_active(requests, n)) {
        *flag = 0;
        wring_mpi_poke(NULL);
        return MPI_SUCCESS;
    }
    if (atomic_load(&n_failures) == 0)
        return PMPI(Testall)(n, requests, flag, statuses);
    int *codes = take_codes_of_all(requests, n);
    int code = PMPI(Testall)(n, requests, flag, statuses);
    if (*flag)
        return write_codes_and_free(code, codes, n, statuses);
    free(codes); /* those of calls that are no persistent ones' are still known */
    return code;
}

/** The MPI may take all requests for inactive while a persistent call of wring's is in flight. */
static int test_any(int n, void *requests, int *index, int *flag, void *status)
{
    complete_ended_calls();
    bool active = is_any_active(requests, n);
    int *codes = atomic_load(&n_failures) > 0 ? take_codes_of_all(requests, n) : NULL;
    int code = PMPI(Testany)(n, requests, index, flag, status);
    if (code == MPI_SUCCESS && *flag && *index == wring_mpi_abi.undefined && active)
        *flag = 0;
    if (code == MPI_SUCCESS && *flag && codes != NULL && *index >= 0)
        code = codes[*index];
    free(codes);
    return code;
}

WRING_MPI_EXPORT(Testany, int n, void *requests, int *index, int *flag, void *status)
{
    if (has_nothing_unsettled())
        return PMPI(Testany)(n, requests, index, flag, status);
    return test_any(n, requests, index, flag, status);
}

WRING_MPI_EXPORT(Waitany, int n, void *requests, int *index, void *status)
{
    int flag = 0;
    while (!has_nothing_unsettled()) {
        int code = test_any(n, requests, index, &flag, status);
        if (code != MPI_SUCCESS || flag)
            return code;
        sched_yield();
    }
    return PMPI(Waitany)(n, requests, index, status);
}

static int test_some(int n, void *requests, int *n_done, int *indices, void *statuses)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    complete_ended_calls();
    bool active = is_any_active(requests, n);
    int *codes = atomic_load(&n_failures) > 0 ? take_codes_of_all(requests, n) : NULL;
    int code = PMPI(Testsome)(n, requests, n_done, indices, statuses);
    if (code == MPI_SUCCESS && *n_done == abi->undefined && active)
        *n_done = 0;
    bool failed = false;
    for (int i = 0; codes != NULL && code == MPI_SUCCESS && i < *n_done; i++) {
        failed |= codes[indices[i]] != MPI_SUCCESS;
        if (statuses != abi->status_ignore)
            write_status((char *)statuses + (size_t)i * abi->status_bytes, abi->status_error,
                         codes[indices[i]]);
    }
    free(codes);
    return failed ? abi->err_in_status : code;
}

WRING_MPI_EXPORT(Testsome, int n, void *requests, int *n_done, int *indices, void *statuses)
{
    if (has_nothing_unsettled())
        return PMPI(Testsome)(n, requests, n_done, indices, statuses);
    return test_some(n, requests, n_done, indices, statuses);
}

WRING_MPI_EXPORT(Waitsome, int n, void *requests, int *n_done, int *indices, void *statuses)
{
    while (!has_nothing_unsettled()) {
        int code = test_some(n, requests, n_done, indices, statuses);
        if (code != MPI_SUCCESS || *n_done != 0)
            return code;
        sched_yield();
    }
    return PMPI(Waitsome)(n, requests, n_done, indices, statuses);
}

WRING_MPI_EXPORT(Request_get_status, H request, int *flag, void *status)
{
    if (has_nothing_unsettled())
        return PMPI(Request_get_status)(request, flag, status);
    complete_ended_calls();
    if (!is_lasting_active(wring_mpi_handle(request)))
        return PMPI(Request_get_status)(request, flag, status);
    *flag = 0;
    return MPI_SUCCESS;
}

WRING_MPI_EXPORT(Request_get_status_all, int n, const void *requests, int *flag, void *statuses)
{
    complete_ended_calls();
    if (!is_any_active(requests, n))
        return PMPI(Request_get_status_all)(n, requests, flag, statuses);
    *flag = 0;
    return MPI_SUCCESS;
}

WRING_MPI_EXPORT(Request_get_status_any, int n, const void *requests, int *index, int *flag,
                 void *status)
{
    complete_ended_calls();
    bool active = is_any_active(requests, n);
    int code = PMPI(Request_get_status_any)(n, requests, index, flag, status);
    if (code == MPI_SUCCESS && *flag && *index == wring_mpi_abi.undefined && active)
        *flag = 0;
    return code;
}

WRING_MPI_EXPORT(Request_get_status_some, int n, const void *requests, int *n_done, int *indices,
                 void *statuses)
{
    complete_ended_calls();
    bool active = is_any_active(requests, n);
    int code = PMPI(Request_get_status_some)(n, requests, n_done, indices, statuses);
    if (code == MPI_SUCCESS && *n_done == wring_mpi_abi.undefined && active)
        *n_done = 0;
    return code;
}
