/* SPDX-License-Identifier: Apache-2.0 */
/** A twin reads all it should read, keeps what it updates, writes all it should write, no more. */
#include "tools/bench/twin.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define MARK 0xA5A5000000005A5Au
#define UNTOUCHED 0x1111111111111111u

/* In lines: one block, several, and parts of them; at last more than caches hold. */
static const struct {
    uint64_t read, update, update_span, write, other;
} shapes[] = {
    {0, 0, 0, 0, 0},         {1, 0, 0, 1, 0},
    {1, 1, 1, 1, 0},         {256, 0, 0, 256, 0},
    {257, 0, 0, 257, 0},     {700, 0, 0, 350, 0},
    {700, 700, 700, 22, 0},  {700, 700, 700, 700, 0},
    {22, 700, 700, 0, 0},    {3, 100, 700, 0, 0},
    {22, 0, 700, 0, 0},      {511, 300, 301, 1, 0},
    {2, 699, 700, 700, 0},   {1, 0, 0, 1, 1},
    {700, 0, 0, 700, 700},   {0, 0, 0, 0, 300},
    {22, 0, 0, 700, 701},    {700, 700, 700, 0, 22},
    {33000, 0, 0, 33000, 0}, {70, 33000, 33000, 65, 830},
};

/** Buffers of one shape: what is read and updated has one bit of its own in each line. */
struct buffers {
    uint64_t *read, *update, *write, *other;
};

static uint64_t *lines(uint64_t n)
{
    return wring_test_guarded(n * WRING_TWIN_LINE);
}

static void set_word(uint64_t *run, uint64_t line, uint64_t value)
{
    run[line * WRING_TWIN_LINE / sizeof(*run) + line % 8] = value;
}

static struct wring_twin_work work_of(const struct buffers *buffers, unsigned shape)
{
    struct wring_twin_work work = {
        .read = wring_twin_all(buffers->read, shapes[shape].read * WRING_TWIN_LINE),
        .update = wring_twin_all(buffers->update, shapes[shape].update_span * WRING_TWIN_LINE),
        .write = wring_twin_all(buffers->write, shapes[shape].write * WRING_TWIN_LINE),
        .other = wring_twin_all(buffers->other, shapes[shape].other * WRING_TWIN_LINE),
    };
    work.update.lines = shapes[shape].update;
    return work;
}

static struct buffers make(unsigned shape)
{
    struct buffers buffers = {lines(shapes[shape].read), lines(shapes[shape].update_span),
                              lines(shapes[shape].write), lines(shapes[shape].other)};
    memset(buffers.read, 0, shapes[shape].read * WRING_TWIN_LINE);
    memset(buffers.other, 0, shapes[shape].other * WRING_TWIN_LINE);
    memset(buffers.write, 0x11, shapes[shape].write * WRING_TWIN_LINE);
    for (uint64_t i = 0; i < shapes[shape].update_span * 8; i++)
        buffers.update[i] = i * 0x9E3779B97F4A7C15u;
    return buffers;
}

/** Twins say what they saw, or have written it. */
static bool was_read(const struct wring_twin_tier *tier, const struct wring_twin_work *work,
                     unsigned store, uint64_t line)
{
    const uint64_t *written = work->write.base;
    uint64_t seen = wring_twin_run(tier, work, store);

    if (work->write.lines > line)
        seen |= written[line * 8 + line % 8];
    return (seen & MARK) == MARK;
}

/** @param run of `n` lines that the twin reads */
static void check_read(const struct wring_twin_tier *tier, const struct wring_twin_work *work,
                       unsigned store, uint64_t *run, uint64_t n)
{
    for (uint64_t line = 0; line < n; line += 1 + line / 16) {
        set_word(run, line, MARK);
        CHECK(was_read(tier, work, store, line), "%s store %u: line %llu of %llu unread",
              tier->name, store, (unsigned long long)line, (unsigned long long)n);
        set_word(run, line, 0);
    }
}

/** Guarded buffers end at an unmapped page, so whatever goes past one ends the test. */
static void run_shape(const struct wring_twin_tier *tier, unsigned shape, unsigned store)
{
    struct buffers buffers = make(shape);
    struct wring_twin_work work = work_of(&buffers, shape);
    uint64_t wrong = 0;

    check_read(tier, &work, store, buffers.read, shapes[shape].read);
    check_read(tier, &work, store, buffers.other, shapes[shape].other);
    wring_twin_run(tier, &work, store);
    for (uint64_t i = 0; i < shapes[shape].write * 8; i++)
        wrong += buffers.write[i] == UNTOUCHED;
    for (uint64_t i = 0; i < shapes[shape].update_span * 8; i++)
        wrong += buffers.update[i] != i * 0x9E3779B97F4A7C15u;
    CHECK(wrong == 0, "%s shape %u store %u: %llu words", tier->name, shape, store,
          (unsigned long long)wrong);
    wring_test_free_guarded();
}

static void all_lines_once(void)
{
    for (const struct wring_twin_tier *tier = wring_twin_tiers; tier->name != NULL; tier++)
        for (unsigned shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
            for (unsigned store = 0; wring_cpu_has(tier->tier) && store < WRING_TWIN_STORES;
                 store++)
                run_shape(tier, shape, store);
}

/** The updating loop is not left out by a compiler: another key changes every bit. */
static void updates_are_made(void)
{
    for (const struct wring_twin_tier *tier = wring_twin_tiers; tier->name != NULL; tier++) {
        if (!wring_cpu_has(tier->tier))
            continue;
        for (size_t n_read = 0; n_read <= 9; n_read += 9) {
            uint64_t *update = lines(9), *read = lines(n_read), wrong = 0;
            memset(update, 0x33, 9 * WRING_TWIN_LINE);
            struct wring_twin_block block = {
                (char *)read, (char *)update, (char *)update, n_read, 9, 0};
            tier->run(&block, WRING_TWIN_STREAM_UPDATES, UINT64_MAX);
            tier->fence();
            for (unsigned i = 0; i < 9 * 8; i++)
                wrong += update[i] != 0xCCCCCCCCCCCCCCCCu;
            CHECK(wrong == 0, "%s: %llu words", tier->name, (unsigned long long)wrong);
            wring_test_free_guarded();
        }
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"all_lines_once", all_lines_once},
        {"updates_are_made", updates_are_made},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
