/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who copies the bytes of a registered bucket over verbs: the devices, and no processor. Seen from
 * three sides: the devices tell from where to where they wrote, the provider counts, and so do
 * stand-ins for the C library's copies. All ranks are threads here, their devices are made up.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bucket.h"
#include "runtime/session/session.h"
#include "tests/collective/copied.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/provider/mock/mock.h"
#include "transport/providers/verbs/devices.h"

#define RANKS_MAX 3
#define ELEMS 300007
#define BYTES (ELEMS * sizeof(float))
#define STEPS 3
#define PAGE 4096
#define SLACK_PART 200 /* small copies, of control messages, are less than a part of the bytes */

enum memory {
    OF_WRING,  /* wring_buffer_alloc() */
    KNOWN,     /* wring_buffer_register() */
    OF_BUCKET, /* known as a bucket only, which is enough */
    FOREIGN,   /* of an immediate call: staged */
    MEMORIES
};

/* where the bytes of a rank's bucket may be */
struct areas {
    const uint8_t *data, *channels[2], *slots;
    size_t channel_bytes[2], slots_bytes;
    const struct wring_collective *collective;
};

/** What devices wrote in all steps, by where it came from and went. */
struct written {
    uint64_t from_data, from_slot, from_elsewhere;
    uint64_t into_data, into_slot, into_elsewhere;
};

static struct {
    const char *codec;
    enum memory memory;
    uint32_t ranks;
    void *own[RANKS_MAX]; /* memory that is not wring's */
    struct areas areas[RANKS_MAX];
    struct written written;
    struct copied copied;
    struct mock_counts before, after;
    uint64_t counted[RANKS_MAX]; /* by the providers */
    bool placed;
} the;

static bool lies_in(const void *at, size_t bytes, const uint8_t *base, size_t room)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)base;
    return base != NULL && offset <= room && bytes <= room - offset;
}

/** Where an encoder was told to write what is sent from there: not beside it. */
static bool is_a_slot(const struct areas *areas, const void *at, size_t bytes)
{
    const struct wring_collective *collective = areas->collective;
    if (!lies_in(at, bytes, areas->slots, areas->slots_bytes))
        return false;
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++)
        if (collective->tasks[i].slot == at)
            return collective->tasks[i].job.code == at;
    return false;
}

static void see_source(const struct mock_write *write)
{
    for (uint32_t r = 0; r < the.ranks; r++) {
        const struct areas *areas = &the.areas[r];
        if (lies_in(write->from, write->bytes, areas->data, BYTES)) {
            the.written.from_data += write->bytes;
            return;
        }
        if (is_a_slot(areas, write->from, write->bytes)) {
            the.written.from_slot += write->bytes;
            return;
        }
    }
    the.written.from_elsewhere += write->bytes;
}

/** In place is where the same element lies in the sender's data. */
static bool is_in_place(const struct mock_write *write, const struct areas *to)
{
    for (uint32_t r = 0; r < the.ranks; r++)
        if (lies_in(write->from, write->bytes, the.areas[r].data, BYTES))
            return (const uint8_t *)write->from - the.areas[r].data ==
                   (uint8_t *)write->to - to->data;
    return false;
}

static void see_target(const struct mock_write *write)
{
    for (uint32_t r = 0; r < the.ranks; r++) {
        const struct areas *areas = &the.areas[r];
        if (lies_in(write->to, write->bytes, areas->data, BYTES)) {
            *(is_in_place(write, areas) ? &the.written.into_data : &the.written.into_elsewhere) +=
                write->bytes;
            return;
        }
        for (int c = 0; c < 2; c++)
            if (lies_in(write->to, write->bytes, areas->channels[c], areas->channel_bytes[c])) {
                the.written.into_slot += write->bytes;
                return;
            }
    }
    the.written.into_elsewhere += write->bytes;
}

/** One at a time. Credits have no immediate, and come from the processor's counters. */
static void see(void *arg, const struct mock_write *write)
{
    (void)arg;
    if (!write->has_imm || write->bytes == 0)
        return;
    see_source(write);
    see_target(write);
}

static enum wring_status make(struct wring_session *session, void *own, struct wring_bucket **out)
{
    struct wring_bucket_params params = {
        .name = "bucket", .data = own, .elems = ELEMS, .codec = the.codec};
    enum wring_status status = WRING_OK;
    if (the.memory == OF_WRING)
        status = wring_buffer_alloc(session, BYTES, &params.data);
    if (the.memory == KNOWN)
        status = wring_buffer_register(session, own, BYTES);
    if (status == WRING_OK && the.memory != FOREIGN)
        status = wring_bucket_register(session, &params, out);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static void find_areas(const struct wring_bucket *bucket, struct areas *out)
{
    const struct wring_channel *channels[2] = {&bucket->scatter, &bucket->gather};
    *out = (struct areas){.data = bucket->data,
                          .slots = bucket->collective.slots_base,
                          .slots_bytes = wring_collective_slot_memory(&bucket->collective),
                          .collective = &bucket->collective};
    for (int c = 0; c < 2; c++) {
        out->channels[c] = channels[c]->memory;
        out->channel_bytes[c] = wring_channel_memory(channels[c]->members.n, channels[c]->window,
                                                     channels[c]->slot_bytes);
    }
}

static uint64_t count_copied(const struct wring_session *session)
{
    uint64_t copied = 0;
    for (uint32_t i = 0; i < session->fabric->n_devices; i++) {
        struct wring_verbs_counters counters;
        if (wring_verbs_counters_of(session->fabric->devices[i].provider, &counters))
            copied += counters.copied_bytes;
    }
    return copied;
}

static void begin_to_look(void)
{
    memset(&the.written, 0, sizeof(the.written));
    mock_watch_writes(see, NULL);
    mock_get_counts(&the.before);
    copied_start();
}

static void end_looking(void)
{
    the.copied = copied_stop();
    mock_get_counts(&the.after);
    mock_watch_writes(NULL, NULL);
}

/** @param bucket  NULL: by an immediate call */
static enum wring_status fill_and_run(struct wring_session *session, struct wring_bucket *bucket,
                                      uint32_t rank)
{
    float *data = bucket != NULL ? bucket->data : the.own[rank];
    for (uint64_t i = 0; i < ELEMS; i++)
        data[i] = (float)(i % 1000) + (float)rank;
    if (bucket == NULL)
        return wring_allreduce(wring_session_world(session), data, data, ELEMS, WRING_F32,
                               WRING_SUM, &(struct wring_call){.codec = the.codec}, NULL);
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, WRING_FOREVER, NULL) : status;
}

static void expect_sum(const float *data)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < ELEMS; i++)
        wrong += data[i] !=
                 (float)the.ranks * (float)(i % 1000) + (float)(the.ranks * (the.ranks - 1) / 2);
    CHECK(strcmp(the.codec, "none") != 0 || wrong == 0, "%" PRIu64 " wrong", wrong);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_bucket *bucket = NULL;
    (void)arg;
    the.own[rank] = aligned_alloc(PAGE, (BYTES + PAGE - 1) / PAGE * PAGE);
    REQUIRE(the.own[rank] != NULL && make(session, the.own[rank], &bucket) == WRING_OK,
            "no bucket");
    CHECK(fill_and_run(session, bucket, rank) == WRING_OK, "the first step");
    if (bucket != NULL)
        find_areas(bucket, &the.areas[rank]);
    else
        the.areas[rank] = (struct areas){.data = the.own[rank]};
    uint64_t before = count_copied(session);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 0)
        begin_to_look();
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (int s = 0; s < STEPS; s++)
        CHECK(fill_and_run(session, bucket, rank) == WRING_OK, "step %d", s);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 0)
        end_looking();
    the.counted[rank] = count_copied(session) - before;
    expect_sum(bucket != NULL ? bucket->data : the.own[rank]);
    if (rank == 0)
        the.placed = bucket != NULL && bucket->placed;
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
}

static void run(uint32_t ranks, const char *codec, enum memory memory)
{
    static const char *const settings[] = {"WRING_PROVIDER=verbs", "WRING_PROGRESS=caller",
                                           "WRING_CHUNK_BYTES=16k", NULL};
    static const char *const names[MEMORIES] = {"wring's", "registered", "the bucket's", "foreign"};
    struct wring_test_job job = {.ranks = ranks, .settings = settings, .run = run_rank};
    the.codec = codec;
    the.memory = memory;
    the.ranks = ranks;
    wring_test_run_ranks(&job);
    for (uint32_t r = 0; r < ranks; r++)
        free(the.own[r]);
    const struct written *written = &the.written;
    printf("%s, %s memory, %u ranks: from data %" PRIu64 ", slots %" PRIu64 ", elsewhere %" PRIu64
           "; into data %" PRIu64 ", slots %" PRIu64 ", elsewhere %" PRIu64
           "; copied %lu, large %lu\n",
           codec, names[memory], ranks, written->from_data, written->from_slot,
           written->from_elsewhere, written->into_data, written->into_slot, written->into_elsewhere,
           the.copied.bytes, the.copied.large_bytes);
    printf("    %" PRIu64 " writes, %" PRIu64 " sends, %" PRIu64 " doorbells, %" PRIu64
           " completions\n",
           the.after.writes - the.before.writes, the.after.sends - the.before.sends,
           the.after.send_doorbells - the.before.send_doorbells,
           the.after.completions - the.before.completions);
}

/** In every step each rank's shards go to their owners' slots, and the sums into place. */
static uint64_t bytes_of_a_phase(void)
{
    return (uint64_t)STEPS * (the.ranks - 1) * BYTES;
}

static void expect_no_copies(void)
{
    const struct written *written = &the.written;
    CHECK(written->from_elsewhere == 0, "%" PRIu64 " bytes sent from elsewhere",
          written->from_elsewhere);
    CHECK(written->into_elsewhere == 0, "%" PRIu64 " bytes written elsewhere",
          written->into_elsewhere);
    for (uint32_t r = 0; r < the.ranks; r++)
        CHECK(the.counted[r] == 0, "rank %u: the provider copied %" PRIu64, r, the.counted[r]);
    CHECK(the.copied.large_bytes == 0, "%lu bytes copied", the.copied.large_bytes);
}

static void raw_buckets_go_straight_from_data_to_data(void)
{
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++)
        for (int memory = OF_WRING; memory <= OF_BUCKET; memory++) {
            run(ranks, "none", (enum memory)memory);
            expect_no_copies();
            CHECK(the.copied.bytes < the.written.from_data / SLACK_PART,
                  "%lu bytes copied, little by little", the.copied.bytes);
            CHECK(the.placed, "sums are not placed");
            CHECK(the.written.from_slot == 0 && the.written.from_data == 2 * bytes_of_a_phase(),
                  "not all is sent from where it lies");
            CHECK(the.written.into_slot == bytes_of_a_phase() &&
                      the.written.into_data == bytes_of_a_phase(),
                  "not all goes to where it belongs");
        }
}

/** Encoders may put a few bytes together by copies; what they made is sent from there. */
static void codes_go_straight_from_the_encoder(void)
{
    static const char *const codecs[] = {"bf16", "int8:block=512", "onebit:block=128+ef"};
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        run(RANKS_MAX, codecs[i], KNOWN);
        expect_no_copies();
        CHECK(the.written.from_data == 0 && the.written.from_slot > 0, "not from slots");
        CHECK(the.written.into_slot == the.written.from_slot, "not into slots");
    }
}

/** What nobody registered is staged, and seen to be. */
static void foreign_memory_is_copied(void)
{
    run(2, "none", FOREIGN);
    CHECK(the.copied.large_bytes >= bytes_of_a_phase(), "only %lu bytes copied",
          the.copied.large_bytes);
    CHECK(the.written.from_data == 0, "sent from memory that is not registered");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"raw_buckets_go_straight_from_data_to_data", raw_buckets_go_straight_from_data_to_data},
        {"codes_go_straight_from_the_encoder", codes_go_straight_from_the_encoder},
        {"foreign_memory_is_copied", foreign_memory_is_copied},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
