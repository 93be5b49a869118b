/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages out of and into device memory, over adapters that take dma-bufs: no core touches a byte
 * of it (one that does ends this process), and a flush shows the device what has come.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/buffer.h"
#include "runtime/request.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60 * WRING_NS_PER_S)
#define BYTES ((size_t)4 << 20)
#define AT 4099u /* where messages begin in their memory */

static const char *const settings[] = {"WRING_PROVIDER=verbs", NULL};
static const size_t sizes[] = {1, 7, 64, 300, 4096, 8192, 8193, 100000, 1 << 20, (3 << 20) + 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/** A rank's memory of either kind. */
struct end {
    struct wring_session *session;
    struct wring_group *world;
    struct device_memory device;
    struct wring_buffer *buffer;
    uint8_t *host;
};

static void end_begin(struct end *end, struct wring_session *session)
{
    *end = (struct end){
        .session = session, .world = wring_session_world(session), .host = calloc(1, BYTES)};
    REQUIRE(end->host != NULL, "no memory");
    device_memory_create(&end->device, BYTES);
    const struct wring_memory memory = {.base = end->device.base,
                                        .bytes = BYTES,
                                        .kind = WRING_MEMORY_DEVICE,
                                        .fd = end->device.fd};
    enum wring_status status = wring_buffer_borrow(session, &memory, &end->buffer);
    REQUIRE(status == WRING_OK, "register: %s", wring_status_text(status));
}

static void end_finish(struct end *end)
{
    wring_buffer_give_back(end->session, end->buffer);
    device_memory_destroy(&end->device);
    free(end->host);
}

static enum wring_status wait_for(struct wring_request *request)
{
    return wring_request_wait(request, WAIT_NS, NULL);
}

static uint8_t byte_of(size_t at, uint64_t seed)
{
    return (uint8_t)((at + seed) * 0x9E3779B97F4A7C15 >> 56);
}

static void fill(uint8_t *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(i, seed);
}

static bool holds(const uint8_t *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(i, seed))
            return false;
    return true;
}

static enum wring_status flush(const struct end *end, size_t at)
{
    struct wring_block_flush how = {0};
    uint64_t deadline = wring_deadline_in(WAIT_NS);
    enum wring_status status;
    do
        status = wring_buffer_flush(end->session, end->buffer, end->device.base + at, &how);
    while (status == WRING_ERR_AGAIN && wring_now_ns() < deadline);
    return status;
}

static void send_one(struct end *end, bool device, size_t bytes, uint64_t seed)
{
    struct wring_request *request;
    enum wring_status status;

    fill((device ? end->device.seen : end->host) + AT, bytes, seed);
    if (device)
        status = wring_send(end->world, end->device.base + AT, bytes, 1, seed, NULL, &request);
    else /* it may be for device memory */
        status = wring_send_offered(end->world, end->host + AT, bytes, 1, seed, &request);
    REQUIRE(status == WRING_OK, "send: %s", wring_status_text(status));
    status = wait_for(request);
    CHECK(status == WRING_OK, "send of %zu bytes: %s", bytes, wring_status_text(status));
}

static void receive_one(struct end *end, bool device, size_t bytes, uint64_t seed)
{
    uint8_t *base = device ? end->device.base : end->host;
    uint8_t *seen = device ? end->device.seen : end->host;
    struct wring_request *request;

    memset(seen, 0xA5, BYTES);
    REQUIRE(wring_recv(end->world, base + AT, bytes, 0, seed, NULL, &request) == WRING_OK, "recv");
    enum wring_status status = wait_for(request);
    CHECK(status == WRING_OK, "receive of %zu bytes: %s", bytes, wring_status_text(status));
    if (device) {
        CHECK(!holds(seen + AT, bytes, seed), "%zu bytes are seen without a flush", bytes);
        CHECK(flush(end, AT + bytes - 1) == WRING_OK, "flush");
    }
    CHECK(holds(seen + AT, bytes, seed), "%zu bytes are others", bytes);
    CHECK(seen[AT - 1] == 0xA5 && seen[AT + bytes] == 0xA5, "bytes beside %zu changed", bytes);
}

static void sum_both(struct wring_session *session, uint32_t rank, void *arg)
{
    struct end end;
    uint64_t seed = 0;

    (void)arg;
    end_begin(&end, session);
    for (unsigned kinds = 0; kinds < 4; kinds++)
        for (size_t i = 0; i < SIZES; i++, seed++) {
            if (rank == 0)
                send_one(&end, (kinds & 1) != 0, sizes[i], seed);
            else
                receive_one(&end, (kinds & 2) != 0, sizes[i], seed);
        }
    end_finish(&end);
}

static void no_core_touches_them(void)
{
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = 2, .settings = settings, .run = sum_both});
}

/** Some posted before, some behind; some truncated, some empty. */
static void mix(struct wring_session *session, uint32_t rank, void *arg)
{
    enum {
        N = 12,
        STEP = 100000
    };
    struct wring_request *requests[N];
    struct end end;

    (void)arg;
    end_begin(&end, session);
    for (unsigned i = 0; i < N; i++) {
        uint8_t *at = end.device.base + (size_t)i * STEP;
        uint64_t bytes = i % 4 == 3 ? 0 : 10u + 9000u * (i % 4);
        if (rank == 0)
            fill(end.device.seen + (size_t)i * STEP, bytes, i);
        enum wring_status status =
            rank == 0
                ? wring_send(end.world, at, bytes, 1, i % 2, NULL, &requests[i])
                : wring_recv(end.world, at, i == 5 ? 1000 : STEP, 0, i % 2, NULL, &requests[i]);
        REQUIRE(status == WRING_OK, "message %u: %s", i, wring_status_text(status));
    }
    for (unsigned i = 0; i < N; i++) {
        uint64_t bytes = i % 4 == 3 ? 0 : 10u + 9000u * (i % 4);
        enum wring_status expected = rank == 1 && i == 5 ? WRING_ERR_TRUNCATED : WRING_OK;
        enum wring_status status = wait_for(requests[i]);
        CHECK(status == expected, "message %u: %s", i, wring_status_text(status));
        if (rank == 0 || bytes == 0)
            continue;
        bytes = i == 5 ? 1000 : bytes;
        CHECK(flush(&end, (size_t)i * STEP) == WRING_OK, "flush");
        CHECK(holds(end.device.seen + (size_t)i * STEP, bytes, i), "message %u", i);
    }
    end_finish(&end);
}

static void they_match_as_others_do(void)
{
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2, .settings = settings, .run = mix});
}

static void misuse(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_request *request;
    struct end end;

    (void)arg;
    end_begin(&end, session);
    CHECK(wring_send(end.world, end.device.base, 100, rank, 1, NULL, &request) ==
              WRING_ERR_UNSUPPORTED,
          "to itself");
    if (rank == 0) { /* eager: its bytes come before anybody knows where they are to be */
        CHECK(wring_send(end.world, end.host, 100, 1, 2, NULL, &request) == WRING_OK &&
                  wait_for(request) == WRING_OK,
              "send");
    } else {
        CHECK(wring_recv(end.world, end.device.base, 100, 0, 2, NULL, &request) == WRING_OK,
              "recv");
        CHECK(wait_for(request) == WRING_ERR_UNSUPPORTED, "an eager message in device memory");
    }
    if (rank == 0) /* all goes on */
        send_one(&end, true, 300, 7);
    else
        receive_one(&end, true, 300, 7);
    end_finish(&end);
}

static void what_would_need_a_core_is_refused(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = misuse,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text, "100 bytes of device memory to this rank itself: copy them there") !=
              NULL,
          "%s", lines.text);
    CHECK(strstr(lines.text, "a receive in device memory got a message that came with its offer: "
                             "member 0 must send it from device memory, too") != NULL,
          "%s", lines.text);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"no_core_touches_them", no_core_touches_them},
        {"they_match_as_others_do", they_match_as_others_do},
        {"what_would_need_a_core_is_refused", what_would_need_a_core_is_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
