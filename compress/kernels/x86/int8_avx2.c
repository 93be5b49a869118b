/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/x86/int8.h"

const struct wring_int8_kernels wring_int8_avx2 = {
    encode_singly,
    decode,
    decode_add,
};
