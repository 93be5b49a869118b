/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/strangers.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define INODES 256
#define DOORS 64
#define AT_ONCE 32
#define LISTENING_TCP "0A"
#define LISTENING_UNIX 0x10000u /* flag of a socket that accepts */

struct door {
    struct sockaddr_storage address;
    socklen_t bytes;
    int family;
};

/** Sockets of a process. @return how many */
static unsigned list_sockets(pid_t pid, unsigned long *inodes)
{
    char path[64], link[340], target[64];
    unsigned n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    for (const struct dirent *at; folder != NULL && n < INODES && (at = readdir(folder)) != NULL;) {
        snprintf(link, sizeof(link), "%s/%s", path, at->d_name);
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        n += sscanf(target, "socket:[%lu]", &inodes[n]) == 1;
    }
    if (folder != NULL)
        closedir(folder);
    return n;
}

static bool is_among(unsigned long inode, const unsigned long *inodes, unsigned n)
{
    unsigned i = 0;
    while (i < n && inodes[i] != inode)
        i++;
    return i < n;
}

static unsigned add_tcp(pid_t pid, const unsigned long *inodes, unsigned n_inodes,
                        struct door *doors, unsigned n)
{
    char path[64], line[300], state[4];
    unsigned address, port;
    unsigned long inode;

    snprintf(path, sizeof(path), "/proc/%d/net/tcp", (int)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && n < DOORS && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, " %*u: %8X:%4X %*s %2s %*s %*s %*s %*u %*u %lu", &address, &port, state,
                   &inode) != 4 ||
            strcmp(state, LISTENING_TCP) != 0 || !is_among(inode, inodes, n_inodes))
            continue;
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = address != 0 ? address : htonl(0x7F000001)};
        doors[n] = (struct door){.bytes = sizeof(to), .family = AF_INET};
        memcpy(&doors[n++].address, &to, sizeof(to));
    }
    if (file != NULL)
        fclose(file);
    return n;
}

static unsigned add_unix(pid_t pid, const unsigned long *inodes, unsigned n_inodes,
                         struct door *doors, unsigned n)
{
    char path[64], line[300], name[128];
    unsigned flags;
    unsigned long inode;

    snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && n < DOORS && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%*s %*s %*s %8x %*s %*s %lu @%100s", &flags, &inode, name) != 3 ||
            (flags & LISTENING_UNIX) == 0 || !is_among(inode, inodes, n_inodes))
            continue;
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        memcpy(to.sun_path + 1, name, strlen(name));
        doors[n] = (struct door){
            .bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)),
            .family = AF_UNIX};
        memcpy(&doors[n++].address, &to, sizeof(to));
    }
    if (file != NULL)
        fclose(file);
    return n;
}

/** What one of them says: nothing, garbage, a request of the web, or zeros. */
static void say_something(int fd, uint32_t *seed)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint8_t noise[512] = {0};
    uint32_t how = wring_test_random(seed) % 4;
    size_t bytes = wring_test_random(seed) % sizeof(noise);

    for (size_t i = 0; how == 1 && i < sizeof(noise); i++)
        noise[i] = (uint8_t)wring_test_random(seed);
    ssize_t ignored = how == 0   ? 0
                      : how == 2 ? send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL | MSG_DONTWAIT)
                                 : send(fd, noise, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)ignored;
}

/** They stay while the next ones come. @return how many got in */
static unsigned knock(const struct door *door, unsigned connections, uint32_t *seed)
{
    int open[AT_ONCE];
    unsigned n = 0;

    for (unsigned i = 0; i < AT_ONCE; i++)
        open[i] = -1;
    for (unsigned i = 0; i < connections; i++) {
        int *fd = &open[i % AT_ONCE];
        if (*fd >= 0)
            close(*fd);
        *fd = socket(door->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (*fd < 0)
            continue;
        n += connect(*fd, (const struct sockaddr *)&door->address, door->bytes) == 0 ||
             door->family == AF_INET;
        say_something(*fd, seed);
    }
    for (unsigned i = 0; i < AT_ONCE; i++)
        if (open[i] >= 0)
            close(open[i]);
    return n;
}

unsigned strangers_pester(const pid_t *pids, uint32_t n, unsigned connections, uint32_t seed)
{
    unsigned long inodes[INODES];
    struct door doors[DOORS];
    unsigned n_doors = 0, total = 0;

    seed |= 1;
    for (uint32_t i = 0; i < n; i++) {
        unsigned n_inodes = list_sockets(pids[i], inodes);
        n_doors = add_tcp(pids[i], inodes, n_inodes, doors, n_doors);
        n_doors = add_unix(pids[i], inodes, n_inodes, doors, n_doors);
    }
    for (unsigned i = 0; i < n_doors; i++)
        total += knock(&doors[i], connections, &seed);
    return total;
}
