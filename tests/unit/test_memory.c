/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "transport/memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void is_zeroed_whole_pages_behind_a_file(void)
{
    static const size_t sizes[] = {0, 1, 4096, 4097, 1 << 20};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct wring_memory memory;
        REQUIRE(wring_memory_alloc(sizes[i], &memory) == WRING_OK, "%zu bytes", sizes[i]);
        unsigned char *base = memory.base;
        CHECK(memory.bytes >= sizes[i] && memory.bytes > 0 && memory.bytes % page == 0,
              "%zu bytes for %zu", memory.bytes, sizes[i]);
        CHECK((uintptr_t)base % page == 0, "%p", memory.base);
        CHECK(base[0] == 0 && memcmp(base, base + 1, memory.bytes - 1) == 0, "not zero");
        CHECK(memory.kind == WRING_MEMORY_SHARED && memory.fd_offset == 0, "kind");
        CHECK(fcntl(memory.fd, F_GETFD) == FD_CLOEXEC, "stays open over exec");
        wring_memory_free(&memory);
        wring_memory_free(&memory);
    }
    wring_memory_free(NULL);
}

static void a_second_mapping_sees_the_bytes(void)
{
    struct wring_memory memory;
    REQUIRE(wring_memory_alloc(100, &memory) == WRING_OK, "alloc");
    char *other = mmap(NULL, memory.bytes, PROT_READ, MAP_SHARED, memory.fd, 0);
    REQUIRE(other != MAP_FAILED, "mmap");
    strcpy(memory.base, "written here");
    CHECK(strcmp(other, "written here") == 0, "'%s'", other);
    munmap(other, memory.bytes);
    wring_memory_free(&memory);
}

/** Large pages that are free in the pool, and the size of one. */
static long free_in_pool(size_t *page)
{
    char line[128];
    long n = 0, kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "HugePages_Free: %ld", &n);
        sscanf(line, "Hugepagesize: %ld", &kib);
    }
    if (file != NULL)
        fclose(file);
    *page = (size_t)kib << 10;
    return n;
}

/** Whatever was asked for and became of it is memory like any other. */
static void large_pages_are_memory_too(void)
{
    size_t page, bytes = WRING_MEMORY_LARGE + 4096;
    long in_pool = free_in_pool(&page);
    static const size_t sizes[] = {100, WRING_MEMORY_LARGE - 1, WRING_MEMORY_LARGE, 9 << 20};
    for (int wish = WRING_PAGES_SMALL; wish <= WRING_PAGES_POOL; wish++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct wring_memory memory;
            enum wring_memory_pages got = WRING_PAGES_POOL;
            enum wring_status status =
                wring_memory_alloc_on(sizes[i], (enum wring_memory_pages)wish, &memory, &got);
            REQUIRE(status == WRING_OK, "%zu bytes: %s", sizes[i], wring_status_text(status));
            unsigned char *base = memory.base;
            CHECK(memory.bytes >= sizes[i] && (int)got <= wish, "became %d of %d", got, wish);
            CHECK(sizes[i] >= WRING_MEMORY_LARGE || got == WRING_PAGES_SMALL, "%zu", sizes[i]);
            CHECK(base[0] == 0 && memcmp(base, base + 1, memory.bytes - 1) == 0, "not zero");
            CHECK(got != WRING_PAGES_POOL || memory.bytes % page == 0, "%zu", memory.bytes);
            CHECK(ftruncate(memory.fd, 0) != 0, "it may shrink");
            memset(base, 1, memory.bytes);
            wring_memory_free(&memory);
        }
    struct wring_memory memory;
    enum wring_memory_pages got;
    REQUIRE(wring_memory_alloc_on(bytes, WRING_PAGES_POOL, &memory, &got) == WRING_OK, "alloc");
    CHECK(got != WRING_PAGES_POOL, "nearly half of it is wasted");
    wring_memory_free(&memory);
    if (in_pool < 5 || page != WRING_MEMORY_LARGE) {
        printf("the pool has %ld free pages of %zu bytes: not tried\n", in_pool, page);
        return;
    }
    REQUIRE(wring_memory_alloc_on(9 << 20, WRING_PAGES_POOL, &memory, &got) == WRING_OK, "alloc");
    CHECK(got == WRING_PAGES_POOL && memory.bytes == 10 << 20, "%zu bytes of %d", memory.bytes,
          got);
    wring_memory_free(&memory);
}

static void memory_of_its_own_begins_where_a_large_page_can(void)
{
    static const size_t sizes[] = {0, 1, 4097, WRING_MEMORY_LARGE - 1, WRING_MEMORY_LARGE + 1};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int wish = WRING_PAGES_SMALL; wish <= WRING_PAGES_POOL; wish++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct wring_memory memory;
            enum wring_memory_pages got = WRING_PAGES_POOL;
            enum wring_status status =
                wring_memory_alloc_own(sizes[i], (enum wring_memory_pages)wish, &memory, &got);
            REQUIRE(status == WRING_OK, "%zu bytes: %s", sizes[i], wring_status_text(status));
            unsigned char *base = memory.base;
            bool large = sizes[i] >= WRING_MEMORY_LARGE;
            CHECK(memory.kind == WRING_MEMORY_HOST && memory.fd == -1, "kind");
            CHECK(memory.bytes >= sizes[i] && memory.bytes % page == 0, "%zu", memory.bytes);
            CHECK((uintptr_t)base % (large ? WRING_MEMORY_LARGE : page) == 0, "%p", memory.base);
            CHECK(got == WRING_PAGES_SMALL || (large && wish != WRING_PAGES_SMALL), "%d", got);
            CHECK(base[0] == 0 && memcmp(base, base + 1, memory.bytes - 1) == 0, "not zero");
            memset(base, 1, memory.bytes);
            wring_memory_free(&memory);
            CHECK(msync(base, page, MS_ASYNC) != 0, "it is still there");
            wring_memory_free(&memory);
        }
}

static void pages_are_there_when_asked_for(void)
{
    enum {
        PAGES = 16
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct wring_memory memory;
    unsigned char there[PAGES];

    REQUIRE(wring_memory_alloc(PAGES * page, &memory) == WRING_OK, "alloc");
    REQUIRE(mincore(memory.base, memory.bytes, there) == 0, "mincore");
    CHECK((there[0] & 1) == 0, "not before they are used");
    enum wring_status status = wring_memory_populate(&memory);
    if (status == WRING_ERR_UNSUPPORTED) {
        printf("this kernel cannot: not tried\n");
    } else {
        REQUIRE(status == WRING_OK && mincore(memory.base, memory.bytes, there) == 0, "populate");
        for (int i = 0; i < PAGES; i++)
            CHECK((there[i] & 1) != 0, "page %d", i);
    }
    wring_memory_free(&memory);
}

static void impossible_sizes_fail(void)
{
    struct wring_memory memory;
    CHECK(wring_memory_alloc(SIZE_MAX, &memory) == WRING_ERR_NO_MEMORY, "SIZE_MAX");
    CHECK(wring_memory_alloc(SIZE_MAX / 4, &memory) == WRING_ERR_NO_MEMORY, "SIZE_MAX / 4");
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        enum wring_memory_pages got;
        enum wring_status status =
            wring_memory_alloc_own(sizes[i], WRING_PAGES_TRANSPARENT, &memory, &got);
        CHECK(status == WRING_ERR_NO_MEMORY, "%zu bytes of its own", sizes[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"is_zeroed_whole_pages_behind_a_file", is_zeroed_whole_pages_behind_a_file},
        {"a_second_mapping_sees_the_bytes", a_second_mapping_sees_the_bytes},
        {"large_pages_are_memory_too", large_pages_are_memory_too},
        {"memory_of_its_own_begins_where_a_large_page_can",
         memory_of_its_own_begins_where_a_large_page_can},
        {"pages_are_there_when_asked_for", pages_are_there_when_asked_for},
        {"impossible_sizes_fail", impossible_sizes_fail},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
