/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/auth.h"

#define WRING_MODULE "key"

/** @param bytes in, [n], any */
static enum wring_status set_key(const struct wring_log *log, const uint8_t *bytes, size_t n,
                                 struct wring_config *config)
{
    uint8_t digest[WRING_SECRET_BYTES];

    if (n < sizeof(config->key) && memchr(bytes, '\0', n) == NULL) {
        memcpy(config->key, bytes, n);
        config->key[n] = '\0';
        return WRING_OK;
    }
    if (wring_secret_derive(bytes, n, "wring long key", NULL, 0, digest) != WRING_OK) {
        wring_error(log, "this process's libcrypto has no SHA-256");
        return WRING_ERR_SYSTEM;
    }
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(config->key + 2 * i, 3, "%02x", digest[i]);
    return WRING_OK;
}

static enum wring_status refuse_file(const struct wring_log *log, const char *path, const char *why)
{
    wring_error(log, "WRING_KEY_FILE=%s: %s", path, why);
    return WRING_ERR_INVALID;
}

static enum wring_status check_key_file(const struct wring_log *log, const char *path, int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return refuse_file(log, path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return refuse_file(log, path, "is no regular file");
    if ((status.st_mode & 077) != 0)
        return refuse_file(log, path, "others than its owner may use it: chmod 600");
    return WRING_OK;
}

/** @param bytes out, [WRING_KEY_FILE_BYTES_MAX + 1] @param n out */
static enum wring_status read_file(const struct wring_log *log, const char *path, uint8_t *bytes,
                                   size_t *n)
{
    /* without O_NONBLOCK the open of a pipe would wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = 1;

    if (fd < 0)
        return refuse_file(log, path, strerror(errno));
    enum wring_status status = check_key_file(log, path, fd);
    for (*n = 0; status == WRING_OK && got != 0 && *n <= WRING_KEY_FILE_BYTES_MAX;) {
        got = read(fd, bytes + *n, WRING_KEY_FILE_BYTES_MAX + 1 - *n);
        if (got < 0 && errno != EINTR)
            status = refuse_file(log, path, strerror(errno));
        *n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    return status;
}

static enum wring_status read_key_file(const struct wring_log *log, struct wring_config *config)
{
    const char *path = config->key_file;
    uint8_t *bytes = malloc(WRING_KEY_FILE_BYTES_MAX + 1);
    size_t n;

    if (bytes == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = read_file(log, path, bytes, &n);
    if (status == WRING_OK && n > WRING_KEY_FILE_BYTES_MAX)
        status = refuse_file(log, path, "is longer than 64 KiB, which no key is");
    while (status == WRING_OK && n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
        n--;
    if (status == WRING_OK && n == 0)
        status = refuse_file(log, path, "is empty");
    if (status == WRING_OK && n < WRING_KEY_FILE_BYTES_MIN)
        status = refuse_file(log, path,
                             "has fewer than 16 bytes, which can be guessed: "
                             "head -c 32 /dev/urandom | base64 makes a key");
    if (status == WRING_OK)
        status = set_key(log, bytes, n, config);
    free(bytes);
    return status;
}

enum wring_status wring_job_key_read(const struct wring_log *log, const char *given,
                                     struct wring_config *config)
{
    if (given != NULL && *given != '\0')
        return set_key(log, (const uint8_t *)given, strlen(given), config);
    if (config->key[0] != '\0' || config->key_file[0] == '\0')
        return WRING_OK;
    return read_key_file(log, config);
}
