/* SPDX-License-Identifier: Apache-2.0 */
/** The check of what an allreduce gave, in each rank of `wring bench allreduce`. */
#include <math.h>
#include <string.h>

#include "tools/bench/bench_allreduce_inside.h"

/** What element i of the last call's result should be: exact, by the choice of the inputs. */
static double expected(const struct wring_allreduce_bench *bench, uint64_t i)
{
    double sum = 0;

    for (uint32_t rank = 0; rank < bench->ranks; rank++)
        sum += (double)wring_pattern(rank, i + wring_allreduce_shift(bench->round));
    return bench->params->op == WRING_AVG ? sum / bench->ranks : sum;
}

static void compare_with_exact(const struct wring_allreduce_bench *bench,
                               const struct wring_allreduce_case *this,
                               struct wring_allreduce_findings *findings)
{
    for (uint64_t i = 0; i < this->elems; i++) {
        double want = expected(bench, i), error = (double)bench->data[i] - want;
        findings->error += error * error;
        findings->power += want * want;
        if (this->raw && bench->data[i] != (float)want)
            findings->wrong++;
    }
}

static uint64_t count_different(const float *a, const float *b, size_t n)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0 || !isfinite(a[i]))
            count++;
    return count;
}

/** One number for so many bits, the same where these are and hardly ever elsewhere. */
static uint64_t digest(const float *data, uint64_t n)
{
    uint64_t all = n;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof(bits));
        all = (all ^ bits) * 0x9E3779B97F4A7C15u;
        all ^= all >> 32;
    }
    return all;
}

/** Whether all ranks hold what rank 0 does; on slow links that is known without sending it. */
static enum wring_status ask_all_same(struct wring_allreduce_bench *bench,
                                      const struct wring_allreduce_case *this, bool *same)
{
    uint64_t mine = digest(bench->data, this->elems), first = mine;
    enum wring_status status = wring_broadcast(bench->world, &first, sizeof(first), 0, NULL, NULL);
    int64_t differs = mine != first;

    if (status == WRING_OK)
        status =
            wring_allreduce(bench->world, &differs, &differs, 1, WRING_I64, WRING_MAX, NULL, NULL);
    *same = differs == 0;
    return status;
}

/** Count the elements that are not rank 0's. */
static enum wring_status compare_with_rank_0(struct wring_allreduce_bench *bench,
                                             const struct wring_allreduce_case *this,
                                             struct wring_allreduce_findings *findings)
{
    for (uint64_t at = 0; at < this->elems; at += WRING_ALLREDUCE_PIECE) {
        uint64_t n =
            this->elems - at < WRING_ALLREDUCE_PIECE ? this->elems - at : WRING_ALLREDUCE_PIECE;
        memcpy(bench->piece, bench->data + at, n * sizeof(float));
        enum wring_status status =
            wring_broadcast(bench->world, bench->piece, n * sizeof(float), 0, NULL, NULL);
        if (status != WRING_OK)
            return status;
        findings->wrong += count_different(bench->data + at, bench->piece, n);
    }
    return WRING_OK;
}

/** What is not raw has no exact sum, but every rank must hold the same finite numbers. */
static enum wring_status compare_ranks(struct wring_allreduce_bench *bench,
                                       const struct wring_allreduce_case *this,
                                       struct wring_allreduce_findings *findings)
{
    bool same = false;
    enum wring_status status = ask_all_same(bench, this, &same);

    if (status == WRING_OK && !same)
        return compare_with_rank_0(bench, this, findings);
    findings->wrong += count_different(bench->data, bench->data, this->elems); /* not finite */
    return status;
}

enum wring_status wring_allreduce_verify_first(struct wring_allreduce_bench *bench,
                                               const struct wring_allreduce_case *this,
                                               struct wring_allreduce_findings *findings)
{
    compare_with_exact(bench, this, findings);
    return this->raw ? WRING_OK : compare_ranks(bench, this, findings);
}

enum wring_status wring_allreduce_verify_last(struct wring_allreduce_bench *bench,
                                              const struct wring_allreduce_case *this,
                                              struct wring_allreduce_findings *findings)
{
    if (!this->raw)
        return compare_ranks(bench, this, findings);
    compare_with_exact(bench, this, findings);
    return WRING_OK;
}
