/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes make the job's key, and which files are refused. */
#include "transport/bootstrap/job_key.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/lines.h"
#include "tests/lib/test.h"

static struct wring_test_lines lines;

static enum wring_status read_key(const char *given, const char *path, struct wring_config *config)
{
    struct wring_log log = {wring_test_lines_take, &lines, WRING_LOG_WARN};

    lines = WRING_TEST_LINES_INIT;
    wring_config_defaults(config, &log);
    if (path != NULL)
        wring_config_set(config, &log, "WRING_KEY_FILE", path);
    return wring_job_key_read(&log, given, config);
}

/** The key of a file with these bytes and this mode. */
static enum wring_status read_bytes(const void *bytes, size_t n, mode_t mode,
                                    struct wring_config *config)
{
    char path[] = "/tmp/wring-key-XXXXXX";
    int fd = mkstemp(path);

    CHECK(write(fd, bytes, n) == (ssize_t)n && fchmod(fd, mode) == 0, "no file");
    close(fd);
    enum wring_status status = read_key(NULL, path, config);
    unlink(path);
    return status;
}

static void all_of_a_file_counts(void)
{
    struct wring_config a, b;
    char long_line[3000], early_nul[64] = "0123456789abcdef", pem[400];

    memset(long_line, 'x', sizeof(long_line));
    CHECK(read_bytes(long_line, sizeof(long_line), 0600, &a) == WRING_OK, "%s", lines.text);
    long_line[2999] = 'y';
    CHECK(read_bytes(long_line, sizeof(long_line), 0600, &b) == WRING_OK, "%s", lines.text);
    CHECK(strcmp(a.key, b.key) != 0, "the end of a long line is lost");
    CHECK(read_key(strndupa(long_line, 3000), NULL, &a) == WRING_OK && strcmp(a.key, b.key) == 0,
          "a program's long key is not the file's");

    CHECK(read_bytes(early_nul, 64, 0600, &a) == WRING_OK, "%s", lines.text);
    early_nul[40] = 1;
    CHECK(read_bytes(early_nul, 64, 0600, &b) == WRING_OK, "%s", lines.text);
    CHECK(strcmp(a.key, b.key) != 0, "what follows a NUL is lost");

    snprintf(pem, sizeof(pem), "-----BEGIN KEY-----\n%s\n", "first");
    CHECK(read_bytes(pem, strlen(pem), 0600, &a) == WRING_OK, "%s", lines.text);
    snprintf(pem, sizeof(pem), "-----BEGIN KEY-----\n%s\n", "second");
    CHECK(read_bytes(pem, strlen(pem), 0600, &b) == WRING_OK, "%s", lines.text);
    CHECK(strcmp(a.key, b.key) != 0, "what follows the first line is lost");

    const char *text = "0123456789abcdef";
    CHECK(read_bytes("0123456789abcdef\r\n", 18, 0400, &a) == WRING_OK && strcmp(a.key, text) == 0,
          "%s", lines.text);
}

static void files_that_keep_no_secret_are_refused(void)
{
    static char huge[WRING_KEY_FILE_BYTES_MAX + 1];
    const char *good = "0123456789abcdef0123456789abcdef";
    struct wring_config config;
    static const mode_t modes[] = {0640, 0604, 0660, 0644, 0620, 0601};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        CHECK(read_bytes(good, 32, modes[i], &config) == WRING_ERR_INVALID &&
                  strstr(lines.text, "chmod 600") != NULL && config.key[0] == '\0',
              "mode %o: %s", modes[i], lines.text);
    CHECK(read_bytes("", 0, 0600, &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "is empty") != NULL,
          "%s", lines.text);
    CHECK(read_bytes("\n\n\n", 3, 0600, &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "is empty") != NULL,
          "%s", lines.text);
    CHECK(read_bytes("secret\n", 7, 0600, &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "fewer than 16 bytes") != NULL,
          "%s", lines.text);
    memset(huge, 'x', sizeof(huge));
    CHECK(read_bytes(huge, sizeof(huge), 0600, &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "64 KiB") != NULL,
          "%s", lines.text);
    CHECK(read_bytes(huge, sizeof(huge) - 1, 0600, &config) == WRING_OK, "%s", lines.text);
    CHECK(read_key(NULL, "/nonexistent", &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "No such file") != NULL,
          "%s", lines.text);
    CHECK(read_key(NULL, "/tmp", &config) == WRING_ERR_INVALID &&
              strstr(lines.text, "no regular file") != NULL,
          "%s", lines.text);
}

/** Nobody writes into it: opening it must not wait. */
static void a_pipe_is_refused_at_once(void)
{
    char path[] = "/tmp/wring-key-XXXXXX/pipe";
    struct wring_config config;

    path[sizeof(path) - 6] = '\0';
    REQUIRE(mkdtemp(path) != NULL, "no folder");
    path[sizeof(path) - 6] = '/';
    REQUIRE(mkfifo(path, 0600) == 0, "no pipe");
    CHECK(read_key(NULL, path, &config) == WRING_ERR_INVALID, "%s", lines.text);
    unlink(path);
    path[sizeof(path) - 6] = '\0';
    rmdir(path);
}

static void no_key_is_no_error(void)
{
    struct wring_config config;
    CHECK(read_key(NULL, NULL, &config) == WRING_OK && config.key[0] == '\0', "%s", lines.text);
    CHECK(read_key("given", "/nonexistent", &config) == WRING_OK &&
              strcmp(config.key, "given") == 0,
          "%s", lines.text);
}

static const struct wring_test_case cases[] = {
    {"all of a file counts", all_of_a_file_counts},
    {"files that keep no secret are refused", files_that_keep_no_secret_are_refused},
    {"a pipe is refused at once", a_pipe_is_refused_at_once},
    {"no key is no error", no_key_is_no_error},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
