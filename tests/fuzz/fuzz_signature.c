/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What two ranks say of a bucket, compared: alike in both directions, and told in one text that
 * ends where it should. Input: the two signatures, with a NUL between.
 */
#include "runtime/commit/commit.h"
#include "tests/fuzz/fuzz.h"

#define TEXT_BYTES 160

/** As it is read from a message: cut at what a signature may have. */
static char *signature(const uint8_t *data, size_t bytes)
{
    return fuzz_text(data, bytes < WRING_SIGNATURE_MAX ? bytes : WRING_SIGNATURE_MAX - 1);
}

static bool compare(const char *ours, const char *theirs)
{
    char *text = malloc(TEXT_BYTES);
    FUZZ_CHECK(text != NULL, "out of memory");
    memset(text, 'x', TEXT_BYTES);
    bool same = wring_signature_compare("b", (struct wring_signed_by){ours, 0},
                                        (struct wring_signed_by){theirs, 1}, text, TEXT_BYTES);
    FUZZ_CHECK(same || memchr(text, '\0', TEXT_BYTES) != NULL, "endless text");
    free(text);
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t first = end != NULL ? (size_t)(end - data) : size;
    size_t second = end != NULL ? size - first - 1 : 0;
    char *ours = signature(data, first);
    char *theirs = signature(end != NULL ? end + 1 : data, second);

    FUZZ_CHECK(compare(ours, ours) && compare(theirs, theirs), "not like itself");
    FUZZ_CHECK(compare(ours, theirs) == compare(theirs, ours), "alike one way only");
    free(ours);
    free(theirs);
    return 0;
}
