/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/strangers.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/auth.h"

#define KEYLESS_NS (20 * WRING_NS_PER_S) /* for the handshake to be refused */

static bool is_own(unsigned long inode)
{
    char path[64], name[64], want[64];
    DIR *directory = opendir("/proc/self/fd");
    bool found = false;

    if (directory == NULL)
        abort();
    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    for (struct dirent *entry; !found && (entry = readdir(directory)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/self/fd/%.20s", entry->d_name);
        ssize_t n = readlink(path, name, sizeof(name) - 1);
        name[n > 0 ? n : 0] = '\0';
        found = strcmp(name, want) == 0;
    }
    closedir(directory);
    return found;
}

void doors_find(struct doors *doors)
{
    FILE *file = fopen("/proc/self/net/tcp", "re");
    char line[256];
    unsigned address, port, state;
    unsigned long inode;

    if (file == NULL)
        abort();
    while (fgets(line, sizeof(line), file) != NULL && doors->n < DOORS)
        if (sscanf(line, "%*u: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &address, &port,
                   &state, &inode) == 4 &&
            state == TCP_LISTEN && is_own(inode))
            doors->at[doors->n++] = (struct sockaddr_in){.sin_family = AF_INET,
                                                         .sin_port = htons((uint16_t)port),
                                                         .sin_addr.s_addr = address};
    fclose(file);
}

static int come_to(const struct sockaddr_in *door)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)door, sizeof(*door)) != 0)
        abort();
    return fd;
}

/** Sending may fail: the door may have been shut in our face. */
static void say(int fd, const void *data, size_t bytes)
{
    ssize_t ignored = send(fd, data, bytes, MSG_NOSIGNAL);
    (void)ignored;
}

static void begin_handshake(struct wring_auth *auth)
{
    static const uint8_t other_secret[WRING_SECRET_BYTES] = {1, 2, 3};
    wring_auth_init(auth, true, WRING_AUTH_RENDEZVOUS, other_secret, NULL, 0);
}

/** @param how  0, 1: silent; 2, 3: nonsense; 4, 5: half of a handshake's beginning. The odd ones go
 *  at once. @return the socket; -1: it has gone */
static int knock(const struct sockaddr_in *door, unsigned how)
{
    static const unsigned char nonsense[200] = {0xFF, 0x47, 0x45, 0x54, 0x20, 0x2F, 1, 2, 3};
    int fd = come_to(door);
    struct wring_auth auth;
    const void *hello;

    if (how / 2 == 1)
        say(fd, nonsense, sizeof(nonsense));
    if (how / 2 == 2) {
        begin_handshake(&auth);
        size_t bytes = wring_auth_output(&auth, &hello);
        say(fd, hello, bytes / 2);
    }
    if (how % 2 == 0)
        return fd;
    close(fd);
    return -1;
}

/** One step of it. @return false: the other end has closed, or says nothing for long */
static bool go_on(int fd, struct wring_auth *auth, uint64_t until_ns)
{
    struct pollfd wait = {fd, POLLIN, 0};
    unsigned char data[WRING_AUTH_TRANSCRIPT_BYTES];
    const void *out;
    size_t bytes = wring_auth_output(auth, &out);

    if (bytes > 0) {
        ssize_t sent = send(fd, out, bytes, MSG_NOSIGNAL);
        if (sent > 0)
            wring_auth_sent(auth, (size_t)sent);
        return sent > 0;
    }
    if (poll(&wait, 1, 100) == 0)
        return wring_now_ns() < until_ns;
    ssize_t got = recv(fd, data, wring_auth_wants(auth), 0);
    if (got > 0)
        wring_auth_input(auth, data, (size_t)got);
    return got > 0;
}

/** It knows everything but the key. */
static void *come_without_key(void *arg)
{
    struct strangers *strangers = arg;
    int fd = strangers->keyless_fd;
    uint64_t until_ns = wring_deadline_in(KEYLESS_NS);
    struct wring_auth auth;

    begin_handshake(&auth);
    while (wring_auth_status(&auth) == WRING_ERR_AGAIN && go_on(fd, &auth, until_ns))
        continue;
    strangers->refused = wring_auth_status(&auth);
    close(fd);
    return NULL;
}

void strangers_come(struct strangers *strangers, const struct doors *doors)
{
    MUST(doors->n > 0, "the rank listens nowhere");
    for (unsigned i = 0; i < STRANGERS; i++)
        strangers->fds[i] = knock(&doors->at[i % doors->n], i % 6);
    strangers->keyless_fd = come_to(&doors->at[0]); /* before anybody shuts the door */
    if (pthread_create(&strangers->keyless, NULL, come_without_key, strangers) != 0)
        abort();
}

void strangers_leave(struct strangers *strangers)
{
    for (unsigned i = 0; i < STRANGERS; i++)
        if (strangers->fds[i] >= 0)
            close(strangers->fds[i]);
    pthread_join(strangers->keyless, NULL);
    CHECK(strangers->refused != WRING_OK, "who does not know the key is taken for a rank");
}
