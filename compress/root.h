/* SPDX-License-Identifier: Apache-2.0 */
/** Square roots without the C library, alike everywhere. Private to compress/. */
#ifndef WRING_COMPRESS_ROOT_H
#define WRING_COMPRESS_ROOT_H

/**
 * The largest float32 whose square, in binary64, is not above that.
 * @param square  finite, from 2^-252 to 2^254
 */
float wring_root_below(double square);

#endif
