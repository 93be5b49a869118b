/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/mock/held.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define HEAP_SLACK 4096 /* what logs and the C library keep */
#ifdef WRING_TEST_SANITIZED
#define PAGES_SLACK SIZE_MAX /* freed memory and its history are kept, on purpose */
#else
#define PAGES_SLACK ((size_t)1 << 20) /* a quarter of a page for each of 1000 */
#endif

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/** What the mock's network takes is shared, and not of a connection: it is left out of the pages.
 */
static void count_pages(struct held *held)
{
    size_t mapped = 0, resident = 0, shared = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%zu %zu %zu", &mapped, &resident, &shared) != 3)
        CHECK(false, "no /proc/self/statm");
    if (file != NULL)
        fclose(file);
    held->mapped_bytes = mapped * page;
    held->private_bytes = (resident - shared) * page;
}

struct held held_now(void)
{
    struct mallinfo2 heap = mallinfo2();
    struct held held = {.fds = count_fds(), .heap_bytes = heap.uordblks + heap.hblkhd};
    count_pages(&held);
    mock_get_counts(&held.counts);
    return held;
}

static bool has_not_grown(size_t before, size_t after)
{
    return after <= before || after - before <= PAGES_SLACK;
}

void held_compare(const struct held *before, const struct held *after)
{
    const struct mock_counts *was = &before->counts, *is = &after->counts;
#define SAME(what)                                                                         \
    CHECK(was->what == is->what, #what ": %llu, then %llu", (unsigned long long)was->what, \
          (unsigned long long)is->what);
    SAME(contexts)
    SAME(pds)
    SAME(mrs)
    SAME(qps)
    SAME(cqs)
    SAME(channels)
    SAME(pinned_bytes)
#undef SAME
    CHECK(is->misuse == 0, "%llu misuses", (unsigned long long)is->misuse);
    CHECK(before->fds == after->fds, "%d descriptors, then %d", before->fds, after->fds);
    CHECK(after->heap_bytes <= before->heap_bytes + HEAP_SLACK, "%zu bytes of memory, then %zu",
          before->heap_bytes, after->heap_bytes);
    CHECK(has_not_grown(before->private_bytes, after->private_bytes),
          "%zu bytes in pages of its own, then %zu", before->private_bytes, after->private_bytes);
    CHECK(has_not_grown(before->mapped_bytes, after->mapped_bytes), "%zu bytes mapped, then %zu",
          before->mapped_bytes, after->mapped_bytes);
}
