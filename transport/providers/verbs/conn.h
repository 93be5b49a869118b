/* SPDX-License-Identifier: Apache-2.0 */
/** Connections: the paths to one peer, what travels over them, and the stream beside them. */
#ifndef WRING_VERBS_CONN_H
#define WRING_VERBS_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "transport/auth.h"
#include "transport/providers/verbs/adapter.h"
#include "transport/providers/verbs/api.h"
#include "transport/providers/verbs/handshake.h"
#include "transport/providers/verbs/memory.h"
#include "transport/providers/verbs/select.h"
#include "transport/providers/verbs/states.h"
#include "transport/providers/verbs/stripe.h"
#include <wring/provider.h>
#include <wring/status.h>

/* Objects that the provider's epoll set watches, and the owners of news there. */

enum verbs_watched {
    VERBS_WATCH_LISTENER, /* owner: verbs_provider */
    VERBS_WATCH_OOB,      /* owner: verbs_conn */
    VERBS_WATCH_NOTICES,  /* owner: verbs_rail, its completion channel */
    VERBS_WATCH_ASYNC,    /* owner: verbs_rail, the first one of its adapter */
    VERBS_WATCH_BELL,     /* owner: verbs_provider: its rails have news */
};

struct verbs_watch {
    enum verbs_watched what;
    void *owner;
};

/* Rails: a device's port that this process uses, with one completion queue for all of it. */

struct verbs_provider;

struct verbs_rail {
    struct verbs_provider *provider;
    unsigned index;
    struct verbs_choice choice;
    const struct verbs_api *api;
    bool inline_works;    /* with the calls of this API; soft-RoCE: not of ibv_wr_* */
    bool empty_poll_ends; /* see verbs/api.c */
    bool up;              /* as far as async events tell */
    struct verbs_seat seat;
    struct ibv_context *context; /* its adapter's, as is pd */
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex; /* NULL with the classic API */
    uint32_t entries, max_entries, max_message;
    struct verbs_watch notices, async;
    bool watches_async;
    bool drained;               /* the last look at its queue found nothing */
    uint32_t looks, empty_look; /* at its queue so far; the last one that found nothing more */

    struct verbs_slot {
        struct verbs_path *path; /* NULL: free */
        uint32_t generation;
    } * slots; /* [n_slots], grows */
    uint32_t n_slots, n_paths;
};

/** Take a seat at the device of rail->choice, and open a completion queue. Logs. @param key  the
 * job's */
enum wring_status wring_verbs_rail_open(struct verbs_rail *rail, const char *key);
void wring_verbs_rail_close(struct verbs_rail *rail); /* also one that is open in part */

/** Take a place in the rail's table and room in its completion queue; sets path->id. Logs. */
enum wring_status wring_verbs_rail_join(struct verbs_rail *rail, struct verbs_path *path);

/** After this, completions that a former path has left in the queue lead nowhere. */
void wring_verbs_rail_leave(struct verbs_rail *rail, struct verbs_path *path);

/** Take completions, a bounded number, and hand them to their paths. */
void wring_verbs_rail_poll(struct verbs_rail *rail);

/** Take all completions: those of paths that are gone take up room. */
void wring_verbs_rail_empty(struct verbs_rail *rail);

/** Its device or port does not work: all paths on it fail. */
void wring_verbs_rail_fail(struct verbs_rail *rail, const char *what);

/*
 * A path may fail without a word from its port: its packets vanish for a while. Where other paths
 * go on it is tried again after WRING_VERBS_REVIVE, without a stop of their traffic:
 *
 *   - the side that dialed makes a new queue pair in the place of the dead one and says TRY, with
 *     its card;
 *   - the other one makes a new queue pair too, connects it, and answers TRY with its card;
 *   - the first connects its own and sends a message over it, which nobody takes;
 *   - once that is complete packets pass both ways: both agree to take all paths of that pair of
 *     rails back (below), with queue pairs that are new once more.
 *
 * No answer in time, or a message that does not come through, doubles the time to the next try; so
 * does a path that was taken back and fails soon. Ports that are down are not tried: they tell when
 * they are back.
 */

struct verbs_completion;
struct verbs_conn;
struct verbs_path;

/** A try that is under way. */
struct verbs_trial {
    struct verbs_path *path; /* NULL: none is */
    uint32_t number;         /* of the last one */
    uint64_t deadline_ns;
};

/** When to try a path. */
struct verbs_again {
    uint64_t made_ns;  /* when its queue pair was */
    uint64_t pause_ns; /* from a failure to the next try; 0: it never failed */
    uint64_t at_ns;
};

/** When there is something to do next; WRING_NEVER where there is not. */
uint64_t wring_verbs_revive_deadline(const struct verbs_conn *conn);

/** A request on a dead path has completed: perhaps the message that was sent to try it. */
void wring_verbs_revive_complete(struct verbs_path *path,
                                 const struct verbs_completion *completion);

/* Paths: one reliable queue pair of a connection, on one rail. */

/* powers of two */
#define VERBS_RECEIVES 256 /* requests posted per path: what a peer has credits for */
#define VERBS_REQUESTS 256 /* of a path: each message has one at most, the rest is for credits */

#define VERBS_ENTRIES_PER_PATH (VERBS_REQUESTS + VERBS_RECEIVES) /* of a completion queue */

#define VERBS_RECEIVE_ID (UINT64_C(1) << 63)

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
    uint32_t mtu;              /* bytes; the smaller one of both sides */
    uint64_t id;               /* of its requests, see verbs/port.c */
    struct verbs_qp_news news; /* of its queue pair */
    struct ibv_qp *qp;
    struct ibv_qp_ex *qp_ex; /* NULL with the classic API */
    uint32_t inline_bytes;
    enum verbs_path_state state;
    bool joined;
    struct verbs_again again; /* when it is dead */
    uint32_t stopped_look;    /* of its rail, the last before the queue pair was stopped */
    struct verbs_card card, peer;

    /* requests: completed up to tail <= posted <= head, all counted since the beginning */
    struct verbs_request requests[VERBS_REQUESTS];
    uint32_t head, posted, tail;
    uint32_t unsignalled;       /* since the last signalled one */
    uint64_t unsignalled_bytes; /* of puts */
    uint32_t sent;              /* receives of the peer that were used up */
    uint32_t credits;           /* receives that the peer has posted in all, as far as we saw */

    /* receives: given out up to surfaced <= taken <= receives */
    struct verbs_arrival arrivals[VERBS_RECEIVES];
    uint32_t receives, taken, surfaced;
    uint32_t told; /* of receives, how many the peer was told of */
};

/** Make a queue pair, post its receives, fill in path->card. Logs. */
enum wring_status wring_verbs_path_create(struct verbs_conn *conn, unsigned index,
                                          struct verbs_rail *rail, unsigned peer_rail,
                                          uint32_t mtu);
void wring_verbs_path_destroy(struct verbs_path *path); /* NULL is fine */

/** A new queue pair in the place of one that is dead; the path stays dead. Logs. */
enum wring_status wring_verbs_path_renew(struct verbs_path *path);

/** Connect the queue pair to path->peer. @param why out, [bytes], written on failure: which, and
 * why */
enum wring_status wring_verbs_path_connect(struct verbs_path *path, char *why, size_t bytes);

/** Make it drop all work. */
void wring_verbs_path_stop(struct verbs_path *path);

/** Post receives anew for messages that were given out, when it is worth it. @return errno */
int wring_verbs_path_post_receives(struct verbs_path *path);

/** A path in words: device, port, queue pairs and addresses. @param text out, [bytes] */
void wring_verbs_path_text(const struct verbs_path *path, char *text, size_t bytes);

/*
 * The TCP connection beside a connection's paths: first the proof of the key, then words
 * (verbs/handshake.h), both ways; no data. Its end tells of the peer's.
 */

#define VERBS_OUT 4096
#define VERBS_IN (VERBS_WORD_HEADER + VERBS_WORD_MAX)

struct verbs_oob {
    int fd; /* -1: closed */
    bool in_epoll, room_in_epoll;
    struct verbs_watch watch;
    struct wring_auth auth;
    uint8_t out[VERBS_OUT], in[VERBS_IN];
    size_t out_at, out_end, in_got;
};

/** Do what can be done now: connect, prove the key, take and send words. */
void wring_verbs_oob_service(struct verbs_conn *conn);

/**
 * Room for a word, its header written; it leaves with the next service or push.
 * @return where its bytes go; NULL: the peer takes nothing, and the connection has ended
 */
uint8_t *wring_verbs_oob_add(struct verbs_conn *conn, enum verbs_word word, size_t bytes);

/** Has the stream of an open connection ended, which may not have been noticed yet? It is now. */
bool wring_verbs_oob_end_if_left(struct verbs_conn *conn);

/** Send what was added, as far as the system takes it; the rest follows by itself. */
void wring_verbs_oob_push(struct verbs_conn *conn);

/*
 * When paths of a connection fail, both sides agree on where they stand and go on: over the paths
 * that are left; over new queue pairs where none is, or where a path may work again. One deadline
 * bounds all of it.
 *
 *     1  stop posting, and let what was posted on the paths that are left complete
 *     2  RESYNC: which paths are dead, which of them I could make anew, and how many receives of
 *        the peer my requests have used up on the others. Said again whenever one of these changes,
 *        or a new queue pair failed, with a new number, until both say that the same are dead and a
 *        path remains
 *     3  take completions until that many receives of mine were used up; give out what is whole,
 *        forget the rest: parts of messages, and messages after a gap
 *     4  RESUME: how many messages I have given out, and new queue pairs for paths that both can
 *        make anew. From here on I expect messages over the new set of paths
 *     5  the peer's RESUME: connect the new queue pairs, say GO. Messages that the peer gave out
 *        are done; once its GO is there the rest is sent anew
 *
 * RESUME and GO name the numbers of the two RESYNC that they follow from: others are of an attempt
 * that was overtaken, and mean nothing.
 *
 * Writing a part of a message twice does no harm: the layer above there has not been told of it,
 * and here its source is not the caller's again before PUT_DONE. PUT_DONE is given in order, for
 * messages all of whose requests completed: so all of those were given out, or will be, in 3.
 *
 * verbs/states.h has the states and their order, verbs/recovery.c does all of it.
 */

/** What two sides that agree how to go on have said; verbs/states.h says how far they are. */
struct verbs_resync {
    bool none_left;   /* at some time since messages moved */
    unsigned in_vain; /* tries to have new queue pairs where none is left, since it stopped */
    uint64_t moved;   /* messages, both ways, when the deadline was set */
    struct verbs_resync_word mine, peer;
    uint64_t delivered; /* of our messages, by the peer */
    uint8_t cards[VERBS_PATHS_MAX * VERBS_CARD_BYTES];
};

/** Something has happened to the connection: its next state, and the work of entering it. */
void wring_verbs_conn_on(struct verbs_conn *conn, enum verbs_event event);

/** A path does not work any more, others may; the text says why. */
void wring_verbs_path_fail(struct verbs_path *path, enum wring_status status, const char *why);

/** Something is wrong beyond the path it was seen on: the connection ends. */
void wring_verbs_path_fatal(struct verbs_path *path, enum wring_status status, const char *why);

/** Dead paths may work again, a bit each: their port is back, or a message came through. */
void wring_verbs_paths_hope(struct verbs_conn *conn, uint32_t paths);

/** Take the next steps, begin a try that is due, end one that takes too long.
 * @param nothing_whole  all messages of the peer that are whole were given out */
void wring_verbs_recovery_step(struct verbs_conn *conn, bool nothing_whole);

/** The peer's RESYNC, RESUME, GO or TRY, in a state that has a place for it; data[bytes] is
 * hostile.
 */
void wring_verbs_recovery_word(struct verbs_conn *conn, enum verbs_word word, const uint8_t *data,
                               size_t bytes);

#define VERBS_MESSAGES 128 /* puts and sends under way per connection; a power of two */
#define VERBS_PUTS (VERBS_MESSAGES - 4)
#define VERBS_TEXT 384

/** Memory of a connection that devices read and write. */
struct verbs_buffers {
    /* by path: how many receives were posted in all; 64 bytes each, aligned */
    uint32_t credits[VERBS_PATHS_MAX]; /* posted there; the peer writes it */
    uint32_t posted[VERBS_PATHS_MAX];  /* posted here: the source of our write there */
    uint8_t nothing[WRING_SEND_MAX];   /* to be sent where it does not matter */
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

struct verbs_conn {
    struct wring_conn base;
    enum verbs_state state;
    bool accepted, surfaced, news, told_closed;
    bool turned_away; /* for others who wait */
    bool starved;     /* the last put found no credits */
    bool done_next;   /* whose turn it is: completions or arrivals */

    struct verbs_oob oob;
    uint32_t origin; /* where it comes from, as a number */
    uint64_t since_ns;
    uint64_t deadline_ns; /* of meeting, or of agreeing how to go on */
    char peer_name[64];

    /* its signs of life: completions in all, and those that were there at heard_ns */
    uint64_t completions, completions_seen, heard_ns;

    struct verbs_offer offer; /* the peer's */
    struct verbs_path *paths[VERBS_PATHS_MAX];
    unsigned n_paths;
    uint32_t dead; /* of these, a bit each: those that messages do not take */
    struct verbs_trial trial;
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
    char first_text[VERBS_TEXT]; /* of the first path that failed since it last went on; or "" */
};

/** Is a path in a mask of a bit each? */
static inline bool wring_verbs_is_in(uint32_t mask, unsigned path)
{
    return (mask >> path & 1) != 0;
}

static inline uint32_t wring_verbs_all_paths(const struct verbs_conn *conn)
{
    return (1u << conn->n_paths) - 1;
}

/** CONNECTED or ACCEPTED was given, or it is over. */
static inline bool wring_verbs_stands(const struct verbs_conn *conn)
{
    return conn->state > VERBS_OPEN || (conn->state == VERBS_OPEN && !conn->news);
}

/** Messages take all paths but those of a mask, in their order. */
void wring_verbs_set_paths(const struct verbs_conn *conn, uint32_t without, struct verbs_set *set);

/** Lower *deadline_ns; @return true if there is something to poll already. */
bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns);

/** End it: CLOSED will be told. The text is a format. */
__attribute__((format(printf, 3, 4))) void wring_verbs_conn_fail(struct verbs_conn *conn,
                                                                 enum wring_status status,
                                                                 const char *format, ...);

/** Nothing is sent or taken in any more; CLOSED will be told. @param event  that ends it */
void wring_verbs_conn_stop(struct verbs_conn *conn, enum verbs_event event);

/* How connections come and go: listening, dialing, accepting, and the table of all there are. */

/* as wring_provider_ops has them */
enum wring_status wring_verbs_listen(struct wring_provider *base, void *address, size_t *bytes);
enum wring_status wring_verbs_connect(struct wring_provider *base, const void *address,
                                      size_t address_bytes, const void *hello, size_t hello_bytes,
                                      struct wring_conn **out);
void wring_verbs_disconnect(struct wring_conn *base);

/** Accept connections that have come. One that fails before anybody knows of it goes silently. */
void wring_verbs_accept(struct verbs_provider *verbs);

/** Look at the listener again, if it was left alone for a while and that is over. */
void wring_verbs_listen_again(struct verbs_provider *verbs);

/** Take it out of the table and free it. */
void wring_verbs_remove_conn(struct verbs_provider *verbs, struct verbs_conn *conn);

/*
 * Sending: a message becomes a request on each path that it takes. Requests gather in their path's
 * ring and are posted together.
 */

/** Our words to the peer about credits may be lost with a path: tell it anew. */
void wring_verbs_forget_credits(struct verbs_conn *conn);

enum wring_status wring_verbs_put(struct wring_conn *base, struct wring_region *region,
                                  const void *local, struct wring_remote *remote,
                                  uint64_t remote_offset, size_t bytes, uint32_t imm,
                                  uint64_t cookie);
enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes);

/** A message over a dead path, which the peer takes for nothing: does it come through? @return
 * errno */
int wring_verbs_send_nothing(struct verbs_path *path);

/** Have all that was posted on a path complete with a notice. */
void wring_verbs_ask_completion(struct verbs_path *path);

/** Are there credits that were not there when `starved` was set? */
bool wring_verbs_has_credits(struct verbs_conn *conn);

/* From completions to events. */

/** Was a completion asked for that has not come? */
bool wring_verbs_path_is_owed(const struct verbs_path *path);

/** Take a path's completion. */
void wring_verbs_path_complete(struct verbs_path *path, const struct verbs_completion *completion);

/** Before completions are looked at: post pending requests, and receives for messages that were
 *  given out. */
void wring_verbs_conn_begin_poll(struct verbs_conn *conn);

/** Hand out events. @return how many of events[max] were written */
size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max);

#endif
