/* SPDX-License-Identifier: Apache-2.0 */
/** What the demo can train: data, a network, and the loss of both. Each task is one table. */
#ifndef WRING_TOOLS_DEMO_TASK_H
#define WRING_TOOLS_DEMO_TASK_H

#include "tools/demo/demo.h"
#include "tools/demo/network.h"

/** Called when the gradient of a tensor is complete. */
typedef void (*demo_ready_fn)(void *arg, uint32_t tensor);

/** Which samples: those of a rank, in a step of a training or in a held-out batch. */
struct demo_draw {
    uint64_t seed;
    uint32_t rank, ranks;
    uint64_t number; /* of the step, or of the held-out batch */
};

struct demo_task {
    const char *name;      /* "text" */
    const char *what;      /* "a byte-level language model" */
    const char *loss_unit; /* "nats per byte" */
    uint32_t hidden;       /* units of a hidden layer, unless the user says otherwise */
    uint32_t n_tensors, n_buckets;
    const struct demo_bucket *buckets; /* in the order in which backward completes them */

    /**
     * Read the data, the same on every rank. Free it with drop.
     * @return 0, or -1 after a line on standard error
     */
    int (*load)(const struct demo_options *options, void **data);
    void (*drop)(void *data);

    /** One line on the data, for people. @param text  out, [bytes] */
    void (*describe)(const void *data, char *text, size_t bytes);

    /** Of the data's content: other data has another hash. */
    uint64_t (*hash)(const void *data);

    /** Set the tensors' names and shapes. */
    void (*shape)(struct demo_network *network);

    /** Draw the weights, which are zeros until then, and make the layers. @return -1 without
     *  memory */
    int (*begin)(struct demo_network *network, uint64_t key);
    void (*end)(struct demo_network *network);

    /** Fill the batch from this rank's part of the training data. */
    void (*draw)(struct demo_network *network, const void *data, const struct demo_draw *draw);

    /** Fill it with this rank's share of the held-out samples, which are the same in every run. */
    void (*draw_held_out)(struct demo_network *network, const void *data,
                          const struct demo_draw *draw);

    /** Samples of all ranks together that the last evaluation takes. */
    uint32_t (*held_out)(const void *data);

    /** How many of them, from the first on, a point of the curve takes. */
    uint32_t (*curve)(const void *data);

    /** Run the batch forward. @return its mean loss */
    double (*forward)(struct demo_network *network);

    /** Gradients of the mean loss of the batch; after forward. */
    void (*backward)(struct demo_network *network, demo_ready_fn ready, void *arg);
};

extern const struct demo_task demo_task_text;
extern const struct demo_task demo_task_image;

#endif
