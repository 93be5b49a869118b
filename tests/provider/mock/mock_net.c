/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/mock/mock_net.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x6d6f636b6e657432ull /* changes with the layout */
#define LOCK_SPINS 2000
#define NAP_NS 50000

static int file = -1; /* of the network, locked as long as this process is on it */
static uint64_t sleeps, ends;

static bool init(struct net *net)
{
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0)
        return false;
    bool good = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
                pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
                pthread_mutex_init(&net->lock, &attr) == 0 &&
                getrandom(&net->id, sizeof(net->id), 0) == sizeof(net->id);
    pthread_mutexattr_destroy(&attr);
    net->next_pd = 1;
    net->magic = MAGIC;
    return good;
}

/** Alone: whoever was there before is gone, and so is what it left. @return false with errno */
static bool open_file(const char *path, bool *first)
{
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    *first = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (*first && (ftruncate(file, 0) != 0 || ftruncate(file, sizeof(struct net)) != 0))
        return false;
    return *first || flock(file, LOCK_SH) == 0;
}

struct net *net_attach(const char *path)
{
    bool first = true;
    int flags = MAP_SHARED | MAP_NORESERVE | (path[0] == '\0' ? MAP_ANONYMOUS : 0);
    if (path[0] != '\0' && !open_file(path, &first))
        return NULL;
    struct net *net = mmap(NULL, sizeof(*net), PROT_READ | PROT_WRITE, flags, file, 0);
    if (net == MAP_FAILED)
        return NULL;
    madvise(net, sizeof(*net), MADV_DONTDUMP);
    if (first && !init(net))
        return NULL;
    if (path[0] != '\0' && flock(file, LOCK_SH) != 0)
        return NULL;
    if (net->magic != MAGIC) {
        errno = EPROTO;
        return NULL;
    }
    return net;
}

void net_detach(struct net *net)
{
    munmap(net, sizeof(*net));
    if (file >= 0)
        close(file);
    file = -1;
}

/** So that nobody has to be woken: a call into the kernel that may come at any time. */
static int lock_asleep(struct net *net)
{
    const struct timespec nap = {0, NAP_NS};
    int error;
    __atomic_fetch_add(&sleeps, 1, __ATOMIC_RELAXED);
    do
        syscall(SYS_nanosleep, &nap, NULL);
    while ((error = pthread_mutex_trylock(&net->lock)) == EBUSY);
    __atomic_fetch_add(&ends, 1, __ATOMIC_RELEASE);
    return error;
}

/** Whoever gets the lock of one that died holding it has to say that all is well with it. */
void net_lock(struct net *net)
{
    int error = EBUSY;
    for (unsigned i = 0; i < LOCK_SPINS && error == EBUSY; i++)
        error = pthread_mutex_trylock(&net->lock);
    if (error == EBUSY)
        error = lock_asleep(net);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&net->lock);
}

void net_unlock(struct net *net)
{
    pthread_mutex_unlock(&net->lock);
}

void net_lock_sleeps(uint64_t *begun, uint64_t *ended)
{
    *ended = __atomic_load_n(&ends, __ATOMIC_ACQUIRE);
    *begun = __atomic_load_n(&sleeps, __ATOMIC_RELAXED);
}

static bool is_gone(pid_t pid)
{
    return pid != 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

void net_reap(struct net *net)
{
    for (uint32_t i = 0; i < MOCK_BELLS; i++)
        if (is_gone(net->bells[i].pid))
            net->bells[i].pid = 0;
    for (uint32_t i = 0; i < MOCK_CONTEXTS; i++)
        if (is_gone(net->contexts[i].pid))
            net->contexts[i].pid = 0;
    for (uint32_t i = 0; i < MOCK_MRS; i++)
        if (is_gone(net->mrs[i].pid))
            net->mrs[i].pid = 0;
    for (uint32_t i = 0; i < MOCK_CQS; i++)
        if (is_gone(net->cqs[i].pid))
            net->cqs[i].pid = 0;
    for (uint32_t i = 0; i < MOCK_QPS; i++)
        if (is_gone(net->qps[i].pid))
            net->qps[i].pid = 0;
}

/* The first of `list` that is free. */
#define FIND_FREE(list, n)            \
    int32_t found = -1;               \
    for (int32_t i = 0; i < (n); i++) \
        if ((list)[i].pid == 0) {     \
            found = i;                \
            break;                    \
        }                             \
    if (found < 0) {                  \
        errno = ENOMEM;               \
        return -1;                    \
    }

int32_t net_take_context(struct net *net, uint32_t device, uint32_t bell)
{
    FIND_FREE(net->contexts, MOCK_CONTEXTS)
    net->contexts[found] = (struct net_context){.pid = getpid(), .device = device, .bell = bell};
    return found;
}

int32_t net_take_mr(struct net *net)
{
    FIND_FREE(net->mrs, MOCK_MRS)
    uint8_t generation = net->mrs[found].generation;
    net->mrs[found] = (struct net_mr){.pid = getpid(), .generation = (uint8_t)(generation + 1)};
    return found;
}

int32_t net_take_cq(struct net *net)
{
    FIND_FREE(net->cqs, MOCK_CQS)
    memset(&net->cqs[found], 0, sizeof(net->cqs[found]));
    net->cqs[found].pid = getpid();
    return found;
}

int32_t net_take_qp(struct net *net)
{
    FIND_FREE(net->qps, MOCK_QPS)
    uint32_t generation = net->qps[found].generation % 4095 + 1; /* numbers 0 and 1 are special */
    net->qps[found] = (struct net_qp){
        .pid = getpid(), .generation = generation, .qpn = generation * MOCK_QPS + (uint32_t)found};
    return found;
}

/** In the abstract space of names: nothing of it stays when its process ends. */
static socklen_t name_bell(const struct net *net, uint32_t bell, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "mockverbs-%08x-%u-%u",
                     net->id, bell, net->bells[bell].generation);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int32_t take_bell(struct net *net)
{
    FIND_FREE(net->bells, MOCK_BELLS)
    net->bells[found].pid = getpid();
    net->bells[found].generation++;
    net->bells[found].pending = 0;
    return found;
}

int32_t net_bell_create(struct net *net, int *fd)
{
    struct sockaddr_un name;
    net_lock(net);
    int32_t bell = take_bell(net);
    net_unlock(net);
    if (bell < 0)
        return -1;
    socklen_t bytes = name_bell(net, (uint32_t)bell, &name);
    *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&name, bytes) == 0)
        return bell;
    net_bell_destroy(net, (uint32_t)bell, *fd);
    return -1;
}

void net_bell_destroy(struct net *net, uint32_t bell, int fd)
{
    net_lock(net);
    net->bells[bell].pid = 0;
    net_unlock(net);
    if (fd >= 0)
        close(fd);
}

void net_bell_ring(struct net *net, uint32_t bell)
{
    struct sockaddr_un name;
    if (net->bells[bell].pid == 0 || net->bells[bell].pending++ > 0)
        return;
    socklen_t bytes = name_bell(net, bell, &name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name, bytes);
    close(fd);
}

void net_bell_take(struct net *net, uint32_t bell, int fd)
{
    char byte;
    if (--net->bells[bell].pending > 0)
        return;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EINTR)
        ;
}

struct net_qp *net_qp_find(struct net *net, uint32_t qpn)
{
    struct net_qp *qp = &net->qps[qpn % MOCK_QPS];
    return qp->pid != 0 && qp->qpn == qpn ? qp : NULL;
}

struct net_mr *net_mr_find(struct net *net, uint32_t key, pid_t pid, uint32_t pd)
{
    uint32_t index = key >> 8;
    if (index >= MOCK_MRS)
        return NULL;
    struct net_mr *mr = &net->mrs[index];
    bool right = mr->pid == pid && mr->pd == pd && mr->generation == (uint8_t)key;
    return right ? mr : NULL;
}
