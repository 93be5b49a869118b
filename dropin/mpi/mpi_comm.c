/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Communicators, and the groups of wring's that serve them.
 *
 * The members agree on a tag where all of them are in one call that may wait for the others: where
 * the communicator is made, or else in the first blocking collective on it. The group is made with
 * the first call that wring serves, by a thread of its own: MPI_I… may not wait for others, and who
 * waits has to let the MPI go on meanwhile.
 */
#include "dropin/mpi/mpi_own.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

#define SLOTS 256
#define LOOK_NS 50000

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct wring_mpi_comm *table[SLOTS];
static int keyval;
static atomic_ullong tags;

static size_t table_index(wring_mpi_handle_t handle)
{
    return (handle >> 4 ^ handle) % SLOTS;
}

void wring_mpi_comm_hold(struct wring_mpi_comm *comm)
{
    atomic_fetch_add_explicit(&comm->users, 1, memory_order_relaxed);
}

void wring_mpi_comm_release(struct wring_mpi_comm *comm)
{
    if (atomic_fetch_sub(&comm->users, 1) != 1)
        return;
    if (comm->group != NULL && !comm->whole && wring_mpi_own.session != NULL)
        wring_group_destroy(comm->group);
    pthread_mutex_destroy(&comm->mutex);
    pthread_cond_destroy(&comm->changed);
    if (comm->origin != NULL)
        wring_mpi_comm_release(comm->origin);
    free(comm->ranks);
    free(comm);
}

wring_mpi_handle_t wring_mpi_comm_to_blame(const struct wring_mpi_comm *comm)
{
    bool freed = comm->origin != NULL ? comm->origin->freed : comm->freed;
    return freed ? wring_mpi_abi.comm_world : comm->handle;
}

static struct wring_mpi_comm *find_comm(wring_mpi_handle_t handle)
{
    pthread_mutex_lock(&table_mutex);
    struct wring_mpi_comm *comm = table[table_index(handle)];
    while (comm != NULL && comm->handle != handle)
        comm = comm->next;
    pthread_mutex_unlock(&table_mutex);
    return comm;
}

static void enter_comm(struct wring_mpi_comm *comm)
{
    pthread_mutex_lock(&table_mutex);
    struct wring_mpi_comm **slot = &table[table_index(comm->handle)];
    comm->next = *slot;
    *slot = comm;
    pthread_mutex_unlock(&table_mutex);
}

/** The program frees it: calls on it that are under way go on. */
static int on_freed(wring_mpi_handle_t handle, int key, void *value, void *extra)
{
    struct wring_mpi_comm *comm = value;
    (void)handle, (void)key, (void)extra;

    pthread_mutex_lock(&table_mutex);
    struct wring_mpi_comm **at = &table[table_index(comm->handle)];
    while (*at != NULL && *at != comm)
        at = &(*at)->next;
    if (*at != NULL)
        *at = comm->next;
    pthread_mutex_unlock(&table_mutex);
    comm->freed = true;
    if (wring_mpi_own.world == comm)
        wring_mpi_own.world = NULL;
    wring_mpi_comm_release(comm);
    return MPI_SUCCESS;
}

static int copy_nothing(wring_mpi_handle_t comm, int key, void *extra, void *in, void *out,
                        int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static struct wring_mpi_comm *comm_new(wring_mpi_handle_t handle)
{
    struct wring_mpi_comm *comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return NULL;
    comm->handle = handle;
    atomic_init(&comm->users, 1);
    atomic_init(&comm->state, WRING_MPI_COMM_PASSED);
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->changed, NULL);
    return comm;
}

/** Its members as ranks of MPI_COMM_WORLD. @return why it is none of wring's */
static enum wring_mpi_reason set_member_ranks(struct wring_mpi_comm *comm)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    uintptr_t group = 0;
    int *own = malloc(comm->n * sizeof(int));
    int *world = malloc(comm->n * sizeof(int));
    enum wring_mpi_reason reason = WRING_MPI_FOREIGN;

    comm->ranks = malloc(comm->n * sizeof(*comm->ranks));
    if (own != NULL && world != NULL && comm->ranks != NULL &&
        pmpi->Comm_group(comm->handle, &group) == MPI_SUCCESS) {
        for (uint32_t i = 0; i < comm->n; i++)
            own[i] = (int)i;
        if (pmpi->Group_translate_ranks(wring_mpi_read_handle(&group, 0), (int)comm->n, own,
                                        wring_mpi_own.group, world) == MPI_SUCCESS)
            reason = WRING_MPI_SERVED;
        pmpi->Group_free(&group);
    }
    for (uint32_t i = 0; reason == WRING_MPI_SERVED && i < comm->n; i++) {
        if (world[i] < 0)
            reason = WRING_MPI_FOREIGN;
        comm->ranks[i] = (uint32_t)world[i];
    }
    free(own);
    free(world);
    return reason;
}

/** What each member finds out by itself, and all find alike. */
static enum wring_mpi_reason describe_comm(struct wring_mpi_comm *comm)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    int inter = 0, n = 0, me = 0;

    if (pmpi->Comm_test_inter(comm->handle, &inter) != MPI_SUCCESS ||
        pmpi->Comm_size(comm->handle, &n) != MPI_SUCCESS ||
        pmpi->Comm_rank(comm->handle, &me) != MPI_SUCCESS)
        return WRING_MPI_ARGUMENT;
    if (inter)
        return WRING_MPI_INTER;
    if (n == 1)
        return WRING_MPI_ALONE;
    comm->n = (uint32_t)n;
    comm->me = (uint32_t)me;
    return set_member_ranks(comm);
}

/** Groups of the same ranks that are made at the same time differ by it. 0 is nobody's. */
static bool agree_on_tag(struct wring_mpi_comm *comm)
{
    if (comm->me == 0)
        comm->tag = (uint64_t)(wring_mpi_own.rank + 1) << 40 | (atomic_fetch_add(&tags, 1) + 1);
    return wring_mpi_abi.pmpi.Bcast(&comm->tag, sizeof(comm->tag), wring_mpi_abi.byte, 0,
                                    comm->handle) == MPI_SUCCESS;
}

static struct wring_mpi_comm *make_and_enter_comm(wring_mpi_handle_t handle)
{
    struct wring_mpi_comm *comm = comm_new(handle);
    if (comm == NULL)
        return NULL;
    comm->reason = describe_comm(comm);
    if (comm->reason == WRING_MPI_SERVED) {
        if (agree_on_tag(comm))
            atomic_store(&comm->state, WRING_MPI_COMM_KNOWN);
        else
            comm->reason = WRING_MPI_ARGUMENT;
    }
    if (comm->reason == WRING_MPI_ARGUMENT ||
        wring_mpi_abi.pmpi.Comm_set_attr(handle, keyval, comm) != MPI_SUCCESS) {
        wring_mpi_comm_release(comm);
        return NULL;
    }
    enter_comm(comm);
    return comm;
}

struct wring_mpi_comm *wring_mpi_comm_twin(struct wring_mpi_comm *comm)
{
    struct wring_mpi_comm *twin = comm_new(comm->handle);
    if (twin == NULL)
        return NULL;
    twin->n = comm->n;
    twin->me = comm->me;
    twin->ranks = malloc(comm->n * sizeof(*twin->ranks));
    for (uint32_t i = 0; twin->ranks != NULL && i < comm->n; i++)
        twin->ranks[i] = comm->ranks != NULL ? comm->ranks[i] : i;
    if (twin->ranks == NULL || !agree_on_tag(twin)) {
        wring_mpi_comm_release(twin);
        return NULL;
    }
    wring_mpi_comm_hold(comm);
    twin->origin = comm;
    atomic_store(&twin->state, WRING_MPI_COMM_KNOWN);
    return twin;
}

struct wring_mpi_comm *wring_mpi_comm_find(wring_mpi_handle_t argument, bool meets)
{
    wring_mpi_handle_t handle = wring_mpi_handle(argument);
    struct wring_mpi_comm *comm = wring_mpi_own.world;

    if (comm != NULL && comm->handle == handle)
        return comm;
    comm = find_comm(handle);
    if (comm != NULL || !meets || handle == wring_mpi_abi.comm_null || handle == 0)
        return comm;
    return make_and_enter_comm(handle);
}

void wring_mpi_comm_made(wring_mpi_handle_t handle)
{
    if (wring_mpi_own.session != NULL && handle != wring_mpi_abi.comm_null && handle != 0 &&
        find_comm(handle) == NULL)
        make_and_enter_comm(handle);
}

enum wring_status wring_mpi_comms_open(void)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    struct wring_mpi_comm *world = comm_new(abi->comm_world);

    if (world == NULL)
        return WRING_ERR_NO_MEMORY;
    if (abi->pmpi.Comm_create_keyval(copy_nothing, on_freed, &keyval, NULL) != MPI_SUCCESS ||
        abi->pmpi.Comm_set_attr(abi->comm_world, keyval, world) != MPI_SUCCESS)
        return WRING_ERR_SYSTEM;
    world->n = wring_mpi_own.size;
    world->me = wring_mpi_own.rank;
    world->group = wring_session_world(wring_mpi_own.session);
    world->whole = true;
    atomic_store(&world->state, WRING_MPI_COMM_READY);
    enter_comm(world);
    wring_mpi_own.world = world;
    return WRING_OK;
}

/* ---- forming ---- */

/** Under the communicator's mutex: what waits begins, or hears why it cannot. */
static void begin_queued_calls(struct wring_mpi_comm *comm)
{
    while (comm->first != NULL) {
        struct wring_mpi_pending *pending = comm->first;
        comm->first = pending->next_wait;
        pending->failed = comm->failed != WRING_OK
                              ? comm->failed
                              : wring_mpi_issue(comm->group, &pending->call, &pending->request);
        atomic_store_explicit(&pending->begun, true, memory_order_release);
    }
    comm->last = NULL;
}

static void *form_group_in_thread(void *arg)
{
    struct wring_mpi_comm *comm = arg;
    struct wring_group *group = NULL;

    wring_mpi_be_silent();
    enum wring_status status =
        wring_group_create(wring_session_world(wring_mpi_own.session), comm->ranks, comm->n,
                           comm->tag, WRING_FOREVER, &group);
    pthread_mutex_lock(&comm->mutex);
    comm->group = group;
    comm->failed = status;
    begin_queued_calls(comm);
    atomic_store(&comm->state, status == WRING_OK ? WRING_MPI_COMM_READY : WRING_MPI_COMM_FAILED);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
    wring_mpi_comm_release(comm);
    atomic_fetch_sub(&wring_mpi_own.forming, 1);
    return NULL;
}

/** Under the communicator's mutex. */
static void begin_forming_group(struct wring_mpi_comm *comm)
{
    pthread_t thread;
    if (atomic_load(&comm->state) != WRING_MPI_COMM_KNOWN)
        return;
    atomic_store(&comm->state, WRING_MPI_COMM_FORMING);
    atomic_fetch_add(&wring_mpi_own.forming, 1);
    wring_mpi_comm_hold(comm);
    int failed = wring_thread_create(&thread, form_group_in_thread, comm);
    if (failed == 0) {
        pthread_detach(thread);
        return;
    }
    wring_error(&wring_mpi_own.log, "no thread to make a communicator's group: %s",
                strerror(failed));
    wring_mpi_comm_release(comm);
    atomic_fetch_sub(&wring_mpi_own.forming, 1);
    comm->failed = WRING_ERR_SYSTEM;
    atomic_store(&comm->state, WRING_MPI_COMM_FAILED);
}

static bool is_group_settled(const struct wring_mpi_comm *comm)
{
    int state = atomic_load(&comm->state);
    return state == WRING_MPI_COMM_READY || state == WRING_MPI_COMM_FAILED;
}

static void wait_for_state_change(struct wring_mpi_comm *comm)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= (long)WRING_NS_PER_S) {
        until.tv_nsec -= (long)WRING_NS_PER_S;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&comm->changed, &comm->mutex, &until);
}

enum wring_status wring_mpi_comm_await(struct wring_mpi_comm *comm)
{
    if (atomic_load_explicit(&comm->state, memory_order_acquire) == WRING_MPI_COMM_READY)
        return WRING_OK;
    pthread_mutex_lock(&comm->mutex);
    begin_forming_group(comm);
    while (!is_group_settled(comm)) {
        wait_for_state_change(comm);
        pthread_mutex_unlock(&comm->mutex);
        wring_mpi_poke(NULL);
        pthread_mutex_lock(&comm->mutex);
    }
    enum wring_status status = comm->failed;
    pthread_mutex_unlock(&comm->mutex);
    return status;
}

void wring_mpi_comm_queue(struct wring_mpi_comm *comm, struct wring_mpi_pending *pending)
{
    pthread_mutex_lock(&comm->mutex);
    begin_forming_group(comm);
    pending->next_wait = NULL;
    if (comm->last != NULL)
        comm->last->next_wait = pending;
    else
        comm->first = pending;
    comm->last = pending;
    if (is_group_settled(comm))
        begin_queued_calls(comm);
    pthread_mutex_unlock(&comm->mutex);
}

void wring_mpi_comms_stop(void)
{
    const struct timespec pause = {0, LOOK_NS};
    while (atomic_load(&wring_mpi_own.forming) > 0)
        nanosleep(&pause, NULL);
}

/* ---- where communicators are made ---- */

#define H wring_mpi_handle_t

/** The new communicator's members are all here, or it is none. */
static int note_new_comm(int code, const void *new_comm)
{
    if (code == MPI_SUCCESS)
        wring_mpi_comm_made(wring_mpi_read_handle(new_comm, 0));
    return code;
}

#define MAKER(name, params, args)                                            \
    WRING_MPI_EXPORT(name, UNPACK params)                                    \
    {                                                                        \
        return note_new_comm(wring_mpi_library()->pmpi.name args, new_comm); \
    }
#define UNPACK(...) __VA_ARGS__

MAKER(Comm_dup, (H comm, void *new_comm), (comm, new_comm))
MAKER(Comm_dup_with_info, (H comm, H info, void *new_comm), (comm, info, new_comm))
MAKER(Comm_split, (H comm, int color, int key, void *new_comm), (comm, color, key, new_comm))
MAKER(Comm_split_type, (H comm, int type, int key, H info, void *new_comm),
      (comm, type, key, info, new_comm))
MAKER(Comm_create, (H comm, H group, void *new_comm), (comm, group, new_comm))
MAKER(Comm_create_group, (H comm, H group, int tag, void *new_comm), (comm, group, tag, new_comm))
MAKER(Cart_create,
      (H comm, int n, const int *dims, const int *periods, int reorder, void *new_comm),
      (comm, n, dims, periods, reorder, new_comm))
MAKER(Cart_sub, (H comm, const int *remain, void *new_comm), (comm, remain, new_comm))
MAKER(Graph_create,
      (H comm, int n, const int *index, const int *edges, int reorder, void *new_comm),
      (comm, n, index, edges, reorder, new_comm))
MAKER(Dist_graph_create,
      (H comm, int n, const int *sources, const int *degrees, const int *destinations,
       const int *weights, H info, int reorder, void *new_comm),
      (comm, n, sources, degrees, destinations, weights, info, reorder, new_comm))
MAKER(Dist_graph_create_adjacent,
      (H comm, int n_in, const int *sources, const int *in_weights, int n_out,
       const int *destinations, const int *out_weights, H info, int reorder, void *new_comm),
      (comm, n_in, sources, in_weights, n_out, destinations, out_weights, info, reorder, new_comm))
MAKER(Intercomm_merge, (H comm, int high, void *new_comm), (comm, high, new_comm))
