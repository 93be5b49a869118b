/* SPDX-License-Identifier: Apache-2.0 */
/** Plans that tests write, and the tensors that these are for. */
#ifndef WRING_TESTS_PLANNED_TENSORS_H
#define WRING_TESTS_PLANNED_TENSORS_H

#include <stdbool.h>

#include <wring/wring.h>

#define TENSORS 4

extern const uint64_t sizes[TENSORS];
extern const char *const names[TENSORS];

/** One group of a plan. */
struct part {
    uint32_t n; /* tensors */
    const char *codec, *run_as;
};

struct plan_of {
    const struct part *parts; /* ends with n = 0 */
    uint32_t ranks;
    uint32_t ranks_per_node; /* 0: one */
    const char *const *names;
    uint64_t more; /* elements that the first group is said to have too many */
    bool swapped;  /* its first two tensors are said to be as large as each other is */
    const char *executor;
    uint64_t chunk_bytes;
    uint32_t cores;             /* of the first group */
    const char *first_executor; /* of that group; NULL: none is named */
};

/** Four tensors in three groups, each by another scheme. */
extern const struct part mixed[];
/** The same on nodes of several ranks. */
extern const struct part between_nodes[];

/** Codecs whose codes add up: on four nodes of one rank, and on two of two. */
extern const struct part adding[], adding_between_nodes[];

/** Write a plan to a file. @param setting out, [bytes], names it: "WRING_PLAN=/tmp/..." */
void write_plan(const struct plan_of *what, char *setting, size_t bytes);
void remove_plan(const char *setting);

/** What a rank has of its tensors. */
struct tensors {
    struct wring_bucket *buckets[TENSORS];
    float *data[TENSORS]; /* of results */
    float *in[TENSORS];   /* of contributions: the same, unless results go elsewhere */
};

/** Register them. @param apart  in buffers of their own, else one after another in one.
 *  @return false: not all of them */
bool make_tensors(struct wring_session *session, bool apart, struct tensors *out);

/** The same, but contributions lie apart from results. */
bool make_tensors_elsewhere(struct wring_session *session, bool apart, struct tensors *out);

#endif
