/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

static atomic_uint failures;

void wring_test_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (atomic_fetch_add(&failures, 1) < 50) /* the first ones tell the story */
        fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, text);
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

unsigned wring_test_failures(void)
{
    return atomic_load(&failures);
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

struct guarded {
    struct guarded *next;
    unsigned char *mapping;
    size_t mapped_bytes, canary_bytes;
};

static _Thread_local struct guarded *guarded_list;

void *wring_test_guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + 64 + page - 1) / page * page;
    struct guarded *guarded = malloc(sizeof(*guarded));
    unsigned char *mapping =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded == NULL || mapping == MAP_FAILED || mprotect(mapping + body, page, PROT_NONE) != 0)
        abort();

    *guarded = (struct guarded){guarded_list, mapping, body + page, body - bytes};
    guarded_list = guarded;
    memset(mapping, 0xA5, body);
    return mapping + guarded->canary_bytes;
}

void wring_test_free_guarded(void)
{
    while (guarded_list != NULL) {
        struct guarded *guarded = guarded_list;
        guarded_list = guarded->next;
        for (size_t i = 0; i < guarded->canary_bytes; i++)
            if (guarded->mapping[i] != 0xA5) {
                wring_test_fail(__FILE__, __LINE__, "canary", "%zu bytes before a buffer",
                                guarded->canary_bytes - i);
                break;
            }
        munmap(guarded->mapping, guarded->mapped_bytes);
        free(guarded);
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
