/* SPDX-License-Identifier: Apache-2.0 */
/* A peer on this host maps the slots that its pieces lie in, and may write there while they are
 * decoded: each decoder refuses or ends, and writes nowhere but into its result. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "compress/solo.h"
#include "tests/fuzz/codecs.h"
#include "tests/lib/test.h"

#define ELEMS 3000
#define CHANGES 100000 /* while a tier decodes */
#define PATIENCE_NS (60 * WRING_NS_PER_S)

struct slot {
    uint8_t *bytes; /* that the liar writes, and we decode */
    const uint8_t *code;
    size_t n;
    atomic_bool stops;
    atomic_uint changes;
};

/** Puts single bytes of garbage, and the code itself once more. */
static void *change_it(void *arg)
{
    struct slot *slot = arg;
    uint32_t seed = 12345;

    while (!atomic_load_explicit(&slot->stops, memory_order_relaxed)) {
        uint32_t draw = wring_test_random(&seed);
        volatile uint8_t *at = &slot->bytes[draw % slot->n];
        *at = draw >> 31 != 0 ? (uint8_t)(draw >> 16) : slot->code[draw % slot->n];
        at = &slot->bytes[draw % 8 < slot->n ? draw % 8 : 0]; /* counts come first */
        *at = draw >> 30 == 0 ? (uint8_t)(draw >> 8) : slot->code[at - slot->bytes];
        atomic_fetch_add_explicit(&slot->changes, 1, memory_order_relaxed);
    }
    return NULL;
}

static void decode_again_and_again(const struct wring_codec *codec,
                                   const struct wring_codec_context *context, struct slot *slot)
{
    float *out = wring_test_guarded(ELEMS * sizeof(*out));

    memset(out, 0, ELEMS * sizeof(*out));
    uint64_t until_ns = wring_deadline_in(PATIENCE_NS);
    unsigned before = atomic_load(&slot->changes);

    for (int i = 0; atomic_load(&slot->changes) - before < CHANGES; i++) {
        REQUIRE(wring_now_ns() < until_ns, "the liar does not run");
        enum wring_status status =
            wring_codec_decode(codec, context, slot->bytes, slot->n, out, ELEMS, i % 2 == 1);
        CHECK(status == WRING_OK || status == WRING_ERR_FRAME, "%s, %s: status %d",
              wring_codec_info(codec)->spec, wring_codec_info(codec)->tier, status);
    }
    CHECK(wring_test_guarded_harm() == 0, "%s, %s: bytes before the result were written",
          wring_codec_info(codec)->spec, wring_codec_info(codec)->tier);
}

/** @return bytes */
static size_t encode(const struct wring_codec *codec, struct wring_solo *solo,
                     const struct wring_codec_context *context, uint8_t *code)
{
    const float *grad = wring_test_gradient(ELEMS, 7);
    float *residual = NULL;

    if (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK)
        residual =
            memset(wring_test_guarded(ELEMS * sizeof(*residual)), 0, ELEMS * sizeof(*residual));
    wring_solo_rounds(solo, context, grad, residual);
    return wring_codec_encode(codec, context, grad, ELEMS, residual, code);
}

static void run_codec(const struct fuzz_codec *codec)
{
    const struct wring_codec *reference = codec->tiers[0];
    size_t bound = wring_codec_bound(reference, ELEMS);
    uint8_t *code = wring_test_guarded(bound);
    struct wring_codec_context context = {.ranks = 2, .elems = ELEMS};
    struct wring_solo solo;
    struct slot slot = {.code = code};
    pthread_t liar;

    REQUIRE(wring_solo_init(&solo, reference, &context) == WRING_OK, "no memory");
    slot.n = encode(reference, &solo, &context, code);
    REQUIRE(slot.n > 0, "%s encodes nothing", wring_codec_info(reference)->spec);
    slot.bytes = wring_test_guarded(slot.n);
    memcpy(slot.bytes, code, slot.n);
    REQUIRE(pthread_create(&liar, NULL, change_it, &slot) == 0, "no thread");
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (codec->tiers[tier] != NULL)
            decode_again_and_again(codec->tiers[tier], &context, &slot);
    atomic_store(&slot.stops, true);
    pthread_join(liar, NULL);
    wring_solo_finish(&solo);
    wring_test_free_guarded();
}

static void codes_change_while_they_are_decoded(void)
{
    for (uint32_t number = 0; number < FUZZ_CODECS; number++) {
        const struct fuzz_codec *codec = fuzz_codec(number);
        if (codec != NULL)
            run_codec(codec);
    }
}

static const struct wring_test_case cases[] = {
    {"codes_change_while_they_are_decoded", codes_change_while_they_are_decoded},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
