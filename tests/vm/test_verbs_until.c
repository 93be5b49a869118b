/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One rank of a job that goes on until there is a certain file, for tests that do something to
 * it meanwhile. Whoever sees the file tells the others in the sum that all exchange, so that all
 * end after the same step, of 1 MiB. Every element of every step is checked.
 *
 *     WRING_RANK=0 WRING_SIZE=2 WRING_ROOT=... WRING_PROVIDER=verbs test_verbs_until FILE
 */
#include <unistd.h>

#include <wring/wring.h>

#include "tests/lib/test.h"

#define ELEMS (1 << 18)

static const char *enough; /* the file */

/**
 * A step's numbers; the first one says whether this rank has had enough. Integers that count up:
 * in emulation other arithmetic takes longer than the exchange.
 */
static void fill(int32_t *data, uint32_t rank, unsigned step, bool ended)
{
    int32_t first = (int32_t)(step % 1000 + rank);

    for (int32_t i = 0; i < ELEMS; i++)
        data[i] = i + first;
    data[0] = ended ? 1 : 0;
}

/** @return how many elements are not the sum of what all ranks put in */
static unsigned count_wrong(const int32_t *data, uint32_t ranks, unsigned step)
{
    int32_t n = (int32_t)ranks, first = n * (int32_t)(step % 1000) + n * (n - 1) / 2;
    unsigned wrong = 0;

    for (int32_t i = 1; i < ELEMS; i++)
        wrong += data[i] != n * i + first;
    return wrong;
}

/** @return the status, which nothing follows if it is an error */
static enum wring_status run_step(struct wring_session *session, int32_t *data, unsigned step,
                                  bool ended)
{
    fill(data, wring_session_rank(session), step, ended);
    enum wring_status status = wring_allreduce(wring_session_world(session), data, data, ELEMS,
                                               WRING_I32, WRING_SUM, NULL, NULL);
    CHECK(status == WRING_OK, "step %u: %s", step, wring_status_text(status));
    if (status == WRING_OK) {
        unsigned wrong = count_wrong(data, wring_session_size(session), step);
        CHECK(wrong == 0, "step %u: %u elements are wrong", step, wrong);
    }
    return status;
}

static void until_enough(void)
{
    const struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    void *memory;

    REQUIRE(enough != NULL, "no file is named");
    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "the job did not meet");
    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(int32_t), &memory) == WRING_OK, "no memory");
    int32_t *data = memory;
    enum wring_status status = WRING_OK;
    data[0] = 0;
    for (unsigned step = 0; status == WRING_OK && data[0] == 0; step++)
        status = run_step(session, data, step, access(enough, F_OK) == 0);
    wring_session_close(session);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"until_enough", until_enough}, {NULL, NULL}};
    enough = argc == 2 ? argv[1] : NULL;
    return wring_test_main(1, argv, cases);
}
