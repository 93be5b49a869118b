/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tables of a connection's and a path's life: each pair of state and event has an outcome, no
 * state is a trap; and two sides that follow the tables come together again whatever fails, in
 * whatever order their words come.
 */
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/states.h"

/* ---- the tables themselves ---- */

static void each_pair_has_an_outcome(void)
{
    for (unsigned state = 1; state < VERBS_STATES; state++)
        for (unsigned event = 1; event < VERBS_EVENTS; event++) {
            unsigned next = wring_verbs_next(state, event);
            CHECK((next > 0 && next < VERBS_STATES) || next == VERBS_BREACH || next == VERBS_NEVER,
                  "state %u, event %u: %u", state, event, next);
            CHECK(next != VERBS_BREACH || event <= VERBS_ON_TRY, "state %u: event %u is our own",
                  state, event);
            CHECK(next != VERBS_NEVER || event > VERBS_ON_TRY,
                  "state %u: a peer may say %u whenever it likes", state, event);
        }
    for (unsigned state = 1; state < VERBS_PATH_STATES; state++)
        for (unsigned event = 1; event < VERBS_PATH_EVENTS; event++) {
            unsigned next = wring_verbs_path_next(state, event);
            CHECK((next > 0 && next < VERBS_PATH_STATES) || next == VERBS_NEVER,
                  "path: state %u, event %u: %u", state, event, next);
        }
}

/** Which states can be reached from one, a bit each. */
static uint32_t reach(unsigned from, unsigned states, unsigned events,
                      unsigned (*next)(unsigned, unsigned))
{
    uint32_t seen = 1u << from, before = 0;
    while (seen != before) {
        before = seen;
        for (unsigned state = 1; state < states; state++)
            for (unsigned event = 1; event < events && (seen >> state & 1) != 0; event++)
                if (next(state, event) < states)
                    seen |= 1u << next(state, event);
    }
    return seen;
}

static unsigned next_of_conn(unsigned state, unsigned event)
{
    return wring_verbs_next(state, event);
}

static unsigned next_of_path(unsigned state, unsigned event)
{
    return wring_verbs_path_next(state, event);
}

static void no_state_is_a_trap(void)
{
    uint32_t all = ((1u << VERBS_STATES) - 1) & ~1u;
    uint32_t paths = ((1u << VERBS_PATH_STATES) - 1) & ~1u;
    CHECK(reach(VERBS_CONNECTING, VERBS_STATES, VERBS_EVENTS, next_of_conn) == all,
          "states that nothing leads to");
    for (unsigned state = 1; state < VERBS_STATES; state++) {
        uint32_t seen = reach(state, VERBS_STATES, VERBS_EVENTS, next_of_conn);
        bool may_open = state < VERBS_DRAINING;
        CHECK((seen >> VERBS_DEAD & 1) != 0, "state %u never ends", state);
        CHECK((seen >> VERBS_OPEN & 1) == may_open, "state %u and OPEN", state);
        CHECK(wring_verbs_next(state, VERBS_ON_FAILED) == VERBS_DEAD, "state %u outlives", state);
        unsigned left = wring_verbs_next(state, VERBS_ON_LEFT);
        CHECK(left == (state < VERBS_OPEN || state == VERBS_DEAD ? VERBS_DEAD : VERBS_DRAINING),
              "state %u: its stream ends: %u", state, left);
    }
    for (unsigned state = 1; state < VERBS_PATH_STATES; state++)
        CHECK(reach(state, VERBS_PATH_STATES, VERBS_PATH_EVENTS, next_of_path) == paths,
              "path: state %u leads not everywhere", state);
}

/** What a change does: nothing that was said of how things are counts any more. */
static void a_change_is_said_anew(void)
{
    for (unsigned state = VERBS_STOPPED; state <= VERBS_JOINED; state++) {
        bool heard = state != VERBS_STOPPED && state != VERBS_TOLD && state != VERBS_JOINED;
        unsigned next = wring_verbs_next(state, VERBS_ON_CHANGE);
        CHECK(next == (heard ? VERBS_HEARD : VERBS_STOPPED), "state %u: %u", state, next);
        bool told = state != VERBS_STOPPED && state != VERBS_HEARD;
        next = wring_verbs_next(state, VERBS_ON_RESYNC);
        CHECK(next == (told ? VERBS_BOTH_TOLD : VERBS_HEARD), "state %u: %u", state, next);
    }
}

/** What failed carries nothing until both have made it anew, whoever hopes. */
static void a_path_that_failed_is_out(void)
{
    for (unsigned state = 1; state < VERBS_PATH_STATES; state++) {
        unsigned failed = wring_verbs_path_next(state, VERBS_PATH_ON_FAIL);
        CHECK(!wring_verbs_path_is_live(failed), "state %u fails into %u", state, failed);
        for (unsigned event = 1; event < VERBS_PATH_EVENTS; event++) {
            unsigned next = wring_verbs_path_next(state, event);
            bool back = next == VERBS_PATH_WORKS && state != VERBS_PATH_WORKS;
            bool renewed = next == VERBS_PATH_RENEWED && state != VERBS_PATH_RENEWED;
            CHECK(!back || (state == VERBS_PATH_RENEWED && event == VERBS_PATH_ON_BACK),
                  "state %u, event %u: it works", state, event);
            CHECK(!renewed || event == VERBS_PATH_ON_RENEW, "state %u, event %u: new", state,
                  event);
        }
    }
}

static void words_agree_where_a_path_is_left(void)
{
    const struct verbs_resync_word one = {.dead = 1}, both = {.dead = 3},
                                   renewed = {.dead = 3, .renew = 2}, other = {.dead = 2},
                                   more = {.dead = 1, .renew = 3}, far = {.dead = 4};
    CHECK(wring_verbs_words_agree(&one, &one, 3), "one is left");
    CHECK(!wring_verbs_words_agree(&one, &other, 3), "different ones");
    CHECK(!wring_verbs_words_agree(&both, &both, 3), "none is left");
    CHECK(!wring_verbs_words_agree(&renewed, &both, 3), "one side alone renews");
    CHECK(wring_verbs_words_agree(&renewed, &renewed, 3), "both renew");
    CHECK(wring_verbs_resync_is_sound(&renewed, 3), "sound");
    CHECK(!wring_verbs_resync_is_sound(&more, 3), "it renews what works");
    CHECK(!wring_verbs_resync_is_sound(&far, 3), "a path that nobody has");
    CHECK(!wring_verbs_resync_is_sound(&(struct verbs_resync_word){.number = 1}, 3), "none dead");
}

/* ---- two sides ---- */

#define PATHS 4
#define WORDS 4096

struct word {
    enum verbs_word what;
    struct verbs_resync_word resync;
    struct verbs_resume_word resume;
};

struct side {
    enum verbs_state state;
    enum verbs_path_state paths[PATHS];
    struct verbs_resync_word mine, peer;
    struct word in[WORDS]; /* on their way to it */
    unsigned got, sent;
    unsigned stops, opens;
};

struct pair {
    struct side sides[2];
    uint32_t all; /* paths, a bit each */
    unsigned n_paths;
};

static uint32_t dead_of(const struct pair *pair, const struct side *side)
{
    uint32_t dead = 0;
    for (unsigned i = 0; i < pair->n_paths; i++)
        dead |= side->paths[i] != VERBS_PATH_WORKS ? 1u << i : 0;
    return dead;
}

static void on(struct side *side, enum verbs_event event)
{
    unsigned next = wring_verbs_next(side->state, event);
    REQUIRE(next < VERBS_STATES, "state %u, event %u: %u", side->state, event, next);
    side->stops += side->state == VERBS_OPEN && next != VERBS_OPEN;
    side->opens += side->state != VERBS_OPEN && next == VERBS_OPEN;
    side->state = next;
}

static void path_on(struct side *side, unsigned path, enum verbs_path_event event)
{
    unsigned next = wring_verbs_path_next(side->paths[path], event);
    REQUIRE(next < VERBS_PATH_STATES, "path state %u, event %u", side->paths[path], event);
    side->paths[path] = next;
}

static void say(struct side *to, const struct word *word)
{
    REQUIRE(to->sent - to->got < WORDS, "too many words");
    to->in[to->sent++ % WORDS] = *word;
}

static void fail_path(struct side *side, unsigned path)
{
    if (!wring_verbs_path_is_live(side->paths[path]))
        return;
    path_on(side, path, VERBS_PATH_ON_FAIL);
    on(side, VERBS_ON_CHANGE);
}

static uint32_t renewable(const struct pair *pair, const struct side *side)
{
    uint32_t mask = 0, dead = dead_of(pair, side);
    for (unsigned i = 0; i < pair->n_paths; i++)
        if (dead == pair->all || side->paths[i] == VERBS_PATH_HOPEFUL ||
            side->paths[i] == VERBS_PATH_RENEWED)
            mask |= 1u << i;
    return mask;
}

static bool agrees(const struct pair *pair, const struct side *side)
{
    return wring_verbs_words_agree(&side->mine, &side->peer, pair->all);
}

/** What a side does by itself, as far as it can. @return true if it did anything */
static bool step(struct pair *pair, unsigned index)
{
    struct side *side = &pair->sides[index], *other = &pair->sides[1 - index];
    uint32_t renewed = wring_verbs_both_renew(&side->mine, &side->peer);
    switch (side->state) {
    case VERBS_STOPPED:
    case VERBS_HEARD:
        side->mine = (struct verbs_resync_word){.number = side->mine.number + 1,
                                                .dead = dead_of(pair, side),
                                                .renew = renewable(pair, side)};
        say(other, &(struct word){.what = VERBS_WORD_RESYNC, .resync = side->mine});
        on(side, VERBS_ON_TOLD);
        return true;
    case VERBS_BOTH_TOLD:
    case VERBS_ANSWERED:
        if (!agrees(pair, side))
            return false;
        for (unsigned i = 0; i < pair->n_paths; i++)
            if ((renewed >> i & 1) != 0)
                path_on(side, i, VERBS_PATH_ON_RENEW);
        say(other, &(struct word){.what = VERBS_WORD_RESUME,
                                  .resume = {side->mine.number, side->peer.number, 0, renewed}});
        on(side, VERBS_ON_RESUMED);
        return true;
    case VERBS_BOTH_RESUMED:
        say(other, &(struct word){.what = VERBS_WORD_GO,
                                  .resume = {side->mine.number, side->peer.number, 0, 0}});
        on(side, VERBS_ON_JOINED);
        return true;
    default:
        return false;
    }
}

static void take_resync(struct pair *pair, struct side *side, const struct verbs_resync_word *word)
{
    REQUIRE(wring_verbs_resync_is_sound(word, pair->all), "an unsound word");
    on(side, VERBS_ON_RESYNC);
    side->peer = *word;
    for (unsigned i = 0; i < pair->n_paths; i++)
        if ((word->dead & ~dead_of(pair, side)) >> i & 1)
            fail_path(side, i);
    uint32_t before = renewable(pair, side);
    for (unsigned i = 0; i < pair->n_paths; i++)
        if ((word->renew >> i & 1) != 0)
            path_on(side, i, VERBS_PATH_ON_HOPE);
    if (renewable(pair, side) != before)
        on(side, VERBS_ON_CHANGE);
}

static void take_word(struct pair *pair, unsigned index)
{
    struct side *side = &pair->sides[index];
    const struct word *word = &side->in[side->got++ % WORDS];
    if (word->what == VERBS_WORD_RESYNC) {
        take_resync(pair, side, &word->resync);
        return;
    }
    bool current = side->state >= VERBS_BOTH_TOLD && side->state <= VERBS_JOINED &&
                   agrees(pair, side) && word->resume.my_number == side->peer.number &&
                   word->resume.your_number == side->mine.number;
    if (!current)
        return;
    if (word->what == VERBS_WORD_RESUME) {
        on(side, VERBS_ON_RESUME);
        return;
    }
    if (side->state == VERBS_BOTH_RESUMED)
        step(pair, index);
    CHECK(side->state == VERBS_JOINED, "GO in state %u", side->state);
    uint32_t renewed = wring_verbs_both_renew(&side->mine, &side->peer);
    for (unsigned i = 0; i < pair->n_paths; i++)
        path_on(side, i, (renewed >> i & 1) != 0 ? VERBS_PATH_ON_BACK : VERBS_PATH_ON_WITHOUT);
    on(side, VERBS_ON_GO);
}

/** Something happens to one path of one side. */
static void harm(struct pair *pair, uint32_t *random)
{
    struct side *side = &pair->sides[wring_test_random(random) % 2];
    unsigned path = wring_test_random(random) % pair->n_paths;
    if (wring_test_random(random) % 3 != 0) {
        fail_path(side, path);
    } else if (side->paths[path] != VERBS_PATH_WORKS) {
        path_on(side, path, VERBS_PATH_ON_HOPE);
        on(side, VERBS_ON_CHANGE);
    }
}

/** Steps of both sides and words on their way in any order. @return false: nothing was left to do
 */
static bool move(struct pair *pair, uint32_t *random)
{
    unsigned first = wring_test_random(random) % 4;
    for (unsigned i = 0; i < 4; i++) {
        unsigned index = (first + i) % 2;
        struct side *side = &pair->sides[index];
        if ((first + i) % 4 < 2) {
            if (step(pair, index))
                return true;
        } else if (side->got != side->sent) {
            take_word(pair, index);
            return true;
        }
    }
    return false;
}

static void play(uint32_t seed)
{
    static struct pair pair;
    uint32_t random = seed;
    memset(&pair, 0, sizeof(pair));
    pair.n_paths = 1 + wring_test_random(&random) % PATHS;
    pair.all = (1u << pair.n_paths) - 1;
    for (unsigned i = 0; i < 2 * pair.n_paths; i++)
        pair.sides[i % 2].paths[i / 2] = VERBS_PATH_WORKS;
    pair.sides[0].state = pair.sides[1].state = VERBS_OPEN;

    unsigned harms = wring_test_random(&random) % 12;
    while (harms > 0) {
        if (wring_test_random(&random) % 4 == 0) {
            harm(&pair, &random);
            harms--;
        } else {
            move(&pair, &random);
        }
    }
    unsigned moves = 0;
    while (move(&pair, &random) && ++moves < WORDS)
        continue;
    const struct side *a = &pair.sides[0], *b = &pair.sides[1];
    CHECK(moves < WORDS, "seed %u: they talk for ever", seed);
    CHECK(a->state == VERBS_OPEN && b->state == VERBS_OPEN, "seed %u: they rest in %u and %u", seed,
          a->state, b->state);
    CHECK(dead_of(&pair, a) == dead_of(&pair, b) && dead_of(&pair, a) != pair.all,
          "seed %u: dead are %x and %x of %x", seed, dead_of(&pair, a), dead_of(&pair, b),
          pair.all);
    CHECK(a->stops == a->opens && b->stops == b->opens, "seed %u: stops", seed);
}

static void two_sides_come_together_again(void)
{
    for (uint32_t seed = 1; seed <= 20000; seed++)
        play(seed);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"each_pair_has_an_outcome", each_pair_has_an_outcome},
        {"no_state_is_a_trap", no_state_is_a_trap},
        {"a_change_is_said_anew", a_change_is_said_anew},
        {"a_path_that_failed_is_out", a_path_that_failed_is_out},
        {"words_agree_where_a_path_is_left", words_agree_where_a_path_is_left},
        {"two_sides_come_together_again", two_sides_come_together_again},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
