/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How gradients change weights. A worker may turn its gradient into something else before it is
 * exchanged, as momentum does; what comes back then updates the weights.
 */
#ifndef WRING_TOOLS_DEMO_OPTIMIZER_H
#define WRING_TOOLS_DEMO_OPTIMIZER_H

#include "tools/demo/network.h"

enum demo_optimizer_kind {
    DEMO_SGD,         /* Nesterov momentum at the worker */
    DEMO_ADAM,        /* Kingma and Ba, arXiv:1412.6980 */
    DEMO_LAMB,        /* You and others, arXiv:1904.00962 */
    DEMO_LANS,        /* Zheng and others, arXiv:2006.13484 */
    DEMO_ONEBIT_ADAM, /* Tang and others, arXiv:2102.02888 */
};

struct demo_optimizer_choice {
    enum demo_optimizer_kind kind;
    uint32_t warmup; /* of onebit-adam: steps of plain Adam, uncompressed */
};

struct demo_optimizer {
    struct demo_optimizer_choice choice;
    bool momentum; /* of sgd at the worker; else the codec has one of its own */
    float *first[DEMO_TENSORS_MAX], *second[DEMO_TENSORS_MAX]; /* moments */
};

/** Parse "sgd", "adam", "lamb", "lans" or "onebit-adam:warmup=N". */
bool demo_optimizer_parse(const char *text, struct demo_optimizer_choice *out);

/** The learning rate that suits it where nobody says another. */
double demo_optimizer_rate(enum demo_optimizer_kind kind);

/** Moments of zero. Free them with demo_optimizer_finish(). @return -1 without memory */
int demo_optimizer_init(struct demo_optimizer *optimizer,
                        const struct demo_optimizer_choice *choice,
                        const struct demo_network *network);
void demo_optimizer_finish(struct demo_optimizer *optimizer);

/** Is a step's exchange compressed? onebit-adam's is not while it warms up. */
bool demo_optimizer_compresses(const struct demo_optimizer *optimizer, uint32_t step);

/** Make of a worker's gradient what it exchanges. */
void demo_optimizer_prepare(struct demo_optimizer *optimizer, struct demo_network *network,
                            uint32_t tensor, uint32_t step);

/** Update the weights by the gradients that came back. All ranks compute the same bits. */
void demo_optimizer_update(struct demo_optimizer *optimizer, struct demo_network *network,
                           uint32_t tensor, uint32_t step, float rate);

#endif
