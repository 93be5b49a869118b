/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residuals to and from the caller's memory, for checkpoints.
 *
 *     "wringst1"  u32 rank  u32 ranks  u32 buckets
 *     per bucket: name  u64 elements  codec spec  u64 steps made  u32 ranges
 *     per range:  u32 whose (enum part)  u64 first element  u64 end  f32 each
 *     SHA-256 of all that
 *
 * Little endian; texts are a u32 length and their bytes. What a rank left out of its own
 * contributions is its own affair; what the owner of a shard left out of the sum belongs to the
 * elements, whoever owns them later.
 */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "runtime/plan/joined.h"
#include "runtime/residual.h"

#define WRING_MODULE "state"
#define DIGEST_BYTES 32
#define SPEC_MAX 256

static const char magic[] = "wringst1";

enum part {
    PART_OWN,  /* of this rank's contributions */
    PART_OWNER /* of the sums that this rank owns */
};

/** The caller's memory; counts on past its end. */
struct output {
    uint8_t *data;
    size_t room, bytes;
};

static void put(struct output *out, const void *data, size_t bytes)
{
    if (out->bytes + bytes <= out->room)
        memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
}

static void put_u32(struct output *out, uint32_t value)
{
    put(out, &value, sizeof(value));
}

static void put_u64(struct output *out, uint64_t value)
{
    put(out, &value, sizeof(value));
}

static void put_text(struct output *out, const char *text)
{
    put_u32(out, (uint32_t)strlen(text));
    put(out, text, strlen(text));
}

static bool has_failed(const struct wring_bucket *bucket)
{
    return atomic_load(&bucket->collective.status) != WRING_OK;
}

/** Steps that ended well: only the last can have failed. */
static uint64_t steps_made(const struct wring_bucket *bucket)
{
    return bucket->collective.step - has_failed(bucket);
}

/** A bucket's residual as it was after `steps` steps, or NULL where that has not been kept. */
static const float *residual_after(const struct wring_bucket *bucket, uint64_t steps)
{
    if (bucket->choice.bypass || (!has_failed(bucket) && bucket->collective.step == steps))
        return bucket->residual; /* steps without the codec leave it alone */
    return bucket->kept != NULL && bucket->kept_step == steps ? bucket->kept : NULL;
}

/** The bucket whose steps are made: its carrier where it travels with others. */
static struct wring_bucket *exchanged(struct wring_bucket *bucket)
{
    return bucket->joined != NULL ? bucket->joined->carrier : bucket;
}

static uint64_t part_of(uint64_t at, uint64_t begin, uint64_t elems)
{
    uint64_t past = at > begin ? at - begin : 0;
    return past < elems ? past : elems;
}

static uint32_t count_owned(struct wring_bucket *bucket)
{
    return exchanged(bucket)->n_owned;
}

/** Some elements of a bucket whose sums this rank owns, counted from its own first one. */
static struct wring_span owned_of(struct wring_bucket *bucket, uint32_t which)
{
    struct wring_span owned = exchanged(bucket)->owned[which];
    uint64_t begin = bucket->joined_at;
    return (struct wring_span){part_of(owned.begin, begin, bucket->elems),
                               part_of(owned.end, begin, bucket->elems)};
}

static void put_range(struct output *out, enum part part, uint64_t begin, uint64_t end,
                      const float *residual)
{
    put_u32(out, part);
    put_u64(out, begin);
    put_u64(out, end);
    put(out, residual + begin, (end - begin) * sizeof(*residual));
}

static void put_bucket(struct output *out, struct wring_bucket *bucket, uint64_t steps,
                       const float *residual)
{
    uint64_t at = 0;

    residual += bucket->joined_at;

    put_text(out, bucket->name);
    put_u64(out, bucket->elems);
    put_text(out, wring_codec_info(exchanged(bucket)->codec)->spec);
    put_u64(out, steps);
    put_u32(out, 2 * count_owned(bucket) + 1);
    for (uint32_t i = 0; i < count_owned(bucket); i++) {
        struct wring_span own = owned_of(bucket, i);
        put_range(out, PART_OWN, at, own.begin, residual);
        put_range(out, PART_OWNER, own.begin, own.end, residual);
        at = own.end;
    }
    put_range(out, PART_OWN, at, bucket->elems, residual);
}

/** Those that travel in it, or itself. */
static void put_members(struct output *out, struct wring_bucket *bucket, uint64_t steps,
                        const float *residual)
{
    if (bucket->carries == NULL)
        put_bucket(out, bucket, steps, residual);
    else
        for (uint32_t i = 0; i < bucket->carries->n; i++)
            put_bucket(out, bucket->carries->members[i], steps, residual);
}

/** After a failure, all buckets go back to the last step that every one of them completed. */
static uint64_t last_common_step(const struct wring_session *session)
{
    uint64_t steps = UINT64_MAX;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        steps = steps_made(at) < steps ? steps_made(at) : steps;
    return steps;
}

static enum wring_status put_buckets(struct wring_session *session, struct output *out)
{
    bool failed = wring_session_check(session) != WRING_OK;
    uint64_t common = last_common_step(session);

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        uint64_t steps = failed ? common : at->collective.step;
        if (at->residual == NULL)
            continue;
        const float *residual = residual_after(at, steps);
        if (residual == NULL) {
            wring_error(&session->log,
                        "bucket '%s': the step that failed has changed its residual, which is "
                        "lost; WRING_ROLLBACK=on keeps that of the step before",
                        at->name);
            return WRING_ERR_PEER;
        }
        put_members(out, at, steps, residual);
    }
    return WRING_OK;
}

/** Every bucket committed, and nothing under way. */
static enum wring_status check_idle(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!at->committed || at->dropped)
            return WRING_ERR_INVALID;
        if (atomic_load_explicit(&at->collective.status, memory_order_acquire) == WRING_ERR_AGAIN)
            return WRING_ERR_BUSY;
    }
    return WRING_OK;
}

static uint32_t count_residuals(const struct wring_session *session)
{
    uint32_t n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->residual != NULL)
            n += at->carries != NULL ? at->carries->n : 1;
    return n;
}

static bool digest(const uint8_t *data, size_t bytes, uint8_t *out)
{
    return EVP_Digest(data, bytes, out, NULL, EVP_sha256(), NULL) == 1;
}

enum wring_status wring_session_save_state(struct wring_session *session, void *state,
                                           size_t *bytes)
{
    struct output out = {.data = state, .room = state != NULL ? *bytes : 0};
    uint8_t sum[DIGEST_BYTES] = {0};
    enum wring_status status = check_idle(session);

    if (status != WRING_OK)
        return status;
    put(&out, magic, sizeof(magic) - 1);
    put_u32(&out, session->rank);
    put_u32(&out, session->size);
    put_u32(&out, count_residuals(session));
    status = put_buckets(session, &out);
    if (status != WRING_OK)
        return status;
    if (state != NULL && out.bytes <= out.room && !digest(state, out.bytes, sum))
        return WRING_ERR_SYSTEM;
    put(&out, sum, sizeof(sum));
    *bytes = out.bytes;
    return state == NULL || out.bytes <= out.room ? WRING_OK : WRING_ERR_INVALID;
}

/** A state that is being read, and who wrote it. */
struct input {
    struct wring_session *session;
    struct wring_reader reader;
    bool own;   /* this rank's own */
    bool apply; /* false: only look whether all of it fits */
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/** Residuals of elements as they lie in a state. */
struct range {
    const uint8_t *data;
    struct wring_span span;
};

/** Take over what of a range lies in a part of the bucket. */
static void take(float *residual, const struct range *range, uint64_t from, uint64_t to)
{
    uint64_t first = later(range->span.begin, from), last = sooner(range->span.end, to);
    if (first < last)
        memcpy(residual + first, range->data + (first - range->span.begin) * sizeof(*residual),
               (last - first) * sizeof(*residual));
}

/** What it left out of sums is taken by whoever owns them, of contributions by who made them. */
static void take_range(const struct input *in, struct wring_bucket *bucket, enum part part,
                       const struct range *range)
{
    float *residual = exchanged(bucket)->residual + bucket->joined_at;
    uint64_t at = 0;

    for (uint32_t i = 0; i < count_owned(bucket); i++) {
        struct wring_span own = owned_of(bucket, i);
        if (part == PART_OWNER)
            take(residual, range, own.begin, own.end);
        else if (in->own)
            take(residual, range, at, own.begin);
        at = own.end;
    }
    if (part == PART_OWN && in->own)
        take(residual, range, at, bucket->elems);
}

/** One range. @param bucket  NULL: of a bucket that is no more */
static void read_range(struct input *in, struct wring_bucket *bucket, uint64_t elems)
{
    uint32_t part = wring_read_u32(&in->reader);
    uint64_t begin = wring_read_u64(&in->reader), end = wring_read_u64(&in->reader);

    if (begin > end || end > elems || part > PART_OWNER ||
        end - begin > in->reader.bytes / sizeof(float)) {
        in->reader.failed = true;
        return;
    }
    const uint8_t *data = wring_read(&in->reader, (end - begin) * sizeof(float));
    if (data == NULL || bucket == NULL || exchanged(bucket)->residual == NULL || !in->apply)
        return;
    struct range range = {data, {begin, end}};
    take_range(in, bucket, (enum part)part, &range);
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
    const char *ours = bucket != NULL ? wring_codec_info(exchanged(bucket)->codec)->spec : "none";
    if (bucket != NULL && (bucket->elems != elems || strcmp(ours, spec) != 0)) {
        wring_error(log,
                    "bucket '%s': the state is of %" PRIu64 " elements by codec %s, the session's "
                    "has %" PRIu64 " by %s",
                    name, elems, spec, bucket->elems, ours);
        return WRING_ERR_MISMATCH;
    }
    for (uint32_t i = 0; i < ranges && !in->reader.failed; i++)
        read_range(in, bucket, elems);
    if (bucket != NULL && in->apply)
        exchanged(bucket)->collective.step = steps;
    return in->reader.failed ? WRING_ERR_FRAME : WRING_OK;
}

static enum wring_status read_state(struct wring_session *session, const uint8_t *state,
                                    size_t bytes, bool apply)
{
    struct input in = {.session = session, .reader = {state, bytes, false}, .apply = apply};

    wring_read(&in.reader, sizeof(magic) - 1);
    in.own = wring_read_u32(&in.reader) == session->rank;
    wring_read_u32(&in.reader);
    uint32_t n = wring_read_u32(&in.reader);
    enum wring_status status = in.reader.failed ? WRING_ERR_FRAME : WRING_OK;
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        status = read_bucket(&in);
    return status == WRING_OK && in.reader.bytes != 0 ? WRING_ERR_FRAME : status;
}

enum wring_status wring_session_load_state(struct wring_session *session, const void *state,
                                           size_t bytes)
{
    uint8_t sum[DIGEST_BYTES];
    enum wring_status status = check_idle(session);

    if (status != WRING_OK)
        return status;
    size_t body = bytes - DIGEST_BYTES;
    if (bytes < DIGEST_BYTES + sizeof(magic) - 1 || memcmp(state, magic, sizeof(magic) - 1) != 0 ||
        !digest(state, body, sum) || memcmp(sum, (const uint8_t *)state + body, sizeof(sum)) != 0) {
        wring_error(&session->log, "this is no state of a session, or it has been damaged");
        return WRING_ERR_FRAME;
    }
    status = read_state(session, state, body, false);
    if (status == WRING_OK)
        status = read_state(session, state, body, true);
    for (struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next) {
        at->idle = wring_residual_is_idle(at);
        wring_bucket_ready(at);
    }
    return status;
}
