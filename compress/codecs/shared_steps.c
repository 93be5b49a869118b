/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/shared_steps.h"

struct wring_shared_steps wring_shared_steps_make(double width, bool saturates,
                                                  enum wring_cpu_tier tier)
{
    unsigned code = 4u << (unsigned)width, sum = saturates ? 16 : code < 8 ? 8 : code;
    const struct wring_steps_tier *picked =
        wring_kernels_pick(wring_steps_tiers, sizeof(wring_steps_tiers[0]), tier);

    return (struct wring_shared_steps){
        .code = code, .sum = sum, .back = saturates ? code : sum, .kernels = picked->kernels};
}

static uint32_t most_of(unsigned bits)
{
    return (UINT32_C(1) << (bits - 1)) - 1;
}

uint32_t wring_shared_steps_most(const struct wring_shared_steps *steps, uint32_t ranks)
{
    uint32_t own = most_of(steps->code), share = most_of(steps->sum) / ranks;
    return own < share ? own : share;
}

uint32_t wring_shared_steps_most_ranks(const struct wring_shared_steps *steps)
{
    return most_of(steps->sum);
}

unsigned wring_shared_steps_bits(const struct wring_shared_steps *steps, uint32_t phase)
{
    return phase == 0 ? steps->code : steps->back;
}

const struct wring_steps_width *wring_shared_steps_width(const struct wring_shared_steps *steps,
                                                         unsigned bits)
{
    return &steps->kernels->width[bits / 8];
}

static wring_steps_add_fn find_add(const struct wring_shared_steps *steps)
{
    const struct wring_steps_kernels *kernels = steps->kernels;

    if (steps->code == 4)
        return steps->sum == 8 ? kernels->add4_to8 : kernels->add4_to16;
    if (steps->code == 8)
        return steps->sum == 8 ? kernels->add8 : kernels->add8_to16;
    return kernels->add16;
}

enum wring_status wring_shared_steps_add(const struct wring_shared_steps *steps, void *sum,
                                         const void *code, size_t code_bytes, uint64_t n)
{
    if (code_bytes != wring_shared_steps_bytes(steps->code, n))
        return WRING_ERR_FRAME;
    return find_add(steps)(sum, code, n) ? WRING_OK : WRING_ERR_FRAME;
}

size_t wring_shared_steps_end(const struct wring_shared_steps *steps, void *sum, uint64_t n,
                              uint64_t *cut)
{
    const struct wring_steps_kernels *kernels = steps->kernels;

    if (steps->back != steps->sum)
        *cut += (steps->back == 4 ? kernels->cut_to4 : kernels->cut_to8)(sum, n);
    return wring_shared_steps_bytes(steps->back, n);
}
