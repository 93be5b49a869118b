/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a sweep draws: how much longer than usual the slowest of many nodes, or links, takes. Each
 * takes exp(sigma · normal) times as long, all independently, and all wait for the slowest.
 *
 * Draws have keys instead of an order: two plans, or two sets of codecs, meet the same luck, and
 * what one of them draws less does not change what the other draws. Threads: safe.
 */
#ifndef WRING_TOOLS_PLAN_DRAW_H
#define WRING_TOOLS_PLAN_DRAW_H

#include <stdint.h>

/** A key for one more thing, an iteration or a lane, below another key; the first one is a seed. */
uint64_t wring_draw_key(uint64_t key, uint64_t thing);

/**
 * The largest of n independent normal numbers, by a number between 0 and 1 that is drawn evenly:
 * it is x or less with probability Phi(x)^n, so that one number is enough for any n ≥ 1.
 */
double wring_draw_largest(uint64_t n, double even);

/**
 * How many times as long as usual the slowest of n takes, n ≥ 1.
 *
 * @param sigma      of the logarithm; 0: none is slower than usual by chance
 * @param straggler  one of them takes so many times as long besides; 1: none does
 */
double wring_draw_slowest(uint64_t key, uint64_t n, double sigma, double straggler);

#endif
