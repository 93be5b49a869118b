/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/lanes.h"

#include <math.h>
#include <string.h>

/** The time that collectives lose to each wake-up. */
static double wake_us(const struct wring_profile_computing *profile, double load, uint32_t n,
                      const double *compute_us)
{
    double all_us = 0;

    for (uint32_t i = 0; i < n; i++)
        all_us += compute_us[i];
    double rate = all_us > 0 ? n * profile->wake_us / all_us : 1; /* of the processor */
    double missing = load + rate - 1;
    if (missing <= 0)
        return 0;
    return profile->wake_us * (missing < rate ? missing / rate : 1);
}

double wring_interference_shift(const struct wring_profile_computing *profile,
                                enum wring_computing computing, double load, bool coded, uint32_t n,
                                double *compute_us)
{
    double spin_lost = fmax(profile->spin_lost, coded ? profile->spin_coded_lost : 0), lost_us = 0;

    if (!profile->present)
        return 0;
    double each_us = wake_us(profile, load, n, compute_us);
    for (uint32_t i = 1; i < n; i++) { /* nothing is exchanged during the first */
        double lost = computing == WRING_COMPUTING_PROCESSOR ? spin_lost * compute_us[i]
                                                             : fmin(each_us, compute_us[i]);
        compute_us[i] -= lost;
        lost_us += lost;
    }
    compute_us[0] += lost_us;
    return lost_us;
}

double wring_interference_true_us(const struct wring_cost_model *model, double us)
{
    const struct wring_tensor_trace *trace = model->trace;
    double shown = 0, before = 0;

    if (model->lost_us <= 0)
        return us;
    for (uint32_t i = 0; i < trace->n; i++) {
        double took = model->compute_us[i],
               ready = trace->optimizer_us + trace->tensors[i].ready_us;
        if (us < shown + took)
            return before + (us - shown) / took * (ready - before);
        shown += took;
        before = ready;
    }
    return us;
}

/* ---- lanes ---- */

#define WORKER(name) (1u << WRING_WORKER_##name)
#define COMM (WORKER(INTRA_IN) | WORKER(INTER) | WORKER(INTRA_OUT))
#define CPU (WORKER(CPU_ENCODE) | WORKER(CPU_DECODE))

/** The workers of a lane. For an option that uses any worker of `if_any`, they are `then`. */
struct lane {
    const char *name;
    uint32_t workers;
    uint32_t if_any, then;
};

/* Espresso's F: traffic that is coded beside the device takes the coder's lane, not that of the one
   network. So it has a second network for nothing; the other timelines know better. */
static const struct lane serial[WRING_PLAN_LANES_MAX] = {
    {"device", WORKER(DEVICE_ENCODE), 0, 0},
    {"net", WORKER(DEVICE_DECODE) | COMM, CPU | WORKER(NODE), WORKER(DEVICE_DECODE)},
    {"cpu", 0, CPU | WORKER(NODE), CPU | WORKER(NODE) | COMM},
};

static const struct lane phases[WRING_PLAN_LANES_MAX] = {
    {"device", WORKER(DEVICE_ENCODE), 0, 0}, /* computing, too: encoding delays later gradients */
    {"intra-in", WORKER(INTRA_IN), 0, 0},
    {"cpu", CPU, 0, 0},
    {"node", WORKER(NODE), 0, 0},
    {"inter", WORKER(INTER), 0, 0},
    {"decode", WORKER(DEVICE_DECODE), 0, 0},
    {"intra-out", WORKER(INTRA_OUT), 0, 0},
};

static const struct lane full[WRING_PLAN_LANES_MAX] = {
    {"device", WORKER(DEVICE_ENCODE) | WORKER(DEVICE_DECODE), 0, 0}, /* both steal computing */
    {"intra-in", WORKER(INTRA_IN), 0, 0},
    {"cpu", CPU | WORKER(PROGRESS), 0, 0}, /* one set of cores: nobody works while another does */
    {"node", WORKER(NODE), 0, 0},
    {"inter", WORKER(INTER), 0, 0},
    {"intra-out", WORKER(INTRA_OUT), 0, 0},
};

static const struct lane *table_of(enum wring_timeline timeline)
{
    switch (timeline) {
    case WRING_TIMELINE_SERIAL:
        return serial;
    case WRING_TIMELINE_FULL:
        return full;
    case WRING_TIMELINE_AUTO:
    case WRING_TIMELINE_PHASES:
        break;
    }
    return phases;
}

struct wring_lanes wring_lanes_of(enum wring_timeline timeline)
{
    const struct lane *table = table_of(timeline);
    struct wring_lanes lanes = {0};

    while (lanes.n < WRING_PLAN_LANES_MAX && table[lanes.n].name != NULL) {
        lanes.names[lanes.n] = table[lanes.n].name;
        lanes.n++;
    }
    return lanes;
}

static uint32_t find_workers(const struct wring_work *work)
{
    uint32_t workers = 0;

    for (uint32_t i = 0; i < WRING_WORKERS; i++)
        if (work->us[i].n > 0 || work->latency_us[i] > 0)
            workers |= 1u << i;
    return workers;
}

static void add_worker_cost(const struct wring_work *work, uint32_t worker, bool chunked,
                            struct wring_cost *once, struct wring_cost *each)
{
    struct wring_cost latency = wring_cost_line(work->latency_us[worker], 0);

    *each = wring_cost_add(each, &work->us[worker]);
    if (work->latency_us[worker] > 0)
        *(chunked ? once : each) = wring_cost_add(chunked ? once : each, &latency);
}

void wring_lanes_cost(enum wring_timeline timeline, const struct wring_work *work,
                      uint64_t chunk_elems, struct wring_option_cost *out)
{
    const struct lane *table = table_of(timeline);
    uint32_t busy = find_workers(work);

    memset(out, 0, sizeof(*out));
    out->chunk_elems = chunk_elems;
    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX && table[lane].name != NULL; lane++) {
        uint32_t workers = table[lane].if_any & busy ? table[lane].then : table[lane].workers;
        for (uint32_t worker = 0; worker < WRING_WORKERS; worker++)
            if (workers >> worker & 1)
                add_worker_cost(work, worker, chunk_elems > 0, &out->once[lane], &out->each[lane]);
    }
}
