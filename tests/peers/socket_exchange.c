/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How long two hosts take to exchange so many bytes over bare sockets, to put wring's times beside.
 *
 *     socket_exchange ADDRESS PORT listen|connect ROUNDS BYTES...
 *
 * Both hosts send BYTES and receive as many, over one socket that is as the system makes it, but
 * for TCP_NODELAY. A byte each way goes before each round, as a barrier; two rounds more than
 * ROUNDS are made first, so that the connection has found out what the path carries. A round takes
 * as long as the slower host. The one that listens prints a line "BYTES BEST MEDIAN P90" for each
 * size, in us.
 *
 * Exit: 0; 1 if a socket fails; 2 for its arguments.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PIECE_BYTES (1ul << 20) /* that a socket is asked for at a time */
#define WARM_ROUNDS 2
#define ROUNDS_MAX 10000
#define WAIT_MS 20000 /* for the other host */

static void die(const char *what)
{
    fprintf(stderr, "socket_exchange: %s: %s\n", what, strerrordesc_np(errno));
    exit(1);
}

static int connect_once(const struct sockaddr_in *address)
{
    int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (end < 0)
        die("socket");
    if (connect(end, (const struct sockaddr *)address, sizeof(*address)) == 0)
        return end;
    if (errno != ECONNREFUSED)
        die("connect");
    close(end);
    return -1;
}

static int listen_once(const struct sockaddr_in *address)
{
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd wait = {.fd = listener, .events = POLLIN};

    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(listener, (const struct sockaddr *)address, sizeof(*address)) != 0 ||
        listen(listener, 1) != 0)
        die("listen");
    if (poll(&wait, 1, WAIT_MS) != 1)
        die("nobody connects");
    int end = accept(listener, NULL, NULL);
    if (end < 0)
        die("accept");
    close(listener);
    return end;
}

static int join(const struct sockaddr_in *address, bool listens)
{
    int one = 1, end = -1;

    for (int ms = 0; end < 0 && ms < WAIT_MS; ms += 10) {
        end = listens ? listen_once(address) : connect_once(address);
        if (end < 0)
            usleep(10000);
    }
    if (end < 0)
        die("nobody listens");
    if (setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
        die("setsockopt");
    return end;
}

/** @return bytes that a call moved: 0 if there is nothing to do now */
static size_t moved(ssize_t result)
{
    if (result > 0)
        return (size_t)result;
    if (result == 0 || (errno != EAGAIN && errno != EINTR))
        die("the socket");
    return 0;
}

static size_t piece(size_t left)
{
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

/** Send and receive so much at once. @return us */
static double swap(int end, const char *from, char *to, size_t bytes)
{
    uint64_t begin = wring_now_ns();

    for (size_t sent = 0, got = 0; sent < bytes || got < bytes;) {
        struct pollfd wait = {
            .fd = end,
            .events = (short)((sent < bytes ? POLLOUT : 0) | (got < bytes ? POLLIN : 0))};
        if (poll(&wait, 1, WAIT_MS) == 0) {
            errno = ETIMEDOUT;
            die("the other host");
        }
        if (sent < bytes)
            sent += moved(send(end, from, piece(bytes - sent), MSG_DONTWAIT | MSG_NOSIGNAL));
        if (got < bytes && (wait.revents & ~POLLOUT) != 0)
            got += moved(recv(end, to, piece(bytes - got), MSG_DONTWAIT));
    }
    return (double)(wring_now_ns() - begin) / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int end, bool prints, size_t bytes, int rounds)
{
    static double us[ROUNDS_MAX];
    char *from = calloc(1, PIECE_BYTES), *to = malloc(PIECE_BYTES);
    double theirs;

    if (from == NULL || to == NULL)
        die("malloc");
    for (int i = -WARM_ROUNDS; i < rounds; i++) {
        swap(end, from, to, 1);
        double mine = swap(end, from, to, bytes);
        memcpy(from, &mine, sizeof(mine));
        swap(end, from, to, sizeof(mine));
        memcpy(&theirs, to, sizeof(theirs)); /* 8 bytes do not come in parts */
        if (i >= 0)
            us[i] = mine > theirs ? mine : theirs;
    }
    qsort(us, (size_t)rounds, sizeof(*us), compare);
    if (prints)
        printf("%zu %.0f %.0f %.0f\n", bytes, us[0], us[rounds / 2], us[rounds * 9 / 10]);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int rounds = argc > 5 ? atoi(argv[4]) : 0;

    if (rounds < 1 || rounds > ROUNDS_MAX || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 ||
        (strcmp(argv[3], "listen") != 0 && strcmp(argv[3], "connect") != 0)) {
        fprintf(stderr, "needs: ADDRESS PORT listen|connect ROUNDS BYTES...\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    bool listens = strcmp(argv[3], "listen") == 0;
    int end = join(&address, listens);
    for (int i = 5; i < argc; i++)
        measure(end, listens, strtoull(argv[i], NULL, 10), rounds);
    close(end);
    return 0;
}
