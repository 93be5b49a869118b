/* SPDX-License-Identifier: Apache-2.0 */
/** What the codecs see of themselves. Private to compress/. */
#ifndef WRING_COMPRESS_CODEC_H
#define WRING_COMPRESS_CODEC_H

#include "base/cpu.h"
#include <wring/codec.h>

struct wring_codec {
    const struct wring_codec_ops *ops;
    struct wring_codec_info info;
    char spec[WRING_CODEC_SPEC_MAX];
    enum wring_cpu_tier tier;              /* highest allowed; init lowers it to what it took */
    double params[WRING_CODEC_PARAMS_MAX]; /* in the order of ops->params */
    const void *kernels;                   /* the codec's own tier table entry */
};

extern const struct wring_codec_ops wring_codec_none;
extern const struct wring_codec_ops wring_codec_bf16;
extern const struct wring_codec_ops wring_codec_int8;
extern const struct wring_codec_ops wring_codec_onebit;
extern const struct wring_codec_ops wring_codec_topk;

#endif
