/* SPDX-License-Identifier: Apache-2.0 */
/** Two ends on verbs with a rail or two between them that fail while puts and messages travel both
 *  ways: all of them arrive, once, in order and whole. */
#ifndef WRING_TESTS_PROVIDER_VERBS_LOSSES_H
#define WRING_TESTS_PROVIDER_VERBS_LOSSES_H

#include "tests/provider/ends.h"
#include "transport/providers/verbs/devices.h"

struct losses {
    const char *devices[2]; /* WRING_VERBS_DEVICES of each end */
    const char *qps;
    const char *timeout; /* WRING_VERBS_TIMEOUT; NULL: the default */
    const char *recover; /* WRING_VERBS_RECOVER; NULL: the default */
    const char *revive;  /* WRING_VERBS_REVIVE; NULL: the default */
    unsigned puts;       /* each way; `happen` may change it */

    /** Called between polls with how many puts have arrived; does what happens. */
    void (*happen)(void *arg, unsigned arrived);
    bool (*rests)(void *arg, unsigned end); /* is an end not polled now? NULL: both always are */
    void *arg;

    struct end a, b; /* out */
    unsigned wrong;  /* out: arrivals that were not what was put */
};

/** Open both ends, with regions of so many bytes, not yet connected. */
bool losses_open(struct losses *losses, size_t bytes);

/** Open both ends with regions of so many bytes, and connect. */
bool losses_pair(struct losses *losses, size_t bytes);

/** Open both ends and exchange. @return false where they did not come together */
bool losses_run(struct losses *losses);

/** All has arrived. Closes the ends. @param noticed  queue pairs were lost */
void losses_expect_survival(struct losses *losses, bool noticed);

/** Both were told of the end. Closes the ends. */
void losses_expect_end(struct losses *losses);

#endif
