/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/topk_search.h"

#include "compress/kernels/bits.h"

#define FIRST_RUNS 8    /* a first guess comes from so many runs, spread over the block … */
#define FIRST_RUN 64    /* … of so many samples */
#define LOWER (1 << 20) /* an eighth of a factor of 2, about */
#define LITTLE (LOWER / 4)
#define RANKED_FROM 64 /* samples: of fewer elements all are ranked as fast */
#define WIDE 4         /* samples a take begins with, times those needed */

static uint64_t sample_index(uint32_t sample)
{
    return sample * (uint64_t)WRING_TOPK_STRIDE + (sample * 0x9E3779B1u >> 28);
}

static void take_samples(float *out, const struct wring_topk_block *block, uint64_t first,
                         uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = wring_fed(block->src, block->residual, sample_index((uint32_t)(first + i)));
}

/** The rank among `count` samples of the block that its `wanted` largest elements stand for. */
static uint64_t rank_among_samples(const struct wring_topk_block *block, uint64_t count)
{
    return (block->wanted * count + block->n - 1) / block->n;
}

/** A rank that the right one is rarely beyond: chance moves it by about its square root. */
static uint64_t safe_rank(uint64_t rank)
{
    uint64_t root = 1;
    while (root * root < rank)
        root++;
    return rank + 2 * root + 1;
}

uint32_t wring_topk_threshold(const struct wring_topk_kernels *kernels,
                              const struct wring_topk_block *block, struct wring_topk_room *room)
{
    uint64_t count = block->n / WRING_TOPK_STRIDE;

    take_samples(room->samples, block, 0, count);
    return kernels->rank(room->samples, NULL, count, rank_among_samples(block, count));
}

/** Limit a threshold to 1..WRING_INF_BITS, so that elements that are not finite always reach it. */
static uint32_t limit_threshold(uint32_t threshold)
{
    if (threshold > WRING_INF_BITS)
        return WRING_INF_BITS;
    return threshold > 0 ? threshold : 1;
}

uint32_t wring_topk_rank(const struct wring_topk_kernels *kernels,
                         const struct wring_topk_block *block, uint64_t k,
                         struct wring_topk_room *room, struct wring_topk_list *list)
{
    uint64_t count = block->n / WRING_TOPK_STRIDE, rank = safe_rank(k * count / block->n);
    bool fits = rank * WRING_TOPK_STRIDE <= WRING_TOPK_LISTED;

    if (fits && count >= RANKED_FROM && rank <= count) {
        take_samples(room->samples, block, 0, count);
        kernels->find(list, block->src, block->residual, block->n,
                      limit_threshold(kernels->rank(room->samples, NULL, count, rank)));
        if (list->count >= k && list->count <= WRING_TOPK_LISTED)
            return kernels->rank(list->values, NULL, list->count, k);
    }
    return kernels->rank(block->src, block->residual, block->n, k);
}

/** A guess without a hint of the block before: from samples of a few places. */
static uint32_t first_guess(const struct wring_topk_kernels *kernels,
                            const struct wring_topk_block *block)
{
    float samples[FIRST_RUNS * FIRST_RUN];
    const uint64_t count = FIRST_RUNS * FIRST_RUN;
    uint64_t rank = safe_rank(rank_among_samples(block, count));

    for (uint64_t run = 0; run < FIRST_RUNS; run++)
        take_samples(samples + run * FIRST_RUN, block,
                     run * (block->n / WRING_TOPK_STRIDE / FIRST_RUNS), FIRST_RUN);
    return limit_threshold(kernels->rank(samples, NULL, count, rank < count ? rank : count));
}

/** Two magnitudes, as bits, and how many samples reach each: around there they lie on a line. */
struct line {
    int64_t from, count; /* where the list began */
    int64_t threshold, rank;
};

/** Where `right` samples would have been, not far below the threshold. */
static int64_t position_on(const struct line *line, int64_t right)
{
    int64_t rise = line->count - line->rank + (line->count >= line->rank);
    int64_t below = (line->threshold - line->from) * (right - line->rank) / rise;

    return line->threshold - (below < LOWER ? below : LOWER);
}

/**
 * For the next block: where this one had `right` samples, some more than it needed. Downwards at
 * once, upwards by and by: a list that is a little long costs less than one that is made twice.
 * @param guess  where this block was looked at first
 */
static uint32_t next_guess(const struct line *line, int64_t guess, int64_t right)
{
    int64_t to = position_on(line, right);

    if (to > guess && line->count < 4 * right)
        to = guess + (to - guess) / 4;
    return limit_threshold(to > 0 ? (uint32_t)to : 0);
}

/** Drop entries that only equal the threshold, the highest indices first. */
static void drop_ties(struct wring_topk_list *list, uint32_t threshold, uint64_t surplus)
{
    uint32_t kept = list->count;

    for (uint32_t entry = list->count; surplus > 0; entry--) { /* ends: fewer are above it */
        if (wring_magnitude(list->values[entry - 1]) != threshold)
            continue;
        memmove(&list->values[entry - 1], &list->values[entry],
                (kept - entry) * sizeof(list->values[0]));
        memmove(&list->indices[entry - 1], &list->indices[entry],
                (kept - entry) * sizeof(list->indices[0]));
        kept--;
        surplus--;
    }
    list->count = kept;
}

/** Leave in the list, in which all reach the threshold, as many as may be sent. */
static void cut_down_list(const struct wring_topk_kernels *kernels,
                          const struct wring_topk_block *block, struct wring_topk_list *list,
                          struct wring_topk_choice *choice)
{
    if (list->count <= block->most)
        return;
    choice->threshold = kernels->rank(list->values, NULL, list->count, block->most);
    kernels->sift(list, choice->threshold);
    choice->cut = list->count > block->most;
    if (choice->cut)
        drop_ties(list, choice->threshold, list->count - block->most);
}

/** A block while it is looked at: once its residual is v, that is read in the place of both. */
struct view {
    const struct wring_topk_kernels *kernels;
    struct wring_topk_block block;
    float *residual; /* which a take has changed; NULL: none has */
    struct wring_topk_room *room;
};

/** So many entries of a block hold what is sent of it, though chance moves both. 0: no matter how
 *  many there are, none can be spared. */
static uint64_t enough_of(const struct wring_topk_block *block)
{
    if (block->threshold != 0)
        return 0;
    uint64_t rank = rank_among_samples(block, block->n / WRING_TOPK_STRIDE);
    return WRING_TOPK_STRIDE * (safe_rank(rank) + rank / 4);
}

/**
 * List what reaches a threshold; with a residual, in the one traversal that there may be.
 * @param from  inout; raised, maybe, where a take finds that it is low
 */
static void list_from_threshold(struct view *view, struct wring_topk_hint *hint, uint32_t *from,
                                struct wring_topk_list *list)
{
    struct wring_topk_block *block = &view->block;

    hint->guess = *from;
    if (block->residual != NULL && !hint->untaken) {
        if (view->kernels->take(list, &view->room->undo, block->src, block->residual, block->n,
                                from, enough_of(block))) {
            view->residual = block->residual;
            block->src = block->residual;
            block->residual = NULL;
            return;
        }
        hint->untaken = list->count <= WRING_TOPK_LISTED;
    }
    view->kernels->find(list, block->src, block->residual, block->n, *from);
}

/**
 * List what reaches a guess. hint->guess becomes where the last look began.
 * @return that guess, raised where a take did so; 0 when more than a list holds reach it
 */
static uint32_t list_near_guess(struct view *view, struct wring_topk_hint *hint,
                                struct wring_topk_list *list)
{
    uint32_t guess = hint->guess;

    for (bool last = guess == 0;; last = true, guess = 0) {
        uint32_t from = guess != 0 ? guess : first_guess(view->kernels, &view->block);
        list_from_threshold(view, hint, &from, list);
        if (list->count <= WRING_TOPK_LISTED)
            return from;
        if (last)
            return hint->guess = 0;
    }
}

/** List what reaches a threshold that the samples lead to. @return false when a list cannot */
static bool list_by_samples(const struct view *view, struct wring_topk_list *list,
                            uint32_t *threshold)
{
    const struct wring_topk_block *block = &view->block;

    *threshold = limit_threshold(wring_topk_threshold(view->kernels, block, view->room));
    view->kernels->find(list, block->src, block->residual, block->n, *threshold);
    return list->count <= WRING_TOPK_LISTED;
}

/**
 * After a guess that was too high, most often by little: a bit lower.
 * @param from  inout, where the list begins
 * @return the samples in the list; 0 when it holds not all that came near
 */
static uint64_t list_lower(const struct view *view, struct wring_topk_list *list, uint32_t *from)
{
    const struct wring_topk_block *block = &view->block;

    *from = *from > LITTLE ? *from - LITTLE : 1;
    view->kernels->find(list, block->src, block->residual, block->n, *from);
    if (list->count > WRING_TOPK_LISTED)
        return 0;
    return view->kernels->sampled(view->room->samples, list, block->n);
}

/** Choose from a list of the elements that reach `from`. */
static bool choose_from_list(struct view *view, struct wring_topk_hint *hint, uint32_t from,
                             struct wring_topk_list *list, struct wring_topk_choice *choice)
{
    const struct wring_topk_block *block = &view->block;
    float *samples = view->room->samples;
    uint64_t rank = rank_among_samples(block, block->n / WRING_TOPK_STRIDE);
    uint64_t count = view->kernels->sampled(samples, list, block->n);

    if (count < rank && from > 1)
        count = list_lower(view, list, &from);
    *choice = (struct wring_topk_choice){.threshold = from, .taken = view->residual != NULL};
    if (count >= rank)
        choice->threshold = view->kernels->rank(samples, NULL, count, rank);
    else if ((from > 1 || list->count > WRING_TOPK_LISTED) && /* from 1 on is all but zeros */
             !list_by_samples(view, list, &choice->threshold))
        return false;
    hint->guess = next_guess(&(struct line){from, (int64_t)count, choice->threshold, (int64_t)rank},
                             hint->guess, (int64_t)(choice->taken ? WIDE * rank : safe_rank(rank)));
    view->kernels->sift(list, choice->threshold);
    cut_down_list(view->kernels, block, list, choice);
    return true;
}

/** Choose by a threshold that is given. @return false when more than a list holds reach it */
static bool choose_given(struct view *view, struct wring_topk_hint *hint,
                         struct wring_topk_list *list, struct wring_topk_choice *choice)
{
    uint32_t from = view->block.threshold;

    list_from_threshold(view, hint, &from, list);
    hint->crowded = list->count > WRING_TOPK_LISTED;
    if (hint->crowded)
        return false;
    *choice = (struct wring_topk_choice){.threshold = from, .taken = view->residual != NULL};
    if (list->peak < WRING_INF_BITS)
        cut_down_list(view->kernels, &view->block, list, choice);
    return true;
}

/** Choose by the threshold that samples lead to. @return false when too many come near */
static bool choose_sampled(struct view *view, struct wring_topk_hint *hint,
                           struct wring_topk_list *list, struct wring_topk_choice *choice)
{
    uint32_t from = list_near_guess(view, hint, list);

    return from != 0 &&
           (list->peak >= WRING_INF_BITS || choose_from_list(view, hint, from, list, choice));
}

bool wring_topk_choose(const struct wring_topk_kernels *kernels,
                       const struct wring_topk_block *block, struct wring_topk_hint *hint,
                       struct wring_topk_room *room, struct wring_topk_list *list,
                       struct wring_topk_choice *choice)
{
    struct view view = {.kernels = kernels, .block = *block, .room = room};
    bool chosen = block->threshold != 0 ? choose_given(&view, hint, list, choice)
                                        : choose_sampled(&view, hint, list, choice);
    if (view.residual != NULL && (!chosen || list->peak >= WRING_INF_BITS))
        kernels->give_back(&room->undo, block->src, view.residual);
    return chosen;
}
