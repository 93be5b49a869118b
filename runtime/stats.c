/* SPDX-License-Identifier: Apache-2.0 */
/* What really ran, and what it cost. */
#include <math.h>
#include <stdio.h>

#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "runtime/residual.h"
#include "runtime/session/executor.h"
#include "runtime/stats.h"
#include "runtime/versioned_struct.h"

static const struct wring_versioned_struct session_sized = {
    "struct wring_session_stats",
    sizeof(struct wring_session_stats),
    sizeof(struct wring_session_stats),
};

void wring_stats_list(struct wring_session *session, struct wring_shm_flags *flags)
{
    pthread_mutex_lock(&session->shm_flags_mutex);
    flags->next = session->shm_flags;
    session->shm_flags = flags;
    pthread_mutex_unlock(&session->shm_flags_mutex);
}

/** From now on as if the engine had done it. */
static void add_counts_to_engine(struct wring_session *session,
                                 const struct wring_shm_flags_counts *counts)
{
    wring_count(&session->fabric->bytes_sent, counts->bytes_sent);
    wring_count(&session->fabric->bytes_received, counts->bytes_received);
    wring_count(&session->fabric->puts_sent, counts->puts_sent);
    wring_count(&session->engine->finished, counts->steps);
}

void wring_stats_unlist(struct wring_session *session, const struct wring_shm_flags *flags)
{
    pthread_mutex_lock(&session->shm_flags_mutex);
    for (struct wring_shm_flags **at = &session->shm_flags; *at != NULL; at = &(*at)->next)
        if (*at == flags) {
            struct wring_shm_flags *gone = *at;
            *at = gone->next;
            gone->next = NULL;
            const struct wring_shm_flags_counts counts = wring_shm_flags_count(gone);
            add_counts_to_engine(session, &counts);
            break;
        }
    pthread_mutex_unlock(&session->shm_flags_mutex);
}

/** Sum the engine's counts and those of buckets that go past it; each byte or put counts once. */
static void sum_session_counts(struct wring_session *session, struct wring_session_stats *stats)
{
    const struct wring_fabric *fabric = session->fabric;
    pthread_mutex_lock(&session->shm_flags_mutex);
    struct wring_shm_flags_counts flags = wring_shm_flags_count(session->shm_flags);
    stats->wire_bytes_sent = atomic_load(&fabric->bytes_sent) + flags.bytes_sent;
    stats->wire_bytes_received = atomic_load(&fabric->bytes_received) + flags.bytes_received;
    stats->puts_sent = atomic_load(&fabric->puts_sent) + flags.puts_sent;
    stats->steps = atomic_load(&session->engine->finished) + flags.steps;
    pthread_mutex_unlock(&session->shm_flags_mutex);
}

enum wring_status wring_session_stats(struct wring_session *session,
                                      struct wring_session_stats *out)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    struct wring_session_stats stats = {
        .sleeps = wring_progress_sleeps(session->progress),
        .executor_cpu_ns = wring_session_executor_cpu_ns(session),
        .round_trip_ns = session->distance.round_trip_ns,
        .piece_bytes = session->distance.piece_bytes,
        .sites = session->distance.sites,
    };
    sum_session_counts(session, &stats);
    wring_progress_cpu(session->progress, &stats.progress_cpu_ns, &stats.waiter_cpu_ns);
    return wring_session_leave(session, wring_versioned_struct_write(&session_sized, &stats, out));
}

void wring_group_name_providers(const struct wring_group *group, char *text, size_t bytes)
{
    const struct wring_fabric *fabric = group->session->fabric;
    const struct wring_members *members = &group->members;
    uint32_t used = 0;
    size_t length = 0;

    for (uint32_t i = 0; i < members->n; i++)
        if (i != members->me)
            used |= 1u << wring_fabric_device_index(fabric, members->ranks[i]);
    text[0] = '\0';
    for (uint32_t d = 0; d < fabric->n_devices && length < bytes; d++)
        if (used & 1u << d)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s", length > 0 ? "," : "",
                                       fabric->devices[d].name);
}

/** What one way loses. @param encodes  whether anything is encoded on it */
static double loss_of(const struct wring_codec_error *loss, bool encodes)
{
    if (!encodes)
        return 0;
    if (loss->pieces == 0)
        return NAN;
    return loss->whole > 0 ? loss->lost / loss->whole : 0;
}

/** Whose pieces are encoded: all legs between nodes are alike. */
static const struct wring_collective *encoding_collective(const struct wring_collective *collective)
{
    const struct wring_levels *levels = collective->levels;
    return levels != NULL ? levels->slices[0].legs[WRING_LEG_ACROSS] : collective;
}

static void fill_measured(const struct wring_collective *collective,
                          struct wring_bucket_stats *stats)
{
    const struct wring_codec_error_stats *error_stats = &collective->error_stats;
    bool in = collective->work.codec != NULL && collective->members.n > 1;
    bool back = in && wring_algorithm_has_owners(encoding_collective(collective)->work.algorithm);

    stats->error = loss_of(&error_stats->ways[0], in);
    stats->error_last = error_stats->ways[0].pieces > 0 ? error_stats->ways[0].last : stats->error;
    stats->error_back = loss_of(&error_stats->ways[1], back);
    stats->error_pieces = error_stats->ways[0].pieces;
    stats->sums_cut = error_stats->cut;
    stats->n_cores = wring_codec_error_stats_cores(error_stats, stats->cores, sizeof(stats->cores));
}

/** Root of the mean square; NAN where nothing is kept. */
static double residual_rms(const struct wring_bucket *bucket)
{
    uint64_t n = bucket->residual != NULL ? bucket->elems : 0;
    float values[WRING_RESIDUAL_PIECE];
    double sum = 0;

    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < WRING_RESIDUAL_PIECE ? n - done : WRING_RESIDUAL_PIECE;
        wring_residual_read(bucket->codec, bucket->residual, done, some, values);
        for (uint64_t i = 0; i < some; i++)
            sum += (double)values[i] * (double)values[i];
    }
    return bucket->residual != NULL ? sqrt(sum / (double)bucket->elems) : NAN;
}

/** Members exchange partial sums two by two: all of them, or halves. */
static bool exchanges_sums(const struct wring_collective *collective, bool *halves)
{
    enum wring_algorithm algorithm = collective->work.algorithm;

    *halves = algorithm != WRING_ALLREDUCE_DOUBLING;
    return algorithm == WRING_ALLREDUCE_DOUBLING || algorithm == WRING_ALLREDUCE_HALVING ||
           algorithm == WRING_ALLREDUCE_HALVING_PLACED;
}

static const char *hierarchical_scheme_of(const struct wring_collective *across)
{
    bool halves;

    if (exchanges_sums(across, &halves))
        return halves ? "hierarchical-halving" : "hierarchical-doubling";
    if (!wring_algorithm_has_owners(across->work.algorithm))
        return "hierarchical-indivisible";
    return across->work.codec != NULL ? "hierarchical-divisible" : "hierarchical-direct";
}

static const char *scheme_of(const struct wring_collective *collective)
{
    bool halves;

    if (collective->members.n == 1)
        return "none";
    if (collective->levels != NULL)
        return hierarchical_scheme_of(encoding_collective(collective));
    if (exchanges_sums(collective, &halves))
        return halves ? "halving" : "doubling";
    enum wring_algorithm algorithm = collective->work.algorithm;
    if (wring_algorithm_is_ring(algorithm))
        return "ring";
    if (!wring_algorithm_has_owners(algorithm) && !wring_algorithm_is_direct(algorithm))
        return "indivisible";
    return collective->work.codec != NULL ? "divisible" : "direct";
}

/** A ring's order may follow from ways that were measured as the session opened. */
static const char *order_of(const struct wring_collective *collective)
{
    enum wring_reduction_order order = wring_algorithms[collective->work.algorithm].order;
    bool measured = collective->engine->fabric->roster.places != NULL;

    return order == WRING_ORDER_RING && measured ? "ring-measured"
                                                 : wring_reduction_order_name(order);
}

/** Scale a time of the timed steps to all steps. */
static uint64_t scale_to_all_steps(const struct wring_collective *collective, uint64_t ns)
{
    uint64_t timed = collective->cost.timed;
    return timed > 0 ? (uint64_t)((double)ns * (double)collective->step / (double)timed) : 0;
}

static const struct wring_versioned_struct bucket_sized = {
    "struct wring_bucket_stats",
    sizeof(struct wring_bucket_stats),
    sizeof(struct wring_bucket_stats),
};

static uint64_t state_bytes(const struct wring_bucket *bucket)
{
    uint64_t residuals = (bucket->residual != NULL) + (bucket->kept != NULL);
    return residuals * wring_residual_bytes(bucket) + wring_codec_states_bytes(bucket->states);
}

static enum wring_status fill_bucket_stats(struct wring_bucket *bucket,
                                           struct wring_bucket_stats *out)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    if (wring_bucket_under_way(bucket))
        return WRING_ERR_BUSY;
    const char *asked = wring_codec_info(bucket->codec)->spec;
    bucket = bucket->posted_as;
    const struct wring_collective *collective = &bucket->collective;
    if (atomic_load_explicit(&collective->status, memory_order_acquire) == WRING_ERR_AGAIN)
        return WRING_ERR_BUSY;
    const struct wring_bucket *sends = encoding_collective(collective)->owner;
    struct wring_bucket_stats stats = {
        .codec = wring_bucket_spec(bucket),
        .scheme = scheme_of(collective),
        .algorithm = wring_algorithms[collective->work.algorithm].name,
        .executor =
            bucket->executor[0] != '\0' ? bucket->executor : bucket->session->config.executor,
        .order = order_of(collective),
        .in_place = wring_algorithm_is_placed(encoding_collective(collective)->work.algorithm),
        .piece_elems = collective->work.partition.chunk_elems < bucket->elems
                           ? collective->work.partition.chunk_elems
                           : bucket->elems,
        .steps = collective->step,
        .wire_bytes_sent = collective->cost.wire_bytes,
        .steps_ns = scale_to_all_steps(collective, collective->cost.steps_ns),
        .codec_ns = scale_to_all_steps(collective, collective->cost.codec_ns),
        .residual_rms = residual_rms(bucket),
        .state_bytes = state_bytes(bucket),
        .codec_asked = asked,
        .with_codec_ns = bucket->choice.with_ns,
        .without_codec_ns = bucket->choice.without_ns,
        .round_trip_ns = sends->shape.round_trip_ns,
        .window = sends->shape.window,
    };
    fill_measured(collective, &stats);
    wring_group_name_providers(bucket->group, stats.provider, sizeof(stats.provider));
    return wring_versioned_struct_write(&bucket_sized, &stats, out);
}

enum wring_status wring_bucket_stats(struct wring_bucket *bucket, struct wring_bucket_stats *out)
{
    struct wring_session *session = bucket->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, fill_bucket_stats(bucket, out));
}
