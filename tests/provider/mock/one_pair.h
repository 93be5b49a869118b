/* SPDX-License-Identifier: Apache-2.0 */
/** Two ends on verbs in one process, with settings of the test's, and what they say. */
#ifndef WRING_TESTS_PROVIDER_MOCK_ONE_PAIR_H
#define WRING_TESTS_PROVIDER_MOCK_ONE_PAIR_H

#include "tests/provider/ends.h"

struct one_pair {
    struct end a, b;
    char said[8192]; /* lines of both */
};

/** Open and connect. @param settings  NAME, VALUE, ..., NULL; both ends' */
bool one_pair_open(struct one_pair *pair, const char *const *settings);
void one_pair_close(struct one_pair *pair);

/** How many lines hold a text; the last of them, or "", in `line`. */
unsigned one_pair_lines(const struct one_pair *pair, const char *text, char *line, size_t bytes);

#endif
