/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/reduce.h"

#include <string.h>

#include "base/cpu.h"
#include "compress/order.h"
#include "compress/tree.h"

#define COPY_TILE_BYTES 4096 /* of each source: four fill half of the first cache */

enum wring_cpu_tier wring_job_tier(const struct wring_job *job)
{
    enum wring_cpu_tier tier;
    return job->tier != NULL && wring_cpu_tier_parse(job->tier, &tier) ? tier : wring_cpu_best();
}

wring_reduce_fn wring_reduce_fold(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed)
{
    static const enum wring_reduce_kind kinds[WRING_OPS] = {
        [WRING_SUM] = WRING_REDUCE_SUM,   [WRING_AVG] = WRING_REDUCE_SUM, /* which divides */
        [WRING_MIN] = WRING_REDUCE_MIN,   [WRING_MAX] = WRING_REDUCE_MAX,
        [WRING_PROD] = WRING_REDUCE_PROD, [WRING_BAND] = WRING_REDUCE_AND,
        [WRING_BOR] = WRING_REDUCE_OR,    [WRING_BXOR] = WRING_REDUCE_XOR,
        [WRING_LAND] = WRING_REDUCE_LAND, [WRING_LOR] = WRING_REDUCE_LOR,

    };
    return wring_reduce_find(dtype, kinds[op], allowed);
}

static enum wring_status check_source(const struct wring_job *job, uint32_t i)
{
    if (job->sources[i].codec != NULL)
        return WRING_ERR_UNSUPPORTED;
    return job->sources[i].bytes == job->elems * wring_dtype_bytes(job->dtype) ? WRING_OK
                                                                               : WRING_ERR_FRAME;
}

/** dst, and its copies while what was read for it is in the nearest cache: they lie there. */
static void fold_all(const struct wring_job *job, wring_reduce_fn fold)
{
    uint64_t length = wring_reduce_tile(job), elem_bytes = wring_dtype_bytes(job->dtype);
    struct wring_source part[WRING_ORDER_FOLDED];

    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin, n = left < length ? left : length;
        for (uint32_t i = 0; n < job->elems && i < job->n_sources; i++)
            part[i].data = (const uint8_t *)job->sources[i].data + begin * elem_bytes;
        fold((uint8_t *)job->dst + begin * elem_bytes, n < job->elems ? part : job->sources,
             job->n_sources, n, job->divisor);
        wring_reduce_copy(job, begin * elem_bytes, n * elem_bytes);
    }
}

void wring_reduce_by_tree(const struct wring_job *job)
{
    struct wring_tree tree = wring_tree_find(job->dtype, job->op, wring_job_tier(job));
    uint64_t length = wring_reduce_tile(job), elem_bytes = wring_dtype_bytes(job->dtype);

    for (uint64_t begin = 0; begin < job->elems; begin += length) {
        uint64_t left = job->elems - begin, n = left < length ? left : length;
        wring_tree_run(&tree, (uint8_t *)job->dst + begin * elem_bytes, job->sources,
                       job->n_sources, begin, n, job->divisor);
        wring_reduce_copy(job, begin * elem_bytes, n * elem_bytes);
    }
}

enum wring_status wring_reduce_run(struct wring_job *job)
{
    if (!wring_op_takes(job->op, job->dtype) || job->op == WRING_PREMUL_SUM ||
        job->kind != WRING_JOB_REDUCE || job->codec_out != NULL)
        return WRING_ERR_UNSUPPORTED;
    if (job->n_sources == 0)
        return WRING_ERR_INVALID;
    for (uint32_t i = 0; i < job->n_sources; i++) {
        enum wring_status status = check_source(job, i);
        if (status == WRING_ERR_FRAME)
            job->result.bad_source = i;
        if (status != WRING_OK)
            return status;
    }
    if (job->n_sources > WRING_ORDER_FOLDED)
        wring_reduce_by_tree(job);
    else
        fold_all(job, wring_reduce_fold(job->dtype, job->op, wring_job_tier(job)));
    return WRING_OK;
}

uint64_t wring_reduce_tile(const struct wring_job *job)
{
    uint64_t tile = COPY_TILE_BYTES / wring_dtype_bytes(job->dtype);
    return job->n_copies > 0 && job->elems > tile ? tile : job->elems;
}

void wring_reduce_copy(const struct wring_job *job, uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < job->n_copies; i++)
        memcpy((uint8_t *)job->copies[i] + at, (const uint8_t *)job->dst + at, bytes);
}
