/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's given socket, by params and by WRING_ROOT_FD, in sessions that do not come about. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/lines.h"
#include "tests/lib/test.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

static struct wring_test_lines lines;

static int make_socket(int type, in_addr_t at, bool listens)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(at)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        (listens && listen(fd, 8) != 0))
        return -1;
    return fd;
}

static int make_listener(void)
{
    return make_socket(SOCK_STREAM, INADDR_LOOPBACK, true);
}

static int make_listener_everywhere(void)
{
    return make_socket(SOCK_STREAM, INADDR_ANY, true);
}

static int make_unheard(void)
{
    return make_socket(SOCK_STREAM, INADDR_LOOPBACK, false);
}

static int make_datagrams(void)
{
    return make_socket(SOCK_DGRAM, INADDR_LOOPBACK, false);
}

static int make_local(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    close(pair[1]);
    return pair[0];
}

static int make_file(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static const struct {
    const char *name;
    int (*make)(void);
    const char *setting; /* NULL: none */
    bool no_key;
    uint32_t size;
    enum wring_status status;
    const char *says;
} cases[] = {
    {"a file", make_file, NULL, false, 2, WRING_ERR_ADDRESS, "needs a listening TCP socket"},
    {"nobody listens", make_unheard, NULL, false, 2, WRING_ERR_ADDRESS, "listen() was called"},
    {"datagrams", make_datagrams, NULL, false, 2, WRING_ERR_ADDRESS, "listen() was called"},
    {"a local one", make_local, NULL, false, 2, WRING_ERR_ADDRESS, "listen() was called"},
    {"no key", make_listener_everywhere, NULL, true, 2, WRING_ERR_AUTH, "without a key"},
    {"ports", make_listener, "WRING_PORTS=9-1", false, 2, WRING_ERR_INVALID, "WRING_PORTS=9-1"},
    {"a setting", make_listener, "WRING_LOG=nosuch", false, 2, WRING_ERR_INVALID, "nosuch"},
    {"no value", make_listener, "nonsense", false, 2, WRING_ERR_INVALID, "WRING_NAME=value"},
    {"rank", make_listener, "WRING_LOG=warn", false, 0, WRING_ERR_INVALID, "rank"},
    {"nobody joins", make_listener, "WRING_JOIN_TIMEOUT=1s", false, 2, WRING_ERR_PEER, "rank 1"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/** @param inherited  by WRING_ROOT_FD instead of params */
static enum wring_status open_with(size_t i, int fd, bool inherited)
{
    char number[32];
    const char *const settings[] = {
        "WRING_PROVIDER=tcp", inherited ? number : "WRING_LOG=warn",
        cases[i].setting != NULL ? cases[i].setting : "WRING_JOIN_TIMEOUT=100s", NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    snprintf(number, sizeof(number), "WRING_ROOT_FD=%d", fd);
    lines = WRING_TEST_LINES_INIT;
    params.root = "127.0.0.1:1";
    params.root_fd = inherited ? 0 : fd;
    params.key = cases[i].no_key ? "" : "a key for tests";
    params.size = cases[i].size;
    params.log = wring_test_lines_take;
    params.log_arg = &lines;
    params.settings = settings;
    enum wring_status status = wring_session_open(&params, &session);
    if (status == WRING_OK)
        wring_session_close(session);
    return status;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void check_case(size_t i, bool inherited)
{
    char number[32];
    int fd = cases[i].make();
    REQUIRE(fd > 0, "%s: %s", cases[i].name, strerror(errno));
    unsigned before = wring_test_descriptors();
    enum wring_status status = open_with(i, fd, inherited);
    CHECK(status == cases[i].status && strstr(lines.text, cases[i].says) != NULL, "%s: %s, %s",
          cases[i].name, wring_status_text(status), lines.text);
    snprintf(number, sizeof(number), "WRING_ROOT_FD=%d:", fd);
    CHECK(status != WRING_ERR_ADDRESS || strstr(lines.text, number) != NULL, "%s, not %s: %s",
          cases[i].name, number, lines.text);
    CHECK(is_open(fd) == inherited, "%s: %s", cases[i].name, inherited ? "closed" : "left open");
    unsigned after = wring_test_descriptors();
    CHECK(after == before - !inherited, "%s: %u descriptors, then %u", cases[i].name, before,
          after);
    if (is_open(fd))
        close(fd);
}

static void one_that_was_given_is_the_sessions(void)
{
    for (size_t i = 0; i < CASES; i++)
        check_case(i, false);
}

static void one_of_the_environment_serves_further_sessions(void)
{
    for (size_t i = 0; i < CASES; i++)
        check_case(i, true);
}

/** Its number may be another one's by then. */
static ino_t inode_of(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 ? stat.st_ino : 0;
}

/** @param bootstrap NULL: a job of one */
static void check_unused(struct wring_bootstrap *bootstrap)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    int fd = make_listener();
    ino_t inode = inode_of(fd);
    params.root_fd = fd;
    params.size = bootstrap == NULL;
    params.bootstrap = bootstrap;
    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "no session");
    CHECK(inode_of(fd) != inode, "left open in a session that needs none");
    wring_session_close(session);
}

static void one_that_is_not_needed_is_closed(void)
{
    struct wring_bootstrap *local;
    check_unused(NULL);
    REQUIRE(wring_bootstrap_local_create(1, &local) == WRING_OK, "no bootstrap");
    check_unused(local);
    local->ops->close(local);
}

/** The launcher's exchange, whose other end has gone, meets instead. */
static void one_beside_a_launcher_is_closed(void)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    char number[16];
    int manager = make_local(), fd = make_listener();
    lines = WRING_TEST_LINES_INIT;
    params.root_fd = fd;
    params.log = wring_test_lines_take;
    params.log_arg = &lines;
    snprintf(number, sizeof(number), "%d", manager);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    enum wring_status status = wring_session_open(&params, &session);
    unsetenv("PMI_FD"), unsetenv("PMI_RANK"), unsetenv("PMI_SIZE");
    CHECK(status == WRING_ERR_SYSTEM, "%s: %s", wring_status_text(status), lines.text);
    snprintf(number, sizeof(number), "FD=%d is", fd);
    CHECK(strstr(lines.text, number) != NULL, "does not say that it is not used: %s", lines.text);
    CHECK(!is_open(fd), "left open");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case all[] = {
        {"one that was given is the session's", one_that_was_given_is_the_sessions},
        {"one of the environment serves further sessions",
         one_of_the_environment_serves_further_sessions},
        {"one that is not needed is closed", one_that_is_not_needed_is_closed},
        {"one beside a launcher is closed", one_beside_a_launcher_is_closed},
        {0},
    };
    return wring_test_main(argc, argv, all);
}
