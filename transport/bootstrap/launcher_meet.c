/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a launched job meet: rank 0 listens, and the others are told or can infer at
 * which addresses. */
#include "transport/bootstrap/launcher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "transport/interface.h"
#include "transport/secret.h"

#define WRING_MODULE "launcher"
#define BACKLOG 1024 /* ranks that dial at once; the system may allow fewer */
#define SECRET_BYTES 32
#define NAME_BYTES 16
#define PORTS_FIRST 10240u /* below the ephemeral ports of common systems */
#define PORTS_SPAN 20480u

/* What rank 0 tells: one text of fields. A field is never empty. */
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

static uint16_t port_of(const struct sockaddr_storage *address)
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
static bool is_one(const struct sockaddr_storage *address)
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
    if (status != WRING_OK || is_one(&address))
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
    *port = port_of(&address);
    return WRING_OK;
}

/** Bridges of containers and virtual machines rarely lead to another host: they come last. */
static bool is_virtual(const char *name)
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
            (at->ifa_flags & IFF_LOOPBACK) != 0 || is_virtual(at->ifa_name) != virtual)
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
static enum wring_status prepare(const struct wring_config *config, const struct wring_log *log,
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

/** The next field of what rank 0 told; hostile only as far as the launcher is. */
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

/** The others: what rank 0 told. */
static enum wring_status take_over(const struct wring_config *config, const struct wring_log *log,
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
    enum wring_status prepared = is_root ? prepare(config, log, launched, out, told) : WRING_OK;

    /* a root that fails tells so, that nobody waits for it */
    enum wring_status status = launched->exchange->broadcast(log, is_root, deadline_ns, told);
    if (prepared != WRING_OK || status != WRING_OK || is_root)
        return prepared != WRING_OK ? prepared : status;
    return take_over(config, log, launched, told, out);
}

/* ---- without one ---- */

struct wring_ports wring_launcher_ports(const struct wring_ports *configured, const char *job)
{
    struct wring_ports ports = *configured;
    uint32_t hash = 2166136261u; /* FNV-1a, 32 bits */

    if (ports.first == 0) {
        for (; *job != '\0'; job++)
            hash = (hash ^ (uint8_t)*job) * 16777619u;
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
