/* SPDX-License-Identifier: Apache-2.0 */
/** Meeting in one process, and the blocking streams that other ways of meeting are made of. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/stream.h"
#include <wring/bootstrap.h>

#define RANKS_MAX 8
#define LONG_NS (20 * WRING_NS_PER_S)
#define SHORT_NS (200 * WRING_NS_PER_MS)

struct rank {
    struct wring_bootstrap *end;
    unsigned turns;
    uint64_t patience_ns;
    const struct wring_cancel *cancel;
    enum wring_status status; /* of its last exchange */
    uint64_t took_ns;
    pthread_t thread;
};

/** Sizes from 0 on, different in each turn. */
static size_t blob_of(uint32_t rank, unsigned turn, uint8_t *to)
{
    size_t bytes = (rank * 37 + turn * 101) % 300;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(rank * 5 + turn * 3 + i);
    return bytes;
}

static void check_blobs(const struct wring_blobs *blobs, uint32_t size, unsigned turn)
{
    uint8_t want[300];
    CHECK(blobs->n == size && blobs->offsets[0] == 0, "%u blobs", blobs->n);
    for (uint32_t i = 0; i < size; i++) {
        size_t bytes = blob_of(i, turn, want);
        CHECK(blobs->offsets[i + 1] - blobs->offsets[i] == bytes, "blob %u of turn %u", i, turn);
        CHECK(memcmp(blobs->storage + blobs->offsets[i], want, bytes) == 0, "blob %u", i);
    }
}

static void *take_part(void *arg)
{
    struct rank *rank = arg;
    uint64_t begin = wring_now_ns();
    for (unsigned turn = 0; turn < rank->turns; turn++) {
        uint8_t *blob = malloc(300);
        struct wring_blobs blobs = {0};
        if (blob == NULL)
            abort();
        size_t bytes = blob_of(rank->end->rank, turn, blob);
        rank->status = rank->end->ops->exchange(
            rank->end, blob, bytes, wring_deadline_in(rank->patience_ns), rank->cancel, &blobs);
        free(blob); /* it is ours again */
        if (rank->status != WRING_OK)
            break;
        check_blobs(&blobs, rank->end->size, turn);
        wring_blobs_finish(&blobs);
    }
    rank->took_ns = wring_now_ns() - begin;
    return NULL;
}

static bool open_ranks(struct rank *ranks, uint32_t n, unsigned turns, uint64_t patience_ns)
{
    struct wring_bootstrap *ends[RANKS_MAX];
    if (wring_bootstrap_local_create(n, ends) != WRING_OK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = (struct rank){.end = ends[i], .turns = turns, .patience_ns = patience_ns};
        CHECK(ends[i]->rank == i && ends[i]->size == n, "end %u", i);
        CHECK(ends[i]->ops->local_address(ends[i]) != NULL, "end %u: no address", i);
    }
    return true;
}

/** Let the first `n` of them take part. */
static void run_ranks(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (pthread_create(&ranks[i].thread, NULL, take_part, &ranks[i]) != 0)
            abort();
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
}

static void close_ranks(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ranks[i].end->ops->close(ranks[i].end);
}

static void everyone_gets_everything(void)
{
    struct rank ranks[RANKS_MAX];
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
        REQUIRE(open_ranks(ranks, n, 100, LONG_NS), "%u ranks", n);
        run_ranks(ranks, n);
        for (uint32_t i = 0; i < n; i++)
            CHECK(ranks[i].status == WRING_OK, "rank %u of %u: %s", i, n,
                  wring_status_text(ranks[i].status));
        close_ranks(ranks, n);
    }
}

/** One never comes: the others say so in time, and so does he when he comes late. */
static void absence_has_a_deadline(void)
{
    struct rank ranks[3];
    REQUIRE(open_ranks(ranks, 3, 1, SHORT_NS), "ranks");
    run_ranks(ranks, 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(ranks[i].status == WRING_ERR_PEER, "%u: %s", i, wring_status_text(ranks[i].status));
        CHECK(ranks[i].took_ns < LONG_NS, "%u: slow", i);
    }
    ranks[2].patience_ns = LONG_NS;
    run_ranks(ranks + 2, 1);
    CHECK(ranks[2].status == WRING_ERR_PEER && ranks[2].took_ns < LONG_NS / 2, "the late one: %s",
          wring_status_text(ranks[2].status));
    close_ranks(ranks, 3);
}

/** One leaves while others wait for it. */
static void leaving_ends_the_wait(void)
{
    struct rank ranks[3];
    REQUIRE(open_ranks(ranks, 3, 1, LONG_NS), "ranks");
    for (uint32_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&ranks[i].thread, NULL, take_part, &ranks[i]) == 0, "thread");
    usleep(50000);
    ranks[2].end->ops->close(ranks[2].end);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
        CHECK(ranks[i].status == WRING_ERR_PEER && ranks[i].took_ns < LONG_NS / 2, "%u: %s", i,
              wring_status_text(ranks[i].status));
    }
    close_ranks(ranks, 2);
}

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static void waits_can_be_called_off(void)
{
    struct rank ranks[2];
    atomic_bool off = false;
    const struct wring_cancel cancel = {is_set, &off};
    REQUIRE(open_ranks(ranks, 2, 1, LONG_NS), "ranks");
    ranks[0].cancel = &cancel;
    REQUIRE(pthread_create(&ranks[0].thread, NULL, take_part, &ranks[0]) == 0, "thread");
    usleep(50000);
    atomic_store(&off, true);
    pthread_join(ranks[0].thread, NULL);
    CHECK(ranks[0].status == WRING_ERR_CLOSED && ranks[0].took_ns < LONG_NS / 2, "%s after %llu ms",
          wring_status_text(ranks[0].status),
          (unsigned long long)(ranks[0].took_ns / WRING_NS_PER_MS));
    close_ranks(ranks, 2);
}

static bool note_wait(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    return false;
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

/** The last to come calls off before those that wait for it wake: they do not read its blob. */
static void blobs_go_with_who_gives_up(void)
{
    struct rank ranks[2];
    atomic_bool waits = false;
    const struct wring_cancel waiting = {note_wait, &waits}, off = {at_once, NULL};
    uint64_t until_ns = wring_deadline_in(LONG_NS);
    REQUIRE(open_ranks(ranks, 2, 1, LONG_NS), "ranks");
    ranks[1].cancel = &waiting;
    REQUIRE(pthread_create(&ranks[1].thread, NULL, take_part, &ranks[1]) == 0, "thread");
    while (!atomic_load(&waits) && wring_now_ns() < until_ns)
        usleep(100);
    ranks[0].cancel = &off;
    run_ranks(ranks, 1);
    pthread_join(ranks[1].thread, NULL);
    CHECK(ranks[0].status == WRING_ERR_CLOSED, "%s", wring_status_text(ranks[0].status));
    CHECK(ranks[1].status == WRING_ERR_PEER, "the other: %s", wring_status_text(ranks[1].status));
    close_ranks(ranks, 2);
}

static void null_and_nothing_are_fine(void)
{
    struct wring_bootstrap *ends[1];
    struct wring_blobs blobs = {0};
    wring_blobs_finish(&blobs);
    REQUIRE(wring_bootstrap_local_create(1, ends) == WRING_OK, "one");
    CHECK(ends[0]->ops->exchange(ends[0], NULL, 0, wring_deadline_in(LONG_NS), NULL, &blobs) ==
              WRING_OK,
          "nothing");
    CHECK(blobs.n == 1 && blobs.offsets[1] == 0, "%u", blobs.n);
    wring_blobs_finish(&blobs);
    CHECK(blobs.storage == NULL && blobs.offsets == NULL, "not finished");
    ends[0]->ops->close(NULL);
    ends[0]->ops->close(ends[0]);
}

#define STREAM_BYTES (4u << 20) /* more than any socket holds */

struct stream {
    int fds[2];
    uint8_t *out, *in;
};

static bool stream_open(struct stream *stream)
{
    stream->out = malloc(STREAM_BYTES);
    stream->in = calloc(1, STREAM_BYTES);
    if (stream->out == NULL || stream->in == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream->fds) != 0)
        return false;
    for (size_t i = 0; i < STREAM_BYTES; i++)
        stream->out[i] = (uint8_t)(i * 7 + i / 253);
    return true;
}

static void stream_close(struct stream *stream)
{
    close(stream->fds[0]);
    if (stream->fds[1] >= 0)
        close(stream->fds[1]);
    free(stream->out);
    free(stream->in);
}

static struct wring_patience until(uint64_t ns)
{
    return (struct wring_patience){wring_deadline_in(ns), NULL};
}

static void *read_all(void *arg)
{
    struct stream *stream = arg;
    const struct wring_patience patience = until(LONG_NS);
    size_t at = 0;
    for (size_t part = 1; at < STREAM_BYTES; part = part * 3 + 1) {
        size_t bytes = part < STREAM_BYTES - at ? part : STREAM_BYTES - at;
        if (wring_stream_read(stream->fds[1], stream->in + at, bytes, &patience) != WRING_OK) {
            CHECK(false, "read at %zu", at);
            break;
        }
        at += bytes;
    }
    return NULL;
}

static void streams_carry_all_of_it(void)
{
    struct stream stream;
    pthread_t thread;
    REQUIRE(stream_open(&stream), "stream");
    REQUIRE(pthread_create(&thread, NULL, read_all, &stream) == 0, "thread");
    const struct wring_patience patience = until(LONG_NS);
    CHECK(wring_stream_write(stream.fds[0], stream.out, STREAM_BYTES, &patience) == WRING_OK,
          "write");
    pthread_join(thread, NULL);
    CHECK(memcmp(stream.in, stream.out, STREAM_BYTES) == 0, "other bytes");
    CHECK(wring_stream_write(stream.fds[0], NULL, 0, &patience) == WRING_OK, "nothing");
    CHECK(wring_stream_read(stream.fds[0], NULL, 0, &patience) == WRING_OK, "nothing");
    stream_close(&stream);
}

static void streams_have_deadlines(void)
{
    struct stream stream;
    REQUIRE(stream_open(&stream), "stream");
    struct wring_patience patience = until(SHORT_NS);
    uint64_t begin = wring_now_ns();
    CHECK(wring_stream_read(stream.fds[0], stream.in, 1, &patience) == WRING_ERR_TIMEOUT, "read");
    CHECK(wring_now_ns() >= patience.deadline_ns, "too early");
    patience = until(SHORT_NS);
    CHECK(wring_stream_write(stream.fds[0], stream.out, STREAM_BYTES, &patience) ==
              WRING_ERR_TIMEOUT,
          "write");
    CHECK(wring_now_ns() - begin < LONG_NS, "too late");
    patience = (struct wring_patience){0, NULL};
    CHECK(wring_stream_read(stream.fds[0], stream.in, 1, &patience) == WRING_ERR_TIMEOUT, "past");
    stream_close(&stream);
}

static void streams_can_be_called_off(void)
{
    struct stream stream;
    atomic_bool off = true;
    const struct wring_cancel cancel = {is_set, &off};
    const struct wring_patience patience = {wring_deadline_in(LONG_NS), &cancel};
    REQUIRE(stream_open(&stream), "stream");
    CHECK(wring_stream_read(stream.fds[0], stream.in, 1, &patience) == WRING_ERR_CLOSED, "read");
    CHECK(wring_stream_write(stream.fds[0], stream.out, STREAM_BYTES, &patience) ==
              WRING_ERR_CLOSED,
          "write");
    stream_close(&stream);
}

/** What came before the end is read; what is missing is an error; nobody is killed by a signal. */
static void ends_of_streams_are_errors(void)
{
    struct stream stream;
    const struct wring_patience patience = until(LONG_NS);
    REQUIRE(stream_open(&stream), "stream");
    CHECK(wring_stream_write(stream.fds[1], stream.out, 100, &patience) == WRING_OK, "write");
    close(stream.fds[1]);
    stream.fds[1] = -1;
    CHECK(wring_stream_read(stream.fds[0], stream.in, 60, &patience) == WRING_OK, "the first");
    CHECK(memcmp(stream.in, stream.out, 60) == 0, "other bytes");
    CHECK(wring_stream_read(stream.fds[0], stream.in, 60, &patience) == WRING_ERR_PEER, "the rest");
    CHECK(wring_stream_write(stream.fds[0], stream.out, 1, &patience) == WRING_ERR_PEER, "write");
    stream_close(&stream);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"everyone_gets_everything", everyone_gets_everything},
        {"absence_has_a_deadline", absence_has_a_deadline},
        {"leaving_ends_the_wait", leaving_ends_the_wait},
        {"waits_can_be_called_off", waits_can_be_called_off},
        {"blobs_go_with_who_gives_up", blobs_go_with_who_gives_up},
        {"null_and_nothing_are_fine", null_and_nothing_are_fine},
        {"streams_carry_all_of_it", streams_carry_all_of_it},
        {"streams_have_deadlines", streams_have_deadlines},
        {"streams_can_be_called_off", streams_can_be_called_off},
        {"ends_of_streams_are_errors", ends_of_streams_are_errors},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
