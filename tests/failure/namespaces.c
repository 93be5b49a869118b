/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/failure/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define MOVED 'm' /* a keeper's word; else its errno */

static void keep(int say)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char word = unshare(CLONE_NEWNET) == 0 ? MOVED : (char)errno;
    ssize_t ignored = write(say, &word, 1);
    (void)ignored;
    for (;;)
        pause();
}

/** A process in a network namespace of its own. @return 0, or the errno that it met */
static int start_keeper(pid_t *pid, int *namespace)
{
    int pair[2];
    char word = 0, path[64];

    if (pipe2(pair, O_CLOEXEC) != 0)
        return errno;
    fflush(NULL);
    *pid = fork();
    if (*pid == 0)
        keep(pair[1]);
    close(pair[1]);
    ssize_t got = read(pair[0], &word, 1);
    close(pair[0]);
    if (got != 1 || word != MOVED)
        return got == 1 ? word : EIO;
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)*pid);
    *namespace = open(path, O_RDONLY | O_CLOEXEC);
    return *namespace >= 0 ? 0 : errno;
}

/** Run a shell command, its words given as for printf. @return true when it succeeded */
__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command) == 0;
}

static bool inside(const struct hosts *hosts, int host, const char *words)
{
    return shell("nsenter -t %d -n ip %s", (int)hosts->keepers[host], words);
}

/** The loopback device too, as ranks of one host may talk through it; with IPv6 alone if asked. */
static bool address_one(const struct hosts *hosts, int host, int family)
{
    char words[128];
    if (family == 6)
        snprintf(words, sizeof(words), "addr add %s/64 dev cable nodad", HOST_V6(host));
    else
        snprintf(words, sizeof(words), "addr add %s/24 dev cable", HOST_V4(host));
    return inside(hosts, host, words) && inside(hosts, host, "link set cable up") &&
           inside(hosts, host, "link set lo up") &&
           (family == 4 || inside(hosts, host, "addr del 127.0.0.1/8 dev lo"));
}

bool hosts_make(struct hosts *hosts, int family, char *reason, size_t bytes)
{
    *hosts = (struct hosts){{0, 0}, {-1, -1}};
    reason[0] = '\0';
    for (int i = 0; i < 2 && reason[0] == '\0'; i++) {
        int error = start_keeper(&hosts->keepers[i], &hosts->namespaces[i]);
        if (error != 0)
            snprintf(reason, bytes, "no network namespaces here: %s", strerror(error));
    }
    if (reason[0] == '\0' && !shell("command -v ip nsenter >/dev/null"))
        snprintf(reason, bytes, "needs ip (iproute2) and nsenter (util-linux)");
    if (reason[0] == '\0' && !shell("ip link add cable netns %d type veth peer name cable netns %d",
                                    (int)hosts->keepers[0], (int)hosts->keepers[1]))
        snprintf(reason, bytes, "ip cannot make a veth pair; see above");
    if (reason[0] == '\0' && !(address_one(hosts, 0, family) && address_one(hosts, 1, family)))
        snprintf(reason, bytes, "ip cannot set IPv%d addresses; see above", family);
    if (reason[0] == '\0')
        return true;
    hosts_unmake(hosts);
    return false;
}

/** An interface that is up and leads nowhere. */
static bool add_one(const struct hosts *hosts, int host, int family, const char *name,
                    const char *address)
{
    char make[96], give[96], up[64], far_up[64];
    snprintf(make, sizeof(make), "link add %s type veth peer name %s-end", name, name);
    snprintf(give, sizeof(give), "addr add %s%s dev %s%s", address, family == 6 ? "/64" : "/24",
             name, family == 6 ? " nodad" : "");
    snprintf(up, sizeof(up), "link set %s up", name);
    snprintf(far_up, sizeof(far_up), "link set %s-end up", name);
    return inside(hosts, host, make) && inside(hosts, host, give) && inside(hosts, host, up) &&
           inside(hosts, host, far_up);
}

bool hosts_add_interfaces(const struct hosts *hosts, int family)
{
    bool done = true;
    for (int i = 0; i < 2 && done; i++)
        done = add_one(hosts, i, family, "bridge", family == 6 ? HOST_BRIDGE_V6 : HOST_BRIDGE_V4) &&
               add_one(hosts, i, family, "own", family == 6 ? HOST_OWN_V6(i) : HOST_OWN_V4(i));
    return done;
}

void hosts_unmake(struct hosts *hosts)
{
    for (int i = 0; i < 2; i++) {
        if (hosts->namespaces[i] >= 0)
            close(hosts->namespaces[i]);
        if (hosts->keepers[i] > 0) {
            kill(hosts->keepers[i], SIGKILL);
            waitpid(hosts->keepers[i], NULL, 0);
        }
    }
}

bool hosts_enter(const struct hosts *hosts, int host)
{
    return setns(hosts->namespaces[host], CLONE_NEWNET) == 0;
}

bool hosts_name(const char *lines)
{
    char path[] = "/tmp/wring-hosts-XXXXXX";
    int fd = mkstemp(path);
    bool named = fd >= 0 && write(fd, lines, strlen(lines)) == (ssize_t)strlen(lines) &&
                 unshare(CLONE_NEWNS) == 0 &&
                 mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0;
    if (fd >= 0) {
        close(fd);
        unlink(path); /* the mount keeps it */
    }
    return named;
}

bool hosts_plug(const struct hosts *hosts, bool in)
{
    return inside(hosts, 0, in ? "link set cable up" : "link set cable down");
}
