/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/json_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct json_log *log = arg;

    (void)level, (void)module;
    log->n++;
    snprintf(log->line, sizeof(log->line), "%s", text);
}

void json_log_init(struct json_log *log)
{
    *log = (struct json_log){.log = {.fn = keep_line, .arg = log, .level = WRING_LOG_DEBUG}};
}

int json_text_open(const char *text, size_t bytes, char *path)
{
    int fd = memfd_create("json", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

enum wring_status json_text_load(const char *text, size_t text_bytes, json_load_fn load, char *line,
                                 size_t bytes, unsigned *n)
{
    char path[64];
    struct json_log log;
    int fd = json_text_open(text, text_bytes, path);

    json_log_init(&log);
    enum wring_status status = load(path, &log.log);
    close(fd);
    *n = log.n;
    size_t prefix = strlen(path) + 2;
    bool named = strncmp(log.line, path, prefix - 2) == 0 && strlen(log.line) >= prefix;
    snprintf(line, bytes, "%s", named ? log.line + prefix : log.line);
    return status;
}

char *json_text_save(const void *value, json_save_fn save, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    if (file == NULL)
        abort();
    CHECK(save(value, file) == WRING_OK, "cannot be saved");
    fclose(file);
    return text;
}

/** The good file with the case's piece exchanged; the caller's to free. */
static char *make_text(const char *good, const struct json_case *c)
{
    const char *at = c->find != NULL ? strstr(good, c->find) : good;
    size_t room = strlen(good) + (c->replace != NULL ? strlen(c->replace) : 0) + 1;
    char *text = malloc(room);

    if (text == NULL || at == NULL || (c->find != NULL && strstr(at + 1, c->find) != NULL)) {
        fprintf(stderr, "\"%s\" does not stand once in the good file\n", c->find);
        abort();
    }
    if (c->find == NULL)
        snprintf(text, room, "%s", c->replace);
    else
        snprintf(text, room, "%.*s%s%s", (int)(at - good), good,
                 c->replace != NULL ? c->replace : "",
                 c->replace != NULL ? at + strlen(c->find) : "");
    return text;
}

void json_cases_check(const char *good, const struct json_case *cases, json_load_fn load)
{
    for (const struct json_case *c = cases; c->line != NULL; c++) {
        char line[1024];
        unsigned n;
        char *text = make_text(good, c);
        enum wring_status status = json_text_load(text, strlen(text), load, line, sizeof(line), &n);
        CHECK(status == c->status, "%s instead of %s: status %d, \"%s\"", c->replace, c->find,
              status, line);
        CHECK(n == (c->status != WRING_OK), "%s instead of %s: %u lines", c->replace, c->find, n);
        CHECK(strcmp(line, c->line) == 0, "%s instead of %s: \"%s\"", c->replace, c->find, line);
        free(text);
    }
}
