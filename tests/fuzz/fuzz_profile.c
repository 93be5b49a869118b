/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles: any file is refused in one line, or comes back as it was written. */
#include "planner/core/files/profile.h"
#include "tests/fuzz/fuzz_json.h"

static struct wring_profile *load(const void *data, size_t size)
{
    struct wring_profile *profile = NULL;
    struct fuzz_log log;
    char path[64];
    int fd = fuzz_file(data, size, path);

    fuzz_log_init(&log);
    enum wring_status status = wring_profile_load(path, &log.log, &profile);
    FUZZ_CHECK((status == WRING_OK) == (profile != NULL), "status %d", status);
    if (status != WRING_OK)
        fuzz_check_refusal(status, &log, path);
    close(fd);
    return profile;
}

static char *save(const struct wring_profile *profile, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    FUZZ_CHECK(file != NULL && wring_profile_save(profile, file) == WRING_OK, "cannot be saved");
    fclose(file);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_profile *profile = load(data, size);
    size_t bytes, bytes_again;

    if (profile == NULL)
        return 0;
    char *text = save(profile, &bytes);
    struct wring_profile *copy = load(text, bytes);
    FUZZ_CHECK(copy != NULL, "what was saved is refused: %s", text);
    FUZZ_CHECK(copy->hash == profile->hash, "another hash: %s", text);
    char *again = save(copy, &bytes_again);
    FUZZ_CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s became %s", text,
               again);
    free(again);
    free(text);
    wring_profile_destroy(copy);
    wring_profile_destroy(profile);
    return 0;
}
