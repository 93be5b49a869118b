/* SPDX-License-Identifier: Apache-2.0 */
/** What single options take, worked out by hand step by step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/candidates.h"
#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"

#define E(where)                                                                           \
    {                                                                                      \
        .kind = WRING_STEP_ENCODE, .phase = WRING_PHASE_##where, .site = WRING_SITE_DEVICE \
    }
#define D(where)                                                                           \
    {                                                                                      \
        .kind = WRING_STEP_DECODE, .phase = WRING_PHASE_##where, .site = WRING_SITE_DEVICE \
    }
#define RAW(at, how)                                                                       \
    {                                                                                      \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how \
    }
#define CODED(at, how)                                                                      \
    {                                                                                       \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how, \
        .coded = true                                                                       \
    }

/* 4 nodes of 2 ranks; a kB takes 1 us inside and 10 us between nodes; latencies 6 and 20 us. A
   code has 100 bytes and one for each element; encoding takes 3 us and 0.001 for each, decoding
   half, or 1 us and 0.0005 more where it adds. A tensor of 8000 elements. */
enum {
    ELEMS = 8000
};

static struct wring_profile_codec codec = {
    .spec = "test", .nmse = NAN, .at[WRING_SITE_DEVICE].present = true};
static struct wring_profile profile = {.name = "test", .chunked = true};
static struct wring_work_params params = {
    .profile = &profile, .nodes = 4, .ranks_per_node = 2, .link_scale = 1};

static void set_up(void)
{
    codec.wire_bytes = wring_cost_line(100, 1);
    for (int site = 0; site < WRING_SITES; site++)
        codec.at[site] =
            (struct wring_profile_coding){.present = true,
                                          .encode_us = wring_cost_line(3, 0.001),
                                          .decode_us = wring_cost_line(1.5, 0.0005),
                                          .decode_add_us = wring_cost_line(2.5, 0.001)};
    profile.links[WRING_LEVEL_INTRA] = (struct wring_profile_link){
        .present = true, .latency_us = 6, .us = wring_cost_line(0, 0.001)};
    profile.links[WRING_LEVEL_INTER] = (struct wring_profile_link){
        .present = true, .latency_us = 20, .us = wring_cost_line(0, 0.01)};
    params.in = params.out = &codec;
}

/** Bytes of a code. */
static double code(double elems)
{
    return 100 + elems;
}

static double enc(double elems)
{
    return 3 + 0.001 * elems;
}

static double dec(double codes, double elems)
{
    return codes * (1.5 + 0.0005 * elems);
}

/** Decoding codes of the same elements, which are added up. */
static double add(double codes, double elems)
{
    return codes * (2.5 + 0.001 * elems);
}

struct want {
    double encode, decode, in, inter, out; /* us, latencies with them */
};

static void check(const char *what, const struct wring_option *option, struct want want)
{
    static const enum wring_worker workers[] = {WRING_WORKER_DEVICE_ENCODE,
                                                WRING_WORKER_DEVICE_DECODE, WRING_WORKER_INTRA_IN,
                                                WRING_WORKER_INTER, WRING_WORKER_INTRA_OUT};
    const double wanted[] = {want.encode, want.decode, want.in, want.inter, want.out};
    struct wring_work work;

    wring_option_work(&params, option, &work);
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        double got = wring_cost_at(&work.us[workers[i]], ELEMS) + work.latency_us[workers[i]];
        CHECK(fabs(got - wanted[i]) < 1e-9, "%s: worker %u takes %g, not %g", what, workers[i], got,
              wanted[i]);
    }
}

/** On the CPU, all that is decoded or added. */
static void check_cpu(const char *what, const struct wring_option *option, double wanted)
{
    struct wring_work work;

    wring_option_work(&params, option, &work);
    double got = wring_cost_at(&work.us[WRING_WORKER_CPU_DECODE], ELEMS);
    CHECK(fabs(got - wanted) < 1e-9, "%s: decoding takes %g, not %g", what, got, wanted);
}

static void raw(void)
{
    static const struct wring_option scattered = {
        3, {RAW(INTRA_IN, REDUCE_SCATTER), RAW(INTER, ALLREDUCE), RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option rooted = {4,
                                               {RAW(INTRA_IN, REDUCE), RAW(INTER, REDUCE),
                                                RAW(INTER, BROADCAST), RAW(INTRA_OUT, BROADCAST)}};

    /* 16 kB of 32 stay in each rank; both ranks of a node send 2 · 3 quarters of that */
    check("scattered", &scattered, (struct want){.in = 16 + 3, .inter = 480 + 20, .out = 16 + 3});
    /* roots take and give all */
    check("rooted", &rooted, (struct want){.in = 32 + 3, .inter = 640 + 20, .out = 32 + 3});
}

static void between_nodes(void)
{
    static const struct wring_option recoded = {
        8,
        {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER), CODED(INTER, ALLTOALL), D(INTER), E(INTER),
         CODED(INTER, ALLGATHER), D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option passed_on = {6,
                                                  {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER),
                                                   CODED(INTER, ALLTOALL), CODED(INTER, ALLGATHER),
                                                   D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option whole = {5,
                                              {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER),
                                               CODED(INTER, ALLGATHER), D(INTRA_OUT),
                                               RAW(INTRA_OUT, ALLGATHER)}};

    /* a rank has 4000 elements, of them 1000 from each node; sends 3 codes of 1000, twice, as does
       the other rank of the node */
    check("recoded", &recoded,
          (struct want){.encode = enc(4000) + enc(1000),
                        .decode = add(4, 1000) + dec(4, 1000),
                        .in = 19,
                        .inter = 2 * 2 * 3 * code(1000) * 0.01 + 20,
                        .out = 19});
    /* the 4 codes of its 1000 elements go to 3 others: it gets 4 of each of 4 parts */
    check("passed on", &passed_on,
          (struct want){.encode = enc(4000),
                        .decode = add(16, 1000),
                        .in = 19,
                        .inter = 2 * (3 + 3 * 4) * code(1000) * 0.01 + 20,
                        .out = 19});
    check("whole", &whole,
          (struct want){.encode = enc(4000),
                        .decode = add(4, 4000),
                        .in = 19,
                        .inter = 2 * 3 * code(4000) * 0.01 + 20,
                        .out = 19});
}

static void rooted_codes(void)
{
    static const struct wring_option gathered = {
        9,
        {E(INTRA_IN), CODED(INTRA_IN, GATHER), D(INTER), E(INTER), CODED(INTER, ALLGATHER),
         D(INTRA_OUT), E(INTRA_OUT), CODED(INTRA_OUT, BROADCAST), D(INTRA_OUT)}};
    static const struct wring_option carried = {5,
                                                {E(INTRA_IN), CODED(INTRA_IN, GATHER),
                                                 CODED(INTER, ALLGATHER),
                                                 CODED(INTRA_OUT, BROADCAST), D(INTRA_OUT)}};

    /* codes travel at both levels: twice the latency. One rank of a node is at work in between */
    check("gathered", &gathered,
          (struct want){.encode = 3 * enc(8000),
                        .decode = add(2, 8000) + add(4, 8000) + dec(1, 8000),
                        .in = code(8000) * 0.001 + 6,
                        .inter = 3 * code(8000) * 0.01 + 40,
                        .out = code(8000) * 0.001 + 6});
    check("carried", &carried,
          (struct want){.encode = enc(8000),
                        .decode = add(8, 8000),
                        .in = code(8000) * 0.001 + 6,
                        .inter = 3 * 2 * code(8000) * 0.01 + 40,
                        .out = 8 * code(8000) * 0.001 + 6});
}

static void flat(void)
{
    static const struct wring_option ring = {1, {RAW(FLAT, ALLREDUCE)}};
    static const struct wring_option recoded = {
        6, {E(FLAT), CODED(FLAT, ALLTOALL), D(FLAT), E(FLAT), CODED(FLAT, ALLGATHER), D(FLAT)}};
    static const struct wring_option gathered = {
        4, {E(FLAT), CODED(FLAT, GATHER), D(FLAT), RAW(FLAT, BROADCAST)}};

    /* 2 · 7/8 of 32 kB pass each link; inside nodes half of that in each direction */
    check("ring", &ring, (struct want){.in = 28 + 3, .inter = 560 + 20, .out = 28 + 3});
    /* each of 8 ranks sends 7 codes of 1000, 6 of them to other nodes, as does its neighbour;
       then the ring carries 7 */
    check("recoded", &recoded,
          (struct want){.encode = enc(8000) + enc(1000),
                        .decode = add(8, 1000) + dec(8, 1000),
                        .in = 7 * code(1000) * 0.001 + 3,
                        .inter = (12 + 7) * code(1000) * 0.01 + 20,
                        .out = 7 * code(1000) * 0.001 + 3});
    check("gathered", &gathered,
          (struct want){.encode = enc(8000),
                        .decode = add(8, 8000),
                        .in = 7 * code(8000) * 0.001 + 3,
                        .inter = 6 * code(8000) * 0.01 + 10 + 320 + 10,
                        .out = 32 + 3});
}

static void summed(void)
{
    static const struct wring_option option = {5,
                                               {E(INTRA_IN), CODED(INTRA_IN, REDUCE_SCATTER),
                                                CODED(INTER, ALLREDUCE),
                                                CODED(INTRA_OUT, ALLGATHER), D(INTRA_OUT)}};

    /* nothing to decode before it is home, and no more than one code: of each half, since nobody
       joins codes */
    check("summed", &option,
          (struct want){.encode = enc(8000),
                        .decode = dec(2, 4000),
                        .in = code(4000) * 0.001 + 3,
                        .inter = 2 * 2 * 3 * code(1000) * 0.01 + 20,
                        .out = code(4000) * 0.001 + 3});
}

/** One codec in, another back. */
static void two_ways(void)
{
    static const struct wring_option option = {
        8,
        {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER), CODED(INTER, ALLTOALL), D(INTER), E(INTER),
         CODED(INTER, ALLGATHER), D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};
    struct wring_profile_codec back = codec;

    back.wire_bytes = wring_cost_line(0, 2);
    for (int site = 0; site < WRING_SITES; site++)
        back.at[site] = (struct wring_profile_coding){.present = true,
                                                      .encode_us = wring_cost_line(0, 0.01),
                                                      .decode_us = wring_cost_line(0, 0.02)};
    params.out = &back;
    check("two collectives", &option,
          (struct want){.encode = enc(4000) + 10,
                        .decode = add(4, 1000) + 80,
                        .in = 19,
                        .inter = 2 * 3 * (code(1000) + 2000) * 0.01 + 20,
                        .out = 19});
    params.out = &codec;
}

/** The CPU of a node codes what all its ranks have, in pieces no smaller. */
static void on_the_cpu(void)
{
    static const struct wring_step cpu = {
        .kind = WRING_STEP_ENCODE, .phase = WRING_PHASE_INTER, .site = WRING_SITE_CPU};
    struct wring_option option = {5,
                                  {RAW(INTRA_IN, REDUCE_SCATTER), cpu, CODED(INTER, ALLGATHER), cpu,
                                   RAW(INTRA_OUT, ALLGATHER)}};
    struct wring_work work;

    option.steps[3].kind = WRING_STEP_DECODE;
    wring_option_work(&params, &option, &work);
    double encode = wring_cost_at(&work.us[WRING_WORKER_CPU_ENCODE], ELEMS);
    double decode = wring_cost_at(&work.us[WRING_WORKER_CPU_DECODE], ELEMS);
    CHECK(fabs(encode - enc(8000)) < 1e-9, "encoding takes %g", encode);
    CHECK(fabs(decode - add(4, 8000)) < 1e-9, "decoding takes %g", decode);
    CHECK(work.us[WRING_WORKER_DEVICE_ENCODE].n == 0, "the device works, too");
}

/** In built-in profiles raw data have 16 bits inside nodes while codes travel between them. */
static void half_inside(void)
{
    static const struct wring_option half = {4,
                                             {RAW(INTRA_IN, REDUCE_SCATTER),
                                              RAW(INTER, REDUCE_SCATTER), RAW(INTER, ALLGATHER),
                                              RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option coded = {
        6,
        {RAW(INTRA_IN, REDUCE_SCATTER), RAW(INTER, REDUCE_SCATTER), E(INTER),
         CODED(INTER, ALLGATHER), D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};

    profile.chunked = false;
    check("raw", &half, (struct want){.in = 19, .inter = 500, .out = 19});
    check("coded", &coded,
          (struct want){.encode = enc(1000),
                        .decode = dec(4, 1000),
                        .in = 8 + 3,
                        .inter = 240 + 10 + 2 * 3 * code(1000) * 0.01 + 10,
                        .out = 8 + 3});
    profile.chunked = true;
}

/** Steps that were measured by themselves cost what they took then, and what ends in a root is made
 *  of puts. */
static void measured_steps(void)
{
    static const struct wring_option recoded = {
        6, {E(FLAT), CODED(FLAT, ALLTOALL), D(FLAT), E(FLAT), CODED(FLAT, ALLGATHER), D(FLAT)}};
    static const struct wring_option ring = {1, {RAW(FLAT, ALLREDUCE)}};
    static const struct wring_option rooted = {2, {RAW(FLAT, REDUCE), RAW(FLAT, BROADCAST)}};
    struct wring_profile_link *inter = &profile.links[WRING_LEVEL_INTER];
    const struct wring_profile_link before = *inter;

    inter->n_routines = 2;
    inter->routines[0] = (struct wring_profile_routine){
        .name = "alltoall", .latency_us = 7, .us = wring_cost_line(0, 0.02)};
    inter->routines[1] = (struct wring_profile_routine){
        .name = "allreduce", .latency_us = 8, .us = wring_cost_line(0, 0.03)};
    inter->put = (struct wring_profile_put){.latency.us = wring_cost_line(5, 0.004),
                                            .each.us = wring_cost_line(0, 0.005)};
    check("recoded", &recoded,
          (struct want){.encode = enc(8000) + enc(1000),
                        .decode = add(8, 1000) + dec(8, 1000),
                        .in = 7 * code(1000) * 0.001 + 3,
                        .inter = 12 * code(1000) * 0.02 + 7 + 7 * code(1000) * 0.01 + 10,
                        .out = 7 * code(1000) * 0.001 + 3});
    check("ring", &ring, (struct want){.in = 28 + 3, .inter = 3 * 560 + 8, .out = 28 + 3});
    check("rooted", &rooted,
          (struct want){.in = 32 + 3, .inter = 160 + 5 + 320 + 10, .out = 32 + 3});
    *inter = before;
}

/* ---- what a codec is, beside its times ---- */

/* Two rounds of 8 bytes and half a byte for each element; 4 bytes of state, of which each byte that
   is read or written takes 0.001 us more than encoding; sums travel in 10 bytes and 0.1 for each
   element of every contribution, and in no more than half a byte for each. A CPU takes 1 us and
   0.002 for each element to encode them, twice and thrice as much to decode them. */
static void set_traits(void)
{
    codec.traits =
        (struct wring_profile_traits){.rounds = 2,
                                      .round_bytes = wring_cost_line(8, 0.5),
                                      .state_bytes = 4,
                                      .way_back = {.bytes = wring_cost_line(10, 0.1),
                                                   .most_bytes = wring_cost_line(0, 0.5),
                                                   .encode_us = wring_cost_line(1, 0.002),
                                                   .decode_us = wring_cost_line(2, 0.003)}};
    codec.at[WRING_SITE_DEVICE].state_us = wring_cost_line(0, 0.001);
}

/** Each round is an allreduce of the ranks that exchange codes; sums grow until they are full. */
static void rounds_and_ways_back(void)
{
    static const struct wring_option between = {
        8,
        {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER), CODED(INTER, ALLTOALL), D(INTER), E(INTER),
         CODED(INTER, ALLGATHER), D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option all = {
        6, {E(FLAT), CODED(FLAT, ALLTOALL), D(FLAT), E(FLAT), CODED(FLAT, ALLGATHER), D(FLAT)}};
    static const struct wring_option whole = {5,
                                              {RAW(INTRA_IN, REDUCE_SCATTER), E(INTER),
                                               CODED(INTER, ALLGATHER), D(INTRA_OUT),
                                               RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option dense = {
        6,
        {RAW(INTRA_IN, REDUCE_SCATTER), RAW(INTER, REDUCE_SCATTER), E(INTER),
         CODED(INTER, ALLGATHER), D(INTRA_OUT), RAW(INTRA_OUT, ALLGATHER)}};
    static const struct wring_option within = {7,
                                               {E(INTRA_IN), CODED(INTRA_IN, ALLTOALL), D(INTER),
                                                RAW(INTER, ALLREDUCE), E(INTRA_OUT),
                                                CODED(INTRA_OUT, ALLGATHER), D(INTRA_OUT)}};
    double rounds = 2 * 1.5 * (8 + 2000), state = 2 * 4 * 4000 * 0.001;

    set_traits();
    /* four nodes' sums of 1000 elements: 4 · 110 bytes. The two ranks of a node have 4000 elements
       each, and their rounds 1.5 times as many bytes, twice */
    check("between nodes", &between,
          (struct want){.encode = enc(4000) + state + enc(1000),
                        .decode = add(4, 1000) + dec(4, 1000),
                        .in = 19,
                        .inter = 2 * 3 * (code(1000) + 440) * 0.01 + 20 + rounds * 0.01 + 2 * 20,
                        .out = 19});
    /* no sum comes back by itself */
    check("one step", &whole,
          (struct want){.encode = enc(4000) + state,
                        .decode = add(4, 4000),
                        .in = 19,
                        .inter = 2 * 3 * code(4000) * 0.01 + 20 + rounds * 0.01 + 2 * 20,
                        .out = 19});
    /* what was summed raw is full, of however few: half a byte for each element */
    check("a raw sum", &dense,
          (struct want){.encode = enc(1000),
                        .decode = dec(4, 1000),
                        .in = 19,
                        .inter = 2 * 3 * (4000 + 500) * 0.01 + 20,
                        .out = 19});
    /* all ranks' codes are in a sum of which nodes have added up raw parts */
    check("within nodes", &within,
          (struct want){.encode = enc(8000) + 2 * state + enc(4000),
                        .decode = add(2, 4000) + dec(2, 4000),
                        .in = code(4000) * 0.001 + 3 + (8 + 4000) * 0.001 + 2 * 6,
                        .inter = 2 * 6 * 4000 * 0.01 + 20,
                        .out = 2000 * 0.001 + 3});
    /* of eight ranks' sums each is full, and half a byte long for each element */
    rounds = 1.75 * (8 + 4000);
    check("all ranks", &all,
          (struct want){.encode = enc(8000) + 2 * state + enc(1000),
                        .decode = add(8, 1000) + dec(8, 1000),
                        .in = 7 * code(1000) * 0.001 + 3 + rounds * 0.001 + 2 * 6,
                        .inter = (12 * code(1000) + 7 * 500) * 0.01 + 20 + rounds * 0.01 + 2 * 20,
                        .out = 7 * 500 * 0.001 + 3});
    codec.traits = (struct wring_profile_traits){.rounds = 0};
    codec.at[WRING_SITE_DEVICE].state_us = (struct wring_cost){.n = 0};
}

/* Codes of 100 bytes and one for each element add up to sums of 40 and three for each: 25 us for a
   sum of each eighth. */
static void wider_sums(void)
{
    static const struct wring_option flat = {3, {E(FLAT), CODED(FLAT, ALLREDUCE), D(FLAT)}};
    static const struct wring_option halves = {
        4, {E(FLAT), CODED(FLAT, REDUCE_SCATTER), CODED(FLAT, ALLGATHER), D(FLAT)}};
    static const struct wring_option levels = {5,
                                               {E(INTRA_IN), CODED(INTRA_IN, REDUCE_SCATTER),
                                                CODED(INTER, ALLREDUCE),
                                                CODED(INTRA_OUT, ALLGATHER), D(INTRA_OUT)}};
    static const struct wring_option rooted = {
        4, {E(FLAT), CODED(FLAT, REDUCE), CODED(FLAT, BROADCAST), D(FLAT)}};
    static const struct wring_option passed_on = {
        4, {E(FLAT), CODED(FLAT, ALLTOALL), CODED(FLAT, ALLGATHER), D(FLAT)}};
    double both = (code(1000) + 3040) * 7;

    codec.traits.way_back.bytes = wring_cost_line(40, 3);
    /* seven codes of an eighth, and as many sums */
    check("at once", &flat,
          (struct want){.encode = enc(8000),
                        .decode = dec(1, 8000),
                        .in = both / 2 * 0.001 + 3,
                        .inter = both * 0.01 + 20,
                        .out = both / 2 * 0.001 + 3});
    check("halves", &halves,
          (struct want){.encode = enc(8000),
                        .decode = dec(8, 1000),
                        .in = 7 * code(1000) * 0.001 + 3,
                        .inter = both * 0.01 + 20,
                        .out = 7 * 3040 * 0.001 + 3});
    /* between nodes are sums of their ranks already, each rank's of a half */
    check("levels", &levels,
          (struct want){.encode = enc(8000),
                        .decode = dec(2, 4000),
                        .in = code(4000) * 0.001 + 3,
                        .inter = 2 * 6 * 3040 * 0.01 + 20,
                        .out = 12040 * 0.001 + 3});
    check("rooted", &rooted,
          (struct want){.encode = enc(8000),
                        .decode = dec(1, 8000),
                        .in = code(8000) * 0.001 + 3,
                        .inter = (code(8000) + 24040) * 0.01 + 20,
                        .out = 24040 * 0.001 + 3});
    /* nobody adds them up: the allgather has eight codes of each eighth */
    struct wring_work work;
    wring_option_work(&params, &passed_on, &work);
    double us = wring_cost_at(&work.us[WRING_WORKER_INTRA_OUT], ELEMS);
    CHECK(fabs(us - 7 * 8 * code(1000) * 0.001) < 1e-9, "what is passed on takes %g us", us);
    /* a piece of so many bytes holds a sum as well */
    double piece = wring_candidate_piece_elems(&codec, 4096, 4);
    CHECK(40 + 3 * piece < 4096 * 1.02 && piece > 1300, "a piece has %g elements", piece);
    codec.traits.way_back.bytes.n = 0;
    CHECK(wring_candidate_piece_elems(&codec, 4096, 4) > 3900, "a piece of codes is as short");
}

/** A CPU's times of the way back; a pair's second codec has its own. */
static void ways_back_on_the_cpu(void)
{
    static const struct wring_step encode = {
        .kind = WRING_STEP_ENCODE, .phase = WRING_PHASE_INTER, .site = WRING_SITE_CPU};
    static const struct wring_step decode = {
        .kind = WRING_STEP_DECODE, .phase = WRING_PHASE_INTER, .site = WRING_SITE_CPU};
    const struct wring_option option = {
        8,
        {RAW(INTRA_IN, REDUCE_SCATTER), encode, CODED(INTER, ALLTOALL), decode, encode,
         CODED(INTER, ALLGATHER), decode, RAW(INTRA_OUT, ALLGATHER)}};
    struct wring_profile_codec other;
    struct wring_work work;

    set_traits();
    wring_option_work(&params, &option, &work);
    double us = wring_cost_at(&work.us[WRING_WORKER_CPU_ENCODE], ELEMS);
    CHECK(fabs(us - (enc(8000) + 1 + 0.002 * 2000)) < 1e-9, "encoding takes %g", us);
    us = wring_cost_at(&work.us[WRING_WORKER_CPU_DECODE], ELEMS);
    CHECK(fabs(us - (add(4, 2000) + 4 * (2 + 0.003 * 2000))) < 1e-9, "decoding takes %g", us);
    other = codec;
    snprintf(other.spec, sizeof(other.spec), "other");
    params.out = &other;
    wring_option_work(&params, &option, &work);
    us = wring_cost_at(&work.us[WRING_WORKER_CPU_ENCODE], ELEMS);
    CHECK(fabs(us - (enc(8000) + enc(2000))) < 1e-9, "encoding by a pair takes %g", us);
    params.out = &codec;
    codec.traits = (struct wring_profile_traits){.rounds = 0};
    codec.at[WRING_SITE_DEVICE].state_us = (struct wring_cost){.n = 0};
}

/* Adding a code takes 0.5 us and 0.0002 for each element. */
static void sums_on_the_cpu(void)
{
    static const struct wring_step encode = {.kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU};
    static const struct wring_step decode = {.kind = WRING_STEP_DECODE, .site = WRING_SITE_CPU};
    const struct wring_option halves = {
        4, {encode, CODED(FLAT, REDUCE_SCATTER), CODED(FLAT, ALLGATHER), decode}};
    const struct wring_option at_once = {3, {encode, CODED(FLAT, ALLREDUCE), decode}};
    const struct wring_option whole = {3, {encode, CODED(FLAT, ALLGATHER), decode}};
    const struct wring_option rooted = {
        4, {encode, CODED(FLAT, REDUCE), CODED(FLAT, BROADCAST), decode}};
    const struct wring_option passed_on = {
        4, {encode, CODED(FLAT, ALLTOALL), CODED(FLAT, ALLGATHER), decode}};
    struct wring_profile_coding *cpu = &codec.at[WRING_SITE_CPU];

    /* in an older profile as long as decoding and adding does. A node's CPU has the 2000 elements
       of its two ranks, seven times more than one */
    check_cpu("older halves", &halves, add(7, 2000) + dec(8, 2000));
    check_cpu("older at once", &at_once, add(7, 2000) + dec(1, 16000));
    check_cpu("older whole", &whole, add(8, 16000));
    cpu->sum_us = wring_cost_line(0.5, 0.0002);
    check_cpu("halves", &halves, 7 * 0.9 + dec(8, 2000));
    check_cpu("at once", &at_once, 7 * 0.9 + dec(1, 16000));
    check_cpu("whole", &whole, 7 * 3.7 + dec(1, 16000));
    check_cpu("rooted", &rooted, 7 * 3.7 + dec(1, 16000));
    check_cpu("passed on", &passed_on, (64 - 8) * 0.9 + dec(8, 2000));
    params.own_cores = true;
    check_cpu("own cores", &halves, 7 * 0.7 + dec(8, 1000));
    params.own_cores = false;
    /* wider sums take their own time to decode, once as long as they are */
    codec.traits.way_back = (struct wring_profile_way_back){.bytes = wring_cost_line(40, 3),
                                                            .decode_us = wring_cost_line(2, 0.003)};
    check_cpu("wider halves", &halves, 7 * 0.9 + 8 * 8.0);
    check_cpu("wider whole", &whole, 7 * 3.7 + 50);
    codec.traits.way_back = (struct wring_profile_way_back){.nmse = 0};
    cpu->sum_us.n = 0;
}

/* ---- all of them ---- */

struct sweep {
    size_t leaves;
    uint32_t random;
};

/** Nothing is negative, and more elements never take less. */
static void check_leaf(void *arg, const struct wring_option *option)
{
    struct sweep *sweep = arg;
    struct wring_work work;
    char text[WRING_OPTION_TEXT_MAX];
    double before[WRING_WORKERS] = {0};

    wring_option_text(option, text, sizeof(text));
    wring_option_work(&params, option, &work);
    for (double x = 1; x < 1e10; x *= 1 + (double)(wring_test_random(&sweep->random) % 100))
        for (int worker = 0; worker < WRING_WORKERS; worker++) {
            double us = wring_cost_at(&work.us[worker], x);
            CHECK(isfinite(us) && us >= before[worker] * (1 - 1e-12), "%s: %g us after %g us", text,
                  us, before[worker]);
            CHECK(work.latency_us[worker] >= 0, "%s: negative latency", text);
            before[worker] = us;
            x += worker == 0;
        }
    sweep->leaves++;
}

static void every_leaf(void)
{
    struct wring_options_params tree = {3, true, true, true};
    struct sweep sweep = {.random = 7};

    codec.wire_bytes =
        (struct wring_cost){.n = 3, .slope = 2, .corners = {{0, 10}, {1000, 10}, {5000, 9000}}};
    codec.at[WRING_SITE_DEVICE].encode_us =
        (struct wring_cost){.n = 1, .slope = 0.25, .corners = {{4096, 33}}};
    profile.links[WRING_LEVEL_INTER].us =
        (struct wring_cost){.n = 3, .slope = 0.5, .corners = {{64, 1}, {65536, 4}, {1 << 20, 100}}};
    profile.chunked = false;
    for (int turn = 0; turn < 3; turn++) {
        params.nodes = turn == 0 ? 1 : 5;
        params.ranks_per_node = turn == 1 ? 1 : 3;
        wring_options_walk(&tree, check_leaf, &sweep);
    }
    CHECK(sweep.leaves > 3 * 4341, "%zu leaves", sweep.leaves);
    params.nodes = 4;
    params.ranks_per_node = 2;
    profile.chunked = true;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"raw", raw},
        {"between_nodes", between_nodes},
        {"rooted_codes", rooted_codes},
        {"flat", flat},
        {"summed", summed},
        {"two_ways", two_ways},
        {"on_the_cpu", on_the_cpu},
        {"half_inside", half_inside},
        {"measured_steps", measured_steps},
        {"rounds_and_ways_back", rounds_and_ways_back},
        {"wider_sums", wider_sums},
        {"ways_back_on_the_cpu", ways_back_on_the_cpu},
        {"sums_on_the_cpu", sums_on_the_cpu},
        {"every_leaf", every_leaf},
        {NULL, NULL},
    };
    set_up();
    return wring_test_main(argc, argv, cases);
}
