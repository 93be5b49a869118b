/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/root.h"

#include "compress/kernels/bits.h"

float wring_root_below(double square)
{
    uint64_t bits;
    double guess;

    memcpy(&bits, &square, sizeof(bits));
    bits = (bits >> 1) + (UINT64_C(0x3FF) << 51); /* half the exponent */
    memcpy(&guess, &bits, sizeof(guess));
    for (int i = 0; i < 5; i++)
        guess = 0.5 * (guess + square / guess);
    float root = (float)guess;
    if ((double)root * (double)root > square)
        return wring_float_of(wring_bits_of(root) - 1);
    float next = wring_float_of(wring_bits_of(root) + 1);
    return (double)next * (double)next > square ? root : next;
}
