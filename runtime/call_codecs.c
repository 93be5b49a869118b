/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/call_codecs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/codec_rules.h"
#include "runtime/session/session.h"

#define WRING_MODULE "rules"
#define LIST_BYTES 512

/** Operations by name. @param by_rule  those alone for which a rule decides, or all. @return how
 * many */
static unsigned list_operations(const struct wring_call_codecs_dropin *dropin, const char *rules,
                                bool by_rule, char *list, size_t bytes)
{
    struct wring_codec_rule rule;
    unsigned n = 0;
    size_t at = 0;

    list[0] = '\0';
    for (unsigned i = 0; dropin->operations[i].name != NULL && at < bytes; i++) {
        const char *name = dropin->operations[i].name;
        if (by_rule && wring_codec_rules_decide(rules, name, &rule) == NULL)
            continue;
        at += (size_t)snprintf(list + at, bytes - at, "%s%s", n > 0 ? ", " : "", name);
        n++;
    }
    return n;
}

/* ---- reading ---- */

/** @return what a codec keeps from call to call; NULL: nothing */
static const char *what_it_keeps(const struct wring_codec_info *info)
{
    return info->states > 0 ? "state" : (info->flags & WRING_CODEC_FEEDBACK) ? "a residual" : NULL;
}

/** @return why an operation cannot take a codec; NULL: it can */
static const char *why_unfit(const struct wring_codec_info *info, bool sends_back)
{
    if (what_it_keeps(info) != NULL)
        return "it keeps something from call to call, such as +ef, which calls have no bucket for";
    if (!sends_back && info->rounds > 0)
        return "it has rounds, which only an allreduce and a reduce have";
    if (!sends_back && (info->flags & WRING_CODEC_TWO_WAYS) != 0)
        return "it has a way back, which only an allreduce and a reduce have";
    return NULL;
}

/** The spec as all ranks write it; "": there is nothing to encode. */
static void set_spec(struct wring_call_codec *codec, const struct wring_codec_info *info)
{
    bool raw = (info->flags & WRING_CODEC_RAW) != 0;
    snprintf(codec->spec, sizeof(codec->spec), "%s", raw ? "" : info->spec);
}

/** The drop-in's own codec. @param out  out: its spec, if there is one. @param unfit  out: why an
 *  operation that sends nothing back cannot take it; NULL: it can */
static enum wring_status read_own_codec(const struct wring_call_codecs_dropin *dropin,
                                        const char *spec, const char *cpu,
                                        const struct wring_log *log, struct wring_call_codec *out,
                                        const char **unfit)
{
    struct wring_codec *codec;
    char why[256];

    if (spec[0] == '\0')
        return WRING_OK;
    enum wring_status status = wring_codec_create(spec, cpu, NULL, why, sizeof(why), &codec);
    if (status != WRING_OK) {
        wring_error(log, "%s=%s cannot be used: %s", dropin->setting, spec, why);
        return status;
    }
    const char *kept = what_it_keeps(wring_codec_info(codec));
    if (kept != NULL) {
        wring_error(log,
                    "%s=%s cannot be used: it keeps %s from call to call, which calls have no "
                    "bucket for: leave +ef out, or name another codec",
                    dropin->setting, spec, kept);
        status = WRING_ERR_UNSUPPORTED;
    }
    set_spec(out, wring_codec_info(codec));
    *unfit = why_unfit(wring_codec_info(codec), false);
    wring_codec_destroy(codec);
    return status;
}

/** Both settings speak of the same calls, or one of them of none. */
static bool contradict(const struct wring_call_codecs_dropin *dropin, const char *own,
                       const struct wring_config *config, const struct wring_log *log)
{
    char list[LIST_BYTES];
    unsigned all = list_operations(dropin, "", false, list, sizeof(list));
    bool ruled = list_operations(dropin, config->codec_rules, true, list, sizeof(list)) == all;

    if (own[0] != '\0' && ruled) {
        wring_error(log,
                    "%s=%s counts for no call, since WRING_CODEC_RULES decides for all of them "
                    "(%s): leave one of the two out",
                    dropin->setting, own, list);
        return true;
    }
    if (own[0] == '\0' && list[0] != '\0' && wring_config_given(config, dropin->min_setting)) {
        wring_error(log,
                    "%s is the size of %s, which names no codec: WRING_CODEC_RULES takes "
                    "min=ELEMENTS instead",
                    dropin->min_setting, dropin->setting);
        return true;
    }
    return false;
}

/** Of an operation for which a rule decides. */
static enum wring_status take_rule(const struct wring_codec_rule *rule,
                                   const struct wring_config *config, struct wring_call_codec *out)
{
    struct wring_codec *codec;
    char why[256];

    *out = (struct wring_call_codec){.by_rule = true};
    wring_codec_rules_sizes(config->codec_rules, &out->least, &out->most);
    enum wring_status status =
        wring_codec_create(rule->value, config->cpu, NULL, why, sizeof(why), &codec);
    if (status != WRING_OK)
        return status;
    set_spec(out, wring_codec_info(codec));
    wring_codec_destroy(codec);
    return WRING_OK;
}

enum wring_status wring_call_codecs_read(struct wring_call_codecs *codecs,
                                         const struct wring_call_codecs_dropin *dropin,
                                         const struct wring_config *config, const char *own,
                                         uint64_t own_bytes, const struct wring_log *log)
{
    struct wring_call_codec unruled = {.least = own_bytes, .most = UINT64_MAX, .in_bytes = true};
    struct wring_codec_rule rule;
    const char *unfit = NULL;

    enum wring_status status =
        wring_codec_rules_check_text(log, config->codec_rules, config->cpu, NULL);
    if (status == WRING_OK && contradict(dropin, own, config, log))
        status = WRING_ERR_INVALID;
    if (status == WRING_OK)
        status = read_own_codec(dropin, own, config->cpu, log, &unruled, &unfit);
    *codecs = (struct wring_call_codecs){0};
    for (unsigned i = 0; dropin->operations[i].name != NULL && status == WRING_OK; i++) {
        const char *name = dropin->operations[i].name;
        codecs->of[i] = unruled;
        if (wring_codec_rules_decide(config->codec_rules, name, &rule) != NULL) {
            status = take_rule(&rule, config, &codecs->of[i]);
        } else if (unfit != NULL && !dropin->operations[i].sends_back) {
            codecs->of[i] = (struct wring_call_codec){.unfit = unfit};
        }
    }
    return status;
}

/* ---- rules that cannot be used, or never count ---- */

enum wring_status wring_call_codecs_check(const struct wring_call_codecs *codecs,
                                          const struct wring_call_codecs_dropin *dropin,
                                          const char *cpu, const struct wring_log *log)
{
    enum wring_status status = WRING_OK;
    struct wring_codec *codec;
    char why[256];

    for (unsigned i = 0; dropin->operations[i].name != NULL && status == WRING_OK; i++) {
        const char *spec = codecs->of[i].spec, *name = dropin->operations[i].name;
        if (!codecs->of[i].by_rule || spec[0] == '\0')
            continue;
        status = wring_codec_create(spec, cpu, NULL, why, sizeof(why), &codec);
        if (status != WRING_OK) {
            wring_error(log, "WRING_CODEC_RULES: %s", why);
            break;
        }
        const char *unfit = why_unfit(wring_codec_info(codec), dropin->operations[i].sends_back);
        if (unfit != NULL) {
            wring_error(log,
                        "WRING_CODEC_RULES: %s of %s cannot take %s: %s; put %s=CODEC before that "
                        "rule, with another codec or none",
                        name, dropin->library, spec, unfit, name);
            status = WRING_ERR_UNSUPPORTED;
        }
        wring_codec_destroy(codec);
    }
    return status;
}

/** The operations that the drop-in's own codec does not fit. @return why; NULL: there are none */
static const char *list_unfit(const struct wring_call_codecs *codecs,
                              const struct wring_call_codecs_dropin *dropin, char *list,
                              size_t bytes)
{
    const char *why = NULL;
    size_t at = 0;

    for (unsigned i = 0; dropin->operations[i].name != NULL && at < bytes; i++)
        if (codecs->of[i].unfit != NULL) {
            at += (size_t)snprintf(list + at, bytes - at, "%s%s", at > 0 ? ", " : "",
                                   dropin->operations[i].name);
            why = codecs->of[i].unfit;
        }
    return why;
}

void wring_call_codecs_warn(const struct wring_call_codecs *codecs,
                            const struct wring_call_codecs_dropin *dropin, const char *rules,
                            const struct wring_log *log)
{
    char list[LIST_BYTES], names[LIST_BYTES];
    const char *operations[WRING_CALL_CODECS];
    size_t n = 0;

    const char *unfit = list_unfit(codecs, dropin, list, sizeof(list));
    if (unfit != NULL)
        wring_warn(log, "%s leaves %s of %s exact: %s", dropin->setting, list, dropin->library,
                   unfit);

    list_operations(dropin, "", false, names, sizeof(names));
    while (dropin->operations[n].name != NULL) {
        operations[n] = dropin->operations[n].name;
        n++;
    }
    if (wring_codec_rules_never(rules, operations, n, WRING_CODEC_RULE_NO_SUCH_NAME, list,
                                sizeof(list)))
        wring_warn(log, "WRING_CODEC_RULES: %s: never counts in %s: its sums are called %s", list,
                   dropin->library, names);
    if (wring_codec_rules_never(rules, operations, n, WRING_CODEC_RULE_RULES_BEFORE, list,
                                sizeof(list)))
        wring_warn(log,
                   "WRING_CODEC_RULES: %s: never counts in %s: rules before it decide for all that "
                   "it fits (%s); put it before them",
                   list, dropin->library, names);
    if (wring_codec_rules_never(rules, operations, n, WRING_CODEC_RULE_NO_SHAPE, list,
                                sizeof(list)))
        wring_warn(log,
                   "WRING_CODEC_RULES: %s: never counts in %s: its calls have no shape; give rules "
                   "by name (%s)",
                   list, dropin->library, names);
    if (wring_codec_rules_never(rules, operations, n, WRING_CODEC_RULE_NOTHING_TO_SIZE, list,
                                sizeof(list)))
        wring_warn(log,
                   "WRING_CODEC_RULES: %s: never counts in %s: no rule names a codec for one of "
                   "%s; %s has its own size, %s",
                   list, dropin->library, names, dropin->setting, dropin->min_setting);
}

/* ---- agreeing ---- */

static void describe(const struct wring_call_codec *codec, char *text, size_t bytes)
{
    const char *unit = codec->in_bytes ? "bytes" : "elements";

    if (codec->spec[0] == '\0')
        snprintf(text, bytes, "none");
    else if (codec->most == UINT64_MAX)
        snprintf(text, bytes, "%s from %" PRIu64 " %s on", codec->spec, codec->least, unit);
    else
        snprintf(text, bytes, "%s from %" PRIu64 " to %" PRIu64 " %s", codec->spec, codec->least,
                 codec->most, unit);
}

/** @param first  of rank 0. @param text  out: what differs; "": nothing */
static enum wring_status compare(const struct wring_call_codecs *codecs,
                                 const struct wring_call_codecs_dropin *dropin,
                                 struct wring_reader *first, uint32_t rank, char *text,
                                 size_t bytes)
{
    char own[WRING_CODEC_SPEC_MAX + 80], other[sizeof(own)];

    text[0] = '\0';
    for (unsigned i = 0; dropin->operations[i].name != NULL; i++) {
        describe(&codecs->of[i], own, sizeof(own));
        wring_read_text(first, other, sizeof(other));
        if (first->failed)
            return WRING_ERR_FRAME;
        if (strcmp(own, other) == 0)
            continue;
        snprintf(text, bytes,
                 "%s: rank 0 has codec %s, rank %" PRIu32
                 " has %s: all ranks need the same WRING_CODEC_RULES, %s and %s",
                 dropin->operations[i].name, other, rank, own, dropin->setting,
                 dropin->min_setting);
        return WRING_ERR_MISMATCH;
    }
    return WRING_OK;
}

enum wring_status wring_call_codecs_agree(const struct wring_call_codecs *codecs,
                                          const struct wring_call_codecs_dropin *dropin,
                                          struct wring_session *session)
{
    char own[WRING_CODEC_SPEC_MAX + 80], text[WRING_TEXT_MAX];
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    for (unsigned i = 0; session->rank == 0 && dropin->operations[i].name != NULL; i++) {
        describe(&codecs->of[i], own, sizeof(own));
        wring_write_sized(&writer, own, strlen(own));
    }
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    struct wring_reader first = wring_blobs_reader(&blobs, 0);
    status = compare(codecs, dropin, &first, session->rank, text, sizeof(text));
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, text);
}

/* ---- a call ---- */

const char *wring_call_codecs_find(const struct wring_call_codecs *codecs, unsigned operation,
                                   enum wring_dtype dtype, enum wring_op op, uint64_t elems)
{
    const struct wring_call_codec *codec = &codecs->of[operation];
    if (codec->spec[0] == '\0' || !wring_codec_rules_take(dtype, op))
        return NULL;
    uint64_t size = codec->in_bytes ? elems * wring_dtype_bytes(dtype) : elems;
    return size >= codec->least && size <= codec->most ? codec->spec : NULL;
}
