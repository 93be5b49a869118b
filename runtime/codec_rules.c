/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/codec_rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "runtime/session/session.h"

#define WRING_MODULE "rules"
#define MIN_ELEMS 16384 /* 64 KiB of f32: below that a codec seldom saves time on any link */

#define SPACES " \t\r\n"

struct rule {
    char name[WRING_NAME_MAX], value[WRING_CODEC_SPEC_MAX];
};

/** The text of [begin, end) without the spaces around it. @return whether room has place for it */
static bool trim(const char *begin, const char *end, char *room, size_t room_bytes)
{
    while (begin < end && strchr(SPACES, *begin) != NULL)
        begin++;
    while (begin < end && strchr(SPACES, end[-1]) != NULL)
        end--;
    bool fits = (size_t)(end - begin) < room_bytes;
    snprintf(room, room_bytes, "%.*s", (int)(end - begin), begin);
    return fits;
}

/** The rule at *rest, which moves behind it; rules of spaces alone are none. @param well  whether
 * it has the form of one. @return false at the end */
static bool next_rule(const char **rest, struct rule *rule, bool *well)
{
    *rest += strspn(*rest, ";" SPACES);
    if (**rest == '\0')
        return false;
    const char *begin = *rest, *end = begin + strcspn(begin, ";");
    const char *equals = memchr(begin, '=', (size_t)(end - begin));

    *rest = end;
    *well = equals != NULL && trim(begin, equals, rule->name, sizeof(rule->name)) &&
            trim(equals + 1, end, rule->value, sizeof(rule->value)) && rule->name[0] != '\0' &&
            rule->value[0] != '\0';
    return true;
}

static bool read_elems(const char *value, uint64_t *elems)
{
    errno = 0;
    *elems = strtoull(value, NULL, 10);
    return value[strspn(value, "0123456789")] == '\0' && errno == 0;
}

static bool can_make(const struct wring_session *session, const char *spec, char *why,
                     size_t why_bytes)
{
    struct wring_codec *codec;

    if (wring_codec_create(spec, session->config.cpu, session->codecs, why, why_bytes, &codec) !=
        WRING_OK)
        return false;
    wring_codec_destroy(codec);
    return true;
}

enum wring_status wring_codec_rules_check(const struct wring_session *session)
{
    const char *rest = session->config.codec_rules;
    char why[WRING_TEXT_MAX];
    struct rule rule;
    uint64_t elems;
    bool well;

    while (next_rule(&rest, &rule, &well)) {
        if (!well)
            snprintf(
                why, sizeof(why),
                "a rule is PATTERN=CODEC, min=ELEMENTS or 1d=CODEC, of at most %d and %d bytes",
                WRING_NAME_MAX - 1, WRING_CODEC_SPEC_MAX - 1);
        else if (strcmp(rule.name, "min") == 0 && !read_elems(rule.value, &elems))
            snprintf(why, sizeof(why), "min=%s: min is a number of elements", rule.value);
        else if (strcmp(rule.name, "min") == 0 || can_make(session, rule.value, why, sizeof(why)))
            continue;
        wring_error(&session->log, "WRING_CODEC_RULES=%s: %s", session->config.codec_rules, why);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

static bool takes_codecs(const struct wring_bucket_params *bucket)
{
    bool type =
        bucket->dtype == WRING_F32 || bucket->dtype == WRING_F16 || bucket->dtype == WRING_BF16;
    return type &&
           (bucket->op == WRING_SUM || bucket->op == WRING_AVG || bucket->op == WRING_PREMUL_SUM);
}

const char *wring_codec_rules_find(const struct wring_session *session,
                                   const struct wring_bucket_params *bucket, char *room,
                                   size_t room_bytes)
{
    const char *rest = session->config.codec_rules;
    bool flat = bucket->shape.rows == 1 || bucket->shape.columns == 1;
    char fits[WRING_CODEC_SPEC_MAX] = "none", of_flat[WRING_CODEC_SPEC_MAX] = "none";
    bool well, found = false;
    uint64_t least = MIN_ELEMS;
    struct rule rule;

    while (next_rule(&rest, &rule, &well)) {
        if (strcmp(rule.name, "min") == 0)
            read_elems(rule.value, &least);
        else if (strcmp(rule.name, "1d") == 0)
            memcpy(of_flat, rule.value, sizeof(of_flat));
        else if (!found && fnmatch(rule.name, bucket->name, FNM_NOESCAPE) == 0) {
            memcpy(fits, rule.value, sizeof(fits));
            found = true;
        }
    }
    bool any = *session->config.codec_rules != '\0' && takes_codecs(bucket);
    snprintf(room, room_bytes, "%s",
             !any || bucket->elems < least ? "none"
             : flat                        ? of_flat
                                           : fits);
    return room;
}
