/* SPDX-License-Identifier: Apache-2.0 */
/** Codecs of a program's own: their tables, as whatever release of the header laid them out. */
#ifndef WRING_COMPRESS_OWN_H
#define WRING_COMPRESS_OWN_H

#include <wring/codec.h>

/**
 * Take an author's table: entries that it lacks become zero.
 * @return whether its size can be one, and no entry is set that this release lacks
 */
bool wring_own_read(const struct wring_codec_ops *theirs, struct wring_codec_ops *out);

#endif
