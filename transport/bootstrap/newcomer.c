/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/newcomer.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "transport/auth.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/bootstrap/stream.h"
#include "transport/door.h"

#define WRING_MODULE "door"
#define LABEL "wring door"
#define BACKLOG 64
#define ADMIT_NS (500 * WRING_NS_PER_MS) /* for a newcomer to prove the key */
#define TELL_NS (500 * WRING_NS_PER_MS)
#define DIAL_NS (2 * WRING_NS_PER_S)
#define REST_NS (20 * WRING_NS_PER_MS) /* between rounds of all doors */
#define PLACE_BYTES (4 + 4 + 8 + 8 + 4 + WRING_INTERFACE_ADDRESS)

/* ---- the door ---- */

/** "10.0.0.1:4000" in two; without a port it is 0. @param host  out, [bytes] */
static bool split_address(const char *text, char *host, size_t bytes, char *port, size_t port_bytes)
{
    const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = strrchr(text, ':');

    if (text[0] == '[' && bracket == NULL)
        return false;
    if (bracket == NULL && colon != NULL && strchr(text, ':') != colon)
        colon = NULL; /* an IPv6 address alone */
    if (bracket != NULL && colon != NULL && colon < bracket)
        colon = NULL;
    const char *end = bracket != NULL ? bracket : colon != NULL ? colon : text + strlen(text);
    const char *begin = bracket != NULL ? text + 1 : text;
    snprintf(host, bytes, "%.*s", (int)(end - begin), begin);
    snprintf(port, port_bytes, "%s", colon != NULL ? colon + 1 : "0");
    return host[0] != '\0';
}

enum wring_status wring_newcomer_listen(const struct wring_log *log, const char *text, bool has_key,
                                        int *fd)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct sockaddr_storage address;
    const struct wring_ports any = {0};
    char host[WRING_RENDEZVOUS_ADDRESS], port[8], why[160] = "it is no address";

    if (!split_address(text, host, sizeof(host), port, sizeof(port)) ||
        getaddrinfo(host, port, &hints, &found) != 0) {
        wring_error(log, "WRING_DOOR=%s: no address, or address:port, of this host", text);
        return WRING_ERR_ADDRESS;
    }
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    socklen_t bytes = found->ai_addrlen;
    freeaddrinfo(found);
    if (!has_key && !wring_rendezvous_is_loopback((const struct sockaddr *)&address)) {
        wring_error(log,
                    "WRING_DOOR=%s: needs a key, as others than this host can knock: set "
                    "WRING_KEY or WRING_KEY_FILE",
                    text);
        return WRING_ERR_AUTH;
    }
    uint16_t number = ntohs(((const struct sockaddr_in *)&address)->sin_port); /* IPv6 alike */
    struct wring_ports ports = number != 0 ? (struct wring_ports){number, number} : any;
    *fd = wring_ports_listen(&ports, &address, bytes, BACKLOG, why, sizeof(why));
    if (*fd >= 0)
        return WRING_OK;
    wring_error(log, "WRING_DOOR=%s: cannot listen there: %s", text, why);
    return WRING_ERR_ADDRESS;
}

/** Until it has proven the key, or not. */
static bool shake_hands(int fd, struct wring_auth *auth, uint64_t deadline_ns)
{
    struct wring_patience patience = {deadline_ns, NULL};

    while (wring_stream_auth(fd, auth) && wring_auth_status(auth) == WRING_ERR_AGAIN) {
        const void *data;
        bool out = wring_auth_output(auth, &data) > 0;
        struct pollfd pollfd = {fd, out ? POLLOUT : POLLIN, 0};
        if (wring_stream_poll(&pollfd, 1, &patience) != WRING_OK)
            return false;
    }
    return wring_auth_status(auth) == WRING_OK;
}

int wring_newcomer_admit(const struct wring_log *log, int listening, const char *key)
{
    uint8_t secret[WRING_SECRET_BYTES];
    struct wring_auth auth;

    if (wring_secret_derive(key, strlen(key), LABEL, NULL, 0, secret) != WRING_OK)
        return -1;
    for (;;) {
        int fd = WRING_DESCRIPTOR(accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd < 0)
            break;
        wring_auth_init(&auth, false, WRING_AUTH_DOOR, secret, NULL, 0);
        bool proven = shake_hands(fd, &auth, wring_deadline_in(ADMIT_NS));
        explicit_bzero(&auth, sizeof(auth));
        if (proven) {
            explicit_bzero(secret, sizeof(secret));
            return fd;
        }
        wring_warn(log, "refused a newcomer that does not prove the job's key");
        wring_descriptor_close(fd);
    }
    explicit_bzero(secret, sizeof(secret));
    return -1;
}

bool wring_newcomer_tell(int fd, const struct wring_newcomer_place *place)
{
    struct wring_patience patience = {wring_deadline_in(TELL_NS), NULL};
    uint8_t bytes[PLACE_BYTES] = {0};

    wring_put_u32(bytes, place->rank);
    wring_put_u32(bytes + 4, place->size);
    wring_put_u64(bytes + 8, place->nonce);
    wring_put_u64(bytes + 16, place->seed);
    wring_put_u32(bytes + 24, place->port);
    memcpy(bytes + 28, place->address, sizeof(place->address));
    return wring_stream_write(fd, bytes, sizeof(bytes), &patience) == WRING_OK;
}

/* ---- the newcomer ---- */

static bool read_place(const uint8_t *bytes, struct wring_newcomer_place *out)
{
    struct wring_reader reader = {bytes, PLACE_BYTES, false};
    struct wring_newcomer_place place = {.rank = wring_read_u32(&reader)};

    place.size = wring_read_u32(&reader);
    place.nonce = wring_read_u64(&reader);
    place.seed = wring_read_u64(&reader);
    uint32_t port = wring_read_u32(&reader);
    memcpy(place.address, reader.data, sizeof(place.address));
    place.port = (uint16_t)port;
    bool ends = memchr(place.address, '\0', sizeof(place.address)) != NULL;
    if (!ends || port > UINT16_MAX || place.rank == 0 || place.rank >= place.size)
        return false;
    *out = place;
    return true;
}

/** @return a connection; -1: nobody is there */
static int dial(const char *door, uint64_t deadline_ns)
{
    struct wring_patience patience = {deadline_ns, NULL};
    struct addrinfo *found;
    bool is_name;
    int fd = -1, error = 0;
    socklen_t bytes = sizeof(error);

    if (wring_rendezvous_resolve(NULL, door, &found, &is_name) != WRING_OK)
        return -1;
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = WRING_DESCRIPTOR(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        struct pollfd pollfd = {fd, POLLOUT, 0};
        bool begun =
            fd >= 0 && (connect(fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS);
        if (begun && wring_stream_poll(&pollfd, 1, &patience) == WRING_OK &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0)
            break;
        wring_descriptor_close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/** Wait at one door until somebody opens. */
static enum wring_status knock_at(const char *door, const uint8_t *secret, uint64_t deadline_ns,
                                  struct wring_newcomer_place *out)
{
    uint64_t dial_ns = wring_deadline_in(DIAL_NS);
    struct wring_patience patience = {deadline_ns, NULL};
    uint8_t bytes[PLACE_BYTES];
    struct wring_auth auth;

    int fd = dial(door, dial_ns < deadline_ns ? dial_ns : deadline_ns);
    if (fd < 0)
        return WRING_ERR_PEER;
    wring_auth_init(&auth, true, WRING_AUTH_DOOR, secret, NULL, 0);
    bool proven = shake_hands(fd, &auth, deadline_ns);
    enum wring_status status = wring_auth_status(&auth);
    explicit_bzero(&auth, sizeof(auth));
    if (proven)
        status = wring_stream_read(fd, bytes, sizeof(bytes), &patience);
    if (proven && status == WRING_OK && !read_place(bytes, out))
        status = WRING_ERR_FRAME;
    wring_descriptor_close(fd);
    return status;
}

static enum wring_status fail_knocking(const struct wring_log *log, const char *doors,
                                       enum wring_status status)
{
    if (status == WRING_ERR_AUTH)
        wring_error(log, "WRING_JOIN=%s: the job there has another key: set its WRING_KEY", doors);
    else
        wring_error(log,
                    "WRING_JOIN=%s: no rank let this one in in time (WRING_JOIN_TIMEOUT): does the "
                    "job run, and does it call wring_session_grow()?",
                    doors);
    return status == WRING_ERR_AUTH || status == WRING_ERR_VERSION ? status : WRING_ERR_PEER;
}

/** The next of the doors. @return how many characters of `doors` it takes, with its comma */
static size_t next_door(const char *doors, char door[WRING_RENDEZVOUS_TEXT])
{
    size_t n = strcspn(doors, ",");
    snprintf(door, WRING_RENDEZVOUS_TEXT, "%.*s", (int)n, doors);
    return n + (doors[n] == ',');
}

/** Has each door an address? A rank that is not there yet may still come. */
static enum wring_status check_doors(const struct wring_log *log, const char *doors)
{
    char door[WRING_RENDEZVOUS_TEXT];

    for (const char *at = doors; *at != '\0';) {
        struct addrinfo *found;
        bool is_name;
        at += next_door(at, door);
        enum wring_status status = wring_rendezvous_resolve(NULL, door, &found, &is_name);
        if (status == WRING_ERR_INVALID)
            wring_error(log,
                        "WRING_JOIN=%s: needs host:port of a rank's door, for example "
                        "10.0.0.1:5555, or several with commas between them",
                        doors);
        else if (status != WRING_OK)
            wring_error(log, "WRING_JOIN=%s: %s is not known: check its name or address", doors,
                        door);
        if (status != WRING_OK)
            return status;
        freeaddrinfo(found);
    }
    return WRING_OK;
}

enum wring_status wring_newcomer_knock(const struct wring_log *log, const char *doors,
                                       const char *key, uint64_t deadline_ns,
                                       struct wring_newcomer_place *out)
{
    const struct timespec rest = {0, REST_NS};
    enum wring_status status = WRING_ERR_PEER;
    uint8_t secret[WRING_SECRET_BYTES];
    char door[WRING_RENDEZVOUS_TEXT];

    enum wring_status checked = check_doors(log, doors);
    if (checked != WRING_OK)
        return checked;
    if (wring_secret_derive(key, strlen(key), LABEL, NULL, 0, secret) != WRING_OK)
        return WRING_ERR_SYSTEM;
    while (status != WRING_OK && status != WRING_ERR_AUTH && status != WRING_ERR_VERSION &&
           wring_now_ns() < deadline_ns) {
        for (const char *at = doors; *at != '\0' && status != WRING_OK;) {
            at += next_door(at, door);
            status = knock_at(door, secret, deadline_ns, out);
        }
        if (status != WRING_OK)
            nanosleep(&rest, NULL);
    }
    explicit_bzero(secret, sizeof(secret));
    return status == WRING_OK ? status : fail_knocking(log, doors, status);
}
