/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/commit_signature.h"

#include "planner/files/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 44   /* bytes of a value that a message has room for */
#define SHOWN_BEFORE 8 /* of them before the place where two long values part */

/** A piece of a signature; not NUL-terminated. */
struct piece {
    const char *text;
    size_t bytes;
};

/** What tells the session's plan from another one, by what they were made from; "none" without.
 *  @param text out, [bytes] */
static void name_plan(const struct wring_session *session, char *text, size_t bytes)
{
    const struct wring_plan *plan = session->plan;

    if (session->autoplan != NULL) /* which of its plans is in force, ranks know alike */
        snprintf(text, bytes, "auto");
    else if (plan == NULL)
        snprintf(text, bytes, "none");
    else
        snprintf(text, bytes, "%016" PRIx64 "-%016" PRIx64, plan->trace_hash, plan->profile_hash);
}

void wring_signature_write(const struct wring_bucket *bucket, char *text)
{
    const struct wring_config *config = &bucket->session->config;
    char plan[2 * 16 + 2] = "none";

    name_plan(bucket->session, plan, sizeof(plan));
    snprintf(text, WRING_SIGNATURE_MAX,
             "elems=%" PRIu64 "\nshape=%" PRIu64 "x%" PRIu64
             "\ntype=%s\nop=%s\ncodec=%s\nexecutor=%s\nscheme=%s\nseed=%" PRIu64
             "\nWRING_CHUNK_BYTES=%" PRIu64 "\nWRING_FLAT_BYTES=%" PRIu64 "\nWRING_WINDOW=%" PRIu64
             "\nWRING_BYPASS=%s\nWRING_PLAN=%s\n",
             bucket->elems, bucket->rows, bucket->columns, wring_dtype_name(bucket->dtype),
             wring_op_name(bucket->multiplies ? WRING_PREMUL_SUM : bucket->op),
             wring_codec_info(bucket->codec)->identity,
             bucket->executor[0] != '\0' ? bucket->executor : "session",
             wring_scheme_name(bucket->scheme), bucket->session->seed, config->chunk_bytes,
             config->flat_bytes, config->window, config->bypass, plan);
}

/** Take a line off the front, its end left out; empty where there is none. */
static struct piece next_line(const char **at)
{
    struct piece line = {*at, strcspn(*at, "\n")};
    *at += line.bytes + ((*at)[line.bytes] != '\0');
    return line;
}

static bool is_same(struct piece a, struct piece b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

/** Cut a line at its '='; all of it is name where there is none. */
static struct piece split(struct piece line, struct piece *value)
{
    const char *equals = memchr(line.text, '=', line.bytes);
    size_t n = equals != NULL ? (size_t)(equals - line.text) : line.bytes;
    size_t skip = equals != NULL ? n + 1 : n;
    *value = (struct piece){line.text + skip, line.bytes - skip};
    return (struct piece){line.text, n};
}

/** What of a value to show, so that one sees where it differs from the other. */
static void excerpt(struct piece value, struct piece other, char *shown)
{
    size_t same = 0, begin = 0;
    while (same < value.bytes && same < other.bytes && value.text[same] == other.text[same])
        same++;
    if (value.bytes > SHOWN_MAX && same > SHOWN_BEFORE)
        begin = same - SHOWN_BEFORE;
    size_t left = value.bytes - begin;
    snprintf(shown, SHOWN_MAX + 8, "%s%.*s%s", begin > 0 ? "..." : "",
             (int)(left < SHOWN_MAX ? left : SHOWN_MAX), value.text + begin,
             left > SHOWN_MAX ? "..." : "");
}

static bool is_named(struct piece name, const char *text)
{
    return is_same(name, (struct piece){text, strlen(text)});
}

static const char *remedy(struct piece name)
{
    if (name.bytes > 6 && memcmp(name.text, "WRING_", 6) == 0)
        return "set it alike on all ranks";
    if (is_named(name, "seed"))
        return "open the session with the same seed on all ranks";
    return "register it alike on all ranks";
}

static void describe(const char *bucket, struct wring_signed_by ours, struct piece own_line,
                     struct wring_signed_by theirs, struct piece line, unsigned more, char *text,
                     size_t bytes)
{
    struct piece own_value, value;
    struct piece own_name = split(own_line, &own_value), name = split(line, &value);
    char own_shown[SHOWN_MAX + 8], shown[SHOWN_MAX + 8], others[48] = "";
    char name_shown[WRING_TEXT_SHORT];

    if (!is_same(own_name, name)) {
        snprintf(text, bytes,
                 "bucket '%s': ranks %" PRIu32 " and %" PRIu32
                 " describe it in other terms; use one version of wring on all ranks",
                 wring_text_short(bucket, name_shown), ours.rank, theirs.rank);
        return;
    }
    excerpt(own_value, value, own_shown);
    excerpt(value, own_value, shown);
    if (more > 0)
        snprintf(others, sizeof(others), " (and %u more differ%s)", more, more == 1 ? "s" : "");
    snprintf(text, bytes,
             "bucket '%s': %.*s is %s on rank %" PRIu32 " and %s on rank %" PRIu32 "%s; %s",
             wring_text_short(bucket, name_shown),
             (int)(name.bytes < SHOWN_MAX ? name.bytes : SHOWN_MAX), name.text, own_shown,
             ours.rank, shown, theirs.rank, others, remedy(name));
}

bool wring_signature_compare(const char *bucket, struct wring_signed_by ours,
                             struct wring_signed_by theirs, char *text, size_t bytes)
{
    const char *own_at = ours.signature, *at = theirs.signature;
    struct piece own_first = {0}, first = {0};
    unsigned differing = 0;

    while (*own_at != '\0' || *at != '\0') {
        struct piece own_line = next_line(&own_at), line = next_line(&at);
        if (is_same(own_line, line))
            continue;
        if (differing++ == 0) {
            own_first = own_line;
            first = line;
        }
    }
    if (differing > 0)
        describe(bucket, ours, own_first, theirs, first, differing - 1, text, bytes);
    return differing == 0;
}
