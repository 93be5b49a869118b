/* SPDX-License-Identifier: Apache-2.0 */
/** Plans: any file is refused in one line, or comes back as it was written. */
#include "planner/core/files/plan.h"
#include "tests/fuzz/fuzz_json.h"

static struct wring_plan *load(const void *data, size_t size)
{
    struct wring_plan *plan = NULL;
    struct fuzz_log log;
    char path[64];
    int fd = fuzz_file(data, size, path);

    fuzz_log_init(&log);
    enum wring_status status = wring_plan_load(path, &log.log, &plan);
    FUZZ_CHECK((status == WRING_OK) == (plan != NULL), "status %d", status);
    if (status != WRING_OK)
        fuzz_check_refusal(status, &log, path);
    close(fd);
    return plan;
}

static char *save(const struct wring_plan *plan, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    FUZZ_CHECK(file != NULL && wring_plan_save(plan, file) == WRING_OK, "cannot be saved");
    fclose(file);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_plan *plan = load(data, size);
    size_t bytes, bytes_again;

    if (plan == NULL)
        return 0;
    char *text = save(plan, &bytes);
    struct wring_plan *copy = load(text, bytes);
    FUZZ_CHECK(copy != NULL, "what was saved is refused: %s", text);
    char *again = save(copy, &bytes_again);
    FUZZ_CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s became %s", text,
               again);
    free(again);
    free(text);
    wring_plan_destroy(copy);
    wring_plan_destroy(plan);
    return 0;
}
