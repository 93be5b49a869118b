/* SPDX-License-Identifier: Apache-2.0 */
/** The bytes of a code: those of FORMAT.md, and such that no encoder wrote. */
#include <string.h>

#include "compress/residual.h"
#include "compress/solo.h"
#include "tests/unit/codec_check.h"

static void worked(const char *spec, const float *x, uint64_t n, const unsigned char *want,
                   size_t want_bytes)
{
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    size_t bytes;
    unsigned char *code = codec_encode(codec, x, n, NULL, &bytes);
    CHECK(bytes >= want_bytes && memcmp(code, want, want_bytes) == 0,
          "%s: other bytes than FORMAT.md says", spec);
    wring_codec_destroy(codec);
}

#define WORKED(spec, x, n, ...)                              \
    worked(spec, x, n, (const unsigned char[]){__VA_ARGS__}, \
           sizeof((const unsigned char[]){__VA_ARGS__}))

/** Of a codec with rounds or state, in the first step of a group of one. @param rows  0: no matrix
 *  @param want  the code; or what it decodes to, if given */
static void worked_alone(const char *spec, const float *x, uint64_t n, uint64_t rows,
                         const unsigned char *want, size_t want_bytes, const float *values)
{
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    struct wring_codec_context context = {
        .ranks = 1, .elems = n, .rows = rows, .columns = rows == 0 ? 0 : n / rows};
    unsigned char *code = wring_test_guarded(wring_codec_bound(codec, n));
    float *out = wring_test_guarded(n * sizeof(*out));
    struct wring_solo solo;

    CHECK(wring_solo_init(&solo, codec, &context) == WRING_OK, "memory");
    wring_solo_rounds(&solo, &context, x, NULL);
    size_t bytes = wring_codec_encode(codec, &context, x, n, NULL, code);
    CHECK(bytes == want_bytes && memcmp(code, want, want_bytes) == 0,
          "%s: other bytes than FORMAT.md says", spec);
    CHECK(wring_codec_decode(codec, &context, code, bytes, out, n, false) == WRING_OK, "%s", spec);
    CHECK(values == NULL || memcmp(out, values, 4 * sizeof(*out)) == 0,
          "%s: other values than FORMAT.md says", spec);
    wring_solo_finish(&solo);
    wring_codec_destroy(codec);
}

static void worked_bytes_of_state(void)
{
    static const unsigned char nothing[4] = {0}, votes[] = {0, 0, 0, 0, 2, 0, 0, 0x80};
    static const uint32_t values[] = {0x3D9195E3, 0xBDBE98CE, 0xBDC0798E, 0xBD3A668B},
                          first[] = {0x3BB07367, 0xBCC6E840, 0xBCEDC35D, 0xBCD0B8E3};
    float signs[32] = {1, -3}, matrix[256] = {0}, floats[4];

    for (int i = 2; i < 32; i++)
        signs[i] = i < 31 ? 1 : -1;
    for (int i = 0; i < 256; i += 17)
        matrix[i] = 1;
    memcpy(floats, values, sizeof(floats));
    worked_alone("signum:block=32:beta=0.5", signs, 32, 0, votes, sizeof(votes), NULL);
    worked_alone("powersgd", matrix, 256, 16, nothing, sizeof(nothing), floats);
    memcpy(floats, first, sizeof(floats));
    worked_alone("powersgd:rank=1", matrix, 256, 16, nothing, sizeof(nothing), floats);
}

/** How the code of a step begins. */
struct step_code {
    size_t n_bytes;
    unsigned char bytes[28];
};

/** The same input in one step after the other of a group of one. @param residual  [n], or NULL */
static void worked_steps(const char *spec, const float *x, uint64_t n, float *residual,
                         const struct step_code *steps, size_t n_steps)
{
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    struct wring_codec_context context = {.ranks = 1, .elems = n};
    unsigned char *code = wring_test_guarded(wring_codec_bound(codec, n));
    struct wring_solo solo;

    CHECK(wring_solo_init(&solo, codec, &context) == WRING_OK, "memory");
    for (; context.step < n_steps; context.step++) {
        const struct step_code *want = &steps[context.step];
        size_t bytes = wring_codec_encode(codec, &context, x, n, residual, code);
        CHECK(bytes >= want->n_bytes && memcmp(code, want->bytes, want->n_bytes) == 0,
              "%s, step %d: other bytes than FORMAT.md says", spec, (int)context.step);
    }
    wring_solo_finish(&solo);
    wring_codec_destroy(codec);
}

/** What a step sends depends on those before, or on its number. */
static void worked_bytes_of_steps(void)
{
    static const float sparse[256] = {[5] = 1, [9] = -2};
    static const struct step_code collected[] = {{12, {1, 0, 0, 0, 0, 0, 0, 0xC0, 9}},
                                                 {12, {1, 0, 0, 0, 0, 0, 0x20, 0x40, 5}}};
    static const struct step_code differences[] = {
        {12, {1, 0, 0, 0, 0, 0, 0, 0xC0, 9}}, {12, {1, 0, 0, 0, 0, 0, 0x80, 0x3F, 5}}, {4, {0}}};
    static const struct step_code warmed[] = {
        {4, {64}},
        {4, {16}},
        {28, {4,    0,    0, 0, 0,    0,    0x7D, 0x43, 0,    0, 0x7E, 0x43, 0,    0,
              0x7F, 0x43, 0, 0, 0x80, 0x43, 0xFC, 0,    0xFD, 0, 0xFE, 0,    0xFF, 0}},
        {12, {1, 0, 0, 0, 0, 0, 0x80, 0x43, 0xFF}},
        {12, {1, 0, 0, 0, 0, 0, 0x80, 0x43, 0xFF}}};
    float residual[256] = {0}, upward[256];

    worked_steps("dgc:momentum=0.5:block=256", sparse, 256, NULL, collected, 2);
    worked_steps("topk:ratio=0.001:block=256+ef21", sparse, 256, residual, differences, 3);
    CHECK(residual[5] == -1 && residual[9] == 2, "what was sent is %g and %g", (double)-residual[5],
          (double)-residual[9]);
    for (int i = 0; i < 256; i++)
        upward[i] = (float)(i + 1);
    worked_steps("topk:ratio=0.001:block=256+warmup:steps=4", upward, 256, NULL, warmed, 5);
}

/** +ef:residual: what is left is rounded by the noise of phase 2. */
static void worked_residuals(void)
{
    static const float casts[32] = {1.00390625f, -1.01171875f, 1.0f / 3, 0.1f},
                       eights[32] = {1, -0.5f, 0.31f, 0.01f};
    static const uint16_t upper[] = {0x3F80, 0xBF82, 0x3EAB, 0x3DCC};
    static const int8_t steps[] = {64, -32, 20, 0};
    static const char *const specs[] = {"onebit+ef:residual=bf16", "onebit+ef:residual=int8"};
    float residual[32], out[32];

    for (int s = 0; s < 2; s++) {
        struct wring_codec *codec = codec_make(specs[s], NULL, NULL);
        wring_residual_round(codec, &codec_alone, residual, s == 0 ? casts : eights, 32);
        wring_residual_read(codec, residual, 0, 32, out);
        for (int i = 0; i < 4; i++) {
            uint32_t bits = (uint32_t)upper[i] << 16;
            float want = (float)steps[i] * 0x1p-6f;
            if (s == 0)
                memcpy(&want, &bits, sizeof(want));
            CHECK(memcmp(&out[i], &want, sizeof(want)) == 0, "%s: %g is kept, FORMAT.md says %g",
                  specs[s], (double)out[i], (double)want);
        }
        wring_codec_destroy(codec);
    }
}

static void worked_bytes(void)
{
    static const float thirds[] = {1.0f / 3, -65519.99609375f, 1e-7f, 65520};
    static const float halves[] = {1, 1.00390625f, -1.01171875f};
    static const float steps[32] = {127, -64, 0.5f, 1.5f};
    static const float signs[32] = {1, -3};
    static const float near[32] = {1, -1.5f, 0.25f, -0.0f, 1.0f / 3};
    static float votes[33] = {[1] = -3, [31] = -0x1p-149f, [32] = -1};
    static const float sparse[256] = {[5] = 1, [9] = -2};
    static const float drawn[32] = {7, -2.5f, 0.5f, 3.25f}, powers[32] = {3, -1, 0.3f};
    static const float wide[32] = {1, -0.5f, 0, 100};
    static const float casts[] = {1.00390625f, -1.01171875f, 1.0f / 3, 0.1f};
    static const float fours[32] = {7, -2.5f, 3.5f, -7}, twos[32] = {1, -0.5f, 0, 2.5f};
    static const float small[32] = {448, -64, 1.0625f, 0.001f}, few[4] = {7, -2.5f, 0.3f, 0.01f};
    static const float blocks[64] = {7, -2.5f, 0.3f, 0.01f, [16] = 1, -0.25f};

    float upward[32];

    for (int i = 0; i < 31; i++)
        votes[i] = i == 1 ? -3 : 1;
    for (int i = 0; i < 32; i++)
        upward[i] = (float)(i + 1);
    WORKED("randk:block=32:ratio=0.125", upward, 32, 0, 0, 0xC0, 0x42, 0, 0, 0xD0, 0x42, 0, 0, 0xE0,
           0x42, 0, 0, 0x58, 0x43);
    WORKED("lossless:block=32", near, 5, 3, 127, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0x56, 0x55, 0, 0x80,
           0, 0, 0x55, 0x08, 0x1C, 0x08, 0, 0);
    WORKED("bf16", halves, 3, 0x80, 0x3F, 0x80, 0x3F, 0x82, 0xBF);
    WORKED("fp16", thirds, 4, 0x55, 0x35, 0xFF, 0xFB, 0x02, 0x00, 0x00, 0x7C);
    WORKED("int8:block=32", steps, 32, 0, 0, 0x80, 0x3F, 0x7F, 0xC0, 0x00, 0x02, 0x00);
    WORKED("onebit:block=32", signs, 32, 0, 0, 0, 0x3E, 2, 0, 0, 0);
    WORKED("signsgd:block=32", votes, 33, 0, 0, 0, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 1);
    WORKED("hashed:block=256", sparse, 256, 0, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 9, 0, 0, 0);
    WORKED("threshold:value=1:block=256", sparse, 256, 2, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0,
           5, 0, 9, 0);
    WORKED("threshold:value=1:cap=0.001:block=256", sparse, 256, 1, 0, 0, 0, 0, 0, 0, 0xC0, 9, 0, 0,
           0);
    WORKED("threshold:value=1:block=256:index=packed", sparse, 256, 2, 0, 0, 2, 0, 0, 0x80, 0x3F, 0,
           0, 0, 0xC0, 0x6E, 0, 0, 0);
    WORKED("threshold:value=1:cap=0.001:block=256:index=packed", sparse, 256, 1, 0, 0, 3, 0, 0, 0,
           0xC0, 6, 0, 0, 0);
    WORKED("union", sparse, 256, 2, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 5, 0, 9, 0);
    WORKED("union:block=32", signs, 32, 2, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0x40, 0xC0, 3, 0, 0, 0);
    WORKED("union:block=32", upward, 3, 3, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x40,
           0x40);
    WORKED("topk:block=256", sparse, 256, 2, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 5, 0, 9, 0);
    WORKED("topk:block=256/int8:block=32", sparse, 256, 2, 0, 0, 0, 0x04, 0x02, 0x81, 0x3C, 0x40,
           0x81, 5, 0, 9, 0, 0, 0);
    WORKED("topk:block=256:index=packed", sparse, 256, 2, 0, 0, 2, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0,
           0x6E, 0, 0, 0);
    WORKED("topk:block=256:index=packed/int8:block=32", sparse, 256, 2, 0, 0, 2, 0x04, 0x02, 0x81,
           0x3C, 0x40, 0x81, 0x6E, 0);
    WORKED("natural", drawn, 3, 0x82, 0x80, 0x7E, 2);
    WORKED("natural:bits=8", drawn, 3, 0x5A, 0xD8, 0x56);
    WORKED("qsgd:block=32", drawn, 32, 0, 0, 0x80, 0x3F, 0xE7, 0x31, 0);
    WORKED("qsgd:bits=8:partition=natural:block=32", powers, 32, 0, 0, 0x40, 0x40, 0x7F, 0x83, 0x7C,
           0);
    WORKED("bounded:error=0.25:block=32", wide, 32, 1, 0, 2, 0, 0, 0, 0x80, 0x3F, 0, 0, 0xC8, 0x42,
           2, 0, 0, 0, 0, 0, 3, 0);
    WORKED("bf16:round=random", casts, 4, 0x81, 0x3F, 0x82, 0xBF, 0xAB, 0x3E, 0xCC, 0x3D);
    WORKED("fp16:round=random", casts, 4, 0x04, 0x3C, 0x0C, 0xBC, 0x56, 0x35, 0x66, 0x2E);
    WORKED("int4:block=32", fours, 32, 0, 0, 0x80, 0x3F, 0xE7, 0x94, 0);
    WORKED("int2:range=minmax:block=32", twos, 32, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xBF, 0xC2, 0);
    WORKED("fp8:block=32", small, 32, 0, 0, 0x80, 0x3F, 0x7E, 0xE8, 0x38, 1, 0);
    WORKED("fp8:format=e5m2:block=32", small, 32, 0, 0, 0, 0x3C, 0x7B, 0xF0, 0x58, 0x30, 0);
    WORKED("fp8:round=random:block=32", small, 32, 0, 0, 0x80, 0x3F, 0x7E, 0xE8, 0x39, 0, 0);
    WORKED("mxfp8", few, 4, 0x79, 0x7E, 0xF2, 0x5A, 0x32);
    WORKED("mxfp4", few, 4, 0x7F, 0xC7, 1);
    WORKED("mxfp4:round=random", few, 4, 0x80, 0xB6, 1);
    WORKED("nvfp4:block=64", blocks, 18, 0xAB, 0xAA, 0x2A, 0x3B, 0x7E, 0x68, 0xC7, 1, 0, 0, 0, 0, 0,
           0, 0xB7);
}

/** One unit's code by hand; what a peer must not get away with. */
static void refuse(const char *spec, uint64_t n, const uint32_t *words, size_t n_words,
                   const char *what)
{
    struct wring_codec *codec = codec_make(spec, NULL, NULL);
    bool fixed = wring_codec_info(codec)->flags & WRING_CODEC_FIXED;
    size_t bytes = fixed ? wring_codec_bound(codec, n) : n_words * sizeof(*words);
    unsigned char *code = wring_test_guarded(bytes);
    float *out = wring_test_guarded(n * sizeof(*out));

    memset(code, 0, bytes);
    memcpy(code, words, n_words * sizeof(*words));
    CHECK(wring_codec_decode(codec, &codec_alone, code, bytes, out, n, false) == WRING_ERR_FRAME,
          "%s: %s is taken", spec, what);
    wring_codec_destroy(codec);
}

#define REFUSE(spec, n, what, ...)                   \
    refuse(spec, n, (const uint32_t[]){__VA_ARGS__}, \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), what)

static void malformed(void)
{
    REFUSE("lossless", 4, "another width", 0x00007F02, 0, 0, 0, 0, 0);
    REFUSE("lossless", 4, "zeros with an exponent", 0x00000100);
    REFUSE("lossless", 4, "zeros and others", 0x00010000);
    REFUSE("lossless", 4, "numbers with an exponent", 0x00007F08, 0, 0, 0, 0);
    REFUSE("lossless", 4, "more others than elements", 0x00057F03, 0, 0, 0, 0xFFFFFF, 0, 0);
    REFUSE("lossless", 4, "others that no distance asks for", 0x00017F03, 0, 0, 0, 0, 0);
    REFUSE("lossless", 4, "distances without others", 0x00007F03, 0, 0, 0, 0x070707);
    REFUSE("int8", 32, "a negative scale", 0xBF800000);
    REFUSE("int8", 32, "an infinite scale", 0x7F800000);
    REFUSE("int8", 32, "another NaN", 0x7FC00001);
    REFUSE("int8", 32, "a scale that overflows", 0x7C010204);
    REFUSE("onebit", 32, "a negative mean", 0x80000000);
    REFUSE("onebit", 32, "an infinite mean", 0x7F800000);
    REFUSE("onebit:means=2", 32, "one NaN of two means", 0x7FC00000, 0x3F800000);
    REFUSE("onebit:means=2", 32, "a second mean of -0", 0x3F800000, 0x80000000);
    REFUSE("topk:block=256", 256, "a count above the bound", 4, 1, 1, 1, 1, 0x00020001, 0x00040003);
    REFUSE("topk:block=256", 256, "a huge count", 0xFFFFFFFE);
    REFUSE("topk:block=256", 256, "equal indices", 2, 1, 1, 0x00050005);
    REFUSE("topk:block=256", 256, "descending indices", 2, 1, 1, 0x00050006);
    REFUSE("topk:block=256", 256, "an index outside the unit", 2, 1, 1, 0x01000005);
    REFUSE("topk:block=256", 100, "an index outside a short unit", 1, 1, 0x00000064);
    REFUSE("topk:block=256", 256, "an infinite value", 1, 0x7F800000, 5);
    REFUSE("topk:block=256", 256, "a NaN value", 1, 0xFFC00000, 5);
    REFUSE("topk:block=256:index=packed", 256, "a width for none", 0x01000000);
    REFUSE("topk:block=256:index=packed", 256, "another width", 0x01000002, 1, 1, 0x74);
    REFUSE("topk:block=256:index=packed", 256, "a width of 16", 0x10000001, 1, 1);
    REFUSE("topk:block=256:index=packed", 256, "one gap of two", 0x02000002, 1, 1, 4);
    REFUSE("topk:block=256:index=packed", 256, "a bit behind", 0x02000002, 1, 1, 0xEE);
    REFUSE("topk:block=256:index=packed", 256, "bits that fill up", 0x02000002, 1, 1, 0x0100006E);
    REFUSE("topk:block=256:index=packed", 100, "an index outside", 0x06000001, 1, 0x92);
    REFUSE("signsgd", 32, "a head of 1", 1, 0);
    REFUSE("signum", 32, "a head of 1", 1, 0);
    REFUSE("signsgd", 32, "another NaN", 0x7FC00001, 0);
    REFUSE("hashed:ratio=0.05:block=256", 40, "an index outside a short block", 1, 0, 0, 0, 40);
    REFUSE("hashed:ratio=0.05:block=256", 40, "equal indices", 1, 1, 0, 0, 0x00050005);
    REFUSE("hashed:ratio=0.05:block=256", 40, "an infinite value", 1, 0xFF800000, 0, 0, 2);
    REFUSE("hashed:ratio=0.05:block=256", 40, "another NaN", 0xFFC00000, 1, 0, 0, 2);
    REFUSE("threshold:cap=0.01:block=256", 256, "a count above the cap", 4, 1, 1, 1, 1, 0x00020001,
           0x00040003);
    REFUSE("threshold:block=256", 256, "equal indices", 2, 1, 1, 0x00050005);
    REFUSE("threshold:block=256", 100, "an index outside a short block", 1, 1, 0x00000064);
    REFUSE("threshold:block=256", 256, "an infinite value", 1, 0x7F800000, 5);
    REFUSE("threshold:cap=0.001:block=256:index=packed", 256, "a count above the cap", 0x02000002,
           1, 1, 0x6E);
    REFUSE("threshold:block=256:index=packed", 256, "another width", 0x01000002, 1, 1, 0x74);
    REFUSE("threshold:block=256:index=packed", 256, "short indices", 2, 1, 1, 0x00090005);
    REFUSE("union", 256, "a count above the block", 257, 1);
    REFUSE("union", 256, "equal indices", 2, 1, 1, 0x00050005);
    REFUSE("union", 256, "an index outside the block", 2, 1, 1, 0x01000005);
    REFUSE("union", 256, "an infinite value", 1, 0x7F800000, 5);
    REFUSE("union:block=64", 64, "more bits than values", 5, 1, 1, 1, 1, 1, 0x3F, 0);
    REFUSE("union:block=64", 64, "fewer bits than values", 5, 1, 1, 1, 1, 1, 0xF, 0);
    REFUSE("union:block=64", 40, "a bit outside the block", 5, 1, 1, 1, 1, 1, 0xF, 0x100);
    REFUSE("union:block=32", 3, "NaN among all values", 3, 1, 0x7FC00000, 1);
    REFUSE("randk:ratio=0.125", 32, "an infinite value", 1, 0x7F800000, 1, 1);
    REFUSE("randk:ratio=0.125", 32, "another NaN", 0xFFC00000, 1, 1, 1);
    REFUSE("randk:ratio=0.125", 32, "a late NaN", 1, 1, 1, 0x7FC00000);
    REFUSE("qsgd", 32, "a negative step", 0xBF800000);
    REFUSE("qsgd", 32, "a step that overflows", 0x7E124925);
    REFUSE("qsgd:bits=8", 32, "a step that overflows", 0x7C010204);
    REFUSE("qsgd:bits=2", 32, "an infinite step", 0x7F800000);
    REFUSE("qsgd:partition=natural", 32, "another NaN", 0xFFC00000);
    REFUSE("bounded", 4, "another width", 0x00000011, 0, 0, 0, 0, 0);
    REFUSE("bounded", 4, "a second byte", 0x00000100);
    REFUSE("bounded", 2, "others among all", 0x00010020, 0, 0);
    REFUSE("bounded", 2, "others of a block that is NaN", 0x000100FF);
    REFUSE("bounded", 2, "more others than elements", 0x00030000, 1, 1, 1, 0x00010000, 2);
    REFUSE("bounded", 8, "an infinite other", 0x00010001, 0x7F800000, 0);
    REFUSE("bounded", 8, "an other that has a step", 0x00010001, 0x42C80000, 1);
    REFUSE("bounded", 8, "an index outside the block", 0x00010001, 0x42C80000, 0x00000800);
    REFUSE("bounded", 32, "equal indices", 0x00020000, 0x42C80000, 0x42C80000, 0x00050005);
    REFUSE("bounded", 32, "descending indices", 0x00020000, 0x42C80000, 0x42C80000, 0x00050006);
    REFUSE("bounded", 2, "NaN among all", 32, 0, 0x7FC00000);
    REFUSE("bounded", 2, "a rest", 0x000000FF, 0);
    REFUSE("int4", 32, "a negative scale", 0x80000000);
    REFUSE("int4", 32, "a scale that overflows", 0x7E124925);
    REFUSE("int2", 32, "an infinite scale", 0x7F800000);
    REFUSE("int4:range=minmax", 32, "a range that is too wide", 0x7D08888A, 0);
    REFUSE("int8:range=minmax", 32, "a least number that is too large", 0, 0x7E800001);
    REFUSE("int2:range=minmax", 32, "a least number that is NaN", 0x3F800000, 0x7FC00000);
    REFUSE("fp8", 32, "a negative step", 0xBF800000);
    REFUSE("fp8", 32, "a step that overflows", 0x7B124925);
    REFUSE("fp8:format=e5m2", 32, "a step that overflows", 0x77924925);
    REFUSE("fp8", 32, "another NaN", 0xFFC00000);
    REFUSE("nvfp4", 64, "a negative head", 0xBF800000);
    REFUSE("nvfp4", 64, "a head that overflows", 0x79C30C31);
    REFUSE("nvfp4", 64, "another NaN", 0x7FC00001);
}

static const struct wring_test_case cases[] = {
    {"worked_bytes", worked_bytes},
    {"worked_bytes_of_state", worked_bytes_of_state},
    {"worked_bytes_of_steps", worked_bytes_of_steps},
    {"worked_residuals", worked_residuals},
    {"malformed", malformed},
    {0},
};

int main(int argc, char **argv)
{
    return codec_test_main(argc, argv, cases);
}
