/* SPDX-License-Identifier: Apache-2.0 */
/* What saving a state and loading it have in common. */
#include "runtime/state.h"

#include <inttypes.h>
#include <openssl/evp.h>

#include "compress/compose.h"
#include "runtime/codec_states.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/residual.h"
#include "runtime/session/session.h"

#define WRING_MODULE "state"

static uint64_t offset_within(uint64_t at, uint64_t begin, uint64_t elems)
{
    uint64_t past = at > begin ? at - begin : 0;
    return past < elems ? past : elems;
}

/** Some elements of a bucket whose sums this rank owns, counted from its own first one. */
static struct wring_span state_owned(struct wring_bucket *bucket, uint32_t which)
{
    struct wring_span owned = bucket->posted_as->owned[which];
    uint64_t begin = bucket->fusion_at;
    return (struct wring_span){offset_within(owned.begin, begin, bucket->elems),
                               offset_within(owned.end, begin, bucket->elems)};
}

/** Is every bucket committed, and nothing under way? Errors: WRING_ERR_INVALID, WRING_ERR_BUSY. */
static enum wring_status state_check(struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!at->committed || at->dropped)
            return WRING_ERR_INVALID;
        if (atomic_load_explicit(&at->collective.status, memory_order_acquire) == WRING_ERR_AGAIN)
            return WRING_ERR_BUSY;
    }
    return WRING_OK;
}

/** SHA-256. @param out  [WRING_STATE_DIGEST_BYTES] @return false: it cannot be had */
static bool state_digest(const uint8_t *data, size_t bytes, uint8_t *out)
{
    return EVP_Digest(data, bytes, out, NULL, EVP_sha256(), NULL) == 1;
}

/* ---- save ---- */

/* Residuals, and what codecs keep, to the caller's memory. */

/** The caller's memory; counts on past its end. */
struct output {
    uint8_t *data;
    size_t room, bytes;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void put_raw_bytes(struct output *out, const void *data, size_t bytes)
{
    if (out->bytes + bytes <= out->room)
        memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
}

static void put_u32(struct output *out, uint32_t value)
{
    put_raw_bytes(out, &value, sizeof(value));
}

static void put_u64(struct output *out, uint64_t value)
{
    put_raw_bytes(out, &value, sizeof(value));
}

static void put_text(struct output *out, const char *text)
{
    put_u32(out, (uint32_t)strlen(text));
    put_raw_bytes(out, text, strlen(text));
}

/** The last step has begun, and not ended well. Over shared memory the waiting thread ends a step:
 *  after a failure it may never have. */
static bool is_step_cut_off(const struct wring_bucket *bucket)
{
    return atomic_load(&bucket->collective.status) != WRING_OK;
}

/** Steps that ended well: only the last can have failed, and only those that have ended count. */
static uint64_t steps_made(const struct wring_bucket *bucket)
{
    int status = atomic_load(&bucket->collective.status);
    return bucket->collective.step - (status != WRING_OK && status != WRING_ERR_AGAIN);
}

/** A bucket's residual and codec states, as they were at some time. */
struct past {
    const float *residual; /* NULL: none */
    void *const *states;   /* of the codec; NULL: none */
};

/** As it was after `steps` steps. @return false: that has not been kept */
static bool find_past(const struct wring_bucket *bucket, uint64_t steps, struct past *out)
{
    struct wring_codec_states *states = bucket->states;

    bool leaves = bucket->choice.bypass && !bucket->sent; /* steps without the codec do, mostly */

    if (leaves || (!is_step_cut_off(bucket) && bucket->collective.step == steps)) {
        *out = (struct past){bucket->residual, states != NULL ? states->now : NULL};
        return true;
    }
    *out = (struct past){bucket->kept, states != NULL ? states->kept : NULL};
    return wring_bucket_keeps(bucket) && bucket->kept_step == steps;
}

/** @param residual  of the bucket that the bucket is posted as */
static void put_range(struct output *out, const struct wring_bucket *bucket,
                      enum wring_state_part part, struct wring_span span, const float *residual)
{
    float values[WRING_RESIDUAL_PIECE];

    put_u32(out, part);
    put_u64(out, span.begin);
    put_u64(out, span.end);
    for (uint64_t at = span.begin, some; at < span.end; at += some) {
        some = min_u64(span.end - at, WRING_RESIDUAL_PIECE);
        wring_residual_read(bucket->posted_as->codec, residual, bucket->fusion_at + at, some,
                            values);
        put_raw_bytes(out, values, some * sizeof(*values));
    }
}

static void put_residual(struct output *out, struct wring_bucket *bucket, const float *residual)
{
    uint64_t at = 0;

    if (residual == NULL) {
        put_u32(out, 0);
        return;
    }
    put_u32(out, 2 * wring_state_count_owned(bucket) + 1);
    for (uint32_t i = 0; i < wring_state_count_owned(bucket); i++) {
        struct wring_span own = state_owned(bucket, i);
        put_range(out, bucket, WRING_STATE_OWN, (struct wring_span){at, own.begin}, residual);
        put_range(out, bucket, WRING_STATE_OWNER, own, residual);
        at = own.end;
    }
    put_range(out, bucket, WRING_STATE_OWN, (struct wring_span){at, bucket->elems}, residual);
}

/** One array of its codec: all of it, or of the elements whose sums are this rank's. */
static void put_array(struct output *out, struct wring_bucket *bucket, uint32_t i,
                      const void *array)
{
    const struct wring_codec_states *states = bucket->states;
    size_t elem_bytes = wring_codec_states_elem_bytes(states, i);
    bool owner = states->what[i].holder == WRING_CODEC_OWNER;
    uint32_t ranges = owner ? bucket->n_owned : 1;

    put_text(out, states->what[i].name);
    put_u32(out, states->what[i].holder);
    put_u32(out, (uint32_t)elem_bytes);
    put_u64(out, states->counts[i]);
    put_u32(out, ranges);
    for (uint32_t k = 0; k < ranges; k++) {
        struct wring_span span = {0, states->counts[i]};
        if (owner)
            span = bucket->owned[k];
        put_u64(out, span.begin);
        put_u64(out, span.end);
        put_raw_bytes(out, (const char *)array + span.begin * elem_bytes,
                      (span.end - span.begin) * elem_bytes);
    }
}

static void put_bucket(struct output *out, struct wring_bucket *bucket, uint64_t steps,
                       const struct past *past)
{
    uint32_t n = past->states != NULL ? bucket->states->n : 0;

    put_text(out, bucket->name);
    put_u64(out, bucket->elems);
    put_text(out, wring_codec_info(bucket->posted_as->codec)->identity);
    put_u64(out, steps);
    put_residual(out, bucket, past->residual);
    put_u32(out, n);
    for (uint32_t i = 0; i < n; i++)
        put_array(out, bucket, i, past->states[i]);
}

/** Those that travel in it, or itself. */
static void put_members(struct output *out, struct wring_bucket *bucket, uint64_t steps,
                        const struct past *past)
{
    if (bucket->fuses == NULL)
        put_bucket(out, bucket, steps, past);
    else
        for (uint32_t i = 0; i < bucket->fuses->n; i++)
            put_bucket(out, bucket->fuses->members[i], steps, past);
}

/** The last step that all have completed which are posted in turn: a failure leaves these apart by
 *  one step at most. Legs are made by each commit, and count their bucket's steps from when they
 *  are begun: it is asked. */
static uint64_t last_common_step(const struct wring_session *session)
{
    uint64_t top = 0, steps = UINT64_MAX;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->whole == NULL && steps_made(at) > top)
            top = steps_made(at);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->whole == NULL && steps_made(at) + 1 >= top && steps_made(at) < steps)
            steps = steps_made(at);
    return steps;
}

uint64_t wring_state_steps_back(const struct wring_bucket *bucket)
{
    uint64_t common = last_common_step(bucket->session), made = steps_made(bucket);
    return made < common ? made : common;
}

/** What has changed since cannot be undone. Residuals begin anew: part of them has gone out. */
static void drop_past(struct wring_bucket *bucket)
{
    unsigned owed = wring_codec_way(bucket->codec, 0)->owed; /* the sums' residual */

    wring_warn(&bucket->session->log,
               "bucket '%s': the step that failed has changed its %s, which %s; WRING_ROLLBACK=on "
               "keeps that of the step before",
               bucket->name, bucket->residual != NULL ? "residual" : "codec's state",
               bucket->residual != NULL ? "begins anew with zeros" : "stays as it is");
    if (bucket->residual != NULL)
        memset(bucket->residual, 0, wring_residual_bytes(bucket));
    if (owed != 0 && bucket->states != NULL)
        memset(bucket->states->now[owed - 1], 0,
               bucket->states->counts[owed - 1] *
                   wring_codec_states_elem_bytes(bucket->states, owed - 1));
}

static void take_past(struct wring_bucket *bucket, const struct past *past)
{
    struct wring_codec_states *states = bucket->states;

    if (past->residual != NULL && past->residual != bucket->residual)
        memcpy(bucket->residual, past->residual, wring_residual_bytes(bucket));
    for (uint32_t i = 0; states != NULL && past->states == states->kept && i < states->n; i++)
        memcpy(states->now[i], states->kept[i],
               states->counts[i] * wring_codec_states_elem_bytes(states, i));
}

void wring_state_roll_back(struct wring_bucket *bucket, uint64_t steps)
{
    struct past past;
    bool undone = is_step_cut_off(bucket) || bucket->collective.step != steps;

    if (wring_state_has(bucket) && !find_past(bucket, steps, &past))
        drop_past(bucket);
    else if (wring_state_has(bucket))
        take_past(bucket, &past);
    if (undone && bucket->kept_input != NULL && bucket->kept_step == steps)
        memcpy(bucket->data, bucket->kept_input, wring_bucket_bytes(bucket));
    bucket->collective.step = steps;
}

/** Does its codec need to know how many steps there were? A warm-up goes by them. */
static bool goes_by_steps(const struct wring_bucket *bucket)
{
    bool warms = false;

    for (uint32_t phase = 0; phase < 2; phase++)
        warms |= wring_codec_has_suffix(wring_codec_way(bucket->codec, phase), WRING_SUFFIX_WARMUP);
    return warms && bucket->whole == NULL; /* a leg asks its bucket */
}

/** Is it in a state? Perhaps for its steps alone. */
static bool is_saved(const struct wring_bucket *bucket)
{
    return wring_state_has(bucket) || goes_by_steps(bucket);
}

static enum wring_status put_buckets(struct wring_session *session, struct output *out)
{
    bool failed = wring_session_check(session) != WRING_OK;

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        uint64_t steps = failed ? wring_state_steps_back(at) : at->collective.step;
        struct past past = {0};
        if (!is_saved(at))
            continue;
        if (wring_state_has(at) && !find_past(at, steps, &past)) {
            wring_error(&session->log,
                        "bucket '%s': the step that failed has changed its %s, which is "
                        "lost; WRING_ROLLBACK=on keeps that of the step before",
                        at->name, at->residual != NULL ? "residual" : "codec's state");
            return WRING_ERR_PEER;
        }
        put_members(out, at, steps, &past);
    }
    return WRING_OK;
}

static uint32_t count_buckets(const struct wring_session *session)
{
    uint32_t n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (is_saved(at))
            n += at->fuses != NULL ? at->fuses->n : 1;
    return n;
}

static enum wring_status save_state(struct wring_session *session, void *state, size_t *bytes)
{
    struct output out = {.data = state, .room = state != NULL ? *bytes : 0};
    uint8_t sum[WRING_STATE_DIGEST_BYTES] = {0};
    enum wring_status status = state_check(session);

    if (status != WRING_OK)
        return status;
    put_raw_bytes(&out, WRING_STATE_MAGIC, WRING_STATE_MAGIC_BYTES);
    put_u32(&out, session->rank);
    put_u32(&out, session->size);
    put_u32(&out, count_buckets(session));
    status = put_buckets(session, &out);
    if (status != WRING_OK)
        return status;
    if (state != NULL && out.bytes <= out.room && !state_digest(state, out.bytes, sum)) {
        wring_error(&session->log, "the state cannot be saved: libcrypto gives no SHA-256");
        return WRING_ERR_SYSTEM;
    }
    put_raw_bytes(&out, sum, sizeof(sum));
    *bytes = out.bytes;
    return state == NULL || out.bytes <= out.room ? WRING_OK : WRING_ERR_INVALID;
}

enum wring_status wring_session_save_state(struct wring_session *session, void *state,
                                           size_t *bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, save_state(session, state, bytes));
}

/* ---- load ---- */

/* Residuals, and what codecs keep, from the caller's memory. */

#define SPEC_MAX 256

/** A state that is being read, and who wrote it. */
struct input {
    struct wring_session *session;
    struct wring_reader reader;
    bool own;       /* this rank's own */
    bool as_many;   /* ranks as there are now were in the session that wrote it */
    bool arrays;    /* what codecs keep beside residuals is in it */
    bool apply;     /* false: only look whether all of it fits */
    uint64_t steps; /* that all of its buckets had made; known once it has been looked at */
};

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/** Residuals of elements as they lie in a state. */
struct range {
    const uint8_t *data;
    struct wring_span span;
};

/** Copy the part of a range that lies in [from, to) of the bucket. */
static void copy_range_part(const struct wring_bucket *bucket, const struct range *range,
                            uint64_t from, uint64_t to)
{
    const struct wring_bucket *whole = bucket->posted_as;
    uint64_t first = max_u64(range->span.begin, from), last = min_u64(range->span.end, to);
    float values[WRING_RESIDUAL_PIECE];

    for (uint64_t at = first, some; at < last; at += some) {
        some = min_u64(last - at, WRING_RESIDUAL_PIECE);
        memcpy(values, range->data + (at - range->span.begin) * sizeof(*values),
               some * sizeof(*values));
        wring_residual_write(whole->codec, whole->residual, bucket->fusion_at + at, some, values);
    }
}

/** The owner of an element takes the residual of its sum. The rank that made a contribution takes
 *  the residual of that. */
static void load_residual_range(const struct input *in, struct wring_bucket *bucket,
                                enum wring_state_part part, const struct range *range)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < wring_state_count_owned(bucket); i++) {
        struct wring_span own = state_owned(bucket, i);
        if (part == WRING_STATE_OWNER)
            copy_range_part(bucket, range, own.begin, own.end);
        else if (in->own)
            copy_range_part(bucket, range, at, own.begin);
        at = own.end;
    }
    if (part == WRING_STATE_OWN && in->own)
        copy_range_part(bucket, range, at, bucket->elems);
}

/** One range. @param bucket  NULL: of a bucket that is no more */
static void read_range(struct input *in, struct wring_bucket *bucket, uint64_t elems)
{
    uint32_t part = wring_read_u32(&in->reader);
    uint64_t begin = wring_read_u64(&in->reader), end = wring_read_u64(&in->reader);

    if (begin > end || end > elems || part > WRING_STATE_OWNER ||
        end - begin > in->reader.bytes / sizeof(float)) {
        in->reader.failed = true;
        return;
    }
    const uint8_t *data = wring_read(&in->reader, (end - begin) * sizeof(float));
    if (data == NULL || bucket == NULL || bucket->posted_as->residual == NULL || !in->apply)
        return;
    struct range range = {data, {begin, end}};
    load_residual_range(in, bucket, (enum wring_state_part)part, &range);
}

/** Copy the parts of a range that belong to this rank now. */
static void load_array_range(const struct input *in, struct wring_bucket *bucket, uint32_t i,
                             const struct range *range)
{
    struct wring_codec_states *states = bucket->states;
    enum wring_codec_holder holder = states->what[i].holder;
    size_t elem_bytes = wring_codec_states_elem_bytes(states, i);
    struct wring_span all = {0, states->counts[i]};
    bool owner = holder == WRING_CODEC_OWNER;

    if (holder == WRING_CODEC_PRIVATE && !in->own)
        return;
    for (uint32_t k = 0; k < (owner ? bucket->n_owned : 1); k++) {
        struct wring_span part = owner ? bucket->owned[k] : all;
        uint64_t first = max_u64(range->span.begin, part.begin);
        uint64_t last = min_u64(range->span.end, part.end);
        if (first < last)
            memcpy((char *)states->now[i] + first * elem_bytes,
                   range->data + (first - range->span.begin) * elem_bytes,
                   (last - first) * elem_bytes);
    }
}

/** Which of the bucket's arrays that is. @return n: it has none like that */
static uint32_t find_array(const struct wring_bucket *bucket, const char *name, uint32_t holder,
                           uint32_t elem_bytes, uint64_t count)
{
    const struct wring_codec_states *states = bucket->states;
    uint32_t i = 0;

    while (i < states->n &&
           (strcmp(states->what[i].name, name) != 0 || states->what[i].holder != holder ||
            wring_codec_states_elem_bytes(states, i) != elem_bytes || states->counts[i] != count))
        i++;
    return i;
}

/** One array of a codec. @param bucket  NULL, or without state: it is passed over */
static enum wring_status read_array(struct input *in, struct wring_bucket *bucket)
{
    struct wring_reader *reader = &in->reader;
    char name[WRING_CODEC_NAME_MAX];

    wring_read_text(reader, name, sizeof(name));
    uint32_t holder = wring_read_u32(reader), elem_bytes = wring_read_u32(reader);
    uint64_t count = wring_read_u64(reader);
    uint32_t ranges = wring_read_u32(reader), i = 0;
    bool known = bucket != NULL && bucket->states != NULL;
    if (reader->failed || elem_bytes == 0)
        return WRING_ERR_FRAME;
    if (known && (i = find_array(bucket, name, holder, elem_bytes, count)) == bucket->states->n) {
        wring_error(&in->session->log,
                    "bucket '%s': codec %s keeps no %s of %" PRIu64 " times %" PRIu32
                    " bytes here, as the state has",
                    bucket->name, wring_codec_info(bucket->codec)->spec, name, count, elem_bytes);
        return WRING_ERR_MISMATCH;
    }
    for (uint32_t k = 0; k < ranges && !reader->failed; k++) {
        struct range range = {.span.begin = wring_read_u64(reader)};
        range.span.end = wring_read_u64(reader);
        if (range.span.begin > range.span.end || range.span.end > count ||
            range.span.end - range.span.begin > reader->bytes / elem_bytes)
            return WRING_ERR_FRAME;
        range.data = wring_read(reader, (range.span.end - range.span.begin) * elem_bytes);
        if (range.data != NULL && known && in->apply)
            load_array_range(in, bucket, i, &range);
    }
    return reader->failed ? WRING_ERR_FRAME : WRING_OK;
}

static enum wring_status read_arrays(struct input *in, struct wring_bucket *bucket)
{
    uint32_t n = in->arrays ? wring_read_u32(&in->reader) : 0;
    enum wring_status status = in->reader.failed ? WRING_ERR_FRAME : WRING_OK;

    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        status = read_array(in, bucket);
    return status;
}

/** What it keeps is of other ranks than there are now, and of no use to them. */
static bool begins_anew(const struct input *in, const struct wring_bucket *bucket)
{
    if (bucket == NULL || in->as_many || !wring_compose_restarts(bucket->posted_as->codec))
        return false;
    if (in->own && !in->apply)
        wring_warn(&in->session->log,
                   "bucket '%s': another number of ranks has saved what codec %s keeps, which "
                   "begins anew with zeros",
                   bucket->name, wring_codec_info(bucket->codec)->spec);
    return true;
}

/** As the state names it. */
static const char *name_codec(const struct input *in, const struct wring_codec *codec)
{
    const struct wring_codec_info *info = wring_codec_info(codec);

    return in->arrays ? info->identity : info->spec;
}

static enum wring_status read_bucket(struct input *in)
{
    char name[WRING_NAME_MAX], spec[SPEC_MAX];
    const struct wring_log *log = &in->session->log;

    wring_read_text(&in->reader, name, sizeof(name));
    uint64_t elems = wring_read_u64(&in->reader);
    wring_read_text(&in->reader, spec, sizeof(spec));
    uint64_t steps = wring_read_u64(&in->reader);
    uint32_t ranges = wring_read_u32(&in->reader);
    if (in->reader.failed)
        return WRING_ERR_FRAME;

    struct wring_bucket *bucket = wring_bucket_find(in->session, name);
    if (bucket == NULL && !in->apply)
        wring_warn(log, "the state has a bucket '%s' that the session has not", name);
    const char *ours = bucket != NULL ? name_codec(in, bucket->posted_as->codec) : "none";
    if (bucket != NULL && (bucket->elems != elems || strcmp(ours, spec) != 0)) {
        wring_error(log,
                    "bucket '%s': the state is of %" PRIu64 " elements by codec %s, the session's "
                    "has %" PRIu64 " by %s",
                    name, elems, spec, bucket->elems, ours);
        return WRING_ERR_MISMATCH;
    }
    struct wring_bucket *taker = begins_anew(in, bucket) ? NULL : bucket;
    for (uint32_t i = 0; i < ranges && !in->reader.failed; i++)
        read_range(in, taker, elems);
    enum wring_status status = in->reader.failed ? WRING_ERR_FRAME : read_arrays(in, taker);
    if (status != WRING_OK)
        return status;
    in->steps = min_u64(in->steps, steps);
    if (bucket != NULL && in->apply)
        bucket->posted_as->collective.step = steps;
    return WRING_OK;
}

/** Most that hold nothing back are in no state. They have made as many steps: after a failure,
 * what all completed counts. */
static void load_steps(const struct input *in)
{
    for (struct wring_bucket *at = in->session->buckets; at != NULL; at = at->next)
        if (!wring_state_has(at->posted_as))
            at->posted_as->collective.step = in->steps;
}

/** @param state  [WRING_STATE_MAGIC_BYTES] */
static bool begins_with(const uint8_t *state, const char *magic)
{
    return memcmp(state, magic, WRING_STATE_MAGIC_BYTES) == 0;
}

/** @param state  whose magic and digest are right @param steps  out; in, if it is applied */
static enum wring_status check_or_apply_state(struct wring_session *session, const uint8_t *state,
                                              size_t bytes, bool apply, uint64_t *steps)
{
    struct input in = {
        .session = session, .reader = {state, bytes, false}, .apply = apply, .steps = *steps};

    in.arrays = begins_with(wring_read(&in.reader, WRING_STATE_MAGIC_BYTES), WRING_STATE_MAGIC);
    in.own = wring_read_u32(&in.reader) == session->rank;
    in.as_many = wring_read_u32(&in.reader) == session->size;
    uint32_t n = wring_read_u32(&in.reader);
    enum wring_status status = in.reader.failed ? WRING_ERR_FRAME : WRING_OK;
    if (status == WRING_OK && n > 0 && apply)
        load_steps(&in); /* those that it names have their own */
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        status = read_bucket(&in);
    if (status == WRING_OK && in.reader.bytes != 0)
        return WRING_ERR_FRAME;
    *steps = in.steps;
    return status;
}

static enum wring_status load_state(struct wring_session *session, const void *state, size_t bytes)
{
    uint8_t sum[WRING_STATE_DIGEST_BYTES];
    uint64_t steps = UINT64_MAX;
    enum wring_status status = state_check(session);

    if (status != WRING_OK)
        return status;
    size_t body = bytes - WRING_STATE_DIGEST_BYTES;
    if (bytes < WRING_STATE_DIGEST_BYTES + WRING_STATE_MAGIC_BYTES ||
        (!begins_with(state, WRING_STATE_MAGIC) &&
         !begins_with(state, WRING_STATE_MAGIC_OF_RESIDUALS)) ||
        !state_digest(state, body, sum) ||
        memcmp(sum, (const uint8_t *)state + body, sizeof(sum)) != 0) {
        wring_error(&session->log, "this is no state of a session, or it has been damaged");
        return WRING_ERR_FRAME;
    }
    status = check_or_apply_state(session, state, body, false, &steps);
    if (status == WRING_OK)
        status = check_or_apply_state(session, state, body, true, &steps);
    for (struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next) {
        at->idle = wring_residual_is_idle(at);
        wring_bucket_set_committed(at);
    }
    return status;
}

enum wring_status wring_session_load_state(struct wring_session *session, const void *state,
                                           size_t bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, load_state(session, state, bytes));
}
