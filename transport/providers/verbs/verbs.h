/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the verbs provider: RDMA through libibverbs, InfiniBand or RoCE.
 *
 *     rail    a device's port that this process uses, with one completion queue for all of it
 *     path    one reliable queue pair of a connection, on one rail
 *     stream  the TCP connection beside a connection's paths: it proves the key, carries what two
 *             sides have to agree on, and tells of the peer's end; no data
 *
 * A put is an RDMA write with immediate, a control message a send. Messages (puts and sends) are
 * numbered per direction, take the paths that verbs_stripe.h says, and are given to the layer above
 * in their order. Each request that ends in an immediate or a send uses up a receive request of the
 * peer; the peer writes into our memory how many it has posted in all, which are our credits.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_H
#define WRING_VERBS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <wring/provider.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/ports.h"
#include "transport/providers/verbs/verbs_card.h"
#include "transport/providers/verbs/verbs_counters.h"
#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_memory.h"
#include "transport/providers/verbs/verbs_select.h"
#include "transport/providers/verbs/verbs_stripe.h"

/* numbers of things per connection or path; powers of two */
#define VERBS_RECEIVES 256 /* requests posted per path: what a peer has credits for */
#define VERBS_MESSAGES 128 /* puts and sends under way per connection */
#define VERBS_REQUESTS 256 /* of a path: each message has one at most, the rest is for credits */
#define VERBS_PUTS (VERBS_MESSAGES - 4)
#define VERBS_BATCH 16 /* requests posted under one doorbell, at most */
#define VERBS_TEXT 384
#define VERBS_TO_SLEEP 2 /* provider->sleep: polls that look at everything, around a sleep */

struct verbs_provider;
struct verbs_conn;
struct verbs_path;
struct verbs_rail;

/** From the config, with defaults where there is none. */
struct verbs_settings {
    bool new_calls, classic_calls; /* may be used */
    unsigned qps;
    uint64_t stripe_bytes, recover_ns, handshake_ns;
    uint32_t inline_bytes;
    uint8_t timeout, retries, rnr_retries, sl, tc;
};

/** Who in the epoll set has news. */
enum verbs_watched {
    VERBS_WATCH_LISTENER,
    VERBS_WATCH_STREAM,  /* owner: verbs_conn */
    VERBS_WATCH_NOTICES, /* owner: verbs_rail, its completion channel */
    VERBS_WATCH_ASYNC,   /* owner: verbs_rail */
};

struct verbs_watch {
    enum verbs_watched what;
    void *owner;
};

/* ---- rails ---- */

/** What a completion queue tells, whichever way it was read. */
struct verbs_completion {
    uint64_t id; /* as posted: see verbs_rail.c */
    enum ibv_wc_status status;
    uint32_t vendor_error;
    uint32_t bytes, imm; /* of receives; imm in our byte order */
    bool has_imm;        /* a receive that a put used up */
};

/** One of the two ways to talk to a device's queues. */
struct verbs_api {
    const char *name;

    /** Make rail->cq of that many entries. @return false and errno */
    bool (*make_cq)(struct verbs_rail *rail, uint32_t entries);

    /** Make path->qp. @param init the queues and the room @return false and errno */
    bool (*make_qp)(struct verbs_path *path, struct ibv_qp_init_attr *init);

    /** Post the next n <= VERBS_BATCH requests of a path, one doorbell. @return errno */
    int (*post)(struct verbs_path *path, uint32_t n);

    /** Take completions. @return how many of out[max], max <= VERBS_BATCH; -1: the queue failed */
    int (*take)(struct verbs_rail *rail, struct verbs_completion *out, int max);
};

extern const struct verbs_api wring_verbs_api_new, wring_verbs_api_classic;

struct verbs_rail {
    struct verbs_provider *provider;
    unsigned index;
    struct verbs_choice choice;
    const struct verbs_api *api;
    bool inline_works;    /* with the calls of this API */
    bool empty_poll_ends; /* see verbs_api.c */
    bool up;              /* as far as async events tell */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex; /* NULL with the classic API */
    uint32_t entries, max_entries, max_message;
    struct verbs_watch notices, async;
    bool drained;               /* the last look at its queue found nothing */
    uint32_t looks, empty_look; /* at its queue so far; the last one that found nothing more */

    struct verbs_slot {
        struct verbs_path *path; /* NULL: free */
        uint32_t generation;
    } * slots; /* [n_slots], grows */
    uint32_t n_slots, n_paths;
};

/* ---- paths ---- */

enum verbs_request_kind {
    VERBS_PUT,
    VERBS_SEND,
    VERBS_CREDITS, /* a plain write of our counts of receives */
};

/** A request to be posted, or posted. */
struct verbs_request {
    enum verbs_request_kind kind;
    bool signalled;
    bool small;       /* few enough bytes to go inline, and the processor can read them */
    uint32_t message; /* its number's low bits; not of credits */
    uint32_t bytes, lkey, rkey, imm;
    const void *local;
    uint64_t remote;
};

struct verbs_path {
    struct verbs_conn *conn;
    struct verbs_rail *rail;
    unsigned index; /* in its connection */
    unsigned peer_rail;
    uint32_t mtu; /* bytes; the smaller one of both sides */
    uint64_t id;  /* of its requests, see verbs_rail.c */
    struct ibv_qp *qp;
    struct ibv_qp_ex *qp_ex; /* NULL with the classic API */
    uint32_t inline_bytes;
    bool dead, joined;
    uint32_t stopped_look; /* of its rail, the last before the queue pair was stopped */
    struct verbs_card card, peer;

    /* requests: completed up to tail <= posted <= head, all counted since the beginning */
    struct verbs_request requests[VERBS_REQUESTS];
    uint32_t head, posted, tail;
    uint32_t unsignalled; /* since the last signalled one */
    uint32_t sent;        /* receives of the peer that were used up */
    uint32_t credits;     /* receives that the peer has posted in all, as far as we saw */

    /* receives: given out up to surfaced <= taken <= receives */
    struct verbs_arrival arrivals[VERBS_RECEIVES];
    uint32_t receives, taken, surfaced;
    uint32_t told; /* of receives, how many the peer was told of */
};

/* ---- connections ---- */

enum verbs_state {
    VERBS_CONNECTING, /* TCP */
    VERBS_AUTH,       /* proving the key */
    VERBS_OFFER,      /* which rails there are */
    VERBS_CARDS,      /* the queue pairs' addresses */
    VERBS_READY,      /* our queue pairs are ready, the peer's word that its are, is awaited */
    VERBS_OPEN,
    VERBS_RESYNC,   /* a path failed: both sides agree on how to go on without it */
    VERBS_DRAINING, /* the stream ended; what has come is still to be handed out */
    VERBS_DEAD,
};

/** Memory of a connection that devices read and write. */
struct verbs_buffers {
    /* by path: how many receives were posted in all; 64 bytes each, aligned */
    uint32_t credits[VERBS_PATHS_MAX]; /* there; the peer writes it */
    uint32_t posted[VERBS_PATHS_MAX];  /* here: the source of what we write there */
    uint8_t sends[VERBS_MESSAGES][WRING_SEND_MAX];
    uint8_t receives[][VERBS_RECEIVES][WRING_SEND_MAX]; /* [n_paths] */
};

/** A put or a send that is under way. */
struct verbs_message {
    bool is_put;
    bool on_device; /* its source is memory that the processor cannot read */
    unsigned parts; /* requests that are not complete yet */
    uint64_t cookie;
    uint32_t imm;
    const void *local;
    uint64_t bytes, remote;
    uint32_t lkeys[VERBS_RAILS_MAX], rkeys[VERBS_RAILS_MAX]; /* by our and by the peer's rails */
};

/** Paths that messages of one direction take, in this order. */
struct verbs_set {
    struct verbs_stripes stripes;
    struct verbs_path *paths[VERBS_PATHS_MAX]; /* [stripes.paths] */
};

/** How far two sides are with agreeing, see verbs_resync.c. */
struct verbs_resync {
    bool told, heard;       /* RESYNC, as things are now */
    bool resumed, answered; /* RESUME, ours and the peer's */
    bool connected, go;     /* GO, likewise */
    bool ever;
    uint64_t moved; /* messages, both ways, when it began first without any in between */
    struct verbs_resync_word mine, peer;
    uint64_t delivered; /* of our messages, by the peer */
    uint8_t cards[VERBS_PATHS_MAX * VERBS_CARD_BYTES];
};

#define VERBS_OUT 4096
#define VERBS_IN (VERBS_WORD_HEADER + VERBS_WORD_MAX)

struct verbs_conn {
    struct wring_conn base;
    enum verbs_state state;
    bool accepted, surfaced, news, told_closed;
    bool starved;   /* the last put found no credits */
    bool done_next; /* whose turn it is: completions or arrivals */

    /* stream */
    int fd; /* -1: closed */
    bool in_epoll, room_in_epoll;
    struct verbs_watch watch;
    uint64_t deadline_ns;
    struct wring_auth auth;
    uint8_t out[VERBS_OUT], in[VERBS_IN];
    size_t out_at, out_end, in_got;
    char peer_name[64];

    /* its sign of life: completions so far, those that were known at heard_ns */
    uint64_t completions, completions_seen, heard_ns;

    struct verbs_offer offer; /* the peer's */
    struct verbs_path *paths[VERBS_PATHS_MAX];
    unsigned n_paths;
    uint32_t dead;    /* of these, a bit each */
    uint32_t revived; /* of the dead ones: their port is back */
    struct verbs_set out_set, in_set;
    struct verbs_resync resync;
    struct verbs_buffers *buffers;
    struct verbs_pin *pin; /* of buffers */

    /* messages we send: done <= spread over paths <= next; those before done are the caller's */
    struct verbs_message messages[VERBS_MESSAGES];
    uint64_t next, spread, done;
    uint64_t delivered; /* messages of the peer that were given out */

    enum wring_status status;
    char text[VERBS_TEXT];
    char first_text[VERBS_TEXT]; /* of the first path that failed */
};

struct verbs_remote {
    struct wring_remote base;
    struct verbs_key key;
};

struct verbs_provider {
    struct wring_provider base;
    struct wring_log log;
    struct verbs_settings settings;
    uint8_t secret[WRING_SECRET_BYTES];
    uint32_t job_size;
    struct sockaddr_storage bind;
    socklen_t bind_bytes;
    struct wring_ports ports; /* to listen on */
    struct verbs_library library;
    struct verbs_rail rails[VERBS_RAILS_MAX];
    unsigned n_rails;
    struct verbs_memory *memory;
    size_t put_max_bytes;
    int epoll, listener;
    struct verbs_watch listening;

    struct verbs_conn **conns;
    size_t n_conns, max_conns, first;
    unsigned sleep, skipped;
    bool meeting;
    uint64_t last_service_ns, quiet_since_ns, completions_seen;
    struct wring_verbs_counters counters;
};

static inline struct verbs_provider *wring_verbs_of(const struct verbs_conn *conn)
{
    return (struct verbs_provider *)conn->base.provider;
}

/** CONNECTED or ACCEPTED was given, or it is over. */
static inline bool wring_verbs_stands(const struct verbs_conn *conn)
{
    return conn->state > VERBS_OPEN || (conn->state == VERBS_OPEN && !conn->news);
}

/* verbs_remote.c: as wring_provider_ops has them */
enum wring_status wring_verbs_remote_import(struct wring_conn *conn, const void *key, size_t bytes,
                                            struct wring_remote **out);
void wring_verbs_remote_release(struct wring_remote *remote);

/* verbs_rail.c */

/** Open the device of rail->choice, its protection domain and completion queue. Logs. */
enum wring_status wring_verbs_rail_open(struct verbs_rail *rail);
void wring_verbs_rail_close(struct verbs_rail *rail); /* also one that is open in part */

/** Take a place in the rail's table and room in its completion queue; sets path->id. Logs. */
enum wring_status wring_verbs_rail_join(struct verbs_rail *rail, struct verbs_path *path);

/** What a path that is no more has left in the completion queue leads nowhere after this. */
void wring_verbs_rail_leave(struct verbs_rail *rail, struct verbs_path *path);

/** Take completions, a bounded number, and hand them to their paths. */
void wring_verbs_rail_poll(struct verbs_rail *rail);

/** Take all: what paths that are gone have left there takes up room. */
void wring_verbs_rail_empty(struct verbs_rail *rail);

void wring_verbs_rail_take_notices(struct verbs_rail *rail);
void wring_verbs_rail_take_async(struct verbs_rail *rail);

#define VERBS_RECEIVE_ID (UINT64_C(1) << 63)

/* verbs_path.c */

/** Make a queue pair, post its receives, fill in path->card. Logs. */
enum wring_status wring_verbs_path_create(struct verbs_conn *conn, unsigned index,
                                          struct verbs_rail *rail, unsigned peer_rail,
                                          uint32_t mtu);
void wring_verbs_path_destroy(struct verbs_path *path); /* NULL is fine */

/** A new queue pair in the place of one that is dead. Logs. */
enum wring_status wring_verbs_path_renew(struct verbs_path *path);

/** Connect the queue pair to path->peer. Logs. */
enum wring_status wring_verbs_path_connect(struct verbs_path *path);

/** Make it drop all work. */
void wring_verbs_path_stop(struct verbs_path *path);

/** Post receives anew for what was given out, when it is worth it. @return errno */
int wring_verbs_path_post_receives(struct verbs_path *path);

/** A path in words: device, port, queue pairs and addresses. @param text out, [bytes] */
void wring_verbs_path_text(const struct verbs_path *path, char *text, size_t bytes);

/* verbs_post.c */

/** After a path was lost: messages that the peer has not given out, as far as there are credits. */
void wring_verbs_spread_again(struct verbs_conn *conn);

/** Post what is pending on all paths. */
void wring_verbs_conn_post(struct verbs_conn *conn);

/** Tell the peer how many receives there are anew, when enough of them are. */
void wring_verbs_give_credits(struct verbs_conn *conn);

enum wring_status wring_verbs_put(struct wring_conn *base, unsigned lane,
                                  struct wring_region *region, const void *local,
                                  struct wring_remote *remote, uint64_t remote_offset, size_t bytes,
                                  uint32_t imm, uint64_t cookie);
enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes);

/** Have all that was posted on a path complete with a notice. */
void wring_verbs_ask_completion(struct verbs_path *path);

/** Are there credits that were not there when `starved` was set? */
bool wring_verbs_has_credits(struct verbs_conn *conn);

/* verbs_complete.c */

/** Is there a request on a path whose completion was asked for, and has not come? */
bool wring_verbs_path_is_owed(const struct verbs_path *path);

/** What the completion queue said of a path. */
void wring_verbs_path_complete(struct verbs_path *path, const struct verbs_completion *completion);

/** Before completions are looked at: post what is pending, and receives for what was given out. */
void wring_verbs_conn_begin_poll(struct verbs_conn *conn);

/** Hand out events. @return how many of events[max] were written */
size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max);

/* verbs_conn.c */
struct verbs_conn *wring_verbs_conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                           const void *hello, size_t hello_bytes);
void wring_verbs_conn_destroy(struct verbs_conn *conn);

/** Lower *deadline_ns; @return true if there is something to poll already. */
bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns);

/** End it: CLOSED will be told. The text is a format. */
__attribute__((format(printf, 3, 4))) void wring_verbs_conn_fail(struct verbs_conn *conn,
                                                                 enum wring_status status,
                                                                 const char *format, ...);

/** Nothing is sent or taken in any more; CLOSED will be told. */
void wring_verbs_conn_stop(struct verbs_conn *conn);

/** Something is wrong beyond the path it was seen on: the connection ends. */
void wring_verbs_path_fatal(struct verbs_path *path, enum wring_status status, const char *why);

/** A path does not work any more, others may; the text says why. */
void wring_verbs_path_fail(struct verbs_path *path, enum wring_status status, const char *why);

/* verbs_resync.c */

/** At the start messages take all paths. */
void wring_verbs_set_all(struct verbs_conn *conn);

/** A path has died or may be made anew: stop and begin to agree, or say again how things are. */
void wring_verbs_resync_begin(struct verbs_conn *conn);

/** The port of a dead path works again. */
void wring_verbs_resync_port_back(struct verbs_path *path);

/** @param nothing_whole  all messages of the peer that are whole were given out */
void wring_verbs_resync_step(struct verbs_conn *conn, bool nothing_whole);

void wring_verbs_take_resync(struct verbs_conn *conn, const struct verbs_resync_word *word);

/** @param cards  in, hostile, one for each bit of word->renewed */
void wring_verbs_take_resume(struct verbs_conn *conn, const struct verbs_resume_word *word,
                             const uint8_t *cards);
void wring_verbs_take_go(struct verbs_conn *conn, const struct verbs_resume_word *word);

/* verbs_stream.c */
void wring_verbs_say_resync(struct verbs_conn *conn, const struct verbs_resync_word *word);

/** With the cards of the paths in word->renewed. */
void wring_verbs_say_resume(struct verbs_conn *conn, const struct verbs_resume_word *word);
void wring_verbs_say_go(struct verbs_conn *conn, const struct verbs_resume_word *word);

/** Do what can be done on the TCP side now. */
void wring_verbs_stream_service(struct verbs_conn *conn);
void wring_verbs_stream_close(struct verbs_conn *conn);

/** Has an open connection's peer left, which may not have been noticed yet? It is now. */
bool wring_verbs_stream_ended(struct verbs_conn *conn);

/* verbs.c */

/** Who is at the other end of a socket. @param text out, [bytes] */
void wring_verbs_peer_name(int fd, char *text, size_t bytes);

#endif
