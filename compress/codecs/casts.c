/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/casts.h"

#include <string.h>

#include "compress/kernels/streaming.h"
#include "compress/noise.h"

#define RUN WRING_NOISE_RUN
#define CODE_BYTES 2

/** What is asked for, and the noise. */
struct cast {
    wring_cast_random_fn encode;
    uint32_t top;
    struct wring_noise noise;
};

/** Some elements of one run of noise, which they need not begin. */
static void encode_part(struct cast *cast, uint64_t element, const float *src, uint64_t n,
                        float *residual, void *code)
{
    uint64_t before = element % RUN;
    float some[RUN] = {0}, left[RUN] = {0};
    uint16_t codes[RUN];

    memcpy(some + before, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(left + before, residual, n * sizeof(*residual));
    cast->encode(codes, some, residual != NULL ? left : NULL, RUN,
                 wring_noise_of(&cast->noise, element - before, RUN, RUN), cast->top, false);
    memcpy(code, codes + before, n * CODE_BYTES);
    if (residual != NULL)
        memcpy(residual, left + before, n * sizeof(*residual));
}

size_t wring_cast_random(const struct wring_codec *codec, const struct wring_codec_context *context,
                         wring_cast_random_fn encode, uint32_t top, const float *src,
                         uint64_t elems, float *residual, void *code)
{
    struct cast cast = {.encode = encode, .top = top};
    uint64_t done = wring_codec_unit_length((RUN - context->element % RUN) % RUN, elems);
    bool is_long = WRING_IS_LONG(elems);

    wring_noise_begin(&cast.noise, codec, context);
    if (done > 0)
        encode_part(&cast, context->element, src, done, residual, code);
    bool far = is_long && ((uintptr_t)code + done * CODE_BYTES) % WRING_LINE == 0;
    for (; done < elems; done += WRING_NOISE_WINDOW) {
        uint64_t n = wring_codec_unit_length(WRING_NOISE_WINDOW, elems - done);
        if (is_long) /* it comes while noise is drawn */
            wring_streaming_fetch(src + done, n * sizeof(*src));
        const uint32_t *noise =
            wring_noise_of(&cast.noise, context->element + done, n, elems - done);
        encode((char *)code + done * CODE_BYTES, src + done,
               residual != NULL ? residual + done : NULL, n, noise, top, far);
    }
    if (far)
        wring_streaming_settle();
    return elems * CODE_BYTES;
}
