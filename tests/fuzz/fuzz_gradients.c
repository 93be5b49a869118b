/* SPDX-License-Identifier: Apache-2.0 */
/** Recorded gradients: any file is refused in one line, or comes back as it was written. */
#include "planner/tool/gradients.h"
#include "tests/fuzz/fuzz_json.h"

static struct wring_gradients *load(const void *data, size_t size)
{
    struct wring_gradients *gradients = NULL;
    struct fuzz_log log;
    char path[64];
    int fd = fuzz_file(data, size, path);

    fuzz_log_init(&log);
    enum wring_status status = wring_gradients_load(path, &log.log, &gradients);
    FUZZ_CHECK((status == WRING_OK) == (gradients != NULL), "status %d", status);
    if (status != WRING_OK)
        fuzz_check_refusal(status, &log, path);
    close(fd);
    return gradients;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_gradients *gradients = load(data, size);
    char *text = NULL;
    size_t bytes;

    if (gradients == NULL)
        return 0;
    FILE *file = open_memstream(&text, &bytes);
    FUZZ_CHECK(file != NULL && wring_gradients_save(gradients, file) == WRING_OK,
               "cannot be saved");
    fclose(file);
    FUZZ_CHECK(bytes == size && memcmp(text, data, size) == 0, "%zu bytes became %zu others", size,
               bytes);
    free(text);
    wring_gradients_destroy(gradients);
    return 0;
}
