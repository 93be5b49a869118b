/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which codec a bucket takes whose program names none: WRING_CODEC_RULES. A setting gives a codec
 * to a program that knows nothing of codecs.
 *
 *     *embed*=bf16; min=4096; 1d=none; *=onebit:block=128+ef
 *
 * Rules are separated by semicolons. The first PATTERN=CODEC whose pattern (fnmatch(3), where *
 * also takes a slash) fits the bucket's whole name decides. Before that, min=ELEMENTS has smaller
 * buckets travel as they are (16384 unless said), and 1d=CODEC says what a shape of one row or one
 * column takes (none unless said). A bucket without a shape counts as of more dimensions. One that
 * no rule fits travels as it is.
 */
#ifndef WRING_RUNTIME_CODEC_RULES_H
#define WRING_RUNTIME_CODEC_RULES_H

#include <stddef.h>

#include <wring/status.h>

struct wring_bucket_params;
struct wring_session;

/** Whether the session's rules can be read, and each codec that they name be made: WRING_OK, or
 *  WRING_ERR_INVALID, logged. */
enum wring_status wring_codec_rules_check(const struct wring_session *session);

/** Of a session whose rules have been checked. @return a spec, in room: "none" where no rule fits,
 *  or no codec takes the bucket's type and operation */
const char *wring_codec_rules_find(const struct wring_session *session,
                                   const struct wring_bucket_params *bucket, char *room,
                                   size_t room_bytes);

#endif
