/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/noise.h"

#include "compress/codec.h"

void wring_noise_begin(struct wring_noise *noise, const struct wring_codec *codec,
                       const struct wring_codec_context *context)
{
    const struct wring_philox_tier *tier =
        wring_kernels_pick(wring_philox_tiers, sizeof(wring_philox_tiers[0]), codec->tier);

    noise->stream = wring_codec_stream(context, WRING_DRAW_PRIVATE);
    noise->kernels = tier->kernels;
    noise->begin = noise->end = 0;
}

const uint32_t *wring_noise_of(struct wring_noise *noise, uint64_t element, uint64_t n,
                               uint64_t left)
{
    const uint64_t blocks = WRING_NOISE_RUN_WORDS / WRING_PHILOX_WORDS; /* of a run */

    if (element < noise->begin || element + n > noise->end) {
        uint64_t drawn = left < WRING_NOISE_WINDOW ? left : WRING_NOISE_WINDOW;
        uint64_t runs = (drawn + WRING_NOISE_RUN - 1) / WRING_NOISE_RUN;
        noise->begin = element;
        noise->end = element + drawn;
        noise->kernels->words(noise->words, &noise->stream, element / WRING_NOISE_RUN * blocks,
                              runs * blocks);
    }
    return noise->words + (element - noise->begin) / 2;
}
