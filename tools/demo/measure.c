/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs the demo consists of, and what is made of their results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/list.h"
#include "tools/demo/corpus.h"
#include "tools/demo/curve.h"
#include "tools/demo/train.h"

#define HASH_STEP 20 /* up to which the runs with and without the link must agree */
#define WARM_STEPS 20
#define ROUNDS 5 /* of timing, in which all take turns: a busy machine then hits all alike */

const struct demo_config demo_configs[DEMO_CONFIGS] = {
    {"fp32", "fp32, uncompressed", "none", WRING_SCHEME_DIVISIBLE,
     "the honest baseline: nothing lost"},
    {"bf16", "bf16", "bf16", WRING_SCHEME_DIVISIBLE, "what most jobs would use anyway"},
    {"int8", "int8, block of 512", "int8", WRING_SCHEME_DIVISIBLE, "a quarter of the bytes"},
    {"onebit+ef", "one bit + error feedback", "onebit:block=128+ef", WRING_SCHEME_INDIVISIBLE,
     "sign and mean; what is left out is sent later"},
    {"topk+ef", "top 1 % + error feedback", "topk:ratio=0.01+ef", WRING_SCHEME_INDIVISIBLE,
     "the largest hundredth; the rest is sent later"},
    {"onebit", "one bit, no error feedback", "onebit:block=128", WRING_SCHEME_INDIVISIBLE,
     "negative control: as fast, and wrong"},
};

const struct demo_config *demo_config_find(const char *name)
{
    for (int i = 0; i < DEMO_CONFIGS; i++)
        if (strcmp(demo_configs[i].name, name) == 0)
            return &demo_configs[i];
    return NULL;
}

const struct demo_measure *demo_measure_find(const struct demo_results *results, const char *name)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (strcmp(results->measures[i].config->name, name) == 0)
            return &results->measures[i];
    return NULL;
}

static bool is_wanted(const struct demo_options *options, const char *name)
{
    struct wring_list_item item;
    if (options->only == NULL)
        return true;
    for (const char *rest = options->only; wring_list_next(&rest, &item);)
        if (wring_list_item_is(&item, name))
            return true;
    return false;
}

struct show {
    bool terminal;
    char what[64];
};

static void show_progress(void *arg, uint32_t step, uint32_t steps)
{
    const struct show *show = arg;
    if (show->terminal && (step % 10 == 0 || step == steps))
        fprintf(stderr, "\r\033[K%s: step %u of %u", show->what, step, steps);
    if (show->terminal && step == steps)
        fprintf(stderr, "\r\033[K");
}

/** Mean over all ranks of some numbers, and whether all of them have the same hash. */
static enum wring_status combine(struct wring_session *session, struct demo_run_result *result,
                                 uint64_t hash, bool *same)
{
    float numbers[4] = {(float)result->step_us, (float)result->wire_bytes, (float)result->cpu_per_s,
                        0};
    uint64_t root_hash = hash;
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = wring_broadcast(world, &root_hash, sizeof(root_hash), 0, NULL, NULL);
    numbers[3] = root_hash != hash;
    if (status == WRING_OK)
        status = wring_allreduce(world, numbers, numbers, 4, WRING_F32, WRING_AVG, NULL, NULL);
    result->step_us = numbers[0];
    result->wire_bytes = numbers[1];
    result->cpu_per_s = numbers[2];
    *same &= numbers[3] == 0;
    return status;
}

struct measuring {
    const struct demo_options *options;
    const struct demo_corpus *corpus;
    struct wring_session *control; /* for what the ranks tell each other between runs */
    atomic_bool settled;           /* it is open */
    uint32_t rank, ranks;
    struct show show;
};

static int run(struct measuring *m, const struct demo_config *config, const char *link,
               uint32_t steps, bool evaluate, bool *same, struct demo_recording *recording,
               struct demo_run_result *result)
{
    struct demo_run run = {
        .options = m->options,
        .corpus = m->corpus,
        .config = config,
        .link = link,
        .control = m->control,
        .rank = m->rank,
        .ranks = m->ranks,
        .steps = steps,
        .evaluate = evaluate,
        .hash_step = config != NULL ? HASH_STEP : 0,
        .warm_steps = WARM_STEPS,
        .recording = recording,
        .progress = show_progress,
        .progress_arg = &m->show,
    };
    snprintf(m->show.what, sizeof(m->show.what), "%s, %s",
             config != NULL ? config->name : "compute",
             evaluate       ? "loss"
             : link != NULL ? link
                            : "alone");
    enum wring_status status = wring_barrier(wring_session_world(m->control), NULL, NULL);
    if (status == WRING_OK && demo_train(&run, result) != 0)
        return 1;
    if (status == WRING_OK)
        status = combine(m->control, result, result->hash, same);
    return status == WRING_OK ? 0 : demo_fail(m->control, m->rank, "between runs", status);
}

/** @param recording  to be filled; NULL: none */
static int measure_losses(struct measuring *m, const struct demo_config *config,
                          struct demo_recording *recording, struct demo_measure *out,
                          uint64_t *hash)
{
    struct demo_run_result loss;
    *out = (struct demo_measure){.config = config, .same_bits = true, .time_to_target_s = NAN};
    if (run(m, config, NULL, m->options->steps, true, &out->same_bits, recording, &loss) != 0)
        return 1;
    memcpy(out->losses, loss.losses, sizeof(out->losses));
    *hash = loss.hash;
    return 0;
}

static int by_step_us(const void *a, const void *b)
{
    const struct demo_run_result *x = a, *y = b;
    return (x->step_us > y->step_us) - (x->step_us < y->step_us);
}

/** The round of median step time speaks for all. */
static const struct demo_run_result *median_round(struct demo_run_result *rounds)
{
    qsort(rounds, ROUNDS, sizeof(*rounds), by_step_us);
    return &rounds[ROUNDS / 2];
}

/** Compute alone, then every configuration on the link, and that ROUNDS times. */
static int measure_times(struct measuring *m, struct demo_results *out, const uint64_t *hashes)
{
    struct demo_run_result compute[ROUNDS], link[DEMO_CONFIGS][ROUNDS];
    uint32_t steps = WARM_STEPS + (m->options->timed_steps + ROUNDS - 1) / ROUNDS;
    bool same = true;
    if (steps < HASH_STEP)
        steps = HASH_STEP;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        if (run(m, NULL, NULL, 3 * steps, false, &same, NULL, &compute[r]) != 0)
            return 1;
        for (uint32_t i = 0; i < out->n; i++) {
            struct demo_measure *measure = &out->measures[i];
            if (run(m, measure->config, m->options->link, steps, false, &measure->same_bits, NULL,
                    &link[i][r]) != 0)
                return 1;
            measure->same_bits &= link[i][r].hash == hashes[i];
        }
    }
    double compute_us = median_round(compute)->step_us;
    out->times = median_round(compute)->times;
    out->times_steps = median_round(compute)->timed_steps;
    for (uint32_t i = 0; i < out->n; i++) {
        const struct demo_run_result *median = median_round(link[i]);
        out->measures[i].compute_us = compute_us;
        out->measures[i].step_us = median->step_us;
        out->measures[i].wire_bytes = median->wire_bytes;
        out->measures[i].cores = median->cpu_per_s * m->ranks;
        out->measures[i].timeline = median->timeline;
    }
    return 0;
}

static void conclude(struct demo_results *results)
{
    uint32_t steps = results->options->steps;
    const struct demo_measure *bf16 = demo_measure_find(results, "bf16");
    results->target_loss = bf16 != NULL ? bf16->losses[DEMO_EVALS] : NAN;
    for (uint32_t i = 0; i < results->n; i++) {
        struct demo_measure *m = &results->measures[i];
        m->time_to_target_s =
            demo_curve_steps_to(m->losses, steps, results->target_loss) * m->step_us / 1e6;
        m->bf16_loss_then =
            bf16 != NULL ? demo_curve_at(bf16->losses, steps, steps * m->step_us / bf16->step_us)
                         : NAN;
    }
}

/** The first configuration's gradients are those that are recorded, in rank 0. */
static int measure_recorded(struct measuring *m, const struct demo_config *config,
                            struct demo_results *out, uint64_t *hash)
{
    struct demo_recording recording;

    if (m->rank != 0 || m->options->record_gradients[0] == '\0' || out->n > 0)
        return measure_losses(m, config, NULL, &out->measures[out->n], hash);
    if (demo_recording_init(&recording, out->elems, m->options->steps) != 0)
        return demo_fail(m->control, m->rank, "recorded gradients", WRING_ERR_NO_MEMORY);
    int failed = measure_losses(m, config, &recording, &out->measures[0], hash) != 0 ||
                 !demo_recording_write(&recording, m->options, config);
    demo_recording_finish(&recording);
    return failed;
}

static int measure_wanted(struct measuring *m, struct demo_results *out)
{
    uint64_t hashes[DEMO_CONFIGS];
    for (int i = 0; i < DEMO_CONFIGS; i++) {
        if (!is_wanted(m->options, demo_configs[i].name))
            continue;
        if (measure_recorded(m, &demo_configs[i], out, &hashes[out->n]) != 0)
            return 1;
        out->n++;
    }
    if (!m->options->losses_only && measure_times(m, out, hashes) != 0)
        return 1;
    conclude(out);
    return 0;
}

int demo_measure_all(const struct demo_options *options, struct demo_results *out)
{
    struct demo_corpus corpus;
    struct demo_model model;
    *out = (struct demo_results){.options = options};
    if (demo_corpus_load(options->texts, options->n_texts, options->seed, options->ranks,
                         &corpus) != 0)
        return 1;
    struct measuring m = {.options = options, .corpus = &corpus};
    m.control = demo_session_open("shm", NULL, &m.settled);
    int failed = m.control == NULL;
    if (!failed) {
        atomic_store(&m.settled, true);
        m.rank = wring_session_rank(m.control);
        m.ranks = wring_session_size(m.control);
        m.show.terminal = m.rank == 0 && isatty(STDERR_FILENO);
        out->text_files = corpus.files;
        out->dropped_files = corpus.dropped;
        out->text_bytes = corpus.train_bytes + corpus.held_out_bytes;
        out->held_out_bytes = corpus.held_out_bytes;
        if (demo_model_init(&model, options->blas, 1, options->hidden, 0) == 0) {
            for (int t = 0; t < DEMO_TENSORS; t++)
                out->parameters += out->elems[t] = model.elems[t];
            demo_model_finish(&model);
        }
        failed = measure_wanted(&m, out);
    }
    wring_session_close(m.control);
    demo_corpus_free(&corpus);
    return failed;
}
