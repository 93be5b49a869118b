/* SPDX-License-Identifier: Apache-2.0 */
/**
 * counts TIER: work whose instructions are counted, for counts.py, which runs it under callgrind.
 *
 * All that is counted happens inside counted(); its end is where callgrind writes down what it
 * counted, and the line that is printed here belongs to that: a name, and by how much the count is
 * to be divided, in what.
 */
#include "tests/counts/counts.h"

#include <string.h>

__attribute__((noinline, noclone)) void counted(void (*work)(void *arg), void *arg)
{
    work(arg);
    __asm__ volatile("" ::: "memory"); /* no jump into the work instead of a call */
}

void counts_say(double amount, const char *unit, const char *name)
{
    printf("%.0f %s %s\n", amount, unit, name);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: counts TIER|moves\n");
        return 2;
    }
    if (strcmp(argv[1], "moves") == 0)
        counts_moves();
    else
        counts_codecs(argv[1]);
    return wring_test_failures() > 0;
}
