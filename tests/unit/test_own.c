/* SPDX-License-Identifier: Apache-2.0 */
/** Codecs of a program's own: which tables are taken, and what an author gets. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include <wring/codec.h>

enum {
    PARAM_SCALE,
    PARAM_MODE
};

static const struct wring_codec_param params[] = {
    [PARAM_SCALE] = {"scale", NULL, "what everything is multiplied by", 2, 1, 64, 0},
    [PARAM_MODE] = {"mode", "plain|odd", "nothing", 0, 0, 1, 0},
};

/** What the object has of its own. */
struct scaled {
    float factor;
};

static enum wring_status scaled_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct scaled *own = wring_codec_own(codec);

    if (own->factor != 0 || (uintptr_t)own % 64 != 0)
        return WRING_ERR_INVALID;
    if (wring_codec_param(codec, PARAM_SCALE) == 3) {
        snprintf(why, why_bytes, "scaled:scale=3: needs another scale");
        return WRING_ERR_INVALID;
    }
    own->factor = (float)wring_codec_param(codec, PARAM_SCALE);
    return WRING_OK;
}

static uint64_t scaled_unit(const struct wring_codec *codec)
{
    return wring_codec_param(codec, PARAM_MODE) == 1 ? 33 : 32;
}

static size_t scaled_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * sizeof(float);
}

static size_t scaled_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct scaled *own = wring_codec_own(codec);
    float *at = code;

    (void)context, (void)residual, (void)scratch;
    for (uint64_t i = 0; i < elems; i++)
        at[i] = src[i] * own->factor;
    return elems * sizeof(float);
}

static enum wring_status scaled_decode(const struct wring_codec *codec,
                                       const struct wring_codec_context *context, const void *code,
                                       size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct scaled *own = wring_codec_own(codec);
    const float *at = code;

    (void)context;
    if (code_bytes != elems * sizeof(float))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++)
        dst[i] = (add ? dst[i] : 0) + at[i] / own->factor;
    return WRING_OK;
}

static const struct wring_codec_ops scaled = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .version = 3,
    .name = "scaled",
    .doc = "float32, multiplied",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = 2,
    .own_bytes = sizeof(struct scaled),
    .init = scaled_init,
    .unit = scaled_unit,
    .bound = scaled_bound,
    .encode = scaled_encode,
    .decode = scaled_decode,
};

static const struct wring_codec_ops *const own[] = {&scaled, NULL};

static void taken(void)
{
    struct wring_codec *codec = NULL;
    float x[40], y[40], code[40];
    char why[512] = "";

    wring_codec_create("scaled:mode=odd:scale=4+ef", NULL, own, why, sizeof(why), &codec);
    REQUIRE(codec != NULL, "%s", why);
    const struct wring_codec_info *info = wring_codec_info(codec);
    CHECK(strcmp(info->spec, "scaled:scale=4:mode=odd+ef") == 0, "%s", info->spec);
    CHECK(strcmp(info->identity, "scaled:scale=4:mode=odd+ef (version 3)") == 0, "%s",
          info->identity);
    CHECK(info->unit == 33 && info->flags == (WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK),
          "unit %d, flags %x", (int)info->unit, info->flags);
    const struct wring_codec_context context = {.ranks = 1};
    for (int i = 0; i < 40; i++)
        x[i] = (float)i;
    size_t bytes = wring_codec_encode(codec, &context, x, 40, NULL, code);
    CHECK(bytes == sizeof(code) && code[7] == 28, "%zu bytes, %g", bytes, (double)code[7]);
    CHECK(wring_codec_decode(codec, &context, code, bytes, y, 40, false) == WRING_OK &&
              memcmp(x, y, sizeof(x)) == 0,
          "decoded otherwise");
    wring_codec_destroy(codec);

    wring_codec_create("scaled>int8", NULL, own, why, sizeof(why), &codec);
    CHECK(strcmp(wring_codec_info(codec)->identity, "scaled (version 3)>int8") == 0, "%s",
          wring_codec_info(codec)->identity);
    wring_codec_destroy(codec);
    CHECK(wring_codec_create("scaled:scale=3", NULL, own, why, sizeof(why), &codec) ==
                  WRING_ERR_INVALID &&
              strcmp(why, "scaled:scale=3: needs another scale") == 0,
          "init's word: %s", why);
    CHECK(wring_codec_create("scaled", NULL, NULL, why, sizeof(why), &codec) == WRING_ERR_INVALID &&
              strncmp(why, "no codec 'scaled'", 17) == 0,
          "found without its table: %s", why);
    CHECK(wring_codec_create("scale", NULL, own, why, sizeof(why), &codec) == WRING_ERR_INVALID &&
              strstr(why, ", scaled") != NULL,
          "not in the list: %s", why);
}

/** One table that is wrong in one way. @param word  in the line that says so */
static void refuse(struct wring_codec_ops ops, const char *word)
{
    const struct wring_codec_ops *const list[] = {&scaled, &ops, NULL};
    struct wring_codec *codec;
    char why[200] = "";

    enum wring_status status = wring_codec_check_own(list, why, sizeof(why));
    CHECK(status == WRING_ERR_INVALID && strstr(why, word) != NULL, "'%s' was to be said: %s, %s",
          word, wring_status_text(status), why);
    CHECK(wring_codec_check_own(list, NULL, 0) == status, "without room for a line");
    CHECK(wring_codec_create("int8", NULL, list, why, sizeof(why), &codec) == WRING_ERR_INVALID,
          "another codec is made beside: %s", word);
}

static void refused_params(struct wring_codec_ops other)
{
    struct wring_codec_param wrong[] = {{"x", NULL, "a number", 5, 1, 4, 0}};

    other.params = wrong, other.n_params = 1;
    refuse(other, "fallback");
    wrong[0].name = "x+y";
    refuse(other, "each parameter needs");
    other.n_params = WRING_CODEC_PARAMS_MAX + 1;
    refuse(other, "at most 8");
}

static uint64_t count(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    (void)codec, (void)context;
    return 1;
}

static void begin(const struct wring_codec *codec, const struct wring_codec_context *context,
                  const float *src, uint64_t elems, const float *residual, void *statistics,
                  void *scratch)
{
    (void)codec, (void)context, (void)src, (void)elems, (void)residual, (void)scratch;
    memset(statistics, 0, sizeof(float));
}

static enum wring_status code_sum(const struct wring_codec *codec,
                                  const struct wring_codec_context *context, void *code,
                                  const void *other, size_t code_bytes, uint64_t elems)
{
    (void)codec, (void)context, (void)code, (void)other, (void)code_bytes, (void)elems;
    return WRING_OK;
}

static size_t sum_end(const struct wring_codec *codec, const struct wring_codec_context *context,
                      void *sum, uint64_t elems, uint64_t *cut)
{
    (void)codec, (void)context, (void)sum, (void)elems, (void)cut;
    return 0;
}

static void refused_rounds(struct wring_codec_ops other)
{
    struct wring_codec_round round = {"r", WRING_F32, WRING_MAX, count, begin, NULL};
    const struct wring_codec_ops *const list[] = {&other, NULL};
    struct wring_codec *codec;
    char why[200] = "";

    other.rounds = &round, other.n_rounds = 1;
    wring_codec_create("other", NULL, list, why, sizeof(why), &codec);
    REQUIRE(codec != NULL && wring_codec_info(codec)->rounds == 1, "%s", why);
    wring_codec_destroy(codec);
    CHECK(wring_codec_create("int8>other", NULL, list, why, sizeof(why), &codec) ==
                  WRING_ERR_INVALID &&
              strstr(why, "only the way in has rounds") != NULL,
          "rounds on the way back: %s", why);
    round.op = WRING_AVG;
    refuse(other, "round 0: needs");
    round.op = WRING_SUM, round.dtype = WRING_F16;
    refuse(other, "round 0: needs");
    other.n_rounds = WRING_CODEC_ROUNDS_MAX + 1;
    refuse(other, "at most 4");
    other.n_rounds = 0, other.code_sum = code_sum, other.flags = 0;
    refuse(other, "needs FIXED");
    other.code_sum = NULL, other.sum_bound = other.bound;
    refuse(other, "sum_bound: needs code_sum");
    other.sum_bound = NULL, other.sum_end = sum_end;
    refuse(other, "sum_end: needs sum_bound");
}

static size_t encode16(const struct wring_codec *codec, const struct wring_codec_context *context,
                       enum wring_dtype dtype, const void *src, uint64_t elems, void *code,
                       void *scratch)
{
    (void)codec, (void)context, (void)dtype, (void)src, (void)elems, (void)code, (void)scratch;
    return 0;
}

static enum wring_status decode16(const struct wring_codec *codec,
                                  const struct wring_codec_context *context, enum wring_dtype dtype,
                                  const void *code, size_t code_bytes, void *dst, uint64_t elems)
{
    (void)codec, (void)context, (void)dtype, (void)code, (void)code_bytes, (void)dst, (void)elems;
    return WRING_OK;
}

static void refused_halves(struct wring_codec_ops other)
{
    const char *word = "needs both of encode16 and decode16";

    other.flags = WRING_CODEC_EXACT, other.encode16 = encode16;
    refuse(other, word);
    other.decode16 = decode16, other.flags = 0;
    refuse(other, word);
    other.flags = WRING_CODEC_EXACT | WRING_CODEC_FIXED;
    refuse(other, word);
    other.encode16 = NULL, other.flags = WRING_CODEC_EXACT;
    refuse(other, word);
}

static void refused(void)
{
    struct wring_codec_ops good = scaled, other;
    good.name = "other";

    other = good, other.name = "int8";
    refuse(other, "another codec has that name");
    other = good, other.name = "scaled";
    refuse(other, "another codec has that name");
    other = good, other.name = "a:b";
    refuse(other, "own codec 1: needs a doc and a name");
    other = good, other.name = "a-name-of-more-than-23-bytes";
    refuse(other, "at most");
    other = good, other.doc = NULL;
    refuse(other, "needs a doc");
    other = good, other.decode = NULL;
    refuse(other, "own codec 'other': needs unit, bound, encode and decode");
    other = good, other.flags |= WRING_CODEC_RAW;
    refuse(other, "flags");
    other = good, other.scratch_bytes = WRING_CODEC_SCRATCH_MAX + 1;
    refuse(other, "scratch_bytes");
    other = good, other.own_bytes = WRING_CODEC_OWN_MAX + 1;
    refuse(other, "own_bytes");
    other = good, other.struct_bytes = 0;
    refuse(other, "struct_bytes is 0");
    refused_params(good);
    refused_rounds(good);
    refused_halves(good);
    CHECK(wring_codec_check_own(NULL, NULL, 0) == WRING_OK, "none is none");
}

/** A table of a later header is taken as long as it asks for nothing new. */
static void later_header(void)
{
    struct {
        struct wring_codec_ops ops;
        void *more;
    } later = {.ops = scaled};
    const struct wring_codec_ops *const list[] = {&later.ops, NULL};
    char why[200] = "";

    later.ops.struct_bytes = sizeof(later);
    CHECK(wring_codec_check_own(list, why, sizeof(why)) == WRING_OK, "%s", why);
    later.more = &later;
    CHECK(wring_codec_check_own(list, why, sizeof(why)) == WRING_ERR_INVALID, "taken");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"taken", taken},
        {"refused", refused},
        {"later_header", later_header},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
