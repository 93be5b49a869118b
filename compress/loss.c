/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/loss.h"

#define LANES 8 /* sums that do not wait for one another */

struct sums {
    double lost[LANES], whole[LANES];
};

/** Add the squares of LANES inputs, and of their losses, each to its lane. Written so that
 *  compilers make vectors of it. */
static void add_loss_of_inputs(struct sums *sums, const float *input, const float *decoded)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        double whole = (double)input[lane], lost = whole - (double)decoded[lane];
        sums->lost[lane] += lost * lost;
        sums->whole[lane] += whole * whole;
    }
}

static void add_loss_of_residuals(struct sums *sums, const float *residual, const float *decoded)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        double lost = (double)residual[lane], whole = (double)decoded[lane] + lost;
        sums->lost[lane] += lost * lost;
        sums->whole[lane] += whole * whole;
    }
}

/** The last ones, with zeros behind them, which lose nothing. */
static void fill_with_zeros(float *lanes, const float *from, uint64_t n)
{
    for (uint64_t i = 0; i < LANES; i++)
        lanes[i] = i < n ? from[i] : 0;
}

void wring_loss_add(struct wring_job *job, const struct wring_coded_run *run)
{
    const float *other = run->residual != NULL ? run->residual : run->input;
    void (*add)(struct sums *, const float *, const float *) =
        run->residual != NULL ? add_loss_of_residuals : add_loss_of_inputs;
    struct sums sums = {{0}, {0}};
    float last[LANES], last_decoded[LANES];
    uint64_t i = 0;

    for (; i + LANES <= run->elems; i += LANES)
        add(&sums, other + i, run->decoded + i);
    fill_with_zeros(last, other + i, run->elems - i);
    fill_with_zeros(last_decoded, run->decoded + i, run->elems - i);
    add(&sums, last, last_decoded);
    for (unsigned lane = 0; lane < LANES; lane++) {
        job->result.lost += sums.lost[lane];
        job->result.whole += sums.whole[lane];
    }
}
