/* SPDX-License-Identifier: Apache-2.0 */
/** What the failure tests share: jobs of real processes that exchange until something ends them. */
#ifndef WRING_TESTS_FAILING_JOB_H
#define WRING_TESTS_FAILING_JOB_H

#include "tests/lib/procs.h"

#define ELEMS 200000
#define DEADLINE_S 60

extern const char *const tcp[], *const shm[]; /* settings, NULL-terminated */
extern const char *const impatient[]; /* tcp, where some do not join: 8 s are for those that do */

extern struct procs_job job; /* too large for a stack frame that is read easily */

/** Forget the last job and describe the next. */
void start(uint32_t ranks, const char *const *settings, int (*run)(struct procs_rank *, void *));

/** What a rank does that exchanges until something ends it.
 *  @return 0 when steps were all done, 2 when it could not open, 3 when a later call failed */
int run_sums(struct procs_rank *rank, unsigned steps, void (*each)(struct procs_rank *, unsigned));

/** In a session that has failed: say what a post gives, and whether that takes time. */
void say_again(struct procs_rank *rank, struct wring_bucket *bucket);

/** The same for 20 steps, as a procs_job's run. */
int run_plain(struct procs_rank *rank, void *arg);

/** Every rank but one ended with an error that names that one. */
void check_named(const char *case_name, uint32_t culprit);

/** So many free ports of loopback in a row, as things stand now. They are below those that the
 *  system gives away, so that no connection takes them meanwhile. @return the first; 0: none */
unsigned find_ports(unsigned n);

/** Entries of /dev/shm by wring's name: those of other programs come and go. */
int count_left_behind(void);

/** A rank's exit code, and what its text must hold; a NULL ends the wants. */
void check_said(uint32_t process, int code, const char *const *wants);
#define SAID(process, code, ...) check_said(process, code, (const char *const[]){__VA_ARGS__, NULL})

#endif
