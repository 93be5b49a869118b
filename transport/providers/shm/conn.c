/* SPDX-License-Identifier: Apache-2.0 */
/** A connection's life, on its socket: meeting the peer, its frames, and every way to end. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/memory.h"
#include "transport/providers/handshake.h"
#include "transport/providers/shm/shm.h"

#define WRING_MODULE "shm"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SLOT(index) ((index) & (SHM_RING_ENTRIES - 1))
#define KIND_BITS 8

_Static_assert(sizeof(struct shm_cell) == 64, "an entry is one cache line");
_Static_assert(offsetof(struct shm_inbox, tail) == 64, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, asleep) == 128, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, cells) == 192, "layout in WIRE.md");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

static enum wring_status map_inbox(struct shm_ring *ring, int fd)
{
    void *inbox = mmap(NULL, sizeof(*ring->inbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (inbox == MAP_FAILED)
        return WRING_ERR_SYSTEM;
    wring_forked_hide(inbox, sizeof(*ring->inbox));
    *ring = (struct shm_ring){.inbox = inbox};
    return WRING_OK;
}

enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *out, const char **call)
{
    *call = "memfd_create";
    int fd = WRING_DESCRIPTOR(memfd_create("wring-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return WRING_ERR_SYSTEM;

    enum wring_status status = WRING_ERR_SYSTEM;
    *call = "ftruncate or fcntl(F_ADD_SEALS)";
    if (!wring_memory_resize(fd, sizeof(*ring->inbox)) || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        goto close_fd;
    *call = "mmap";
    status = map_inbox(ring, fd);
    if (status != WRING_OK)
        goto close_fd;
    *out = fd;
    return WRING_OK;

close_fd:
    wring_descriptor_close(fd);
    return status;
}

enum wring_status wring_shm_ring_map(struct shm_ring *ring, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
        st.st_size != sizeof(*ring->inbox))
        return WRING_ERR_FRAME;
    return map_inbox(ring, fd);
}

void wring_shm_ring_finish(struct shm_ring *ring)
{
    if (ring->inbox != NULL)
        munmap(ring->inbox, sizeof(*ring->inbox));
    *ring = (struct shm_ring){0};
}

enum wring_status wring_shm_ring_room(struct shm_ring *ring)
{
    if (ring->head - ring->tail < SHM_RING_ENTRIES)
        return WRING_OK;
    uint32_t tail = atomic_load_explicit(&ring->inbox->tail, memory_order_acquire);
    if (ring->head - tail > SHM_RING_ENTRIES)
        return WRING_ERR_FRAME;
    ring->tail = tail;
    return ring->head - tail < SHM_RING_ENTRIES ? WRING_OK : WRING_ERR_AGAIN;
}

/** The mark of an entry, but for its kind. */
static uint32_t mark_of(uint32_t index)
{
    return (index + 1) << KIND_BITS;
}

bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *data)
{
    struct shm_inbox *inbox = ring->inbox;
    uint32_t slot = SLOT(ring->head);
    struct shm_cell *cell = &inbox->cells[slot];

    cell->region = entry->region;
    cell->offset = entry->offset;
    cell->bytes = entry->bytes;
    cell->imm = entry->imm;
    if (entry->kind != SHM_PUT)
        memcpy(entry->bytes <= SHM_INSIDE_MAX ? cell->inside : inbox->messages[slot], data,
               entry->bytes);
    atomic_store_explicit(&cell->mark, mark_of(ring->head++) | entry->kind, memory_order_release);
    /* in one order with the consumer's store to asleep and its last look at head */
    atomic_store_explicit(&inbox->head, ring->head, memory_order_seq_cst);
    return atomic_load_explicit(&inbox->asleep, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&inbox->asleep, 0, memory_order_relaxed) != 0;
}

/** The most bytes that may come with an entry of that kind. */
static size_t most_bytes(uint32_t kind)
{
    return kind == SHM_MESSAGE ? WRING_SEND_MAX : SHM_INSIDE_MAX;
}

enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry, void *data)
{
    struct shm_inbox *inbox = ring->inbox;
    uint32_t slot = SLOT(ring->tail);
    struct shm_cell *cell = &inbox->cells[slot];
    uint32_t mark = atomic_load_explicit(&cell->mark, memory_order_acquire);
    uint32_t kind = mark & ((1u << KIND_BITS) - 1);

    if (mark - kind != mark_of(ring->tail))
        return WRING_ERR_AGAIN;
    const volatile struct shm_cell *once = cell; /* its fields are read no second time */
    *entry = (struct shm_entry){once->region, once->offset, once->bytes, once->imm, kind};
    if (kind == SHM_MESSAGE || kind == SHM_INSIDE) {
        if (entry->bytes == 0 || entry->bytes > most_bytes(kind))
            return WRING_ERR_FRAME;
        memcpy(data, entry->bytes <= SHM_INSIDE_MAX ? cell->inside : inbox->messages[slot],
               entry->bytes);
    }
    ring->tail++;
    atomic_store_explicit(&inbox->tail, ring->tail, memory_order_release);
    return WRING_OK;
}

enum wring_status wring_shm_ring_end(const struct shm_ring *ring, uint32_t *end)
{
    uint32_t head = atomic_load_explicit(&ring->inbox->head, memory_order_acquire);
    if (head - ring->tail == UINT32_MAX) /* it died after the mark of an entry that we have taken */
        head = ring->tail;
    if (head - ring->tail > SHM_RING_ENTRIES)
        return WRING_ERR_FRAME;
    *end = head;
    return WRING_OK;
}

bool wring_shm_ring_sleep(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 1, memory_order_seq_cst);
    return atomic_load_explicit(&ring->inbox->head, memory_order_seq_cst) == ring->tail;
}

void wring_shm_ring_awake(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 0, memory_order_relaxed);
}

/* ---- connections ---- */

#define RETRY_NS (2 * WRING_NS_PER_MS)  /* nothing tells when a listener has room again */
#define ROOM_NS (100 * WRING_NS_PER_US) /* nor when a ring has: it holds work for as long */
#define FRAMES_AT_ONCE 256

struct shm_conn *wring_shm_conn_create(struct shm_provider *shm, bool accepted, int fd,
                                       const void *hello, size_t hello_bytes)
{
    struct ucred peer = {0};
    socklen_t bytes = sizeof(peer);
    struct shm_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;

    conn->base.provider = &shm->base;
    conn->state = accepted ? SHM_AUTH : SHM_CONNECTING;
    conn->accepted = accepted;
    conn->surfaced = !accepted;
    conn->since_ns = wring_now_ns();
    conn->deadline_ns = wring_deadline_in(shm->handshake_ns);
    wring_shm_socket_init(&conn->sock, fd);
    wring_auth_init(&conn->auth, !accepted, WRING_AUTH_SHM, shm->secret, hello, hello_bytes);
    if (accepted && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
        conn->pid = peer.pid;
    return conn;
}

/** Out of the epoll set before it is closed: where a child that is about to exec has it, too, the
 * set would go on telling of it. */
static void close_socket(struct shm_conn *conn)
{
    if (conn->in_epoll)
        epoll_ctl(shm_of(conn)->epoll, EPOLL_CTL_DEL, conn->sock.fd, NULL);
    conn->in_epoll = conn->room_in_epoll = false;
    wring_shm_socket_finish(&conn->sock);
}

/** Leave, so that the peer can tell it from a death, and before it writes to us again. */
static void say_goodbye(struct shm_conn *conn)
{
    if (conn->out.inbox != NULL)
        atomic_store_explicit(&conn->out.inbox->left, 1, memory_order_release);
    close_socket(conn); /* by this the peer sees that we left */
    if (conn->in.inbox != NULL)
        atomic_fetch_add(&conn->in.inbox->gone, 1); /* by this it looks there first */
}

void wring_shm_conn_destroy(struct shm_conn *conn)
{
    say_goodbye(conn);
    wring_shm_mappings_finish(conn);
    wring_shm_ring_finish(&conn->in);
    wring_shm_ring_finish(&conn->out);
    free(conn);
}

void wring_shm_conn_fail(struct shm_conn *conn, enum wring_status status, const char *format, ...)
{
    if (conn->state == SHM_DEAD)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(conn->text, sizeof(conn->text), format, args);
    va_end(args);
    conn->status = status;
    conn->state = SHM_DEAD;
    say_goodbye(conn);
}

#define DUPLICATE "fcntl(F_DUPFD_CLOEXEC)"

/** @param call  which the system has refused, where the status is WRING_ERR_SYSTEM */
#define WHY(status, call) \
    ((status) == WRING_ERR_SYSTEM ? WRING_REFUSED(call) : wring_status_text(status))

/** Watch the socket for input and, while output waits, for room. */
static void watch_socket(struct shm_conn *conn)
{
    bool room = conn->state == SHM_AUTH ? wring_handshake_wants_room(&conn->auth)
                                        : wring_shm_socket_wants_room(&conn->sock);
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u), .data.ptr = conn};
    int op = conn->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (conn->sock.fd < 0 || conn->state == SHM_CONNECTING ||
        (conn->in_epoll && conn->room_in_epoll == room))
        return;
    if (epoll_ctl(shm_of(conn)->epoll, op, conn->sock.fd, &event) != 0) {
        wring_shm_conn_fail(conn, WRING_ERR_SYSTEM, "%s", WRING_REFUSED("epoll_ctl"));
        return;
    }
    conn->in_epoll = true;
    conn->room_in_epoll = room;
}

void wring_shm_conn_say(struct shm_conn *conn, const struct shm_frame *frame, int fd)
{
    enum wring_status status = wring_shm_socket_send(&conn->sock, frame, fd);
    if (status != WRING_OK && status != WRING_ERR_PEER) /* the end of a stream shows in reading */
        wring_shm_conn_fail(conn, status, "cannot tell process %d of a region: %s", (int)conn->pid,
                            WHY(status, DUPLICATE));
    watch_socket(conn);
}

static void try_connect(struct shm_conn *conn)
{
    struct ucred peer = {0};
    socklen_t bytes = sizeof(peer);

    if (connect(conn->sock.fd, (struct sockaddr *)&conn->address, conn->address_bytes) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            wring_shm_conn_fail(conn, WRING_ERR_ADDRESS, "its socket cannot be reached: %s",
                                strerror(errno));
        return;
    }
    if (getsockopt(conn->sock.fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
        conn->pid = peer.pid;
    if (peer.uid != geteuid()) {
        wring_shm_conn_fail(conn, WRING_ERR_ADDRESS,
                            "process %d is of user %u, this one of user %u", (int)conn->pid,
                            (unsigned)peer.uid, (unsigned)geteuid());
        return;
    }
    conn->state = SHM_AUTH;
}

/** Each side makes the ring that it reads from; all regions follow. @param call  out, as errno */
static enum wring_status begin_meeting(struct shm_conn *conn, const char **call)
{
    int fd;
    enum wring_status status = wring_shm_ring_create(&conn->in, &fd, call);
    if (status != WRING_OK)
        return status;
    *call = DUPLICATE;
    struct shm_frame ring = {.kind = SHM_FRAME_RING, .bytes = sizeof(*conn->in.inbox)};
    status = wring_shm_socket_send(&conn->sock, &ring, fd);
    wring_descriptor_close(fd);
    if (status != WRING_OK)
        return status;
    conn->state = SHM_MEETING;
    return wring_shm_regions_announce(conn);
}

static void step_auth(struct shm_conn *conn)
{
    char text[SHM_TEXT / 2] = "";
    const char *call;
    enum wring_status status = wring_handshake_step(&conn->auth, conn->sock.fd, text, sizeof(text));
    if (status == WRING_ERR_AGAIN)
        return;
    if (status != WRING_OK) {
        wring_shm_conn_fail(conn, status, "process %d: %s", (int)conn->pid, text);
        return;
    }
    status = begin_meeting(conn, &call);
    if (status != WRING_OK)
        wring_shm_conn_fail(conn, status, "process %d: the ring cannot be made or sent: %s",
                            (int)conn->pid, WHY(status, call));
}

static enum wring_status take_ring(struct shm_conn *conn, const struct shm_frame *frame, int fd)
{
    if (conn->state != SHM_MEETING || frame->bytes != sizeof(*conn->out.inbox))
        return WRING_ERR_FRAME;
    enum wring_status status = wring_shm_ring_map(&conn->out, fd);
    if (status != WRING_OK)
        return status;
    conn->state = SHM_OPEN;
    conn->surfaced = conn->news = true;
    return WRING_OK;
}

static enum wring_status take_frame(struct shm_conn *conn, const struct shm_frame *frame, int fd)
{
    bool wants_fd = frame->kind == SHM_FRAME_RING || frame->kind == SHM_FRAME_REGION;
    if (wants_fd != (fd >= 0))
        return WRING_ERR_FRAME;
    if (frame->kind == SHM_FRAME_RING)
        return take_ring(conn, frame, fd);
    if (conn->state != SHM_OPEN)
        return WRING_ERR_FRAME;

    switch (frame->kind) {
    case SHM_FRAME_REGION:
        return wring_shm_mapping_add(conn, frame, fd);
    case SHM_FRAME_GONE:
        wring_shm_mapping_remove(conn, frame->id);
        return WRING_OK;
    case SHM_FRAME_WAKE:
        return WRING_OK;
    default:
        return WRING_ERR_FRAME;
    }
}

/** The stream has ended: what the peer put before is still handed out. */
static void begin_drain(struct shm_conn *conn)
{
    if (conn->state != SHM_OPEN) {
        wring_shm_conn_fail(conn, WRING_ERR_PEER, "process %d closed while the connection was made",
                            (int)conn->pid);
        return;
    }
    bool left = atomic_load_explicit(&conn->in.inbox->left, memory_order_acquire) != 0;
    if (wring_shm_ring_end(&conn->in, &conn->end) != WRING_OK) {
        wring_shm_conn_fail(conn, WRING_ERR_FRAME, SHM_NONSENSE, (int)conn->pid);
        return;
    }
    conn->state = SHM_DRAINING;
    conn->status = WRING_ERR_PEER;
    snprintf(conn->text, sizeof(conn->text),
             left ? "process %d disconnected" : "process %d died (it did not disconnect)",
             (int)conn->pid);
    close_socket(conn);
}

static void receive_frames(struct shm_conn *conn)
{
    struct shm_frame frame;
    int fd;
    for (unsigned i = 0; i < FRAMES_AT_ONCE; i++) {
        const char *call = "recvmsg";
        enum wring_status status = wring_shm_socket_receive(&conn->sock, &frame, &fd);
        if (status == WRING_ERR_AGAIN)
            return;
        if (status == WRING_ERR_PEER) {
            begin_drain(conn);
            return;
        }
        if (status == WRING_OK) {
            call = "mmap";
            status = take_frame(conn, &frame, fd);
            wring_descriptor_close(fd); /* keeps errno */
        }
        if (status != WRING_OK) {
            wring_shm_conn_fail(conn, status, "from process %d: %s", (int)conn->pid,
                                status == WRING_ERR_FRAME ? "a malformed frame"
                                                          : WHY(status, call));
            return;
        }
    }
}

static bool is_open_or_meeting(const struct shm_conn *conn)
{
    return conn->state == SHM_MEETING || conn->state == SHM_OPEN;
}

void wring_shm_conn_service(struct shm_conn *conn)
{
    if (conn->state == SHM_CONNECTING)
        try_connect(conn);
    if (conn->state == SHM_AUTH)
        step_auth(conn);
    if (is_open_or_meeting(conn))
        wring_shm_socket_flush(&conn->sock);
    if (is_open_or_meeting(conn))
        receive_frames(conn);
    if (conn->state < SHM_OPEN && wring_now_ns() >= conn->deadline_ns)
        wring_shm_conn_fail(conn, WRING_ERR_TIMEOUT, "process %d did not finish connecting in time",
                            (int)conn->pid);
    watch_socket(conn);
}

/** Was there no room in the ring, and is there now? */
static bool check_room_back(struct shm_conn *conn)
{
    if (conn->state != SHM_OPEN || !conn->starved)
        return false;
    conn->starved = wring_shm_ring_room(&conn->out) == WRING_ERR_AGAIN;
    return !conn->starved;
}

bool wring_shm_conn_arm(struct shm_conn *conn, uint64_t *deadline_ns)
{
    uint64_t deadline = WRING_NEVER;
    bool roomy = check_room_back(conn);
    if (conn->state < SHM_OPEN)
        deadline = conn->deadline_ns;
    if (conn->state == SHM_CONNECTING)
        deadline = wring_deadline_in(RETRY_NS);
    if (conn->state == SHM_OPEN && conn->starved)
        deadline = wring_deadline_in(ROOM_NS);
    if (deadline < *deadline_ns)
        *deadline_ns = deadline;

    bool waiting = roomy || conn->news || conn->done_head != conn->done_tail ||
                   conn->state == SHM_DRAINING || (conn->state == SHM_DEAD && !conn->told_closed);
    return waiting || (conn->state == SHM_OPEN && !wring_shm_ring_sleep(&conn->in));
}

/* ---- traffic ---- */

/** Traffic through the rings of an open connection: puts and messages out, events in. */

/** May one entry be pushed? A peer that tampers with the ring loses the connection. */
static enum wring_status check_entry_room(struct shm_conn *conn)
{
    if (!wring_shm_conn_stands(conn))
        return conn->state <= SHM_OPEN ? WRING_ERR_AGAIN : WRING_ERR_CLOSED;
    enum wring_status status = wring_shm_ring_room(&conn->out);
    conn->starved = status == WRING_ERR_AGAIN;
    if (status != WRING_ERR_FRAME)
        return status;
    wring_shm_conn_fail(conn, status, SHM_NONSENSE, (int)conn->pid);
    return WRING_ERR_CLOSED;
}

enum wring_status wring_shm_put(struct wring_conn *base, struct wring_region *region,
                                const void *local, struct wring_remote *remote,
                                uint64_t remote_offset, size_t bytes, uint32_t imm, uint64_t cookie)
{
    struct shm_conn *conn = (struct shm_conn *)base;
    const struct shm_mapping *mapping = ((struct shm_remote *)remote)->mapping;
    size_t at = region == NULL ? 0 : (size_t)((uintptr_t)local - (uintptr_t)region->base);

    if (remote->conn != base || remote_offset > mapping->bytes ||
        bytes > mapping->bytes - remote_offset)
        return WRING_ERR_INVALID;
    if (region != NULL && bytes > 0 && (at > region->bytes || bytes > region->bytes - at))
        return WRING_ERR_INVALID; /* any local memory will do, but not what is said to be another */
    if (conn->state == SHM_OPEN)
        wring_shm_mappings_refresh(conn);
    enum wring_status status = check_entry_room(conn);
    if (status != WRING_OK)
        return status;
    if (cookie != WRING_NO_PUT_DONE && conn->done_head - conn->done_tail == SHM_RING_ENTRIES)
        return WRING_ERR_AGAIN;

    bool there = local == mapping->base + remote_offset;
    bool inside = bytes > 0 && bytes <= SHM_INSIDE_MAX && !there;
    if (bytes > SHM_INSIDE_MAX && mapping->known &&
        !there) /* else the peer will refuse it without data */
        memcpy(mapping->base + remote_offset, local, bytes);
    struct shm_entry entry = {.kind = inside ? SHM_INSIDE : SHM_PUT,
                              .region = mapping->id,
                              .offset = remote_offset,
                              .bytes = bytes,
                              .imm = imm};
    if (wring_shm_ring_push(&conn->out, &entry, local))
        wring_shm_socket_wake(&conn->sock);
    if (cookie != WRING_NO_PUT_DONE)
        conn->done[conn->done_head++ % SHM_RING_ENTRIES] = cookie;
    return WRING_OK;
}

/** Word of regions goes through the socket, and before each message, which may name one. */
static enum wring_status flush_region_words(struct shm_conn *conn)
{
    if (!wring_shm_socket_wants_room(&conn->sock))
        return WRING_OK;
    wring_shm_socket_flush(&conn->sock); /* a broken stream shows when it is read */
    return wring_shm_socket_wants_room(&conn->sock) ? WRING_ERR_AGAIN : WRING_OK;
}

enum wring_status wring_shm_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct shm_conn *conn = (struct shm_conn *)base;
    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = check_entry_room(conn);
    if (status == WRING_OK)
        status = flush_region_words(conn);
    if (status != WRING_OK)
        return status;

    struct shm_entry entry = {.kind = SHM_MESSAGE, .bytes = bytes};
    if (wring_shm_ring_push(&conn->out, &entry, data))
        wring_shm_socket_wake(&conn->sock);
    return WRING_OK;
}

/** Turn a ring entry into an event; false if the peer may not say that. */
static bool deliver_entry(struct shm_conn *conn, const struct shm_entry *entry,
                          struct wring_event *event)
{
    struct shm_provider *shm = shm_of(conn);
    *event = (struct wring_event){.conn = &conn->base, .bytes = (size_t)entry->bytes};
    uint8_t *target;
    switch (entry->kind) {
    case SHM_PUT:
    case SHM_INSIDE:
        event->kind = WRING_EVENT_ARRIVED;
        event->imm = entry->imm;
        target = wring_shm_region_at(shm, entry->region, entry->offset, entry->bytes);
        if (target != NULL && entry->kind == SHM_INSIDE)
            memcpy(target, shm->messages[shm->n_messages], entry->bytes);
        return target != NULL;
    case SHM_MESSAGE:
        event->kind = WRING_EVENT_MESSAGE;
        event->data = shm->messages[shm->n_messages++];
        return true;
    default:
        return false;
    }
}

static size_t take_ring_events(struct shm_conn *conn, struct wring_event *events, size_t max)
{
    struct shm_provider *shm = shm_of(conn);
    struct shm_entry entry;
    size_t n = 0;

    while (n < max && shm->n_messages < SHM_MESSAGES &&
           !(conn->state == SHM_DRAINING && conn->in.tail == conn->end)) {
        enum wring_status status =
            wring_shm_ring_take(&conn->in, &entry, shm->messages[shm->n_messages]);
        if (status == WRING_ERR_AGAIN && conn->state == SHM_OPEN)
            break;
        if (status != WRING_OK || !deliver_entry(conn, &entry, &events[n])) {
            wring_shm_conn_fail(conn, WRING_ERR_FRAME, SHM_NONSENSE, (int)conn->pid);
            break;
        }
        n++;
    }
    return n;
}

static struct wring_event take_news_event(struct shm_conn *conn)
{
    struct wring_event event = {.kind = WRING_EVENT_CONNECTED, .conn = &conn->base};
    if (conn->accepted) {
        event.kind = WRING_EVENT_ACCEPTED;
        event.data = wring_auth_hello(&conn->auth, &event.bytes);
    }
    conn->news = false;
    return event;
}

size_t wring_shm_conn_events(struct shm_conn *conn, struct wring_event *events, size_t max)
{
    size_t n = 0;
    if (conn->news && n < max)
        events[n++] = take_news_event(conn);
    while (conn->done_head != conn->done_tail && n < max)
        events[n++] = (struct wring_event){
            .kind = WRING_EVENT_PUT_DONE,
            .conn = &conn->base,
            .cookie = conn->done[conn->done_tail++ % SHM_RING_ENTRIES],
        };
    if (conn->state == SHM_OPEN || conn->state == SHM_DRAINING)
        n += take_ring_events(conn, events + n, max - n);
    if (conn->state == SHM_DRAINING && conn->in.tail == conn->end)
        conn->state = SHM_DEAD;
    if (conn->state == SHM_DEAD && !conn->told_closed && n < max) {
        conn->told_closed = true;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = conn->status,
                                           .text = conn->text};
    }
    return n;
}
