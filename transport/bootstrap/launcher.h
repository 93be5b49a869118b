/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which launcher started this process, and its information about the job. One table serves the
 * library and the tools; docs/launchers.md describes it for users.
 *
 * A launcher that is seen and cannot be used is an error, never a job of one.
 */
#ifndef WRING_TRANSPORT_BOOTSTRAP_LAUNCHER_H
#define WRING_TRANSPORT_BOOTSTRAP_LAUNCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/door.h"

#define WRING_LAUNCHER_TEXT 512 /* bytes that every launcher's exchange carries, NUL included */
#define WRING_LAUNCHER_HOST 256
#define WRING_LAUNCHER_ROOT 2304 /* WRING_LAUNCHER_PORTS hosts with their ports */
#define WRING_LAUNCHER_JOB 512

/** A launcher's own exchange between the ranks of a job. It belongs to the process, not a session:
 *  the launcher gave the process one channel, which stays open until the process exits. */
struct wring_launcher_exchange {
    const char *name; /* "PMIx", "PMI-1", "PMI-2" */

    /** Can this process reach it? @param why out, [bytes], the reason and the remedy, if not */
    bool (*usable)(char *why, size_t bytes);

    /**
     * Rank 0's text becomes everyone's. Collective: all ranks call, in the same order.
     * @param text  in on rank 0 and out elsewhere, [WRING_LAUNCHER_TEXT]; printable, without
     * spaces,
     *              ';' and '='
     * Errors, logged: WRING_ERR_PEER (not all ranks came in time), WRING_ERR_SYSTEM (the launcher
     * refuses). Threads: safe.
     */
    enum wring_status (*broadcast)(const struct wring_log *log, bool is_root, uint64_t deadline_ns,
                                   char *text);
};

/**
 * WRING_ROOT as a session takes it: without spaces around commas, and with the first port of
 * WRING_PORTS where it has none. Errors, logged: WRING_ERR_INVALID (WRING_PORTS).
 * @param root out, [WRING_LAUNCHER_ROOT]
 */
enum wring_status wring_launcher_root(const struct wring_config *config,
                                      const struct wring_log *log, char *root);

/** A launcher's information for one process. */
struct wring_launched {
    const char *name;                               /* "torchrun", …; NULL: nobody started it */
    const struct wring_launcher_exchange *exchange; /* NULL: variables only */
    uint32_t rank, size;
    int32_t local_rank, local_size; /* on this host; -1: it does not say */
    char
        host[WRING_LAUNCHER_HOST]; /* without an exchange: where rank 0 runs; "": it does not say */
    char job[WRING_LAUNCHER_JOB];  /* without an exchange: tells this job from others; "" */
};

/**
 * Ask the table. WRING_RANK and WRING_SIZE come first; without them and without any launcher this
 * is a job of one, name NULL.
 *
 * Errors, logged with the remedy: WRING_ERR_INVALID (variables that contradict or lack something),
 * WRING_ERR_UNSUPPORTED (a launcher that cannot be used here).
 */
enum wring_status wring_launcher_find(const struct wring_config *config,
                                      const struct wring_log *log, struct wring_launched *out);

/** Do all ranks run on this host, as far as the launcher says? */
static inline bool wring_launched_here(const struct wring_launched *launched)
{
    return launched->local_size > 0 && (uint32_t)launched->local_size == launched->size;
}

/** Where and with which key the ranks meet. */
struct wring_launcher_meeting {
    char root[WRING_LAUNCHER_ROOT]; /* for the others: "host:port,…", tried one after the other */
    int root_fd;                    /* rank 0: a listening socket; -1: it makes one */
    bool root_fd_is_given;          /* it is config->root_fd; else the caller's to close */
    char key[WRING_CONFIG_TEXT];    /* the job's */
    char job[WRING_LAUNCHER_JOB];   /* the job's name, part of the ranks' proof; or "" */
};

/**
 * Settle where the ranks of a job of two or more meet, from the launcher and the configuration.
 *
 * With an exchange rank 0 listens, and tells its addresses and, unless WRING_KEY is set, a fresh
 * key. Without one the address comes from the launcher's variables, the port from WRING_PORTS or
 * the job's name, and the key from the configuration; without a key all of it stays on loopback.
 *
 * A given socket (config->root_fd) needs a WRING_ROOT where there is an exchange, as rank 0 tells
 * that; without one it is left alone, which is logged.
 * Errors, logged: WRING_ERR_INVALID, WRING_ERR_AUTH (no key), WRING_ERR_ADDRESS, and those of the
 * exchange.
 */
enum wring_status wring_launcher_meet(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_launched *launched, uint64_t deadline_ns,
                                      struct wring_launcher_meeting *out);

/**
 * The ports on which ranks without an exchange look for rank 0, which takes the first that is free:
 * WRING_PORTS, at most WRING_LAUNCHER_PORTS of them, or some below the ephemeral ones that follow
 * from the job's name.
 */
#define WRING_LAUNCHER_PORTS 8
struct wring_ports wring_launcher_ports(const struct wring_ports *configured, const char *job);

/** The first host of a Slurm list: "node[03-07,9],login" is node03. @param out out, [bytes]
 *  @return false where it is no such list */
bool wring_slurm_first_host(const char *list, char *out, size_t bytes);

/** Which process a launcher's channel belongs to: the one that first asks for it. A child that it
 *  forks leaves the channel alone, and its mutex, which a thread of the parent may have held. */
struct wring_launcher_owner {
    atomic_uint forks; /* wring_forked_count() of the owner, plus 1; 0: nobody has asked */
};

/** @return false in a forked child of the owner. Threads: safe. */
bool wring_launcher_own(struct wring_launcher_owner *owner);

/** Why a forked child cannot use it, in a log line. @return WRING_ERR_UNSUPPORTED */
enum wring_status wring_launcher_refuse_child(const struct wring_log *log);

extern const struct wring_launcher_exchange wring_exchange_pmix;
extern const struct wring_launcher_exchange wring_exchange_pmi1;
extern const struct wring_launcher_exchange wring_exchange_pmi2;

/** Ask PMIx for the size of a job if no variable tells it. Errors, logged: WRING_ERR_SYSTEM. */
enum wring_status wring_pmix_job_size(const struct wring_log *log, uint32_t *size);

#endif
