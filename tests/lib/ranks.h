/* SPDX-License-Identifier: Apache-2.0 */
/** Run a job whose ranks are threads of this process. */
#ifndef WRING_TESTS_RANKS_H
#define WRING_TESTS_RANKS_H

#include <wring/wring.h>

#define WRING_TEST_SEED 1234 /* of all jobs */

struct wring_test_job {
    uint32_t ranks;
    uint32_t ranks_per_node;     /* so many count as being on one host; 0: all on this one */
    uint32_t ranks_per_site;     /* WRING_SITE of each rank; 0: unset */
    const char *const *settings; /* "WRING_X=value", NULL-terminated; NULL: none */
    void *arg;
    /** One rank's part. The session is open; it is closed after this. */
    void (*run)(struct wring_session *session, uint32_t rank, void *arg);
    wring_log_fn log; /* NULL: standard error */
    void *log_arg;
    const struct wring_codec_ops *const *codecs;      /* of its own; NULL: none */
    const struct wring_codec_ops *const *last_codecs; /* the last rank's; NULL: the same */
};

/** Returns when all ranks are done. A session that does not open is a failed check. */
void wring_test_run_ranks(const struct wring_test_job *job);

/** Abort a group, and again while it is busy: a peer without a core may take longer than the 50 ms
 *  that wring_group_abort() waits. @return OK: its memory is the caller's; else the last status */
enum wring_status wring_test_abort(struct wring_group *group, uint64_t timeout_ns);

#endif
