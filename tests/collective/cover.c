/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/cover.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define CANDIDATES 60  /* drawn for each choice that is run */
#define LAST_LOOKS 100 /* turns without a new pair, after which there is none */

struct cover {
    const struct wring_cover_params *params;
    uint32_t random;
    uint32_t first[WRING_COVER_DIMENSIONS]; /* number of a dimension's first value */
    uint32_t n_values;                      /* of all dimensions */
    bool *covered;                          /* [n_values][n_values] */
};

static void draw(struct cover *cover, uint32_t *choice)
{
    for (size_t d = 0; d < cover->params->dimensions; d++)
        choice[d] = wring_test_random(&cover->random) % cover->params->values[d];
    cover->params->mend(cover->params->arg, choice);
}

static bool *pair(struct cover *cover, const uint32_t *choice, size_t a, size_t b)
{
    return &cover->covered[(cover->first[a] + choice[a]) * cover->n_values + cover->first[b] +
                           choice[b]];
}

static size_t count_new(struct cover *cover, const uint32_t *choice)
{
    size_t count = 0;
    for (size_t a = 0; a < cover->params->dimensions; a++)
        for (size_t b = 0; b < a; b++)
            count += !*pair(cover, choice, a, b);
    return count;
}

static void mark(struct cover *cover, const uint32_t *choice)
{
    for (size_t a = 0; a < cover->params->dimensions; a++)
        for (size_t b = 0; b < a; b++)
            *pair(cover, choice, a, b) = true;
}

/** One value after another is made another one, as long as that brings more pairs. */
static size_t climb(struct cover *cover, uint32_t *choice, size_t found)
{
    const struct wring_cover_params *params = cover->params;
    uint32_t other[WRING_COVER_DIMENSIONS];
    size_t last = params->dimensions; /* of those whose other values have all been tried */
    size_t first = wring_test_random(&cover->random) % params->dimensions;

    for (size_t i = 0; i < last; i++) {
        size_t d = (first + i) % params->dimensions;
        for (uint32_t value = 0; value < params->values[d]; value++) {
            memcpy(other, choice, sizeof(other));
            other[d] = value;
            params->mend(params->arg, other);
            size_t more = count_new(cover, other);
            if (more > found) {
                found = more;
                memcpy(choice, other, sizeof(other));
                last = i + params->dimensions;
            }
        }
    }
    return found;
}

/** The best of some candidates, and better still. @return how many pairs it has that no choice had
 *  before */
static size_t choose(struct cover *cover, uint32_t *best)
{
    uint32_t candidate[WRING_COVER_DIMENSIONS] = {0};
    size_t most = 0;
    for (int i = 0; i < CANDIDATES; i++) {
        draw(cover, candidate);
        size_t found = count_new(cover, candidate);
        if (found > most) {
            most = found;
            memcpy(best, candidate, sizeof(candidate));
        }
    }
    return most > 0 ? climb(cover, best, most) : 0;
}

size_t wring_cover_pairs(const struct wring_cover_params *params)
{
    struct cover cover = {.params = params, .random = params->seed};
    uint32_t choice[WRING_COVER_DIMENSIONS] = {0};
    size_t runs = 0;

    for (size_t d = 0; d < params->dimensions; d++) {
        cover.first[d] = cover.n_values;
        cover.n_values += params->values[d];
    }
    cover.covered = calloc((size_t)cover.n_values * cover.n_values, sizeof(*cover.covered));
    for (int idle = 0; idle < LAST_LOOKS;) {
        if (choose(&cover, choice) == 0) {
            idle++;
            continue;
        }
        idle = 0;
        mark(&cover, choice);
        params->run(params->arg, choice);
        runs++;
    }
    free(cover.covered);
    return runs;
}
