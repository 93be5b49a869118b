/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tcp provider's objects, private to its files.
 *
 * One epoll descriptor, edge-triggered, watches all sockets. An edge sets a connection's readable
 * or writable flag; the flag falls when the kernel has said that there is no more. Connections
 * with something left to do stand in the ready list, so nothing is lost when a poll ends early,
 * because the caller's event array is full or a connection has used up its share.
 *
 * transport/WIRE.md, "TCP frames", has the bytes.
 */
#ifndef WRING_TCP_H
#define WRING_TCP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/crc32c.h"
#include "transport/auth.h"
#include "transport/door.h"
#include "transport/providers/providers.h"
#include <wring/provider.h>

#define TCP_ADDRESS_AT 4   /* in an address blob, before it family and port */
#define TCP_FRAME_BYTES 32 /* a frame's header */
#define TCP_CHECK_BYTES 32 /* and what follows it in a checked frame */
#define TCP_FRAME_UNIT 32  /* a frame is as many of these as it needs: see tcp_padding() */
#define TCP_HEADER_MAX (TCP_FRAME_BYTES + TCP_CHECK_BYTES)
#define TCP_FRAME_MAGIC 0x5752 /* "RW" */
#define TCP_PUT_MAX ((size_t)1 << 30)
#define TCP_PUT_DEPTH 128       /* a power of two */
#define TCP_CONTROL_DEPTH 32    /* likewise */
#define TCP_RECEIVE_BYTES 16384 /* read ahead while frames are small */
#define TCP_SMALL_BYTES 8192    /* payloads up to this may pass through that buffer */
#define TCP_PEEK_BYTES \
    (TCP_FRAME_BYTES + \
     512) /* read ahead while large: a few small frames; whole cache lines of payload */
#define TCP_CONTROL_NAME_BYTES \
    16 /* a congestion control's name, the longest Linux knows, and its end */
#define TCP_SHARE_BYTES (1u << 20) /* one connection's bytes per turn, each way */
#define TCP_MESSAGES_PER_POLL 64
#define TCP_ACCEPTS_PER_POLL 16
#define TCP_PENDING_MAX 128 /* accepted, not yet authenticated */
#define TCP_HANDSHAKE_NS (5 * 1000000000ull)
#define TCP_EVICT_NS (1 * 1000000000ull) /* a pending one this old may be dropped for another */
#define TCP_REGION_KEY_BYTES 16
#define TCP_MEASURE_BYTES (1u << 20) /* sent between two looks at the rate */
#define TCP_NEAR_US 1000             /* a peer within so much, there and back, is near */
#define TCP_SOCKETS_MAX 16
#define TCP_SOCKETS_AUTO 8      /* as many as are taken by themselves, at most */
#define TCP_PARTS_AHEAD 1024    /* parts that may come before one that is due; a power of two */
#define TCP_PART_BYTES 65536    /* a put of more is cut where there are several sockets */
#define TCP_NEXT_HELLO_BYTES 18 /* of one socket more */

enum tcp_frame_kind {
    TCP_FRAME_PUT = 1,
    TCP_FRAME_MESSAGE = 2,
    TCP_FRAME_PART = 3, /* of a put, on a connection that has several sockets */
};

/**
 * The bytes that follow a payload, so that the next frame begins at a whole unit.
 *
 * The kernel copies a stream through pages, from their beginning to their end. With `rep movsb`, as
 * it does on many processors, a copy takes up to 15 times as long where its target lies 1 to 15
 * bytes further into a page than its source (Zen 4: 3.5 GB/s instead of 50). Whole units keep all
 * payloads as far into pages as buffers usually are, or well away from it.
 */
static inline size_t tcp_padding(size_t payload_bytes)
{
    return -payload_bytes % TCP_FRAME_UNIT;
}

/** A frame's header in host form. */
struct tcp_frame {
    uint8_t kind;
    uint32_t region, generation; /* 0 in a message */
    uint64_t offset;             /* 0 in a message */
    uint32_t bytes, imm;
    bool checked;         /* it carries checksums */
    uint32_t payload_crc; /* in a checked one */
    uint32_t part;        /* of a part: its number, in the order of puts */
    bool more;            /* likewise: the same put goes on with the next part */
};

struct tcp_region {
    struct wring_region base;
    uint32_t index, generation;
};

struct tcp_slot {
    struct tcp_region *region; /* NULL: free, or revoked */
    uint32_t generation;       /* of the region, or of the last one */
    bool revoked;              /* that one was, and what is put into it is dropped, for good */
};

struct tcp_remote {
    struct wring_remote base;
    uint32_t index, generation;
};

struct tcp_put {
    uint8_t header[TCP_HEADER_MAX];
    size_t header_bytes;
    const uint8_t *data;
    size_t bytes;
    uint64_t cookie; /* of a part: its put's number in the bundle */
    bool is_spoiled; /* payload byte spoiled_at leaves as `spoiled`: fault injection */
    uint8_t spoiled;
    size_t spoiled_at;
};

/** A copy that a put sends, where its source is not to be read any more. */
struct tcp_copy {
    struct tcp_copy *next; /* of an earlier put */
    uint32_t put;          /* its number, as put_head counts */
    uint8_t data[];
};

struct tcp_control {
    uint8_t frame[TCP_HEADER_MAX + WRING_SEND_MAX + TCP_FRAME_UNIT];
    size_t bytes;
};

/** Rings with free-running counters. At most one frame is half sent. */
struct tcp_sender {
    struct tcp_put puts[TCP_PUT_DEPTH];
    uint32_t put_tail, put_sent, put_head; /* reported <= sent <= queued */
    size_t put_at;                         /* bytes of frame put_sent that are gone */
    struct tcp_copy *copies;               /* the newest put's first; NULL: almost always */
    struct tcp_control controls[TCP_CONTROL_DEPTH];
    uint32_t control_sent, control_head;
    size_t control_at;
    size_t queued_bytes;
    bool broken; /* the kernel takes no more; the receiving side finds out why */
    uint64_t spoil_at;
    uint8_t spoil_mask; /* not 0: the next frame is to be spoiled */
};

struct tcp_receiver {
    uint8_t buffer[TCP_RECEIVE_BYTES];
    size_t at, end;         /* what is unread in buffer */
    struct tcp_frame frame; /* under way if in_frame */
    struct tcp_region *region;
    uint8_t *target; /* where the next payload byte goes; NULL: it is dropped */
    size_t left;     /* payload bytes to come */
    size_t padding;  /* bytes to come between the last payload and the next frame */
    uint32_t crc;    /* of those that have come, in a checked frame */
    bool in_frame;
    bool large;   /* the last frame was: read no more than TCP_PEEK_BYTES ahead */
    bool blocked; /* the event array was full: go on without waiting for an edge */
    bool waits;   /* what has come is too far ahead of other sockets: until they have caught up */
    uint8_t message[WRING_SEND_MAX];
};

/** A put that was cut into parts. */
struct tcp_split {
    uint64_t cookie;
    size_t bytes;
    unsigned left; /* parts that the kernel has not yet */
};

/** A part that is there, and whose turn may be yet to come. */
struct tcp_part {
    uint32_t bytes, imm;
    bool there, more;
};

/**
 * The sockets of one connection that has several: sockets.c. Each is a tcp_conn with buffers of its
 * own; the user knows the first one only.
 */
struct tcp_bundle {
    struct tcp_conn *sockets[TCP_SOCKETS_MAX];
    unsigned n;        /* of them; 0: not said yet, on the side that accepts */
    unsigned standing; /* proven */
    unsigned ended;    /* that the peer has closed */
    bool broken;       /* one of them has, or takes no more: nothing is sent any more */
    char why[160];     /* the first that ended did so */

    struct tcp_split puts[TCP_PUT_DEPTH];
    uint32_t put_tail, put_head; /* reported <= queued */
    uint32_t next_part;          /* to be sent */

    struct tcp_part parts[TCP_PARTS_AHEAD]; /* by their numbers, from first_part on */
    uint32_t first_part;                    /* all before it have had their turn */
    size_t put_bytes;                       /* of the parts before it that belong to its put */
};

enum tcp_state {
    TCP_CONNECTING,
    TCP_HANDSHAKE,
    TCP_GATHERING, /* proven, but other sockets of the connection are not yet */
    TCP_READY,     /* proven; CONNECTED or ACCEPTED is still to be reported */
    TCP_OPEN,
    TCP_FAILED,  /* CLOSED is still to be reported */
    TCP_CLOSED,  /* waits for disconnect */
    TCP_DROPPED, /* never shown to the user: poll frees it */
};

struct tcp_conn {
    struct wring_conn base;
    struct tcp_conn *next, *previous;             /* all of the provider's */
    struct tcp_conn *ready_next, *ready_previous; /* the ready list */
    enum tcp_state state;
    int fd;
    bool accepted, in_ready, readable, writable, hung_up;
    bool timed;                       /* it has a deadline */
    uint32_t origin;                  /* where it comes from, as a number */
    uint64_t deadline_ns;             /* of the handshake, or of the end of several sockets */
    struct tcp_bundle *bundle;        /* NULL: this socket is all */
    uint64_t sent_bytes, measured_at; /* to a far peer; so many when its rate was last asked for */
    uint64_t taken_per_s;             /* of this socket; 0: not known */
    enum wring_status status;
    char peer[64];  /* address and port */
    char text[256]; /* why it is dead */
    struct wring_auth auth;
    struct tcp_sender sender;
    struct tcp_receiver receiver;
};

struct tcp_provider {
    struct wring_provider base;
    const struct wring_log *log;
    uint8_t secret[WRING_SECRET_BYTES];
    struct wring_crc32c crc;
    bool checks;           /* frames carry checksums, and must: WRING_TCP_CHECKSUM */
    bool keeps_congestion; /* control, as the system has it: WRING_TCP_CONGESTION */
    unsigned sockets;      /* a connection that we make has; 0: as many as it needs */
    char system_congestion[TCP_CONTROL_NAME_BYTES]; /* control of a socket that nobody touched */
    char bind[64];
    struct wring_ports ports; /* to listen on */
    int epoll, listener;
    bool armed; /* the caller may sleep after the next poll */
    bool listener_ready;
    struct wring_door door;
    struct tcp_conn *conns; /* newest first */
    struct tcp_conn *ready_first, *ready_last;
    size_t ready_count;
    size_t timed;   /* connections that have a deadline */
    size_t pending; /* accepted ones, not proven yet */
    struct tcp_slot *slots;
    size_t slot_count;
    uint8_t messages[TCP_MESSAGES_PER_POLL][WRING_SEND_MAX];
};

/** Where a poll's events go. */
struct tcp_events {
    struct wring_event *events;
    size_t n, max, messages;
};

#define WRING_MODULE "tcp"

static inline struct tcp_provider *tcp_of(struct tcp_conn *conn)
{
    return (struct tcp_provider *)conn->base.provider;
}

/** The next event, zeroed but for kind and conn; NULL where the array is full. */
struct wring_event *wring_tcp_event(struct tcp_events *events, enum wring_event_kind kind,
                                    struct tcp_conn *conn);

static inline bool tcp_in_handshake(const struct tcp_conn *conn)
{
    return conn->state == TCP_CONNECTING || conn->state == TCP_HANDSHAKE;
}

/** The one that the user knows. */
static inline struct tcp_conn *tcp_front(struct tcp_conn *conn)
{
    return conn->bundle != NULL ? conn->bundle->sockets[0] : conn;
}

/** Put into the ready list, where it is not there yet. */
void wring_tcp_make_ready(struct tcp_conn *conn);

/* tcp/address.c: sockets' addresses as text and as blobs */
enum wring_status wring_tcp_address_parse(const struct wring_log *log, const char *text,
                                          struct sockaddr_storage *out, socklen_t *bytes);
size_t wring_tcp_address_pack(const struct sockaddr_storage *address, void *blob);
enum wring_status wring_tcp_address_unpack(const void *blob, size_t blob_bytes,
                                           struct sockaddr_storage *out, socklen_t *bytes);
void wring_tcp_address_text(const struct sockaddr_storage *address, char *text, size_t bytes);

/** An address without its port. */
void wring_tcp_address_host(const struct sockaddr_storage *address, char *text, size_t bytes);

/* tcp/traffic.c: frames */

/** @param out the header, up to TCP_HEADER_MAX @return its bytes */
size_t wring_tcp_frame_pack(const struct tcp_frame *frame, const struct wring_crc32c *crc,
                            uint8_t *out);

/** How long is the header that begins with these bytes, as far as they tell? */
size_t wring_tcp_frame_header_bytes(const uint8_t *in, size_t have);

/**
 * @param in a whole header @param must_check one without checksums is refused
 * @return NULL, and the frame in out; or what is wrong with it, as in "peer P: sent ..."
 */
const char *wring_tcp_frame_unpack(const uint8_t *in, const struct wring_crc32c *crc,
                                   bool must_check, struct tcp_frame *out);

/* tcp/tcp.c: regions */
enum wring_status wring_tcp_region_create(struct wring_provider *provider,
                                          const struct wring_memory *memory,
                                          struct wring_region **out);
void wring_tcp_regions_drop(struct tcp_provider *provider);

/** Does a frame name a region that was revoked? */
bool wring_tcp_region_is_revoked(const struct tcp_provider *provider,
                                 const struct tcp_frame *frame);

/** The region that a frame names, if it exists and the bytes lie in it; else NULL. */
struct tcp_region *wring_tcp_region_find(const struct tcp_provider *provider,
                                         const struct tcp_frame *frame);

/* tcp/conn.c */
enum wring_status wring_tcp_listen(struct wring_provider *provider, void *address, size_t *bytes);
void wring_tcp_accept_some(struct tcp_provider *provider);
bool wring_tcp_may_accept(const struct tcp_provider *provider);

/* tcp/path.c: what a socket leads over */

/** Is Reno better than this one? @param rtt_us there and back @param same_host both ends are on one
 */
bool wring_tcp_prefers_reno(const char *system, bool same_host, uint32_t rtt_us);

/**
 * Before a socket connects or listens: it must not begin with BBR, which it could not be rid of.
 * @param system  out, what it had. Accepted sockets have what the one that listens has now
 */
void wring_tcp_begin_congestion(int fd, char system[TCP_CONTROL_NAME_BYTES]);

/**
 * Have a connected socket use Reno if that is better here, and else what it would have by itself.
 * @param system  what wring_tcp_begin_congestion() found
 * @return false where it cannot be had, with errno; the socket then stays as it is
 */
bool wring_tcp_choose_congestion(int fd, const char *system);

/**
 * Bytes for SO_SNDBUF with which a socket may have more under way than the system would come to by
 * itself: the system takes up to wmem_max and counts it twice; by itself it comes to the last value
 * of tcp_wmem. @return 0: that is no more
 */
long wring_tcp_choose_buffer(long wmem_max, long tcp_wmem_max);

/** Bytes that the kernel would hold for one socket, as it counts them: sent, and received. */
long wring_tcp_socket_bytes(void);

/** What a connected socket leads over. Nothing is worth a word within one host. */
struct wring_path wring_tcp_path(int fd);

/**
 * Is a rate that of the way, and not of how a socket begins? It has sent eight times what the way
 * holds at that rate, which it would not have while it still sends twice as much each time.
 */
bool wring_tcp_rate_is_settled(uint64_t bytes_per_s, uint64_t round_trip_ns, uint64_t sent_bytes);

/** n bytes more have left for a far peer: now and then ask what the way takes. */
void wring_tcp_note_sent(struct tcp_conn *conn, size_t n);

/** Give a proven socket what suits its way. */
void wring_tcp_fit_to_path(struct tcp_conn *conn);

/* tcp/conn.c */

/** Go on with a connection that is not open yet. */
void wring_tcp_handshake(struct tcp_conn *conn);

/** Leave the handshake, for better or worse; the deadline goes. */
void wring_tcp_end_handshake(struct tcp_conn *conn, enum tcp_state state);
void wring_tcp_set_deadline(struct tcp_conn *conn, uint64_t in_ns);

/** A socket more, to connect. @return NULL: it cannot be; logged */
struct tcp_conn *wring_tcp_conn_create(struct tcp_provider *provider,
                                       const struct sockaddr_storage *to);
void wring_tcp_conn_begin(struct tcp_conn *conn, const struct sockaddr_storage *to,
                          socklen_t bytes);
void wring_tcp_close_socket(struct tcp_conn *conn);

/** Fail those whose deadline has passed. */
void wring_tcp_expire(struct tcp_provider *provider, uint64_t now);

/** The next of them, or WRING_NEVER. */
uint64_t wring_tcp_next_deadline(const struct tcp_provider *provider);

/* tcp/conn.c */

/** Options of every data socket, then into the epoll set. */
enum wring_status wring_tcp_connect(struct wring_provider *provider, const void *address,
                                    size_t address_bytes, const void *hello, size_t hello_bytes,
                                    struct wring_conn **out);
void wring_tcp_disconnect(struct wring_conn *conn);

/** Have the epoll set tell again of all events that were seen and are not done with. */
void wring_tcp_repeat_edges(struct tcp_provider *provider);

/** The connection is dead; the first reason stays. Closes the socket. */
__attribute__((format(printf, 3, 4))) void wring_tcp_fail(struct tcp_conn *conn,
                                                          enum wring_status status,
                                                          const char *format, ...);

/* tcp/sockets.c: connections of several sockets */

/**
 * How many sockets does a way need that holds so many bytes? The kernel counts a socket's bytes
 * with all that surrounds them, and keeps them until they are acknowledged: three times is enough.
 * @param socket_bytes  as it counts them, of one @return 1..TCP_SOCKETS_AUTO
 */
unsigned wring_tcp_choose_sockets(double way_bytes, long socket_bytes);

/** A socket of ours has connected: are others to follow? Then its handshake says so. */
void wring_tcp_plan_sockets(struct tcp_conn *conn);

/** A socket is proven: go on with the connection that it belongs to, or is. */
void wring_tcp_join_socket(struct tcp_conn *conn);

/** The user knows the first socket from now on: all may be read. */
void wring_tcp_open_sockets(struct tcp_bundle *bundle);

/** The same for the socket of a connection, and for one of several: there is no more to read. */
__attribute__((format(printf, 2, 3))) void wring_tcp_end_socket(struct tcp_conn *conn,
                                                                const char *format, ...);

/** Have the first socket say that the connection is over, once all that came has been told of. */
void wring_tcp_finish_sockets(struct tcp_bundle *bundle);

/** Is there something to be told that had no room in the event array? */
bool wring_tcp_bundle_owes(const struct tcp_bundle *bundle);

/** As wring_tcp_put(), which has looked at all of it. */
enum wring_status wring_tcp_split_put(struct tcp_bundle *bundle, const struct tcp_frame *frame,
                                      const uint8_t *local, uint64_t cookie);

/** Report puts all of whose parts the kernel has. @return false where events did not suffice */
bool wring_tcp_report_split(struct tcp_conn *conn, struct tcp_events *events);

/** The part that a socket has received is whole. @return false: it has to wait for its turn */
bool wring_tcp_take_part(struct tcp_conn *conn, struct tcp_events *events);

/** Tell of puts whose turn it is. */
void wring_tcp_release_parts(struct tcp_bundle *bundle, struct tcp_events *events);

/* tcp/traffic.c */

/** Queue a put, or a part of one, whose place in the queue is free. */
void wring_tcp_queue_put(struct tcp_conn *conn, struct tcp_frame *frame, const uint8_t *local,
                         uint64_t cookie);
enum wring_status wring_tcp_put(struct wring_conn *conn, struct wring_region *region,
                                const void *local, struct wring_remote *remote,
                                uint64_t remote_offset, size_t bytes, uint32_t imm,
                                uint64_t cookie);
enum wring_status wring_tcp_copy_sources(struct wring_conn *conn);
void wring_tcp_copies_free(struct tcp_conn *conn);
enum wring_status wring_tcp_send(struct wring_conn *conn, const void *data, size_t bytes);
enum wring_status wring_tcp_spoil(struct wring_conn *conn, uint64_t at, uint8_t mask);
bool wring_tcp_has_unsent(const struct tcp_conn *conn);
void wring_tcp_flush(struct tcp_conn *conn);

/** Report puts whose bytes the kernel has. @return false where events did not suffice */
bool wring_tcp_report_sent(struct tcp_conn *conn, struct tcp_events *events);

void wring_tcp_receive(struct tcp_conn *conn, struct tcp_events *events);

#endif
