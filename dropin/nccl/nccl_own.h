/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What libnccl-net-wring.so knows of its process: what NCCL listens on, a link to each process that
 * it exchanges messages with, and a session for each CollNet communicator.
 *
 * All connections between two processes that go by a link, in both directions, share it; tags tell
 * them apart.
 *
 * NCCL loads a plugin once into a process, so this library has variables of it. Threads: functions
 * may be called by several threads at once; a comm and its requests are used by one at a time. The
 * process's mutex comes before a path's.
 */
#ifndef WRING_DROPIN_NCCL_OWN_H
#define WRING_DROPIN_NCCL_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/config.h"
#include "dropin/nccl/nccl_abi.h"
#include "dropin/nccl/nccl_meet.h"
#include "dropin/nccl/nccl_path.h"
#include "runtime/call_codecs.h"
#include "transport/interface.h"
#include <wring/executor.h>
#include <wring/wring.h>

#define WRING_MODULE "nccl"

#define WRING_NCCL_GROUPED 8                   /* buffers of one irecv() */
#define WRING_NCCL_BYTES_MAX ((size_t)1 << 30) /* of a message: test() reports sizes as int */
#define WRING_NCCL_SECRET 16
#define WRING_NCCL_PROCESS 16
#define WRING_NCCL_ROOT 48
#define WRING_NCCL_NAME 96
#define WRING_NCCL_DEVICES 16 /* at most, in NCCL's eyes */
#define WRING_NCCL_PARTS 8    /* of one, at most */
#define WRING_NCCL_SETTING (WRING_CONFIG_TEXT + 32)

/* ---- nccl_devices.c ---- */

/** What NCCL sees as a device: a port of an RDMA device, or else the host's network as a whole. */
struct wring_nccl_device {
    char name[WRING_NCCL_NAME];
    char pci_path[256]; /* "": it is no PCI device, or nobody knows which */
    uint64_t guid;      /* the same in all processes of this host */
    int speed_mbps;
    int port;
    bool cuda;                            /* it moves device memory by itself */
    bool dmabuf, addresses;               /* that is registered so */
    char about[128];                      /* for the log */
    char settings[3][WRING_NCCL_SETTING]; /* NAME=VALUE of its sessions */
    unsigned n_settings;
    int parts[WRING_NCCL_PARTS]; /* [n_parts] the real devices that it is made of */
    int n_parts;                 /* 1: it is one itself */
    struct wring_config config;  /* of its links: the process's with these */
};

/** Fill in the process's devices. @param interface  of its address, or "" */
void wring_nccl_devices_find(bool rdma, const char *interface);

/**
 * Make one device of several ports, over which verbs spreads. The same parts are the same device,
 * also after NCCL has finalized the plugin and initialised it again.
 *
 * @param out    its number
 * @param parts  [n] numbers of real ones
 * @return NCCL's code; errors are logged
 */
int wring_nccl_devices_fuse(int *out, int n, const int *parts);

/** @return WRING_NCCL_SUCCESS, or an error that is logged */
int wring_nccl_check_device(int device);

/** Is it in a list with commas between? */
bool wring_nccl_names(const char *list, const char *name);

/* ---- nccl_handle.c ---- */

enum wring_nccl_purpose {
    WRING_NCCL_MESSAGES = 1,
    WRING_NCCL_COLLECTIVES = 2,
};

/** listen() returns it, and NCCL carries it to the rank that connects. */
struct wring_nccl_handle {
    uint32_t purpose;
    bool keyed;                          /* the job has a key of its own; `secret` is empty */
    uint8_t device, n_devices;           /* that listens, and how many its process has */
    uint8_t process[WRING_NCCL_PROCESS]; /* which process listens; another after each first init */
    uint64_t listen;                     /* as its how-many-eth */
    uint8_t secret[WRING_NCCL_SECRET];
    char root[WRING_NCCL_ROOT]; /* "host:port" */
};

/** @param out  [WRING_NCCL_HANDLE_BYTES] */
void wring_nccl_handle_write(const struct wring_nccl_handle *handle, uint8_t *out);

/** Hostile bytes. A process with another number of devices is an error, too. @param rank  whose
 *  handle it is, for the log; -1: unknown. @return NCCL's code; logged */
int wring_nccl_handle_read(const uint8_t *bytes, enum wring_nccl_purpose purpose, int rank,
                           struct wring_nccl_handle *out);

/** The key of a handle's owner, as text. @param out [WRING_CONFIG_TEXT] */
void wring_nccl_key_of(const struct wring_nccl_handle *handle, char *out);

/* ---- nccl_listen.c ---- */

struct wring_nccl_link;

/** A connection that has come in and is not accepted yet. */
struct wring_nccl_arrival {
    struct wring_nccl_arrival *next;
    struct wring_nccl_link *link;
    uint32_t conn;
};

struct wring_nccl_listen {
    struct wring_nccl_listen *next;
    struct wring_nccl_handle handle;
    int fd;      /* -1: closed */
    bool closed; /* by NCCL */
    int failed;  /* a link to it was refused: NCCL's code */
    bool serves; /* a session is being opened by its socket, of CollNet */
    unsigned at; /* of the socket among those that the thread sleeps on */
    char key[WRING_CONFIG_TEXT];
    struct wring_nccl_arrival *arrivals, **last;
};

/** @param handle  out, [WRING_NCCL_HANDLE_BYTES] @return NCCL's code */
int wring_nccl_listen_create(int device, enum wring_nccl_purpose purpose, void *handle,
                             void **listen);

/** One that is closed already is fine. @return NCCL's code */
int wring_nccl_listen_close(void *listen);

/** Find a listen by the pointer that NCCL holds. The mutex is held. NULL: there is none. */
struct wring_nccl_listen *wring_nccl_listen_find(const void *listen);

/** Find a listen by its number, as messages name it. The mutex is held. NULL: there is none, or
 * NCCL has closed it. */
struct wring_nccl_listen *wring_nccl_listen_of(uint64_t number);

/** The session that its socket served is open, or has failed. The mutex is held. */
void wring_nccl_listen_served(struct wring_nccl_listen *listen);

/** The mutex is held. */
bool wring_nccl_listens_are_open(void);

/** At the end, after the links. The mutex is held. */
void wring_nccl_listens_finish(void);

/** Let newcomers in, and go on with those who prove the key. The thread's; the mutex is held. */
void wring_nccl_listens_serve(const struct wring_nccl_watch *watch);

/** Sleep on them. The mutex is held. */
void wring_nccl_listens_watch(struct wring_nccl_watch *watch);

/* ---- nccl_link.c ---- */

/** Of a link, or of a session of CollNet. */
enum wring_nccl_opening_state {
    WRING_NCCL_OPENING,
    WRING_NCCL_OPEN,
    WRING_NCCL_FAILED,
};

#define WRING_NCCL_HELLO_BYTES 128
#define WRING_NCCL_HELLOS 4

/** A connection request that comes, or goes. */
struct wring_nccl_hello {
    struct wring_nccl_message *message; /* NULL: nothing is under way */
    uint8_t bytes[WRING_NCCL_HELLO_BYTES];
};

struct wring_nccl_comm;
struct wring_nccl_region;

struct wring_nccl_link {
    struct wring_nccl_link *next;
    struct wring_nccl_path path;            /* its rank is ours: 0 has listened */
    const struct wring_nccl_device *device; /* by which it goes */
    struct wring_nccl_meeting meeting;      /* while it opens */
    struct wring_writer own;                /* our description, likewise */
    bool has_path, greets, welcomes;        /* steps of that */
    atomic_int state;                       /* enum wring_nccl_opening_state */
    enum wring_status status;               /* WRING_NCCL_FAILED */
    char why[256];                          /* likewise */
    uint64_t listen;                        /* of rank 0's process, at which they met */
    char key[WRING_CONFIG_TEXT], root[WRING_NCCL_ROOT];
    char what[WRING_NCCL_NAME + 32]; /* for log lines: "link with 10.0.0.2:4711" */
    uint8_t process[WRING_NCCL_PROCESS];
    uint32_t peer_device;       /* of that process, by number */
    bool knows_process;         /* and that */
    bool broken;                /* no new connection goes by it */
    char name[WRING_NCCL_NAME]; /* of the peer, for log lines */
    uint32_t n_conns;           /* that we have asked for */
    struct wring_nccl_hello hellos[WRING_NCCL_HELLOS];
    unsigned next_hello;
    struct wring_nccl_message *said[4], *heard[4]; /* by enum word; NULL: nothing is under way */
    atomic_bool left;                              /* the peer has said farewell: it may end */
    unsigned n_arrivals;                           /* connections that wait to be accepted */
    struct wring_nccl_comm *comms; /* also those that NCCL has closed, and the peer not yet */
    struct wring_nccl_region *regions;
};

/** Somebody has come to a listen, and has proven the key. The mutex is held. */
void wring_nccl_link_serve(const struct wring_nccl_listen *listen,
                           const struct wring_nccl_meeting *meeting);

/** A link by one of our devices to that of a handle, which may be still opening. The mutex is held.
 *  NULL: no memory, or no thread. */
struct wring_nccl_link *wring_nccl_link_to(const struct wring_nccl_handle *handle, int device);

/** It could not be opened: say so, once. The mutex is held. @return NCCL's code */
int wring_nccl_link_failed(struct wring_nccl_link *link);

/** Take connection requests, and go on with connections that are closing. The mutex is held. */
void wring_nccl_links_poll(void);

/** The thread's turn: drive those that no caller drives, and sleep on them. The mutex is held. */
void wring_nccl_links_watch(struct wring_nccl_watch *watch);

/** Before that: go on with those that open, and note which of all something has come for in the
 * last sleep. The mutex is held. */
void wring_nccl_links_go_on(const struct wring_nccl_watch *watch);

/** Ask for a connection over a link that is open. The mutex is held. */
enum wring_status wring_nccl_link_ask(struct wring_nccl_link *link, uint64_t listen,
                                      struct wring_nccl_hello *hello, uint32_t *conn);

/** Nobody listens where a connection was asked for. The mutex is held. */
void wring_nccl_link_refuse(struct wring_nccl_link *link, uint32_t conn);

/** Does NCCL hold a connection, or wait for one? The mutex is held. */
bool wring_nccl_links_are_used(void);

/** At the end; the thread is gone. The mutex is held. */
void wring_nccl_links_finish(void);

/** The messages of a connection. `asker` is who has asked for it, as a rank of the link. */
enum wring_nccl_class {
    WRING_NCCL_CLASS_HELLO,  /* of the link */
    WRING_NCCL_CLASS_NOTICE, /* of the receiver to the sender */
    WRING_NCCL_CLASS_DATA,
    WRING_NCCL_CLASS_END, /* the sender has closed it */
};
static inline uint64_t wring_nccl_tag(enum wring_nccl_class class, uint32_t asker, uint32_t conn,
                                      int tag)
{
    return (uint64_t) class << 62 | (uint64_t)(asker & 1) << 61 | (uint64_t)conn << 32 |
           (uint32_t)tag;
}
#define WRING_NCCL_CONNS_MAX ((uint32_t)1 << 28) /* of a link */

/* ---- of nccl_pack.c ---- */

/** Work for a core: its memory is left alone until it is over. */
struct wring_nccl_task {
    struct wring_job job;
    struct wring_source source;
    atomic_bool over;
};

/* ---- nccl_comm.c ---- */

#define WRING_NCCL_NOTICE_BYTES (8 + WRING_NCCL_GROUPED * 12)
#define WRING_NCCL_NOTICES 16
#define WRING_NCCL_RECVS 64   /* irecv() under way */
#define WRING_NCCL_FLUSHES 64 /* likewise */
#define WRING_NCCL_SENDS (WRING_NCCL_REQUESTS * WRING_NCCL_GROUPED)

enum wring_nccl_notice_kind {
    WRING_NCCL_NOTICE_POSTED = 1, /* n buffers: tag and bytes of each */
    WRING_NCCL_NOTICE_CLOSED,
    WRING_NCCL_NOTICE_REFUSED, /* nobody listens there */
};

struct wring_nccl_notice {
    struct wring_nccl_message *message; /* NULL: nothing is under way */
    uint8_t bytes[WRING_NCCL_NOTICE_BYTES];
};

/** A buffer of an irecv() of the peer's, as the sender knows it. */
struct wring_nccl_slot {
    int tag;
    bool taken;
    bool noted;     /* a note about its message is waited for */
    bool on_device; /* it lies in device memory */
    uint64_t bytes;
};
struct wring_nccl_slots {
    uint64_t group; /* the how-many-eth irecv() of the connection */
    unsigned n, taken;
    struct wring_nccl_slot slot[WRING_NCCL_GROUPED];
};

#define WRING_NCCL_NOTE_BYTES 24
#define WRING_NCCL_NOTED ((uint64_t)1 << 63)     /* of a buffer's bytes, in a notice */
#define WRING_NCCL_ON_DEVICE ((uint64_t)1 << 62) /* likewise */

#define WRING_NCCL_NOTES (WRING_NCCL_RECVS * WRING_NCCL_GROUPED) /* a buffer under way, a note */

struct wring_nccl_note {
    struct wring_nccl_message *message; /* NULL: nothing is under way */
    uint8_t bytes[WRING_NCCL_NOTE_BYTES];
};

/** Which is faster, coded or raw? */
struct wring_nccl_trial {
    bool coded, decided;
    unsigned window, ended;     /* of the window */
    unsigned in_flight;         /* messages that count */
    uint64_t since_ns, busy_ns; /* while some were */
    uint64_t bytes;
    uint64_t of_bytes, code_bytes; /* of all that was coded, before and after */
    double speed[2];               /* of messages as they are, and coded; bytes a ns */
};

enum wring_nccl_step {
    WRING_NCCL_LANDING,
    WRING_NCCL_COPYING,
    WRING_NCCL_DECODING,
};

/** A buffer in which a code may land. */
struct wring_nccl_landing {
    void *to;
    bool wanted, noted, coded; /* its note, and what that says */
    uint64_t raw;              /* bytes of the message, then */
    enum wring_nccl_step step;
    void *code;
    size_t buffered;
    struct wring_nccl_task task;
};
struct wring_nccl_unpack {
    struct wring_nccl_landing landings[WRING_NCCL_GROUPED];
};

struct wring_nccl_request {
    struct wring_nccl_request *next; /* free, or of those sent early */
    struct wring_nccl_comm *comm;
    bool busy;
    unsigned n;                                               /* buffers */
    struct wring_nccl_message *under_way[WRING_NCCL_GROUPED]; /* NULL: it has ended */
    uint64_t bytes[WRING_NCCL_GROUPED];                       /* sent, or received */
    uint64_t room[WRING_NCCL_GROUPED];                        /* of a receive */
    int tag;                                                  /* of a send */
    bool early;     /* a send whose receive is not known */
    bool too_large; /* a send, for its receive's room[0] */
    bool offered;   /* a send that must not be eager: its receive may be in device memory */

    /* nccl_region.c: a flush has no buffers */
    const struct wring_nccl_region *flushed; /* NULL: it is no flush */
    const void *flushed_at;
    struct wring_block_flush flush;

    /* nccl_pack.c */
    uint64_t group;                    /* its irecv(), by number */
    uint32_t buffer;                   /* of that; of a send */
    bool noted;                        /* a send, about which there is to be a note */
    bool queued;                       /* behind one that is being coded, or itself */
    bool counted;                      /* for the comparison of both */
    struct wring_nccl_request *behind; /* in that queue */
    const void *data;                  /* of a send */
    struct wring_nccl_task *task;      /* that codes it; NULL: it travels as it is */
    void *code;
    size_t buffered;
    uint8_t note_bytes[WRING_NCCL_NOTE_BYTES];
    struct wring_nccl_message *note;  /* NULL: nothing is under way */
    struct wring_nccl_unpack *unpack; /* of a receive; NULL: nothing of it comes coded */

    int failed; /* NCCL's code */
};

struct wring_nccl_comm {
    struct wring_nccl_comm *next;
    struct wring_nccl_link *link; /* NULL: the plugin was finalized before NCCL closed this */
    uint32_t asker, conn;
    bool sends;
    bool closed; /* by NCCL */
    bool ended;  /* the peer has closed its side */
    bool gone;   /* or its whole link, perhaps before all it has said was heard */
    int failed;  /* NCCL's code */
    struct wring_nccl_request *free;
    unsigned n_requests, n_busy;                          /* of these, sends or receives */
    struct wring_nccl_hello ask;                          /* of the side that connects */
    struct wring_nccl_notice notices[WRING_NCCL_NOTICES]; /* a sender hears them, a receiver says
                                                             them */
    unsigned next_notice;
    struct wring_nccl_notice last;  /* what we say as we close */
    struct wring_nccl_notice peers; /* a receiver: what the sender says as it closes */

    size_t buffered;   /* codes, in all */
    uint64_t n_groups; /* irecv(), so far */

    /* a receiver */
    struct wring_nccl_note
        *notes; /* [WRING_NCCL_NOTES] a ring, that it hears; NULL: asks for none */
    unsigned first_note, n_notes;

    /* a sender */
    struct wring_nccl_trial trial;
    struct wring_nccl_request *queue, *last_queued;
    struct wring_nccl_slots posted[WRING_NCCL_RECVS]; /* a ring; the first one is not full */
    unsigned first_posted, n_posted;
    struct wring_nccl_request *early, **last_early;

    struct wring_nccl_request requests[]; /* [n_requests] */
};

/** Of a connection's messages. */
static inline uint64_t wring_nccl_tag_of(const struct wring_nccl_comm *comm,
                                         enum wring_nccl_class class, int tag)
{
    return wring_nccl_tag(class, comm->asker, comm->conn, tag);
}

int wring_nccl_connect(int device, void *handle, void **send_comm);
int wring_nccl_accept(void *listen, void **recv_comm);
int wring_nccl_isend(void *comm, void *data, size_t bytes, int tag, void *mhandle, void **request);
int wring_nccl_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
                     void **mhandles, void **request);
int wring_nccl_iflush(void *comm, int n, void **data, int *bytes, void **mhandles, void **request);
int wring_nccl_test(void *request, int *done, int *bytes);
int wring_nccl_close(void *comm);

/** Nothing of it is under way. */
void wring_nccl_comm_free(struct wring_nccl_comm *comm);

/** Go on with a connection that NCCL has closed. The mutex is held.
 *  @return whether it is over and may be freed */
bool wring_nccl_comm_settle(struct wring_nccl_comm *comm);

/* ---- nccl_pack.c ---- */

/** Cores for the process, if WRING_NCCL_LOSSLESS says so; it is in the configuration. The mutex is
 *  held. Errors, logged: those of wring_executor_pool_create(). */
enum wring_status wring_nccl_coder_open(void);

/** No task is under way. The mutex is held. */
void wring_nccl_coder_close(void);

/** Begin to code a send whose buffer is known, if it may be, and it is the time for it. */
void wring_nccl_pack(struct wring_nccl_request *request);

/** Send it, and the note about it. */
enum wring_status wring_nccl_post_send(struct wring_nccl_request *request);

/** Send the note about a send that had left before its buffer was known. */
enum wring_status wring_nccl_say_note(struct wring_nccl_request *request);

/** Put it behind those that wait. */
void wring_nccl_queue(struct wring_nccl_request *request);

/** Send what need not wait any more. */
enum wring_status wring_nccl_queue_go_on(struct wring_nccl_comm *comm);

/** A send or receive is over, or given up: end the work on its memory, and free its code. */
void wring_nccl_pack_end(struct wring_nccl_request *request);

bool wring_nccl_wants_note(const struct wring_nccl_comm *comm, const void *data, uint64_t room);

/** A receive's rooms are known. @return false: no memory */
bool wring_nccl_unpack_begin(struct wring_nccl_request *request, void **data);

/** Hostile bytes. @param bytes  [WRING_NCCL_NOTE_BYTES] @return false: they are no note */
bool wring_nccl_take_note(struct wring_nccl_comm *comm, const uint8_t *bytes, uint64_t n_bytes);

/** A buffer's data is here. Errors: WRING_ERR_AGAIN until it can be read, WRING_ERR_FRAME. */
enum wring_status wring_nccl_unpack(struct wring_nccl_request *request, unsigned i);

/** All of a buffer is here, and it is not decoded yet. */
bool wring_nccl_is_unpacking(const struct wring_nccl_request *request);

/* ---- nccl_region.c: registrations of device memory, each of the link of its comm ---- */

int wring_nccl_reg_mr(void *comm, void *data, size_t bytes, int memory, void **mhandle);
int wring_nccl_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int memory, uint64_t offset,
                             int fd, void **mhandle);
int wring_nccl_dereg_mr(void *comm, void *mhandle);

/** Does memory lie where its registration says? No core could help if it did not. Logged. */
bool wring_nccl_region_holds(const struct wring_nccl_comm *comm, const void *mhandle,
                             const void *data, size_t bytes);

/** Does it lie in device memory that was registered with the comm's link? */
bool wring_nccl_is_on_device(const struct wring_nccl_comm *comm, const void *data, uint64_t bytes);

/** What a flush has to see to. @return false: nothing */
bool wring_nccl_flush_aim(const struct wring_nccl_comm *comm, int n, void **data, const int *bytes,
                          void **mhandles, const struct wring_nccl_region **region,
                          const void **at);

/** A flush goes on. Errors: those of wring_nccl_path_flush(). */
enum wring_status wring_nccl_flush_look(struct wring_nccl_request *request);

/** A comm is closed, its requests are given up. The mutex is held. */
void wring_nccl_regions_leave(struct wring_nccl_comm *comm);

/** The link's path is about to go: what NCCL still holds is freed as it deregisters it. The
 * mutex is held. */
void wring_nccl_regions_part(struct wring_nccl_link *link);

/* ---- nccl_coll.c ---- */

/** The codecs of sums, by own->config. Errors, logged: those of wring_call_codecs_read(). */
enum wring_status wring_nccl_coll_read_codecs(void);

/** For a log line: "exact", or which sum has which codec. */
void wring_nccl_coll_show_codecs(char *text, size_t bytes);

int wring_nccl_coll_connect(void *handles[], int ranks, int rank, void *listen, void **comm);
int wring_nccl_coll_support(int dtype, int op, int *supported);
int wring_nccl_iallreduce(void *comm, void *in, void *out, size_t elems, int dtype, int op,
                          void **request);
int wring_nccl_iallgather(void *comm, void *in, void *out, size_t bytes_per_rank, size_t window,
                          size_t window_bytes, void **request);
int wring_nccl_ireducescatter(void *comm, void *in, void *out, size_t bytes_per_rank, size_t window,
                              size_t window_bytes, int dtype, int op, void **request);
int wring_nccl_coll_test(void *request, int *done, int *bytes);
int wring_nccl_coll_close(void *comm);

/** The mutex is held. */
bool wring_nccl_colls_are_open(void);
void wring_nccl_colls_finish(void);

/* ---- nccl_job.c ---- */

/** The process. */
struct wring_nccl_own {
    pthread_mutex_t mutex;  /* guards all that follows */
    unsigned users;         /* init() less finalize() */
    unsigned lasting_users; /* init() of version 8, which has no finalize() */
    wring_nccl_log_fn say;
    struct wring_log log; /* that NCCL prints */
    struct wring_config config;
    char key[WRING_CONFIG_TEXT]; /* the job's own; "": each handle has a secret */
    uint8_t process[WRING_NCCL_PROCESS];
    char name[WRING_NCCL_NAME];            /* of this process, for others' log lines */
    char address[WRING_INTERFACE_ADDRESS]; /* to listen at */
    struct wring_call_codecs codecs;       /* of CollNet's sums: nccl_coll.c */
    bool told_of_rules;                    /* that never count */
    char providers[WRING_CONFIG_TEXT];
    const char *iface_by;                 /* the variable that names the interface; NULL: none */
    char settings[2][WRING_NCCL_SETTING]; /* NAME=VALUE of all sessions, by NCCL's variables */
    unsigned n_settings;
    int n_real; /* of them; those that NCCL had made of several come after */
    struct wring_nccl_device devices[WRING_NCCL_DEVICES];
    int n_devices;
    uint64_t n_listens;
    struct wring_nccl_listen *listens;
    struct wring_nccl_link *links;

    /** After a finalize(), or where something was closed: if nobody uses the plugin any more, or
     *  only those that never finalize it and have nothing open, all threads and sockets go. The
     *  mutex is held. */
    void (*leave)(void);

    /** What the thread does between two sleeps. The mutex is held. @param wake  a descriptor that
     *  is to wake it */
    void (*look)(struct wring_nccl_watch *watch, int wake);
};
extern struct wring_nccl_own wring_nccl_own;

/**
 * @param table      the one that NCCL has chosen, for its log
 * @param finalizes  a finalize() follows
 * @return NCCL's code
 */
int wring_nccl_init(wring_nccl_log_fn log, const char *table, bool finalizes);
int wring_nccl_finalize(void);

/* ---- nccl_say.c ---- */

/** What wring's status is to NCCL. */
int wring_nccl_code_of(enum wring_status status);

/** A line in NCCL's log. */
__attribute__((format(printf, 2, 3))) void wring_nccl_say(enum wring_nccl_log_level level,
                                                          const char *format, ...);

#endif
