/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a process manager answers over PMI-1 and PMI-2. Whatever that is, a broadcast ends with a
 * text that has an end, or with one line.
 *
 * Input: bit 0 PMI-2, bit 1 rank 0 (1 byte), then all that the manager says before it closes.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fuzz/fuzz.h"

/* What it knows of its process is in there, and has to be forgotten between two inputs. */
#define atexit(function) ((void)(function))
#include "transport/bootstrap/pmi.c"

#define PATIENCE_NS (120 * WRING_NS_PER_S) /* nothing here waits: the manager has said all */

static unsigned lines;

static void check_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)module;
    lines += level == WRING_LOG_ERROR;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
}

static void forget(void)
{
    channel.dialect = NULL;
    channel.begun = channel.broken = false;
    channel.sequence = 0;
    channel.input_bytes = 0;
}

/** The manager's end, which has said it and says no more. @return ours */
static int be_manager(const uint8_t *said, size_t bytes, int *far)
{
    int pair[2];
    char text[16];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets");
    FUZZ_CHECK(write(pair[1], said, bytes) == (ssize_t)bytes, "a short write");
    shutdown(pair[1], SHUT_WR);
    snprintf(text, sizeof(text), "%d", pair[0]);
    setenv("PMI_FD", text, 1);
    *far = pair[1];
    return pair[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wring_log log = {check_line, NULL, WRING_LOG_ERROR};
    struct fuzz_input input = {data, size};
    uint32_t how = fuzz_take(&input, 1);
    const struct wring_launcher_exchange *exchange =
        how & 1 ? &wring_exchange_pmi2 : &wring_exchange_pmi1;
    char *text = calloc(1, WRING_LAUNCHER_TEXT), why[200];
    int far, near = be_manager(input.data, input.left, &far);

    FUZZ_CHECK(text != NULL, "out of memory");
    snprintf(text, WRING_LAUNCHER_TEXT, "what-rank-0-says");
    lines = 0;
    FUZZ_CHECK(exchange->usable(why, sizeof(why)), "%s", why);
    enum wring_status status =
        exchange->broadcast(&log, (how & 2) != 0, wring_deadline_in(PATIENCE_NS), text);
    FUZZ_CHECK(status == WRING_OK ? lines == 0 : lines == 1, "status %d, %u lines", status, lines);
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_SYSTEM, "status %d", status);
    FUZZ_CHECK(memchr(text, '\0', WRING_LAUNCHER_TEXT) != NULL, "a text without an end");
    close(near);
    close(far);
    free(text);
    forget();
    return 0;
}
