/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What every test binary uses: checks that count, guarded memory, repeatable random numbers.
 *
 *     static void adds_up(void) { CHECK(1 + 1 == 2, "arithmetic is broken"); }
 *     int main(int argc, char **argv) { return wring_test_main(argc, argv, cases); }
 *
 * A binary exits 0 when all checks held, 1 when one did not, 77 when it was skipped.
 */
#ifndef WRING_TESTS_TEST_H
#define WRING_TESTS_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct wring_test_case {
    const char *name;
    void (*run)(void);
};

/** Run the cases whose names contain one of the arguments (all without arguments). {0} ends. */
int wring_test_main(int argc, char **argv, const struct wring_test_case *cases);

/** As wring_test_main(), of tests that do the library's arithmetic themselves: in its mode
 *  (base/fpenv.h). */
int wring_test_main_in_mode(int argc, char **argv, const struct wring_test_case *cases);

/** Count a failed check; prints where. Threads: safe. Use CHECK. */
__attribute__((format(printf, 4, 5))) void wring_test_fail(const char *file, int line,
                                                           const char *condition,
                                                           const char *format, ...);

/** End the whole binary as skipped (exit 77), with the reason. */
__attribute__((noreturn, format(printf, 1, 2))) void wring_test_skip(const char *format, ...);

/** The folder of measured traces that WRING_TEST_TRACES names; NULL where it names none. */
const char *wring_test_traces(void);

/** Failed checks so far. */
unsigned wring_test_failures(void);

/** Try it until it returns true, twenty times at most. @param attempt  returns false where this
 *  thread did not run for so long that nothing can be told of the outcome */
void wring_test_in_time(bool (*attempt)(void));

/** Check and go on. The message is a format with arguments; say what differs. */
#define CHECK(condition, ...)                                             \
    do {                                                                  \
        if (!(condition))                                                 \
            wring_test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    } while (0)

/** Check, and leave the calling function (void) where it does not hold. */
#define REQUIRE(condition, ...)                                           \
    do {                                                                  \
        if (!(condition)) {                                               \
            wring_test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
            return;                                                       \
        }                                                                 \
    } while (0)

/** Descriptors that this process has open, and some more of the look itself: to compare. */
unsigned wring_test_descriptors(void);

/**
 * Memory whose end is followed by an unmapped page and whose start is preceded by a canary.
 * Freed by wring_test_free_guarded(), which checks the canary, or at the end of each case.
 */
void *wring_test_guarded(size_t bytes);
void wring_test_free_guarded(void);

/** How many bytes before one of these buffers somebody wrote; 0: nobody did. Tells it once. */
size_t wring_test_guarded_harm(void);

/** The next number of a xorshift sequence; *state must not be 0. */
uint32_t wring_test_random(uint32_t *state);

/** Uniform in [-1, 1). */
float wring_test_random_float(uint32_t *state);

/** Numbers that are denser near zero, as gradients are. @return [n], guarded */
float *wring_test_gradient(uint64_t n, uint32_t seed);

#endif
