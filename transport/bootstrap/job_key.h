/* SPDX-License-Identifier: Apache-2.0 */
/** The job's key, from the program, WRING_KEY or WRING_KEY_FILE. */
#ifndef WRING_TRANSPORT_JOB_KEY_H
#define WRING_TRANSPORT_JOB_KEY_H

#include "base/config.h"
#include "base/log.h"

#define WRING_KEY_FILE_BYTES_MIN 16
#define WRING_KEY_FILE_BYTES_MAX 65536

/**
 * Settle config->key, which nothing else reads before.
 *
 * A key is the bytes that are given, all of them: a text of the program or of WRING_KEY, or a whole
 * file but for line ends at its end. One that is longer than config->key, or holds a NUL, is
 * replaced by its digest (HKDF-SHA256) in hexadecimal digits.
 *
 * A file is refused, with the reason, where others than its owner may read it, where it is no
 * regular file, and where it has too few bytes to be a secret or more than a key could have.
 *
 * @param given  the program's; NULL: WRING_KEY, and else WRING_KEY_FILE, count
 * Errors, logged: WRING_ERR_INVALID, WRING_ERR_SYSTEM.
 */
enum wring_status wring_job_key_read(const struct wring_log *log, const char *given,
                                     struct wring_config *config);

#endif
