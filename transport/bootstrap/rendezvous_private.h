/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations that the parts of the rendezvous share. */
#ifndef WRING_TRANSPORT_RENDEZVOUS_PRIVATE_H
#define WRING_TRANSPORT_RENDEZVOUS_PRIVATE_H

#include <netdb.h>
#include <netinet/in.h>

#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/stream.h"

#define WRING_RENDEZVOUS_HELLO_BYTES 8 /* rank, size */
#define WRING_RENDEZVOUS_TEXT 512
#define WRING_RENDEZVOUS_ADDRESS 64 /* bytes of an address as text, a zone included */
#define WRING_RENDEZVOUS_GONE (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)

enum wring_rendezvous_kind {
    WRING_RENDEZVOUS_BLOB = 1, /* rank to root: its contribution */
    WRING_RENDEZVOUS_RESULT,   /* root to rank: all of them, each after a u64 length */
    WRING_RENDEZVOUS_FAILURE,  /* root to rank: status, rank at fault, text */
    WRING_RENDEZVOUS_ADMITTED, /* root to rank, after the handshake: it is one of the job */
    WRING_RENDEZVOUS_PLACE,    /* rank to root: where its children in the tree come in */
    WRING_RENDEZVOUS_PARENT,   /* root to rank: which rank its parent is, and that one's place */
    WRING_RENDEZVOUS_PLANTED,  /* rank to root: its parent and children are there */
};

struct wring_rendezvous_frame {
    enum wring_rendezvous_kind kind;
    uint32_t sequence; /* of the exchange */
    uint32_t status, rank;
    uint64_t bytes;
};

#define WRING_RENDEZVOUS_FRAME_BYTES 28

struct wring_rendezvous_tree;

struct wring_rendezvous {
    struct wring_bootstrap base;
    const struct wring_log *log;
    uint32_t sequence;
    int *fds; /* root: [size], its own -1; others: [1], to the root; all -1 with a tree */
    struct wring_rendezvous_tree *tree; /* of a large job, once it stands; else NULL */
    char local_address[WRING_RENDEZVOUS_ADDRESS];
};

/** @param bytes out, [WRING_RENDEZVOUS_FRAME_BYTES] */
void wring_rendezvous_pack(const struct wring_rendezvous_frame *frame, uint8_t *bytes);

/** @param bytes in, [WRING_RENDEZVOUS_FRAME_BYTES], hostile
 *  @return false, and nothing written, where these are not the bytes of a frame */
bool wring_rendezvous_parse(const uint8_t *bytes, struct wring_rendezvous_frame *out);

/** The status of a FAILURE; WRING_ERR_PEER where it names no error that this version knows. */
enum wring_status wring_rendezvous_failure_status(const struct wring_rendezvous_frame *frame);

/** A text from the wire, for a log: [bytes] and a NUL; bytes that are not printable ASCII become
 *  '?'. */
void wring_rendezvous_make_printable(char *text, size_t bytes);

/**
 * The body of a RESULT: a u64 length and the bytes, for each rank, and nothing more.
 *
 * @param body  in, [bytes] from malloc(), hostile; moved together in place, owned by out on success
 * Errors: WRING_ERR_FRAME, WRING_ERR_NO_MEMORY; the body stays the caller's.
 */
enum wring_status wring_rendezvous_unpack_result(uint32_t size, uint8_t *body, uint64_t bytes,
                                                 struct wring_blobs *out);

/** Listen (unless params->root_fd) and let everyone in; on failure all who joined are told. */
enum wring_status wring_rendezvous_host(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret);

/** Connect to the root, again and again until it is there, and be let in. */
enum wring_status wring_rendezvous_join(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret);

/** The last thing that a rank hears, and the first; lost where it does not listen. */
void wring_rendezvous_send_failure(int fd, enum wring_status status, uint32_t rank,
                                   const char *text);
void wring_rendezvous_send_admitted(int fd);

/** Tell all who joined that it is over. */
void wring_rendezvous_tell_failure(struct wring_rendezvous *rendezvous, enum wring_status status,
                                   uint32_t rank, const char *text);

/** The two sides of an exchange. */
enum wring_status wring_rendezvous_gather(struct wring_rendezvous *rendezvous, const void *blob,
                                          size_t bytes, const struct wring_patience *patience,
                                          struct wring_blobs *out);
enum wring_status wring_rendezvous_contribute(struct wring_rendezvous *rendezvous, const void *blob,
                                              size_t bytes, const struct wring_patience *patience,
                                              struct wring_blobs *out);

/** Between exchanges: the root looks for ranks that have ended, and tells the others; the others
 *  hear whether it has told them so, or has ended itself. Errors, logged: WRING_ERR_PEER, … */
enum wring_status wring_rendezvous_hear(struct wring_rendezvous *rendezvous);

/** Resolve one "host:port". @param found out, for freeaddrinfo()
 *  @param is_name out, true where the host is a name, not a number */
enum wring_status wring_rendezvous_resolve(const struct wring_log *log, const char *root,
                                           struct addrinfo **found, bool *is_name);

/** A link-local address whose zone no interface of this host has. Logged. @return
 *  WRING_ERR_ADDRESS */
enum wring_status wring_rendezvous_refuse_zone(const struct wring_log *log, const char *root);

/** One address at which the root may be. */
struct wring_rendezvous_endpoint {
    struct sockaddr_storage address;
    socklen_t bytes;
    bool near; /* on a network that this host is on too */
};

#define WRING_RENDEZVOUS_ENDPOINTS 64

/** All of them, in the order in which to try them: the near ones first. */
struct wring_rendezvous_endpoints {
    unsigned n;
    bool several; /* the root has named more than one: a stranger may be at some of them */
    struct wring_rendezvous_endpoint at[WRING_RENDEZVOUS_ENDPOINTS];
};

/**
 * The endpoints that params->root names, on a rank that joins: "host:port", or several with commas
 * between them. Addresses that mean nothing here are passed over; without a key, so are all that
 * are not of loopback. A link-local address whose zone is another host's word is tried on each
 * interface of this one.
 * Errors, logged: WRING_ERR_INVALID, WRING_ERR_ADDRESS, WRING_ERR_AUTH (all of them need a key).
 */
enum wring_status wring_rendezvous_find_endpoints(const struct wring_rendezvous_params *params,
                                                  struct wring_rendezvous_endpoints *out);

/** "10.0.0.1:4000", "[fe80::1%eth0]:4000". @param text out, [WRING_RENDEZVOUS_ENDPOINT_TEXT] */
void wring_rendezvous_endpoint_text(const struct wring_rendezvous_endpoint *endpoint, char *text);
#define WRING_RENDEZVOUS_ENDPOINT_TEXT (WRING_RENDEZVOUS_ADDRESS + 12)

/** @return WRING_OK; WRING_ERR_AGAIN: it has closed without a word; an error that is logged */
typedef enum wring_status wring_rendezvous_taken_fn(struct wring_rendezvous *rendezvous, int fd,
                                                    const struct wring_patience *patience);

/** The root's listening socket, which does not block.
 *  @param out out, params->root_fd, which is borrowed, or else the caller's to close */
enum wring_status wring_rendezvous_listen(const struct wring_rendezvous_params *params, int *out);

bool wring_rendezvous_is_loopback(const struct sockaddr *address);

/** Is this an address for which the job needs a key, and has none? */
bool wring_rendezvous_needs_key(const struct wring_rendezvous_params *params,
                                const struct sockaddr *address);

/** The address of our end of a socket. @param text out, [WRING_RENDEZVOUS_ADDRESS]; "" if unknown
 *  @return true where the other end is not on this host */
bool wring_rendezvous_local(int fd, char *text);

/** A list of ranks for a message: "rank 3", "ranks 1, 2", "ranks 1, … and 9 more". {0} is empty. */
struct wring_rendezvous_names {
    uint32_t n, first;
    size_t at;
    char list[96], text[128];
};
void wring_rendezvous_name(struct wring_rendezvous_names *names, uint32_t rank);
const char *wring_rendezvous_named(struct wring_rendezvous_names *names);

#endif
