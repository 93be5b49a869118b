/* SPDX-License-Identifier: Apache-2.0 */
/* Residuals, and what codecs keep, to the caller's memory. */
#include "runtime/plan/joined.h"
#include "runtime/session/session.h"
#include "runtime/state_inside.h"

#define WRING_MODULE "state"

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

/** What a bucket keeps from step to step, as it was at some time. */
struct past {
    const float *residual; /* NULL: none */
    void *const *states;   /* of the codec; NULL: none */
};

/** As it was after `steps` steps. @return false: that has not been kept */
static bool find_past(const struct wring_bucket *bucket, uint64_t steps, struct past *out)
{
    struct wring_codec_states *states = bucket->states;

    if (bucket->choice.bypass || (!has_failed(bucket) && bucket->collective.step == steps)) {
        /* steps without the codec leave it alone */
        *out = (struct past){bucket->residual, states != NULL ? states->now : NULL};
        return true;
    }
    *out = (struct past){bucket->kept, states != NULL ? states->kept : NULL};
    return wring_bucket_keeps(bucket) && bucket->kept_step == steps;
}

static void put_range(struct output *out, enum wring_state_part part, uint64_t begin, uint64_t end,
                      const float *residual)
{
    put_u32(out, part);
    put_u64(out, begin);
    put_u64(out, end);
    put(out, residual + begin, (end - begin) * sizeof(*residual));
}

static void put_residual(struct output *out, struct wring_bucket *bucket, const float *residual)
{
    uint64_t at = 0;

    if (residual == NULL) {
        put_u32(out, 0);
        return;
    }
    residual += bucket->joined_at;
    put_u32(out, 2 * wring_state_count_owned(bucket) + 1);
    for (uint32_t i = 0; i < wring_state_count_owned(bucket); i++) {
        struct wring_span own = wring_state_owned(bucket, i);
        put_range(out, WRING_STATE_OWN, at, own.begin, residual);
        put_range(out, WRING_STATE_OWNER, own.begin, own.end, residual);
        at = own.end;
    }
    put_range(out, WRING_STATE_OWN, at, bucket->elems, residual);
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
        put(out, (const char *)array + span.begin * elem_bytes,
            (span.end - span.begin) * elem_bytes);
    }
}

static void put_bucket(struct output *out, struct wring_bucket *bucket, uint64_t steps,
                       const struct past *past)
{
    uint32_t n = past->states != NULL ? bucket->states->n : 0;

    put_text(out, bucket->name);
    put_u64(out, bucket->elems);
    put_text(out, wring_codec_info(bucket->carrier->codec)->identity);
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
    if (bucket->carries == NULL)
        put_bucket(out, bucket, steps, past);
    else
        for (uint32_t i = 0; i < bucket->carries->n; i++)
            put_bucket(out, bucket->carries->members[i], steps, past);
}

/** After a failure, all buckets go back to the last step that every one of them completed. Legs are
 *  made by each commit, and count their bucket's steps from when they are begun: it is asked. */
static uint64_t last_common_step(const struct wring_session *session)
{
    uint64_t steps = UINT64_MAX;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->whole == NULL && steps_made(at) < steps)
            steps = steps_made(at);
    return steps;
}

static enum wring_status put_buckets(struct wring_session *session, struct output *out)
{
    bool failed = wring_session_check(session) != WRING_OK;
    uint64_t common = last_common_step(session);

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        uint64_t steps = failed ? common : at->collective.step;
        struct past past;
        if (!wring_state_has(at))
            continue;
        if (!find_past(at, steps, &past)) {
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
        if (wring_state_has(at))
            n += at->carries != NULL ? at->carries->n : 1;
    return n;
}

static enum wring_status save(struct wring_session *session, void *state, size_t *bytes)
{
    struct output out = {.data = state, .room = state != NULL ? *bytes : 0};
    uint8_t sum[WRING_STATE_DIGEST_BYTES] = {0};
    enum wring_status status = wring_state_check(session);

    if (status != WRING_OK)
        return status;
    put(&out, WRING_STATE_MAGIC, WRING_STATE_MAGIC_BYTES);
    put_u32(&out, session->rank);
    put_u32(&out, session->size);
    put_u32(&out, count_buckets(session));
    status = put_buckets(session, &out);
    if (status != WRING_OK)
        return status;
    if (state != NULL && out.bytes <= out.room && !wring_state_digest(state, out.bytes, sum)) {
        wring_error(&session->log, "the state cannot be saved: libcrypto gives no SHA-256");
        return WRING_ERR_SYSTEM;
    }
    put(&out, sum, sizeof(sum));
    *bytes = out.bytes;
    return state == NULL || out.bytes <= out.room ? WRING_OK : WRING_ERR_INVALID;
}

enum wring_status wring_session_save_state(struct wring_session *session, void *state,
                                           size_t *bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, save(session, state, bytes));
}
