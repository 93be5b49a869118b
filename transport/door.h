/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A listening socket to which anybody may come, and which of them it lets in while descriptors or
 * places are short. The rendezvous and the providers share it.
 */
#ifndef WRING_TRANSPORT_DOOR_H
#define WRING_TRANSPORT_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <wring/status.h>

/* The ports that a session may listen on: WRING_PORTS. */

struct wring_log;

struct wring_ports {
    uint16_t first, last; /* 0, 0: any that is free */
};

/** "first-last", one port, or nothing. Errors, logged: WRING_ERR_INVALID. */
enum wring_status wring_ports_read(const struct wring_log *log, const char *text,
                                   struct wring_ports *out);

/**
 * Make the addresses of a rendezvous whole: spaces around commas go, and a "host" or "[v6]" without
 * a port gets the first of the range, if there is one. All ranks that are told the same range meet
 * there.
 * @param root in and out, [bytes]; one for whose port there is no room is left as it is
 */
void wring_ports_complete(const struct wring_ports *ports, char *root, size_t bytes);

/**
 * Listen, without blocking, on the first port of the range that is free.
 *
 * @param address in, where; its port is set to the one that was tried last
 * @param why out, [bytes], for a message, where it fails
 * @return the socket, or -1
 */
int wring_ports_listen(const struct wring_ports *ports, struct sockaddr_storage *address,
                       socklen_t address_bytes, int backlog, char *why, size_t bytes);

struct wring_door {
    uint64_t retry_ns;       /* nobody is accepted before then; 0: at once */
    uint64_t quiet_until_ns; /* the log has had its line */
    int error;               /* errno of the last answer that was WRING_DOOR_SHORT */
    const char *module;      /* of log lines */
};

enum wring_door_answer {
    WRING_DOOR_ACCEPTED,
    WRING_DOOR_NOBODY, /* waits now */
    WRING_DOOR_SHORT,  /* of descriptors or memory: told to the log, look again at retry_ns */
};

/**
 * accept(), without blocking; passes over those that were gone before.
 *
 * @param needed  descriptors that the caller knows it will need in all, for the log; 0: unknown
 * @param fd      out, where it answers WRING_DOOR_ACCEPTED: owned by the caller
 * @param from    out, likewise; may be NULL
 */
enum wring_door_answer wring_door_accept(struct wring_door *door, const struct wring_log *log,
                                         int listener, unsigned needed, int *fd,
                                         struct sockaddr_storage *from);

/** Look away for a while; or only until one of those who have a place may have to go. */
void wring_door_pause(struct wring_door *door);
void wring_door_wait(struct wring_door *door);

/** May it be asked now? Ends a pause that is over. */
bool wring_door_is_open(struct wring_door *door, uint64_t now);

/** A system call's errno in words, where it says that something has run out: "no descriptor is
 *  left: …" with the limit that was met; else the system's own words. @param text out, [bytes] */
void wring_door_shortage(int error, unsigned needed, char *text, unsigned long bytes);

/** One who was let in and has proven nothing yet. */
struct wring_door_guest {
    uint64_t since_ns;
    uint32_t from; /* wring_door_origin() */
    bool silent;   /* has not sent a byte */
};

/** A number of the host that a connection comes from, the port left out. */
uint32_t wring_door_origin(const struct sockaddr_storage *from);

/**
 * All places are taken: which connection goes, for others that wait?
 *
 * A rank speaks first and at once. So connections go first that are silent, for some ms at least.
 * Among these it is one from the host that most come from, so that no host can take the places of
 * others, and then the oldest. Where all have spoken it is the oldest, if it has had its time.
 *
 * @param slow_ns  the time that a connection that speaks may count on
 * @return its index; -1: nobody yet
 */
int wring_door_choose(const struct wring_door_guest *guests, unsigned n, uint64_t now,
                      uint64_t slow_ns);

#endif
