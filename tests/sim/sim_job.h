/* SPDX-License-Identifier: Apache-2.0 */
/** Run a job whose ranks are simulated: sessions as a program opens them, in one thread. */
#ifndef WRING_TESTS_SIM_JOB_H
#define WRING_TESTS_SIM_JOB_H

#include "transport/providers/sim/sim.h"
#include <wring/wring.h>

struct sim_job {
    struct wring_sim_params network; /* ranks among it */
    void *arg;
    /** One rank's part; the session is open, and closed after this. */
    void (*run)(struct sim_job *job, struct wring_session *session, uint32_t rank);

    /* of the run */
    struct wring_sim *sim;
    uint64_t opened_ns; /* when the last session was open */
    uint32_t unopened;  /* sessions that did not open */
};

/** @return what wring_sim_create() or wring_sim_run() said; the simulation stays for counts */
enum wring_status sim_job_run(struct sim_job *job);

/** NULL-safe; forgets the simulation. */
void sim_job_end(struct sim_job *job);

/** A network that is easy to compute with: 5 us, 0.5 us a message, 100 Gbit/s. */
struct wring_sim_params sim_network(uint32_t ranks);

/** What a message alone takes there. */
uint64_t sim_message_ns(const struct wring_sim_params *network, uint64_t bytes);

#endif
