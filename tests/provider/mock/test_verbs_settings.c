/* SPDX-License-Identifier: Apache-2.0 */
/** What was set, or agreed, is what queue pairs are made with; and what is said when one fails. */
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "tests/provider/mock/mock.h"
#include "tests/provider/mock/one_pair.h"

#define QUEUE_PAIRS 32

static bool infiniband; /* what the devices are */

/** All of both ends have these attributes, as far as `check` looks. */
static void expect(const char *const *settings, unsigned n_want,
                   void (*check)(const struct ibv_qp_attr *attr))
{
    struct one_pair pair;
    uint32_t all[QUEUE_PAIRS];
    REQUIRE(one_pair_open(&pair, settings), "no pair: %s", pair.said);
    unsigned n = mock_qp_list(all, QUEUE_PAIRS);
    CHECK(n == n_want, "%u queue pairs, not %u", n, n_want);
    for (unsigned i = 0; i < n && i < QUEUE_PAIRS; i++) {
        struct ibv_qp_attr attr;
        REQUIRE(mock_qp_attributes(all[i], &attr), "no queue pair %u", all[i]);
        CHECK(attr.retry_cnt < 7 && attr.rnr_retry < 7, "tries for ever: %u, %u", attr.retry_cnt,
              attr.rnr_retry);
        CHECK(attr.timeout > 0, "waits for ever");
        check(&attr);
    }
    one_pair_close(&pair);
}

static void check_defaults(const struct ibv_qp_attr *attr)
{
    CHECK(attr->timeout == 17 && attr->retry_cnt == 6 && attr->rnr_retry == 6, "%u, %u, %u",
          attr->timeout, attr->retry_cnt, attr->rnr_retry);
    CHECK(attr->path_mtu == IBV_MTU_4096 && attr->pkey_index == 0 && attr->ah_attr.sl == 0,
          "MTU %d, partition %u, service level %u", attr->path_mtu, attr->pkey_index,
          attr->ah_attr.sl);
    CHECK(attr->ah_attr.is_global == !infiniband, "global: %u", attr->ah_attr.is_global);
    CHECK(infiniband || (attr->ah_attr.grh.sgid_index == 1 && attr->ah_attr.grh.traffic_class == 0),
          "GID %u, traffic class %u", attr->ah_attr.grh.sgid_index,
          attr->ah_attr.grh.traffic_class);
}

static void defaults(void)
{
    static const char *const none[] = {NULL};
    expect(none, 4, check_defaults); /* one on each of two rails, at both ends */
}

static void check_all_set(const struct ibv_qp_attr *attr)
{
    CHECK(attr->timeout == 9 && attr->retry_cnt == 3 && attr->rnr_retry == 2, "%u, %u, %u",
          attr->timeout, attr->retry_cnt, attr->rnr_retry);
    CHECK(attr->path_mtu == IBV_MTU_1024 && attr->ah_attr.sl == 5, "MTU %d, service level %u",
          attr->path_mtu, attr->ah_attr.sl);
    CHECK(
        infiniband || (attr->ah_attr.grh.sgid_index == 0 && attr->ah_attr.grh.traffic_class == 106),
        "GID %u, traffic class %u", attr->ah_attr.grh.sgid_index, attr->ah_attr.grh.traffic_class);
}

static void what_is_set(void)
{
    static const char *const settings[] = {"WRING_VERBS_TIMEOUT",
                                           "9",
                                           "WRING_VERBS_RETRIES",
                                           "3",
                                           "WRING_VERBS_RNR_RETRIES",
                                           "2",
                                           "WRING_VERBS_MTU",
                                           "1024",
                                           "WRING_VERBS_SL",
                                           "5",
                                           "WRING_VERBS_TC",
                                           "106",
                                           "WRING_VERBS_QPS",
                                           "3",
                                           "WRING_VERBS_RAILS",
                                           "1",
                                           "WRING_VERBS_GID_INDEX",
                                           "0",
                                           NULL};
    expect(settings, 6, check_all_set);
}

static void check_partition(const struct ibv_qp_attr *attr)
{
    CHECK(attr->pkey_index == 1, "entry %u of the partitions", attr->pkey_index);
}

static void the_partition_asked_for(void)
{
    static const char *const settings[] = {"WRING_VERBS_PKEY", "0x8001", NULL};
    expect(settings, 4, check_partition);
}

static void check_small_mtu(const struct ibv_qp_attr *attr)
{
    CHECK(attr->path_mtu == IBV_MTU_512, "MTU %d", attr->path_mtu);
}

/** Between ports that differ the smaller one counts at both ends. */
static void the_smaller_mtu(void)
{
    static const char *const settings[] = {"WRING_VERBS_RAILS", "1", NULL};
    mock_port_mtu("mock0", 1, IBV_MTU_512);
    mock_port_mtu("mock1", 1, IBV_MTU_512);
    expect(settings, 2, check_small_mtu);
    mock_port_mtu("mock0", 1, IBV_MTU_4096);
    mock_port_mtu("mock1", 1, IBV_MTU_4096);
}

/** What was tried, what came of it, and where. */
static void expect_parts(const char *line, const char *status, const uint32_t *queues, unsigned n)
{
    const char *parts[] = {"write with immediate: ", status, "peer 127.0.0.1:", "mock0 port 1 ",
                           infiniband ? ", GID fe80::" : ", GID 10.0.0.1 to 10.0.0.1"};
    char queue[64];
    bool named = false;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        CHECK(strstr(line, parts[i]) != NULL, "'%s' has no '%s'", line, parts[i]);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++) {
            snprintf(queue, sizeof(queue), " queue pair %u to %u,", queues[i], queues[j]);
            named |= i != j && strstr(line, queue) != NULL;
        }
    CHECK(named, "'%s' names no two queue pairs that there were", line);
}

/** One put fails that way. @return how many lines tell a vendor's error; the last one in `line` */
static unsigned fail_put(struct one_pair *pair, enum ibv_wc_status status, uint32_t *queues,
                         unsigned *n, char *line, size_t bytes)
{
    static const char *const settings[] = {"WRING_VERBS_QPS", "2", "WRING_VERBS_RAILS", "1", NULL};
    if (!one_pair_open(pair, settings))
        wring_test_fail(__FILE__, __LINE__, "one_pair_open", "no pair: %s", pair->said);
    *n = mock_qp_list(queues, QUEUE_PAIRS);
    for (unsigned i = 0; i < *n; i++)
        mock_qp_fail(queues[i], status, 0x42);
    CHECK(end_put(&pair->a, pair->a.base, 0, 4096, 0, 0) == WRING_OK, "put");
    UNTIL(&pair->a, &pair->b,
          pair->a.closed == 1 || one_pair_lines(pair, "vendor error", line, bytes) > 0);
    return one_pair_lines(pair, "vendor error", line, bytes);
}

/** Where others are left it is told at once, in one line. */
static void a_failure_is_one_line(void)
{
    struct one_pair pair;
    uint32_t queues[QUEUE_PAIRS];
    char line[2048];
    unsigned n, lines = fail_put(&pair, IBV_WC_RETRY_EXC_ERR, queues, &n, line, sizeof(line));
    CHECK(lines == 1, "said: %s", pair.said);
    expect_parts(line, "transport retry counter exceeded", queues, n);
    expect_parts(line, "(status 12, vendor error 0x42)", queues, n);
    one_pair_close(&pair);
}

/** Where it is nobody's fault but a side's it ends the connection, and is the reason. */
static void what_is_wrong_by_itself_is_the_reason(void)
{
    struct one_pair pair;
    uint32_t queues[QUEUE_PAIRS];
    char line[2048];
    unsigned n, lines = fail_put(&pair, IBV_WC_REM_ACCESS_ERR, queues, &n, line, sizeof(line));
    CHECK(lines == 0 && pair.a.closed == 1, "said: %s", pair.said);
    CHECK(pair.a.why == WRING_ERR_FRAME, "%s", wring_status_text(pair.a.why));
    expect_parts(pair.a.text, "remote access error", queues, n);
    expect_parts(pair.a.text, "(status 10, vendor error 0x42)", queues, n);
    one_pair_close(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"defaults", defaults},
        {"what_is_set", what_is_set},
        {"the_partition_asked_for", the_partition_asked_for},
        {"the_smaller_mtu", the_smaller_mtu},
        {"a_failure_is_one_line", a_failure_is_one_line},
        {"what_is_wrong_by_itself_is_the_reason", what_is_wrong_by_itself_is_the_reason},
        {NULL, NULL},
    };
    infiniband = argc == 2 && strcmp(argv[1], "infiniband") == 0;
    return wring_test_main(infiniband ? 1 : argc, argv, cases);
}
