/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/autotune/codecs.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define WRING_MODULE "plan"

/** @return the list as it was where it has that one already */
static enum wring_status add_codec(const struct wring_session *session, const char *spec,
                                   struct wring_collective_bench_codecs *out)
{
    struct wring_codec *codec;
    char why[WRING_TEXT_MAX];
    enum wring_status status =
        wring_codec_create(spec, session->config.cpu, session->codecs, why, sizeof(why), &codec);

    if (status != WRING_OK) {
        wring_error(&session->log, "WRING_PLAN_CODECS=%s: %s", session->config.plan_codecs, why);
        return status;
    }
    const struct wring_codec_info *info = wring_codec_info(codec);
    bool known = (info->flags & WRING_CODEC_RAW) != 0;
    for (uint32_t i = 0; i < out->n; i++)
        known = known || strcmp(out->specs[i], info->spec) == 0;
    if (!known && out->n < WRING_COLLECTIVE_BENCH_CODECS_MAX - 1) /* none is one, too */
        snprintf(out->specs[out->n++], WRING_CODEC_SPEC_MAX, "%s", info->spec);
    wring_codec_destroy(codec);
    return WRING_OK;
}

enum wring_status wring_autotune_listed(const struct wring_session *session,
                                        struct wring_collective_bench_codecs *out)
{
    const char *list = session->config.plan_codecs;
    const char *rest = list[0] != '\0' ? list : NULL;
    enum wring_status status = WRING_OK;
    struct wring_list_item item;

    out->n = 0;
    while (status == WRING_OK && wring_list_next(&rest, &item)) {
        char spec[WRING_CONFIG_TEXT];
        if (item.length == 0) {
            wring_error(&session->log,
                        "WRING_PLAN_CODECS=%s: nothing stands before or after a comma", list);
            return WRING_ERR_INVALID;
        }
        snprintf(spec, sizeof(spec), "%.*s", (int)item.length, item.text);
        status = add_codec(session, spec, out);
    }
    return status;
}

enum wring_status wring_autotune_codecs(const struct wring_session *session,
                                        const struct wring_autotune *autotune,
                                        struct wring_collective_bench_codecs *out)
{
    enum wring_status status = wring_autotune_listed(session, out);
    for (uint32_t i = 0; i < autotune->iterations.n && status == WRING_OK; i++)
        status = add_codec(
            session, wring_codec_info(autotune->iterations.tensors[i].bucket->codec)->spec, out);
    return status;
}

void wring_autotune_write_codecs(const struct wring_collective_bench_codecs *codecs,
                                 struct wring_writer *out)
{
    wring_write_u32(out, codecs->n);
    for (uint32_t i = 0; i < codecs->n; i++)
        wring_write_sized(out, codecs->specs[i], strlen(codecs->specs[i]));
}

void wring_autotune_read_codecs(struct wring_reader *in, struct wring_collective_bench_codecs *out)
{
    out->n = wring_read_u32(in);
    if (out->n > WRING_COLLECTIVE_BENCH_CODECS_MAX) {
        in->failed = true;
        out->n = 0;
    }
    for (uint32_t i = 0; i < out->n; i++)
        wring_read_text(in, out->specs[i], WRING_CODEC_SPEC_MAX);
}
