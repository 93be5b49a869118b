/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Options: how one tensor, or one group of them, can travel. They are the leaves of
 * a decision tree: compress or not, who encodes and decodes, flat or hierarchical, divisible or
 * not, the routine of each step, and between two compressed steps decode, add and encode again or
 * pass the codes on. With two sites for codec work the tree has 4341 leaves, with one 174.
 *
 * Source: Espresso (EuroSys 2023), which counts the same.
 */
#ifndef WRING_MODEL_OPTION_H
#define WRING_MODEL_OPTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "planner/core/files/profile.h"
#include <wring/status.h>

enum wring_step_kind {
    WRING_STEP_ENCODE,
    WRING_STEP_DECODE, /* and add, where more than one code came */
    WRING_STEP_COMM,
};

/** Where in the path of a tensor a step stands. */
enum wring_phase {
    WRING_PHASE_FLAT,      /* one collective between all ranks */
    WRING_PHASE_INTRA_IN,  /* inside the node, before the collective between nodes */
    WRING_PHASE_INTER,     /* between nodes */
    WRING_PHASE_INTRA_OUT, /* inside the node, after it */
};

enum wring_routine {
    WRING_ROUTINE_ALLREDUCE,
    WRING_ROUTINE_REDUCE_SCATTER,
    WRING_ROUTINE_ALLGATHER,
    WRING_ROUTINE_REDUCE,
    WRING_ROUTINE_BROADCAST,
    WRING_ROUTINE_ALLTOALL,
    WRING_ROUTINE_GATHER,
};

struct wring_step {
    enum wring_step_kind kind;
    enum wring_phase phase;
    enum wring_routine routine; /* COMM */
    bool coded;                 /* COMM: codes travel */
    enum wring_site site;       /* ENCODE, DECODE */
};

#define WRING_OPTION_STEPS_MAX 12

/** One leaf. */
struct wring_option {
    uint32_t n;
    struct wring_step steps[WRING_OPTION_STEPS_MAX];
};

/** Which part of the tree. */
struct wring_options_params {
    uint32_t sites; /* bit per enum wring_site: who may code */
    bool flat, hierarchical;
    bool summable; /* codes can be added as they are: whatever sums raw data may sum codes as well.
                      Espresso's tree has none of this */
};

/** Called for each leaf, in the order of the tree; `option` is borrowed for the call. */
typedef void (*wring_option_fn)(void *arg, const struct wring_option *option);

/** Walk the tree. @return leaves */
size_t wring_options_walk(const struct wring_options_params *params, wring_option_fn each,
                          void *arg);

/** One collective between all ranks? */
bool wring_option_is_flat(const struct wring_option *option);

/** Has its collective between all ranks, or between nodes, two steps? Inside nodes all have. */
bool wring_option_is_divisible(const struct wring_option *option);

/** Are codes summed as they are, in some step of it? */
bool wring_option_sums_codes(const struct wring_option *option);

/** How often what a rank gave is encoded until it is home, if it is decoded in between: each time
 * loses as much again. */
struct wring_encodings {
    uint32_t in;   /* until the sum of a level is known */
    uint32_t back; /* afterwards, by the codec of the way back where there are two */
};
#define WRING_ENCODINGS_MAX 2 /* of each: inside nodes and between them */

struct wring_encodings wring_option_encodings(const struct wring_option *option);

/** Have both the same steps, coded by the same sites? */
bool wring_option_has_steps_of(const struct wring_option *option, const struct wring_option *other);

#define WRING_OPTION_TEXT_MAX 224 /* bytes of any option's text, its NUL included */

/**
 * An option in words, as in
 * "intra reduce-scatter, encode cpu, inter alltoall*, decode cpu, … " (a star: codes travel).
 * @param text  out, [bytes], cut to fit
 */
void wring_option_text(const struct wring_option *option, char *text, size_t bytes);

/** Names in small letters, static: "encode", "intra-in", "alltoall". */
const char *wring_step_kind_name(enum wring_step_kind kind);
const char *wring_routine_name(enum wring_routine routine);

/* The tree's leaves as a list, for people and as JSON. */

/**
 * A line for each leaf, its number and its words, and a last line with the counts.
 * Errors: WRING_ERR_SYSTEM (cannot write).
 */
enum wring_status wring_options_print(const struct wring_options_params *params, FILE *file);

/** One leaf: {"text": …, "steps": [{"step": "comm", "phase": …, "routine": …, "coded": …}, …]}. */
json_t *wring_option_json(const struct wring_option *option);

/**
 * {"flat": leaves, "hierarchical": leaves, "leaves": both, "options": [{"option": number, …}, …]}.
 * The caller drops it with json_decref(). Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_options_json(const struct wring_options_params *params, json_t **out);

/* Which options this build's runtime can execute. */

/**
 * How can a bucket travel like that? The runtime exchanges between all ranks at once, or between
 * nodes, after a raw reduce-scatter within each and before a raw allgather. It codes on the CPU,
 * and knows two algorithms for codes: allgather, and alltoall, sum, allgather. In the second,
 * owners decode codes, add, and encode the sum. If a codec's codes add up, owners add the codes
 * and send on that sum. Then the option has a coded reduce-scatter and allgather, or a coded
 * allreduce; the option that encodes sums again is not run for such a codec. With one rank in a
 * node the collective between nodes is one between all ranks.
 *
 * @param codec  a spec; one that this build does not have, or whose state plans cannot carry, runs
 *               nowhere
 * @return static: the name of an enum wring_scheme; "" where it cannot
 */
const char *wring_option_run_as(const struct wring_option *option, const char *codec,
                                uint32_t ranks_per_node);

/** Does the runtime add codes of that codec as they are? Not raw ones, nor those of a codec that
 *  this build does not have. */
bool wring_option_adds_codes(const char *codec);

#endif
