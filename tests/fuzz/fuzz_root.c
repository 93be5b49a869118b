/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Who comes to rank 0's socket before a job begins: ranks that know the key and claim anything,
 * strangers, silent ones, and ones that leave, while time passes. The job begins once each rank has
 * come; or it is called off; or it ends with one line that says why.
 *
 * Input: ranks, with 128 added where all wait for the deadline in the end, else the job is called
 * off (1); then deeds, by their lowest three bits, and 128 added where the next is done at once
 * (1): 0  a rank comes: its number (1), the size that it believes in (1) 1  the same, with another
 * key, or for another purpose where its number is odd 2  a stranger: bytes (1), what it says 3  one
 * that says nothing 4  one goes: which (1), an odd one by a reset 5  time passes: tenths of a
 * second (1) 6  many that say nothing: how many eights (1) 7  one with the key whose hello is of
 * another length: bytes (1), the hello If the first byte is 255, the rest is what WRING_ROOT says,
 * with a key where the next byte is odd.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/fuzz/fuzz.h"
#include "transport/bootstrap/rendezvous_root.h"

#define RANKS_MAX 6
#define CALLERS_MAX 300
#define CALLERS_MANY 280 /* more than rank 0 has places for */
#define TURNS_MAX 100000 /* the host asks as often as that? Then it turns in circles */
#define JOIN_NS (30 * WRING_NS_PER_S)
#define LATE_NS (60 * WRING_NS_PER_S)

static const uint8_t secret[WRING_SECRET_BYTES] = {7}, other_secret[WRING_SECRET_BYTES] = {8};

struct caller {
    int fd; /* -1: gone */
    bool proves;
    struct wring_auth auth;
};

struct rig {
    struct fuzz_input input;
    struct wring_clock clock;
    struct wring_log log;
    struct sockaddr_in address;
    uint32_t size;
    bool waits; /* for the deadline */
    unsigned turns, lines;
    int fds[RANKS_MAX];
    bool claimed[RANKS_MAX]; /* somebody with the key did, and named the right size */
    unsigned n;
    struct caller callers[CALLERS_MAX];
};

static void check_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    ((struct rig *)arg)->lines += level == WRING_LOG_ERROR;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
    for (; *text != '\0'; text++)
        FUZZ_CHECK(*text >= ' ', "a line with byte %d in it", *text);
}

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    FUZZ_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)address, bytes) == 0 &&
                   listen(fd, SOMAXCONN) == 0 &&
                   getsockname(fd, (struct sockaddr *)address, &bytes) == 0,
               "no socket");
    return fd;
}

/* ---- deeds; each says whether rank 0 has something to do now ---- */

static struct caller *call(struct rig *rig)
{
    const struct linger at_once = {1, 0}; /* no address stays in use */
    if (rig->n == CALLERS_MAX)
        return NULL;
    struct caller *caller = &rig->callers[rig->n++];
    *caller = (struct caller){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    FUZZ_CHECK(caller->fd >= 0, "no socket");
    setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    FUZZ_CHECK(connect(caller->fd, (struct sockaddr *)&rig->address, sizeof(rig->address)) == 0,
               "nobody listens");
    fcntl(caller->fd, F_SETFL, O_NONBLOCK);
    return caller;
}

static bool come_as_rank(struct rig *rig, bool strange)
{
    uint8_t hello[WRING_RENDEZVOUS_HELLO_BYTES];
    uint32_t rank = fuzz_take(&rig->input, 1), size = fuzz_take(&rig->input, 1);
    struct caller *caller = call(rig);
    bool other_purpose = strange && rank % 2 == 1;

    if (caller == NULL)
        return false;
    wring_put_u32(hello, rank);
    wring_put_u32(hello + 4, size);
    caller->proves = true;
    wring_auth_init(&caller->auth, true, other_purpose ? WRING_AUTH_TCP : WRING_AUTH_RENDEZVOUS,
                    strange && !other_purpose ? other_secret : secret, hello, sizeof(hello));
    if (!strange && rank < rig->size && size == rig->size)
        rig->claimed[rank] = true;
    return true;
}

static bool come_with_hello(struct rig *rig)
{
    size_t bytes = fuzz_take(&rig->input, 1) % (WRING_HELLO_MAX + 1);
    bytes = bytes < rig->input.left ? bytes : rig->input.left;
    struct caller *caller = call(rig);

    if (caller == NULL)
        return false;
    caller->proves = true;
    wring_auth_init(&caller->auth, true, WRING_AUTH_RENDEZVOUS, secret, rig->input.data, bytes);
    if (bytes == WRING_RENDEZVOUS_HELLO_BYTES && wring_get_u32(rig->input.data) < rig->size &&
        wring_get_u32(rig->input.data + 4) == rig->size)
        rig->claimed[wring_get_u32(rig->input.data)] = true;
    rig->input.data += bytes;
    rig->input.left -= bytes;
    return true;
}

static bool come_as_stranger(struct rig *rig)
{
    size_t bytes = fuzz_take(&rig->input, 1);
    bytes = bytes < rig->input.left ? bytes : rig->input.left;
    struct caller *caller = call(rig);

    if (caller == NULL)
        return false;
    FUZZ_CHECK(bytes == 0 ||
                   send(caller->fd, rig->input.data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes,
               "%zu bytes do not go in", bytes);
    rig->input.data += bytes;
    rig->input.left -= bytes;
    return true;
}

static bool come_silently(struct rig *rig, unsigned many)
{
    while (many-- > 0 && rig->n < CALLERS_MANY)
        call(rig);
    return true;
}

static void leave(struct caller *caller)
{
    close(caller->fd);
    caller->fd = -1;
}

static bool go(struct rig *rig)
{
    uint32_t which = fuzz_take(&rig->input, 1);
    struct caller *caller = rig->n > 0 ? &rig->callers[which % rig->n] : NULL;

    if (caller == NULL || caller->fd < 0)
        return false;
    if (which % 2 == 1)
        leave(caller);
    else
        shutdown(caller->fd, SHUT_WR);
    return true;
}

static bool do_deed(struct rig *rig)
{
    uint32_t deed = fuzz_take(&rig->input, 1);
    bool at_once = deed >= 128, moved = true;

    switch (deed % 8) {
    case 0:
    case 1:
        moved = come_as_rank(rig, deed % 8 == 1);
        break;
    case 2:
        moved = come_as_stranger(rig);
        break;
    case 3:
        moved = come_silently(rig, 1);
        break;
    case 4:
        moved = go(rig);
        break;
    case 5:
        rig->clock.now_ns += (1 + fuzz_take(&rig->input, 1)) * 100 * WRING_NS_PER_MS;
        break;
    case 6:
        moved = come_silently(rig, 8 * fuzz_take(&rig->input, 1));
        break;
    default:
        moved = come_with_hello(rig);
    }
    return moved && !at_once;
}

/* ---- turns ---- */

/** Go on with a handshake, or read what comes. @return whether something was sent */
static bool advance(struct caller *caller)
{
    char rest[4096];
    const void *data;
    bool sent = false;

    while (caller->proves && wring_auth_status(&caller->auth) == WRING_ERR_AGAIN) {
        size_t n = wring_auth_output(&caller->auth, &data);
        ssize_t moved = n > 0 ? send(caller->fd, data, n, MSG_NOSIGNAL)
                              : recv(caller->fd, rest, wring_auth_wants(&caller->auth), 0);
        if (moved <= 0)
            return sent;
        sent |= n > 0;
        if (n > 0)
            wring_auth_sent(&caller->auth, (size_t)moved);
        else
            wring_auth_input(&caller->auth, rest, (size_t)moved);
    }
    while (recv(caller->fd, rest, sizeof(rest), 0) > 0)
        ;
    return sent;
}

/** Rank 0 is about to wait: it is the others' turn. @return whether the job is called off */
static bool take_turn(void *arg)
{
    struct rig *rig = arg;
    bool moved = false;

    FUZZ_CHECK(rig->turns++ < TURNS_MAX, "rank 0 turns in circles");
    for (unsigned i = 0; i < rig->n; i++)
        if (rig->callers[i].fd >= 0)
            moved |= advance(&rig->callers[i]);
    while (!moved && rig->input.left > 0)
        moved = do_deed(rig);
    if (moved)
        return false;
    rig->clock.now_ns += rig->waits ? LATE_NS : 0;
    return !rig->waits;
}

static void check_outcome(const struct rig *rig, enum wring_status status)
{
    for (uint32_t i = 1; i < rig->size; i++) {
        FUZZ_CHECK(rig->fds[i] < 0 || rig->claimed[i], "somebody else is rank %u", i);
        FUZZ_CHECK(rig->fds[i] >= 0 || status != WRING_OK, "rank %u has not come", i);
    }
    if (status == WRING_OK)
        FUZZ_CHECK(rig->lines == 0, "it begins, and %u lines say why not", rig->lines);
    else if (status == WRING_ERR_CLOSED)
        FUZZ_CHECK(!rig->waits && rig->lines == 0, "nobody called it off");
    else
        FUZZ_CHECK((status == WRING_ERR_PEER || status == WRING_ERR_MISMATCH) && rig->lines == 1,
                   "status %d, %u lines", status, rig->lines);
}

static void host(struct fuzz_input input, uint32_t first)
{
    static struct rig rig;
    rig = (struct rig){.input = input,
                       .clock = {.now_ns = WRING_NS_PER_S},
                       .log = {check_line, &rig, WRING_LOG_DEBUG},
                       .size = 2 + first % 128 % (RANKS_MAX - 1),
                       .waits = first >= 128};
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        rig.fds[i] = -1;
    const struct wring_cancel cancel = {take_turn, &rig};
    struct wring_rendezvous rendezvous = {
        .base = {NULL, 0, rig.size, -1}, .log = &rig.log, .fds = rig.fds};
    struct wring_rendezvous_params params = {.log = &rig.log,
                                             .size = rig.size,
                                             .root = "",
                                             .root_fd = listen_on_loopback(&rig.address),
                                             .key = "key",
                                             .deadline_ns = rig.clock.now_ns + JOIN_NS,
                                             .cancel = &cancel};
    wring_clock_give(&rig.clock);
    check_outcome(&rig, wring_rendezvous_host(&rendezvous, &params, secret));
    wring_clock_give(NULL);
    for (unsigned i = 0; i < rig.n; i++)
        if (rig.callers[i].fd >= 0)
            leave(&rig.callers[i]);
    for (uint32_t i = 1; i < rig.size; i++)
        if (rig.fds[i] >= 0)
            close(rig.fds[i]);
    close(params.root_fd);
}

/** Only numbers, of this host: no name is to be asked for, and nobody else listens for. */
static bool is_harmless(char *text)
{
    if (text[strspn(text, "0123456789.:[]%,")] != '\0')
        return false;
    char *rest, *copy = strdup(text);
    bool all = copy != NULL;
    for (char *at = strtok_r(copy, ",", &rest); at != NULL && all;
         at = strtok_r(NULL, ",", &rest)) {
        char *colon = strrchr(at, ':');
        struct in_addr v4;
        struct in6_addr v6;
        if (colon != NULL)
            *colon = '\0';
        if (at[0] == '[' && at[strlen(at) - 1] == ']') {
            at[strlen(at) - 1] = '\0';
            at++;
        }
        all = (inet_pton(AF_INET, at, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) ||
              (inet_pton(AF_INET6, at, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
    }
    free(copy);
    return all;
}

static void listen_as_told(struct fuzz_input input)
{
    struct rig rig = {.log = {check_line, &rig, WRING_LOG_DEBUG}};
    bool has_key = fuzz_take(&input, 1) & 1;
    char *root = fuzz_text(input.data, input.left);
    struct wring_rendezvous_params params = {
        .log = &rig.log, .size = 2, .root = root, .root_fd = -1, .key = has_key ? "key" : ""};
    int fd = -1;

    if (is_harmless(root)) {
        enum wring_status status = wring_rendezvous_listen(&params, &fd);
        FUZZ_CHECK((status == WRING_OK) == (fd >= 0) && rig.lines == (status != WRING_OK),
                   "%s: status %d, socket %d, %u lines", root, status, fd, rig.lines);
    }
    if (fd >= 0)
        close(fd);
    free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint32_t first = fuzz_take(&input, 1);

    if (first == 255)
        listen_as_told(input);
    else
        host(input, first);
    return 0;
}
