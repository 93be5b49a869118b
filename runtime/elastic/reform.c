/* SPDX-License-Identifier: Apache-2.0 */
/* Another session in the place of one: of those who are left, or with newcomers. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "runtime/bucket.h"
#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/elastic/elastic.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/session/session.h"
#include "runtime/state.h"
#include "runtime/versioned_struct.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/control_tree.h"
#include "transport/door.h"
#include "transport/membership.h"

#define WRING_MODULE "elastic"
#define BACKLOG 1024 /* ranks that dial at once; the system may allow fewer */
#define LOOK_NS (WRING_NS_PER_MS / 5)

/** One call, on one session that has failed. */
struct reforming {
    struct wring_session *session, *next; /* next: built, or being built; NULL: there is none */
    struct wring_cancel called_off;
    uint64_t deadline_ns, late_ns; /* late: living ranks that have not come stay behind */
    uint64_t round;                /* that `next` is of */
    uint32_t newcomers;            /* in `next` */
    bool leaves_behind;            /* ranks of this session are not in it */
    bool gone_back;                /* buckets are where they go on */
    int fd;                        /* where others meet this rank, should it lead */
    struct wring_guests *guests;   /* who want to come in here */
};

/* ---- where the others meet this rank ---- */

/** A number, with its zone: names are not looked up here. */
static bool parse_number(const char *text, struct sockaddr_storage *out, socklen_t *bytes)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;

    if (getaddrinfo(text, NULL, &hints, &found) != 0)
        return false;
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

/** A listening socket where others reach this rank. @param address  out,
 *  [WRING_INTERFACE_ADDRESS] @param port  out @param fd  out, the caller's. Errors, logged:
 *  WRING_ERR_ADDRESS, WRING_ERR_INVALID. */
static enum wring_status listen_for_others(const struct wring_session *session, char *address,
                                           uint16_t *port, int *fd)
{
    const struct wring_config *config = &session->config;
    struct sockaddr_storage storage = {0};
    socklen_t bytes = 0;
    struct wring_ports ports;
    char why[160] = "it is no address";
    const char *text = "127.0.0.1";

    if (config->key[0] != '\0' && session->local_address[0] != '\0')
        text = session->local_address;
    if (config->bind[0] != '\0')
        text = config->bind;
    enum wring_status status = wring_ports_read(&session->log, config->ports, &ports);
    if (status != WRING_OK)
        return status;
    int listening = -1;
    if (parse_number(text, &storage, &bytes))
        listening = wring_ports_listen(&ports, &storage, bytes, BACKLOG, why, sizeof(why));
    if (listening < 0) {
        wring_error(&session->log, "this rank cannot listen for the others at %s: %s", text, why);
        return WRING_ERR_ADDRESS;
    }
    bytes = sizeof(storage);
    getsockname(listening, (struct sockaddr *)&storage, &bytes);
    *port = ntohs(storage.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&storage)->sin6_port
                                                : ((const struct sockaddr_in *)&storage)->sin_port);
    snprintf(address, WRING_INTERFACE_ADDRESS, "%.*s", WRING_INTERFACE_ADDRESS - 1, text);
    *fd = listening;
    return WRING_OK;
}

/** "10.0.0.1:4000", "[fe80::1]:4000". @param text  out, [bytes] */
static void name_root(const char *address, uint16_t port, char *text, size_t bytes)
{
    snprintf(text, bytes, strchr(address, ':') != NULL ? "[%s]:%u" : "%s:%u", address, port);
}

/* ---- one call ---- */

static struct wring_membership *membership_of(const struct reforming *reforming)
{
    return &reforming->session->engine->membership;
}

/** Asked again and again while `next` is built: have the ranks agreed on something else? */
static bool is_round_over(void *arg)
{
    const struct reforming *reforming = arg;

    wring_progress_nudge(reforming->session->progress);
    return atomic_load_explicit(&membership_of(reforming)->promised, memory_order_acquire) !=
               reforming->round ||
           wring_now_ns() >= reforming->deadline_ns;
}

/* ---- before ---- */

/** Nothing of ours touches memory any more, neither here nor at other ranks. */
static bool is_quiet(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    bool still = session->fabric->state == WRING_FABRIC_FAILED ||
                 session->fabric->state == WRING_FABRIC_WORKING;
    bool quiet =
        still && wring_engine_idle(session->engine) && session->engine->jobs_under_way == 0;
    wring_progress_unlock(session->progress);
    return quiet;
}

static enum wring_status await_quiet(const struct reforming *reforming)
{
    const struct timespec pause = {0, LOOK_NS};

    while (!is_quiet(reforming->session)) {
        if (wring_now_ns() >= reforming->deadline_ns)
            return WRING_ERR_TIMEOUT;
        wring_progress_nudge(reforming->session->progress);
        nanosleep(&pause, NULL);
    }
    return WRING_OK;
}

static enum wring_status come(struct reforming *reforming)
{
    struct wring_session *session = reforming->session;
    char address[WRING_INTERFACE_ADDRESS];
    uint16_t port;

    enum wring_status status = listen_for_others(session, address, &port, &reforming->fd);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    status = wring_membership_come(session->engine, address, port, reforming->guests->n,
                                   reforming->late_ns);
    wring_progress_unlock(session->progress);
    return status;
}

/* ---- what the application has pointers to goes from one session to another ---- */

enum wring_status wring_elastic_check(const struct wring_session *session)
{
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};

    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (!at->dropped && at->whole == NULL && at->group != session->world) {
                wring_error(&session->log,
                            "bucket '%s' belongs to a group, which ends with its session: drop it "
                            "by wring_bucket_drop(), and register it in a group of the new one",
                            at->name);
                return WRING_ERR_UNSUPPORTED;
            }
    return WRING_OK;
}

/** Buckets are as they were registered, each by itself, and no step can be run. They stay in the
 *  list. Nothing is under way. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status uncommit_buckets(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    wring_commit_undo(session);
    wring_legs_remove(session);
    wring_progress_unlock(session->progress);
    enum wring_status status = wring_bucket_fusion_part_all(session);
    wring_commit_free_dropped(session);
    return status;
}

/** Known to no provider; the memory stays. */
static void detach_buffer(struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;

    buffer->block.owned = false;
    wring_block_finish(&buffer->block);
    buffer->block = (struct wring_block){.memory = memory, .owned = owned};
}

static enum wring_status attach_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;
    struct wring_block block;

    enum wring_status status = wring_block_borrow_memory(session->fabric, &memory, &block);
    if (status != WRING_OK)
        return status;
    block.memory = memory;
    block.owned = owned;
    buffer->block = block;
    return WRING_OK;
}

static void move_list_of_buffers(struct wring_session *from, struct wring_session *to)
{
    to->buffers = from->buffers;
    to->buffer_index = from->buffer_index;
    to->arena_bytes = from->arena_bytes;
    atomic_store(&to->n_device_buffers, atomic_load(&from->n_device_buffers));
    from->buffers = NULL;
    from->buffer_index = (struct wring_buffer_index){0};
    from->arena_bytes = 0;
    atomic_store(&from->n_device_buffers, 0);
}

static void detach_buffers(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        detach_buffer(at);
    wring_progress_unlock(session->progress);
}

static enum wring_status attach_buffers(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL && status == WRING_OK;
         at = at->next)
        status = attach_buffer(session, at);
    wring_progress_unlock(session->progress);
    return status;
}

static void append_bucket(struct wring_session *session, struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    bucket->next = NULL;
}

/** One that fails to stays in the list that it was in. */
static enum wring_status move_buckets(struct wring_session *from, struct wring_session *to)
{
    enum wring_status status = WRING_OK;

    while (from->buckets != NULL && status == WRING_OK) {
        struct wring_bucket *bucket = from->buckets;
        from->buckets = bucket->next;
        status = wring_bucket_move(bucket, to);
        append_bucket(to, bucket);
    }
    return status;
}

/** Buckets and buffers belong to another session from then on. They are not committed in either.
 *  Errors: those of registration; some have moved then, and each is in one of the two. */
static enum wring_status move_to_session(struct wring_session *from, struct wring_session *to)
{
    detach_buffers(from);
    move_list_of_buffers(from, to);
    enum wring_status status = attach_buffers(to);
    return status == WRING_OK ? move_buckets(from, to) : status;
}

/** They go back to a session that has failed, for another try: buffers are registered nowhere. */
static void move_back(struct wring_session *from, struct wring_session *to)
{
    uncommit_buckets(from);
    if (from->buffers != NULL) {
        detach_buffers(from);
        move_list_of_buffers(from, to);
    }
    move_buckets(from, to);
}

/* ---- a session of those who are left ---- */

static enum wring_status meet(struct reforming *reforming, const struct wring_membership_plan *plan,
                              struct wring_bootstrap **out)
{
    struct wring_session *session = reforming->session;
    char root[WRING_INTERFACE_ADDRESS + 16], job[20];
    uint32_t size, rank = wring_membership_number(plan, session->rank, session->size, &size);

    size += plan->guests;
    if (size == 1)
        return wring_bootstrap_local_create(1, out);
    name_root(plan->address, plan->port, root, sizeof(root));
    snprintf(job, sizeof(job), "%016" PRIx64, plan->nonce);
    wring_guests_tell(session, reforming->guests, plan);
    struct wring_rendezvous_params params = {
        .log = &session->log,
        .rank = rank,
        .size = size,
        .root = root,
        .root_fd = rank == 0 ? reforming->fd : -1,
        .key = session->config.key,
        .job = job,
        .deadline_ns = reforming->deadline_ns,
        .cancel = &reforming->called_off,
    };
    return wring_rendezvous_create(&params, out);
}

/* What ranks tell each other of a bucket: a hash of its name, and its steps. */
#define ENTRY (2 * sizeof(uint64_t))

static uint64_t hash_name(const struct wring_bucket *bucket)
{
    return wring_fnv64(WRING_FNV64, bucket->name, strlen(bucket->name));
}

/** How many of the application's buckets travel as this one. */
static uint32_t count_members(const struct wring_bucket *bucket)
{
    return bucket->fuses != NULL ? bucket->fuses->n : 1;
}

/** One of these. All of them have made as many steps. */
static const struct wring_bucket *member_of(const struct wring_bucket *bucket, uint32_t i)
{
    return bucket->fuses != NULL ? bucket->fuses->members[i] : bucket;
}

static void write_steps(const struct reforming *reforming, struct wring_writer *writer)
{
    for (const struct wring_bucket *at = reforming->session->buckets; at != NULL; at = at->next)
        for (uint32_t i = 0; i < count_members(at) && at->whole == NULL; i++) {
            wring_write_u64(writer, hash_name(member_of(at, i)));
            wring_write_u64(writer, reforming->gone_back ? at->collective.step
                                                         : wring_state_steps_back(at));
        }
}

/** @param place  where the bucket most likely is @return UINT64_MAX: that rank has none like it */
static uint64_t find_steps(struct wring_reader all, uint64_t name, uint64_t place)
{
    uint64_t n = all.bytes / ENTRY;

    for (uint64_t k = 0; k < n; k++) {
        struct wring_reader entry = {all.data + (place + k) % n * ENTRY, ENTRY, false};
        if (wring_read_u64(&entry) == name)
            return wring_read_u64(&entry);
    }
    return UINT64_MAX;
}

/** Ranks may differ by one step: buckets go back to the last that each of them has completed. */
static void go_back(const struct reforming *reforming, const struct wring_blobs *blobs)
{
    uint64_t place = 0;

    for (struct wring_bucket *at = reforming->session->buckets; at != NULL; at = at->next) {
        if (at->whole != NULL)
            continue;
        uint64_t name = hash_name(member_of(at, 0)), steps = UINT64_MAX;
        for (uint32_t i = 0; i < blobs->n; i++) {
            uint64_t theirs = find_steps(wring_blobs_reader(blobs, i), name, place);
            steps = theirs < steps ? theirs : steps;
        }
        if (!reforming->gone_back || steps < at->collective.step)
            wring_state_roll_back(at, steps);
        place += count_members(at);
    }
}

static enum wring_status agree_on_steps(const struct reforming *reforming)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    write_steps(reforming, &writer);
    enum wring_status status = wring_session_exchange_writer(reforming->next, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < blobs.n; i++)
        if (wring_blobs_reader(&blobs, i).bytes % ENTRY != 0)
            status = WRING_ERR_FRAME;
    if (status == WRING_OK)
        go_back(reforming, &blobs);
    wring_blobs_finish(&blobs);
    return status;
}

/** The first time, buckets go back to those steps; later tries find them there. */
static enum wring_status prepare_buckets(struct reforming *reforming)
{
    bool first = !reforming->gone_back;

    /* newcomers know nothing of steps, and come only if no rank was lost: nothing is undone then */
    enum wring_status status = reforming->newcomers > 0 ? WRING_OK : agree_on_steps(reforming);
    if (status != WRING_OK)
        return status;
    reforming->gone_back = true;
    return first ? uncommit_buckets(reforming->session) : WRING_OK;
}

static enum wring_status fill_next(struct reforming *reforming)
{
    struct wring_session *next = reforming->next;

    enum wring_status status = prepare_buckets(reforming);
    if (status == WRING_OK)
        status = move_to_session(reforming->session, next);
    next->keeps_choices = reforming->newcomers == 0; /* they have measured nothing */
    if (status == WRING_OK)
        status = wring_session_commit(next);
    next->keeps_choices = false;
    return status;
}

/** What was built is of no use. */
static void discard_next(struct reforming *reforming)
{
    if (reforming->next == NULL)
        return;
    move_back(reforming->next, reforming->session);
    wring_session_close(reforming->next);
    reforming->next = NULL;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static enum wring_status build_next(struct reforming *reforming,
                                    const struct wring_membership_plan *plan)
{
    struct wring_session *session = reforming->session;
    uint64_t join_timeout_ns = session->config.join_timeout_ns, now_ns = wring_now_ns();
    uint64_t left_ns = reforming->deadline_ns > now_ns ? reforming->deadline_ns - now_ns : 0;
    struct wring_bootstrap *bootstrap;

    enum wring_status status = meet(reforming, plan, &bootstrap);
    if (status != WRING_OK)
        return status;
    session->config.join_timeout_ns = at_most(join_timeout_ns, left_ns);
    status = wring_session_open_like(session, bootstrap, &reforming->called_off, &reforming->next);
    session->config.join_timeout_ns = join_timeout_ns;
    if (status == WRING_OK)
        status = fill_next(reforming);
    if (status != WRING_OK) {
        discard_next(reforming);
        return status;
    }
    reforming->next->called_off = NULL;
    reforming->next->config.join_timeout_ns = join_timeout_ns;
    return WRING_OK;
}

/** A rank was lost meanwhile, or the others have gone on to another round. */
static bool may_pass(enum wring_status status)
{
    return status == WRING_ERR_PEER || status == WRING_ERR_CLOSED ||
           status == WRING_ERR_CANCELLED || status == WRING_ERR_TIMEOUT ||
           status == WRING_ERR_AUTH || status == WRING_ERR_ADDRESS || status == WRING_ERR_FRAME;
}

static enum wring_status build_and_tell(struct reforming *reforming,
                                        const struct wring_membership_plan *plan)
{
    struct wring_session *session = reforming->session;

    discard_next(reforming);
    reforming->round = plan->round;
    reforming->newcomers = plan->guests;
    reforming->leaves_behind = plan->n_ranges > 0;
    enum wring_status status = build_next(reforming, plan);
    wring_progress_lock(session->progress);
    if (status == WRING_OK)
        wring_membership_has_built(session->engine, plan->round);
    else if (may_pass(status))
        wring_membership_try_again(session->engine, plan->round);
    else
        wring_membership_quit(session->engine);
    wring_progress_unlock(session->progress);
    return may_pass(status) ? WRING_OK : status;
}

/* ---- until it is settled ---- */

struct change_awaited {
    const struct wring_membership *membership;
    unsigned seen;
};

static bool has_changed(const void *arg)
{
    const struct change_awaited *awaited = arg;
    return atomic_load_explicit(&awaited->membership->changes, memory_order_acquire) !=
           awaited->seen;
}

/** What this rank is to do, and what for. @param text  out, [WRING_MEMBERSHIP_TEXT] */
static enum wring_membership_state look(const struct reforming *reforming,
                                        struct wring_membership_plan *plan, unsigned *seen,
                                        char *text)
{
    const struct wring_membership *membership = membership_of(reforming);

    wring_progress_lock(reforming->session->progress);
    enum wring_membership_state state = membership->state;
    *plan = membership->plan;
    *seen = atomic_load_explicit(&membership->changes, memory_order_relaxed);
    memcpy(text, membership->text, WRING_MEMBERSHIP_TEXT);
    wring_progress_unlock(reforming->session->progress);
    return state;
}

static enum wring_status give_up_late(const struct reforming *reforming)
{
    struct wring_session *session = reforming->session;

    wring_progress_lock(session->progress);
    uint32_t missing = wring_membership_missing(session->engine);
    wring_membership_quit(session->engine);
    wring_progress_unlock(session->progress);
    if (missing != UINT32_MAX && missing != session->rank)
        wring_error(&session->log,
                    "the ranks that are left did not agree in time: rank %" PRIu32
                    " lives and has not called wring_session_shrink() or _grow()",
                    missing);
    else
        wring_error(&session->log, "the ranks that are left did not agree in time");
    return WRING_ERR_TIMEOUT;
}

static enum wring_status follow(struct reforming *reforming)
{
    struct change_awaited awaited = {.membership = membership_of(reforming)};
    char text[WRING_MEMBERSHIP_TEXT];
    struct wring_membership_plan plan;
    enum wring_status status = WRING_OK;

    while (status == WRING_OK) {
        switch (look(reforming, &plan, &awaited.seen, text)) {
        case WRING_MEMBERSHIP_SETTLED:
            return WRING_OK;
        case WRING_MEMBERSHIP_ENDED:
            wring_error(&reforming->session->log, "rank %" PRIu32 " does not go on: %s",
                        reforming->session->rank, text);
            return WRING_ERR_PEER;
        case WRING_MEMBERSHIP_BUILDS:
            status = build_and_tell(reforming, &plan);
            break;
        case WRING_MEMBERSHIP_AWAY:
        case WRING_MEMBERSHIP_WAITS:
        case WRING_MEMBERSHIP_BUILT:
            wring_progress_drive(reforming->session->progress,
                                 (struct wring_goal){has_changed, &awaited},
                                 reforming->deadline_ns);
            if (wring_now_ns() >= reforming->deadline_ns)
                status = give_up_late(reforming);
            break;
        }
    }
    return status;
}

static void say_who_goes_on(const struct wring_session *session, const struct wring_session *next,
                            uint64_t began_ns)
{
    wring_warn(&session->log,
               "rank %" PRIu32 " of %" PRIu32 " goes on as rank %" PRIu32 " of %" PRIu32
               ", after %.1f ms",
               session->rank, session->size, next->rank, next->size,
               (double)(wring_now_ns() - began_ns) / 1e6);
}

/** The new session has those that the old one held. Ranks that it leaves behind may live, and must
 *  not find that nobody is at its port: they would go on, too. */
static enum wring_status hold_port(struct wring_session *session)
{
    int *ports = realloc(session->held_ports, (session->n_held + 1) * sizeof(*ports));
    if (ports == NULL)
        return WRING_ERR_NO_MEMORY;
    session->held_ports = ports;
    if (session->fabric->tree == NULL) /* one rank leaves nobody behind */
        return WRING_OK;
    int fd = wring_control_tree_hold_port(session->fabric->tree);
    if (fd < 0) {
        wring_error(&session->log, "this rank cannot hold its control port: %s",
                    WRING_REFUSED("fcntl"));
        return WRING_ERR_SYSTEM;
    }
    ports[session->n_held++] = fd;
    return WRING_OK;
}

static void hand_over_ports(struct wring_session *session, struct wring_session *next)
{
    next->door_fd = session->door_fd;
    next->held_ports = session->held_ports;
    next->n_held = session->n_held;
    session->door_fd = -1;
    session->held_ports = NULL;
    session->n_held = 0;
}

enum wring_status wring_elastic_reform(struct wring_session *session, uint64_t late_ns,
                                       uint64_t deadline_ns, struct wring_guests *guests,
                                       struct wring_session **out)
{
    struct reforming reforming = {.session = session,
                                  .deadline_ns = deadline_ns,
                                  .late_ns = late_ns,
                                  .fd = -1,
                                  .guests = guests};
    uint64_t began_ns = wring_now_ns();
    uint32_t held_before = session->n_held;

    reforming.called_off = (struct wring_cancel){is_round_over, &reforming};
    enum wring_status status = await_quiet(&reforming);
    if (status == WRING_OK)
        status = hold_port(session);
    if (status == WRING_OK)
        status = come(&reforming);
    if (status == WRING_OK)
        status = follow(&reforming);
    wring_descriptor_close(reforming.fd);
    if (status != WRING_OK) {
        discard_next(&reforming);
        return status;
    }
    struct wring_session *next = reforming.next;
    say_who_goes_on(session, next, began_ns);
    if (!reforming.leaves_behind && session->n_held > held_before)
        wring_descriptor_close(session->held_ports[--session->n_held]);
    hand_over_ports(session, next);
    wring_session_close(session);
    *out = next;
    return WRING_OK;
}
