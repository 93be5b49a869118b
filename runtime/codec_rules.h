/* SPDX-License-Identifier: Apache-2.0 */
/**
 * WRING_CODEC_RULES: which codec a bucket takes whose program names none, and by call_codecs.h a
 * call of a program that knows nothing of codecs.
 *
 *     *embed*=bf16; min=4096; 1d=none; *=onebit:block=128+ef
 *
 * Rules are separated by semicolons. The first PATTERN=CODEC whose pattern (fnmatch(3), where *
 * also takes a slash) fits the whole name decides. Before that, min=ELEMENTS has smaller buckets
 * travel as they are (16384 unless said), max=ELEMENTS larger ones (none unless said), and 1d=CODEC
 * says what a shape of one row or one column takes (none unless said). A bucket without a shape
 * counts as of more dimensions. One that no rule fits travels as it is. A pattern whose bracket has
 * no end is refused, and min, max or 1d given twice.
 *
 * Threads: safe.
 */
#ifndef WRING_RUNTIME_CODEC_RULES_H
#define WRING_RUNTIME_CODEC_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include <wring/codec.h>
#include <wring/types.h>

struct wring_bucket_params;
struct wring_session;

/** Whether the session's rules can be read, and each codec that they name be made: WRING_OK, or
 *  WRING_ERR_INVALID, logged. */
enum wring_status wring_codec_rules_check(const struct wring_session *session);

/** Of a session whose rules have been checked. @return a spec, in room: "none" where no rule fits,
 *  or no codec takes the bucket's type and operation */
const char *wring_codec_rules_find(const struct wring_session *session,
                                   const struct wring_bucket_params *bucket, char *room,
                                   size_t room_bytes);

/** Warn of rules that count for no bucket, at a session's first commit that has buckets whose
 *  codec rules say. Rank 0 does so, for its job, whatever becomes of the session. Where the
 *  program names all codecs, rules may be meant for another reader in the process, as in torch. */
void wring_codec_rules_warn(struct wring_session *session);

/* ---- rules of no session ---- */

enum wring_codec_rule_kind {
    WRING_CODEC_RULE_PATTERN,
    WRING_CODEC_RULE_MIN,
    WRING_CODEC_RULE_MAX,
    WRING_CODEC_RULE_1D,
};

struct wring_codec_rule {
    enum wring_codec_rule_kind kind;
    char name[WRING_NAME_MAX], value[WRING_CODEC_SPEC_MAX];
};

/** As wring_codec_rules_check(). @param codecs  the program's own; NULL: none */
enum wring_status wring_codec_rules_check_text(const struct wring_log *log, const char *rules,
                                               const char *cpu,
                                               const struct wring_codec_ops *const *codecs);

/** The rule at *rest, which moves behind it, of rules that have been checked.
 *  @return false: there are no more */
bool wring_codec_rules_next(const char **rest, struct wring_codec_rule *rule);

/** Of checked rules: whether a pattern's rule decides for that name. */
bool wring_codec_rule_fits(const struct wring_codec_rule *rule, const char *name);

/** Of checked rules: the rule that decides for a name. @return the rules behind it; NULL: none */
const char *wring_codec_rules_decide(const char *rules, const char *name,
                                     struct wring_codec_rule *rule);

/** Why a rule never counts for some names. */
enum wring_codec_rule_cause {
    WRING_CODEC_RULE_COUNTS,
    WRING_CODEC_RULE_NO_SUCH_NAME,
    WRING_CODEC_RULE_RULES_BEFORE, /* decide for all names that it fits */
    WRING_CODEC_RULE_NO_SHAPE,     /* it is about shapes, which names do not have */
    WRING_CODEC_RULE_NOTHING_TO_SIZE,
};

/**
 * Of checked rules: those that never count for that reason.
 * @param names  [n]
 * @param list   out, [bytes]: "*embd*=int8; x=bf16", as much as fits
 * @return whether there are any
 */
bool wring_codec_rules_never(const char *rules, const char *const *names, size_t n,
                             enum wring_codec_rule_cause cause, char *list, size_t bytes);

/** Of checked rules: the sizes in elements, both included, that patterns are asked for. */
void wring_codec_rules_sizes(const char *rules, uint64_t *least, uint64_t *most);

/** Whether rules apply to such a reduction at all: sums and averages of 16 and 32 bits do. */
bool wring_codec_rules_take(enum wring_dtype dtype, enum wring_op op);

#endif
