/* SPDX-License-Identifier: Apache-2.0 */
/** Codec specs: any text is refused with a reason, or has a canonical form that means the same. */
#include "tests/fuzz/fuzz.h"
#include <wring/codec.h>

#define WHY 100

static struct wring_codec *create(const char *spec)
{
    struct wring_codec *codec = NULL;
    char *why = malloc(WHY);
    FUZZ_CHECK(why != NULL, "out of memory");
    memset(why, 'x', WHY);

    enum wring_status status = wring_codec_create(spec, "scalar", NULL, why, WHY, &codec);
    FUZZ_CHECK((status == WRING_OK) == (codec != NULL), "%s: status %d", spec, status);
    FUZZ_CHECK(codec != NULL || (status == WRING_ERR_INVALID && memchr(why, '\0', WHY) != NULL &&
                                 why[0] != '\0'),
               "%s: refused without a reason", spec);
    free(why);
    return codec;
}

static void check_info(const struct wring_codec *codec)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    FUZZ_CHECK(strlen(info->spec) < WRING_CODEC_SPEC_MAX && info->name[0] != '\0', "%s",
               info->spec);
    if (info->unit == 0) /* the whole bucket is one */
        return;
    FUZZ_CHECK(wring_codec_bound(codec, 0) == 0 && wring_codec_bound(codec, info->unit) > 0 &&
                   wring_codec_bound(codec, 2 * info->unit) ==
                       2 * wring_codec_bound(codec, info->unit),
               "%s: unit %zu", info->spec, (size_t)info->unit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct wring_codec *codec = create(text);

    if (codec != NULL) {
        const struct wring_codec_info *info = wring_codec_info(codec);
        struct wring_codec *again = create(info->spec);
        FUZZ_CHECK(again != NULL, "%s: its own canonical form is refused", info->spec);
        const struct wring_codec_info *same = wring_codec_info(again);
        FUZZ_CHECK(strcmp(info->spec, same->spec) == 0 && info->flags == same->flags &&
                       info->unit == same->unit,
                   "%s became %s", info->spec, same->spec);
        check_info(codec);
        wring_codec_destroy(again);
    }
    wring_codec_destroy(codec);
    free(text);
    return 0;
}
