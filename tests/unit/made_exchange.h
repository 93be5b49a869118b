/* SPDX-License-Identifier: Apache-2.0 */
/** A launcher's exchange played by the test: what rank 0 tells is kept, and told to the others. */
#ifndef WRING_TESTS_MADE_EXCHANGE_H
#define WRING_TESTS_MADE_EXCHANGE_H

#include "tests/lib/lines.h"
#include "transport/bootstrap/launcher.h"

struct made_exchange {
    struct wring_config config; /* the defaults, and what the test sets beside them */
    struct wring_log log;
    struct wring_test_lines lines;
};

/** What rank 0 told last, or what the others are to hear. */
extern char made_told[WRING_LAUNCHER_TEXT];

/** @param settings "NAME=VALUE" each; NULL ends */
void made_exchange_init(struct made_exchange *made, const char *const *settings);

/** Meet as one of two ranks. The caller closes what rank 0 listens at: out->root_fd. */
enum wring_status made_exchange_meet(struct made_exchange *made, uint32_t rank,
                                     struct wring_launcher_meeting *out);

#endif
