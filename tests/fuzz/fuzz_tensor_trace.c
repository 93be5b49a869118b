/* SPDX-License-Identifier: Apache-2.0 */
/** Traces: any file is refused in one line, or comes back as it was written. */
#include "planner/core/files/tensor_trace.h"
#include "tests/fuzz/fuzz_json.h"

static struct wring_tensor_trace *load(const void *data, size_t size)
{
    struct wring_tensor_trace *trace = NULL;
    struct fuzz_log log;
    char path[64];
    int fd = fuzz_file(data, size, path);

    fuzz_log_init(&log);
    enum wring_status status = wring_tensor_trace_load(path, &log.log, &trace);
    FUZZ_CHECK((status == WRING_OK) == (trace != NULL), "status %d", status);
    if (status != WRING_OK)
        fuzz_check_refusal(status, &log, path);
    close(fd);
    return trace;
}

static char *save(const struct wring_tensor_trace *trace, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    FUZZ_CHECK(file != NULL && wring_tensor_trace_save(trace, file) == WRING_OK, "cannot be saved");
    fclose(file);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_tensor_trace *trace = load(data, size);
    size_t bytes, bytes_again;

    if (trace == NULL)
        return 0;
    char *text = save(trace, &bytes);
    struct wring_tensor_trace *copy = load(text, bytes);
    FUZZ_CHECK(copy != NULL, "what was saved is refused: %s", text);
    FUZZ_CHECK(copy->hash == trace->hash, "another hash: %s", text);
    char *again = save(copy, &bytes_again);
    FUZZ_CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s became %s", text,
               again);
    free(again);
    free(text);
    wring_tensor_trace_destroy(copy);
    wring_tensor_trace_destroy(trace);
    return 0;
}
