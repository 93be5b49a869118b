/* SPDX-License-Identifier: Apache-2.0 */
/** The traces that wring ships are found by name, and are as wring itself would write them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/tensor_trace.h"
#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

static const char *const names[] = {"bert-base", "bert-large", "gpt2",  "gpt2-large", "gpt2-medium",
                                    "gpt2-xl",   "llama-7b",   "lstm",  "ncf",        "resnet101",
                                    "resnet50",  "ugatit",     "vgg16", "vit-l-16"};
#define NAMES (sizeof(names) / sizeof(names[0]))

static struct wring_log loud = {.level = WRING_LOG_ERROR};

static char *read_text(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (file == NULL || text == NULL)
        abort();
    *bytes = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

static enum wring_status save(const void *trace, FILE *file)
{
    return wring_tensor_trace_save(trace, file);
}

static void shipped(void)
{
    for (size_t i = 0; i < NAMES; i++) {
        struct wring_tensor_trace *trace = NULL;
        char path[4096];
        size_t bytes, bytes_saved;

        REQUIRE(wring_tensor_trace_find(names[i], "", &loud, path, sizeof(path)) == WRING_OK,
                "no %s", names[i]);
        REQUIRE(wring_tensor_trace_load(path, &loud, &trace) == WRING_OK, "%s", path);
        CHECK(trace->forward_us > 0 && strncmp(trace->source, "computed, not measured", 22) == 0,
              "%s: %s", path, trace->source);
        char *text = read_text(path, &bytes), *saved = json_text_save(trace, save, &bytes_saved);
        CHECK(bytes == bytes_saved && memcmp(text, saved, bytes) == 0, "%s: written as\n%s", path,
              saved);
        free(text);
        free(saved);
        wring_tensor_trace_destroy(trace);
    }
}

static void found(void)
{
    char folder[] = "/tmp/wring-traces-XXXXXX", file[64], path[64];

    REQUIRE(mkdtemp(folder) != NULL, "no folder");
    snprintf(file, sizeof(file), "%s/mine.json", folder);
    fclose(fopen(file, "w"));
    CHECK(wring_tensor_trace_find("mine", folder, &loud, path, sizeof(path)) == WRING_OK &&
              strcmp(path, file) == 0,
          "%s", path);
    CHECK(wring_tensor_trace_find("/any/where", folder, &loud, path, sizeof(path)) == WRING_OK &&
              strcmp(path, "/any/where") == 0,
          "%s", path);
    CHECK(wring_tensor_trace_find("vgg16.json", folder, &loud, path, sizeof(path)) == WRING_OK &&
              strcmp(path, "vgg16.json") == 0,
          "%s", path);
    struct json_log log;
    json_log_init(&log);
    CHECK(wring_tensor_trace_find("vgg16", folder, &log.log, path, sizeof(path)) ==
              WRING_ERR_INVALID,
          "a trace of another folder");
    CHECK(log.n == 1 && strstr(log.line, "vgg16: neither a file nor the name of a trace in ") &&
              strstr(log.line, ", which has mine"),
          "%s", log.line);
    CHECK(wring_tensor_trace_find("mine", folder, &log.log, path, 8) == WRING_ERR_INVALID,
          "a path that does not fit");
    unlink(file);
    rmdir(folder);
    CHECK(wring_tensor_trace_find("mine", folder, &log.log, path, sizeof(path)) ==
                  WRING_ERR_INVALID &&
              strstr(log.line, ", which has none"),
          "%s", log.line);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"shipped", shipped}, {"found", found}, {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
