/* SPDX-License-Identifier: Apache-2.0 */
/* The table of launchers. The innermost one counts: torchrun may run within a Slurm step or below
 * mpirun, and mpirun within a step, while the outer one's variables are still there. */
#include "transport/bootstrap/launcher.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/hash.h"
#include "transport/auth.h"
#include "transport/interface.h"

#define WRING_MODULE "launcher"
#define BACKLOG 1024 /* ranks that dial at once; the system may allow fewer */
#define SECRET_BYTES 32
#define NAME_BYTES 16
#define PORTS_FIRST 10240u /* below the ephemeral ports of common systems */
#define PORTS_SPAN 20480u

/* The text of rank 0: some fields. A field is never empty. */
#define TOLD_FORMAT "wring1|%s|%.32s|%s" /* addresses, job, key or one of the words below */
#define ROOT_BYTES 300                   /* of addresses, so that all of it fits */
#define NOT_CARRIED " \t\r\n;=|"         /* ends a field or a value, of wring's or of PMI's */
#define KEY_OWN "own"                    /* rank 0 has a key of its own; so must the others */
#define TOLD_FAILED "failed"

static bool has_key(const struct wring_config *config)
{
    return config->key[0] != '\0';
}

enum wring_status wring_launcher_root(const struct wring_config *config,
                                      const struct wring_log *log, char *root)
{
    struct wring_ports ports;
    enum wring_status status = wring_ports_read(log, config->ports, &ports);
    if (status != WRING_OK)
        return status;
    snprintf(root, WRING_LAUNCHER_ROOT, "%s", config->root);
    wring_ports_complete(&ports, root, WRING_LAUNCHER_ROOT);
    return WRING_OK;
}

/* ---- rank 0's socket ---- */

/** Write an address as text for a root. @return bytes, 0 where there is no room */
static size_t write_root(char *text, size_t bytes, const char *host, uint16_t port)
{
    const char *format = strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    int n = snprintf(text, bytes, format, host, port);
    return n > 0 && (size_t)n < bytes ? (size_t)n : 0;
}

static uint16_t address_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}

/** An address of this host as text. Errors, logged: WRING_ERR_ADDRESS. */
static enum wring_status parse_address(const struct wring_log *log, const char *text,
                                       struct sockaddr_storage *out, socklen_t *bytes)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;

    if (getaddrinfo(text, NULL, &hints, &found) != 0) {
        wring_error(log, "WRING_BIND=%s: needs an address of this host, as 10.0.0.1 or fd00::1",
                    text);
        return WRING_ERR_ADDRESS;
    }
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return WRING_OK;
}

/** Not all addresses of a host, nor several hosts': the others cannot dial such. */
static bool is_single_address(const struct sockaddr_storage *address)
{
    in_addr_t v4 = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (address->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(v6))
        return !IN6_IS_ADDR_UNSPECIFIED(v6) && !IN6_IS_ADDR_MULTICAST(v6);
    if (address->ss_family == AF_INET6)
        memcpy(&v4, v6->s6_addr + 12, sizeof(v4));
    return v4 != htonl(INADDR_ANY) && !IN_MULTICAST(ntohl(v4));
}

/** Errors, logged: WRING_ERR_ADDRESS. */
static enum wring_status check_bind(const struct wring_log *log, const char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    enum wring_status status = parse_address(log, text, &address, &bytes);
    if (status != WRING_OK || is_single_address(&address))
        return status;
    wring_error(log,
                "WRING_BIND=%s: cannot listen there: peers need one address of this host that they "
                "can reach (no wildcard, no multicast address)",
                text);
    return WRING_ERR_ADDRESS;
}

/** Where rank 0 listens: loopback where nobody else needs to come in, at WRING_BIND or on
 *  WRING_IFACE, else everywhere: any interface may be the one that reaches the others.
 *  @param text out, [WRING_INTERFACE_ADDRESS]; "" everywhere */
static enum wring_status choose_address(const struct wring_config *config,
                                        const struct wring_log *log, bool here, char *text)
{
    text[0] = '\0';
    if (config->iface[0] != '\0' && config->bind[0] == '\0')
        return wring_interface_find(log, config->iface, "", text);
    if (config->bind[0] != '\0' || here)
        snprintf(text, WRING_INTERFACE_ADDRESS, "%.*s", WRING_INTERFACE_ADDRESS - 1,
                 config->bind[0] != '\0' ? config->bind : "127.0.0.1");
    return config->bind[0] != '\0' ? check_bind(log, config->bind) : WRING_OK;
}

/** Listen on the first free port, at one address or, "", at all of both families. @param port out
 */
static enum wring_status listen_at(const struct wring_log *log, const char *text,
                                   const struct wring_ports *ports, int *fd, uint16_t *port)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    char why[160];

    enum wring_status status = parse_address(log, text[0] != '\0' ? text : "::", &address, &bytes);
    if (status != WRING_OK)
        return status;
    *fd = wring_ports_listen(ports, &address, bytes, BACKLOG, why, sizeof(why));
    if (*fd < 0 && text[0] == '\0') { /* this host has no IPv6 */
        status = parse_address(log, "0.0.0.0", &address, &bytes);
        if (status == WRING_OK)
            *fd = wring_ports_listen(ports, &address, bytes, BACKLOG, why, sizeof(why));
    }
    if (*fd < 0 || getsockname(*fd, (struct sockaddr *)&address, &bytes) != 0) {
        wring_error(log, "rank 0 cannot listen for the others at %s: %s",
                    text[0] != '\0' ? text : "any address", *fd < 0 ? why : strerror(errno));
        return WRING_ERR_ADDRESS;
    }
    *port = address_port(&address);
    return WRING_OK;
}

/** Bridges of containers and virtual machines rarely lead to another host: they come last. */
static bool is_virtual_interface(const char *name)
{
    return wring_interface_match("docker,br-,virbr,veth,cni,flannel,cali,lxc,podman", name) >= 0;
}

/** Append the addresses that others may reach, as far as there is room. */
static void list_addresses(const struct ifaddrs *all, int family, bool virtual, uint16_t port,
                           char *root, size_t bytes)
{
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        char host[NI_MAXHOST], text[NI_MAXHOST + 16];
        socklen_t size =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        size_t used = strlen(root);
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != family ||
            (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_RUNNING) == 0 ||
            (at->ifa_flags & IFF_LOOPBACK) != 0 || is_virtual_interface(at->ifa_name) != virtual)
            continue;
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(v6))
            continue; /* its zone means nothing elsewhere */
        if (getnameinfo(at->ifa_addr, size, host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0 ||
            write_root(text, sizeof(text), host, port) == 0 || used + 1 + strlen(text) >= bytes)
            continue;
        snprintf(root + used, bytes - used, "%s%s", used > 0 ? "," : "", text);
    }
}

/** All addresses at which rank 0 may be reached. @param root out, [bytes], not empty */
static enum wring_status write_addresses(const struct wring_log *log, const char *text,
                                         uint16_t port, char *root, size_t bytes)
{
    struct ifaddrs *all;

    root[0] = '\0';
    if (text[0] != '\0') {
        write_root(root, bytes, text, port);
        return WRING_OK;
    }
    if (getifaddrs(&all) != 0) {
        wring_error(log, "cannot list the network interfaces: %s", strerror(errno));
        return WRING_ERR_SYSTEM;
    }
    for (int virtual = 0; virtual < 2; virtual ++) {
        list_addresses(all, AF_INET, virtual != 0, port, root, bytes);
        list_addresses(all, AF_INET6, virtual != 0, port, root, bytes);
    }
    freeifaddrs(all);
    if (root[0] == '\0') /* nothing but loopback: all others are here */
        write_root(root, bytes, "127.0.0.1", port);
    return WRING_OK;
}

/* ---- with an exchange ---- */

static bool make_hex(char *text, size_t random_bytes)
{
    uint8_t random[SECRET_BYTES];
    if (!wring_random_bytes(random, random_bytes))
        return false;
    for (size_t i = 0; i < random_bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return true;
}

/** Rank 0's socket, if the environment or the application has made it. */
static void take_given_fd(const struct wring_config *config, struct wring_launcher_meeting *out)
{
    out->root_fd = (int)config->root_fd;
    out->root_fd_is_given = config->root_fd >= 0;
}

/** Rank 0 was told where it listens: is that what the exchange carries? Errors are logged. */
static enum wring_status take_given_root(const struct wring_config *config,
                                         const struct wring_log *log, const char *exchange,
                                         char *root)
{
    char whole[WRING_LAUNCHER_ROOT];
    enum wring_status status = wring_launcher_root(config, log, whole);
    if (status != WRING_OK)
        return status;
    if (strlen(whole) >= ROOT_BYTES) {
        wring_error(log, "WRING_ROOT: longer than the %d bytes that %s carries", ROOT_BYTES - 1,
                    exchange);
        return WRING_ERR_INVALID;
    }
    if (whole[0] == '\0' || strpbrk(whole, NOT_CARRIED) != NULL) {
        wring_error(log,
                    "WRING_ROOT=%s: needs host:port, or several with commas between them: %s "
                    "carries no spaces",
                    whole, exchange);
        return WRING_ERR_INVALID;
    }
    memcpy(root, whole, strlen(whole) + 1);
    return WRING_OK;
}

/** Rank 0: listen, and make what is to be told. */
static enum wring_status prepare_root(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_launched *launched,
                                      struct wring_launcher_meeting *out, char *told)
{
    char address[WRING_INTERFACE_ADDRESS], key[2 * SECRET_BYTES + 1] = KEY_OWN;
    char root[ROOT_BYTES];
    struct wring_ports ports;
    uint16_t port;

    enum wring_status status = wring_ports_read(log, config->ports, &ports);
    bool is_given = config->root[0] != '\0';
    if (status == WRING_OK && !is_given && config->root_fd >= 0)
        wring_warn(log,
                   "WRING_ROOT_FD=%" PRId64 " is not used: %s tells the others where rank 0 "
                   "listens; set WRING_ROOT to its address, too",
                   config->root_fd, launched->exchange->name);
    if (status == WRING_OK && is_given)
        take_given_fd(config, out);
    if (status == WRING_OK && is_given)
        status = take_given_root(config, log, launched->exchange->name, root);
    if (status == WRING_OK && !is_given)
        status = choose_address(config, log, wring_launched_here(launched), address);
    if (status == WRING_OK && !is_given)
        status = listen_at(log, address, &ports, &out->root_fd, &port);
    if (status == WRING_OK && !is_given)
        status = write_addresses(log, address, port, root, sizeof(root));
    if (status == WRING_OK &&
        (!make_hex(out->job, NAME_BYTES) || (!has_key(config) && !make_hex(key, SECRET_BYTES)))) {
        wring_error(log, "no random numbers: the system gives none");
        status = WRING_ERR_SYSTEM;
    }
    if (status != WRING_OK)
        return status;
    snprintf(out->root, sizeof(out->root), "%s", root);
    snprintf(out->key, sizeof(out->key), "%s", has_key(config) ? config->key : key);
    snprintf(told, WRING_LAUNCHER_TEXT, TOLD_FORMAT, root, out->job, key);
    return WRING_OK;
}

/** The next field of rank 0's text, which is hostile only as far as the launcher is. */
static bool take_field(const char **at, char *out, size_t bytes)
{
    size_t length = strcspn(*at, "|");
    if (length == 0 || length >= bytes)
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length + ((*at)[length] == '|');
    return true;
}

/** The other ranks: take rank 0's text. */
static enum wring_status take_told_text(const struct wring_config *config,
                                        const struct wring_log *log,
                                        const struct wring_launched *launched, const char *told,
                                        struct wring_launcher_meeting *out)
{
    char magic[16];
    const char *at = told;

    if (!take_field(&at, magic, sizeof(magic)) || strcmp(magic, "wring1") != 0 ||
        !take_field(&at, out->root, sizeof(out->root))) {
        wring_error(log, "rank 0 told by %s what this version of wring does not understand",
                    launched->exchange->name);
        return WRING_ERR_VERSION;
    }
    if (strcmp(out->root, TOLD_FAILED) == 0) {
        wring_error(log, "rank 0 cannot meet the others: its own line says why");
        return WRING_ERR_PEER;
    }
    if (!take_field(&at, out->job, sizeof(out->job)) ||
        !take_field(&at, out->key, sizeof(out->key))) {
        wring_error(
            log,
            "what rank 0 told by %s came cut short, after '%s': set WRING_RANK, WRING_SIZE, "
            "WRING_ROOT and WRING_KEY instead",
            launched->exchange->name, out->root);
        return WRING_ERR_FRAME;
    }
    bool own = strcmp(out->key, KEY_OWN) == 0;
    if (own != has_key(config)) {
        wring_error(
            log,
            "rank 0 has %s WRING_KEY or WRING_KEY_FILE and rank %" PRIu32 " has %s: set the "
            "same on all ranks, or on none, as %s carries a key of its own",
            own ? "a" : "no", launched->rank, own ? "none" : "one", launched->exchange->name);
        return WRING_ERR_AUTH;
    }
    if (own)
        snprintf(out->key, sizeof(out->key), "%s", config->key);
    return WRING_OK;
}

static enum wring_status meet_by_exchange(const struct wring_config *config,
                                          const struct wring_log *log,
                                          const struct wring_launched *launched,
                                          uint64_t deadline_ns, struct wring_launcher_meeting *out)
{
    bool is_root = launched->rank == 0;
    char told[WRING_LAUNCHER_TEXT] = "wring1|" TOLD_FAILED;
    enum wring_status prepared =
        is_root ? prepare_root(config, log, launched, out, told) : WRING_OK;

    /* a root that fails tells so, that nobody waits for it */
    enum wring_status status = launched->exchange->broadcast(log, is_root, deadline_ns, told);
    if (prepared != WRING_OK || status != WRING_OK || is_root)
        return prepared != WRING_OK ? prepared : status;
    return take_told_text(config, log, launched, told, out);
}

/* ---- without one ---- */

struct wring_ports wring_launcher_ports(const struct wring_ports *configured, const char *job)
{
    struct wring_ports ports = *configured;

    if (ports.first == 0) {
        uint32_t hash = wring_fnv32(WRING_FNV32, job, strlen(job));
        ports.first = (uint16_t)(PORTS_FIRST + hash % PORTS_SPAN);
        ports.last = (uint16_t)(ports.first + WRING_LAUNCHER_PORTS - 1);
    }
    if (ports.last - ports.first >= WRING_LAUNCHER_PORTS)
        ports.last = (uint16_t)(ports.first + WRING_LAUNCHER_PORTS - 1);
    return ports;
}

static bool is_loopback_name(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static enum wring_status meet_by_variables(const struct wring_config *config,
                                           const struct wring_log *log,
                                           const struct wring_launched *launched,
                                           struct wring_launcher_meeting *out)
{
    bool here = wring_launched_here(launched) || is_loopback_name(launched->host);
    const char *host = here ? "127.0.0.1" : launched->host;
    char address[WRING_INTERFACE_ADDRESS];
    struct wring_ports ports;
    uint16_t port;
    size_t used = 0;

    enum wring_status status = wring_ports_read(log, config->ports, &ports);
    if (status != WRING_OK)
        return status;
    if (!here && !has_key(config)) {
        wring_error(
            log,
            "started by %s on several hosts, which carries no key, and without one wring "
            "listens on loopback only: set the same WRING_KEY or WRING_KEY_FILE on all ranks",
            launched->name);
        return WRING_ERR_AUTH;
    }
    ports = wring_launcher_ports(&ports, launched->job);
    for (uint32_t at = ports.first; at <= ports.last; at++) {
        size_t room = sizeof(out->root) - used;
        size_t n = write_root(out->root + used + (used > 0), room - (used > 0), host, (uint16_t)at);
        if (n == 0)
            break;
        if (used > 0)
            out->root[used++] = ',';
        used += n;
    }
    snprintf(out->key, sizeof(out->key), "%s", config->key);
    snprintf(out->job, sizeof(out->job), "%s", launched->job);
    if (launched->rank != 0)
        return WRING_OK;
    status = choose_address(config, log, here, address);
    return status == WRING_OK ? listen_at(log, address, &ports, &out->root_fd, &port) : status;
}

/** As people set it: rank 0 listens there, and the others dial it. */
static enum wring_status meet_at_root(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_launched *launched,
                                      struct wring_launcher_meeting *out)
{
    if (config->root[0] == '\0' && !(launched->rank == 0 && config->root_fd >= 0)) {
        wring_error(log,
                    "WRING_ROOT is not set: where do the ranks meet? Give host:port of rank 0, "
                    "or start with wring run");
        return WRING_ERR_INVALID;
    }
    enum wring_status status = wring_launcher_root(config, log, out->root);
    if (status != WRING_OK)
        return status;
    snprintf(out->key, sizeof(out->key), "%s", config->key);
    snprintf(out->job, sizeof(out->job), "%s", launched->job);
    if (launched->rank == 0)
        take_given_fd(config, out);
    return WRING_OK;
}

enum wring_status wring_launcher_meet(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_launched *launched, uint64_t deadline_ns,
                                      struct wring_launcher_meeting *out)
{
    struct wring_launcher_meeting meeting = {.root_fd = -1};
    enum wring_status status;

    if (launched->exchange != NULL)
        status = meet_by_exchange(config, log, launched, deadline_ns, &meeting);
    else if (launched->host[0] != '\0' && config->root[0] == '\0' && config->root_fd < 0)
        status = meet_by_variables(config, log, launched, &meeting);
    else
        status = meet_at_root(config, log, launched, &meeting);
    if (status == WRING_OK)
        *out = meeting;
    else if (!meeting.root_fd_is_given)
        wring_descriptor_close(meeting.root_fd);
    return status;
}

/* ---- launcher ---- */

#define RANKS_MAX 65536

static const char *read_variable(const char *name)
{
    const char *text = wring_config_foreign(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/** Decimal digits only, at most `max`. @return false where the variable is anything else */
static bool read_number(const char *name, uint32_t max, uint32_t *out)
{
    const char *text = read_variable(name);
    uint64_t value = 0;

    if (text == NULL)
        return false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || value > max)
            return false;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (value > max)
        return false;
    *out = (uint32_t)value;
    return true;
}

static int32_t read_number_or_unknown(const char *name)
{
    uint32_t value;
    return read_number(name, RANKS_MAX, &value) ? (int32_t)value : -1;
}

/** Rank and size from two variables; either may be missing or wrong. */
static enum wring_status read_pair(const struct wring_log *log, const char *rank, const char *size,
                                   struct wring_launched *out)
{
    const char *const names[] = {rank, size};
    uint32_t *const values[] = {&out->rank, &out->size};

    for (int i = 0; i < 2; i++)
        if (!read_number(names[i], RANKS_MAX, values[i])) {
            const char *text = read_variable(names[i]);
            wring_error(log,
                        "started by %s, but %s%s%s: set WRING_RANK, WRING_SIZE and WRING_ROOT "
                        "instead, or WRING_RANK=0 WRING_SIZE=1 for a job of one",
                        out->name, names[i], text != NULL ? " is no number: " : " is not set",
                        text != NULL ? text : "");
            return WRING_ERR_INVALID;
        }
    if (out->size < 1 || out->rank >= out->size) {
        wring_error(log, "started by %s, which says rank %" PRIu32 " (%s) of %" PRIu32 " (%s)",
                    out->name, out->rank, rank, out->size, size);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** A job of two or more needs the exchange: is it there? */
static enum wring_status check_exchange(const struct wring_log *log, struct wring_launched *out)
{
    char why[256];

    if (out->size == 1 || out->exchange->usable(why, sizeof(why)))
        return WRING_OK;
    wring_error(log,
                "started by %s as rank %" PRIu32 " of %" PRIu32
                ", but its %s exchange cannot be used: %s; or set WRING_RANK, WRING_SIZE, "
                "WRING_ROOT and WRING_KEY",
                out->name, out->rank, out->size, out->exchange->name, why);
    return WRING_ERR_UNSUPPORTED;
}

/* ---- torchrun, and others that set the same variables ---- */

static bool torchrun_seen(void)
{
    return read_variable("TORCHELASTIC_RUN_ID") != NULL;
}

/** Restarted workers have the same rank and port; the count tells them from their predecessors. */
static enum wring_status read_torch(const struct wring_log *log, struct wring_launched *out)
{
    const char *host = read_variable("MASTER_ADDR"), *port = read_variable("MASTER_PORT");
    const char *run = read_variable("TORCHELASTIC_RUN_ID");
    const char *restarts = read_variable("TORCHELASTIC_RESTART_COUNT");

    enum wring_status status = read_pair(log, "RANK", "WORLD_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = read_number_or_unknown("LOCAL_RANK");
    out->local_size = read_number_or_unknown("LOCAL_WORLD_SIZE");
    if (out->size > 1 && (host == NULL || strlen(host) >= sizeof(out->host))) {
        wring_error(log, "started by %s, but MASTER_ADDR is not set: it says where rank 0 runs",
                    out->name);
        return WRING_ERR_INVALID;
    }
    snprintf(out->host, sizeof(out->host), "%s", host != NULL ? host : "");
    snprintf(out->job, sizeof(out->job), "torch %.200s %.20s %.200s %.20s", run != NULL ? run : "",
             restarts != NULL ? restarts : "0", out->host, port != NULL ? port : "");
    return WRING_OK;
}

static bool torch_variables_seen(void)
{
    return read_variable("RANK") != NULL && read_variable("WORLD_SIZE") != NULL;
}

/* ---- Open MPI, PRRTE and others that speak PMIx ---- */

static bool open_mpi_seen(void)
{
    return read_variable("OMPI_COMM_WORLD_RANK") != NULL ||
           read_variable("OMPI_COMM_WORLD_SIZE") != NULL;
}

static enum wring_status read_open_mpi(const struct wring_log *log, struct wring_launched *out)
{
    enum wring_status status = read_pair(log, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = read_number_or_unknown("OMPI_COMM_WORLD_LOCAL_RANK");
    out->local_size = read_number_or_unknown("OMPI_COMM_WORLD_LOCAL_SIZE");
    out->exchange = &wring_exchange_pmix;
    return check_exchange(log, out);
}

static bool pmix_seen(void)
{
    return read_variable("PMIX_RANK") != NULL || read_variable("PMIX_NAMESPACE") != NULL;
}

/** A step on one node has all its ranks there. */
static int32_t slurm_local_size(uint32_t size)
{
    uint32_t nodes;
    return read_number("SLURM_STEP_NUM_NODES", RANKS_MAX, &nodes) && nodes == 1 ? (int32_t)size
                                                                                : -1;
}

/** No variable of PMIx has the size; Slurm's has. */
static enum wring_status read_pmix(const struct wring_log *log, struct wring_launched *out)
{
    char why[256];

    out->exchange = &wring_exchange_pmix;
    if (read_variable("SLURM_STEP_ID") != NULL) {
        out->name = "Slurm (PMIx)";
        enum wring_status status = read_pair(log, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", out);
        out->local_rank = read_number_or_unknown("SLURM_LOCALID");
        out->local_size = slurm_local_size(out->size);
        return status == WRING_OK ? check_exchange(log, out) : status;
    }
    if (!read_number("PMIX_RANK", RANKS_MAX, &out->rank) ||
        !out->exchange->usable(why, sizeof(why))) {
        if (read_variable("PMIX_RANK") == NULL)
            snprintf(why, sizeof(why), "PMIX_RANK is not set");
        wring_error(log,
                    "started by a launcher that speaks PMIx, which cannot be used: %s; or set "
                    "WRING_RANK, WRING_SIZE, WRING_ROOT and WRING_KEY",
                    why);
        return WRING_ERR_UNSUPPORTED;
    }
    return wring_pmix_job_size(log, &out->size);
}

/* ---- Hydra, Slurm's pmi2, and others that speak PMI ---- */

/** Slurm's step managers, not Hydra's, which may run within a step. */
static bool slurm_speaks_pmi(void)
{
    return read_variable("SLURM_STEP_ID") != NULL && read_variable("HYDI_CONTROL_FD") == NULL &&
           read_variable("HYDRA_PROXY_ID") == NULL && read_variable("MPI_LOCALNRANKS") == NULL;
}

/** Slurm ends a step in which two clients begin on one descriptor: an MPI library has it alone. */
static bool must_leave_to_mpi(void)
{
    return slurm_speaks_pmi() && dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
}

static bool pmi_seen(void)
{
    bool seen = read_variable("PMI_RANK") != NULL || read_variable("PMI_FD") != NULL ||
                read_variable("PMI_PORT") != NULL;
    return seen && !must_leave_to_mpi();
}

static enum wring_status read_pmi(const struct wring_log *log, struct wring_launched *out)
{
    bool slurm = slurm_speaks_pmi();

    out->name = slurm ? "Slurm (PMI-2)" : "Hydra (PMI-1)";
    out->exchange = slurm ? &wring_exchange_pmi2 : &wring_exchange_pmi1;
    enum wring_status status = read_pair(log, "PMI_RANK", "PMI_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = read_number_or_unknown(slurm ? "SLURM_LOCALID" : "MPI_LOCALRANKID");
    out->local_size =
        slurm ? slurm_local_size(out->size) : read_number_or_unknown("MPI_LOCALNRANKS");
    return check_exchange(log, out);
}

/* ---- Slurm without an exchange ---- */

/** The batch script itself has SLURM_PROCID=0, too, but is no step. */
static bool slurm_seen(void)
{
    return read_variable("SLURM_STEP_ID") != NULL;
}

static enum wring_status read_slurm(const struct wring_log *log, struct wring_launched *out)
{
    const char *nodes = read_variable("SLURM_STEP_NODELIST");
    const char *job = read_variable("SLURM_JOB_ID"),
               *restarts = read_variable("SLURM_RESTART_COUNT");

    enum wring_status status = read_pair(log, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", out);
    if (status != WRING_OK || out->size == 1)
        return status;
    out->local_rank = read_number_or_unknown("SLURM_LOCALID");
    out->local_size = slurm_local_size(out->size);
    if (nodes == NULL || !wring_slurm_first_host(nodes, out->host, sizeof(out->host))) {
        wring_error(
            log,
            "started by Slurm, but SLURM_STEP_NODELIST %s%s does not say where rank 0 runs: "
            "use srun --mpi=pmi2, or set WRING_ROOT",
            nodes != NULL ? "=" : "is not set and", nodes != NULL ? nodes : "");
        return WRING_ERR_INVALID;
    }
    snprintf(out->job, sizeof(out->job), "slurm %.60s.%.60s %.20s", job != NULL ? job : "",
             read_variable("SLURM_STEP_ID"), restarts != NULL ? restarts : "0");
    return WRING_OK;
}

/* ---- the table ---- */

static const struct launcher {
    const char *name;
    bool (*seen)(void);
    enum wring_status (*read)(const struct wring_log *log, struct wring_launched *out);
} launchers[] = {
    {"torchrun", torchrun_seen, read_torch},
    {"Open MPI", open_mpi_seen, read_open_mpi},
    {"PMIx", pmix_seen, read_pmix},
    {"PMI", pmi_seen, read_pmi},
    {"Slurm", slurm_seen, read_slurm},
    {"RANK and WORLD_SIZE", torch_variables_seen, read_torch},
};

/** Launchers that give ranks in ways that wring does not know. */
static const struct {
    const char *variable, *name;
} unknown[] = {
    {"PALS_RANKID", "PALS"},
    {"ALPS_APP_PE", "ALPS"},
    {"FLUX_TASK_RANK", "Flux without PMI"},
    {"MV2_COMM_WORLD_RANK", "MVAPICH's mpirun_rsh"},
    {"JSM_NAMESPACE_RANK", "jsrun without PMIx"},
};

/** WRING_RANK and WRING_SIZE, which wring run and people set. */
static enum wring_status read_own(const struct wring_config *config, const struct wring_log *log,
                                  struct wring_launched *out)
{
    if (config->rank < 0 || config->size < 0) {
        bool no_rank = config->rank < 0;
        wring_error(log, "%s is set, %s is not: set both, or start with wring run",
                    no_rank ? "WRING_SIZE" : "WRING_RANK", no_rank ? "WRING_RANK" : "WRING_SIZE");
        return WRING_ERR_INVALID;
    }
    if (config->size < 1 || config->rank >= config->size) {
        wring_error(log, "rank %" PRId64 " of %" PRId64 ": ranks count from 0 to WRING_SIZE - 1",
                    config->rank, config->size);
        return WRING_ERR_INVALID;
    }
    out->name = "WRING_RANK and WRING_SIZE";
    out->rank = (uint32_t)config->rank;
    out->size = (uint32_t)config->size;
    out->local_size = (int32_t)config->local_size;
    return WRING_OK;
}

/** Nobody gave a rank. Is that what was meant? */
static enum wring_status read_alone(const struct wring_config *config, const struct wring_log *log)
{
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (read_variable(unknown[i].variable) != NULL) {
            wring_error(log,
                        "started by %s (%s is set), which wring cannot ask: set WRING_RANK, "
                        "WRING_SIZE, WRING_ROOT and WRING_KEY, or WRING_RANK=0 WRING_SIZE=1 for a "
                        "job of one",
                        unknown[i].name, unknown[i].variable);
            return WRING_ERR_UNSUPPORTED;
        }
    if (config->root[0] == '\0' && config->root_fd < 0)
        return WRING_OK;
    wring_error(log,
                "%s is set, but nothing gives this process a rank: set WRING_RANK and WRING_SIZE, "
                "or start with a launcher that wring info shows",
                config->root[0] != '\0' ? "WRING_ROOT" : "WRING_ROOT_FD");
    return WRING_ERR_INVALID;
}

enum wring_status wring_launcher_find(const struct wring_config *config,
                                      const struct wring_log *log, struct wring_launched *out)
{
    struct wring_launched found = {.size = 1, .local_rank = -1, .local_size = -1};
    enum wring_status status = WRING_OK;
    bool seen = config->rank >= 0 || config->size >= 0;

    if (seen)
        status = read_own(config, log, &found);
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && !seen; i++) {
        seen = launchers[i].seen();
        found.name = seen ? launchers[i].name : NULL;
        if (seen)
            status = launchers[i].read(log, &found);
    }
    if (!seen)
        status = read_alone(config, log);
    if (status == WRING_OK)
        *out = found;
    return status;
}

bool wring_launcher_own(struct wring_launcher_owner *owner)
{
    unsigned nobody = 0, own = wring_forked_begin() + 1;
    return atomic_compare_exchange_strong(&owner->forks, &nobody, own) || nobody == own;
}

enum wring_status wring_launcher_refuse_child(const struct wring_log *log)
{
    wring_error(log, "a forked child cannot use the launcher's exchange of its parent: set "
                     "WRING_RANK, WRING_SIZE, WRING_ROOT and WRING_KEY for it");
    return WRING_ERR_UNSUPPORTED;
}

/** Copy up to a bracket, and the first number in it: "n[3-5,8]" gives "n3". */
bool wring_slurm_first_host(const char *list, char *out, size_t bytes)
{
    size_t n = 0;

    for (; *list != '\0' && *list != ','; list++) {
        if (*list == '[') {
            size_t length = strcspn(++list, "-,]");
            const char *end = strchr(list, ']');
            if (end == NULL || length == 0 || n + length >= bytes)
                return false;
            memcpy(out + n, list, length);
            n += length;
            list = end;
        } else if (n + 1 < bytes) {
            out[n++] = *list;
        } else {
            return false;
        }
    }
    out[n] = '\0';
    return n > 0;
}
