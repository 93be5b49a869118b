/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpenv.h"

#define TRIES 20

static atomic_uint failures;

void wring_test_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    if (atomic_fetch_add(&failures, 1) >= 50) /* the first ones tell the story */
        return;
    va_start(args, format);
    flockfile(stderr);
    fprintf(stderr, "%s:%d: check failed: %s: ", file, line, condition);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(args);
}

void wring_test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("skipped: ", stdout);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(77);
}

const char *wring_test_traces(void)
{
    return getenv("WRING_TEST_TRACES");
}

unsigned wring_test_failures(void)
{
    return atomic_load(&failures);
}

void wring_test_in_time(bool (*attempt)(void))
{
    int tries = 0;

    while (!attempt() && ++tries < TRIES)
        ;
    CHECK(tries < TRIES, "this machine is too busy to tell");
}

static bool wanted(int argc, char **argv, const char *name)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]) != NULL)
            return true;
    return false;
}

int wring_test_main(int argc, char **argv, const struct wring_test_case *cases)
{
    unsigned ran = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; cases->name != NULL; cases++) {
        if (!wanted(argc, argv, cases->name))
            continue;
        unsigned before = wring_test_failures();
        uint64_t began_ns = wring_now_ns();
        cases->run();
        wring_test_free_guarded();
        printf("%s %s, %.1f s\n", wring_test_failures() == before ? "ok" : "FAILED", cases->name,
               (double)(wring_now_ns() - began_ns) / 1e9);
        ran++;
    }
    if (ran == 0) {
        fprintf(stderr, "no case of that name\n");
        return 2;
    }
    return wring_test_failures() == 0 ? 0 : 1;
}

int wring_test_main_in_mode(int argc, char **argv, const struct wring_test_case *cases)
{
    uint64_t mode = wring_fp_enter();
    int code = wring_test_main(argc, argv, cases);
    wring_fp_leave(mode);
    return code;
}

enum {
    CANARY = 0xA5,
    SPARE_PAGES = 1100, /* larger ones go back to the system */
};

/** Lies where the mapping begins, before the canary. */
struct guarded {
    struct guarded *next;
    size_t body_bytes, canary_bytes;
};

static _Thread_local struct guarded *guarded_list;

/* [pages of the body]; sweeps want the same few sizes again and again, and mapping is slow */
static _Thread_local struct guarded *spare[SPARE_PAGES + 1];

static struct guarded *map_guarded(size_t body_bytes, size_t page)
{
    unsigned char *mapping =
        mmap(NULL, body_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED || mprotect(mapping + body_bytes, page, PROT_NONE) != 0)
        abort();
    return (struct guarded *)mapping;
}

void *wring_test_guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (sizeof(struct guarded) + 64 + bytes + page - 1) / page, body = pages * page;
    struct guarded *guarded = pages <= SPARE_PAGES ? spare[pages] : NULL;

    if (guarded != NULL)
        spare[pages] = guarded->next;
    else
        guarded = map_guarded(body, page);
    *guarded = (struct guarded){guarded_list, body, body - sizeof(*guarded) - bytes};
    guarded_list = guarded;
    memset(guarded + 1, CANARY, body - sizeof(*guarded));
    return (unsigned char *)(guarded + 1) + guarded->canary_bytes;
}

/** How far before the buffer somebody wrote; 0: nobody did. */
static size_t find_harm(const struct guarded *guarded)
{
    const unsigned char *canary = (const unsigned char *)(guarded + 1);
    size_t n = guarded->canary_bytes, i = 0;

    if (canary[0] == CANARY && memcmp(canary, canary + 1, n - 1) == 0)
        return 0;
    while (canary[i] == CANARY)
        i++;
    return n - i;
}

size_t wring_test_guarded_harm(void)
{
    size_t most = 0;

    for (struct guarded *guarded = guarded_list; guarded != NULL; guarded = guarded->next) {
        size_t harm = find_harm(guarded);
        if (harm > 0)
            memset(guarded + 1, CANARY, guarded->canary_bytes);
        most = harm > most ? harm : most;
    }
    return most;
}

void wring_test_free_guarded(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), harm = wring_test_guarded_harm();

    if (harm > 0)
        wring_test_fail(__FILE__, __LINE__, "canary", "%zu bytes before a buffer", harm);
    while (guarded_list != NULL) {
        struct guarded *guarded = guarded_list;
        size_t pages = guarded->body_bytes / page;
        guarded_list = guarded->next;
        if (pages > SPARE_PAGES) {
            munmap(guarded, guarded->body_bytes + page);
            continue;
        }
        guarded->next = spare[pages];
        spare[pages] = guarded;
    }
}

uint32_t wring_test_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

float wring_test_random_float(uint32_t *state)
{
    return (float)(int32_t)wring_test_random(state) * 0x1p-31f;
}

float *wring_test_gradient(uint64_t n, uint32_t seed)
{
    const uint64_t third = ((uint64_t)1 << 21) - 1;
    float *data = wring_test_guarded(n * sizeof(*data));

    for (uint64_t i = 0; i < n; i++) { /* a sum of three, in thirds of a number's hash */
        uint64_t hash = (((uint64_t)seed << 32) + i) * 0x9E3779B97F4A7C15u;
        hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
        uint64_t sum = (hash & third) + (hash >> 21 & third) + (hash >> 42 & third);
        data[i] = ((float)(int32_t)sum - 0x1.8p21f) * (0.01f * 0x1p-20f);
    }
    return data;
}

unsigned wring_test_descriptors(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");

    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}
