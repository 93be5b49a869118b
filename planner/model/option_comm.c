/* SPDX-License-Identifier: Apache-2.0 */
/**
 * With n ranks, each of which holds `codes` pieces of x, a routine passes through a rank's link
 *
 *     allreduce       2(n - 1) codes of x/n   ring
 *     reduce-scatter   (n - 1) codes of x/n   ring: x and f are 1/n then
 *     alltoall         (n - 1) codes of x/n   pairs: likewise, and n times the codes
 *     allgather        (n - 1) codes of x     ring: of shards f is n times as much, of raw
 *                                             ones x, else n times the codes
 *     reduce                   codes of x     a chain to the root, piece after piece
 *     broadcast                codes of x     a chain from it
 *     gather           (n - 1) codes of x     all into the root: n times the codes
 *
 * Between nodes the link is the node's: what each of its ranks at work sends adds up there. A flat
 * exchange passes both links: those of the ranks on the way in and out, and the node's; the rings
 * and chains of all ranks pass that one once, of an alltoall it carries what its ranks send to
 * other nodes, of a gather what the root's node takes in.
 *
 * A level's latency is that of a whole exchange: each step of two has half of it, unless the step
 * was measured by itself, and a flat exchange pays for both levels. Where codes are made and unmade
 * inside the nodes and between them as well, each step in which they travel pays twice (Espresso's
 * artifact: 4 latencies, not 2).
 */
#include <string.h>

#include "planner/model/option_walk.h"

static double nodes(const struct wring_walk *walk)
{
    return walk->params->nodes;
}

static double ranks_per_node(const struct wring_walk *walk)
{
    return walk->params->ranks_per_node;
}

static double ranks_of(const struct wring_walk *walk, enum wring_phase phase)
{
    if (phase == WRING_PHASE_FLAT)
        return nodes(walk) * ranks_per_node(walk);
    return phase == WRING_PHASE_INTER ? nodes(walk) : ranks_per_node(walk);
}

/** What passes a link: `pieces` codes of `part` of the tensor each. */
struct passing {
    double pieces, part;
};

static struct passing through_rank(const struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase), codes = walk->codes, x = walk->x;

    switch (step->routine) {
    case WRING_ROUTINE_ALLREDUCE:
        return (struct passing){2 * (n - 1) * codes, x / n};
    case WRING_ROUTINE_REDUCE_SCATTER:
    case WRING_ROUTINE_ALLTOALL:
        return (struct passing){(n - 1) * codes, x / n};
    case WRING_ROUTINE_ALLGATHER:
    case WRING_ROUTINE_GATHER:
        return (struct passing){(n - 1) * codes, x};
    case WRING_ROUTINE_REDUCE:
    case WRING_ROUTINE_BROADCAST:
        break;
    }
    return (struct passing){codes, x};
}

static struct passing through_node(const struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase), k = ranks_per_node(walk);
    struct passing passing = through_rank(walk, step);

    if (step->phase == WRING_PHASE_INTER)
        passing.pieces *= walk->active;
    else if (step->routine == WRING_ROUTINE_ALLTOALL)
        passing.pieces = k * (n - k) * walk->codes;
    else if (step->routine == WRING_ROUTINE_GATHER)
        passing.pieces = (n - k) * walk->codes;
    return passing;
}

static struct wring_cost piece_bytes(const struct wring_walk *walk, const struct wring_step *step)
{
    bool intra = step->phase == WRING_PHASE_INTRA_IN || step->phase == WRING_PHASE_INTRA_OUT;

    if (step->coded)
        return walk->codec->wire_bytes;
    return wring_cost_line(0, intra && walk->half_intra ? 2 : 4);
}

/** Everything is done after it. */
static bool is_alone(const struct wring_walk *walk, const struct wring_step *step)
{
    if (step->phase == WRING_PHASE_INTRA_OUT || walk->second[step->phase])
        return false;
    return step->routine == WRING_ROUTINE_ALLREDUCE || step->routine == WRING_ROUTINE_ALLGATHER;
}

/** What a step takes of a link, and how long it takes at least. */
struct price {
    const struct wring_cost *us;
    double latency_us;
};

/**
 * As it was measured by itself, if it was. What ends in one rank is no collective that anybody has:
 * it is made of puts. Else it takes what an allgather does, and of two steps each half of a pair's
 * latency.
 */
static struct price price_of(const struct wring_profile_link *link, enum wring_routine routine,
                             bool alone)
{
    const struct wring_profile_routine *measured =
        wring_profile_routine(link, wring_routine_name(routine));
    const struct wring_profile_put *put = &link->put;

    if (measured != NULL)
        return (struct price){&measured->us, measured->latency_us};
    if (put->latency.us.n > 0 &&
        (routine == WRING_ROUTINE_REDUCE || routine == WRING_ROUTINE_GATHER))
        return (struct price){&put->each.us, wring_cost_at(&put->latency.us, 0)};
    return (struct price){&link->us, alone ? link->latency_us : link->latency_us / 2};
}

/** @param share  of the step's work that this worker has */
static void pay(struct wring_walk *walk, const struct wring_step *step, enum wring_worker worker,
                double share)
{
    bool inter = worker == WRING_WORKER_INTER;
    const struct wring_profile_link *link =
        &walk->params->profile->links[inter ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    struct passing passing = inter ? through_node(walk, step) : through_rank(walk, step);
    const struct price price = price_of(link, step->routine, is_alone(walk, step));
    double scale = inter ? walk->params->link_scale : 1;
    double twice = step->coded && walk->both_levels ? 2 : 1;
    struct wring_cost piece = piece_bytes(walk, step);
    struct wring_cost bytes = wring_cost_scale(&piece, share * passing.pieces, passing.part);
    struct wring_cost us = wring_cost_of(price.us, &bytes);

    wring_walk_add(walk, worker, wring_cost_scale(&us, 1 / scale, 1));
    walk->work->latency_us[worker] += share * twice * price.latency_us;
}

/** In the node on its way to others, then back: a first step and a second, or half and half. */
static void pay_flat(struct wring_walk *walk, const struct wring_step *step)
{
    double in = step->routine == WRING_ROUTINE_ALLGATHER ? 0 : walk->second[step->phase] ? 0 : 1;

    if (step->routine == WRING_ROUTINE_ALLREDUCE)
        in = 0.5;
    if (nodes(walk) == 1)
        in = 1; /* no other way but the node's link, and no lane but that */
    if (in > 0)
        pay(walk, step, WRING_WORKER_INTRA_IN, in);
    if (in < 1)
        pay(walk, step, WRING_WORKER_INTRA_OUT, 1 - in);
}

static void pay_comm(struct wring_walk *walk, const struct wring_step *step)
{
    bool flat = step->phase == WRING_PHASE_FLAT;

    if (step->phase == WRING_PHASE_INTRA_IN)
        pay(walk, step, WRING_WORKER_INTRA_IN, 1);
    if (flat && ranks_per_node(walk) > 1)
        pay_flat(walk, step);
    if (step->phase == WRING_PHASE_INTER || (flat && nodes(walk) > 1))
        pay(walk, step, WRING_WORKER_INTER, 1);
    if (step->phase == WRING_PHASE_INTRA_OUT)
        pay(walk, step, WRING_WORKER_INTRA_OUT, 1);
}

/** Raw data are added by somebody: n − 1 pieces, where the profile knows what that takes. */
static void pay_sums(struct wring_walk *walk, const struct wring_step *step)
{
    const struct wring_profile *profile = walk->params->profile;
    double n = ranks_of(walk, step->phase);
    bool whole = step->routine == WRING_ROUTINE_REDUCE;

    if (step->routine != WRING_ROUTINE_ALLREDUCE && !whole &&
        step->routine != WRING_ROUTINE_REDUCE_SCATTER)
        return;
    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        const struct wring_profile_coding *adding = &codec->at[WRING_PLACE_CPU];
        if (strcmp(codec->spec, "none") == 0 && adding->present)
            wring_walk_add(walk, WRING_WORKER_CPU_DECODE,
                           wring_cost_scale(wring_profile_decoding(&adding->decode_us,
                                                                   &adding->decode_add_us, true),
                                            n - 1, walk->active * walk->x / (whole ? 1 : n)));
    }
}

/** What every rank at work holds afterwards. */
static void move(struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase);
    bool second = walk->second[step->phase] || step->phase == WRING_PHASE_INTRA_OUT;

    switch (step->routine) {
    case WRING_ROUTINE_ALLREDUCE:
        break;
    case WRING_ROUTINE_REDUCE_SCATTER:
        walk->x /= n;
        walk->f /= n;
        break;
    case WRING_ROUTINE_ALLTOALL:
        walk->x /= n;
        walk->f /= n;
        walk->codes *= n;
        break;
    case WRING_ROUTINE_ALLGATHER:
        walk->f *= second ? n : 1;
        walk->x *= step->coded ? 1 : n;
        walk->codes *= step->coded ? n : 1;
        break;
    case WRING_ROUTINE_REDUCE:
        break;
    case WRING_ROUTINE_GATHER:
        walk->codes *= n;
        break;
    case WRING_ROUTINE_BROADCAST:
        break;
    }
    walk->second[step->phase] = true;
}

/** One root of a node instead of all its ranks, or all of them again. */
static void count_active(struct wring_walk *walk, const struct wring_step *step)
{
    if (step->phase == WRING_PHASE_INTER)
        return;
    if (step->routine == WRING_ROUTINE_REDUCE || step->routine == WRING_ROUTINE_GATHER)
        walk->active = 1;
    else if (step->routine == WRING_ROUTINE_BROADCAST)
        walk->active = ranks_per_node(walk);
}

/** Whoever makes progress moves what passes a rank's link. */
static void pay_progress(struct wring_walk *walk, const struct wring_step *step)
{
    struct passing passing = through_rank(walk, step);
    struct wring_cost piece = piece_bytes(walk, step);
    struct wring_cost bytes = wring_cost_scale(&piece, passing.pieces, passing.part);

    wring_walk_add(walk, WRING_WORKER_PROGRESS, wring_cost_of(&walk->params->progress_us, &bytes));
}

void wring_walk_communicate(struct wring_walk *walk, const struct wring_step *step)
{
    if (ranks_of(walk, step->phase) > 1) {
        pay_comm(walk, step);
        if (walk->params->progress_us.n > 0)
            pay_progress(walk, step);
        else if (!step->coded)
            pay_sums(walk, step);
    }
    move(walk, step);
    count_active(walk, step);
}
