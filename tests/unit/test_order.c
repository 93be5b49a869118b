/* SPDX-License-Identifier: Apache-2.0 */
/* The order of reductions: written out for a few counts, and by its definition for many. */
#include "compress/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define MANY 140

/** What lies in a slot, as a text: "((0+1)+2)". */
static char slots[16][16 * MANY];

static const char *text_of(uint32_t source, uint32_t slot, char number[16])
{
    if (source == WRING_ORDER_SLOT)
        return slots[slot];
    snprintf(number, 16, "%u", source);
    return number;
}

/** Walk over n sources. @return what is in the first slot then */
static const char *walk(uint32_t n)
{
    struct wring_order order = wring_order_begin(n);
    struct wring_order_step step;
    uint32_t steps = 0;
    char a[16], b[16];

    snprintf(slots[0], sizeof(slots[0]), "0"); /* of one source there is no step */
    while (wring_order_next(&order, &step)) {
        char *sum = malloc(sizeof(slots[0]) * 2 + 8);
        CHECK(step.slot < wring_order_slots(n) &&
                  (step.second != WRING_ORDER_SLOT || step.slot + 1 < wring_order_slots(n)),
              "%u sources: slot %u", n, step.slot);
        sprintf(sum, "(%s+%s)", text_of(step.first, step.slot, a),
                text_of(step.second, step.slot + 1, b));
        snprintf(slots[step.slot], sizeof(slots[0]), "%s", sum);
        free(sum);
        steps++;
    }
    CHECK(steps == n - 1, "%u sources: %u steps", n, steps);
    return slots[0];
}

static void written_out(void)
{
    static const struct {
        uint32_t n;
        const char *order;
    } some[] = {
        {1, "0"},
        {2, "(0+1)"},
        {3, "((0+1)+2)"},
        {8, "(((((((0+1)+2)+3)+4)+5)+6)+7)"},
        {9, "((((0+8)+1)+(2+3))+((4+5)+(6+7)))"},
        {12, "((((0+8)+(1+9))+((2+10)+(3+11)))+((4+5)+(6+7)))"},
        {16, "((((0+1)+(2+3))+((4+5)+(6+7)))+(((8+9)+(10+11))+((12+13)+(14+15))))"},
        {17, "(((((0+16)+1)+(2+3))+((4+5)+(6+7)))+(((8+9)+(10+11))+((12+13)+(14+15))))"},
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        const char *got = walk(some[i].n);
        CHECK(strcmp(got, some[i].order) == 0, "%u sources: %s, not %s", some[i].n, got,
              some[i].order);
    }
}

/** The leaves from `first` on, `width` of them. @param p  leaves of the tree */
static char *write_block(char *at, uint32_t n, uint32_t p, uint32_t first, uint32_t width)
{
    if (width == 1 && first + p >= n)
        return at + sprintf(at, "%u", first);
    if (width == 1)
        return at + sprintf(at, "(%u+%u)", first, first + p);
    *at++ = '(';
    at = write_block(at, n, p, first, width / 2);
    *at++ = '+';
    at = write_block(at, n, p, first + width / 2, width / 2);
    *at++ = ')';
    *at = '\0';
    return at;
}

static void by_definition(void)
{
    static char want[16 * MANY];
    for (uint32_t n = 9; n <= MANY; n++) {
        uint32_t p = 1;
        while (p * 2 <= n)
            p *= 2;
        write_block(want, n, p, 0, p);
        const char *got = walk(n);
        CHECK(strcmp(got, want) == 0, "%u sources: %s, not %s", n, got, want);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"written_out", written_out},
        {"by_definition", by_definition},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
