/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/vector/int8.h"

const struct wring_int8_kernels OF_TIER(wring_int8) = {
    encode_singly,
    decode,
    decode_add,
};
