/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topk's lists: every tier of their kernels against the scalar reference, and the choice that is
 * made by way of guesses against the rule of FORMAT.md, worked plainly.
 */
#include <stdlib.h>
#include <string.h>

#include "compress/codecs/topk_search.h"
#include "tests/kernels/trial.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct wring_topk_list *new_list(void)
{
    return wring_test_guarded(sizeof(struct wring_topk_list));
}

static void check_lists(const struct trial *trial, const struct wring_topk_list *want,
                        const struct wring_topk_list *got, const char *what)
{
    if (want->count > WRING_TOPK_LISTED && got->count > WRING_TOPK_LISTED)
        return;
    CHECK(want->count == got->count, "%s %s n=%zu kind=%d: %u entries, not %u", trial->tier, what,
          (size_t)trial->n, trial->kind, got->count, want->count);
    if (want->count != got->count)
        return;
    CHECK((want->peak >= WRING_INF_BITS && got->peak >= WRING_INF_BITS) || want->peak == got->peak,
          "%s %s n=%zu kind=%d: peak", trial->tier, what, (size_t)trial->n, trial->kind);
    AGREE(what, want->indices, got->indices, want->count * 2);
    if (want->peak < WRING_INF_BITS)
        AGREE(what, want->values, got->values, want->count * 4);
}

/** What is kept of a finite list. */
static void check_kept(const struct wring_topk_kernels *kernels, const struct trial *trial,
                       struct wring_topk_list *want, struct wring_topk_list *got,
                       uint32_t threshold)
{
    const struct wring_topk_kernels *ref = wring_topk_tiers[0].kernels;
    size_t room = trial->n / WRING_TOPK_STRIDE + WRING_TOPK_SPARE;
    float *out = wring_test_guarded(room * 4), *other = wring_test_guarded(room * 4);

    uint32_t count = ref->sampled(out, want, trial->n);
    CHECK(kernels->sampled(other, got, trial->n) == count, "%s samples n=%zu", trial->tier,
          (size_t)trial->n);
    AGREE("samples", out, other, count * 4);
    ref->sift(want, threshold);
    kernels->sift(got, threshold);
    check_lists(trial, want, got, "sift");
}

/** One traversal: as a find and a residual that is v, which can be undone. */
static void check_take(const struct wring_topk_kernels *kernels, const struct trial *trial,
                       const float *src, const float *left, uint32_t threshold, uint64_t enough)
{
    const struct wring_topk_kernels *ref = wring_topk_tiers[0].kernels;
    struct wring_topk_undo *undo = wring_test_guarded(sizeof(*undo));
    struct wring_topk_list *want = new_list(), *got = new_list();
    float *residual = trial_copy(left, trial->n * 4);
    uint32_t raised = threshold;

    if (kernels->take(got, undo, src, residual, trial->n, &raised, enough)) {
        CHECK(raised >= threshold, "%s take n=%zu: lowered", trial->tier, (size_t)trial->n);
        ref->find(want, src, left, trial->n, raised);
        check_lists(trial, want, got, "take");
        if (trial->kind != TRIAL_ODD) {
            float *v = trial_copy(left, trial->n * 4);
            ref->leave(v, src, trial->n, WRING_ABS_BITS + 1u);
            AGREE("take", v, residual, trial->n * 4);
        }
        kernels->give_back(undo, src, residual);
    }
    AGREE("give back", left, residual, trial->n * 4);
}

static void check_kernels(const void *entry, const struct trial *trial)
{
    static const float thresholds[] = {0x1p-149f, 0x1p-128f, 0.01f, 0.5f, 0.99f, 0x1p127f};
    const struct wring_topk_kernels *ref = wring_topk_tiers[0].kernels;
    const struct wring_topk_kernels *kernels = ((const struct wring_topk_tier *)entry)->kernels;
    uint64_t n = trial->n;
    float *src = trial_fill(n, trial->kind, trial->seed),
          *left = trial_fill(n, trial->kind, trial->seed + 1);
    struct wring_topk_list *want = new_list(), *got = new_list();

    for (size_t t = 0; t < 2 * sizeof(thresholds) / sizeof(thresholds[0]); t++) {
        const float *residual = t % 2 == 0 ? NULL : left;
        uint32_t threshold = wring_bits_of(thresholds[t / 2]);
        ref->find(want, src, residual, n, threshold);
        kernels->find(got, src, residual, n, threshold);
        check_lists(trial, want, got, "find");
        if (want->count <= WRING_TOPK_LISTED && want->peak < WRING_INF_BITS)
            check_kept(kernels, trial, want, got, threshold + (1u << 22));
        if (residual != NULL)
            for (uint64_t enough = n; enough > 0; enough /= 64)
                check_take(kernels, trial, src, left, threshold, enough);
        if (trial->kind != TRIAL_ODD && t % 2 == 1) { /* a finite block comes so far */
            float *a = trial_copy(left, n * 4), *b = trial_copy(left, n * 4);
            ref->leave(a, src, n, threshold);
            kernels->leave(b, src, n, threshold);
            AGREE("leave", a, b, n * 4);
        }
    }
}

static void kernels(void)
{
    for (const struct wring_topk_tier *tier = wring_topk_tiers; tier->head.name != NULL; tier++)
        trial_sweep(&tier->head, check_kernels, trial_is_quick() ? 4096 : 65536);
}

/** Values whose thresholds differ in kind. */
enum shape {
    SHAPE_BELL,
    SHAPE_SPARSE, /* a few that are not zero, fewer than are wanted */
    SHAPE_ZERO,
    SHAPE_EQUAL, /* in magnitude */
    SHAPE_STEPS, /* many equal ones */
    SHAPE_RISE,  /* the largest at the end */
    SHAPE_TINY,
    SHAPE_LOST, /* one infinity, where no sample is */
    SHAPES
};

static float draw(enum shape shape, uint64_t i, uint64_t n, uint32_t *random)
{
    float even = wring_test_random_float(random), value = even;
    for (int more = 0; more < 3; more++)
        value += wring_test_random_float(random);
    switch (shape) {
    case SHAPE_BELL:
        return value;
    case SHAPE_SPARSE:
        return wring_test_random(random) % 4096 == 0 ? value : 0;
    case SHAPE_ZERO:
        return even < 0 ? -0.0f : 0;
    case SHAPE_EQUAL:
        return even < 0 ? -2.5f : 2.5f;
    case SHAPE_STEPS:
        return (float)(int)(value * 4);
    case SHAPE_RISE:
        return (float)i;
    case SHAPE_TINY:
        return value * 0x1p-140f;
    case SHAPE_LOST:
        return i == n - 2 ? wring_float_of(WRING_INF_BITS) : value;
    case SHAPES:
        break;
    }
    return 0;
}

static int downward(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/** The rank-th largest of some magnitudes, which it sorts. */
static uint32_t rank_of(uint32_t *magnitudes, uint64_t count, uint64_t rank)
{
    qsort(magnitudes, count, sizeof(*magnitudes), downward);
    return magnitudes[rank - 1];
}

/**
 * FORMAT.md, "Sampled selection", of a finite block.
 * @param sent  out, [n] of 0 or 1
 */
static void choose_plainly(const float *v, uint64_t n, uint64_t k, uint64_t cap, uint8_t *sent)
{
    uint32_t *scratch = wring_test_guarded(n * 4);
    uint64_t samples = n / 16, count = 0;

    for (uint64_t i = 0; i < samples; i++)
        scratch[i] = wring_magnitude(v[16 * i + ((uint32_t)i * 0x9E3779B1u >> 28)]);
    uint32_t threshold = rank_of(scratch, samples, (k * samples + n - 1) / n);
    threshold = threshold == 0 ? 1 : threshold;
    for (uint64_t i = 0; i < n; i++)
        count += sent[i] = wring_magnitude(v[i]) >= threshold;
    if (count <= cap)
        return;
    for (uint64_t i = 0; i < n; i++)
        scratch[i] = wring_magnitude(v[i]);
    threshold = rank_of(scratch, n, cap);
    count = 0;
    for (uint64_t i = 0; i < n; i++)
        count += sent[i] = wring_magnitude(v[i]) > threshold;
    for (uint64_t i = 0; i < n && count < cap; i++)
        if (wring_magnitude(v[i]) == threshold)
            count += sent[i] = 1;
}

/** What any tier must choose, whatever it is told to guess. */
struct choice_case {
    enum shape shape;
    struct wring_topk_block block;
    float *v;      /* [n] source and residual */
    float *before; /* [n] the residual as it was; NULL without one */
    uint8_t *sent; /* [n] of 0 or 1 */
};

static void check_list(const struct choice_case *at, const char *name,
                       const struct wring_topk_list *list, const struct wring_topk_choice *choice)
{
    const struct wring_topk_block *block = &at->block;
    uint64_t count = 0, wrong = 0, unlike = 0;

    for (uint64_t i = 0; i < block->n; i++) {
        bool listed = count < list->count && list->indices[count] == i;
        wrong += listed != at->sent[i];
        unlike += at->sent[i] != 0 ? wring_magnitude(at->v[i]) < choice->threshold
                                   : wring_magnitude(at->v[i]) >= choice->threshold + choice->cut;
        if (listed)
            wrong += wring_bits_of(list->values[count++]) != wring_bits_of(at->v[i]);
    }
    CHECK(wrong == 0 && count == list->count, "%s n=%zu k=%zu: %zu wrong", name, (size_t)block->n,
          (size_t)block->wanted, (size_t)wrong);
    CHECK(unlike == 0, "%s n=%zu: the threshold is not theirs", name, (size_t)block->n);
}

/** What was taken is v; nothing else is changed, and nothing at all without a choice. */
static void check_residual(const struct choice_case *at, const char *name, bool taken)
{
    size_t bytes = at->block.n * 4;

    CHECK(memcmp(at->block.residual, taken ? at->v : at->before, bytes) == 0,
          "%s n=%zu: residual, %s", name, (size_t)at->block.n, taken ? "taken" : "left alone");
    memcpy(at->block.residual, at->before, bytes);
}

static void check_choice(const struct choice_case *at, const struct wring_topk_tier *tier,
                         uint32_t guess)
{
    struct wring_topk_list *list = new_list();
    struct wring_topk_room *room = wring_test_guarded(sizeof(*room));
    struct wring_topk_choice choice;
    struct wring_topk_hint hint = {.guess = guess};
    bool lost = at->shape == SHAPE_LOST;
    char name[64];

    snprintf(name, sizeof(name), "%s shape %d guess %#x", tier->head.name, at->shape, guess);
    bool chosen = wring_topk_choose(tier->kernels, &at->block, &hint, room, list, &choice);
    if (!chosen) /* only where many come near */
        CHECK(at->shape == SHAPE_EQUAL || at->shape == SHAPE_STEPS || at->before != NULL,
              "%s: no list", name);
    else if (lost)
        CHECK(list->peak >= WRING_INF_BITS, "%s: an infinity was missed", name);
    else
        check_list(at, name, list, &choice);
    if (at->before != NULL)
        check_residual(at, name, chosen && !lost && choice.taken);
}

static void check_block(enum shape shape, const struct wring_topk_block *block)
{
    static const uint32_t guesses[] = {0, 1, 0x3F000000, 0x40000000, 0x40600000, WRING_INF_BITS};
    struct choice_case at = {.shape = shape,
                             .block = *block,
                             .v = wring_test_guarded(block->n * 4),
                             .sent = wring_test_guarded(block->n)};

    if (block->residual != NULL)
        at.before = trial_copy(block->residual, block->n * 4);
    for (uint64_t i = 0; i < block->n; i++)
        at.v[i] = wring_fed(block->src, block->residual, i);
    if (shape != SHAPE_LOST)
        choose_plainly(at.v, block->n, block->wanted, block->most, at.sent);
    for (const struct wring_topk_tier *tier = wring_topk_tiers; tier->head.name != NULL; tier++)
        for (size_t g = 0; g < COUNT(guesses) && wring_cpu_has(tier->head.tier); g++)
            check_choice(&at, tier, guesses[g]);
}

/** In a row: alone, with a residual of another shape's values, with one whose bits v loses. */
static void check_shape(enum shape shape, uint64_t n)
{
    static const uint64_t shares[] = {1000, 100, 20}; /* one in so many is wanted */
    uint32_t random = (uint32_t)(n + shape);
    float *src = wring_test_guarded(n * 4), *left = wring_test_guarded(n * 4),
          *faint = wring_test_guarded(n * 4), *const residuals[] = {NULL, left, faint};

    for (uint64_t i = 0; i < n; i++)
        src[i] = draw(shape, i, n, &random);
    for (uint64_t i = 0; i < n; i++)
        left[i] = shape == SHAPE_TINY ? 0 : draw(SHAPE_STEPS, i, n, &random);
    for (uint64_t i = 0; i < n; i++)
        faint[i] = draw(SHAPE_BELL, i, n, &random) * 0x1p-12f;
    for (size_t c = 0; c < COUNT(residuals) * COUNT(shares); c++) {
        uint64_t wanted = (n + shares[c % 3] - 1) / shares[c % 3];
        struct wring_topk_block block = {.src = src,
                                         .residual = residuals[c / 3],
                                         .n = n,
                                         .wanted = wanted,
                                         .most = wanted + wanted / 4 + 8};
        check_block(shape, &block);
    }
}

static void choices(void)
{
    static const uint64_t lengths[] = {16384, 16399, 20000, 65535, 65536};

    for (int shape = 0; shape < SHAPES; shape++)
        for (size_t l = 0; l < (trial_is_quick() ? 2 : COUNT(lengths)); l++) {
            check_shape((enum shape)shape, lengths[l]);
            wring_test_free_guarded();
        }
}

/** The k-th largest, also where samples lead to no list that has it. */
static void check_ranks(enum shape shape, uint64_t n)
{
    static const uint64_t shares[] = {1, 3, 8, 10, 12, 100, 65536}; /* k is one in so many */
    const struct wring_topk_kernels *ref = wring_topk_tiers[0].kernels;
    uint32_t random = (uint32_t)(n + shape) + 1;
    float *src = wring_test_guarded(n * 4), *left = wring_test_guarded(n * 4);
    struct wring_topk_room *room = wring_test_guarded(sizeof(*room));
    struct wring_topk_list *list = new_list();

    for (uint64_t i = 0; i < n; i++)
        src[i] = draw(shape, i, n, &random);
    for (uint64_t i = 0; i < n; i++)
        left[i] = draw(SHAPE_BELL, i, n, &random) * 0x1p-3f;
    for (size_t c = 0; c < 2 * COUNT(shares); c++) {
        struct wring_topk_block block = {.src = src, .residual = c % 2 ? left : NULL, .n = n};
        uint64_t k = 1 + (n - 1) / shares[c / 2];
        uint32_t want = ref->rank(src, block.residual, n, k);
        for (const struct wring_topk_tier *tier = wring_topk_tiers; tier->head.name; tier++)
            if (wring_cpu_has(tier->head.tier))
                CHECK(wring_topk_rank(tier->kernels, &block, k, room, list) == want,
                      "%s shape %d n=%zu k=%zu: another rank", tier->head.name, shape, (size_t)n,
                      (size_t)k);
    }
}

static void ranks(void)
{
    static const uint64_t lengths[] = {1, 100, 1023, 1024, 1040, 4099, 16384, 65536};

    for (int shape = 0; shape < SHAPES; shape++)
        for (size_t l = 0; l < (trial_is_quick() ? 6 : COUNT(lengths)); l++) {
            check_ranks((enum shape)shape, lengths[l]);
            wring_test_free_guarded();
        }
}

static const struct wring_test_case cases[] = {
    {"kernels", kernels},
    {"choices", choices},
    {"ranks", ranks},
    {0},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "quick") == 0) {
        trial_be_quick();
        argc--, argv++;
    }
    return wring_test_main_in_mode(argc, argv, cases);
}
