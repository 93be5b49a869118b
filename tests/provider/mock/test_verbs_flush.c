/* SPDX-License-Identifier: Apache-2.0 */
/** What is put into device memory is seen there after a flush, by adapters that show it late. */
#include <errno.h>

#include "tests/lib/device_memory.h"
#include "tests/provider/mock/mock.h"
#include "tests/provider/mock/one_pair.h"

#define BYTES ((size_t)1 << 16)
#define SENT 300
#define MANY 200
#define DELAY_US 300000u /* in which all of them begin */

static const char *const usual[] = {NULL};

static struct wring_region *open_region(struct device_memory *memory, const struct end *end)
{
    struct wring_region *region = NULL;

    device_memory_create(memory, BYTES);
    const struct wring_memory what = {
        .base = memory->base, .bytes = BYTES, .kind = WRING_MEMORY_DEVICE, .fd = memory->fd};
    CHECK(end->provider->ops->region_create(end->provider, &what, &region) == WRING_OK, "region");
    return region;
}

static void close_region(struct device_memory *memory, struct wring_region *region)
{
    region->provider->ops->region_destroy(region);
    device_memory_destroy(memory);
}

/** Until it has ended. */
static enum wring_status flush(struct one_pair *pair, struct wring_region *region, size_t offset)
{
    uint64_t deadline = wring_deadline_in(WAIT_NS), ticket = 0;
    enum wring_status status;
    do {
        status =
            region->provider->ops->region_flush(region, (uint8_t *)region->base + offset, &ticket);
        end_turn(&pair->b);
    } while (status == WRING_ERR_AGAIN && wring_now_ns() < deadline);
    return status;
}

static void puts_are_seen_after_a_flush(void)
{
    struct one_pair pair;
    struct device_memory memory;
    struct wring_remote *remote;
    uint8_t key[WRING_REGION_KEY_MAX];

    REQUIRE(one_pair_open(&pair, usual), "no pair: %s", pair.said);
    struct wring_region *region = open_region(&memory, &pair.b);
    REQUIRE(region != NULL, "no region");
    size_t key_bytes = pair.b.provider->ops->region_export(region, key);
    REQUIRE(pair.a.provider->ops->remote_import(pair.a.conn, key, key_bytes, &remote) == WRING_OK,
            "import");
    for (unsigned i = 0; i < 4; i++) {
        size_t at = i * 8192u;
        fill_pattern(pair.a.base, SENT, i);
        CHECK(pair.a.provider->ops->put(pair.a.conn, pair.a.region, pair.a.base, remote, at, SENT,
                                        i, i) == WRING_OK,
              "put");
        UNTIL(&pair.a, &pair.b, pair.b.arrived == i + 1 && pair.a.done == i + 1);
        CHECK(!has_pattern_again(memory.seen + at, SENT, i), "put %u is seen without a flush", i);
        enum wring_status status = flush(&pair, region, at + SENT - 1);
        CHECK(status == WRING_OK, "flush: %s", wring_status_text(status));
        CHECK(has_pattern_again(memory.seen + at, SENT, i), "put %u is not seen", i);
    }
    pair.a.provider->ops->remote_release(remote);
    close_region(&memory, region);
    one_pair_close(&pair);
}

/** More than there is room for at once wait for their turn. @return false: this thread did not run
 *  for so long that some ended before all had begun */
static bool flush_many(void)
{
    struct one_pair pair;
    struct device_memory memory;
    uint64_t tickets[MANY] = {0}, deadline = wring_deadline_in(WAIT_NS);
    unsigned begun = 0, ended = 0, waited = 0;

    CHECK(one_pair_open(&pair, usual), "no pair: %s", pair.said);
    struct wring_region *region = open_region(&memory, &pair.b);
    if (region == NULL)
        return true;
    const struct wring_provider_ops *ops = pair.b.provider->ops;
    mock_delay(DELAY_US, 0);
    uint64_t began_ns = wring_now_ns();
    for (unsigned i = 0; i < MANY; i++) {
        begun += ops->region_flush(region, memory.base + i, &tickets[i]) == WRING_ERR_AGAIN;
        waited += tickets[i] == 0;
    }
    bool in_time = wring_now_ns() < began_ns + DELAY_US * WRING_NS_PER_US;
    CHECK(begun == MANY || !in_time, "%u of %u have begun", begun, MANY);
    CHECK(waited > 0 || !in_time, "all were taken at once");
    mock_delay(0, 0);
    while (ended < MANY && wring_now_ns() < deadline)
        ended += ops->region_flush(region, memory.base, &tickets[ended]) == WRING_OK;
    CHECK(ended == MANY, "%u of %u", ended, MANY);
    close_region(&memory, region);
    one_pair_close(&pair);
    return in_time;
}

static void many_flushes_end(void)
{
    wring_test_in_time(flush_many);
}

static void what_cannot_be_flushed_is_told(void)
{
    struct one_pair pair;
    struct device_memory memory;
    uint64_t ticket = 0;
    char line[512];
    uint32_t qpns[64];

    REQUIRE(one_pair_open(&pair, usual), "no pair: %s", pair.said);
    struct wring_region *region = open_region(&memory, &pair.b);
    REQUIRE(region != NULL, "no region");
    const struct wring_provider_ops *ops = pair.b.provider->ops;
    CHECK(ops->region_flush(region, memory.base + BYTES, &ticket) == WRING_ERR_INVALID,
          "behind its end");
    mock_fail_call("ibv_create_qp", ENOMEM, 0);
    CHECK(ops->region_flush(region, memory.base, &ticket) == WRING_ERR_DEVICE, "no queue");
    mock_fail_call("", 0, 0);
    CHECK(one_pair_lines(&pair, "no queue pair for flushes on mock", line, sizeof(line)) == 1, "%s",
          pair.said);
    unsigned before = mock_qp_list(qpns, 64);
    CHECK(flush(&pair, region, 0) == WRING_OK, "the next one");
    unsigned after = mock_qp_list(qpns, 64);
    REQUIRE(after > before && after <= 64, "%u queue pairs, then %u", before, after);
    mock_qp_fail(qpns[after - 1], IBV_WC_RETRY_EXC_ERR, 7);
    CHECK(flush(&pair, region, 0) == WRING_ERR_DEVICE, "a queue pair that failed");
    CHECK(flush(&pair, region, 0) == WRING_ERR_DEVICE, "and stays so");
    CHECK(one_pair_lines(&pair, "a flush of device memory failed on mock", line, sizeof(line)) == 1,
          "%s", pair.said);
    close_region(&memory, region);
    one_pair_close(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"puts_are_seen_after_a_flush", puts_are_seen_after_a_flush},
        {"many_flushes_end", many_flushes_end},
        {"what_cannot_be_flushed_is_told", what_cannot_be_flushed_is_told},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
