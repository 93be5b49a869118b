/* SPDX-License-Identifier: Apache-2.0 */
/* Link-local endpoints to meet at, on a host that has no link. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/lines.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/rendezvous_private.h"

static void zones_that_are_not_here_are_named(void)
{
    static const char *const roots[] = {
        "[fe80::1]:5555",
        "[fe80::1%nosuch0]:5555",
        "[febf::1]:5555",
    };
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            struct wring_test_lines lines = WRING_TEST_LINES_INIT;
            const struct wring_log log = {wring_test_lines_take, &lines, WRING_LOG_WARN};
            const struct wring_rendezvous_params params = {
                .log = &log, .rank = rank, .root = roots[i], .root_fd = -1, .key = "k"};
            struct wring_rendezvous_endpoints endpoints;
            int fd = -1;
            enum wring_status status = rank == 0
                                           ? wring_rendezvous_listen(&params, &fd)
                                           : wring_rendezvous_find_endpoints(&params, &endpoints);
            CHECK(status == WRING_ERR_ADDRESS && fd < 0, "%s, rank %u: %s", roots[i], rank,
                  wring_status_text(status));
            CHECK(strstr(lines.text, roots[i]) != NULL &&
                      strstr(lines.text, "needs a zone of this host, as in [fe80::1%eth0]:5555"),
                  "%s, rank %u: %s", roots[i], rank, lines.text);
        }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"zones that are not here are named", zones_that_are_not_here_are_named},
        {0},
    };
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        wring_test_skip("no network namespace here: %s", strerror(errno));
    return wring_test_main(argc, argv, cases);
}
