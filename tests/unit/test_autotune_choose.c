/* SPDX-License-Identifier: Apache-2.0 */
/* Which candidate a job that plans for itself tries next, and which one it keeps. */
#include "runtime/autotune/autotune.h"
#include "tests/lib/test.h"

#define LOOKS_MAX 16

/** What an iteration takes in each look at a candidate. */
typedef double (*took_fn)(uint32_t candidate, uint32_t look);

struct outcome {
    uint32_t kept;
    uint32_t looks[LOOKS_MAX]; /* the candidates that were tried, one after another */
    uint32_t n;
};

/** From when as registered has been recorded. */
static struct outcome run(uint32_t n_candidates, took_fn took)
{
    struct wring_autotune autotune = {.n_candidates = n_candidates};
    struct outcome out = {0};
    bool stays = false;
    uint32_t candidate = 1;

    autotune.candidates[0].measured_us[autotune.candidates[0].measured++] = took(0, 0);
    while (!stays && out.n < LOOKS_MAX) {
        struct wring_autotune_candidate *at = &autotune.candidates[candidate];
        autotune.at = out.looks[out.n++] = candidate;
        at->measured_us[at->measured] = took(candidate, at->measured);
        at->measured++;
        stays = wring_autotune_choose(&autotune, &candidate);
    }
    CHECK(stays, "nothing is kept after %d looks", LOOKS_MAX);
    out.kept = candidate;
    return out;
}

static void check(const char *what, took_fn took, uint32_t kept, const char *looks)
{
    struct outcome out = run(4, took);
    char tried[LOOKS_MAX + 1] = "";

    for (uint32_t i = 0; i < out.n; i++)
        tried[i] = (char)('0' + out.looks[i]);
    CHECK(out.kept == kept, "%s: candidate %u is kept", what, out.kept);
    CHECK(strcmp(tried, looks) == 0, "%s: tried %s", what, tried);
}

static double half(uint32_t candidate, uint32_t look)
{
    (void)look;
    return candidate == 2 ? 50 : 100;
}

static double far_more(uint32_t candidate, uint32_t look)
{
    (void)look;
    return candidate == 0 ? 100 : 120;
}

static double tenth_less(uint32_t candidate, uint32_t look)
{
    (void)look;
    return candidate == 3 ? 90 : 100;
}

static double little_less(uint32_t candidate, uint32_t look)
{
    (void)look;
    return candidate == 1 ? 98 : 100;
}

/** The machine was faster while the first candidate was tried. */
static double lucky_once(uint32_t candidate, uint32_t look)
{
    return candidate == 1 && look == 0 ? 80 : candidate == 1 ? 104 : 100;
}

/** It was slower while as registered was looked at again. */
static double unlucky_once(uint32_t candidate, uint32_t look)
{
    return candidate == 1 ? 99 : look == 1 ? 120 : 100;
}

/** Slower and slower; the second candidate saves a tenth wherever both are looked at. */
static double drifting(uint32_t candidate, uint32_t look)
{
    return (candidate == 2 ? 90 : 100) * (1 + 0.3 * look);
}

/** Both take half as long as without; the second was lucky in its first look. */
static double two_good_ones(uint32_t candidate, uint32_t look)
{
    return candidate == 1 ? 50 : candidate == 2 ? (look == 0 ? 49 : 54) : 100;
}

static void the_best_is_kept(void)
{
    check("a half", half, 2, "123");
    check("a tenth less", tenth_less, 3, "12303");
    check("a tenth less on a machine that slows down", drifting, 2, "12302");
}

static void what_saves_little_is_not(void)
{
    check("more", far_more, 0, "123");
    check("two hundredths less", little_less, 0, "1230123");
}

static void one_look_does_not_decide(void)
{
    check("less by luck", lucky_once, 0, "1230101");
    check("less by the other's bad luck", unlucky_once, 0, "12301230123");
    check("the better of two plans", two_good_ones, 1, "1231212");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"the best is kept", the_best_is_kept},
        {"what saves little is not", what_saves_little_is_not},
        {"one look does not decide", one_look_does_not_decide},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
