/* SPDX-License-Identifier: Apache-2.0 */
/** Properties that every codec has, whatever it makes of its input. */
#include <string.h>

#include "tests/unit/codec_check.h"

/** What is not in the list has no property tested. */
static void every_codec_is_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (const char *const *spec = codec_specs; *spec != NULL; spec++)
            found |= strcmp(*spec, (*ops)->name) == 0;
        CHECK(found, "codec %s is not among the specs of this test", (*ops)->name);
    }
}

/** @param step  whole units */
static void check_parts(const struct wring_codec *codec, uint64_t n, uint64_t step)
{
    float *x = codec_gradient(n, 99);
    size_t whole_bytes, at = 0;
    unsigned char *whole = codec_encode(codec, x, n, NULL, &whole_bytes);

    for (uint64_t done = 0; done < n; done += step) {
        size_t bytes;
        uint64_t length = n - done < step ? n - done : step;
        unsigned char *part = codec_encode(codec, x + done, length, NULL, &bytes);
        REQUIRE(at + bytes <= whole_bytes && memcmp(whole + at, part, bytes) == 0,
                "%s n=%zu: unit at %zu differs", wring_codec_info(codec)->spec, (size_t)n,
                (size_t)done);
        at += bytes;
    }
    CHECK(at == whole_bytes, "%s n=%zu: %zu of %zu bytes", wring_codec_info(codec)->spec, (size_t)n,
          at, whole_bytes);
}

static void check_concatenation(const struct wring_codec *codec, uint64_t n)
{
    uint64_t unit = wring_codec_info(codec)->unit;
    check_parts(codec, n, unit < 64 ? unit * 129 : unit);
}

static void concatenation(void)
{
    codec_for_each(check_concatenation, true);
}

static void check_feedback(const struct wring_codec *codec, uint64_t n)
{
    float *x = codec_gradient(n, 3), *residual = codec_gradient(n, 5),
          *before = codec_copy_of(residual, n);
    size_t bytes;
    unsigned char *code = codec_encode(codec, x, n, residual, &bytes);
    float *y = codec_decode(codec, code, bytes, n);

    if (wring_codec_info(codec)->flags & WRING_CODEC_EXACT)
        return; /* it has no feedback: the parser says so */
    for (uint64_t i = 0; i < n; i++) {
        float value = x[i] + before[i], want = value - y[i];
        REQUIRE(memcmp(&residual[i], &want, sizeof(want)) == 0, "%s n=%zu i=%zu: %a - %a left %a",
                wring_codec_info(codec)->spec, (size_t)n, (size_t)i, value, y[i], residual[i]);
        before[i] = value;
    }
    size_t plain_bytes;
    unsigned char *plain = codec_encode(codec, before, n, NULL, &plain_bytes);
    CHECK(plain_bytes == bytes && memcmp(plain, code, bytes) == 0,
          "%s n=%zu: fused and plain encode differ", wring_codec_info(codec)->spec, (size_t)n);
}

static void feedback(void)
{
    codec_for_each(check_feedback, true);
}

static void check_add(const struct wring_codec *codec, uint64_t n)
{
    float *x = codec_gradient(n, 23), *sum = codec_gradient(n, 29);
    size_t bytes;
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    float *y = codec_decode(codec, code, bytes, n), *before = codec_copy_of(sum, n);

    CHECK(wring_codec_decode(codec, &codec_alone, code, bytes, sum, n, true) == WRING_OK,
          "add failed");
    for (uint64_t i = 0; i < n; i++) {
        float want = before[i] + y[i];
        REQUIRE(memcmp(&sum[i], &want, sizeof(want)) == 0, "%s n=%zu i=%zu: %a + %a gave %a",
                wring_codec_info(codec)->spec, (size_t)n, (size_t)i, before[i], y[i], sum[i]);
    }
}

static void adding(void)
{
    codec_for_each(check_add, true);
}

static void check_same_bytes(const struct wring_codec *codec, uint64_t n)
{
    struct wring_codec *reference = codec_make(wring_codec_info(codec)->spec, "scalar");
    float *x = codec_gradient(n, 31), *residual = codec_gradient(n, 37),
          *other = codec_copy_of(residual, n);
    size_t bytes, want_bytes;
    unsigned char *got = codec_encode(codec, x, n, residual, &bytes);
    unsigned char *want = codec_encode(reference, x, n, other, &want_bytes);

    CHECK(bytes == want_bytes && memcmp(got, want, bytes) == 0, "%s n=%zu tier %s: other bytes",
          wring_codec_info(codec)->spec, (size_t)n, wring_codec_info(codec)->tier);
    CHECK(memcmp(residual, other, n * sizeof(*other)) == 0, "%s n=%zu tier %s: other residual",
          wring_codec_info(codec)->spec, (size_t)n, wring_codec_info(codec)->tier);
    wring_codec_destroy(reference);
}

static void same_bytes(void)
{
    codec_for_each(check_same_bytes, true);
}

/** Calls that fetch and store otherwise, as they go over more than caches hold: the bits stay. */
static void long_calls(void)
{
    const uint64_t n = ((uint64_t)1 << 20) + 1235;
    static const char *const specs[] = {
        "none",   "lossless",        "lossless:block=32", "lossless:block=4096", "int8",
        "onebit", "onebit:block=32", "onebit:means=2",    "onebit:block=65536"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct wring_codec *codec = codec_make(specs[i], NULL);
        check_parts(codec, n, (uint64_t)1 << 18);
        check_add(codec, n);
        check_same_bytes(codec, n);
        wring_codec_destroy(codec);
        wring_test_free_guarded();
    }
}

static const struct wring_test_case cases[] = {
    {"every_codec_is_listed", every_codec_is_listed},
    {"concatenation", concatenation},
    {"feedback", feedback},
    {"adding", adding},
    {"same_bytes", same_bytes},
    {"long_calls", long_calls},
    {0},
};

int main(int argc, char **argv)
{
    return codec_test_main(argc, argv, cases);
}
