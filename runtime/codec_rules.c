/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/codec_rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "runtime/bucket.h"
#include "runtime/session/session.h"

#define WRING_MODULE "rules"
#define LIST_BYTES 512
#define NAMES_SHOWN 3
#define MIN_ELEMS 16384 /* 64 KiB of f32: below that a codec seldom saves time on any link */

#define SPACES " \t\r\n"

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

static enum wring_codec_rule_kind kind_of(const char *name)
{
    static const char *const names[] = {
        [WRING_CODEC_RULE_MIN] = "min",
        [WRING_CODEC_RULE_MAX] = "max",
        [WRING_CODEC_RULE_1D] = "1d",
    };
    for (int kind = WRING_CODEC_RULE_MIN; kind <= WRING_CODEC_RULE_1D; kind++)
        if (strcmp(name, names[kind]) == 0)
            return (enum wring_codec_rule_kind)kind;
    return WRING_CODEC_RULE_PATTERN;
}

/** As wring_codec_rules_next(); rules of spaces alone are none. @param well  whether it has the
 * form of one */
static bool next_rule(const char **rest, struct wring_codec_rule *rule, bool *well)
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
    rule->kind = *well ? kind_of(rule->name) : WRING_CODEC_RULE_PATTERN;
    return true;
}

static bool is_size(const struct wring_codec_rule *rule)
{
    return rule->kind == WRING_CODEC_RULE_MIN || rule->kind == WRING_CODEC_RULE_MAX;
}

static bool read_elems(const char *value, uint64_t *elems)
{
    errno = 0;
    *elems = strtoull(value, NULL, 10);
    return value[strspn(value, "0123456789")] == '\0' && errno == 0;
}

/** @return the bracket without an end, which fnmatch(3) takes for a character; NULL: none */
static const char *find_open_bracket(const char *pattern)
{
    const char *open;

    while ((open = strchr(pattern, '[')) != NULL) {
        const char *first = open + 1;
        if (*first == '!' || *first == '^')
            first++;
        if (*first == '\0' || (pattern = strchr(first + 1, ']')) == NULL)
            return open;
    }
    return NULL;
}

/** @return whether its brackets have an end; else why not */
static bool check_pattern(const char *pattern, char *why, size_t why_bytes)
{
    const char *open = find_open_bracket(pattern);
    char some[WRING_TEXT_SHORT];

    if (open != NULL)
        snprintf(why, why_bytes,
                 "pattern '%s': the bracket at byte %zu has no end; write [[] for one in a name",
                 wring_text_short(pattern, some), (size_t)(open - pattern) + 1);
    return open == NULL;
}

/** @return whether the rule can be used; else why not */
static bool check_rule(const struct wring_codec_rule *rule, bool well, const char *cpu,
                       const struct wring_codec_ops *const *codecs, char *why, size_t why_bytes)
{
    struct wring_codec *codec;
    uint64_t elems;

    if (!well) {
        snprintf(why, why_bytes,
                 "a rule is PATTERN=CODEC, min=ELEMENTS, max=ELEMENTS or 1d=CODEC, of at most %d "
                 "and %d bytes",
                 WRING_NAME_MAX - 1, WRING_CODEC_SPEC_MAX - 1);
        return false;
    }
    if (is_size(rule)) {
        const char *name = rule->kind == WRING_CODEC_RULE_MIN ? "min" : "max";
        snprintf(why, why_bytes, "%s=%s: %s is a number of elements", name, rule->value, name);
        return read_elems(rule->value, &elems);
    }
    if (rule->kind == WRING_CODEC_RULE_PATTERN && !check_pattern(rule->name, why, why_bytes))
        return false;
    if (wring_codec_create(rule->value, cpu, codecs, why, why_bytes, &codec) != WRING_OK)
        return false;
    wring_codec_destroy(codec);
    return true;
}

/** Patterns may come again, as the first that fits decides; min, max and 1d have no first one.
 *  @param seen  in, out: a bit for each kind */
static bool check_new(const struct wring_codec_rule *rule, unsigned *seen, char *why,
                      size_t why_bytes)
{
    unsigned bit = 1u << rule->kind;
    bool again = rule->kind != WRING_CODEC_RULE_PATTERN && (*seen & bit) != 0;

    *seen |= bit;
    if (again)
        snprintf(why, why_bytes, "%.3s is given twice", rule->name); /* min, max or 1d */
    return !again;
}

/** Whether there is a size that rules are asked for. */
static bool check_sizes(const char *rules, char *why, size_t why_bytes)
{
    uint64_t least, most;

    wring_codec_rules_sizes(rules, &least, &most);
    snprintf(why, why_bytes,
             "no size is from min=%" PRIu64 " to max=%" PRIu64
             " elements: min is %d unless rules say it",
             least, most, MIN_ELEMS);
    return least <= most;
}

enum wring_status wring_codec_rules_check_text(const struct wring_log *log, const char *rules,
                                               const char *cpu,
                                               const struct wring_codec_ops *const *codecs)
{
    const char *rest = rules;
    char why[WRING_TEXT_MAX], some[WRING_TEXT_SHORT];
    struct wring_codec_rule rule;
    bool well, good = true;
    unsigned seen = 0;

    while (good && next_rule(&rest, &rule, &well))
        good = check_rule(&rule, well, cpu, codecs, why, sizeof(why)) &&
               check_new(&rule, &seen, why, sizeof(why));
    if (good && check_sizes(rules, why, sizeof(why)))
        return WRING_OK;
    wring_error(log, "WRING_CODEC_RULES=%s: %s", wring_text_short(rules, some), why);
    return WRING_ERR_INVALID;
}

enum wring_status wring_codec_rules_check(const struct wring_session *session)
{
    return wring_codec_rules_check_text(&session->log, session->config.codec_rules,
                                        session->config.cpu, session->codecs);
}

bool wring_codec_rules_next(const char **rest, struct wring_codec_rule *rule)
{
    bool well;
    return next_rule(rest, rule, &well);
}

bool wring_codec_rule_fits(const struct wring_codec_rule *rule, const char *name)
{
    return rule->kind == WRING_CODEC_RULE_PATTERN && fnmatch(rule->name, name, FNM_NOESCAPE) == 0;
}

const char *wring_codec_rules_decide(const char *rules, const char *name,
                                     struct wring_codec_rule *rule)
{
    while (wring_codec_rules_next(&rules, rule))
        if (wring_codec_rule_fits(rule, name))
            return rules;
    return NULL;
}

void wring_codec_rules_sizes(const char *rules, uint64_t *least, uint64_t *most)
{
    struct wring_codec_rule rule;

    *least = MIN_ELEMS;
    *most = UINT64_MAX;
    while (wring_codec_rules_next(&rules, &rule))
        if (is_size(&rule))
            read_elems(rule.value, rule.kind == WRING_CODEC_RULE_MIN ? least : most);
}

bool wring_codec_rules_take(enum wring_dtype dtype, enum wring_op op)
{
    return (dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16) &&
           (op == WRING_SUM || op == WRING_AVG || op == WRING_PREMUL_SUM);
}

const char *wring_codec_rules_find(const struct wring_session *session,
                                   const struct wring_bucket_params *bucket, char *room,
                                   size_t room_bytes)
{
    const char *rules = session->config.codec_rules, *rest = rules;
    bool flat = bucket->shape.rows == 1 || bucket->shape.columns == 1;
    char fits[WRING_CODEC_SPEC_MAX] = "none", of_flat[WRING_CODEC_SPEC_MAX] = "none";
    bool found = false;
    uint64_t least, most;
    struct wring_codec_rule rule;

    wring_codec_rules_sizes(rules, &least, &most);
    while (wring_codec_rules_next(&rest, &rule)) {
        if (rule.kind == WRING_CODEC_RULE_1D)
            memcpy(of_flat, rule.value, sizeof(of_flat));
        else if (!found && wring_codec_rule_fits(&rule, bucket->name)) {
            memcpy(fits, rule.value, sizeof(fits));
            found = true;
        }
    }
    bool any = *rules != '\0' && wring_codec_rules_take(bucket->dtype, bucket->op);
    snprintf(room, room_bytes, "%s",
             !any || bucket->elems < least || bucket->elems > most ? "none"
             : flat                                                ? of_flat
                                                                   : fits);
    return room;
}

/* ---- rules that never count ---- */

/** @param behind  the rules behind this one */
static enum wring_codec_rule_cause why_never(const char *rules, const char *const *names, size_t n,
                                             const struct wring_codec_rule *rule,
                                             const char *behind)
{
    struct wring_codec_rule decides;
    bool fits = false, any = false;

    for (size_t i = 0; i < n; i++) {
        const char *found = wring_codec_rules_decide(rules, names[i], &decides);
        if (found == behind)
            return WRING_CODEC_RULE_COUNTS;
        any |= found != NULL;
        fits |= wring_codec_rule_fits(rule, names[i]);
    }
    if (rule->kind == WRING_CODEC_RULE_PATTERN)
        return fits ? WRING_CODEC_RULE_RULES_BEFORE : WRING_CODEC_RULE_NO_SUCH_NAME;
    if (rule->kind == WRING_CODEC_RULE_1D)
        return WRING_CODEC_RULE_NO_SHAPE;
    return any ? WRING_CODEC_RULE_COUNTS : WRING_CODEC_RULE_NOTHING_TO_SIZE;
}

bool wring_codec_rules_never(const char *rules, const char *const *names, size_t n,
                             enum wring_codec_rule_cause cause, char *list, size_t bytes)
{
    const char *rest = rules;
    struct wring_codec_rule rule;
    char name[WRING_TEXT_SHORT];
    size_t at = 0;

    list[0] = '\0';
    while (wring_codec_rules_next(&rest, &rule) && at < bytes)
        if (why_never(rules, names, n, &rule, rest) == cause)
            at += (size_t)snprintf(list + at, bytes - at, "%s%s=%s", at > 0 ? "; " : "",
                                   wring_text_short(rule.name, name), rule.value);
    return at > 0;
}

static void warn_of_rules(const struct wring_session *session, const char *const *names, size_t n)
{
    const char *rules = session->config.codec_rules;
    char list[LIST_BYTES], shown[NAMES_SHOWN * (WRING_TEXT_SHORT + 4)], name[WRING_TEXT_SHORT];
    size_t at = 0;

    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++)
        at += (size_t)snprintf(shown + at, sizeof(shown) - at, "%s'%s'", i > 0 ? ", " : "",
                               wring_text_short(names[i], name));
    if (wring_codec_rules_never(rules, names, n, WRING_CODEC_RULE_NO_SUCH_NAME, list, sizeof(list)))
        wring_warn(&session->log,
                   "WRING_CODEC_RULES: %s: counts for no bucket: buckets are called %s%s", list,
                   shown, n > NAMES_SHOWN ? " and so on" : "");
    if (wring_codec_rules_never(rules, names, n, WRING_CODEC_RULE_RULES_BEFORE, list, sizeof(list)))
        wring_warn(&session->log,
                   "WRING_CODEC_RULES: %s: counts for no bucket: rules before it decide for all "
                   "that it fits; put it before them",
                   list);
}

void wring_codec_rules_warn(struct wring_session *session)
{
    size_t n = 0;
    bool any = false;

    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        any |= at->ruled && !at->dropped;
        n++;
    }
    if (!any || session->told_rules)
        return;
    session->told_rules = true; /* on all ranks: another one may be rank 0 next time */
    if (session->rank != 0 || session->config.codec_rules[0] == '\0' ||
        session->log.level < WRING_LOG_WARN)
        return;
    const char **names = malloc(n * sizeof(*names));
    if (names == NULL)
        return; /* commit itself says what it lacks */
    n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (!at->dropped)
            names[n++] = at->name;
    warn_of_rules(session, names, n);
    free(names);
}
