/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training loop that goes on when a rank is lost, and lets it in again:
 *
 *     wring run --elastic 2:4 -- ./elastic 300
 *     wring run --elastic 2:4 -- ./elastic 300 1@40 4
 *
 * The second kills rank 1 in step 40, and goes on until 4 ranks are there again.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wring/wring.h>

#define WEIGHTS 1000
#define RATE 0.05f
#define GROW_EVERY 10 /* steps */

struct job {
    struct wring_session *session;
    struct wring_bucket *bucket;
    float *grad, *sum;
    uint64_t step, grown; /* grown: the step at which newcomers were let in last */
    float weights[WEIGHTS], before[WEIGHTS]; /* before: the last step */
};

/* The ranks learn weights 0.5: each has data of its own, here random numbers. */
static void compute_gradient(struct job *job)
{
    uint32_t random = (uint32_t)(job->step * 1000 + wring_session_rank(job->session)) + 1;

    for (int i = 0; i < WEIGHTS; i++) {
        random = random * 1664525 + 1013904223;
        float noise = (float)(random >> 8) / (1 << 24) - 0.5f;
        job->grad[i] = job->weights[i] - 0.5f + noise;
    }
}

static void update_weights(struct job *job)
{
    memcpy(job->before, job->weights, sizeof(job->before));
    for (int i = 0; i < WEIGHTS; i++)
        job->weights[i] -= RATE * job->sum[i];
    job->step++;
}

/* At the start of the job, and in a newcomer: both get what rank 0 has. */
static enum wring_status begin(struct job *job)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT; /* from the launcher */
    void *grad = NULL, *sum = NULL;

    enum wring_status status = wring_session_open(&params, &job->session);
    if (status != WRING_OK) /* the reason has been logged */
        return status;
    wring_buffer_alloc(job->session, sizeof(job->weights), &grad);
    wring_buffer_alloc(job->session, sizeof(job->weights), &sum);
    job->grad = grad;
    job->sum = sum;
    status = wring_bucket_register(
        job->session,
        &(struct wring_bucket_params){.name = "weights",
                                      .data = grad,
                                      .out = sum,
                                      .elems = WEIGHTS,
                                      .op = WRING_AVG,
                                      .codec = "int8+ef",
                                      .struct_bytes = sizeof(struct wring_bucket_params)},
        &job->bucket);
    if (status == WRING_OK)
        status = wring_session_commit(job->session);
    if (status == WRING_OK)
        status = wring_session_share(job->session, job->weights, sizeof(job->weights));
    job->step = job->grown = wring_bucket_steps(job->bucket);
    return status;
}

/* All ranks come here in the same step; most times nobody knocks. */
static enum wring_status let_newcomers_in(struct job *job)
{
    uint32_t ranks = wring_session_size(job->session);

    enum wring_status status = wring_session_grow(job->session, 0, &job->session);
    if (status == WRING_OK && wring_session_size(job->session) > ranks)
        status = wring_session_share(job->session, job->weights, sizeof(job->weights));
    job->grown = job->step;
    return status;
}

/* Those who are left agree on the step with which to go on. This rank may be one ahead of it. */
static enum wring_status go_on_without(struct job *job)
{
    enum wring_status status = wring_session_shrink(job->session, 0, &job->session);

    if (status == WRING_OK && wring_bucket_steps(job->bucket) < job->step) {
        memcpy(job->weights, job->before, sizeof(job->weights));
        job->step = wring_bucket_steps(job->bucket);
    }
    job->grown = job->step;
    return status;
}

static enum wring_status step_once(struct job *job)
{
    if (job->step % GROW_EVERY == 0 && job->step != job->grown)
        return let_newcomers_in(job); /* and to the loop's head, where newcomers begin */
    compute_gradient(job);
    enum wring_status status = wring_bucket_post(job->bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(job->bucket, WRING_FOREVER, NULL);
    if (status == WRING_OK)
        update_weights(job);
    return status;
}

int main(int argc, char **argv)
{
    static struct job job;
    uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
    unsigned victim = UINT32_MAX, last_step = 0, ranks = 0;

    if (argc > 2 && sscanf(argv[2], "%u@%u", &victim, &last_step) != 2)
        return 2;
    if (argc > 3)
        ranks = (unsigned)strtoul(argv[3], NULL, 10);
    if (begin(&job) != WRING_OK)
        return 1;
    if (job.step > 0)
        victim = UINT32_MAX; /* a newcomer */
    unsigned me = wring_session_rank(job.session);
    while (job.step < steps || wring_session_size(job.session) < ranks) {
        if (me == victim && job.step == last_step)
            raise(SIGKILL);
        if (step_once(&job) != WRING_OK && go_on_without(&job) != WRING_OK)
            return 1;
    }
    printf("rank %u of %u: %llu steps, weights[0] %.4f\n", wring_session_rank(job.session),
           wring_session_size(job.session), (unsigned long long)job.step, (double)job.weights[0]);
    wring_session_close(job.session);
    return 0;
}
