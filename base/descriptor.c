/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORD_BITS 64

struct shared {
    void *base;
    size_t bytes;
    int fd;
    off_t offset;
};

atomic_uint wring_forked_times;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t *descriptors; /* [n_words], a bit for each */
static size_t n_words;
static struct shared *shared; /* [n_shared] */
static size_t n_shared, max_shared;

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

/** Replace memory that other ranks read and write by a private mapping of the child's. */
static void unshare_memory(const struct shared *at)
{
    void *own = at->fd < 0 ? MAP_FAILED
                           : mmap(at->base, at->bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, at->fd, at->offset);
    if (own == MAP_FAILED && mprotect(at->base, at->bytes, PROT_READ) != 0)
        munmap(at->base, at->bytes); /* rather than that it harms the job */
}

static void close_descriptors(void)
{
    for (size_t word = 0; word < n_words; word++)
        for (unsigned bit = 0; bit < WORD_BITS; bit++)
            if ((descriptors[word] >> bit & 1) != 0)
                close((int)(word * WORD_BITS + bit));
    if (n_words > 0)
        memset(descriptors, 0, n_words * sizeof(*descriptors));
}

/** One thread is left, the one that forked. Nothing here allocates or waits. */
static void after_fork_in_child(void)
{
    int saved = errno;
    for (size_t i = 0; i < n_shared; i++)
        unshare_memory(&shared[i]);
    n_shared = 0;
    close_descriptors();
    atomic_fetch_add(&wring_forked_times, 1);
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static void install_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent,
                   after_fork_in_child); /* fails without memory alone: then a child
                       is as it would be without us */
}

unsigned wring_forked_begin(void)
{
    pthread_once(&once, install_fork_handlers);
    return wring_forked_count();
}

void wring_forked_hold(void)
{
    int saved = errno;
    pthread_once(&once, install_fork_handlers);
    pthread_mutex_lock(&mutex);
    errno = saved;
}

static void forked_release(void)
{
    pthread_mutex_unlock(&mutex);
}

static bool grow_descriptors(size_t words)
{
    uint64_t *grown = realloc(descriptors, words * sizeof(*grown));
    if (grown == NULL)
        return false;
    memset(grown + n_words, 0, (words - n_words) * sizeof(*grown));
    descriptors = grown;
    n_words = words;
    return true;
}

/** A child closes it. While held. @return false with errno where there is no memory for that */
static bool forked_keep_descriptor(int fd)
{
    size_t word = (size_t)fd / WORD_BITS;
    if (word >= n_words && !grow_descriptors(word + 1))
        return false;
    descriptors[word] |= UINT64_C(1) << (unsigned)fd % WORD_BITS;
    return true;
}

/** It is closed here, or about to be. While held. One that was never kept is fine. */
static void forked_drop_descriptor(int fd)
{
    size_t word = (size_t)fd / WORD_BITS;
    if (word < n_words)
        descriptors[word] &= ~(UINT64_C(1) << (unsigned)fd % WORD_BITS);
}

static bool note_shared(const struct shared *one)
{
    if (n_shared == max_shared) {
        size_t more = 2 * max_shared + 16;
        struct shared *grown = realloc(shared, more * sizeof(*grown));
        if (grown == NULL)
            return false;
        shared = grown;
        max_shared = more;
    }
    shared[n_shared++] = *one;
    return true;
}

bool wring_forked_keep_shared(void *base, size_t bytes, int fd, off_t offset)
{
    wring_forked_hold();
    bool kept = note_shared(&(struct shared){base, bytes, fd, offset});
    forked_release();
    return kept;
}

void wring_forked_drop_shared(void *base)
{
    wring_forked_hold();
    for (size_t i = n_shared; i-- > 0;)
        if (shared[i].base == base) {
            shared[i] = shared[--n_shared];
            break;
        }
    forked_release();
}

void wring_forked_hide(void *base, size_t bytes)
{
    madvise(base, bytes, MADV_DONTFORK); /* refused: the child has it, and does not touch it */
}

/* ---- descriptors ---- */

#define FIRST (STDERR_FILENO + 1)

static void close_keeping_errno(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
}

int wring_descriptor_above_stdio(int fd)
{
    if (fd < 0 || fd >= FIRST)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
    close_keeping_errno(fd);
    return moved;
}

int wring_descriptor_keep(int fd)
{
    fd = wring_descriptor_above_stdio(fd);
    if (fd >= 0 && !forked_keep_descriptor(fd)) {
        close(fd);
        errno = ENOMEM;
        fd = -1;
    }
    forked_release();
    return fd;
}

bool wring_descriptor_lend(int fd)
{
    if (fd < 0)
        return true;
    wring_forked_hold();
    bool kept = forked_keep_descriptor(fd);
    forked_release();
    return kept;
}

void wring_descriptor_take_back(int fd)
{
    if (fd < 0)
        return;
    wring_forked_hold();
    forked_drop_descriptor(fd);
    forked_release();
}

void wring_descriptor_close(int fd)
{
    if (fd < 0)
        return;
    wring_forked_hold();
    forked_drop_descriptor(fd);
    close_keeping_errno(fd);
    forked_release();
}

void wring_stdio_fill(struct wring_stdio *out)
{
    for (int fd = 0; fd < FIRST; fd++) {
        out->filled[fd] = false;
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        /* the lowest that is free, unless another thread came first */
        int got = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (got >= 0 && got < FIRST)
            out->filled[got] = true;
        else if (got >= 0)
            close(got);
    }
}

void wring_stdio_free(const struct wring_stdio *stdio)
{
    for (int fd = 0; fd < FIRST; fd++)
        if (stdio->filled[fd])
            close_keeping_errno(fd);
}
