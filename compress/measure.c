/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/measure.h"

#define LANES 8 /* sums that do not wait for one another */

struct sums {
    double lost[LANES], whole[LANES];
};

static void add_element(struct sums *sums, const struct wring_encoded *run, uint64_t i,
                        unsigned lane)
{
    double decoded = (double)run->decoded[i];
    double lost =
        run->residual != NULL ? (double)run->residual[i] : (double)run->input[i] - decoded;
    double whole = run->residual != NULL ? decoded + lost : (double)run->input[i];
    sums->lost[lane] += lost * lost;
    sums->whole[lane] += whole * whole;
}

void wring_measure_add(struct wring_job *job, const struct wring_encoded *run)
{
    struct sums sums = {{0}, {0}};
    uint64_t i = 0;

    for (; i + LANES <= run->elems; i += LANES)
        for (unsigned lane = 0; lane < LANES; lane++)
            add_element(&sums, run, i + lane, lane);
    for (; i < run->elems; i++)
        add_element(&sums, run, i, 0);
    for (unsigned lane = 0; lane < LANES; lane++) {
        job->lost += sums.lost[lane];
        job->whole += sums.whole[lane];
    }
}

enum wring_status wring_measure_encode(struct wring_job *job, float *scratch)
{
    const struct wring_encoded run = {job->src, scratch, job->residual, job->elems};
    enum wring_status status = wring_codec_decode(job->codec_out, &job->context, job->code,
                                                  job->code_bytes, scratch, job->elems, false);
    if (status == WRING_OK)
        wring_measure_add(job, &run);
    return status;
}
